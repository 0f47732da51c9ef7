"""The command `advise`: which heads of a trained model can read other values, at what cost and for what cache."""

from __future__ import annotations

import argparse
import json
from fractions import Fraction
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.cli.commands import Commands, add_part, check_figure, text_choices, whole_from

if TYPE_CHECKING:
    from experiments.commands.advising import Advice

SHOWN = 1000  # of a nat


def add_to(commands: Commands) -> None:
    """Add the command `advise`."""
    command = commands.add(
        "advise",
        advise,
        "say which heads of a trained model can read layer 1's values, at what cost in nats and for what cache, and "
        "write the plan for `convert`",
        "crosslayer advise runs/llama-3.2-1b --text book.txt --share 1/3 --out plan.json --figure advice.png",
    )
    command.add_argument("folder", type=Path, metavar="RUN", help="of a vanilla model: trained, imported or published")
    command.add_argument(
        "--text", metavar="SOURCE", required=True, help="stdlib, a file or folder, or hf:NAME, read by its tokenizer"
    )
    command.add_argument("--tokens", type=whole_from(1), help="tokens of the text (default: 24,576)")
    command.add_argument("--context", type=whole_from(2), help="tokens per sequence (default: at most 512)")
    add_part(command)
    command.add_argument(
        "--share", type=_share, help="share of the candidates that the plan converts, such as 1/3 (the default) or 0.5"
    )
    command.add_argument(
        "--variant",
        help="what converted heads read: its converted heads are the candidates (default: skipv1:ratio=1,sink=1: every "
        "head after layer 1, layer 1's values, its own at the first token)",
    )
    command.add_argument("--device", default="auto", help="auto (the default), cpu or cuda")
    command.add_argument("--out", type=Path, metavar="FILE.json", help="write the plan into this file")
    command.add_argument("--figure", type=Path, help="draw all predicted costs into this .svg, .png or .pdf")


def _share(text: str) -> Fraction:
    try:
        return Fraction(text)
    except (ValueError, ZeroDivisionError):
        raise argparse.ArgumentTypeError(f"must be a share such as 1/3 or 0.5, got {text[:24]!r}") from None


def advise(options: argparse.Namespace) -> int:
    from experiments.commands import advising
    from experiments.store.folders import UserError

    if options.figure is not None:
        check_figure(options.figure)
    if options.out is not None and (options.out.exists() or options.out.suffix != ".json"):
        why = "is there already; nothing is written over" if options.out.exists() else "must end in .json"
        raise UserError(f"--out {options.out} {why}")
    advice = advising.advise(
        options.folder,
        variant=options.variant or advising.VARIANT,
        share=options.share if options.share is not None else advising.SHARE,
        choices=text_choices(options, advising.TOKENS),
        device=options.device,
    )
    if options.out is not None:
        advising.write_plan(advice, options.out)
    if options.figure is not None:
        from experiments.commands.advice_figure import draw
        from experiments.drawing import style

        with style.drawing():
            style.save_as(draw(advice), options.figure)
    if options.json:
        print(json.dumps(advice.to_json(), indent=1))
        return 0
    print("\n".join(_lines(advice)))
    if options.out is not None:
        print(f"plan: {options.out}, for `crosslayer convert {options.folder} --variant {options.out} --text ...`")
    if options.figure is not None:
        print(f"figure: {options.figure}")
    return 0


def _lines(advice: Advice) -> list[str]:
    """Return the scores by layer and what the plan is predicted to do, line by line."""
    before, after = advice.cache_bytes
    chosen = set(advice.chosen)
    lines = [
        f"predicted cost of every head alone, in thousandths of a nat per token; * is converted ({advice.variant})"
    ]
    pairs = zip(advice.cells, advice.scores, advice.errors, strict=True)
    for layer, row in groupby(pairs, key=lambda pair: pair[0][0]):
        parts = [
            f"{h}{'*' if (n, h) in chosen else ' '}{SHOWN * score:9.3f} +- {1.96 * SHOWN * error:<8.3f}"
            for (n, h), score, error in row
        ]
        lines.append(f"  layer {layer:3}  {' '.join(parts)}".rstrip())
    of_first = f", and {advice.first_token_bytes:,} of each sequence's first token" if advice.first_token_bytes else ""
    return [
        *lines,
        f"converted: {len(chosen)} of {len(advice.cells)} heads; on {advice.data}, linear reads fitted on "
        f"{advice.tokens[0]:,} tokens, gradients on {advice.tokens[1]:,}",
        f"predicted first loss {advice.loss + advice.cost:.4f}, now {advice.loss:.4f}: {advice.cost:+.4f} +- "
        f"{1.96 * advice.stderr:.4f}, once refitted (the sum of the scores is {advice.additive:.4f})",
        f"cache, bytes per token in bf16: {after:,}, now {before:,} ({after / before - 1:+.1%}){of_first}",
    ]
