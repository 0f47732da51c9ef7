"""Worths: planted ones are found, exactly without noise and with their coverage under it; units do not matter."""

from math import exp, inf, isfinite, isnan, log, nan

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.stats import t

from experiments.verdicts.worth import UNKNOWN, worth

numbers = st.floats(-3, 3).map(lambda x: round(x, 3))
seeds = st.integers(2, 6)


@st.composite
def cases(draw):
    """(own, values, vanilla) of two to four sizes."""
    count = draw(seeds)
    sizes = draw(st.lists(st.integers(1, 40), min_size=2, max_size=4, unique=True))
    some = st.lists(numbers, min_size=count, max_size=count)
    return float(draw(st.integers(1, 40))), draw(some), {s: draw(some) for s in sizes}


def without_noise(own, value, vanilla, better="higher"):
    return worth(own, [value] * 3, {s: [x] * 3 for s, x in vanilla.items()}, better=better)


@given(st.floats(0.01, 0.99), st.integers(1, 9), st.sampled_from(["higher", "lower"]))
def test_a_planted_worth_is_found(share, own, better):
    sign = 1 if better == "higher" else -1
    vanilla = {2: sign * 0.1, 4: sign * 0.2, 16: sign * 0.8}
    found = without_noise(own, sign * (0.2 + 0.6 * share), vanilla, better)
    expected = 4 ** (1 + share) / own
    assert found.factor == pytest.approx(expected)
    assert found.least == pytest.approx(expected, rel=1e-6)
    assert found.most == pytest.approx(expected, rel=1e-6)
    assert found.bounded


@pytest.mark.parametrize(
    ("value", "vanilla", "factor", "least", "most"),
    [
        (0.9, {1: 0.1, 2: 0.5}, inf, 2, inf),  # better than the largest
        (0.0, {1: 0.1, 2: 0.5}, -inf, -inf, 1),
        (0.1, {1: 0.1, 2: 0.5}, 1, -inf, 1),  # as good as the least: smaller ones may be, too
        (0.5, {1: 0.1, 2: 0.5}, 2, 2, inf),
        (0.5, {1: 0.1, 2: 0.5, 4: 0.5}, 2, 2, inf),  # the least size of a plateau; where it ends nobody knows
        (0.5, {1: 0.4, 2: 0.6, 4: 0.4, 8: 0.6}, 4 * 2**0.5, 2**0.5, 4 * 2**0.5),  # for good, and the span of all
        (0.5, {1: 0.4, 2: 0.6, 4: 0.4}, inf, 2**0.5, inf),
    ],
)
def test_ends_plateaus_and_what_is_not_monotone(value, vanilla, factor, least, most):
    found = without_noise(1, value, vanilla)
    assert (found.factor, found.least, found.most) == pytest.approx((factor, least, most))


@given(cases(), st.sampled_from(["higher", "lower"]))
def test_it_inverts_the_t_test(case, better):
    own, values, vanilla = case
    found = worth(own, values, vanilla, better=better)
    sizes = sorted(vanilla)
    at = np.exp(np.linspace(log(sizes[0]), log(sizes[-1]), 101))[1:-1]
    ahead = [
        np.array(values) - [np.interp(log(s), [log(x) for x in sizes], of_seed) for of_seed in
                            zip(*(vanilla[x] for x in sizes), strict=True)]
        for s in at
    ]  # fmt: skip
    limit = t.ppf(0.975, len(values) - 1)
    for s, d in zip(at, ahead, strict=True):
        half_width = limit * d.std(ddof=1) / len(d) ** 0.5
        if abs(d.mean()) < half_width * (1 - 1e-6) - 1e-9:
            assert found.least <= s / own * (1 + 1e-9)
            assert s / own <= found.most * (1 + 1e-9)
    for end in (found.least, found.most):
        if isfinite(end) and sizes[0] * 1.0001 < end * own < sizes[-1] * 0.9999:
            d = np.array(values) - [
                np.interp(log(end * own), [log(x) for x in sizes], of_seed)
                for of_seed in zip(*(vanilla[x] for x in sizes), strict=True)
            ]
            half_width = limit * d.std(ddof=1) / len(d) ** 0.5
            assert abs(d.mean()) <= half_width * (1 + 1e-5) + 1e-6


