"""A variant is a plan: data that says what every head of every layer attends over.  Standard library only.

Layers and heads are counted from 1, as in the papers.  `q(n, h)`, `k(n, h)` and `v(n, h)` stand for what layer n's own
projections make of its input, for head h.  A plan gives each head, as sums of these with fixed or learned weights,

    queries   its query                                       vanilla: q(n, h)
    keys      the keys it attends over                        vanilla: k(n, h)
    values    the values it attends over                      vanilla: v(n, h)
    beside    values of the same token, added to its output   vanilla: nothing

so that ResFormer is `values = 0.5 * v(n, h) + 0.5 * v(1, h)`.  Keys and values may be lists of equal length: the head
then attends over their concatenation along time, with one softmax.  `e(n, h)`, a row of a table for the token itself,
may stand among values and beside them.  Values may be `shifted` by tokens, or read at a sequence's `first` token or at
`later` ones alone.  `gate(n, h)`, a number that layer n computes for every token, may weigh keys and values.  A head
whose values are `NOTHING` is not built, and neither is a projection that nobody reads.  Under grouped queries a head is
a key/value head with all of its queries.

The depth rule says how a sublayer's input is made from what the sublayers before it put out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Literal

from theory.errors import BadInput, at_least, field_problems
from theory.plans.depth import Chain, Depth, DepthAttention, DepthAverage, Residual, depth_problems
from theory.plans.mix import (
    KINDS,
    NOTHING,
    Gated,
    Kind,
    Learned,
    Mix,
    Source,
    Weight,
    Where,
    e,
    first,
    gate,
    ill_typed_learned,
    k,
    later,
    learned_weights,
    q,
    shifted,
    total,
    v,
)
from theory.plans.term_problems import term_problems

# A user's plan needs no other import.
__all__ = [
    "NOTHING",
    "Chain",
    "DepthAttention",
    "DepthAverage",
    "Gated",
    "Learned",
    "Mix",
    "Plan",
    "Residual",
    "Shape",
    "e",
    "first",
    "gate",
    "k",
    "later",
    "learned_weights",
    "plan",
    "q",
    "shifted",
    "total",
    "v",
]


STREAM = Residual()
Dynamic = Literal["no", "gate", "initial", "revised"]


@dataclass(frozen=True)
class Shape:
    """The shape for which a variant is made: layers, and heads per layer (key/value heads where queries are
    grouped)."""

    layers: int
    heads: int

    def __post_init__(self) -> None:
        at_least("layers", self.layers, 1)
        at_least("heads", self.heads, 1)

    def cells(self) -> Iterator[tuple[int, int]]:
        """Yield all (layer, head)."""
        return ((n, h) for n in range(1, self.layers + 1) for h in range(1, self.heads + 1))


Segments = tuple[Mix, ...]


@dataclass(frozen=True)
class HeadPlan:
    """One head: its query, the segments it attends over, and what is added beside."""

    query: Mix
    keys: Segments
    values: Segments
    beside: Mix

    @property
    def live(self) -> bool:
        return bool(self.values)


ABSENT = HeadPlan(NOTHING, (), (), beside=NOTHING)


@dataclass(frozen=True)
class Plan:
    """A variant for one shape.  `table[n - 1][h - 1]` is head h of layer n; `plan` builds it from rules.

    dynamic             Dynamic Value Attention: values that depend on the query, section 3.1 or 3.2; or of the latter
                        the gate alone, whose keys' gate is the value
    feed_forward        whether a layer has a feed-forward sublayer
    output_projection   whether attention has an output projection
    """

    shape: Shape
    table: tuple[tuple[HeadPlan, ...], ...]
    depth: Depth = STREAM
    dynamic: Dynamic = "no"
    feed_forward: bool = True
    output_projection: bool = True

    def __repr__(self) -> str:
        """Describe what differs from vanilla; `table` has every head."""
        layers, heads = self.shape.layers, self.shape.heads
        parts = [f"{layers} layer{'s' if layers > 1 else ''} of {heads} head{'s' if heads > 1 else ''}"]
        fits = [len(row) for row in self.table] == [heads] * layers
        found = changes(self) if fits else {}
        parts += [f"{what} changed in {_layers(changed)}" for what, changed in found.items()]
        parts += [] if fits else ["a table of other sizes"]
        flags = {"depth": STREAM, "dynamic": "no", "feed_forward": True, "output_projection": True}
        parts += [f"{name}={getattr(self, name)!r}" for name, usual in flags.items() if getattr(self, name) != usual]
        return f"<Plan: {'; '.join(parts if len(parts) > 1 else [*parts, 'vanilla'])}>"

    @property
    def gates(self) -> tuple[bool, bool]:
        """Two flags: dynamic values have a projection for the queries' gates, and one for the keys' gates."""
        return self.dynamic != "no", self.dynamic in ("initial", "revised")

    def head(self, layer: int, head: int) -> HeadPlan:
        return self.table[layer - 1][head - 1]

    def live(self, layer: int) -> tuple[int, ...]:
        """Return the heads of a layer that are built."""
        return tuple(h for h, head in enumerate(self.table[layer - 1], 1) if head.live)

    @cached_property
    def _lifetimes(self) -> tuple[Lifetime, ...]:
        """The result of `lifetimes`, kept because every layer of a model needs it and it walks the whole table."""
        last: dict[Source, int] = {}
        attended: set[Source] = set()
        of_first: set[Source] = set()
        for n, h in self.shape.cells():
            head = self.head(n, h)
            terms = [t for mix in (*head.keys, *head.values) for t in mix.terms]
            over_time = [s for t in terms for s in t.read]
            attended.update(s for t in terms for s in t.read if t.source.where != "first" or s != t.source.unshifted)
            of_first.update(t.source.unshifted for t in terms if t.source.where == "first")
            within = [s for mix in (head.query, head.beside) for t in mix.terms for s in t.read]
            last |= dict.fromkeys(over_time + within, n)
        order = sorted(last, key=lambda s: (s.layer, KINDS.index(s.kind), s.head))
        return tuple(Lifetime(s, last[s], s in attended, first=s in of_first) for s in order)

    @cached_property
    def _shifts(self) -> Mapping[tuple[Kind, int], Mapping[int, int]]:
        found: dict[tuple[Kind, int], dict[int, int]] = {}
        for n, h in self.shape.cells():
            sources = (t.source for mix in self.head(n, h).values for t in mix.terms)
            for source in (source for source in sources if source.shift):
                found.setdefault((source.kind, source.layer), {})[source.shift] = n
        return found

    @cached_property
    def _limits(self) -> Mapping[tuple[Kind, int], Mapping[Where, int]]:
        found: dict[tuple[Kind, int], dict[Where, int]] = {}
        for n, h in self.shape.cells():
            sources = (t.source for mix in self.head(n, h).values for t in mix.terms)
            for source in (source for source in sources if source.where != "everywhere"):
                found.setdefault((source.kind, source.layer), {})[source.where] = n
        return found

    @cached_property
    def _learned_parameters(self) -> Mapping[str, LearnedParameter]:
        found: dict[str, dict[int, float]] = {}
        wide: dict[str, bool] = {}
        for weight in _learned(self):
            found.setdefault(weight.name, {})[-1 if weight.place is None else weight.place] = weight.start
            wide[weight.name] = weight.wide
        parameters = {}
        for name, starts in found.items():
            places = tuple(sorted(place for place in starts if place >= 0))
            parameters[name] = LearnedParameter(places, tuple(starts[place] for place in places or (-1,)), wide[name])
        return parameters

    @cached_property
    def _gate_channels(self) -> Mapping[int, int]:
        heads = (self.head(*cell) for cell in self.shape.cells())
        mixes = (mix for head in heads for mix in (*head.keys, *head.values, head.beside))
        gates = (term.weight for mix in mixes for term in mix.terms if isinstance(term.weight, Gated))
        return {weight.layer: weight.channels for weight in gates}

    @cached_property
    def _problems(self) -> tuple[str, ...]:
        if [len(row) for row in self.table] != [self.shape.heads] * self.shape.layers:
            return (f"the table does not have {self.shape.layers} layers of {self.shape.heads} heads",)
        depth = depth_problems(self.depth, self.shape.layers, 1 + bool(self.feed_forward))
        return (*field_problems(self), *_problems_of_heads(self), *_problems_of_layers(self), *depth)

    @cached_property
    def _built(self) -> Mapping[tuple[Kind, int], tuple[int, ...]]:
        heads: dict[tuple[Kind, int], list[int]] = {}
        for life in self._lifetimes:
            heads.setdefault((life.source.kind, life.source.layer), []).append(life.source.head)
        return {key: tuple(numbers) for key, numbers in heads.items()}


Rule = Callable[[int, int], Mix]
SegmentRule = Callable[[int, int], Mix | Segments]


def plan(
    shape: Shape,
    *,
    queries: Rule = q,
    keys: SegmentRule = k,
    values: SegmentRule = v,
    beside: Rule = lambda n, h: NOTHING,
    depth: Depth = STREAM,
    dynamic: Dynamic = "no",
    feed_forward: bool = True,
    output_projection: bool = True,
) -> Plan:
    """Build a plan from rules (layer, head) -> mix; an omitted rule is that of a vanilla Transformer.

    Raises BadInput, with the first of `problems(plan)`, if the rules make no sense together.
    """

    def sums(what: str, n: int, h: int, result: object) -> Segments:
        mixes = tuple(result) if isinstance(result, tuple | list) else (result,)
        if not all(isinstance(mix, Mix) for mix in mixes):
            raise BadInput(f"layer {n}, head {h}: {what} must be sums of sources, one or a list, not {result!r}")
        return tuple(mix for mix in mixes if mix.terms)

    def head(n: int, h: int) -> HeadPlan:
        attended = sums("values", n, h, values(n, h))
        if not attended:
            return ABSENT
        query, addend = queries(n, h), beside(n, h)
        for what, mix in (("queries", query), ("beside", addend)):
            if not isinstance(mix, Mix):
                raise BadInput(f"layer {n}, head {h}: {what} must be a sum of sources, not {mix!r}")
        return HeadPlan(query, sums("keys", n, h, keys(n, h)), attended, beside=addend)

    layers, heads = range(1, shape.layers + 1), range(1, shape.heads + 1)
    table = tuple(tuple(head(n, h) for h in heads) for n in layers)
    return checked(
        Plan(shape, table, depth, dynamic=dynamic, feed_forward=feed_forward, output_projection=output_projection)
    )


@lru_cache(maxsize=64)
def vanilla(shape: Shape) -> Plan:
    """Return the plan of a vanilla Transformer, which every variant is compared with."""
    return plan(shape)


PARTS: dict[str, Callable[[HeadPlan], object]] = {
    "queries": lambda head: head.query if head.live else None,
    "keys": lambda head: head.keys,
    "values": lambda head: head.values,
    "terms beside the attention": lambda head: head.beside,
}


def changes(changed: Plan) -> dict[str, list[int]]:
    """Return the parts of heads that differ from vanilla's, each with the layers in which they do."""
    base, found = vanilla(changed.shape), {}
    for what, read in PARTS.items():
        cells = [n for n, h in changed.shape.cells() if read(changed.head(n, h)) != read(base.head(n, h))]
        if cells:
            found[what] = list(dict.fromkeys(cells))
    return found


