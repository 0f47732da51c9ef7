"""What names a finished training, a checkpoint and a run stays what it was: frozen here, digest by digest.

A test that fails here says that a change orphans trainings which somebody has finished.  Where that is meant, raise
`icl.training.loop.ROUTINE`; a new field with a default must not do it.
"""

from dataclasses import asdict, dataclass, replace

import pytest
import torch

from experiments import catalogue
from experiments.experiment import execution
from experiments.experiment.execution import prepare
from experiments.training.arms import Arm, PromptSource, TextSource
from icl.models.decoder import Decoder
from icl.prompts import RegressionTask
from icl.recipe import Recipe
from icl.toys.end_to_end import Copying, EndToEndSpec, EndToEndToys
from icl.toys.stacked import Gaussian, Orthogonal, StackedToys, ToySpec
from icl.toys.training import identity, toy_recipe
from icl.training import loop
from icl.training.objectives import PromptTask
from theory.plans.architecture import Architecture, Latent, Tokens, Vectors
from theory.plans.heads import MHA, SKIPV1
from theory.plans.identity import ALWAYS, canonical, text
from theory.plans.names import model, resolve

RECIPE = Recipe(steps=6, batch=4, learning_rate=0.01, log_every=2, evaluate_every=4)
PROMPTS = Arm(
    architecture=Architecture(d_model=8, n_layers=2, n_heads=2, d_ff=16, context=7, stem=Vectors(2)),
    variant="vanilla",
    source=PromptSource(2, 3, 0.1, 64),
    recipe=RECIPE,
    seed=0,
)
TEXT = Arm(
    architecture=Architecture(
        d_model=32,
        n_layers=4,
        n_heads=4,
        d_ff=64,
        context=16,
        stem=Tokens(320, tied=True),
        n_kv_heads=2,
        norm="layer",
        gated=False,
        bias=True,
    ),
    variant="skipv1+attnres-block:blocks=2",
    source=TextSource("/anywhere", "0123abcd"),
    recipe=replace(RECIPE, precision="bf16", compile=True),
    seed=3,
    std=0.1,
)
ARMS = {
    "prompts": PROMPTS,
    "twin": replace(PROMPTS, twin=True),
    "probed": replace(PROMPTS, probes=("magnitude",)),
    "resformer": replace(PROMPTS, variant="resformer"),
    "text": TEXT,
    "latent": replace(TEXT, architecture=replace(TEXT.architecture, n_kv_heads=0, latent=Latent(8, 4)), variant="dva"),
    "learned": replace(TEXT, variant="resformer-learned+denseformer"),
}
KEYS = {
    "prompts": "7942573cf81ef92c",
    "twin": "e7f09780b0f129a2",
    "probed": "c89813b9a54adcca",
    "resformer": "76fa2b8fbd5f7203",
    "text": "de772d167c42ee21",
    "latent": "77071a6b1169a90a",
    "learned": "1fa686765c08920c",
    "cuda": "f1b2b59b8e288d68",
    "checkpoint llama-2m": "22301ad9025b6cb3",
    "checkpoint dva-b": "8bfbf3aea7ba7d39",
    "toys": "7a2da9462cdf1011",
    "end-to-end toys": "35f2fe125290b976",
}
TASK = RegressionTask(2, 3, 0.1)
RUNS = {
    "skipv1-gap smoke": "skipv1-gap/smoke-a157fdc46a",
    "skipv1-gap cpu": "skipv1-gap/cpu-0d919a8724",
    "skipv1-gap full": "skipv1-gap/full-483e70f995",
    "skipv1-w0 smoke": "skipv1-w0/smoke-375bba562d",
    "skipv1-w0 cpu": "skipv1-w0/cpu-aece837fa1",
    "skipv1-w0 full": "skipv1-w0/full-9238f934da",
    "skipv1-end-to-end smoke": "skipv1-end-to-end/smoke-cd0bba9195",
    "skipv1-end-to-end cpu": "skipv1-end-to-end/cpu-7e01b0258b",
    "skipv1-end-to-end full": "skipv1-end-to-end/full-2df62cf339",
    "toy-orderings smoke": "toy-orderings/smoke-5fb9c3e545",
    "toy-orderings cpu": "toy-orderings/cpu-8b21fae08b",
    "toy-orderings full": "toy-orderings/full-9f668c08ff",
    "ladder-axes long": "ladder-axes/long",
    "ladder-axes gpu": "ladder-axes/gpu",
}


@pytest.mark.parametrize("name", ARMS)
def test_keys_of_arms(name):
    assert ARMS[name].key("cpu") == KEYS[name]


def test_an_arm_on_another_device_is_another_one():
    assert PROMPTS.key("cuda:1") == PROMPTS.key("cuda") == KEYS["cuda"]


@pytest.mark.parametrize(("preset", "variant"), [("llama-2m", "skipv1+attnres-block"), ("dva-b", "dva")])
def test_identities_of_checkpoints(preset, variant):
    config = replace(model(preset)[0], d_model=32, n_layers=2, d_ff=8, context=8, stem=Tokens(16))
    made = Decoder(config, resolve(variant, config.shape), seed=0)
    found = loop.identity(made, PromptTask(TASK, 512), RECIPE, 1, "name")
    assert found[:16] == KEYS[f"checkpoint {preset}"]


def test_identities_of_toys():
    toys = StackedToys([ToySpec(TASK, MHA, 1, 0), ToySpec(TASK, SKIPV1, 2, 1, Gaussian())])
    found = identity(toys, toy_recipe(10), torch.full(toys.shape, 0.003))
    assert found[:16] == KEYS["toys"]
    toys = EndToEndToys([EndToEndSpec(TASK, MHA, 3, 0), EndToEndSpec(TASK, SKIPV1, 2, 1, Copying(2), "positions")])
    found = identity(toys, toy_recipe(10), torch.full(toys.shape, 0.003))
    assert found[:16] == KEYS["end-to-end toys"]


@pytest.mark.parametrize("name", RUNS)
def test_names_of_run_folders(name, monkeypatch, tmp_path):
    monkeypatch.setattr(execution, "source_digest", lambda *modules: "frozen")
    monkeypatch.setattr(execution, "versions", lambda: {"python": "3"})
    experiment, profile = name.split()
    job = prepare(catalogue.experiment(experiment), profile, None, tmp_path)
    assert job.run.path.relative_to(tmp_path).as_posix() == RUNS[name]


@dataclass(frozen=True)
class Recipe2:
    steps: int
    rate: float = 0.1


def test_a_new_field_with_its_default_changes_no_identity(monkeypatch):
    """Whatever the class: one whose old fields always count, or one that is new."""
    assert text((Recipe2(3), "x")) == "(Recipe2(steps=3), 'x')"
    assert canonical({"a": [Recipe2(3), Recipe2(3, 0.2)]}) == {"a": [{"steps": 3}, {"steps": 3, "rate": 0.2}]}
    monkeypatch.setitem(ALWAYS, "Recipe2", frozenset({"rate"}))
    assert text(Recipe2(3)) == repr(Recipe2(3))
    assert canonical(Recipe2(3)) == asdict(Recipe2(3))


@pytest.mark.parametrize("value", [(), (1,), [1, "a"], {"a": (1, 2)}, 1.5, None, {1}, TASK, Orthogonal()])
def test_identities_read_as_reprs_where_every_field_counts(value):
    assert text(value) == repr(value)
