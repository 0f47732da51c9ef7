"""Imports of published weights as folders of our own, and exports of models for transformers."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.store.folders import Json, RunFolder, UserError
from experiments.store.progress import progress
from experiments.store.provenance import commit, versions
from experiments.training import extension
from experiments.training.model_folders import BESIDE, IMPORTED, WEIGHTS, ModelFolder, digest_of, model_folder
from icl.files import new_folder
from theory.plans.suggestions import unknown
from theory.plans.written import to_json

if TYPE_CHECKING:
    from icl.models.decoder import Decoder

HUB, HF = "hf:", "hf"
BEFORE = "before"  # in config.json: what is known of a converted model's source
OF_TRAININGS = ("key", "arm", "parameters", "tokens", "data", "loss", "device", "versions", "commit", "source")
OF_OTHERS = ("name", "variant", "model_type", IMPORTED, "sha256_of_files", BEFORE, "versions", "commit")
PATTERNS = (*BESIDE, "config.json", "*.safetensors", "*.safetensors.index.json")


@dataclass(frozen=True)
class SavedModel:
    """A folder that was written, and what it holds.

    plain   transformers reads it without this package
    layout  of a paper's own code, where that was asked for
    change  of a converted model: how far its scores are from those of the model that it was made from, relatively;
            None where this was not looked at
    module  the model file that stands alone, where that was asked for
    """

    folder: Path
    model_folder: ModelFolder
    plain: bool
    layout: str | None = None
    change: float | None = None
    module: str | None = None


def import_(source: str, out: Path | str, *, variant: str | None = None) -> SavedModel:
    """Write a folder that describes itself, from one that others laid out; whole, or not at all.

    source   a folder, or hf:NAME for one of the hub's
    variant  what its weights are of, by default what it says, or vanilla

    Raises UserError or BadInput for what is not there, is damaged or cannot be expressed, and for an `out` that is
    there already.
    """
    place, folder = Path(out), _downloaded(source) if source.startswith(HUB) else Path(source)
    free(place)
    _check_layout(source, folder)
    original = model_folder(folder, variant)
    if original.kind != "published":
        raise UserError(f"{folder} is not of others: it can be used as it is")
    config = json.loads((folder / "config.json").read_bytes())
    texts = _ends(folder, config)
    with progress(f"importing {source}", 3) as at:
        at(0, "reading")
        model = original.model("cpu")
        at(1, "digests")
        about = _about(source, folder, variant, kind=config["model_type"])
        at(2, "writing")
        write(place, model, about, before=folder, texts=texts)
        at(3)
    return SavedModel(place, model_folder(place), is_plain(model))


def write(place: Path, model: Decoder, about: Json, before: Path, texts: Mapping[str, str]) -> None:
    """Write a folder, under a temporary name until it is whole.  before: a folder whose tokenizer goes with it."""
    from icl.models.saved import PLAN, write_weights
    from icl.published.writing import check_finite

    for name, parameter in model.named_parameters():
        check_finite(name, parameter, parameter)
    with new_folder(place) as folder:
        part = RunFolder(folder)
        for name in BESIDE:
            if (before / name).is_file():
                shutil.copy(before / name, part / name)
        for name, text in {**texts, PLAN: json.dumps(to_json(model.plan))}.items():
            (part / name).write_text(text, encoding="utf-8")
        write_weights(model, part / WEIGHTS)
        sizes = {"plan": f"in {PLAN}", "architecture": asdict(model.config)}
        count = sum(p.numel() for p in model.parameters())
        part.write("config.json", {**about, **sizes, "parameters": count, "versions": versions(), "commit": commit()})


def digests(folder: Path) -> dict[str, str]:
    """Return digests of the files that hold a folder's weights, however many."""
    from icl.published.files import weight_files

    return {path.name: digest_of(path) for path in weight_files(folder)}


def origin(original: ModelFolder) -> Json:
    """Return where a converted model's weights come from: of a training its recipe, data and provenance.

    Of others' weights it is what their folder says; of a model that was itself converted, also what was before that.
    """
    trained = original.kind == "trained"
    record = extension.finished(original.folder) if trained else RunFolder(original.folder).read("config.json")
    provenance = {name: record[name] for name in (OF_TRAININGS if trained else OF_OTHERS) if name in record}
    return {"kind": original.kind, **provenance}


