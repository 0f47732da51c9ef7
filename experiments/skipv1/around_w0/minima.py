"""Exact minima around W0: priors, points, and the sweeps of a configuration."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from experiments.store.desk import Desk
from experiments.store.folders import Json, RunFolder
from experiments.store.work import results
from experiments.toys.runs import point_key
from theory.plans.heads import ORDINARY, SKIP

if TYPE_CHECKING:
    from numpy import float64
    from numpy.typing import NDArray

Spectrum = Literal["identity", "turned", "decaying", "rank one"]
Toy = Literal["mha", "skipv1"]
TOYS: tuple[Toy, ...] = ("mha", "skipv1")
SIGMA = 0.1
ENOUGH = 0  # heads
D_HEADS, N_HEADS, C_HEADS = 3, 2, 8.0  # where heads are counted, and spectra compared


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


def place_of(prior: Prior, d: int, n: int, heads: int, *, skips: int | None = None, biased: bool = False) -> str:
    """Return all of a point's name but the architecture and the rank: what optima are compared at."""
    words = "enough" if heads == ENOUGH else heads
    skipping = "" if skips is None else f", {skips} skip"
    return f"{prior.spectrum} {prior.c:g}, d{d} n{n}, {words} heads{skipping}{', C x' if biased else ''}"


@dataclass(frozen=True)
class Point:
    """One exact minimisation.

    Attributes:
        heads: Of one architecture.
        starts: Descents that begin; with enough heads, where few optima are local, `finished` begin.
        finished: Descents, the lowest, that go on to their end.
        skips: Skip heads of SkipV1Former; None: half of its heads.
        biased: Whether a free term C x is in the prediction.
    """

    prior: Prior
    d: int
    n: int
    toy: Toy
    heads: int
    rank: int
    starts: int = 1
    finished: int = 1
    skips: int | None = None
    biased: bool = False

    @property
    def place(self) -> str:
        return place_of(self.prior, self.d, self.n, heads=self.heads, skips=self.skips, biased=self.biased)

    @property
    def key(self) -> str:
        return point_key(self.place, self.toy, self.rank)

    @property
    def descents(self) -> int:
        """The number of descents that begin."""
        return self.finished if self.heads == ENOUGH else self.starts


@dataclass(frozen=True, kw_only=True)
class Config:
    """The figures' questions, each a sweep.

    Attributes:
        d: Width of panels (a), (b): W0 = c I over c, two heads, all ranks at `n`; ranks from d/2 on at all `contexts`.
        widths: Panel (c): over d, at every n of `at_widths`, W0 = `large` I, the two highest ranks.
        heads: Heads' (a): their number, at d = 3, n = 2, W0 = 8 I; enough heads are always there.
        spectra: Heads' (c): W0 of other spectra with the same norm, at (d, n), c = 8; (d): what enough heads win there.
        biased: Heads' (d): W0 of these spectra, two heads and a term C x.
        mixed: Heads' (b): d, n and a number of heads, of which none to all are skip heads, at a = d, W0 = 8 I.
        starts: As in `Point`; finished too.
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


def points(config: Config) -> Iterator[Point]:
    """Yield all minimisations, some of them asked for by several panels."""
    descents = config.starts, config.finished
    for toy in TOYS:
        for prior, d, n, heads, ranks, biased in _sweeps(config):
            for rank in ranks:
                yield Point(prior, d, n, toy, heads, rank, *descents, biased=biased)
    d, n, heads = config.mixed
    for skips in range(heads + 1):
        yield Point(Prior("identity", C_HEADS), d, n, "skipv1", heads, d, *descents, skips)


def _sweeps(config: Config) -> Iterator[tuple[Prior, int, int, int, Sequence[int], bool]]:
    """Yield prior, d, n, heads, ranks and whether there is a term C x, of both architectures."""
    d, n, every = config.d, config.n, range(1, config.d + 1)
    for c in config.scales:
        for context in config.contexts if c else (n,):
            ranks = every if context == n else range(d // 2, d + 1)
            yield Prior("identity", c), d, context, 2, ranks, False
        yield Prior("identity", c), d, n, ENOUGH, every, False
    for width in config.widths:
        for context in config.at_widths:
            yield Prior("identity", config.large), width, context, 2, (width - 1, width), False
    for heads in (*config.heads, ENOUGH):
        yield Prior("identity", C_HEADS), D_HEADS, N_HEADS, heads, range(1, D_HEADS + 1), False
    for spectrum in config.spectra:
        for heads in (2, ENOUGH):
            yield Prior(spectrum, C_HEADS), d, n, heads, every, False
    for spectrum in config.biased:
        yield Prior(spectrum, C_HEADS), d, n, 2, every, True


def minimise_all(config: Config, run: RunFolder) -> Json:
    """Return by point the lowest loss of its descents, and how many of them ended there."""
    kind, items = "exact minimum", {point.key: point for point in points(config)}
    return results(kind, items, _minimise, run=run, label=kind, size=lambda point: point.descents)


def _minimise(point: Point, desk: Desk) -> Json:
    from theory.prompts.moments import PromptMoments
    from theory.toy.enough_heads import EnoughHeads
    from theory.toy.minimise import minimise
    from theory.toy.population import PopulationLoss

    def report(done: int, *_: float) -> None:
        if done < point.descents:
            desk.report(done, point.key)

    moments = PromptMoments(point.d, point.n, SIGMA, w0=point.prior.matrix(point.d), centred=point.biased)
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


def by_rank(exact: Json, place: str, toy: str, d: int) -> dict[int, float]:
    """Return the loss at every rank that was minimised."""
    keys = {rank: point_key(place, toy, rank) for rank in range(d + 1)}
    return {rank: float(exact[key]["loss"]) for rank, key in keys.items() if key in exact}


def best(exact: Json, place: str, toy: str, d: int) -> float:
    """Return the lowest loss over the ranks that were minimised."""
    return min(by_rank(exact, place, toy, d=d).values())
