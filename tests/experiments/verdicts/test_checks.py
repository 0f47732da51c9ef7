"""A check passes only if it agrees and would have noticed."""

import json
import math
from dataclasses import replace

import pytest

from experiments.verdicts import words
from experiments.verdicts.checks import Check, Expectation, by_group, by_quantity, judgement, undecided, worst
from experiments.verdicts.intervals import Interval


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


def test_what_separates_the_two_legitimately_is_the_interval_and_the_slack():
    about = {"id": "i", "group": "g", "claim": "c", "statement": "s", "predicted": 1.0, "controls": (0.8, 1.2)}
    sampled = Check.sampled(Interval(1.05, 0.01, 0.03), slack=0.05, **about)
    assert (sampled.measured, sampled.stderr, sampled.half_width) == (1.05, 0.01, pytest.approx(0.03))
    assert sampled.tolerance == pytest.approx(0.08)
    exact = Check.exact(slack=0.05, measured=1.06, **about)
    assert (exact.stderr, exact.half_width, exact.tolerance, exact.verdict) == (0.0, 0.0, 0.05, "fail")


def test_an_expectation_of_a_mean_has_intervals_as_its_controls():
    about = {"id": "i", "group": "g", "claim": "c", "statement": "s", "rule": "sign", "predicted": 1.0}
    measured, twin, effect = Interval(1.0, 0.1, 0.3), Interval(0.1, 0.1, 0.2), Interval(0.3, 0.1, 0.2)
    sampled = Expectation.sampled(measured, twin, **about)
    assert (sampled.measured, sampled.stderr, sampled.tolerance) == (1.0, 0.1, 0.3)
    assert sampled.controls == ((0.1, 0.2),)
    assert [Expectation.sampled(measured, *some, **about).verdict for some in ((twin,), (twin, effect), ())] == [
        "agrees",
        "inconclusive",
        "inconclusive",
    ]


@pytest.mark.parametrize(("measured", "verdict"), [(0.95, "pass"), (1.0, "pass"), (1.005, "pass"), (1.05, "fail")])
def test_theory_s_side_of_a_tolerance_is_narrower(measured, verdict):
    """Within 0.1 below the prediction, but only 0.01 above it."""
    assert Check("i", "g", "c", "s", 1.0, measured, 0.0, 0.1, (0.8, 1.2), above=0.01).verdict == verdict


def bound(relation, measured, *, tolerance=0.1, wrong=2.0):
    return replace(check(measured, tolerance=tolerance, controls=(wrong,)), relation=relation)


@pytest.mark.parametrize(
    ("case", "verdict"),
    [
        (bound("at least", 1000.0, wrong=2000.0), "pass"),
        (bound("at least", 0.95), "pass"),
        (bound("at least", 0.85), "fail"),
        (bound("at least", 1000.0), "inconclusive"),  # the wrong bound holds too
        (bound("at most", -1000.0, wrong=-2000.0), "pass"),
        (bound("at most", 1.05, wrong=0.5), "pass"),
        (bound("at most", 1.15, wrong=0.5), "fail"),
        (bound("at most", 1.0, tolerance=0.0, wrong=0.5), "pass"),
        (bound("at most", math.nextafter(1.0, 2.0), tolerance=0.0, wrong=0.5), "fail"),
        *(
            (bound(relation, x), "fail")
            for relation in ("at most", "at least")
            for x in (math.nan, math.inf, -math.inf)
        ),
    ],
)
def test_a_bound_forbids_one_side(case, verdict):
    assert case.verdict == verdict


def test_a_bound_s_tightest_check_is_the_nearest():
    far, near = (bound("at most", x, wrong=-1.0) for x in (0.1, 0.9))
    assert by_group([far, near])["g"] == [near, far]


def test_worst_verdict():
    assert worst([check(1.0)]) == "pass"
    assert worst([check(1.0), check(1.0, controls=())]) == "inconclusive"
    assert worst([check(1.0, controls=()), check(2.0)]) == "fail"


