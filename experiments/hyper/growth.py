"""Ask how fast streams grow with depth, at the most and typically, under four ways to connect sublayers.

Sublayers stand behind a norm and put out vectors of one length.  At the most, they are aligned: each turns its input
into the direction of the embedding.  Typically they are random rotations, so outputs are uncorrelated.  The networks
are run as they are written, stream by stream; what theory says comes from weights over depth (`theory.hyper.streams`).
What is measured is the mean of the streams; of Attention Residuals, the last read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from typing import TYPE_CHECKING, Any

from experiments.drawing import style
from experiments.experiment.protocol import Experiment, Kind, Profile
from experiments.store.folders import Json, RunFolder
from experiments.verdicts.checks import Check
from experiments.verdicts.intervals import t_interval
from theory.hyper.paper import PAPER
from theory.hyper.streams import grown, largest, typical_mean

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.figure import Figure

    from theory.hyper.streams import Array

GROWTH, STOCHASTIC = "hyper.growth", "hyper.doubly-stochastic"
ROUNDING = 1e-9  # of lengths, relative
ITERATIONS = 20  # of Sinkhorn's, as published
Depths = tuple[int, ...]


@dataclass(frozen=True)
class Way:
    """A way to connect sublayers, and its figure's marks.

    claim   the ledger entry that its growth bears on
    """

    words: str
    claim: str
    color: str
    line: str
    marker: str


WAYS = {
    "prenorm": Way("PreNorm: one residual stream", STOCHASTIC, "#1a1a1a", "--", "s"),
    "hyper": Way("hyper-connections, H off the identity", GROWTH, PAPER.colour, "-", "o"),
    "mhc": Way(f"mHC: {ITERATIONS} Sinkhorn steps", STOCHASTIC, "#2f7fb8", ":", "^"),
    "attnres": Way("Full attention over depth", GROWTH, "#1d6b34", "-.", "P"),
}


@dataclass(frozen=True, kw_only=True)
class Config:
    """The networks.

    Attributes:
        streams: Streams of hyper-connections and mHC.
        width: The width of a stream.
        depths: Numbers of sublayers.
        off: How far H of hyper-connections is from the identity: the deviation of a row's entries, times sqrt(streams).
        logits: The deviation of mHC's logits, from which Sinkhorn iterations make H.
        embedding: The embedding's length; outputs have length 1.
    """

    streams: int
    width: int
    depths: Depths
    off: float
    logits: float
    embedding: float


CPU = Config(streams=4, width=32, depths=(1, 2, 4, 8, 16, 32, 64, 128), off=0.1, logits=2.0, embedding=1.0)
SMOKE = replace(CPU, width=8, depths=(1, 8, 32))
FULL = replace(CPU, width=128, depths=(*CPU.depths, 256))
DETECTS = "50 % of a typical length, and a length at the most that is off by 1e-9"


class Growth:
    name = "hyper-growth"
    title = "How fast do streams grow with depth, at the most and typically?"
    caption = (
        "mHC grows with depth as PreNorm does, hyper-connections off the identity geometrically. Length of the mean "
        "stream (for attention over depth, of the last read) over sublayers behind norms with outputs of length 1: "
        "(a) at the most, (b) root mean squares, random rotations. Lines: theory. Markers: networks; in (b) over "
        "seeds, with joint 95 % intervals."
    )
    kind: Kind = "theory"
    claims: tuple[str, ...] = (GROWTH, STOCHASTIC)
    profiles: Mapping[str, Profile] = {
        "smoke": Profile(config=SMOKE, seeds=20, seconds=2, detects=DETECTS),
        "cpu": Profile(config=CPU, seeds=100, seconds=10, detects=DETECTS),
        "full": Profile(config=FULL, seeds=1000, seconds=300, detects=DETECTS),
    }

    def predict(self, config: Config) -> Json:
        return {
            "assumes": "norms with eps = 0 before sublayers, outputs of length 1; at the most: aligned outputs, H of "
            "hyper-connections (1 + eps) I, attention over depth on the newest output; typically: random rotations, "
            "independent entries of H - I, attention over depth with zero queries",
            "source": "theory.hyper.streams",
            "rule": "at the most: equal to rounding; typically: the mean square lies in the interval over seeds",
            "embedding": config.embedding,
            "largest": {way: {str(d): largest_mean(way, config, d) for d in config.depths} for way in WAYS},
            "typical": {way: {str(d): typical_square(way, config, d) for d in config.depths} for way in WAYS},
        }

    def measure(self, config: Config, seeds: int, run: RunFolder) -> Json:  # noqa: ARG002 - takes seconds
        """Return lengths of aligned networks, and squares of random ones' lengths by seed, by way and depth."""
        found: Json = {"largest": {}, "squares": {}}
        for way in WAYS:
            found["largest"][way] = lengths(way, config, seed=None)
            by_seed = [lengths(way, config, seed) for seed in range(seeds)]
            found["squares"][way] = {str(d): [one[str(d)] ** 2 for one in by_seed] for d in config.depths}
        return found

    def compare(self, prediction: Json, measurement: Json) -> Sequence[Check]:
        checks = []
        count = sum(map(len, prediction["typical"].values()))
        for way, about in WAYS.items():
            for depth, bound in prediction["largest"][way].items():
                residual = prediction["largest"]["prenorm"][depth]
                other = prediction["embedding"] if bound == residual else residual
                checks.append(
                    Check.exact(
                        id=f"largest/{way}/{depth}",
                        group=f"{about.words}, at the most",
                        claim=about.claim,
                        statement="an aligned network is as long as theory says, to rounding",
                        predicted=bound,
                        measured=measurement["largest"][way][depth],
                        slack=ROUNDING * bound,
                        controls=(other,),  # no growth of what grows as a residual stream, and its growth of others
                        quantity="length of the mean stream, aligned",
                    )
                )
                square, squares = prediction["typical"][way][depth], measurement["squares"][way][depth]
                checks.append(
                    Check.sampled(
                        t_interval([x / square for x in squares], count),
                        id=f"typical/{way}/{depth}",
                        group=f"{about.words}, typically",
                        claim=about.claim,
                        statement="the mean square of random networks is what theory says",
                        predicted=1.0,
                        controls=(2.25, 1 / 2.25),
                        quantity="mean square of the mean stream's length, over theory's",
                    )
                )
        return checks

    def draw(self, prediction: Json, measurement: Json) -> Figure:
        fig, axes = style.figure(2, width=4.6, height=4.6)
        count = sum(map(len, prediction["typical"].values()))
        for way, about in WAYS.items():
            look: dict[str, Any] = {"color": about.color, "linestyle": about.line}
            marks: dict[str, Any] = {"color": about.color, "marker": about.marker, "linestyle": "none"}
            depths = [int(depth) for depth in prediction["largest"][way]]
            axes[0].plot(depths, list(prediction["largest"][way].values()), **look)
            found = [measurement["largest"][way][str(d)] for d in depths]
            axes[0].plot(depths, found, markerfacecolor="white", **marks)
            axes[1].plot(depths, [sqrt(x) for x in prediction["typical"][way].values()], **look)
            roots = [t_interval(measurement["squares"][way][str(d)], count).root() for d in depths]
            style.bars(axes[1], depths, roots, color=about.color, marker=about.marker)
            for axis in axes:
                axis.plot([], [], label=about.words, markerfacecolor="white", **{**marks, **look})
        for axis, title in zip(axes, ("At the most", "Typically, random rotations"), strict=True):
            axis.set_xscale("log", base=2)
            axis.set_yscale("log")
            axis.xaxis.set_major_formatter("{x:g}")
            axis.set_xlabel("sublayers")
            axis.set_ylabel("length of the mean stream (outputs: 1)")
            axis.set_title(title)
        style.finish(axes)
        return fig


