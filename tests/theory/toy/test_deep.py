"""Deeper toys: the recursion against attention, token by token; what value maps reach, exactly, both ways."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import sympy
from hypothesis import given
from hypothesis import strategies as st

from icl.testing import plans
from theory.errors import BadInput
from theory.plans.depth import Residual
from theory.plans.heads import NotCovered
from theory.plans.names import resolve
from theory.plans.plan import NOTHING, Shape, plan, v
from theory.plans.variants import VARIANTS
from theory.prompts import spectral
from theory.toy import deep
from theory.toy.stack import (
    AttentionHead,
    Value,
    descent_layers,
    polynomial_prediction,
    predicts,
    prompt,
    run,
    side_by_side,
    x_slot,
    y_slot,
)

SHAPE = Shape(6, 4)
d_values, n_values, layer_counts = st.integers(1, 5), st.integers(1, 7), st.integers(1, 5)
weights = st.fractions(-2, 2, max_denominator=8)
NONZERO = weights.filter(bool)


@st.composite
def tables(draw, layers=layer_counts):
    """beta_lm for random sources: any of the layers so far."""
    count = draw(layers)
    return [
        draw(st.dictionaries(st.integers(1, layer), weights, min_size=1, max_size=layer))
        for layer in range(1, count + 1)
    ]


@st.composite
def polynomials(draw, degree):
    return [Fraction(1), *(draw(weights) for _ in range(degree))]


def complex_pairs(residual):
    s = sympy.Symbol("s")
    whole = sympy.Poly([sympy.Rational(c.numerator, c.denominator) for c in reversed(residual)], s)
    real = sum(part.count_roots() * power for part, power in whole.sqf_list()[1])
    assert (whole.degree() - real) % 2 == 0
    return (whole.degree() - real) // 2, whole.degree()


def scaled(table, gram):
    """Numbers of a table over the largest eigenvalue, so that no stream explodes."""
    return [{m: float(beta) / max(np.linalg.norm(gram, 2), 1e-3) for m, beta in row.items()} for row in table]


@given(d_values, n_values, tables(), st.integers(0, 999))
def test_recursion_is_what_attention_computes(d, n, table, seed):
    x, y, query = prompt(np.random.default_rng(seed), d, n, 0.5)
    steps = scaled(table, x @ x.T)
    layers = descent_layers([{m: beta * np.eye(d) for m, beta in row.items()} for row in steps])
    tokens = side_by_side(x, y, query)
    expected = polynomial_prediction(deep.residual_polynomial(steps), x, y, query)
    assert predicts(tokens, layers, expected)
    assert not predicts(tokens, layers, expected + 1e-6 * np.linalg.norm(tokens))


@given(d_values, n_values, tables(), st.integers(0, 999))
def test_the_stream_holds_labels_less_predictions(d, n, table, seed):
    """Theorem 1's first sentence, at every layer: y_t^l = y_t - W_l x_t, with W_l from l layers on the query e_i."""
    x, y, _ = prompt(np.random.default_rng(seed), d, n, 0.5)
    steps = scaled(table, x @ x.T)
    layers = descent_layers([{m: beta * np.eye(d) for m, beta in row.items()} for row in steps])
    for layer, stream in enumerate(run(side_by_side(x, y, x[:, 0]), layers)[1:], 1):
        residual = deep.residual_polynomial(steps[:layer])
        left = y - np.stack([polynomial_prediction(residual, x, y, x[:, t]) for t in range(n)], axis=1)
        rounding = 8 * np.finfo(float).eps * 2 * d * (n + 1) * (layer + 1)
        assert np.linalg.norm(stream[:-1, d:].T - left) <= rounding * (np.linalg.norm(stream) + np.linalg.norm(y))
        assert np.array_equal(stream[:-1, :d].T, x)


