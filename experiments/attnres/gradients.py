"""Ask whether gradients are more even over depth with Attention Residuals, as its summary says: at initial weights.

Gradients of parameters are PreNorm's, exactly, at zero queries and eps = 0.  What a sublayer sends back to its read is
not: it has a closed form in the limit of wide networks (`theory.attnres.start_gradients`), under which Full is more
even than PreNorm where outputs outweigh the embedding, and less where they do not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import log, sqrt
from statistics import pstdev
from typing import TYPE_CHECKING

from experiments.attnres.networks import read_squares
from experiments.drawing import style
from experiments.experiment.protocol import Experiment, Kind, Profile
from experiments.store.desk import Desk
from experiments.store.folders import Json, RunFolder
from experiments.store.work import results
from experiments.training.campaign import BASELINE
from experiments.verdicts.checks import Check
from experiments.verdicts.intervals import t_interval
from theory.plans.architecture import Architecture
from theory.plans.names import resolve
from theory.plans.presets import llama

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CLAIM = "attnres.start-gradients"
RULES = {"vanilla": "PreNorm", "attnres": "Full", "attnres-block:size=4": "Block of 4 sublayers"}
OUTPUTS = {"plain": False, "scaled": True}  # what writes to the stream: as all matrices, or over the root of 2 layers
LIMIT = 0.15  # of a root mean square at width 128, beside sampling: the closed form is a limit of wide networks
ROUNDING = 1e-9  # of float64 squares
EVEN = 0.1  # of the unevenness, for the same reason
TELLING = 0.3  # differences of unevenness from which their sign is judged


@dataclass(frozen=True, kw_only=True)
class Config:
    """The networks that are built.

    Attributes:
        sizes: Their sizes.
        stds: Deviations of initial matrices and embeddings.
        shown: Two of `stds`, whose every read the figure shows, outputs plain.
        curve: Deviations for closed forms alone.
    """

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


@dataclass(frozen=True)
class Networks:
    """The networks of one rule, treatment of outputs and deviation: one per seed."""

    sizes: Architecture
    rule: str
    outputs: str
    std: float
    seeds: int


CPU = Config(
    sizes=llama(d_model=128, n_heads=4, n_layers=12, d_ff=341, vocab=32, context=2),
    stds=(0.003, 0.01, 0.03, 0.09),
    shown=(0.003, 0.09),
    curve=tuple(round(0.002 * 1.3**i, 6) for i in range(17)),
)
SMOKE = Config(
    sizes=llama(d_model=32, n_heads=2, n_layers=3, d_ff=40, vocab=8, context=2),
    stds=(0.01, 0.2),
    shown=(0.01, 0.2),
    curve=(0.01, 0.05, 0.2),
)
FULL = replace(CPU, sizes=replace(CPU.sizes, n_layers=48))


class Gradients:
    name = "attnres-gradients"
    title = "What sublayers send back to their reads at initial weights: PreNorm against Attention Residuals"
    caption = (
        "Where outputs outweigh the embedding, AttnRes starts with gradients more even over depth than PreNorm's. "
        "Gradient at each read, for (a) small and (b) large weights; odd sublayers are attention. Spread of its "
        "logarithm over the weights' size, (c) plain, (d) outputs scaled by depth. Lines: wide networks' limit; "
        "hollow: measured, (a), (b) with 95 % over weights."
    )
    kind: Kind = "theory"
    claims: tuple[str, ...] = (CLAIM,)
    profiles: Mapping[str, Profile] = {
        "smoke": Profile(config=SMOKE, seeds=4, seconds=10, detects="nothing below 100 % of a mean square"),
        "cpu": Profile(config=CPU, seeds=12, seconds=25, detects="16 % of a root mean square, width 128"),
        "full": Profile(
            config=FULL, seeds=48, seconds=1200, detects="16 % of a root mean square, at 48 layers of width 128"
        ),
    }

    def architectures(self, config: Config) -> Sequence[Architecture]:
        return [config.exact]

    def predict(self, config: Config) -> Json:
        from theory.attnres.start_gradients import start_gradients

        def squares(rule: str, outputs: str, std: float) -> list[float]:
            plan = resolve(rule, config.exact.shape)
            return start_gradients(config.exact, plan, std, scale_outputs=OUTPUTS[outputs])

        return {
            "assumes": "normal weights, one token alone, eps = 0, zero queries; the limit of wide networks",
            "source": "theory.attnres.start_gradients; Attention Residuals, summary: more uniform gradients",
            "statistic": "root mean square over weights of the gradient at a read through its sublayer alone, over "
            "PreNorm's at the last read; unevenness: standard deviation of its logarithm over sublayers",
            "rule": f"at every read within {LIMIT:.0%} of the closed form, or the family-wise 95 % interval beyond "
            f"that; differences of unevenness within {EVEN}",
            "width": config.sizes.d_model,
            "layers": config.sizes.n_layers,
            "stds": list(config.stds),
            "shown": list(config.shown),
            "curve": list(config.curve),
            "squares": {
                cell(rule, outputs, std): squares(rule, outputs, std)
                for rule in RULES
                for outputs in OUTPUTS
                for std in config.stds
            },
            "unevenness": {
                f"{rule}/{outputs}": [unevenness(squares(rule, outputs, std)) for std in config.curve]
                for rule in RULES
                for outputs in OUTPUTS
            },
        }

    def measure(self, config: Config, seeds: int, run: RunFolder) -> Json:
        """Return, by network and seed, the square of the gradient's norm at every read, of a loss linear in scores."""
        networks = {
            cell(rule, outputs, std): Networks(config.exact, rule, outputs, std=std, seeds=seeds)
            for rule in RULES
            for outputs in OUTPUTS
            for std in config.stds
        }
        measured = results("gradients", networks, squares_by_seed, run=run, label=self.name, size=lambda one: one.seeds)
        return {"seeds": seeds, "squares": {name: measured[name]["squares"] for name in networks}}

    def compare(self, prediction: Json, measurement: Json) -> Sequence[Check]:
        return [
            *farthest_reads(prediction, measurement),
            all_rules_alike(prediction, measurement),
            *more_even(prediction, measurement),
        ]

    def draw(self, prediction: Json, measurement: Json) -> Figure:
        fig, axes = style.figure(2, rows=2, width=4.4, height=3.9)
        effects = ("sublayers add little", "sublayers add much")
        for axis, std, effect in zip(axes[:2], prediction["shown"], effects, strict=True):
            draw_reads(axis, prediction, measurement, std=std)
            axis.set_title(f"Initial weights of std {std:g}: {effect}")
        titles = ("Unevenness, all weights alike", "Unevenness, writing weights scaled by depth")
        for axis, outputs, title in zip(axes[2:], OUTPUTS, titles, strict=True):
            draw_unevenness(axis, prediction, measurement, outputs=outputs)
            axis.set_title(title)
        for axis in axes:
            axis.plot([], [], "o", color="#8a8a8a", markerfacecolor="white", label="hollow markers: measured")
        style.finish(axes)
        return fig


