"""Windows by layer, gates, scales, residual maps and parallel layers against what their papers write, in float64.

Function, gradients and the set of weights are compared (`icl.testing`), counts, and decoding from a cache.
"""

from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from icl.models.cache import Cache, step
from icl.models.decoder import Decoder
from icl.probes.attention import importance, value_norms
from icl.probes.cross_layer import nearness
from icl.probes.recording import observed
from icl.published.layouts import vocabulary
from icl.testing import check_identity, check_variant, generic
from tests.icl.models import reference_variants  # noqa: F401 - registers the references
from theory.plans.accounting import cache, flops, parameters, total_parameters
from theory.plans.architecture import Architecture, Latent, Patches, Tokens, Vectors, misfits
from theory.plans.names import BadName, model, resolve
from theory.plans.plan import NOTHING, plan, v
from theory.plans.rooms import cache_bytes
from theory.plans.sharding import sublayer_parameters

# Every part of an architecture, and one that leaves its mechanism out: the control.
PARTS = {
    "windows": ({"windows": (2, 0, 1)}, {"windows": (2, 0, 0)}),
    "nope": ({"rotated": (True, False), "positions": "rope", "head_dim": 4}, {"rotated": ()}),
    "gated-heads": ({"output_gate": "head"}, {"output_gate": "no"}),
    "gated-outputs": ({"output_gate": "element"}, {"output_gate": "no"}),
    "rezero": ({"output_scale": "number"}, {"output_scale": "no"}),
    "layer-scale": ({"output_scale": "vector", "scale_start": 0.1}, {"output_scale": "no"}),
    "laurel": ({"residual_rank": 2}, {"residual_rank": 0}),
    "parallel": ({"parallel": True}, {"parallel": False}),
    "differential": ({"differential": True}, {"differential": False}),
}
ALL = {
    "windows": (2, 0),
    "differential": True,
    "output_gate": "element",
    "output_scale": "vector",
    "residual_rank": 1,
    "parallel": True,
}
PLAIN = Architecture(
    d_model=12, n_layers=3, n_heads=4, d_ff=10, context=9, stem=Tokens(7), n_kv_heads=2, head_dim=4, norm_eps=0.1
)
EVERY = {name: fields for name, (fields, _) in PARTS.items()} | {"all": ALL}


@pytest.mark.parametrize("name", EVERY)
def test_a_part_is_what_its_paper_writes(name):
    pairs = {"least_heads": 2, "even": True} if "differential" in EVERY[name] else {}
    check_variant("vanilla", examples=5, least_layers=2, **pairs, **EVERY[name])


@pytest.mark.parametrize("variant", ["skipv1", "value-embeddings", "shifted-values", "attnres", "gemma-sharing"])
def test_all_parts_under_a_variant(variant):
    fields = {**ALL, "parallel": False}
    check_variant(variant, examples=3, least_layers=2, least_heads=2, even=True, stems=("tokens",), **fields)


@pytest.mark.parametrize("name", PARTS)
def test_a_model_without_the_part_is_another_function(name):
    """The control: the same weights, as far as both have them, and another output."""
    fields, without = PARTS[name]
    config, other = replace(PLAIN, **fields), replace(PLAIN, **without)
    whole = generic(config, plan(config.shape), 1)
    bare = generic(other, plan(other.shape), 1)
    bare.load_state_dict(whole.state_dict(), strict=False)
    tokens = torch.arange(8)[None] % 7
    with torch.no_grad():
        assert float((whole(tokens) - bare(tokens)).abs().max()) > 1e-3


@pytest.mark.parametrize("name", EVERY)
def test_counts_are_those_of_the_model(name):
    config = replace(PLAIN, **EVERY[name])
    for variant in ("vanilla", "svformer", "value-embeddings"):
        chosen = resolve(variant, config.shape)
        built = Decoder(config, chosen, device="meta")
        assert sum(p.numel() for p in built.parameters()) == total_parameters(config, chosen)
        own = [sum(p.numel() for p in sublayer.parameters()) for sublayer in built.weight_groups]
        assert own == sublayer_parameters(config, chosen)


