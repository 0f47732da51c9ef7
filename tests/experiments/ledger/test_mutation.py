"""A sound entry falls with whatever it judges, a tautological one does not, and nothing altered is left behind."""

import importlib
import sys
from functools import partial
from pathlib import Path

import pytest

from experiments import catalogue, runs
from experiments.cli import main
from experiments.experiment.execution import committed_results
from experiments.ledger import alterations, fates, mutation
from experiments.ledger.claim import at
from experiments.ledger.mutation import mutations
from experiments.ledger.verify import premises
from experiments.store import sources
from experiments.store.backends import Serial
from experiments.store.folders import UserError
from experiments.toys.exempt import UNJUDGED

FORMULAS = """
from dataclasses import dataclass
from functools import cache


@dataclass(frozen=True)
class Sides:
    long: int
    short: int


def sides(of):
    return Sides(2 * of, of)


@cache
def area(of: int) -> int:
    return sides(of).long * sides(of).short


def perimeter(of: int) -> int:
    return 2 * (sides(of).long + sides(of).short)


def endless(of):
    while of != 3:
        of = steps(of)
    return of


def steps(of):
    return of + 1


def never_called():
    return 1


def cut(of):
    return min(tenths(of), 4)


def tenths(of):
    return of
"""
CLAIMS = """
from experiments.ledger.claim import Claim
from icl.models.decoder import Decoder
from made_up import formulas
from made_up.formulas import area, cut, perimeter
from theory.plans.accounting import total_parameters
from theory.plans.names import resolve
from theory.plans.presets import llama

SIZES = llama(d_model=4, n_heads=1, n_layers=2, d_ff=2, vocab=3, context=2)
COUNT = total_parameters(SIZES, resolve("vanilla", SIZES.shape))


def claim(name, holds, **more):
    entry = Claim(name, "p", "here", "s", "none", "verified", **more)
    entry.check("it is so", states=0, control=1, wrong="one more")(holds)
    return entry


WHOLE = claim("made.sound", lambda more: all(area(k) == 2 * k * k + more for k in (1, 2, 3)))
SAME = claim("made.tautology", lambda more: area(4) == area(4) + more)
ONCE = claim("made.once", lambda more: area(1) == 2 + more)
RESTS = claim("made.rests", SAME.evidence[0].holds, uses=("made.sound",))
REASONS = {area: "both sides have it", formulas.sides: "so too", formulas.never_called: "nor this"}
EXCUSED = claim("made.excused", SAME.evidence[0].holds, unjudged=REASONS)
HELD = claim("made.held", lambda more: True)
HELD.evidence.clear()
HELD.check("both", states=(area, perimeter), control=(perimeter, area), wrong="each other's")(
    lambda version: all((version[0](k), version[1](k)) == (2 * k * k, 6 * k) for k in (1, 4))
)
CONTROLLED = claim("made.controlled", lambda more: area(4) == 32 if more == 0 else perimeter(4) == 32)
SMALL = claim("made.small", lambda more: [cut(k) for k in (1, 2, 5)] == [1 + more, 2, 4])
LOOSELY = claim("made.loosely", lambda more: cut(1) == 1 + more and 2 <= cut(2) < 3 and cut(5) == 4)
LOOP = claim("made.loop", lambda more: formulas.endless(1) == 3 + more)
WRONG = claim("made.wrong", lambda more: False)
def twice(of):
    return 2 * of


def beside(more):
    return thrice(3) == 9 + more


def thrice(of):
    return twice(of) + of


BESIDE = claim("made.beside", beside)


def built(more):
    model = Decoder(SIZES, resolve("vanilla", SIZES.shape))
    return sum(p.numel() for p in model.parameters()) == total_parameters(SIZES, model.plan) + more


def counted(more):
    return total_parameters(SIZES, resolve("vanilla", SIZES.shape)) == COUNT + more


BUILT = claim("made.built", built)
COUNTED = claim("made.counted", counted)
NOTHING = claim("made.nothing", lambda more: 1 == 1 + more)
"""


