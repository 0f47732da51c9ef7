"""Verifying the ledger: every check of every entry, on all cores; what has not changed since is remembered.

An entry is remembered by the source that its evidence imports and by library versions, in a file below the user's cache
folder; only what stood is.  An entry whose premise falls is shown as fallen, whatever its own checks say.
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory

from experiments.ledger.claim import Claim, Outcome, outcomes
from experiments.store.definitions import ALL, Node, definition_digest
from experiments.store.desk import Desk
from experiments.store.folders import Json, RunFolder, UserError, cache
from experiments.store.provenance import versions
from experiments.store.work import longest_first, results
from icl.files import opened, sealed, write_atomically


@dataclass(frozen=True)
class Verification:
    """The outcome of verifying an entry.

    fallen      ids of the premises, near and far, whose own checks do not hold
    remembered  its checks were not run now, as nothing that they import has changed since they were
    unknown     why there are no outcomes, of this entry or of a premise; "": there are
    """

    claim: Claim
    outcomes: tuple[Outcome, ...]
    seconds: float
    fallen: tuple[str, ...] = ()
    remembered: bool = False
    unknown: str = ""

    def __repr__(self) -> str:
        stands = "not checked" if self.unknown else "stands" if self.stands else "has fallen"
        return f"<Verification of {self.claim.id}: {stands}, {len(self.outcomes)} checks>"

    @property
    def holds(self) -> bool:
        """True if it has evidence, and all of it is ok."""
        return bool(self.outcomes) and all(o.ok for o in self.outcomes)

    @property
    def stands(self) -> bool:
        """True if it holds, and so does everything that it rests on."""
        return self.holds and not self.fallen and not self.unknown


def premises(claim: Claim, ledger: Mapping[str, Claim]) -> tuple[str, ...]:
    """Return the ids of all entries that a claim rests on, near and far, without itself.

    Raises UserError for an unknown premise, or for a claim that rests on itself.
    """
    order: dict[str, None] = {}

    def visit(here: Claim, path: tuple[str, ...]) -> None:
        for name in here.uses:
            if name not in ledger:
                raise UserError(f"ledger entry {here.id} rests on {name!r}, which is not there")
            if name in path:
                raise UserError(f"ledger entries rest on each other in a circle: {' -> '.join((*path, name))}")
            if name not in order:
                visit(ledger[name], (*path, name))
                order[name] = None

    visit(claim, (claim.id,))
    return tuple(order)


def verifications(
    claims: Collection[Claim], ledger: Mapping[str, Claim], *, afresh: bool = False
) -> list[Verification]:
    """Verify each entry, in order; premises are run too.  afresh: nothing is remembered."""
    resting = {claim.id: premises(claim, ledger) for claim in claims}
    ids = dict.fromkeys([*(c.id for c in claims), *(i for p in resting.values() for i in p)])
    by_id = _outcomes([ledger[i] for i in ids], afresh=afresh)
    fallen = {i for i, v in by_id.items() if not v.holds}
    return [replace(by_id[c.id], fallen=tuple(i for i in resting[c.id] if i in fallen)) for c in claims]


def recollections(claims: Collection[Claim], ledger: Mapping[str, Claim]) -> list[Verification]:
    """Return what is remembered of each entry, in order; nothing is run."""
    resting = {claim.id: premises(claim, ledger) for claim in claims}
    ids = dict.fromkeys([*(c.id for c in claims), *(i for p in resting.values() for i in p)])
    memory = _Memory.read()
    by_id = {i: memory.recollection(ledger[i]) for i in ids}

    def of(claim: Claim) -> Verification:
        own = by_id[claim.id]
        lost = next((i for i in resting[claim.id] if by_id[i].unknown), None)
        return own if own.unknown or lost is None else replace(own, unknown=f"rests on {lost}: {by_id[lost].unknown}")

    return [of(claim) for claim in claims]


def _outcomes(claims: list[Claim], *, afresh: bool) -> dict[str, Verification]:
    memory = _Memory.read()
    digests = {claim.id: evidence_digest(claim) for claim in claims}
    remembered = {} if afresh else {c.id: v for c in claims if (v := memory.recalled(c, digests[c.id]))}
    missing = {claim.id: (claim.module, claim.id) for claim in claims if claim.id not in remembered}
    in_order = longest_first(missing, lambda place: memory.seconds(place[1]))
    with TemporaryDirectory() as folder:
        lines = results("claim", in_order, judge, run=RunFolder(Path(folder)), label="verifying")
    by_id = {claim.id: claim for claim in claims}
    new = {i: _verification(by_id[i], line) for i, line in lines.items()}
    memory.keep({i: (digests[i], line) for i, line in lines.items() if new[i].holds}, forget=set(new))
    return remembered | new


def judge(entry: tuple[str, str], _: Desk | None = None) -> Json:
    """Run the checks of one entry, (module, id), without its premises.  A check that raises does not hold."""
    claim = entry_of(*entry)
    started = time.monotonic()
    return {"outcomes": [asdict(o) for o in outcomes(claim)], "seconds": round(time.monotonic() - started, 3)}


def entry_of(module: str, name: str) -> Claim:
    """Return the entry of that id in that module."""
    (claim,) = {c for c in vars(import_module(module)).values() if isinstance(c, Claim) and c.id == name}
    return claim


def _verification(claim: Claim, line: Json, *, remembered: bool = False) -> Verification:
    return Verification(
        claim, tuple(Outcome(**o) for o in line["outcomes"]), line["seconds"], fallen=(), remembered=remembered
    )


def evidence_digest(claim: Claim, *judges: str) -> str:
    """Return the digest of the definitions that an entry's evidence reaches, of modules that judge it, of versions."""
    reached = definition_digest(evidence_roots(claim), whole=judges)
    return hashlib.sha256(f"{reached} {versions()}".encode()).hexdigest()[:12]