def largest_mean(way: str, config: Config, depth: int) -> float:
    """Return theory's largest length of the mean stream after so many sublayers."""
    import numpy as np

    sizes = [config.embedding, *[1.0] * depth]
    match way:
        case "prenorm":
            return float(largest(np.ones(depth + 1), sizes))
        case "hyper":
            return float(grown(1 + config.off, depth, embedding=config.embedding, output=1.0))
        case "mhc":
            return float(grown(1, depth, embedding=config.embedding, output=1.0))
    return float(largest(np.eye(depth + 1)[-1], sizes))


def typical_square(way: str, config: Config, depth: int) -> float:
    """Return theory's mean square of the mean stream's length, over random H and rotations."""
    first = config.embedding**2
    residual = grown(1, depth, embedding=first, output=1.0)
    match way:
        case "hyper":
            return float(typical_mean(config.off, depth, streams=config.streams, embedding=first, output=1.0))
        case "attnres":
            return float(residual / (depth + 1) ** 2)
    return float(residual)


def lengths(way: str, config: Config, seed: int | None) -> dict[str, float]:
    """Return the length of the mean stream after every depth, of one network.  None: the aligned network."""
    import numpy as np

    deepest, n, d = max(config.depths), config.streams, config.width
    rng = np.random.default_rng(seed or 0)
    along = np.eye(d)[0]

    def output(h: Array) -> Array:
        unit = h / np.linalg.norm(h)
        return along * (unit @ along) if seed is None else rotated(unit, rng)

    streams = np.tile(config.embedding * along, (n, 1))
    outputs = [config.embedding * along]
    found: dict[str, float] = {}
    for sublayer in range(deepest):
        if way == "attnres":
            read = outputs[-1] if seed is None else np.mean(outputs, axis=0)
            outputs.append(output(read))
            last = outputs[-1] if seed is None else np.mean(outputs, axis=0)
        else:
            mix = mixing(way, config, None if seed is None else rng)
            streams = mix @ streams + output(streams[sublayer % n])
            last = streams.mean(0)
        if sublayer + 1 in config.depths:
            found[str(sublayer + 1)] = float(np.linalg.norm(last))
    return found


def mixing(way: str, config: Config, rng: np.random.Generator | None) -> Array:
    """Return H of one sublayer; None: the aligned network's."""
    import numpy as np

    from theory.hyper.sinkhorn import sinkhorn

    one = np.eye(config.streams)
    if way == "mhc":
        logits = config.logits * (rng or np.random.default_rng(0)).standard_normal(one.shape)
        return sinkhorn(np.exp(logits), ITERATIONS)
    if way != "hyper":
        return one
    if rng is None:
        return (1 + config.off) * one
    return one + config.off * rng.standard_normal(one.shape) / sqrt(config.streams)


def rotated(unit: Array, rng: np.random.Generator) -> Array:
    """Return a vector of length 1 in a random direction: a random rotation of `unit`, of which it is independent."""
    import numpy as np

    drawn = rng.standard_normal(len(unit))
    return drawn / np.linalg.norm(drawn)


EXPERIMENT: Experiment = Growth()
