"""The loss gap against rank-a compression: closed forms, exact minimisation, the paper's bound and trained toys.

Seed claim: SkipV1Former, Theorem 2 (appendix A.1), at W0 = 0 as `theory.skipv1` states it.  A rank-a first layer keeps
a numbers of x and d - a of y; the closed forms say what each architecture can then explain of the d^2 numbers of W*.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from experiments.protocol import Check, Json, Profile
from experiments.statistics import t_interval
from experiments.toy_runs import Size, Training, minimise_all, ranks, train_all
from theory import skipv1

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from experiments.runs import RunFolder

EXACT_SLACK = 0.005  # of the explained signal
TRAINED_SLACK = 0.01  # of the explained signal, and
GAP_SLACK = 0.05  # of the gap, whichever is less
ALTERED = 0.02  # the negative controls: the explained signal 2 % lower and 2 % higher
ALTERED_GAP = 0.15


@dataclass(frozen=True)
class Config:
    """exact: sizes whose optimum is found by exact minimisation; trained: sizes that are also trained; shown: the
    size of the figure's first panel."""

    exact: tuple[Size, ...]
    trained: tuple[Size, ...]
    shown: Size
    training: Training
    starts: int = 8


_SMALL, _MIDDLE, _LARGE = Size(3, 8, 0.3), Size(4, 16, 0.0), Size(5, 20, 0.5)
_DETECTS = f"{ALTERED:.0%} of the explained signal, at every rank"

PROFILES = {
    "smoke": Profile(
        Config((_SMALL,), (_SMALL,), _SMALL, Training(steps=5000, held_out=131_072)), 8, 30, _DETECTS
    ),
    "cpu": Profile(
        Config(
            (_SMALL, _MIDDLE, _LARGE, Size(8, 40, 0.2)),
            (_SMALL, _MIDDLE, _LARGE),
            _LARGE,
            Training(steps=5000, held_out=131_072),
        ),
        8,
        180,
        _DETECTS,
    ),
    "full": Profile(
        Config(
            (_SMALL, _MIDDLE, _LARGE, Size(8, 40, 0.2), Size(12, 30, 1.0)),
            (_SMALL, _MIDDLE, _LARGE, Size(8, 40, 0.2)),
            _LARGE,
            Training(steps=20_000, held_out=524_288),
            starts=16,
        ),
        10,
        2400,
        _DETECTS,
    ),
}


