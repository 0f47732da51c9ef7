"""What verdicts rest on: intervals and contrasts of paired seeds, orders and their exact distribution, crossings."""

import math
from collections import Counter
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import t

from experiments.verdicts.crossings import Crossing, crossing, octaves
from experiments.verdicts.intervals import against_baseline, contrast, paired_differences, t_interval
from experiments.verdicts.orders import Agreement, agreement, convolved, null_balances, tail, widest_by_chance


def test_intervals_cover_at_the_stated_rate():
    """Family-wise: all ten of ten means are covered in 95 % of families."""
    rng = np.random.default_rng(0)
    families, size, seeds = 1000, 10, 6
    samples = rng.standard_normal((families, size, seeds))
    covered = 0
    for family in samples:
        intervals = [t_interval(list(values), size) for values in family]
        covered += all(abs(i.mean) <= i.half_width for i in intervals)
    error = 5 * (0.95 * 0.05 / families) ** 0.5
    assert covered / families >= 0.95 - error
    assert covered / families <= 0.99, "a correction this loose would hide effects"


def test_one_seed_has_no_interval():
    with pytest.raises(ValueError, match="two seeds"):
        t_interval([1.0])


@pytest.mark.long
def test_intervals_against_a_baseline_hold_for_all_arms_at_once():
    """At the stated rate, over many made-up experiments, and they are not much too wide."""
    rng, arms, seeds, runs = np.random.default_rng(0), 5, 3, 2000
    missed, single = 0, 0
    for _ in range(runs):
        blocks = 10 * rng.standard_normal(seeds)
        values = {f"{i}": list(blocks + i + rng.standard_normal(seeds)) for i in range(arms)}
        found = against_baseline(list(blocks + rng.standard_normal(seeds)), values)
        out = [abs(interval.mean - int(name)) > interval.half_width for name, interval in found.items()]
        missed += any(out)
        single += sum(out)
    rate, error = missed / runs, (0.05 * 0.95 / runs) ** 0.5
    assert rate < 0.05 + 3 * error
    assert rate > 0.015  # an own standard error counts only where it is the larger one
    assert single / runs / arms > 0.005


def test_one_arm_is_the_plain_paired_interval():
    baseline, arm = [1.0, 2.0, 4.0], [1.5, 2.2, 4.9]
    plain = t_interval([a - b for a, b in zip(arm, baseline, strict=True)])
    found = against_baseline(baseline, {"arm": arm})["arm"]
    assert found.mean == pytest.approx(plain.mean)
    assert found.stderr == pytest.approx(plain.stderr)
    assert found.half_width == pytest.approx(plain.half_width)
    with pytest.raises(ValueError, match="two seeds"):
        against_baseline([1.0], {"arm": [1.0]})


def test_pairs_share_one_error_and_are_widened_for_their_number():
    """Against one baseline they are `against_baseline`; further pairs change the width alone, by Student's quantile."""
    rng = np.random.default_rng(5)
    arms = {name: list(rng.standard_normal(4)) for name in "abc"}
    baseline = arms["a"]
    found = against_baseline(baseline, {name: arms[name] for name in "bc"})
    pairs = paired_differences(arms, [("b", "a"), ("c", "a")])
    for (arm, _), interval in pairs.items():
        assert (interval.mean, interval.half_width) == pytest.approx((found[arm].mean, found[arm].half_width))
    more = paired_differences(arms, [("b", "a"), ("c", "a"), ("c", "b"), ("a", "c")])
    assert more["c", "b"].mean == pytest.approx(np.mean(arms["c"]) - np.mean(arms["b"]))
    assert more["a", "c"].mean == pytest.approx(-more["c", "a"].mean)
    least = min(interval.stderr for interval in more.values())
    freedom = dict.fromkeys(more, 6)
    for (arm, other), interval in more.items():
        own = np.std(np.subtract(arms[arm], arms[other]), ddof=1) / 2
        assert interval.stderr == pytest.approx(max(own, least))
        freedom[arm, other] = 3 if own > least else 6
        assert interval.half_width == pytest.approx(t.ppf(1 - 0.025 / 4, freedom[arm, other]) * interval.stderr)
    assert {*freedom.values()} == {3, 6}


# A contrast over a block design: against sums by hand, against what it is for two cases, and its coverage.

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
    assert noisy.half_width == pytest.approx(t.ppf(0.975, 2) * noisy.stderr)


def test_a_noisy_case_does_not_hide_among_quiet_ones():
    """Where the errors of all together make intervals of it a third as wide as they should be."""
    rng, held, alone = np.random.default_rng(1), 0, 0
    for _ in range(1000):
        cases = rng.normal(size=(1, 4)) + rng.normal(size=(9, 4)) * np.where(np.arange(9) == 0, 1.0, 0.1)[:, None]
        found = contrast(cases.tolist(), (1, -1, *[0] * 7))
        residuals = cases - cases.mean(0) - cases.mean(1, keepdims=True) + cases.mean()
        together = (2 / 4 * (residuals**2).sum() / 24) ** 0.5
        held += abs(found.mean) <= found.half_width
        alone += abs(found.mean) <= t.ppf(0.975, 24) * together
    assert held > 950 - 4 * (0.95 * 0.05 * 1000) ** 0.5 > 850 > alone


