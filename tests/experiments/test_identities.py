"""What names a finished training, a checkpoint and a run stays what it was: frozen here, digest by digest.

A test that fails here says that a change orphans trainings which somebody has finished.  Where that is meant, raise
`icl.training.loop.ROUTINE`; a new field with a default must not do it.
"""

import hashlib
import json
from dataclasses import asdict, dataclass, replace

import pytest
import torch

from experiments import catalogue
from experiments.experiment import execution
from experiments.experiment.execution import prepare
from experiments.store import work
from experiments.store.folders import RunFolder
from experiments.training.arms import Arm, TextSource
from icl.models.decoder import Decoder
from icl.prompts import RegressionTask
from icl.toys.end_to_end import Copying, EndToEndSpec, EndToEndToys
from icl.toys.stacked import Gaussian, Orthogonal, StackedToys, ToySpec
from icl.toys.training import identity, toy_recipe
from icl.training import loop
from icl.training.objectives import PromptTask
from tests.experiments.training.small import PROMPTS, RECIPE
from theory.plans.architecture import Architecture, Latent, Tokens
from theory.plans.heads import MHA, SKIPV1
from theory.plans.identity import ALWAYS, canonical, text
from theory.plans.names import model, resolve

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
RUNS = {  # by experiment and profile, what follows the profile in the folder's name; nothing where it grows
    "resformer-blocks": {"smoke": "8f9e2f1cd7", "cpu": "6cc2c1013d", "full": "d07291b463"},
    "dva-collapse": {"smoke": "7d66b4419c", "cpu": "98df753546", "full": "5082e621c3"},
    "dva-example": {"smoke": "b25d19f4f5", "cpu": "6f10fa08be", "full": "d7defb6246"},
    "hyper-growth": {"smoke": "428b4a47c1", "cpu": "b28d74b7b7", "full": "812c6825e2"},
    "skipv1-w0": {"smoke": "375bba562d", "cpu": "706230bdbd", "full": "9238f934da"},
    "skipv1-dynamics": {"smoke": "ce785d408d", "cpu": "a1f33a66a3", "full": "8a6cfb9385"},
    "skipv1-end-to-end": {"smoke": "cd0bba9195", "cpu": "7e01b0258b", "full": "2df62cf339"},
    "skipv1-gap": {"smoke": "a157fdc46a", "cpu": "81656abfc0", "full": "483e70f995"},
    "skipv1-softmax": {"smoke": "36848d46c1", "cpu": "5304d3e1d2", "full": "c0d558419b"},
    "attnres-bounds": {"smoke": "05dca5248e", "cpu": "b19e57c09c", "full": "3b4555f1d8"},
    "attnres-gradients": {"smoke": "d6bc0a0594", "cpu": "a3aed7200b", "full": "3f109de4ee"},
    "attnres-toy": {"smoke": "93305c4624", "cpu": "549bda0696", "full": "0ddeabeb76"},
    "value-tables": {"smoke": "0a2e6048fe", "cpu": "581a011d75", "full": "dbc1d59458"},
    "toy-orderings": {"smoke": "5fb9c3e545", "cpu": "8b21fae08b", "full": "9f668c08ff"},
    "text-layers": {"smoke": "ad25225344", "cpu": "", "gpu": "", "gpu-tiny": ""},
    "text-dynamic-values": {"smoke": "2027ded45c", "cpu": "", "gpu": "", "gpu-tiny": ""},
    "scale-decode": {"smoke": "e01ff34790", "cpu": "3209c07df6", "gpu": "ebd7019754", "gpu-tiny": "9256ab1f71"},
    "scale-uptrain": {
        "smoke": "5e76d83682",
        "cpu": "57ee5f2dc7",
        **dict.fromkeys(("grouped", "latent", "long", "gpu", "gpu-tiny"), ""),
    },
    "text-depth": {"smoke": "9a578a2b03", "cpu": "", "gpu": "", "gpu-tiny": ""},
    "ladder": {"smoke": "72c74c6e31", "cpu": "", "gpu": "", "gpu-tiny": ""},
    "text-induction": {"smoke": "1389151ecd", "cpu": "", "gpu": "", "gpu-tiny": ""},
    "text-rates": {"smoke": "262a390447", "cpu": "", "gpu": "", "gpu-tiny": ""},
    "text-predicted": {"smoke": "8799b21f7a", "cpu": "", "gpu": "", "gpu-tiny": ""},
    "text-design": {"smoke": "b6e8ddd1ad", "cpu": "", "gpu": "", "gpu-tiny": ""},
    "text-values": {"smoke": "2b663d9267", "cpu": "", "gpu": "", "gpu-tiny": ""},
}
ITEMS = {  # by experiment and profile, a digest of the items that are measured first: their kind and names
    "resformer-blocks": {"smoke": "36f86bf36e", "cpu": "5c6686a36b", "full": "7d97bdd3b9"},
    "dva-example": {"smoke": "33c6440c69", "cpu": "7f801bce1e", "full": "98a030e039"},
    "skipv1-w0": {"smoke": "6ed5440e4c", "cpu": "35e7185207", "full": "af6c3cb3d1"},
    "skipv1-dynamics": {"smoke": "6da50c6820", "cpu": "52047d0b0a", "full": "2b8c671931"},
    "skipv1-end-to-end": {"smoke": "91ccb4bd02", "cpu": "ef77e9f5d4", "full": "8e52307971"},
    "skipv1-gap": {"smoke": "27c69cc82d", "cpu": "0a4df11e76", "full": "01d401cfa9"},
    "skipv1-softmax": {"smoke": "6441cb84e2", "cpu": "feb30f9578", "full": "980ba5d419"},
    "attnres-bounds": {"smoke": "019dfb9852", "cpu": "fd3edf5021", "full": "52a599e48d"},
    "attnres-gradients": {"smoke": "3f5037800b", "cpu": "9671520a63", "full": "9671520a63"},
    "attnres-toy": {"smoke": "04dffedd11", "cpu": "bf58b2f7fa", "full": "bf58b2f7fa"},
    "toy-orderings": {"smoke": "5ded5cb18d", "cpu": "c673142702", "full": "97560b65aa"},
    "ladder": {"smoke": "02a12fd6b7", "cpu": "9d2ca611a4"},
}
NAMED = [(name, profile) for name, profiles in RUNS.items() for profile in profiles]
MEASURED = [(name, profile) for name, profiles in ITEMS.items() for profile in profiles]


