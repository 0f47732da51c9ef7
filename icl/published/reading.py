"""Decoders from weights that others have published, as Hugging Face's transformers saves them.

A folder holds config.json and model.safetensors, or several such files and model.safetensors.index.json, which says
where each tensor lies.  What the decoder cannot express is refused.  Nothing is unpickled, and no code of a folder is
run.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from icl.models.decoder import Decoder
from icl.models.saved import CONFIG
from icl.published import own
from icl.published.files import check_tensors, count_tensors, tensors, weight_files
from icl.published.kinds import PAPERS, TYPES
from icl.published.layouts import VARIANT, Config, Layout, fitted, shape, taken
from theory.errors import BadInput
from theory.plans.architecture import Architecture, misfits
from theory.plans.names import fitting
from theory.plans.plan import Plan


def is_published(folder: Path) -> bool:
    """Return whether a folder's config.json gives a model type, as a training's does not."""
    try:
        config = json.loads((folder / CONFIG).read_bytes())
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(config, dict) and "model_type" in config


@dataclass(frozen=True, eq=False)
class _Described:
    """The content of config.json, and the names of tensors.

    plan      the plan, if the folder itself gives it
    variant   the variant of the weights, unless another is given
    """

    architecture: Architecture
    plan: Plan | None
    variant: str
    layout: Callable[[Collection[str]], Layout]
    called: Callable[[str], str | None]
    head: str


def architecture(folder: Path | str) -> Architecture:
    """Return the architecture that a folder's config.json describes.

    Raises BadInput, in one line, for a config that is missing, makes no sense, or cannot be expressed.
    """
    return _described(folder).architecture


def plan(folder: Path | str, variant: str | Plan | None = None) -> Plan:
    """Return the plan of a folder's weights: its own, or `variant`, by default that of its kind.

    Raises BadInput as `load`.
    """
    return _planned(Path(folder), _described(folder), variant)


def _planned(folder: Path, found: _Described, variant: str | Plan | None) -> Plan:
    asked = variant if variant is not None else found.plan or found.variant
    chosen = fitting(asked, found.architecture) if isinstance(asked, str) else asked
    if found.plan is not None and chosen != found.plan:
        raise BadInput(f"{folder} says itself what its weights are of, and that is another plan than the one asked for")
    for misfit in misfits(found.architecture, chosen):
        raise BadInput(f"{folder}: {misfit}")
    return chosen


def _described(folder: Path | str) -> _Described:
    path = Path(folder) / CONFIG
    try:
        config = json.loads(path.read_bytes())
        named = config["model_type"]
    except OSError as error:
        raise BadInput(f"{folder} holds no {CONFIG}") from error
    except (ValueError, RecursionError, KeyError, TypeError) as error:
        raise BadInput(f"{path} describes no model ({type(error).__name__}: {error})") from error
    if not isinstance(named, str) or named not in (*TYPES, own.TYPE):
        *others, last = (*TYPES, own.TYPE)
        known = f"{', '.join(others)} and {last}"
        raise BadInput(f"{path}: a model of type {str(named)[:24]!r}; those that can be read are {known}")
    try:
        return _of_own(config) if named == own.TYPE else _of_kind(config, named)
    except KeyError as error:
        raise BadInput(f"{path} describes no model: it has no {error.args[0]}") from error
    except (ValueError, TypeError, AttributeError) as error:
        raise BadInput(f"{path} describes no model: {error}") from error


def _of_kind(config: Config, named: str) -> _Described:
    kind = TYPES[named]
    for problem in kind.unknown(config):
        raise BadInput(problem)
    sizes, variant = kind.architecture(config), config.get(VARIANT, kind.variant)
    if (kind, variant) not in ((kind, kind.variant), *PAPERS.values()):
        raise ValueError(f"{VARIANT} is {str(variant)[:24]!r}, of which there is no such layout")
    return _Described(sizes, None, variant, layout=lambda _: kind.layout(sizes), called=kind.called, head=kind.head)


def _of_own(config: Config) -> _Described:
    sizes, chosen = own.described(config)
    return _Described(sizes, chosen, "", layout=own.layout, called=lambda name: name, head="")


def check(folder: Path, variant: str | Plan | None = None) -> None:
    """Raise BadInput, as `load` does, for a folder whose tensors are not the variant's.  Reads no numbers."""
    _laid_out(folder, variant)


def _laid_out(folder: Path, variant: str | Plan | None) -> tuple[Decoder, _Described, Layout]:
    """Return a decoder without weights, and where they lie."""
    found = _described(folder)
    layers, held = found.architecture.n_layers, count_tensors(weight_files(folder))
    if layers > held:  # before a plan is made for them
        raise BadInput(f"{folder / CONFIG} describes {layers:,} layers, and the weights are {held:,} tensors")
    try:
        model = Decoder(found.architecture, _planned(folder, found, variant), device="meta")
    except (RuntimeError, TypeError, OverflowError) as error:
        raise BadInput(f"{folder / CONFIG} describes no model: its sizes are too large") from error
    parameters = {name: tuple(p.shape) for name, p in model.named_parameters()}
    layout = fitted(found.layout(parameters), parameters)
    shapes = {name: shape(held, parameters) for name, held in layout.items()}
    tied = {}
    if found.head and found.head not in shapes:  # some hold it all the same
        tied = {found.head: parameters["stem.embedding.weight"]}
    check_tensors(weight_files(folder), {**shapes, **tied}, found.called, optional=tied.keys())
    return model, found, layout


def load(
    folder: Path | str,
    *,
    variant: str | Plan | None = None,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str = "cpu",
) -> Decoder:
    """Return the decoder of a folder, in evaluation mode.

    variant   the variant of the weights, by name or as a plan; by default the folder's own, or its kind's
    dtype     float32 or better

    Raises BadInput, in one line, for a folder that is not whole, or whose tensors are not, one for one, the variant's.
    """
    folder = Path(folder)
    model, described, layout = _laid_out(folder, variant)
    sizes = {name: len(p) for name, p in model.named_parameters()}
    found: dict[str, Tensor] = {}
    twice: Tensor | None = None
    for path in weight_files(folder):
        for name, tensor in tensors(path, described.called):
            tensor = tensor.to(device=device, dtype=dtype)
            if not bool(tensor.isfinite().all()):
                raise BadInput(f"{path} is damaged: {name} holds numbers that are not finite")
            if name not in layout:
                twice = tensor
                continue
            found |= taken(layout[name], tensor, sizes)
    if twice is not None and not torch.equal(twice, found["stem.embedding.weight"]):
        raise BadInput(f"{folder}: {CONFIG} makes the embeddings the head, and the weights hold another head")
    model.load_state_dict(found, assign=True)
    return model.eval()
