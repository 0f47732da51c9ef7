"""The commands `data ...`.  Each takes the parsed options and returns the exit status."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from experiments.cli.commands import Commands, number, whole_number
from experiments.store.folders import Json


def add_to(commands: Commands) -> None:
    """Add the commands `data prepare` and `data info`."""
    data = commands.group("data", "prepare text for training", "crosslayer data prepare stdlib --out data/stdlib-4096")
    command = data.add(
        "prepare",
        data_prepare,
        "tokenise text into hashed shards, with held-out documents",
        "crosslayer data prepare stdlib --out data/stdlib-4096",
        resumes=True,
    )
    command.add_argument(
        "source", help="stdlib, a file or folder (text, .jsonl; .gz, .zst), or hf:NAME[:CONFIG[:SPLIT]]"
    )
    command.add_argument("--out", type=Path, required=True, help="the folder to make")
    command.add_argument(
        "--vocab", type=whole_number, default=4096, help="of a BPE trained on the data (default: 4096)"
    )
    command.add_argument("--ranks", type=Path, help="GPT-2's byte-pair ranks (r50k_base.tiktoken), instead of training")
    command.add_argument(
        "--tokenizer", type=Path, metavar="RUN", help="a model's folder, whose tokenizer is to be used"
    )
    command.add_argument("--held-out", type=number, default=0.05, help="share of documents held out (default: 0.05)")
    command.add_argument("--encoding", default="utf-8", help="of files, such as latin-1 or utf-16 (default: utf-8)")
    command.add_argument("--max-tokens", type=whole_number, help="stop at this many training tokens")
    command = data.add(
        "info",
        data_info,
        "check prepared data and say what they are",
        "crosslayer data info data/stdlib-4096",
    )
    command.add_argument("folder", type=Path)


def data_prepare(options: argparse.Namespace) -> int:
    from experiments.training.text import about, prepare

    manifest = prepare(
        options.source,
        options.out,
        vocab=options.vocab,
        ranks=options.ranks,
        tokenizer=options.tokenizer,
        held_out=options.held_out,
        max_tokens=options.max_tokens,
        encoding=options.encoding,
    )
    return _show(about(options.out, manifest), options.json)


def data_info(options: argparse.Namespace) -> int:
    from experiments.training.text import about
    from icl.data.shards import open_data

    return _show(about(options.folder, open_data(options.folder).manifest), options.json)


def _show(content: Json, as_json: bool) -> int:
    if as_json:
        print(json.dumps(content, indent=1))
        return 0
    for name, value in content.items():
        text = ", ".join(f"{v:,} {k}" for k, v in value.items()) if isinstance(value, dict) else value
        print(f"{name:10} {text}")
    return 0