def _about(source: str, folder: Path, variant: str | None, kind: str) -> Json:
    name = source.removeprefix(HUB) if source.startswith(HUB) else folder.resolve().name
    return {
        "name": f"{name} {variant}" if variant else name,
        "variant": variant or "as imported",
        IMPORTED: {"from": source, "type": kind},
        "sha256_of_files": digests(folder),
    }


def _ends(folder: Path, config: Json) -> dict[str, str]:
    """Return the file that names the tokens which end a text, where config.json alone says it."""
    name, end = "generation_config.json", config.get("eos_token_id")
    return {} if end is None or (folder / name).exists() else {name: json.dumps({"eos_token_id": end})}


def export(
    run: Path | str, out: Path | str, *, to: str = HF, dtype: str = "float32", standalone: bool = False
) -> SavedModel:
    """Write a folder for transformers: plain where it knows such a model, else one that is read through this package.

    to          hf, or the layout of a paper's own code (`icl.published.kinds.PAPERS`)
    dtype       float32, bfloat16 or float16, to which weights are rounded
    standalone  with a model file of its own, which needs torch and transformers alone (`icl.published.standalone`)

    Raises UserError or BadInput for a folder that holds no finished model, for what a layout or a standalone file has
    no place for, and for an `out` that is there already.
    """
    from icl.published import own, papers, writing
    from icl.published import standalone as alone
    from icl.published.kinds import PAPERS

    if to not in (HF, *PAPERS):
        raise UserError(unknown("layout", to, (HF, *PAPERS)))
    if standalone and to != HF:
        raise UserError(f"--standalone writes a model file for transformers, and not the layout {to}")
    original = model_folder(Path(run))
    free(Path(out))
    with progress(f"exporting {run}", 2) as at:
        at(0, "reading")
        model = original.model("cpu")
        plain = is_plain(model)
        texts = {} if original.published else texts_of(original)
        beside = [original.folder / name for name in BESIDE if (original.folder / name).is_file()]
        at(1, "writing")
        if standalone:
            alone.save(model, out, name=original.name, dtype=dtype, beside=beside, texts=texts)
        elif to == HF:
            save = writing.save if plain else own.save
            save(model, out, dtype=dtype, beside=beside, texts=texts)
        else:
            papers.save(model, out, to, dtype=dtype, beside=beside, texts=texts)
        at(2)
    module = f"{alone.module_of(original.name)}.py" if standalone else None
    return SavedModel(Path(out), original, plain, layout=None if to == HF else to, module=module)


def texts_of(original: ModelFolder) -> dict[str, str]:
    """Return the files with which transformers reads a training's tokenizer; none unless it is of byte pairs."""
    from icl.data.tokenizers import END, BytePairs, saved_tokenizer

    tokenizer = saved_tokenizer(original.folder)
    if not isinstance(tokenizer, BytePairs):
        return {}
    fast = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": END,
        "clean_up_tokenization_spaces": False,
        "model_input_names": ["input_ids", "attention_mask"],  # version 4 of transformers adds token_type_ids
    }
    return {
        "tokenizer_config.json": json.dumps(fast),
        "generation_config.json": json.dumps({"eos_token_id": tokenizer.end}),
    }


def is_plain(model: Decoder) -> bool:
    from icl.published import writing

    return writing.is_plain(model)


def _check_layout(source: str, folder: Path) -> None:
    """Raise UserError, which says what is wanted, for a folder that holds no model."""
    if folder.is_file():
        raise UserError(f"{source} is a file; name its folder, which holds config.json and the weights")
    if not folder.is_dir():
        on_hub = source.count("/") == 1 and not source.startswith((".", "/", "~"))
        raise UserError(f"{source}: no such folder; a model of the hub is {HUB}{source if on_hub else 'NAME'}")
    if not (folder / "config.json").is_file():
        raise UserError(f"{source} holds no model as transformers writes it: config.json is missing")


def free(place: Path) -> None:
    if place.exists() or place.is_symlink():
        raise UserError(f"{place} is there already; nothing is written over")
    if not place.resolve().parent.is_dir():
        raise UserError(f"{place.parent}: no such folder")


def _downloaded(source: str) -> Path:
    """Download a model from the hub, into the hub's own cache; no code and nothing pickled."""
    from icl.data.sources import package

    hub = package("huggingface_hub")
    name = source.removeprefix(HUB)
    try:
        return Path(hub.snapshot_download(name, allow_patterns=list(PATTERNS)))
    except Exception as error:  # the library raises many kinds, with texts of several lines
        first = str(error).strip().partition("\n")[0].rstrip(".:")
        raise UserError(f"{source} cannot be had: {type(error).__name__}: {first}") from error
