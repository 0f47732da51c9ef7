"""Resumed work, on a fake experiment of two points: killed, interrupted, out of time, here and in processes."""

import json
import math
import os
import re
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, nullcontext
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.store import backends, folders
from experiments.store.backends import Processes, Serial
from experiments.store.common import packed, unpacked
from experiments.store.folders import RunFolder, Slot, Unfinished, UserError
from experiments.store.processes import THREADS, one_thread
from experiments.store.steps import StepLog
from experiments.store.work import results
from tests.experiments.store import fake
from tests.experiments.store.fake import (
    EVERY,
    HELD,
    ONCE,
    STEPS,
    UntilLate,
    counted,
    items,
    met,
    steps,
    taken,
    wait_for,
)

BACKENDS = [Serial(), Processes(2)]


def measured(run, trace, **options):
    (trace / "gate").touch()
    return results("count", items(trace), counted, run, label="counting", size=lambda _: STEPS, **options)


def value(start):
    for step in EVERY:
        start = 3 * start + step
    return start


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def at_work(trace):
    """The processes that took steps."""
    return {pid for by in steps(trace).values() for _, pid in by}


def check_whole(run, trace, **options):
    """What is missing of the run is computed, and nothing of it twice; no folder is left."""
    found = measured(run, trace, **options)
    assert [found[key]["value"] for key in "ab"] == [value(1), value(2)]
    assert taken(trace) == ONCE
    assert names(run.path) == [".lock", "metrics.jsonl"]


# Results.


@pytest.mark.parametrize("backend", BACKENDS)
def test_results_are_the_same_wherever_they_are_computed_and_whenever_they_are_read(run, trace, backend, monkeypatch):
    for name in THREADS:
        monkeypatch.setenv(name, "2")
    found = measured(run, trace, backend=backend)
    assert found == {
        key: {"value": value(s), "half": value(s) / 2, "pair": [1, 2], "threads": ["1"] * 3}
        for key, s in (("a", 1), ("b", 2))
    }
    lines = sorted(run.metrics(), key=lambda line: line["key"])
    assert lines == [{"kind": "count", "key": key, **result} for key, result in found.items()]
    assert names(run.path) == [".lock", "metrics.jsonl"]
    assert measured(run, trace, backend=backend) == found
    assert taken(trace) == ONCE
    assert (os.getpid() in at_work(trace)) == (backend == Serial())


@pytest.mark.parametrize("slot", [Slot(jobs=1), Slot("cuda")])
def test_one_at_a_time_is_here(tmp_path, trace, slot):
    measured(RunFolder(tmp_path / "run", slot), trace)
    assert at_work(trace) == {os.getpid()}


