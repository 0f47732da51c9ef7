"""The command `train`.  It takes the parsed options and returns the exit status."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.cli.commands import OUT, Commands, is_first, not_negative, positive, whole_from
from experiments.cli.prompt_losses import prompt_losses, reference_losses
from experiments.store.folders import Json

if TYPE_CHECKING:
    from experiments.commands.single import Trained


def add_to(commands: Commands) -> None:
    """train."""
    command = commands.add(
        "train",
        train,
        "train one model, on several GPUs where torchrun starts it; the same command resumes where it was killed",
        "crosslayer train --preset llama-2m --variant resformer --data stdlib --steps 200",
        resumes=True,
    )
    command.add_argument("--preset", help="a model of the papers, see `crosslayer list presets`")
    command.add_argument(
        "--init",
        type=Path,
        metavar="RUN",
        help="instead of --preset, a model to train on: the folder of a finished training, imported or converted; its "
        "weights alone, to a schedule that begins anew",
    )
    command.add_argument("--variant", help="as for `describe` (default: the preset's own)")
    command.add_argument(
        "--data",
        default="stdlib",
        help="stdlib, a prepared folder, recall:pairs=4,keys=16,values=16 (form=paired: key and value in one token), "
        "or regression:d=5,n=20,sigma=0.1; to the latter may be added scored=last (the "
        "answer after n pairs counts alone), spike=4 and decay=1 (eigenvalues of the covariance of x), "
        "inputs=rademacher (uniform, laplace, sphere), w0=2 and w0_random=1 with w0_seed (the mean of W*), pool=64 "
        "with pool_seed (W* is one of so many)",
    )
    command.add_argument("--steps", type=whole_from(1), required=True, help="optimiser steps")
    command.add_argument(
        "--batch", type=whole_from(1), help="sequences a step (default: what makes about 4,096 tokens)"
    )
    command.add_argument(
        "--width", type=whole_from(1), help="of the model, in more or fewer heads (default: the preset's)"
    )
    command.add_argument("--layers", type=whole_from(1), help="of the model (default: the preset's)")
    command.add_argument(
        "--heads", type=whole_from(1), help="of a layer, which share its width (default: heads as wide as the preset's)"
    )
    command.add_argument(
        "--context", type=whole_from(1), help="tokens a sequence of text (default: the model's, at most 512)"
    )
    command.add_argument("--schedule", default="skipv1-llama", help="of a paper; an unknown name lists them")
    command.add_argument("--learning-rate", type=positive, help="peak (default: the schedule's)")
    command.add_argument(
        "--weight-decay", type=not_negative, help="of matrices and embeddings (default: the schedule's)"
    )
    command.add_argument(
        "--depth-rate",
        type=not_negative,
        default=1.0,
        help="learning rate of what weighs outputs over depth, over that of all else; 0 holds it (default: 1)",
    )
    command.add_argument(
        "--optimiser",
        choices=("adamw", "muon"),
        default="adamw",
        help="adamw (the default); muon: matrices of layers by Muon, in steps as large as AdamW's, all else by AdamW",
    )
    command.add_argument(
        "--accumulate", type=whole_from(1), default=1, help="parts that a batch is cut into (default: 1)"
    )
    command.add_argument("--precision", help="fp32 or bf16, with fp32 weights (default: bf16 on a GPU)")
    command.add_argument("--compile", action="store_true", help="by torch.compile")
    command.add_argument(
        "--seed", type=whole_from(0, 2**32 - 1), default=0, help="of weights and data order (default: 0)"
    )
    command.add_argument("--device", default="auto", help="auto (the default), cpu or cuda")
    command.add_argument(
        "--log-every", type=whole_from(1), default=10, help="steps a line of metrics.jsonl (default: 10)"
    )
    command.add_argument(
        "--evaluate-every", type=whole_from(0), default=0, help="steps between evaluations (default: at the end)"
    )
    command.add_argument(
        "--save-every", type=not_negative, default=60.0, help="seconds between checkpoints (default: 60)"
    )
    command.add_argument(
        "--recompute",
        action="store_true",
        help="activation checkpointing: make activations again in the backward pass, for less memory",
    )
    command.add_argument(
        "--resume-from",
        type=Path,
        metavar="RUN",
        help="folder of a finished training of fewer steps: go on from its end, by the schedule of all --steps",
    )
    command.add_argument("--out", type=Path, default=OUT, help="where run folders go (default: runs)")


def train(options: argparse.Namespace) -> int:
    from experiments.commands import single
    from icl.recipe import Diverged

    arguments = {name: value for name, value in vars(options).items() if name not in ("run", "resumes", "json")}
    try:
        trained = single.train(**arguments)
    except Diverged as error:
        if is_first():
            print(f"crosslayer: {error}", file=sys.stderr)
        return 1
    return _report(trained, options.json) if is_first() else 0


def _report(trained: Trained, as_json: bool) -> int:
    folder, record = str(trained.folder), trained.record
    if as_json:
        print(json.dumps({"folder": folder, **record}, indent=1))
        return 0
    of_text = f", {record['epochs']:.2g} epochs of {record['unique_tokens']:,} tokens" if "epochs" in record else ""
    print(f"{record['name']}: {record['parameters']:,} parameters, {record['tokens']:,} tokens{of_text}")
    print(f"  training loss {record['curve'][0][1]:.4g} at first, {record['curve'][-1][1]:.4g} at last")
    print("\n".join(f"  {line}" for line in _held_out(record)))
    share = f", {record['mfu']:.1%} MFU" if record["mfu"] is not None else ""
    print(f"  {record['tokens_per_second']:,.0f} tokens/s{share} on {record['device']}")
    print(f"figure, weights and numbers: {folder}")
    return 0


def _held_out(record: Json) -> list[str]:
    from experiments.training.arms import PromptSource, RecallSource, source_from_json

    if record["held_out"] is None:
        return [f"held-out loss {record['loss']:.4f} nats per token, the mean over all positions"]
    source = source_from_json(record["arm"]["source"])
    if isinstance(source, RecallSource):
        guesses = f"{source.unmatched:.4f} guess among the {source.pairs} values there, {source.blind:.4f} among all"
        return [f"held-out loss {record['loss']:.4f} nats per query; {guesses}"]
    assert isinstance(source, PromptSource)  # of text there are no losses by position
    losses, arm = record["held_out"]["loss"], record["arm"]
    own = prompt_losses(f"{record['loss']:.4f}", f"{losses[-1]:.4f}", answers=len(losses), pairs=source.n)
    return [*own, *reference_losses(source, arm["variant"], arm["architecture"]["d_model"])]
