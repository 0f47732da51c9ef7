"""DenseFormer's and SkipV1Former's GPT-2 in plain tensor code that knows nothing of the decoder, from their tensors."""

import json

import pytest
import torch
from safetensors.torch import save_file

from icl.published.layouts import Held, joined, taken
from icl.published.reading import load
from icl.testing import check_identity
from theory.errors import BadInput

D, HEADS, LAYERS, VOCAB, CONTEXT = 16, 4, 3, 13, 10
WIDTH = D // HEADS
CONFIG = {"n_embd": D, "n_head": HEADS, "n_layer": LAYERS, "vocab_size": VOCAB, "sequence_length": CONTEXT}
KINDS = {
    "denseformer": {"increase_T_every": 1, "dilation_factor": 1},
    "skipv1-gpt2": {"num_skip_head": 2},
    "skipv1-gpt2-fused": {},
}
DRAWN = torch.tensor([3, 1, 4, 1, 5, 9, 2, 6])


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
    weights, tokens = tensors(kind, bias), torch.tensor([3, 1, 4, 1, 5, 9, 2, 6])
    around = {"lm_head.weight": weights["transformer.wte.weight"].clone(), "transformer.wpe.freqs": torch.ones(2)}
    around |= {f"{block(kind, 0)}attn.bias": torch.ones(1, 1, CONTEXT, CONTEXT)} if not bias else {}
    there = {f"_orig_mod.{name}": x for name, x in (weights | around).items()}
    model = load(write(tmp_path / "x", kind, there, bias=bias), dtype=torch.float64)
    check_identity(model(tokens[None])[0], logits(kind, weights, tokens), terms=1000)


@pytest.mark.parametrize("kind", KINDS)
def test_pairs_that_are_not_neighbours_are_other_models(kind, tmp_path):
    """The control: with the rows of the queries as another convention would have them."""
    weights, tokens = tensors(kind), torch.tensor([3, 1, 4, 1, 5, 9, 2, 6])
    model = load(write(tmp_path / "x", kind, weights), dtype=torch.float64)
    part = "attn.q_proj.weight" if kind == "skipv1-gpt2" else "attn.c_attn.weight"
    name = block(kind, 0) + part
    other = weights[name].clone()
    other[:D] = other[:D].unflatten(0, (-1, WIDTH // 2, 2)).transpose(1, 2).flatten(0, 2)
    with pytest.raises(AssertionError):
        check_identity(model(tokens[None])[0], logits(kind, weights | {name: other}, tokens), terms=1000)


@pytest.mark.parametrize("held", [Held(("a.query.weight", "a.key.weight", "b.value.weight"), neighbours=4)])
def test_what_is_taken_apart_is_joined_again(held):
    whole = torch.randn(20, 3)
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
        found = load(folder, dtype=torch.float64)(DRAWN[None])[0]
        check_identity(found, logits("denseformer", weights, DRAWN), terms=1000)
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
