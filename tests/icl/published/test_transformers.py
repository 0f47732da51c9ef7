"""Both ways between the decoder and transformers, kind by kind: logits equal in float32 to rounding."""

import json
from dataclasses import replace
from functools import partial

import pytest
import torch
from safetensors.torch import load_file, save_file

from icl.models.decoder import Decoder
from icl.published import own, papers
from icl.published.kinds import as_published
from icl.published.reading import load
from icl.published.writing import is_plain, save
from tests.icl.published.llama import CONFIG, moved
from theory.errors import BadInput
from theory.plans.architecture import Architecture, Stretched, Tokens, Vectors
from theory.plans.names import resolve

transformers = pytest.importorskip("transformers")

VOCAB, CONTEXT = CONFIG["vocab_size"], CONFIG["max_position_embeddings"]
STRETCHED = {
    "rope_type": "llama3",
    "rope_theta": 500.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 12,
}
SIZES = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "vocab_size")
LLAMA = {
    **{name: CONFIG[name] for name in (*SIZES, "max_position_embeddings", "rms_norm_eps")},
    "initializer_range": 0.3,
    "rope_parameters": {"rope_type": "default", "rope_theta": 50.0},
}
GPT2 = {
    "n_embd": 12,
    "n_layer": 2,
    "n_head": 3,
    "vocab_size": VOCAB,
    "n_positions": CONTEXT,
    "layer_norm_epsilon": 1e-3,
    "initializer_range": 0.4,
}
SLIDING = {"use_sliding_window": True, "sliding_window": 5, "max_window_layers": 0}
SOME = {"layer_types": ["sliding_attention", "full_attention", "full_attention"]}
SMOL = LLAMA | {"num_key_value_heads": 2, "pad_token_id": None, "bos_token_id": None, "eos_token_id": None}
THEIRS = {
    "llama": ("Llama", LLAMA | {"num_key_value_heads": 4}),
    "llama, grouped": ("Llama", LLAMA | {"num_key_value_heads": 2}),
    "llama, one head of keys": ("Llama", LLAMA | {"num_key_value_heads": 1}),
    "llama, wide heads": ("Llama", LLAMA | {"num_key_value_heads": 2, "head_dim": 6}),
    "llama, tied": ("Llama", LLAMA | {"tie_word_embeddings": True}),
    "llama, biases": ("Llama", LLAMA | {"attention_bias": True, "mlp_bias": True}),
    "llama 3, stretched": ("Llama", LLAMA | {"rope_parameters": STRETCHED, "head_dim": 12}),
    "mistral": ("Mistral", LLAMA | {"num_key_value_heads": 2, "sliding_window": None}),
    "mistral, window": ("Mistral", LLAMA | {"num_key_value_heads": 2, "sliding_window": 5}),
    "qwen2": ("Qwen2", LLAMA | {"num_key_value_heads": 2}),
    "qwen2, window": ("Qwen2", LLAMA | {"num_key_value_heads": 2, **SLIDING}),
    "qwen2, window in some layers": ("Qwen2", LLAMA | {"num_key_value_heads": 2, **SLIDING, "max_window_layers": 2}),
    "qwen2, tied": ("Qwen2", LLAMA | {"num_key_value_heads": 2, "tie_word_embeddings": True}),
    "qwen3": ("Qwen3", LLAMA | {"num_key_value_heads": 2, "head_dim": 6}),
    "qwen3, window": ("Qwen3", LLAMA | {"num_key_value_heads": 2, "head_dim": 6, **SLIDING}),
    "qwen3, window in some layers": ("Qwen3", LLAMA | {"num_key_value_heads": 2, "head_dim": 6, **SLIDING, **SOME}),
    "ministral": ("Ministral", LLAMA | {"num_key_value_heads": 2, "sliding_window": 5, "head_dim": 4, **SOME}),
    "smollm3": ("SmolLM3", SMOL | {"no_rope_layer_interval": 2}),
    "smollm3, chosen layers": ("SmolLM3", SMOL | {"no_rope_layers": [0, 1, 1], "tie_word_embeddings": False}),
    "smollm3, window": ("SmolLM3", SMOL | SLIDING | {"no_rope_layers": [1, 0, 1]}),
    "smollm3, biases": ("SmolLM3", SMOL | {"attention_bias": True, "mlp_bias": True}),
    "gpt2": ("GPT2", GPT2),
    "gpt2, exact gelu": ("GPT2", GPT2 | {"activation_function": "gelu", "n_inner": 7}),
}
A = Architecture(d_model=16, n_layers=2, n_heads=4, d_ff=7, context=CONTEXT, stem=Tokens(VOCAB), n_kv_heads=2)
OLD = replace(A, norm="layer", gated=False, positions="learned", bias=True, qkv_bias=True, n_kv_heads=0, tanh_gelu=True)
OURS = {
    "llama": replace(A, norm_eps=1e-3, rope_theta=50.0),
    "wide heads, tied": replace(A, head_dim=6, stem=Tokens(VOCAB, tied=True)),
    "biases": replace(A, bias=True, qkv_bias=True),
    "qwen2": replace(A, qkv_bias=True, n_kv_heads=1, head_dim=4),
    "mistral": replace(A, window=5),
    "qwen2, window": replace(A, qkv_bias=True, window=5),
    "qwen3": replace(A, head_dim=6, qk_norm=True),
    "qwen3, window": replace(A, head_dim=6, qk_norm=True, window=5),
    "qwen2, windows": replace(A, qkv_bias=True, windows=(5, 0)),
    "qwen3, windows": replace(A, head_dim=6, qk_norm=True, windows=(0, 5)),
    "windows": replace(A, windows=(5, 0)),
    "smollm3": replace(A, rotated=(True, False), stem=Tokens(VOCAB, tied=True)),
    "smollm3, windows, biases": replace(A, rotated=(False, True), windows=(0, 5), bias=True, qkv_bias=True),
    "smollm3, window, biases": replace(A, window=5, bias=True, qkv_bias=True),
    "stretched": replace(A, head_dim=12, rope_stretched=Stretched(8.0, 1.0, 4.0, 12)),
    "gpt2": replace(OLD, norm_eps=1e-3, stem=Tokens(VOCAB, tied=True), dropout=0.1),
    "gpt2, exact gelu, untied": replace(OLD, tanh_gelu=False),
}


