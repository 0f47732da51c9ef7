"""Plans in the two-layer assumed-copy toy, as heads that mix raw and copied tokens.  Standard library only.

SkipV1Former's appendix A.1, two layers, no residual stream.  Layer 1 has copied: TF_1(E) holds u_t = (A x_t ; B y_t)
in y_t's token, where the raw input E holds y_t.  So for a head of layer 2 a source is *copied* if layer 2 projects it
and *raw* if layer 1 does, and a plan says which of the two stand among its values and among its keys.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import isfinite
from numbers import Real
from typing import Literal

from theory.errors import BadInput
from theory.plans.mix import Learned, Source, Weight, is_number
from theory.plans.plan import Chain, HeadPlan, Plan, Residual, built, learned_parameters, limits, longest_shift


@dataclass(frozen=True)
class Head:
    """A second-layer head: values copied * TF_1(E) + raw * E, keys key_copied * TF_1(E) + key_raw * E.

    `readout` and `key` label the matrices W and K: heads with one label have one matrix; None is a matrix of its own.
    Raises BadInput for weights that are not finite.
    """

    copied: float
    raw: float
    key_copied: float = 1
    key_raw: float = 0
    readout: Hashable = None
    key: Hashable = None

    def __post_init__(self) -> None:
        for weight in (self.copied, self.raw, self.key_copied, self.key_raw):
            if not isinstance(weight, Real) or not isfinite(weight):
                raise BadInput(f"a head's weights must be finite numbers, got {weight}")


ORDINARY = Head(copied=1, raw=0)
SKIP = Head(copied=0, raw=1)

Heads = tuple[Head, ...]
MHA: Heads = (ORDINARY, ORDINARY)
SKIPV1: Heads = (ORDINARY, SKIP)
TOYS: dict[str, Heads] = {"mha": MHA, "skipv1": SKIPV1}


def shares(heads: Sequence[Head], label: Literal["readout", "key"]) -> tuple[int, list[int]]:
    """Return how many matrices W or K there are, and which of them each head uses."""
    labels = [i if getattr(head, label) is None else (label, getattr(head, label)) for i, head in enumerate(heads)]
    places = {name: i for i, name in enumerate(dict.fromkeys(labels))}
    return len(places), [places[name] for name in labels]


class NotCovered(BadInput):
    """A plan that the two-layer toy does not cover."""


def check_sources(plan: Plan) -> None:
    """Raise NotCovered, saying why, if heads read what tokens of a toy, which are vectors of a prompt, do not have."""
    if any(kind == "e" for kind, _ in built(plan)):
        raise NotCovered("the toy's tokens are vectors: it has no tables of tokens")
    if any(kind == "g" for kind, _ in built(plan)):
        raise NotCovered("the toy's weights of values are numbers of its own, not gates that tokens compute")
    if limits(plan):
        raise NotCovered("the toy's tokens have no order: its heads do not tell the first one from others")
    if longest_shift(plan):
        raise NotCovered("the toy attends over values of the tokens themselves, and not of tokens before them")
    if any(parameter.wide for parameter in learned_parameters(plan).values()):
        raise NotCovered("the toy's weights of values are numbers, not vectors")


def toy_heads(plan: Plan) -> Heads:
    """Return the heads that a two-layer plan's second layer sums: one for each value and key of a head that meet.

    Head h with output O_h, value projections V_s, query projection Q_h and key projections K_t reads, for each value s
    and key t, c_st O_h V_s G_st (K_t^T Q_h), where c_st collects the weights of the lists in which the two meet, and
    G_st is S_xx + sum value key^T.  So W = O_h V_s and K = K_t^T Q_h, labelled by (h, s) and (h, t), and the c_st go
    into them.  Pairs whose weights cancel are not there.

    Raises NotCovered, saying why, if the plan is beyond the toy.
    """
    if plan.shape.layers != 2:
        raise NotCovered(f"the toy has two layers, and this plan has {plan.shape.layers}")
    if not isinstance(plan.depth, Residual | Chain):
        raise NotCovered("the toy's second layer reads the first one's output alone: it has no depth rule")
    if plan.dynamic != "no":
        raise NotCovered("the toy's values do not depend on the query")
    check_sources(plan)
    if not plan.output_projection:
        raise NotCovered("the toy's heads are as wide as its tokens and need an output projection")
    return tuple(
        Head(*_kind(value), *_kind(key), readout=(h, value), key=(h, key))
        for h in plan.live(2)
        for value, key in _pairs(h, plan.head(2, h))
    )


def _pairs(h: int, head: HeadPlan) -> Iterator[tuple[Source, Source]]:
    meet: dict[tuple[Source, Source], list[tuple[Weight, Weight]]] = {}
    for values, keys in zip(head.values, head.keys, strict=True):
        for value in values.terms:
            for key in keys.terms:
                meet.setdefault((value.source, key.source), []).append((value.weight, key.weight))
    several = {pair: weights for pair, weights in meet.items() if len(weights) > 1}
    if any(isinstance(w, Learned) for weights in several.values() for pair in weights for w in pair):
        raise NotCovered(f"head {h} attends over a value and a key in several lists with learned weights")
    left_out = {pair for pair, weights in several.items() if abs(sum(map(_product, weights))) < 1e-12}
    pairs = [pair for pair in meet if pair not in left_out]
    # One list: the weights are products.  Several: they can be taken into W and K where no cycle binds them.
    if len(head.values) > 1 and has_cycle(pairs):
        raise NotCovered(f"head {h} attends over lists whose weights bind its W and K to each other")
    yield from pairs


def _product(weights: tuple[Weight, Weight]) -> float:
    """Return the product of two fixed weights."""
    first, second = weights
    assert is_number(first)
    assert is_number(second)
    return first * second


def is_bound(plan: Plan) -> bool:
    """Return whether shared projections bind the W or the K of a two-layer plan's heads to each other."""
    live = [(h, plan.head(2, h)) for h in plan.live(2)]
    values = ((h, t.source) for h, head in live for mix in head.values for t in mix.terms)
    keys = ((h, t.source) for h, head in live for mix in (*head.keys, head.query) for t in mix.terms)
    return has_cycle(values) or has_cycle(keys)


