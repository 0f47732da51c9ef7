"""Ask how near cross-layer attention (Eqn. (2)) is to the block form that ResFormer puts in its place (Eqns. (3), (4)).

Three questions, each with a theorem.  How far are the two apart in the linear toy, as a function of how far the keys of
the two layers are apart (`theory.resformer.in_context`)?  Which of the two explains more of an in-context task, once
trained (same place)?  How far can a softmax row move when the earlier layer's scores do (`theory.resformer.blocks`)?
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments.drawing import style
from experiments.experiment.protocol import Experiment, Kind, Profile
from experiments.resformer.blocks.linear import BLOCK, CROSS, TOYS, WAYS, Moved, Trained, moved_keys, own_keys
from experiments.resformer.blocks.softmax import climbed, normal_moves, random_rows
from experiments.store.folders import Json, RunFolder
from experiments.store.work import measured, results
from experiments.toys.checks import ALTERED, EXACT_SLACK, ROUNDING, ClosedForm, exact_check, trained_check
from experiments.toys.runs import Point, minimisations, minimise_all, point_key
from experiments.toys.training import Training
from experiments.verdicts.checks import Check
from experiments.verdicts.intervals import t_interval
from theory.plans.setting import Setting

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DISTANCE, BETTER = "resformer.linear-distance", "resformer.block-form-better"
SHARP, IN_THE_MEAN = "resformer.block-form-sharp", "resformer.block-form-mean"
GAP_SLACK = 0.05  # of the gap: the most that training may add to an interval
ALTERED_GAP = 0.15  # the negative controls of the gap
ALTERED_SQUARE = 0.1  # those of a squared distance
NEAR = 0.95  # a bound given the moves that is so much tighter is broken
SMALL_MOVES = 1e-6  # of a bound: what rounding leaves of it where scores hardly move
CURVE = 81  # points of the softmax's bound


@dataclass(frozen=True, kw_only=True)
class Config:
    """The sizes and efforts of what is measured.

    Attributes:
        keys: Sizes at which keys are moved apart; the figure's first panel shows the first.
        distances: By so much, as shares of the keys' own root mean square.
        prompts: On so many per seed.
        trained: The size of the toys.
        training: Of the toys.
        starts: Of exact minimisations.
        eps: The most by which scores move.
        layers: Of attentions whose scores move.
        climbs: Hill climbs, of `climbing` steps.
        spreads: Deviations of scores that move normally.
        rows: Random rows.
    """

    keys: tuple[Setting, ...]
    distances: tuple[float, ...]
    prompts: int
    trained: Setting
    training: Training
    starts: int
    eps: tuple[float, ...] = (0.1, 0.3, 0.6, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0)
    layers: tuple[int, ...] = (2, 8)
    climbs: int = 8
    climbing: int = 4000
    spreads: tuple[float, ...] = (0.03, 0.1, 0.3, 1.0, 2.0, 4.0)
    rows: int = 4000

    @property
    def points(self) -> list[Point]:
        """Both toys at every rank."""
        return [Point(self.trained, toy, rank) for toy in TOYS for rank in range(self.trained.d + 1)]


SMALL, LONG = Setting(3, 8, 0.3), Setting(4, 16, 0.0)
DETECTS = f"{ALTERED:.0%} of the explained signal and of the sharp bound, 10% of a squared distance"
PROFILES = {
    "smoke": Profile(
        config=Config(
            keys=(Setting(2, 4, 0.3),),
            distances=(0.5, 1.0),
            prompts=32_768,
            trained=Setting(2, 6, 0.3),
            training=Training(steps=1200, held_out=32_768),
            starts=4,
            eps=(0.1, 1.0, 4.0),
            rows=1000,
        ),
        seeds=8,
        seconds=12,
        detects=DETECTS,
    ),
    "cpu": Profile(
        config=Config(
            keys=(SMALL, LONG),
            distances=(0.5, 1.0),
            prompts=32_768,
            trained=SMALL,
            training=Training(steps=2000, held_out=32_768),
            starts=4,
        ),
        seeds=8,
        seconds=25,
        detects=DETECTS,
    ),
    "full": Profile(
        config=Config(
            keys=(SMALL, LONG, Setting(8, 64, 0.5)),
            distances=(0.125, 0.25, 0.5, 1.0, 2.0),
            prompts=524_288,
            trained=Setting(4, 16, 0.0),
            training=Training(steps=20_000, held_out=524_288),
            starts=12,
            climbs=32,
            climbing=20_000,
            rows=40_000,
        ),
        seeds=10,
        seconds=1200,
        detects=DETECTS,
    ),
}


class ResFormerBlocks:
    name = "resformer-blocks"
    title = "Cross-layer attention against its block form: keys apart, toys trained, scores moved (ResFormer, Eqn. 3)"
    caption = (
        "The block form is near cross-layer attention while keys agree, and explains more. (a) Distance as keys move "
        "apart. (b) Signal explained over the rank a; plus: block form put in after training. (c) Movement of softmax "
        "weights if scores move by epsilon. (d) For normal moves. Lines: theory; crosses: exact minima; hollow: "
        "trained. 95 % over seeds or rows."
    )
    kind: Kind = "theory"
    claims: tuple[str, ...] = (DISTANCE, BETTER, SHARP, IN_THE_MEAN)
    profiles: Mapping[str, Profile] = PROFILES

    def at_size(self, config: Config, size: Setting) -> Config:
        return replace(config, keys=(size,), trained=size)

    def predict(self, config: Config) -> Json:
        return {
            "assumes": "keys: W0 = 0, normal inputs, linear attention; toys: also Assumption 1 and minima over A, B, K "
            "and W; softmax: one earlier layer or seven, scores that move by eps at most",
            "source": "theory.resformer.in_context, theory.resformer.blocks",
            "shown": config.keys[0].key,
            "keys": predicted_distances(config),
            "toys": predicted_signals(config.trained),
            "softmax": predicted_moves(config),
        }

    def measure(self, config: Config, seeds: int, run: RunFolder) -> Json:
        items: dict[str, Trained | Moved] = {  # the longest first
            toy: Trained(tuple(p for p in config.points if p.toy == toy and p.rank), seeds, config.training)
            for toy in TOYS
        }
        cells = [(size, distance) for size in config.keys for distance in config.distances]
        for size, distance in cells:
            for seed in range(seeds):
                items[f"{size.key}/{distance:g}/seed{seed}"] = Moved(size, distance, config.prompts, seed=seed)
        records = results("linear", items, measured, run=run, label="linear attention", size=attrgetter("steps"))
        return {
            "keys": {
                distance_key(size.key, way, distance): [
                    records[f"{size.key}/{distance:g}/seed{seed}"][way] for seed in range(seeds)
                ]
                for size in config.keys
                for way in WAYS
                for distance in config.distances
            },
            "trained": {
                "explained": {**records[CROSS]["explained"], **records[BLOCK]["explained"]},
                "swapped": records[CROSS]["swapped"],
                "distance": records[CROSS]["distance"],
            },
            "exact": minimise_all(minimisations(config.points, config.starts, TOYS), run),
            "climbed": {str(k): climbed(config.eps, k, config.climbs, steps=config.climbing) for k in config.layers},
            "random": {str(k): random_rows(config.eps, k, config.rows) for k in config.layers},
            "normal": normal_moves(config.spreads, config.rows),
        }

    def compare(self, prediction: Json, measurement: Json) -> Sequence[Check]:
        return [
            *distance_checks(prediction["keys"], measurement["keys"]),
            *toy_checks(prediction["toys"], measurement),
            *softmax_checks(prediction["softmax"], measurement),
        ]

    def draw(self, prediction: Json, measurement: Json) -> Figure:
        fig, axes = style.figure(2, rows=2, width=4.1, height=4.2)
        draw_keys(axes[0], prediction, measurement["keys"])
        draw_toys(axes[1], prediction["toys"], measurement)
        draw_largest(axes[2], prediction["softmax"], measurement)
        draw_normal(axes[3], prediction["softmax"], measurement["normal"])
        style.finish(axes)
        return fig


def distance_key(size: str, way: str, distance: float) -> str:
    """Return how results name a distance of keys."""
    return f"{size}/{way}/{distance:g}"


def predicted_distances(config: Config) -> Json:
    """Return squared distances as shares of the block form's mean square; a form of the second degree in the keys."""
    from theory.resformer.in_context import block_distance

    distances = {}
    for size in config.keys:
        readout, (of_x, x, y) = np.eye(size.d), own_keys(size)
        form = block_distance(*size.floats, readout, x, y, of_x)
        for way in WAYS:
            for distance in config.distances:
                of_x, x, y = moved_keys(size, way, distance)
                share = float(block_distance(*size.floats, readout, x, y, of_x) / form)
                name = distance_key(size.key, way, distance)
                distances[name] = {"size": size.key, "way": way, "distance": distance, "share": share}
    return distances


