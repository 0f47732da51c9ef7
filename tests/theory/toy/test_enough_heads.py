"""The loss with enough heads: against fractions, against actual heads, and where its descents end."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.theory.skipv1.w0_tools import best_loss, exact, whole_numbers
from theory.errors import InvalidSize
from theory.plans.heads import ORDINARY, SKIP, SKIPV1, Head
from theory.prompts.moments import PromptMoments
from theory.skipv1.w0 import mha_enough_heads_loss, mha_floor
from theory.toy.enough_heads import CUT, EnoughHeads
from theory.toy.population import PopulationLoss, Weights

CROSS = (ORDINARY, Head(copied=0, raw=1, key_copied=0, key_raw=1))
ROUNDING = np.finfo(float).eps / CUT  # relative error of the smallest direction that is kept


@settings(max_examples=15)
@given(st.data(), st.sampled_from([(1, 1), (2, 1), (2, 2)]), st.integers(1, 5), st.sampled_from(["m", "s", "ms"]))
def test_value_against_fractions(data, size, n, names):
    (d, rank), sigma = size, Fraction(1, 2)
    w0, b = whole_numbers(data.draw, d, d), whole_numbers(data.draw, d - rank, d)
    a = exact(np.eye(d, dtype=int))[:rank] + whole_numbers(data.draw, rank, d, bound=3) / 7  # of full rank
    kinds = {"m": (ORDINARY,), "s": (SKIP,), "ms": SKIPV1}[names]
    words = {"m": ("ordinary",), "s": ("skip",), "ms": ("ordinary", "skip")}[names]
    best = best_loss(PromptMoments(d, n, sigma, w0), a, b, words)
    moments = PromptMoments(d, n, float(sigma), w0.astype(float))
    value = EnoughHeads(moments, kinds).value(a.astype(float), b.astype(float))
    assert abs(value - best) <= ROUNDING * moments.prior_power


@pytest.mark.parametrize(
    "kinds", [(ORDINARY,), (SKIP,), SKIPV1, (Head(0.5, -2.0),), CROSS, (Head(0.5, -2.0, 2.0, 0.3),)]
)
@pytest.mark.parametrize(("d", "rank"), [(1, 1), (2, 1), (2, 2), (3, 2)])
def test_d_a_heads_of_each_kind_are_enough(kinds, d, rank):
    """Their keys a basis of the d x a matrices, their readouts at their best."""
    rng = np.random.default_rng(d + 10 * rank)
    moments = PromptMoments(d, 3, 0.7, rng.standard_normal((d, d)))
    a, b = rng.standard_normal((rank, d)), rng.standard_normal((d - rank, d))
    keys = np.eye(d * rank).reshape(-1, d, rank)
    heads = [kind for kind in kinds for _ in keys]
    loss = PopulationLoss(moments, heads)
    weights = Weights(a, b, np.zeros((len(heads), d, d)), np.concatenate([keys] * len(kinds)))
    value = EnoughHeads(moments, kinds).value(a, b)
    assert loss.value(loss.best_readout(weights)) == pytest.approx(value, rel=1e-9)
    few = PopulationLoss(moments, kinds)
    drawn = Weights(a, b, np.zeros((len(kinds), d, d)), rng.standard_normal((len(kinds), d, rank)))
    assert few.value(few.best_readout(drawn)) >= value - ROUNDING * loss.zero_loss


@pytest.mark.parametrize("kinds", [(ORDINARY,), CROSS, (Head(0.5, -2.0, 2.0, 0.3),)])
def test_gradient_against_differences(kinds):
    rng, step = np.random.default_rng(3), 1e-5
    enough = EnoughHeads(PromptMoments(3, 4, 0.5, rng.standard_normal((3, 3)), centred=True), kinds)
    a, b, along_a, along_b = rng.standard_normal((4, 3, 3))
    a, along_a, b, along_b = a[:2], along_a[:2], b[:1], along_b[:1]
    _, by_a, by_b = enough.value_and_gradient(a, b)
    ahead, behind = (enough.value(a + s * along_a, b + s * along_b) for s in (step, -step))
    slope = (by_a * along_a).sum() + (by_b * along_b).sum()
    assert (ahead - behind) / (2 * step) == pytest.approx(slope, rel=1e-5)


def test_descents_find_infima_at_infinity():
    """Where Gaussian starts all end 0.24 above: W0 = 3 I, d = 3, a = 1."""
    task, squares = (3, 2, 0.1), [9.0] * 3
    heard = []
    ends = EnoughHeads(PromptMoments(*task, 3 * np.eye(3)), [ORDINARY]).minimise(1, after_start=heard.append)
    assert mha_floor(*task, squares, 1) - 9 * ROUNDING <= ends[0] <= mha_enough_heads_loss(*task, squares, 1) + 0.01
    assert heard == [1, 2, 3, 4]
    assert len(ends) == 4


def test_bad_input():
    moments = PromptMoments(2, 3, 0.1)
    with pytest.raises(ValueError, match="one or more kinds of heads"):
        EnoughHeads(moments, [])
    enough = EnoughHeads(moments, [ORDINARY])
    with pytest.raises(InvalidSize, match="rank must be a whole number from 0 to d = 2, got 3"):
        enough.minimise(3)
    with pytest.raises(InvalidSize, match="starts must be a whole number from 1, got 0"):
        enough.minimise(1, starts=0)


def test_enough_heads_beyond_memory_are_refused():
    with pytest.raises(InvalidSize, match="enough heads at d = 300 needs about"):
        EnoughHeads(PromptMoments(300, 3, 0.1), SKIPV1)