def theorem_heads(plan: Plan) -> tuple[int, int] | None:
    """Return how many ordinary and how many skip heads a two-layer plan has.

    None if it has others, or if something binds them.  SkipV1Former's theorem calls such a plan MHA without skip heads,
    and SkipV1Former with them.
    """
    heads = toy_heads(plan)
    kinds = [(head.copied, head.raw, head.key_copied, head.key_raw) for head in heads]
    of_kind = [kinds.count((kind.copied, kind.raw, 1, 0)) for kind in (ORDINARY, SKIP)]
    free = not is_bound(plan) and all(
        len(set(labels)) == len(heads) for labels in ([h.readout for h in heads], [h.key for h in heads])
    )
    beside = any(head.beside.terms for head in plan.table[1])
    return (of_kind[0], of_kind[1]) if sum(of_kind) == len(heads) and free and not beside else None


def _kind(source: Source) -> tuple[int, int]:
    """Return (1, 0) for a copied source, (0, 1) for a raw one."""
    return (1, 0) if source.layer == 2 else (0, 1)


def has_cycle(edges: Iterable[tuple[Hashable, Hashable]]) -> bool:
    """Return whether a bipartite graph, given by edges (left, right), has a cycle; equal edges count once."""
    root: dict[Hashable, Hashable] = {}

    def find(node: Hashable) -> Hashable:
        while root.setdefault(node, node) != node:
            node = root[node]
        return node

    for left, right in dict.fromkeys(edges):
        a, b = find(("left", left)), find(("right", right))
        if a == b:
            return True
        root[a] = b
    return False
