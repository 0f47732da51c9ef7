"""The rule that evidence must fail where what it judges is wrong, and the machine that holds the ledger to it.

Every public function and method of `theory` that an entry's checks call, near or far, is altered, one at a time and in
several ways (`alterations`), and the checks that call it are run again.  The entry has to fall: a check does not hold,
or accepts its control, or raises, or does not end within DEADLINE times the processor time that it takes otherwise.
Checks are run quickest first, and none after one that falls.
Else the alteration is a survivor: nobody would notice if the function were wrong in this way.

`source` alters the source instead (`rewriting`): of every function, private ones too, of the module that proves the
entry, one constant, operator, comparison or reduction at a time.  That is what sees a wrong constant inside an
expression, or a least eigenvalue in place of a largest.

Of a check that builds a decoder, what the vocabulary and the decoder call among themselves is left as it is: such a
check judges what it calls, and what a paper's room has, of decoders as they are, and twins in plain tensor code hold
the decoders (`icl.testing`).

An entry falls with its premises, so what a premise notices is no survivor, and is not run again: premises are altered
first.  A function whose values an entry rightly
does not judge (a start of a descent, a bound that may be weaker) is named beside it, with the reason, which is printed:
`Claim.unjudged`; what no entry judges, such as the source of random inputs, in one place for all.
"""

from __future__ import annotations

import signal
import sys
import time
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, Literal, NamedTuple, TypeAlias

from experiments.ledger.alterations import (
    Altered,
    alterations,
    full_name,
    functions,
    parameters,
    replaced,
    rewritten,
    sizes,
    underlying,
)
from experiments.ledger.claim import Claim, Evidence
from experiments.ledger.fates import (
    Fate,
    Fates,
    Mutation,
    add_known,
    folder_name,
    judged_fates,
    key_of,
    noticed_by,
)
from experiments.ledger.probing import shown
from experiments.ledger.verify import entry_of, premises
from experiments.store.desk import Desk
from experiments.store.folders import Json, RunFolder, Slot, UserError, cache
from experiments.store.sources import ROOTS, closure
from experiments.store.work import results

Sizes: TypeAlias = Mapping[str, Collection[int]]  # values of a function's whole arguments, by name
DEADLINE = 4  # times what a check takes, and as many seconds more
CALLS = 10_000  # of one function by one check, whose sizes are told apart
LONGEST = 600.0  # seconds, of an entry's checks as they are
LATE = (signal.SIGPROF, signal.SIGALRM)  # what ends a process by its timers
CLAIMS = ".claims"
VOCABULARY = ("theory.plans", "theory.errors")
OF_PAPERS = (".variants", ".presets", ".paper")  # modules of a paper's room that are vocabulary too
TESTBED, DECODERS = "icl.", "icl.models."


class Entry(NamedTuple):
    """An entry of the ledger, and the alterations, by function, that its premises notice."""

    module: str
    id: str
    noticed: Mapping[str, Collection[str]] = {}


def mutations(
    claims: Collection[Claim],
    ledger: Mapping[str, Claim],
    unjudged: Mapping[Any, str],
    *,
    afresh: bool = False,
    source: bool = False,
    known: Path | None = None,
    slot: Slot | None = None,
) -> list[Mutation]:
    """Return the fate of each entry, in order; premises are altered too.

    unjudged  functions that no entry need judge, with the reason
    afresh    nothing is remembered
    source    the source of what proves an entry is altered, not the results of what its checks call
    known     a folder of fates, such as the committed ones, that need not be found again
    slot      the time that may be used; what was found by then is remembered

    Raises UserError for an entry whose checks do not stand as they are, and Unfinished if time is up.
    """
    resting = {claim.id: premises(claim, ledger) for claim in claims}
    ids = dict.fromkeys([*(c.id for c in claims), *(i for p in resting.values() for i in p)])
    folder = RunFolder(cache() / folder_name(source=source), slot)
    work, fates = mutate_source if source else mutate, dict[str, Fates]()
    known_as = {i: key_of(ledger[i]) for i in ids}
    with folder.locked():
        if not afresh:
            add_known(folder, known, set(known_as.values()), source=source)
        for level in _levels(ids, ledger):
            keys = {known_as[i]: i for i in level}
            items = {
                key: Entry(ledger[i].module, i, noticed_by(fates[p] for p in premises(ledger[i], ledger)))
                for key, i in keys.items()
            }
            _forget_lines(folder, level if afresh else (), items)
            lines = results("claim", items, work, run=folder, label="altering what entries judge")
            if broken := [keys[key] for key, line in lines.items() if line["fates"] is None]:
                raise UserError(f"{broken[0]} does not stand as it is: run `crosslayer verify {broken[0]}`")
            fates |= {keys[key]: line["fates"] for key, line in lines.items()}
    return [
        judged_fates(c, fates[c.id], [fates[i] for i in resting[c.id]], unjudged=unjudged, source=source)
        for c in claims
    ]


