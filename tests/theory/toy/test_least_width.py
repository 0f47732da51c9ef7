"""How wide MHA has to be: explicit weights token by token, exact moments, bounds, descents in the tokens."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.theory.toy.test_positions import predict, prompt
from theory.errors import InvalidSize
from theory.prompts.isserlis import PromptEngine
from theory.prompts.setting import signal_share
from theory.toy.least_width import (
    explained_by_hiding,
    hidden_entries,
    hidden_tokens,
    hiding_weights,
    least_width_bound,
    sufficient_width,
)
from theory.toy.positions import copying_weights, rotating_weights
from theory.toy.token_pairs import _objective, best_entries

SIZES = [(2, 1), (3, 1), (4, 1), (4, 2), (5, 1), (6, 2), (6, 3), (7, 1)]


def expected(x, y, eps, hidden):
    """What steps (5) and (6) say that layer 2 makes of a prompt, divided by lambda: S_yx and the errors."""
    d = len(x)
    s_yx, s_xx = y @ x.T, x @ x.T
    made = s_yx.copy()
    if d % 2 == 0:
        for a in range(hidden):
            place = d - hidden + a
            made[2 * a, : d - hidden] += eps * s_xx[place, : d - hidden]
            for b in range(hidden):
                other = d - hidden + b
                both = [s_yx[2 * a + i, other] + s_yx[2 * b + i, place] for i in (0, 1)]
                made[2 * a : 2 * a + 2, other] = np.array(both) / 2
        return made
    made[0, 1:-1] += eps * s_xx[-1, 1:-1]
    made[-1, 1:-1] += eps * s_xx[-1, 1:-1]
    made[0:-1:2, 0] -= eps * s_yx[1:-1:2, -1]
    made[1:-1:2, 0] += eps * s_yx[0:-1:2, -1]
    made[1, 0] += eps * s_yx[-1, -1]
    return made


@given(
    size=st.sampled_from(SIZES), n=st.integers(1, 4), eps=st.sampled_from([1.0, 0.25, 0.01]), seed=st.integers(0, 99)
)
def test_hiding_mha_predicts_by_s_yx_and_the_errors_of_the_proof(size, n, eps, seed):
    (d, hidden), sigma = size, 0.5
    x, y, query = prompt(d, n, seed)
    weights = hiding_weights(d, n, sigma, eps, hidden)
    assert weights.read_in.shape == (2 * d - hidden, d)
    assert (len(weights.value), len(weights.readout)) == (4, 2 if 2 * hidden == d else 6 if d % 2 else 3)
    said = signal_share(d, n, sigma) / n * expected(x, y, eps, hidden) @ query
    size = (np.sum(x**2) + np.sum(y**2)) * np.linalg.norm(query)
    np.testing.assert_allclose(predict(weights, x, y, query), said, rtol=0, atol=1e-13 * d * n * (1 + size) / eps)


def test_what_hidden_weights_lose_is_exact_at_d_2():
    """E of the square of the error lambda eps (S_xx)_12, and that it meets neither S_yx nor W*: by pairing."""
    engine = PromptEngine(2)
    assert str(engine.expect(("xx", 0, 1), ("xx", 0, 1)).as_expr()) == "n"
    at_zero = {f"w_{i}{j}": 0 for i in (0, 1) for j in (0, 1)}
    for other in (("yx", 0, 0), ("w", 0, 0)):
        assert engine.expect(("xx", 0, 1), other).as_expr().subs(at_zero) == 0
    n, sigma, eps = 5, Fraction(1, 3), Fraction(1, 7)
    rho = signal_share(2, n, sigma)
    assert explained_by_hiding(2, n, sigma, eps) == 4 * rho - (rho / n) ** 2 * eps**2 * n


@given(size=st.sampled_from(SIZES), n=st.integers(1, 9))
def test_closed_forms_approach_their_limit_from_below(size, n):
    d, hidden = size
    limit = signal_share(d, n, Fraction(1, 2)) * hidden_entries(d, hidden)
    values = [explained_by_hiding(d, n, Fraction(1, 2), Fraction(1, 10**k), hidden) for k in range(4)]
    assert values == sorted(values)
    assert values[-1] < limit < values[-1] + Fraction(1, 10**4)
    assert limit <= signal_share(d, n, Fraction(1, 2)) * min(d**2, (2 * d - hidden) * (2 * d - hidden + 1) // 2)


@given(d=st.integers(1, 40), n=st.integers(1, 50))
def test_the_bound_is_below_the_sufficient_width(d, n):
    least = least_width_bound(d, n)
    assert least_width_bound(d, 10**6) <= least <= sufficient_width(d) <= 2 * d
    assert least * (least + 1) // 2 > d**2
    if n == 1:
        assert (least - 1) ** 2 < 2 * d**2 <= least**2


def test_where_the_bounds_meet():
    assert [least_width_bound(d, n) for d, n in ((1, 1), (1, 9), (2, 1), (2, 9), (3, 1), (3, 2))] == [2, 2, 3, 3, 5, 4]
    assert [sufficient_width(d) for d in (1, 2, 3, 4)] == [2, 3, 5, 7]


def test_the_sufficient_width_is_that_of_the_tokens():
    assert all(sufficient_width(d) == hidden_tokens(d, 0.5).shape[1] == 2 * d - 1 for d in range(2, 20))


@pytest.mark.parametrize(("d", "hidden"), SIZES[:4])
def test_the_best_map_of_the_hiding_tokens_approaches_what_the_weights_do(d, hidden):
    for eps in (0.1, 0.01):
        at_least = explained_by_hiding(d, 4, 0.3, eps, hidden) / signal_share(d, 4, 0.3)
        best = best_entries(d, 4, 0.3, hidden_tokens(d, eps, hidden))
        assert at_least - 1e-9 < best < hidden_entries(d, hidden) + 1e-9


def tokens_of(weights):
    """Of weights that treat all pairs alike: C_1 and C_2 of the first pair."""
    first = weights.value @ weights.read_in
    of = [[np.einsum("h,hwi->wi", weights.bias[:, key, token], first) for key in (0, 1)] for token in (0, 1)]
    return np.stack([np.concatenate(pair, axis=1) for pair in of])


def test_the_best_map_of_known_tokens_explains_what_is_known():
    assert best_entries(3, 4, 0.3, tokens_of(copying_weights(3, 4, 0.3, 5))) == pytest.approx(6)
    assert best_entries(3, 4, 0.3, tokens_of(copying_weights(3, 4, 0.3, 6))) == pytest.approx(9)
    assert best_entries(4, 4, 0.3, tokens_of(rotating_weights(4, 4, 0.3))) == pytest.approx(6)


@given(d=st.integers(1, 2), extra=st.integers(0, 1), kinds=st.integers(1, 3), seed=st.integers(0, 99))
def test_gradient_in_the_tokens(d, extra, kinds, seed):
    rng, objective = np.random.default_rng(seed), _objective(d, 3, 0.5)
    tokens, step = rng.standard_normal((2, kinds, d + extra, 2 * d))
    h = 1e-6
    slope = (objective(tokens + h * step)[0] - objective(tokens - h * step)[0]) / (2 * h)
    assert (objective(tokens)[1] * step).sum() == pytest.approx(slope, rel=1e-3, abs=1e-5)


def test_sizes():
    for d, hidden in ((1, 1), (3, 2), (4, 3), (4, 0)):
        with pytest.raises(InvalidSize, match=f"can be hidden at d = {d}, got {hidden}"):
            hiding_weights(d, 4, 0.1, 0.1, hidden)
    with pytest.raises(InvalidSize):
        least_width_bound(2, 0)
