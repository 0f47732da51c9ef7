"""Shared parts of the campaign's figures: gains against tokens, means with bands, and rows of differences."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from experiments.campaign.question import CONTROL
from experiments.campaign.reading import arms, gain, over
from experiments.store.folders import Json
from experiments.verdicts.intervals import Interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes

THIRD = "third vanilla"
HALF, LONGEST = math.sqrt(2.0), 12  # a half doubling of tokens, and how many are drawn at most
PRINTED: dict[str, Any] = {"marker": "x", "color": "#b3261e", "linestyle": "none", "markersize": 7}


def gains(axis: Axes, name: str, group: Json, words: Mapping[str, str], shown: Sequence[str] = ()) -> None:
    """Draw the gain of arms by tokens, at the constant rate: means over half doublings, 95 % at each.

    Args:
        axis: to draw on.
        name: of the group.
        group: as `Question.measure` leaves it.
        words: what arms are called, where it is not by their names.
        shown: arms beside the third vanilla; by default all.
    """
    from experiments.drawing import style

    first = next(iter(group["lengths"].values()))
    ends = [x for i in range(LONGEST, -1, -1) if (x := group["constant"] / HALF**i) > first / 2]
    lines = group["curve"]["tokens_per_parameter"]
    spans = [(a, b) for a, b in pairwise(ends) if any(a < at <= b for at in lines)]
    places = [math.sqrt(a * b) for a, b in spans]
    for arm in (CONTROL, *(shown or arms(group))):
        points = [gain(over(group, *span), arm) for span in spans]
        line(axis, places, points, label=words.get(arm, THIRD if arm == CONTROL else arm), **look(arm))
    axis.axhline(0, color="#999999", linewidth=0.8)
    axis.set_ylabel("training loss minus vanilla's (nats per token)")
    axis.set_title(name)
    style.tokens_per_parameter(axis, places)


def line(axis: Axes, x: Sequence[float], points: Sequence[Interval], *, color: str, **about: Any) -> None:
    """Draw means with a band of their intervals."""
    axis.plot(x, [p.mean for p in points], color=color, **about)
    low, high = ([p.mean + sign * p.half_width for p in points] for sign in (-1, 1))
    axis.fill_between(x, low, high, color=color, alpha=0.15, linewidth=0)


def look(arm: str) -> dict[str, Any]:
    """Return the look of an arm's line; a third vanilla shows no effect."""
    from experiments.drawing import style

    return {key: x for key, x in style.look("twin" if arm == CONTROL else arm).items() if key != "marker"}


def in_rows(
    axis: Axes,
    intervals: Sequence[Interval],
    labels: Sequence[str],
    *,
    color: str = "#1a1a1a",
    label: str,
    printed: Sequence[float | None] = (),
    source: str = "",
) -> None:
    """Draw hollow markers with intervals around zero, row by row; crosses: `printed`, of all rows or none."""
    places = list(range(len(intervals), 0, -1))
    axis.axvline(0, color="#1a1a1a", linewidth=1, linestyle="--")
    axis.errorbar(
        [i.mean for i in intervals],
        places,
        xerr=[i.half_width for i in intervals],
        fmt="o",
        color=color,
        markerfacecolor="white",
        label=label,
    )
    known = [(x, place) for x, place in zip(printed or [None] * len(places), places, strict=True) if x is not None]
    if known:
        axis.plot(*zip(*known, strict=True), label=source, **PRINTED)
    axis.set_yticks(places, labels)
    axis.set_ylim(0.4, len(intervals) + 0.6)
