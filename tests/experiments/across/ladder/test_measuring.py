"""What of a ladder counts when time is up, and how tasks are put together."""

import math
from dataclasses import replace

import pytest

from experiments.across.ladder.points import points
from experiments.across.ladder.reading import Results
from experiments.store.folders import RunFolder, Unfinished
from experiments.training import stacks
from experiments.training.tuning import APART, TUNING_SEED

from .made_up import EXPERIMENT, TWO_TASKS, predicted
from .test_verdicts import trained

NARROW, WIDE = (task.key for task in TWO_TASKS.tasks)


def until(monkeypatch, enough):
    """Trainings of which only some are finished: `enough` says of which arms."""
    monkeypatch.setattr(stacks, "train_stacked", lambda arms, *_: {a: r for a, r in trained(arms).items() if enough(a)})


def test_tasks_are_measured_one_by_one(tmp_path, monkeypatch):
    until(monkeypatch, lambda a: a.source.d == 2)
    measurement = EXPERIMENT.measure(TWO_TASKS, 3, RunFolder(tmp_path))
    assert {name.split("/")[1] for name in measurement["losses"]} == set(measurement["power"]) == {NARROW}
    assert list(Results(predicted(TWO_TASKS), measurement).tasks) == [NARROW]
    assert EXPERIMENT.compare(predicted(TWO_TASKS), measurement)


def test_without_a_whole_task_there_is_nothing(tmp_path, monkeypatch):
    until(monkeypatch, lambda a: a.source.d == 3)
    with pytest.raises(Unfinished):
        EXPERIMENT.measure(TWO_TASKS, 3, RunFolder(tmp_path))


def test_all_tasks_have_the_seeds_of_the_one_with_fewest(tmp_path, monkeypatch):
    until(monkeypatch, lambda a: a.source.d == 2 or a.seed % APART < 2 or a.seed >= TUNING_SEED)
    measurement = EXPERIMENT.measure(TWO_TASKS, 3, RunFolder(tmp_path))
    assert measurement["seeds"] == 2
    assert set(measurement["power"]) == {NARROW, WIDE}
    assert set(measurement["losses"]) == {p.key for p in points(TWO_TASKS)} == set(measurement["stderr"])
    assert {len(x) for by in measurement["losses"].values() for x in by.values()} == {2}
    assert set(measurement["tuning"]["best"]) == {p.key for p in points(TWO_TASKS) if p.variant != "twin"}
    trainings = (2 + 3) * sum(len(TWO_TASKS.lengths) for p in points(TWO_TASKS) if p.task.d == 2)
    assert measurement["provenance"]["trainings"] == trainings


def test_models_that_improve_with_every_doubling_are_trained_on(tmp_path, monkeypatch):
    """0.1 of a loss of 4 is more than 0.02 of the signal; all of a rung are trained as long as vanilla."""

    def improving(arms, *_):
        found = trained(arms)
        for one, record in found.items():
            if one.architecture.d_ff and one.variant == "vanilla":
                record["held_out"]["loss"] = [4 - 0.1 * math.log2(one.recipe.steps)]
        return found

    monkeypatch.setattr(stacks, "train_stacked", improving)
    config = replace(TWO_TASKS, tasks=TWO_TASKS.tasks[:1], doublings=2)
    measurement = EXPERIMENT.measure(config, 2, RunFolder(tmp_path))
    longer = {name for name, by in measurement["losses"].items() if max(map(int, by)) == 4 * config.lengths[-1]}
    assert longer == {name for name in measurement["losses"] if name.split("/")[0] == "6"}
    others = {max(map(int, by)) for name, by in measurement["losses"].items() if name not in longer}
    assert others == {config.lengths[-1]}
    results = Results(predicted(TWO_TASKS), measurement)
    assert results.lengths("6", NARROW, "vanilla", 2) == [n * config.lengths[0] for n in (1, 2, 4, 8)]
    assert not results.converged("6", NARROW, "vanilla", 2)


def test_how_often_is_said_beforehand():
    rules = [predicted(replace(TWO_TASKS, doublings=n))["rule"] for n in (0, 1, 2)]
    assert ["trained longer" in rule for rule in rules] == [False, True, True]
    assert "twice as many steps, once" in rules[1]
    assert "twice as many steps, up to 2 times" in rules[2]
