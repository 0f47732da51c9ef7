"""The GPT-2 of DenseFormer's public code, and SkipV1Former's, which is made from it: rotary, mostly without biases.

Rotary pairs are neighbours (2 i, 2 i + 1) there; matrices are outputs by inputs; one embedding is for both ends.
That code pickles its weights, with its arguments in summary.json, and no file of transformers.  So a folder to be read
holds them as safetensors, and a config.json with those arguments and a `model_type` of ours:

    denseformer        every layer's result is weighed (their increase_T_every and dilation_factor of 1), in groups of
                       one layer: layer n is transformer.h.n.0; its weights are matrices of one row.  Where the config
                       does not say so, the tensors do: groups of more layers have a transformer.h.0.1, and the first
                       layer's weights are two, the embedding's and its own, unless there is dilation
    skipv1-gpt2        queries, keys and values apart (skipv1.py); later layers keep the values of their own
                       heads, the first half, and take the first layer's of the others
    skipv1-gpt2-fused  the same with queries, keys and values in one matrix (skipv1former.py)

Sources: denseformer.py of epfml/DenseFormer; skipv1.py and skipv1former.py of Zhoutong-Wu/dense_skip.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from icl.published.layouts import Config, Held, Layout, per_layer, vocabulary
from theory.plans.architecture import Architecture, Tokens

PREFIXES = ("_orig_mod.", "module.")  # of torch.compile and of data-parallel training
PREFIX, HEAD = "transformer.", "lm_head.weight"
NOT_LEARNED = (".attn.bias", "wpe.freqs")  # masks and rotary rates
GROUPED = ("increase_T_every", "dilation_factor")
QKV = {"q_proj": "query", "k_proj": "key", "v_proj": "value"}


class Testbed:
    """The common part of both kinds."""

    types: tuple[str, ...] = ()
    variant = "vanilla"
    words = "LayerNorm, rotary positions, no gates, one embedding for both ends"
    head = HEAD
    of_layer = f"{PREFIX}h.{{}}"

    def unknown(self, config: Config) -> Iterator[str]:
        if (positions := config.get("positional_encoder", "rotary")) != "rotary":
            yield f"positional_encoder is {str(positions)[:24]!r}, and only rotary positions are read"

    def architecture(self, config: Config) -> Architecture:
        bias = config.get("bias", False)
        return Architecture(
            d_model=config["n_embd"],
            n_layers=config["n_layer"],
            n_heads=config["n_head"],
            d_ff=4 * config["n_embd"],
            context=config["sequence_length"],
            stem=Tokens(config["vocab_size"], tied=True),
            norm="layer",
            gated=False,
            positions="rope",
            bias=bias,
            qkv_bias=bias,
            dropout=config.get("dropout", 0.0),
        )

    def config(self, architecture: Architecture) -> dict[str, Any] | None:
        stem = vocabulary(architecture)
        if stem is None:
            return None
        return {
            "model_type": self.types[0],
            "n_embd": architecture.d_model,
            "n_head": architecture.n_heads,
            "n_layer": architecture.n_layers,
            "vocab_size": stem.vocab,
            "sequence_length": architecture.context,
            "bias": architecture.bias,
            "dropout": architecture.dropout,
            "positional_encoder": "rotary",
        }

    def layout(self, architecture: Architecture) -> Layout:
        of_a_layer = {
            f"{theirs}.{part}": Held((f"{ours}.{part}",))
            for theirs, ours in (
                ("ln_1", "attention.norm"),
                ("attn.c_proj", "attention.output"),
                ("ln_2", "feed_forward.norm"),
                ("mlp.c_fc", "feed_forward.up"),
                ("mlp.c_proj", "feed_forward.down"),
            )
            for part in ("weight", "bias")
        }
        return {
            f"{PREFIX}wte.weight": Held(("stem.embedding.weight",)),
            **per_layer(architecture, of_a_layer | self._projections(architecture), self.of_layer),
            f"{PREFIX}ln_f.weight": Held(("norm.weight",)),
            f"{PREFIX}ln_f.bias": Held(("norm.bias",)),
            HEAD: Held(("stem.head.weight",)),
        }

    def _projections(self, architecture: Architecture) -> Layout:
        return {
            f"attn.c_attn.{part}": Held(
                tuple(f"attention.projections.{ours}.{part}" for ours in QKV.values()), neighbours=architecture.width
            )
            for part in ("weight", "bias")
        }

    def called(self, name: str) -> str | None:
        for prefix in PREFIXES:
            name = name.removeprefix(prefix)
        return None if name.endswith(NOT_LEARNED) else name


class DenseFormer(Testbed):
    types = ("denseformer",)
    variant = "denseformer"
    of_layer = f"{PREFIX}h.{{}}.0"

    def unknown(self, config: Config) -> Iterator[str]:
        yield from super().unknown(config)
        for name in GROUPED:
            if config.get(name, 1) != 1:
                yield f"{name} is {config[name]}; only a DenseFormer that weighs every layer is read"

    def config(self, architecture: Architecture) -> dict[str, Any] | None:
        found = super().config(architecture)
        return None if found is None else found | dict.fromkeys(GROUPED, 1)

    def layout(self, architecture: Architecture) -> Layout:
        weights = {f"weights.{n}.weight": Held((f"depth.weights.{n}",), row=True) for n in range(architecture.n_layers)}
        return super().layout(architecture) | weights


class SkipV1Fused(Testbed):
    types: tuple[str, ...] = ("skipv1-gpt2-fused",)
    variant = "skipv1"

    def unknown(self, config: Config) -> Iterator[str]:
        yield from super().unknown(config)
        heads = config["n_head"]
        if (skipped := config.get("num_skip_head", heads // 2)) * 2 != heads:
            yield f"num_skip_head is {skipped} of {heads}; half of the heads are what is read"

    def config(self, architecture: Architecture) -> dict[str, Any] | None:
        found = super().config(architecture)
        return None if found is None else found | {"num_skip_head": architecture.n_heads // 2}


class SkipV1Apart(SkipV1Fused):
    types = ("skipv1-gpt2",)

    def _projections(self, architecture: Architecture) -> Layout:
        return {
            f"attn.{theirs}.{part}": Held((f"attention.projections.{ours}.{part}",), neighbours=architecture.width)
            for theirs, ours in QKV.items()
            for part in ("weight", "bias")
        }
