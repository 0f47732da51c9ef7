"""LLaMA's family as transformers has it: `llama`; `mistral`, which may have a window; `qwen2`, whose queries, keys and
values have biases, and `qwen3`, whose queries and keys are normed, which may have one in all layers, but not in some.

Queries and keys are turned there in pairs (i, i + width / 2), as they are here (`icl.models.rotary`), and query head h
reads key/value head h // group: tensors are taken as they are, under other names.

ResFormer's, SVFormer's and NeuTRENO's public code names its tensors in the same way, and leaves out what it does not
project; so their weights are read under `resformer`, `svformer` and `neutreno`.  SkipV1Former's keeps half of the rows
of later layers' values, those of a layer's own heads, which stand before the first layer's, as they do here: `skipv1`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from icl.published.layouts import Config, Held, Layout, per_layer, vocabulary
from theory.plans.architecture import Architecture, Stretched, Tokens

# What transformers takes where config.json says nothing: max_position_embeddings; num_key_value_heads, where it is not
# that of queries; sliding_window; max_window_layers, the first layer that has one; head_dim.
MOST_TOKENS = {"llama": 2048, "mistral": 131_072, "qwen2": 32_768, "qwen3": 32_768}
KV_HEADS = {"mistral": 8, "qwen2": 32, "qwen3": 32}
WINDOW = 4096
WINDOWED = 28
# The fields of biases that transformers reads, of the kinds that have such fields; in others they mean nothing.
BIASES = {"llama": ("attention_bias", "mlp_bias"), "qwen3": ("attention_bias",)}
SLIDING = "sliding_attention"  # what layer_types calls attention with a window
HEAD_DIM = {"qwen3": 128}
EMBEDDING, HEAD = "model.embed_tokens.weight", "lm_head.weight"
OF_A_LAYER = {
    "input_layernorm.weight": "attention.norm.weight",
    "self_attn.q_proj.weight": "attention.projections.query.weight",
    "self_attn.k_proj.weight": "attention.projections.key.weight",
    "self_attn.v_proj.weight": "attention.projections.value.weight",
    "self_attn.q_proj.bias": "attention.projections.query.bias",
    "self_attn.k_proj.bias": "attention.projections.key.bias",
    "self_attn.v_proj.bias": "attention.projections.value.bias",
    "self_attn.q_norm.weight": "attention.projections.query_norm.weight",
    "self_attn.k_norm.weight": "attention.projections.key_norm.weight",
    "self_attn.o_proj.weight": "attention.output.weight",
    "self_attn.o_proj.bias": "attention.output.bias",
    "post_attention_layernorm.weight": "feed_forward.norm.weight",
    "mlp.gate_proj.weight": "feed_forward.gate.weight",
    "mlp.up_proj.weight": "feed_forward.up.weight",
    "mlp.down_proj.weight": "feed_forward.down.weight",
    "mlp.gate_proj.bias": "feed_forward.gate.bias",
    "mlp.up_proj.bias": "feed_forward.up.bias",
    "mlp.down_proj.bias": "feed_forward.down.bias",
}
LLAMA3 = {  # what a stretched context is called
    "factor": "factor",
    "low": "low_freq_factor",
    "high": "high_freq_factor",
    "context": "original_max_position_embeddings",
}


class Llama:
    types = ("llama", "mistral", "qwen2", "qwen3")
    variant = "vanilla"
    words = "RMSNorm, gated feed-forwards, rotary positions, no dropout"
    head = HEAD

    def unknown(self, config: Config) -> Iterator[str]:
        if config.get("quantization_config"):
            yield "quantization_config is set, and weights are read as they are"
        for name in BIASES.get(config["model_type"], ()):
            other = "mlp_bias" if name == "attention_bias" else "attention_bias"
            if config.get(name) and not (config.get(other) and config["model_type"] == "llama"):
                yield f"{name} is set without {other}: the decoder's output projection and feed-forward go together"
        if (act := config.get("hidden_act", "silu")) not in ("silu", "swish"):
            yield f"hidden_act is {str(act)[:24]!r}; the decoder's gated feed-forward has silu"
        yield from _unknown_windows(config)
        for rope in _rotary(config):
            if (scaled := _type(rope)) not in ("default", "llama3"):
                yield f"its rotary positions are scaled ({str(scaled)[:24]!r}), which the decoder's are not"
            if rope.get("partial_rotary_factor", 1) != 1:
                yield "its rotary positions turn a part of a head, and the decoder's all of it"

    def architecture(self, config: Config) -> Architecture:
        kind, heads = config["model_type"], config["num_attention_heads"]
        kv_heads = config.get("num_key_value_heads", KV_HEADS.get(kind))
        context = config.get("max_position_embeddings", MOST_TOKENS[kind])
        parts = _rotary(config)
        theta = next((part["rope_theta"] for part in parts if "rope_theta" in part), 10_000.0)
        scaled = next((part for part in parts if _type(part) == "llama3"), None)
        return Architecture(
            d_model=config["hidden_size"],
            n_layers=config["num_hidden_layers"],
            n_heads=heads,
            d_ff=config["intermediate_size"],
            context=context,
            stem=Tokens(config["vocab_size"], tied=config.get("tie_word_embeddings", False)),
            n_kv_heads=heads if kv_heads is None else kv_heads,
            head_dim=config.get("head_dim", HEAD_DIM.get(kind)) or 0,
            norm="rms",
            norm_eps=config.get("rms_norm_eps", 1e-6),
            gated=True,
            positions="rope",
            rope_theta=theta,
            qkv_bias=kind == "qwen2" or (kind == "llama" and bool(config.get("attention_bias"))),
            bias=kind == "llama" and bool(config.get("mlp_bias")),
            rope_stretched=Stretched(**{ours: scaled[theirs] for ours, theirs in LLAMA3.items()}) if scaled else None,
            qk_norm=kind == "qwen3",
            window=config.get("sliding_window", WINDOW) if any(_windowed(config)) else 0,
        )

    def config(self, architecture: Architecture) -> dict[str, Any] | None:
        a, stem = architecture, vocabulary(architecture)
        kind = {(False, False): "llama", (True, True): "llama", (True, False): "qwen2"}.get((a.qkv_bias, a.bias))
        if a.qk_norm:
            kind = None if a.qkv_bias or a.bias else "qwen3"
        elif a.window and kind == "llama":
            kind = None if a.bias else "mistral"
        if stem is None or kind is None or (a.norm, a.gated, a.positions, a.dropout) != ("rms", True, "rope", 0.0):
            return None
        rope: dict[str, Any] = {"rope_type": "default", "rope_theta": a.rope_theta}
        if a.rope_stretched is not None:
            rope["rope_type"] = "llama3"
            rope |= {theirs: getattr(a.rope_stretched, ours) for ours, theirs in LLAMA3.items()}
        return {
            "architectures": [f"{kind.capitalize()}ForCausalLM"],
            "model_type": kind,
            "hidden_size": a.d_model,
            "num_hidden_layers": a.n_layers,
            "num_attention_heads": a.n_heads,
            "num_key_value_heads": a.kv_heads,
            **({"head_dim": a.width} if a.head_dim or kind in HEAD_DIM else {}),
            "intermediate_size": a.d_ff,
            "max_position_embeddings": a.context,
            "vocab_size": stem.vocab,
            "tie_word_embeddings": stem.tied,
            "rms_norm_eps": a.norm_eps,
            "hidden_act": "silu",
            **({"attention_bias": a.bias, "mlp_bias": a.bias} if kind == "llama" else {}),
            **({"sliding_window": a.window or None} if kind != "llama" else {}),
            **({"use_sliding_window": a.window > 0, "max_window_layers": 0} if kind in ("qwen2", "qwen3") else {}),
            # Version 5 of transformers reads the last of these, versions before it the first two.
            "rope_theta": a.rope_theta,
            "rope_scaling": {k: v for k, v in rope.items() if k != "rope_theta"} if a.rope_stretched else None,
            "rope_parameters": rope,
        }

    def layout(self, architecture: Architecture) -> Layout:
        of_a_layer = {theirs: Held((ours,)) for theirs, ours in OF_A_LAYER.items()}
        return {
            EMBEDDING: Held(("stem.embedding.weight",)),
            **per_layer(architecture, of_a_layer, "model.layers.{}"),
            "model.norm.weight": Held(("norm.weight",)),
            HEAD: Held(("stem.head.weight",)),
        }

    def called(self, name: str) -> str | None:
        return None if name.endswith("rotary_emb.inv_freq") else name  # rates, which older folders hold


def _rotary(config: Config) -> list[Mapping[str, Any]]:
    """Return the parts of a config that say how positions are turned.

    They are in rope_parameters since version 5 of transformers, in two fields before.
    """
    parts = [config.get(name) or {} for name in ("rope_parameters", "rope_scaling")]
    fields = {name: config[name] for name in ("rope_theta", "partial_rotary_factor") if name in config}
    return [*(part if isinstance(part, dict) else {"rope_type": part} for part in parts), fields]


def _windowed(config: Config) -> list[bool]:
    """Return, by layer, whether it has a window; nothing where none has."""
    kind = config["model_type"]
    said = config.get("sliding_window", WINDOW) is not None and config.get("use_sliding_window", kind == "mistral")
    if kind == "llama" or not said:
        return []
    types = config.get("layer_types")
    if types is not None:
        return [x == SLIDING for x in types]
    first = 0 if kind == "mistral" else config.get("max_window_layers", WINDOWED)
    return [layer >= first for layer in range(config["num_hidden_layers"])]


def _unknown_windows(config: Config) -> Iterator[str]:
    layers, types, known = config.get("num_hidden_layers"), config.get("layer_types"), ("full_attention", SLIDING)
    if config["model_type"] == "llama":
        return
    if types is not None and not (isinstance(types, list) and len(types) == layers and all(x in known for x in types)):
        yield "layer_types does not say of every layer whether its attention is full or has a window"
    elif config["model_type"] != "mistral" and not isinstance(config.get("max_window_layers", WINDOWED), int):
        yield "max_window_layers is no number of layers"
    elif not isinstance(layers, int):
        return  # said of all sizes alike
    elif any(windows := _windowed(config)):
        if not all(windows):
            yield "some of its layers have a window and others none; the decoder's are alike"
        if config.get("sliding_window", WINDOW) == 0:
            yield "its window of 0 tokens shows not even a token itself"
    elif types is not None and SLIDING in types:
        yield "layer_types has layers with a window, and there is none"


def _type(rope: Mapping[str, Any]) -> Any:
    return rope.get("rope_type", rope.get("type", "default"))
