"""Every ledger entry stands, is complete, and rests on entries that are there and not on itself."""

import csv
import json
import math
import re
from fractions import Fraction
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from scipy.optimize import _minimize

from experiments import catalogue
from experiments.ledger import verify
from experiments.ledger.claim import Claim, agrees, outcomes
from experiments.ledger.verify import Verification, premises, verifications
from experiments.store.folders import UserError
from experiments.verdicts.intervals import t_interval

LEDGER = catalogue.claims()
RESULTS = Path(__file__).parents[3] / "results"


@pytest.fixture
def descents(monkeypatch):
    """How often a local optimiser of scipy has run so far."""
    runs = []
    for name in ("_minimize_lbfgsb", "_minimize_bfgs", "_minimize_neldermead"):
        own = getattr(_minimize, name)
        monkeypatch.setattr(_minimize, name, lambda *args, own=own, **rest: (runs.append(1), own(*args, **rest))[1])
    return runs


@pytest.mark.long
@pytest.mark.parametrize("name", LEDGER)
def test_entry_stands(name, descents):
    for evidence in LEDGER[name].evidence:
        descents.clear()
        assert evidence.holds(evidence.states), evidence.what
        assert not evidence.holds(evidence.control), f"the control is not rejected: {evidence.what}"
        assert evidence.kind == "descent" or not descents, f"{evidence.what}: a descent, and does not say so"


DECIDES = re.compile(r"(?:Training decides|Trained models decide) (?:it|which are larger) \(([^):]*)")


def test_an_experiment_that_is_said_to_decide_an_entry_bears_on_it():
    pointed = 0
    for claim in LEDGER.values():
        named = set(re.findall(r"[\w-]+", " ".join(DECIDES.findall(claim.correction or ""))))
        for name, experiment in catalogue.all_experiments().items():
            if name in named:
                assert claim.id in experiment.claims, (claim.id, name)
                pointed += 1
    assert pointed > 10


def test_entries_quote_what_was_measured():
    with (RESULTS / "earlier" / "numbers.csv").open() as table:
        (share,) = (
            row for row in csv.DictReader(table) if (row["experiment"], row["id"]) == ("dva-heads", "redundant")
        )
    told = f"by {float(share['measured']):.3f} +- {float(share['half_width']):.3f} a doubling"
    assert told in LEDGER["dva.redundancy"].correction
    seconds = json.loads((RESULTS / "dva-collapse" / "measurement.json").read_text())["seconds"]
    for how, what in (("collapsed", "times the time"), ("blocks", "times")):
        slower, faster = (seconds[f"{form}, {how}"]["2048"] for form in ("initial", "revised"))
        ratio = t_interval([math.log(x / y) for x, y in zip(slower, faster, strict=True)])
        ends = (ratio.mean, ratio.mean - ratio.half_width, ratio.mean + ratio.half_width)
        middle, least, most = map(math.exp, ends)
        assert f"{middle:.1f} {what} ({least:.1f} to {most:.1f})" in LEDGER["dva.initial"].correction


def test_entries_are_complete():
    for claim in LEDGER.values():
        assert claim.statement
        assert claim.place
        assert claim.assumes
        assert len(claim.evidence) >= 2, f"{claim.id} needs two lines of evidence"
        assert claim.correction or claim.verdict == "verified", "what is true instead?"
        assert all(e.wrong for e in claim.evidence)
        assert claim.proof is None or isinstance(claim.proof, ModuleType) or callable(claim.proof)


def test_premises_are_there_and_not_in_a_circle():
    for name, claim in LEDGER.items():
        assert set(premises(claim, LEDGER)) <= set(LEDGER) - {name}


def test_experiments_name_entries_that_exist():
    for name in catalogue.names():
        assert set(catalogue.experiment(name).claims) <= set(LEDGER)


@pytest.fixture
def made(monkeypatch, tmp_path):
    """make(id, holds, uses) puts an entry, about the number 1, into a ledger that is this module's."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(verify, "results", lambda _, items, work, *__, **___: {i: work(x) for i, x in items.items()})
    ledger = {}

    def make(name, holds=lambda version: version == 1, uses=()):
        claim = Claim(name, "p", "here", "s", "none", "verified", uses=uses)
        claim.check("it is one", states=1, control=2, wrong="two")(holds)
        claim.module = __name__
        monkeypatch.setitem(globals(), name.upper(), claim)
        ledger[name] = claim
        return ledger

    return make


def raising(_):
    raise ArithmeticError("no number")


@pytest.mark.parametrize(
    ("holds", "stands"),
    [(lambda v: v == 1, True), (lambda _: True, False), (lambda _: False, False), (raising, False)],
)
def test_a_check_that_cannot_fail_does_not_stand(made, holds, stands):
    ledger = made("x", holds)
    (verification,) = verifications(ledger.values(), ledger)
    assert verification.stands is stands
    assert holds is not raising or verification.outcomes[0].error == "ArithmeticError: no number"


def test_no_evidence_does_not_stand():
    assert not Verification(Claim("x", "p", "here", "s", "none", "open"), (), 0.0).stands


def test_an_entry_falls_with_its_premises(made):
    made("near", uses=("far",))
    made("apart")
    made("top", uses=("near",))
    ledger = made("far", lambda _: True)
    found = {v.claim.id: v for v in verifications([ledger["top"], ledger["apart"]], ledger)}
    assert found["top"].holds
    assert not found["top"].stands
    assert found["top"].fallen == ("far",)
    assert found["apart"].stands


def test_circles_are_refused(made):
    made("b", uses=("a",))
    ledger = made("a", uses=("b",))
    with pytest.raises(UserError, match="circle: b -> a -> b"):
        verifications(ledger.values(), ledger)


def test_what_stood_is_remembered_until_its_source_changes(made, monkeypatch, tmp_path):
    runs = []
    ledger = made("a", lambda v: runs.append(v) or v == 1)
    made("b", lambda v: runs.append(v) or True)
    first = verifications(ledger.values(), ledger)
    assert [v.remembered for v in first] == [False, False]
    del runs[:]
    again = verifications(ledger.values(), ledger)
    assert [v.remembered for v in again] == [True, False]  # what fell is run again
    assert again[0].outcomes == first[0].outcomes
    assert runs == [1, 2]
    assert not any(v.remembered for v in verifications(ledger.values(), ledger, afresh=True))
    monkeypatch.setattr(verify, "definition_digest", lambda *_, **__: "changed")
    assert not any(v.remembered for v in verifications(ledger.values(), ledger))
    assert verifications([ledger["a"]], ledger)[0].remembered
    memory = tmp_path / "crosslayer" / "ledger.json"
    for damage in ("", "[]", "null", '{"a": 1}', json.dumps({"a": {"digest": "x", "outcomes": [1], "seconds": 0}})):
        memory.write_text(damage)
        assert not verifications([ledger["a"]], ledger)[0].remembered


# Checks that compute a number or yield conditions are judged as those that return true or false.


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
