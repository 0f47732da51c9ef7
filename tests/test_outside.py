"""The package of examples/post-norm, installed by pip beside Crosslayer: the page's commands are run as they stand.

It brings a depth rule that streams cannot express, a variant, a claim with its control, and an experiment; nothing here
names it but this file and CONTRIBUTING.md.
"""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.experiments.cli.answers import write_corpus
from tests.isolation import copied

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "examples" / "post-norm"
PAGE = (ROOT / "CONTRIBUTING.md").read_text()
(SHOWN,) = re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL)
COMMANDS = [shlex.split(line.removeprefix("$ "), comments=True) for line in SHOWN.splitlines()]
# A smaller model and less text than the page's, in the same command.
SHORT = "--data text --width 64 --layers 2 --context 32 --batch 4 --learning-rate 0.01 --log-every 10 --device cpu"
SCRIPT = """
import glob, json, sys
from unittest import mock

from experiments import catalogue
from experiments.cli import main

assert main(["data", "prepare", "corpus", "--out", "text", "--vocab", "300"]) == 0
for line in json.loads(sys.argv[1]):
    program, *arguments = (name for word in line for name in sorted(glob.glob(word)) or [word])
    print("##", " ".join(line), flush=True)
    if arguments == ["report"]:  # of this paper's entries alone: test_site builds the others' pages
        own = {name: claim for name, claim in catalogue.claims().items() if name.startswith("post-norm.")}
        catalogue.claims, catalogue.indexes = lambda: own, list
    if program == "pytest":
        import pytest
    with mock.patch("experiments.commands.training_figure.draw"):
        status = main(arguments) if program == "crosslayer" else pytest.main([*arguments, "-p", "no:cacheprovider"])
    assert status == 0, (program, arguments, status)
"""
DECODED = """
import glob
import torch
import icl

model = icl.load(glob.glob("runs/train/*")[0])
assert model.depth.gain.std() > 0  # it was trained
whole = [1, 2, 3]
for _ in range(12):
    whole.append(int(model(torch.tensor([whole]))[0, -1].argmax()))
drawn = [step[0] for step in icl.generate(model, [[1, 2, 3]], 12, sampling=icl.Sampling(temperature=0))]
assert drawn == whole[3:], (drawn, whole)
"""

FOLLOWS = """
import json
from experiments.drawing.plans import draw
from icl.models.decoder import Decoder
from icl.stacks.decoder import misfit
from theory.plans.accounting import parameters
from theory.plans.architecture import Architecture, Tokens, Vectors
from theory.plans.names import resolve
from theory.plans.written import from_json, to_json

config = Architecture(d_model=8, n_layers=2, n_heads=2, d_ff=6, context=8, stem=Tokens(5))
plan = resolve("post-norm:eps=0.1+skipv1", config.shape)
model = Decoder(config, plan, std=0.3)
draw(config, plan, "post-norm").savefig("plan.png")
print(json.dumps({
    "count": parameters(config, plan)["depth"],
    "built": sum(p.numel() for n, p in model.named_parameters() if n.startswith("depth.")),
    "starts": sorted(set(model.depth.gain.flatten().tolist())),
    "kind": to_json(plan)["depth"]["kind"],
    "same": from_json(json.loads(json.dumps(to_json(plan)))) == plan,
    "stack": misfit(Architecture(d_model=8, n_layers=2, n_heads=2, d_ff=6, context=8, stem=Vectors(3)), plan),
    "words": plan.depth.words(),
}))
"""
UNKNOWN = """
from theory.errors import BadInput
from theory.plans.written import from_json

content = {"layers": 1, "heads": 1, "table": [[None]], "depth": {"kind": "os:system"}}
try:
    from_json(content)
except BadInput as error:
    print(error)
"""


def run(folder, *arguments):
    """In a folder where the package is installed in `site`."""
    pytest.importorskip("pip")
    paths = os.pathsep.join([str(folder / "site"), str(ROOT)])
    own = {"PYTHONPATH": paths, "XDG_CACHE_HOME": str(folder / "cache"), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=os.environ | own, capture_output=True, text=True, timeout=1800
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A working folder, and what the page's commands print there, by command."""
    folder = tmp_path_factory.mktemp("outside")
    (folder / "examples").mkdir()
    copied(PACKAGE, folder / "examples" / "post-norm")
    write_corpus(folder / "corpus")
    install, *commands = COMMANDS
    assert install == ["pip", "install", "examples/post-norm"]
    offline = ["--quiet", "--no-deps", "--no-index", "--no-build-isolation", "--target", "site"]
    run(folder, "-m", *install, *offline, "--disable-pip-version-check")
    commands = [[*command, *shlex.split(SHORT)] if command[1] == "train" else command for command in commands]
    printed = run(folder, "-c", SCRIPT, json.dumps(commands))
    return folder, dict(part.split("\n", 1) for part in printed.split("## ")[1:])


def test_it_is_small_and_what_the_page_shows_is_in_it():
    files = [path for path in PACKAGE.rglob("*") if path.suffix in (".py", ".toml")]
    assert sum(len(path.read_text().splitlines()) for path in files) < 200
    (shown,) = re.findall(r"```python\n(@dataclass.*?)```", PAGE, re.DOTALL)
    assert shown in (PACKAGE / "post_norm" / "variants.py").read_text()


@pytest.mark.long
def test_every_command_knows_it(installed):
    folder, printed = installed

    def of(command):
        (text,) = (text for line, text in printed.items() if line.startswith(command))
        return text

    assert re.search(
        r"post-norm .*the stream is normed after every sublayer \(PostNorm, section 3.1\)", of("crosslayer variants")
    )
    assert "a stream that is normed after every sublayer" in of("crosslayer describe")
    assert "held-out loss" in of("crosslayer train")
    assert of("crosslayer generate").startswith("some words")
    assert "1 of 1 verdicts hold" in of("crosslayer verify post-norm.memory")
    assert re.search(r"random outputs .* pass *\n", of("crosslayer run"))
    assert " passed" in of("pytest")
    assert (folder / "runs" / "site" / "claims" / "post-norm.memory.html").is_file()


@pytest.mark.long
def test_its_claim_falls_with_all_that_it_judges_and_with_nothing_else(installed):
    """Its own functions, however a decoder reaches them, and of the vocabulary nothing that only builds one."""
    _, printed = installed
    for command in ("verify --mutate post-norm.memory", "verify --mutate --source post-norm.memory"):
        (text,) = (text for line, text in printed.items() if command in line)
        assert "1 of 1 entries fall with what they judge" in text
        assert int(re.search(r"\((\d+) alterations\)", text)[1]) >= 4
        assert "rightly so" not in text
        assert text.rstrip().endswith("0 survive")


@pytest.mark.long
def test_what_follows_from_a_plan_follows_from_its_own(installed):
    """JSON, counts, first values, words, the picture, and one clear line where it cannot be stacked."""
    folder, _ = installed
    found = json.loads(run(folder, "-c", FOLLOWS))
    assert "depth rule of its own" in found.pop("stack")
    assert found == {
        "count": 32,
        "built": 32,
        "starts": [1.0],
        "kind": "post_norm.variants:PostNorm",
        "same": True,
        "words": "a stream that is normed after every sublayer",
    }


def test_a_rule_is_read_from_modules_of_installed_papers_alone(tmp_path):
    says = run(tmp_path, "-c", UNKNOWN)
    assert says.strip() == "its depth rule is system of os, and no installed paper has that module"


@pytest.mark.long
def test_decoding_from_the_cache_writes_what_whole_passes_do(installed):
    folder, _ = installed
    run(folder, "-c", DECODED)
