"""Campaigns on a Ray cluster of this machine: as in one process, whatever dies on the way."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import ray

from experiments.bench import campaign as bench
from experiments.cli import main
from experiments.store import cluster
from experiments.store.backends import Serial
from experiments.store.cluster import TRIES, Ray
from experiments.store.folders import RunFolder, Slot, Unfinished, UserError
from experiments.store.work import results
from icl.files import naming
from tests.experiments.store import fake
from tests.experiments.store.fake import HELD, ONCE, STEPS, UntilLate, counted, items, steps, struck, taken, wait_for

TWO = Ray(most=2)


@pytest.fixture(scope="module", autouse=True)
def two_cores():
    ray.init("local", num_cpus=2, include_dashboard=False, logging_level="error", log_to_driver=False)
    yield
    ray.shutdown()


def campaign(run, trace, work=counted, backend=TWO, **options):
    (trace / "gate").touch()
    return results("count", items(trace), work, run, label="counting", size=lambda _: STEPS, backend=backend, **options)


def check_as_in_one_process(run, found, tmp_path):
    """The same results, and the same lines in any order."""
    (tmp_path / "serial").mkdir()
    alone = RunFolder(tmp_path / "alone")
    assert campaign(alone, tmp_path / "serial", backend=Serial()) == found
    both = [(one / "metrics.jsonl").read_bytes().split(b"\n") for one in (run, alone)]
    assert sorted(both[0]) == sorted(both[1])


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.long
def test_a_worker_that_is_killed_costs_nothing_that_was_saved(run, trace, tmp_path, capsys):
    """Two workers, one killed half-way: the serial run's bytes, and no step is taken twice."""
    found = campaign(run, trace, struck)
    assert (trace / "killed").exists()
    assert taken(trace) == ONCE
    workers = [{pid for _, pid in by} for by in steps(trace).values()]
    assert [len(of_point) for of_point in workers] == [1, 2]
    assert os.getpid() not in set.union(*workers)
    assert capsys.readouterr().err.count("b is tried again") == 1
    check_as_in_one_process(run, found, tmp_path)
    assert names(run.path) == [".lock", "metrics.jsonl"]


def crowded(item, desk):
    """The disk has no room for its checkpoint until there is a file `room`."""
    full = desk.folder / "checkpoint.part"
    full.unlink(missing_ok=True)
    if not (Path(item.trace) / "room").exists():
        full.symlink_to("/dev/full")
    return counted(item, desk)


def poisoned(item, _):
    if item == "raises":
        raise ValueError("no such thing\nand more of it")
    if item == "dies":
        os.kill(os.getpid(), signal.SIGKILL)
    return {"item": item}


@pytest.mark.parametrize(("poison", "said"), [("raises", "no such thing"), ("dies", f"tried {TRIES} times")])
@pytest.mark.long
def test_what_cannot_be_computed_is_told_of_once_and_stops_nothing(run, poison, said, capsys):
    todo = {f"k{i}": poison if i == 1 else i for i in range(6)}
    with pytest.raises(UserError, match=f"1 of 6 could not be computed: k1, .*{said}") as stop:
        results("x", todo, poisoned, run, label="x", backend=TWO)
    assert "\n" not in str(stop.value)
    assert sorted(line["key"] for line in run.metrics()) == ["k0", "k2", "k3", "k4", "k5"]
    assert capsys.readouterr().err.count("k1 cannot be computed") == 1


@pytest.mark.long
def test_time_that_runs_out_leaves_checkpoints(tmp_path, trace):
    run = RunFolder(tmp_path / "run", UntilLate(trace=str(trace)))
    (trace / "late").touch()
    with pytest.raises(Unfinished, match="counting: 0 of 2 are finished"):
        campaign(run, trace)
    (trace / "late").unlink()
    assert list(campaign(run, trace)) == ["a", "b"]


def folder_of(_, desk):
    desk.folder.joinpath("checkpoint").write_text("1")
    return {"folder": str(desk.folder)}


def test_nodes_that_do_not_see_the_run_s_folder_use_their_own(run, monkeypatch):
    found = results("x", {"a/b": 1}, folder_of, run, label="x", backend=TWO)
    assert Path(found["a/b"]["folder"]).parent == run.path
    monkeypatch.setattr(cluster, "TOKEN", "elsewhere")  # of this process alone: workers look for another file
    found = results("y", {"a/b": 1}, folder_of, run, label="y", backend=TWO)
    own = Path(found["a/b"]["folder"])
    assert own.parent.name.startswith("crosslayer-")
    assert not own.exists()
    assert names(run.path) == [".lock", "metrics.jsonl"]


