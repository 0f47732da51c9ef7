"""Installed papers: one that is broken or clashes is named once and left out, and hinders nothing else."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PAPER = """
from theory.plans.papers import Paper
PAPER = Paper(name="{name}", title="On {name}", year={year}, reference="https://example.org", colour="#123456")
"""
VARIANTS = """
from {package}.paper import PAPER
from theory.plans.plan import plan, v
from theory.plans.variants import variant

@variant(PAPER, "section 1", "every value counts {weight} times")
def {variant}(shape):
    return plan(shape, values=lambda n, h: {weight} * v(n, h))
"""
PRESETS = """
from theory.plans.presets import Preset, llama, register

SIZES = llama(d_model=16, n_heads=2, n_layers=2, d_ff=16, vocab=7, context=5)
register({{"{preset}": Preset(SIZES, "Table 1", stated="", variant="{variant}")}})
"""
CLAIM = """
from experiments.ledger.claim import Claim
from {package}.paper import PAPER

ONE = Claim("{claim}", PAPER.name, place="1", statement="It is so.", assumes="none", verdict="open")
"""
EXPERIMENT = """
from dataclasses import replace
from experiments.skipv1.gap.experiment import EXPERIMENT as OURS
from copy import copy

EXPERIMENT = copy(OURS)
EXPERIMENT.name = "{experiment}"
"""
NAMES = {"variant": "my_variant", "preset": "my-preset", "claim": "mine.one", "experiment": "my-experiment"}

ASKS = """
import json, icl
from experiments import catalogue
from theory.plans.names import model, resolve
from theory.plans.plan import Shape
from theory.plans.presets import PRESETS
from theory.plans.variants import VARIANTS

icl.build("llama-2m", "skipv1")
def weight(name):
    try:
        return resolve(name, Shape(2, 2)).head(2, 1).values[0].terms[0].weight
    except ValueError:
        return None
def of_preset(name):
    return model(name)[1].head(2, 1).values[0].terms[0].weight if name in PRESETS else None
