"""The command `evaluate`.  It takes the parsed options and returns the exit status."""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path

from experiments.cli.commands import OUT, Commands, whole_from


def add_to(commands: Commands) -> None:
    """evaluate."""
    command = commands.add(
        "evaluate",
        evaluate,
        "held-out losses of models, in all and by position: perplexity, bits a byte, what more context is worth",
        "crosslayer evaluate runs/train/llama-2m-* --tokens 65536",
        resumes=True,
    )
    command.add_argument(
        "runs",
        nargs="+",
        type=Path,
        metavar="RUN",
        help="folder of a training, or of an imported or published model",
    )
    command.add_argument("--tokens", type=whole_from(1), help="tokens looked at, in whole sequences (default: 16,384)")
    command.add_argument("--batch", type=whole_from(1), help="sequences at a time (default: about 4,096 tokens)")
    command.add_argument(
        "--context",
        type=whole_from(2),
        help="tokens a sequence of text (default: a training's own; of others' models 512, or theirs if less)",
    )
    command.add_argument("--data", metavar="FOLDER", help="where the runs' text lies now (default: where it lay)")
    command.add_argument(
        "--text",
        metavar="SOURCE",
        help="for others' models: stdlib (the default), a file or folder, hf:NAME; or random: tokens drawn at random",
    )
    command.add_argument("--variant", help="what published weights are of, such as resformer (default: vanilla)")
    command.add_argument("--device", default="auto", help="auto (the default), cpu or cuda")
    command.add_argument("--out", type=Path, default=OUT, help="where run folders go (default: runs)")


def evaluate(options: argparse.Namespace) -> int:
    from experiments.training import evaluating
    from experiments.training.by_layer import TOKENS, Sample
    from experiments.training.subjects import Asked

    asked = Asked(
        Sample(options.tokens or TOKENS, options.batch or 0),
        data=options.data,
        context=options.context,
        text=options.text,
        variant=options.variant,
    )
    found = evaluating.evaluate(options.runs, asked=asked, device=options.device, out=options.out)
    if options.json:
        print(json.dumps({"folder": str(found.folder), **found.record}, indent=1))
        return 0
    for run in found.record["runs"]:
        loss, score = run["loss"], run["in_context"]
        print(f"{run['name']}: {run['sequences']:,} sequences, {run['tokens']:,} tokens of {run['data']}")
        if found.record["regression"]:
            print(f"  held-out loss {_with_error(loss)} squared units of y, mean over all answers")
        else:
            in_bits = evaluating.bits_a_byte(run)
            of_bytes = f", {in_bits:.4f} bits a byte" if in_bits is not None else ""
            perplexity = f"perplexity {math.exp(loss['mean']):.5g}" if loss["mean"] < 700 else "no perplexity"
            print(f"  held-out loss {_with_error(loss)} nats a token, {perplexity}{of_bytes}")
        print(f"  last tenth of the positions less the second tenth: {_with_error(score)}")
    print(f"figure and numbers: {found.folder}")
    return 0


def _with_error(number: dict[str, float]) -> str:
    return f"{number['mean']:.4f} +- {1.96 * number['stderr']:.4f}"
