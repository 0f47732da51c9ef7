"""Times of sides that are compared: in turns, so that a machine that gets slower slows all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import median

from experiments.store.folders import Json
from experiments.store.progress import progress

TURNS = 5
WIDEST = 2.0  # a ratio whose turns lie further apart, as a factor, is not stated


def in_turns(sides: Mapping[str, Callable[[], float]], turns: int | None = None) -> dict[str, list[float]]:
    """Return seconds by side and turn, by default TURNS of them.

    A side does its work and returns what it took.  All sides of a turn come after one another; a first turn warms up
    and is not kept.
    """
    turns = TURNS if turns is None else turns
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    with progress("turns", (turns + 1) * len(sides)) as at:
        for turn in range(turns + 1):
            for i, (name, side) in enumerate(sides.items()):
                at(turn * len(sides) + i, name)
                took = side()
                if turn:
                    seconds[name].append(took)
        at((turns + 1) * len(sides))
    return seconds


def ratio(over: Sequence[float], under: Sequence[float]) -> Json:
    """Return the turns' ratios: median, lowest and highest.  `ratio` is None where they differ too much."""
    ratios = sorted(a / b for a, b in zip(over, under, strict=True))
    low, high = ratios[0], ratios[-1]
    return {"ratio": median(ratios) if high <= WIDEST * low else None, "low": low, "high": high}


def words(result: Json, digits: int = 3) -> str:
    """Return a ratio with its range, or that it is undecided."""
    low, high = f"{result['low']:.{digits}f}", f"{result['high']:.{digits}f}"
    if result["ratio"] is None or result["high"] > WIDEST * result["low"]:
        return f"undecided: ranges from {low} to {high}, by more than a factor of {WIDEST:g}"
    return f"{result['ratio']:.{digits}f} ({low} to {high})"