def _levels(ids: Iterable[str], ledger: Mapping[str, Claim]) -> list[list[str]]:
    """Return entries in groups, each after those of all their premises, which are among them."""
    levels: dict[str, int] = {}
    for i in ids:
        for name in (*premises(ledger[i], ledger), i):  # each after its own premises
            levels[name] = 1 + max((levels[p] for p in ledger[name].uses), default=-1)
    return [[i for i in ids if levels[i] == level] for level in sorted(set(levels.values()))]


def _forget_lines(folder: RunFolder, ids: Collection[str], items: Mapping[str, Entry]) -> None:
    """Forget these entries, items as they were before a change or did not stand, and what no premise notices now."""
    wanted = {entry.id for entry in items.values()}
    kept = []
    for line in folder.lines("claim", key=str):
        name = line["key"].partition(" ")[0]
        entry = items.get(line["key"])
        current = name not in wanted or (entry is not None and _still_noticed(line["fates"], entry))
        if current and name not in ids and line["fates"] is not None:
            kept.append(line)
    folder.keep_metrics(kept)


def _still_noticed(fates: Fates | None, entry: Entry) -> bool:
    return all(
        fate != "premise" or how in entry.noticed.get(function, ())
        for function, found in (fates or {}).items()
        for how, fate in found.items()
    )


def mutate(entry: Entry, desk: Desk | None = None) -> Json:
    """Return {"fates": Fates} for one entry; the fates are None if it does not stand as it is.

    Every run of checks has a process of its own, forked for it: nothing that was altered, or computed with it, stays.
    """
    modules = _evidence_modules(entry)
    judged = functions(module for module in modules if _is_theory(module.__name__))
    return _fates(entry, modules, judged, altered=lambda function, met: alterations(function, judged, met), desk=desk)


def mutate_source(entry: Entry, desk: Desk | None = None) -> Json:
    """Return {"fates": Fates} for altered source of all functions in an entry's proving module; {} without a proof.

    A proof that is a function among claims, beside checks and what they are made of, is altered alone.
    """
    proof = entry_of(entry.module, entry.id).proof
    if proof is None:
        return {"fates": {}}
    module = proof if isinstance(proof, ModuleType) else import_module(proof.__module__)
    judged = functions([module], private=True)
    if CLAIMS in module.__name__:
        judged = {name: function for name, function in judged.items() if function is underlying(proof)}
    return _fates(entry, _evidence_modules(entry), judged, altered=lambda function, _: rewritten(function), desk=desk)


def _evidence_modules(entry: Entry) -> list[ModuleType]:
    evidence = entry_of(entry.module, entry.id).evidence
    return [import_module(name) for name in closure([entry.module, *(e.holds.__module__ for e in evidence)])]


