"""Terminals and pipes that cannot hold all of Unicode."""

import builtins
import contextlib
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from experiments.cli import main
from experiments.cli.encoding import spell
from tests.experiments.cli.test_process import PRINTING

ROOT = Path(__file__).resolve().parents[3]
ENCODINGS = ["ascii", "latin-1", "cp1252", "cp437", "utf-8"]
RULE = "def größe(s):\n    from theory.plans.plan import plan\n    return plan(s)\n"


def outcome(command, encoding):
    """Status, output and errors of a command with strict streams."""
    streams = [io.TextIOWrapper(io.BytesIO(), encoding, "strict") for _ in range(2)]
    with contextlib.redirect_stdout(streams[0]), contextlib.redirect_stderr(streams[1]):
        status = main(command)
    for stream in streams:
        stream.flush()
    return status, *(stream.buffer.getvalue().decode(encoding) for stream in streams)


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
    status, out, errors = outcome(command, encoding)
    assert (status, errors) == (0, "")
    last = out.splitlines()[-1]
    held = encoding == "utf-8"
    assert last.endswith(
        "1 ≤ 名 \\ud800" if held else (r"1 ≤ \u540d \ud800" if encoding == "cp437" else r"1 <= \u540d \ud800")
    )
    assert last.startswith("+-" if encoding == "ascii" else "±")


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_names_of_users_stay_told_apart(encoding, tmp_path):
    path = tmp_path / "名.py"
    path.write_text(RULE, encoding="utf-8")
    command = ["describe", "llama-2m", "--variant", f"{path}:größe"]
    name = "größe" if encoding != "ascii" else r"gr\xf6\xdfe"
    status, out, errors = outcome(command, encoding)
    assert (status, errors) == (0, "")
    assert name in out
    status, out, errors = outcome([*command, "--json"], encoding)
    assert (status, errors) == (0, "")
    assert "größe" in json.dumps(json.loads(out), ensure_ascii=False)
    status, out, errors = outcome(["describe", "größe"], encoding)
    assert (status, out) == (2, "")
    assert f"unknown preset '{name}'" in errors


@pytest.mark.long
def test_a_process_in_an_old_locale_shows_a_table():
    environment = os.environ | {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LC_ALL": "C", "PYTHONIOENCODING": ""}
    command = [sys.executable, "-m", "experiments", "compare", "--out", str(ROOT / "results")]
    done = subprocess.run(command, env=environment, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.isascii()
    assert b"\\u" not in done.stdout


def test_signs_are_spelt():
    assert spell("a ± b → 2 ≥ é") == r"a +- b -> 2 >= \xe9"