@pytest.fixture
def ledger(tmp_path, monkeypatch):
    """Of a package that is on the path; its entries are judged in this process and its children."""
    for name, text in (("__init__", ""), ("formulas", FORMULAS), ("claims/__init__", ""), ("claims/ledger", CLAIMS)):
        path = tmp_path / "made_up" / f"{name}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    remembered = (sources.path_of, sources.tree_of, sources._code, sources._imports)
    importlib.invalidate_caches()
    claims = [x for x in vars(importlib.import_module("made_up.claims.ledger")).values() if hasattr(x, "evidence")]
    monkeypatch.setattr(mutation, "DEADLINE", 0.2)
    monkeypatch.setattr(mutation, "results", partial(mutation.results, backend=Serial()))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for claim in claims:
        claim.module = "made_up.claims.ledger"
    yield {claim.id: claim for claim in claims}
    for name in [name for name in sys.modules if name.partition(".")[0] == "made_up"]:
        del sys.modules[name]
    for function in remembered:
        function.cache_clear()


def of(ledger, name, unjudged=()):
    (found,) = mutations([ledger[name]], ledger, dict(unjudged))
    return found


def lines():
    """What is remembered."""
    return mutation.RunFolder(mutation.cache() / "mutation").lines("claim")


def survivors(found):
    return {function.removeprefix("made_up.formulas."): how for function, how in found.survivors.items()}


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("made.sound", 9),  # four of `sides`, and `area` as its `perimeter` too
        ("made.once", 5),  # one point does not see a constant, which alters nothing there
        ("made.controlled", 6),  # `perimeter` as `area` is one, as the control then holds; what only it meets is none
        ("made.small", 8),
        ("made.held", 14),  # what a check holds in its version is altered too
    ],
)
@pytest.mark.long
def test_a_sound_entry_falls_with_everything(ledger, name, count):
    found = of(ledger, name)
    assert (found.survivors, found.unexcused, found.altered) == ({}, {}, count)


@pytest.mark.long
def test_a_worker_knows_nothing_but_the_entry(ledger, monkeypatch):
    monkeypatch.setattr(ledger["made.sound"], "module", "")  # as it is where no catalogue has been asked
    assert mutation.mutate(mutation.Entry("made_up.claims.ledger", "made.sound"))["fates"]


@pytest.mark.long
def test_a_tautology_survives(ledger):
    found = of(ledger, "made.tautology")
    assert survivors(found) == {"area": ["x 1.05", "+ 1", "perimeter"], "sides": ["x 1.05", "+ 1"]}
    assert found.unexcused == found.survivors
    assert "made_up.formulas.never_called" not in found.survivors


@pytest.mark.usefixtures("ledger")
@pytest.mark.long
def test_what_is_wrong_from_a_size_on_is_noticed_there_alone():
    """A check at 5 that does not see `tenths` there leaves it unnoticed from 2 on, whatever it sees below."""
    found = mutation.mutate(mutation.Entry("made_up.claims.ledger", "made.loosely"))["fates"]["made_up.formulas.tenths"]
    assert found == {"x 1.05": "falls", "+ 1": "falls", "constant": "falls", "x 1.05 for large of": "stands"}


def test_of_a_built_decoder_what_a_check_calls_itself_is_judged(ledger):
    """And of a check that builds none, all of the vocabulary that it reaches."""
    called = {}
    for name in ("made.built", "made.counted"):
        modules = mutation._evidence_modules(mutation.Entry("made_up.claims.ledger", name))
        judged = alterations.functions(module for module in modules if mutation._is_theory(module.__name__))
        (line,) = mutation._calls(ledger[name].evidence, judged, modules)
        assert line["ok"]
        called[name] = {function.removeprefix("theory.plans.") for function in line["called"]}
    own = {"accounting.total_parameters", "names.resolve"}
    assert called["made.built"] == own
    assert called["made.counted"] > own | {"accounting.parameters", "mix.v", "plan.plan"}


