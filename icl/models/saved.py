"""Trained decoders: the weights that a training leaves, and a decoder from the folder that it left them in.

The folder, as `crosslayer train` writes it, holds `config.json` with the architecture and the variant, beside what else
was asked of the training, and `model.safetensors` with the weights by name, and digests of them and of the plan.  A
variant that was given as a plan, not by a name, stands in `plan.json` (`theory.plans.written`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save, save_file
from torch import Tensor

from icl.files import opened
from icl.models.decoder import Decoder
from theory.errors import BadInput
from theory.plans.architecture import Architecture, Latent, Stem, Stretched, misfits
from theory.plans.identity import text
from theory.plans.names import fitting
from theory.plans.plan import Plan
from theory.plans.written import from_json

CONFIG, WEIGHTS, PLAN = "config.json", "model.safetensors", "plan.json"


def weights(model: Decoder) -> bytes:
    """Return the content of `model.safetensors`, the same bytes for the same weights."""
    content = save(*_written(model))
    end = _end(content)
    return content[:8] + _ordered(content[8:end]) + content[end:]


def write_weights(model: Decoder, path: Path) -> None:
    """Write what `weights` returns into a file, without a second copy of the weights in memory."""
    tensors, digests = _written(model)
    save_file(tensors, path, metadata=digests)
    with path.open("r+b") as file:
        header = file.read(_end(file.read(8)) - 8)
        file.seek(8)
        file.write(_ordered(header))


def load(folder: Path | str, *, variant: str | Plan | None = None, device: torch.device | str = "cpu") -> Decoder:
    """Return the trained decoder of a folder in evaluation mode: without dropout, until `train()` is called.

    variant   what was trained, where the folder does not say it, as older ones of plans from a user's own file do not;
              it must be the very plan that was trained

    Raises BadInput for a folder in which something is missing or damaged, or whose weights are of another model.
    """
    folder = Path(folder)
    architecture, named = _config(folder / CONFIG)
    if variant is None:
        variant = named or saved_plan(folder)
    if variant is None:
        raise BadInput(f"{folder} was trained under a plan that no name stands for; pass the plan as `variant`")
    plan = fitting(variant, architecture) if isinstance(variant, str) else variant
    tensors, digests = _weights(folder / WEIGHTS)
    if digests.get("plan", _digest_of_plan(plan)) != _digest_of_plan(plan):
        what = variant if isinstance(variant, str) else "what was given"
        raise BadInput(f"{folder}: {what} is another plan than the one that was trained")
    for misfit in misfits(architecture, plan):
        raise BadInput(f"{folder}: {misfit}")
    model = Decoder(architecture, plan, device="meta")
    wanted = {name: tuple(p.shape) for name, p in model.named_parameters()}
    shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    for name in sorted(wanted.keys() | shapes.keys()):
        if wanted.get(name) != shapes.get(name):
            what = f"{name} is {shapes.get(name, 'missing')} where {wanted.get(name, 'nothing')} belongs"
            raise BadInput(f"{folder / WEIGHTS} is not of the model in {CONFIG}: {what}")
    model.load_state_dict(tensors, assign=True)
    return model.to(device).eval()


def saved_plan(folder: Path) -> Plan | None:
    """Return the plan in a folder; None if there is none.  Raises BadInput for a file that holds none."""
    path = folder / PLAN
    if not path.is_file():
        return None
    try:
        return from_json(json.loads(path.read_bytes()))
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{path} is damaged ({error})") from error


def _written(model: Decoder) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Return the weights by name, and their digest and the plan's."""
    tensors = {name: p.detach().cpu().contiguous() for name, p in model.named_parameters()}
    return tensors, {"plan": _digest_of_plan(model.plan), "weights": _digest_of_weights(tensors)}


def _end(content: bytes) -> int:
    """Return where the header of a safetensors file ends."""
    return 8 + int.from_bytes(content[:8], "little")


def _ordered(header: bytes) -> bytes:
    """Return a header with its metadata in alphabetical order; safetensors writes them in any."""
    fields = json.loads(header)
    fields["__metadata__"] = dict(sorted(fields["__metadata__"].items()))
    return json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode().ljust(len(header))


def _config(path: Path) -> tuple[Architecture, str | None]:
    """Return the architecture, and the variant's name if it has one."""
    if not path.is_file():
        raise BadInput(f"{path.parent} holds no {CONFIG}: it is no folder of a training")
    try:
        content, _ = opened(path.read_bytes())
        variant = str(content["variant"])
        return architecture_of(content["architecture"]), None if "plan" in content else variant
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadInput(f"{path} describes no model ({type(error).__name__}: {error})") from error


def architecture_of(fields: Mapping[str, Any]) -> Architecture:
    """Return the architecture with these fields, as a folder's `config.json` holds them.

    Raises TypeError, KeyError or ValueError if there is none.
    """
    latent, stretched = fields.get("latent"), fields.get("rope_stretched")
    parts = {
        "stem": _stem(fields["stem"]),
        "latent": Latent(**latent) if latent else None,
        "rope_stretched": Stretched(**stretched) if stretched else None,
        "windows": tuple(fields.get("windows", ())),
        "rotated": tuple(fields.get("rotated", ())),
    }
    return Architecture(**{**fields, **parts})


def _stem(fields: Mapping[str, Any]) -> Stem:
    """Return the kind of stem with these fields; no two kinds share one."""
    for kind in get_args(Stem):
        try:
            stem: Stem = kind(**fields)
        except TypeError:
            continue
        return stem
    raise ValueError(f"no stem has the fields {', '.join(fields)}")


def _weights(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Return tensors and digests; files from before there were digests have none."""
    if not path.is_file():
        raise BadInput(f"{path.parent} holds no {WEIGHTS}: its training has not ended")
    try:
        with safe_open(path, framework="pt") as file:
            digests = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a mapping
    except SafetensorError as error:
        raise BadInput(f"{path} is damaged ({error})") from error
    if "weights" in digests and digests["weights"] != _digest_of_weights(tensors):
        raise BadInput(f"{path} is damaged: its weights are not those that were written")
    return tensors, digests


def _digest_of_plan(plan: Plan) -> str:
    return hashlib.sha256(text(plan).encode()).hexdigest()


def _digest_of_weights(tensors: Mapping[str, Tensor]) -> str:
    digest = hashlib.sha256()
    for name in sorted(tensors):
        digest.update(name.encode() + b"\0")
        digest.update(_bytes(tensors[name]))
    return digest.hexdigest()


def _bytes(tensor: Tensor) -> memoryview:
    """Return a tensor's bytes as they lie in memory, without a copy."""
    return tensor.flatten().view(torch.uint8).numpy().data
