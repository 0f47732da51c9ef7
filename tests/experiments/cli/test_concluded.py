"""What is concluded from a run, as `run`, `compare`, `claim` and `report` show it; and claims that are not there."""

import json
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from rich.console import Console

from experiments import catalogue
from experiments.cli import main, tables
from experiments.drawing import style
from experiments.experiment.protocol import Profile
from experiments.ledger import verify
from experiments.ledger.claim import Claim
from experiments.ledger.overview import Index, Item
from experiments.verdicts.checks import Check, Expectation
from tests.experiments.report.words import as_words, words

HALF = Claim("made.half", "p", "here", "a half is 0.5", "none", "verified")
HALF.check("it is one half", states=0.5, control=0.6, wrong="0.6")(lambda version: 2 * version == 1)
RESTS = Claim("made.rests", "p", "here", "so is this", "none", "verified", uses=("made.half",))
RESTS.check("it is one half too", states=0.5, control=0.6, wrong="0.6")(lambda version: 2 * version == 1)


@dataclass(frozen=True)
class Config:
    half: float = 0.5


def judgements(half, measured):
    numbers = half, measured, 0.01, 0.05, ((0.0, 0.05),), 0.1
    effect = Expectation("size", "a half", "made.half", "a half is found", "size", *numbers, "halves")
    sign = replace(effect, id="sign", group="its sign", statement="it is positive", rule="sign", slack=0.0)
    at_most = Check("most", "never above one", "made.half", "it is at most one", 1.0, measured, 0.0, 1e-9, (0.1,))
    return [effect, sign, replace(at_most, relation="at most", slack=1e-9, quantity="wholes")]


class Halves:
    """Its interval, 0.6 +- 0.05, excludes a half, and the slack of 0.1 holds it."""

    name, title, kind, claims = "halves", "Halves", "scale", ("made.half",)
    caption = "Nothing: two axes."
    profiles = {  # noqa: RUF012
        "smoke": Profile(config=Config(), seeds=2, seconds=1, detects=None),
        "cpu": Profile(config=Config(), seeds=2, seconds=1, detects="a tenth"),
    }
    judged = staticmethod(judgements)

    def predict(self, config):
        words = {key: f"its {key}" for key in ("assumes", "statistic", "rule", "tuning")}
        return {**words, "half": config.half}

    def measure(self, config, seeds, run):  # noqa: ARG002
        return {"half": 0.6}

    def compare(self, prediction, measurement):
        return self.judged(prediction["half"], measurement["half"])

    def draw(self, prediction, measurement):  # noqa: ARG002
        return style.figure(1)[0]