@pytest.mark.long
def test_what_a_premise_notices_is_no_survivor(ledger):
    found = of(ledger, "made.rests")
    assert not found.survivors
    assert (found.altered, found.with_premises) == (7, 7)


@pytest.mark.long
def test_what_a_premise_notices_is_not_run_again(ledger, monkeypatch):
    """Until it no longer does."""
    ran = []
    real = mutation._fates_of

    def counted(function, altered, **more):
        ran.extend(altered)
        return real(function, altered, **more)

    monkeypatch.setattr(mutation, "_fates_of", counted)
    of(ledger, "made.sound")
    of_premise, ran[:] = list(ran), []
    of(ledger, "made.rests")
    assert (len(of_premise), ran) == (9, [])
    ledger["made.rests"].uses = ()
    assert of(ledger, "made.rests").survivors == of(ledger, "made.tautology").survivors
    assert len(ran) == 14  # as `made.tautology` too
    assert len(lines()) == 3


def test_premises_are_altered_first(ledger):
    ledger["made.once"].uses = ("made.rests", "made.small")
    assert mutation._levels(["made.once", "made.rests", "made.small", "made.sound"], ledger) == [
        ["made.small", "made.sound"],
        ["made.rests"],
        ["made.once"],
    ]


@pytest.mark.long
def test_an_excuse_is_shown_with_its_reason(ledger):
    found = of(ledger, "made.excused")
    assert found.survivors.keys() == found.excused.keys()
    assert set(found.excused["made_up.formulas.area"].values()) == {"both sides have it"}
    assert not found.unexcused
    assert found.stale == {"made_up.formulas.never_called": "nor this"}
    unjudged = {sys.modules["made_up.formulas"].area: "of no use", sum: "no function of ours"}
    assert of(ledger, "made.tautology", unjudged).excused == {
        "made_up.formulas.area": dict.fromkeys(("x 1.05", "+ 1", "perimeter"), "of no use")
    }


@pytest.mark.long
def test_what_does_not_end_has_fallen(ledger):
    found = of(ledger, "made.loop")
    assert survivors(found) == {"steps": ["+ 1"]}
    assert found.overdue == 3


def test_what_does_not_stand_is_refused(ledger):
    with pytest.raises(UserError, match=r"made.wrong does not stand as it is: run `crosslayer verify made.wrong`"):
        of(ledger, "made.wrong")


@pytest.mark.long
def test_what_was_found_is_remembered_until_something_changes(ledger, monkeypatch):
    done = []
    real = mutation.mutate

    def counted(entry, desk=None):
        done.append(entry[1])
        return real(entry, desk)

    monkeypatch.setattr(mutation, "mutate", counted)
    first = of(ledger, "made.rests")
    assert (of(ledger, "made.rests"), of(ledger, "made.sound").altered) == (first, 9)
    assert done == ["made.sound", "made.rests"]
    mutations([ledger["made.sound"]], ledger, {}, afresh=True)
    assert done == ["made.sound", "made.rests", "made.sound"]
    monkeypatch.setattr(fates, "evidence_digest", lambda *_: "of other source")
    of(ledger, "made.once")
    of(ledger, "made.sound")
    assert done[3:] == ["made.once", "made.sound"]
    assert sorted(line["key"].split()[0] for line in lines()) == ["made.once", "made.rests", "made.sound"]