@pytest.mark.parametrize("slot", [Slot(jobs=2), Slot(), Slot("cuda", jobs=2)])
def test_so_many_at_a_time_as_are_asked_for_or_as_there_are_cores(tmp_path, trace, slot, monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    found = results("met", items(trace), met, RunFolder(tmp_path / "run", slot), label="meeting")
    assert len({result["process"] for result in found.values()} - {os.getpid()}) == 2
    assert {result["device"] for result in found.values()} == {slot.device}


def test_lines_of_other_kinds_and_a_torn_one(run, trace):
    run.path.mkdir()
    other = {"kind": "other", "step": 1}
    run.log(other)
    run.log({"kind": "count", "point": "b", "value": -1})
    with (run / "metrics.jsonl").open("a") as file:
        file.write('{"kind": "count", "point": "a", "va')
    found = measured(run, trace, field="point", backend=Serial())
    assert {key: result["value"] for key, result in found.items()} == {"a": value(1), "b": -1}
    assert list(found) == ["a", "b"]
    assert [(line["kind"], line.get("point")) for line in run.metrics()] == [
        ("other", None),
        ("count", "b"),
        ("count", "a"),
    ]


def test_no_more_than_what_is_missing_is_on_the_progress_bar(run, trace, capsys, monkeypatch):
    monkeypatch.setattr("experiments.store.progress.SECONDS_BETWEEN_LINES", 0.0)
    run.path.mkdir()
    run.log({"kind": "count", "key": "b", "value": -1})
    measured(run, trace, backend=Serial())
    said = [line.split(",") for line in capsys.readouterr().err.splitlines()]
    assert [line[:2] for line in said] == [["counting", f" 1 of 2 to do: {round(50 + 50 * i / STEPS)}%"] for i in EVERY]
    assert all(f"at {i}" in line[-1] for i, line in zip(EVERY, said, strict=True))


def failing(x, _):
    if x == 2:
        raise ValueError("two")
    if x > 2:
        time.sleep(60)
    return {"square": x * x}


def test_what_was_there_before_a_failure_is_kept(run):
    todo = {f"k{x}": x for x in range(4)}
    with pytest.raises(ValueError, match="two"):
        results("square", todo, failing, run, label="squares", backend=Serial())
    assert [line["key"] for line in run.metrics()] == ["k0", "k1"]
    began = time.monotonic()
    with pytest.raises(ValueError, match="two"):
        results("square", {"k3": 3, "k2": 2}, failing, run, label="squares", backend=Processes(2))
    assert time.monotonic() - began < 30  # the other one is not waited for


def dying(_, __):
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_process_that_dies_is_one_line(run):
    with pytest.raises(UserError, match="died") as stop:
        results("x", {"a": 1, "b": 2}, dying, run, label="x", backend=Processes(2))
    assert "\n" not in str(stop.value)


def test_two_do_not_work_in_one_folder(run, trace):
    with RunFolder(run.path).locked(), pytest.raises(UserError, match="another process is working in"):
        measured(run, trace)
    with run.locked():
        measured(run, trace, backend=Serial())
        with pytest.raises(UserError, match="another process is working in"), RunFolder(run.path).locked():
            pass
    with RunFolder(run.path).locked():
        pass


# Threads.


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_environment_is_left_as_it_was(run, trace, monkeypatch, backend):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    before = {name: os.environ.get(name) for name in THREADS}
    measured(run, trace, backend=backend)
    assert {name: os.environ.get(name) for name in THREADS} == before


def test_the_guard_holds_what_is_loaded():
    import numpy  # noqa: F401
    import torch
    from threadpoolctl import threadpool_info, threadpool_limits

    before = torch.get_num_threads()
    with threadpool_limits(2):
        torch.set_num_threads(2)
        try:
            with one_thread():
                assert torch.get_num_threads() == 1
                assert {library["num_threads"] for library in threadpool_info()} == {1}
            assert torch.get_num_threads() == 2
            assert {library["num_threads"] for library in threadpool_info()} == {2}
        finally:
            torch.set_num_threads(before)


# Time.


@pytest.mark.parametrize("backend", BACKENDS)
def test_when_time_is_up_nothing_is_begun(tmp_path, trace, backend):
    run = RunFolder(tmp_path / "run", Slot(deadline=0.0))
    assert measured(run, trace, backend=backend, partial=True) == {}
    assert steps(trace) == {}
    assert names(run.path) == [".lock", "metrics.jsonl"]
    with pytest.raises(Unfinished, match="counting: 0 of 2 are finished"):
        measured(run, trace, backend=backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_time_that_runs_out_leaves_checkpoints(tmp_path, trace, backend):
    """ "b" waits at its third step until the deadline has passed."""
    run = RunFolder(tmp_path / "run", UntilLate(trace=str(trace)))

    def end():
        wait_for(lambda: run.has("metrics.jsonl") and run.metrics() and len(steps(trace).get(2, ())) == HELD)
        (trace / "late").touch()
        (trace / "gate").touch()

    thread = threading.Thread(target=end)
    thread.start()
    with pytest.raises(Unfinished, match="counting: 1 of 2 are finished"):
        results("count", items(trace), counted, run, label="counting", backend=backend)
    thread.join()
    assert names(run.path) == [".lock", "metrics.jsonl", "unfinished-b"]
    check_whole(RunFolder(run.path), trace, backend=backend)


@pytest.mark.parametrize("jump", [-1e6, 1e6])
def test_a_clock_that_is_set_while_it_runs_loses_nothing(tmp_path, trace, monkeypatch, jump):
    """Back: it goes on for longer than it was given.  Forward: time is up, and the same command resumes."""
    told = (1000.0 + jump * (len(steps(trace).get(1, ())) >= HELD) for _ in count())
    monkeypatch.setattr(folders, "time", SimpleNamespace(time=lambda: next(told)))
    run, late = RunFolder(tmp_path / "run", Slot(deadline=1060.0)), nullcontext()
    if jump > 0:
        late = pytest.raises(Unfinished, match="counting: 0 of 2 are finished")
    with late:
        measured(run, trace, backend=Serial())
    assert len(steps(trace)[1]) == (HELD if jump > 0 else STEPS)
    check_whole(RunFolder(run.path), trace, backend=Serial())


def test_what_will_not_fit_is_not_begun(run, monkeypatch):
    """The longest so far took 10 seconds; the next needs eleven."""
    clock, left = iter(range(0, 1000, 10)), iter([math.inf, 11.5, 10.5])
    monkeypatch.setattr(backends, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    monkeypatch.setattr(Slot, "seconds_left", property(lambda slot: next(left)))
    todo = dict.fromkeys("abc", 1)
    found = results("x", todo, lambda x, desk: {"x": x}, run, label="x", backend=Serial(), partial=True)
    assert list(found) == ["a", "b"]


# Kills.


@contextmanager
def started(run, trace, jobs):
    root = Path(fake.__file__).parents[3]
    command = [sys.executable, "-m", "tests.experiments.store.fake", str(run.path), str(trace), str(jobs)]
    with subprocess.Popen(command, cwd=root, stderr=subprocess.PIPE, start_new_session=True) as parent:
        try:
            yield parent
        finally:
            parent.kill()


def alive(pid):
    """Whether the process runs; one that has ended and not been waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def children(parent):
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            if path.read_text().rsplit(")", 1)[1].split()[1] == str(parent):
                found.append(int(path.parent.name))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_run_that_was_ended_is_resumed(run, trace, jobs, how):
    """With "a" finished and "b" half-way; no worker is left, and nothing is done twice."""
    with started(run, trace, jobs) as parent:
        wait_for(lambda: run.has("metrics.jsonl") and run.metrics())
        wait_for(lambda: len(steps(trace).get(2, ())) == HELD)
        wait_for(lambda: (run / "unfinished-b" / "checkpoint").read_text().startswith(f"{HELD} "))
        workers = children(parent.pid)
        assert (parent.pid in at_work(trace)) == (jobs == 1)
        parent.send_signal(how)
        assert b"leaked" not in parent.communicate(timeout=10)[1]
        assert parent.returncode != 0
        wait_for(lambda: not any(map(alive, workers)))
    check_whole(run, trace)


@pytest.mark.parametrize("seconds", [0.0, 0.05, 0.15, 0.3])
def test_workers_that_have_just_been_started_leave_too(run, trace, seconds):
    with started(run, trace, 2) as parent:
        wait_for(lambda: len(children(parent.pid)) >= 2)  # a worker, and what cleans up after them
        time.sleep(seconds)
        parent.send_signal(signal.SIGSTOP)  # so that no other is started in between
        workers = children(parent.pid)
        parent.kill()
        parent.wait()
        wait_for(lambda: not any(map(alive, workers)))
        assert b"leaked" not in parent.communicate(timeout=30)[1]


@pytest.mark.parametrize("seconds", [0.1, 0.2, 0.3])
def test_a_terminal_s_interrupt_is_not_heard_by_workers(run, trace, seconds):
    """Not even by those that have just been started, so that nothing but the parent speaks."""
    with started(run, trace, 2) as parent:
        wait_for(lambda: len(children(parent.pid)) >= 2)
        time.sleep(seconds)
        os.killpg(parent.pid, signal.SIGINT)
        said = parent.communicate(timeout=30)[1].decode()
        assert said.count("Traceback") == 1


def test_an_interrupt_in_this_process_leaves_no_worker(run, trace, monkeypatch):
    """While a result is logged: as bad a moment as any."""

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(RunFolder, "log", interrupt)
    with pytest.raises(KeyboardInterrupt):
        results("count", items(trace), counted, run, label="counting", backend=Processes(2))
    workers = at_work(trace)
    assert workers
    assert not any(map(alive, workers))


def test_a_folder_whose_result_is_there_is_removed(run, trace):
    """A kill may come between the line and the removal."""
    measured(run, trace, backend=Serial())
    (run / "unfinished-a").mkdir()
    measured(run, trace)
    assert names(run.path) == [".lock", "metrics.jsonl"]


def test_an_experiment_is_carried_through_after_a_kill(tmp_path, trace):
    from experiments.experiment.execution import execute, prepare

    job = prepare(fake.Fake(trace), "smoke", None, tmp_path)
    with started(job.run, trace, 2):
        wait_for(lambda: len(steps(trace).get(2, ())) == HELD)
    (trace / "gate").touch()
    for name in ("figure.svg", "figure.png"):
        (job.run / name).touch()
    assert execute(job) == []
    assert [job.run.read("measurement.json")[key]["value"] for key in "ab"] == [value(1), value(2)]
    assert job.run.read("prediction.json") == {"steps": STEPS}


# Logs of steps.


def test_a_log_drops_what_happens_again(run):
    run.path.mkdir()
    lines = [{"kind": kind, "step": step} for step in (1, 2, 3) for kind in ("train a", "train b")]
    run.keep_metrics(lines)
    with (run / "metrics.jsonl").open("a") as file:
        file.write('{"kind": "train a", "st')
    log = StepLog(run, "train a", 1)
    assert [line["step"] for line in log.lines] == [1, 2, 3]
    log.add(3, loss=0.5)
    log.add(4, loss=0.25)
    again = [{"kind": "train a", "step": 3, "loss": 0.5}, {"kind": "train a", "step": 4, "loss": 0.25}]
    assert log.lines == [lines[0], lines[2], *again]
    assert run.metrics() == [*lines[:4], lines[5], *again]
    assert json.loads((run / "metrics.jsonl").read_text().splitlines()[-1]).items() >= again[1].items()
    assert log.missing(4) == 0
    assert log.missing(6) == 2


def test_a_flipped_bit_of_a_line_is_detected_or_harmless(run):
    """At worst what a kill would have torn is computed again."""
    run.path.mkdir()
    for key in "ab":
        run.log({"kind": "count", "key": key, "value": 0.5})
    path, lines = run / "metrics.jsonl", run.metrics()
    content = path.read_bytes()
    for i in range(0, 8 * len(content), 5):  # all places of a byte
        damaged = bytearray(content)
        damaged[i // 8] ^= 1 << i % 8
        path.write_bytes(damaged)
        try:
            found = run.metrics()
        except UserError as error:
            said = str(error)
        else:
            said = ""
            assert found in (lines, lines[:1])
        assert not said or re.match(r"((line [12]|2 lines) of )?.*metrics.jsonl (is|are) damaged; delete", said), i
        assert path.read_bytes() == damaged


def test_lines_from_before_there_were_digests(run, trace):
    """They are read, and resumed with; but among others a line without one is nobody's."""
    run.path.mkdir()
    path = run / "metrics.jsonl"
    old = '{"kind": "count", "key": "a", "value": 7}\n'
    path.write_text(old)
    found = measured(run, trace, backend=Serial())
    assert [found[key]["value"] for key in "ab"] == [7, value(2)]
    assert path.read_text().count("sha256") == 2
    with path.open("a") as file:
        file.write(old + old)
    with pytest.raises(UserError, match=r"2 lines of .*metrics.jsonl are damaged; delete lines 3, 4 and run again"):
        measured(run, trace, backend=Serial())
    path.write_text('{"kind": "count", "value": 7}\n' + old)
    with pytest.raises(UserError, match=r"line 1 of .*metrics.jsonl is damaged; delete that line and run again"):
        measured(run, trace, backend=Serial())


# Records that are packed come back as they were, and are written once where they agree.

PLAIN = st.none() | st.booleans() | st.integers(0, 2) | st.floats(0, 2) | st.text("ab", max_size=1)
VALUES = st.recursive(
    PLAIN, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text("xyz", max_size=1), inner, max_size=3)
)
RECORDS = st.lists(st.dictionaries(st.sampled_from("abcd"), VALUES, max_size=4), max_size=5)


def written(records):
    return [json.dumps(record, sort_keys=True) for record in records]


@given(RECORDS)
def test_there_and_back(records):
    common, rest = packed(records)
    assert written(unpacked(common, rest)) == written(records)
    assert written(unpacked(*json.loads(json.dumps([common, rest])))) == written(records)


def test_what_all_have_is_written_once():
    records = [{"arm": {"sizes": [1, 2], "recipe": {"steps": 5, "rate": rate}}, "loss": rate} for rate in (0.1, 0.2)]
    common, rest = packed(records)
    assert common == {"arm": {"sizes": [1, 2], "recipe": {"steps": 5}}}
    assert rest[1] == {"arm": {"recipe": {"rate": 0.2}}, "loss": 0.2}


@pytest.mark.parametrize("other", [True, 1.0, "1", [1], None])
def test_what_is_written_differently_is_not_the_same(other):
    common, _ = packed([{"x": 1}, {"x": other}])
    assert common == {}


def test_nothing_in_common_with_none():
    assert packed([]) == ({}, [])
    assert unpacked({}, []) == []
