"""The command line.  Bad input is one line on standard error and exit status 2; a failed check is exit status 1.

Modules that import torch, scipy or matplotlib are imported by the command that needs them: `--help`, `list`,
`describe`, `variants` and every prediction with a closed form answer at once.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from experiments import commands, model_commands, train_commands
from experiments.runs import UserError
from theory.sizes import BadInput

DEFAULT_OUT = Path("runs")


class _Parser(argparse.ArgumentParser):
    """argparse without the usage text before an error."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status."""
    options = _parser().parse_args(arguments)
    try:
        status: int = options.run(options)
        sys.stdout.flush()
    except (UserError, BadInput) as error:
        return _stop(str(error), 2)
    except BrokenPipeError:  # the reader has left, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except OSError as error:
        return _stop(f"{error.filename or 'output'}: {error.strerror}", 2)
    except (KeyboardInterrupt, SystemError) as stop:
        # Compiled code may wrap an interrupt in a SystemError.
        if not isinstance(stop, KeyboardInterrupt) and not isinstance(stop.__context__, KeyboardInterrupt):
            raise
        resumes = options.run in (commands.run, train_commands.train)
        goes_on = "; the same command goes on from here" if resumes else ""
        return _stop(f"interrupted{goes_on}", 130)
    return status


def _stop(message: str, status: int) -> int:
    """One line on standard error, whatever a user's own text in it holds."""
    line = " ".join(message.split())
    print(f"crosslayer: {line if len(line) <= 400 else line[:400] + '...'}", file=sys.stderr)
    return status


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="crosslayer", description="Check what cross-layer ideas promise, on toys and at scale.")
    subparsers = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(
        name: str, run: Any, what: str, example: str, *, shows_json: bool = True, to: Any = subparsers
    ) -> argparse.ArgumentParser:
        command = to.add_parser(
            name,
            help=what,
            description=f"{what[0].upper()}{what[1:]}.",
            epilog=f"example: {example}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        if shows_json:
            command.add_argument("--json", action="store_true", help="print the result as JSON")
        command.set_defaults(run=run)
        return command

    add(
        "list",
        commands.list_experiments,
        "list the experiments, their claims, profiles, time and detectable effect",
        "crosslayer list",
    )

    run = add(
        "run",
        commands.run,
        "predict, measure, compare and draw",
        "crosslayer run skipv1-gap --profile smoke --out runs",
    )
    run.add_argument("names", nargs="*", metavar="NAME", help="experiments, see `crosslayer list`")
    run.add_argument("--all", action="store_true", help="every experiment")
    run.add_argument("--profile", default="cpu", help="smoke, cpu (the default), full or gpu: see `crosslayer list`")
    run.add_argument("--seeds", type=_whole, help="how many seeds, 0 .. K-1 (default: the profile's)", metavar="K")
    run.add_argument("--out", type=Path, default=DEFAULT_OUT, help="where run folders go (default: runs)")
    run.add_argument("--only", choices=("theory", "scale"), help="of --all: the toys', or the full-size models'")
    run.add_argument("--device", default="auto", help="of full-size models: auto (a GPU for profile gpu), cpu or cuda")
    run.add_argument(
        "--jobs", type=_whole, default=0, help="trainings at a time (default: one a core, or what a GPU takes)"
    )
    run.add_argument("--minutes", type=_number, help="stop then; the same command goes on from finished trainings")
    run.add_argument("--data", help="a folder of prepared text, in place of the standard library's source")

    compare = add(
        "compare",
        commands.compare,
        "show the toy's and the papers' predictions beside finished full-size runs",
        "crosslayer compare scale-icl --out runs",
    )
    compare.add_argument("names", nargs="*", metavar="NAME", help="experiments (default: all of full size)")
    compare.add_argument("--out", type=Path, default=DEFAULT_OUT, help="the folder that was given to `run`")

    predict = add(
        "predict",
        model_commands.predict,
        "print the lowest loss that a two-layer plan's toy can reach",
        "crosslayer predict skipv1 --d 3 --n 8 --sigma 0.3 --rank 2 --json",
    )
    predict.add_argument("plan", help="a variant of two layers (see `crosslayer variants`), or FILE.py:name")
    predict.add_argument("--d", type=_whole, required=True, help="width of x and y")
    predict.add_argument("--n", type=_whole, required=True, help="context pairs")
    predict.add_argument("--sigma", type=_number, required=True, help="standard deviation of the noise")
    predict.add_argument("--rank", type=_whole, help="rank a of the compression (default: d // 2, MHA's best)")
    predict.add_argument("--heads", type=_whole, default=2, help="heads of the second layer (default: 2)")
    predict.add_argument("--paper-bound", action="store_true", help="also estimate the paper's own bound")

    describe = add(
        "describe",
        model_commands.describe,
        "say what a model costs and draw its plan",
        "crosslayer describe llama-350m --variant skipv1+gqa:group=4 --figure plan.svg",
    )
    describe.add_argument("preset", help="a model of the papers; an unknown name lists them")
    describe.add_argument(
        "--variant", help="names joined by +, options after a colon, or FILE.py:name (default: the preset's own)"
    )
    describe.add_argument("--dtype", default="bf16", help="of the cache: bf16 (the default), fp32, fp16, fp8 or int8")
    describe.add_argument("--context", type=_whole, help="tokens attended over (default: the preset's context)")
    describe.add_argument("--figure", type=Path, help="draw the plan's maps into this .svg, .png or .pdf")

    variants = add(
        "variants",
        model_commands.variants,
        "list the variants: paper, what each changes, parameters and cache against vanilla",
        "crosslayer variants --preset llama-130m",
    )
    variants.add_argument("--preset", default="llama-130m", help="whose sizes the costs are for (default: llama-130m)")
    variants.add_argument("--markdown", action="store_true", help="print the README's table")

    data = subparsers.add_parser(
        "data",
        help="prepare text for training",
        description="Prepare text for training.",
        epilog="example: crosslayer data prepare stdlib --out data/stdlib-4096",
    )
    kinds = data.add_subparsers(required=True, metavar="ACTION")
    prepare = add(
        "prepare",
        train_commands.data_prepare,
        "tokenise text into hashed shards, with held-out documents",
        "crosslayer data prepare stdlib --out data/stdlib-4096",
        to=kinds,
    )
    prepare.add_argument(
        "source", help="stdlib, a file or folder (text, .jsonl; .gz, .zst), or hf:NAME[:CONFIG[:SPLIT]]"
    )
    prepare.add_argument("--out", type=Path, required=True, help="the folder to make")
    prepare.add_argument("--vocab", type=_whole, default=4096, help="of a BPE trained on the data (default: 4096)")
    prepare.add_argument("--ranks", type=Path, help="GPT-2's byte-pair ranks (r50k_base.tiktoken), instead of training")
    prepare.add_argument("--held-out", type=_number, default=0.05, help="share of documents held out (default: 0.05)")
    prepare.add_argument("--max-tokens", type=_whole, help="stop at this many training tokens")
    info = add(
        "info",
        train_commands.data_info,
        "check prepared data and say what they are",
        "crosslayer data info data/stdlib-4096",
        to=kinds,
    )
    info.add_argument("folder", type=Path)

    train = add(
        "train",
        train_commands.train,
        "train one model; the same command goes on where it was killed",
        "crosslayer train --preset llama-2m --variant resformer --data stdlib --steps 200",
    )
    train.add_argument("--preset", required=True, help="a model of the papers; an unknown name lists them")
    train.add_argument("--variant", help="as for `describe` (default: the preset's own)")
    train.add_argument("--data", default="stdlib", help="stdlib, a prepared folder, or regression:d=5,n=20,sigma=0.1")
    train.add_argument("--steps", type=_whole, required=True, help="optimiser steps")
    train.add_argument("--batch", type=_whole, help="sequences a step (default: what makes about 4,096 tokens)")
    train.add_argument("--context", type=_whole, help="tokens a sequence of text (default: the preset's, at most 512)")
    train.add_argument("--schedule", default="skipv1-llama", help="of a paper; an unknown name lists them")
    train.add_argument("--learning-rate", type=_number, help="peak (default: the schedule's)")
    train.add_argument("--weight-decay", type=_number, help="of matrices and embeddings (default: the schedule's)")
    train.add_argument("--accumulate", type=_whole, default=1, help="parts that a batch is cut into (default: 1)")
    train.add_argument("--precision", help="fp32 or bf16, with fp32 weights (default: bf16 on a GPU)")
    train.add_argument("--compile", action="store_true", help="by torch.compile")
    train.add_argument("--seed", type=_whole, default=0, help="of weights and data order (default: 0)")
    train.add_argument("--device", default="auto", help="auto (the default), cpu or cuda")
    train.add_argument("--log-every", type=_whole, default=10, help="steps a line of metrics.jsonl (default: 10)")
    train.add_argument(
        "--evaluate-every", type=_whole, default=0, help="steps between evaluations (default: at the end)"
    )
    train.add_argument("--save-every", type=_number, default=60.0, help="seconds between checkpoints (default: 60)")
    train.add_argument("--out", type=Path, default=DEFAULT_OUT, help="where run folders go (default: runs)")

    verify = add(
        "verify", commands.verify, "run the claims ledger", "crosslayer verify skipv1.gap skipv1.lemma3-isotropy"
    )
    verify.add_argument("ids", nargs="*", metavar="ID", help="ledger entries (default: all)")

    report = add(
        "report",
        commands.report,
        "write the one-page report from finished runs",
        "crosslayer report --out runs",
        shows_json=False,
    )
    report.add_argument("--out", type=Path, default=DEFAULT_OUT, help="the folder that was given to `run`")

    bench = add(
        "bench", commands.bench, "measure speed, each figure a ratio against a named baseline", "crosslayer bench"
    )
    bench.add_argument(
        "suite",
        nargs="?",
        default="toy",
        choices=("toy", "step"),
        help="toy (the default), or step, of full size",
    )
    bench.add_argument("--preset", default="llama-130m", help="of step: whose training steps (default: llama-130m)")
    bench.add_argument("--variants", help="of step: names with commas between (default: a dozen)")
    bench.add_argument("--device", default="auto", help="of step: auto (the default), cpu or cuda")
    bench.add_argument("--batch", type=_whole, help="of step: sequences a step (default: what makes 32,768 tokens)")
    bench.add_argument("--context", type=_whole, help="of step: tokens a sequence (default: the preset's)")
    bench.add_argument("--out", type=Path, help="of step: also write the result to this .json file")
    bench.add_argument(
        "--threads",
        type=_whole,
        default=min(2, os.cpu_count() or 1),
        help="CPU threads (default: 2, or as many as there are)",
    )
    return parser


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a whole number, got {text!r}") from None


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a number, got {text!r}") from None