def _fates(
    entry: Entry,
    modules: Sequence[ModuleType],
    judged: Mapping[str, FunctionType],
    altered: Callable[[FunctionType, Sizes], Mapping[str, Callable[[], Altered]]],
    desk: Desk | None,
) -> Json:
    claim = entry_of(entry.module, entry.id)
    calls = _forked(lambda: _calls(claim.evidence, judged, modules), LONGEST)
    if not isinstance(calls, list) or not all(line["ok"] for line in calls):
        return {"fates": None}
    todo = {
        name: [(line["seconds"], e) for line, e in zip(calls, claim.evidence, strict=True) if name in line["called"]]
        for name in judged
        if any(name in line["called"] for line in calls)
    }
    fates: Fates = {}
    for done, (name, lines) in enumerate(todo.items()):
        if desk:
            desk.report(done / len(todo), f"{claim.id}, {name}")
        quickest_first = sorted(lines, key=lambda line: line[0])
        instead = altered(judged[name], _met(set().union(*(line["sizes"].get(name, ()) for line in calls))))
        left = {how: make for how, make in instead.items() if how not in entry.noticed.get(name, ())}
        found = _fates_of(judged[name], left, lines=quickest_first, modules=modules)
        every = {how: found.get(how, "premise") for how in instead}
        fates[name] = {how: fate for how, fate in every.items() if fate != "unaltered"}
    return {"fates": fates}


def _fates_of(
    function: FunctionType,
    altered: Mapping[str, Callable[[], Altered]],
    *,
    lines: Sequence[tuple[float, Evidence]],
    modules: Sequence[ModuleType],
) -> dict[str, Fate]:
    """Return what becomes of checks, each with the seconds that it takes, under every alteration of a function.

    A check is run for those alone that have not fallen before, and that show in it.
    """
    fates: dict[str, Fate] = dict.fromkeys(altered, "unaltered")
    left = [how for how, make in altered.items() if not make().remembers]
    for how in altered.keys() - set(left):
        fates[how] = _fate(function, altered[how], lines=lines, modules=modules)
    for line in lines:
        if not left:
            break
        found = _forked(partial(_shown, function, {how: altered[how]() for how in left}, line[1], modules), LONGEST)
        for how in [how for how in left if not isinstance(found, set) or how in found]:
            fate = _fate(function, altered[how], lines=[line], modules=modules)
            if fate in ("falls", "deadline"):
                left.remove(how)
            if fate != "unaltered":
                fates[how] = fate
    return fates


def _shown(
    function: FunctionType, alterations: Mapping[str, Altered], check: Evidence, modules: Sequence[ModuleType]
) -> set[str]:
    _forget(modules)
    return shown(function, alterations, check)


def _is_theory(module: str) -> bool:
    """Return whether a module's functions are judged: ours of `theory`, or an installed paper's, but for its claims."""
    root = module.partition(".")[0]
    return root == "theory" or (root not in ROOTS and CLAIMS not in module)


def _calls(
    evidence: Sequence[Evidence], judged: Mapping[str, FunctionType], modules: Sequence[ModuleType]
) -> list[Json]:
    """Return, for each check, whether it stands, its seconds of processor time, and the functions that it judges.

    These are those that it calls and that some check judges: one that builds a decoder, of the vocabulary what it calls
    itself.  The sizes with which the stated version calls them are included.
    """
    lines: list[Json] = []
    judging: set[str] = set()
    for check in evidence:
        called: set[str] = set()
        asked: set[str] = set()
        callers: set[str] = set()
        met: dict[str, set[frozenset[tuple[str, int]]]] = {}
        stating = True

        def listed(original: FunctionType, *args: object, **kwargs: object) -> object:
            called.add(name := full_name(original))  # noqa: B023 - of this line
            callers.add(caller := _caller())  # noqa: B023
            if not (_is_vocabulary(caller) or caller.startswith(TESTBED)):
                asked.add(name)  # noqa: B023
            if stating:  # noqa: B023
                calls = met.setdefault(name, set())  # noqa: B023
                if len(calls) < CALLS:
                    calls.add(frozenset(sizes(parameters(original), args, kwargs).items()))
            return original(*args, **kwargs)

        _forget(modules)
        began = time.process_time()
        with replaced(dict.fromkeys(judged.values(), listed)):
            ok = _holds(check, check.states) is True
            stating = False
            ok = ok and _holds(check, check.control) is False
        seconds = time.process_time() - began
        builds = any(caller.startswith(DECODERS) for caller in callers)
        own = {name for name in called if name in asked or not (builds and name.startswith(VOCABULARY))}
        judging |= own
        lines.append({"ok": ok, "seconds": seconds, "called": sorted(called), "sizes": met})
    for line in lines:  # what one check judges, all that call it may notice
        line["called"] = [name for name in line["called"] if name in judging]
    return lines


