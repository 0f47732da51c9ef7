"""What the recorder shows is what the model does: attention's outputs again, from its weights, for every variant."""

import weakref

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from icl.models.decoder import Decoder
from icl.probes import recording
from icl.probes.recording import observed
from icl.testing import check_identity, plans
from tests.icl.probes.models import config_of, latent_of, model_of, tokens
from theory.plans.architecture import misfits
from theory.plans.names import model as named
from theory.plans.presets import toy
from theory.plans.variants import VARIANTS

SOFTMAX_SUMS = 1e-12  # of a row of a few dozen shares, in float64


def recomputed(at):
    """The heads' outputs, from weights that are put together again from blocks of queries."""
    weights = torch.cat([block for _, block in at.blocks()], dim=2)
    group = at.query.shape[1] // at.values[0].shape[1]
    value = torch.cat(at.values, dim=2).repeat_interleave(group, dim=1)
    if at.dynamic in ("no", "gate"):
        return weights @ value * (1 + sum(at.gates))
    query_gate, key_gate = at.gates[0], at.gates[1].repeat_interleave(group, dim=1)
    if at.dynamic == "initial":
        return torch.einsum("bhij,bhjc,bhic,bhjd->bhid", weights, value, query_gate, key_gate)
    return weights @ value + query_gate * (weights @ key_gate)


def check(model, inputs):
    """Every layer's outputs are recomputed from what was shown, and rows of weights are shares of what is visible."""

    def seen(at):
        check_identity(recomputed(at), at.out, terms=100 * model.config.d_model, scale=max(1.0, float(at.out.norm())))
        weights = at.weights()
        assert weights.shape[-1] == len(at.keys) * at.tokens
        if not at.linear:
            assert float((weights.sum(-1) - 1).abs().max()) < SOFTMAX_SUMS
            hidden = ~at.visible.repeat(1, len(at.keys)).expand_as(weights) if at.visible is not None else None
            assert hidden is None or float(weights[hidden].abs().sum()) == 0
        return at.layer

    found = observed(model, inputs, attention=seen).attention
    assert found == {n: n for n in range(1, model.config.n_layers + 1)}


KINDS = [(1, "rope"), (2, "learned"), (2, "bias")]


@pytest.mark.parametrize(
    ("variant", "group", "positions"), [(name, *KINDS[i % 3]) for i, name in enumerate(sorted(VARIANTS))]
)
def test_every_variant(variant, group, positions, monkeypatch):
    """In blocks of a query or two at a time.  `test_any_plan` draws plans and groups."""
    monkeypatch.setattr(recording, "BLOCK", 100)
    config = config_of(layers=4, heads=2, group=group, positions=positions)
    check(model_of(config, variant, scale=0.3), tokens())


@pytest.mark.parametrize("variant", ["vanilla", "skipv1", "resformer", "svformer", "cross-layer", "attnres"])
def test_latents(variant):
    check(model_of(latent_of(config_of(layers=3, heads=4)), variant, scale=0.3), tokens())


@pytest.mark.parametrize("changes", [{"mask": "none"}, {"mask": "context"}, {"score": "linear"}, {"qkv_bias": True}])
@pytest.mark.parametrize("positions", ["none", "bias"])
def test_masks_scores_and_biases(changes, positions):
    check(model_of(config_of(layers=3, positions=positions, **changes), "cross-layer", scale=0.3), tokens())


@settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large], deadline=None)
@given(plans(), st.integers(1, 2))
@pytest.mark.long
def test_any_plan(plan, group):
    config = config_of(plan.shape.layers, plan.shape.heads, group, 10, head_dim=5)
    assert misfits(config, plan) == []
    check(model_of(config, plan, scale=0.3), tokens())


@pytest.mark.parametrize("score", ["softmax", "linear"])
def test_biases_of_positions_beside_padding(score):
    model = model_of(config_of(layers=2, positions="bias", score=score), "cross-layer", scale=0.3)
    real = torch.tensor([[True] * 6, [False, False, True, True, True, True], [True] * 5 + [False]])
    shown = []
    with torch.no_grad(), recording.attending(model, shown.append):
        model(tokens(), real)
    assert [at.bias.shape for at in shown] == [(3, 2, 6, 6)] * 2
    for at in shown:
        check_identity(recomputed(at), at.out, terms=1600, scale=max(1.0, float(at.out.norm())))


def test_states_are_what_layers_are_given_and_an_assumed_copy_attends_to_nothing():
    config = toy(3, 2, copy_rank=1)
    model = Decoder(config, named(config)[1]).double()
    inputs = torch.randn(2, 5, 3, generator=torch.Generator().manual_seed(0)).double()
    found = observed(model, inputs, attention=lambda at: at.layer, state=lambda x: x)
    assert found.attention == {2: 2}
    assert len(found.states) == 3
    assert torch.equal(found.states[0], inputs)
    assert torch.equal(model.stem.answer(model.norm(found.states[-1])), model(inputs))


def test_own_values_are_those_of_the_layer_s_projection():
    """ResFormer: half of them, half of layer 1's; SVFormer has none after layer 1."""
    at = observed(model_of(config_of(layers=3), "resformer"), tokens(), attention=lambda at: at).attention
    check_identity(at[3].values[0], (at[3].own_values + at[1].own_values) / 2)
    at = observed(model_of(config_of(layers=3), "svformer"), tokens(), attention=lambda at: at).attention
    assert at[3].own_values is None
    assert torch.equal(at[3].values[0], at[1].own_values)


@pytest.mark.parametrize("limit", [1, 80, 10**6])
def test_no_more_weights_are_held_than_was_said(limit, monkeypatch):
    """Unless one query has more; blocks are in order and leave no query out."""
    monkeypatch.setattr(recording, "BLOCK", limit)

    def sizes(at):
        one = at.weights(slice(0, 1)).numel()
        blocks = list(at.blocks())
        assert [q for queries, _ in blocks for q in range(at.tokens)[queries]] == list(range(at.tokens))
        assert all(weights.numel() <= max(limit, one) for _, weights in blocks)
        return len(blocks)

    found = observed(model_of(config_of(layers=2), "cross-layer"), tokens(), attention=sizes).attention
    assert found == {1: {1: 6, 2: 6}, 80: {1: 3, 2: 6}, 10**6: {1: 1, 2: 1}}[limit]  # of 36 and 72 weights a query


def test_weights_are_float32_or_better():
    model = model_of(config_of()).bfloat16()
    dtypes = observed(model, tokens(), attention=lambda at: (at.out.dtype, at.weights().dtype)).attention
    assert dtypes == {1: (torch.bfloat16, torch.float32), 2: (torch.bfloat16, torch.float32)}


def test_nothing_is_kept_and_the_model_is_as_before():
    """No hook stays, also after an error; nothing that is shown survives its layer."""
    model = model_of(config_of(layers=3))
    before = model(tokens())
    alive = []

    def watch(at):
        assert all(reference() is None for reference in alive)
        alive.extend(weakref.ref(shown) for shown in (at, at.query, at.values[0], at.own_values, at.out))

    observed(model, tokens(), attention=watch)
    with pytest.raises(ZeroDivisionError):
        observed(model, tokens(), attention=lambda at: 1 / 0)
    assert len(alive) == 15
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())
    assert torch.equal(model(tokens()), before)
