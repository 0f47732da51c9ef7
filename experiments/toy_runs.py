"""What the toy experiments share: exact minimisation and stacked training of a list of toys, resumable."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from experiments.progress import progress
from experiments.protocol import Json
from experiments.runs import RunFolder
from theory.plan import TOYS

SECONDS_BETWEEN_CHECKPOINTS = 5.0


@dataclass(frozen=True)
class Size:
    """A task of the sweep, in units of y's standard deviation per unit of W* x."""

    d: int
    n: int
    sigma: float

    @property
    def key(self) -> str:
        return f"d{self.d}-n{self.n}-s{self.sigma:g}"


@dataclass(frozen=True)
class Point:
    """One toy: a task, an architecture by name (`theory.plan.TOYS`) and a rank."""

    size: Size
    toy: str
    rank: int

    @property
    def key(self) -> str:
        return f"{self.size.key}/{self.toy}/a{self.rank}"


@dataclass(frozen=True)
class Training:
    """How toys are trained and tested; the rest stands in `icl.training.stacked.TrainConfig`."""

    steps: int
    held_out: int
    batch: int = 64
    learning_rate: float = 0.003


def ranks(sizes: Sequence[Size]) -> list[Point]:
    """Every architecture at every rank of every size."""
    return [Point(size, toy, rank) for size in sizes for toy in TOYS for rank in range(size.d + 1)]


def minimise_all(points: Sequence[Point], starts: int, run: RunFolder) -> Json:
    """For every point: the signal explained at the exact minimum, and the certificate's other numbers."""
    from theory.minimise import minimise
    from theory.moments import PromptMoments
    from theory.population import PopulationLoss

    lines = list(run.metrics())
    run.keep_metrics(lines)
    found = {line["point"]: line for line in lines if line["kind"] == "exact"}
    with progress("exact minimisation", len(points)) as at:
        for i, point in enumerate(points):
            at(i, point.key)
            if point.key in found:
                continue
            size = point.size
            loss = PopulationLoss(PromptMoments(size.d, size.n, size.sigma), TOYS[point.toy])
            result = minimise(loss, point.rank, starts=starts)
            found[point.key] = {
                "kind": "exact",
                "point": point.key,
                "loss": result.value,
                "explained": loss.constant - result.value,
                "gradient_norm": result.gradient_norm,
                "scale": result.scale,
                "starts": result.starts,
                "agreeing": result.agreeing,
            }
            run.log(found[point.key])
    return {point.key: found[point.key] for point in points}


def train_all(points: Sequence[Point], seeds: int, training: Training, run: RunFolder) -> Json:
    """For every point: the signal that toys trained on sampled prompts explain on held-out ones, one number a seed."""
    import torch

    from icl.models.stacked import StackedToys, ToySpec
    from icl.tasks import RegressionTask
    from icl.training.stacked import EVAL_BATCH, TrainConfig, explained_signal, train

    specs = [
        ToySpec(RegressionTask(p.size.d, p.size.n, p.size.sigma), TOYS[p.toy], p.rank, seed)
        for p in points
        for seed in range(seeds)
    ]
    toys = StackedToys(specs)
    config = TrainConfig(steps=training.steps, batch=training.batch, learning_rate=training.learning_rate)
    checkpoint = run / "training.safetensors"
    saved = time.monotonic()

    def due(_: int) -> bool:
        nonlocal saved
        if time.monotonic() - saved < SECONDS_BETWEEN_CHECKPOINTS:
            return False
        saved = time.monotonic()
        return True

    logged = [line for line in run.metrics() if line["kind"] == "train"]
    fixed = [line for line in run.metrics() if line["kind"] != "train"]
    first = True
    label = f"training {len(specs)} toys"
    with progress(label, config.steps) as at:
        for report in train(toys, config, checkpoint=checkpoint, save_when=due):
            if first:  # what was logged after the last checkpoint happens again
                run.keep_metrics(fixed + [line for line in logged if line["step"] < report.step])
                first = False
            losses = [float(report.losses[toys.locate[i]]) for i in range(len(specs))]
            run.log({"kind": "train", "step": report.step, "losses": losses})
            at(report.step, f"mean loss {sum(losses) / len(losses):.3f}")
    chunk = 16 * 1024
    chunks = -(-training.held_out // chunk)
    explained = torch.zeros((), dtype=torch.float64)
    with progress("held-out prompts", chunks) as at:
        for i in range(chunks):
            explained = explained + explained_signal(toys, chunk, start=i * chunk // EVAL_BATCH) / chunks
            at(i + 1)
    values = iter(float(explained[toys.locate[i]]) for i in range(len(specs)))
    return {point.key: [next(values) for _ in range(seeds)] for point in points}
