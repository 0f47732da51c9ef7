"""`import icl`: decoders by name, trained ones from their folder, and the helper that identity tests lean on."""

import json
from dataclasses import asdict, replace

import pytest
import torch

import icl
import theory
from icl.files import sealed
from icl.models import saved
from icl.testing import check_identity
from tests.crashes import flip
from tests.faces import imported_by
from theory.errors import BadInput
from theory.plans.architecture import Architecture, Latent, Patches, Tokens, Vectors
from theory.plans.names import resolve
from theory.plans.plan import Shape, plan, v
from theory.plans.presets import toy

SMALL = Architecture(
    d_model=16, n_layers=3, n_heads=4, d_ff=24, context=12, stem=Tokens(vocab=20, tied=True), dropout=0.5
)
INPUTS = torch.arange(24).view(2, 12) % 20
MODELS = {
    "tokens": (SMALL, "skipv1+denseformer"),
    "vectors": (replace(SMALL, stem=Vectors(3), n_kv_heads=2), "resformer-learned+attnres-block:blocks=2"),
    "as they are": (replace(SMALL, stem=Vectors(16, read_in=False)), "dva"),
    "images": (replace(SMALL, stem=Patches(8, 4, 3, 10), context=5, positions="learned", mask="none"), "neutreno"),
    "biases": (replace(SMALL, positions="bias"), "skipv0"),
    "latent": (replace(SMALL, latent=Latent(8, 4), norm="layer", bias=True), "vanilla"),
}


def inputs(config):
    match config.stem:
        case Tokens():
            return INPUTS
        case Patches():
            return torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(0))
        case stem:
            return torch.randn(2, 12, stem.width, generator=torch.Generator().manual_seed(0))


def write(folder, model, variant):
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps({"architecture": asdict(model.config), "variant": variant}))
    (folder / "model.safetensors").write_bytes(saved.weights(model))
    return folder


def test_build_by_name_by_sizes_and_by_plan():
    named = icl.build("llama-2m", "skipv1:ratio=0.5+attnres-block", seed=3)
    config = named.config
    for other in (
        icl.build(config, "skipv1+attnres-block", seed=3),
        icl.build(config, resolve("skipv1+attnres-block", config.shape), seed=3),
        icl.Decoder(config, resolve("skipv1+attnres-block", config.shape), seed=3),
    ):
        assert all(map(torch.equal, named.parameters(), other.parameters()))
    assert icl.build(SMALL).plan == resolve("vanilla", SMALL.shape)
    assert icl.build("dva-b", device="meta").plan == resolve("dva", Shape(12, 1))
    assert icl.build(SMALL, "resformer+gqa").config.n_kv_heads == 2


@pytest.mark.parametrize(
    ("model", "variant"),
    [("llama-2mm", None), ("llama-2m", "resformers"), (SMALL, plan(Shape(2, 4))), (SMALL, "mla+gqa")],
)
def test_what_cannot_be_built_is_one_line(model, variant):
    with pytest.raises(BadInput) as stop:
        icl.build(model, variant)
    assert "\n" not in str(stop.value)


@pytest.mark.parametrize("name", MODELS)
def test_loaded_is_what_was_saved(name, tmp_path):
    config, variant = MODELS[name]
    model = icl.build(config, variant, seed=1, std=0.3).eval()
    found = icl.load(write(tmp_path, model, variant))
    assert (found.config, found.plan) == (model.config, model.plan)
    assert not found.training
    assert torch.equal(found(inputs(config)), model(inputs(config)))
    assert all(p.requires_grad for p in found.parameters())


def test_the_same_weights_are_the_same_bytes():
    """Eight times, as metadata were in any order before."""
    model = icl.build(toy(2, 3), "svformer", seed=0)
    assert len({saved.weights(model) for _ in range(8)}) == 1
    assert saved.weights(model) != saved.weights(icl.build(toy(2, 3), "svformer", seed=1))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_weights_go_into_a_file_as_the_same_bytes(tmp_path, dtype):
    model = icl.build(SMALL, "resformer-learned").to(dtype)
    saved.write_weights(model, tmp_path / "weights")
    assert (tmp_path / "weights").read_bytes() == saved.weights(model)
    model.layers[0].to(torch.float64 if dtype != torch.float64 else torch.float32)  # of two kinds
    saved.write_weights(model, tmp_path / "weights")
    assert (tmp_path / "weights").read_bytes() == saved.weights(model)


def test_weights_without_digests_load(tmp_path):
    """As they were written before."""
    from safetensors.torch import load_file, save_file

    model = icl.build(SMALL, "resformer").eval()
    path = write(tmp_path, model, "resformer") / "model.safetensors"
    save_file(load_file(path), path)
    assert torch.equal(icl.load(tmp_path)(INPUTS), model(INPUTS))


