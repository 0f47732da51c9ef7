"""Refits of output projections: exact where the map exists, never worse on what they saw, whatever the batches."""

from dataclasses import replace

import pytest
import torch

from icl.conversion import convert
from icl.models.decoder import Decoder
from icl.refitting import EVERY, RIDGES, Moments, Walk, converted_heads, refitted
from icl.testing import check_identity
from tests.icl.models.small import ARCHITECTURES, GPT2, LLAMA, some_input
from tests.icl.test_conversion import read_from_layer_1, trained
from theory.errors import BadInput
from theory.plans.names import resolve
from theory.plans.plan import NOTHING, plan, v

KINDS = {"llama": LLAMA, "gpt2": GPT2, "grouped": ARCHITECTURES["grouped"], "windowed": ARCHITECTURES["windowed"]}
KINDS["parallel"] = replace(LLAMA, parallel=True)


def sequences(config, count=24, length=11):
    return some_input(config, batch=count, length=length)


def outputs(model, inputs, layer):
    """What a layer's output projection gives, and what it reads, (tokens, ...)."""
    walk = Walk(model, (inputs,))
    with torch.no_grad():
        for before in range(1, layer):
            walk.go(before)
        read = walk.read(layer, 0)
        return walk.output(layer, 0).flatten(0, 1), read.flatten(0, 1)


@pytest.mark.parametrize("kind", KINDS)
def test_what_can_be_read_from_other_heads_is(kind):
    """Head 2 of layer 2 is head 1 twice: without it the model is the same function, once what reads it is refitted."""
    config = replace(KINDS[kind], n_layers=2)
    model = trained(config)
    group = config.group
    attention = model.layers[1]["attention"]
    with torch.no_grad():
        for name, times in (("query", group), ("key", 1), ("value", 1)):
            linear = attention.projections.get_submodule(name)
            for parameter in linear.parameters():
                rows = parameter.unflatten(0, (-1, linear.width * times))
                rows[1] = rows[0]
    chosen = plan(config.shape, values=lambda n, h: NOTHING if (n, h) == (2, 2) else v(n, h))
    tokens = sequences(config)
    found, refits = refitted(model, chosen, tokens)
    assert [one.layer for one in refits] == [2]
    assert refits[0].fitted < 1e-12 < 1e-3 < refits[0].raw
    check_identity(found(tokens), model(tokens), terms=10**6)
    with pytest.raises(AssertionError):
        check_identity(convert(model, chosen, "first")(tokens), model(tokens), terms=10**6)


def test_values_that_are_a_map_of_layer_1_s_are_read_from_them():
    """Where layer 1 adds nothing to the stream, layer 2's values are linear maps of layer 1's."""
    config = replace(LLAMA, n_layers=2, norm="rms")
    model = read_from_layer_1(trained(config))
    tokens = sequences(config, count=40)
    found, refits = refitted(model, "skipv1", tokens)
    assert refits[0].fitted < 1e-12
    check_identity(found(tokens), model(tokens), terms=10**6)
    raw = convert(model, "skipv1", "first")
    assert (raw(tokens) - model(tokens)).norm() > 0.01 * model(tokens).norm()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("variant", ["skipv1", "skipv0", "svformer", "resformer"])
def test_it_is_never_worse_than_the_raw_swap_and_than_leaving_the_heads_out(kind, variant):
    """On the moments that it was made from, layer by layer; checked against the outputs themselves."""
    config = KINDS[kind]
    model, tokens = trained(config), sequences(config)
    found, refits = refitted(model, variant, tokens)
    assert [one.layer for one in refits] == [2, 3] or variant == "resformer"
    for one in refits:
        assert one.ridge in RIDGES
        assert one.fitted <= min(one.raw, one.left_out) * (1 + 1e-9)
    last = refits[-1]
    target, _ = outputs(model, tokens, last.layer)
    given, read = outputs(found, tokens, last.layer)
    error = (target - given).square().sum() / target.square().sum()
    assert last.fitted == pytest.approx(float(error), rel=1e-6, abs=1e-12)
    rows = torch.cat([read, torch.ones_like(read[:, :1])], dim=1) if config.bias else read
    least = target - rows @ torch.linalg.lstsq(rows, target, driver="gelsd").solution
    assert float(error) >= float(least.square().sum() / target.square().sum()) * (1 - 1e-6)


def test_it_does_not_depend_on_how_many_sequences_are_read_at_a_time():
    model, tokens = trained(LLAMA), sequences(LLAMA)
    whole, one = refitted(model, "skipv1", tokens, at_a_time=24)
    found, other = refitted(model, "skipv1", tokens, at_a_time=5)
    for a, b in zip(one, other, strict=True):
        assert (a.layer, a.ridge) == (b.layer, b.ridge)
        assert a.fitted == pytest.approx(b.fitted, rel=1e-6)
    for (name, p), q in zip(whole.named_parameters(), found.parameters(), strict=True):
        assert torch.allclose(p, q, rtol=1e-7, atol=1e-9), name
    other_text, _ = refitted(model, "skipv1", tokens.flip(1))
    assert not torch.allclose(other_text.layers[1]["attention"].output.weight, p_of(whole), rtol=1e-3)


