"""The recipes of CONTRIBUTING.md, as they are printed: a fifth paper in two folders, or in one package outside.

Every code block that begins with the name of a file is written to it, and the page's commands are run.  Nothing else is
touched: no list anywhere names the paper.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "CONTRIBUTING.md").read_text()
FILES = {name: f"# {name}\n{text}" for name, text in re.findall(r"```\w+\n# (\S+)\n(.*?)```", PAGE, re.DOTALL)}
COMMANDS = [
    shlex.split(line, comments=True)
    for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    for line in block.splitlines()
]
MODULES = {name: text for name, text in FILES.items() if name.startswith(("theory/", "experiments/"))}
TESTS = {name: text for name, text in FILES.items() if name.startswith("tests/")}
# What a report says of the ledger is tested elsewhere, on all of it; here it runs the entries of this paper.
SCRIPT = """
import json, sys
from experiments import catalogue
from experiments.cli import main

ours = {name: claim for name, claim in catalogue.claims().items() if name.startswith("doubled.")}
for program, *arguments in json.loads(sys.argv[1]):
    if arguments == ["report"]:
        catalogue.claims = lambda: ours
    print("##", *arguments[:2], flush=True)
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
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, paths)),
        "XDG_CACHE_HOME": str(folder / "cache"),
    }
    return subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True, timeout=300
    )


@pytest.fixture(scope="module")
def inside(tmp_path_factory):
    """A copy of the project with two folders more, and what to put on the path."""
    folder = tmp_path_factory.mktemp("inside")
    for package in ("theory", "icl", "experiments", "tests"):
        shutil.copytree(ROOT / package, folder / package)
    shutil.copy(ROOT / "pyproject.toml", folder)
    write(folder, MODULES | TESTS)
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
def test_a_paper_shows_up_in_every_command(where, request):
    folder, paths = request.getfixturevalue(where)
    commands = [command for command in COMMANDS if command[0] in ("crosslayer", "pytest")]
    if where == "outside":  # trainings do not care where they are described
        commands = [command for command in commands if "scale-doubled" not in command and command[0] != "pytest"]
    done = run(folder, paths, "-c", SCRIPT, json.dumps(commands))
    assert done.returncode == 0, done.stdout + done.stderr
    said = dict(part.split("\n", 1) for part in done.stdout.split("## ")[1:])
    assert "doubled-worth: What doubled values are worth" in said["list"]
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
        assert "the paper's sign" in said["compare scale-doubled"]
        assert " 2 passed" in done.stdout
    page = (folder / "runs" / "report.html").read_text()
    assert "doubled.weight" in page
    assert page.count("data:image/png;base64,") == sum(command[1] == "run" for command in commands)


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


def test_a_broken_package_is_one_line(outside):
    folder, _ = outside
    broken = folder / "broken"
    shutil.copytree(folder / "doubled_paper", broken / "doubled_paper")
    shutil.copytree(folder / "doubled_paper-1.0.dist-info", broken / "doubled_paper-1.0.dist-info")
    (broken / "doubled_paper" / "variants.py").write_text("import nothing_of_that_name\n")
    done = run(broken, [broken, ROOT], "-m", "experiments", "variants")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "doubled_paper" in done.stderr
    assert "nothing_of_that_name" in done.stderr
