"""The one shape of an experiment: predict, measure, compare, draw.

    predict   a number or curve from `theory`, with its assumptions; stored before anything is measured
    measure   what happens, from `icl` or by exact minimisation; never sees the prediction; resumes where it was killed
    compare   checks, each of which must also reject its negative controls, else it is `inconclusive`
    draw      the figure

Predictions and measurements are plain JSON, so comparing and drawing can be repeated from a run's folder alone.
`runs.execute` carries an experiment through, and `registry` names them all.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from experiments.runs import RunFolder

Verdict = Literal["pass", "fail", "inconclusive"]
Json = dict[str, Any]


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
class Profile:
    """How much of an experiment to run.

    config       a frozen dataclass, saved with the result
    seeds        how many; they are 0 .. seeds-1
    seconds      expected time on two cores
    detects      the smallest effect that the profile can tell from none, in words
    """

    config: Any
    seeds: int
    seconds: int
    detects: str


class Experiment(Protocol):
    """What a file in `experiments` exports as EXPERIMENT.  Heavy imports belong inside the methods."""

    name: str
    title: str
    claims: tuple[str, ...]
    profiles: Mapping[str, Profile]

    def predict(self, config: Any) -> Json: ...

    def measure(self, config: Any, seeds: int, run: RunFolder) -> Json: ...

    def compare(self, prediction: Json, measurement: Json) -> list[Check]: ...

    def draw(self, prediction: Json, measurement: Json) -> Figure: ...


RANKING: tuple[Verdict, ...] = ("pass", "inconclusive", "fail")


def worst(checks: Sequence[Check]) -> Verdict:
    """fail if any failed, else inconclusive if any was, else pass."""
    return max((check.verdict for check in checks), key=RANKING.index, default="pass")


def by_group(checks: Sequence[Check]) -> dict[str, list[Check]]:
    """The checks of each group, tightest first: the one with the worst verdict that uses most of its tolerance."""
    groups: dict[str, list[Check]] = {}
    for check in checks:
        groups.setdefault(check.group, []).append(check)
    for members in groups.values():
        members.sort(key=lambda c: (RANKING.index(c.verdict), c.usage(c.predicted)), reverse=True)
    return groups
