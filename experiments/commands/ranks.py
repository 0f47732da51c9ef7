"""A plan's lowest loss at every rank of the compression, beside MHA's and SkipV1Former's, and their figure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from experiments.drawing import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from theory.skipv1.bounds import LossBounds
    from theory.toy.value_maps import Optimum

PLAN: dict[str, Any] = {"marker": "^", "color": "#b3261e", "linestyle": "none", "markerfacecolor": "white"}


@dataclass(frozen=True)
class AtRank:
    """Lowest losses at one rank, in squared units of y.

    Attributes:
        rank: How many numbers of x a compressed token keeps.
        plan: The plan's; None where no more than bounds are asked for.
        bounds: MHA's and SkipV1Former's; None where no theorem speaks of the task.
    """

    rank: int
    plan: Optimum | None
    bounds: LossBounds | None


NAMED = {"vanilla": "mha", "skipv1": "skipv1"}  # variants that the theorems speak of by themselves


def _is_shown(name: str, rows: Sequence[AtRank]) -> bool:
    """Return whether the plan is shown beside the theorems' two: it is not if it is one of them, with its losses."""
    if name not in NAMED or not all(row.plan and row.bounds for row in rows):
        return bool(rows[0].plan)
    sides = [(row.plan, getattr(row.bounds, NAMED[name])) for row in rows]
    return not all(plan and math.isclose(plan.loss, x.lower) and x.lower == x.upper for plan, x in sides)


def cells(name: str, rows: Sequence[AtRank]) -> list[tuple[str, ...]]:
    """Return a table of the losses: the names of its columns, then a row a rank."""
    shown = _is_shown(name, rows)
    plan, bounds = [name] if shown else [], ["MHA", "SkipV1Former"] if rows[0].bounds else []
    table = [("rank a", *plan, *bounds)]
    for row in rows:
        cell = [str(row.rank)]
        if shown and row.plan is not None:
            cell.append(f"{row.plan.loss:.6g}")
        if row.bounds is not None:
            sides = [(x.lower, x.upper) for x in (row.bounds.mha, row.bounds.skipv1)]
            cell += [f"{low:.6g}" if low == high else f"{low:.6g} to {high:.6g}" for low, high in sides]
        table.append(tuple(cell))
    return table


def draw(name: str, task: str, rows: Sequence[AtRank], zero: float) -> Figure:
    """Draw over the rank (a) all losses, (b) how far the others lie below MHA's.

    Args:
        name: Of the plan.
        task: In words.
        rows: One a rank.
        zero: The loss of predicting zero.
    """
    from matplotlib.ticker import MaxNLocator

    fig, axes = style.figure(2, width=4.2)
    known = [(row.rank, row.bounds) for row in rows if row.bounds is not None]
    ranks = [rank for rank, _ in known]
    for toy, (label, line, _) in style.TOYS.items():
        both = [getattr(bounds, toy) for _, bounds in known]
        _draw_between(axes[0], ranks, [(x.lower, x.upper) for x in both], label=label, line=line)
    gaps = [(bounds.gap_least, bounds.gap_most) for _, bounds in known]
    _draw_between(axes[1], ranks, gaps, label=style.TOYS["skipv1"][0], line=style.SKIPV1)
    found = {row.rank: row.plan for row in rows if row.plan is not None} if _is_shown(name, rows) else {}
    if found:
        exact = all(optimum.method == "closed form" for optimum in found.values())
        look = {**PLAN, "label": name if exact else f"{name}, lowest descent"}
        axes[0].plot(list(found), [optimum.loss for optimum in found.values()], **look)
        below = {a: x.mha.lower - found[a].loss for a, x in known if a in found and x.mha.lower == x.mha.upper}
        if below:
            axes[1].plot(list(below), list(below.values()), **look)
    axes[0].axhline(zero, color="#999999", linewidth=0.8, label="predicting zero")
    axes[1].axhline(0, color="#1a1a1a", linewidth=0.8)
    if known and all(x.mha.lower == x.mha.upper and x.skipv1.lower == x.skipv1.upper for _, x in known):
        fair = min(x.mha.lower for _, x in known) - min(x.skipv1.lower for _, x in known)
        label = f"best rank to best rank: {fair:.4g}"
        axes[1].axhline(fair, color=style.SKIPV1["color"], linewidth=0.8, linestyle=":", label=label)
    axes[0].set_title(f"Lowest loss of two linear layers, {task}")
    axes[0].set_ylabel(r"loss $E\,\|y_{n+1} - \hat y_{n+1}\|^2$  (units of $y^2$)")
    axes[1].set_title("Gap: MHA's loss minus that of others, at equal rank")
    axes[1].set_ylabel("gap (units of $y^2$)")
    for axis in axes:
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
        axis.set_xlabel("rank $a$ of the copy of $x$ (of $d$ numbers)")
    style.finish(axes)
    return fig


def _draw_between(
    axis: Axes, x: Sequence[int], sides: Sequence[tuple[float, float]], label: str, line: dict[str, Any]
) -> None:
    """Draw a line where both sides are equal everywhere; else the band between them."""
    if not sides:
        return
    lower, upper = zip(*sides, strict=True)
    if lower == upper:
        axis.plot(x, lower, label=label, marker=".", **line)
        return
    axis.fill_between(x, lower, upper, label=f"{label}, between bounds", color=line["color"], alpha=0.25, linewidth=0)
    for side in (lower, upper):
        axis.plot(x, side, marker=".", **{**line, "linewidth": 0.8})