def _caller() -> str:
    """Return the module that calls a function for which another one stands in, from within that one."""
    inside = sys._getframe(1)
    through_instead = inside.f_back and inside.f_back.f_back  # what `replaced` puts in place, in two steps
    caller = through_instead and through_instead.f_back
    return str(caller.f_globals.get("__name__", "")) if caller else ""


def _is_vocabulary(module: str) -> bool:
    return module.startswith(VOCABULARY) or module.endswith(OF_PAPERS)


def _met(calls: Iterable[frozenset[tuple[str, int]]]) -> dict[str, list[int]]:
    """Return the values of every size that is met, but of those whose larger half is at the same calls only the first.

    Args:
        calls: of one function, each by its sizes.
    """
    each = [dict(call) for call in calls]
    names = dict.fromkeys(size for call in each for size in sorted(call))
    found: dict[tuple[bool, ...], tuple[str, list[int]]] = {}
    for size in names:
        values = sorted({call[size] for call in each if size in call})
        larger = tuple(call.get(size, values[0] - 1) >= values[len(values) // 2] for call in each)
        found.setdefault(larger, (size, values))
    return dict(found.values())


def _fate(
    function: FunctionType,
    alteration: Callable[[], Altered],
    *,
    lines: Sequence[tuple[float, Evidence]],
    modules: Sequence[ModuleType],
) -> Fate:
    """Return what becomes of these checks, each with the seconds that it takes, in their order."""

    def fate() -> Fate:
        _forget(modules)
        instead = alteration()
        changed: set[Literal["stated", "control"]] = set()
        with replaced({function: instead}):
            for seconds, line in lines:
                _limit(DEADLINE * (1 + seconds))
                for side, version in (("stated", line.states), ("control", line.control)):
                    instead.changed = False
                    if _holds(line, version) is not (side == "stated"):
                        return "falls"
                    if instead.changed:
                        changed.add(side)  # type: ignore[arg-type]
            if changed != {"control"}:
                return "stands" if changed else "unaltered"
            # What a control met may have been remembered, and not computed again for what is stated.
            _forget(modules)
            instead.changed = False
            for seconds, line in lines:
                _limit(DEADLINE * (1 + seconds))
                line.holds(line.states)
        return "stands" if instead.changed else "unaltered"

    return _forked(fate, DEADLINE * (1 + lines[0][0]))


def _holds(line: Evidence, version: Any) -> bool | None:
    """Return whether a check holds of a version; None if it raises."""
    try:
        return bool(line.holds(version))
    except Exception:
        return None


def _forget(modules: Sequence[ModuleType]) -> None:
    """Empty the caches of their functions."""
    for module in modules:
        for thing in vars(module).values():
            if hasattr(thing, "cache_clear"):
                thing.cache_clear()


def _forked(work: Callable[[], Any], seconds: float) -> Any:
    """Return the result of `work` in a process forked from this one, which may take so many seconds of processor time.

    If it takes longer, or ten times as long by the clock, "deadline"; if it dies, as compiled code does of nonsense,
    "falls".
    """
    context = get_context("fork")
    receiving, sending = context.Pipe(duplex=False)

    def run() -> None:
        warnings.simplefilter("ignore")
        for late in LATE:
            signal.signal(late, signal.SIG_DFL)
        _limit(seconds)
        sending.send(work())

    child = context.Process(target=run)
    child.start()
    sending.close()
    try:
        return receiving.recv()
    except EOFError:
        child.join()
        return "deadline" if child.exitcode in [-late for late in LATE] else "falls"
    finally:
        child.kill()
        child.join()


def _limit(seconds: float) -> None:
    """Limit this process to so many seconds of processor time from now on, and ten times as many by the clock."""
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.setitimer(signal.ITIMER_REAL, 10 * seconds)
