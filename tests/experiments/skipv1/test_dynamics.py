"""`skipv1-dynamics`: committed verdicts reject altered theory, and a small run has verdicts and a figure."""

import copy
import json
import math

import pytest

from experiments.cli import main
from experiments.drawing.style import drawing
from experiments.skipv1.dynamics.experiment import EXPERIMENT, Config, crossings, reached
from experiments.skipv1.dynamics.training import Arm, Shares, Staircase, exact_path
from experiments.store.folders import RunFolder, Slot
from experiments.verdicts.checks import Check, Expectation, worst
from experiments.verdicts.intervals import share_interval
from tests.experiments.committed import committed, failing
from theory.plans.heads import MHA, SKIPV1
from theory.plans.setting import Setting

SMALL = Setting(2, 6, 0.3)
TINY = Config(
    staircases=(
        Staircase(size=SMALL, toy="skipv1", scales=(0.3, 0.15), batch=16, log_every=4),
        Staircase(size=SMALL, toy="mha", scales=(0.4,), batch=16, log_every=4),
    ),
    shares=Shares(
        size=SMALL,
        arms=(
            *(Arm(toy=toy, rank=1, heads=2, keys=r) for toy in ("skipv1", "mha") for r in (0.25, 4.0)),
            Arm(toy="skipv1", rank=1, heads=4, keys=1.0),
        ),
        flows=1,
        time=1.0,
        batch=4,
        adam_steps=20,
    ),
)


@pytest.fixture
def stored():
    return committed("skipv1-dynamics")


def failed(prediction, measurement):
    return {name.split("/k")[0] for name in failing(EXPERIMENT, prediction, measurement)}


def test_altered_heights_and_times_fail(stored):
    prediction, measurement = stored
    assert not failed(prediction, measurement)
    (skip, mha), key = prediction["staircases"], "d4-n20-s0.3/skipv1/a4"
    assert (skip, mha) == (key, "d4-n20-s0.3/mha/a2")
    for name, change, lost in (
        ("heights", lambda x: 0.8 * x, f"height/{skip}"),
        ("steps", lambda t: 1.4 * t, f"time/flow/{skip}"),
        ("path_steps", lambda t: 1.2 * t, f"time/trained/{skip}"),
    ):
        altered = copy.deepcopy(prediction)
        altered["staircases"][skip][name] = [change(x) for x in altered["staircases"][skip][name]]
        assert lost in failed(altered, measurement)


def test_a_rank_beyond_its_bounds_fails(stored):
    prediction, measurement = stored
    for shift, lost in ((1, "ends/least"), (-1, "ends/most")):
        altered = copy.deepcopy(measurement)
        for ends in altered["shares"].values():
            ends["bounds"] = [[least + shift, most + shift] for least, most in ends.get("bounds", [])]
        assert lost in failed(prediction, altered)


@pytest.mark.long
def test_two_seeds_suffice_for_verdicts_and_a_figure(tmp_path):
    measurement = EXPERIMENT.measure(TINY, 2, RunFolder(tmp_path, Slot(jobs=1)))
    prediction = EXPERIMENT.predict(TINY)
    judged = EXPERIMENT.compare(prediction, measurement)
    assert {Check, Expectation} == {type(v) for v in judged}
    assert {v.claim for v in judged} == set(EXPERIMENT.claims)
    arms = measurement["shares"]
    assert {len(ends["descent"]) for ends in arms.values()} == {4}
    assert [key for key, ends in arms.items() if ends.get("bounds")] == [
        "skipv1/a1/h2/keys0.25",
        "skipv1/a1/h2/keys4",
    ]
    with drawing():
        assert len(EXPERIMENT.draw(prediction, measurement).axes) == 4


@pytest.mark.slow
def test_smoke_run_passes(tmp_path):
    assert main(["run", "skipv1-dynamics", "--profile", "smoke", "--jobs", "1", "--out", str(tmp_path)]) == 0
    (folder,) = (tmp_path / "skipv1-dynamics").iterdir()
    stored = (json.loads((folder / f"{name}.json").read_text()) for name in ("prediction", "measurement"))
    assert worst(EXPERIMENT.compare(*stored)) == "agrees"


def test_steps_are_read_off_between_times():
    assert crossings([0, 1, 2, 3], [10, 10, 6, 2], [10, 6, 2]) == [1.5, 2.5]
    assert math.isnan(crossings([0, 1], [10, 9], [10, 6])[0])


def test_a_staircase_starts_where_it_says():
    """At zero explained, up to the small start; with the heads in the order of the toy."""
    for stairs in TINY.staircases:
        zero = SMALL.zero_loss
        assert 0 < zero - exact_path(stairs)[0] < 0.3 * zero
        assert len(stairs.times) * stairs.log_every == stairs.steps
    skip, ordinary = TINY.staircases
    assert (skip.kinds, ordinary.kinds) == (SKIPV1, MHA)


def test_reaching_is_being_nearer_to_the_optimum_than_to_the_plateau_above():
    assert reached({"unit": 2.0, "rank": 3}, [5.1, 4.9, -1.0]) == [True, False, False]


@pytest.mark.parametrize(
    ("counts", "low", "high"), [((0, 16), 0.0, 0.194), ((16, 16), 0.806, 1.0), ((8, 16), 0.28, 0.72)]
)
def test_wilson_s_interval(counts, low, high):
    assert share_interval(*counts) == pytest.approx((low, high), abs=2e-3)
