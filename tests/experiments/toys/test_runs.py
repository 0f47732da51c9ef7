"""Many toys: results have the same bits however many processes find them, and a stack resumes."""

import json

import pytest

from experiments.store.folders import RunFolder, Slot, Unfinished, UserError
from experiments.store.steps import StepLog
from experiments.toys import training as toy_training
from experiments.toys.runs import Minimisation, every_rank, minimisations, minimise_all
from experiments.toys.training import Training, train_all
from theory.plans.heads import MHA, SKIPV1
from theory.plans.setting import Setting

SIZE = Setting(2, 3, 0.1)
POINTS = every_rank([SIZE])
TRAINING = Training(steps=300, held_out=16_384, batch=8)


@pytest.mark.long
def test_exact_minima_have_the_same_bits_here_and_in_processes(tmp_path):
    size = Setting(8, 40, 0.2)  # whose matrices are large enough for BLAS to divide among threads
    todo = minimisations([p for p in every_rank([size]) if p.rank == 1], 1)
    runs = [RunFolder(tmp_path / str(jobs), Slot(jobs=jobs)) for jobs in (1, 2)]
    here, elsewhere = (minimise_all(todo, run) for run in runs)
    assert here == elsewhere
    assert list(here) == [item.point.key for item in todo]
    assert all((found["kind"], found["point"], found["starts"]) == ("exact", key, 1) for key, found in here.items())


def test_lines_of_exact_minima_are_those_of_committed_results(tmp_path):
    run = RunFolder(tmp_path, Slot(jobs=1))
    found = minimise_all(minimisations(POINTS, 2), run)
    assert run.metrics() == list(found.values())
    fields = ["kind", "point", "loss", "explained", "gradient_norm", "scale", "starts", "agreeing"]
    assert all(list(line) == fields for line in run.metrics())
    path = run / "metrics.jsonl"
    path.write_text(path.read_text()[:-9])
    assert minimise_all([Minimisation(p, MHA if p.toy == "mha" else SKIPV1, 2) for p in POINTS], run) == found


def test_a_deadline_ends_a_minimisation_between_its_starts(tmp_path, monkeypatch):
    left = iter([9.0, 9.0, -1.0])
    monkeypatch.setattr(Slot, "seconds_left", property(lambda _: next(left)))
    with pytest.raises(Unfinished, match="exact minimisation: 0 of 6 are finished"):
        minimise_all(minimisations(POINTS, 4), RunFolder(tmp_path, Slot(jobs=1)))
    assert next(left, None) is None


def trained(run):
    return train_all(POINTS, 2, TRAINING, run)


def dying(monkeypatch, at):
    """Let a training die once it has logged these steps; all steps that it logs."""
    add, steps = StepLog.add, []

    def die(log, step, **fields):
        add(log, step, **fields)
        steps.append(step)
        if steps == at:
            raise KeyboardInterrupt

    monkeypatch.setattr(StepLog, "add", die)
    return steps


@pytest.fixture
def whole(tmp_path, monkeypatch):
    monkeypatch.setattr(toy_training, "SECONDS_BETWEEN_SAVES", 0.0)
    run = RunFolder(tmp_path / "whole", Slot(jobs=1))
    return run, trained(run)


@pytest.mark.long
def test_a_stack_that_was_killed_ends_with_the_same_numbers(whole, tmp_path, monkeypatch):
    """At its second report, after a checkpoint; and with a line of what happens again in the log."""
    run = RunFolder(tmp_path / "killed", Slot(jobs=1))
    dying(monkeypatch, [100, 200])
    with pytest.raises(KeyboardInterrupt):
        trained(run)
    (log,) = run.path.glob("unfinished-*/metrics.jsonl")
    assert [json.loads(line)["step"] for line in log.read_text().splitlines()] == [100, 200]
    assert trained(run) == whole[1]
    assert run.metrics() == whole[0].metrics()


def test_a_stack_whose_log_has_a_hole_is_refused_before_it_is_trained(tmp_path, monkeypatch):
    """Its losses decide which toys count."""
    monkeypatch.setattr(toy_training, "SECONDS_BETWEEN_SAVES", 0.0)
    run, steps = RunFolder(tmp_path, Slot(jobs=1)), dying(monkeypatch, [100, 200])
    with pytest.raises(KeyboardInterrupt):
        trained(run)
    (log,) = run.path.glob("unfinished-*/metrics.jsonl")
    log.write_text(log.read_text().split("\n", 1)[1])
    with pytest.raises(UserError, match=r"metrics.jsonl lacks lines of what was trained; delete .* to retrain"):
        trained(run)
    assert steps == [100, 200, 200]


@pytest.mark.long
def test_a_stack_out_of_time_is_saved(whole, tmp_path, monkeypatch):
    run = RunFolder(tmp_path / "late", Slot(jobs=1))
    left = iter([9.0, -1.0])
    with monkeypatch.context() as patch:
        patch.setattr(Slot, "seconds_left", property(lambda _: next(left)))
        with pytest.raises(Unfinished, match="training 12 toys, orthogonal start: 0 of 2 are finished"):
            trained(run)
    steps = dying(monkeypatch, None)
    assert trained(run) == whole[1]
    assert steps == [200, 300, 100, 200, 300]  # the second half of the seeds had not begun


@pytest.mark.long
def test_a_seed_is_the_same_whatever_others_are_trained(tmp_path):
    few, more = (train_all(POINTS, seeds, TRAINING, RunFolder(tmp_path / str(seeds), Slot(jobs=1))) for seeds in (2, 3))
    for key, (first, second) in few.items():
        assert more[key][:2] == pytest.approx([first, second], rel=1e-4)
        assert first != pytest.approx(second, rel=1e-3) or first == 0


@pytest.mark.long
def test_toys_of_several_widths_are_trained_apart(tmp_path):
    """And with the same bits whatever else is trained."""
    other = Setting(1, 3, 0.1)
    both = train_all([*POINTS, *every_rank([other])], 2, TRAINING, RunFolder(tmp_path / "both", Slot(jobs=1)))
    assert list(both) == [p.key for p in (*POINTS, *every_rank([other]))]
    alone = trained(RunFolder(tmp_path / "alone", Slot(jobs=1)))
    assert alone == {key: both[key] for key in alone}
