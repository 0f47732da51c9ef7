"""A test sees nothing of what lies in the working folder, the cache or the environment of whoever runs it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from experiments.store.cache import cache
from tests.isolation import REMOVED, empty_folder

ROOT = Path(__file__).resolve().parents[1]
SOME = (  # each reads one of the things that `surroundings` spoils
    "tests/experiments/cli/test_cli.py::test_a_claim_is_shown_whole",
    "tests/experiments/store/test_work.py::test_lines_of_other_kinds_and_a_torn_one",
    "tests/experiments/training/test_text.py",
    "tests/test_isolation.py::test_a_test_begins_in_an_empty_folder",
    "tests/test_isolation.py::test_no_variable_of_the_user_s_is_there",
)


def test_a_test_begins_in_an_empty_folder():
    assert not list(Path.cwd().iterdir())
    assert ROOT not in (Path.cwd(), *Path.cwd().parents)
    Path("runs").mkdir()


def test_what_a_test_leaves_is_gone():
    (Path.cwd() / "runs" / "inner").mkdir(parents=True)
    Path("theory.py").touch()
    empty_folder()
    assert not list(Path.cwd().iterdir())


def test_no_variable_of_the_user_s_is_there():
    assert not set(REMOVED) & os.environ.keys()
    assert Path.home() in cache().parents or cache().parents[1] == Path.home().parent


def test_some_pass_in_hostile_surroundings(tmp_path):
    """A folder of runs, modules named as ours, a broken cache, and variables that a launcher or a terminal may set."""
    place = surroundings(tmp_path / "a place")
    changed = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("CROSSLAYER", "PYTEST"))},
        **dict.fromkeys(("RANK", "WORLD_SIZE", "LOCAL_RANK"), "3"),
        "XDG_CACHE_HOME": str(place / "cache"),
        "HOME": str(place / "home"),
        "COLUMNS": "11",
        "PYTHONIOENCODING": "ascii",
        "MPLBACKEND": "no-such-backend",
    }
    tests = [f"{ROOT}/{name}" for name in SOME]
    command = [sys.executable, "-P", "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", f"--rootdir={ROOT}"]
    about = ["-c", str(ROOT / "pyproject.toml"), *tests]
    done = subprocess.run([*command, *about], cwd=place, env=changed, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    assert sorted(path.name for path in place.iterdir()) == sorted(["cache", "data", "experiments.py", "home", "runs"])


def surroundings(place):
    shutil.copytree(ROOT / "results" / "skipv1-gap", place / "runs" / "skipv1-gap" / "smoke-0123456789")
    (place / "experiments.py").write_text("raise SystemExit('not ours')\n")
    for folder in ("cache/crosslayer/stdlib-512", "data/stdlib-512", "home"):
        (place / folder).mkdir(parents=True)
    (place / "cache/crosslayer/stdlib-512/manifest.json").write_text("{")
    (place / "data/stdlib-512/manifest.json").write_text("{")
    return place