@pytest.mark.parametrize("name", ARMS)
def test_keys_of_arms(name):
    assert ARMS[name].key("cpu") == KEYS[name]


def test_an_arm_on_another_device_is_another_one():
    assert PROMPTS.key("cuda:1") == PROMPTS.key("cuda") == KEYS["cuda"]


@pytest.mark.parametrize(("preset", "variant"), [("llama-2m", "skipv1+attnres-block"), ("dva-b", "dva")])
def test_identities_of_checkpoints(preset, variant):
    config = replace(model(preset)[0], d_model=32, n_layers=2, d_ff=8, context=8, stem=Tokens(16))
    made = Decoder(config, resolve(variant, config.shape), seed=0)
    assert loop.identity(made, PromptTask(TASK, 512), RECIPE, 1, "name")[:16] == KEYS[f"checkpoint {preset}"]


def test_identities_of_toys():
    toys = StackedToys([ToySpec(TASK, MHA, 1, 0), ToySpec(TASK, SKIPV1, 2, 1, Gaussian())])
    found = identity(toys, toy_recipe(10), torch.full(toys.shape, 0.003))
    assert found[:16] == KEYS["toys"]
    toys = EndToEndToys([EndToEndSpec(TASK, MHA, 3, 0), EndToEndSpec(TASK, SKIPV1, 2, 1, Copying(2), "positions")])
    found = identity(toys, toy_recipe(10), torch.full(toys.shape, 0.003))
    assert found[:16] == KEYS["end-to-end toys"]


@pytest.mark.parametrize(("name", "profile"), NAMED)
def test_names_of_run_folders(name, profile, monkeypatch, tmp_path):
    monkeypatch.setattr(execution, "source_digest", lambda *modules: "frozen")
    monkeypatch.setattr(execution, "versions", lambda: {"python": "3"})
    job = prepare(catalogue.experiment(name), profile, None, tmp_path)
    digest = RUNS[name][profile]
    assert job.run.path.relative_to(tmp_path).as_posix() == f"{name}/{profile}{'-' if digest else ''}{digest}"


class FirstItems(Exception):
    """A kind of line in metrics.jsonl, and the names of the items that it is to hold."""


class Recorder(RunFolder):
    """A run's folder that remembers which kind of line was looked for last, and a backend that computes nothing."""

    def lines(self, kind, **fields):
        self.kind = kind
        return super().lines(kind, **fields)

    def run(self, _work, items, *_):
        raise FirstItems(self.kind, sorted(items))


@pytest.mark.parametrize(("name", "profile"), MEASURED)
def test_names_of_lines_and_of_unfinished_folders(name, profile, monkeypatch, tmp_path):
    """A finished item is found by its kind and name, an unfinished one by the folder that has its name."""
    recorder, about = Recorder(tmp_path), catalogue.experiment(name).profiles[profile]
    monkeypatch.setattr(work, "_chosen", lambda slot, count: recorder)
    with pytest.raises(FirstItems) as first:
        catalogue.experiment(name).measure(about.config, about.seeds, recorder)
    assert hashlib.sha256(json.dumps(first.value.args).encode()).hexdigest()[:10] == ITEMS[name][profile]


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