def cell(rule: str, outputs: str, std: float) -> str:
    """Return how results name a network."""
    return f"{rule}/{outputs}/{std:g}"


def unevenness(squares: Sequence[float]) -> float:
    """Return the standard deviation over sublayers' reads of the logarithm of a gradient's root mean square.

    The head's norm, the last read, is left out.
    """
    return pstdev(log(square) / 2 for square in squares[:-1])


def squares_by_seed(networks: Networks, desk: Desk) -> Json:
    """Measure the networks of all seeds."""
    plan, scaled, squares = resolve(networks.rule, networks.sizes.shape), OUTPUTS[networks.outputs], []
    for seed in range(networks.seeds):
        desk.report(seed)
        squares.append(read_squares(networks.sizes, plan, seed, std=networks.std, scale_outputs=scaled))
    return {"squares": squares}


def over_last(measurement: Json, name: str) -> list[list[float]]:
    """Return, by read, one number per seed whose mean is the mean square over PreNorm's at the last read.

    Its spread is the spread of this ratio of means: x / m - r (y / m - 1), linear about the means, for a square x, the
    last read's y of the same seed, the mean m of y and the ratio r.  So m is sampled, too.
    """
    _, outputs, std = name.split("/")
    last = [by_read[-1] for by_read in measurement["squares"][f"{BASELINE}/{outputs}/{std}"]]
    mean = sum(last) / len(last)

    def linear(by_seed: tuple[float, ...]) -> list[float]:
        ratio = sum(by_seed) / len(by_seed) / mean
        return [x / mean - ratio * (y / mean - 1) for x, y in zip(by_seed, last, strict=True)]

    return [linear(by_seed) for by_seed in zip(*measurement["squares"][name], strict=True)]


def measured_unevenness(measurement: Json, name: str) -> float:
    """Return the unevenness of the means over seeds."""
    return unevenness([sum(by_seed) / len(by_seed) for by_seed in over_last(measurement, name)])


def farthest_reads(prediction: Json, measurement: Json) -> Iterator[Check]:
    """Yield PreNorm's read that is farthest from the closed form, for every network."""
    prenorms = {name: squares for name, squares in prediction["squares"].items() if name.startswith(f"{BASELINE}/")}
    family = sum(map(len, prenorms.values()))
    for name, squares in prenorms.items():
        _, outputs, std = name.split("/")
        ratios = [
            t_interval([x / square for x in by_seed], family)
            for by_seed, square in zip(over_last(measurement, name), squares, strict=True)
        ]
        farthest = max(ratios[:-1], key=lambda ratio: abs(log(ratio.mean)))
        # As if gradients fell over depth by half the power, at the read where that is farthest from the closed form.
        halved = max(((squares[-1] / square) ** 0.5 for square in squares), key=lambda ratio: abs(log(ratio)))
        yield Check.sampled(
            farthest,
            id=f"read/{outputs}/{std}",
            group="square of the gradient at its farthest read over the closed form",
            claim=CLAIM,
            statement=f"at std {std}, outputs {outputs}, reads get as much as said, all rules alike",
            predicted=1.0,
            controls=(halved,),
            slack=2 * LIMIT,
            quantity="mean square over the closed form",
        )


