"""The recipes of CONTRIBUTING.md, as they are printed: a fifth paper in two folders, or in one package outside.

Every code block that begins with the name of a file is written to it, and the page's commands are run.  Nothing else is
touched but the citations and, by these commands, two tables: no list anywhere names the paper.
"""

import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.isolation import copied

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "CONTRIBUTING.md").read_text()
FILES = {name: f"# {name}\n{text}" for name, text in re.findall(r"```\w+\n# (\S+)\n(.*?)```", PAGE, re.DOTALL)}
COMMANDS = [
    shlex.split(line, comments=True)
    for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    for line in block.splitlines()
]
(CITED,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
MODULES = {name: text for name, text in FILES.items() if name.startswith(("theory/", "experiments/"))}
TESTS = {name: text for name, text in FILES.items() if name.startswith("tests/")}
RENEW = [command for command in COMMANDS if "--into" in command]
# Of the tests that look at all papers, variants, claims or experiments, those that a paper can break.
TESTS_OF_ALL = [
    "tests/test_readme.py",
    "tests/experiments/cli/test_papers.py::test_nothing_is_left_out_or_shown_twice",
    "tests/experiments/cli/test_cli.py::test_list_as_json",
    "tests/experiments/cli/test_cli.py::test_every_variant_can_be_described[doubled-values]",
    "tests/experiments/skipv1/test_gap.py::test_every_profile_states_its_detectable_effect[doubled-worth]",
    "tests/experiments/skipv1/test_gap.py::test_every_profile_states_its_detectable_effect[scale-doubled]",
    "tests/experiments/across/test_full_size.py::test_every_profile_predicts[scale-doubled]",
    "tests/experiments/across/test_full_size.py::test_compare_shows_predictions_beside_verdicts",
    "tests/experiments/ledger/test_claims.py::test_entry_stands[doubled.worth]",
    "tests/experiments/ledger/test_claims.py::test_entries_are_complete",
    "tests/experiments/ledger/test_claims.py::test_premises_are_there_and_not_in_a_circle",
    "tests/experiments/ledger/test_claims.py::test_experiments_name_entries_that_exist",
    "tests/experiments/test_results.py::test_every_committed_result_is_an_experiment_s_and_complete",
    "tests/experiments/test_results.py::test_the_numbers_predicted_are_those_committed[toy-orderings]",
]
SKIPPED = ["test_python_examples_run", "test_output_that_is_shown_is_printed"]  # slow, and the same without the paper
SCRIPT = """
import json, sys
from experiments import catalogue
from experiments.cli import main

for program, *arguments in json.loads(sys.argv[1]):
    print("##", *arguments[:2], flush=True)
    if arguments == ["report"]:  # of this paper's entries alone: test_site builds the others' pages
        own = {name: claim for name, claim in catalogue.claims().items() if name.startswith("doubled.")}
        catalogue.claims, catalogue.indexes = lambda: own, list
    if program == "pytest":
        import pytest
    status = main(arguments) if program == "crosslayer" else pytest.main(arguments)
    assert status == 0, (program, arguments, status)
"""


def write(folder, files):
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        for package in path.relative_to(folder).parents[:-1]:
            (folder / package / "__init__.py").touch()
        path.write_text(text)


def run(folder, paths, *arguments):
    own = {"PYTHONPATH": os.pathsep.join(map(str, paths)), "XDG_CACHE_HOME": str(folder / "cache")}
    return subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=os.environ | own, capture_output=True, text=True, timeout=300
    )


EXPECTED = """
import sys
from experiments import catalogue
from experiments.training.comparing import comparing

compared = comparing(catalogue.experiment("text-values"), "smoke", sys.argv[1:])
catalogue.check_claims(compared)
config = compared.profiles["smoke"].config
prediction = compared.predict(config)
names = ["vanilla", "twin", "second-twin", *sys.argv[1:]]
group = {
    "lengths": {"0.625": 0.625},
    "rates": dict.fromkeys(names, 0.01),
    "loss": {name: {"0.625": [3.0, 3.01 + 0.001 * i]} for i, name in enumerate(names)},
}
for check in compared.compare(prediction, {"groups": {config.groups[0].name: group}}):
    print(check.id.split("/own/")[1], check.claim, check.statement, sep="|")
"""


@pytest.fixture(scope="module")
def inside(tmp_path_factory):
    """A copy of the project with two folders more, and what to put on the path."""
    folder = tmp_path_factory.mktemp("inside")
    for package in ("theory", "icl", "experiments", "tests", "results", "examples"):
        copied(ROOT / package, folder / package)
    for page in ("pyproject.toml", "CITATION.cff", "LICENSE", "Makefile", *(path.name for path in ROOT.glob("*.md"))):
        copied(ROOT / page, folder)
    write(folder, MODULES | TESTS)
    with (folder / "CITATION.cff").open("a") as citations:
        citations.write(CITED)
    return folder, [folder]


@pytest.fixture(scope="module")
def outside(tmp_path_factory):
    """A folder with the package, as pip would leave it."""
    folder = tmp_path_factory.mktemp("outside")
    rooms = re.compile(r"(theory|experiments)[./]doubled")
    write(folder, {rooms.sub("doubled_paper", name): rooms.sub("doubled_paper", MODULES[name]) for name in MODULES})
    about = tomllib.loads(FILES["pyproject.toml"])["project"]
    info = folder / f"doubled_paper-{about['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {about['name']}\nVersion: {about['version']}\n")
    for group, points in about["entry-points"].items():
        lines = [f"[{group}]", *(f"{name} = {package}" for name, package in points.items())]
        (info / "entry_points.txt").write_text("\n".join(lines))
    return folder, [folder, ROOT]


