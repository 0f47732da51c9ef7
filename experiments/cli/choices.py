"""Options of the commands that look at models on data that these have not seen: how much of it, and which."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.cli.commands import OUT, whole_from

if TYPE_CHECKING:
    from experiments.commands.subjects import Choices


def add_options(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "runs",
        nargs="+",
        type=Path,
        metavar="RUN",
        help="folder of a training, or of an imported or published model; or a preset, of initial weights",
    )
    command.add_argument("--tokens", type=whole_from(1), help="tokens looked at, in whole sequences (default: 16,384)")
    command.add_argument("--batch", type=whole_from(1), help="sequences at a time (default: about 4,096 tokens)")
    command.add_argument(
        "--context",
        type=whole_from(2),
        help="tokens per sequence of text (default: as trained; imported models: at most 512)",
    )
    command.add_argument("--data", metavar="FOLDER", help="where the runs' text lies now (default: where it lay)")
    command.add_argument(
        "--text",
        metavar="SOURCE",
        help="stdlib, a file or folder, or hf:NAME, read by the tokenizer.json beside each model's weights; or random: "
        "tokens drawn at random (default: what a training holds out; of others' models stdlib, or random where there "
        "is no tokenizer.json)",
    )
    command.add_argument("--variant", help="what published weights are of, such as resformer (default: vanilla)")
    command.add_argument("--device", default="auto", help="auto (the default), cpu or cuda")
    command.add_argument("--out", type=Path, default=OUT, help="where run folders go (default: runs)")


def choices(options: argparse.Namespace) -> Choices:
    from experiments.commands.subjects import Choices
    from experiments.training.by_layer import TOKENS, Sample

    return Choices(
        Sample(options.tokens or TOKENS, options.batch or 0),
        data=options.data,
        context=options.context,
        text=options.text,
        variant=options.variant,
    )
