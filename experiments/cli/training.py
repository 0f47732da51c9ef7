"""The command `train`.  It takes the parsed options and returns the exit status."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.cli.commands import Commands, is_first, not_negative, positive, whole_from
from experiments.commands.training_options import TrainingOptions

if TYPE_CHECKING:
    from experiments.commands.single import Trained

READ: dict[str, Callable[[str], Any]] = {  # by what `TrainingOptions` says that an option reads
    "text": str,
    "path": Path,
    "run": Path,
    "count": whole_from(1),
    "seed": whole_from(0, 2**32 - 1),
    "whole": whole_from(0),
    "positive": positive,
    "not negative": not_negative,
}


def add_to(commands: Commands) -> None:
    """Add the command `train`."""
    command = commands.add(
        "train",
        train,
        "train one model, on several GPUs where torchrun starts it; the same command resumes where it was killed",
        "crosslayer train --preset llama-2m --variant resformer --data stdlib --steps 200",
        resumes=True,
    )
    for option in fields(TrainingOptions):
        about, is_flag = option.metadata, option.metadata["reads"] == "flag"
        read: dict[str, Any] = {"action": "store_true"} if is_flag else {"type": READ[about["reads"]]}
        if about["choices"]:
            read["choices"] = about["choices"]
        elif about["reads"] == "run":
            read["metavar"] = "RUN"
        name, needed = option.name.replace("_", "-"), option.name == "steps"
        command.add_argument(f"--{name}", default=option.default, help=about["help"], required=needed, **read)


def train(options: argparse.Namespace) -> int:
    from experiments.commands import single
    from icl.recipe import Diverged

    request = TrainingOptions(**{option.name: getattr(options, option.name) for option in fields(TrainingOptions)})
    try:
        trained = single.carried_out(request)
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
    print("\n".join(f"  {line}" for line in _held_out(trained)))
    share = f", {record['mfu']:.1%} MFU" if record["mfu"] is not None else ""
    print(f"  {record['tokens_per_second']:,.0f} tokens/s{share} on {record['device']}")
    print(f"figure, weights and numbers: {folder}")
    return 0


def _held_out(trained: Trained) -> list[str]:
    from experiments.commands.prompt_losses import prompt_losses, reference_lines, reference_losses
    from experiments.training.arms import PromptSource, RecallSource, source_from_json
    from experiments.training.model_folders import model_folder

    record = trained.record
    if record["held_out"] is None:
        return [f"held-out loss {record['loss']:.4f} nats per token, the mean over all positions"]
    source = source_from_json(record["arm"]["source"])
    if isinstance(source, RecallSource):
        guesses = f"{source.unmatched:.4f} guess among the {source.pairs} values there, {source.blind:.4f} among all"
        return [f"held-out loss {record['loss']:.4f} nats per query; {guesses}"]
    assert isinstance(source, PromptSource)  # of text there are no losses by position
    losses, model = record["held_out"]["loss"], model_folder(trained.folder)
    own = prompt_losses(f"{record['loss']:.4f}", f"{losses[-1]:.4f}", answers=len(losses), pairs=source.n)
    found = reference_losses(source, model.architecture, model.plan, name=model.name)
    return [*own, *reference_lines(found, model.name)]
