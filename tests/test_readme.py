"""What the pages promise is there: links, commands, Python, tables and figures; and all papers are cited.

Numbers of the findings are tested in test_findings and test_findings_of_text, recipes in test_contributing.
"""

import ast
import inspect
import json
import math
import re
import shlex
from pathlib import Path

import pytest

import experiments
from experiments import catalogue
from experiments.cli import main
from experiments.cli.parser import parser
from experiments.report.pages.documents import TEXT
from theory.plans.papers import rooms
from theory.skipv1 import gap as skipv1
from theory.skipv1 import w0_heads as skipv1_w0_heads

ROOT = Path(__file__).resolve().parents[1]
OF_PAPERS = ("theory/skipv1/THEOREM.md", "theory/resformer/CLAIMS.md")
# Of a run in whose checkout only the results of another run differed: what the source of its commit has for a digest.
OF_RESULTS_ALONE = "34e570ea7f63"
FOUND, VARIANTS, FAULTS = "results/FINDINGS.md", "theory/plans/VARIANTS.md", "tests/FAULTS.md"
GUIDE = [path.relative_to(ROOT).as_posix() for path in sorted((TEXT / "guide").glob("*.md"))]
OTHERS = [f"{path.relative_to(ROOT)}" for path in (TEXT / "verdicts.md", *sorted((TEXT / "tutorials").glob("*.md")))]
NAMES = ("README.md", "CONTRIBUTING.md", "results/README.md", FOUND, VARIANTS, FAULTS, *OF_PAPERS, *GUIDE, *OTHERS)
PAGES = {name: (ROOT / name).read_text() for name in NAMES}


@pytest.mark.parametrize("name", PAGES)
def test_links_lead_somewhere(name):
    for target in re.findall(r"\]\(([^)#]+)\)", PAGES[name]):
        assert target.startswith("https://") or (ROOT / name).parent.joinpath(target).exists(), target


@pytest.mark.parametrize("page", OF_PAPERS)
def test_a_paper_s_page_names_ledger_entries(page):
    named = set(re.findall(r"`([a-z0-9]+\.[a-z0-9-]+)`", PAGES[page]))
    assert len(named) > 30
    assert {name for name in named if not name.endswith("py")} <= set(catalogue.claims())


def test_numbers_on_the_theorem_s_page():
    """What the page says of d = 4, n = 2, sigma = 0.1, W0 = 10 I is what the code says."""
    page = PAGES["theory/skipv1/THEOREM.md"]
    assert f"{skipv1_w0_heads.mha_loss_around(4, 2, 0.1, 10.0):.2f}" in page
    floor = math.floor(100 * skipv1_w0_heads.skipv1_few_heads_floor(4, 2, 0.1, 10.0)) / 100
    assert f"nothing below {floor:.2f}" in page


@pytest.mark.parametrize(("command", "page"), [("papers", "README.md"), ("variants", VARIANTS)])
@pytest.mark.long
def test_a_table_is_what_the_command_prints(command, page, capsys):
    """To renew it: `crosslayer COMMAND --into PAGE`."""
    assert main([command, "--markdown"]) == 0
    table = re.search(rf"<!-- {command} -->\n(.*?)<!-- end of {command} -->", PAGES[page], re.DOTALL)
    assert table is not None
    assert table[1] == capsys.readouterr().out


def test_every_paper_is_cited():
    references = (ROOT / "CITATION.cff").read_text().partition("references:")[2].split("  - type: article\n")
    for paper in (room.paper for room in rooms() if not room.foreign and room.paper.reference):
        (entry,) = (entry for entry in references if f'    title: "{paper.title}"\n' in entry)
        assert f'    url: "{paper.reference}"\n' in entry
        assert f"    year: {paper.year}\n" in entry


def test_commands_parse():
    text = "\n".join(PAGES[name] for name in ("README.md", FOUND, *GUIDE))
    commands = re.findall(r"^(?:crosslayer|torchrun .* -m experiments) ([^#\n]*)", text, re.MULTILINE)
    assert len(commands) >= 50
    for command in commands:
        parser().parse_args(shlex.split(command))