@given(cases(), st.sampled_from(["higher", "lower"]))
def test_the_point_lies_in_the_interval_and_a_family_widens_it(case, better):
    own, values, vanilla = case
    found, family = (worth(own, values, vanilla, better=better, family=k) for k in (1, 12))
    slack = 1 + 1e-9
    assert found.least <= found.factor * (slack if found.factor > 0 else 1)
    assert found.factor <= found.most * slack
    assert family.factor == found.factor
    assert family.least <= found.least * slack or family.least == -inf
    assert family.most * slack >= found.most


@given(cases(), st.floats(0.1, 10), st.floats(0.1, 10), st.floats(-5, 5))
def test_units_do_not_matter(case, of_size, of_value, shift):
    own, values, vanilla = case
    d = np.array([[v - x for v, x in zip(values, at, strict=True)] for at in vanilla.values()])
    # Where an end of a size's interval touches zero, rounding decides.
    means, deviations = d.mean(1), d.std(1, ddof=1) / d.shape[1] ** 0.5
    touching = np.abs(np.abs(means) - t.ppf(0.975, d.shape[1] - 1) * deviations)
    assume((touching > 1e-3).all())
    assume((np.abs(means) > 1e-3).all())

    def scaled(x):
        return [of_value * y + shift for y in x]

    plain = worth(own, values, vanilla, better="higher")
    other = worth(own * of_size, scaled(values), {s * of_size: scaled(x) for s, x in vanilla.items()}, better="higher")
    mirrored = worth(own, [-x for x in values], {s: [-x for x in y] for s, y in vanilla.items()}, better="lower")
    expected = (plain.factor, plain.least, plain.most)
    assert (other.factor, other.least, other.most) == pytest.approx(expected, rel=1e-4)
    assert (mirrored.factor, mirrored.least, mirrored.most) == expected


def test_what_diverged_is_not_known():
    found = worth(1, [0.1, nan], {1: [0.0, 0.0], 2: [1.0, 1.0]}, better="higher")
    assert isnan(found.factor)
    assert (found.least, found.most) == (UNKNOWN.least, UNKNOWN.most) == (-inf, inf)
    assert worth(1, [0.1, 0.1], {1: [0.0, inf], 2: [1.0, 1.0]}, better="higher").least == -inf


@pytest.mark.parametrize(
    ("own", "values", "vanilla"),
    [
        (1, [1, 2], {1: [1, 2]}),
        (1, [1], {1: [1], 2: [2]}),
        (1, [1, 2], {1: [1, 2], 2: [1]}),
        (0, [1, 2], {1: [1, 2], 2: [1, 2]}),
        (1, [1, 2], {0: [1, 2], 2: [1, 2]}),
        (1, [1, 2], {1: [1, 2], inf: [1, 2]}),
    ],
)
def test_what_cannot_be_compared_is_refused(own, values, vanilla):
    with pytest.raises(ValueError, match=r"two sizes of vanilla or more|above zero"):
        worth(own, values, vanilla, better="higher")


@pytest.mark.slow
@pytest.mark.parametrize(("count", "noise", "level"), [(3, 0.05, 0.95), (16, 0.3, 0.95), (8, 0.1, 0.8)])
def test_coverage(count, noise, level):
    """Of a planted worth, under noise with a part that all arms of a seed share; and of one beyond the largest size."""
    generator, trials = np.random.default_rng(1), 4000
    sizes, means = [2, 4, 8], np.array([0.1, 0.5, 0.9])
    for value, true in ((0.7, exp((log(4) + log(8)) / 2) / 2), (0.95, inf)):
        covered = 0
        for _ in range(trials):
            of_seed = generator.normal(0, 3 * noise, count)
            vanilla = {
                s: mean + of_seed + generator.normal(0, noise, count) for s, mean in zip(sizes, means, strict=True)
            }
            values = value + of_seed + generator.normal(0, noise, count)
            found = worth(2, values, vanilla, better="higher", level=level)
            covered += found.holds(true)
        stderr = (level * (1 - level) / trials) ** 0.5
        assert covered / trials > level - 4 * stderr
        if isfinite(true):
            assert covered / trials < level + 0.1 * (1 - level) + 4 * stderr