@pytest.fixture(autouse=True)
def halves(tmp_path, monkeypatch):
    """The experiment; it is all that there is, on claims that are this module's, with a cache of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(verify, "results", lambda _, items, work, *__, **___: {i: work(x) for i, x in items.items()})
    one = Halves()
    for claim in (HALF, RESTS):
        monkeypatch.setattr(claim, "module", __name__)
    monkeypatch.setattr(catalogue, "all_experiments", lambda: {"halves": one})
    monkeypatch.setattr(catalogue, "indexes", list)
    monkeypatch.setattr(catalogue, "answers", dict)
    as_words(monkeypatch)
    monkeypatch.setattr(catalogue, "claims", lambda: {claim.id: claim for claim in (HALF, RESTS)})
    return one


def site():
    """What `crosslayer report` has left, in words."""
    return words((Path("runs") / "site" / "index.html").read_text())


def said(capsys, command, status=0):
    assert main(command.split()) == status
    return capsys.readouterr().out


@pytest.mark.long
def test_a_profile_that_cannot_decide_prints_no_verdict(capsys):
    assert "shows that it runs; decides nothing" in said(capsys, "list")
    out = said(capsys, "run halves --profile smoke --jobs 1")
    assert out.count("not decided by this profile") == 2
    assert "agrees" not in out
    assert "pass" in out
    (found,) = json.loads(said(capsys, "run halves --profile smoke --json"))
    assert found["verdict"] == "undecided"
    assert [c["verdict"] for c in found["checks"]] == ["undecided", "undecided", "pass"]
    shown = said(capsys, "compare")
    assert "halves, profile smoke, 2 seeds: not decided by this profile" in shown
    assert "agrees" not in shown
    assert "found        halves, profile smoke: not decided by this profile" in said(capsys, "claim made.half")
    said(capsys, "report")
    text = site()
    assert "not decided" in text
    assert "This profile shows that it runs; decides nothing." in text
    assert "agrees" not in text.partition("# How to read a verdict")[0]


def test_what_is_exact_fails_there_too(halves, capsys):
    halves.judged = lambda half, measured: judgements(half, measured + 1)
    assert "fail" in said(capsys, "run halves --profile smoke", status=1)


def test_compare_says_first_what_was_asked_and_what_came_out(capsys):
    rows = [" ".join(line.split()) for line in said(capsys, "run halves --profile cpu --jobs 1").splitlines()]
    assert "a half 1 = 0.5 0.1 0.6 +- 0.05 agrees, by slack alone" in rows
    assert "never above one 1 <= 1 1e-09 0.6 pass" in rows
    assert rows.index("halves:") < rows.index("wholes:")
    lines = said(capsys, "compare").splitlines()
    assert lines[0] == "halves, profile cpu, 2 seeds: agrees"
    found = "predicted = 0.5, measured 0.6 +- 0.05 [halves]"
    assert lines[1] == f"  a half is found: agrees (within the slack of 0.1, though the interval excludes it); {found}"
    assert lines[2] == "  it is positive: agrees; predicted > 0, measured 0.6 +- 0.05 [halves]"
    assert lines[3] == "  it is at most one: pass; predicted <= 1, measured 0.6 [wholes]"
    assert lines[4].startswith("  By slack alone: the interval excludes")
    assert lines[5] == "  assumes: its assumes"
    (found,) = json.loads(said(capsys, "compare --json"))
    assert found["verdict"] == "agrees"
    assert [c["quantity"] for c in found["checks"]] == ["halves", "halves", "wholes"]


def test_what_another_version_left_is_shown_as_it_was_concluded(halves, capsys):
    said(capsys, "run halves --profile cpu --jobs 1")
    halves.compare = lambda prediction, measurement: measurement["quarters"]
    assert "halves, profile cpu, 2 seeds: agrees" in said(capsys, "compare")


@pytest.mark.long
def test_nothing_compared_is_inconclusive(halves, capsys):
    """Which is no failure."""
    halves.judged = lambda *_: []
    assert "nothing was compared: inconclusive" in said(capsys, "run halves --profile cpu --jobs 1")
    (found,) = json.loads(said(capsys, "run halves --profile cpu --json"))
    assert found["verdict"] == "inconclusive"
    assert "halves, profile cpu, 2 seeds: inconclusive" in said(capsys, "compare")
    said(capsys, "report")
    assert "Nothing was compared, which is inconclusive." in site()
    assert "# halves [inconclusive] Halves." in site()


def test_unknown_claims_are_refused(halves, capsys, monkeypatch):
    monkeypatch.setattr(halves, "measure", pytest.fail)
    halves.claims = ("made.half", "made.halv")
    assert main(["run", "halves"]) == 2
    says = "halves bears on an unknown ledger entry 'made.halv'; did you mean made.half, made.rests?\n"
    assert capsys.readouterr().err == f"crosslayer: {says}"
    assert main(["claim", "made.halv"]) == main(["verify", "made.halv"]) == 2
    capsys.readouterr()
    with monkeypatch.context() as indexed:
        index = Index("a part", (Item("line 1", "It says.", ("made.half", "made.third")),))
        indexed.setattr(catalogue, "indexes", lambda: [index])
        assert main(["verify"]) == 2
        assert capsys.readouterr().err.endswith("the index of a part names 'made.third', which is no ledger entry\n")
    monkeypatch.setattr(RESTS, "uses", ("nowhere",))
    assert main(["verify"]) == 2
    assert capsys.readouterr().err == "crosslayer: ledger entry made.rests rests on 'nowhere', which is not there\n"


def test_a_check_on_a_claim_that_its_experiment_does_not_name_is_refused(halves, capsys):
    halves.claims = ("made.rests",)
    assert main(["run", "halves", "--jobs", "1"]) == 2
    says = "crosslayer: halves: check 'size' is on 'made.half', but its claims are made.rests\n"
    assert capsys.readouterr().err == says


@pytest.mark.long
def test_a_report_uses_what_is_remembered(capsys, monkeypatch):
    said(capsys, "run halves --profile cpu --jobs 1")

    def report(command="report", status=0):
        said(capsys, command, status)
        return site().partition("# How to read a verdict")[0]

    with monkeypatch.context() as nothing_is_run:
        nothing_is_run.setattr(verify, "results", pytest.fail)
        page = report()
    assert page.count("not verified here, or it did not stand") == page.count("[not checked] ") == 2
    assert page.count("[not checked here]") == 2
    said(capsys, "verify made.half")
    page = report()
    assert "| it is one half | 0.6 | in float64, to a stated tolerance | [holds] control rejected |" in page
    assert page.count("[not checked] ") == 1
    page = report("report --verify")
    assert "not checked" not in page
    assert "| it is one half too |" in page
    with monkeypatch.context() as changed:
        changed.setattr(verify, "definition_digest", lambda *_, **__: "changed")
        assert report().count("changed since it was verified") == 2
    monkeypatch.setattr(verify, "evidence_digest", lambda claim: claim.id if claim is HALF else "as it was")
    said(capsys, "verify --afresh")
    monkeypatch.setattr(verify, "evidence_digest", lambda claim: "changed" if claim is HALF else "as it was")
    assert "rests on made.half: changed since it was verified" in report()
    monkeypatch.setattr(HALF, "evidence", [replace(HALF.evidence[0], states=0.6)])
    assert "evidence fails" in report("report --verify", status=1)


@pytest.mark.parametrize("width", [40, 70, 1000])
def test_a_table_breaks_no_label_and_no_number(width, monkeypatch, capsys):
    """A terminal that is too narrow for the columns gets each row as a label, and its values beneath it."""
    monkeypatch.setattr(tables, "terminal", lambda: Console(width=width))
    tables.print_checks("Halves", judgements(0.5, 0.6))
    lines = capsys.readouterr().out.splitlines()
    table = lines[: next(i for i, line in enumerate(lines) if line.startswith("Each line shows"))]
    whole = "never above one" if width == 1000 else "measured 0.6 +- 0.05"
    assert any(line.strip().startswith("never above one") for line in table)
    assert any(whole in line for line in table)
    assert any("check" in line and "verdict" in line for line in table) is (width == 1000)
    assert width == 1000 or max(map(len, table)) <= width
