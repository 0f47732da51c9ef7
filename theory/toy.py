"""What a plan is in the two-layer assumed-copy toy: heads that mix raw and copied tokens.  Standard library only.

SkipV1Former's appendix A.1, two layers, no residual stream.  Layer 1 has copied: TF_1(E) holds u_t = (A x_t ; B y_t)
in y_t's token, where the raw input E holds y_t.  So for a head of layer 2 a source is *copied* if layer 2 projects it
and *raw* if layer 1 does, and a plan says which of the two stand among its values and among its keys.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from theory.mix import Mix
from theory.plan import Chain, Plan, Residual
from theory.sizes import BadInput


@dataclass(frozen=True)
class Head:
    """A second-layer head: values copied * TF_1(E) + raw * E, keys key_copied * TF_1(E) + key_raw * E.

    `readout` and `key` label the matrices W and K: heads with one label have one matrix; None is a matrix of its own.
    """

    copied: float
    raw: float
    key_copied: float = 1
    key_raw: float = 0
    readout: Hashable = None
    key: Hashable = None


ORDINARY = Head(copied=1, raw=0)
SKIP = Head(copied=0, raw=1)

Heads = tuple[Head, ...]
MHA: Heads = (ORDINARY, ORDINARY)
SKIPV1: Heads = (ORDINARY, SKIP)
TOYS: dict[str, Heads] = {"mha": MHA, "skipv1": SKIPV1}


def shares(heads: Sequence[Head], label: Literal["readout", "key"]) -> tuple[int, list[int]]:
    """How many matrices W or K there are, and which of them each head uses."""
    labels = [i if getattr(head, label) is None else (label, getattr(head, label)) for i, head in enumerate(heads)]
    places = {name: i for i, name in enumerate(dict.fromkeys(labels))}
    return len(places), [places[name] for name in labels]


class NotCovered(BadInput):
    """A plan of which the two-layer toy has nothing to say."""


def toy_heads(plan: Plan) -> Heads:
    """The heads of a two-layer plan's second layer, one for each pair of a value and a key that it attends over.

    Each source has a projection of its own, so W = (output of the head)(value projection) and K = (key projection)^T
    (query projection) carry the plan's fixed and learned weights; a head's several keys have one W each, its several
    values one K each, which is what the labels say.  Where two heads share more than one projection their W or K are
    bound to each other in other ways, and where queries come from layer 1 the query is not compressed.

    Raises NotCovered, saying why, if the plan is beyond the toy.
    """
    if plan.shape.layers != 2:
        raise NotCovered(f"the toy has two layers, and this plan has {plan.shape.layers}")
    if not isinstance(plan.depth, Residual | Chain):
        raise NotCovered("the toy's second layer reads the first one's output alone: it has no depth rule")
    if plan.dynamic != "no":
        raise NotCovered("the toy's values do not depend on the query")
    live = [(h, plan.head(2, h)) for h in plan.live(2)]
    for what, edges in (
        ("values", ((h, t.source) for h, head in live for m in head.values for t in m.terms)),
        ("keys or queries", ((h, t.source) for h, head in live for m in (*head.keys, head.query) for t in m.terms)),
    ):
        if _has_cycle(edges):
            raise NotCovered(f"two heads of this plan share several {what}, which binds their weights to each other")
    found = {
        Head(*value, *key, readout=(h, value), key=(h, key))
        for h, head in live
        for values, keys in zip(head.values, head.keys, strict=True)
        for value in _layers(values)
        for key in _layers(keys)
    }
    return tuple(sorted(found, key=str))


def _layers(mix: Mix) -> set[tuple[int, int]]:
    """Copied (1, 0) and raw (0, 1), as far as the mix has them."""
    return {(1, 0) if term.source.layer == 2 else (0, 1) for term in mix.terms}


def _has_cycle(edges: Iterable[tuple[Hashable, Hashable]]) -> bool:
    """Whether an undirected graph has one; equal edges count once."""
    root: dict[Hashable, Hashable] = {}

    def find(node: Hashable) -> Hashable:
        while root.setdefault(node, node) != node:
            node = root[node]
        return node

    for a, b in dict.fromkeys(edges):
        if find(a) == find(b):
            return True
        root[find(a)] = find(b)
    return False