claims, runs = catalogue.claims(), catalogue.all_experiments()
print(json.dumps({
    "weights": {name: weight(name) for name in (%s)},
    "presets": {name: of_preset(name) for name in (%s)},
    "variants": [name for name in VARIANTS],
    "claims": [name for name in claims if name.startswith("mine")],
    "experiments": list(runs),
    "named": all(name == one.name for name, one in runs.items()),
    "ours": claims["skipv1.gap"].module if "skipv1.gap" in claims else None,
}))
"""


def install(folder, package, point, *, year=2031, weight=2, files=None, **names):
    """A package with one variant, preset, claim and experiment, as pip would leave it."""
    names = {"package": package, "weight": weight, "name": package, "year": year, **NAMES, **names}
    names["preset_variant"] = names["variant"].replace("_", "-")
    contents = {
        "__init__.py": "",
        "paper.py": PAPER.format(**names),
        "variants.py": VARIANTS.format(**names),
        "presets.py": PRESETS.format(**{**names, "variant": names["preset_variant"]}),
        "claims/__init__.py": "",
        "claims/one.py": CLAIM.format(**names),
        "one/__init__.py": "",
        "one/experiment.py": EXPERIMENT.format(**names),
        **(files or {}),
    }
    for name, text in contents.items():
        path = folder / package / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if text is not None:
            path.write_text(text)
    info = folder / f"{package}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[crosslayer.papers]\n{point} = {package}\n")


def run(folder, *arguments):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), str(ROOT)])}
    return subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True, timeout=120
    )


def ask(folder, variants=(), presets=()):
    """What is found, and the lines on standard error."""
    done = run(folder, "-c", ASKS % ("".join(f"{n!r}," for n in variants), "".join(f"{n!r}," for n in presets)))
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr.splitlines()


FAULTS = {
    "its package is missing": {"__init__.py": None, "paper.py": "raise ImportError('gone')"},
    "an import error": {"variants.py": "import nothing_of_that_name"},
    "a syntax error": {"presets.py": "def ("},
    "no PAPER": {"paper.py": "PAPERS = 1"},
    "a PAPER of another kind": {"paper.py": PAPER.format(name="x", year="'soon'")},
    "an exit": {"variants.py": "import sys; sys.exit('bye')"},
    "many lines": {"variants.py": "raise RuntimeError('one\\ntwo')"},
    "one variant twice": {"variants.py": (VARIANTS + VARIANTS).format(package="mine", variant="my_variant", weight=2)},
    "a broken claim": {"claims/one.py": "1 / 0"},
    "a claim of ours": {"claims/one.py": CLAIM.format(package="mine", claim="skipv1.gap")},
    "no EXPERIMENT": {"one/experiment.py": "EXPERIMENTS = 1"},
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_broken_paper_is_named_once_and_left_out(fault, tmp_path):
    install(tmp_path, "mine", "doubled", files=FAULTS[fault])
    found, lines = ask(tmp_path, ["my-variant", "resformer"])
    assert len(lines) == 1, lines
    assert "the installed paper doubled (mine) is left out: " in lines[0]
    assert found["weights"]["resformer"] == 0.5
    assert "my-variant" not in found["variants"] or fault in ("a broken claim", "a claim of ours", "no EXPERIMENT")
    assert found["claims"] == []
    assert "my-experiment" not in found["experiments"]
    assert "skipv1-gap" in found["experiments"]


def test_names_of_ours_are_ours_and_theirs_are_qualified(tmp_path):
    clash = {"variant": "resformer", "preset": "llama-2m", "experiment": "skipv1-gap"}
    install(tmp_path, "mine", "doubled", weight=3, **clash)
    variants, presets = ["resformer", "doubled.resformer"], ["llama-2m", "doubled.llama-2m"]
    found, lines = ask(tmp_path, variants, presets)
    assert found["weights"] == {"resformer": 0.5, "doubled.resformer": 3}
    assert found["presets"] == {"llama-2m": 1, "doubled.llama-2m": 3}  # with its own variant, not ours
    assert {"skipv1-gap", "doubled.skipv1-gap"} <= set(found["experiments"])
    assert found["named"]
    assert found["claims"] == ["mine.one"]
    for kind, name in (("variant", "resformer"), ("preset", "llama-2m"), ("experiment", "skipv1-gap")):
        (line,) = (line for line in lines if f"the {kind} " in line)
        assert f"{name!r} of the installed paper doubled (mine) is called 'doubled.{name}'" in line
    assert len(lines) == 3


def test_names_of_two_packages(tmp_path):
    """The older paper has the name, and either can be named in full; only a claim's id cannot be two things."""
    install(tmp_path, "younger", "second", weight=3, year=2032)
    install(tmp_path, "older", "first", weight=2, year=2031, claim="mine.two")
    names = ["my-variant", "first.my-variant", "second.my-variant"]
    found, lines = ask(tmp_path, names, ["my-preset", "second.my-preset"])
    assert found["weights"] == dict(zip(names, (2, 2, 3), strict=True))
    assert found["presets"] == {"my-preset": 2, "second.my-preset": 3}
    assert found["claims"] == ["mine.two", "mine.one"]
    assert len(lines) == 3
    for place in ("younger-1.0.dist-info", "older-1.0.dist-info"):
        entry = tmp_path / place / "entry_points.txt"
        entry.write_text(entry.read_text().replace("first", "same").replace("second", "same"))
    found, lines = ask(tmp_path, ["same.my-variant"])
    assert len(lines) == 1
    assert "is called same, too" in lines[0]
    assert found["weights"] == {"same.my-variant": 2}


def test_the_full_name_always_works_and_nothing_is_said(tmp_path):
    install(tmp_path, "mine", "doubled")
    found, lines = ask(tmp_path, ["my-variant", "doubled.my-variant"], ["my-preset", "doubled.my-preset"])
    assert lines == []
    assert set(found["weights"].values()) == set(found["presets"].values()) == {2}
    assert "my-variant" in found["variants"]
    assert "doubled.my-variant" not in found["variants"]
    assert found["claims"] == ["mine.one"]
    done = run(tmp_path, "-m", "experiments", "describe", "my-preset", "--variant", "doubled.my-variant+gqa", "--json")
    assert done.returncode == 0, done.stderr


def test_imported_first_takes_no_name_of_ours(tmp_path):
    install(tmp_path, "mine", "doubled", variant="resformer", weight=3)
    script = "import mine.variants, theory\nprint(theory.predict('resformer', d=2, n=4, sigma=0.5).method)"
    script += "\nfrom theory.plans.variants import VARIANTS, ours\nprint(VARIANTS['resformer'].paper.year, len(ours()))"
    done = run(tmp_path, "-c", script)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[1].startswith("2024 ")
