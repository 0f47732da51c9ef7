"""Scripts without a guard, and folders that bear our packages' names."""

import subprocess
import sys

import pytest

UNGUARDED = """
from pathlib import Path
from experiments.store.backends import Processes
from experiments.store.folders import RunFolder, UserError
from experiments.store.work import results

def double(item, desk):
    return {"value": 2 * item}

try:
    results("twice", {"a": 1, "b": 2}, double, RunFolder(Path("run")), label="two", backend=Processes(2))
except UserError as error:
    print(error)
"""


def script(folder, *arguments):
    return subprocess.run([sys.executable, *arguments], cwd=folder, capture_output=True, text=True, check=False)


def test_a_script_without_a_guard_is_told_so_once(tmp_path):
    (tmp_path / "mine.py").write_text(UNGUARDED)
    done = script(tmp_path, "mine.py")
    assert done.stdout.count("\n") == 1
    assert '__name__ == "__main__"' in done.stdout
    assert "Traceback" not in done.stderr
    assert "another process" not in done.stdout + done.stderr
    assert "memory" not in done.stdout + done.stderr


@pytest.mark.parametrize("name", ["icl", "theory"])
def test_a_package_that_hides_ours_is_named_in_one_line(name, tmp_path):
    (tmp_path / name).mkdir()
    (tmp_path / name / "__init__.py").touch()
    done = script(tmp_path, "-m", "experiments", "list")
    line = f"{tmp_path / name} hides Crosslayer's package {name}: rename it, or work in another folder"
    assert (done.returncode, done.stderr) == (2, f"crosslayer: {line}\n")
    (tmp_path / "mine.py").write_text("import experiments\nexperiments.claims()\n")
    done = script(tmp_path, "mine.py")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == f"ImportError: {line}"