def test_counts_of_parts():
    counts = parameters(replace(PLAIN, **{**ALL, "parallel": False}), plan(PLAIN.shape))
    assert counts["gates"] == 3 * 12 * 16
    assert counts["scales"] == 6 * 12
    assert counts["residual_maps"] == 6 * 2 * 12
    assert counts["differences"] == 3 * 6 * 4
    assert parameters(replace(PLAIN, parallel=True), plan(PLAIN.shape))["norms"] == (3 + 1) * 12
    vanilla = plan(PLAIN.shape)
    for fields, added in (({"output_gate": "head"}, 3 * 12 * 4), ({"residual_rank": 5}, 6 * 2 * 5 * 12)):
        assert flops(replace(PLAIN, **fields), vanilla, 9) - flops(PLAIN, vanilla, 9) == 2 * added
    pairs = flops(replace(PLAIN, differential=True), vanilla, 9) - flops(PLAIN, vanilla, 9)
    assert pairs == 3 * 9 * 2 * 4 * 4  # of every layer, token and head, one more weighted value
    windows = replace(PLAIN, windows=(2, 0, 5))
    per_token = (flops(PLAIN, vanilla, 9) - flops(PLAIN, vanilla, 8)) // 3
    assert flops(PLAIN, vanilla, 9) - flops(windows, vanilla, 9) == per_token * (7 + 0 + 4)
    assert cache(windows, vanilla) == cache(PLAIN, vanilla)


@pytest.mark.parametrize("name", EVERY)
@settings(max_examples=4)
@given(st.data())
def test_decoding_from_a_cache_gives_the_same(name, data):
    config = replace(PLAIN, context=24, **EVERY[name])
    variants = ["vanilla", "value-embeddings", "shifted-values", "gemma-sharing"]
    variant = data.draw(st.sampled_from([x for x in variants if not misfits(config, resolve(x, config.shape))]))
    built = generic(config, resolve(variant, config.shape), 3)
    tokens = torch.randint(7, (2, 20), generator=torch.Generator().manual_seed(4))
    cuts = sorted(data.draw(st.sets(st.integers(1, 19), max_size=6)) | {0, 20})
    kept = Cache(built, 2, 20)
    with torch.no_grad():
        parts = [step(built, tokens[:, a:b], kept) for a, b in pairwise(cuts)]
        check_identity(torch.cat(parts, dim=1), built(tokens), terms=100)


@pytest.mark.parametrize(
    ("name", "windows", "rooms"),
    [
        ("vanilla", (3, 5), {"k1": 6, "v1": 6, "k2": 8, "v2": 8, "k3": 6, "v3": 6}),
        ("vanilla", (3, 0), {"k1": 6, "v1": 6, "k2": 90, "v2": 90, "k3": 6, "v3": 6}),
        ("shifted-values", (3, 5), {"k1": 7, "v1": 7, "k2": 9, "v2": 9, "k3": 7, "v3": 7}),
        ("svformer", (3, 5), {"k1": 6, "v1": 8, "k2": 8, "k3": 6}),  # layer 2 attends over layer 1's values
        ("value-embeddings", (3, 0), {"k1": 6, "v1": 6, "k2": 90, "v2": 90, "k3": 6, "v3": 6, "tokens": 6}),
    ],
)
def test_each_layer_has_the_room_that_its_window_needs(name, windows, rooms):
    config = replace(PLAIN, context=100, windows=windows)
    chosen = resolve(name, PLAIN.shape)
    kept = Cache(Decoder(config, chosen).double(), 2, 90)
    assert {entry: x.shape[2] for entry, x in kept.entries.items()} == rooms
    assert kept.bytes == 2 * cache_bytes(config, chosen, 90, number=8)