def p_of(model):
    return model.layers[1]["attention"].output.weight


def test_only_output_projections_change_and_the_trained_model_does_not():
    model, tokens = trained(GPT2), sequences(GPT2)
    before = {name: p.clone() for name, p in model.named_parameters()}
    found, _ = refitted(model, "skipv1", tokens, shared=True)
    raw = dict(convert(model, "skipv1", "first").named_parameters())
    changed = {name for name, p in found.named_parameters() if not torch.equal(p, raw[name])}
    assert changed == {f"layers.{n}.attention.output.{what}" for n in (1, 2) for what in ("weight", "bias")}
    assert all(torch.equal(before[name], p) for name, p in model.named_parameters())
    own = {p.data_ptr() for p in model.parameters()}
    together = [name for name, p in found.named_parameters() if p.data_ptr() in own]
    assert {name for name, _ in found.named_parameters()} - set(together) >= changed
    assert {f"layers.{n}.attention.projections.query.weight" for n in (0, 1, 2)} < set(together)
    assert not any(".attention.projections.value" in name for name in together if not name.startswith("layers.0."))
    apart = convert(model, "skipv1")
    assert not own & {p.data_ptr() for p in apart.parameters()}


def test_what_begins_as_the_same_function_is_left_as_it_is():
    model, tokens = trained(LLAMA), sequences(LLAMA)
    found, refits = refitted(model, "resformer-learned", tokens)
    assert all(one.fitted == one.raw < 1e-12 for one in refits)
    assert torch.equal(found(tokens), convert(model, "resformer-learned")(tokens))


def test_the_ridge_is_chosen_on_other_sequences():
    """Of few tokens and many numbers, where no ridge fits noise, one above 0 is chosen; of many tokens a small one."""
    model = trained(LLAMA)
    few, many = (refitted(model, "skipv1", some_input(LLAMA, batch=count, length=6))[1] for count in (EVERY, 200))
    assert max(one.ridge for one in few) > max(one.ridge for one in many)
    assert all(one.fitted <= one.raw for one in few)


def test_moments_are_least_squares():
    generator = torch.Generator().manual_seed(0)
    z = torch.randn(50, 7, generator=generator, dtype=torch.float64)
    y = torch.randn(50, 3, generator=generator, dtype=torch.float64)
    moments, halves = Moments(), (Moments(), Moments())
    moments.add(z, y)
    for half, rows in zip(halves, (slice(0, 20), slice(20, 50)), strict=True):
        half.add(z[rows], y[rows])
    both = halves[0] + halves[1]
    prior = torch.randn(3, 7, generator=generator, dtype=torch.float64)
    weight, drawn = moments.best(prior, (0.0, 0.5))
    expected = torch.linalg.lstsq(z, y).solution.mT
    check_identity(weight, expected, terms=10**4)
    check_identity(next(both.best(prior, (0.0,))), expected, terms=10**4)
    ridge = 0.5 * z.square().sum() / 7
    own = (y.mT @ z + ridge * prior) @ torch.linalg.inv(z.mT @ z + ridge * torch.eye(7, dtype=torch.float64))
    check_identity(drawn, own, terms=10**4)
    error = (y - z @ weight.mT).square().sum() / y.square().sum()
    assert moments.error(weight) == pytest.approx(float(error), rel=1e-10)
    assert moments.error(drawn) > moments.error(weight)


def test_directions_that_do_not_vary_keep_the_prior():
    z = torch.randn(50, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    z = torch.cat([z, torch.zeros(50, 1, dtype=torch.float64)], dim=1)
    moments, prior = Moments(), torch.full((2, 4), 5.0, dtype=torch.float64)
    moments.add(z, z[:, :2].clone())
    (weight,) = moments.best(prior, (0.0,))
    expected = torch.tensor([[1.0, 0, 0, 5], [0, 1, 0, 5]], dtype=torch.float64)
    check_identity(weight, expected, terms=10**4)


@pytest.mark.parametrize(
    ("config", "variant", "says"),
    [
        (ARCHITECTURES["latent"], "skipv1", "a latent is read by"),
        (LLAMA, "attnres", "change what heads attend over, and nothing else"),
        (LLAMA, "vanilla", "no head of this plan is converted"),
        (LLAMA, "dva", "no output projection"),
    ],
)
def test_refusals(config, variant, says):
    with pytest.raises(BadInput, match=says):
        refitted(trained(config), variant, sequences(config))


def test_few_sequences_are_refused():
    with pytest.raises(BadInput, match="needs 4 sequences"):
        refitted(trained(LLAMA), "skipv1", sequences(LLAMA, count=3))


def test_converted_heads_are_those_that_differ():
    shape = LLAMA.shape
    assert [converted_heads(resolve("skipv1", shape), n) for n in (1, 2, 3)] == [[], [3, 4], [3, 4]]
    assert converted_heads(resolve("skipv0", shape), 2) == [3, 4]
    assert converted_heads(resolve("shared-keys", shape), 2) != []
    assert Decoder(LLAMA, resolve("skipv1", shape), device="meta").plan == resolve("skipv1", shape)
