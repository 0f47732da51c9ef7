"""Standalone model files: they answer as the decoder does, in a process that cannot import this project."""

import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from icl.models.decoder import Decoder
from icl.published import standalone
from theory.errors import BadInput
from theory.plans.accounting import cache, total_parameters
from theory.plans.architecture import Architecture, Latent, Stretched, Tokens, Vectors
from theory.plans.names import resolve, sized

transformers = pytest.importorskip("transformers")

SIZES = Architecture(d_model=16, n_layers=4, n_heads=4, d_ff=11, context=48, stem=Tokens(29), rope_theta=50.0)
QWEN = replace(SIZES, qkv_bias=True, qk_norm=True, head_dim=6, n_kv_heads=2, stem=Tokens(29, tied=True))
LONG = replace(SIZES, window=4, rope_stretched=Stretched(factor=8.0, low=1.0, high=4.0, context=12))
CASES = {
    "vanilla": SIZES,
    "skipv1": SIZES,
    "resformer": SIZES,
    "svformer+gqa:group=2": SIZES,
    "attnres-block": SIZES,
    "attnres-block:size=3+skipv1": QWEN,
    "attnres-no-key-norm+resformer": LONG,
    "skipv1-pooling": QWEN,
    "skipv1-resformer": LONG,
}
IN_THE_PAPERS = ("vanilla", "skipv1", "resformer", "svformer+gqa:group=2", "attnres-block")
WAYS = {"whole", "cached", "static", "attended", "padded", "padded, attended", "packed", "embedded", "tuple", "again"}
OLDER = transformers.__version__.startswith("4.")
ROOM = 20  # of the static caches of alone.py
TOKENS = torch.randint(29, (2, 12), generator=torch.Generator().manual_seed(0))
SINGLE = 100 * torch.finfo(torch.float32).eps  # transformers' loss is in float32
NEAR = 1e4 * torch.finfo(torch.float64).eps


def decoder(name):
    """A decoder in float64 with weights that are float32 numbers, far from where they start."""
    config, rest = sized(CASES[name], name)
    model, numbers = Decoder(config, resolve(rest, config.shape), std=0.3), torch.Generator().manual_seed(1)
    with torch.no_grad():
        for p in model.parameters():
            p += 0.3 * torch.randn(p.shape, generator=numbers)
    return model.double().eval()


