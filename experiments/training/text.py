"""Text for trainings: a prepared folder that a user names, or the standard library's source, prepared on first use.

The latter is prepared once per user, in the cache folder; what lies in ./data is used too.
`tokens_per_parameter` reads from a stored configuration how long an experiment trains.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.store.folders import Json, UserError, cache
from experiments.store.progress import progress, warn
from experiments.training.arms import TextSource
from experiments.training.printed import BASELINE
from theory.plans.accounting import total_parameters
from theory.plans.architecture import Tokens
from theory.plans.names import resolve
from theory.plans.suggestions import hint

if TYPE_CHECKING:
    from icl.data.shards import Manifest

DATA = "data"
STDLIB = "stdlib"
VOCAB = 4096
VOCAB_MULTIPLE = 64


def prepared(name: str, vocab: int = VOCAB) -> Path:
    """Return the folder of prepared text that `name` is; for `stdlib`, stdlib-VOCAB, prepared if it is not there."""
    if (Path(name) / "manifest.json").is_file():
        return Path(name)
    if name != STDLIB and not Path(name).exists():
        meant = hint(name, [STDLIB], f"make one with `crosslayer data prepare SOURCE --out {name}`")
        raise UserError(f"there is no folder {name}; {meant}")
    if name != STDLIB:
        raise UserError(f"{name} holds no prepared data; make some with `crosslayer data prepare {name} --out FOLDER`")
    folder = Path(DATA, f"{STDLIB}-{vocab}")
    if folder.exists():
        return folder
    folder = cache() / folder.name
    if not folder.exists():
        warn(f"preparing the standard library's text, once, in {folder}")
        prepare(STDLIB, folder, vocab=vocab)
    return folder


@dataclass(frozen=True)
class Text:
    """Prepared text as experiments need it.

    vocab of a model, a multiple of 64, in which matrix products are fast; tokens: to train on
    """

    source: TextSource
    name: str
    vocab: int
    tokens: int


def text(name: str, vocab: int = VOCAB, held_out_windows: int = 64, *, opened: bool = False) -> Text:
    """Return the text that `prepared` finds; opened as `TextSource` says.  Raises BadInput if it is damaged."""
    from icl.data.shards import open_data

    folder = prepared(name, vocab)
    manifest = open_data(folder).manifest
    source = TextSource(str(folder), manifest.digest, held_out_windows, opened=opened)
    return Text(source, manifest.name, of_models(manifest.tokenizer.vocab), tokens=manifest.splits["train"].tokens)


def of_models(vocab: int) -> int:
    """Return the vocabulary of a model that reads this tokenizer's text."""
    return -(-vocab // VOCAB_MULTIPLE) * VOCAB_MULTIPLE


def prepare(source: str, folder: Path, **options: Any) -> Manifest:
    """Run `icl.data.preparing.prepare` with its progress on standard error."""
    from icl.data import preparing

    with progress(f"preparing {source}", 1) as at:
        at(0)
        began: tuple[float, int] | None = None  # with the first documents, or where a killed run goes on

        def tell(tokens: int, note: str, share: float | None) -> None:
            nonlocal began
            if tokens and began is None:
                began = time.monotonic(), tokens
            elif began is not None:
                speed = (tokens - began[1]) / max(1e-9, time.monotonic() - began[0])
                note = f"{note}, {speed:,.0f} tokens/s"
            at(0.5 if share is None else share, note)

        manifest = preparing.prepare(source, folder, on_progress=tell, **options)
        at(1)
    return manifest


def about(folder: Path, manifest: Manifest) -> Json:
    """Return a description of prepared text for a user."""
    splits = {name: {"documents": s.documents, "tokens": s.tokens} for name, s in manifest.splits.items()}
    return {
        "folder": str(folder),
        "name": manifest.name,
        "digest": manifest.digest,
        "source": manifest.request.source,
        "about": manifest.about,
        "tokenizer": manifest.tokenizer.name,
        "vocab": manifest.tokenizer.vocab,
        **splits,
        "megabytes": round(sum(shard.bytes for shard in manifest.shards) / 1e6, 1),
    }


def tokens_per_parameter(config: Json) -> list[float]:
    """Return the tokens that trainings read over vanilla's parameters, of each length that an experiment trains.

    Parameters are counted with both embeddings.  The list is empty for an experiment that does not train on text.

    Args:
        config: as a run's config.json or summary.json holds it under `config`.
    """
    if {"setting", "groups"} <= config.keys():  # a question to the campaign
        return sorted({float(group["until"]) for group in config["groups"]})
    if "data" not in config:
        return []
    from icl.models.saved import architecture_of  # with torch, which runs on toys do without

    base = replace(architecture_of(config["architecture"]), stem=Tokens(of_models(config["vocab"])))
    recipe = config["recipe"]
    tokens = recipe["steps"] * config.get("tokens", recipe["batch"] * base.context)
    return [tokens / total_parameters(base, resolve(BASELINE, base.shape))]


def in_words(config: Json) -> str:
    """Return how long an experiment trains on text; empty if it does not."""
    ratios = tokens_per_parameter(config)
    if not ratios:
        return ""
    numbers = f"{ratios[0]:.2g}" if len(ratios) == 1 else f"{ratios[0]:.2g} to {ratios[-1]:.2g}"
    return f"{numbers} tokens of text per parameter (vanilla's, embeddings included)"