def model_of(kind, sizes, seed=0):
    torch.manual_seed(seed)
    config = getattr(transformers, f"{kind}Config")(**sizes)
    suffix = "LMHeadModel" if kind == "GPT2" else "ForCausalLM"
    return moved(getattr(transformers, f"{kind}{suffix}")(config), seed=None)


def decoder(config, name="vanilla", seed=0):
    return moved(Decoder(config, resolve(name, config.shape), std=0.4, seed=seed))


def tokens(batch=2, length=20):
    return torch.randint(VOCAB, (batch, length), generator=torch.Generator().manual_seed(1))


def saved_with(fields, model, folder):
    model.save_pretrained(folder)
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


@torch.no_grad()
def difference(one, other):
    """Of logits, over the largest."""
    return float((one - other).abs().max() / other.abs().max())


@pytest.mark.parametrize("name", OURS)
def test_our_models_answer_there_as_here(name, tmp_path):
    ours, folder = decoder(OURS[name]), tmp_path / "theirs"
    assert is_plain(ours)
    save(ours, folder, shard=4000)
    theirs = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    with torch.no_grad():
        assert difference(theirs(tokens()).logits, ours(tokens())) < 2e-5
    again = load(folder)
    assert again.config == ours.config
    assert all(torch.equal(p, dict(again.named_parameters())[n]) for n, p in ours.named_parameters())
    assert len(list(folder.glob("*.safetensors"))) > 1


def test_stretching_changes_what_is_answered():
    """The control of the rates: without them, and beyond the former context above all."""
    stretched, plain = decoder(OURS["stretched"]), decoder(replace(OURS["stretched"], rope_stretched=None))
    plain.load_state_dict(stretched.state_dict())
    with torch.no_grad():
        assert difference(stretched(tokens()), plain(tokens())) > 1e-2


def test_positions_that_are_left_out_change_what_is_answered():
    some, every = decoder(OURS["smollm3"]), decoder(replace(OURS["smollm3"], rotated=()))
    every.load_state_dict(some.state_dict())
    with torch.no_grad():
        assert difference(some(tokens()), every(tokens())) > 1e-2


def test_folders_of_gpt_2_s_time_have_no_prefix_and_hold_masks(tmp_path):
    theirs = model_of("GPT2", GPT2)
    theirs.save_pretrained(tmp_path)
    old = {n.removeprefix("transformer."): t for n, t in load_file(tmp_path / "model.safetensors").items()}
    old |= {f"h.{n}.attn.bias": torch.ones(1, 1, CONTEXT, CONTEXT).tril() for n in range(2)}
    old |= {f"h.{n}.attn.masked_bias": torch.tensor(-1e4) for n in range(2)}
    save_file(old, tmp_path / "model.safetensors")
    with torch.no_grad():
        assert difference(load(tmp_path)(tokens()), theirs(tokens()).logits) < 2e-5


def test_weights_are_rounded_as_asked_and_tokenizers_go_with_them(tmp_path):
    ours = decoder(OURS["llama"])
    (tmp_path / "tokenizer.json").write_text("{}")
    save(ours, tmp_path / "half", dtype="bfloat16", beside=[tmp_path / "tokenizer.json"])
    assert {x.dtype for x in load_file(tmp_path / "half" / "model.safetensors").values()} == {torch.bfloat16}
    assert (tmp_path / "half" / "tokenizer.json").read_text() == "{}"
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "half", dtype="auto")
    assert theirs.dtype == torch.bfloat16


