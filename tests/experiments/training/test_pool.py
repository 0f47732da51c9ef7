"""Many trainings: none twice, none that does not fit, in processes as in one; of several lengths, from a trunk."""

from dataclasses import replace

import pytest
import torch

import icl
from experiments.store.folders import RunFolder, Slot, UserError
from experiments.training import memory, pool
from experiments.training.pool import MODELS, train_all
from experiments.training.stacks import finished
from experiments.training.trunks import Trunk, train_sharing, trunks
from tests.experiments.training.small import HERE, PLAN, PROMPTS, timeless, with_rate

ARMS = [PROMPTS, replace(PROMPTS, variant="resformer"), replace(PROMPTS, seed=1)]


def test_finished_trainings_are_not_repeated(run, trained):
    first = train_all(ARMS[:2], run, "some")
    assert trained == ARMS[:2]
    assert list(first) == ARMS[:2]
    again = train_all(ARMS, RunFolder(run.path, run.slot), "all")
    assert trained == ARMS
    assert list(again) == ARMS
    assert {arm: again[arm] for arm in ARMS[:2]} == first
    assert names(run) == [".lock", "metrics.jsonl"]
    assert [(line["kind"], line["key"]) for line in run.metrics()] == [("run", arm.key("cpu")) for arm in ARMS]


def names(run):
    return sorted(path.name for path in run.path.iterdir())


def test_what_needs_more_memory_than_there_is_is_refused_unless_it_is_finished(run, trained, monkeypatch):
    train_all(ARMS[:1], run, "some")
    monkeypatch.setattr(memory, "available", lambda device: 2**10)
    assert list(train_all(ARMS[:1], run, "finished elsewhere")) == ARMS[:1]
    with pytest.raises(UserError, match=r"resformer needs about \d+ MiB of memory, and there are 1 MiB"):
        train_all(ARMS, run, "all")
    assert trained == ARMS[:1]


def test_one_training_that_is_asked_for_twice_is_done_once(reader, run, trained):
    copy = replace(reader, source=replace(reader.source, folder=f"{reader.source.folder}/"))
    found = train_all([PROMPTS, reader, PROMPTS, copy], run, "twice")
    assert trained in ([PROMPTS, reader], [PROMPTS, copy])
    assert found[copy] == found[reader]


def test_a_slot_that_ends_in_a_training_leaves_a_checkpoint(run, monkeypatch, tmp_path):
    whole = train_all(ARMS[:1], RunFolder(tmp_path / "whole", Slot(jobs=1)), "whole")
    left = iter([9.0, 9.0, -1.0])  # asked before the training, and at every report
    with monkeypatch.context() as patch:
        patch.setattr(Slot, "seconds_left", property(lambda slot: next(left)))
        assert train_all(ARMS, run, "stopped") == {}
    assert next(left, None) is None
    assert f"unfinished-{ARMS[0].key('cpu')}" in names(run)
    steps = []
    monkeypatch.setattr(pool, "note", lambda arm, logged: steps.append(logged.step) or "")
    assert timeless(train_all(ARMS[:1], run, "on")[ARMS[0]]) == timeless(whole[ARMS[0]])
    assert steps == [6]


@pytest.mark.slow
def test_processes_find_what_one_finds(reader, run, tmp_path):
    """Two processes for three trainings, of which one diverges and one is of a plan."""
    arms = [with_rate(PROMPTS, 1e30, clip=0.0, warmup=0.0), reader, replace(PROMPTS, variant=PLAN, seed=1)]
    together = RunFolder(tmp_path / "both", Slot(jobs=2))
    found = train_all(arms, together, "two at a time")
    assert list(found) == arms
    check_as_alone(found, run.path)
    assert names(together) == [".lock", "metrics.jsonl"]
    assert sorted(line["key"] for line in together.metrics()) == sorted(arm.key("cpu") for arm in arms)


# Of several lengths: the records of each alone, wherever their trunk was killed.

LATE = replace(PROMPTS.recipe, steps=40, warmup=0.1, decay="late", floor=0.0, evaluate_every=0)


def check_as_alone(found, folder):
    alone = train_all(list(found), RunFolder(folder, Slot(jobs=1)), "one by one")
    for arm, record in alone.items():
        assert timeless(found[arm]) == timeless(record)


def lengths(arm, *steps):
    return [replace(arm, recipe=LATE.of_length(n)) for n in steps]


@pytest.mark.long
def test_every_record_is_that_of_the_training_alone(reader, run, tmp_path):
    arms = [*lengths(replace(reader, probes=(HERE,)), 10, 20, 40), *lengths(replace(PROMPTS, seed=1), 20), PROMPTS]
    found = train_sharing(arms, run, "sharing")
    assert list(found) == arms
    check_as_alone(found, tmp_path / "runs of one")
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
    check_as_alone(found, run.path / "alone")


def test_where_the_trunk_diverges_all_of_them_do(run):
    arms = [with_rate(arm, 1e30, clip=0.0) for arm in lengths(PROMPTS, 10, 20, 40)]
    found = train_sharing(arms, run, "diverging")
    assert all("diverged" in record["diverged"] for record in found.values())
    check_as_alone(found, run.path / "alone")
    assert set(finished(run)) == {arm.key("cpu") for arm in arms}


@pytest.mark.long
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
    check_as_alone(found, run.path / "alone")