def evidence_roots(claim: Claim) -> list[Node]:
    """Return the definitions that an entry's evidence consists of: the entry, and what its checks call."""
    there = vars(sys.modules[claim.module]) if claim.module in sys.modules else {}
    names = [name for name, thing in there.items() if thing is claim] or [ALL]
    checks = [(check.holds.__module__, check.holds.__qualname__.partition(".")[0]) for check in claim.evidence]
    return [*((claim.module, name) for name in names), *checks]


@dataclass
class _Memory:
    """The entries that stood, by id: a digest of the source that their evidence imports, and the outcomes.

    A file that cannot be read or written is as good as none.
    """

    path: Path
    entries: dict[str, Json]

    @classmethod
    def read(cls) -> _Memory:
        path = cache() / "ledger.json"
        try:
            entries, whole = opened(path.read_bytes())
        except (OSError, ValueError):
            return cls(path, {})
        return cls(path, entries if whole else {})

    def recalled(self, claim: Claim, digest: str) -> Verification | None:
        entry = self.entries.get(claim.id)
        if entry is None or entry["digest"] != digest:
            return None
        with suppress(TypeError):
            return _verification(claim, entry, remembered=True)
        return None

    def recollection(self, claim: Claim) -> Verification:
        """Return what is remembered of an entry, or why nothing is."""
        known = self.recalled(claim, evidence_digest(claim))
        why = "changed since it was verified" if claim.id in self.entries else "not verified here, or it did not stand"
        return known or Verification(claim, (), 0.0, unknown=why)

    def seconds(self, name: str) -> float:
        """Return how long an entry's checks took when last run; one that was never run comes first."""
        return float(self.entries.get(name, {}).get("seconds", float("inf")))

    def keep(self, new: Mapping[str, tuple[str, Json]], forget: Iterable[str]) -> None:
        """Remember `new`, and nothing of the other entries that were run."""
        if not new and not set(forget) & self.entries.keys():
            return
        self.entries = {i: e for i, e in self.entries.items() if i not in set(forget)}
        self.entries |= {i: {"digest": digest, **line} for i, (digest, line) in new.items()}
        with suppress(OSError):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(self.path, json.dumps(sealed(self.entries)) + "\n")