@pytest.mark.long
def test_what_is_committed_need_not_be_found_again(ledger, monkeypatch, tmp_path):
    first = of(ledger, "made.rests")
    of(ledger, "made.tautology")
    folder, kept, every = mutation.RunFolder(mutation.cache() / "mutation"), tmp_path / "kept", list(ledger.values())
    assert len(folder.metrics()) == 3
    assert fates.keep_fates(every, ledger, {}, kept) == 2  # not what is survived without a reason
    folder.keep_metrics([])
    assert fates.keep_fates(every, ledger, {}, kept) == 2  # what is kept there is known
    monkeypatch.setattr(mutation, "mutate", lambda *_: pytest.fail("it was known"))
    known = partial(mutations, ledger=ledger, unjudged={}, known=kept)
    assert known([ledger["made.rests"]]) == [first]
    assert set(fates.known_fates(every, ledger, kept)) == {"made.rests", "made.sound"}
    folder.keep_metrics([])
    monkeypatch.setattr(fates, "evidence_digest", lambda *_: "of other source")
    assert fates.known_fates(every, ledger, kept) == {}
    with pytest.raises(pytest.fail.Exception):
        known([ledger["made.rests"]])


@pytest.mark.parametrize("source", [False, True])
@pytest.mark.long
def test_nothing_that_is_committed_survives_without_a_reason(source):
    """Of the entries of whose evidence nothing has changed since."""
    ledger, known = catalogue.claims(), committed_results() / "ledger"
    there = fates.known_fates(list(ledger.values()), ledger, known, source=source)
    whole = [ledger[i] for i in there if {*premises(ledger[i], ledger)} <= there.keys()]
    for claim in whole:
        resting = [there[i] for i in premises(claim, ledger)]
        found = fates.judged_fates(claim, there[claim.id], resting, UNJUDGED, source=source)
        assert not found.unexcused, claim.id


def test_what_did_not_stand_is_tried_again(ledger):
    for _ in range(2):
        with pytest.raises(UserError, match="does not stand"):
            of(ledger, "made.wrong")
    assert len(lines()) == 1


def test_nothing_is_left_behind(ledger):
    formulas = sys.modules["made_up.formulas"]
    before = {name: f.__code__ for name, f in alterations.functions([formulas]).items()}
    of(ledger, "made.tautology")
    assert {name: f.__code__ for name, f in alterations.functions([formulas]).items()} == before
    assert formulas.area(3) == 18


@pytest.mark.long
def test_the_command_shows_survivors_and_excuses(ledger, monkeypatch, capsys):
    monkeypatch.setattr(catalogue, "claims", lambda: ledger)
    assert main(["verify", "--mutate", "made.sound", "made.excused", "made.nothing"]) == 0
    out = capsys.readouterr().out
    assert "ok   made.sound  (9 alterations)" in out
    assert "ok   made.nothing  (its checks call nothing of `theory`)" in out
    assert "made_up.formulas.area: both sides have it [made.excused]" in out
    assert "made_up.formulas.never_called: nor this [made.excused]" in out.partition("though nothing")[2]
    assert "3 of 3 entries fall with what they judge" in out
    assert main(["verify", "--mutate", "made.tautology"]) == 1
    assert "survives made_up.formulas.area: x 1.05, + 1, perimeter" in capsys.readouterr().out
    assert main(["verify", "--mutate", "made.tautology", "--json"]) == 1
    assert '"ok": false' in capsys.readouterr().out
    assert main(["verify", "--mutate", "--afresh", "made.sound", "--keep", "kept"]) == 0
    assert set(fates.known_fates(list(ledger.values()), ledger, Path("kept"))) >= {"made.sound", "made.excused"}
    assert main(["verify", "made.sound", "--keep", "kept"]) == 2
    assert "--keep is for what --mutate finds" in capsys.readouterr().err
    assert main(["verify", "made.sound", "--minutes", "1"]) == 2
    assert "--minutes is how long --mutate may take" in capsys.readouterr().err


