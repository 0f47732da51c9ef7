"""How much of the signal each architecture explains as the context grows: a quarter for MHA, all for SkipV1Former.

Theorem of `theory.skipv1.gap` between the optima: of E ||W*||^2 = d^2, SkipV1Former explains the share
rho = n / (n + d + 1 + sigma^2) -> 1, and MHA rho floor(d^2/4) / d^2, at most a quarter however long the context.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from experiments.store.folders import Json
from experiments.toys.checks import SHARE, ClosedForm, exact_check, trained_check
from experiments.toys.runs import Minimisation, Point, minimisations
from experiments.verdicts.checks import Check
from experiments.verdicts.intervals import t_interval
from theory.plans.heads import TOYS
from theory.plans.setting import Setting
from theory.prompts import setting
from theory.skipv1 import gap as skipv1

SIGMA = 0.3
CLAIM = "skipv1.limit"
STATEMENT = "the share of the signal explained is the closed form's"
ENDLESS = 10**6  # a context so long that rho is 1 to within a hundredth of the slack


@dataclass(frozen=True, kw_only=True)
class Limit:
    """The sizes of the second figure.

    Attributes:
        d: Width of the curves over the context length.
        contexts: Context lengths n whose optimum is found by exact minimisation.
        trained: Context lengths that are also trained.
        widths: Widths d whose optimum is found with an endless context.
        starts: Starting points of every exact minimisation.
    """

    d: int
    contexts: tuple[int, ...]
    trained: tuple[int, ...]
    widths: tuple[int, ...]
    starts: int = 8

    @property
    def minimisations(self) -> list[Minimisation]:
        """Return the exact minima to compute, of either architecture at its best rank."""
        sizes = [(self.d, n) for n in self.contexts] + [(d, ENDLESS) for d in self.widths]
        return minimisations([_point(d, n, toy) for d, n in sizes for toy in TOYS], self.starts)

    @property
    def trained_points(self) -> list[Point]:
        """Return the toys that are trained on sampled prompts, each at its best rank."""
        return [_point(self.d, n, toy) for n in self.trained for toy in TOYS]


def predict(limit: Limit) -> Json:
    """Return the closed forms over the context length, and over the width with an endless context."""
    return {
        "assumes": "W0 = 0; x and noise Gaussian; Assumption 1; minima over A, B, K, W and the rank",
        "source": "theory.skipv1.gap, Theorem, gap of the optima",
        "d": limit.d,
        "sigma": SIGMA,
        "curve": [_row(limit.d, n) for n in _spread(limit.contexts[0], limit.contexts[-1])],
        "contexts": [_row(limit.d, n) for n in limit.contexts],
        "widths": [_row(d, ENDLESS) for d in limit.widths],
    }


def compare(prediction: Json, measurement: Json) -> list[Check]:
    """Return the checks of exact minima and trained toys against `predict`'s closed forms."""
    trained = {key: measurement["trained"].get(key) for row in prediction["contexts"] for key in _keys(row)}
    family = sum(values is not None for values in trained.values())
    checks = []
    for axis in ("contexts", "widths"):
        for row in prediction[axis]:
            for toy, key in zip(TOYS, _keys(row), strict=True):
                power = row["d"] ** 2
                closed = ClosedForm(CLAIM, row[toy], row["rho"] / power, SHARE)
                name, where = (
                    ("n", f"d = {row['d']}, over n") if axis == "contexts" else ("width", f"n = {ENDLESS:.0e}, over d")
                )
                share = measurement["exact"][key]["explained"] / power
                most = 1 + SIGMA**2  # the zero loss is at most d^2 of that
                group = f"exact minimum, {toy}, {where}"
                checks.append(exact_check(f"exact/{name}/{key}", group, STATEMENT, closed, share, most))
                if axis == "contexts" and (values := trained[key]) is not None:
                    interval = t_interval(shares(values, row["d"]), family)
                    group = f"trained, {toy}, {where}"
                    checks.append(trained_check(f"trained/{key}", group, STATEMENT, closed, interval))
    return checks


def shares(explained: Sequence[float], d: int) -> list[float]:
    """Return explained signals in units of the whole signal, d^2."""
    return [signal / d**2 for signal in explained]


def point_of(row: Json, toy: str) -> str:
    """Return the key of a predicted row's toy in the measurement."""
    return _point(row["d"], row["n"], toy).key


def _keys(row: Json) -> list[str]:
    return [point_of(row, toy) for toy in TOYS]


def _point(d: int, n: int, toy: str) -> Point:
    return Point(Setting(d, n, SIGMA), toy, _best_rank(d, toy))


def _best_rank(d: int, toy: str) -> int:
    return skipv1.best_mha_rank(d) if toy == "mha" else d


def _spread(low: int, high: int) -> list[int]:
    """Whole numbers from low to high, evenly spread on a logarithmic axis, for a curve."""
    return sorted({round(low * (high / low) ** (i / 100)) for i in range(101)})


def _row(d: int, n: int) -> Json:
    task = (d, n, SIGMA)
    return {
        "d": d,
        "n": n,
        "rho": setting.signal_share(*task),
        "mha": skipv1.mha_explained(*task, _best_rank(d, "mha")) / d**2,
        "skipv1": skipv1.skipv1_explained(*task, d) / d**2,
    }
