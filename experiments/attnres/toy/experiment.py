"""Ask how large the linear-attention toy, which has no norms, gets, and what depth attention does in it.

At the start the mean square of every read is known exactly (`theory.attnres.toy`), and so is what the best weights
over depth can lose (`theory.attnres.deep`, `theory.prompts.spectral`): decoders with these weights have to agree.  Of
trained toys theory says which are bounded (`theory.attnres.bounds`, `theory.attnres.unnormed`); what they do is
measured, with norms added one at a time.

A training that diverged has no reads.  Exponents are of the seeds in which neither training of a pair did, which takes
the largest reads away; their number is reported.  The deepest toys only show which ones diverge.  A norm before the
head stands behind all reads and bounds none of them, but it keeps the loss from growing with them; so it has networks
of its own, beside those whose sublayers alone have norms.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import linear_regression
from typing import TYPE_CHECKING, Any

from experiments.attnres.toy.toys import (
    AVERAGE,
    BASELINE,
    BLOCK,
    FULL,
    NETWORKS,
    RESIDUAL,
    RULES,
    TOKENS,
    TWIN,
    WEIGHTS,
    WIDTHS,
    Config,
    Network,
    cell,
    predicted,
    start,
)
from experiments.drawing import style
from experiments.experiment.protocol import Experiment, Kind, Profile
from experiments.store.folders import Json, RunFolder
from experiments.training.campaign import expected
from experiments.training.tuning import Tuning
from experiments.verdicts.checks import Check, Expectation, Judgement
from experiments.verdicts.intervals import Interval, t_interval
from experiments.verdicts.orders import convolved, widest_by_chance
from icl.recipe import Recipe
from theory.plans.architecture import Architecture
from theory.plans.setting import Setting

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAGNITUDE, NORMS, BOUNDED, DEEP = "attnres.toy-magnitude", "attnres.norms", "attnres.bounded", "attnres.deep-toy"
UNKEYED = ("residual", "full")  # of which there are networks with each norm alone
LEVEL = 0.05
NONE = Interval(math.nan, math.nan, math.nan)

RECIPE = Recipe(steps=80, batch=128, learning_rate=1e-2, floor=0.0, log_every=10)
CPU = Config(
    task=Setting(2, 4, 0.5),
    step=1 / 16,
    deviation=1 / 32,
    depths=(2, 4, 8, 16),
    random_depths=(2, 4, 8),
    deepest=20,
    widths=(1.0, 2.0, 3.0),
    wider=(1.0, 1.2),
    prompts=400,
    width=8,
    std=0.2,
    trained_depths=(1, 2, 3),
    deeper=6,
    trained_seeds=7,
    recipe=RECIPE,
    held_out_prompts=512,
    deep=(Setting(5, 8, 2.0), Setting(5, 8, 3.0), Setting(3, 8, 2.5)),
    layers=(2, 3, 4),
    noises=(0.5, 0.75, *(i / 8 for i in range(8, 21)), 2.75, 3.0, 3.5, 4.0, 5.0, 6.0),
    answered=3000,
)
PROFILES = {
    "smoke": Profile(
        config=replace(
            CPU,
            depths=(2, 4),
            random_depths=(2,),
            deepest=6,
            prompts=90,
            trained_depths=(1, 2),
            deeper=3,
            held_out_prompts=64,
            trained_seeds=2,
            recipe=replace(RECIPE, steps=10),
            deep=(Setting(5, 8, 2.0),),
            layers=(3, 4),
            noises=(1.0, 2.0, 3.0),
            answered=2000,
        ),
        seeds=6,
        seconds=20,
        detects="30 % of a mean square, two thirds of the deep toy's gains; nothing of what is trained",
    ),
    "cpu": Profile(
        config=CPU,
        seeds=24,
        seconds=65,
        detects="10 % of a mean square (16 layers of a residual stream: 50 %), a third of the deep toy's gains at "
        "their largest; of what is trained briefly, 7 powers of the depth on wide prompts",
    ),
    "full": Profile(
        config=replace(CPU, prompts=4000, trained_seeds=32, recipe=replace(RECIPE, steps=400), answered=60_000),
        seeds=24,
        seconds=2700,
        detects="3 % of a mean square (16 layers of a residual stream: 20 %), a tenth of the deep toy's gains at "
        "their largest; of what is trained, 3 powers of the depth on wide prompts",
    ),
}


class Toy:
    name = "attnres-toy"
    title = "The linear-attention toy without norms: how large it gets, and what weights over depth reach"
    caption = (
        "Without norms the linear toy grows whatever reads over depth. (a), (b) Mean square of the last read over "
        "layers, for gradient-step and random weights. (c) Trained, by what has norms, on prompts three times as "
        "wide; columns count divergences. (d) Gain of weights over depth. Lines: closed forms; markers: decoders; "
        "crosses: without the widest prompts. 95 % over seeds."
    )
    kind: Kind = "theory"
    claims: tuple[str, ...] = (MAGNITUDE, NORMS, BOUNDED, DEEP)
    profiles: Mapping[str, Profile] = PROFILES

    def architectures(self, config: Config) -> Sequence[Architecture]:
        return [config.trained(network, depth) for network in NETWORKS.values() for depth in config.trained_depths]

    def predict(self, config: Config) -> Json:
        return {
            "assumes": "at the start: attention alone, without norms; W* and inputs normal, W0 = 0; B = step I or of "
            "independent normal entries; zero queries over depth.  Deep toy: scalar weights, static weights over "
            "depth.  Trained: nothing; a sign is expected where theory bounds one toy's reads and not the other's",
            "source": "theory.attnres.toy, .deep, .bounds, .unnormed; theory.prompts.spectral",
            "statistic": "mean squares over prompts of several widths, weighted; mean losses and their paired "
            "differences on the same prompts; exponents of the largest read, root mean square over tokens, over the "
            "number of layers, of the seeds in which neither training diverged",
            "rule": "closed forms and exact losses lie in the family-wise 95 % interval over seeds, and what is known "
            "to be wrong does not; of trained toys: differences have the sign expected by a family-wise 95 % interval, "
            "and that of a twin has none; divergence: an exact sign test over seeds",
            "tuning": Tuning().described(),
            **predicted(config),
        }

    def measure(self, config: Config, seeds: int, run: RunFolder) -> Json:
        from experiments.attnres.toy.training import answers, starts, trained

        return {
            "seeds": seeds,
            **starts(config, seeds, run),
            "answers": answers(config, seeds, run),
            **trained(config, run, self.name),
        }

    def compare(self, prediction: Json, measurement: Json) -> Sequence[Judgement]:
        return [
            *start_checks(prediction["start"], measurement["squares"]),
            *deep_checks(prediction["deep"], measurement["answers"]),
            *exponent_expectations(prediction, measurement),
            *divergence_expectations(prediction["deeper"], measurement),
        ]

    def draw(self, prediction: Json, measurement: Json) -> Figure:
        fig, axes = style.figure(2, rows=2, width=4.4, height=4.3)
        draw_start(axes[0], prediction, measurement, kind="descent")
        draw_start(axes[1], prediction, measurement, kind="random")
        draw_trained(axes[2], prediction, measurement)
        draw_gains(axes[3], prediction, measurement)
        style.finish(axes)
        return fig


def start_checks(closed_forms: Mapping[str, float], measured: Mapping[str, Sequence[float]]) -> Iterator[Check]:
    """Yield the last read's mean square over the closed form."""
    for name, square in closed_forms.items():
        kind, rule, depth, token = name.split("/")
        others = {closed_forms[start(kind, other, int(depth), token=token)] for other in RULES} - {square}
        yield Check.sampled(
            t_interval([x / square for x in measured[name]], len(closed_forms)),
            id=f"start/{name}",
            group=f"{RULES[rule]}, {WEIGHTS[kind]}: mean square of the last read over the closed form",
            claim=MAGNITUDE,
            statement=f"after {depth} layers of {WEIGHTS[kind]}, {RULES[rule]}, the last read of {TOKENS[token]} "
            "is as large as said",
            predicted=1.0,
            controls=tuple(sorted(other / square for other in others)),  # other rules' closed forms
            quantity="mean square over the closed form",
        )


