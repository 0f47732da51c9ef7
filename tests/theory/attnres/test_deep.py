"""Depth weights in the deep toy: polynomials in exact arithmetic, and held against stacks written out."""

from fractions import Fraction

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st

from theory.attnres import deep
from theory.toy import stack
from theory.toy.deep import residual_polynomial as by_sources

numbers = st.fractions(-4, 4, max_denominator=3)
positive = st.fractions(Fraction(1, 8), 4, max_denominator=8)


@st.composite
def polynomials(draw, most=4):
    return [Fraction(1), *draw(st.lists(numbers, min_size=0, max_size=most))]


def softmax_rows(rows):
    return all(min(row) > 0 and sum(row) == 1 and row[1:] == (row[1],) * (len(row) - 1) for row in rows[1:])


@given(polynomials(), st.integers(0, 2))
def test_every_polynomial_is_reached_by_one_positive_ratio_a_read(residual, idle):
    layers = max(len(residual) - 1, 1) + idle
    toy = deep.of_polynomial(residual, layers)
    assert softmax_rows(toy.weights)
    made = deep.residual_polynomial(toy.weights, toy.steps, toy.readout)
    assert list(made) == [*residual, *[0] * (layers + 1 - len(residual))]


@given(polynomials(3).filter(lambda p: len(p) > 1), numbers.filter(bool))
def test_the_newest_output_alone_reads_out_any_q_that_is_not_0_at_0(quotient, scale):
    """p = 1 - s q, q = scale * quotient; the last row of weights has the newest output alone."""
    layers = len(quotient)
    toy = deep.of_polynomial(quotient, layers - 1)
    assume(toy.readout > 0)
    newest = [Fraction(0)] * layers + [Fraction(1)]
    step = 1 / toy.weights[-1][0] ** 3
    made = deep.residual_polynomial([*toy.weights, newest], [*toy.steps, step], scale)
    assert list(made) == [1, *(-scale * x for x in quotient)]


@given(polynomials().filter(lambda p: len(p) > 1 and all(p)), st.integers(0, 2))
def test_horner_s_scheme_is_a_window_of_one(residual, idle):
    layers = len(residual) - 1 + idle
    toy = deep.by_horner(residual, layers)
    assert all(not any(row[1:-1]) for row in toy.weights)
    made = deep.residual_polynomial(toy.weights, toy.steps, toy.readout)
    assert list(made) == [*residual, *[0] * idle]


@st.composite
def stacks(draw, most=4):
    layers = draw(st.integers(1, most))
    rows = [[draw(positive) for _ in range(read + 1)] for read in range(layers + 1)]
    return [[x / sum(row) for x in row] for row in rows], [draw(numbers) for _ in range(layers)]


@given(stacks(), st.integers(1, 4), st.integers(1, 6), st.integers(0, 99))
def test_stacks_written_out_have_that_polynomial(toy, d, n, seed):
    weights, steps = toy
    readout = 1 / weights[-1][0]
    x, y, query = stack.prompt(np.random.default_rng(seed), d, n, 0.7)
    tokens = stack.side_by_side(x, y, query)
    found = -float(readout) * deep.last_read(tokens, weights, [float(b) for b in steps])[-1, d:]
    residual = deep.residual_polynomial(weights, steps, readout)
    expected = stack.polynomial_prediction([float(c) for c in residual], x, y, query)
    # With all signs alike nothing cancels: each term is rounded by as much as there are sums on its way.
    largest = deep.last_read(np.abs(tokens), weights, [-abs(float(b)) for b in steps])[-1, d:]
    terms = (len(steps) + 1) * (12 * d + n + len(steps) + 1)
    slack = 8 * np.finfo(float).eps * terms * float(readout) * np.linalg.norm(largest)
    assert np.linalg.norm(found - expected) <= slack


@given(st.lists(numbers, min_size=1, max_size=5))
def test_zero_logits_are_a_residual_stream_with_smaller_steps(steps):
    layers = len(steps)
    uniform = [[Fraction(1, read + 1)] * (read + 1) for read in range(layers + 1)]
    smaller = [{layer: b / layer**3} for layer, b in enumerate(steps, 1)]
    assert deep.residual_polynomial(uniform, steps, layers + 1) == by_sources(smaller)


def test_a_positive_readout_cannot_do_without_values_below_one():
    """1 + s^2, from the proof's own condition: 1 / a = 1 - p(t) is never positive; its reflection is."""
    assert deep.of_polynomial([1, 0, 1], 2).readout < 0
    assert deep.of_polynomial([1, 0, -1], 2).readout > 0
    assert deep.of_polynomial([1, 0, 0, 1], 3).readout > 0
