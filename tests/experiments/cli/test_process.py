"""A command as a process: signals, closed streams, full disks, old encodings, and the status that it ends with.

On a file system that is too small, and grows, the same command ends with the bytes of one that had room all along.
"""

import builtins
import errno
import io
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from experiments.cli import main, process
from experiments.cli.process import spell
from experiments.store.folders import RunFolder
from tests.experiments.cli.answers import outcome

ROOT = Path(__file__).resolve().parents[3]
RESULTS = str(ROOT / "results")
TRAIN = ["train", "--preset", "llama-2m", "--data", "regression:d=2,n=3,sigma=0.1", "--batch", "2", "--device", "cpu"]
PRINTING = [
    ["list"],
    ["list", "--json"],
    ["variants"],
    ["papers"],
    ["compare", "scale-uptrain", "--out", RESULTS],
    ["claim", "skipv1.eckart-young"],
    ["verify", "skipv1.eckart-young"],
    ["describe", "llama-60m"],
    ["predict", "skipv1", "--d", "3", "--n", "8", "--sigma", "0.3", "--rank", "2"],
]


class Output(io.TextIOBase):
    """Standard output that cannot be written to."""

    def __init__(self, error):
        self.error = error

    def write(self, _):
        raise self.error


def shell(command):
    """What a shell makes of a command line in which CROSSLAYER is ours."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"}
    text = command.replace("CROSSLAYER", f"{shlex.quote(sys.executable)} -m experiments")
    return subprocess.run(["bash", "-c", text], cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


# Output.


@pytest.mark.parametrize("command", PRINTING, ids=" ".join)
def test_a_reader_that_has_left_is_no_failed_check(command, monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdout", Output(BrokenPipeError(errno.EPIPE, "Broken pipe")))
    assert main(command) == 141
    assert not capsys.readouterr().err


@pytest.mark.parametrize("command", PRINTING, ids=" ".join)
def test_a_full_disk_behind_standard_output_is_one_line(command, monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdout", Output(OSError(errno.ENOSPC, "No space left on device")))
    assert main(command) == 2
    assert capsys.readouterr().err == "crosslayer: standard output: No space left on device\n"


@pytest.mark.parametrize(
    ("command", "status"),
    [
        ("CROSSLAYER list >&-", 0),
        ("CROSSLAYER list <&- >&- 2>&-", 0),
        ("CROSSLAYER run nothing 2>&-", 2),
        ("CROSSLAYER list > /dev/full", 2),
        ("CROSSLAYER list | true; ((PIPESTATUS[0] % 141 == 0))", 0),
        ("CROSSLAYER --help | true; ((PIPESTATUS[0] % 141 == 0))", 0),
    ],
)
def test_streams_that_are_closed_or_full(command, status):
    done = shell(command)
    assert done.returncode == status
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr
    assert done.stderr.count("\n") <= 1


@pytest.mark.parametrize("name", ["config.json.part", "metrics.jsonl", "model.safetensors.part", "state.safetensors"])
@pytest.mark.long
def test_a_full_disk_names_the_file(name, tmp_path, monkeypatch, capsys):
    """Whichever it is; nothing is lost, and the same command resumes."""
    opened = Path.open

    def full(self, mode="r", *arguments, **options):
        wanted = self.name == name and "r" not in mode
        return opened(Path("/dev/full") if wanted else self, mode, *arguments, **options)

    command = [*TRAIN, "--steps", "4", "--log-every", "2", "--save-every", "0", "--out", str(tmp_path)]
    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", full)
        assert main(command) == 2
    *sizes, err = capsys.readouterr().err.splitlines()
    assert len(sizes) == 2  # of what is about to be trained
    assert err.startswith("crosslayer: ")
    assert f"{name.removesuffix('.part')}: No space left on device" in err
    assert str(tmp_path) in err
    (folder,) = (tmp_path / "train").iterdir()
    assert not list(folder.glob("*.part/*.part"))
    assert not list(folder.glob("*.json*.part"))
    assert main(command) == 0


# Terminals and pipes that cannot hold all of Unicode.

STRICT = ("strict", "strict")
ENCODINGS = ["ascii", "latin-1", "cp1252", "cp437", "utf-8"]
RULE = "def größe(s):\n    from theory.plans.plan import plan\n    return plan(s)\n"


@pytest.mark.parametrize(
    ("command", "encoding"),
    [(command, "ascii") for command in PRINTING] + [(["papers"], one) for one in ENCODINGS[1:]],
)
def test_no_command_ends_at_a_sign(command, encoding, monkeypatch):
    """Whatever its text comes to hold: a user's words may stand in every line."""
    write = builtins.print

    def more(*words, **options):
        write(*words, **options)
        write("±1 ≤ 名 \ud800", **options)

    monkeypatch.setattr(builtins, "print", more)
    status, out, errors = outcome(command, encoding, STRICT)
    assert (status, errors) == (0, "")
    last = out.splitlines()[-1]
    assert last.endswith(
        {"utf-8": r"1 ≤ 名 \ud800", "cp437": r"1 ≤ \u540d \ud800"}.get(encoding, r"1 <= \u540d \ud800")
    )
    assert last.startswith("+-" if encoding == "ascii" else "±")


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_names_of_users_stay_told_apart(encoding, tmp_path):
    path = tmp_path / "名.py"
    path.write_text(RULE, encoding="utf-8")
    command = ["describe", "llama-2m", "--variant", f"{path}:größe"]
    name = "größe" if encoding != "ascii" else r"gr\xf6\xdfe"
    status, out, errors = outcome(command, encoding, STRICT)
    assert (status, errors) == (0, "")
    assert name in out
    status, out, errors = outcome([*command, "--json"], encoding, STRICT)
    assert (status, errors) == (0, "")
    assert "größe" in json.dumps(json.loads(out), ensure_ascii=False)
    status, out, errors = outcome(["describe", "größe"], encoding, STRICT)
    assert (status, out) == (2, "")
    assert f"unknown preset '{name}'" in errors


