"""Sources and their weighted sums: what one head of a plan reads.  Standard library only.

`q(n, h)`, `k(n, h)` and `v(n, h)` are what the projections of layer n make for head h, both counted from 1.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Kind = Literal["q", "k", "v"]
KINDS: tuple[Kind, ...] = ("q", "k", "v")


@dataclass(frozen=True)
class Source:
    """The output of one layer's q, k or v projection for one head."""

    kind: Kind
    layer: int
    head: int

    def __str__(self) -> str:
        return f"{self.kind}({self.layer}, {self.head})"


@dataclass(frozen=True)
class Learned:
    """A learned number, for use as a weight: one parameter per name and plan, wherever the plan uses it.

    start    its first value
    shared   whether plans that are put together have one parameter under this name: all of them must say so; otherwise
             each keeps its own (`theory.plans.combine`)
    """

    name: str
    start: float
    shared: bool = False

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Term:
    weight: float | Learned
    source: Source

    @property
    def start(self) -> float:
        """The weight, or the first value of a learned one."""
        return self.weight.start if isinstance(self.weight, Learned) else self.weight

    def __str__(self) -> str:
        weight = str(self.weight) if isinstance(self.weight, Learned) else f"{self.weight:.4g}"
        return str(self.source) if weight == "1" else f"{weight} {self.source}"


@dataclass(frozen=True)
class Mix:
    """A weighted sum of sources.  Terms with fixed weights on one source are one term; weight zero is no term."""

    terms: tuple[Term, ...] = ()

    def __add__(self, other: Mix) -> Mix:
        merged = {(t.source, t.weight if isinstance(t.weight, Learned) else None): t for t in self.terms}
        for term in other.terms:
            weight = term.weight
            key = term.source, weight if isinstance(weight, Learned) else None
            if key in merged:
                old = merged[key].weight
                if isinstance(old, Learned) or isinstance(weight, Learned):
                    raise TypeError(f"{term} stands twice in one sum")
                weight += old
            merged[key] = Term(weight, term.source)
        return Mix(tuple(t for t in merged.values() if t.weight != 0))

    def __sub__(self, other: Mix) -> Mix:
        return self + -other

    def __rmul__(self, factor: float | Learned) -> Mix:
        """Multiply fixed weights by a fixed one, or bare sources by a learned weight; else raise TypeError."""
        scaled = []
        for term in self.terms:
            if isinstance(factor, Learned):
                if term.weight != 1:
                    raise TypeError(f"a learned weight multiplies bare sources, not {self}")
                scaled.append(Term(factor, term.source))
            elif isinstance(term.weight, Learned):
                raise TypeError(f"the learned weights of {self} cannot be rescaled")
            elif factor != 0:
                scaled.append(Term(factor * term.weight, term.source))
        return Mix(tuple(scaled))

    def __mul__(self, factor: float | Learned) -> Mix:
        return factor * self

    def __truediv__(self, divisor: float) -> Mix:
        return 1 / divisor * self

    def __neg__(self) -> Mix:
        return -1 * self

    def __str__(self) -> str:
        return " + ".join(map(str, self.terms)) or "nothing"


NOTHING = Mix()


def q(layer: int, head: int) -> Mix:
    return Mix((Term(1.0, Source("q", layer, head)),))


def k(layer: int, head: int) -> Mix:
    return Mix((Term(1.0, Source("k", layer, head)),))


def v(layer: int, head: int) -> Mix:
    return Mix((Term(1.0, Source("v", layer, head)),))


def total(mixes: Iterable[Mix]) -> Mix:
    """Return the sum of mixes."""
    out = NOTHING
    for mix in mixes:
        out = out + mix
    return out
