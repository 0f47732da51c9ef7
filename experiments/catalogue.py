"""What there is: papers, claims and experiments, found by looking.

A paper's room in `experiments`, or the package that an entry point of the group `crosslayer.papers` names
(`theory.plans.papers`), holds its claims in modules of `claims/` and its experiments in packages with a module
`experiment` that exports EXPERIMENT.  `across` is a room too.  Adding to either is adding a file.
"""

from __future__ import annotations

from collections.abc import Container
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from pkgutil import iter_modules
from types import ModuleType

from experiments.experiment.protocol import Experiment
from experiments.ledger.answer import Answer
from experiments.ledger.claim import Claim
from experiments.ledger.index import Index
from experiments.store.folders import UserError
from theory.plans.papers import Room, rooms
from theory.plans.presets import PRESETS
from theory.plans.suggestions import unknown
from theory.plans.variants import VARIANTS

ACROSS = "experiments.across"
FAR = 0.4  # ids of claims are long: what is less alike is still of use


@cache
def packages() -> tuple[str, ...]:
    """Every package that may hold claims and experiments: the papers' by year, what needs several, other people's."""
    rest = {f"experiments.{module.name}" for module in iter_modules([str(Path(__file__).parent)]) if module.ispkg}
    ours = [name for room in rooms() if not room.foreign and (name := package_beside(room)) in rest]
    return (*ours, ACROSS, *(room.package for room in rooms() if room.foreign))


def package_beside(room: Room) -> str:
    """Where a paper's claims and experiments stand: experiments.skipv1 for theory.skipv1; if foreign, the same one."""
    return room.package if room.foreign else f"experiments.{room.name}"


@cache
def claims() -> dict[str, Claim]:
    """The ledger, by id.  Raises UserError if two entries have one id or a paper's claims cannot be loaded."""
    by_id: dict[str, Claim] = {}
    for package in packages():
        for module in _modules(f"{package}.claims"):
            for claim in vars(_loaded(module)).values():
                if isinstance(claim, Claim):
                    if by_id.setdefault(claim.id, claim) is not claim:
                        raise UserError(f"two ledger entries have the id {claim.id!r}; one stands in {module}")
                    claim.module = claim.module or module
    return by_id


def claim(name: str) -> Claim:
    """The ledger entry of that id.  Raises UserError for an unknown one."""
    ledger = claims()
    if name in ledger:
        return ledger[name]
    others = {"experiment": names(), "variant": VARIANTS, "preset": PRESETS}
    lists = "`crosslayer verify --json` lists all"
    raise UserError(unknown("ledger entry", name, ledger, others=others, lists=lists, close=FAR))


def indexes() -> list[Index]:
    """What papers' rooms export as INDEX of a module `index`: parts of papers, gone through line by line."""
    modules = [f"{package}.index" for package in packages()]
    return [_loaded(module).INDEX for module in modules if find_spec(module)]


def answers() -> dict[str, Answer]:
    """By package, what papers' rooms export as ANSWER of a module `answer`: the paper in a few lines."""
    modules = {package: f"{package}.answer" for package in packages()}
    return {package: _loaded(module).ANSWER for package, module in modules.items() if find_spec(module)}


@cache
def all_experiments() -> dict[str, Experiment]:
    """By name: toys first, then full size.  Raises UserError if two have one name or one cannot be loaded."""
    by_name: dict[str, Experiment] = {}
    for package in packages():
        for module in _modules(package):
            if find_spec(module).submodule_search_locations and find_spec(f"{module}.experiment"):  # type: ignore[union-attr]
                experiment: Experiment = _loaded(f"{module}.experiment").EXPERIMENT
                if by_name.setdefault(experiment.name, experiment) is not experiment:
                    raise UserError(f"two experiments are called {experiment.name!r}; one stands in {module}")
    return dict(sorted(by_name.items(), key=lambda pair: pair[1].kind != "theory"))


def names(kind: str | None = None) -> list[str]:
    """Of the experiments on toys (`theory`), on full-size models (`scale`), or of all (None)."""
    return [name for name, experiment in all_experiments().items() if kind in (None, experiment.kind)]


def experiment(name: str) -> Experiment:
    """The experiment of that name.  Raises UserError for an unknown one."""
    known = all_experiments()
    if name not in known:
        raise UserError(unknown("experiment", name, known, others=_others(name)))
    return known[name]


def _others(name: str) -> dict[str, Container[str]]:
    """What else may have the name of an experiment: ids of claims alone have a dot, and take longer to look up."""
    return {"ledger entry": claims() if "." in name else (), "variant": VARIANTS, "preset": PRESETS}


def check_claims(experiment: Experiment) -> None:
    """Raises UserError for an experiment that bears on a ledger entry which is not there."""
    for name in experiment.claims:
        try:
            claim(name)
        except UserError as error:
            raise UserError(f"{experiment.name} bears on an {error}") from None


def experiments_on(claim: str) -> list[str]:
    """Names of the experiments whose checks bear on a ledger entry."""
    return [name for name, one in all_experiments().items() if claim in one.claims]


def _modules(package: str) -> list[str]:
    """The modules and packages in a package, in alphabetical order; none if it is not there."""
    spec = find_spec(package)
    places = spec.submodule_search_locations if spec else None
    return [f"{package}.{module.name}" for module in iter_modules(places)] if places else []


def _loaded(module: str) -> ModuleType:
    if module.startswith("experiments."):
        return import_module(module)
    try:
        return import_module(module)
    except Exception as error:
        raise UserError(f"{module} cannot be loaded: {type(error).__name__}: {error}") from error
