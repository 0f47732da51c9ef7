"""Published weights as a folder of our own, and any folder's model as one that transformers reads."""

from __future__ import annotations

import hashlib
import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.store.folders import Json, RunFolder, UserError
from experiments.store.provenance import commit, versions
from experiments.training.model_folders import IMPORTED, WEIGHTS, ModelFolder, model_folder
from theory.plans.written import to_json

if TYPE_CHECKING:
    from icl.models.decoder import Decoder

HUB = "hf:"
TOKENIZERS = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json")  # and nothing that is code
TAKEN = (*TOKENIZERS, "generation_config.json")
PATTERNS = (*TAKEN, "config.json", "*.safetensors", "*.safetensors.index.json")


@dataclass(frozen=True)
class Made:
    """A folder that was written, and what it holds.  plain: transformers reads it without this package."""

    folder: Path
    of: ModelFolder
    plain: bool


def import_(source: str, out: Path | str, *, variant: str | None = None) -> Made:
    """A folder that says itself what it holds, from one that others laid out; whole, or not at all.

    source   a folder, or hf:NAME for one of the hub's
    variant  what its weights are of, by default what it says, or vanilla

    Raises UserError or BadInput for what is not there, is damaged or cannot be expressed, and for an `out` that is
    there already.
    """
    from icl.models.saved import PLAN, weights

    place, folder = Path(out), _downloaded(source) if source.startswith(HUB) else Path(source)
    _free(place)
    of = model_folder(folder, variant)
    if of.kind != "published":
        raise UserError(f"{folder} is not of others: it can be used as it is")
    model = of.model("cpu")
    part = RunFolder(place.with_name(f"{place.name}.part"))
    shutil.rmtree(part.path, ignore_errors=True)
    with part.locked():
        for name in TAKEN:
            if (folder / name).is_file():
                shutil.copy(folder / name, part / name)
        _keep_ends(folder, part)
        (part / PLAN).write_text(json.dumps(to_json(model.plan)))
        (part / WEIGHTS).write_bytes(weights(model))
        part.write("config.json", _about(source, folder, of, model, variant))
        (part / ".lock").unlink()
        part.path.rename(place)
    return Made(place, model_folder(place), _plain(model))


def _about(source: str, folder: Path, of: ModelFolder, model: Decoder, variant: str | None) -> Json:
    from dataclasses import asdict

    from icl.published.files import weight_files

    name = source.removeprefix(HUB) if source.startswith(HUB) else folder.resolve().name
    digests = {path.name: _digest(path) for path in weight_files(folder)}
    return {
        "name": f"{name} {variant}" if variant else name,
        "variant": variant or "as imported",
        "plan": "in plan.json",
        "architecture": asdict(of.architecture),
        IMPORTED: {"from": source, "type": json.loads((folder / "config.json").read_bytes())["model_type"]},
        "sha256_of_files": digests,
        "versions": versions(),
        "commit": commit(),
        "parameters": sum(p.numel() for p in model.parameters()),
    }


def _keep_ends(folder: Path, part: RunFolder) -> None:
    """Which tokens end a text, where config.json alone says it."""
    found = json.loads((folder / "config.json").read_bytes()).get("eos_token_id")
    if found is not None and not (part / "generation_config.json").exists():
        (part / "generation_config.json").write_text(json.dumps({"eos_token_id": found}))


def export(run: Path | str, out: Path | str, *, dtype: str = "float32") -> Made:
    """A folder for transformers: plain where it knows such a model, else one that is read through this package.

    dtype   float32, bfloat16 or float16, to which weights are rounded

    Raises UserError or BadInput for a folder that holds no finished model, and for an `out` that is there already.
    """
    from icl.published import own, writing

    of = model_folder(Path(run))
    _free(Path(out))
    model = of.model("cpu")
    plain = _plain(model)
    save = writing.save if plain else own.save
    texts = {} if of.published else _texts(of)
    beside = [of.folder / name for name in TAKEN if (of.folder / name).is_file()]
    save(model, out, dtype=dtype, beside=beside, texts=texts)
    return Made(Path(out), of, plain)


def _texts(of: ModelFolder) -> dict[str, str]:
    """What transformers wants to know of the tokenizer of a training."""
    from icl.data.tokenizers import END, BytePairs, saved_tokenizer

    found = saved_tokenizer(of.folder)
    if not isinstance(found, BytePairs):
        return {}
    fast = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": END, "clean_up_tokenization_spaces": False}
    return {
        "tokenizer_config.json": json.dumps(fast),
        "generation_config.json": json.dumps({"eos_token_id": found.end}),
    }


def _plain(model: Decoder) -> bool:
    from icl.published.writing import is_plain

    return is_plain(model)


def _free(place: Path) -> None:
    if place.exists():
        raise UserError(f"{place} is there already; nothing is written over")
    if not place.resolve().parent.is_dir():
        raise UserError(f"{place.parent}: no such folder")


def _downloaded(source: str) -> Path:
    """Of the hub, kept in its own cache; no code and nothing pickled."""
    from icl.data.sources import package

    hub = package("huggingface_hub")
    name = source.removeprefix(HUB)
    try:
        return Path(hub.snapshot_download(name, allow_patterns=list(PATTERNS)))
    except Exception as error:  # the library raises many kinds
        raise UserError(f"{source} cannot be had: {type(error).__name__}: {error}") from error


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
