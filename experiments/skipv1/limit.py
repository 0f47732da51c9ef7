"""The gap of SkipV1Former's toy between the optima over the rank, as the context grows and over the width.

Of E ||W*||^2 = d^2, SkipV1Former explains the share rho = n / (n + d + 1 + sigma^2) -> 1, and MHA
rho floor(d^2/4) / d^2, at most a quarter however long the context.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from experiments.drawing import style
from experiments.store.folders import Json
from experiments.toys.checks import SHARE, ClosedForm, exact_check, trained_check
from experiments.toys.runs import Minimisation, Point, minimisations
from experiments.verdicts.checks import Check
from experiments.verdicts.intervals import t_interval
from theory.plans.heads import TOYS
from theory.plans.setting import Setting
from theory.prompts import setting
from theory.skipv1 import gap as skipv1

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LIMIT = "skipv1.limit"
SIGMA = 0.3
ENDLESS = 10**6  # a context so long that rho is 1 to within a hundredth of the slack


@dataclass(frozen=True, kw_only=True)
class Limit:
    """The sizes of the second figure.

    Attributes:
        d: Width of the curves over the context length.
        contexts: Context lengths n whose optimum is found by exact minimisation.
        trained: Context lengths that are also trained.
        widths: Widths d whose optimum is found with an endless context.
        sigma: Standard deviation of the noise.
        starts: Starting points of every exact minimisation.
    """

    d: int
    contexts: tuple[int, ...]
    trained: tuple[int, ...]
    widths: tuple[int, ...]
    sigma: float = SIGMA
    starts: int = 8

    @property
    def minimisations(self) -> list[Minimisation]:
        """Return the exact minima to compute, of either architecture at its best rank."""
        sizes = [(self.d, n) for n in self.contexts] + [(d, ENDLESS) for d in self.widths]
        return minimisations([_best_point(d, n, self.sigma, toy=toy) for d, n in sizes for toy in TOYS], self.starts)

    @property
    def trained_points(self) -> list[Point]:
        """Return the toys that are trained on sampled prompts, each at its best rank."""
        return [_best_point(self.d, n, self.sigma, toy=toy) for n in self.trained for toy in TOYS]


def _best_rank(d: int, toy: str) -> int:
    return skipv1.best_mha_rank(d) if toy == "mha" else d


def _best_point(d: int, n: int, sigma: float, toy: str) -> Point:
    return Point(Setting(d, n, sigma), toy, _best_rank(d, toy))


def _best_key(limit: Json, row: Json, toy: str) -> str:
    """Return how results name a toy at its best rank, at the size of a row of the limit."""
    return _best_point(row["d"], row["n"], limit["sigma"], toy=toy).key


def predict(limit: Limit) -> Json:
    """Return the closed forms over the context length, and over the width with an endless context."""
    low, high = limit.contexts[0], limit.contexts[-1]
    spread = sorted({round(low * (high / low) ** (i / 100)) for i in range(101)})  # evenly on a logarithmic axis
    return {
        "assumes": "W0 = 0; x and noise Gaussian; Assumption 1; minima over A, B, K, W and the rank",
        "source": "theory.skipv1.gap, Theorem, gap of the optima",
        "d": limit.d,
        "sigma": limit.sigma,
        "curve": [_predict_optima(limit.d, n, limit.sigma) for n in spread],
        "contexts": [_predict_optima(limit.d, n, limit.sigma) for n in limit.contexts],
        "widths": [_predict_optima(d, ENDLESS, limit.sigma) for d in limit.widths],
    }


def _predict_optima(d: int, n: int, sigma: float) -> Json:
    task = (d, n, sigma)
    return {
        "d": d,
        "n": n,
        "rho": setting.signal_share(*task),
        "mha": skipv1.mha_explained(*task, _best_rank(d, "mha")) / d**2,
        "skipv1": skipv1.skipv1_explained(*task, d) / d**2,
    }


def compare(prediction: Json, exact: Json, trained: Json) -> Iterator[Check]:
    """Yield exact minima and trained toys at their best ranks, in shares of the whole signal, d^2."""
    statement = "the share of the signal explained is the closed form's"
    family = sum(_best_key(prediction, row, toy) in trained for row in prediction["contexts"] for toy in TOYS)
    axes = ("n", "contexts", f"d = {prediction['d']}, over n"), ("width", "widths", f"n = {ENDLESS:.0e}, over d")
    for name, rows, where in axes:
        for row in prediction[rows]:
            for toy in TOYS:
                key, power = _best_key(prediction, row, toy), row["d"] ** 2
                closed = ClosedForm(LIMIT, row[toy], row["rho"] / power, quantity=SHARE)
                yield exact_check(
                    f"exact/{name}/{key}",
                    group=f"exact minimum, {toy}, {where}",
                    statement=statement,
                    closed_form=closed,
                    explained=exact[key]["explained"] / power,
                    zero_loss=1 + prediction["sigma"] ** 2,  # it is at most d^2 of that
                )
                if rows == "contexts" and key in trained:
                    interval = t_interval(_shares(trained[key], row), family)
                    about: Json = {"group": f"trained, {toy}, {where}", "statement": statement}
                    yield trained_check(f"trained/{key}", closed_form=closed, interval=interval, **about)


def _shares(explained: Sequence[float], row: Json) -> list[float]:
    return [signal / row["d"] ** 2 for signal in explained]


def draw_over_context(axis: Axes, limit: Json, measurement: Json) -> None:
    curve, contexts, trained = limit["curve"], limit["contexts"], measurement["trained"]
    for toy, (name, look, marker) in style.TOYS.items():
        axis.plot([row["n"] for row in curve], [row[toy] for row in curve], label=f"{name}, closed form", **look)
        _draw_optima(axis, "n", limit, "contexts", toy=toy, exact=measurement["exact"])
        keys = {row["n"]: _best_key(limit, row, toy) for row in contexts}
        intervals = {n: t_interval(_shares(trained[key], limit)) for n, key in keys.items() if key in trained}
        label = f"{name}, trained, 95 %"
        style.bars(axis, list(intervals), list(intervals.values()), marker=marker, color=look["color"], label=label)
    end = (contexts[-1]["n"], 0.25)
    axis.annotate("one quarter", end, xytext=(0, 4), textcoords="offset points", ha="right", fontsize=7.5)
    axis.set_xscale("log", base=2)
    axis.set_xlabel("context length $n$ (pairs)")
    axis.set_title(f"Against context length, $d={limit['d']}$, $\\sigma={limit['sigma']:g}$")


def draw_over_width(axis: Axes, limit: Json, exact: Json) -> None:
    widths = limit["widths"]
    for toy, (name, look, _) in style.TOYS.items():
        axis.plot([row["d"] for row in widths], [row[toy] for row in widths], label=f"{name}, closed form", **look)
        _draw_optima(axis, "d", limit, "widths", toy=toy, exact=exact)
    axis.set_xlabel("width $d$")
    axis.set_title("In the limit of endless context")


def _draw_optima(axis: Axes, over: str, limit: Json, rows: str, *, toy: str, exact: Json) -> None:
    shares = [exact[_best_key(limit, row, toy)]["explained"] / row["d"] ** 2 for row in limit[rows]]
    style.crosses(axis, [row[over] for row in limit[rows]], shares)
