"""Hypothesis strategies for tasks, toys and whole plans.

Sizes are drawn by hypothesis, so failures shrink to the smallest; entries are standard normal in float64 from a drawn
seed, because identities of polynomials fail at generic points or not at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import get_args

import torch
from hypothesis import strategies as st
from torch import Tensor

from icl.brief import shapes
from icl.prompts import Generator, Prompts, RegressionTask
from theory.plans.depth import Chain, Depth, DepthAttention, DepthAverage, Residual
from theory.plans.heads import Head, Heads
from theory.plans.mix import KINDS, WHERE, Gated, Kind, Learned, Mix, Source, Term, gate, total
from theory.plans.mix import Weight as WeightOfSource
from theory.plans.plan import NOTHING, Plan, Shape, plan
from theory.plans.streams import INPUT, OUTPUT, Form, Gate, Gates, Group, Step, Streams, Sum, Weight, Wide


@dataclass(frozen=True, eq=False)
class ToyCase:
    """A task, prompts of it, and weights of a toy: a (rank, d), b (d - rank, d), w (H, d, d), k (H, d, rank)."""

    task: RegressionTask
    prompts: Prompts
    heads: Heads
    a: Tensor
    b: Tensor
    w: Tensor
    k: Tensor

    __repr__ = shapes

    @property
    def rank(self) -> int:
        return self.a.shape[0]


def tasks(max_d: int = 5, max_n: int = 7) -> st.SearchStrategy[RegressionTask]:
    """Draw regression tasks from d = n = 1 up, with and without noise."""
    sigma = st.sampled_from([0.0, 0.5, 2.0])
    return st.builds(RegressionTask, d=st.integers(1, max_d), n=st.integers(1, max_n), sigma=sigma)


def head_tuples(max_heads: int = 3) -> st.SearchStrategy[Heads]:
    """Draw ordinary, skip and mixed heads, one to `max_heads` of them."""
    weight = st.sampled_from([0.0, 0.5, 1.0, -2.0])
    return st.lists(st.builds(Head, copied=weight, raw=weight), min_size=1, max_size=max_heads).map(tuple)


def toy_cases(max_d: int = 5, max_n: int = 7, max_batch: int = 3) -> st.SearchStrategy[ToyCase]:
    """Draw everything that an identity about the two-layer toy needs; ranks from 0 to d."""
    return _toy_cases(max_d, max_n, max_batch)


@st.composite
def _toy_cases(draw: st.DrawFn, max_d: int, max_n: int, max_batch: int) -> ToyCase:
    task, heads = draw(tasks(max_d, max_n)), draw(head_tuples())
    rank, batch = draw(st.integers(0, task.d)), draw(st.integers(1, max_batch))
    numbers = Generator(draw(st.integers(0, 2**16)))
    prompts = task.sample(batch, numbers, torch.float64)
    shapes = ((rank, task.d), (task.d - rank, task.d), (len(heads), task.d, task.d), (len(heads), task.d, rank))
    return ToyCase(task, prompts, heads, *(numbers.normal(shape, torch.float64) for shape in shapes))


DEPTHS: list[Depth] = [
    Residual(),
    Chain(),
    DepthAverage(),
    DepthAttention(),
    DepthAttention(block=3, window=2),
    DepthAttention(score="sigmoid", key_norm=False),
    DepthAttention(query="input", block=2),
    DepthAttention(query="static", heads=2),
    DepthAttention(heads=5),
]


def mixes(shape: Shape, kind: Kind, layer: int, name: str) -> st.SearchStrategy[Mix]:
    """Draw a sum of one to three sources of a kind from this and earlier layers, with fixed and learned weights.

    Args:
        shape: The plan's.
        kind: "q", "k" or "v".
        layer: Sources are of this layer and of those before it.
        name: What names of learned weights begin with.
    """
    return _mixes(shape, kind, layer, name)


@st.composite
def _mixes(draw: st.DrawFn, shape: Shape, kind: Kind, layer: int, name: str) -> Mix:
    layers, heads = st.integers(1, layer), st.integers(1, shape.heads)
    sources = draw(st.lists(st.builds(Source, st.just(kind), layers, heads), min_size=1, max_size=3, unique=True))
    weights = st.sampled_from([1.0, 0.5, -2.0, None])
    drawn = ((draw(weights), source) for source in sources)
    terms = (Term(Learned(f"{name}_{i}", 0.3) if w is None else w, s) for i, (w, s) in enumerate(drawn))
    return total(Mix((term,)) for term in terms)


def streams(layers: int, per_layer: int = 2) -> st.SearchStrategy[Streams]:
    """Draw streams for layers of so many sublayers: sums of any weights, gates of every form, three inputs or one."""
    return _streams(layers, per_layer)


@st.composite
def _streams(draw: st.DrawFn, layers: int, per_layer: int) -> Streams:
    copies = draw(st.integers(1, 2))
    there = set(range(1, copies + 1))
    steps = []
    for i in range(layers * per_layer + 1):
        gates = draw(st.none() | _gates(tuple(sorted(there)), f"gain_{i}"))
        three = i % per_layer == 0 and i < layers * per_layer and draw(st.integers(0, 3)) == 0
        reads = tuple(draw(_sums(there, f"read_{i}_{s}", gates)) for s in range(3 if three else 1))
        written = (
            draw(st.lists(st.integers(1, max(there) + 1), max_size=2, unique=True)) if i < layers * per_layer else []
        )
        sources = there | {INPUT, OUTPUT}
        writes = tuple((stream, draw(_sums(sources, f"write_{i}_{stream}", gates))) for stream in written)
        steps.append(Step(reads, writes, gates))
        there |= set(written)
    return Streams(tuple(steps), copies)


@st.composite
def _gates(draw: st.DrawFn, there: tuple[int, ...], name: str) -> Gates:
    taken = tuple(draw(st.lists(st.sampled_from(there), min_size=1, max_size=2, unique=True)))
    one_by_one, groups = draw(st.booleans()), []
    forms = [form for form in get_args(Form) if one_by_one or form != "softmax"]
    for form in draw(st.lists(st.sampled_from(forms), min_size=1, max_size=2)):
        count = draw(st.sampled_from([1, 4] if form == "sinkhorn" else [1, 2]))
        offsets = (0.5,) * (count * (len(taken) if one_by_one else 1))
        bias, base = (draw(st.sampled_from([(), offsets])) for _ in range(2))
        gain = Learned(name, 0.5) if draw(st.booleans()) else 1.0
        groups.append(Group(count, form, gain, bias, draw(st.sampled_from([1.0, 2.0])), base, rounds=3))
    hidden, normed = draw(st.sampled_from([0, 3])), draw(st.booleans())
    return Gates(taken, tuple(groups), one_by_one, normed, hidden, random=draw(st.booleans()))


@st.composite
def _sums(draw: st.DrawFn, there: set[int], name: str, gates: Gates | None) -> Sum:
    own: list[Weight] = [1.0, 1.0, -0.5, Learned(name, 0.3), Wide(f"{name}_wide", 0.7)]
    own += [Gate(place) for place in range(gates.count if gates else 0)]
    terms = st.tuples(st.sampled_from(own), st.sampled_from(sorted(there)))
    return tuple(draw(st.lists(terms, min_size=1, max_size=3)))


@st.composite
def _mixes_of_tokens(draw: st.DrawFn, shape: Shape, kind: Kind, layer: int, name: str, *, shifts: bool) -> Mix:
    """Draw a sum as `mixes` does, of tables' rows and shifted values too, with weights of every kind, gates too."""
    kinds: list[Kind] = ["v", "e"] if kind == "v" else [kind]
    shift = st.sampled_from([0, 0, 1, 2] if shifts else [0])
    source = st.builds(Source, st.sampled_from(kinds), st.integers(1, layer), st.integers(1, shape.heads), shift)
    if shifts:
        value = st.builds(Source, st.just(KINDS[2]), st.integers(1, layer), st.integers(1, shape.heads))
        source = source | st.builds(replace, value, where=st.sampled_from(WHERE))
    x = Learned(f"{name}_tied", 0.3)
    own: list[WeightOfSource] = [1.0, -2.0, x, 1 - x, Learned(f"{name}_wide", 0.5, wide=True)]
    own += [Learned(f"{name}_placed", 0.2, place=place) for place in (0, 3)]
    if kind != "q":
        of = gate(draw(st.integers(1, layer)), draw(st.integers(1, shape.heads)), channels=3)
        own += [of, 1 - 2 * of]
    term = st.tuples(st.sampled_from(own), source).filter(lambda t: not (isinstance(t[0], Gated) and t[1].shift))
    drawn = draw(st.lists(term, min_size=1, max_size=3, unique_by=lambda t: t[1]))
    return Mix(tuple(Term(weight, source) for weight, source in drawn))