def folder_of(place, name):
    return place / re.sub(r"\W+", "-", name)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Folders of all cases, with what one process without this project answers to each."""
    place = tmp_path_factory.mktemp("alone")
    for name in CASES:
        standalone.save(decoder(name).float(), folder_of(place, name), name=name)
        torch.save(TOKENS, folder_of(place, name) / "tokens.pt")
    command = [sys.executable, str(Path(__file__).with_name("alone.py")), *(str(folder_of(place, n)) for n in CASES)]
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    env |= {"HF_MODULES_CACHE": str(place / "modules"), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(command, cwd=place, env=env, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return place


def answers(place, name):
    return torch.load(folder_of(place, name) / "answers.pt")


def assert_near(found, expected):
    assert float((found - expected).abs().max()) <= NEAR * float(expected.abs().max())


@pytest.mark.parametrize("name", CASES)
@pytest.mark.slow
def test_it_answers_as_the_decoder_in_every_way_it_can_be_asked(name, place):
    found, ours = answers(place, name), decoder(name)
    with torch.no_grad():
        expected = ours(TOKENS)
    if OLDER:
        assert found["static"] == "past_key_values: a static cache needs transformers 5"
    for way in WAYS - {"static"} if OLDER else WAYS:
        assert_near(found[way], expected)
    assert_near(found["last"], expected[:, -2:])
    assert found["states"] == ours.config.n_layers + 1
    assert "head_mask" in found["refused"]


@pytest.mark.parametrize("name", CASES)
@pytest.mark.slow
def test_its_weights_are_those_of_the_decoder(name, place):
    found, expected = answers(place, name), []
    ours = decoder(name)
    with torch.no_grad():
        frame, places = ours.frame(x := ours.stem.embed(TOKENS))
        ours.through(x, replace(frame, explicit=True, see=expected.append), places)
    assert_near(found["weights"], torch.stack(expected))
    assert_near(found["last weights"], torch.stack(expected)[:, :, :, -1:])


@pytest.mark.parametrize("name", CASES)
@pytest.mark.slow
def test_its_cache_holds_what_the_plan_keeps(name, place):
    ours = decoder(name)
    found, kept = answers(place, name), cache(ours.config, ours.plan).bytes(8)
    assert found["bytes"] == TOKENS.numel() * kept
    assert OLDER or found["static bytes"] == len(TOKENS) * ROOM * kept


@pytest.mark.parametrize("name", CASES)
@pytest.mark.slow
def test_it_generates_the_same_with_its_cache(name, place):
    found = answers(place, name)
    assert torch.equal(found["generated"], found["generated without"])
    assert torch.equal(found["beams"], found["beams without"])
    for other in (found["generated static"], *found["generated behind pads"]):
        assert torch.equal(other, found["generated"])
    ours, text = decoder(name), TOKENS[:, :7]
    with torch.no_grad():
        for _ in range(6):
            text = torch.cat([text, ours(text)[:, -1:].argmax(-1)], dim=1)
    assert torch.equal(found["generated"], text)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.slow
def test_it_trains_as_the_decoder(name, place):
    found, ours = answers(place, name), decoder(name)
    loss = torch.nn.functional.cross_entropy(ours(TOKENS)[:, :-1].flatten(0, 1), TOKENS[:, 1:].flatten())
    assert float(found["loss"]) == pytest.approx(float(loss.detach()), rel=SINGLE)
    loss.backward()
    total = sum(float(p.grad.square().sum()) for p in ours.parameters())
    assert sum(float(g.square().sum()) for g in found["gradients"].values()) == pytest.approx(total, rel=SINGLE)
    for way in ("recomputed", "reentrant"):
        again, calls = found[way]
        assert calls == 2
        for key, gradient in found["gradients"].items():
            assert_near(again[key], gradient)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.slow
def test_it_starts_from_torch_s_seed_and_writes_every_parameter(name, place):
    first, same, other = answers(place, name)["fresh"]
    config, rest = sized(CASES[name], name)
    assert sum(p.numel() for p in first.values()) == total_parameters(config, resolve(rest, config.shape))
    assert all(bool(p.isfinite().all()) for p in first.values())
    assert all(torch.equal(p, same[key]) for key, p in first.items())
    assert not any(torch.equal(p, other[key]) for key, p in first.items() if key.endswith("proj.weight"))


@pytest.mark.parametrize("name", CASES)
def test_the_file_is_one_that_can_be_read(name):
    """Short, with the names of the variant, without this project, and nothing left of the pieces it is made of."""
    config, rest = sized(CASES[name], name)
    text = standalone.source(config, resolve(rest, config.shape), name)
    lines = text.splitlines()
    assert len(lines) < 400
    assert max(map(len, lines)) <= 120 or name not in IN_THE_PAPERS  # longer names make longer lines
    assert not re.search(r"\$|\bicl\b|\btheory\b|\bexperiments\b", text)
    assert "\n\n\n\n" not in text
    assert f"class {standalone.class_of(name)}ForCausalLM(" in text
    assert ("first_value" in text) == (name not in ("vanilla", "attnres-block"))
    assert ("DepthAttention" in text) == ("attnres" in name)
    compile(text, name, "exec")


def test_names_of_files_and_classes():
    assert standalone.module_of("svformer+gqa:group=2") == "modeling_svformer_gqa"
    assert standalone.class_of("svformer+gqa:group=2") == "SvformerGqa"
    assert standalone.class_of("7b") == "Crosslayer7b"
    assert standalone.module_of("1") == "modeling_crosslayer"


REFUSED = [
    ("vanilla", {"stem": Vectors(3)}, "the model reads no tokens"),
    ("vanilla", {"positions": "learned"}, "positions = learned"),
    ("vanilla", {"norm": "layer"}, "norm = layer"),
    ("skipv1", {"latent": Latent(8, 2)}, "latent = Latent"),
    ("vanilla", {"windows": (2, 0)}, r"windows = \(2, 0\)"),
    ("vanilla", {"rotated": (True, False)}, r"rotated = \(True, False\)"),
    ("vanilla", {"dropout": 0.1}, "dropout = 0.1"),
    ("vanilla", {"parallel": True}, "parallel = True"),
    ("vanilla", {"differential": True}, "differential = True"),
    ("dva", {}, "the model has no feed-forward network"),
    ("dva-attention", {}, "values are dynamic"),
    ("skipv2", {}, "layer 3, head 3 attends over values of layer 2, neither its own nor the first layer's"),
    ("cla", {}, "layer 2, head 1 has other queries or keys than its own"),
    ("skipv0", {}, "layer 2, head 3 is not built"),
    ("neutreno", {}, "layer 2, head 1 adds values beside its attention"),
    ("resformer-learned", {}, "layer 2, head 1 weighs values by a learned number"),
    (
        "gated-value-embeddings",
        {},
        r"layer 2, head 1 attends over e\(2, 1\), which is no projection of the token itself",
    ),
    ("resformer-sparse:last=1", {}, "layers after the first have different value maps"),
    ("value-embeddings", {}, "layer 1, head 1 attends over other values than its own"),
    ("attnres-input-query", {}, "the depth rule"),
    ("mhc", {}, "is neither a residual stream nor a softmax with one learned query"),
]


@pytest.mark.parametrize(("name", "changes", "problem"), REFUSED, ids=range(len(REFUSED)))
def test_what_cannot_be_written_is_named_in_one_line(name, changes, problem, tmp_path):
    config = replace(SIZES, **changes)
    model = Decoder(config, resolve(name, config.shape), device="meta")
    with pytest.raises(BadInput, match=problem) as stop:
        standalone.save(model, tmp_path / "x", name=name)
    assert "\n" not in str(stop.value)
    assert not (tmp_path / "x").exists()