def all_rules_alike(prediction: Json, measurement: Json) -> Check:
    """Check that a rule's square over PreNorm's, at one read of the same weights, is what theory says, at the worst."""
    ratios = []
    for name, squares in prediction["squares"].items():
        rule, rest = name.split("/", 1)
        prenorm = f"{BASELINE}/{rest}"
        laws = [x / y for x, y in zip(squares, prediction["squares"][prenorm], strict=True)]
        pairs = zip(measurement["squares"][name], measurement["squares"][prenorm], strict=True)
        for reads, prenorm_reads in pairs if rule != BASELINE else ():
            ratios += [(x / y / law, law) for x, y, law in zip(reads, prenorm_reads, laws, strict=True)]
    return Check.exact(
        id="read/alike",
        group="square of the gradient over PreNorm's, over the square of the number of the read's sources",
        claim=CLAIM,
        statement="at every read and of all weights a rule's gradient is PreNorm's times the number of its sources",
        predicted=1.0,
        measured=max((ratio for ratio, _ in ratios), key=lambda ratio: abs(ratio - 1)),
        controls=(min(1 / sqrt(law) for _, law in ratios if law > 1),),  # a square multiplied as a norm
        slack=ROUNDING,
        quantity="mean square over the closed form",
    )


def more_even(prediction: Json, measurement: Json) -> Iterator[Check]:
    """Yield whether a rule is more or less even than PreNorm, wherever theory tells them apart."""
    for rest in (f"{outputs}/{std:g}" for outputs in OUTPUTS for std in prediction["stds"]):
        outputs, std = rest.split("/")
        for rule in list(RULES)[1:]:
            name, prenorm = f"{rule}/{rest}", f"{BASELINE}/{rest}"
            difference = unevenness(prediction["squares"][name]) - unevenness(prediction["squares"][prenorm])
            if abs(difference) < TELLING:
                continue
            more = "more" if difference < 0 else "less"
            yield Check.exact(
                id=f"even/{name}",
                group=f"unevenness of {RULES[rule]} minus PreNorm's",
                claim=CLAIM,
                statement=f"at std {std}, outputs {outputs}, {RULES[rule]} is {more} even than PreNorm",
                predicted=difference,
                measured=measured_unevenness(measurement, name) - measured_unevenness(measurement, prenorm),
                controls=(0.0, -difference),
                slack=EVEN,
                quantity="difference of unevenness (log)",
            )


def draw_reads(axis: Axes, prediction: Json, measurement: Json, std: float) -> None:
    """Draw the gradients at all reads, by rule."""
    for rule, words in RULES.items():
        name, look = cell(rule, "plain", std), style.look(rule)
        roots = [sqrt(square) for square in prediction["squares"][name]][:-1]
        x = range(1, len(roots) + 1)
        axis.plot(x, roots, color=look["color"], linestyle=look["linestyle"], label=f"{words}: limit of wide networks")
        intervals = [t_interval(by_seed).root() for by_seed in over_last(measurement, name)][:-1]
        style.bars(axis, x, intervals, color=look["color"], marker=look["marker"], markersize=3.5)
    axis.set_yscale("log")
    axis.set_xlabel("read of sublayer")
    axis.set_ylabel("gradient, rms over weights, 95 %,\nover PreNorm's at the last read")


def draw_unevenness(axis: Axes, prediction: Json, measurement: Json, outputs: str) -> None:
    """Draw how unevenly gradients are spread, over the size of initial weights, by rule."""
    for rule, words in RULES.items():
        look, stds = style.look(rule), prediction["stds"]
        line = prediction["unevenness"][f"{rule}/{outputs}"]
        axis.plot(prediction["curve"], line, color=look["color"], linestyle=look["linestyle"], label=words)
        measured = [measured_unevenness(measurement, cell(rule, outputs, std)) for std in stds]
        axis.plot(stds, measured, look["marker"], color=look["color"], markerfacecolor="white")
    axis.set_xscale("log")
    axis.set_ylim(bottom=0)
    axis.set_xlabel(f"std of initial weights, width {prediction['width']}, {prediction['layers']} layers")
    axis.set_ylabel("spread of log gradients over reads")


EXPERIMENT: Experiment = Gradients()
