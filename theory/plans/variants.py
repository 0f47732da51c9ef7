"""Variants by name: functions from a shape to a plan, each with its paper, its place and what it changes in a few
words.

They stand in the papers' rooms, `theory/PAPER/variants.py`, and register themselves:

    @variant(PAPER, "section 3.3, Eqn. 7", "every value is half its own, half layer 1's")
    def resformer(shape: Shape, own: float = 0.5, first: float = 0.5) -> Plan: ...

`theory.plans.names` reads what a user types.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from theory.plans.papers import Paper
from theory.plans.plan import Plan, vanilla
from theory.plans.registry import Registry, owner


@dataclass(frozen=True)
class Variant:
    """A named plan: where it comes from and what it changes, in a few words."""

    name: str
    make: Callable[..., Plan]
    paper: Paper | None
    place: str
    changes: str

    @property
    def source(self) -> str:
        """The name of the paper; empty for the baseline of all."""
        return self.paper.name if self.paper else ""


VARIANTS: Registry[Variant] = Registry("variant", "variants")


def ours() -> dict[str, Variant]:
    """Return this project's variants by name, without those of installed papers."""
    return {name: variant for name, variant in VARIANTS.items() if owner(variant.make.__module__) is None}


def of_the_papers() -> dict[str, Variant]:
    """Return those of `ours` that are of the papers which the project is about, and not of the field besides."""
    return {name: variant for name, variant in ours().items() if variant.paper is None or not variant.paper.further}


def variant(paper: Paper | None, place: str, changes: str) -> Callable[[Callable[..., Plan]], Callable[..., Plan]]:
    """Register a function under its name, with `-` for `_`.  Raises BadInput for a name that another of ours has."""

    def register(make: Callable[..., Plan]) -> Callable[..., Plan]:
        name = make.__name__.replace("_", "-")
        VARIANTS.register(name, Variant(name, make, paper, place=place, changes=changes), make.__module__)
        return make

    return register


variant(None, "the baseline of all four", "nothing")(vanilla)
