"""The figure of `scale-loss`: loss curves relative to vanilla's, and final differences beside what was predicted."""

from __future__ import annotations

from collections.abc import Mapping

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.drawing import style
from experiments.drawing.rows import in_rows
from experiments.store.folders import Json
from experiments.training.campaign import BASELINE, TWIN
from experiments.training.tuning import mark, other_rates, tuned_rates
from experiments.verdicts.intervals import Interval

WORDS = {-1: "better", 0: "same", 1: "worse"}


def draw(prediction: Json, measurement: Json, differences: Mapping[str, Interval]) -> Figure:
    fig, (curves, final) = style.figure(2, width=5.2, height=5.0)
    _curves(curves, measurement)
    _final(final, prediction, measurement, differences)
    style.finish([curves, final])
    return fig


def _curves(axis: Axes, measurement: Json) -> None:
    """Means over seeds of training losses on equal batches, less vanilla's: of what has vanilla's learning rate."""
    baseline = _mean_curve(measurement["curves"][BASELINE])
    axis.axhline(0, color="#1a1a1a", linewidth=1, linestyle="--", label=BASELINE)
    for name, by_seed in measurement["curves"].items():
        mine, base = tuned_rates((BASELINE if name == TWIN else name, BASELINE), measurement)
        if name == BASELINE or mine != base:
            continue
        curve = _mean_curve(by_seed)
        steps = [step for step in curve if step in baseline]
        look = {**style.look(name), "markevery": max(1, len(steps) // 6), "markerfacecolor": "white"}
        label = "vanilla, other initial weights" if name == TWIN else f"{name}{mark(name, measurement)}"
        axis.plot(steps, [curve[s] - baseline[s] for s in steps], label=label, linewidth=1.2, **look)
    axis.set_xlabel("optimiser steps")
    axis.set_ylabel("training loss less vanilla's (nats a token)")
    axis.set_title("Relative loss curves at vanilla's rate, mean over paired seeds")


def _mean_curve(by_seed: list[list[list[float]]]) -> dict[int, float]:
    """Over the steps that all seeds have reached."""
    curves = [{int(step): loss for step, loss in curve} for curve in by_seed]
    return {step: sum(c[step] for c in curves) / len(curves) for step in curves[0] if all(step in c for c in curves)}


def _final(axis: Axes, prediction: Json, measurement: Json, differences: Mapping[str, Interval]) -> None:
    names = [*prediction["papers"], TWIN]
    in_rows(
        axis,
        [differences[name] for name in names],
        [_label(prediction, measurement, name) for name in names],
        label="measured, 95 % for all at once",
        printed=[*(paper["nats"] for paper in prediction["papers"].values()), None],
        source="the paper's number, at its size",
    )
    axis.set_xlabel("held-out loss less vanilla's (nats a token)")
    axis.tick_params(axis="y", labelsize=8)
    axis.set_title("At the end, beside what was predicted")


def _label(prediction: Json, measurement: Json, name: str) -> str:
    if name == TWIN:
        return "vanilla, other\ninitial weights"
    paper, toy = prediction["papers"][name]["sign"], prediction["toy"][name]
    said = [f"{who}: {WORDS[sign]}" for who, sign in (("paper", paper), ("toy", toy)) if sign is not None]
    apart = other_rates((name, BASELINE), measurement)
    lines = [f"{name}{mark(name, measurement)}", ", ".join(said) or "nothing is said", apart.strip()]
    return "\n".join(filter(None, lines))
