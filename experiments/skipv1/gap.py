"""The loss gap against rank-a compression: closed forms, exact minimisation, the paper's bound and trained toys.

Seed claim: SkipV1Former, Theorem 2 (appendix A.1), at W0 = 0 as `theory.skipv1.gap` states it.  A rank-a first
layer keeps a numbers of x and d - a of y; the closed forms say what each architecture can then explain of the d^2
numbers of W*.

The second figure, `limit`, asks what is left of the gap between the optima as the context grows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import TYPE_CHECKING

from experiments.drawing import style
from experiments.experiment.protocol import Experiment, Kind, Profile
from experiments.skipv1 import limit as optima
from experiments.store.folders import Json, RunFolder
from experiments.toys.checks import ALTERED, TRAINED_SLACK, ClosedForm, exact_check, trained_check
from experiments.toys.runs import every_rank, minimisations, minimise_all, point_key
from experiments.toys.training import Training, readouts_only, train_all
from experiments.verdicts.checks import Check
from experiments.verdicts.intervals import t_interval
from theory.plans.heads import TOYS
from theory.plans.setting import Setting
from theory.prompts import setting
from theory.skipv1 import gap as skipv1

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CLAIMS = {"mha": "skipv1.mha-infimum", "skipv1": "skipv1.skipv1-minimum"}
GAP = "skipv1.gap"
GAP_SLACK = 0.05  # of the gap at equal rank: the most that training may add to an interval
ALTERED_GAP = 0.15  # the negative controls of the gap


@dataclass(frozen=True, kw_only=True)
class Config:
    """The sizes of both figures.

    Attributes:
        exact: Sizes whose optimum is found by exact minimisation.
        trained: Sizes that are also trained.
        shown: The size of the first panel, which is also trained from the usual Gaussian start, for comparison only.
        starts: Starting points of every exact minimisation.
    """

    exact: tuple[Setting, ...]
    trained: tuple[Setting, ...]
    shown: Setting
    training: Training
    from_gaussian: Training
    limit: optima.Limit
    starts: int = 8


_SMALL, _MIDDLE, _LARGE = Setting(3, 8, 0.3), Setting(4, 16, 0.0), Setting(5, 20, 0.5)
_DETECTS = f"{ALTERED:.0%} of the explained signal at every rank and context, {ALTERED_GAP:.0%} of the trained gap"


def _gaussian(steps: int) -> Training:
    """Return training at the rate that leaves the fewest toys on a plateau, of 0.005, 0.01, 0.02 and 0.04."""
    return Training(steps=steps, held_out=16_384, learning_rate=0.04, start="gaussian")


PROFILES = {
    "smoke": Profile(
        config=Config(
            exact=(_SMALL,),
            trained=(_SMALL,),
            shown=_SMALL,
            training=Training(steps=700, held_out=49_152),
            from_gaussian=_gaussian(200),
            # Of one width with the toys above, so that all are trained in the same stacks.
            limit=optima.Limit(d=3, contexts=(16, 64), trained=(16,), widths=(1, 2, 3), starts=4),
            starts=4,
        ),
        seeds=8,
        seconds=20,
        detects=_DETECTS,
    ),
    "cpu": Profile(
        config=Config(
            exact=(_SMALL, _MIDDLE, _LARGE, Setting(8, 40, 0.2)),
            trained=(_SMALL, _MIDDLE, _LARGE),
            shown=_LARGE,
            training=Training(steps=1250, held_out=32_768),
            from_gaussian=_gaussian(1250),
            limit=optima.Limit(
                d=4, contexts=(1, 2, 4, 8, 16, 32, 64, 128, 256), trained=(4, 16, 64), widths=(1, 2, 3, 4, 5, 6)
            ),
            starts=6,
        ),
        seeds=8,
        seconds=90,
        detects=_DETECTS,
    ),
    "full": Profile(
        config=Config(
            exact=(_SMALL, _MIDDLE, _LARGE, Setting(8, 40, 0.2), Setting(12, 30, 1.0)),
            trained=(_SMALL, _MIDDLE, _LARGE, Setting(8, 40, 0.2)),
            shown=_LARGE,
            training=Training(steps=20_000, held_out=524_288),
            from_gaussian=_gaussian(20_000),
            limit=optima.Limit(
                d=6,
                contexts=(1, 2, 4, 8, 16, 32, 64, 128, 256, 1024),
                trained=(4, 16, 64, 256),
                widths=(1, 2, 3, 4, 5, 6, 8, 12),
                starts=16,
            ),
            starts=16,
        ),
        seeds=10,
        seconds=4800,
        detects=_DETECTS,
    ),
}


class SkipV1Gap:
    name = "skipv1-gap"
    title = "Loss gap against rank-a compression (SkipV1Former, Theorem 2)"
    caption = (
        "SkipV1Former's loss falls with every number kept of x, MHA's turns back up. (a) Loss over the rank a: closed "
        "forms (lines), exact minima (crosses), trained toys (hollow), Gaussian starts (dots). (b) Gap at equal rank, "
        "all sizes. (c) Distance from the closed form; grey: allowed. (d) Gap to the optimum, and the paper's bound. "
        "95 % over seeds."
    )
    kind: Kind = "theory"
    claims: tuple[str, ...] = (*CLAIMS.values(), GAP, "skipv1.paper-bound", optima.LIMIT)
    profiles: Mapping[str, Profile] = PROFILES
    further: Mapping[str, str] = {
        "limit": "However long the prompt, MHA explains at most a quarter of the signal, SkipV1Former all of it. Share "
        "explained at the best rank, (a) over the number of pairs, (b) over the width d for an endless prompt; thin "
        "line: one quarter. Lines: closed forms; crosses: exact minima; hollow: trained toys, 95 % over seeds.",
        "losses": "A skip to layer 1's values gains more, the more numbers of x a token keeps. The lowest loss of two "
        "layers of linear attention on in-context regression. Lines: closed forms. Markers: trained toys, 95 % over "
        "seeds, mostly smaller than the marker.",
    }

    def at_size(self, config: Config, size: Setting) -> Config:
        growing = replace(config.limit, d=size.d, sigma=float(size.sigma), trained=())
        return replace(config, exact=(size,), trained=(size,), shown=size, limit=growing)

    def predict(self, config: Config) -> Json:
        return {
            "assumes": "W0 = 0; x and noise Gaussian; Assumption 1; minima over A, B, K and W",
            "source": "theory.skipv1.gap, Theorem",
            "shown": config.shown.key,
            "sizes": {size.key: _predict_ranks(size) for size in config.exact},
            "limit": optima.predict(config.limit),
        }

    def measure(self, config: Config, seeds: int, run: RunFolder) -> Json:
        shown = every_rank((config.shown,))
        minima = [*minimisations(every_rank(config.exact), config.starts), *config.limit.minimisations]
        trained = [*every_rank(config.trained), *config.limit.trained_points]
        return {
            "exact": minimise_all(minima, run),
            "trained": train_all(trained, seeds, config.training, run=run),
            "readouts_only": readouts_only(shown, seeds, config.training.start),
            "from_gaussian": train_all(shown, seeds, config.from_gaussian, run=run),
        }

    def compare(self, prediction: Json, measurement: Json) -> Sequence[Check]:
        ranks = _compare_ranks(prediction["sizes"], measurement["exact"], measurement["trained"])
        return [*ranks, *optima.compare(prediction["limit"], measurement["exact"], measurement["trained"])]

    def draw(self, prediction: Json, measurement: Json) -> Figure:
        """Draw losses, gaps of all sizes on one curve, how far measurements are from theory, the paper's bound."""
        fig, axes = style.figure(2, rows=2, width=4.2, height=4.0)
        shown = prediction["shown"]
        numbers = prediction["sizes"][shown]
        _draw_losses(axes[0], shown, numbers, measurement=measurement)
        _draw_gaps(axes[1], prediction, measurement)
        _draw_deviations(axes[2], shown, numbers, measurement=measurement)
        _draw_bound(axes[3], shown, numbers, trained=measurement["trained"])
        style.finish(axes)
        return fig

    def draw_further(self, name: str, prediction: Json, measurement: Json) -> Figure:
        """Draw the losses alone, or the share explained over the context length and over the width without end."""
        if name == "losses":
            fig, (axis,) = style.figure(1, width=6.0, height=3.6)
            shown = prediction["shown"]
            _draw_losses_alone(axis, prediction["sizes"][shown], shown, measurement["trained"])
            style.legend_below(axis)
            return fig
        fig, axes = style.figure(2, width=3.7)
        optima.draw_over_context(axes[0], prediction["limit"], measurement)
        optima.draw_over_width(axes[1], prediction["limit"], measurement["exact"])
        for axis in axes:
            style.crosses(axis, [], [], label="exact minimisation")
            axis.axhline(0.25, color="#999999", linewidth=0.8)
            axis.set_ylim(-0.03, 1.12)
            axis.set_ylabel(r"share of $E\,\|W^*\|^2$ explained")
        style.finish(axes)
        return fig