def deep_checks(exact: Json, answers: Json) -> Iterator[Check]:
    """Yield the losses of the constructed weights, and what the depth weights gain."""
    words = {"depth": "weights over depth", "residual": "steps of a residual stream"}
    family = 3 * len(exact)
    for name, losses in exact.items():
        setting, layers = name.split("/")
        for kind, weights in words.items():
            yield Check.sampled(
                t_interval([by_seed[kind] for by_seed in answers[name]], family),
                id=f"loss/{kind}/{name}",
                group=f"deep toy: loss of the best {weights}",
                claim=DEEP,
                statement=f"at {setting} the best {weights} of {layers} layers lose what theory says",
                predicted=losses[kind],
                controls=(losses["one layer"],),  # as if more layers were worth nothing
                quantity="squared error of y",
            )
        yield Check.sampled(
            t_interval([by_seed["residual"] - by_seed["depth"] for by_seed in answers[name]], family),
            id=f"gain/{name}",
            group="deep toy: what weights over depth gain over a residual stream",
            claim=DEEP,
            statement=f"at {setting} the best weights over depth of {layers} layers lose less than any residual "
            "stream, by as much as theory says",
            predicted=losses["gain"],
            controls=(0.0,),  # they reach nothing else
            quantity="squared error of y, difference",
        )


