"""The picture of advice: a row a layer, a column a head, in the colour of the predicted cost."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from experiments.drawing import style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from experiments.commands.advising import Advice

MARK = 3.0  # points
LEAST = 1e-6  # nats per token, that still have a colour of their own


def draw(advice: Advice) -> Figure:
    """Return a figure of every head's predicted cost; circles mark the heads that the plan converts."""
    from matplotlib.colors import LogNorm
    from matplotlib.ticker import MaxNLocator

    shape = advice.model_folder.architecture.shape
    fig, (axis,) = style.figure(1, width=max(3.5, 0.35 * shape.heads + 2), height=max(2.5, 0.17 * shape.layers + 1))
    grid = [[math.nan] * shape.heads for _ in range(shape.layers)]
    for (layer, head), score in zip(advice.cells, advice.scores, strict=True):
        grid[layer - 1][head - 1] = max(score, LEAST)
    costs = [max(score, LEAST) for score in advice.scores]
    image = axis.imshow(
        grid,
        origin="lower",
        aspect="auto",
        cmap="cividis",
        norm=LogNorm(min(costs), max(max(costs), 1.01 * min(costs))),
        extent=(0.5, shape.heads + 0.5, 0.5, shape.layers + 0.5),
    )
    axis.plot(
        [head for _, head in advice.chosen],
        [layer for layer, _ in advice.chosen],
        "o",
        color="white",
        markeredgecolor="black",
        markersize=MARK,
    )
    axis.grid(False)
    axis.set_xlabel("value head")
    axis.set_ylabel("layer")
    axis.set_title("Which heads can read other values?")
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    axis.yaxis.set_major_locator(MaxNLocator(integer=True))
    fig.colorbar(image, ax=axis, label="predicted cost, nats per token")
    return fig
