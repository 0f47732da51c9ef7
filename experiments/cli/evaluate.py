"""The command `evaluate`.  It takes the parsed options and returns the exit status."""

from __future__ import annotations

import argparse
import json
import math

from experiments.cli import asked
from experiments.cli.commands import Commands


def add_to(commands: Commands) -> None:
    """evaluate."""
    command = commands.add(
        "evaluate",
        evaluate,
        "held-out losses of models, in all and by position: perplexity, bits a byte, what more context is worth",
        "crosslayer evaluate runs/train/llama-2m-* --tokens 65536",
        resumes=True,
    )
    asked.add_options(command)


def evaluate(options: argparse.Namespace) -> int:
    from experiments.training import evaluating

    found = evaluating.evaluate(options.runs, asked=asked.asked(options), device=options.device, out=options.out)
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
