"""Fates of ledger entries under alterations: which entries survive, and where the results are kept.

They take long to compute.  An entry's fates are kept below the user's cache folder until something that its evidence
imports changes, so an interrupted run resumes.  Committed fates, in `results/ledger`, are known from the start.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from experiments.ledger import alterations
from experiments.ledger.alterations import full_name, underlying
from experiments.ledger.claim import Claim, Place
from experiments.ledger.verify import evidence_digest, premises
from experiments.store.folders import Json, RunFolder, cache

# premise: one notices, and nothing was run; unaltered: what is stated met no other result
Fate = Literal["falls", "stands", "deadline", "premise", "unaltered"]
Fates: TypeAlias = dict[str, dict[str, Fate]]  # by function, and by how it was altered
NOTICED: tuple[Fate, ...] = ("falls", "deadline")


@dataclass(frozen=True)
class Mutation:
    """The fate of an entry under all alterations.

    altered        how many there were; all that a premise notices are counted
    overdue        at how many of them its checks did not end
    with_premises  how many only a premise notices
    survivors      what it survives together with its premises: alterations, by function
    excused        of those, what is named as not judged: the reason, by function and alteration
    stale          what the entry itself names as not judged, though no alteration of it survives: functions, or
                   expressions in one, with the reason
    needed         the rest of what it names so
    """

    claim: Claim
    altered: int
    overdue: int
    with_premises: int
    survivors: Mapping[str, Sequence[str]]
    excused: Mapping[str, Mapping[str, str]]
    stale: Mapping[str, str]
    needed: Mapping[str, str]

    @property
    def unexcused(self) -> dict[str, Sequence[str]]:
        left = {name: [x for x in how if x not in self.excused.get(name, {})] for name, how in self.survivors.items()}
        return {name: how for name, how in left.items() if how}


def judged_fates(
    claim: Claim,
    own: Fates,
    premises: Sequence[Fates],
    unjudged: Mapping[Any, str],
    *,
    source: bool,
) -> Mutation:
    """Return the fate of an entry, from its own fates and those of its premises.  Arguments as of `mutations`."""
    every = [(function, how, fate) for function, found in own.items() for how, fate in found.items()]
    standing = [(function, how) for function, how, fate in every if fate == "stands"]
    noticed, survivors = noticed_by(premises), dict[str, list[str]]()
    for function, how in standing:
        if how not in noticed.get(function, ()):
            survivors.setdefault(function, []).append(how)
    excused: dict[str, dict[str, str]] = {}
    used = set()
    own_reasons = {thing: why for thing, why in claim.unjudged.items() if isinstance(thing, Place) is source}
    for thing, why in {**unjudged, **claim.unjudged}.items():
        name, met = _judging(thing)
        if rightly := [how for how in survivors.get(name, ()) if met(how)]:
            used.add(thing)
            excused[name] = excused.get(name, {}) | dict.fromkeys(rightly, why)
    return Mutation(
        claim,
        altered=len(every),
        overdue=sum(fate == "deadline" for *_, fate in every),
        with_premises=len(standing) - sum(map(len, survivors.values())) + sum(fate == "premise" for *_, fate in every),
        survivors=survivors,
        excused=excused,
        stale={_named(thing): why for thing, why in own_reasons.items() if thing not in used},
        needed={_named(thing): why for thing, why in own_reasons.items() if thing in used},
    )


def stale(done: Iterable[Mutation]) -> dict[str, str]:
    """Return what is named as not judged, with the reason, and survives in no entry that names it with this reason."""
    every = list(done)
    needed = {reason for m in every for reason in m.needed.items()}
    return {name: why for m in every for name, why in m.stale.items() if (name, why) not in needed}


def known_fates(
    claims: Collection[Claim], ledger: Mapping[str, Claim], known: Path, *, source: bool = False
) -> dict[str, Fates]:
    """Return by id the fates that a folder holds of those entries of whose evidence nothing has changed since."""
    lines = {line["key"]: line["fates"] for line in _known_lines(known, source=source)}
    return {claim.id: lines[key] for claim in claims if (key := key_of(ledger[claim.id])) in lines}


def keep_fates(
    claims: Collection[Claim],
    ledger: Mapping[str, Claim],
    unjudged: Mapping[Any, str],
    kept: Path,
    *,
    source: bool = False,
) -> int:
    """Put into a folder all that is known of entries that nothing survives without a reason; drop what has changed.

    Args:
        claims: of which something may be kept.
        ledger: all entries, by id.
        unjudged: as of `mutations`.
        kept: the folder, such as that of the committed fates; what it holds is known too.
        source: whose source was altered.

    Returns:
        How many entries it holds now.
    """
    found = RunFolder(cache() / folder_name(source=source)).lines("claim", key=str)
    by_key = {line["key"]: line for line in (*_known_lines(kept, source=source), *found) if line["fates"] is not None}
    lines = {claim.id: by_key[key] for claim in claims if (key := key_of(claim)) in by_key}

    def falls(claim: Claim) -> bool:
        rests_on = premises(claim, ledger)
        if not {claim.id, *rests_on} <= lines.keys():
            return False
        fates = [lines[name]["fates"] for name in rests_on]
        return not judged_fates(claim, lines[claim.id]["fates"], fates, unjudged=unjudged, source=source).unexcused

    whole = [lines[claim.id] for claim in claims if falls(claim)]
    folder = RunFolder(kept / folder_name(source=source))
    folder.path.mkdir(parents=True, exist_ok=True)
    folder.keep_metrics(whole)
    return len(whole)


def _known_lines(known: Path | None, *, source: bool) -> list[Json]:
    return [] if known is None else RunFolder(known / folder_name(source=source)).lines("claim", key=str, fates=dict)


def add_known(folder: RunFolder, known: Path | None, keys: Collection[str], *, source: bool) -> None:
    missing = set(keys) - {line["key"] for line in folder.lines("claim", key=str)}
    for line in _known_lines(known, source=source):
        if line["key"] in missing:
            folder.log(line)


def folder_name(*, source: bool) -> str:
    return "mutation-source" if source else "mutation"


def key_of(claim: Claim) -> str:
    return f"{claim.id} {evidence_digest(claim, alterations.__name__)}"


def noticed_by(every: Iterable[Fates]) -> dict[str, list[str]]:
    """Return the alterations, by function, with which one of these entries falls."""
    noticed: dict[str, list[str]] = {}
    for fates in every:
        for function, found in fates.items():
            noticed.setdefault(function, []).extend(how for how, fate in found.items() if fate in NOTICED)
    return noticed


def _judging(thing: Callable[..., Any] | Place) -> tuple[str, Callable[[str], bool]]:
    """Return the name of the function that this is, or is in, and a test of which alterations of it are meant."""
    function = underlying(thing.function if isinstance(thing, Place) else thing)
    return full_name(function) if function else "", thing.meets if isinstance(thing, Place) else lambda _: True


def _named(thing: Callable[..., Any] | Place) -> str:
    return f"{_judging(thing)[0]}: {thing.expression}" if isinstance(thing, Place) else _judging(thing)[0]
