"""Predicted losses of in-context regression at every position, for trained models to be compared with."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LOOKS: dict[str, dict[str, Any]] = {
    "predict zero": {"color": "#999999", "linestyle": ":"},
    "one optimal step": {"color": "#555555", "linestyle": "--"},
    "three optimal steps": {"color": "#555555", "linestyle": "-."},
    "minimum norm": {"color": "#b0b0b0", "linestyle": "-"},
    "Bayes ridge": {"color": "#000000", "linestyle": "-"},
}


def curves(d: int, n: int, sigma: float, pairs: Sequence[int] | None = None) -> dict[str, list[float | None]]:
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


def draw(axis: Axes, curves: Mapping[str, Sequence[float | None]], pairs: Sequence[int] | None = None) -> None:
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