@pytest.mark.parametrize(
    ("config", "variant"),
    [
        (OURS["llama"], "skipv1"),
        (replace(A, dropout=0.1), "vanilla"),
        (replace(A, bias=True), "vanilla"),
        (replace(A, score="linear"), "vanilla"),
        (replace(A, stem=Vectors(16)), "vanilla"),
        (replace(A, positions="none"), "vanilla"),
        (replace(A, windows=(5, 4)), "vanilla"),
        (replace(A, qkv_bias=True, rotated=(True, False)), "vanilla"),
        (replace(OLD, windows=(5, 0)), "vanilla"),
        (replace(OLD, bias=False), "vanilla"),
        (replace(OLD, n_kv_heads=2), "vanilla"),
    ],
)
def test_what_transformers_does_not_know_is_refused(config, variant, tmp_path):
    with pytest.raises(BadInput, match="transformers knows"):
        save(decoder(config, variant), tmp_path / "x")
    assert not list(tmp_path.iterdir())


def test_nothing_is_written_over_or_left_half_written(tmp_path, monkeypatch):
    ours = decoder(OURS["llama"])
    with pytest.raises(BadInput, match="there already"):
        save(ours, tmp_path)
    with pytest.raises(BadInput, match="not 'int8'"):
        save(ours, tmp_path / "x", dtype="int8")

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("icl.published.writing.save_file", full)
    with pytest.raises(OSError, match="No space left") as stop:
        save(ours, tmp_path / "x")
    assert stop.value.filename == str(tmp_path / "x")
    assert not list(tmp_path.iterdir())
    monkeypatch.undo()
    save(ours, tmp_path / "x")
    assert {p.name for p in tmp_path.iterdir()} == {"x"}


@pytest.mark.parametrize(
    ("kind", "fields", "says"),
    [
        ("GPT2", {"activation_function": "relu"}, "activation_function is 'relu'"),
        ("GPT2", {"scale_attn_weights": False}, "scale_attn_weights is off"),
        ("GPT2", {"scale_attn_by_inverse_layer_idx": True}, "inverse_layer_idx is set"),
        ("GPT2", {"n_head": 5}, "5 heads do not divide"),
        ("Llama", {"attention_bias": True}, "attention_bias is set without mlp_bias"),
        ("Llama", {"mlp_bias": True}, "mlp_bias is set without attention_bias"),
    ],
)
def test_what_cannot_be_expressed_is_named(kind, fields, says, tmp_path):
    saved_with(fields, model_of(kind, GPT2 if kind == "GPT2" else LLAMA), tmp_path)
    with pytest.raises(BadInput, match=says):
        load(tmp_path)


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("GPT2", {"attn_pdrop": 0.0, "resid_pdrop": 0.2}),
        ("GPT2", {"activation_function": "gelu_fast"}),
        ("GPT2", {"activation_function": "gelu_python"}),
        ("Llama", {"attention_dropout": 0.3}),
        ("Mistral", {"attention_bias": True, "mlp_bias": True, "max_window_layers": None}),
        ("Qwen2", {"attention_bias": True, "mlp_bias": True}),
        ("Qwen3", {"mlp_bias": True}),
        ("Llama", {"layer_types": ["sliding_attention"] * 3, "sliding_window": 3}),
    ],
)
def test_what_changes_no_answer_hinders_no_reading(kind, fields, tmp_path):
    sizes = GPT2 if kind == "GPT2" else LLAMA | {"num_key_value_heads": 2}
    saved_with(fields, model_of(kind, sizes), tmp_path)
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float32).eval()
    ours = load(tmp_path)
    assert ours.config.dropout == (0.1 if "activation_function" in fields else 0)
    with torch.no_grad():
        assert difference(ours(tokens()), theirs(tokens()).logits) < 1e-5


@pytest.mark.parametrize("save_as", ["transformers", "own", "paper"])
@pytest.mark.parametrize(("number", "says"), [(1e5, "number of float16 is 6.55e"), (float("inf"), "not finite")])
def test_weights_that_cannot_be_written_are_named_and_nothing_is_left(save_as, number, says, tmp_path):
    ours = decoder(OURS["llama"], "vanilla" if save_as == "transformers" else "skipv1")
    ours.layers[0].feed_forward.down.weight.data[0, 0] = number
    write = {"transformers": save, "own": own.save, "paper": partial(papers.save, layout="skipv1")}[save_as]
    with pytest.raises(BadInput, match=rf"down(_proj)?\.weight holds .*{says}") as stop:
        write(ours, tmp_path / "x", dtype="float16")
    assert "\n" not in str(stop.value)
    assert not list(tmp_path.iterdir())
    if number == 1e5:
        write(ours, tmp_path / "x", dtype="bfloat16")


def test_kinds_by_architecture():
    kinds = {name: as_published(config)[1]["model_type"] for name, config in OURS.items()}
    assert set(kinds.values()) == {"llama", "mistral", "qwen2", "qwen3", "smollm3", "gpt2"}
    assert (kinds["qwen2, window"], kinds["mistral"]) == ("qwen2", "mistral")
