"""Reads in the linear-attention toy against decoders, prompt by prompt, and their mean squares as depth grows."""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.attnres.networks import descending, reads
from theory.attnres import toy
from theory.attnres.coefficients import average_matrix, start_matrix
from theory.plans.names import resolve
from theory.plans.plan import Shape
from theory.plans.presets import toy as sizes_of
from theory.plans.setting import Setting

RULES = ["vanilla", "attnres", "attnres-block:size=2", "denseformer"]


def means(layers):
    return [[Fraction(1, n + 1)] * (n + 1) for n in range(1, layers + 1)]


def matrix_of(name, layers):
    if name == "denseformer":
        return average_matrix(means(layers), 1)
    return start_matrix(sizes_of(2, 1, heads=1, layers=layers), resolve(name, Shape(layers, 1)))


def model_of(name, n, weights):
    model = descending(resolve(name, Shape(len(weights), 1)), n, weights)
    if name == "denseformer":
        with torch.no_grad():
            for parameter, values in zip(model.depth.weights, means(len(weights)), strict=True):
                parameter.copy_(torch.tensor([float(a) for a in values], dtype=torch.float64))
    return model


def prompts(setting, count, seed):
    """Tokens (count, n + 1, 2 d)."""
    d, n, sigma = setting.floats
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape):
        return torch.randn(count, *shape, generator=generator, dtype=torch.float64)

    x = normal(n, d)
    y = x @ normal(d, d).mT + sigma * normal(n, d)
    query = torch.cat([normal(1, d), torch.zeros(count, 1, d, dtype=torch.float64)], -1)
    return torch.cat([torch.cat([x, y], -1), query], 1)


@settings(max_examples=20)
@given(st.sampled_from(RULES), st.integers(1, 3), st.integers(1, 3), st.integers(1, 3), st.integers(0, 2**16))
def test_polynomials_prompt_by_prompt(name, layers, d, n, seed):
    """Without a mean over prompts: Q at its own X^T X; U at its S_xx, over orthonormal queries."""
    steps = [Fraction(k + 1, 15) for k in range(layers)]
    eye = torch.eye(d, dtype=torch.float64)
    tokens = prompts(Setting(d, n, 1), 1, seed).repeat(d, 1, 1)
    tokens[:, -1, :d] = eye
    x, y = tokens[0, :-1, :d].numpy(), tokens[0, :-1, d:].numpy()

    def traced(left, polynomial, gram):
        powers = [np.linalg.matrix_power(gram, i) for i in range(len(polynomial))]
        return sum(float(c) * float(np.trace(left @ p @ left.T)) for c, p in zip(polynomial, powers, strict=True))

    model = model_of(name, n, torch.stack([float(b) * eye for b in steps]))
    for h, read in zip(reads(model, tokens), toy.descent_reads(matrix_of(name, layers), steps), strict=True):
        assert h[0, 0, :d].tolist() == pytest.approx((float(read.x_share) * x[0]).tolist())
        context, query = h[0, :-1, d:].square().sum(), h[:, -1, d:].square().sum()
        assert float(context) == pytest.approx(traced(y.T, read.context, x @ x.T), rel=1e-8, abs=1e-10)
        assert float(query) == pytest.approx(traced(y.T @ x, read.query, x.T @ x), rel=1e-8, abs=1e-10)


def test_a_fixed_number_of_blocks_grows_with_depth():
    """Where Full and blocks of a fixed size fall: the last read at 3, 6 and 12 layers."""
    setting = Setting(1, 2, 0)

    def last(rule, layers):
        reads_of = toy.descent_reads(matrix_of(rule, layers), [Fraction(1)] * layers)
        return float(toy.mean_squares(setting, reads_of[-1]).context)

    for rule, grows in (("attnres-block:blocks=3", True), ("attnres", False), ("attnres-block:size=1", False)):
        found = [last(rule, layers) for layers in (3, 6, 12)]
        assert all((a < b) == grows for a, b in pairwise(found)), rule
