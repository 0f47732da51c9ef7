"""What is trained, what of it is compared, and the words for it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import correlation, fmean
from types import MappingProxyType

from experiments.store.folders import Json
from experiments.training.campaign import BASELINE
from icl.recipe import Recipe
from theory.plans.architecture import Architecture

UNIFORM, CONCENTRATION, SHORT, SINKS, DRAINS, SIMILAR = (
    "resformer.entropy-of-uniform",
    "resformer.concentration",
    "resformer.concentration-length",
    "resformer.sinks",
    "resformer.value-drains",
    "resformer.concentration-and-similarity",
)
RESFORMER, NEUTRENO = "resformer", "neutreno"
ARMS = (BASELINE, RESFORMER, NEUTRENO)  # of Figs. 10 and 19; the first two are also of Figs. 1 and 20
SHORTER = (4, 2, 1)  # the context, and what parts of it the entropy is asked of, as in Fig. 20


@dataclass(frozen=True, kw_only=True)
class Config:
    architecture: Architecture
    data: str
    vocab: int
    recipe: Recipe
    arms: tuple[str, ...] = ARMS
    held_out_windows: int = 64


def lengths(context: int) -> list[int]:
    """Of the sequences that the entropy is asked of, none shorter than two tokens."""
    return sorted({max(2, context // part) for part in SHORTER})


@dataclass(frozen=True)
class Statistic:
    """One number of a model, from what its probe told.

    zero    what it is where attention is uniform over the past, or nothing drains or peaks
    """

    of: Callable[[Json, Json], float]
    claim: str
    quantity: str
    words: str


def _later(values: Sequence[float]) -> Sequence[float]:
    """Of the layers that the value residual reaches: all but the first."""
    return values[1:] or values


def _logs(values: Sequence[float]) -> float:
    return fmean(math.log(value) for value in _later(values))


def entropy(told: Json, prediction: Json, length: int | None = None) -> float:
    """Mean over layers from 2 on, less that of uniform attention."""
    at = str(length or prediction["lengths"][-1])
    return fmean(_later(told["entropy"][at])) - prediction["uniform_entropy"][at]


def _declines(told: Json, prediction: Json) -> float:
    by_layer = told["entropy"][str(prediction["lengths"][-1])]
    return float(by_layer[-1] - by_layer[0])


def _sink(told: Json, prediction: Json) -> float:
    return math.log(fmean(_later(told["first"])) / prediction["uniform_first"])


def _short_less_long(told: Json, prediction: Json) -> float:
    ends = prediction["lengths"][0], prediction["lengths"][-1]
    short, long = (entropy(told, prediction, length) for length in ends)
    return short - long


def together(told: Json, prediction: Json) -> float:
    """Correlation over layers of the entropy with the similarity of the states that the layer leaves."""
    by_layer = told["entropy"][str(prediction["lengths"][-1])]
    similar = told["similarity"][1:]
    if len(by_layer) < 2 or min(map(len, map(set, (by_layer, similar)))) < 2:
        return math.nan
    return correlation(by_layer, similar)


LOG = "log of a ratio"
STATISTICS: Mapping[str, Statistic] = MappingProxyType(
    {
        "entropy": Statistic(
            entropy,
            CONCENTRATION,
            "nats, mean over layers from 2 on",
            "the entropy of token importance, less uniform attention's",
        ),
        "depth": Statistic(_declines, CONCENTRATION, "nats", "the entropy of the last layer less the first's"),
        "lengths": Statistic(
            _short_less_long,
            SHORT,
            "nats, mean over layers from 2 on",
            "the entropy on the shortest sequences less that on the longest, each less uniform attention's",
        ),
        "sink": Statistic(_sink, SINKS, LOG, "the first token's importance over uniform attention's"),
        "drain": Statistic(
            lambda told, _: _logs(told["value_first"]),
            SINKS,
            LOG,
            "the first token's value over the others', of what heads attend over",
        ),
        "own drain": Statistic(
            lambda told, _: _logs(told["own_first"]),
            DRAINS,
            LOG,
            "the first token's value over the others', of what a layer projects",
        ),
        "peak": Statistic(
            lambda told, _: _logs(told["state_first"]), SINKS, LOG, "the first token's state over the others'"
        ),
        "similarity": Statistic(
            lambda told, _: fmean(_later(told["similarity"])),
            SIMILAR,
            "mean cosine, mean over layers",
            "the similarity of tokens' states",
        ),
    }
)


@dataclass(frozen=True)
class Said:
    """What a figure of the paper leads one to expect, by its sign.

    arm, less   the statistic of one arm, less that of another: of none where it is compared with nothing happening
    """

    statistic: str
    arm: str
    less: str | None
    sign: int
    place: str

    @property
    def key(self) -> str:
        return f"{self.statistic}/{self.arm}" + (f"/{self.less}" if self.less else "")


SAID = (
    Said("entropy", BASELINE, None, -1, "Fig. 1 (middle)"),
    Said("depth", BASELINE, None, -1, "Fig. 1 (middle)"),
    Said("sink", BASELINE, None, 1, "Figs. 10 and 19"),
    Said("drain", BASELINE, None, -1, "Figs. 10 and 19"),
    Said("peak", BASELINE, None, 1, "Figs. 10 and 19"),
    Said("sink", NEUTRENO, None, 1, "Fig. 19"),
    Said("drain", NEUTRENO, None, -1, "Fig. 19"),
    Said("peak", NEUTRENO, None, 1, "Fig. 19"),
    Said("entropy", RESFORMER, BASELINE, 1, "Fig. 1 (middle)"),
    Said("depth", RESFORMER, BASELINE, 1, "Fig. 1 (middle)"),
    Said("lengths", RESFORMER, BASELINE, 1, "Fig. 20"),
    Said("sink", RESFORMER, BASELINE, -1, "Fig. 10"),
    Said("drain", RESFORMER, BASELINE, 1, "Fig. 10"),
    Said("own drain", RESFORMER, BASELINE, 1, "section 4.5"),
    Said("peak", RESFORMER, BASELINE, -1, "Fig. 10"),
    Said("similarity", RESFORMER, BASELINE, -1, "introduction and appendix A.1"),
)


def said_of(arms: Sequence[str]) -> list[Said]:
    """What is said of these arms alone."""
    return [said for said in SAID if {said.arm, said.less or said.arm} <= set(arms)]
