"""Variants of a user's own against vanilla, in a full-size experiment: same seeds, same tuning, same rule."""

from __future__ import annotations

import re
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from experiments.experiment.protocol import Experiment
from experiments.store.folders import Json, UserError, in_a_path
from experiments.training import expectations, user_files
from experiments.training.campaign import BASELINE
from experiments.training.expectations import PaperExpectation
from theory.errors import BadInput
from theory.plans import names
from theory.plans.architecture import Architecture
from theory.plans.deeper import missing
from theory.plans.plan import Plan, Shape

TOY = Shape(2, 2)  # layers and heads of the toy that is asked


@dataclass(frozen=True)
class OwnVariant:
    """A variant that a user requested, as data.

    name     what it is called wherever it is shown
    plans    what its files make of the shapes that are trained; none for a variant that has a name
    toy      its plan in the toy, where it has one that contains every kind of change
    expects  what its paper expects of it
    """

    name: str
    plans: tuple[Plan, ...]
    toy: Plan | None
    expects: tuple[PaperExpectation, ...] = ()

    def on(self, architecture: Architecture) -> tuple[Architecture, str | Plan]:
        """Return the model's sizes, with its kind of heads, and what `Arm` takes for a variant."""
        config, rest = names.sized(architecture, self.name)
        return config, next((plan for plan in self.plans if plan.shape == config.shape), rest)


def model_of(name: str, own: Sequence[OwnVariant], architecture: Architecture) -> tuple[Architecture, str | Plan]:
    """Return the sizes of a model and what `Arm` takes for its variant: one of a user's own, or by its name."""
    return next((variant.on(architecture) for variant in own if variant.name == name), (architecture, name))


@runtime_checkable
class Comparing(Experiment, Protocol):
    """An experiment in which vanilla may be compared with variants that it does not know."""

    def architectures(self, config: Any) -> Sequence[Architecture]:
        """Return the architectures that are trained, up to their vocabulary."""
        ...

    def comparing(self, config: Any, own: tuple[OwnVariant, ...]) -> Any:
        """Return the configuration with these variants and vanilla, in place of the experiment's own."""
        ...


def comparing(experiment: Experiment, profile: str, variants: Sequence[str]) -> Experiment:
    """Return the experiment, of one profile, on variants as a user names them, files among them, against vanilla.

    Its results are in a folder of their own.  Raises UserError or BadName for what has no meaning.
    """
    if not variants or profile not in experiment.profiles:
        return experiment
    if not isinstance(experiment, Comparing):
        raise UserError(f"--variant is for full-size experiments that train variants, and {experiment.name} does not")
    wanted = [variant for variant in dict.fromkeys(variants) if variant != BASELINE]
    if not wanted:
        raise UserError(f"--variant: name another variant than {BASELINE}, against which it is compared")
    before = experiment.profiles[profile]
    architectures = experiment.architectures(before.config)
    own = tuple(
        _own_variant(variant, name, architectures) for variant, name in zip(wanted, called(wanted), strict=True)
    )
    compared = copy(experiment)
    compared.name = named(experiment.name, variants)
    compared.title = f"{experiment.title}: {', '.join(variant.name for variant in own)}"
    stated = [expectation.claim for variant in own for expectation in variant.expects]
    compared.claims = tuple(dict.fromkeys((*experiment.claims, *stated)))
    compared.profiles = {profile: replace(before, config=experiment.comparing(before.config, own))}
    return compared


def named(experiment: str, variants: Sequence[str]) -> str:
    """Return the name of an experiment on these variants, which is also its folder's."""
    wanted = [variant for variant in dict.fromkeys(variants) if variant != BASELINE]
    return "+".join([experiment, *map(in_a_path, called(wanted))])


def own_places(out: Path, experiment: str) -> list[str]:
    """Return the folders below `out` of runs of an experiment on variants of a user's own."""
    return sorted(path.name for path in out.glob(f"{experiment}+*"))


def known_as(name: str) -> str:
    """Return the name of an experiment without the variants that `named` has added."""
    return name.partition("+")[0]


def called(variants: Sequence[str]) -> list[str]:
    """Return files without their folders, unless two would then have one name."""
    short = [re.sub(r"[^+:]*/", "", variant) for variant in variants]
    return short if len(set(short)) == len(short) else list(variants)


def _own_variant(variant: str, name: str, architectures: Sequence[Architecture]) -> OwnVariant:
    plans = [user_files.model(architecture, variant)[1] for architecture in architectures]
    try:
        toy = user_files.resolve(variant, TOY)
    except BadInput:  # it is for other shapes, or says what a model's heads are
        toy = None
    if toy and any(missing(toy, trained) for trained in plans):
        toy = None  # two layers do not contain what it changes
    plans_of_files = tuple(plans) if user_files.names_a_file(variant) else ()
    return OwnVariant(name, plans_of_files, toy, expects=expectations.expectations_of(variant))


def bare(variant: str) -> str:
    """Return a variant's name without its options; "" where several are joined."""
    return "" if "+" in variant else names.parsed(variant)[0]


def names_of_own(own: Sequence[OwnVariant]) -> Json:
    """Return a prediction's entry on a user's variants, empty if there are none: `own_names` reads it."""
    if not own:
        return {}
    expected = expectations.in_prediction({variant.name: variant.expects for variant in own})
    return {"own": [variant.name for variant in own], **expected}


def own_names(prediction: Json) -> list[str]:
    """Return the variants of a user's own that a prediction is about."""
    own: list[str] = prediction.get("own", [])
    return own
