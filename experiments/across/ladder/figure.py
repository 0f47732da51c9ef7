"""The figure of the ladder: worth over the rungs, the order of the variants, what is explained, and how often."""

from __future__ import annotations

from math import inf, isfinite, nan
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.across.ladder import by_task
from experiments.across.ladder.looks import ABREAST, bars
from experiments.across.ladder.orders import levels, order, places
from experiments.across.ladder.reading import NEARLY, Results
from experiments.across.ladder.rungs import THEORY
from experiments.drawing import style
from experiments.store.folders import Json
from experiments.training.campaign import BASELINE
from experiments.verdicts.intervals import t_interval

EDGES = {inf: r"$\uparrow$", -inf: r"$\downarrow$"}  # of factors beyond what was trained
_SAID: dict[str, Any] = {"textcoords": "offset points", "ha": "right", "va": "bottom", "fontsize": 7}


def draw(prediction: Json, measurement: Json) -> Figure:
    """Of a single task, at the first width, over the rungs; of several, by task."""
    results = Results(prediction, measurement)
    if len(results.tasks) > 1:
        return by_task.draw(results)
    task = next(iter(results.tasks))
    fig, axes = style.figure(2, 2, width=5.6, height=3.7)
    worth, order, share, often = axes
    _worth(worth, results, task)
    _order(order, results, task)
    _shares(share, results, task)
    _set_in(often, results, task)
    for letter, axis in zip("abcd", axes, strict=True):
        axis.set_title(f"({letter}) {axis.get_title(loc='left')}", loc="left")
        rungs = [THEORY, *results.rungs]
        axis.set_xticks(range(len(rungs)), [_tick(results, rung) for rung in rungs], fontsize=7)
        axis.set_xlim(-0.5, len(rungs) - 0.5)
        axis.set_xlabel("rung, and what it adds")
    handles = dict(zip(*reversed(share.get_legend_handles_labels()), strict=True))
    fig.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=6)
    return fig


def _tick(results: Results, rung: str) -> str:
    if rung == THEORY:
        return "1\ntheory"
    added = results.prediction["rungs"][rung].replace("a trained ", "trained\n").replace("-forward", "-\nforward")
    return f"{rung}\n{added}"


def _places(results: Results, i: int) -> list[float]:
    """Of the i-th variant on all rungs, theory's first."""
    middle = len(results.variants) / 2
    return [x + ABREAST * (i - middle) for x in range(1 + len(results.rungs))]


def _worth(axis: Axes, results: Results, task: str) -> None:
    """Lines join what is judged; what is not stands alone and pale, and not at all where nothing bounds it.

    Of explaining all but NEARLY as much, as it is judged: where vanilla no longer grows no other worth has an end.
    Points beyond what was trained stand at the edge, as arrows; so do intervals that are open there.
    """
    numbers = results.tasks[task]
    width, most = results.width(task), max(numbers["vanilla_widths"])
    axis.set_ylabel("vanilla's width for the same loss,\nover the variant's (factor)")
    axis.set_title(f"Worth at width {width}, all but {NEARLY:g} of the signal, 95 %; pale: not converged")
    if len(numbers["vanilla_widths"]) < 2:
        return
    toys = {v: numbers["worth"].get(v, {}).get(str(width)) for v in results.variants}
    low, high = 0.8, 1.25 * max([most / width, *filter(None, toys.values())])
    for toy in dict.fromkeys(filter(None, toys.values())):
        axis.axhline(toy, color="#1a1a1a", linewidth=1, linestyle="--" if toy == 1 else (0, (6, 2, 1, 2)), zorder=1)
        if toy == 1:  # at the left, as on the last rungs models as good as vanilla stand there
            axis.annotate("as vanilla", (2 * ABREAST, toy), xytext=(2, 2), **{**_SAID, "ha": "left"})
        else:
            at_edge = axis.get_yaxis_transform()
            axis.annotate(f"the toy: {toy:.3g}", (1, toy), xycoords=at_edge, xytext=(-2, 2), **_SAID)
    for i, variant in enumerate(results.variants):
        look, at, toy = style.look(variant), _places(results, i + 1), toys[variant] or nan
        joined = [(at[0], toy)]
        for x, rung in zip(at[1:], results.rungs, strict=True):
            found = results.worth(rung, task, variant, width, less=NEARLY)
            y = min(max(found.factor, low), high)
            if not (isfinite(found.least) or isfinite(found.most)) or not _shown(results, rung, task, variant):
                continue
            judged = results.judged(rung, task, variant, width, wider=True)
            joined += [(x, y)] if judged else []
            ends = [[y - max(found.least, low)], [min(found.most, high) - y]]
            edge = EDGES.get(found.factor, look["marker"])
            shown = {"mfc": look["color"], "alpha": 1.0} if judged else {"mfc": "white", "alpha": 0.45}
            size = 5 if edge == look["marker"] else 8
            axis.errorbar([x], [y], ends, color=look["color"], marker=edge, ms=size, elinewidth=0.8, **shown)
        axis.plot(*zip(*joined, strict=True), linewidth=1, color=look["color"], linestyle=look["linestyle"])
        axis.plot(at[:1], [toy], color=look["color"], marker=look["marker"], linestyle="none")
    axis.set_yscale("log", base=2)
    axis.set_ylim(0.95 * low, 1.05 * high)
    ticks = [x for x in (1, 1.5, 2, 3, 4) if x < 1.05 * high]
    axis.set_yticks(ticks, [f"{x:g}" for x in ticks])
    axis.minorticks_off()