def _predict_ranks(size: Setting) -> Json:
    """Return the closed forms at every rank of a size."""
    task, ranks = size.floats, []
    for rank in range(size.d + 1):
        gap, bound = skipv1.loss_gap(*task, rank), skipv1.paper_bound(*task, rank)
        ranks.append(
            {
                "mha": skipv1.mha_explained(*task, rank),
                "skipv1": skipv1.skipv1_explained(*task, rank),
                "gap": gap.gap,
                "gap_to_optimum": gap.gap_to_optimum,
                "paper_bound": bound.value,
                "paper_bound_stderr": bound.stderr,
            }
        )
    return {
        "d": size.d,
        "n": size.n,
        "sigma": size.sigma,
        "zero_loss": setting.zero_loss(*task),
        "rho": setting.signal_share(*task),
        "ranks": ranks,
    }


def _compare_ranks(sizes: Json, exact: Json, trained: Json) -> Iterator[Check]:
    """Yield exact minima, trained toys and trained gaps at every rank.

    At rank 0 a toy predicts zero whatever its weights: there is nothing to train.
    """
    points = {(size, rank) for size, numbers in sizes.items() for rank in range(1, numbers["d"] + 1)}
    points = {(size, rank) for size, rank in points if point_key(size, "mha", rank) in trained}
    family = len(points) * (len(TOYS) + 1)  # and a gap each
    for size, numbers in sizes.items():
        for rank, point in enumerate(numbers["ranks"]):
            for toy in TOYS:
                key = point_key(size, toy, rank)
                closed = ClosedForm(CLAIMS[toy], point[toy], numbers["rho"])
                yield exact_check(
                    f"exact/{key}",
                    group=f"exact minimum, {toy}, {size}",
                    statement="the exact minimum explains what the closed form says, and not more",
                    closed_form=closed,
                    explained=exact[key]["explained"],
                    zero_loss=numbers["zero_loss"],
                )
                if (size, rank) in points:
                    yield trained_check(
                        f"trained/{key}",
                        group=f"trained, {toy}, {size}",
                        statement="toys trained on sampled prompts explain what the closed form says, and not more",
                        closed_form=closed,
                        interval=t_interval(trained[key], family),
                        most_slack=GAP_SLACK * point["gap"],
                    )
            if (size, rank) in points:
                interval, gap = t_interval(_paired_gaps(trained, size, rank), family), point["gap"]
                yield Check.sampled(
                    interval,
                    id=f"trained-gap/{size}/a{rank}",
                    group=f"trained gap at equal rank, {size}",
                    claim=GAP,
                    statement="the trained gap, paired by seed, is rho a^2",
                    predicted=gap,
                    controls=((1 - ALTERED_GAP) * gap, (1 + ALTERED_GAP) * gap),
                    slack=GAP_SLACK * gap,
                    quantity="loss gap, squared units of y",
                )