def predicted_signals(size: Setting) -> Json:
    """Return what the theorem says both plans explain at every rank; of ResFormer what its one head does."""
    from theory.toy.value_maps import explained_entries

    return {
        "size": size.key,
        "d": size.d,
        "n": size.n,
        "sigma": size.sigma,
        "zero_loss": size.zero_loss,
        "rho": size.signal_share,
        "ranks": [
            {toy: size.signal_share * (explained_entries(TOYS[toy], size.d, rank) or 0) for toy in (CROSS, BLOCK)}
            for rank in range(size.d + 1)
        ],
    }


def predicted_moves(config: Config) -> Json:
    """Return kappa_w over eps by number of layers; tanh(eps / 2), its limit; and Pinsker's bound of normal moves."""
    from theory.resformer.blocks import block_form_share, mean_bound

    fine = [max(config.eps) * (i / (CURVE - 1)) for i in range(CURVE)]
    # A row of so many tokens that the moves' shares are the normal distribution's.
    normal = np.array([NormalDist().inv_cdf((i + 0.5) / 4000) for i in range(4000)])
    weights, still = np.full((1, 8000), 1 / 8000), np.zeros(4000)
    return {
        "eps": list(config.eps),
        "bounds": {str(layers): [block_form_share(x, 1 / layers) for x in config.eps] for layers in config.layers},
        "fine": fine,
        "curves": {str(layers): [block_form_share(x, 1 / layers) for x in fine] for layers in config.layers},
        "all_move": [float(np.tanh(x / 2)) for x in fine],
        "spreads": list(config.spreads),
        "endless": [float(mean_bound(weights, np.append(still, s * normal)[None])[0]) for s in config.spreads],
    }