def test_it_holds_what_is_true_as_often_as_it_says():
    rng = np.random.default_rng(0)
    held = 0
    for _ in range(2000):
        cases = 0.3 * np.arange(3)[:, None] + rng.normal(size=(1, 4)) + rng.normal(size=(3, 4))
        found = contrast(cases.tolist(), (-0.5, 0, 0.5))
        held += abs(found.mean - 0.3) <= found.half_width
    assert abs(held / 2000 - 0.95) < 4 * (0.95 * 0.05 / 2000) ** 0.5


def test_a_case_that_diverged_leaves_the_others_as_they_are_without_it():
    arms = {"a": [2.0, 3.5], "b": [math.nan, 1.0]}
    found = against_baseline([1.0, 2.0], arms)
    alone = contrast([arms["a"], [1.0, 2.0]], (1, -1), 2)
    assert found["a"] == alone
    assert alone.half_width > 0
    assert np.isnan([found["b"].mean, found["b"].half_width]).all()


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


# Sizes at which a share is reached.


def test_between_two_sizes_it_is_known_by_the_logarithm():
    found = crossing({4: 0.1, 8: 0.5, 32: 0.9}, 0.7)
    assert found.known
    assert found.least == pytest.approx(16)
    assert crossing({4: 0.1, 8: 0.9}, 0.9) == (8, 8)


def test_outside_of_the_sizes_it_is_bounded():
    assert crossing({4: 0.95, 8: 1.0}, 0.9) == (0, 4)
    assert crossing({4: 0.1, 8: 0.89}, 0.9) == (8, math.inf)
    assert not crossing({4: 0.1, 8: 0.89}, 0.9).known


KNOWN, SMALL, LARGE = Crossing(8, 8), Crossing(0, 4), Crossing(32, math.inf)


@pytest.mark.parametrize(
    ("own", "other", "expected"),
    [
        (KNOWN, Crossing(16, 16), 1),
        (Crossing(16, 16), KNOWN, -1),
        (KNOWN, LARGE, 2),  # at least
        (LARGE, KNOWN, -2),  # at most
        (SMALL, KNOWN, 1),
        (SMALL, LARGE, 3),
        (SMALL, SMALL, math.nan),
        (LARGE, LARGE, math.nan),
        (KNOWN, Crossing(10, math.inf), math.nan),  # apart, but nobody knows that it is by more than 0.5
        (Crossing(10, math.inf), KNOWN, math.nan),
    ],
)
def test_octaves_are_told_as_far_as_they_are_known(own, other, expected):
    assert octaves(own, other, 0.5) == pytest.approx(expected, nan_ok=True)


# Concordant pairs, and their exact distribution under permutation.

things = st.integers(2, 6).flatmap(
    lambda n: st.tuples(
        st.lists(st.integers(0, 2), min_size=n, max_size=n),
        st.lists(st.sampled_from([(i, j) for i in range(n) for j in range(n) if i != j]), min_size=1, max_size=8),
    )
)


@given(things)
def test_the_distribution_is_that_of_all_permutations(case):
    """Brute force over the things that have pairs."""
    found, pairs = case
    named = sorted({i for pair in pairs for i in pair})
    levels = {str(i): level for i, level in enumerate(found)}
    of = [(str(a), str(b)) for a, b in pairs]
    dealt = [dict(zip(map(str, named), order, strict=True)) for order in permutations([found[i] for i in named])]
    counts = Counter(agreement(one, of).balance for one in dealt)
    expected = {balance: count / len(dealt) for balance, count in counts.items()}
    assert null_balances(levels, of) == pytest.approx(expected)


def test_agreement_counts():
    levels = {"a": 0, "b": 1, "c": 1}
    assert agreement(levels, [("a", "b"), ("c", "a"), ("b", "c"), ("a", "c")]) == Agreement(2, 1, 1)
    assert Agreement(2, 1, 1).share == pytest.approx(2 / 3)
    assert Agreement(0, 0, 3).share is None
    assert agreement({name: -level for name, level in levels.items()}, [("a", "b")]).balance == -1


def test_sums_and_tails():
    coin = {-1: 0.5, 1: 0.5}
    two = convolved([coin, coin])
    assert two == {-2: 0.25, 0: 0.5, 2: 0.25}
    assert tail(two, 0) == 0.75
    assert tail(two, 3) == 0
    assert convolved([]) == {0: 1.0}


@given(st.dictionaries(st.integers(-3, 3), st.integers(1, 5), min_size=1))
def test_beyond_what_chance_gives_lies_no_more_than_the_level(weights):
    one = {value: weight / sum(weights.values()) for value, weight in weights.items()}
    widest = widest_by_chance(one, 0.3)

    def beyond(w):
        return sum(p for value, p in one.items() if abs(value) > w)

    assert beyond(widest) <= 0.3 + 1e-12
    assert widest == 0 or beyond(widest - 1) > 0.3 - 1e-12
    assert widest_by_chance({-2: 0.25, 0: 0.5, 2: 0.25}, 0.05) == 2
    assert widest_by_chance({0: 1.0}, 0.05) == 0