@pytest.mark.long
def test_what_is_known_when_time_is_up_is_kept(ledger, monkeypatch, capsys):
    monkeypatch.setattr(catalogue, "claims", lambda: ledger)
    assert main(["verify", "--mutate", "made.sound"]) == 0
    line = ["verify", "--mutate", "made.sound", "made.excused", "--keep", "part", "--minutes"]
    assert main([*line, "1e-9"]) == 0
    assert "time is up: altering what entries judge: 1 of 2 are finished" in capsys.readouterr().err
    assert set(fates.known_fates(list(ledger.values()), ledger, Path("part"))) == {"made.sound"}
    assert main([*line, "60"]) == 0
    assert set(fates.known_fates(list(ledger.values()), ledger, Path("part"))) >= {"made.sound", "made.excused"}


@pytest.mark.slow
def test_every_entry_falls_with_what_it_judges():
    assert not {found.claim.id: found.unexcused for found in runs.mutate() if found.unexcused}


@pytest.mark.long
def test_the_source_of_a_proof_is_altered(ledger, monkeypatch):
    """A private function's, too; a check at one point misses places that checks at three do not."""
    formulas = sys.modules["made_up.formulas"]
    for name in ("made.sound", "made.tautology"):
        monkeypatch.setattr(ledger[name], "proof", formulas)
    (sound,) = mutations([ledger["made.sound"]], ledger, {}, source=True)
    assert sound.altered
    assert not sound.survivors
    (tautology,) = mutations([ledger["made.tautology"]], ledger, {}, source=True)
    assert "made_up.formulas.area" in tautology.survivors
    (nothing,) = mutations([ledger["made.nothing"]], ledger, {}, source=True)
    assert not nothing.altered


def test_among_claims_the_proof_alone_is_altered(ledger, monkeypatch):
    claims = sys.modules["made_up.claims.ledger"]
    monkeypatch.setattr(ledger["made.beside"], "proof", claims.twice)
    found = mutation.mutate_source(mutation.Entry("made_up.claims.ledger", "made.beside"))["fates"]
    assert found.keys() == {"made_up.claims.ledger.twice"}


@pytest.mark.long
def test_a_place_in_a_source_is_excused(ledger, monkeypatch):
    """By the expression, which excuses every alteration of it, or by one alteration; what excuses nothing is named."""
    formulas, claim = sys.modules["made_up.formulas"], ledger["made.tautology"]
    monkeypatch.setattr(claim, "proof", formulas)
    places = {
        at(formulas.sides, "2 * of"): "why not",
        at(formulas.area, "sides(of).long * sides(of).short -> sides(of).long / sides(of).short"): "or so",
        at(formulas.area, "sides(of).long"): "not altered",
        formulas.perimeter: "a function, of which results are altered",
    }
    monkeypatch.setattr(claim, "unjudged", places)
    (found,) = mutations([claim], ledger, {}, source=True)
    assert [sorted(set(why.values())) for why in found.excused.values()] == [["why not"], ["or so"]]
    assert len(found.excused["made_up.formulas.sides"]) == 2
    assert not found.unexcused
    assert found.stale == {"made_up.formulas.area: sides(of).long": "not altered"}
    assert of(ledger, "made.tautology").stale == {"made_up.formulas.perimeter": places[formulas.perimeter]}


@pytest.mark.long
def test_a_reason_that_one_entry_needs_is_not_stale(ledger):
    reasons = {sys.modules["made_up.formulas"].area: "both sides have it"}
    claims = [ledger["made.tautology"], ledger["made.sound"]]
    for claim in claims:
        claim.unjudged = reasons
    done = mutations(claims, ledger, {})
    assert [found.stale.keys() for found in done] == [set(), {"made_up.formulas.area"}]
    assert not fates.stale(done)
    assert fates.stale(done[1:]) == {"made_up.formulas.area": "both sides have it"}


def test_sizes_that_grow_together_are_one():
    calls = [frozenset({"d": d, "width": 2 * d, "n": n, "rank": 1}.items()) for d in (1, 2, 3) for n in (1, 4)]
    met = mutation._met(calls)
    assert {name: values for name, values in met.items() if len(values) > 1} == {"d": [1, 2, 3], "n": [1, 4]}