def without(name: str) -> str:
    """Return the network without norms before its sublayers, and its head."""
    return name.removesuffix("+sublayers").removesuffix("+head")


def exponent_expectations(prediction: Json, measurement: Json) -> Iterator[Expectation]:
    """Yield the largest read as a power of the number of layers, with norms before sublayers minus without."""
    pairs = {
        **{(name, without(name)): NORMS for name in NETWORKS if NETWORKS[name].normed},
        **{(name, BASELINE): BOUNDED for name in prediction["bounded"]},
    }
    family = len(pairs) * len(WIDTHS)
    for width in WIDTHS:
        slopes = {name: exponents(prediction, measurement, name, width=width) for name in (*NETWORKS, TWIN)}
        twin = interval(differences(slopes[TWIN], slopes[BASELINE]), family)
        for (name, other), claim in pairs.items():
            paired = differences(slopes[name], slopes[other])
            yield expected(
                name=f"exponent/{width}/{name}/{other}",
                group=f"trained, prompts {width}: exponent of the largest read over depth, minus that without norms",
                claim=claim,
                statement=f"trained, on prompts {width}, the largest read grows with depth by a smaller power with "
                f"norms before sublayers ({NETWORKS[name].words}) than without ({NETWORKS[other].words}); neither "
                f"diverged in {len(paired)} of {len(slopes[name])} seeds",
                rule="sign",
                predicted=-1.0,
                measured=interval(paired, family),
                twin=twin,
                quantity="difference of exponents",
            )


def divergence_expectations(depth: int, measurement: Json) -> Iterator[Expectation]:
    """Yield, of the deepest toys, the seeds in which fewer trainings diverge, minus those in which more do.

    By chance either sign would be as likely.
    """
    normed = [name for name, network in NETWORKS.items() if network.normed]
    comparisons = {
        f"diverged/{depth}": (
            normed,
            [name for name, network in NETWORKS.items() if not (network.normed or network.head)],
            f"at {depth} layers fewer trainings diverge where sublayers start with a norm than where nothing does",
        ),
        f"diverged/{depth}/head": (
            [name for name in normed if not NETWORKS[name].head and without(name) in UNKEYED],
            [name for name, network in NETWORKS.items() if network.head and not network.normed],
            f"at {depth} layers fewer trainings diverge where sublayers alone start with a norm than the head",
        ),
    }

    def shares(names: Sequence[str]) -> list[float]:
        by_network = [[reads is None for reads in measurement["trained"][cell(name, depth)]] for name in names]
        return [sum(diverged) / len(names) for diverged in zip(*by_network, strict=True)]

    def signs(some: Sequence[str], others: Sequence[str]) -> list[int]:
        return [(a > b) - (a < b) for a, b in zip(shares(some), shares(others), strict=True)]

    twin = sum(signs([TWIN], [BASELINE]))
    for name, (some, others, statement) in comparisons.items():
        by_seed = signs(some, others)
        seeds = len(by_seed)
        widest = widest_by_chance(convolved([{-1: 0.5, 1: 0.5}] * seeds), LEVEL / len(comparisons)) / seeds
        yield expected(
            name=name,
            group="trained: share of trainings that diverge, with norms before sublayers and without",
            claim=NORMS,
            statement=statement,
            rule="sign",
            predicted=-1.0,
            measured=Interval(sum(by_seed) / seeds, seeds**-0.5, widest),
            twin=Interval(twin / seeds, seeds**-0.5, widest),
            quantity="seeds with fewer, minus those with more, over all",
        )


