"""Committed results against the present source: what it predicts, and what it makes of the stored measurements."""

import json
import math
import re
from functools import cache

import pytest

from experiments import catalogue
from experiments.campaign.pool import FOLDER
from experiments.campaign.question import Question
from experiments.experiment.protocol import figure_files
from experiments.store.folders import RunFolder
from experiments.training.stacks import training_records
from experiments.verdicts.checks import detected, judgement, worst
from tests.experiments.committed import RESULTS, as_stored, committed
from theory.plans.variants import VARIANTS

ROOT = RESULTS.parent
NUMBERS = {"prediction.json", "measurement.json", "summary.json"}
NAMES = [name for name in catalogue.names() if (RESULTS / name / "summary.json").is_file()]  # a new one has none
GROWING = [
    f"{name}/{profile}"
    for name in catalogue.names()
    for profile, about in catalogue.experiment(name).profiles.items()
    if about.grows and (RESULTS / name / profile).is_dir()
]
FINISHED = [*NAMES, *(name for name in GROWING if (RESULTS / name / "summary.json").is_file())]
PAGES = [ROOT / "README.md", *ROOT.glob("theory/*/*.md")]


def files(name):
    """Of a finished result: its numbers and all figures of its experiment."""
    return NUMBERS | set(figure_files(catalogue.experiment(name.partition("/")[0])))


def test_every_committed_result_is_an_experiment_s_and_complete():
    """And there is one wherever a page shows a figure."""
    there = {
        path.name
        for path in RESULTS.iterdir()
        if path.is_dir() and path.name not in ("site", "earlier", "ledger", FOLDER)
    }
    assert there == {name.partition("/")[0] for name in (*NAMES, *GROWING)}
    for name in there:
        growing = {place.partition("/")[2] for place in GROWING if place.startswith(f"{name}/")}
        assert {path.name for path in (RESULTS / name).iterdir()} - growing == (files(name) if name in NAMES else set())
    shown = {name for page in PAGES for name in re.findall(r"results/([a-z0-9-]+)/", page.read_text())} - {"earlier"}
    assert len(shown) >= 8
    assert shown <= set(NAMES)


@pytest.mark.parametrize("name", GROWING)
def test_a_result_that_grows_holds_trainings_and_what_follows_from_them(name):
    """Locks and what a sitting resumes from may lie beside them, and are not committed.  Where all trainings have ended
    there is nothing to go on from.  Those of a question on text lie in the pool."""
    there = {path.name for path in (RESULTS / name).iterdir() if not path.name.startswith((".", "unfinished-"))}
    if name in FINISHED and there == files(name):
        return
    finished = files(name) if name in FINISHED else {"prediction.json"}
    pooled = isinstance(catalogue.experiment(name.partition("/")[0]), Question)
    assert there == {"config.json"} | finished | (set() if pooled else {"metrics.jsonl"})
    run = RunFolder(RESULTS / (FOLDER if pooled else name))
    run.lines("run", loss=float | None)
    lines = training_records(run)
    assert lines
    assert len({line["key"] for line in lines}) == len(lines)


def summary_of(name):
    return json.loads((RESULTS / name / "summary.json").read_text())


@cache
def compared(name):
    """The judgements of a finished result by the present rules."""
    experiment = catalogue.experiment(name.partition("/")[0])
    return tuple(experiment.compare(*committed(name)))


@pytest.mark.parametrize("name", FINISHED)
def test_verdicts_drawn_again_are_those_committed(name):
    summary, checks = summary_of(name), compared(name)
    before = {content["id"]: content for content in summary["checks"]}
    assert {check.id: check.verdict for check in checks} == {i: content["verdict"] for i, content in before.items()}
    assert {check.id: check.claim for check in checks} == {i: content["claim"] for i, content in before.items()}
    assert worst(checks) == summary["verdict"]
    assert all(check.quantity for check in checks)
    assert all(judgement(content).verdict == content["verdict"] for content in before.values())


