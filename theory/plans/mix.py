"""Sources and their weighted sums: what one head of a plan reads.  Standard library only.

`q(n, h)`, `k(n, h)` and `v(n, h)` are what the projections of layer n make for head h, both counted from 1.
`e(n, h)` is what a table of layer n holds for the token itself, whatever the layer reads: one learned row per token and
head.  `shifted(mix, 1)` is the same sum of what the token before has.  `first(mix)` is the sum at a sequence's first
token and nothing at others, `later(mix)` the reverse.  Weights are fixed, learned, or gates: numbers that a layer
computes for every token and head.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal, Self, TypeGuard, get_args

Kind = Literal["q", "k", "v", "e", "g"]
KINDS: tuple[Kind, ...] = ("q", "k", "v", "e", "g")  # things are ordered by it: new kinds go to the end
Where = Literal["everywhere", "first", "later"]
WHERE: tuple[Where, ...] = get_args(Where)


@dataclass(frozen=True)
class Source:
    """The output of one layer's q, k or v projection for one head, or the row of one layer's table (kind e).

    A layer's gate of a head (kind g) weighs such sources, and is none that can be summed itself.

    shift    tokens back: 1 is what the token before has, and zeros where there is none
    where    the tokens at which it is read: everywhere, at the first of a sequence alone, or at later ones; zeros at
             others
    """

    kind: Kind
    layer: int
    head: int
    shift: int = 0
    where: Where = "everywhere"

    def __str__(self) -> str:
        text = f"{self.kind}({self.layer}, {self.head})"
        text = f"shifted({text}, {self.shift})" if self.shift else text
        return text if self.where == "everywhere" else f"{self.where}({text})"

    @property
    def unshifted(self) -> Source:
        """The same output of the token itself, at every token."""
        plain = not self.shift and self.where == "everywhere"
        return self if plain else replace(self, shift=0, where="everywhere")


class _Line:
    """A weight offset + slope * x.  Arithmetic with fixed numbers gives another weight of the same x."""

    slope: float
    offset: float

    def value(self, x: float) -> float:
        """Return the weight for a value of x."""
        return self.offset + self.slope * x

    def _with(self, slope: float, offset: float) -> Self:
        return replace(self, slope=slope, offset=offset)  # type: ignore[type-var]  # subclasses are dataclasses

    def named(self, x: str) -> str:
        """Return the weight in words, for a name of x."""
        slope = "" if self.slope == 1 else "-" if self.slope == -1 else f"{self.slope:.4g} "
        text = f"{slope}{x}"
        if not self.offset:
            return text
        sign = "- " if text.startswith("-") else "+ "
        return f"({self.offset:.4g} {sign}{text.removeprefix('-')})"

    def __mul__(self, factor: float) -> Self:
        if not is_number(factor):
            return NotImplemented
        return self._with(self.slope * factor, self.offset * factor)

    __rmul__ = __mul__

    def __add__(self, addend: float) -> Self:
        return self._with(self.slope, self.offset + addend) if is_number(addend) else NotImplemented

    __radd__ = __add__

    def __neg__(self) -> Self:
        return self * -1.0

    def __sub__(self, other: float) -> Self:
        return self + -other if is_number(other) else NotImplemented

    def __rsub__(self, other: float) -> Self:
        return -self + other if is_number(other) else NotImplemented

    def __truediv__(self, divisor: float) -> Self:
        return self * (1 / divisor) if is_number(divisor) else NotImplemented


@dataclass(frozen=True)
class Learned(_Line):
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
        return self.named(self.number)

    @property
    def number(self) -> str:
        """The name of x, which includes its place among those of its parameter."""
        return self.name if self.place is None else f"{self.name}[{self.place}]"


@dataclass(frozen=True)
class Gated(_Line):
    """A weight that a layer computes for every token and head: offset + slope * x, where x = sigmoid(map of its input).

    The input is what the layer's values are projected from, after the norm.  The map is linear, without a bias, and
    starts at 0: x is then 1/2.  All weights of one layer and head have one x.

    channels   the first numbers of the input, which the map reads; 0, or more than there are: all
    """

    layer: int
    head: int
    channels: int = 0
    slope: float = 1.0
    offset: float = 0.0

    def __str__(self) -> str:
        return self.named(f"gate({self.layer}, {self.head})")

    @property
    def start(self) -> float:
        """The first value of x."""
        return 0.5

    @property
    def source(self) -> Source:
        """The layer's gate of the head."""
        return Source("g", self.layer, self.head)

    def next_head(self) -> Gated:
        """Return the same weight of the next head."""
        return replace(self, head=self.head + 1)