@pytest.mark.parametrize(
    "name", ["vanilla", "svformer", "value-embeddings", "gated-value-embeddings", "shifted-values"]
)
@pytest.mark.parametrize("windows", [(3, 5), (2, 0, 4), (1, 0)])
def test_decoding_under_windows_goes_on_as_before(name, windows):
    """In pieces of many sizes, longer than the rooms, with and without other sequences of other lengths."""
    config = replace(PLAIN, context=40, windows=windows)
    built = generic(config, resolve(name, PLAIN.shape), 3)
    tokens = torch.randint(7, (3, 40), generator=torch.Generator().manual_seed(4))
    kept = Cache(built, 3, 40)
    with torch.no_grad():
        parts = [step(built, tokens[:, a:b], kept) for a, b in pairwise([0, 11, 12, 13, 17, 30, *range(31, 41)])]
        check_identity(torch.cat(parts, dim=1), built(tokens), terms=100)
    real = torch.ones(3, 40, dtype=torch.bool)
    real[1, 3:19] = real[2, :25] = False
    kept = Cache(built, 3, 40)
    with torch.no_grad():
        cuts = [0, 1, 14, 15, 16, 31, *range(32, 41)]
        parts = [step(built, tokens[:, a:b], kept, real[:, a:b]) for a, b in pairwise(cuts)]
        found = torch.cat(parts, dim=1)
        for row in range(3):
            own = tokens[row : row + 1, real[row]]
            check_identity(found[row : row + 1, real[row]], built(own), terms=100)


def test_starts():
    """ReZero begins at the embedding alone, LAuReL at the model without its maps."""
    vanilla, tokens = plan(PLAIN.shape), torch.arange(8)[None] % 7
    with torch.no_grad():
        rezero = Decoder(replace(PLAIN, output_scale="number"), vanilla)
        x = rezero.stem.embed(tokens)
        torch.testing.assert_close(rezero(tokens), rezero.stem.answer(rezero.norm(x)))
        assert torch.equal(Decoder(replace(PLAIN, residual_rank=2), vanilla)(tokens), Decoder(PLAIN, vanilla)(tokens))


@pytest.mark.parametrize("name", ["gated-outputs", "layer-scale", "laurel", "parallel", "windows", "differential"])
def test_bf16_is_near(name):
    built = generic(replace(PLAIN, **EVERY[name]), plan(PLAIN.shape), 5)
    tokens = torch.arange(8)[None] % 7
    with torch.no_grad():
        exact = built(tokens)
        near = built.bfloat16()(tokens).double()
    assert float((exact - near).norm() / exact.norm()) < 0.1  # some twenty roundings to eight bits


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"windows": (2, -1)}, "windows by layer must be whole numbers from 0"),
        ({"windows": (2,), "window": 3}, "a window is the same in all layers, or given by layer"),
        ({"windows": (2,), "mask": "none"}, "the mask must be causal"),
        ({"rotated": (1,)}, "must be true or false, layer by layer"),
        ({"rotated": (True,), "positions": "none"}, "only rotary positions, without a latent"),
        ({"rotated": (True,), "latent": Latent(8, 2), "n_kv_heads": 0}, "only rotary positions, without a latent"),
        ({"scale_start": 0.5}, "there is none to begin at 0.5"),
        ({"residual_rank": -1}, "residual_rank must not be negative"),
        ({"differential": True, "n_kv_heads": 1}, "heads go in pairs, and there are 1 key/value heads"),
        ({"differential": True, "latent": Latent(8, 2), "n_kv_heads": 0}, "a latent serves all heads"),
        ({"differential": True, "copy_rank": 1}, "does not have pairs of heads"),
        ({"output_gate": "some"}, "output_gate must be one of no, head, element"),
        ({"output_gate": "head", "latent": Latent(8, 2), "n_kv_heads": 0}, "not for a latent"),
        ({"parallel": True, "copy_rank": 1}, "does not have a feed-forward beside its attention"),
    ],
)
def test_parts_without_meaning(fields, says):
    with pytest.raises(ValueError, match=says):
        replace(PLAIN, **fields)


