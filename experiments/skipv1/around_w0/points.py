"""What is minimised around W0: priors, points, and the sweeps of a configuration."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from experiments.store.desk import Desk
from experiments.store.folders import Json
from experiments.toys.runs import point_key
from theory.plans.heads import ORDINARY, SKIP

if TYPE_CHECKING:
    from numpy import float64
    from numpy.typing import NDArray


SIGMA = 0.1


Spectrum = Literal["identity", "turned", "decaying", "rank one"]


ENOUGH = 0  # heads
ALTERED = 0.02  # the negative controls: 2 % more or less explained


@dataclass(frozen=True)
class Prior:
    """W0 with ||W0||_F = c sqrt(d): c I, a rotation of it, singular values like 1/j, or one of them alone."""

    spectrum: Spectrum
    c: float

    def matrix(self, d: int) -> NDArray[float64]:
        import numpy as np

        turned = np.linalg.qr(np.random.default_rng(d).standard_normal((d, d)))[0]
        base = {
            "identity": np.eye(d),
            "turned": turned,
            "decaying": np.diag(1 / np.arange(1, d + 1)) @ turned,
            "rank one": np.diag([1.0] + [0.0] * (d - 1)) @ turned,
        }[self.spectrum]
        return base * (self.c * math.sqrt(d) / np.linalg.norm(base))


@dataclass(frozen=True)
class Point:
    """One exact minimisation.  heads: of one architecture; half of SkipV1Former's are skip heads, unless told.

    starts, finished    how many descents begin, and how many, the lowest, go on to their end; with enough heads, where
                        few optima are local, the latter alone are made
    biased              with a free term C x in the prediction
    """

    prior: Prior
    d: int
    n: int
    toy: Literal["mha", "skipv1"]
    heads: int
    rank: int
    starts: int = 1
    finished: int = 1
    skips: int | None = None
    biased: bool = False

    @property
    def place(self) -> str:
        """All but the architecture and the rank: what optima are compared at."""
        heads = "enough" if self.heads == ENOUGH else self.heads
        skips = "" if self.skips is None else f", {self.skips} skip"
        biased = ", C x" if self.biased else ""
        return f"{self.prior.spectrum} {self.prior.c:g}, d{self.d} n{self.n}, {heads} heads{skips}{biased}"

    @property
    def key(self) -> str:
        return point_key(self.place, self.toy, self.rank)


def size(point: Point) -> int:
    """How many descents begin."""
    return point.finished if point.heads == ENOUGH else point.starts


def minimised(point: Point, desk: Desk) -> Json:
    """The lowest loss that was found, and how many starts ended there."""
    from theory.prompts.moments import PromptMoments
    from theory.toy.enough_heads import EnoughHeads
    from theory.toy.minimise import minimise
    from theory.toy.population import PopulationLoss

    def report(done: int, *_: float) -> None:
        if done < size(point):
            desk.report(done, point.key)

    moments = PromptMoments(point.d, point.n, SIGMA, point.prior.matrix(point.d), centred=point.biased)
    if point.heads == ENOUGH:
        kinds = (ORDINARY,) if point.toy == "mha" else (ORDINARY, SKIP)
        ends = EnoughHeads(moments, kinds).minimise(point.rank, starts=point.finished, after_start=report)
        explained = float(moments.prior_power + point.d * SIGMA**2 - ends[0])
        return {"loss": ends[0], "agreeing": sum(end <= ends[0] + 1e-6 * explained for end in ends)}
    half = point.heads // 2 if point.toy == "skipv1" else 0
    skips = half if point.skips is None else point.skips
    loss = PopulationLoss(moments, (ORDINARY,) * (point.heads - skips) + (SKIP,) * skips)
    minimum = minimise(loss, point.rank, starts=point.starts, finished=point.finished, after_start=report)
    return {"loss": minimum.value, "agreeing": minimum.agreeing}


@dataclass(frozen=True, kw_only=True)
class Config:
    """The figure's questions, each a sweep.  starts, finished: of `Point`.

    d, n, scales    panels (a), (b): W0 = c I over c, two heads, all ranks at `n`; ranks from d/2 on at all `contexts`
    widths          (c): over d, at every n of `at_widths`, W0 = `large` I, the two highest ranks
    heads           (d): over the number of heads, at d = 3, n = 2, W0 = 8 I; enough heads are always there
    spectra         (e): W0 of other spectra with the same norm, at (d, n), c = 8; (h): what enough heads win there
    biased          (h): W0 of these spectra, two heads and a term C x
    mixed           (g): d, n and a number of heads, of which none to all are skip heads, at a = d, W0 = 8 I
    """

    d: int
    n: int
    scales: tuple[float, ...]
    contexts: tuple[int, ...]
    widths: tuple[int, ...]
    at_widths: tuple[int, ...]
    heads: tuple[int, ...]
    spectra: tuple[Spectrum, ...]
    biased: tuple[Spectrum, ...]
    mixed: tuple[int, int, int]
    starts: int
    finished: int
    large: float = 32.0


TOYS: tuple[Literal["mha", "skipv1"], ...] = ("mha", "skipv1")


D_HEADS, N_HEADS, C_HEADS = 3, 2, 8.0


def points(config: Config) -> Iterator[Point]:
    """All minimisations, some of them asked for by several panels."""
    d, descents = config.d, (config.starts, config.finished)
    for toy in TOYS:
        for c in config.scales:
            for n in config.contexts if c else (config.n,):
                for rank in range(1 if n == config.n else d // 2, d + 1):
                    yield Point(Prior("identity", c), d, n, toy, 2, rank, *descents)
            for rank in range(1, d + 1):
                yield Point(Prior("identity", c), d, config.n, toy, ENOUGH, rank, *descents)
        for width in config.widths:
            for n in config.at_widths:
                for rank in (width - 1, width):
                    yield Point(Prior("identity", config.large), width, n, toy, 2, rank, *descents)
        for heads in (*config.heads, ENOUGH):
            for rank in range(1, D_HEADS + 1):
                yield Point(Prior("identity", C_HEADS), D_HEADS, N_HEADS, toy, heads, rank, *descents)
        for spectrum in config.spectra:
            for heads in (2, ENOUGH):
                for rank in range(1, d + 1):
                    yield Point(Prior(spectrum, C_HEADS), d, config.n, toy, heads, rank, *descents)
        for spectrum in config.biased:
            for rank in range(1, d + 1):
                yield Point(Prior(spectrum, C_HEADS), d, config.n, toy, 2, rank, *descents, biased=True)
    d, n, heads = config.mixed
    for skips in range(heads + 1):
        yield Point(Prior("identity", C_HEADS), d, n, "skipv1", heads, d, *descents, skips)


def by_rank(exact: Json, place: str, toy: str, d: int) -> dict[int, float]:
    """The loss at every rank that was minimised."""
    keys = {rank: point_key(place, toy, rank) for rank in range(d + 1)}
    return {rank: float(exact[key]["loss"]) for rank, key in keys.items() if key in exact}


def best(exact: Json, place: str, toy: str, d: int) -> float:
    """The lowest loss over the ranks that were minimised."""
    return min(by_rank(exact, place, toy, d).values())


def scale(d: int, c: float) -> float:
    """E||W*||^2 = d^2 + ||W0||^2, the unit of all losses in the figure."""
    return d**2 + d * c**2
