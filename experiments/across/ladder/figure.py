"""The figures of the ladder: leads over the rungs and how often one training finds them; the null; other tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from experiments.across.ladder.setting import FIRST, NULL, RUNGS
from experiments.across.ladder.verdicts import chance, leads, null_rows, searched
from experiments.drawing import style
from experiments.drawing.marks import Mark, judged
from experiments.store.folders import Json
from experiments.training.campaign import BASELINE, TWIN
from experiments.verdicts.intervals import Interval, share_interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TOY = {"color": "#d98a2b", "linestyle": "--", "linewidth": 1.2}
LEAD = "lead over vanilla (share of the signal)"
TITLES = {"reached": "Reached: the best of all", "found": "Found by one training"}
HELD = {"agrees": True, "contradicts": False}


def draw(prediction: Json, measurement: Json) -> Figure:
    """Draw leads as reached and as found, and how often one training comes near to what is reached."""
    fig, axes = style.panels(3, width=4.4, height=3.6)
    task = measurement["task"]
    for axis, (what, title) in zip(axes, TITLES.items(), strict=False):
        _over_rungs(
            axis, {rung: leads(measurement, task, rung, what=what) for rung in RUNGS}, prediction["tasks"][task]["lead"]
        )
        axis.set_ylabel(LEAD)
        axis.set_title(title)
    bottoms, tops = zip(*(axis.get_ylim() for axis in axes[:2]), strict=True)
    for axis in axes[:2]:
        axis.set_ylim(min(bottoms), max(tops))
    for arm in measurement["reached"][task][FIRST]["share"]:
        if arm != TWIN:
            counts = [chance(measurement, task, rung, arm=arm) for rung in RUNGS]
            _bars(axes[2], arm, [(k / n, *share_interval(k, n, method="exact")) for k, n in counts])
    axes[2].set_ylim(-0.03, 1.03)
    axes[2].set_ylabel("share of trainings near what is reached")
    axes[2].set_title("How often one training does")
    for axis in axes:
        axis.set_xticks(range(len(RUNGS)), [f"+ {rung}" if rung != FIRST else rung for rung in RUNGS])
        axis.set_xlabel("rung")
    style.finish(axes)
    return fig


def null(prediction: Json, measurement: Json) -> Figure:
    """Draw the leads where the toy allows none: as reached, and as one training finds them."""
    fig, axes = style.figure(2, width=4.6, height=3.9)
    for axis, (what, title) in zip(axes, TITLES.items(), strict=True):
        marks, labels = list[Mark](), dict[str, str]()
        for row, width in null_rows(prediction, measurement, what):
            arm = row.id.rpartition("/")[2]
            labels[arm] = "twin (control)" if arm == TWIN else arm
            interval = Interval(row.measured, row.stderr, row.tolerance)
            marks.append(Mark(arm, f"width {width}", interval, held=HELD.get(row.verdict)))
        judged(axis, marks, labels, band=NULL)
        axis.set_xlabel(LEAD)
        axis.set_title(title)
    style.finish(axes)
    return fig


def tasks(prediction: Json, measurement: Json) -> Figure:
    """Draw one variant's lead as reached, by task and rung."""
    fig, (axis,) = style.figure(1, width=5.6, height=3.9)
    for at, (task, about) in enumerate(prediction["tasks"].items()):
        by_rung = {rung: leads(measurement, task, rung, what="reached") for rung in RUNGS}
        arm = next((name for name in by_rung[FIRST] if name != TWIN), TWIN)
        decided = {arm, BASELINE} <= searched(prediction, measurement, task)
        if (toy := about["lead"].get(arm)) is not None:
            axis.plot([at - 0.4, at + 0.4], [toy, toy], label=None if at else "the toy", **TOY)  # type: ignore[arg-type]
        for i, (rung, marker) in enumerate(zip(RUNGS, style.MARKERS, strict=False)):
            look = {"label": None if at else f"{arm}, {rung}", "marker": marker, "color": style.look(arm)["color"]}
            look |= {} if decided else {"color": "#b8b8b8"}
            style.bars(axis, [at + 0.18 * (i - 1.5)], [by_rung[rung][arm]], **look)
    axis.axhline(0, color="#1a1a1a", linewidth=0.8)
    axis.set_xticks(range(len(prediction["tasks"])), [f"d = {about['d']}" for about in prediction["tasks"].values()])
    axis.set_xlabel("numbers of x; prompts of 2 d pairs, noise 0.1")
    axis.set_ylabel(LEAD)
    axis.set_title("Reached: the best of all, at width d")
    style.legend_below(axis)
    return fig


def _over_rungs(axis: Axes, by_rung: Mapping[str, Mapping[str, Interval]], toy: Mapping[str, float | None]) -> None:
    """Draw every arm's lead over the rungs, with the toy's as a line."""
    for i, level in enumerate(sorted({x for x in toy.values() if x is not None})):
        axis.axhline(level, label=None if i else "the toy", **TOY)  # type: ignore[arg-type]
    axis.axhline(0, color="#1a1a1a", linewidth=0.8)
    for arm in by_rung[FIRST]:
        ends = [by_rung[rung][arm] for rung in RUNGS]
        _bars(axis, arm, [(x.mean, x.mean - x.half_width, x.mean + x.half_width) for x in ends])


def _bars(axis: Axes, arm: str, points: Sequence[tuple[float, float, float]]) -> None:
    """Draw an arm's middles over the rungs, with both ends of their intervals."""
    beside = 0.09 * (len(axis.containers) - 1.5)
    middles = [middle for middle, *_ in points]
    errors = [[m - low for m, low, _ in points], [high - m for m, _, high in points]]
    look = {**style.look(arm), "linestyle": "none", "markerfacecolor": "white"}
    axis.errorbar([i + beside for i in range(len(points))], middles, yerr=errors, label=arm, **look)
