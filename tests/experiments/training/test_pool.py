"""Many trainings: none twice, none that does not fit, in processes as in one."""

from dataclasses import replace

import pytest

from experiments.store.folders import RunFolder, Slot, UserError
from experiments.training import memory, pool
from experiments.training.pool import train_all
from tests.experiments.training.small import PLAN, PROMPTS, timeless, with_rate

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
    alone = train_all(arms, run, "one by one")
    together = RunFolder(tmp_path / "both", Slot(jobs=2))
    found = train_all(arms, together, "two at a time")
    assert list(found) == arms
    assert {arm: timeless(record) for arm, record in found.items()} == {
        arm: timeless(record) for arm, record in alone.items()
    }
    assert names(together) == [".lock", "metrics.jsonl"]
    assert sorted(line["key"] for line in together.metrics()) == sorted(arm.key("cpu") for arm in arms)
