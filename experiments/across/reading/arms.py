"""Losses of a model whose heads read layer 1's values, by which heads they are and whether a refit follows."""

from __future__ import annotations

import random
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

from experiments.across.reading.materials import (
    Material,
    Source,
    material,
    train,
)
from experiments.store.desk import Desk
from experiments.store.folders import Json, RunFolder
from experiments.training.by_layer import token_losses_of
from theory.plans.names import resolve
from theory.plans.plan import Plan, Shape

if TYPE_CHECKING:
    from icl.models.decoder import Decoder
    from icl.probes.reader_costs import Cell

FIXED, ANY = "skipv1", "skipv1:ratio=1,sink=1"  # the paper's heads; what every head may read, by advice
ADVICE, TRAINED, RAW, REFITTED, ADVISED, RANDOM = "advice", "unchanged", "raw", "fixed", "advised", "random"
FIRST_LOSS = 0.2  # of an arm's time, up to its first loss, if it is trained on
FITTED = 2 / 3  # of the sequences of advice, on which linear reads are fitted


@dataclass(frozen=True)
class Item:
    """One measurement on one model.

    Attributes:
        name: The model's name.
        source: The model.
        seed: Of its training and of random choices.
        arm: advice, or which heads are converted and how.
    """

    name: str
    source: Source
    seed: int
    arm: str

    @property
    def key(self) -> str:
        return f"{self.name}/{self.seed}/{self.arm}"


def arms_of(source: Source) -> tuple[str, ...]:
    """Return what is measured: the unchanged model, and every way to convert heads."""
    drawn = [f"{RANDOM} {k + 1}" for k in range(source.sizes.draws)]
    return (TRAINED, REFITTED, ADVISED, *([RAW] if source.sizes.raw else []), *drawn)


def count_of(shape: Shape) -> int:
    """Return how many heads the fixed choice converts: the others convert as many."""
    from icl.probes.reader_costs import candidates

    return len(candidates(resolve(FIXED, shape)))


def drawn(shape: Shape, *, seed: int, draw: int) -> list[Cell]:
    """Return as many heads as the fixed choice converts, drawn at random after layer 1; other ones for each draw."""
    cells, chosen = [(n, h) for n, h in shape.cells() if n > 1], list[list[tuple[int, int]]]()
    for k in range(draw + 1):
        source = random.Random(f"{seed} {k}")
        while (cells_drawn := sorted(source.sample(cells, count_of(shape)))) in chosen:
            pass
        chosen.append(cells_drawn)
    return chosen[draw]


def draw_of(arm: str) -> int:
    """Return the number of a random choice of heads, from 1; 0 for other arms."""
    return int(arm.removeprefix(RANDOM)) if arm.startswith(RANDOM) else 0


class Measuring:
    """Measurements, one model in memory at a time.

    Args:
        run: The run that they belong to.
        advice: Of models measured before, by the key of the item: what `advice` returned.
    """

    def __init__(self, run: RunFolder, advice: dict[str, Json] | None = None) -> None:
        self._run, self.advice = run, advice or {}
        self._last: tuple[str, Material] | None = None

    def __call__(self, item: Item, desk: Desk) -> Json:
        name = f"{item.name}/{item.seed}"
        if self._last is None or self._last[0] != name:
            self._last = None
            self._last = name, material(item.source, seed=item.seed, run=self._run)
        given = self._last[1]
        if item.arm == ADVICE:
            return predicted(given, seed=item.seed, draws=item.source.sizes.draws)
        return measured(given, item, self.advice.get(f"{name}/{ADVICE}", {}), desk)


def predicted(given: Material, *, seed: int, draws: int) -> Json:
    """Return which heads advice chooses, and predicted costs in nats per token: of it, and of random choices."""
    from icl.probes.reader_costs import costs

    rows, shape = given.advice, given.model.config.shape
    estimates = costs(
        given.model,
        resolve(ANY, shape),
        rows[:, :-1],
        targets=rows[:, 1:],
        fitted=round(FITTED * len(rows)),
    )
    count = count_of(shape)
    cost, stderr = estimates.predicted(count)
    chosen = estimates.chosen(count)
    sets = {f"{RANDOM} {k + 1}": drawn(shape, seed=seed, draw=k) for k in range(draws)}
    scores = estimates.scores()[0].tolist()
    return {
        "cost": {ADVISED: cost, **{name: estimates.of(cells)[0] for name, cells in sets.items()}},
        "stderr": {ADVISED: stderr, **{name: estimates.of(cells)[1] for name, cells in sets.items()}},
        "chosen": [list(cell) for cell in chosen],
        "scores": [[n, h, score] for (n, h), score in zip(estimates.cells, scores, strict=True)],
    }


def plan_of(arm: str, shape: Shape, *, seed: int, chosen: Sequence[Cell]) -> Plan:
    """Return the plan of an arm; `chosen`: the heads that advice chose."""
    from icl.probes.reader_costs import with_heads

    if arm in (RAW, REFITTED):
        return resolve(FIXED, shape)
    cells = chosen if arm == ADVISED else drawn(shape, seed=seed, draw=draw_of(arm) - 1)
    return with_heads(resolve(ANY, shape), cells)


def measured(given: Material, item: Item, advice: Json, desk: Desk) -> Json:
    """Return an arm's mean loss, and its losses by sequence; likewise after training on, if it is trained on."""
    from icl.conversion import convert
    from icl.refitting import refitted

    shape, sizes = given.model.config.shape, item.source.sizes
    further = 0 if draw_of(item.arm) > sizes.further_draws else sizes.further
    if item.arm == TRAINED:
        model = given.model
    else:
        chosen = [(n, h) for n, h in advice["chosen"]] if item.arm == ADVISED else []
        plan = plan_of(item.arm, shape, seed=item.seed, chosen=chosen)
        if item.arm == RAW:
            model = convert(given.model, plan, "first", shared=not further)
        else:
            model, _ = refitted(given.model, plan, given.fitted[:, :-1], shared=not further)
    first_losses = losses(model, given)
    result: Json = {"loss": fmean(first_losses), "by_sequence": first_losses}
    if further:
        desk.show(FIRST_LOSS)
        model = deepcopy(model) if item.arm == TRAINED else model
        train(
            model,
            given.further,
            steps=further,
            batch=sizes.batch,
            rate=sizes.rate,
            seed=item.seed,
            folder=desk.folder,
            report=lambda done: desk.report(FIRST_LOSS + (1 - FIRST_LOSS) * done / further, f"trained on, step {done}"),
        )
        result["further"] = losses(model, given)
    return result


def losses(model: Decoder, given: Material) -> list[float]:
    """Return the mean loss of every held-out sequence, in nats per token."""
    import torch

    from icl.training.objectives import GivenTokens

    task = GivenTokens(given.judged.numpy(), held_out_batch=1)
    model.eval()
    with torch.no_grad():
        return [float(token_losses_of(model, task, batch).double().mean()) for batch in task.held_out()]
