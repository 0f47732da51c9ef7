"""How much of the signal each architecture explains as the context grows: a quarter for MHA, all for SkipV1Former.

Theorem of `theory.skipv1.gap` between the optima: of E ||W*||^2 = d^2, SkipV1Former explains the share
rho = n / (n + d + 1 + sigma^2) -> 1, and MHA rho floor(d^2/4) / d^2, at most a quarter however long the context.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from experiments.experiment.protocol import Experiment, Kind, Profile
from experiments.store.folders import Json
from experiments.toys.checks import ALTERED, SHARE, ClosedForm, exact_check, trained_check
from experiments.toys.runs import Point, minimisations, minimise_all
from experiments.toys.training import Training, train_all
from experiments.verdicts.checks import Check
from experiments.verdicts.intervals import t_interval
from theory.plans.heads import TOYS
from theory.plans.setting import Setting
from theory.prompts import setting
from theory.skipv1 import gap as skipv1

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from experiments.store.folders import RunFolder

SIGMA = 0.3
STATEMENT = "the share of the signal explained is the closed form's"
ENDLESS = 10**6  # a context so long that rho is 1 to within a hundredth of the slack
OVER_D = f"n = {ENDLESS:.0e}, over d"


@dataclass(frozen=True, kw_only=True)
class Config:
    """d and contexts: the curves over n; trained: the contexts that are also trained; widths: the d's of the limit."""

    d: int
    contexts: tuple[int, ...]
    trained: tuple[int, ...]
    widths: tuple[int, ...]
    training: Training
    starts: int = 8


_DETECTS = f"{ALTERED:.0%} of the share explained, at every context length and width"
PROFILES = {
    "smoke": Profile(
        config=Config(
            d=2, contexts=(8, 32), trained=(8, 32), widths=(1, 2, 3), training=Training(steps=4000, held_out=524_288)
        ),
        seeds=8,
        seconds=55,
        detects=_DETECTS,
    ),
    "cpu": Profile(
        config=Config(
            d=4,
            contexts=(1, 2, 4, 8, 16, 32, 64, 128, 256),
            trained=(4, 16, 64, 256),
            widths=(1, 2, 3, 4, 5, 6),
            training=Training(steps=2500, held_out=65_536),
        ),
        seeds=8,
        seconds=55,
        detects=_DETECTS,
    ),
    "full": Profile(
        config=Config(
            d=6,
            contexts=(1, 2, 4, 8, 16, 32, 64, 128, 256, 1024),
            trained=(4, 16, 64, 256),
            widths=(1, 2, 3, 4, 5, 6, 8, 12),
            training=Training(steps=20_000, held_out=524_288),
            starts=16,
        ),
        seeds=10,
        seconds=2400,
        detects=_DETECTS,
    ),
}


def _best(d: int, toy: str) -> int:
    return skipv1.best_mha_rank(d) if toy == "mha" else d


def _spread(low: int, high: int) -> list[int]:
    """Whole numbers from low to high, evenly spread on a logarithmic axis, for a curve."""
    return sorted({round(low * (high / low) ** (i / 100)) for i in range(101)})


def _points(d: int, contexts: tuple[int, ...]) -> list[Point]:
    return [Point(Setting(d, n, SIGMA), toy, _best(d, toy)) for n in contexts for toy in TOYS]


def _row(d: int, n: int) -> Json:
    task = (d, n, SIGMA)
    return {
        "d": d,
        "n": n,
        "rho": setting.signal_share(*task),
        "mha": skipv1.mha_explained(*task, _best(d, "mha")) / d**2,
        "skipv1": skipv1.skipv1_explained(*task, d) / d**2,
    }