def exponents(prediction: Json, measurement: Json, name: str, width: str) -> list[float]:
    """Return the power of the number of layers with which the largest read grows, by seed; nan where one diverged."""
    depths = [math.log(depth) for depth in prediction["trained_depths"]]
    cells = (largest_reads(measurement, name, depth, width=width) for depth in prediction["trained_depths"])
    return [linear_regression(depths, list(map(math.log, sizes))).slope for sizes in zip(*cells, strict=True)]


def largest_reads(measurement: Json, name: str, depth: int, width: str) -> list[float]:
    """Return the largest read by seed; nan where the training diverged, or the read is beyond floating point."""
    place = list(WIDTHS).index(width)
    sizes = [reads and reads[place] for reads in measurement["trained"][cell(name, depth)]]
    return [math.nan if size is None else size for size in sizes]


def differences(some: Sequence[float], others: Sequence[float]) -> list[float]:
    """Return the paired differences of the seeds that have both."""
    return [a - b for a, b in zip(some, others, strict=True) if math.isfinite(a - b)]


def interval(values: Sequence[float], family: int) -> Interval:
    """Return the interval of the mean; there is none of fewer than two values."""
    return t_interval(values, family) if len(values) > 1 else NONE


def draw_start(axis: Axes, prediction: Json, measurement: Json, kind: str) -> None:
    """Draw the last read over layers; crosses are what the residual stream's prompts as they come say alone."""
    depths = prediction["depths" if kind == "descent" else "random_depths"]
    for rule, words in RULES.items():
        look, line = style.look(rule), prediction["curves"][f"{kind}/{rule}"]
        axis.plot(range(1, len(line) + 1), line, color=look["color"], linestyle=look["linestyle"], label=words)
        squares = [measurement["squares"][start(kind, rule, depth, token="context")] for depth in depths]
        style.bars(axis, depths, [t_interval(x) for x in squares], color=look["color"], marker=look["marker"])
    if kind == "descent":
        means = [sum(x) / len(x) for x in (measurement["plain"][str(depth)] for depth in depths)]
        cross: dict[str, Any] = {"color": style.look(RESIDUAL)["color"], "markersize": 8, "markeredgewidth": 0.9}
        axis.plot(depths, means, "x", label="residual stream, ordinary prompts only", zorder=4, **cross)
    axis.set_yscale("log")
    axis.set_xlabel("layers")
    axis.set_xticks([1, *range(4, prediction["deepest"] + 1, 4)])
    axis.set_ylabel("last read, mean square, 95 %")
    axis.set_title(f"{WEIGHTS[kind].capitalize()}, context tokens: closed form, decoders")


