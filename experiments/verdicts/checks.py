"""Checks and expectations: does a measurement agree with a prediction, and would it have noticed if it did not?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

from experiments.store.folders import Json

Verdict = Literal["pass", "fail", "inconclusive", "agrees", "contradicts"]


@dataclass(frozen=True)
class Check:
    """Does a measurement agree with a prediction, and would it have noticed if the prediction were wrong?

    tolerance  everything that separates the two legitimately: the half-width of the confidence interval plus a slack
               that was fixed beforehand
    above      the tolerance above the prediction, where theory forbids more and only noise or rounding may exceed it;
               None: the same as below
    controls   deliberately wrong predictions; the same comparison must reject every one of them
    group      checks of one group are shown as one line, by their worst member
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

    def usage(self, predicted: float) -> float:
        """How much of its tolerance the distance to `predicted` takes up; agreement is at most 1.  NaN never agrees."""
        distance = self.measured - predicted
        allowed = self.tolerance if distance <= 0 or self.above is None else self.above
        if allowed == 0:
            return 0.0 if distance == 0 else math.inf
        return abs(distance) / allowed

    @property
    def verdict(self) -> Verdict:
        if not self.usage(self.predicted) <= 1:
            return "fail"
        rejected = all(self.usage(wrong) > 1 for wrong in self.controls)
        return "pass" if self.controls and rejected else "inconclusive"

    @classmethod
    def from_json(cls, content: Json) -> Check:
        """The check of a summary.json, whose verdict follows from the rest."""
        return cls(**{**{k: v for k, v in content.items() if k != "verdict"}, "controls": tuple(content["controls"])})

    def to_json(self) -> Json:
        fields = ("id", "group", "claim", "statement", "predicted", "measured", "stderr", "tolerance", "above")
        return {**{f: getattr(self, f) for f in fields}, "controls": list(self.controls), "verdict": self.verdict}


@dataclass(frozen=True)
class Expectation:
    """What was predicted of a full-size run, by a toy or by a paper: a result either way, and never a defect.

    rule        "sign": the interval lies on that side of zero which `predicted` lies on.  "size": it holds `predicted`,
                give or take `slack`, and is narrower than it.  "none": it lies within `slack` of zero.
    measured    a mean over paired seeds, its standard error, and `tolerance`, the half-width of its interval
    controls    intervals (mean, half-width) of which the prediction is known to be wrong, such as vanilla against its
                twin for an effect; none where nothing can be compared.  Where the rule agrees with one of them, or
                there is none, the verdict is inconclusive
    """

    id: str
    group: str
    claim: str
    statement: str
    rule: Literal["sign", "size", "none"]
    predicted: float
    measured: float
    stderr: float
    tolerance: float
    controls: tuple[tuple[float, float], ...]
    slack: float = 0.0

    def usage(self, predicted: float) -> float:
        """Distance to `predicted` in half-widths."""
        if self.tolerance == 0:
            return 0.0 if self.measured == predicted else math.inf
        return abs(self.measured - predicted) / self.tolerance

    @property
    def verdict(self) -> Verdict:
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
        """Numbers that are none, of trainings that diverged, are null."""
        plain = {f.name: _json(getattr(self, f.name)) for f in fields(self)}
        return {**plain, "controls": [[_json(x) for x in c] for c in self.controls], "verdict": self.verdict}


def _json(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _number(value: float | None) -> float:
    return math.nan if value is None else value


Judgement = Check | Expectation


def judgement(content: Json) -> Judgement:
    """A check or an expectation of a summary.json."""
    return Expectation.from_json(content) if "rule" in content else Check.from_json(content)


RANKING: tuple[Verdict, ...] = ("pass", "agrees", "inconclusive", "contradicts", "fail")


def worst(checks: Sequence[Judgement]) -> Verdict:
    """fail if any check failed, else contradicts if any expectation was not met, and so on down to pass."""
    return max((check.verdict for check in checks), key=RANKING.index, default="pass")


def by_group(checks: Sequence[Judgement]) -> dict[str, list[Judgement]]:
    """The checks of each group, tightest first: the one with the worst verdict that uses most of its tolerance."""
    groups: dict[str, list[Judgement]] = {}
    for check in checks:
        groups.setdefault(check.group, []).append(check)
    for members in groups.values():
        members.sort(key=lambda c: (RANKING.index(c.verdict), c.usage(c.predicted)), reverse=True)
    return groups