def test_room_is_what_the_cluster_has():
    assert Ray().for_slot(Slot("cuda", jobs=4)) == Ray(gpus=0.25)
    assert Ray().for_slot(Slot(jobs=3)) == Ray(most=3)
    assert Ray()._room(ray) == 2
    assert Ray(gpus=0.5)._room(ray) == 0
    assert Ray(cores=2)._room(ray) == 1
    assert Ray(most=1)._room(ray) == 1


def test_what_no_node_has_is_told_of_and_not_waited_for(run, trace):
    for backend, says in (
        (Ray(gpus=0.5), r"^0\.5 GPU for every item are asked for, and the Ray cluster has none$"),
        (Ray(cores=3), r"^3 cores for every item are asked for, and no node of the Ray cluster has more than 2$"),
    ):
        with pytest.raises(UserError, match=says):
            campaign(run, trace, backend=backend)
    with pytest.raises(UserError, match="GPU"):
        campaign(RunFolder(run.path, Slot("cuda", on="ray")), trace, backend=None)


def test_a_worker_s_full_disk_costs_its_points_and_no_other(run, trace, tmp_path):
    """What it was is told with the file's name; with room again the same campaign goes on to the serial lines."""
    with pytest.raises(UserError, match=r"2 of 2 could not be computed: ., .*No space left on device: .*checkpoint"):
        campaign(run, trace, crowded)
    assert run.metrics() == []
    (trace / "room").touch()
    found = campaign(run, trace, crowded)
    check_as_in_one_process(run, found, tmp_path)


def test_the_driver_s_full_disk_loses_one_line_and_names_the_file(run, trace, tmp_path, monkeypatch):
    """The first of two lines is written, the second is not; with room again it is computed anew, and it alone."""
    log, written = RunFolder.log, []

    def full(self, line):
        if not written:
            written.append(line["key"])
            log(self, line)
            return
        with naming(self / "metrics.jsonl"), Path("/dev/full").open("a") as file:
            file.write(str(line))

    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "log", full)
        with pytest.raises(OSError, match=r"No space left on device: .*metrics\.jsonl"):
            campaign(run, trace)
    assert [line["key"] for line in run.metrics()] == written
    found = campaign(run, trace)
    check_as_in_one_process(run, found, tmp_path)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
@pytest.mark.long
def test_a_campaign_that_is_ended_is_resumed_elsewhere(run, trace, how):
    """Its own cluster goes with it; what was begun there goes on in this process."""
    root = Path(fake.__file__).parents[3]
    command = [sys.executable, "-m", "tests.experiments.store.fake", str(run.path), str(trace), "2", "ray"]
    parent = subprocess.Popen(command, cwd=root, stderr=subprocess.PIPE, start_new_session=True)
    try:
        wait_for(lambda: run.has("metrics.jsonl") and run.metrics())
        wait_for(lambda: len(steps(trace).get(2, ())) == HELD)
        wait_for(lambda: (run / "unfinished-b" / "checkpoint").read_text().startswith(f"{HELD} "))
        (worker,) = {pid for _, pid in steps(trace)[2]}
        os.killpg(parent.pid, how) if how == signal.SIGINT else parent.kill()
        parent.communicate(timeout=60)
        wait_for(lambda: not Path(f"/proc/{worker}").exists())
    finally:
        parent.kill()
        parent.wait()
    found = campaign(run, trace, backend=Serial())
    assert taken(trace) == ONCE
    assert found["b"]["half"] == found["b"]["value"] / 2
    assert set(names(run.path)) - {cluster.TOKEN} == {".lock", "metrics.jsonl"}


def test_without_ray_it_says_so(run, trace, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UserError, match=r"pip install -e '\.\[cluster\]'"):
        campaign(run, trace)


@pytest.mark.long
def test_where_has_two_answers(capsys):
    assert main(["run", "skipv1-gap", "--profile", "smoke", "--on", "mars"]) == 2
    assert capsys.readouterr().err == "crosslayer: --on must be here or ray, got 'mars'\n"


@pytest.mark.long
def test_the_benchmark_compares_equal_lines(monkeypatch):
    monkeypatch.setattr(bench, "TURNS", 1)
    (found,) = bench.run_campaign(2, points=4, seconds=0.001)["benchmarks"]
    assert found["same_answer"]
    assert set(found["ratios"]) == {bench.PROCESSES, bench.RAY}
    here = bench.hashed
    monkeypatch.setattr(bench, "hashed", lambda item, desk: {**here(item, desk), "pid": os.getpid()})
    monkeypatch.setattr(bench, "Processes", lambda _: Serial())  # a function of this test cannot be sent to one
    (found,) = bench.run_campaign(2, points=4, seconds=0.001)["benchmarks"]
    assert not found["same_answer"]