# How a profile's words name the smallest effect in each quantity, and that effect in the quantity's unit.
TOLD = {
    "share of the signal explained, minus vanilla's": (r"([\d.]+) of the signal", float),
    "share of the signal explained": (r"([\d.]+) of the signal", float),
    "share of the signal explained, difference": (r"(\d+) ?% of the signal", lambda text: int(text) / 100),
    "difference of exponents": (r"(\w+) powers? of the depth", lambda text: 1 if text == "one" else int(text)),
    "log of the ratio of times, minus that of products": (r"a factor of (two) in time", lambda _: math.log(2)),
    "logarithm of a step's seconds over vanilla's, minus that of what is read": (
        r"(\d+) % of the time of a step",
        lambda text: math.log1p(int(text) / 100),
    ),
    "difference of held-out losses at the end, nats per token": (r"([\d.]+) nats per token at the end", float),
    "difference of first held-out losses, nats per token": (r"([\d.]+) at first", float),
    "share of starts, difference": (r"a difference of ([\d.]+) between two shares of starts", float),
    "training loss in nats per token, difference": (r"([\d.]+) nats per token", float),
    "held-out loss in nats per token, minus the mean of two vanillas": (r"([\d.]+) nats per token of a gain", float),
    "best learning rate, doublings": (r"([\d.]+) doublings of the rate", float),
    "mean training loss over ln V, vanilla's less the arm's": (r"([\d.]+) of ln V", float),
    "log2 of the width for 90 %, vanilla's less the arm's": (r"(half) an octave of width", lambda _: 0.5),
    "difference in a mean over layers": (r"([\d.]+) in a mean over layers", float),
    "difference of held-out losses, nats per token": (r"difference of ([\d.]+) nats per token", float),
    "loss minus the other's, nats per token": (r"([\d.]+) nats per token of a paper's loss", float),
}


def unkept(promise, checks):
    """Yield the quantities whose median half-width is larger than the smallest effect that `promise` names."""
    for quantity in sorted({check.quantity for check in checks}):
        measured = detected([check for check in checks if check.quantity == quantity])
        if measured and quantity in TOLD:
            pattern, number = TOLD[quantity]
            promised = re.search(pattern, promise)
            if not promised or number(promised[1]) < measured.size:
                yield quantity


@pytest.mark.parametrize("name", FINISHED)
def test_what_a_profile_promises_to_detect_was_detected(name):
    """Half-widths come from the spread of the result's own seeds."""
    profile = catalogue.experiment(name.partition("/")[0]).profiles[summary_of(name)["profile"]]
    most = detected(compared(name))
    assert most is None or most.quantity in TOLD
    assert not list(unkept(profile.detects, compared(name)))


def test_a_promise_smaller_than_the_half_width_is_seen():
    checks = compared("scale-uptrain")
    first, end = (
        f"difference of {which}, nats per token" for which in ("first held-out losses", "held-out losses at the end")
    )
    assert not list(unkept("0.02 nats per token at the end and 0.1 at first", checks))
    assert list(unkept("0.01 nats per token at the end and 0.1 at first", checks)) == [end]
    assert list(unkept("0.02 nats per token at the end", checks)) == [first]


# A descent towards an infimum at infinity, cut off by its number of steps: another processor's products end elsewhere,
# by 1e-6 of it where this was seen.
LIMITED = frozenset({"enough_heads"})


def differences(new, old, place=()):
    """Places where numbers differ by more than rounding, or than the standard error that stands beside them."""
    if isinstance(new, dict):
        for key, value in new.items():
            error = 6 * (new.get(f"{key}_stderr") or 0) + 6 * (old.get(f"{key}_stderr") or 0)
            if isinstance(value, float) and error:
                if abs(value - old[key]) > error:
                    yield (*place, key)
            elif not key.endswith("_stderr"):
                yield from differences(value, old[key], (*place, key))
    elif isinstance(new, list):
        assert len(new) == len(old), place
        for i, (x, y) in enumerate(zip(new, old, strict=True)):
            yield from differences(x, y, (*place, i))
    elif isinstance(new, float):
        rounding = 1e-5 if LIMITED.intersection(place) else 1e-9
        if abs(new - old) > rounding * max(1.0, abs(old)):
            yield place
    elif not isinstance(new, str) and new != old:
        yield place


@pytest.mark.parametrize("name", FINISHED)
@pytest.mark.long
def test_the_numbers_predicted_are_those_committed(name):
    """Texts may have been improved, and numbers that nothing read left out; variants may have come since."""
    experiment, profile = catalogue.experiment(name.partition("/")[0]), summary_of(name)["profile"]
    old, _ = committed(name)
    new = as_stored(experiment.predict(experiment.profiles[profile].config))
    since = VARIANTS.keys() - {"vanilla", *old.get("variants", VARIANTS)}
    assert not list(differences(without(new, since), old))


def without(content, names):
    """Less what is said of these, by keys that name them, as in "d3-n4-s0.3/svformer/a1"."""
    if not isinstance(content, dict):
        return content
    return {key: without(value, names) for key, value in content.items() if not names & set(key.split("/"))}


def test_what_has_come_since_is_left_out():
    assert without({"a/new/1": 1, "b": {"new": 2, "newer": 3}}, {"new"}) == {"b": {"newer": 3}}


def test_a_changed_number_is_seen():
    assert list(differences({"a": [1.0, {"b": 2.0}]}, {"a": [1.0, {"b": 2.1}]})) == [("a", 1, "b")]
    noisy = {"x": 1.0, "x_stderr": 0.1}
    assert not list(differences(noisy, {"x": 1.5, "x_stderr": 0.1}))
    assert list(differences(noisy, {"x": 2.5, "x_stderr": 0.1})) == [("x",)]
