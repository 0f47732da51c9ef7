"""Committed results against the present source: what it predicts, and what it makes of the stored measurements."""

import json
import re
from pathlib import Path

import pytest

from experiments import catalogue
from experiments.verdicts.checks import judgement, worst
from theory.plans.variants import VARIANTS

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "results"
NAMES = [name for name in catalogue.names() if (RESULTS / name).is_dir()]  # a new experiment has none at first
PAGES = [ROOT / "README.md", *ROOT.glob("theory/*/*.md")]


def test_every_committed_result_is_an_experiment_s_and_complete():
    """And there is one wherever a page shows a figure."""
    assert {path.name for path in RESULTS.iterdir() if path.is_dir()} == set(NAMES)
    files = {"prediction.json", "measurement.json", "summary.json", "figure.svg", "figure.png"}
    assert all({path.name for path in (RESULTS / name).iterdir()} == files for name in NAMES)
    shown = {name for page in PAGES for name in re.findall(r"results/([a-z0-9-]+)/", page.read_text())}
    assert len(shown) >= 8
    assert shown <= set(NAMES)


def stored(name, what):
    return json.loads((RESULTS / name / f"{what}.json").read_text())


@pytest.mark.parametrize("name", NAMES)
def test_verdicts_drawn_again_are_those_committed(name):
    summary = stored(name, "summary")
    checks = catalogue.experiment(name).compare(stored(name, "prediction"), stored(name, "measurement"))
    before = {content["id"]: content for content in summary["checks"]}
    assert {check.id: check.verdict for check in checks} == {i: content["verdict"] for i, content in before.items()}
    assert {check.id: check.claim for check in checks} == {i: content["claim"] for i, content in before.items()}
    assert worst(checks) == summary["verdict"]
    assert all(check.quantity for check in checks)
    assert all(judgement(content).verdict == content["verdict"] for content in before.values())


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
        if abs(new - old) > 1e-9 * max(1.0, abs(old)):
            yield place
    elif not isinstance(new, str) and new != old:
        yield place


@pytest.mark.parametrize("name", NAMES)
def test_the_numbers_predicted_are_those_committed(name):
    """Texts may have been improved, and numbers that nothing read left out; variants may have come since."""
    experiment = catalogue.experiment(name)
    old = stored(name, "prediction")
    new = json.loads(json.dumps(experiment.predict(experiment.profiles["cpu"].config)))
    since = VARIANTS.keys() - old.get("variants", VARIANTS).keys()
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
