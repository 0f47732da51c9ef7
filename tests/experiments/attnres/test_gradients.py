"""`attnres-gradients`: verdicts turn with what they judge."""

from copy import deepcopy
from dataclasses import replace
from functools import partial
from math import exp

import numpy as np
import pytest

from experiments import catalogue
from experiments.attnres.gradients import RULES, over_last, unevenness
from tests.experiments.committed import committed, failing, verdicts

EXPERIMENT = catalogue.experiment("attnres-gradients")
judged, failed = partial(verdicts, EXPERIMENT), partial(failing, EXPERIMENT)


@pytest.fixture
def stored():
    return committed(EXPERIMENT.name)


def test_theory_holds_in_the_committed_result(stored):
    found = judged(*stored)
    assert set(found.values()) == {"pass"}
    assert sum(name.startswith("read/") for name in found) == len(stored[0]["squares"]) // len(RULES) + 1
    assert sum(name.startswith("even/") for name in found) >= len(RULES)


@pytest.mark.parametrize("rule", ["vanilla", "attnres"])
def test_twice_as_much_at_one_read_fails(stored, rule):
    """PreNorm's is no longer as said, nor are all alike; another's is no longer alike."""
    prediction, measurement = stored
    other = deepcopy(measurement)
    at = f"{rule}/plain/0.03"
    other["squares"][at] = [[*of_seed[:5], 2 * of_seed[5], *of_seed[6:]] for of_seed in other["squares"][at]]
    changed = {name for name, verdict in judged(prediction, other).items() if verdict != "pass"}
    assert "read/alike" in changed
    assert ("read/plain/0.03" in changed) == (rule == "vanilla")
    assert changed - {"read/alike", "read/plain/0.03"} <= {f"even/{other}/plain/0.03" for other in RULES}


def test_a_rule_that_is_as_even_as_prenorm_fails(stored):
    prediction, measurement = stored
    measurement["squares"]["attnres/plain/0.09"] = measurement["squares"]["vanilla/plain/0.09"]
    assert failed(prediction, measurement) == {"read/alike", "even/attnres/plain/0.09"}


@pytest.mark.parametrize("at", ["vanilla/plain/0.09", "attnres/scaled/0.003"])
def test_errors_are_those_of_a_ratio_of_means(stored, at):
    """By leaving out one seed at a time; taking the last read's mean for known misses them."""
    _, measurement = stored
    last = np.array(measurement["squares"]["/".join(["vanilla", *at.split("/")[1:]])])[:, -1]
    reads, seeds = np.array(measurement["squares"][at]), len(last)
    ratios = np.array(over_last(measurement, at))
    assert ratios.mean(1) == pytest.approx(reads.mean(0) / last.mean())
    left = np.array([np.delete(reads, i, 0).mean(0) / np.delete(last, i).mean() for i in range(seeds)])
    jackknife = np.sqrt((seeds - 1) * left.var(0))
    errors, as_if_known = (x.std(axis, ddof=1) / seeds**0.5 for x, axis in ((ratios, 1), (reads / last.mean(), 0)))
    assert errors == pytest.approx(jackknife, rel=0.05, abs=1e-9)
    assert not np.allclose(as_if_known, jackknife, rtol=0.05)


def test_unevenness_is_of_sublayers_and_of_roots():
    assert unevenness([1.0, 1.0, 9.0]) == 0
    assert unevenness([exp(2), exp(-2), 5.0]) == pytest.approx(1)


def test_what_is_shown_is_measured():
    config = EXPERIMENT.profiles["smoke"].config
    with pytest.raises(ValueError, match="measured"):
        replace(config, shown=(0.5, 0.2))
