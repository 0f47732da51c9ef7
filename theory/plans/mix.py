"""Sources and their weighted sums: what one head of a plan reads.  Standard library only.

`q(n, h)`, `k(n, h)` and `v(n, h)` are what the projections of layer n make for head h, both counted from 1.
`e(n, h)` is what a table of layer n holds for the token itself, whatever the layer reads: one learned row per token and
head.  `shifted(mix, 1)` is the same sum of what the token before has.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal, TypeGuard

Kind = Literal["q", "k", "v", "e"]
KINDS: tuple[Kind, ...] = ("q", "k", "v", "e")  # things are ordered by it: new kinds go to the end


@dataclass(frozen=True)
class Source:
    """The output of one layer's q, k or v projection for one head, or the row of one layer's table (kind e).

    shift    tokens back: 1 is what the token before has, and zeros where there is none
    """

    kind: Kind
    layer: int
    head: int
    shift: int = 0

    def __str__(self) -> str:
        text = f"{self.kind}({self.layer}, {self.head})"
        return f"shifted({text}, {self.shift})" if self.shift else text

    @property
    def unshifted(self) -> Source:
        """The same output of the token itself."""
        return replace(self, shift=0) if self.shift else self


@dataclass(frozen=True)
class Learned:
    """A learned number, for use as a weight: offset + slope * x, with one x per name and plan, wherever it is used.

    Arithmetic with fixed numbers gives another weight of the same x: `1 - a`, `-a`, `2 * a`.

    start    x's first value
    shared   whether plans that are put together have one parameter under this name: all of them must say so; otherwise
             each keeps its own (`theory.plans.combine`)
    place    weights of one name with different places are the numbers of one parameter (`learned_weights`)
    wide     x is a vector as wide as a head, each number of which weighs its own part of the source
    """

    name: str
    start: float
    shared: bool = False
    slope: float = 1.0
    offset: float = 0.0
    place: int | None = None
    wide: bool = False

    def __str__(self) -> str:
        slope = "" if self.slope == 1 else "-" if self.slope == -1 else f"{self.slope:.4g} "
        text = f"{slope}{self.number}"
        if not self.offset:
            return text
        sign = "- " if text.startswith("-") else "+ "
        return f"({self.offset:.4g} {sign}{text.removeprefix('-')})"

    @property
    def number(self) -> str:
        """The name of x, which includes its place among those of its parameter."""
        return self.name if self.place is None else f"{self.name}[{self.place}]"

    def value(self, x: float) -> float:
        """Return the weight for a value of x."""
        return self.offset + self.slope * x

    def __mul__(self, factor: float) -> Learned:
        if not _is_number(factor):
            return NotImplemented
        return replace(self, slope=self.slope * factor, offset=self.offset * factor)

    __rmul__ = __mul__

    def __add__(self, addend: float) -> Learned:
        return replace(self, offset=self.offset + addend) if _is_number(addend) else NotImplemented

    __radd__ = __add__

    def __neg__(self) -> Learned:
        return self * -1.0

    def __sub__(self, other: float) -> Learned:
        return self + -other if _is_number(other) else NotImplemented

    def __rsub__(self, other: float) -> Learned:
        return -self + other if _is_number(other) else NotImplemented

    def __truediv__(self, divisor: float) -> Learned:
        return self * (1 / divisor) if _is_number(divisor) else NotImplemented


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def learned_weights(name: str, starts: Iterable[float], *, shared: bool = False) -> tuple[Learned, ...]:
    """Return learned numbers that are one parameter together, a number for each start."""
    return tuple(Learned(name, start, shared, place=i) for i, start in enumerate(starts))


@dataclass(frozen=True)
class Term:
    weight: float | Learned
    source: Source

    @property
    def start(self) -> float:
        """The weight, or the first value of a learned one."""
        return self.weight.value(self.weight.start) if isinstance(self.weight, Learned) else self.weight

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
        """Multiply all weights; raise TypeError for the product of two learned ones."""
        scaled = []
        for term in self.terms:
            if isinstance(term.weight, Learned):
                if isinstance(factor, Learned):
                    raise TypeError(f"a learned weight multiplies fixed weights, not {self}")
                weight: float | Learned = term.weight * factor
            else:
                weight = factor * term.weight
            if factor != 0:
                scaled.append(Term(weight, term.source))
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


def e(layer: int, head: int) -> Mix:
    return Mix((Term(1.0, Source("e", layer, head)),))


def shifted(mix: Mix, tokens: int = 1) -> Mix:
    """Return the same sum of what the token `tokens` before has; nothing where there is none."""
    return Mix(tuple(replace(t, source=replace(t.source, shift=t.source.shift + tokens)) for t in mix.terms))


def total(mixes: Iterable[Mix]) -> Mix:
    """Return the sum of mixes."""
    out = NOTHING
    for mix in mixes:
        out = out + mix
    return out