class SkipV1Limit:
    name = "skipv1-limit"
    title = "Share of the signal explained as the context grows"
    caption = (
        "The share of the signal that either architecture explains at its best rank, (a) over the number of pairs "
        "in the prompt and (b) over the width d as that number goes to infinity; the thin line is one quarter. "
        "Lines are closed forms, crosses the lowest of several descents on the exact loss, hollow markers toys "
        "trained on fresh prompts, with 95 % intervals over seeds that are smaller than the marker. Only whole n "
        "and d exist; lines join them for the eye."
    )
    kind: Kind = "theory"
    claims: tuple[str, ...] = ("skipv1.limit",)
    profiles: Mapping[str, Profile] = PROFILES

    def predict(self, config: Config) -> Json:
        return {
            "assumes": "W0 = 0; x and noise Gaussian; Assumption 1; minima over A, B, K, W and the rank",
            "source": "theory.skipv1.gap, Theorem, gap of the optima",
            "d": config.d,
            "sigma": SIGMA,
            "curve": [_row(config.d, n) for n in _spread(config.contexts[0], config.contexts[-1])],
            "contexts": [_row(config.d, n) for n in config.contexts],
            "widths": [_row(d, ENDLESS) for d in config.widths],
        }

    def measure(self, config: Config, seeds: int, run: RunFolder) -> Json:
        endless = [p for d in config.widths for p in _points(d, (ENDLESS,))]
        return {
            "exact": minimise_all(minimisations([*_points(config.d, config.contexts), *endless], config.starts), run),
            "trained": train_all(_points(config.d, config.trained), seeds, config.training, run),
        }

    def compare(self, prediction: Json, measurement: Json) -> list[Check]:
        exact, trained = measurement["exact"], measurement["trained"]
        checks = []
        for place in ("contexts", "widths"):
            for row in prediction[place]:
                for toy in TOYS:
                    key, power = _key(row, toy), row["d"] ** 2
                    closed = ClosedForm("skipv1.limit", row[toy], row["rho"] / power, SHARE)
                    axis, where = ("n", f"d = {row['d']}, over n") if place == "contexts" else ("width", OVER_D)
                    share, most = exact[key]["explained"] / power, 1 + SIGMA**2  # the zero loss is at most d^2 of that
                    checks.append(
                        exact_check(
                            f"exact/{axis}/{key}", f"exact minimum, {toy}, {where}", STATEMENT, closed, share, most
                        )
                    )
                    if place == "contexts" and key in trained:
                        interval = t_interval([x / power for x in trained[key]], len(trained))
                        checks.append(
                            trained_check(f"trained/{key}", f"trained, {toy}, {where}", STATEMENT, closed, interval)
                        )
        return checks

    def draw(self, prediction: Json, measurement: Json) -> Figure:
        from experiments.drawing import style

        fig, (over_n, over_d) = style.figure(2, width=3.7)
        d, sigma = prediction["d"], prediction["sigma"]
        contexts = prediction["contexts"]
        high = contexts[-1]["n"]
        exact, curve, widths = measurement["exact"], prediction["curve"], prediction["widths"]
        for toy, (name, look, marker) in style.TOYS.items():
            over_n.plot([x["n"] for x in curve], [x[toy] for x in curve], label=f"{name}, closed form", **look)
            style.crosses(
                over_n, [x["n"] for x in contexts], [exact[_key(x, toy)]["explained"] / d**2 for x in contexts]
            )
            trained = {x["n"]: measurement["trained"].get(_key(x, toy)) for x in contexts}
            intervals = {n: t_interval([v / d**2 for v in values]) for n, values in trained.items() if values}
            style.bars(
                over_n,
                list(intervals),
                list(intervals.values()),
                marker=marker,
                color=look["color"],
                label=f"{name}, trained, 95 %",
            )
            over_d.plot([x["d"] for x in widths], [x[toy] for x in widths], label=f"{name}, closed form", **look)
            style.crosses(
                over_d, [x["d"] for x in widths], [exact[_key(x, toy)]["explained"] / x["d"] ** 2 for x in widths]
            )
        for axis in (over_n, over_d):
            style.crosses(axis, [], [], "exact minimisation")
            axis.axhline(0.25, color="#999999", linewidth=0.8)
            axis.set_ylim(-0.03, 1.12)
            axis.set_ylabel(r"share of $E\,\|W^*\|^2$ explained")
        over_n.annotate(
            "one quarter", (high, 0.25), xytext=(0, 4), textcoords="offset points", ha="right", fontsize=7.5
        )
        over_n.set_xscale("log", base=2)
        over_n.set_xlabel("context length $n$ (pairs)")
        over_n.set_title(f"Against context length, $d={d}$, $\\sigma={sigma:g}$")
        over_d.set_xlabel("width $d$")
        over_d.set_title("In the limit of endless context")
        style.finish([over_n, over_d])
        return fig


def _key(row: Json, toy: str) -> str:
    return Point(Setting(row["d"], row["n"], SIGMA), toy, _best(row["d"], toy)).key


EXPERIMENT: Experiment = SkipV1Limit()
