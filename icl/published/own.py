"""Decoders under any plan as folders that transformers reads through this package (`icl.published.wrapped`).

config.json holds the architecture and the plan (`theory.plans.written`), model.safetensors the weights under the
decoder's own names, and modeling_crosslayer.py three lines that import what reads them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from icl.models.decoder import Decoder
from icl.models.saved import architecture_of
from icl.published.layouts import Held, Layout
from icl.published.llama import LLAMA3
from icl.published.writing import SHARD, dtype_called, named, write_folder
from theory.errors import BadInput
from theory.plans.architecture import Architecture, Tokens
from theory.plans.plan import Plan
from theory.plans.written import from_json, to_json

TYPE, PREFIX = "crosslayer", "decoder."
MODULE = "modeling_crosslayer.py"
CODE = '''"""Read the weights beside it by the package `crosslayer`, which must be installed; no other code runs."""

from icl.published.wrapped import CrosslayerConfig, CrosslayerForCausalLM, CrosslayerModel  # noqa: F401
'''
AUTO = {
    "AutoConfig": "modeling_crosslayer.CrosslayerConfig",
    "AutoModel": "modeling_crosslayer.CrosslayerModel",
    "AutoModelForCausalLM": "modeling_crosslayer.CrosslayerForCausalLM",
}


def save(
    model: Decoder,
    folder: Path | str,
    *,
    dtype: str = "float32",
    beside: Iterable[Path] = (),
    texts: Mapping[str, str] | None = None,
    shard: int = SHARD,
) -> None:
    """Write the model into a new folder, whole or not at all; arguments as in `icl.published.writing.save`.

    Raises BadInput for a folder that is there already, and for a model that reads no tokens.
    """
    numbers, stem = dtype_called(dtype), model.config.stem
    if not isinstance(stem, Tokens):
        raise BadInput("transformers has no place for a model that reads no tokens")
    about = {
        "architectures": ["CrosslayerForCausalLM"],
        "model_type": TYPE,
        "auto_map": AUTO,
        "dtype": dtype,
        "torch_dtype": dtype,
        **fields(model.config),
        "architecture": asdict(model.config),
        "plan": to_json(model.plan),
    }
    tensors = named(model, layout(name for name, _ in model.named_parameters()), numbers)
    write_folder(Path(folder), about, tensors, texts={MODULE: CODE, **(texts or {})}, beside=beside, shard=shard)


def fields(config: Architecture) -> dict[str, Any]:
    """Return the fields of a config that tools read, under the names that transformers gives them."""
    stem = config.stem
    rope: dict[str, Any] = {}
    if config.positions == "rope":
        rope = {"rope_type": "default", "rope_theta": config.rope_theta}
        if config.rope_stretched is not None:
            rope |= {"rope_type": "llama3"}
            rope |= {theirs: getattr(config.rope_stretched, ours) for ours, theirs in LLAMA3.items()}
    return {
        **({"vocab_size": stem.vocab, "tie_word_embeddings": stem.tied} if isinstance(stem, Tokens) else {}),
        "hidden_size": config.d_model,
        "num_hidden_layers": config.n_layers,
        "num_attention_heads": config.n_heads,
        "num_key_value_heads": config.kv_heads,
        "head_dim": config.width,
        "intermediate_size": config.d_ff,
        "max_position_embeddings": config.context,
        "hidden_act": "silu" if config.gated else "gelu",
        **({"rms_norm_eps": config.norm_eps} if config.norm == "rms" else {}),
        **({"rope_parameters": rope} if rope else {}),
    }


def layout(parameters: Iterable[str]) -> Layout:
    return {f"{PREFIX}{name}": Held((name,)) for name in parameters}


def described(config: Mapping[str, Any]) -> tuple[Architecture, Plan]:
    """Return the architecture and plan in such a folder's config.json.

    Raises BadInput, KeyError, TypeError or ValueError for anything else.
    """
    return architecture_of(config["architecture"]), from_json(config["plan"])
