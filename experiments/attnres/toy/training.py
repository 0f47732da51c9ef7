"""Toys that are trained on prompts side by side, and the largest of what they read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING

from experiments.attnres.toy.points import BASELINE, NETWORKS, TWIN, WIDTHS, Config, cell
from experiments.store.folders import Json, RunFolder
from experiments.training.arms import Arm, PromptSource
from experiments.training.campaign import of_runs, rounds
from experiments.training.stacks import train_stacked

if TYPE_CHECKING:
    from torch import Tensor

    from icl.models.decoder import Decoder
    from icl.prompts import Prompts, RegressionTask
    from icl.training.objectives import Batch, Task

PROBE = f"{__name__}:largest"


@dataclass(frozen=True, eq=False)
class SideBySide:
    """In-context regression of which a token holds a pair, (x_t ; y_t), and the query (x ; 0); its answer's y slot is
    scored.  The prompts are `icl.training.objectives.PromptTask`'s."""

    task: RegressionTask
    prompts: int

    @property
    def identity(self) -> str:
        return f"side by side {self.task} held out {self.prompts}"

    @property
    def tokens(self) -> int:
        return self.task.n + 1

    def batch(self, seed: int, step: int, size: int, rows: slice = slice(None)) -> Batch:
        from icl.prompts import TRAIN_STREAM, Generator

        return _batch(self.task.sample(size, Generator(TRAIN_STREAM, seed, step))).rows(rows)

    @property
    def read(self) -> slice:
        return slice(self.task.n, self.task.n + 1)

    @property
    def slot(self) -> slice:
        return slice(self.task.d, 2 * self.task.d)

    nats = False

    def batches(self, seeds: Sequence[int], step: int, size: int) -> Batch:
        """As `batch`, of every seed."""
        from icl.prompts import TRAIN_STREAM, Generator

        return _batch(self.task.samples(size, [Generator(TRAIN_STREAM, seed, step) for seed in seeds]))

    def held_out(self, width: float = 1.0) -> Iterator[Batch]:
        """One batch, whose context's inputs are so many times as wide."""
        from experiments.attnres.toy.prompts import at_widths
        from icl.prompts import HELD_OUT_STREAM, Generator
        from icl.training.objectives import HELD_OUT_SEED

        prompts = self.task.sample(self.prompts, Generator(HELD_OUT_STREAM, HELD_OUT_SEED, 0))
        yield _batch(at_widths(prompts, width))

    def losses(self, answer: Tensor, targets: Tensor) -> Tensor:
        """(batch, 1)."""
        found: Tensor = (answer[:, self.read, self.slot].float() - targets).square().sum(-1)
        return found


def _batch(prompts: Prompts) -> Batch:
    from experiments.attnres.toy.prompts import side_by_side
    from icl.training.objectives import Batch

    return Batch(side_by_side(prompts), prompts.label[..., None, :])


@dataclass(frozen=True, kw_only=True)
class ToyArm(Arm):
    """An arm whose prompts are side by side."""

    def key(self, device: str) -> str:
        return f"{super().key(device)}-side-by-side"

    def task(self, rank: int = 0, count: int = 1) -> Task:  # noqa: ARG002
        assert isinstance(self.source, PromptSource)
        return SideBySide(self.source.regression, self.source.held_out_prompts)


def largest(model: Decoder, task: Task, device: str) -> list[float | None]:
    """By width of the held-out prompts: the largest read, root mean square over tokens; in float64, None where it is
    larger than these numbers."""
    from experiments.attnres.networks import reads

    assert isinstance(task, SideBySide)
    exact = deepcopy(model).double().eval()
    found: list[float | None] = []
    for width in WIDTHS.values():
        inputs = next(task.held_out(width)).inputs.to(device).double()
        size = max(float(read.square().sum(-1).mean().sqrt()) for read in reads(exact, inputs))
        found.append(size if isfinite(size) else None)
    return found


def trained(config: Config, run: RunFolder, label: str) -> Json:
    """By network and seed: the largest reads by width of the prompts, None where the training diverged; and losses."""
    source = PromptSource(*config.task.floats, config.held_out_prompts, scored="last")

    def arm(name: str, depth: int, seed: int) -> Arm:
        network = NETWORKS[BASELINE if name == TWIN else name]
        return ToyArm(
            architecture=config.trained(network, depth),
            variant=network.variant,
            source=source,
            recipe=config.recipe,
            seed=seed,
            std=config.std,
            twin=name == TWIN,
            probes=(PROBE,),
            label=BASELINE if name == TWIN else name,
        )

    # The longest first, so that none is left to run alone at the end.
    depths = (config.deeper, *reversed(config.trained_depths))
    cells = [(name, depth) for depth in depths for name in (*NETWORKS, TWIN)]
    by_seed = rounds(lambda seed: {at: arm(*at, seed) for at in cells}, config.trained_seeds, run, label, train_stacked)
    records = [record for of_seed in by_seed for record in of_seed.values()]
    return {
        "trained": {cell(*at): [of_seed[at]["probes"][PROBE]["end"] for of_seed in by_seed] for at in cells},
        "losses": {cell(*at): [of_seed[at]["loss"] for of_seed in by_seed] for at in cells},
        "diverged": [record["diverged"] for record in records if record["diverged"]],
        "provenance": of_runs(records),
    }