def draw_trained(axis: Axes, prediction: Json, measurement: Json) -> None:
    """Draw a row for each network, those whose sublayers have no norm above.

    Markers are geometric means over the seeds that did not diverge, where two or more did not; numbers, how many did.
    """
    from matplotlib.ticker import LogLocator, NullLocator

    depths = [*prediction["trained_depths"], prediction["deeper"]]
    usual, wide = WIDTHS
    by_norm = sorted(NETWORKS, key=lambda name: NETWORKS[name].normed)
    rows = [(name, wide, row_label(NETWORKS[name])) for name in by_norm]
    rows.append((BASELINE, usual, f"{row_label(NETWORKS[BASELINE])}, ordinary prompts"))
    places = range(len(rows), 0, -1)
    for place, (name, width, _) in zip(places, rows, strict=True):
        look = style.look(depth_rule(NETWORKS[name]))
        for column, depth in enumerate(depths):
            logs = [math.log(x) for x in largest_reads(measurement, name, depth, width=width) if math.isfinite(x)]
            if len(logs) > 1:
                marker = {"color": look["color"], "marker": look["marker"], "markersize": 4.5, "elinewidth": 0.9}
                fill = shade(look["color"], column, len(depths))
                style.geometric(axis, [place], [t_interval(logs)], along=True, markerfacecolor=fill, **marker)
            diverged = sum(reads is None for reads in measurement["trained"][cell(name, depth)])
            write(axis, column, place, text=str(diverged), fontweight="bold" if diverged else "normal")
    for column, depth in enumerate(depths):
        write(axis, column, len(rows) + 1, text=str(depth))
        label = f"{depth} layer{'s' * (depth > 1)}"
        fill = shade("#5a5a5a", column, len(depths))
        axis.plot([], [], "s", color="#5a5a5a", markerfacecolor=fill, label=label)
    seeds = len(measurement["trained"][cell(BASELINE, depths[0])])
    write(axis, (len(depths) - 1) / 2, len(rows) + 2, text=f"diverged of {seeds}")
    for line in (len(rows) - sum(not network.normed for network in NETWORKS.values()) + 0.5, 1.5):
        axis.axhline(line, color="#a0a0a0", linewidth=0.6)
    axis.set_xscale("log")
    axis.xaxis.set_major_locator(LogLocator(numticks=7))
    axis.xaxis.set_minor_locator(NullLocator())
    axis.set_ylim(0.4, len(rows) + 2.6)
    axis.set_yticks(places, [label for *_, label in rows], fontsize=7)
    axis.set_xlabel("largest read, rms over tokens, 95 %")
    axis.set_title(f"Trained; read on prompts {wide}")


def depth_rule(network: Network) -> str:
    return network.variant if network.variant in RULES else FULL


def row_label(network: Network) -> str:
    """Return what reads, and behind a colon what is normed."""
    names = {RESIDUAL: "residual stream", AVERAGE: "DenseFormer", FULL: "Full", BLOCK: "Block"}
    normed = {"keys": network.keys_normed, "head": network.head, "sublayers": network.normed}
    words = ", ".join(name for name, is_normed in normed.items() if is_normed)
    return names[depth_rule(network)] + (f": {words}" if words else "")


def shade(color: str, number: int, count: int) -> tuple[float, ...]:
    """Return a shade from white, for the fewest layers, to the colour itself."""
    from matplotlib.colors import to_rgb

    share = number / max(1, count - 1)
    return tuple(1 - share * (1 - part) for part in to_rgb(color))


def write(axis: Axes, column: float, place: int, text: str, **look: Any) -> None:
    """Write right of the panel, in a column of its own."""
    x, middle = 1.05 + 0.075 * column, {"ha": "center", "va": "center", "fontsize": 7, **look}
    axis.text(x, place, text, transform=axis.get_yaxis_transform(), **middle)


def draw_gains(axis: Axes, prediction: Json, measurement: Json) -> None:
    """Draw what depth weights gain, of what the best residual stream loses above the noise."""
    sizes = dict.fromkeys(name.rsplit("/", 1)[0] for name in prediction["gains"])
    colors = dict(zip(sizes, ("#1a1a1a", "#d98a2b", "#7a4fa3"), strict=False))
    layers = dict.fromkeys(name.rsplit("/", 1)[1] for name in prediction["gains"])
    looks = dict(zip(layers, (("-", "o", -0.05), ("--", "s", 0.0), (":", "^", 0.05)), strict=False))
    for name, shares in prediction["gains"].items():
        size, k = name.rsplit("/", 1)
        line, marker, _ = looks[k]
        axis.plot(prediction["noises"], [100 * share for share in shares], color=colors[size], linestyle=line)
        label = f"d = {size.partition('/')[0]}, {k} layers"
        axis.plot([], [], marker, color=colors[size], linestyle=line, markerfacecolor="white", label=label)
    for name, exact in prediction["deep"].items():
        _, marker, aside = looks[str(exact["layers"])]
        gain = t_interval([losses["residual"] - losses["depth"] for losses in measurement["answers"][name]])
        look = {"color": colors[f"{exact['d']}/{exact['n']}"], "marker": marker}
        style.bars(axis, [exact["sigma"] + aside], [gain], unit=(exact["residual"] - exact["noise"]) / 100, **look)
    axis.set_xlabel("standard deviation of the noise of y")
    axis.set_ylabel("gain, % of loss above noise, 95 %")
    axis.set_title("Deep toy: weights over depth against a residual stream")


EXPERIMENT: Experiment = Toy()
