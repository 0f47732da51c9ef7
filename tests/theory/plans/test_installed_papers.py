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
from experiments.skipv1.gap import EXPERIMENT as OURS
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
catalogue.claims(), catalogue.all_experiments()  # either may leave papers out
claims, runs = catalogue.claims(), catalogue.all_experiments()
print(json.dumps({
    "weights": {name: weight(name) for name in (%s)},
    "presets": {name: of_preset(name) for name in (%s)},
    "variants": [name for name in VARIANTS],
    "claims": list(claims),
    "places": {name: claim.module for name, claim in claims.items()},
    "experiments": list(runs),
    "named": all(name == one.name for name, one in runs.items()),
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
    "absent": ({"paper.py": "raise ImportError('gone')"}, "ImportError: gone"),
    "importing": ({"variants.py": "import nothing_of_that_name"}, "No module named 'nothing_of_that_name'"),
    "unreadable": ({"presets.py": "def ("}, "SyntaxError: "),
    "paperless": ({"paper.py": "PAPERS = 1"}, "must hold PAPER"),
    "dateless": ({"paper.py": PAPER.format(name="x", year="'soon'")}, "year must be a whole number"),
    "exiting": ({"variants.py": "import sys; sys.exit('bye')"}, "SystemExit: bye"),
    "talkative": ({"variants.py": "raise RuntimeError('one\\ntwo')"}, "RuntimeError: one two"),
    "twice": ({"variants.py": "".join(VARIANTS.format(package="twice", variant="a", weight=n) for n in (2, 3))}, "'a'"),
    "dividing": ({"claims/one.py": "1 / 0"}, "ZeroDivisionError"),
    "taking": (
        {"claims/one.py": CLAIM.format(package="taking", claim="skipv1.gap")},
        "'skipv1.gap'",
    ),
    "idle": ({"one/experiment.py": "EXPERIMENTS = 1"}, "must hold EXPERIMENT"),
    "idling": ({"single.py": "EXPERIMENT = 1"}, "must hold EXPERIMENT"),
}
ONE_FILE = {
    "one/experiment.py": None,
    "single.py": EXPERIMENT.format(experiment="good-run"),
    "beside.py": "raise RuntimeError('a module without EXPERIMENT is imported')",
}
CATALOGUE = ("dividing", "taking", "idle", "idling")  # found when claims or experiments are looked for, not before


@pytest.fixture(scope="module")
def crowded(tmp_path_factory):
    """One process beside all faults, papers without fault, and papers whose names are taken."""
    folder = tmp_path_factory.mktemp("crowded")
    for name, (files, _) in FAULTS.items():
        own = {kind: f"{name}{'.' if kind == 'claim' else '-' if kind != 'variant' else '_'}own" for kind in NAMES}
        install(folder, name, f"point-{name}", files=files, **own)
    good = {"claim": "good.one", "variant": "good_variant", "preset": "good-p", "experiment": "good-run"}
    install(folder, "good", "sound", files=ONE_FILE, **good)
    ours = {"variant": "resformer", "preset": "llama-2m", "experiment": "skipv1-gap", "claim": "clashing.one"}
    install(folder, "clashing", "doubled", weight=3, **ours)
    install(folder, "younger", "second", weight=5, year=2033, claim="younger.one")
    install(folder, "older", "first", weight=4, year=2032, claim="older.one")
    install(folder, "namesake", "sound", claim="namesake.one")
    variants = ["resformer", "doubled.resformer", "my-variant", "first.my-variant", "second.my-variant"]
    return ask(
        folder,
        [*variants, "good-variant", "sound.good-variant"],
        ["llama-2m", "doubled.llama-2m", "my-preset", "second.my-preset", "good-p", "sound.good-p"],
    )


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.long
def test_a_broken_paper_is_named_once_and_left_out(fault, crowded):
    found, lines = crowded
    (line,) = (line for line in lines if f"point-{fault}" in line)
    assert line.startswith(f"crosslayer: warning: the installed paper point-{fault} ({fault}) is left out: ")
    assert FAULTS[fault][1] in line
    if fault not in CATALOGUE:
        assert f"{fault}-own" not in found["variants"]
    assert f"{fault}-own" not in found["experiments"]
    assert not any(place.startswith(f"{fault}.") for place in found["places"].values())


def test_nothing_else_is_hindered(crowded):
    found, lines = crowded
    assert len(lines) == len(FAULTS) + 3 + 3 + 1, lines  # as below: two papers with three taken names each, a namesake
    assert found["weights"]["good-variant"] == found["weights"]["sound.good-variant"] == 2
    assert found["presets"]["good-p"] == found["presets"]["sound.good-p"] == 2
    assert "good-variant" in found["variants"]
    assert "sound.good-variant" not in found["variants"]
    assert {"good.one", "skipv1.gap"} <= set(found["claims"])
    assert {"good-run", "skipv1-gap"} <= set(found["experiments"])


def test_names_of_ours_are_ours_and_theirs_are_qualified(crowded):
    found, lines = crowded
    assert (found["weights"]["resformer"], found["weights"]["doubled.resformer"]) == (0.5, 3)
    assert (found["presets"]["llama-2m"], found["presets"]["doubled.llama-2m"]) == (1, 3)  # with its own variant
    assert {"skipv1-gap", "doubled.skipv1-gap"} <= set(found["experiments"])
    assert found["named"]
    assert found["places"]["clashing.one"] == "clashing.claims.one"
    for kind, name in (("variant", "resformer"), ("preset", "llama-2m"), ("experiment", "skipv1-gap")):
        (line,) = (line for line in lines if f"the {kind} {name!r}" in line)
        assert f"of the installed paper doubled (clashing) is called 'doubled.{name}'" in line


def test_of_two_packages_the_older_has_the_name(crowded):
    found, lines = crowded
    assert [found["weights"][f"{point}my-variant"] for point in ("", "first.", "second.")] == [4, 4, 5]
    assert (found["presets"]["my-preset"], found["presets"]["second.my-preset"]) == (4, 5)
    assert len([line for line in lines if "is called 'second." in line]) == 3
    (line,) = (line for line in lines if "(namesake)" in line)
    assert "the paper in good is called sound, too" in line


def test_imported_first_takes_no_name_of_ours(tmp_path):
    install(tmp_path, "mine", "doubled", variant="resformer", weight=3)
    script = "import mine.variants\nfrom theory.plans.variants import VARIANTS, ours\n"
    script += "print(VARIANTS['resformer'].paper.name, VARIANTS['doubled.resformer'].paper.name, len(ours()))"
    done = run(tmp_path, "-c", script)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[:2] == ["ResFormer", "mine"]
