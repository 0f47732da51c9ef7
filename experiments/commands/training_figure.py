"""The figure of one training: its losses by step and, of prompts, by position."""

from __future__ import annotations

from typing import TYPE_CHECKING

from experiments.drawing import curves as icl_curves
from experiments.drawing import style
from experiments.store.folders import Json, RunFolder
from experiments.training.arms import Arm, PromptSource, RecallSource, TextSource
from theory.plans.law import PLAIN

if TYPE_CHECKING:
    from matplotlib.axes import Axes

STRETCHES = 16  # of theory's curves at most: each point takes a good part of a second


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
        curves = icl_curves.curves(source.d, source.n, source.sigma, pairs=pairs)
    else:  # theory's other curves are of plain prompts
        curves = {"predict zero": [source.regression.zero_loss for _ in pairs]}
    icl_curves.draw(axis, curves, pairs)
    losses, errors = record["held_out"]["loss"], [1.96 * e for e in record["held_out"]["stderr"]]
    after = range(source.n + 1)[-len(losses) :]
    axis.errorbar(after, losses, yerr=errors, fmt="o", color="#2f7fb8", mfc="white", label="held out, 95 %")
    axis.set_title("By position, at the end")