@pytest.mark.long
def test_a_process_in_an_old_locale_shows_a_table():
    environment = os.environ | {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LC_ALL": "C", "PYTHONIOENCODING": ""}
    command = [sys.executable, "-m", "experiments", "compare", "--out", RESULTS]
    done = subprocess.run(command, env=environment, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.isascii()
    assert b"\\u" not in done.stdout


def test_signs_are_spelt():
    assert spell("a ± b → 2 ≥ é") == r"a +- b -> 2 >= \xe9"


# Signals.

IMPORTING = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell may have switched off for a background job
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == {name!r}:
            os.kill(os.getpid(), {number})
sys.meta_path.insert(0, Finder())
from experiments.cli import main, process
sys.exit(main())
"""


@pytest.mark.parametrize("name", ["experiments.cli.parser", "experiments.catalogue", "theory.plans.variants"])
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_during_imports_is_one_line(name, number, status):
    code = IMPORTING.format(name=name, number=int(number))
    done = subprocess.run([sys.executable, "-c", code, "list"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == status
    assert done.stderr == f"crosslayer: {'interrupted' if number == signal.SIGINT else 'stopped'}\n"


@pytest.mark.long
def test_a_training_that_is_stopped_says_how_to_resume(tmp_path):
    command = [sys.executable, "-m", "experiments", *TRAIN, "--steps", "100000", "--out", str(tmp_path)]
    running = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True, start_new_session=True)
    for _ in range(6000):
        if list(tmp_path.glob("train/*/metrics.jsonl")):
            break
        time.sleep(0.01)
    os.killpg(running.pid, signal.SIGTERM)
    lines = running.communicate(timeout=30)[1].splitlines()
    *sizes, said = [line for line in lines if " s left" not in line]  # progress, on a slow machine
    assert len(sizes) == 2  # of what is trained
    assert said == "crosslayer: stopped; the same command resumes from here"
    assert running.returncode == 143


@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize(
    ("command", "where"),
    [
        (["run", "skipv1-gap", "--profile", "smoke"], "experiments.experiment.execution.prepare"),
        (["verify", "skipv1.eckart-young", "--afresh"], "experiments.ledger.verify.results"),
        (["report"], "experiments.report.write_report"),
        (["data", "info", "nowhere"], "icl.data.shards.open_data"),
        (["bench"], "experiments.bench.toy.run_benchmarks"),
        ([*TRAIN, "--steps", "4"], "experiments.commands.single.carried_out"),
    ],
    ids=lambda value: value if isinstance(value, str) else value[0],
)
def test_an_interrupt_is_one_line_in_every_command(command, where, wrapped, monkeypatch, capsys, tmp_path):
    """Also where compiled code has made another error of it."""

    def interrupted(*_, **__):
        if not wrapped:
            raise KeyboardInterrupt
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt:
            raise SystemError("error return without exception set") from None

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(where, interrupted)
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    assert main(command) == 130
    err = capsys.readouterr().err
    assert err.startswith("crosslayer: interrupted")
    assert err.count("\n") == 1
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def test_an_error_of_ours_stays_a_traceback(monkeypatch):
    """What no user can put right must be seen whole."""
    monkeypatch.setattr("experiments.catalogue.names", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        main(["list"])


def test_what_a_run_has_logged_is_on_the_disk_or_said(tmp_path):
    run = RunFolder(tmp_path)
    (tmp_path / "metrics.jsonl").symlink_to("/dev/full")
    with pytest.raises(OSError, match=r"metrics.jsonl"):
        run.log({"kind": "a"})


@pytest.mark.parametrize(("moment", "ends"), [(60.0, []), (0.0, [130])])
def test_only_a_signal_that_comes_later_ends_at_once(moment, ends, monkeypatch):
    """What comes with the first is the same request, as from `timeout`, which tells a process and its group."""
    ended = []
    monkeypatch.setattr(process, "MOMENT", moment)
    monkeypatch.setattr(os, "_exit", ended.append)
    before = {stop: signal.getsignal(stop) for stop in process.STOPS}
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)  # pytest's parent may ignore it
        with pytest.raises(process.Interrupt), process._signals_raise():
            signal.raise_signal(signal.SIGINT)
        time.sleep(0.001)
        signal.raise_signal(signal.SIGINT)
    finally:
        for stop, handler in before.items():
            signal.signal(stop, handler)
    assert ended == ends


ENDING = """
import gc, sys
from experiments.cli import process
process._status = lambda _: int(sys.argv[1])
process.main()
print(gc.get_freeze_count() > 0)
"""


@pytest.mark.parametrize(("status", "frozen"), [(0, "False"), (143, "True")])
def test_after_a_signal_the_interpreter_does_not_look_through_all_that_it_holds(status, frozen):
    """Which took `report` four seconds."""
    command = [sys.executable, "-c", ENDING, str(status)]
    assert subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip() == frozen


SMALL_TRAINING = (
    *("train", "--preset", "llama-2m", "--width", "32", "--heads", "2", "--data", "regression:d=2,n=3,sigma=0.1"),
    *("--batch", "2", "--steps", "6", "--log-every", "2", "--save-every", "0", "--device", "cpu"),
)
PREPARE = ("data", "prepare", str(ROOT / "theory" / "dva"), "--vocab", "300")
# Mounted where nobody else sees it, as a user who is root there alone.
MOUNTED = ("unshare", "--map-root-user", "--mount", "sh", "-c")
SCRIPT = """
mount -t tmpfs -o size={size} tmpfs small || exit 99
{command}; echo "status $?" >&2
find small -name 'checkpoint-*' -name '*[0-9]' | sed 's/.*checkpoint-0*/checkpoint /' >&2
mount -o remount,size=16m small
{command} || exit 98
cp -r small kept
"""


def tried(folder, size, *command):
    """What is said, of a file system of that size first, with the bytes of the files that are there at last."""
    (folder / "small").mkdir()
    words = " ".join(f"'{word}'" for word in (sys.executable, "-m", "experiments", *command))
    script = SCRIPT.format(size=size, command=words)
    done = subprocess.run([*MOUNTED, script], cwd=folder, capture_output=True, text=True, check=False)
    if "Operation not permitted" in done.stderr or done.returncode == 99:
        pytest.skip("this machine lets nobody mount a file system")
    assert done.returncode == 0, done.stderr
    return done.stderr, contents(folder / "kept" / "made")


def contents(folder):
    """Of what does not tell the time that things took."""
    files = (p for p in folder.rglob("*") if p.is_file() and p.suffix not in (".json", ".jsonl"))
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


@pytest.mark.skipif(shutil.which("unshare") is None, reason="needs unshare, which Linux has")
@pytest.mark.parametrize(("command", "share"), [(SMALL_TRAINING, 0.7), (PREPARE, 0.4)], ids=["train", "data prepare"])
@pytest.mark.usefixtures("fine_figures")  # their bytes count, and are those of another process
@pytest.mark.long
def test_a_small_disk_costs_nothing(command, share, tmp_path):
    """Of a training, one of three checkpoints has room."""
    assert main([*command, "--out", str(tmp_path / "roomy")]) == 0
    expected = contents(tmp_path / "roomy")
    size = int(share * sum(map(len, expected.values())))
    said, found = tried(tmp_path, size, *command, "--out", "small/made")
    (line,) = (line for line in said.splitlines() if line.startswith("crosslayer: "))
    assert "small/made" in line
    assert line.endswith(": No space left on device")
    assert "status 2" in said
    assert "Traceback" not in said
    assert said.count("checkpoint 2\n") == (command is SMALL_TRAINING)
    assert found == expected
