"""Find papers, claims and experiments by looking.

A paper's room in `experiments`, or the package that an entry point of the group `crosslayer.papers` names
(`theory.plans.papers`), holds its claims in modules of `claims/`.  An experiment is a module of the room that exports
EXPERIMENT, or a package of the room whose module `experiment` does, or, where it is a question to the campaign, a
module of `questions/`.  `across` is a room too.  Adding to either is adding a file.

Which module of ours holds what is remembered (`experiments.store.names`): a claim or an experiment that is requested by
name is loaded alone, and what only the other kind needs is imported where it is looked up.

Of an installed paper whose claims or experiments cannot be loaded, or whose claims have ids that are taken, nothing is
there: one line on standard error names it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterator, Mapping, MutableMapping
from copy import copy
from functools import cache, partial
from importlib import import_module
from importlib.abc import InspectLoader
from importlib.util import find_spec
from pathlib import Path
from pkgutil import iter_modules
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from experiments.ledger.claim import Claim
from experiments.store.folders import UserError
from experiments.store.names import Lazy, remembered
from theory.errors import BadInput
from theory.plans.papers import Paper, Room, guarded, installed, papers, rooms

if TYPE_CHECKING:
    from experiments.experiment.protocol import Experiment
    from experiments.ledger.overview import Answer, Index
    from theory.plans.variants import Variant

T = TypeVar("T")
ACROSS = "experiments.across"
QUESTIONS = "questions"
EXPORTS = re.compile(r"^EXPERIMENT\b", re.MULTILINE)
MERGED = {"skipv1-limit": "skipv1-gap"}  # experiments that became part of another, with their results
RETIRED = {  # experiments that are no more, and which asks their question now; "": none does
    **MERGED,
    **dict.fromkeys(("scale-icl", "ladder-axes"), ""),
    **dict.fromkeys(("scale-loss", "ladder-text", "resformer-ablations", "svformer-length"), "text-values"),
    **dict.fromkeys(("attnres-ablations", "attnres-compute", "attnres-dilution", "scale-magnitude"), "text-depth"),
    **dict.fromkeys(("dva-against-gpt2", "dva-heads"), "text-dynamic-values"),
    **dict.fromkeys(("resformer-concentration", "resformer-mapping", "resformer-spectrum"), "text-layers"),
}
FAR = 0.4  # ids of claims are long: what is less alike is still of use


def packages() -> tuple[str, ...]:
    """Return the packages that may hold claims and experiments: papers by year, `across`, other people's."""
    return (*_ours(), *(room.package for room in _foreign_rooms()))


@cache
def _ours() -> tuple[str, ...]:
    def by_year() -> list[str]:
        rest = {f"experiments.{module.name}" for module in iter_modules([str(Path(__file__).parent)]) if module.ispkg}
        names = [name for room in rooms() if not room.foreign and (name := package_beside(room)) in rest]
        return [*names, ACROSS]

    return tuple(remembered("rooms", by_year))


def _foreign_rooms() -> tuple[Room, ...]:
    """Return the rooms of installed papers; where none is installed, no paper is imported."""
    return tuple(room for room in rooms() if room.foreign) if installed() else ()


def _is_ours(package: str) -> bool:
    return package in _ours()


def package_beside(room: Room) -> str:
    """Return the package of a paper's experiments: experiments.skipv1 for theory.skipv1; if foreign, its own."""
    return room.package if room.foreign else f"experiments.{room.name}"


def claims() -> MutableMapping[str, Claim]:
    """Return the ledger, by id.  Raises UserError if two entries of ours have one id."""
    return _settled(_claims)


@cache
def _claims(packages: tuple[str, ...]) -> Lazy[Claim, str]:
    modules: dict[str, str] = {}
    for package in packages:
        for name, module in (_guarded(package, _modules_of_claims) or {}).items():
            if modules.setdefault(name, module) != module:
                _refuse(package, f"two ledger entries have the id {name!r}; one stands in {module}")
    return Lazy({name: partial(_claim_in, module, name) for name, module in modules.items()}, modules)


def _modules_of_claims(package: str) -> dict[str, str]:
    """Return which modules hold the claims of a room, by their ids."""

    def find() -> dict[str, str]:
        return {claim.id: claim.module for claim in _claims_in(package)}

    found: dict[str, str] = remembered(f"{package}.claims", find) if _is_ours(package) else find()
    return found


