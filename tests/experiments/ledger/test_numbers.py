"""Checks that compute a number or yield conditions are judged as those that return true or false."""

from fractions import Fraction

import numpy as np
import pytest

from experiments.ledger.claim import Claim, agrees, outcomes


@pytest.fixture
def claim():
    return Claim("x", "p", "here", "s", "none", "verified")


@pytest.mark.parametrize(
    ("number", "expected", "slack", "near"),
    [
        (Fraction(1, 3), Fraction(1, 3), {}, True),
        (0.1 + 0.2, 0.3, {}, False),
        (0.1 + 0.2, 0.3, {"within": 1e-12}, True),
        (1.001e6, 1e6, {"within": 1.0}, False),
        (1.001e6, 1e6, {"relative": 1e-2}, True),
        (float("nan"), 1.0, {"within": 1.0}, False),
        ((1, 2), [1, 2], {}, True),
        ([1, 2, 3], (1, 2), {}, False),
        ({3, 1}, {1, 3}, {}, True),
        (np.arange(3), np.arange(3), {}, True),
        (np.arange(3), np.array([0, 1, 3]), {}, False),
        (np.ones(3), 1.0, {}, False),
        ({"a": 1, "b": 2}, {"b": 2}, {}, True),
        ({"a": 1, "b": 2}, {"b": 3}, {}, False),
        (iter([("a", 1)]), {"a": 1}, {}, True),
        ({2: 4, 3: 9}, lambda k: k * k, {}, True),
        ({2: 4, 3: 8}, lambda k: k * k, {}, False),
        (iter([((2, 3), 6.1)]), lambda a, b: a * b, {"within": 0.2}, True),
        ({}, lambda k: k * k, {}, False),
        ({"a": {2: 4}}, {"a": lambda k: k * k}, {}, True),
    ],
)
def test_numbers_agree_if_equal_or_near(number, expected, slack, near):
    assert agrees(number, expected, **slack) is near


def test_a_name_that_was_not_computed_is_an_error():
    with pytest.raises(KeyError):
        agrees({"a": 1}, {"b": 1})


@pytest.mark.parametrize(
    ("expected", "more", "kind"),
    [
        (3, {}, "exact"),
        (Fraction(1, 3), {}, "exact"),
        (["a", {1, 2}], {}, "exact"),
        ((1, 0.5), {}, "float64"),
        (np.ones(2), {}, "float64"),
        (3, {"within": 0.1}, "float64"),
        (3, {"kind": "sampled"}, "sampled"),
        (lambda k: k, {}, "exact"),
    ],
)
def test_the_kind_follows_from_the_number(claim, expected, more, kind):
    claim.row("it is", expected, lambda: expected, control=None, wrong="nothing", **more)
    assert claim.evidence[0].kind == kind


@pytest.mark.parametrize(("right", "wrong", "ok"), [(4, 5, True), (5, 4, False), (4, 4, False)])
def test_the_number_is_computed_for_both_sides(claim, right, wrong, ok):
    @claim.number("two squared", right, control=wrong, wrong="one more", others={"nothing": 0})
    def squared():
        return 2 * 2

    assert [line.ok for line in outcomes(claim)] == [ok, right == 4]
    assert [line.wrong for line in claim.evidence] == ["one more", "nothing"]
    assert {line.holds.__module__ for line in claim.evidence} == {__name__}
    assert claim.evidence[0].holds.__name__ == "squared"
    assert squared() == 4


@pytest.mark.parametrize(
    ("conditions", "holds"), [([True, 1], True), ([True, False], False), ([], False), ([0], False)]
)
def test_conditions_have_to_be_there_and_to_hold(claim, conditions, holds):
    @claim.check("some", states=conditions, control=[], wrong="none")
    def yielded(version):
        yield from version

    (line,) = outcomes(claim)
    assert (line.holds, line.control_rejected) == (holds, True)


def test_nothing_is_judged_after_a_condition_that_does_not_hold(claim):
    seen = []

    @claim.check("some", states=1, control=2, wrong="two")
    def yielded(version):
        yield version == 1
        seen.append(version)
        yield True

    assert outcomes(claim)[0].ok
    assert seen == [1]