@pytest.mark.parametrize("stem", [Vectors(3), Patches(4, 2, 1, 3)])
def test_tables_need_tokens(stem):
    config = replace(PLAIN, stem=stem, mask="none", context=5 if isinstance(stem, Patches) else 9)
    with pytest.raises(BadName, match="a table has a row for every token of a vocabulary, and this model reads none"):
        model(config, "value-embeddings")


def test_options_that_leave_no_part():
    with pytest.raises(BadName, match="laurel: rank must be a whole number from 1, got 0"):
        model(PLAIN, "laurel:rank=0")
    with pytest.raises(BadName, match=r"windows: pattern must be whole numbers in brackets, got '\(\)'"):
        model(PLAIN, "windows:pattern=()")
    with pytest.raises(BadName, match="nope: every must be a whole number from 1, got 0"):
        model(PLAIN, "nope:every=0")


@pytest.mark.parametrize(("variant", "fits"), [("skipv1", True), ("yoco", False), ("cla", False)])
def test_queries_and_keys_of_layers_that_are_turned_and_are_not_do_not_meet(variant, fits):
    config = replace(PLAIN, rotated=(True, False))
    found = misfits(config, resolve(variant, config.shape))
    assert found == [] if fits else "positions turn those of some alone" in found[0]
    assert misfits(replace(PLAIN, rotated=(True, True)), resolve(variant, config.shape)) == []


def test_pairs_of_heads_need_every_head_as_it_is():
    for variant, says in (("dva-attention", "go with no dynamic values"), ("skipv1", "")):
        config = replace(PLAIN, differential=True)
        found = misfits(config, resolve(variant, config.shape))
        assert (says in found[0]) if says else found == []
    one = plan(PLAIN.shape, values=lambda n, h: v(n, h) if h == 1 else NOTHING)
    assert "pairs of heads need every head" in misfits(replace(PLAIN, differential=True), one)


def test_pairs_of_heads_start_at_the_papers_weight():
    """lambda_init of layers 1 to 3, and heads that attend over their neighbours' values too."""
    starts = [PLAIN.difference_start(n) for n in (1, 2, 3)]
    assert starts == pytest.approx([0.2, 0.8 - 0.6 * 0.7408182, 0.8 - 0.6 * 0.5488116])
    built = Decoder(replace(PLAIN, differential=True), plan(PLAIN.shape))
    pair = built.attentions[1].difference
    assert float(pair.weight().detach()) == pytest.approx(starts[1], abs=0.3)
    assert 0.01 < float(pair.first_query.detach().std()) < 0.3
    assert torch.equal(pair.norm.weight, torch.ones(8))


def test_probes_see_every_head_of_a_pair_attend():
    config = replace(PLAIN, differential=True)
    built, tokens = generic(config, plan(config.shape), 1), torch.arange(8)[None] % 7

    def see(at):
        (values,) = at.values
        assert values.shape == (1, 1, 8, 2 * config.width)
        check_identity(at.weights() @ values, at.out, terms=10)
        assert value_norms(at.values).shape == (1, 8)
        check_identity(value_norms(at.values), value_norms((at.own_values,)), terms=10)
        return importance(at)

    with torch.no_grad():
        found = observed(built, tokens, attention=see).attention
    assert [shares.shape for shares in found.values()] == [(1, 4, 8)] * 3
    assert nearness(built, tokens.expand(2, -1))["first"]["current"]
    assert vocabulary(config) is None  # no published layout holds pairs
    assert vocabulary(PLAIN) == PLAIN.stem


def test_parts_by_name():
    names = "windows:pattern=(4,0)+differential+gated-heads+layer-scale:start=0.01+laurel:rank=2+parallel"
    config, _ = model(PLAIN, names)
    assert config == replace(
        PLAIN,
        windows=(4, 0),
        differential=True,
        output_gate="head",
        output_scale="vector",
        scale_start=0.01,
        residual_rank=2,
        parallel=True,
    )
