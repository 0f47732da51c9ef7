"""Commands of a rental, with parts that write a line every twentieth of a second: order, minutes, kills."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from experiments.rental import archive
from experiments.rental.machines import MACHINES, Forecast
from experiments.rental.parts import Part
from experiments.rental.sitting import ROOT, STANDING, WORK, Clock, Sitting
from experiments.store.folders import RunFolder
from tests.experiments.cli.answers import refused

PAUSE = 0.05
# Goes on from the lines that are there; "fail" ends with status 3, as what nobody has caught does.
WORKER = f"""
import json, pathlib, sys, time
path, count, fails = pathlib.Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "fail"
path.parent.mkdir(parents=True, exist_ok=True)
there = path.read_text().count(chr(10)) if path.exists() else 0
for i in range(there, count):
    time.sleep({PAUSE})
    with path.open("a") as file:
        file.write(json.dumps({{"kind": "run", "key": str(i)}}) + chr(10))
    if fails:
        sys.exit(3)
"""
PROGRAM = (sys.executable, "-c", WORKER)
SCALE = 0.01


def part(out, name, count=4, minutes=5.0, how="", forecast=None):
    path = out / name / "metrics.jsonl"
    return Part(
        name,
        f"{count} lines",
        minutes,
        lambda _: [(str(path), str(count), how)],
        lambda: path.exists() and path.read_text().count("\n") >= count,
        lambda _: forecast,
    )


def sitting(parts, out, minutes=1.0, **options):
    said = []
    options = {"say": said.append, "program": PROGRAM, **options}
    one = Sitting(parts, out, out.parent / "pieces", Clock(minutes, scale=SCALE, start=0.0), **options)
    return one, said


def ends(out):
    about = RunFolder(out / WORK).read(STANDING)["parts"]
    return {name: [one["ended"] for one in of_part["tries"]] for name, of_part in about.items()}


def counts(out, names):
    return [(out / name / "metrics.jsonl").read_text().count("\n") for name in names]


def test_parts_run_in_order_and_what_is_done_is_passed_by(tmp_path):
    out = tmp_path / "results"
    parts = [part(out, name) for name in ("a", "b")]
    one, said = sitting(parts, out)
    assert one.go_on()
    assert [line.partition(":")[0] for line in said] == ["a", "a", "b", "b", "archive"]
    assert ends(out) == {"a": ["done"], "b": ["done"]}
    again, said = sitting(parts, out)
    assert again.go_on()
    assert [line.partition(":")[0] for line in said] == ["archive"]


@pytest.mark.long
def test_a_part_has_its_own_minutes_and_goes_on_with_what_is_left(tmp_path):
    """The first would take all the time; the second has its turn, and then the first goes on."""
    out = tmp_path / "results"
    parts = [part(out, "long", count=30, minutes=1.0), part(out, "short", count=2, minutes=20.0)]
    one, _ = sitting(parts, out)
    assert one.go_on()
    assert ends(out) == {"long": ["time was up", "done"], "short": ["done"]}
    assert counts(out, ["long", "short"]) == [30, 2]


@pytest.mark.long
def test_what_a_command_leaves_the_next_one_goes_on_with(tmp_path):
    out = tmp_path / "results"
    parts = [part(out, "a", count=2), part(out, "b", count=40)]
    one, _ = sitting(parts, out, minutes=1.2 / 60)
    assert one.go_on()
    first = counts(out, ["b"])[0]
    assert 0 < first < 40
    one, _ = sitting(parts, out)
    assert one.go_on()
    assert counts(out, ["a", "b"]) == [2, 40]
    keys = [line["key"] for line in RunFolder(out / "b").metrics()]
    assert keys == [str(i) for i in range(40)]


def test_a_part_that_fails_ends_no_other(tmp_path):
    out = tmp_path / "results"
    parts = [part(out, "bad", how="fail"), part(out, "good")]
    one, said = sitting(parts, out)
    assert not one.go_on()
    assert ends(out)["good"] == ["done"]
    assert ends(out)["bad"][0].startswith("failed with status 3")
    assert any("bad.log" in line for line in said)


def test_what_the_forecast_forbids_is_not_begun(tmp_path):
    out = tmp_path / "results"
    fits = Forecast(1.0, 0.1, 1e9, "")
    parts = [
        part(out, "long", forecast=Forecast(1e4, 1e4, 1e9, "")),
        part(out, "large", forecast=Forecast(1.0, 0.1, 1e12, "")),
        part(out, "fits", forecast=fits),
    ]
    one, said = sitting(parts, out, machine=MACHINES["H100"])
    assert one.go_on()
    assert ends(out) == {"long": [], "large": [], "fits": ["done"]}
    assert any(line.startswith("long is not begun: by its forecast it needs 10000 s") for line in said)
    assert any(line.startswith("large is not begun") and "1000 GB" in line for line in said)


@pytest.mark.long
def test_every_part_may_be_killed_once_and_goes_on(tmp_path):
    out = tmp_path / "results"
    names = ["a", "b", "c"]
    one, _ = sitting([part(out, name, count=6) for name in names], out, interrupt=True)
    assert one.go_on()
    assert ends(out) == {name: ["killed", "done"] for name in names}
    assert counts(out, names) == [6, 6, 6]


@pytest.mark.parametrize("place", range(3))
@pytest.mark.long
def test_a_command_that_is_killed_leaves_its_archive_and_goes_on(place, tmp_path):
    """Killed like a machine that is taken away, while one part after another is at work."""
    out, home = tmp_path / "results", tmp_path / "home"
    names = ["a", "b", "c"]
    here = Path(__file__)
    script = f"""
import sys
sys.path[:0] = [{str(ROOT)!r}]
from pathlib import Path
from tests.experiments.rental.test_sitting import part, sitting
out = Path({str(out)!r})
sitting([part(out, name, count=15) for name in {names!r}], out)[0].go_on()
"""
    process = subprocess.Popen([sys.executable, "-c", script], start_new_session=True, cwd=here.parent)
    watched = out / names[place] / "metrics.jsonl"
    end = time.monotonic() + 60
    while not (watched.exists() and watched.read_text().count("\n") >= 13):
        assert time.monotonic() < end
        assert process.poll() is None
        time.sleep(0.01)
    process.kill()
    process.wait()
    pieces = sorted((tmp_path / "pieces").glob("*"))
    archive.merge([piece for piece in pieces if piece.name.endswith(archive.SUFFIX)], home)
    came = (home / names[place] / "metrics.jsonl").read_text()
    assert came
    assert watched.read_text().startswith(came)
    one, _ = sitting([part(out, name, count=15) for name in names], out)
    assert one.go_on()
    assert counts(out, names) == [15, 15, 15]  # its process has left with it: no line is written twice
    (standing,) = [x for x in archive.read(one.pieces.glob(f"{one.name}-*")) if x.path.endswith(STANDING)]
    assert set(json.loads(standing.content)["parts"]) == set(names)


@pytest.mark.long
def test_an_interrupt_ends_the_part_and_leaves_the_archive(tmp_path):
    out = tmp_path / "results"
    one, said = sitting([part(out, "a", count=1000, minutes=60)], out)
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, 1.0)
    with pytest.raises(KeyboardInterrupt):
        one.go_on()
    assert list(one.pieces.glob(f"{one.name}-*"))
    before = counts(out, ["a"])
    time.sleep(PAUSE * 4)
    assert counts(out, ["a"]) == before
    assert said


def test_without_a_gpu_nothing_is_begun(tmp_path, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    refused(["rental", "start", "--out", str(tmp_path / "results")], "there is no GPU that torch can use here")
    assert not (tmp_path / "results").exists()