def _layers(numbers: list[int]) -> str:
    """Return 2, 3, 4 and 7 as "layers 2-4, 7"."""
    spans: list[list[int]] = []
    for n in numbers:
        if spans and n == spans[-1][1] + 1:
            spans[-1][1] = n
        else:
            spans.append([n, n])
    shown = ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in spans)
    return f"layer{'s' if len(numbers) > 1 else ''} {shown}"


def checked(plan: Plan) -> Plan:
    """Return the plan itself.  Raises BadInput with the first of its problems."""
    for problem in problems(plan):
        raise BadInput(problem)
    return plan


def problems(plan: Plan) -> list[str]:
    """Return why a plan makes no sense, one reason per line; empty if it does."""
    return list(plan._problems)


def _problems_of_heads(plan: Plan) -> Iterator[str]:
    first: dict[str, Learned] = {}
    alike: dict[str, Learned] = {}
    channels: dict[int, int] = {}
    for n, h in plan.shape.cells():
        head, where = plan.head(n, h), f"layer {n}, head {h}"
        if head.live and not head.query.terms:
            yield f"{where}: has values but no query"
        if len(head.keys) != len(head.values):
            yield f"{where}: {len(head.keys)} lists of keys for {len(head.values)} lists of values"
        uses: list[tuple[Kind, Mix]] = [("q", head.query), ("v", head.beside)]
        uses += [("k", mix) for mix in head.keys] + [("v", mix) for mix in head.values]
        for kind, mix in uses:
            for term in mix.terms:
                yield from term_problems(term, kind, n, heads=plan.shape.heads, where=where)
                weight = term.weight
                if isinstance(weight, Gated) and channels.setdefault(weight.layer, weight.channels) != weight.channels:
                    yield f"{where}: the gates of layer {weight.layer} do not all read the same channels"
                if isinstance(weight, Learned) and not any(ill_typed_learned(weight)):
                    if first.setdefault(weight.number, weight).start != weight.start:
                        yield f"{where}: the learned weight {weight.number} has two starting values"
                    before = alike.setdefault(weight.name, weight)
                    if before.shared != weight.shared:
                        yield f"{where}: the learned weight {weight.name} is shared in one place and not in another"
                    if (before.place is None, before.wide) != (weight.place is None, weight.wide):
                        what = "is one number, several, or as wide as a head, and not the same everywhere"
                        yield f"{where}: the learned weight {weight.name} {what}"
        for term in head.beside.terms:
            if term.source.shift:
                yield f"{where}: {term.source} cannot stand beside the attention; what is shifted is attended over"
            elif term.source.where != "everywhere":
                yield f"{where}: {term.source} cannot stand beside the attention; it is attended over"