def test_a_variant_of_one_s_own(tmp_path):
    own, other = (plan(SMALL.shape, values=lambda n, h, a=a: a * v(n, h) + v(1, h)) for a in (0.5, 0.25))
    model = icl.build(SMALL, own).eval()
    folder = write(tmp_path / "folder", model, "mine.py:mine")
    for ask in (lambda: icl.load(folder), lambda: icl.build(SMALL, "mine.py:mine")):
        with pytest.raises(BadInput, match=r"^mine\.py:mine: files are read by the command line; pass the plan"):
            ask()
    with pytest.raises(BadInput, match="what was given is another plan than the one that was trained"):
        icl.load(folder, variant=other)  # the same shapes
    with pytest.raises(BadInput, match="resformer is another plan than the one that was trained"):
        icl.load(folder, variant="resformer")
    assert torch.equal(icl.load(folder, variant=own)(INPUTS), model(INPUTS))
    with pytest.raises(BadInput, match="what was given is another plan"):
        icl.load(folder, variant=plan(SMALL.shape))
    content = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**content, "variant": "plan-012345", "plan": "Plan(...)"}))
    with pytest.raises(BadInput, match="a plan that no name stands for; pass the plan"):
        icl.load(folder)
    assert torch.equal(icl.load(folder, variant=own)(INPUTS), model(INPUTS))


def configure(folder, **fields):
    content = json.loads((folder / "config.json").read_text())
    content["architecture"] |= fields
    (folder / "config.json").write_text(json.dumps(content))


def changed(path):
    """As it was written, but for another number that makes sense too."""
    text = json.dumps(sealed(json.loads(path.read_text())))
    assert '"rope_theta": 1' in text
    return text.replace('"rope_theta": 1', '"rope_theta": 2')


DAMAGE = {
    "no folder": (lambda f: [p.unlink() for p in f.iterdir()] and f.rmdir(), "no folder of a training"),
    "no config": (lambda f: (f / "config.json").unlink(), "holds no config.json"),
    "no JSON": (lambda f: (f / "config.json").write_text("{"), "describes no model"),
    "no object": (lambda f: (f / "config.json").write_text("[]"), "describes no model"),
    "no variant": (
        lambda f: (f / "config.json").write_text(json.dumps({"architecture": asdict(SMALL)})),
        "describes no",
    ),
    "an unknown field": (lambda f: configure(f, colour="red"), "describes no model"),
    "an unknown stem": (lambda f: configure(f, stem={"letters": 26}), "describes no model"),
    "impossible sizes": (lambda f: configure(f, n_heads=3), "describes no model"),
    "no sizes": (lambda f: (f / "config.json").write_text('{"architecture": [], "variant": "skipv1"}'), "describes no"),
    "too deep": (lambda f: (f / "config.json").write_text("[" * 100_000), "describes no model"),
    "one digit of the config": (
        lambda f: (f / "config.json").write_text(changed(f / "config.json")),
        "not what was written",
    ),
    "no weights": (lambda f: (f / "model.safetensors").unlink(), "its training has not ended"),
    "half of the weights": (
        lambda f: (f / "model.safetensors").write_bytes((f / "model.safetensors").read_bytes()[:-1]),
        "is damaged",
    ),
    "one bit of the weights": (lambda f: flip(f / "model.safetensors", 1), "is damaged"),
    "another width": (lambda f: configure(f, d_ff=32), "is not of the model in config.json"),
    "another depth": (lambda f: configure(f, n_layers=4), "another plan"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_what_is_missing_damaged_or_does_not_match_is_one_line(damage, tmp_path):
    folder = write(tmp_path / "folder", icl.build(SMALL, "skipv1"), "skipv1")
    hurt, message = DAMAGE[damage]
    hurt(folder)
    with pytest.raises(BadInput, match=message) as stop:
        icl.load(folder)
    assert "\n" not in str(stop.value)
    assert str(folder) in str(stop.value)


@pytest.mark.long
def test_a_model_is_built_by_name_without_any_mathematics():
    """Of theory only names and plans; what a paper's room holds besides stays where it is."""
    statement = 'import icl; icl.build("llama-2m", "skipv1+attnres-block+neutreno", seed=0)'
    modules = imported_by(statement)
    there = {name for name in modules if name.startswith("theory.")}
    vocabulary = ("theory.errors", "theory.plans")
    rooms = {name for name in there if not name.startswith(vocabulary) and name.count(".") > 1}
    assert {name.rpartition(".")[2] for name in rooms} == {"paper", "presets", "variants"}
    assert not {"scipy", "matplotlib"} & modules


def test_a_function_from_a_shape_to_a_plan_is_a_variant():
    def mine(shape):
        return plan(shape, values=lambda n, h: v(n, h) + v(1, h) if n > 1 else v(n, h))

    built = icl.build("llama-2m", mine, seed=0)
    assert built.plan == mine(built.config.shape)
    task = {"d": 2, "n": 3, "sigma": 0.1}
    assert theory.predict(mine, **task) == theory.predict(mine(Shape(2, 2)), **task)


ONE = torch.linspace(1, 2, 12, dtype=torch.float64).view(3, 4)


def test_rounding_passes():
    check_identity(ONE, (ONE * 3.0) / 3.0)
    check_identity(ONE.sum(), ONE.T.sum(), terms=12)
    check_identity(torch.nn.Parameter(ONE), ONE)


@pytest.mark.parametrize(
    ("other", "says"),
    [
        (ONE * (1 + 1e-12), "differ by"),
        (ONE + torch.eye(3, 4, dtype=torch.float64) * 1e-12, "differ by"),
        (ONE[:2], "shapes differ"),
        (ONE.float(), "dtypes differ"),
        (ONE / 0, "not finite"),
    ],
)
def test_anything_else_does_not(other, says):
    with pytest.raises(AssertionError, match=says):
        check_identity(ONE, other)


def test_more_terms_allow_more():
    nearly = ONE * (1 + 1e-14)
    with pytest.raises(AssertionError):
        check_identity(ONE, nearly)
    check_identity(ONE, nearly, terms=100)
