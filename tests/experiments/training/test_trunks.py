"""Trainings of several lengths from one trunk: the records of each alone, wherever it was killed."""

from dataclasses import replace

import pytest
import torch

import icl
from experiments.store.folders import RunFolder, Slot
from experiments.training.kept import MODELS
from experiments.training.pool import train_all
from experiments.training.stacks import finished
from experiments.training.trunks import Trunk, train_sharing, trunks
from tests.experiments.training.small import HERE, PROMPTS, timeless, with_rate

LATE = replace(PROMPTS.recipe, steps=40, warmup=0.1, decay="late", floor=0.0, evaluate_every=0)


def lengths(arm, *steps):
    return [replace(arm, recipe=LATE.of_length(n)) for n in steps]


@pytest.mark.long
def test_every_record_is_that_of_the_training_alone(reader, run, tmp_path):
    arms = [*lengths(replace(reader, probes=(HERE,)), 10, 20, 40), *lengths(replace(PROMPTS, seed=1), 20), PROMPTS]
    alone = train_all(arms, RunFolder(tmp_path / "runs of one", Slot(jobs=1)), "one by one")
    found = train_sharing(arms, run, "sharing")
    assert list(found) == arms
    assert {arm: timeless(record) for arm, record in found.items()} == {
        arm: timeless(record) for arm, record in alone.items()
    }
    assert found[arms[0]]["loss"] != found[arms[2]]["loss"]
    assert train_sharing(arms, RunFolder(run.path, Slot(jobs=1)), "again") == found
    assert not list(run.path.glob("unfinished-*"))
    assert len(run.metrics()) == 3


def test_shared_steps_are_taken_once():
    (trunk,) = trunks(lengths(PROMPTS, 40, 10, 20))
    assert [arm.recipe.steps for arm in trunk.arms] == [10, 20, 40]
    assert trunk.steps() == 40 + 2 + 4


def test_what_shares_nothing_stands_alone():
    cosine = [replace(PROMPTS, recipe=replace(LATE, decay="cosine").of_length(n)) for n in (20, 40)]
    others = [*lengths(PROMPTS, 20), *lengths(replace(PROMPTS, seed=1), 40), *cosine]
    assert trunks(others) == [Trunk((arm,)) for arm in others]


@pytest.mark.parametrize("after", range(1, 24, 3))
@pytest.mark.long
def test_it_goes_on_where_it_was_left(after, run, monkeypatch):
    arms = lengths(PROMPTS, 10, 20, 40)
    left = iter([9.0] * after + [-1.0])  # asked before a training, and at every report
    with monkeypatch.context() as patch:
        patch.setattr(Slot, "seconds_left", property(lambda slot: next(left)))
        assert train_sharing(arms, run, "stopped") == {}
    found = train_sharing(arms, RunFolder(run.path, Slot(jobs=1)), "on")
    assert {arm: timeless(record) for arm, record in found.items()} == once(arms, run.path / "alone")


def once(arms, folder):
    return {arm: timeless(record) for arm, record in train_all(arms, RunFolder(folder, Slot(jobs=1)), "alone").items()}


def test_where_the_trunk_diverges_all_of_them_do(run):
    arms = [with_rate(arm, 1e30, clip=0.0) for arm in lengths(PROMPTS, 10, 20, 40)]
    found = train_sharing(arms, run, "diverging")
    assert all("diverged" in record["diverged"] for record in found.values())
    assert {arm: timeless(record) for arm, record in found.items()} == once(arms, run.path / "alone")
    assert set(finished(run)) == {arm.key("cpu") for arm in arms}


def test_models_of_seed_0_are_kept_in_half_precision(reader, run):
    """They say what was trained to rounding; those of other seeds and of twins are not there."""
    first = replace(reader, seed=0)
    arms = [*lengths(first, 10, 20), *lengths(replace(first, seed=1), 20), *lengths(replace(first, twin=1), 20)]
    found = train_sharing(arms, run, "keeping", keeping=True)
    (folder,) = (run / MODELS).iterdir()
    assert folder.name == arms[1].key("cpu")
    assert {path.name for path in folder.iterdir()} == {"config.json", "model.safetensors"}
    assert (folder / "model.safetensors").stat().st_size < 2.5 * found[arms[1]]["parameters"] + 8192
    model, task = icl.load(folder), arms[1].task()
    with torch.no_grad():
        losses = [task.losses(model(batch.inputs), batch.targets).mean() for batch in task.held_out()]
    assert float(sum(losses)) / len(losses) == pytest.approx(found[arms[1]]["loss"], rel=1e-3)
    assert {arm: timeless(record) for arm, record in found.items()} == once(arms, run.path / "alone")
