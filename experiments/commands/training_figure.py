"""The figure of one training: its losses by step and, of prompts, by position, beside predicted ones."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from experiments.drawing import style
from experiments.store.folders import Json, RunFolder
from experiments.training.arms import Arm, PromptSource, RecallSource, TextSource
from theory.plans.law import PLAIN

if TYPE_CHECKING:
    from matplotlib.axes import Axes

STRETCHES = 16  # of theory's curves at most: each point takes a good part of a second
LOOKS: dict[str, dict[str, Any]] = {
    "predict zero": {"color": "#999999", "linestyle": ":"},
    "one optimal step": {"color": "#555555", "linestyle": "--"},
    "three optimal steps": {"color": "#555555", "linestyle": "-."},
    "minimum norm": {"color": "#b0b0b0", "linestyle": "-"},
    "Bayes ridge": {"color": "#000000", "linestyle": "-"},
}


def draw(record: Json, arm: Arm, run: RunFolder) -> None:
    """Draw figure.svg and figure.png of a training that has ended."""
    of_prompts, of_text = isinstance(arm.source, PromptSource), isinstance(arm.source, TextSource)
    with style.drawing():
        fig, axes = style.figure(2 if of_prompts else 1, width=4.5)
        axis = axes[0]
        axis.plot(*zip(*record["curve"], strict=True), label="training", color="#2f7fb8")
        if len(record["evaluations"]) > 1:
            axis.plot(*zip(*record["evaluations"], strict=True), "s--", label="held out", color="#1a1a1a")
        else:
            axis.axhline(record["loss"], color="#1a1a1a", linestyle="--", label="held out, at the end")
        if isinstance(arm.source, RecallSource):
            axis.axhline(arm.source.unmatched, color="#999999", linestyle=":", label="guessing among the values there")
        axis.set_xlabel("optimiser steps")
        nats = f"loss (nats per {'token' if of_text else 'query'})"
        axis.set_ylabel("loss (squared units of $y$)" if of_prompts else nats)
        axis.set_title(f"{record['name']}, seed {record['seed']}")
        if isinstance(arm.source, PromptSource):
            _draw_positions(axes[1], record, arm.source)
        style.finish(axes)
        style.save(fig, run.path)


def _draw_positions(axis: Axes, record: Json, source: PromptSource) -> None:
    """Draw held-out losses after every number of pairs, with 95 % of their sampling error, under theory's curves."""
    steps = min(source.n, STRETCHES)
    pairs = [round(i * source.n / steps) for i in range(steps + 1)]
    if source.law == PLAIN:
        curves = expected_losses(source.d, source.n, source.sigma, pairs=pairs)
    else:  # theory's other curves are of plain prompts
        curves = {"predict zero": [source.regression.zero_loss for _ in pairs]}
    draw_expected(axis, curves, pairs)
    losses, errors = record["held_out"]["loss"], [1.96 * e for e in record["held_out"]["stderr"]]
    after = range(source.n + 1)[-len(losses) :]
    axis.errorbar(after, losses, yerr=errors, fmt="o", color="#2f7fb8", mfc="white", label="held out, 95 %")
    axis.set_title("By position, at the end")


def expected_losses(d: int, n: int, sigma: float, pairs: Sequence[int] | None = None) -> dict[str, list[float | None]]:
    """Return losses E ||y - prediction||^2 after 0 .. n pairs (`theory.prompts.regression`); None where infinite.

    pairs   after so many, in place of all: each takes a good part of a second
    """
    from theory.prompts import regression

    pairs = range(n + 1) if pairs is None else pairs
    least_squares = [float(regression.minimum_norm(d, k, sigma)) for k in pairs]
    return {
        "predict zero": [regression.zero(d, sigma) for _ in pairs],
        "one optimal step": [regression.one_step(d, k, sigma) for k in pairs],
        "three optimal steps": [regression.steps(d, k, sigma, count=3).value for k in pairs],
        "minimum norm": [loss if math.isfinite(loss) else None for loss in least_squares],
        "Bayes ridge": [regression.ridge(d, k, sigma).value for k in pairs],
    }


def draw_expected(axis: Axes, curves: Mapping[str, Sequence[float | None]], pairs: Sequence[int] | None = None) -> None:
    """Draw the curves over the number of pairs, 0, 1, .. unless `pairs` says which, and label the axes."""
    for name, losses in curves.items():
        axis.plot(
            pairs or range(len(losses)),
            [math.nan if y is None else y for y in losses],
            label=name,
            lw=1.1,
            **LOOKS[name],
        )
    axis.set_ylim(0, 1.15 * max(y for y in curves["predict zero"] if y is not None))
    axis.set_xlabel("pairs in the context")
    axis.set_ylabel("loss (squared units of $y$)")
