"""What the panels of both figures of `skipv1-w0` share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.drawing import style
from experiments.skipv1.around_w0.points import (
    SIGMA,
    Point,
    Prior,
    best,
    scale,
)
from experiments.store.folders import Json

LOSS = r"loss less noise / $E\,\|W^*\|^2$"
DIFFERENCE = r"SkipV1Former less MHA / $E\,\|W^*\|^2$"


def panels(four: Sequence[Callable[[Axes, Json, Json], None]], prediction: Json, measurement: Json) -> Figure:
    fig, axes = style.figure(2, rows=2, width=4.2, height=4.3)
    for axis, panel in zip(axes, four, strict=True):
        panel(axis, prediction, measurement["exact"])
    style.finish(axes)
    return fig


def place_of(spectrum: Any, c: float, d: int, n: int, heads: int) -> str:
    return Point(Prior(spectrum, c), d, n, "mha", heads, d).place


def share(loss: float, d: int, c: float) -> float:
    return (loss - d * SIGMA**2) / scale(d, c)


def difference(exact: Json, place: str, d: int, c: float) -> float:
    return (best(exact, place, "skipv1", d) - best(exact, place, "mha", d)) / scale(d, c)


def shown(prediction: Json) -> tuple[int, int]:
    return prediction["curve"][0]["d"], prediction["curve"][0]["n"]


def greys() -> list[str]:
    return ["#bdbdbd", "#8f8f8f", "#5f5f5f", "#303030", "#000000", "#000000"]