def test_what_is_measured_otherwise_stands_apart():
    """Also in one group."""
    nats, share = replace(check(1.0), quantity="nats"), replace(check(1.1), quantity="share")
    assert by_quantity([nats, share]) == {"nats": {"g": [nats]}, "share": {"g": [share]}}


def test_nothing_compared_is_inconclusive():
    assert worst([]) == "inconclusive"


def test_groups_show_their_tightest_check_first():
    loose, tight, failed = check(1.01), check(1.09), check(1.3)
    assert by_group([loose, tight])["g"] == [tight, loose]
    assert by_group([tight, failed, loose])["g"][0] == failed


@pytest.mark.parametrize(("above", "relation"), [(None, "equal"), (0.5, "equal"), (None, "at least")])
def test_checks_survive_json(above, relation):
    one = Check("i", "g", "c", "s", 1.0, 1.05, 0.01, 0.1, (0.8, 1.2), above, relation, 0.05, "nats")
    assert Check.from_json(json.loads(json.dumps(one.to_json()))) == one
    old = {k: v for k, v in one.to_json().items() if k not in ("relation", "slack", "quantity")}
    assert Check.from_json(old) == replace(one, relation="equal", slack=0.0, quantity="")


def expectation(mean, half_width=0.1, *, rule="sign", predicted=-1.0, controls=((0.0, 0.1),), slack=0.0):
    return Expectation("i", "g", "c", "s", rule, predicted, mean, half_width / 3, half_width, controls, slack)


@pytest.mark.parametrize(
    ("case", "verdict"),
    [
        (expectation(-0.2), "agrees"),
        (expectation(0.2), "contradicts"),
        (expectation(-0.05), "inconclusive"),
        (expectation(math.nan), "inconclusive"),
        (expectation(-0.2, controls=((-0.3, 0.1),)), "inconclusive"),  # the rule sees an effect where there is none
        (expectation(-0.2, controls=()), "inconclusive"),
        (expectation(0.52, rule="size", predicted=0.5), "agrees"),
        (expectation(0.7, rule="size", predicted=0.5), "contradicts"),
        (expectation(0.7, rule="size", predicted=0.5, slack=0.15), "agrees"),
        (expectation(0.4, 0.6, rule="size", predicted=0.5), "inconclusive"),  # wider than what it should tell from none
        (expectation(0.01, 0.02, rule="none", predicted=0.0, slack=0.05, controls=((0.9, 0.02),)), "agrees"),
        (expectation(0.2, 0.02, rule="none", predicted=0.0, slack=0.05, controls=((0.9, 0.02),)), "contradicts"),
        (expectation(0.01, 0.2, rule="none", predicted=0.0, slack=0.05, controls=((0.9, 0.02),)), "inconclusive"),
        (expectation(0.01, 0.02, rule="none", predicted=0.0, slack=0.05, controls=((0.0, 0.02),)), "inconclusive"),
        (expectation(0.2, 0.1, rule="beyond", predicted=0.05, slack=0.05), "agrees"),
        (expectation(-0.2, 0.1, rule="beyond", predicted=-0.05, slack=0.05), "agrees"),
        (expectation(0.02, 0.02, rule="beyond", predicted=0.05, slack=0.05), "contradicts"),  # too little
        (expectation(-0.2, 0.1, rule="beyond", predicted=0.05, slack=0.05), "contradicts"),  # the other side
        (expectation(0.1, 0.06, rule="beyond", predicted=0.05, slack=0.05), "inconclusive"),
        (expectation(0.2, 0.1, rule="beyond", predicted=0.05, slack=0.05, controls=((0.3, 0.1),)), "inconclusive"),
    ],
)
def test_expectations(case, verdict):
    assert case.verdict == verdict
    assert judgement(json.loads(json.dumps(case.to_json(), allow_nan=False))).verdict == verdict


def test_a_contradicted_expectation_is_no_failure():
    assert worst([expectation(0.2), check(1.0)]) == "contradicts"
    assert worst([expectation(0.2), check(2.0)]) == "fail"