def _paired_gaps(trained: Json, size: str, rank: int) -> list[float]:
    """Return SkipV1Former's explained signal minus MHA's, seed by seed."""
    skip, mha = (trained[point_key(size, toy, rank)] for toy in ("skipv1", "mha"))
    return [s - m for s, m in zip(skip, mha, strict=True)]


def _through(values: Sequence[float]) -> tuple[list[float], list[float]]:
    """Return the curve through a closed form's values at a = 0 .. d; each of them is quadratic in a."""
    import numpy as np

    fine = np.linspace(0, len(values) - 1, 201)
    curve = np.polyval(np.polyfit(range(len(values)), values, min(2, len(values) - 1)), fine)
    return fine.tolist(), curve.tolist()


def _draw_losses(axis: Axes, shown: str, numbers: Json, measurement: Json) -> None:
    d, zero = numbers["d"], numbers["zero_loss"]
    ranks = range(d + 1)
    for toy, (name, look, marker) in style.TOYS.items():
        fine, curve = _through([zero - point[toy] for point in numbers["ranks"]])
        axis.plot(fine, curve, label=f"{name}, closed form", **look)
        keys = [point_key(shown, toy, rank) for rank in ranks]
        style.crosses(axis, ranks, [zero - measurement["exact"][key]["explained"] for key in keys])
        intervals = [t_interval([zero - v for v in measurement["trained"][key]]) for key in keys]
        style.bars(axis, ranks, intervals, marker=marker, color=look["color"], label=f"{name}, trained, 95 %")
        dots = [(a, zero - v) for a, key in zip(ranks, keys, strict=True) for v in measurement["from_gaussian"][key]]
        axis.plot(*zip(*dots, strict=True), ".", color=look["color"], markersize=5, alpha=0.7, zorder=1)
    axis.plot([], [], ".", color="#777777", label="Gaussian start, each seed")
    style.crosses(axis, [], [], label="exact minimisation")
    axis.axhline(zero, color="#999999", linewidth=0.8)
    above: Json = {"xytext": (0, 3), "textcoords": "offset points", "ha": "center"}
    axis.annotate("predicting zero", (d / 2, zero), fontsize=7.5, **above)
    axis.set_xticks(ranks)
    axis.set_xlabel("rank $a$ of the copy of $x$ (of $d$ numbers)")
    axis.set_ylabel(r"loss  $E\,\|y_{n+1}-\hat{y}_{n+1}\|^2$  (units of $y^2$)")
    axis.set_title(f"Loss, $d={d}$, $n={numbers['n']}$, $\\sigma={numbers['sigma']:g}$")