@given(st.data(), st.integers(1, 6))
def test_own_values_and_layer_1_s_make_every_polynomial(data, layers):
    residual = data.draw(polynomials(data.draw(st.integers(0, layers))))
    own = [data.draw(NONZERO) for _ in range(layers - 1)]
    steps = deep.mixed_weights(residual, own)
    result = deep.residual_polynomial(steps)
    assert list(result) == [*residual, *[0] * (layers + 1 - len(residual))]
    assert [step[layer] for layer, step in enumerate(steps[1:], 2)] == own
    assert all(set(step) == {layer, 1} for layer, step in enumerate(steps, 1))


@given(st.data(), st.integers(1, 3))
def test_the_layer_before_s_values_make_any_quadratic_factor(data, pairs):
    target, steps = sympy.Poly(1, sympy.Symbol("s")), []
    for pair in range(pairs):
        c1, c2 = data.draw(weights), data.draw(weights)
        layer = 2 * pair + 1
        steps += [{layer: Fraction(1)}, {layer + 1: c2, layer: -c1 - 1 - c2}]
        target *= sympy.Poly([sympy.Rational(c.numerator, c.denominator) for c in (c2, c1, Fraction(1))], *target.gens)
    residual = deep.residual_polynomial(steps)
    coefficients = [Fraction(int(c.p), int(c.q)) for c in reversed(target.all_coeffs())]
    assert coefficients == list(residual)[: target.degree() + 1]
    assert not any(residual[target.degree() + 1 :])


def random_residuals(chosen, rng, count):
    for _ in range(count):
        steps = [{m: Fraction(int(rng.integers(-9, 10)), 4) for m in row} for row in deep.value_sources(chosen)]
        yield deep.residual_polynomial(steps)


def covered():
    """Every named plan that theorem 2 covers and that adds to the stream by attention alone."""
    for name in VARIANTS:
        chosen = resolve(name, SHAPE)
        try:
            deep.reach(chosen)
        except NotCovered:
            continue
        if chosen.depth == Residual() and not any(head.beside.terms for row in chosen.table for head in row):
            yield name


@pytest.mark.parametrize("name", list(covered()))
def test_random_weights_stay_within_reach_and_come_to_its_ends(name):
    chosen = resolve(name, SHAPE)
    reach = deep.reach(chosen)
    counts = [complex_pairs(residual) for residual in random_residuals(chosen, np.random.default_rng(len(name)), 40)]
    pairs, degrees = zip(*counts, strict=True)
    assert max(degrees) == reach.degree
    assert min(reach.pairs, 1) <= max(pairs) <= reach.pairs


def test_reach_of_named_plans():
    full, own = deep.Reach(6, 3), deep.Reach(6, 0)
    expected = {
        "vanilla": own,
        "skipv0": own,
        "cla-k": own,
        "yoco-k": own,
        "shared-keys": own,
        "residual-queries": own,
        "svformer": deep.Reach(1, 0),
        "svformer:anchors=(1,4)": deep.Reach(2, 0),
        "cla": deep.Reach(3, 0),
        "cla-v:every=3": deep.Reach(2, 0),
        "yoco-v": deep.Reach(3, 0),
        "skipv2": deep.Reach(6, 2),
        "skipv1:source=3": deep.Reach(6, 2),
        "resformer": full,
        "resformer-learned": full,
        "resformer-previous": full,
        "resformer-all": full,
        "skipv1": full,
        "skipv1-pooling": full,
        "skipkv1": full,
        "cross-layer": full,
        "cross-layer:source=1": full,
        "neutreno": full,
        "denseformer": full,
    }
    assert {name: deep.reach(resolve(name, SHAPE)) for name in expected} == expected


@given(st.data(), st.integers(2, 6))
def test_layer_1_s_stream_added_again_makes_every_polynomial(data, layers):
    """r_l = a + b (1 - beta s) r_{l-1} from 1: the proof's own way down, then up again."""
    residual = data.draw(polynomials(layers).filter(lambda p: p[-1] != 0))
    betas = [data.draw(NONZERO) for _ in range(layers)]
    target, shifts = list(residual), []
    for beta in betas[:0:-1]:
        shifts.insert(0, sum(c / beta**i for i, c in enumerate(target)))
        target[0] -= shifts[0]
        quotient = []
        for c in target[:-1]:
            quotient.append(c + (beta * quotient[-1] if quotient else 0))
        target = quotient
    if target[0] == 0:
        return  # one of the finitely many z that will not do
    first, stream = -target[1] / target[0], [Fraction(1)]
    for beta, shift in zip([first, *betas[1:]], [Fraction(0), *shifts], strict=True):
        longer = [*stream, Fraction(0)]
        for i, c in enumerate(stream):
            longer[i + 1] -= beta * c
        longer[0] += shift / target[0]
        stream = longer
    assert [target[0] * c for c in stream[1:]] == residual[1:]