def distance_checks(predicted: Json, measured: Json) -> Iterator[Check]:
    """Yield the distances of attentions whose keys are moved apart."""
    for name, cell in predicted.items():
        interval, share = t_interval(measured[name], len(predicted)), cell["share"]
        yield Check.sampled(
            interval,
            id=f"keys/{name}",
            group=f"keys apart, {cell['way']}, {cell['size']}",
            claim=DISTANCE,
            statement="on prompts the mean square of cross-layer attention minus its block form is the closed form's",
            predicted=share,
            controls=((1 - ALTERED_SQUARE) * share, (1 + ALTERED_SQUARE) * share),
            quantity="mean square of the difference, share of the block form's",
        )


def toy_checks(predicted: Json, measurement: Json) -> Iterator[Check]:
    """Yield what toys explain, minimised and trained, how much more the block form does, and how far they are apart."""
    size, rho, trained = predicted["size"], predicted["rho"], measurement["trained"]
    family = len(trained["explained"]) + predicted["d"]
    exactly = "the exact minimum explains what the closed form says, and not more"
    in_training = "toys trained on sampled prompts explain what the closed form says, and not more"
    for rank, signals in enumerate(predicted["ranks"]):
        for toy in TOYS:
            key, closed = point_key(size, toy, rank), ClosedForm(BETTER, signals[toy], rho)
            explained = measurement["exact"][key]["explained"]
            group = f"exact minimum, {toy}"
            yield exact_check(
                f"exact/{key}",
                group,
                exactly,
                closed_form=closed,
                explained=explained,
                zero_loss=predicted["zero_loss"],
            )
            if rank:
                interval = t_interval(trained["explained"][key], family)
                yield trained_check(
                    f"trained/{key}", f"trained, {toy}", in_training, closed_form=closed, interval=interval
                )
        if rank:
            gap = signals[BLOCK] - signals[CROSS]
            pairs = zip(*(trained["explained"][point_key(size, toy, rank)] for toy in (BLOCK, CROSS)), strict=True)
            yield Check.sampled(
                t_interval([block - cross for block, cross in pairs], family),
                id=f"trained-gap/{size}/a{rank}",
                group="trained, the block form less cross-layer attention",
                claim=BETTER,
                statement="the block form explains rho a^2 more, paired by seed",
                predicted=gap,
                controls=((1 - ALTERED_GAP) * gap, (1 + ALTERED_GAP) * gap),
                slack=GAP_SLACK * gap,
                quantity="signal explained more, squared units of y",
            )
    for key, ratios in trained["distance"].items():
        yield Check.sampled(
            t_interval(ratios, len(trained["distance"])),
            id=f"trained-distance/{key}",
            group="trained cross-layer attention minus its block form, over the closed form",
            claim=DISTANCE,
            statement="in trained toys the mean square of the difference is the closed form's at their weights",
            predicted=1.0,
            controls=(1 - ALTERED_SQUARE, 1 + ALTERED_SQUARE),
            quantity="mean square of the difference over the closed form",
        )