def _draw_losses_alone(axis: Axes, numbers: Json, shown: str, trained: Json) -> None:
    """Draw both architectures' losses over the rank, and the gap at a rank for which there is room."""
    d, zero = numbers["d"], numbers["zero_loss"]
    for toy, (name, look, marker) in style.TOYS.items():
        axis.plot(*_through([zero - point[toy] for point in numbers["ranks"]]), label=f"{name}, proved", **look)
        intervals = [t_interval([zero - v for v in trained[point_key(shown, toy, a)]]) for a in range(d + 1)]
        style.bars(axis, range(d + 1), intervals, marker=marker, color=look["color"], label=f"{name}, trained")
    at = d - 1
    mha, skip = ((at, zero - numbers["ranks"][at][toy]) for toy in ("mha", "skipv1"))
    arrow = {"arrowstyle": "<->", "color": "#777777", "shrinkA": 6, "shrinkB": 6}
    axis.annotate("", mha, skip, arrowprops=arrow)
    middle = (at, (mha[1] + skip[1]) / 2)
    axis.annotate(r"gap, $\rho a^2$", middle, xytext=(-5, 0), textcoords="offset points", ha="right", va="center")
    axis.axhline(zero, color="#999999", linewidth=0.8)
    axis.annotate("predicting zero", (d / 2, zero), xytext=(0, 3), textcoords="offset points", ha="center")
    axis.set_xticks(range(d + 1))
    axis.set_xlabel(f"numbers of $x$ that a token keeps (rank $a$, of $d={d}$)")
    axis.set_ylabel("lowest loss (squared units of $y$)")
    axis.set_title(f"What is lost when $x$ and $y$ share a token, $n={numbers['n']}$, $\\sigma={numbers['sigma']:g}$")


