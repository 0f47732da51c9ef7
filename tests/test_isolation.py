"""A test sees nothing of what lies in the working folder, the cache or the environment of whoever runs it."""

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from experiments.store.folders import cache
from tests.isolation import REMOVED, copied, elsewhere, empty_folder, examples_folder

ROOT = Path(__file__).resolve().parents[1]
SOME = (  # each reads one of the things that `surroundings` spoils
    "tests/experiments/cli/test_cli.py::test_a_claim_is_shown_whole",
    "tests/experiments/store/test_work.py::test_lines_of_other_kinds_and_a_torn_one",
    "tests/experiments/training/test_text.py",
    "tests/test_isolation.py::test_a_test_begins_in_an_empty_folder",
    "tests/test_isolation.py::test_what_tests_share_is_made_in_an_empty_folder",
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


@pytest.fixture(scope="module")
def seen():
    """The folder in which this fixture was made, and what lay in it."""
    return Path.cwd(), list(Path.cwd().iterdir())


def test_what_tests_share_is_made_in_an_empty_folder(seen):
    folder, content = seen
    assert not content
    assert not {ROOT, Path.cwd()} & {folder, *folder.parents}


def test_a_shared_fixture_that_writes_into_the_working_folder_is_named():
    before = Path.cwd()
    with pytest.raises(AssertionError, match="the fixture careless writes runs into"), elsewhere("careless"):
        Path("runs").mkdir()
    assert Path.cwd() == before
    assert not list(before.iterdir())


def test_failing_examples_are_kept_in_the_checkout_if_it_can_be_written_to(tmp_path, monkeypatch):
    assert examples_folder(tmp_path) == tmp_path / ".hypothesis"
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert ROOT not in examples_folder(ROOT).parents


def test_no_variable_of_the_user_s_is_there():
    assert not set(REMOVED) & os.environ.keys()
    assert Path.home() in cache().parents or cache().parents[1] == Path.home().parent


@pytest.mark.long
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
    assert {path.name for path in place.iterdir()} == {"cache", "data", "experiments.py", "home", "runs", "theory"}


def surroundings(place):
    copied(ROOT / "results" / "skipv1-gap", place / "runs" / "skipv1-gap" / "smoke-0123456789")
    (place / "experiments.py").write_text("raise SystemExit('not ours')\n")
    (place / "theory").mkdir()
    (place / "theory" / "__init__.py").write_text("raise SystemExit('not ours')\n")
    for folder in ("cache/crosslayer/stdlib-512", "data/stdlib-512", "home"):
        (place / folder).mkdir(parents=True)
    (place / "cache/crosslayer/stdlib-512/manifest.json").write_text("{")
    (place / "data/stdlib-512/manifest.json").write_text("{")
    return place


SPACED = {"OUT": "my runs", "RESULTS": "my results", "DATA": "my data", "PYTHON": "/opt/my python/bin/python"}


def make(folder, *arguments):
    """What it prints in a folder that has this Makefile."""
    shutil.copy(ROOT / "Makefile", folder)
    done = subprocess.run([shutil.which("make"), *arguments], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done


@pytest.mark.parametrize("target", ["setup", "reproduce", "scale", "campaign"])
def test_make_keeps_names_with_spaces_whole(target, tmp_path):
    """Every word of what it would run is looked at, as a shell splits it."""
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "constraints.txt").touch()
    done = make(tmp_path, "-n", target, "MINUTES=1", *(f"{name}={value}" for name, value in SPACED.items()))
    words = shlex.split(done.stdout.replace("\\\n", " "), comments=True)
    told = {value for value in SPACED.values() if value in done.stdout}
    assert told
    for value in told:
        first, _, last = value.partition(" ")
        assert any(value in word for word in words)
        assert first not in words
        assert last not in words


def test_make_gpu_keeps_names_with_spaces_whole(tmp_path):
    """With a Python that writes down its arguments, a line each; `make -n` would run this recipe too."""
    (tmp_path / "my python").write_text('#!/bin/sh\nfor word in "$@"; do printf "%s\\n" "$word"; done >> said\n')
    (tmp_path / "my python").chmod(0o755)
    make(tmp_path, "gpu", "MINUTES=1", f"PYTHON={tmp_path}/my python", "RESULTS=my results", "DATA=my data")
    said = (tmp_path / "said").read_text().splitlines()
    assert {"my results", "my results/rental", "my data", "rental", "start"} <= set(said)
    assert not {"my", "data", "results"} & set(said)