def softmax_checks(predicted: Json, measurement: Json) -> Iterator[Check]:
    """Yield how far rows of a softmax move, climbed, at random, and normally, against the bounds."""
    for layers, bounds in predicted["bounds"].items():
        for eps, bound, worst, drawn in zip(
            predicted["eps"], bounds, measurement["climbed"][layers], measurement["random"][layers], strict=True
        ):
            yield Check.exact(
                id=f"softmax/{layers} layers/eps{eps:g}",
                group=f"worst moves found, {layers} layers",
                claim=SHARP,
                statement="hill climbing on rows and moves ends at the bound, and not above",
                predicted=bound,
                measured=worst,
                controls=((1 - ALTERED) * bound, (1 + ALTERED) * bound),
                above=ROUNDING,
                slack=EXACT_SLACK * bound,
                quantity="total variation",
            )
            yield Check.exact(
                id=f"random/{layers} layers/eps{eps:g}",
                group=f"random rows and moves, {layers} layers",
                claim=SHARP,
                statement="no random row moves farther than the bound",
                predicted=bound,
                measured=drawn["most"],
                controls=(drawn["middle"],),  # a bound that half of the rows would break
                relation="at most",
                slack=ROUNDING,
                quantity="total variation",
            )
    for name, claim in (("pinsker", IN_THE_MEAN), ("kappa", SHARP)):
        most = max(moves["worst"][name] for moves in measurement["normal"])
        yield Check.exact(
            id=f"normal/{name}",
            group=f"normal moves, {'by their distribution' if name == 'pinsker' else 'by the largest'}",
            claim=claim,
            statement="no row moves farther than the bound, given its own moves",
            predicted=1.0,
            measured=most,
            controls=(NEAR * most,),
            relation="at most",
            slack=SMALL_MOVES,
            quantity="total variation over its bound",
        )


LINES = ("-", "--", "-.", ":")
GREYS = ("#1a1a1a", "#2f7fb8", "#7a4fa3", "#d98a2b")
PLANS: dict[str, tuple[str, dict[str, Any], str]] = {
    CROSS: ("cross-layer attention, Eqn. (2)", {"color": "#1a1a1a", "linestyle": "--"}, "s"),
    BLOCK: ("its block form, ResFormer", {"color": style.look(BLOCK)["color"], "linestyle": "-"}, "^"),
}


def draw_keys(axis: Axes, prediction: Json, measured: Json) -> None:
    """Draw how far attentions are apart as keys move apart."""
    shown = prediction["shown"]
    cells = [cell for cell in prediction["keys"].values() if cell["size"] == shown]
    for (way, name), line, grey, marker in zip(WAYS.items(), LINES, GREYS, style.MARKERS, strict=False):
        shares = {cell["distance"]: cell["share"] for cell in cells if cell["way"] == way}
        distances = sorted(shares)
        axis.plot([0, distances[-1]], [0, math.sqrt(shares[distances[-1]])], color=grey, linestyle=line)
        axis.plot([], [], color=grey, linestyle=line, marker=marker, markerfacecolor="white", label=name)
        roots = [[math.sqrt(x) for x in measured[distance_key(shown, way, distance)]] for distance in distances]
        style.bars(axis, distances, [t_interval(x) for x in roots], color=grey, marker=marker)
    axis.set_xlabel("distance of the layers' keys (of their root mean square)")
    axis.set_ylabel("difference, over the block form's attention")
    d, n, sigma = (part[1:] for part in shown.split("-"))
    axis.set_title(f"Keys apart, linear attention, $d={d}$, $n={n}$, $\\sigma={sigma}$")


