"""The decoder itself, as a deep linear-attention toy: any plan computes the polynomial that theory.toy.deep says."""

from collections import defaultdict
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from icl.models.decoder import Decoder
from icl.testing import check_identity, plans
from theory.plans.architecture import Architecture, Vectors
from theory.plans.depth import Residual
from theory.plans.mix import Learned
from theory.plans.names import resolve
from theory.plans.plan import NOTHING, Shape, built
from theory.toy import deep

NAMES = ["vanilla", "resformer", "resformer-learned", "resformer-all", "svformer", "skipv1", "skipv2", "skipv0"]
NAMES += ["cla", "yoco", "cross-layer", "resformer-previous", "skipkv1", "shared-keys", "residual-queries"]


class DeepToy:
    """A plan's decoder of width 2d whose projections are numbers on the x slot (q, k) or the y slot (v, output)."""

    def __init__(self, plan, d, n, seed):
        shape = plan.shape
        self.d, self.plan = d, plan
        sizes = Architecture(
            d_model=2 * d,
            n_layers=shape.layers,
            n_heads=shape.heads,
            d_ff=0,
            context=n + 1,
            stem=Vectors(2 * d, read_in=False),
            head_dim=2 * d,
        )
        toy = replace(sizes, norm="none", positions="none", mask="context", score="linear")
        self.model = Decoder(toy, plan, seed=0).double()
        generator = torch.Generator().manual_seed(seed)
        numbers = torch.rand(4, shape.layers + 1, shape.heads + 1, generator=generator, dtype=torch.float64) - 0.5
        self.numbers = dict(zip(("q", "k", "v", "o"), 2 * numbers, strict=True))
        eye, zero = torch.eye(d, dtype=torch.float64), torch.zeros(d, d, dtype=torch.float64)
        x_slot, y_slot = torch.block_diag(eye, zero), torch.block_diag(zero, eye)
        state = self.model.state_dict()
        for kind, name, slot in (("q", "query", x_slot), ("k", "key", x_slot), ("v", "value", y_slot)):
            for (found, n_layer), heads in built(plan).items():
                if found == kind:
                    rows = torch.cat([self.numbers[kind][n_layer, h] * slot for h in heads])
                    state[f"layers.{n_layer - 1}.attention.projections.{name}.weight"] = rows
        for n_layer in range(1, shape.layers + 1):
            columns = torch.cat([self.numbers["o"][n_layer, h] * y_slot for h in plan.live(n_layer)], dim=1)
            state[f"layers.{n_layer - 1}.attention.output.weight"] = columns
        self.model.load_state_dict(state)
        self.learned = {name: float(value) for name, value in state.items() if name.startswith("learned.")}

    def weight(self, term):
        number = self.learned[f"learned.w_{term.weight.name}"] if isinstance(term.weight, Learned) else term.weight
        return number * float(self.numbers[term.source.kind][term.source.layer, term.source.head])

    def steps(self):
        """beta_lm of theory.toy.deep: minus the sum of w O V c over the heads that take values of layer m."""
        for n, row in enumerate(self.plan.table, 1):
            betas = defaultdict(float)
            for h in self.plan.live(n):
                head = row[h - 1]
                query = sum(map(self.weight, head.query.terms))
                for keys, values in zip(head.keys, head.values, strict=True):
                    seen = query * sum(map(self.weight, keys.terms)) * float(self.numbers["o"][n, h])
                    for term in values.terms:
                        betas[term.source.layer] -= seen * self.weight(term)
            yield dict(betas)


def compare(plan, d, n, seed, change=lambda steps: steps):
    toy = DeepToy(plan, d, n, seed)
    steps = change(list(toy.steps()))
    assert [set(row) for row in steps] == [set(found) for found in deep.value_sources(plan)]
    return answers(toy, n, seed, deep.residual_polynomial(steps))


