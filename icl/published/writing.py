"""A decoder as a folder that transformers reads: config.json and weights under its names, in safetensors.

What it reads by itself is a vanilla model of one of `icl.published.kinds`.  Any other is read through
the small module beside its weights, which asks the installed package to build it (`icl.published.wrapped`).
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from icl.files import new_folder
from icl.models.decoder import Decoder
from icl.models.saved import CONFIG, WEIGHTS
from icl.published.files import INDEX
from icl.published.kinds import as_published
from icl.published.layouts import Layout, fitted, joined
from theory.errors import BadInput
from theory.plans.names import resolve

SHARD = 5 * 10**9  # bytes of a file, at most; one tensor is never cut
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def is_plain(model: Decoder) -> bool:
    """Return whether transformers reads the model without help: a vanilla model of a kind that it knows."""
    plain = resolve("vanilla", model.config.shape)
    return model.plan == plain and as_published(model.config) is not None


def save(
    model: Decoder,
    folder: Path | str,
    *,
    dtype: str = "float32",
    beside: Iterable[Path] = (),
    texts: Mapping[str, str] | None = None,
    shard: int = SHARD,
) -> None:
    """Write the model into a new folder, whole or not at all.

    dtype   of the weights: float32, bfloat16 or float16, to which they are rounded
    beside  files that are copied into it, such as tokenizer.json; texts: files of this content

    Raises BadInput for a folder that is there already, and for a model that is not vanilla or of no kind that
    transformers knows.
    """
    numbers = dtype_called(dtype)
    config, tensors = in_theirs(model, numbers)
    about = {**config, "dtype": dtype, "torch_dtype": dtype}
    write_folder(Path(folder), about, tensors, texts=texts, beside=beside, shard=shard)


def dtype_called(name: str) -> torch.dtype:
    """Return the dtype of this name.  Raises BadInput for one in which weights are not written."""
    if name not in DTYPES:
        raise BadInput(f"weights are written as {', '.join(DTYPES)}, not {name!r}")
    return DTYPES[name]


def in_theirs(model: Decoder, dtype: torch.dtype) -> tuple[Mapping[str, Any], dict[str, Tensor]]:
    """Return transformers' config.json and tensors for the model.  Raises BadInput for one that it does not know."""
    found = as_published(model.config)
    if found is None or not is_plain(model):
        raise BadInput("only a vanilla model of LLaMA's or GPT-2's kind is one that transformers knows")
    kind, config = found
    parameters = {name: tuple(p.shape) for name, p in model.named_parameters()}
    return config, named(model, fitted(kind.layout(model.config), parameters), dtype)


def named(model: Decoder, layout: Layout, dtype: torch.dtype) -> dict[str, Tensor]:
    """Return tensors by the layout's names, on the CPU.

    Raises BadInput for one that holds numbers that are not finite, or are not in this dtype.
    """
    own = {name: p.detach() for name, p in model.named_parameters()}
    tensors = {}
    for name, held in layout.items():
        exact = joined(held, own)
        tensors[name] = exact.to(device="cpu", dtype=dtype)
        check_finite(name, exact, tensors[name])
    return tensors


def check_finite(name: str, exact: Tensor, written: Tensor) -> None:
    """Raise BadInput unless all that is written of a tensor is finite, as what is read has to be."""
    if bool(written.isfinite().all()):
        return
    if not bool(exact.isfinite().all()):
        raise BadInput(f"{name} holds numbers that are not finite")
    dtype, largest = str(written.dtype).removeprefix("torch."), float(exact.abs().max())
    most = torch.finfo(written.dtype).max
    raise BadInput(f"{name} holds {largest:.3g}, and the largest number of {dtype} is {most:.3g}; choose another dtype")


def write_folder(
    folder: Path,
    config: Mapping[str, Any],
    tensors: Mapping[str, Tensor],
    *,
    texts: Mapping[str, str] | None = None,
    beside: Iterable[Path] = (),
    shard: int = SHARD,
) -> None:
    """Write config.json, the tensors in as many files as they need, and other files.

    They have a temporary name until all is whole.  Raises BadInput for a folder that exists already.
    """
    if folder.exists():
        raise BadInput(f"{folder} is there already; nothing is written over")
    with new_folder(folder) as part:
        for name, text in {CONFIG: json.dumps(config, indent=1), **(texts or {})}.items():
            (part / name).write_text(text, encoding="utf-8")
        for path in beside:
            shutil.copy(path, part / path.name)
        _write_tensors(part, tensors, shard)


def _write_tensors(folder: Path, tensors: Mapping[str, Tensor], shard: int) -> None:
    groups: list[dict[str, Tensor]] = [{}]
    for name, tensor in tensors.items():
        if groups[-1] and sum(x.nbytes for x in groups[-1].values()) + tensor.nbytes > shard:
            groups.append({})
        groups[-1][name] = tensor
    if len(groups) == 1:
        save_file(groups[0], folder / WEIGHTS, metadata={"format": "pt"})
        return
    places: dict[str, str] = {}
    for number, group in enumerate(groups, 1):
        called = WEIGHTS.replace(".", f"-{number:05d}-of-{len(groups):05d}.", 1)
        save_file(group, folder / called, metadata={"format": "pt"})
        places |= dict.fromkeys(group, called)
    index = {"metadata": {"total_size": sum(x.nbytes for x in tensors.values())}, "weight_map": places}
    (folder / INDEX).write_text(json.dumps(index, indent=1), encoding="utf-8")