def _draw_gaps(axis: Axes, prediction: Json, measurement: Json) -> None:
    shown = prediction["sizes"][prediction["shown"]]
    fine, curve = _through([point["gap"] / (shown["rho"] * shown["d"] ** 2) for point in shown["ranks"]])
    axis.plot([a / shown["d"] for a in fine], curve, color="black", label=r"closed form, $(a/d)^2$")
    for marker, (size, numbers) in zip(style.MARKERS, prediction["sizes"].items(), strict=False):
        d, scale, ranks = numbers["d"], numbers["rho"] * numbers["d"] ** 2, range(numbers["d"] + 1)
        shares = [a / d for a in ranks]
        minima = {toy: [measurement["exact"][point_key(size, toy, a)]["explained"] for a in ranks] for toy in TOYS}
        gaps = [(skip - mha) / scale for skip, mha in zip(minima["skipv1"], minima["mha"], strict=True)]
        style.crosses(axis, shares, gaps)
        if point_key(size, "mha", 0) in measurement["trained"]:
            intervals = [t_interval(_paired_gaps(measurement["trained"], size, a)) for a in ranks]
            label = f"$d={d}$, $n={numbers['n']}$, $\\sigma={numbers['sigma']:g}$, 95 %"
            style.bars(axis, shares, intervals, unit=scale, marker=marker, color=style.SKIPV1["color"], label=label)
    style.crosses(axis, [], [], label="exact minimisation")
    axis.set_xlabel("share $a/d$ of the numbers spent on $x$")
    axis.set_ylabel(r"gap at equal rank / $\rho d^2$")
    axis.set_title("Gap at equal rank, all sizes")


def _draw_deviations(axis: Axes, shown: str, numbers: Json, measurement: Json) -> None:
    """Draw measured minus predicted, in per cent of the prediction, with what a wrong prediction would look like."""
    d = numbers["d"]
    axis.axhspan(-100 * TRAINED_SLACK, 100 * TRAINED_SLACK, color="#ececec", zorder=0, label="allowed slack")
    for level in (-100 * ALTERED, 100 * ALTERED):
        axis.axhline(level, **{**style.BOUND, "linewidth": 1.2})
    axis.plot([], [], **style.BOUND, label="closed form altered by 2 %")
    for shift, (toy, (name, look, marker)) in zip((-0.08, 0.08), style.TOYS.items(), strict=True):
        signals = {a: point[toy] for a, point in enumerate(numbers["ranks"]) if point[toy] > 0}
        keys = {point_key(shown, toy, a): signal for a, signal in signals.items()}
        start = [100 * (fmean(measurement["readouts_only"][key]) / signal - 1) for key, signal in keys.items()]
        exact = [100 * (measurement["exact"][key]["explained"] / signal - 1) for key, signal in keys.items()]
        trained = [t_interval([100 * (v / s - 1) for v in measurement["trained"][key]]) for key, s in keys.items()]
        places = [a + shift for a in signals]
        axis.plot(places, start, "+", color=look["color"], markersize=6)
        style.crosses(axis, [a + 3 * shift for a in signals], exact)
        style.bars(axis, places, trained, marker=marker, color=look["color"], label=f"{name}, trained, 95 %")
    style.crosses(axis, [], [], label="exact minimisation")
    axis.set_xticks(range(d + 1))
    axis.plot([], [], "+", color="#777777", label="untrained, best $W$ only")
    low, high = axis.get_ylim()
    axis.set_ylim(min(low, -3), max(high, 3))
    axis.set_xlabel("rank $a$")
    axis.set_ylabel("measured less closed form (%)")
    axis.set_title(f"Distance from theory, $d={d}$")


def _draw_bound(axis: Axes, shown: str, numbers: Json, trained: Json) -> None:
    """Draw the paper's bound and the one gap that it bounds, from MHA at rank a to SkipV1Former's optimum."""
    d, points = numbers["d"], numbers["ranks"]
    ranks = range(d + 1)
    axis.plot(*_through([point["gap_to_optimum"] for point in points]), color="black", label="closed form")
    best, by_rank = trained[point_key(shown, "skipv1", d)], [trained[point_key(shown, "mha", a)] for a in ranks]
    intervals = [t_interval([b - m for b, m in zip(best, mha, strict=True)]) for mha in by_rank]
    style.bars(axis, ranks, intervals, marker="o", color=style.SKIPV1["color"], label="trained, 95 %")
    bounds, errors = [p["paper_bound"] for p in points], [1.96 * p["paper_bound_stderr"] for p in points]
    look: Json = {"marker": "D", "markersize": 4, "linewidth": 1.2, **style.BOUND}
    axis.errorbar(ranks, bounds, yerr=errors, label="the paper's bound, 95 %", **look)
    axis.set_yscale("log")
    axis.set_xticks(ranks)
    axis.set_xlabel("rank $a$ of MHA")
    axis.set_ylabel("gap to the optimum (units of $y^2$)")
    axis.set_title(f"The paper's bound, $d={d}$")


EXPERIMENT: Experiment = SkipV1Gap()
