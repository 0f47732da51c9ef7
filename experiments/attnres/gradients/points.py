"""Which networks are looked at, and how results name them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import log
from statistics import pstdev

from experiments.store.folders import Json
from theory.plans.architecture import Architecture

CLAIM = "attnres.start-gradients"
RULES = {"vanilla": "PreNorm", "attnres": "Full", "attnres-block:size=4": "Block of 4 sublayers"}
OUTPUTS = {"plain": False, "scaled": True}  # what writes to the stream: as all matrices, or over the root of 2 layers


@dataclass(frozen=True, kw_only=True)
class Config:
    """stds: deviations of initial matrices and embeddings at which networks are built; shown: two of them, of which
    every read is shown, outputs plain; curve: for closed forms alone."""

    sizes: Architecture
    stds: tuple[float, ...]
    shown: tuple[float, float]
    curve: tuple[float, ...]

    def __post_init__(self) -> None:
        if not set(self.shown) <= set(self.stds):
            raise ValueError("what is shown is measured")

    @property
    def exact(self) -> Architecture:
        """The sizes with eps = 0, as the closed form has it."""
        return replace(self.sizes, norm_eps=0.0)

    def cells(self) -> Iterator[tuple[str, str, float]]:
        return ((rule, outputs, std) for rule in RULES for outputs in OUTPUTS for std in self.stds)


def cell(rule: str, outputs: str, std: float) -> str:
    """How results name a network."""
    return f"{rule}/{outputs}/{std:g}"


def over_last(measurement: Json, at: str) -> list[list[float]]:
    """By read, one number of every seed: their mean is the square's mean over that of PreNorm's at the last read, their
    spread that of this ratio.

    x / m - r (y / m - 1), linear about the means, for a square x, the last read's y of the same seed, the mean m of y
    and the ratio r of means: m is sampled, too.
    """
    _, outputs, std = at.split("/")
    last = [of_seed[-1] for of_seed in measurement["squares"][f"vanilla/{outputs}/{std}"]]
    mean = sum(last) / len(last)

    def linear(of_read: tuple[float, ...]) -> list[float]:
        ratio = sum(of_read) / len(of_read) / mean
        return [x / mean - ratio * (y / mean - 1) for x, y in zip(of_read, last, strict=True)]

    return [linear(of_read) for of_read in zip(*measurement["squares"][at], strict=True)]


def unevenness(squares: Sequence[float]) -> float:
    """Standard deviation over sublayers' reads of the logarithm of a gradient's root mean square; the head's norm, the
    last one, is left out."""
    return pstdev(log(square) / 2 for square in squares[:-1])
