"""`reading`: verdicts turn with what they judge, and arms convert the heads that they name."""

from copy import deepcopy
from dataclasses import replace
from statistics import fmean

import pytest
import torch

from experiments.across.reading import arms, materials
from experiments.across.reading.experiment import EXPERIMENT, SMOKE, rises
from experiments.store.desk import LocalDesk
from experiments.store.folders import RunFolder
from icl.models.decoder import Decoder
from icl.probes.reader_costs import candidates
from theory.plans.names import resolve
from theory.plans.plan import Shape

SOURCE = SMOKE.models["heads"]
SIZES = SOURCE.sizes
LEVELS = {"unchanged": 3.0, "fixed": 3.3, "advised": 3.15, "raw": 5.0, "random 1": 3.5}


def measured(**changes):
    """Losses of eight sequences around a level for each arm, and a prediction that is right."""
    levels = LEVELS | changes
    lines = {
        f"heads/0/{arm}": {"loss": level, "by_sequence": [level + (k + i) % 3 * 0.01 for k in range(8)]}
        for i, (arm, level) in enumerate(levels.items())
    }
    return {"advice": {"heads/0/advice": {"cost": {"advised": 0.16}}}, "lines": lines}


def verdicts(measurement):
    return {one.id: one.verdict for one in EXPERIMENT.compare(EXPERIMENT.predict(SMOKE), measurement)}


def test_what_holds_agrees():
    assert set(verdicts(measured()).values()) == {"agrees"}


@pytest.mark.parametrize(
    ("changes", "contradicted"),
    [
        ({"fixed": 6.0}, {"refit"}),
        ({"fixed": 3.05}, {"fixed"}),
        ({"random 1": 3.1}, {"random"}),
    ],
)
def test_another_order_contradicts(changes, contradicted):
    found = verdicts(measured(**changes))
    assert {name.split("/")[0] for name, verdict in found.items() if verdict == "contradicts"} == contradicted


@pytest.mark.parametrize("cost", [0.05, 0.4])
def test_a_prediction_that_is_off_by_more_than_the_factor_contradicts(cost):
    measurement = measured()
    measurement["advice"]["heads/0/advice"]["cost"]["advised"] = cost
    assert verdicts(measurement)["predicted/heads"] == "contradicts"


def test_equal_losses_decide_nothing():
    measurement = measured()
    lines = measurement["lines"]
    lines["heads/0/raw"] = deepcopy(lines["heads/0/fixed"])
    assert verdicts(measurement)["refit/heads/by_sequence"] == "inconclusive"


def test_an_arm_that_was_not_measured_is_not_judged():
    measurement = measured()
    del measurement["lines"]["heads/0/raw"]
    assert not any(name.startswith("refit") for name in verdicts(measurement))
    assert rises(measurement, "heads", "raw") == []


def test_what_was_measured_is_drawn():
    measurement = measured()
    measurement["advice"]["heads/0/advice"]["scores"] = [[2, 1, 0.01], [3, 1, 0.02]]
    prediction = EXPERIMENT.predict(SMOKE)
    prediction["arms"] += ["random 2"]  # of another model
    figure = EXPERIMENT.draw(prediction, measurement)
    ways, heads = figure.axes[:2]
    assert [label.get_text() for label in ways.get_xticklabels()] == ["raw", "fixed", "advised", "random 1"]
    assert [line.get_ydata().tolist() for line in heads.lines] == [[0.01, 0.02]]


def test_all_choices_convert_as_many_heads():
    shape = SOURCE.architecture.shape
    assert arms.count_of(shape) == len(candidates(resolve("skipv1", shape)))
    one, *others = (arms.drawn(shape, seed=0, draw=k) for k in range(2))
    assert len(set(one)) == len(one) == arms.count_of(shape)
    few = Shape(6, 2)  # of which the first two draws would be the same
    sets = [tuple(arms.drawn(few, seed=0, draw=k)) for k in range(20)]
    assert len(set(sets)) == 20
    assert one not in others
    assert all(layer > 1 for layer, _ in one)
    assert arms.drawn(shape, seed=0, draw=0) == one
    drawn = arms.plan_of("random 1", shape, seed=0, chosen=())
    assert set(candidates(drawn)) == set(one)
    assert arms.plan_of("raw", shape, seed=0, chosen=()) == arms.plan_of("fixed", shape, seed=0, chosen=())
    advised = arms.plan_of("advised", shape, seed=0, chosen=[(3, 1), (2, 2)])
    assert set(candidates(advised)) == {(3, 1), (2, 2)}


def test_parts_of_the_text_share_nothing(monkeypatch, tmp_path):
    text = torch.randint(256, (60_000,), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    monkeypatch.setattr(materials, "_bytes", lambda: text)
    monkeypatch.setattr(materials, "train", lambda *_args, **_options: None)
    given = materials.material(SOURCE, seed=0, run=RunFolder(tmp_path))
    parts = [given.advice, given.fitted, given.judged, given.further]
    rows = [tuple(row) for part in parts for row in part.tolist()]
    assert len(set(rows)) == len(rows)
    assert [part[:, 1:].numel() for part in parts[:3]] == [SIZES.advice, SIZES.fitted, SIZES.judged]


def test_training_lowers_the_loss():
    config = SOURCE.architecture
    model = Decoder(config, resolve("vanilla", config.shape), seed=0)
    rows = (torch.arange(33)[None] + torch.arange(8)[:, None]) % 7
    given = materials.Material(model, rows, rows, rows, rows)
    before = fmean(arms.losses(model, given))
    plain = torch.nn.functional.cross_entropy(model(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())
    assert before == pytest.approx(float(plain.detach()), rel=1e-5)
    materials.train(model, rows, steps=30, batch=4, rate=0.01, seed=0)
    assert fmean(arms.losses(model, given)) < before - 1
    assert not model.training


@pytest.mark.long
def test_what_is_trained_on_is_judged_again(tmp_path):
    """The unchanged model too, which stays as it is for the other arms."""
    run = RunFolder(tmp_path)
    measuring = arms.Measuring(run)
    for arm in ("unchanged", "raw"):
        item = arms.Item("heads", SOURCE, 0, arm)
        line = measuring(item, LocalDesk(item.key, run, lambda *_: None))
        assert line["further"] != line["by_sequence"]
    again = measuring(replace(item, arm="unchanged"), LocalDesk("again", run, lambda *_: None))
    assert (
        again["loss"]
        == arms.Measuring(run)(replace(item, arm="unchanged"), LocalDesk("new", run, lambda *_: None))["loss"]
    )
