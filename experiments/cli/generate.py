"""The command `generate`.  It takes the parsed options and returns the exit status."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.cli.commands import Commands, finite, not_negative, whole_from
from experiments.store.folders import UserError

if TYPE_CHECKING:
    from experiments.commands.generation import Speed, Writer

MOST_PROMPTS = 4096


def add_to(commands: Commands) -> None:
    """Add the command `generate`."""
    command = commands.add(
        "generate",
        generate,
        "write text with a trained model, a token at a time, from what its plan keeps of those before",
        "crosslayer generate runs/train/llama-2m-* --prompt 'def ' --tokens 80 --temperature 0.8 --stream",
    )
    command.add_argument(
        "folder",
        type=Path,
        metavar="RUN",
        help="of a finished training, or of published weights; or a preset, of initial weights",
    )
    command.add_argument(
        "--prompt", action="append", help="text to go on from; may be given several times (default: none)"
    )
    command.add_argument(
        "--special-tokens",
        action="store_true",
        help="read names of special tokens in prompts, such as <|im_start|>, as those tokens (default: as text)",
    )
    command.add_argument("--tokens", type=whole_from(1), default=100, help="to write, at most (default: 100)")
    command.add_argument(
        "--temperature", type=not_negative, default=1.0, help="0 takes the likeliest token (default: 1)"
    )
    command.add_argument("--top-k", type=whole_from(1), help="draw from so many of the likeliest tokens (default: all)")
    command.add_argument(
        "--top-p", type=finite, help="draw from the fewest likeliest that have this probability together (default: all)"
    )
    command.add_argument("--seed", type=whole_from(0, 2**32 - 1), default=0, help="of what is drawn (default: 0)")
    command.add_argument("--stop", action="append", help="a text that ends what is written; may be given several times")
    command.add_argument("--stream", action="store_true", help="print the text as it is written")
    command.add_argument("--variant", help="what published weights are of, such as resformer (default: vanilla)")
    command.add_argument("--data", metavar="FOLDER", help="prepared text with the tokenizer, where the run has none")
    command.add_argument("--device", default="auto", help="auto (the default), cpu or cuda")


def generate(options: argparse.Namespace) -> int:
    prompts = options.prompt or [""]
    if options.stream and (options.json or len(prompts) > 1):
        raise UserError("--stream is for one prompt, and not for --json")
    if len(prompts) > MOST_PROMPTS:
        raise UserError(f"at most {MOST_PROMPTS:,} prompts at a time, got {len(prompts):,}")
    from experiments.commands.generation import write
    from icl.models.sampling import Sampling

    writer = write(
        options.folder,
        prompts,
        tokens=options.tokens,
        sampling=Sampling(temperature=options.temperature, top_k=options.top_k, top_p=options.top_p),
        seed=options.seed,
        stop=options.stop or (),
        special_tokens=options.special_tokens,
        variant=options.variant,
        data=options.data,
        device=options.device,
    )
    if options.stream:
        _stream(writer)
    else:
        for _ in writer.steps:
            pass
    if options.json:
        texts = [{**asdict(one), "read": len(one.ids)} for one in writer.written]
        print(json.dumps({"texts": texts, "speed": asdict(writer.speed)}, indent=1))
    elif not options.stream:
        for i, one in enumerate(writer.written):
            if i:
                print("-" * 20)
            print(f"{one.prompt}{one.text}")
    print(in_words(writer.speed, len(prompts)), file=sys.stderr)
    return 0


def _stream(writer: Writer) -> None:
    (one,) = writer.written
    print(one.prompt, end="", flush=True)
    shown = 0
    for _ in writer.steps:
        print(one.text[shown:], end="", flush=True)
        shown = max(shown, len(one.text))
    print()


def in_words(speed: Speed, sequences: int) -> str:
    """Return how fast texts were written, in a line."""
    read = f"{speed.read:,} tokens read in {_plain(speed.reading)} s"
    if not speed.steps:
        return read
    each, rate = 1000 * speed.stepping / speed.steps, speed.drawn / speed.stepping
    sequence_count = f" of {sequences} sequences" if sequences > 1 else ""
    return f"{read}; then {_plain(each)} ms per step{sequence_count}, {rate:,.0f} tokens per second"


def _plain(number: float) -> str:
    """Return a number in two digits, or all of those before the point."""
    return f"{number:,.0f}" if number >= 10 else f"{number:.2g}"
