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
from icl.published.writing import SHARD, dtype_called, named, write_folder
from theory.errors import BadInput
from theory.plans.architecture import Architecture, Tokens
from theory.plans.plan import Plan
from theory.plans.written import from_json, to_json

TYPE, PREFIX = "crosslayer", "decoder."
MODULE = "modeling_crosslayer.py"
CODE = '''"""Reads the weights beside it with the package `crosslayer`, which must be installed; nothing else is run."""

from icl.published.wrapped import CrosslayerConfig, CrosslayerForCausalLM  # noqa: F401
'''
AUTO = {
    "AutoConfig": "modeling_crosslayer.CrosslayerConfig",
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
        "vocab_size": stem.vocab,
        "hidden_size": model.config.d_model,
        "num_hidden_layers": model.config.n_layers,
        "num_attention_heads": model.config.n_heads,
        "max_position_embeddings": model.config.context,
        "tie_word_embeddings": False,  # one matrix in the decoder, where it is tied
        "architecture": asdict(model.config),
        "plan": to_json(model.plan),
    }
    tensors = named(model, layout(name for name, _ in model.named_parameters()), numbers)
    write_folder(Path(folder), about, tensors, texts={MODULE: CODE, **(texts or {})}, beside=beside, shard=shard)


def layout(parameters: Iterable[str]) -> Layout:
    return {f"{PREFIX}{name}": Held((name,)) for name in parameters}


def described(config: Mapping[str, Any]) -> tuple[Architecture, Plan]:
    """Return the architecture and plan in such a folder's config.json.

    Raises BadInput, KeyError, TypeError or ValueError for anything else.
    """
    return architecture_of(config["architecture"]), from_json(config["plan"])
