"""The shape of this experiment's expectations: a difference, with a control."""

from __future__ import annotations

from collections.abc import Sequence

from experiments.verdicts.checks import Expectation
from experiments.verdicts.intervals import Interval, t_interval

WIDTH = "toy.width"
NEGLIGIBLE = 0.03  # of the signal: a difference that is none, and the slack of one that has a predicted size
DIFFERENCE = "share of the signal explained, difference"


def expect(
    name: str,
    group: str,
    statement: str,
    rule: str,
    predicted: float,
    interval: Interval,
    control: Interval | None,
    claim: str = WIDTH,
    slack: float = NEGLIGIBLE,
) -> Expectation:
    return Expectation(
        id=name,
        group=group,
        claim=claim,
        statement=statement,
        rule=rule,  # type: ignore[arg-type]
        predicted=predicted,
        measured=interval.mean,
        stderr=interval.stderr,
        tolerance=interval.half_width,
        controls=() if control is None else ((control.mean, control.half_width),),
        slack=0.0 if rule == "sign" else slack,
        quantity=DIFFERENCE,
    )


def twin(values: Sequence[float]) -> Interval | None:
    """One architecture against itself with other prompts and weights: seed 0 less seed 1, 2 less 3, ..."""
    pairs = [a - b for a, b in zip(values[::2], values[1::2], strict=False)]
    return t_interval(pairs) if len(pairs) > 1 else None