def _claim_in(module: str, name: str) -> Claim:
    from experiments.ledger.verify import entry_of

    claim = entry_of(module, name)
    claim.module = claim.module or module
    return claim


@cache
def _claims_in(package: str) -> tuple[Claim, ...]:
    by_id: dict[str, Claim] = {}
    for module in _modules(f"{package}.claims"):
        for claim in vars(import_module(module)).values():
            if isinstance(claim, Claim):
                if by_id.setdefault(claim.id, claim) is not claim:
                    raise UserError(f"two ledger entries have the id {claim.id!r}; one stands in {module}")
                claim.module = claim.module or module
    return tuple(by_id.values())


def claim(name: str) -> Claim:
    """Return the ledger entry of that id.  Raises UserError for an unknown one."""
    ledger = claims()
    if name in ledger:
        return ledger[name]
    from theory.plans.presets import PRESETS
    from theory.plans.suggestions import unknown
    from theory.plans.variants import VARIANTS

    others = {"experiment": names(), "variant": VARIANTS, "preset": PRESETS}
    lists = "`crosslayer verify --json` lists all"
    raise UserError(unknown("ledger entry", name, ledger, others=others, lists=lists, close=FAR))


def variants() -> dict[str, Variant]:
    """Return all variants by name: vanilla, then each paper's in the papers' order, whichever was imported first."""
    from theory.plans.variants import VARIANTS

    places: dict[Paper | None, int] = {paper: i for i, paper in enumerate(papers())}
    return dict(sorted(VARIANTS.items(), key=lambda one: places.get(one[1].paper, -1)))


def indexes() -> list[Index]:
    """Return every INDEX that a module `index` of a room exports: parts of papers, gone through line by line."""
    from experiments.ledger.overview import Index

    exported = (
        _guarded(package, lambda package: _exported(f"{package}.index", "INDEX", Index)) for package in packages()
    )
    return [index for index in exported if index is not None]


def answers() -> dict[str, Answer]:
    """Return every ANSWER that a module `answer` of a room exports, by package: the paper in a few lines."""
    from experiments.ledger.overview import Answer

    pairs = {
        package: _guarded(package, lambda package: _exported(f"{package}.answer", "ANSWER", Answer))
        for package in packages()
    }
    return {package: answer for package, answer in pairs.items() if answer is not None}


def all_experiments() -> MutableMapping[str, Experiment]:
    """Return all by name: toys first, then full size.  Raises UserError if two of ours have one name.

    An installed paper's experiment whose name is taken has it after the name of the paper's entry point and a dot.
    """
    return _settled(_experiments)


class About(NamedTuple):
    """The known facts about an experiment before it is loaded.

    Args:
        module: that exports it.
        kind: as in `experiments.experiment.protocol`.
        claims: ids of the ledger entries that it bears on.
    """

    module: str
    kind: str
    claims: tuple[str, ...]


@cache
def _experiments(packages: tuple[str, ...]) -> Lazy[Experiment, About]:
    from theory.plans.registry import Names

    registered: Names[About] = Names("experiment")
    by_package = {room.package: room for room in _foreign_rooms()}
    for package in packages:
        for name, about in _guarded(package, _about_experiments) or ():
            try:
                registered.add(name, about, by_package.get(package))
            except BadInput as error:
                _refuse(package, str(error))
                break
    listed = dict(sorted(registered.listed.items(), key=lambda pair: pair[1].kind != "theory"))
    return Lazy({name: partial(_experiment_of, about.module, name) for name, about in listed.items()}, listed)


def _about_experiments(package: str) -> list[tuple[str, About]]:
    """Return the names of the experiments of a room, and what is known of each."""

    def find() -> list[tuple[str, About]]:
        pairs = _experiments_in(package)
        return [(one.name, About(module, one.kind, tuple(one.claims))) for module, one in pairs]

    rows = remembered(f"{package}.experiments", find) if _is_ours(package) else find()
    return [(name, About(module, kind, tuple(claims))) for name, (module, kind, claims) in rows]


def _experiment_of(module: str, name: str) -> Experiment:
    experiment: Experiment = import_module(module).EXPERIMENT
    if experiment.name == name:
        return experiment
    renamed = copy(experiment)
    renamed.name = name
    return renamed


