"""The comparison of toys' explained signal with a closed form: one rule for all toy experiments."""

from __future__ import annotations

import math
from dataclasses import dataclass

from experiments.verdicts.checks import Check
from experiments.verdicts.intervals import Interval

SIGNAL = "explained signal, squared units of y"
SHARE = "share of the signal explained"
LEFT = "share of the signal left"
EXACT_SLACK = 0.005  # of the explained signal
TRAINED_SLACK = 0.01
ALTERED = 0.02  # the negative controls: the explained signal 2 % lower and 2 % higher
ROUNDING = 1e-9  # of the zero loss: what solving and summing in float64 may gain over the infimum


@dataclass(frozen=True)
class ClosedForm:
    """A prediction of the signal that a toy explains.

    `one_number` is what a single number of W* explains, in the same units.
    """

    claim: str
    signal: float
    one_number: float
    quantity: str = SIGNAL

    @property
    def unit(self) -> float:
        """The signal, but at least that of one number, so that no signal has a scale too."""
        return max(self.signal, self.one_number)

    @property
    def altered(self) -> tuple[float, float]:
        return self.signal - ALTERED * self.unit, self.signal + ALTERED * self.unit


def exact_check(
    name: str, group: str, statement: str, closed_form: ClosedForm, explained: float, zero_loss: float
) -> Check:
    """Return a check of an exact minimum: short of the closed form by its slack at most, above it by rounding only."""
    return Check.exact(
        id=name,
        group=group,
        claim=closed_form.claim,
        statement=statement,
        predicted=closed_form.signal,
        measured=explained,
        controls=closed_form.altered,
        above=ROUNDING * zero_loss,
        slack=EXACT_SLACK * closed_form.unit,
        quantity=closed_form.quantity,
    )


def trained_check(
    name: str, group: str, statement: str, closed_form: ClosedForm, interval: Interval, most_slack: float = math.inf
) -> Check:
    """Return a check of trained toys: short by their interval and at most `most_slack`, above by the interval only."""
    slack = min(TRAINED_SLACK * closed_form.unit, most_slack)
    return Check.sampled(
        interval,
        id=name,
        group=group,
        claim=closed_form.claim,
        statement=statement,
        predicted=closed_form.signal,
        controls=closed_form.altered,
        above=interval.half_width,
        slack=slack,
        quantity=closed_form.quantity,
    )


def at_most_check(
    name: str, group: str, claim: str, statement: str, share: float, interval: Interval, wrong: float
) -> Check:
    """Return a check that no more than `share` is explained, in terms of what is left.  `wrong` is a bound too low."""
    return Check(
        id=name,
        group=group,
        claim=claim,
        statement=statement,
        predicted=1 - share,
        measured=1 - interval.mean,
        stderr=interval.stderr,
        tolerance=interval.half_width,
        controls=(1 - wrong,),
        relation="at least",
        quantity=LEFT,
    )
