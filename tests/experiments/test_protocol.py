"""A check passes only if it agrees and would have noticed; intervals cover what they say."""

import json
import math

import numpy as np
import pytest

from experiments.protocol import Check, by_group, worst
from experiments.statistics import t_interval


def check(measured, *, tolerance=0.1, controls=(0.8, 1.2)):
    return Check("i", "g", "c", "s", 1.0, measured, 0.0, tolerance, controls)


@pytest.mark.parametrize(
    ("case", "verdict"),
    [
        (check(1.05), "pass"),
        (check(1.11), "fail"),
        (check(0.95), "pass"),
        (check(math.nan), "fail"),
        (check(1.0, tolerance=math.nan), "fail"),
        (check(1.0, tolerance=0.3), "inconclusive"),
        (check(1.05, tolerance=0.2, controls=(1.2,)), "inconclusive"),
        (check(1.0, controls=()), "inconclusive"),
        (check(1.0, tolerance=0.0), "pass"),
    ],
)
def test_verdicts(case, verdict):
    assert case.verdict == verdict


@pytest.mark.parametrize(("measured", "verdict"), [(0.95, "pass"), (1.0, "pass"), (1.005, "pass"), (1.05, "fail")])
def test_theory_s_side_of_a_tolerance_is_narrower(measured, verdict):
    """Within 0.1 below the prediction, but only 0.01 above it."""
    assert Check("i", "g", "c", "s", 1.0, measured, 0.0, 0.1, (0.8, 1.2), above=0.01).verdict == verdict


def test_worst_verdict():
    assert worst([check(1.0)]) == "pass"
    assert worst([check(1.0), check(1.0, controls=())]) == "inconclusive"
    assert worst([check(1.0, controls=()), check(2.0)]) == "fail"


def test_groups_show_their_tightest_check_first():
    loose, tight, failed = check(1.01), check(1.09), check(1.3)
    assert by_group([loose, tight])["g"] == [tight, loose]
    assert by_group([tight, failed, loose])["g"][0] == failed
    assert worst([]) == "pass"


@pytest.mark.parametrize("above", [None, 0.5])
def test_checks_survive_json(above):
    one = Check("i", "g", "c", "s", 1.0, 1.05, 0.01, 0.1, (0.8, 1.2), above)
    assert Check.from_json(json.loads(json.dumps(one.to_json()))) == one


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
