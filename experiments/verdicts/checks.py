"""Checks and expectations: does a measurement agree with a prediction, and would it have noticed if it did not?

`detected` says how small an effect a finished run could have detected, by the spread of its own seeds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from statistics import median
from typing import TYPE_CHECKING, Any, Literal

from experiments.store.folders import Json

if TYPE_CHECKING:
    from experiments.verdicts.intervals import Interval

Verdict = Literal["pass", "fail", "inconclusive", "undecided", "agrees", "contradicts", "unpredicted"]
Relation = Literal["equal", "at most", "at least"]


@dataclass(frozen=True)
class Check:
    """Does a measurement agree with a prediction, and would it have noticed if the prediction were wrong?

    relation   "equal": the measurement is the prediction, give or take the tolerance.  "at most", "at least": the
               prediction is a bound, and the tolerance is what may cross it; on its other side everything agrees
    tolerance  everything that separates the two legitimately: the half-width of the confidence interval plus `slack`
    above      of an equality, the tolerance above the prediction, where theory forbids more and only noise or rounding
               may exceed it; None: the same as below
    slack      the part of the tolerance that was fixed beforehand
    controls   deliberately wrong predictions; the same comparison must reject every one of them
    group      checks of one group are shown as one line, by their worst member
    quantity   what is measured, with its unit
    """

    id: str
    group: str
    claim: str
    statement: str
    predicted: float
    measured: float
    stderr: float
    tolerance: float
    controls: tuple[float, ...]
    above: float | None = None
    relation: Relation = "equal"
    slack: float = 0.0
    quantity: str = ""

    @classmethod
    def sampled(cls, interval: Interval, *, slack: float = 0.0, **about: Any) -> Check:
        """Return a check of a mean over seeds, which may be off by its interval and by `slack`."""
        tolerance = interval.half_width + slack
        return cls(measured=interval.mean, stderr=interval.stderr, tolerance=tolerance, slack=slack, **about)

    @classmethod
    def exact(cls, *, slack: float, **about: Any) -> Check:
        """Return a check of a number in which nothing is random, which may be off by `slack`."""
        return cls(stderr=0.0, tolerance=slack, slack=slack, **about)

    def usage(self, predicted: float) -> float:
        """Return the share of its tolerance that the distance to `predicted` takes up; agreement is at most 1.

        Negative on the open side of a bound.  What is not finite never agrees.
        """
        if not math.isfinite(self.measured):
            return math.inf
        distance, allowed = self.measured - predicted, self.tolerance
        if self.relation == "equal":
            allowed = allowed if distance <= 0 or self.above is None else self.above
            distance = abs(distance)
        elif self.relation == "at least":
            distance = -distance
        if allowed == 0:
            return math.copysign(math.inf, distance) if distance else 0.0
        return distance / allowed

    @property
    def half_width(self) -> float:
        """The half-width of its interval; 0 where nothing is random."""
        return max(0.0, self.tolerance - self.slack)

    @property
    def by_slack_alone(self) -> bool:
        """True if it passes although its interval excludes the prediction."""
        outside = self.slack > 0 and abs(self.measured - self.predicted) > self.half_width > 0
        return self.relation == "equal" and outside and self.verdict == "pass"

    @property
    def verdict(self) -> Verdict:
        if not self.usage(self.predicted) <= 1:
            return "fail"
        rejected = all(self.usage(wrong) > 1 for wrong in self.controls)
        return "pass" if self.controls and rejected else "inconclusive"

    @classmethod
    def from_json(cls, content: Json) -> Check:
        """Return the check of a summary.json, its verdict from the rest; older ones lack fields with defaults."""
        return cls(**{**{k: v for k, v in content.items() if k != "verdict"}, "controls": tuple(content["controls"])})

    def to_json(self) -> Json:
        plain = {f.name: getattr(self, f.name) for f in fields(self)}
        return {**plain, "controls": list(self.controls), "verdict": self.verdict}


@dataclass(frozen=True)
class Expectation:
    """A prediction of a full-size run, by a toy or by a paper: a result either way, and never a defect.

    rule        "sign": the interval lies on that side of zero which `predicted` lies on.  "size": it holds `predicted`,
                give or take `slack`, and is narrower than it.  "none": it lies within `slack` of zero.  "beyond": it
                lies farther than `slack` from zero, on the side of `predicted`.  "not less": it lies above
                -`slack`.  "unpredicted": nobody predicted anything, and nothing is judged; it bears on no claim.
    measured    a mean over paired seeds, its standard error, and `tolerance`, the half-width of its interval
    controls    intervals (mean, half-width) of which the prediction is known to be wrong, such as vanilla against its
                twin for an effect; none where nothing can be compared.  Where the rule agrees with one of them, or
                there is none, the verdict is inconclusive
    decided     False: there are too few models, or too small ones, to decide anything, and it is undecided
    """

    id: str
    group: str
    claim: str
    statement: str
    rule: Literal["sign", "size", "none", "beyond", "not less", "unpredicted"]
    predicted: float
    measured: float
    stderr: float
    tolerance: float
    controls: tuple[tuple[float, float], ...]
    slack: float = 0.0
    quantity: str = ""
    decided: bool = True

    @classmethod
    def sampled(cls, interval: Interval, *controls: Interval, **about: Any) -> Expectation:
        """Return an expectation of a mean over seeds, with intervals of which its prediction is known to be wrong."""
        wrong = tuple((control.mean, control.half_width) for control in controls)
        numbers: Json = {"measured": interval.mean, "stderr": interval.stderr, "tolerance": interval.half_width}
        return cls(**numbers, controls=wrong, **about)

    def usage(self, predicted: float) -> float:
        """Return the distance to `predicted` in half-widths; 0 where nothing is predicted."""
        if self.rule == "unpredicted":
            return 0.0
        if self.tolerance == 0:
            return 0.0 if self.measured == predicted else math.inf
        return abs(self.measured - predicted) / self.tolerance

    @property
    def half_width(self) -> float:
        """The half-width of its interval."""
        return self.tolerance

    @property
    def by_slack_alone(self) -> bool:
        """True if it agrees although its interval excludes the prediction."""
        outside = self.slack > 0 and abs(self.measured - self.predicted) > self.half_width
        return self.rule in ("size", "none") and outside and self.verdict == "agrees"

    @property
    def verdict(self) -> Verdict:
        if self.rule == "unpredicted":
            return "unpredicted"
        if not self.decided:
            return "undecided"
        if any(self._judge(*control) == "agrees" for control in self.controls) or not self.controls:
            return "inconclusive"
        return self._judge(self.measured, self.tolerance)

    def _judge(self, mean: float, half_width: float) -> Verdict:
        if not (math.isfinite(mean) and math.isfinite(half_width)):
            return "inconclusive"
        if self.rule == "sign":
            if self.predicted == 0 or abs(mean) <= half_width:
                return "inconclusive"
            return "agrees" if mean * self.predicted > 0 else "contradicts"
        if self.rule == "not less":
            if mean + half_width < -self.slack:
                return "contradicts"
            return "agrees" if mean - half_width >= -self.slack else "inconclusive"
        if self.rule == "beyond":
            along = math.copysign(mean, mean * self.predicted)
            if along + half_width <= self.slack:
                return "contradicts"
            return "agrees" if along - half_width > self.slack else "inconclusive"
        if self.rule == "none":
            if abs(mean) - half_width > self.slack:
                return "contradicts"
            return "agrees" if abs(mean) + half_width <= self.slack else "inconclusive"
        if abs(mean - self.predicted) > half_width + self.slack:
            return "contradicts"
        return "agrees" if half_width + self.slack < abs(self.predicted) else "inconclusive"

    @classmethod
    def from_json(cls, content: Json) -> Expectation:
        plain: Json = {k: math.nan if v is None else v for k, v in content.items() if k != "verdict"}
        plain["controls"] = tuple((_number(mean), _number(half_width)) for mean, half_width in content["controls"])
        return cls(**plain)

    def to_json(self) -> Json:
        """Return its fields; numbers that are none, of trainings that diverged, are null."""
        plain = {f.name: _json(getattr(self, f.name)) for f in fields(self)}
        return {**plain, "controls": [[_json(x) for x in c] for c in self.controls], "verdict": self.verdict}


def _json(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _number(value: float | None) -> float:
    return math.nan if value is None else value


Judgement = Check | Expectation


def judgement(content: Json) -> Judgement:
    """Return a check or an expectation of a summary.json."""
    return Expectation.from_json(content) if "rule" in content else Check.from_json(content)


def undecided(check: Judgement) -> Judgement:
    """Return a judgement as in a profile that decides nothing: what theory forbids stays so, expectations are open."""
    return replace(check, decided=False) if isinstance(check, Expectation) else check


RANKING: tuple[Verdict, ...] = ("unpredicted", "pass", "agrees", "undecided", "inconclusive", "contradicts", "fail")


def worst(checks: Sequence[Judgement]) -> Verdict:
    """Return fail if any check failed, else contradicts if any expectation was not met, and so on down.

    The last are pass and, where nobody predicted anything, unpredicted.

    Nothing compared is inconclusive.
    """
    return max((check.verdict for check in checks), key=RANKING.index, default="inconclusive")


def by_group(checks: Sequence[Judgement]) -> dict[str, list[Judgement]]:
    """Return each group's checks, tightest first: the one with the worst verdict that uses most of its tolerance."""
    groups: dict[str, list[Judgement]] = {}
    for check in checks:
        groups.setdefault(check.group, []).append(check)
    for members in groups.values():
        members.sort(key=lambda c: (RANKING.index(c.verdict), c.usage(c.predicted)), reverse=True)
    return groups


