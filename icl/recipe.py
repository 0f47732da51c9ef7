"""Recipes of training: sizes of the steps, the schedule of the learning rate, precision.  Standard library only."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain
from numbers import Real
from typing import Any, Literal

from theory.errors import BadInput, field_problems

LATE = 0.2  # share of the steps over which the decay of that name falls


class Diverged(ArithmeticError):
    """An error: the loss or the gradient is no number, or the loss has left for good.  The message is one line."""


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """AdamW or Muon with a linear warm-up and a decay.  Raises BadInput, in one line, for what cannot be meant.

    steps, batch    optimiser steps, and sequences in each of them
    accumulate      parts that a batch is cut into; the gradients of its parts are added up, so the step is the same
    warmup          share of the steps over which the rate rises, from `start` of the peak; so a training k times as
                    long rises over as many steps with warmup / k
    floor           share of the peak at which the decay ends
    decay           cosine: falls from the end of the warm-up, to the floor at the last step; quadratic: in the square
                    of the steps left, from the first step on, beside the warm-up; late: constant until the last
                    fifth of the steps, over which it falls linearly, to the floor at the last step; so trainings of
                    different length with as many steps of warm-up have the same rates until `begins_to_fall`
    clip            largest norm of the gradient, of a toy in zero losses (`icl.toys.training`); 0: it is not clipped
    precision       fp32, on a GPU too: no TF32; or bf16: products in bf16 by autocast, weights and optimiser in fp32
    compile         by torch.compile, the loss included; once for all trainings of one shape
    log_every       steps that one line of the log averages over; the only steps at which training stops or is saved
    evaluate_every  steps between evaluations on held-out data, a multiple of log_every; 0: at the end only
    scale_outputs   whether output projections start smaller than other matrices; for whoever makes the model, see
                    `icl.models.initial.initialise`
    depth_rate      the learning rate of a depth rule's own parameters (queries, gains, averages) over that of all
                    others; 0: they stay as they start
    depth_decay     their weight decay, which is not that of others; beside `depth_rate`, a share of their own rate
    optimiser       adamw; or muon: matrices of layers by Muon, in steps as large as AdamW's, all else by AdamW
    """

    steps: int
    batch: int
    learning_rate: float
    betas: tuple[float, float] = (0.9, 0.95)
    eps: float = 1e-8
    weight_decay: float = 0.0
    clip: float = 1.0
    warmup: float = 0.1
    start: float = 0.0
    floor: float = 0.1
    accumulate: int = 1
    precision: Literal["fp32", "bf16"] = "fp32"
    compile: bool = False
    log_every: int = 10
    evaluate_every: int = 0
    scale_outputs: bool = True
    decay: Literal["cosine", "quadratic", "late"] = "cosine"
    depth_rate: float = 1.0
    depth_decay: float = 0.0
    optimiser: Literal["adamw", "muon"] = "adamw"

    def __post_init__(self) -> None:
        for problem in chain(field_problems(self), self._problems()):  # one by one: later ones rely on earlier ones
            raise BadInput(problem)

    def rate(self, step: int) -> float:
        """Return the learning rate of `step` (from 0)."""
        return self.learning_rate * self.share(step)

    def share(self, step: int) -> float:
        """Return the share of the peak rate at `step` (from 0)."""
        if self.decay == "quadratic":
            risen = min(1.0, (step + 1) / max(1.0, self.warmup * self.steps))
            left = (1 - step / self.steps) ** 2
            return (self.start + (1 - self.start) * risen) * (self.floor + (1 - self.floor) * left)
        rising = round(self.warmup * self.steps)
        if step < rising:
            return self.start + (1 - self.start) * ((step + 1) / rising)
        if self.decay == "late":
            if step < self._late():
                return 1.0
            return self.floor + (1 - self.floor) * ((self.steps - step - 1) / (self.steps - self._late()))
        gone = (step + 1 - rising) / (self.steps - rising)
        return self.floor + (1 - self.floor) * (1 + math.cos(math.pi * gone)) / 2

    def of_length(self, steps: int) -> Recipe:
        """Return the same training with another number of steps.

        If the decay is late, it warms up for as many steps as before, unless the rate falls earlier, so that the
        shorter of two trainings is the beginning of the longer until its rate falls.  Otherwise it warms up for the
        same share of its steps.
        """
        if self.decay != "late":
            return replace(self, steps=steps)
        return replace(self, steps=steps, warmup=min(1 - LATE, self.warmup * self.steps / steps))

    def begins_to_fall(self) -> int:
        """Return the first step (from 0) from which on the rate is below the peak; `steps` if there is none.

        For a late decay it is round(0.8 steps), unless its floor is the peak.
        """
        if self.floor == 1:
            return self.steps
        match self.decay:
            case "late":
                return self._late()
            case "quadratic":
                return int(self.start == 1 or self.warmup * self.steps <= 1)
        return round(self.warmup * self.steps)

    def _late(self) -> int:
        return round((1 - LATE) * self.steps)

    def _problems(self) -> Iterator[str]:
        for name in ("steps", "batch", "accumulate", "log_every"):
            if (value := getattr(self, name)) < 1:
                yield f"{name} must be at least 1, got {value}"
        if self.batch % self.accumulate:
            yield f"{self.accumulate} parts do not divide a batch of {self.batch} sequences"
        if self.evaluate_every < 0 or self.evaluate_every % self.log_every:
            yield f"evaluate_every must be a multiple of log_every = {self.log_every}, got {self.evaluate_every}"
        for name in ("learning_rate", "eps"):
            if not 0 < (value := getattr(self, name)) < math.inf:
                yield f"{name} must be positive, got {value}"
        for name in ("weight_decay", "clip", "depth_rate", "depth_decay"):
            if not 0 <= (value := getattr(self, name)) < math.inf:
                yield f"{name} must not be negative, got {value}"
        for name in ("warmup", "start", "floor"):
            if not 0 <= (value := getattr(self, name)) <= 1:
                yield f"{name} must lie in [0, 1], got {value}"
        if self.decay == "late" and (rising := round(self.warmup * self.steps)) > self._late():
            yield f"a late decay leaves {self._late()} of {self.steps} steps to the warm-up, which takes {rising}"
        betas = self.betas if isinstance(self.betas, tuple) else ()
        if len(betas) != 2 or not all(isinstance(beta, Real) and 0 <= beta < 1 for beta in betas):
            yield f"betas must be two numbers in [0, 1), got {self.betas}"


@dataclass(frozen=True)
class Schedule:
    """The settings that a paper gives for its optimiser and initial weights, and where it gives them."""

    place: str
    settings: dict[str, Any]


SCHEDULES: dict[str, Schedule] = {
    "skipv1-llama": Schedule(
        "SkipV1Former, appendix B.2, up to 350M",
        {"learning_rate": 2e-3, "weight_decay": 0.0, "clip": 0.0, "warmup": 0.1, "floor": 0.1},
    ),
    "skipv1-llama-large": Schedule(
        "SkipV1Former, appendix B.2, 1B (and 3B, at half this rate)",
        {"learning_rate": 1e-3, "weight_decay": 0.1, "clip": 1.0, "warmup": 0.1, "floor": 0.1},
    ),
    "skipv1-gpt2": Schedule(
        "SkipV1Former, appendix B.1, up to 355M (550M at 6e-4)",
        {"learning_rate": 1e-3, "weight_decay": 0.1, "clip": 1.0, "warmup": 0.1, "floor": 0.1},
    ),
    "resformer": Schedule(
        # Section 4.1.1 warms up for 1,200 of the 10,000 steps; Table 4 and the authors' script for 120.  That output
        # projections start like other matrices is in their code only.
        "ResFormer, section 4.1.1, Table 4, and its code",
        {
            "learning_rate": 6e-4,
            "weight_decay": 0.1,
            "clip": 1.0,
            "warmup": 0.012,
            "start": 1e-7 / 6e-4,
            "floor": 0.1,
            "scale_outputs": False,
        },
    ),
}
