"""Verifying the ledger: every check of every entry, on all cores; what has not changed since is remembered.

An entry is remembered by the source that its evidence imports and by library versions, in a file below the user's cache
folder; only what stood is.  An entry whose premise falls is shown as fallen, whatever its own checks say.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from experiments.ledger.claim import Claim, Outcome, outcomes
from experiments.store.folders import Json, UserError, write_atomically
from experiments.store.provenance import versions
from experiments.store.sources import source_digest


@dataclass(frozen=True)
class Verification:
    """What became of an entry.  fallen: ids of the premises, near and far, whose own checks do not hold.

    remembered: its checks were not run now, as nothing that they import has changed since they were
    """

    claim: Claim
    outcomes: tuple[Outcome, ...]
    seconds: float
    fallen: tuple[str, ...] = ()
    remembered: bool = False

    @property
    def holds(self) -> bool:
        """It has evidence, and all of it is ok."""
        return bool(self.outcomes) and all(o.ok for o in self.outcomes)

    @property
    def stands(self) -> bool:
        """It holds, and so does everything that it rests on."""
        return self.holds and not self.fallen


def premises(claim: Claim, ledger: Mapping[str, Claim]) -> tuple[str, ...]:
    """Ids of all entries that a claim rests on, near and far, without itself.

    Raises UserError for an unknown premise, or for a claim that rests on itself.
    """
    found: dict[str, None] = {}

    def visit(here: Claim, path: tuple[str, ...]) -> None:
        for name in here.uses:
            if name not in ledger:
                raise UserError(f"ledger entry {here.id} rests on {name!r}, which is not there")
            if name in path:
                raise UserError(f"ledger entries rest on each other in a circle: {' -> '.join((*path, name))}")
            if name not in found:
                visit(ledger[name], (*path, name))
                found[name] = None

    visit(claim, (claim.id,))
    return tuple(found)


def verified(claims: Collection[Claim], ledger: Mapping[str, Claim], *, afresh: bool = False) -> list[Verification]:
    """A verification of each, in order; premises are run too.  afresh: nothing is remembered."""
    resting = {claim.id: premises(claim, ledger) for claim in claims}
    needed = {i: ledger[i] for i in dict.fromkeys([*(c.id for c in claims), *(i for p in resting.values() for i in p)])}
    found = _outcomes(list(needed.values()), afresh=afresh)
    fell = {i for i, v in found.items() if not v.holds}
    return [
        Verification(
            claim,
            found[claim.id].outcomes,
            found[claim.id].seconds,
            tuple(i for i in resting[claim.id] if i in fell),
            found[claim.id].remembered,
        )
        for claim in claims
    ]


def judged(claim: Claim) -> Verification:
    """Run its checks here and now, without its premises.  A check that raises counts as not holding."""
    started = time.monotonic()
    return Verification(claim, outcomes(claim), round(time.monotonic() - started, 3))
