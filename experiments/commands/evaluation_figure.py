"""The figure of an evaluation: losses by position, a line a model."""

from __future__ import annotations

import numpy as np

from experiments.commands.layer_figures import looks
from experiments.drawing import style
from experiments.store.folders import Json, RunFolder

POINTS = 40  # of a line, at most: positions are put together, evenly in their logarithm


def draw(record: Json, run: RunFolder) -> None:
    """Draw figure.svg and figure.png."""
    with style.drawing():
        fig, (axis,) = style.figure(1, width=5.2)
        for about, look in zip(record["runs"], looks(record["runs"]), strict=True):
            x, mean, half = stretches(about["by_position"], first=first_position(about))
            axis.plot(x, mean, **look, markevery=max(1, len(x) // 8), markerfacecolor="white")
            axis.fill_between(x, mean - half, mean + half, color=look["color"], alpha=0.2, linewidth=0)
        if record["regression"]:
            axis.set_xlabel("pairs in the context")
            axis.set_ylabel("held-out loss (squared units of $y$)")
        elif record["per"] == "query":
            axis.set_xlabel("place among the queries")
            axis.set_ylabel("held-out loss (nats per query)")
        else:
            axis.set_xscale("log")
            axis.set_xlabel("tokens in the context")
            axis.set_ylabel("held-out loss (nats per token)")
        sequences = {about["sequences"] for about in record["runs"]}
        axis.set_title(f"By position, means of {', '.join(f'{n:,}' for n in sorted(sequences))} sequences, 95 %")
        style.finish([axis])
        style.save(fig, run.path)


def first_position(about: Json) -> int:
    """Return how many pairs, or tokens, a model has read before the first answer that counts."""
    return about["pairs"] + 1 - len(about["by_position"]["mean"]) if "pairs" in about else 1


def stretches(by_position: Json, *, first: int = 1) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return positions, from `first` on, means and 95 % half-widths, of stretches of positions."""
    mean, stderr = np.array(by_position["mean"]), np.array(by_position["stderr"])
    ends = np.unique(np.geomspace(1, len(mean), POINTS).astype(int))
    starts = np.concatenate([[0], ends[:-1]])
    parts = [slice(a, b) for a, b in zip(starts, ends, strict=True)]
    x = first + np.array([(part.start + part.stop - 1) / 2 for part in parts])
    return x, np.array([mean[p].mean() for p in parts]), 1.96 * np.array([stderr[p].mean() for p in parts])