def writing_layers(d, values, c, g, b):
    """Two layers of gradient steps c and g, the first of which also makes x_t <- (I + b S_xx) x_t."""
    eye = np.eye(d)
    look = x_slot(eye)
    steps = [
        AttentionHead((value,), y_slot(-step * eye), look, look) for value, step in zip(values, (c, g), strict=True)
    ]
    return [[steps[0], AttentionHead((Value(1, look),), b * look, look, look)], [steps[1]]]


def test_once_the_x_slot_is_written_the_family_s_bounds_are_off():
    """Limit (b) of the module, for raw and for own values; the loss it states, exactly."""
    d, n, c, g, b = 3, 8, Fraction(9, 200), Fraction(27, 100), Fraction(-41, 1000)
    x, y, query = prompt(np.random.default_rng(3), d, n, 1.0)
    tokens, labels = side_by_side(x, y, query), y_slot(np.eye(d))
    gram = np.eye(d) + float(b) * x @ x.T
    raw = writing_layers(d, [Value(1, labels), Value(1, labels)], float(c), float(g), float(b))
    assert predicts(tokens, raw, y @ x.T @ (float(c) * np.eye(d) + float(g) * gram @ gram) @ query)
    own = writing_layers(d, [Value(1, labels), Value(2, labels)], float(c), float(g), float(b))
    s = sympy.Symbol("s")
    c, g, b = (sympy.Rational(f.numerator, f.denominator) for f in (c, g, b))
    polynomial = sympy.Poly((1 - c * s) * (1 - g * s * (1 + b * s) ** 2), s)
    residual = [Fraction(int(f.p), int(f.q)) for f in reversed(polynomial.all_coeffs())]
    assert predicts(tokens, own, polynomial_prediction([float(f) for f in residual], x, y, query))
    losses = spectral.polynomial_loss(d, n, 1, residual), spectral.best_polynomial(d, n, 1, 2).loss
    assert [round(float(loss), 2) for loss in losses] == [4.69, 5.25]


@given(plans(depths=[Residual()]), st.integers(0, 999))
def test_random_weights_of_any_plan_stay_within_reach(chosen, seed):
    bare = replace(chosen, table=tuple(tuple(replace(head, beside=NOTHING) for head in row) for row in chosen.table))
    try:
        reach = deep.reach(bare)
    except NotCovered:
        return
    for residual in random_residuals(bare, np.random.default_rng(seed), 3):
        pairs, degree = complex_pairs(residual)
        assert degree <= reach.degree <= bare.shape.layers
        assert pairs <= reach.pairs


@pytest.mark.parametrize("name", ["attnres", "dva", "dva-attention", "resformer-sparse"])
def test_what_is_not_covered(name):
    with pytest.raises(NotCovered):
        deep.reach(resolve(name, SHAPE))


def test_values_beside_of_other_layers_are_not_covered():
    odd = plan(Shape(3, 1), beside=lambda n, h: v(n, h) if n > 1 else NOTHING)
    with pytest.raises(NotCovered, match="besides its attention"):
        deep.reach(odd)


@pytest.mark.parametrize(
    "call",
    [
        lambda: deep.residual_polynomial([{2: 1}]),
        lambda: deep.residual_polynomial([{1: 1}, {0: 1}]),
        lambda: deep.mixed_weights([2, 1], []),
        lambda: deep.mixed_weights([], []),
        lambda: deep.mixed_weights([1, 1, 1], []),
        lambda: deep.mixed_weights([1, 1, 1], [0]),
    ],
)
def test_bad_input(call):
    with pytest.raises(BadInput):
        call()