def draw_toys(axis: Axes, predicted: Json, measurement: Json) -> None:
    """Draw what toys explain, over the rank."""
    d, rho, trained = predicted["d"], predicted["rho"], measurement["trained"]
    fine = [d * i / 100 for i in range(101)]
    curves = {CROSS: [rho * a * (d - a) for a in fine], BLOCK: [rho * a * d for a in fine]}
    for plan, (name, look, marker) in PLANS.items():
        axis.plot(fine, curves[plan], label=f"{name}, closed form", **look)
        keys = [point_key(predicted["size"], plan, a) for a in range(d + 1)]
        style.crosses(axis, range(d + 1), [measurement["exact"][key]["explained"] for key in keys])
        intervals = [t_interval(trained["explained"][key]) for key in keys[1:]]
        style.bars(axis, range(1, d + 1), intervals, color=look["color"], marker=marker, label=f"{name}, trained, 95 %")
    style.crosses(axis, [], [], label="exact minimisation")
    dots = [(a + 0.12, v) for a in range(1, d + 1) for v in trained["swapped"][point_key(predicted["size"], CROSS, a)]]
    x, y = zip(*dots, strict=True)
    axis.plot(x, y, "+", color="#2f7fb8", markersize=4, label="block form put into trained (2), each seed")
    axis.set_xticks(range(d + 1))
    axis.set_xlabel("rank $a$ of the copy of $x$ (of $d$ numbers)")
    axis.set_ylabel("explained signal (squared units of $y$)")
    axis.set_title(f"Toys trained, $d={d}$, $n={predicted['n']}$, $\\sigma={predicted['sigma']:g}$")


def draw_largest(axis: Axes, predicted: Json, measurement: Json) -> None:
    """Draw how far rows move if no score moves farther than eps."""
    fine, eps = predicted["fine"], predicted["eps"]
    axis.plot(fine, predicted["all_move"], color="#999999", linestyle=":", label=r"$\tanh(\epsilon/2)$, all move")
    looks = zip(LINES, GREYS, style.MARKERS, strict=False)
    for (layers, curve), (line, grey, marker) in zip(predicted["curves"].items(), looks, strict=False):
        axis.plot(fine, curve, color=grey, linestyle=line, label=f"sharp bound, {layers} layers")
        axis.plot(
            eps,
            measurement["climbed"][layers],
            marker,
            color=grey,
            markerfacecolor="white",
            label=f"worst found, {layers} layers",
        )
    layers = str(next(iter(predicted["curves"])))
    drawn = measurement["random"][layers]
    label = f"random moves, {layers} layers, 95 % of rows"
    low, high = [x["low"] for x in drawn], [x["high"] for x in drawn]
    axis.fill_between(eps, low, high, color="#c8c8c8", linewidth=0, label=label)
    axis.set_xlabel(r"largest move $\epsilon$ of a score (nats)")
    axis.set_ylabel("total variation of the weights")
    axis.set_title("Softmax: the largest move")


def draw_normal(axis: Axes, predicted: Json, measured: Sequence[Json]) -> None:
    """Draw how far rows move if all scores move normally."""
    spreads = predicted["spreads"]
    axis.plot(spreads, predicted["endless"], color="#1a1a1a", linestyle="--", label="Pinsker's bound, endless rows")
    axis.plot(spreads, [x["pinsker"] for x in measured], "s", color="#1a1a1a", markerfacecolor="white")
    axis.plot([], [], "s", color="#1a1a1a", markerfacecolor="white", label="Pinsker's bound, mean over the rows")
    axis.plot(spreads, [x["kappa"] for x in measured], ":", color="#d98a2b", label="sharp bound, by each row's largest")
    off = [x["variation"] for x in measured]
    axis.plot(spreads, [x["middle"] for x in off], "-", color="#2f7fb8", label="measured, median of rows")
    low, high = [x["low"] for x in off], [x["high"] for x in off]
    axis.fill_between(spreads, low, high, color="#2f7fb8", alpha=0.2, linewidth=0, label="measured, 95 % of rows")
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.set_ylim(top=1.2)
    axis.set_xlabel("standard deviation of the moves (nats)")
    axis.set_ylabel("total variation of the weights")
    axis.set_title("Softmax: normal moves, one earlier layer")


EXPERIMENT: Experiment = ResFormerBlocks()
