"""Papers' own layouts, read and written: read again it is the same to the bit; plain tensor code answers as we do.

The code of DenseFormer's and SkipV1Former's GPT-2 knows nothing of the decoder and takes their tensors.
"""

import json
from dataclasses import replace

import pytest
import torch
from safetensors.torch import save_file

from icl.models.decoder import Decoder
from icl.published.kinds import OF_LLAMA_S_NAMES, PAPERS
from icl.published.layouts import Held, joined, taken
from icl.published.papers import save
from icl.published.reading import load
from icl.testing import check_identity
from tests.icl.published.llama import moved
from theory.errors import BadInput
from theory.plans.architecture import Architecture, Stretched, Tokens, Vectors
from theory.plans.names import resolve

VOCAB, TOKENS = 13, torch.tensor([[3, 1, 4, 1, 5, 9, 2, 6]])
D, HEADS, LAYERS, CONTEXT = 16, 4, 3, 10
WIDTH = D // HEADS
CONFIG = {"n_embd": D, "n_head": HEADS, "n_layer": LAYERS, "vocab_size": VOCAB, "sequence_length": CONTEXT}
KINDS = {
    "denseformer": {"increase_T_every": 1, "dilation_factor": 1},
    "skipv1-gpt2": {"num_skip_head": 2},
    "skipv1-gpt2-fused": {},
}


def block(kind, n):
    return f"transformer.h.{n}.0." if kind == "denseformer" else f"transformer.h.{n}."