def answers(toy, n, seed, residual, x_scale=1.0):
    """The toy's last token on two prompts: minus S_yx q(S_xx) x, for the residual r = r(0) - s q, and x."""
    d, layers, heads = toy.d, toy.plan.shape.layers, toy.plan.shape.heads
    generator = torch.Generator().manual_seed(seed + 1)
    x, y = (torch.randn(2, d, n, generator=generator, dtype=torch.float64) / (d * n) ** 0.5 for _ in "xy")
    query = torch.randn(2, d, generator=generator, dtype=torch.float64)
    last = torch.cat([query, torch.zeros_like(query)], dim=-1)
    with torch.no_grad():
        out = toy.model(torch.cat([torch.cat([x, y], dim=1).mT, last[:, None]], dim=1))[:, -1]
    expected, power = torch.zeros_like(query), query[..., None]
    for coefficient in residual[1:]:
        expected = expected - coefficient * (y @ x.mT @ power)[..., 0]
        power = x @ (x.mT @ power)
    scale = float(out.norm()) + sum(abs(c) for c in residual) * float(query.norm())
    check_identity(-out[:, d:], expected, terms=(n + 1) * layers * heads, scale=scale)
    check_identity(out[:, :d], x_scale * query, terms=layers)
    return float(expected.norm())


def lowered(residual, beta):
    """(1 - beta s) r."""
    return [a - beta * b for a, b in zip([*residual, 0.0], [0.0, *residual], strict=True)]


def added(weights, polynomials):
    """sum w r over polynomials of any length."""
    longest = max(map(len, polynomials))
    return [sum(w * p[i] for w, p in zip(weights, polynomials, strict=True) if i < len(p)) for i in range(longest)]


@pytest.mark.parametrize("name", NAMES)
def test_named_plans(name):
    for layers in (1, 2, 4) if name != "skipv2" else (2, 4):
        assert compare(resolve(name, Shape(layers, 2)), 3, 5, seed=layers) > 1e-3


@given(plans(depths=[Residual()]), st.integers(1, 3), st.integers(1, 5), st.integers(0, 999))
@pytest.mark.long
def test_any_plan(chosen, d, n, seed):
    bare = replace(chosen, table=tuple(tuple(replace(head, beside=NOTHING) for head in row) for row in chosen.table))
    compare(bare, d, n, seed)


def test_own_values_alone_are_not_resformer_s():
    def own(steps):
        return [{m: beta * (m == layer) for m, beta in row.items()} for layer, row in enumerate(steps, 1)]

    with pytest.raises(AssertionError, match="differ by"):
        compare(resolve("resformer", Shape(3, 2)), 2, 4, seed=0, change=own)


def test_denseformer_adds_layer_1_s_stream_again():
    """r_l is the average of what the layers made of r_{l-1}; x is scaled by the same averages."""
    layers, d, n = 3, 2, 4
    toy = DeepToy(resolve("denseformer", Shape(layers, 2)), d, n, seed=0)
    generator = torch.Generator().manual_seed(5)
    made, scales, stream, scale = [[1.0]], [1.0], [1.0], 1.0
    for layer, row in enumerate(toy.steps(), 1):
        made.append(lowered(stream, row[layer] * scale**2))
        scales.append(scale)
        average = torch.rand(layer + 1, generator=generator, dtype=torch.float64) + 0.2
        toy.model.depth.weights[layer - 1].data.copy_(average)
        stream = added(average.tolist(), made)
        scale = sum(a * x for a, x in zip(average.tolist(), scales, strict=True))
    assert answers(toy, n, 0, stream, x_scale=scale) > 1e-3


def test_neutreno_adds_layer_1_s_stream_again():
    layers, d, n, weight = 3, 2, 4, 0.4
    toy = DeepToy(resolve("neutreno", Shape(layers, 2)), d, n, seed=0)
    stream = [1.0]
    for layer, row in enumerate(toy.steps(), 1):
        first, own = (
            sum(float(toy.numbers["o"][layer, h]) * weight * float(toy.numbers["v"][m, h]) for h in (1, 2))
            for m in (1, layer)
        )
        stream = added([1.0, first, -own], [lowered(stream, row[layer]), [1.0], stream])
    assert answers(toy, n, 0, stream) > 1e-3
