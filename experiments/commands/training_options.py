"""The options of one training: the fields are the options of `crosslayer train` and the arguments of `train`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from experiments.store.folders import UserError

Reads = Literal["text", "path", "run", "count", "seed", "whole", "positive", "not negative", "flag"]


def _option(default: Any, help: str, reads: Reads = "text", choices: tuple[str, ...] = ()) -> Any:
    """Return a field with what the command line says of it.

    Args:
        default: where nothing is said.
        help: of the option.
        reads: text; a path; a run's folder; a count, from 1; a seed or another whole number, from 0; a number; or a
            flag without value.
        choices: all that there are, if they are few.
    """
    return field(default=default, metadata={"help": help, "reads": reads, "choices": choices})


@dataclass(frozen=True, kw_only=True)
class TrainingOptions:
    """A training of a preset's model under a variant, or of a model that is there.

    Raises:
        UserError: for no number of steps, for none of `preset` and `init` or both, and a negative `save_every`.
    """

    preset: str | None = _option(None, "a model of the papers, see `crosslayer list presets`")
    variant: str | None = _option(None, "as for `describe` (default: the preset's own)")
    init: Path | None = _option(
        None,
        "instead of --preset, a model to train on: the folder of a finished training, imported or converted; its "
        "weights alone, to a schedule that starts again",
        "run",
    )
    data: str = _option(
        "stdlib",
        "stdlib, a prepared folder, recall:pairs=4,keys=16,values=16 (form=paired: key and value in one token), "
        "or regression:d=5,n=20,sigma=0.1; to the latter may be added scored=last (the "
        "answer after n pairs counts alone), spike=4 and decay=1 (eigenvalues of the covariance of x), "
        "inputs=rademacher (uniform, laplace, sphere), w0=2 and w0_random=1 with w0_seed (the mean of W*), pool=64 "
        "with pool_seed (W* is one of so many)",
    )
    steps: int | None = _option(None, "optimiser steps", "count")
    batch: int | None = _option(None, "sequences per step (default: what makes about 4,096 tokens)", "count")
    width: int | None = _option(None, "of the model, in more or fewer heads (default: the preset's)", "count")
    layers: int | None = _option(None, "of the model (default: the preset's)", "count")
    heads: int | None = _option(
        None, "of a layer, which share its width (default: heads as wide as the preset's)", "count"
    )
    context: int | None = _option(None, "tokens per sequence of text (default: the model's, at most 512)", "count")
    schedule: str = _option("skipv1-llama", "of a paper; an unknown name lists them")
    learning_rate: float | None = _option(None, "peak (default: the schedule's)", "positive")
    weight_decay: float | None = _option(None, "of matrices and embeddings (default: the schedule's)", "not negative")
    depth_rate: float = _option(
        1.0,
        "learning rate of what weighs outputs over depth, over that of all else; 0 holds it (default: 1)",
        "not negative",
    )
    optimiser: Literal["adamw", "muon"] = _option(
        "adamw",
        "adamw (the default); muon: matrices of layers by Muon, in steps as large as AdamW's, all else by AdamW",
        choices=("adamw", "muon"),
    )
    accumulate: int = _option(1, "parts that a batch is cut into (default: 1)", "count")
    precision: str | None = _option(None, "fp32 or bf16, with fp32 weights (default: bf16 on a GPU)")
    compile: bool = _option(False, "by torch.compile", "flag")
    seed: int = _option(0, "of weights and data order (default: 0)", "seed")
    device: str = _option("auto", "auto (the default), cpu or cuda")
    log_every: int = _option(10, "steps per line of metrics.jsonl (default: 10)", "count")
    evaluate_every: int = _option(0, "steps between evaluations (default: at the end)", "whole")
    save_every: float = _option(60.0, "seconds between checkpoints (default: 60)", "not negative")
    recompute: bool = _option(
        False,
        "activation checkpointing: make activations again in the backward pass, for less memory",
        "flag",
    )
    resume_from: Path | None = _option(
        None,
        "folder of a finished training of fewer steps: go on from its end, by the schedule of all --steps",
        "run",
    )
    out: Path = _option(Path("runs"), "where run folders go (default: runs)", "path")

    def __post_init__(self) -> None:
        for name in ("init", "resume_from", "out"):
            if (path := getattr(self, name)) is not None:
                object.__setattr__(self, name, Path(path))
        if (self.preset is None) == (self.init is None):
            raise UserError("say either --preset, for a new model, or --init, for one that is there")
        if self.steps is None:
            raise UserError("say how many --steps")
        if not self.save_every >= 0:
            raise UserError(f"--save-every must not be negative, got {self.save_every}")

    @property
    def sizes(self) -> dict[str, int | None]:
        """Sizes of a new model, in place of its preset's."""
        return {"width": self.width, "layers": self.layers, "heads": self.heads}
