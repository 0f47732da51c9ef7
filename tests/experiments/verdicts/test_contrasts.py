"""A contrast over a block design: against sums by hand, against what it is for two cases, and its coverage."""

from math import nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.verdicts.intervals import against_baseline, contrast, t_interval

numbers = st.floats(-10, 10, allow_subnormal=False)


@given(st.integers(2, 6).flatmap(lambda n: st.tuples(*[st.lists(numbers, min_size=n, max_size=n)] * 2)))
def test_of_two_cases_it_is_the_paired_t_interval(pair):
    paired = t_interval([b - a for a, b in zip(*pair, strict=True)], 3)
    found = contrast(pair, (-1, 1), 3)
    assert [found.mean, found.stderr, found.half_width] == pytest.approx(
        [paired.mean, paired.stderr, paired.half_width], abs=1e-9
    )


def test_a_slope_by_hand():
    """Residuals of a two-way table with known sums: 2 and 3 rows of freedom."""
    cases = [[0.0, 1.0, 2.0], [1.0, 2.0, 3.0], [2.0, 3.0, 4.0]]
    exact = contrast(cases, (-0.5, 0, 0.5))
    assert (exact.mean, exact.stderr, exact.half_width) == pytest.approx((1, 0, 0))
    cases[1][0] += 9.0
    off = contrast(cases, (-0.5, 0, 0.5))
    assert off.mean == pytest.approx(1)
    variance = 81 * (1 - 1 / 3 - 1 / 3 + 1 / 9) / 4  # one deviation's share beyond rows and columns, over (3-1)(3-1)
    assert off.stderr == pytest.approx((0.5 / 3 * variance) ** 0.5)
    assert contrast(cases, (-0.5, 0, 0.5), 10).half_width > off.half_width > 2.776 * off.stderr - 1e-3
    noisy = contrast([cases[1], cases[0], cases[2]], (-0.5, 0, 0.5))
    assert noisy.stderr == pytest.approx(np.std([-4.5, 0, 0], ddof=1) / 3**0.5)
    assert noisy.half_width == pytest.approx(off.half_width * noisy.stderr / off.stderr)


def test_a_noisy_case_does_not_hide_among_quiet_ones():
    """Where the errors of all together make intervals of it a third as wide as they should be."""
    rng, held, alone = np.random.default_rng(1), 0, 0
    for _ in range(1000):
        cases = rng.normal(size=(1, 4)) + rng.normal(size=(9, 4)) * np.where(np.arange(9) == 0, 1.0, 0.1)[:, None]
        found = contrast(cases.tolist(), (1, -1, *[0] * 7))
        residuals = cases - cases.mean(0) - cases.mean(1, keepdims=True) + cases.mean()
        together = (2 / 4 * (residuals**2).sum() / 24) ** 0.5
        held += abs(found.mean) <= found.half_width
        alone += abs(found.mean) <= found.half_width / found.stderr * together
    assert held > 0.85 * 1000 > alone


def test_it_holds_what_is_true_as_often_as_it_says():
    rng = np.random.default_rng(0)
    held = 0
    for _ in range(2000):
        cases = 0.3 * np.arange(3)[:, None] + rng.normal(size=(1, 4)) + rng.normal(size=(3, 4))
        found = contrast(cases.tolist(), (-0.5, 0, 0.5))
        held += abs(found.mean - 0.3) <= found.half_width
    assert abs(held / 2000 - 0.95) < 4 * (0.95 * 0.05 / 2000) ** 0.5


def test_a_case_that_diverged_leaves_the_others_means():
    found = against_baseline([1.0, 2.0], {"a": [2.0, 3.5], "b": [nan, 1.0]})
    assert found["a"].mean == pytest.approx(1.25)
    assert np.isnan([found["b"].mean, found["a"].half_width]).all()


@pytest.mark.parametrize(
    ("cases", "weights", "says"),
    [
        ([[1, 2], [3, 4]], (1, 1), "must sum to zero"),
        ([[1, 2], [3, 4]], (1, -1, 0), "a weight for each case"),
        ([[1], [3]], (1, -1), "at least two seeds"),
        ([[1, 2]], (0,), "two cases"),
    ],
)
def test_what_is_no_contrast_is_refused(cases, weights, says):
    with pytest.raises(ValueError, match=says):
        contrast(cases, weights)