def tensors(kind, bias=False, seed=0):
    """As their code saves them: outputs by inputs, queries, keys and values of layer n's own heads."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape):
        return 0.4 * torch.randn(shape, generator=generator, dtype=torch.float64)

    found = {"transformer.wte.weight": normal(VOCAB, D), "transformer.ln_f.weight": 1 + normal(D)}
    for n in range(LAYERS):
        own = D if n == 0 or kind == "denseformer" else D // 2
        sizes = {"attn.c_proj": (D, D), "mlp.c_fc": (4 * D, D), "mlp.c_proj": (D, 4 * D)}
        if kind == "skipv1-gpt2":
            sizes |= {"attn.q_proj": (D, D), "attn.k_proj": (D, D), "attn.v_proj": (own, D)}
        else:
            sizes |= {"attn.c_attn": (2 * D + own, D)}
        for name, size in sizes.items():
            found[f"{block(kind, n)}{name}.weight"] = normal(*size)
            if bias:
                found[f"{block(kind, n)}{name}.bias"] = normal(size[0])
        for name in ("ln_1", "ln_2"):
            found[f"{block(kind, n)}{name}.weight"] = 1 + normal(D)
            if bias:
                found[f"{block(kind, n)}{name}.bias"] = normal(D)
        if kind == "denseformer":
            found[f"weights.{n}.weight"] = normal(1, n + 2)
    if bias:
        found["transformer.ln_f.bias"] = normal(D)
    return found


def turned(x):
    """(T, heads, width): pairs of neighbours, by position / 10000^(2 i / width)."""
    angles = torch.outer(torch.arange(len(x)).double(), 10_000.0 ** -(torch.arange(0, WIDTH, 2).double() / WIDTH))
    pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous())
    return torch.view_as_real(pairs * torch.polar(torch.ones_like(angles), angles)[:, None]).flatten(-2)


def logits(kind, w, tokens):
    """Of one sequence."""
    x = w["transformer.wte.weight"][tokens]
    seen, first = [x], None

    def linear(x, name):
        return torch.nn.functional.linear(x, w[f"{name}.weight"], w.get(f"{name}.bias"))

    def norm(x, name):
        return torch.nn.functional.layer_norm(x, (D,), w[f"{name}.weight"], w.get(f"{name}.bias"), 1e-5)

    for n in range(LAYERS):
        at = block(kind, n)
        h = norm(x, f"{at}ln_1")
        if kind == "skipv1-gpt2":
            q, k, v = (linear(h, f"{at}attn.{name}_proj") for name in "qkv")
        else:
            q, k, v = linear(h, f"{at}attn.c_attn").split([D, D, D if n == 0 or kind == "denseformer" else D // 2], -1)
        q, k, v = (y.unflatten(-1, (-1, WIDTH)) for y in (q, k, v))
        if n == 0:
            first = v
        elif kind != "denseformer":
            v = torch.cat([v, first[:, HEADS // 2 :]], dim=1)
        scores = torch.einsum("ihw,jhw->hij", turned(q), turned(k)) / WIDTH**0.5
        hidden = torch.ones(len(tokens), len(tokens)).triu(1).bool()
        shares = scores.masked_fill(hidden, -torch.inf).softmax(-1)
        x = x + linear(torch.einsum("hij,jhw->ihw", shares, v).flatten(1), f"{at}attn.c_proj")
        inner = torch.nn.functional.gelu(linear(norm(x, f"{at}ln_2"), f"{at}mlp.c_fc"))
        x = x + linear(inner, f"{at}mlp.c_proj")
        if kind == "denseformer":
            seen.append(x)
            x = sum(a * y for a, y in zip(w[f"weights.{n}.weight"][0], seen, strict=True))
    return norm(x, "transformer.ln_f") @ w["transformer.wte.weight"].T


def write(folder, kind, weights, **changes):
    folder.mkdir(exist_ok=True)
    content = CONFIG | KINDS[kind] | {"model_type": kind} | changes
    (folder / "config.json").write_text(json.dumps(content))
    save_file({name: x.contiguous() for name, x in weights.items()}, folder / "model.safetensors")
    return folder


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_their_weights_answer_here_as_there(kind, bias, tmp_path):
    """With what stands around them: prefixes of compilation, heads that are the embeddings, masks, rotary rates."""
    weights = tensors(kind, bias)
    around = {"lm_head.weight": weights["transformer.wte.weight"].clone(), "transformer.wpe.freqs": torch.ones(2)}
    around |= {f"{block(kind, 0)}attn.bias": torch.ones(1, 1, CONTEXT, CONTEXT)} if not bias else {}
    there = {f"_orig_mod.{name}": x for name, x in (weights | around).items()}
    model = load(write(tmp_path / "x", kind, there, bias=bias), dtype=torch.float64)
    check_identity(model(TOKENS)[0], logits(kind, weights, TOKENS[0]), terms=1000)


def test_what_is_taken_apart_is_joined_again():
    held, whole = Held(("a.query.weight", "a.key.weight", "b.value.weight"), neighbours=4), torch.randn(20, 3)
    sizes = dict(zip(held.parameters, (8, 8, 4), strict=True))
    parts = taken(held, whole, sizes)
    assert torch.equal(joined(held, parts), whole)
    assert not torch.equal(parts["a.query.weight"], whole[:8])
    assert torch.equal(parts["b.value.weight"], whole[16:])


@pytest.mark.parametrize("grouped", [False, True])
def test_a_period_that_is_not_said_is_that_of_the_tensors(grouped, tmp_path):
    """Two layers to a group, as their code's own default has it, are refused by a tensor that only they have."""
    weights = tensors("denseformer")
    if grouped:
        weights = {name.replace("h.1.0.", "h.0.1.").replace("h.2.0.", "h.1.0."): x for name, x in weights.items()}
    folder = write(tmp_path / "x", "denseformer", weights)
    content = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({n: x for n, x in content.items() if n in CONFIG or "type" in n}))
    if grouped:
        with pytest.raises(BadInput, match=r"holds transformer\.h\.0\.1\..*, which is not of the model"):
            load(folder)
    else:
        found = load(folder, dtype=torch.float64)(TOKENS)[0]
        check_identity(found, logits("denseformer", weights, TOKENS[0]), terms=1000)
    dilated = tensors("denseformer") | {"weights.0.weight": torch.ones(1, 1).double()}
    write(folder, "denseformer", dilated)
    with pytest.raises(BadInput, match=r"weights\.0\.weight is \(1, 1\) where \(1, 2\) belongs"):
        load(folder)


@pytest.mark.parametrize(
    ("kind", "changes", "says"),
    [
        ("denseformer", {"increase_T_every": 2}, "increase_T_every is 2"),
        ("denseformer", {"dilation_factor": 4}, "dilation_factor is 4"),
        ("denseformer", {"positional_encoder": "none"}, "positional_encoder is 'none'"),
        ("skipv1-gpt2", {"num_skip_head": 1}, "num_skip_head is 1 of 4"),
        ("skipv1-gpt2", {"n_head": None}, "describes no model"),
        ("skipv1-gpt2-fused", {"n_embd": 8}, "where"),
    ],
)
def test_what_cannot_be_read_is_named(kind, changes, says, tmp_path):
    with pytest.raises(BadInput, match=says):
        load(write(tmp_path / "x", kind, tensors(kind), **changes))


# --- written, and read again -----------------------------------------------------------------------------------------

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


def decoder(name, sizes, dtype=torch.float32):
    return moved(Decoder(sizes, resolve(PAPERS[name][1], sizes.shape), std=0.4).to(dtype))


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
