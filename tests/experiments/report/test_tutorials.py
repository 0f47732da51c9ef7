"""The tutorials of the site: their Python runs, their commands are read by the command line."""

import re
import shlex
import sys
from pathlib import Path

import pytest

from experiments.cli.parser import parser
from experiments.report.pages.documents import TEXT
from tests.test_contributing import run, write

ROOT = Path(__file__).resolve().parents[3]
PAGES = {path.stem: path.read_text() for path in (TEXT / "tutorials").glob("*.md")}


def blocks(name, language):
    return re.findall(rf"^```{language}\n(.*?)^```", PAGES[name], re.MULTILINE | re.DOTALL)


def test_there_is_one_of_everything():
    assert {"identity", "variant", "claim", "paper", "campaign"} <= set(PAGES)
    assert set(re.findall(r"\]\((\w+)\.md\)", PAGES["index"])) == set(PAGES) - {"index"}


@pytest.mark.parametrize("name", ["identity", "variant", "claim", "campaign"])
@pytest.mark.long
def test_python_runs(name, tmp_path, monkeypatch):
    """All of a page in order, as in one file: a test of hypothesis wants the source of what it tests."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    code = blocks(name, "python")
    assert sum(text.count("assert") + text.count("check_identity(") for text in code) >= 2
    (tmp_path / f"tutorial_{name}.py").write_text("\n".join(code))
    __import__(f"tutorial_{name}")
    sys.modules.pop(f"tutorial_{name}")


@pytest.mark.parametrize("name", PAGES)
def test_commands_are_read(name):
    lines = [line for text in blocks(name, "sh") for line in text.splitlines() if line.startswith("crosslayer")]
    for line in lines:
        parser().parse_args(shlex.split(line)[1:])


@pytest.mark.long
def test_a_paper_shows_up(tmp_path):
    """Written to files and installed, as far as an entry point goes."""
    files = {re.match(r"# (\S+)\n", text)[1]: text for text in (*blocks("paper", "python"), *blocks("paper", "toml"))}
    write(tmp_path, files)
    info = tmp_path / "doubled_heads-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: doubled-heads\nVersion: 1.0\n")
    point = re.search(r"^doubled_heads = \"(\S+)\"$", files["pyproject.toml"], re.MULTILINE)[1]
    (info / "entry_points.txt").write_text(f"[crosslayer.papers]\ndoubled_heads = {point}\n")
    lines = ["papers", "verify doubled-heads.worth", "predict doubled-heads --d 4 --n 16 --sigma 0.3"]
    script = f"from experiments.cli import main\nfor line in {lines}:\n    assert main(line.split()) == 0, line\n"
    done = run(tmp_path, [tmp_path, ROOT], "-c", script)
    assert done.returncode == 0, done.stderr
    assert "Doubled Heads (2032): On Counting Heads Twice" in done.stdout
    assert "1 of 1 verdicts hold" in done.stdout
