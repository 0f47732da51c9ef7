"""A file system that is too small, and grows: one line that names the file, then the same command ends with the bytes
of one that had room all along."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from experiments.cli import main

ROOT = Path(__file__).resolve().parents[3]
TRAIN = (
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
@pytest.mark.parametrize(("command", "share"), [(TRAIN, 0.7), (PREPARE, 0.4)], ids=["train", "data prepare"])
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
    assert said.count("checkpoint 2\n") == (command is TRAIN)
    assert found == expected
