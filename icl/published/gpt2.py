"""GPT-2 as released: LayerNorm, learned positions, biases, GELU's approximation by a tanh, one embedding for both ends.

Its matrices are stored as inputs by outputs; queries, keys and values, in this order, are one matrix.  Folders from the
time of its release leave out `transformer.` in front of names, and hold each layer's mask.  Dropouts that differ are
read as none: the decoder has one, and what it answers does not depend on it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from icl.published.layouts import Config, Held, Layout, per_layer, vocabulary
from theory.plans.architecture import Architecture, Tokens

PREFIX, HEAD = "transformer.", "lm_head.weight"
# Whether by a tanh.
GELU = {"gelu_new": True, "gelu_pytorch_tanh": True, "gelu_fast": True, "gelu": False, "gelu_python": False}
DROPOUTS = ("embd_pdrop", "attn_pdrop", "resid_pdrop")
MASKS = (".attn.bias", ".attn.masked_bias")
QKV = tuple(f"attention.projections.{name}" for name in ("query", "key", "value"))
OF_A_LAYER = {
    "ln_1.weight": Held(("attention.norm.weight",)),
    "ln_1.bias": Held(("attention.norm.bias",)),
    "attn.c_attn.weight": Held(tuple(f"{name}.weight" for name in QKV), transposed=True),
    "attn.c_attn.bias": Held(tuple(f"{name}.bias" for name in QKV)),
    "attn.c_proj.weight": Held(("attention.output.weight",), transposed=True),
    "attn.c_proj.bias": Held(("attention.output.bias",)),
    "ln_2.weight": Held(("feed_forward.norm.weight",)),
    "ln_2.bias": Held(("feed_forward.norm.bias",)),
    "mlp.c_fc.weight": Held(("feed_forward.up.weight",), transposed=True),
    "mlp.c_fc.bias": Held(("feed_forward.up.bias",)),
    "mlp.c_proj.weight": Held(("feed_forward.down.weight",), transposed=True),
    "mlp.c_proj.bias": Held(("feed_forward.down.bias",)),
}


class GPT2:
    types = ("gpt2",)
    variant = "vanilla"
    words = "LayerNorm, learned positions, biases, no gates"
    head = HEAD

    def unknown(self, config: Config) -> Iterator[str]:
        if (act := config.get("activation_function", "gelu_new")) not in GELU:
            yield f"activation_function is {str(act)[:24]!r}; the decoder has {', '.join(GELU)}"
        if not config.get("scale_attn_weights", True):
            yield "scale_attn_weights is off: scores are not divided by the root of a head's width"
        if config.get("scale_attn_by_inverse_layer_idx"):
            yield "scale_attn_by_inverse_layer_idx is set: scores are divided by the layer's number too"

    def architecture(self, config: Config) -> Architecture:
        d = config["n_embd"]
        return Architecture(
            d_model=d,
            n_layers=config["n_layer"],
            n_heads=config["n_head"],
            d_ff=4 * d if config.get("n_inner") is None else config["n_inner"],
            context=config.get("n_positions", 1024),
            stem=Tokens(config["vocab_size"], tied=config.get("tie_word_embeddings", True)),
            norm="layer",
            norm_eps=config.get("layer_norm_epsilon", 1e-5),
            gated=False,
            tanh_gelu=GELU[config.get("activation_function", "gelu_new")],
            positions="learned",
            bias=True,
            qkv_bias=True,
            dropout=_dropout(config),
        )

    def config(self, architecture: Architecture) -> dict[str, Any] | None:
        a, stem = architecture, vocabulary(architecture)
        alike = (a.norm, a.gated, a.positions, a.bias, a.qkv_bias) == ("layer", False, "learned", True, True)
        if stem is None or not alike or a.group > 1 or a.n_heads * a.width != a.d_model or a.qk_norm or a.window:
            return None
        return {
            "architectures": ["GPT2LMHeadModel"],
            "model_type": "gpt2",
            "n_embd": a.d_model,
            "n_layer": a.n_layers,
            "n_head": a.n_heads,
            "n_inner": a.d_ff,
            "n_positions": a.context,
            "vocab_size": stem.vocab,
            "tie_word_embeddings": stem.tied,
            "layer_norm_epsilon": a.norm_eps,
            "activation_function": "gelu_new" if a.tanh_gelu else "gelu",
            **dict.fromkeys(DROPOUTS, a.dropout),
        }

    def layout(self, architecture: Architecture) -> Layout:
        return {
            f"{PREFIX}wte.weight": Held(("stem.embedding.weight",)),
            f"{PREFIX}wpe.weight": Held(("positions",)),
            **per_layer(architecture, OF_A_LAYER, f"{PREFIX}h.{{}}"),
            f"{PREFIX}ln_f.weight": Held(("norm.weight",)),
            f"{PREFIX}ln_f.bias": Held(("norm.bias",)),
            HEAD: Held(("stem.head.weight",)),
        }

    def called(self, name: str) -> str | None:
        if name.endswith(MASKS):
            return None
        return name if name == HEAD or name.startswith(PREFIX) else f"{PREFIX}{name}"


def _dropout(config: Config) -> float:
    """Return the decoder's one dropout, which only training uses: none where the model's dropouts differ."""
    first, *others = (config.get(name, 0.1) for name in DROPOUTS)
    return first if all(other == first for other in others) else 0.0