def by_quantity(checks: Sequence[Judgement]) -> dict[str, dict[str, list[Judgement]]]:
    """Return the groups of each quantity, as `by_group` makes them."""
    quantities = dict.fromkeys(check.quantity for check in checks)
    return {quantity: by_group([check for check in checks if check.quantity == quantity]) for quantity in quantities}


@dataclass(frozen=True)
class Detected:
    """The detection limit for the quantity that most of a run's expectations are about.

    Args:
        size: the median half-width of its intervals, family-wise where the experiment has them so; half of them do not
            detect a mean nearer to zero than this.
        count: how many intervals that are.
        quantity: what was measured, with its unit.
    """

    size: float
    count: int
    quantity: str

    @property
    def words(self) -> str:
        """The size as it stands beside what a profile promises."""
        intervals = f"median half-width of {self.count} intervals" if self.count > 1 else "half-width of one interval"
        return f"{self.size:.2g} ({intervals}: {self.quantity or 'unit of the checks'})"


def detected(checks: Sequence[Judgement]) -> Detected | None:
    """Return what the intervals of a run's expectations could detect; None where it has none."""
    widths: dict[str, list[float]] = {}
    for check in checks:
        if isinstance(check, Expectation) and check.half_width > 0 and math.isfinite(check.half_width):
            widths.setdefault(check.quantity, []).append(check.half_width)
    if not widths:
        return None
    quantity = max(widths, key=lambda name: len(widths[name]))
    return Detected(median(widths[quantity]), len(widths[quantity]), quantity)