class SkipV1Gap:
    name = "skipv1-gap"
    title = "Loss gap against rank-a compression (SkipV1Former, Theorem 2)"
    claims = ("skipv1.mha-infimum", "skipv1.skipv1-minimum", "skipv1.gap", "skipv1.paper-bound")
    profiles: Mapping[str, Profile] = PROFILES

    def predict(self, config: Config) -> Json:
        sizes = {}
        for size in config.exact:
            task = (size.d, size.n, size.sigma)
            points = []
            for rank in range(size.d + 1):
                gap, bound = skipv1.loss_gap(*task, rank), skipv1.paper_bound(*task, rank)
                points.append(
                    {
                        "mha": skipv1.mha_explained(*task, rank),
                        "skipv1": skipv1.skipv1_explained(*task, rank),
                        "gap": gap.gap,
                        "gap_to_optimum": gap.gap_to_optimum,
                        "paper_bound": bound.value,
                        "paper_bound_stderr": bound.stderr,
                    }
                )
            sizes[size.key] = {
                "d": size.d,
                "n": size.n,
                "sigma": size.sigma,
                "zero_loss": skipv1.zero_loss(*task),
                "rho": skipv1.signal_share(*task),
                "ranks": points,
            }
        return {
            "assumes": "W0 = 0; x and noise Gaussian; Assumption 1; minima over A, B, K and W",
            "source": "theory.skipv1, Theorem",
            "shown": config.shown.key,
            "sizes": sizes,
        }

    def measure(self, config: Config, seeds: int, run: RunFolder) -> Json:
        return {
            "exact": minimise_all(ranks(config.exact), config.starts, run),
            "trained": train_all(ranks(config.trained), seeds, config.training, run),
        }

    def compare(self, prediction: Json, measurement: Json) -> list[Check]:
        exact, trained = measurement["exact"], measurement["trained"]
        family = len(trained)
        checks = []
        for size, said in prediction["sizes"].items():
            for rank, point in enumerate(said["ranks"]):
                for toy in ("mha", "skipv1"):
                    key = f"{size}/{toy}/a{rank}"
                    signal = point[toy]
                    unit = max(signal, said["rho"])  # no signal at all still counts as one number of W*
                    altered = (signal - ALTERED * unit, signal + ALTERED * unit)
                    claim = f"skipv1.{'mha-infimum' if toy == 'mha' else 'skipv1-minimum'}"
                    checks.append(
                        Check(
                            id=f"exact/{key}",
                            group=f"exact minimum, {toy}, {size}",
                            claim=claim,
                            statement="the exact minimum explains what the closed form says",
                            predicted=signal,
                            measured=exact[key]["explained"],
                            stderr=0.0,
                            tolerance=EXACT_SLACK * unit,
                            controls=altered,
                        )
                    )
                    if key in trained:
                        interval = t_interval(trained[key], family)
                        slack = min(TRAINED_SLACK * unit, GAP_SLACK * point["gap"])
                        checks.append(
                            Check(
                                id=f"trained/{key}",
                                group=f"trained, {toy}, {size}",
                                claim=claim,
                                statement="toys trained on sampled prompts explain what the closed form says",
                                predicted=signal,
                                measured=interval.mean,
                                stderr=interval.stderr,
                                tolerance=interval.half_width + slack,
                                controls=altered,
                            )
                        )
                if f"{size}/mha/a{rank}" in trained and rank:
                    interval = t_interval(_gaps(trained, size, rank), family)
                    gap = point["gap"]
                    checks.append(
                        Check(
                            id=f"trained-gap/{size}/a{rank}",
                            group=f"trained gap at equal rank, {size}",
                            claim="skipv1.gap",
                            statement="the trained gap, paired by seed, is rho a^2",
                            predicted=gap,
                            measured=interval.mean,
                            stderr=interval.stderr,
                            tolerance=interval.half_width + GAP_SLACK * gap,
                            controls=((1 - ALTERED_GAP) * gap, (1 + ALTERED_GAP) * gap),
                        )
                    )
        return checks

    def draw(self, prediction: Json, measurement: Json) -> Figure:
        from experiments import style

        fig, axes = style.figure(3, width=3.4)
        _draw_losses(axes[0], prediction, measurement)
        _draw_gaps(axes[1], prediction, measurement)
        _draw_bound(axes[2], prediction, measurement)
        style.finish(axes)
        return fig


def _gaps(trained: Json, size: str, rank: int) -> list[float]:
    """SkipV1Former's explained signal less MHA's, seed by seed."""
    pairs = zip(trained[f"{size}/skipv1/a{rank}"], trained[f"{size}/mha/a{rank}"], strict=True)
    return [skip - mha for skip, mha in pairs]


def _draw_losses(axis: Axes, prediction: Json, measurement: Json) -> None:
    """Loss against rank at one size: closed form (lines), exact minimisation (crosses), training (error bars)."""
    from experiments import style

    shown = prediction["shown"]
    said = prediction["sizes"][shown]
    d, zero = said["d"], said["zero_loss"]
    fine = [d * i / 200 for i in range(201)]
    rho = said["rho"]
    curves = {"mha": [zero - rho * a * (d - a) for a in fine], "skipv1": [zero - rho * a * d for a in fine]}
    names = {"mha": "MHA", "skipv1": "SkipV1Former"}
    for toy, look, marker in (("mha", style.MHA, "s"), ("skipv1", style.SKIPV1, "o")):
        axis.plot(fine, curves[toy], label=f"{names[toy]}, closed form", **look)  # type: ignore[arg-type]
        keys = [f"{shown}/{toy}/a{rank}" for rank in range(d + 1)]
        exact = [zero - measurement["exact"][key]["explained"] for key in keys]
        axis.plot(range(d + 1), exact, "x", color="black", markersize=8, zorder=4)
        intervals = [t_interval(measurement["trained"][key]) for key in keys]
        axis.errorbar(
            range(d + 1),
            [zero - i.mean for i in intervals],
            yerr=[i.half_width for i in intervals],
            fmt=marker,
            color=look["color"],
            markerfacecolor="white",
            label=f"{names[toy]}, trained, 95 %",
        )
    axis.plot([], [], "x", color="black", markersize=8, label="exact minimisation")
    axis.axhline(zero, color="#999999", linewidth=0.8)
    axis.annotate("predicting zero", (d, zero), xytext=(0, 3), textcoords="offset points", ha="right", fontsize=7.5)
    axis.set_xticks(range(d + 1))
    axis.set_xlabel("rank $a$ of the copy of $x$ (of $d$ numbers)")
    axis.set_ylabel(r"loss  $E\,\|y_{n+1}-\hat{y}_{n+1}\|^2$  (units of $y^2$)")
    axis.set_title(f"Loss, $d={d}$, $n={said['n']}$, $\\sigma={said['sigma']:g}$")