@pytest.mark.long
def test_output_that_is_shown_is_printed(tmp_path, monkeypatch, capsys):
    """Every command of a console block prints these lines in this order; "..." stands for others."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    commands = [
        part
        for block in re.findall(r"```console\n(.*?)```", PAGES["README.md"], re.DOTALL)
        for part in block.split("$ ")[1:]
    ]
    assert len(commands) >= 3
    for command, *shown in (part.splitlines() for part in commands):
        assert main(shlex.split(command.removeprefix("crosslayer "))) == 0
        printed = capsys.readouterr().out.splitlines()
        assert "..." in shown or printed == shown
        rest = iter(printed)
        assert all(line in rest for line in shown if line != "..."), command


def test_make_targets_exist():
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for page in (PAGES[name] for name in ("README.md", "CONTRIBUTING.md", *GUIDE)):
        assert set(re.findall(r"make ([\w-]+)", page)) <= targets


@pytest.mark.long
def test_python_examples_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = []
    for block in python_examples():
        scope: dict[str, object] = {"__name__": "example"}  # what stands under a guard takes minutes
        exec(compile(block, "a page", "exec"), scope)
        found.append(scope.get("best"))
    (best,) = filter(None, found)
    assert abs(best.value - skipv1.loss_gap(3, 8, 0.3, 2).skipv1) < 1e-6


def test_guarded_examples_make_sense():
    """Names are there, and take these arguments."""
    calls = 0
    for block in python_examples():
        for guard in (node for node in ast.parse(block).body if isinstance(node, ast.If)):
            for call in (node for node in ast.walk(guard) if isinstance(node, ast.Call)):
                if ast.unparse(call.func).startswith("experiments."):
                    name = ast.unparse(call.func).removeprefix("experiments.")
                    keywords = {k.arg: 0 for k in call.keywords}
                    inspect.signature(getattr(experiments, name)).bind(*call.args, **keywords)
                    calls += 1
    assert calls == 2


def python_examples():
    pages = (PAGES[name] for name in ("README.md", *GUIDE))
    return [block for page in pages for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL)]


def test_the_first_page_is_short():
    """One screen to the first figure and the two commands; what was found, and the guide, have pages of their own."""
    page = PAGES["README.md"]
    assert page.index("make test ") < page.index("![") < 1500
    assert len(page.splitlines()) <= 150
    assert {name for name in (*GUIDE, FOUND) if f"]({name}" not in page} == set()


def test_every_interval_on_the_first_page_is_among_the_findings():
    told = re.findall(r"\S*\d ± [\d.]+\d", PAGES["README.md"])
    assert len(told) >= 7
    assert {interval for interval in told if interval not in PAGES[FOUND]} == set()


def test_the_tree_names_every_room():
    (tree,) = re.findall(r"```\n(theory/ .*?)```", PAGES["README.md"], re.DOTALL)
    parts = re.split(r"^(\w+)/ ", tree, flags=re.MULTILINE)
    named = {
        top: set(re.findall(r"(\w+)/(?= |$)", text, re.MULTILINE))
        for top, text in zip(parts[1::2], parts[2::2], strict=True)
    }
    assert list(named) == ["theory", "icl", "experiments", "results", "examples", "tests"]
    papers = {room.name for room in rooms() if not room.foreign}  # a new one need not be listed
    for package in ("theory", "icl", "experiments"):
        there = {path.parent.name for path in (ROOT / package).glob("*/__init__.py")}
        assert there - papers <= named[package] <= there


def test_the_pictures_come_from_runs_of_commits_in_which_nothing_failed():
    """Expectations may be contradicted: that is a result."""
    for path in (ROOT / "results").glob("*/summary.json"):
        summary = json.loads(path.read_text())
        expects = any("rule" in check for check in summary["checks"])
        assert summary["verdict"] == "pass" or (expects and summary["verdict"] != "fail")
        assert summary["profile"] in ("cpu", "long", "smollm")
        assert summary["commit"], "made outside a checkout"
        assert "+changes" not in summary["commit"] or summary["source"] == OF_RESULTS_ALONE