def _problems_of_layers(plan: Plan) -> Iterator[str]:
    for n, row in enumerate(plan.table, 1):
        lengths = {len(head.values) for head in row if head.live}
        if not lengths:
            yield f"layer {n}: no head has values"
        if len(lengths) > 1:
            yield f"layer {n}: its heads must all attend over the same number of concatenated lists"
        if plan.dynamic != "no" and max(lengths, default=1) > 1:
            yield f"layer {n}: dynamic values are made for one list of keys, not for a concatenation"
        if plan.dynamic != "no" and any(not head.live for head in row):
            yield f"layer {n}: dynamic values need every head"
        if not plan.output_projection and any(not head.live for head in row):
            yield f"layer {n}: without an output projection every head must have values"


@dataclass(frozen=True)
class Lifetime:
    """The tokens and layers that need a projection's output.

    The same token needs it up to layer `last`.  If `cached`, all later tokens need it, because a head attends over it.
    If `first`, all later tokens need what the first token of a sequence has, because a head attends over that alone.
    """

    source: Source
    last: int
    cached: bool
    first: bool = False


def lifetimes(plan: Plan) -> tuple[Lifetime, ...]:
    """Return the lifetime of every projection that something reads, by layer, kind and head.  Others are not built."""
    return plan._lifetimes


