"""The figure of a ladder of several tasks: what is explained at the first width, and what each variant leads by."""

from __future__ import annotations

from math import nan

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.across.ladder.looks import ABREAST, bars
from experiments.across.ladder.reading import Results
from experiments.drawing import style
from experiments.store.folders import Json
from experiments.training.campaign import BASELINE
from experiments.verdicts.intervals import t_interval

TOY = 0.6  # of the way to the next task, the width of the toy's line


def draw(results: Results) -> Figure:
    """A row for each of the first and the last rung that are trained."""
    rungs = list(dict.fromkeys([results.rungs[0], results.rungs[-1]]))
    fig, axes = style.figure(2, len(rungs), width=5.6, height=3.7)
    for i, rung in enumerate(rungs):
        _shares(axes[2 * i], results, rung)
        _leads(axes[2 * i + 1], results, rung)
    for letter, axis in zip("abcd", axes, strict=False):
        axis.set_title(f"({letter}) {axis.get_title(loc='left')}", loc="left")
        axis.set_xticks(range(len(results.tasks)), [_tick(results, task) for task in results.tasks], fontsize=7)
        axis.set_xlim(-0.5, len(results.tasks) - 0.5)
        axis.set_xlabel("task: d, numbers of x and of a token; n, pairs; $\\sigma$, noise")
    handles = dict(zip(*reversed(axes[0].get_legend_handles_labels()), strict=True))
    fig.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=6)
    return fig


def _tick(results: Results, task: str) -> str:
    numbers = results.tasks[task]
    return f"d = {numbers['d']}, n = {numbers['n']}\n$\\sigma$ = {numbers['sigma']:g}"


def _shares(axis: Axes, results: Results, rung: str) -> None:
    """Long lines: the toy's, of vanilla and of the variants."""
    arms = (BASELINE, *results.variants)
    for i, (task, numbers) in enumerate(results.tasks.items()):
        width, once = results.width(task), i == 0
        ridge = [numbers["ridge"]] * 2
        axis.plot([i - 0.4, i + 0.4], ridge, color="black", linewidth=0.8, label="Bayes ridge" if once else None)
        bounds = _bounds(numbers, rung, BASELINE)
        if bounds:
            _proved(
                axis, _place(i, 0, len(arms)), bounds, "proved, if scores of layer 1 are of positions" if once else None
            )
        for j, variant in enumerate(arms):
            at, found = _place(i, j, len(arms)), t_interval(results.shares(rung, task, variant, width))
            toy = numbers["share"].get(variant, {}).get(str(width))
            _toy(axis, i, toy, variant)
            bars(axis, [at], [found], variant if once else None, style.look(variant))
            if results.converged(rung, task, variant, width):
                _full(axis, at, found.mean, variant)
    axis.set_ylim(-0.05, 1.05)
    axis.set_ylabel("share of the signal explained")
    axis.set_title(f"Rung {rung}, width d, 95 %; lines: the toy's; filled: converged")


def _leads(axis: Axes, results: Results, rung: str) -> None:
    """Of each variant over vanilla, family-wise; filled where the pair is judged."""
    axis.axhline(0, color="#1a1a1a", linestyle="--", linewidth=1)
    for i, (task, numbers) in enumerate(results.tasks.items()):
        width = results.width(task)
        for j, variant in enumerate(results.variants):
            at, found = _place(i, j, len(results.variants)), results.gap(rung, task, variant, width)
            _toy(axis, i, results.toy_gap(task, variant, width), variant)
            both = _bounds(numbers, rung, variant), _bounds(numbers, rung, BASELINE)
            if both[0] and both[1]:
                _proved(axis, at, [both[0][0] - both[1][1], both[0][1] - both[1][0]])
            bars(axis, [at], [found], None, style.look(variant))
            if results.judged(rung, task, variant, width):
                _full(axis, at, found.mean, variant)
    axis.set_ylabel("lead over vanilla (share of the signal)")
    axis.set_title(f"Rung {rung}: lead at width d, family-wise 95 %; filled: judged")


def _bounds(numbers: Json, rung: str, variant: str) -> list[float] | None:
    """What is proved of the share at the first width."""
    found: list[float] | None = numbers["proved"].get(rung, {}).get(variant, {}).get(str(numbers["widths"][0]))
    return found


def _proved(axis: Axes, at: float, bounds: list[float], name: str | None = None) -> None:
    axis.plot([at] * 2, bounds, color="#bdbdbd", linewidth=7, solid_capstyle="butt", zorder=1, label=name)


def _place(task: int, arm: int, arms: int) -> float:
    return task + 2 * ABREAST * (arm - (arms - 1) / 2)


def _toy(axis: Axes, task: int, toy: float | None, variant: str) -> None:
    at, shown = [task - TOY / 2, task + TOY / 2], style.look(variant)
    y = nan if toy is None else toy
    axis.plot(at, [y, y], color=shown["color"], linestyle=shown["linestyle"], linewidth=1.0, alpha=0.7, zorder=2)


def _full(axis: Axes, at: float, y: float, variant: str) -> None:
    shown = style.look(variant)
    axis.plot([at], [y], color=shown["color"], marker=shown["marker"], linestyle="none", zorder=4)
