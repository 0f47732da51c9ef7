"""What is expected of a variant's gap to vanilla in the share of the signal explained, where the toy predicts one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from experiments.store.folders import Json
from experiments.training.campaign import expected, unpredicted
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
    own        whether it is a user's own variant, which is shown where nobody predicts anything of it
    paper      what the variant's own paper expects, as the fields of a `PaperExpectation`
    twin       the same of vanilla with other initial weights; vanilla: the share that it explains.  None where there is
               nothing to compare: models that learn nothing, or have not converged
    """

    id: str
    group: str
    claim: str
    variant: str
    measured: Interval
    toy: float | None
    own: bool
    paper: Json | None
    twin: Interval | None
    vanilla: Interval | None


def expectations(gap: Gap, where: str = "", *, of_sign: str = "", of_size: str = "") -> Iterator[Expectation]:
    """That the gap has the sign that its paper expects; that it has the toy's sign and size, or is none where the toy's
    is.  A user's own variant of which neither says anything is measured, and not judged.

    where: how statements begin; of_sign, of_size: how they end
    """

    def sign(kind: str, said: str, predicted: float, claim: str = gap.claim) -> Expectation:
        name, statement = f"{kind}/{gap.id}", f"{where}{gap.variant} explains {said}"
        return expected(name, gap.group, claim, statement, "sign", predicted, gap.measured, gap.twin, quantity=WON)

    if gap.paper:
        more, predicted = ("more", 1.0) if gap.paper["better"] else ("less", -1.0)
        yield sign("paper", f"{more} than vanilla ({gap.paper['place']})", predicted, gap.paper["claim"])
    if gap.toy is None:
        if gap.own and not gap.paper:
            statement = f"{where}{gap.variant} against vanilla"
            yield unpredicted(f"own/{gap.id}", gap.group, statement, gap.measured, quantity=WON)
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