def built(plan: Plan) -> Mapping[tuple[Kind, int], tuple[int, ...]]:
    """Return the heads of every projection that is built, by kind and layer; a kind that a layer lacks has no entry."""
    return plan._built


def shifts(plan: Plan) -> Mapping[tuple[Kind, int], Mapping[int, int]]:
    """Return the shifts with which a projection or table is read, each with the last layer that does.

    The keys are kinds and layers, as those of `built`.
    """
    return plan._shifts


def limits(plan: Plan) -> Mapping[tuple[Kind, int], Mapping[Where, int]]:
    """Return where projections are read that are not read everywhere, each place with the last layer that does.

    The keys are kinds and layers, as those of `built`.
    """
    return plan._limits


def gate_channels(plan: Plan) -> Mapping[int, int]:
    """Return the channels that the gates of sources read, by the layer whose gates they are; 0: all."""
    return plan._gate_channels


def longest_shift(plan: Plan) -> int:
    """Return the number of tokens that the plan's sources reach back at most."""
    return max((shift for by_shift in plan._shifts.values() for shift in by_shift), default=0)


def learned(plan: Plan) -> dict[str, float]:
    """Return the learned numbers of the plan's weights and their starting values, in order of first use.

    A wide weight's vector counts once.
    """
    return {weight.number: weight.start for weight in _learned(plan)}


@dataclass(frozen=True)
class LearnedParameter:
    """The parameter that the learned weights of one name are.

    places   of its numbers, in order; () for a number by itself
    starts   of its numbers
    wide     it is one vector as wide as a head
    """

    places: tuple[int, ...]
    starts: tuple[float, ...]
    wide: bool

    def size(self, width: int) -> int:
        """Return how many numbers it has, under heads of this width."""
        return width if self.wide else len(self.starts)


def learned_parameters(plan: Plan) -> Mapping[str, LearnedParameter]:
    """Return the parameters of the plan's learned weights by name, in order of first use."""
    return plan._learned_parameters


def _learned(plan: Plan) -> Iterator[Learned]:
    """Yield the learned weights of all terms, in order."""
    heads = (plan.head(n, h) for n, h in plan.shape.cells())
    mixes = (m for head in heads for m in (head.query, *head.keys, *head.values, head.beside))
    return (t.weight for m in mixes for t in m.terms if isinstance(t.weight, Learned))


@dataclass(frozen=True)
class Run:
    """Neighbouring heads with one rule: head first + i reads, for each term, head start + i.

    terms   (weight, kind, layer, start, shift, where) each; a gate's is that of the first head, and others follow
    """

    first: int
    count: int
    terms: tuple[tuple[Weight, Kind, int, int, int, Where], ...]


def runs(heads: tuple[int, ...], mixes: tuple[Mix, ...]) -> tuple[Run, ...]:
    """Return the shortest list of runs that says what each head reads, in order.  `mixes[i]` belongs to `heads[i]`."""
    sources = [[(t.weight, t.source) for t in mix.terms] for mix in mixes]
    rules = [tuple((weight, s.kind, s.layer, s.head, s.shift, s.where) for weight, s in terms) for terms in sources]
    breaks = [0]
    for i, (before, after) in enumerate(pairwise(zip(heads, rules, strict=True)), 1):
        following = tuple(
            (weight.next_head() if isinstance(weight, Gated) else weight, kind, layer, head + 1, *rest)
            for weight, kind, layer, head, *rest in before[1]
        )
        if after != (before[0] + 1, following):
            breaks.append(i)
    return tuple(Run(heads[a], b - a, rules[a]) for a, b in pairwise([*breaks, len(heads)]))
