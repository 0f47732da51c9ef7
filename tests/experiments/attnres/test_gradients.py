"""`attnres-gradients`: verdicts turn with what they judge."""

import json
from copy import deepcopy
from dataclasses import replace
from math import exp
from pathlib import Path

import pytest

from experiments import catalogue
from experiments.attnres.gradients.points import RULES, unevenness

NAME = "attnres-gradients"
RESULTS = Path(__file__).resolve().parents[3] / "results" / NAME
EXPERIMENT = catalogue.experiment(NAME)


@pytest.fixture
def stored():
    return tuple(json.loads((RESULTS / f"{what}.json").read_text()) for what in ("prediction", "measurement"))


def judged(prediction, measurement):
    return {check.id: check.verdict for check in EXPERIMENT.compare(prediction, measurement)}


def test_theory_holds_in_the_committed_result(stored):
    found = judged(*stored)
    assert set(found.values()) == {"pass"}
    assert sum(name.startswith("read/") for name in found) == len(stored[0]["squares"])
    assert sum(name.startswith("even/") for name in found) >= len(RULES)


def test_twice_as_much_at_one_read_fails(stored):
    prediction, measurement = stored
    other = deepcopy(measurement)
    at = "attnres/plain/0.03"
    other["squares"][at] = [[*of_seed[:5], 2 * of_seed[5], *of_seed[6:]] for of_seed in other["squares"][at]]
    changed = {name for name, verdict in judged(prediction, other).items() if verdict != "pass"}
    assert f"read/{at}" in changed <= {f"read/{at}", f"even/{at}"}


def test_a_rule_that_is_as_even_as_prenorm_fails(stored):
    prediction, measurement = stored
    measurement["squares"]["attnres/plain/0.09"] = measurement["squares"]["vanilla/plain/0.09"]
    found = judged(prediction, measurement)
    assert {name for name, verdict in found.items() if verdict == "fail"} == {
        "read/attnres/plain/0.09",
        "even/attnres/plain/0.09",
    }


def test_unevenness_is_of_sublayers_and_of_roots():
    assert unevenness([1.0, 1.0, 9.0]) == 0
    assert unevenness([exp(2), exp(-2), 5.0]) == pytest.approx(1)


def test_what_is_shown_is_measured():
    config = EXPERIMENT.profiles["smoke"].config
    with pytest.raises(ValueError, match="measured"):
        replace(config, shown=(0.5, 0.2))