def test_nothing_is_edited():
    """The page writes new files, in new folders of the paper."""
    assert FILES.keys() - MODULES.keys() - TESTS.keys() == {"pyproject.toml"}
    folders = {"theory/doubled", "experiments/doubled", "tests/theory/doubled"}
    assert {folder for folder in folders if any(name.startswith(f"{folder}/") for name in FILES)} == folders
    assert all(name.startswith(tuple(f"{folder}/" for folder in folders)) for name in MODULES | TESTS)
    assert not any((ROOT / folder).exists() for folder in folders)


@pytest.mark.parametrize("where", ["inside", "outside"])
@pytest.mark.long
def test_a_paper_shows_up_in_every_command(where, request):
    folder, paths = request.getfixturevalue(where)
    commands = [command for command in COMMANDS if command[0] in ("crosslayer", "pytest") and command not in RENEW]
    if where == "outside":  # trainings do not care where they are described
        commands = [command for command in commands if "scale-doubled" not in command and command[0] != "pytest"]
    else:  # nor the site
        commands = [command for command in commands if command[:2] != ["crosslayer", "report"]]
    done = run(folder, paths, "-c", SCRIPT, json.dumps(commands))
    assert done.returncode == 0, done.stdout + done.stderr
    said = dict(part.split("\n", 1) for part in done.stdout.split("## ")[1:])
    assert "doubled-worth: What doubled values are worth" in said["list doubled-worth"]
    assert "https://example.org/doubled" in said["papers"]
    assert "every value counts twice (Doubled Values, section 1)" in said["variants --preset"]
    assert "layers 1-8: 3 own" in said["describe doubled-60m"]
    assert "closed form; an infimum, not attained" in said["predict doubled-values"]
    assert "1 of 1 verdicts hold" in said["verify doubled.worth"]
    assert re.search(r"proof .*doubled\w*/optimum.py:\d+", said["claim doubled.worth"])
    assert re.search(r"premises +doubled.weight\n", said["claim doubled.worth"])
    assert re.search(r"variants +doubled-values\n", said["claim doubled.worth"])
    assert re.search(r"exact minima .* pass *\n", said["run doubled-worth"])
    if where == "inside":
        assert "the paper's sign" in said["run scale-doubled"]
        assert "doubled values end below vanilla (Table 2): " in said["compare scale-doubled"]
        assert " 2 passed" in done.stdout
        return
    site = folder / "runs" / "site"
    page = (site / "claims" / "doubled.worth.html").read_text()
    assert "It explains what MHA explains" in page
    assert "doubled.weight.html" in page
    assert "What was predicted" in (site / "experiments" / "doubled-worth.html").read_text()
    assert (site / "papers" / "doubled_paper.html").is_file()


@pytest.mark.parametrize("where", ["inside", "outside"])
@pytest.mark.long
def test_what_a_paper_expects_is_judged_under_its_own_claim(where, request):
    """Of the variant as it is written there, by either name, and of no other."""
    folder, paths = request.getfixturevalue(where)
    names = ["doubled-values", "doubled-values:weight=3", *(["doubled.doubled-values"] if where == "outside" else [])]
    done = run(folder, paths, "-c", EXPECTED, *names)
    assert done.returncode == 0, done.stderr
    lines = {name: rest for name, *rest in (line.split("|") for line in done.stdout.splitlines())}
    claim, statement = lines.pop("doubled-values:weight=3")
    assert (claim, statement.startswith("doubled-values:weight=3 at the end (width 8")) == ("", True)
    assert set(lines) == {*names} - {"doubled-values:weight=3"}
    for name, (claim, statement) in lines.items():
        assert claim == "doubled.worth"
        assert statement.startswith(f"{name} ends lower than vanilla (Doubled Values, Table 2; width 8")


@pytest.mark.long
def test_inside_the_tests_of_all_papers_pass(inside):
    """With its lines in the tables and its citation, and without results."""
    folder, paths = inside
    deselected = [f"--deselect=tests/test_readme.py::{name}" for name in SKIPPED]
    assert [command[1] for command in RENEW] == ["papers", "variants"]
    commands = [*RENEW, ["pytest", "-q", "-p", "no:cacheprovider", *deselected, *TESTS_OF_ALL]]
    done = run(folder, paths, "-c", SCRIPT, json.dumps(commands))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "[Doubled Values](https://example.org/doubled), 2031" in (folder / "README.md").read_text()


@pytest.mark.long
def test_inside_the_contracts_hold_as_they_stand(inside):
    folder, paths = inside
    assert ["lint-imports"] in COMMANDS
    lint = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports())"
    done = run(folder, paths, "-c", lint)
    assert done.returncode == 0, done.stdout
    (folder / "theory" / "stray.py").write_text("")
    done = run(folder, paths, "-c", lint)
    (folder / "theory" / "stray.py").unlink()
    assert done.returncode == 1
    assert "stray" in done.stdout


@pytest.mark.parametrize(
    "lint", ["ruff check", "ruff format --check", pytest.param("mypy --no-incremental", marks=pytest.mark.slow)]
)
def test_the_recipes_pass_the_linters(inside, lint):
    folder, paths = inside
    done = run(folder, paths, "-m", *lint.split())
    assert done.returncode == 0, done.stdout