Weight = float | Learned | Gated


def gate(layer: int, head: int, channels: int = 0) -> Gated:
    """Return the sigmoid gate that a layer computes for a head, from the first `channels` numbers of its input."""
    return Gated(layer, head, channels)


def is_number(value: object) -> TypeGuard[float]:
    """Return whether a value is a number, and no truth value."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def ill_typed_learned(weight: Learned) -> Iterator[str]:
    """Yield what of a learned weight is not of its type."""
    if not isinstance(weight.name, str):
        yield f"a learned weight's name must be an identifier, got {weight.name!r}"
    for field in ("start", "slope", "offset"):
        if not is_number(value := getattr(weight, field)):
            yield f"the {field} of the learned weight {weight.name} must be a number, got {value!r}"
    for field in ("shared", "wide"):
        if not isinstance(value := getattr(weight, field), bool):
            yield f"`{field}` of the learned weight {weight.name} must be true or false, got {value!r}"
    place = weight.place
    if place is not None and (isinstance(place, bool) or not isinstance(place, int)):
        yield f"the place of the learned weight {weight.name} must be a whole number from 0, got {place!r}"


def learned_weights(name: str, starts: Iterable[float], *, shared: bool = False) -> tuple[Learned, ...]:
    """Return learned numbers that are one parameter together, a number for each start."""
    return tuple(Learned(name, start, shared, place=i) for i, start in enumerate(starts))


@dataclass(frozen=True)
class Term:
    weight: Weight
    source: Source

    @property
    def start(self) -> float:
        """The weight, or the first value of one that is not fixed."""
        weight = self.weight
        return weight.value(weight.start) if isinstance(weight, Learned | Gated) else weight

    @property
    def read(self) -> tuple[Source, ...]:
        """The sources that must be there of tokens: the one that is weighed, before its shift, and its gate, if any."""
        gate = (self.weight.source,) if isinstance(self.weight, Gated) else ()
        return self.source.unshifted, *gate

    def __str__(self) -> str:
        weight = str(self.weight) if isinstance(self.weight, Learned | Gated) else f"{self.weight:.4g}"
        return str(self.source) if weight == "1" else f"{weight} {self.source}"


@dataclass(frozen=True)
class Mix:
    """A weighted sum of sources.  Terms with fixed weights on one source are one term; weight zero is no term."""

    terms: tuple[Term, ...] = ()

    def __add__(self, other: Mix) -> Mix:
        merged = {(t.source, t.weight if isinstance(t.weight, Learned | Gated) else None): t for t in self.terms}
        for term in other.terms:
            weight = term.weight
            key = term.source, weight if isinstance(weight, Learned | Gated) else None
            if key in merged:
                old = merged[key].weight
                if isinstance(old, Learned | Gated) or isinstance(weight, Learned | Gated):
                    raise TypeError(f"{term} stands twice in one sum")
                weight += old
            merged[key] = Term(weight, term.source)
        return Mix(tuple(t for t in merged.values() if t.weight != 0))

    def __sub__(self, other: Mix) -> Mix:
        return self + -other

    def __rmul__(self, factor: Weight) -> Mix:
        """Multiply all weights; raise TypeError for the product of two that are not fixed."""
        scaled = []
        for term in self.terms:
            if isinstance(term.weight, Learned | Gated):
                if isinstance(factor, Learned | Gated):
                    what = "gate" if isinstance(factor, Gated) else "learned weight"
                    raise TypeError(f"a {what} multiplies fixed weights, not {self}")
                weight: Weight = term.weight * factor
            else:
                weight = factor * term.weight
            if factor != 0:
                scaled.append(Term(weight, term.source))
        return Mix(tuple(scaled))

    def __mul__(self, factor: Weight) -> Mix:
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


def first(mix: Mix) -> Mix:
    """Return the same sum at the first token of a sequence, and nothing at others.

    Of a value that is read so, a cache keeps that one token.
    """
    return _at(mix, "first")


def later(mix: Mix) -> Mix:
    """Return the same sum at all tokens but the first of a sequence, and nothing there."""
    return _at(mix, "later")


def _at(mix: Mix, where: Where) -> Mix:
    """Return a sum at some tokens; what is nothing there is no term any more."""
    terms = [t for t in mix.terms if t.source.where in ("everywhere", where)]
    return Mix(tuple(replace(t, source=replace(t.source, where=where)) for t in terms))


def total(mixes: Iterable[Mix]) -> Mix:
    """Return the sum of mixes."""
    out = NOTHING
    for mix in mixes:
        out = out + mix
    return out
