"""Papers' own layouts, written: what is read again is the same to the bit, and plain tensor code answers as we do."""

import json
from dataclasses import replace

import pytest
import torch

from icl.models.decoder import Decoder
from icl.published.kinds import OF_LLAMA_S_NAMES, PAPERS
from icl.published.papers import in_paper_s, save
from icl.published.reading import load
from icl.testing import check_identity
from tests.icl.published import llama, test_reading, test_testbed
from theory.errors import BadInput
from theory.plans.architecture import Architecture, Stretched, Tokens, Vectors
from theory.plans.names import resolve

VOCAB = 13
LLAMA = Architecture(
    d_model=16, n_layers=3, n_heads=4, d_ff=11, context=24, stem=Tokens(VOCAB), n_kv_heads=2, rope_theta=50.0
)
GPT2 = Architecture(
    d_model=16, n_layers=3, n_heads=4, d_ff=64, context=10, stem=Tokens(VOCAB, tied=True), norm="layer", gated=False
)
SIZES = {
    name: [LLAMA, replace(LLAMA, stem=Tokens(VOCAB, tied=True), n_kv_heads=4), replace(LLAMA, head_dim=6, window=5)]
    if name in OF_LLAMA_S_NAMES
    else [GPT2, replace(GPT2, bias=True, qkv_bias=True, dropout=0.1)]
    for name in PAPERS
}
CASES = [pytest.param(name, sizes, id=f"{name}-{i}") for name in PAPERS for i, sizes in enumerate(SIZES[name])]
TOKENS = torch.tensor([[3, 1, 4, 1, 5, 9, 2, 6]])


def decoder(name, sizes, dtype=torch.float32):
    """With gains, biases and depth weights that are not left at their start, which hides where they belong."""
    model = Decoder(sizes, resolve(PAPERS[name][1], sizes.shape), std=0.4).to(dtype).eval()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator))
    return model


@pytest.mark.parametrize(("name", "sizes"), CASES)
def test_there_and_back_it_is_the_same_to_the_bit(name, sizes, tmp_path):
    """And the folder says itself what its weights are of."""
    ours = decoder(name, sizes)
    save(ours, tmp_path / "x", name, shard=4000)
    again = load(tmp_path / "x")
    assert again.plan == ours.plan
    assert replace(again.config, n_kv_heads=sizes.kv_heads) == replace(sizes, n_kv_heads=sizes.kv_heads)
    parameters = dict(again.named_parameters())
    assert all(torch.equal(p, parameters[n]) for n, p in ours.named_parameters())
    with torch.no_grad():
        assert torch.equal(again(TOKENS), ours(TOKENS))
    assert len(list((tmp_path / "x").glob("*.safetensors"))) > 1


@torch.no_grad()
@pytest.mark.parametrize("name", PAPERS)
def test_plain_tensor_code_answers_as_we_do(name):
    """And as the vanilla model of the same tensors does not, where it has all of them: the control."""
    ours = decoder(name, SIZES[name][0], torch.float64)
    config, tensors = in_paper_s(ours, name, torch.float64)
    if name not in OF_LLAMA_S_NAMES:
        return check_identity(ours(TOKENS)[0], test_testbed.logits(name, tensors, TOKENS[0]), terms=1000)
    mixes = {"mixed": lambda own, first: own if own is first else torch.cat([own, first[:, 1:]], dim=1)}
    if name != "skipv1":
        _, mixes = test_reading.MIXED[name]
    beside = {"beside": lambda own, first: 0 * first}
    check_identity(ours(TOKENS), llama.logits(config, tensors, TOKENS, **beside | mixes), terms=1000)
    if name in ("resformer", "neutreno"):
        with pytest.raises(AssertionError):
            check_identity(ours(TOKENS), llama.logits(config, tensors, TOKENS), terms=1000)
    return None


@pytest.mark.parametrize(
    ("name", "sizes", "says"),
    [
        ("nothing", LLAMA, "there are skipv1, resformer"),
        ("skipv1-gpt2", replace(GPT2, norm_eps=1e-3), "no place for norm_eps = 0.001: there it is 1e-05"),
        ("skipv1-gpt2", replace(GPT2, d_ff=12), "no place for d_ff = 12: there it is 64"),
        ("skipv1-gpt2", replace(GPT2, bias=True), "no place for qkv_bias = False: there it is True"),
        ("skipv1-gpt2-fused", replace(GPT2, n_kv_heads=2), "no place for n_kv_heads = 2"),
        ("denseformer", replace(GPT2, stem=Tokens(VOCAB)), "no place for stem = Tokens"),
        ("denseformer", replace(GPT2, positions="learned"), "no place for positions = learned"),
        ("denseformer", replace(GPT2, tanh_gelu=True), "no place for tanh_gelu = True"),
        ("denseformer", replace(GPT2, window=3), "no place for window = 3"),
        ("denseformer", replace(GPT2, stem=Vectors(3)), "is of decoders of tokens, of this kind: LayerNorm"),
        ("resformer", replace(LLAMA, dropout=0.1), "is of decoders of tokens, of this kind: RMSNorm"),
        ("resformer", replace(LLAMA, norm="layer"), "of this kind: RMSNorm"),
        ("resformer", replace(LLAMA, normed="head"), "of this kind: RMSNorm"),
        ("denseformer", replace(GPT2, normed="sublayers"), "of this kind: LayerNorm"),
        ("svformer", replace(LLAMA, bias=True), "of this kind: RMSNorm"),
    ],
)
def test_what_a_layout_cannot_say_is_one_line(name, sizes, says, tmp_path):
    model = Decoder(sizes, resolve(PAPERS[name][1] if name in PAPERS else "vanilla", sizes.shape))
    with pytest.raises(BadInput, match=says) as stop:
        save(model, tmp_path / "x", name)
    assert "\n" not in str(stop.value)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("other", ["vanilla", "skipv1:ratio=0.25", "skipv2", "resformer-learned"])
def test_another_plan_than_the_layout_s_is_refused(other, tmp_path):
    sizes = replace(LLAMA, n_kv_heads=4)
    with pytest.raises(BadInput, match="is of models under skipv1, and this one is under another plan"):
        save(Decoder(sizes, resolve(other, sizes.shape)), tmp_path / "x", "skipv1")


def test_stretched_positions_are_written_too(tmp_path):
    sizes = replace(LLAMA, head_dim=12, rope_stretched=Stretched(8.0, 1.0, 4.0, 12))
    ours = decoder("resformer", sizes)
    save(ours, tmp_path / "x", "resformer")
    assert load(tmp_path / "x").config == sizes


def test_a_folder_that_says_what_there_is_not_is_refused(tmp_path):
    """What is asked for counts more than what the folder says."""
    save(decoder("resformer", LLAMA), tmp_path / "x", "resformer")
    path = tmp_path / "x" / "config.json"
    content = json.loads(path.read_text())
    assert load(tmp_path / "x", variant="vanilla").plan == resolve("vanilla", LLAMA.shape)
    for wrong in ("denseformer", "mine.py:plan", 3, None):
        path.write_text(json.dumps(content | {"crosslayer_variant": wrong}))
        with pytest.raises(BadInput, match="of which there is no such layout"):
            load(tmp_path / "x")
