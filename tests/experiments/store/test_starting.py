"""Scripts without a guard, and folders that bear our packages' names."""

import subprocess
import sys
import venv
from pathlib import Path

import pytest

from tests.isolation import copied

ROOT = Path(__file__).parents[3]
COMMAND = Path(sys.executable).with_name("crosslayer")

DOUBLED = """
from pathlib import Path
from experiments.store.backends import Processes
from experiments.store.folders import RunFolder, UserError
from experiments.store.work import results

def double(item, desk):
    return {"value": 2 * item}

def doubled():
    return results("twice", {"a": 1, "b": 2}, double, RunFolder(Path("run")), label="two", backend=Processes(2))
"""
UNGUARDED = f"{DOUBLED}\ntry:\n    doubled()\nexcept UserError as error:\n    print(error)\n"
GUARDED = f'{DOUBLED}\nif __name__ == "__main__":\n    print(doubled())\n'


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


def test_a_script_from_standard_input_is_told_so(tmp_path):
    done = subprocess.run(
        [sys.executable, "-"], input=UNGUARDED, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.stdout.startswith("the script <stdin> is no file: save it as one")
    assert (done.stdout.count("\n"), done.stderr) == (1, "")


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


@pytest.mark.parametrize("statement", ["import icl", "from icl.testing import check_identity"])
@pytest.mark.parametrize("place", ["theory.py", "theory/__init__.py"])
def test_the_testbed_alone_names_what_hides_its_vocabulary(place, statement, tmp_path):
    (tmp_path / place).parent.mkdir(exist_ok=True)
    (tmp_path / place).touch()
    (tmp_path / "mine.py").write_text(f"{statement}\n")
    done = script(tmp_path, "mine.py")
    assert done.returncode == 1
    hides = f"ImportError: {tmp_path / place.partition('/')[0]} hides Crosslayer's package theory: "
    assert done.stderr.splitlines()[-1].startswith(hides)


def hiding(folder, modules):
    """Modules that leave a trace if they are imported, and the trace."""
    trace = folder / "trace"
    for name in modules:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"open({str(trace)!r}, 'a').write(__name__)\nraise SystemExit(3)\n")
    return trace


@pytest.mark.skipif(not COMMAND.is_file(), reason="the command is not installed")
def test_the_installed_command_looks_at_nothing_in_the_working_folder(tmp_path):
    trace = hiding(tmp_path, [f"{name}/__init__.py" for name in ("experiments", "icl", "theory")])
    command = [COMMAND, "predict", "skipv1", "--d", "2", "--n", "3", "--sigma", "1"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert not trace.exists()


def test_processes_that_share_work_look_at_nothing_in_the_working_folder(tmp_path):
    """As little as the process that starts them; not even for modules that bear names of the library's."""
    names = ("experiments/__init__", "icl/__init__", "theory/__init__", "multiprocessing", "pickle", "random", "signal")
    trace = hiding(tmp_path / "work", [f"{name}.py" for name in names])
    (tmp_path / "mine.py").write_text(GUARDED)
    done = script(tmp_path / "work", str(tmp_path / "mine.py"))
    assert (done.stdout, done.stderr) == ("{'a': {'value': 2}, 'b': {'value': 4}}\n", "")
    assert not trace.exists()


@pytest.mark.slow
def test_a_plain_folder_hides_nothing_of_an_editable_install(tmp_path):
    """A folder of notebooks called experiments, without an __init__.py, beside a script."""
    copy = tmp_path / "copy"
    for package in ("theory", "icl", "experiments"):
        copied(ROOT / package, copy / package)
    for page in ("pyproject.toml", "README.md", "LICENSE"):
        copied(ROOT / page, copy)
    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv" / "bin" / "python"
    install = [python, "-m", "pip", "install", "--quiet", "--no-deps", "--editable", copy]
    if subprocess.run(install, capture_output=True, check=False).returncode:
        pytest.skip("setuptools cannot be installed here")
    for name in ("experiments", "icl", "theory"):
        (tmp_path / "work" / name).mkdir(parents=True)
    (tmp_path / "work" / "mine.py").write_text("import experiments, icl, theory\nprint(experiments.UserError)\n")
    done = subprocess.run([python, "mine.py"], cwd=tmp_path / "work", capture_output=True, text=True, check=False)
    assert done.stdout == "<class 'experiments.store.folders.UserError'>\n", done.stderr