def test_a_profile_that_cannot_decide_gives_expectations_no_verdict():
    """Whatever they say; what theory forbids fails there too."""
    for mean in (-0.2, 0.2, -0.05):
        open_ = undecided(expectation(mean))
        assert open_.verdict == judgement(json.loads(json.dumps(open_.to_json()))).verdict == "undecided"
        assert words.verdict(open_.verdict) == "not decided by this profile"
    assert undecided(check(1.0)) == check(1.0)
    assert worst([undecided(expectation(0.2)), check(1.0)]) == "undecided"
    assert worst([undecided(expectation(-0.2)), check(2.0)]) == "fail"


SIZE = expectation(0.6, 0.05, rule="size", predicted=0.5, slack=0.1)


@pytest.mark.parametrize(
    ("case", "only"),
    [
        (SIZE, True),
        (replace(SIZE, measured=0.54), False),
        (replace(SIZE, measured=0.7), False),
        (expectation(0.02, 0.01, rule="none", predicted=0.0, slack=0.05, controls=((0.9, 0.02),)), True),
        (expectation(-0.2), False),
        (replace(check(1.09), slack=0.05), True),
        (replace(check(1.03), slack=0.05), False),
        (replace(check(1.3), slack=0.05), False),
        (check(1.09), False),
    ],
)
def test_what_only_the_slack_holds_is_said(case, only):
    assert case.by_slack_alone is only
    assert ("though the interval excludes it" in words.sentence(case)) is only
    assert ("by slack alone" in words.verdict_of_group([case, case])) is only


@pytest.mark.parametrize(
    ("case", "predicted", "slack", "measured"),
    [
        (expectation(-0.2), "< 0", "", "-0.2 +- 0.1"),
        (expectation(-0.2, predicted=0.7), "> 0", "", "-0.2 +- 0.1"),
        (expectation(-0.2, predicted=0.0), "no sign", "", "-0.2 +- 0.1"),
        (SIZE, "= 0.5", "0.1", "0.6 +- 0.05"),
        (expectation(math.nan), "< 0", "", "none"),
        (expectation(0.2, 0.1, rule="beyond", predicted=-1.0, slack=0.05), "< -0.05", "0.05", "0.2 +- 0.1"),
        (bound("at least", 3.0), ">= 1", "", "3 +- 0.1"),
        (replace(bound("at most", 0.52, tolerance=1e-5), slack=1e-5), "<= 1", "1e-05", "0.52"),
        (replace(check(0.95), slack=0.1, above=1e-9), "= 1", "0.1 below", "0.95"),
    ],
)
def test_columns_mean_what_they_say(case, predicted, slack, measured):
    assert (words.predicted(case), words.slack(case), words.measured(case)) == (predicted, slack, measured)
    assert all(text in words.sentence(case) for text in (case.statement, predicted, measured, case.verdict))


@pytest.mark.parametrize(
    ("case", "why"),
    [
        (expectation(0.2, 0.1, rule="beyond", predicted=0.05, slack=0.05), "all of +0.100 to +0.300 lies beyond +0.05"),
        (
            expectation(0.02, 0.02, rule="beyond", predicted=0.05, slack=0.05),
            "none of +0.000 to +0.040 lies beyond +0.05",
        ),
        (
            expectation(0.1, 0.06, rule="beyond", predicted=-0.05, slack=0.05),
            "none of +0.040 to +0.160 lies beyond -0.05",
        ),
        (
            expectation(0.01, 0.2, rule="none", predicted=0.0, slack=0.05, controls=((0.9, 0.02),)),
            "-0.190 to +0.210 lies partly within 0.05 of 0",
        ),
        (
            expectation(0.01, 0.02, rule="none", predicted=0.0, slack=0.05, controls=((0.0, 0.02),)),
            "the control agrees, too",
        ),
        (expectation(0.2, controls=()), "nothing to compare it with"),
        (expectation(math.nan), "not known of every seed"),
        (undecided(expectation(0.2)), "too few models, or too small"),
        (replace(expectation(0.2), rule="unpredicted"), "nothing is predicted"),
    ],
)
def test_a_verdict_has_a_reason(case, why):
    assert words.because(case) == why