@cache
def _experiments_in(package: str) -> tuple[tuple[str, Experiment], ...]:
    """Return the modules that export experiments of a room, and the experiments."""
    from experiments.experiment.protocol import Experiment

    runs: list[tuple[str, Experiment]] = []
    for module in (*_holding_experiments(package), *_modules(f"{package}.{QUESTIONS}")):
        experiment = getattr(import_module(module), "EXPERIMENT", None)
        if not isinstance(experiment, Experiment):
            raise UserError(f"{module} must hold EXPERIMENT, as in `experiments.experiment.protocol`")
        runs.append((module, experiment))
    return tuple(runs)


def _holding_experiments(package: str) -> Iterator[str]:
    """Yield the modules of a room that hold an experiment.  Their source says so: none is imported to find out."""
    for name in _modules(package):
        spec = find_spec(name)
        if spec and spec.submodule_search_locations:
            if find_spec(f"{name}.experiment"):
                yield f"{name}.experiment"
        elif spec and isinstance(spec.loader, InspectLoader) and EXPORTS.search(spec.loader.get_source(name) or ""):
            yield name


def names(kind: str | None = None) -> list[str]:
    """Return the names of the experiments on toys (`theory`), on full-size models (`scale`), or of all (None)."""
    known = all_experiments()
    return [name for name in known if kind is None or _about(known, name).kind == kind]


def experiment(name: str) -> Experiment:
    """Return the experiment of that name.  Raises UserError for an unknown one, and for one that is retired."""
    known = all_experiments()
    if name not in known and name in RETIRED:
        raise UserError(f"{name} is retired: {_instead_of(name)}")
    if name not in known:
        from theory.plans.suggestions import unknown

        raise UserError(unknown("experiment", name, known, others=_others(name)))
    return known[name]


def _instead_of(retired: str) -> str:
    """Return what to run or read instead of a retired experiment."""
    now = RETIRED[retired]
    if retired in MERGED:
        return f"it is part of `crosslayer run {now}` now, and so are its results"
    asks = f"`crosslayer run {now}` asks its question" if now else "no experiment asks its question"
    return f"{asks} now; what it found stands in results/earlier"


def _others(name: str) -> dict[str, Container[str]]:
    """Return what else may have the name.  Ids of claims alone have a dot, and take longer to look up."""
    from theory.plans.presets import PRESETS
    from theory.plans.variants import VARIANTS

    return {"ledger entry": claims() if "." in name else (), "variant": VARIANTS, "preset": PRESETS}


def check_claims(experiment: Experiment) -> None:
    """Raise UserError for an experiment that bears on a ledger entry which is not there."""
    for name in (name for name in experiment.claims if name not in claims()):
        try:
            claim(name)
        except UserError as error:
            raise UserError(f"{experiment.name} bears on an {error}") from None


def experiments_on(claim: str) -> list[str]:
    """Return the names of the experiments whose checks bear on a ledger entry."""
    known = all_experiments()
    return [name for name in known if claim in _about(known, name).claims]


def _about(known: Mapping[str, Experiment], name: str) -> About | Experiment:
    """Return what has an experiment's kind and claims, without loading it where that is known."""
    return known.about[name] if isinstance(known, Lazy) else known[name]


def _modules(package: str) -> list[str]:
    """Return the modules and packages in a package, in alphabetical order; none if it is not there."""
    spec = find_spec(package)
    places = spec.submodule_search_locations if spec else None
    return [f"{package}.{module.name}" for module in iter_modules(places)] if places else []


def _exported(module: str, name: str, kind: type[T]) -> T | None:
    """Return a module's export; None if the module is not there.  Raises UserError if it is of another kind."""
    if not find_spec(module):
        return None
    thing = getattr(import_module(module), name, None)
    if not isinstance(thing, kind):
        raise UserError(f"{module} must hold {name}, of the kind {kind.__name__}")
    return thing


def _settled(load: Callable[[tuple[str, ...]], T]) -> T:
    """Load all packages again until loading leaves none of them out."""
    while True:
        before = packages()
        loaded = load(before)
        if packages() == before:
            return loaded


def _guarded(package: str, load: Callable[[str], T]) -> T | None:
    """Return what `load` makes of a package; None if that leaves out an installed paper."""
    room = next((room for room in _foreign_rooms() if room.package == package), None)
    return load(package) if room is None else guarded(room, lambda: load(package))


def _refuse(package: str, what: str) -> None:
    """Raise UserError for what is wrong with a package of ours; leave an installed paper out."""

    def refuse(_: str) -> None:
        raise UserError(what)

    _guarded(package, refuse)