def _draw_gaps(axis: Axes, prediction: Json, measurement: Json) -> None:
    """The gap at equal rank over rho d^2 against a/d, where every size falls on one parabola."""
    from experiments import style

    fine = [i / 200 for i in range(201)]
    axis.plot(fine, [a * a for a in fine], color="black", label=r"closed form, $(a/d)^2$")
    for marker, (size, said) in zip(style.MARKERS, prediction["sizes"].items(), strict=False):
        d, scale = said["d"], said["rho"] * said["d"] ** 2
        label = f"$d={d}$, $n={said['n']}$, $\\sigma={said['sigma']:g}$"
        exact = [
            measurement["exact"][f"{size}/skipv1/a{a}"]["explained"]
            - measurement["exact"][f"{size}/mha/a{a}"]["explained"]
            for a in range(d + 1)
        ]
        axis.plot([a / d for a in range(d + 1)], [g / scale for g in exact], "x", color="black", markersize=7)
        if f"{size}/mha/a0" not in measurement["trained"]:
            continue
        intervals = [t_interval(_gaps(measurement["trained"], size, a)) for a in range(d + 1)]
        axis.errorbar(
            [a / d for a in range(d + 1)],
            [i.mean / scale for i in intervals],
            yerr=[i.half_width / scale for i in intervals],
            fmt=marker,
            color=style.SKIPV1["color"],
            markerfacecolor="white",
            label=f"trained, {label}",
        )
    axis.plot([], [], "x", color="black", markersize=7, label="exact minimisation, all sizes")
    axis.set_xlabel("$a/d$")
    axis.set_ylabel(r"gap at equal rank  /  $\rho d^2$")
    axis.set_title("Gap at equal rank, all sizes")


def _draw_bound(axis: Axes, prediction: Json, measurement: Json) -> None:
    """The paper's bound against the one gap that it bounds, MHA at rank a to SkipV1Former's optimum."""
    from experiments import style

    said = prediction["sizes"][prediction["shown"]]
    d, rho, points = said["d"], said["rho"], said["ranks"]
    fine = [d * i / 200 for i in range(201)]
    axis.plot(fine, [rho * (d * d - a * (d - a)) for a in fine], color="black", label="closed form")
    trained = measurement["trained"]
    best = trained[f"{prediction['shown']}/skipv1/a{d}"]
    intervals = []
    for a in range(d + 1):
        mha = trained[f"{prediction['shown']}/mha/a{a}"]
        intervals.append(t_interval([b - m for b, m in zip(best, mha, strict=True)]))
    axis.errorbar(
        range(d + 1),
        [i.mean for i in intervals],
        yerr=[i.half_width for i in intervals],
        fmt="o",
        color=style.SKIPV1["color"],
        markerfacecolor="white",
        label="trained, 95 % interval",
    )
    axis.errorbar(
        range(d + 1),
        [p["paper_bound"] for p in points],
        yerr=[1.96 * p["paper_bound_stderr"] for p in points],
        fmt="D",
        markersize=4,
        linewidth=1.2,
        label="the paper's lower bound",
        **style.BOUND,  # type: ignore[arg-type]
    )
    axis.set_yscale("log")
    axis.set_xticks(range(d + 1))
    axis.set_xlabel("rank $a$ of MHA")
    axis.set_ylabel("gap to SkipV1Former's optimum ($y^2$)")
    axis.set_title(f"The paper's bound, $d={d}$")


EXPERIMENT: Any = SkipV1Gap()