def plans(
    max_layers: int = 3,
    max_heads: int = 3,
    depths: Sequence[Depth] = (),
    *,
    streams: bool = False,
    tables: bool = False,
) -> st.SearchStrategy[Plan]:
    """Draw any plan: sums and concatenations over earlier layers, missing heads, terms beside, any depth rule.

    Args:
        max_layers: The largest number of layers.
        max_heads: The largest number of heads per layer.
        depths: The depth rules that are drawn from; none: `DEPTHS`, which are for widths that 2 and 5 divide.
        streams: Draw streams for the depth rule.
        tables: Draw tables and shifted values too, every kind of learned weight, and gates.
    """
    return _plans(max_layers, max_heads, depths or DEPTHS, streams, of_tokens=tables)


@st.composite
def _plans(
    draw: st.DrawFn, max_layers: int, max_heads: int, depths: Sequence[Depth], of_streams: bool, *, of_tokens: bool
) -> Plan:
    shape = Shape(draw(st.integers(1, max_layers)), draw(st.integers(1, max_heads)))
    lists = {n: draw(st.integers(1, 2)) for n in range(1, shape.layers + 1)}
    absent = {cell for cell in shape.cells() if cell[1] > 1 and draw(st.integers(0, 4)) == 0}
    beside = {cell: draw(st.booleans()) for cell in shape.cells()}

    def read(kind: Kind, what: str, n: int, h: int, i: int = 0) -> Mix:
        name = f"{what}_{n}_{h}_{i}"
        if of_tokens:
            return draw(_mixes_of_tokens(shape, kind, n, name, shifts=what == "value"))
        return draw(_mixes(shape, kind, n, name))

    query, key, value = KINDS[:3]
    return plan(
        shape,
        queries=lambda n, h: read(query, "query", n, h),
        keys=lambda n, h: tuple(read(key, "key", n, h, i) for i in range(lists[n])),
        values=lambda n, h: () if (n, h) in absent else tuple(read(value, "value", n, h, i) for i in range(lists[n])),
        beside=lambda n, h: read(value, "beside", n, h) if beside[n, h] else NOTHING,
        depth=draw(streams(shape.layers) if of_streams else st.sampled_from(depths)),
    )
