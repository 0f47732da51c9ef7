"""The ledger's format, and how an entry is verified.

A check is a predicate over *versions* of a claim: it must hold for the version we state and must not hold for a
deliberately wrong one, the negative control.  Where the paper is wrong, the control is what the paper prints.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, Literal

from experiments.store.progress import progress

Status = Literal["verified", "corrected", "refuted", "inconclusive", "open"]
Kind = Literal["symbolic", "numeric", "trained", "scale"]


@dataclass(frozen=True)
class Evidence:
    """One line of evidence.

    holds    the check, a function of a version of the claim (a formula, a constant, a construction)
    states   the version that must pass
    control  the wrong version that must be rejected; `wrong` says in words what is wrong with it
    """

    kind: Kind
    what: str
    holds: Callable[[Any], bool]
    states: Any
    control: Any
    wrong: str


@dataclass(frozen=True)
class Claim:
    """One entry.  `experiments` names runs whose checks bear on it too (`trained`, `scale`): see `crosslayer run`."""

    id: str
    paper: str
    place: str
    statement: str
    assumes: str
    verdict: Status
    correction: str
    evidence: tuple[Evidence, ...]
    experiments: tuple[str, ...] = ()


@dataclass(frozen=True)
class Outcome:
    """What became of one line of evidence.  ok: the stated version held and the control was rejected."""

    kind: Kind
    what: str
    holds: bool
    control_rejected: bool

    @property
    def ok(self) -> bool:
        return self.holds and self.control_rejected


@dataclass(frozen=True)
class Verification:
    claim: Claim
    outcomes: tuple[Outcome, ...]
    seconds: float

    @property
    def stands(self) -> bool:
        """The entry's verdict still has its evidence: there is some, and all of it is ok."""
        return bool(self.outcomes) and all(o.ok for o in self.outcomes)


def verify_all(claims: Collection[Claim]) -> list[Verification]:
    """`verify` for each, with progress."""
    done = []
    with progress("verifying", len(claims)) as at:
        for i, claim in enumerate(claims):
            at(i, claim.id)
            done.append(verify(claim))
        at(len(claims))
    return done


def verify(claim: Claim) -> Verification:
    """Run every check of an entry on its statement and on its control."""
    started = time.monotonic()
    outcomes = tuple(
        Outcome(e.kind, e.what, bool(e.holds(e.states)), not bool(e.holds(e.control))) for e in claim.evidence
    )
    return Verification(claim, outcomes, time.monotonic() - started)
