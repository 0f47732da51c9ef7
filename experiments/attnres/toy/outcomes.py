"""What norms do to trained toys, against what theory leads one to expect: which of them have a bound at all.

A training that diverged has no reads.  Exponents are of the seeds in which none of a pair's trainings did, which takes
the largest reads away; how many these are is said beside.  At the deepest toys it is asked only which ones diverge.

A norm before the head stands behind all reads and bounds none of them, but it keeps the loss from growing with them; so
it has networks of its own, beside those whose sublayers alone have norms.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from statistics import linear_regression

from experiments.attnres.toy.points import BASELINE, BOUNDED, NETWORKS, NORMS, TWIN, WIDTHS, cell
from experiments.store.folders import Json
from experiments.training.campaign import expected
from experiments.verdicts.checks import Expectation
from experiments.verdicts.intervals import Interval, t_interval
from experiments.verdicts.orders import convolved, widest_by_chance

LEVEL = 0.05
UNKEYED = ("residual", "full")  # of which there are networks with each norm alone
NONE = Interval(math.nan, math.nan, math.nan)


def outcomes(prediction: Json, measurement: Json) -> list[Expectation]:
    return [*_exponents(prediction, measurement), *_divergences(prediction, measurement)]


def without(name: str) -> str:
    """The network without norms before its sublayers, and its head."""
    return name.removesuffix("+sublayers").removesuffix("+head")


def _exponents(prediction: Json, measurement: Json) -> list[Expectation]:
    """Of the largest read as a power of the number of layers."""
    found: list[Expectation] = []
    pairs = {
        **{(name, without(name)): NORMS for name in NETWORKS if NETWORKS[name].normed},
        **{(name, BASELINE): BOUNDED for name in prediction["bounded"]},
    }
    family = len(pairs) * len(WIDTHS)
    for width in WIDTHS:
        slopes = {name: exponents(prediction, measurement, name, width) for name in (*NETWORKS, TWIN)}
        twin = interval(differences(slopes[TWIN], slopes[BASELINE]), family)
        for (name, other), claim in pairs.items():
            of_both = differences(slopes[name], slopes[other])
            statement = (
                f"trained, on prompts {width}, the largest read grows with depth by a smaller power with norms before "
                f"sublayers ({NETWORKS[name].words}) than without ({NETWORKS[other].words}); neither diverged in "
                f"{len(of_both)} of {len(slopes[name])} seeds"
            )
            found.append(
                expected(
                    f"exponent/{width}/{name}/{other}",
                    f"trained, prompts {width}: exponent of the largest read over depth, less that without the norms",
                    claim,
                    statement,
                    "sign",
                    -1.0,
                    interval(of_both, family),
                    twin,
                    quantity="difference of exponents",
                )
            )
    return found


def _divergences(prediction: Json, measurement: Json) -> Iterator[Expectation]:
    """At the deepest toys: seeds in which the share of trainings that diverge is smaller, less those in which it is
    larger.  By chance either sign would be as likely."""
    depth, about = prediction["deeper"], NETWORKS
    comparisons = {
        f"diverged/{depth}": (
            [name for name in about if about[name].normed],
            [name for name in about if not (about[name].normed or about[name].head)],
            f"at {depth} layers fewer trainings diverge where sublayers start with a norm than where nothing does",
        ),
        f"diverged/{depth}/head": (
            [name for name in about if about[name].normed and not about[name].head and without(name) in UNKEYED],
            [name for name in about if about[name].head and not about[name].normed],
            f"at {depth} layers fewer trainings diverge where sublayers alone start with a norm than the head",
        ),
    }
    twin, _ = _balance(prediction, measurement, [TWIN], [BASELINE])
    for place, (some, others, statement) in comparisons.items():
        balance, seeds = _balance(prediction, measurement, some, others)
        widest = widest_by_chance(convolved([{-1: 0.5, 1: 0.5}] * seeds), LEVEL / len(comparisons)) / seeds
        yield expected(
            place,
            "trained: share of trainings that diverge, with norms before sublayers and without",
            NORMS,
            statement,
            "sign",
            -1.0,
            Interval(balance / seeds, seeds**-0.5, widest),
            Interval(twin / seeds, seeds**-0.5, widest),
            quantity="seeds with fewer, less those with more, over all",
        )


def _balance(prediction: Json, measurement: Json, some: Sequence[str], others: Sequence[str]) -> tuple[int, int]:
    """Seeds in which a larger share of `some` diverges, less those in which a smaller one does; and all seeds."""
    shares = [
        [
            sum(of_seed) / len(names)
            for of_seed in zip(*(diverged(prediction, measurement, n) for n in names), strict=True)
        ]
        for names in (some, others)
    ]
    signs = [(a > b) - (a < b) for a, b in zip(*shares, strict=True)]
    return sum(signs), len(signs)


def diverged(prediction: Json, measurement: Json, name: str) -> list[bool]:
    """Of every seed, at the deepest toys."""
    return [probed is None for probed in measurement["trained"][cell(name, prediction["deeper"])]]


def exponents(prediction: Json, measurement: Json, name: str, width: str) -> list[float]:
    """Slope of the largest read's logarithm over that of the number of layers, by seed; nan where one diverged."""
    depths = [math.log(depth) for depth in prediction["trained_depths"]]
    cells = (largest(measurement, name, depth, width) for depth in prediction["trained_depths"])
    return [linear_regression(depths, list(map(math.log, sizes))).slope for sizes in zip(*cells, strict=True)]


def largest(measurement: Json, name: str, depth: int, width: str) -> list[float]:
    """Of every seed, the largest read; nan where the training diverged, or the read is beyond floating point."""
    place = list(WIDTHS).index(width)
    sizes = [probed and probed[place] for probed in measurement["trained"][cell(name, depth)]]
    return [math.nan if size is None else size for size in sizes]


def differences(some: Sequence[float], others: Sequence[float]) -> list[float]:
    """Paired, of the seeds that have both."""
    return [a - b for a, b in zip(some, others, strict=True) if math.isfinite(a - b)]


def interval(values: Sequence[float], family: int) -> Interval:
    """Of the mean; none of fewer than two values."""
    return t_interval(values, family) if len(values) > 1 else NONE
