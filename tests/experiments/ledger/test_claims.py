"""Every ledger entry stands, is complete, and rests on entries that are there and not on itself."""

import csv
import json
import math
import re
from pathlib import Path
from types import ModuleType

import pytest
from scipy.optimize import _minimize

from experiments import catalogue
from experiments.ledger import fates, verify
from experiments.ledger.claim import Claim
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


@pytest.fixture(scope="module")
def altered():
    """Return ids of entries that stood when what they judge was altered, at this very source, with these libraries."""
    return set(fates.known_fates(list(LEDGER.values()), LEDGER, RESULTS / "ledger"))


def check_stands(name, descents):
    for evidence in LEDGER[name].evidence:
        descents.clear()
        assert evidence.holds(evidence.states), evidence.what
        assert not evidence.holds(evidence.control), f"the control is not rejected: {evidence.what}"
        assert evidence.kind == "descent" or not descents, f"{evidence.what}: a descent, and does not say so"


@pytest.mark.parametrize("name", LEDGER)
def test_entry_stands(name, altered, descents):
    if name in altered:
        pytest.skip("nothing has changed since what the entry judges was altered: `make test-long` runs it")
    check_stands(name, descents)


@pytest.mark.long
@pytest.mark.parametrize("name", LEDGER)
def test_entry_that_was_altered_stands(name, altered, descents):
    if name not in altered:
        pytest.skip("`make test` runs it")
    check_stands(name, descents)


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


@pytest.mark.parametrize(("uses", "says"), [(("b",), "circle: b -> a -> b"), (("c",), "'c', which is not there")])
def test_circles_and_unknown_premises_are_refused(made, uses, says):
    made("b", uses=("a",))
    ledger = made("a", uses=uses)
    with pytest.raises(UserError, match=says):
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
    monkeypatch.setattr(verify, "source_digest", lambda *_: "changed")
    assert not any(v.remembered for v in verifications(ledger.values(), ledger))
    assert verifications([ledger["a"]], ledger)[0].remembered
    memory = tmp_path / "crosslayer" / "ledger.json"
    for damage in ("", "[]", "null", '{"a": 1}', json.dumps({"a": {"digest": "x", "outcomes": [1], "seconds": 0}})):
        memory.write_text(damage)
        assert not verifications([ledger["a"]], ledger)[0].remembered