def _shown(results: Results, rung: str, task: str, variant: str) -> bool:
    """A model of its own, as two plans may be one in two layers, on a rung where something is learned."""
    width = results.width(task)
    return variant in results.distinct(rung, task, width) and results.learns(rung, task, width)


def _order(axis: Axes, results: Results, task: str) -> None:
    """Ranks of what has converged, as far as it is told apart; of the toy, which knows some variants only."""
    arms, width = (BASELINE, *results.variants), results.width(task)
    known = levels(results, task)
    columns = [places(known, [(a, b) for a in known for b in known if known[a] < known[b]])]
    for rung in results.rungs:
        found = places(results.distinct(rung, task, width), order(results, rung, task))
        shown = {v: place for v, place in found.items() if results.converged(rung, task, v, width)}
        columns.append(shown if len(shown) > 1 and results.learns(rung, task, width) else {})
    for i, variant in enumerate(arms):
        look, nudge = {**style.look(variant), "markerfacecolor": "white"}, ABREAST * (i - len(arms) / 2)
        ranks = [column.get(variant, nan) for column in columns]
        axis.plot([x + nudge for x in range(len(ranks))], ranks, **{**look, "linewidth": 1})
    axis.set_ylim(len(arms) + 0.6, 0.4)
    axis.set_yticks(range(1, len(arms) + 1))
    axis.set_ylabel("rank (1: explains most)")
    axis.set_title(f"Order at width {width}: told apart, family-wise 95 %, of what has converged")


def _shares(axis: Axes, results: Results, task: str) -> None:
    numbers = results.tasks[task]
    width = results.width(task)
    axis.axhline(numbers["ridge"], color="black", linewidth=0.8, label="Bayes ridge")
    for rung, by_variant in numbers["proved"].items():
        if bounds := by_variant[BASELINE][str(width)]:
            at = [_places(results, 0)[1 + results.rungs.index(rung)]] * 2
            name = "proved of vanilla" if rung == results.rungs[0] else None
            axis.plot(at, bounds, color="#bdbdbd", linewidth=7, solid_capstyle="butt", zorder=1, label=name)
    for i, variant in enumerate((BASELINE, *results.variants)):
        look, at = style.look(variant), _places(results, i)
        toy = numbers["share"].get(variant, {}).get(str(width))
        found = [t_interval(results.shares(rung, task, variant, width)) for rung in results.rungs]
        line = [nan if toy is None else toy, *(interval.mean for interval in found)]
        axis.plot(at, line, linewidth=0.8, color=look["color"], linestyle=look["linestyle"])
        axis.plot(at[:1], line[:1], color=look["color"], marker=look["marker"], linestyle="none")
        bars(axis, at[1:], found, f"{variant}", look)
        full = [results.converged(rung, task, variant, width) for rung in results.rungs]
        ends = [(x, interval.mean) for x, interval, is_full in zip(at[1:], found, full, strict=True) if is_full]
        axis.plot(*zip(*ends, strict=True), color=look["color"], marker=look["marker"], linestyle="none", zorder=4)
    axis.set_ylim(-0.05, 1)
    axis.set_ylabel("share of the signal explained")
    axis.set_title(f"Explained at width {width}, with all pairs, 95 %; filled: converged")


def _set_in(axis: Axes, results: Results, task: str) -> None:
    width = results.width(task)
    for i, variant in enumerate((BASELINE, *results.variants)):
        look, at = style.look(variant), _places(results, i)[1:]
        found = [results.sets_in(rung, task, variant, width) for rung in results.rungs]
        share = [s.count / s.trainings for s in found]
        ends = [
            [y - s.low for y, s in zip(share, found, strict=True)],
            [s.high - y for y, s in zip(share, found, strict=True)],
        ]
        axis.errorbar(
            at, share, ends, linestyle="none", color=look["color"], marker=look["marker"], mfc="white", elinewidth=0.8
        )
    axis.set_ylim(-0.05, 1.05)
    axis.set_ylabel("share of single trainings")
    axis.set_title(f"How often learning sets in, width {width}, 95 %")
