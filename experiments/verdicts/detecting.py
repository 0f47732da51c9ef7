"""The smallest effect that a finished run could have detected, by the spread of its own seeds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from experiments.verdicts.checks import Expectation, Judgement


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
