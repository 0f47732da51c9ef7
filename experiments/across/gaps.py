"""What is expected of a variant's gap to vanilla in the share of the signal explained, where the toy predicts one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from experiments.training.campaign import expected
from experiments.verdicts.checks import Expectation
from experiments.verdicts.intervals import Interval

WON = "share of the signal explained, less vanilla's"
KEPT = 0.05  # a gap that is none, and how far one of the toy's size may be from it


@dataclass(frozen=True, kw_only=True)
class Gap:
    """A variant's, in one place.

    id, group  of what is expected: how results name the place, and in words
    claim      of the ledger
    measured   paired by seed
    toy        what the toy predicts; None: it has nothing to say
    hoped      whether it is a user's own variant, which is there to be better
    twin       the same of vanilla with other initial weights; vanilla: the share that it explains.  None where there is
               nothing to compare: models that learn nothing, or have not converged
    """

    id: str
    group: str
    claim: str
    variant: str
    measured: Interval
    toy: float | None
    hoped: bool
    twin: Interval | None
    vanilla: Interval | None


def expectations(gap: Gap, where: str = "", *, of_sign: str = "", of_size: str = "") -> Iterator[Expectation]:
    """That it is better, if that is hoped; that the gap has the toy's sign and size, or is none where the toy's is.

    where: how statements begin; of_sign, of_size: how they end
    """

    def sign(kind: str, said: str, toy: float) -> Expectation:
        name, statement = f"{kind}/{gap.id}", f"{where}{gap.variant} explains {said}"
        return expected(name, gap.group, gap.claim, statement, "sign", toy, gap.measured, gap.twin, quantity=WON)

    if gap.hoped:
        yield sign("own", "more than vanilla", 1.0)
    if gap.toy is None:
        return
    if abs(gap.toy) <= KEPT:
        yield _none(gap, where)
        return
    more = "more" if gap.toy > 0 else "less"
    yield sign("sign", f"{more} than vanilla{of_sign}", gap.toy)
    size = sign("size", f"{abs(gap.toy):.2f} of the signal {more} than vanilla{of_size}", gap.toy)
    yield replace(size, rule="size", slack=KEPT, group=f"{gap.group}: size")


def _none(gap: Gap, where: str) -> Expectation:
    """Between vanilla and predicting zero there is a difference: a rule that sees none sees nothing."""
    vanilla = gap.vanilla
    return Expectation(
        id=f"none/{gap.id}",
        group=gap.group,
        claim=gap.claim,
        statement=f"{where}{gap.variant} explains what vanilla explains",
        rule="none",
        predicted=0.0,
        measured=gap.measured.mean,
        stderr=gap.measured.stderr,
        tolerance=gap.measured.half_width,
        controls=((vanilla.mean, vanilla.half_width),) if vanilla else (),
        slack=KEPT,
        quantity=WON,
    )
