"""Decoders from weights that others have published, as Hugging Face's transformers saves them.

A folder holds config.json and model.safetensors, or several such files and model.safetensors.index.json, which says
where each tensor lies.  What the decoder cannot express is refused.  Nothing is unpickled, and no code of a folder is
run.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from icl.models.decoder import Decoder
from icl.models.saved import CONFIG
from icl.published.files import check_tensors, tensors, weight_files
from icl.published.gpt2 import GPT2
from icl.published.layouts import Kind, Layout, fitted, shape
from icl.published.llama import Llama
from theory.errors import BadInput
from theory.plans.architecture import Architecture, misfits
from theory.plans.names import fitting
from theory.plans.plan import Plan

KINDS: tuple[Kind, ...] = (Llama(), GPT2())
TYPES: dict[str, Kind] = {name: kind for kind in KINDS for name in kind.types}


def is_published(folder: Path) -> bool:
    """Whether a folder's config.json says of which type its model is, as a training's does not."""
    try:
        config = json.loads((folder / CONFIG).read_bytes())
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(config, dict) and "model_type" in config


def architecture(folder: Path | str) -> Architecture:
    """What a folder's config.json describes.

    Raises BadInput, in one line, for what is not there, makes no sense, or cannot be expressed.
    """
    return _described(folder)[1]


def _described(folder: Path | str) -> tuple[Kind, Architecture]:
    path = Path(folder) / CONFIG
    try:
        config = json.loads(path.read_bytes())
        named = config["model_type"]
    except OSError as error:
        raise BadInput(f"{folder} holds no {CONFIG}") from error
    except (ValueError, RecursionError, KeyError, TypeError) as error:
        raise BadInput(f"{path} describes no model ({type(error).__name__}: {error})") from error
    if not isinstance(named, str) or named not in TYPES:
        known = f"{', '.join([*TYPES][:-1])} and {[*TYPES][-1]}"
        raise BadInput(f"{path}: a model of type {str(named)[:24]!r}; those that can be read are {known}")
    kind = TYPES[named]
    try:
        for problem in kind.unknown(config):
            raise BadInput(f"{path}: {problem}")
        return kind, kind.architecture(config)
    except KeyError as error:
        raise BadInput(f"{path} describes no model: it has no {error.args[0]}") from error
    except (ValueError, TypeError, AttributeError) as error:
        if isinstance(error, BadInput):
            raise
        raise BadInput(f"{path} describes no model: {error}") from error


def check(folder: Path, variant: str | Plan) -> None:
    """Raises BadInput, as `load` does, for a folder whose tensors are not the variant's.  Reads no numbers."""
    _laid_out(folder, variant)


def _laid_out(folder: Path, variant: str | Plan) -> tuple[Decoder, Kind, Layout]:
    """A decoder without weights, and where they lie."""
    kind, config = _described(folder)
    plan = fitting(variant, config) if isinstance(variant, str) else variant
    for misfit in misfits(config, plan):
        raise BadInput(f"{folder}: {misfit}")
    model = Decoder(config, plan, device="meta")
    parameters = {name: tuple(p.shape) for name, p in model.named_parameters()}
    layout = fitted(kind.layout(config), parameters, "LLaMA" if isinstance(kind, Llama) else "GPT-2")
    shapes = {name: shape(held, parameters) for name, held in layout.items()}
    tied = {} if kind.head in shapes else {kind.head: parameters["stem.embedding.weight"]}  # some hold it all the same
    check_tensors(weight_files(folder), {**shapes, **tied}, kind.called, optional=tied.keys())
    return model, kind, layout


def load(
    folder: Path | str,
    *,
    variant: str | Plan = "vanilla",
    dtype: torch.dtype = torch.float32,
    device: torch.device | str = "cpu",
) -> Decoder:
    """The decoder of a folder, ready to be asked.

    variant   what the weights are of, by name or as a plan
    dtype     float32 or better

    Raises BadInput, in one line, for a folder that is not whole, or whose tensors are not, one for one, the variant's.
    """
    folder = Path(folder)
    model, kind, layout = _laid_out(folder, variant)
    sizes = {name: len(p) for name, p in model.named_parameters()}
    found: dict[str, Tensor] = {}
    twice: Tensor | None = None
    for path in weight_files(folder):
        for name, tensor in tensors(path, kind.called):
            if not bool(tensor.isfinite().all()):
                raise BadInput(f"{path} is damaged: {name} holds numbers that are not finite")
            tensor = tensor.to(device=device, dtype=dtype)
            if name not in layout:
                twice = tensor
                continue
            held = layout[name]
            rows = tensor.T if held.transposed else tensor
            parts = rows.split([sizes[x] for x in held.parameters])
            found |= {x: part.contiguous() for x, part in zip(held.parameters, parts, strict=True)}
    if twice is not None and not torch.equal(twice, found["stem.embedding.weight"]):
        raise BadInput(f"{folder}: {CONFIG} makes the embeddings the head, and the weights hold another head")
    model.load_state_dict(found, assign=True)
    return model.eval()


def as_published(config: Architecture) -> tuple[Kind, Mapping[str, Any]] | None:
    """The kind of published models that has one of these sizes, and its config.json; None if none has."""
    for kind in KINDS:
        written = kind.config(config)
        if written is not None:
            return kind, written
    return None
