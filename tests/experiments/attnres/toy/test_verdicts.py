"""`attnres-toy`: a run from end to end; what must hold holds, what is falsified fails, expectations turn."""

import json
import math
from copy import deepcopy

import pytest

from experiments.attnres.toy.experiment import differences, exponents, interval
from experiments.attnres.toy.toys import BASELINE, NETWORKS, TWIN, cell
from experiments.cli import main
from experiments.drawing import style
from experiments.store.folders import RunFolder
from tests.experiments.attnres.toy.made_up import EXPERIMENT, SMOKE, measured


@pytest.fixture(scope="module")
def prediction():
    return json.loads(json.dumps(EXPERIMENT.predict(SMOKE)))


@pytest.fixture
def measurement(prediction):
    return measured(prediction)


def judged(prediction, measurement):
    return {check.id: check.verdict for check in EXPERIMENT.compare(prediction, measurement)}


def test_smoke_from_end_to_end(tmp_path, prediction):
    assert main(["run", EXPERIMENT.name, "--profile", "smoke", "--jobs", "1", "--out", str(tmp_path)]) == 0
    (folder,) = (tmp_path / EXPERIMENT.name).glob("smoke-*")
    run = RunFolder(folder)
    assert run.read("prediction.json") == prediction
    found, summary = run.read("measurement.json"), run.read("summary.json")
    assert set(found["trained"]) == {
        cell(name, depth) for name in (*NETWORKS, TWIN) for depth in (*SMOKE.trained_depths, SMOKE.deeper)
    }
    assert {check["claim"] for check in summary["checks"]} == set(EXPERIMENT.claims)
    assert not any(check["verdict"] in ("fail", "contradicts") for check in summary["checks"])
    assert (folder / "figure.png").stat().st_size > 10_000


def test_what_agrees_with_theory_passes(prediction, measurement):
    found = judged(prediction, measurement)
    theory = {name: verdict for name, verdict in found.items() if not name.startswith(("exponent", "diverged"))}
    assert set(theory.values()) == {"pass"}
    assert len(theory) == len(prediction["start"]) + 3 * len(prediction["deep"])
    assert found["diverged/3"] == found["diverged/3/head"] == "agrees"
    wide = {verdict for name, verdict in found.items() if name.startswith("exponent/three")}
    assert wide == {"agrees"}
    usual = {verdict for name, verdict in found.items() if name.startswith("exponent/as they come")}
    assert usual == {"inconclusive"}


@pytest.mark.parametrize(
    ("what", "at", "alter", "failing"),
    [
        ("squares", "descent/vanilla/4/context", lambda of: [1.1 * x for x in of], "start/descent/vanilla/4/context"),
        ("squares", "random/attnres/2/query", lambda of: [0.9 * x for x in of], "start/random/attnres/2/query"),
        (
            "answers",
            "d5-n8-s2.0/4",
            lambda of: [{**x, "depth": x["residual"]} for x in of],
            "gain/d5-n8-s2.0/4",
        ),
        (
            "answers",
            "d5-n8-s2.0/3",
            lambda of: [{what: x[what] + 1 for what in x} for x in of],
            "loss/depth/d5-n8-s2.0/3",
        ),
    ],
)
def test_what_is_measured_otherwise_fails(prediction, measurement, what, at, alter, failing):
    before = judged(prediction, measurement)
    measurement[what][at] = alter(measurement[what][at])
    after = judged(prediction, measurement)
    assert after[failing] == "fail"
    assert {name for name in before if before[name] != after[name]} <= {
        failing,
        failing.replace("gain/", "loss/depth/"),
        failing.replace("depth", "residual"),
    }


def test_wide_intervals_decide_nothing(prediction, measurement):
    for at, square in prediction["start"].items():
        measurement["squares"][at] = [square * (1 + 100 * x) for x in (-0.02, 0.01, 0.015, -0.01, 0.02, -0.015)]
    found = judged(prediction, measurement)
    assert {found[f"start/{at}"] for at in prediction["start"]} == {"inconclusive"}


def test_norms_that_bound_nothing_are_no_agreement(prediction, measurement):
    """As if those toys did as the ones without, and diverged as they do."""
    for depth in (*prediction["trained_depths"], prediction["deeper"]):
        for name in NETWORKS:
            measurement["trained"][cell(name, depth)] = measurement["trained"][cell(BASELINE, depth)]
    found = judged(prediction, measurement)
    assert {v for name, v in found.items() if name.startswith(("exponent", "diverged"))} == {"inconclusive"}


def test_a_twin_that_differs_too_leaves_nothing_to_say(prediction, measurement):
    for depth in prediction["trained_depths"]:
        same = measurement["trained"][cell("full+keys+sublayers", depth)]
        measurement["trained"][cell(TWIN, depth)] = same
    found = judged(prediction, measurement)
    assert {v for name, v in found.items() if name.startswith("exponent")} == {"inconclusive"}


def test_seeds_that_diverged_are_left_out_and_told(prediction, measurement):
    measurement["trained"][cell("full+keys", 2)][:2] = [None, [3.0, None]]
    checks = {check.id: check for check in EXPERIMENT.compare(prediction, measurement)}
    wide = checks["exponent/three times as wide/full+keys+sublayers/full+keys"]
    usual = checks["exponent/as they come/full+keys+sublayers/full+keys"]
    assert wide.statement.endswith("6 of 8 seeds")
    assert usual.statement.endswith("7 of 8 seeds")
    assert wide.verdict == "agrees"
    measurement["trained"][cell("full+keys", 2)] = [None] * 8
    found = judged(prediction, measurement)
    assert found[wide.id] == "inconclusive"
    assert found["exponent/three times as wide/full+keys+sublayers/residual"] == "agrees"
    with style.drawing():
        EXPERIMENT.draw(prediction, deepcopy(measurement))


def test_exponents_are_slopes(prediction, measurement):
    found = exponents(prediction, measurement, BASELINE, "three times as wide")
    assert found == pytest.approx([9, 7] * 4)
    assert differences([1.0, math.nan, 3.0], [0.5, 1.0, math.nan]) == [0.5]
    assert math.isnan(interval([0.5], 1).mean)
