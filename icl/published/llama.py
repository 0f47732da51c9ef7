"""LLaMA's family as transformers has it.

    llama       also with Llama 3's positions; SmolLM, SmolLM2 and many others say that they are of this kind
    mistral     with a window in all layers; ministral: in some
    qwen2       with biases of queries, keys and values; windows in all layers, or in some
    qwen3       with normed queries and keys; windows likewise
    smollm3     without positions in some layers

Queries and keys are turned there in pairs (i, i + width / 2), as they are here (`icl.models.rotary`), and query head h
reads key/value head h // group: tensors are taken as they are, under other names.

ResFormer's, SVFormer's and NeuTRENO's public code names its tensors in the same way, and leaves out what it does not
project; so their weights are read under `resformer`, `svformer` and `neutreno`.  SkipV1Former's keeps half of the rows
of later layers' values, those of a layer's own heads, which stand before the first layer's, as they do here: `skipv1`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from icl.published import layer_types
from icl.published.layouts import Config, Held, Layout, per_layer, vocabulary
from theory.plans.architecture import Architecture, Stretched, Tokens

# What transformers takes where config.json says nothing: max_position_embeddings; num_key_value_heads, where it is not
# that of queries; head_dim; rope_theta; tie_word_embeddings.
MOST_TOKENS = {
    "llama": 2048,
    "mistral": 131_072,
    "ministral": 131_072,
    "qwen2": 32_768,
    "qwen3": 32_768,
    "smollm3": 32_768,
}
KV_HEADS = {"mistral": 8, "ministral": 8, "qwen2": 32, "qwen3": 32, "smollm3": 4}
HEAD_DIM = {"qwen3": 128}
THETA = {"smollm3": 2_000_000.0}
TIED = {"smollm3": True}
BIASED = ("llama", "smollm3")  # with a field for the biases of attention, and one for those of the feed-forward
# The fields of biases that transformers reads, of the kinds that have such fields; in others they mean nothing.
BIASES = {**dict.fromkeys(BIASED, ("attention_bias", "mlp_bias")), "qwen3": ("attention_bias",)}
MARKS = ("pad_token_id", "bos_token_id", "eos_token_id")  # which transformers takes for SmolLM3's own, unless none are
CLASSES = {"smollm3": "SmolLM3"}  # names of classes that are not the kind with a capital letter
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
    types = ("llama", "mistral", "ministral", "qwen2", "qwen3", "smollm3")
    variant = "vanilla"
    words = "RMSNorm, gated feed-forwards, rotary positions, no dropout"
    head = HEAD

    def unknown(self, config: Config) -> Iterator[str]:
        if config.get("quantization_config"):
            yield "quantization_config is set, and weights are read as they are"
        for name in BIASES.get(config["model_type"], ()):
            other = "mlp_bias" if name == "attention_bias" else "attention_bias"
            if config.get(name) and not (config.get(other) and config["model_type"] in BIASED):
                yield f"{name} is set without {other}: the decoder's output projection and feed-forward go together"
        if (act := config.get("hidden_act", "silu")) not in ("silu", "swish"):
            yield f"hidden_act is {str(act)[:24]!r}; the decoder's gated feed-forward has silu"
        yield from layer_types.unknown(config)
        for rope in _rotary(config):
            if nested := next((name for name, value in rope.items() if isinstance(value, dict)), None):
                yield f"rope_parameters has positions for {str(nested)[:24]} alone; the decoder turns layers alike"
            if (scaled := _type(rope)) not in ("default", "llama3"):
                yield f"its rotary positions are scaled ({str(scaled)[:24]!r}), which the decoder's are not"
            if rope.get("partial_rotary_factor", 1) != 1:
                yield "its rotary positions turn a part of a head, and the decoder's all of it"

    def architecture(self, config: Config) -> Architecture:
        kind, heads = config["model_type"], config["num_attention_heads"]
        kv_heads = config.get("num_key_value_heads", KV_HEADS.get(kind))
        context = config.get("max_position_embeddings", MOST_TOKENS[kind])
        parts = _rotary(config)
        theta = next((part["rope_theta"] for part in parts if "rope_theta" in part), THETA.get(kind, 10_000.0))
        scaled = next((part for part in parts if _type(part) == "llama3"), None)
        return Architecture(
            d_model=config["hidden_size"],
            n_layers=config["num_hidden_layers"],
            n_heads=heads,
            d_ff=config["intermediate_size"],
            context=context,
            stem=Tokens(config["vocab_size"], tied=config.get("tie_word_embeddings", TIED.get(kind, False))),
            n_kv_heads=heads if kv_heads is None else kv_heads,
            head_dim=config.get("head_dim", HEAD_DIM.get(kind)) or 0,
            norm="rms",
            norm_eps=config.get("rms_norm_eps", 1e-6),
            gated=True,
            positions="rope",
            rope_theta=theta,
            qkv_bias=kind == "qwen2" or (kind in BIASED and bool(config.get("attention_bias"))),
            bias=kind in BIASED and bool(config.get("mlp_bias")),
            rope_stretched=Stretched(**{ours: scaled[theirs] for ours, theirs in LLAMA3.items()}) if scaled else None,
            qk_norm=kind == "qwen3",
            **layer_types.windows(config),
            **layer_types.positions(config),
        )

    def config(self, architecture: Architecture) -> dict[str, Any] | None:
        a, stem, kind = architecture, vocabulary(architecture, layers_differ=True), _kind(architecture)
        if stem is None or kind is None or (a.norm, a.gated, a.positions, a.dropout) != ("rms", True, "rope", 0.0):
            return None
        rope: dict[str, Any] = {"rope_type": "default", "rope_theta": a.rope_theta}
        if a.rope_stretched is not None:
            rope["rope_type"] = "llama3"
            rope |= {theirs: getattr(a.rope_stretched, ours) for ours, theirs in LLAMA3.items()}
        return {
            "architectures": [f"{CLASSES.get(kind, kind.capitalize())}ForCausalLM"],
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
            **({"attention_bias": a.bias, "mlp_bias": a.bias} if kind in BIASED else {}),
            **layer_types.fields(a, kind),
            **(dict.fromkeys(MARKS) if kind == "smollm3" else {}),
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


def _kind(architecture: Architecture) -> str | None:
    """Return the kind that can express which biases, norms and windows there are, and where positions turn layers."""
    a, sizes = architecture, set(layer_types.window_sizes(architecture))
    if len(sizes - {0}) > 1 or (a.bias and not a.qkv_bias):
        return None
    if a.qk_norm or a.qkv_bias != a.bias:
        kind = "qwen3" if a.qk_norm else "qwen2"
        return None if a.rotated or (a.qk_norm and a.qkv_bias) else kind
    if a.rotated or len(sizes) > 1:
        return "smollm3"
    if sizes != {0}:
        return "smollm3" if a.bias else "mistral"
    return "llama"


def _rotary(config: Config) -> list[Mapping[str, Any]]:
    """Return the parts of a config that say how positions are turned.

    They are in rope_parameters since version 5 of transformers, in two fields before.
    """
    parts = [config.get(name) or {} for name in ("rope_parameters", "rope_scaling")]
    fields = {name: config[name] for name in ("rope_theta", "partial_rotary_factor") if name in config}
    return [*(part if isinstance(part, dict) else {"rope_type": part} for part in parts), fields]


def _type(rope: Mapping[str, Any]) -> Any:
    return rope.get("rope_type", rope.get("type", "default"))
