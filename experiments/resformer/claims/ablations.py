"""Claims on what theory says of ResFormer's ablations: what the residual carries, and from which layer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import gamma

import numpy as np

from experiments.ledger.claim import Claim
from experiments.resformer.claims.smoothing import causal_attention
from experiments.toys.unjudged import OF_VALUES
from theory.plans.heads import toy_heads
from theory.plans.names import resolve
from theory.plans.plan import Shape
from theory.prompts.moments import Array
from theory.resformer import smoothing
from theory.resformer.paper import PAPER
from theory.toy import value_maps

WHAT = Claim(
    "resformer.what-is-carried",
    PAPER.ours,
    place="theory/toy/value_maps.py and raw_keys.py; bears on section 4.3 (Fig. 7) and section 4.8 (Fig. 16)",
    statement="In the toy, in entries of W*: values of layer 1, half or all, explain a d where MHA has a (d - a).  "
    "A residual of queries changes nothing, and one of keys wins one entry a head at most.  Sharing all queries "
    "changes nothing either; sharing all keys leaves one entry a head at most.",
    assumes="the assumed-copy toy of SkipV1Former's appendix, linear attention, W0 = 0; decoders are another matter",
    verdict="verified",
    proof=value_maps,
    uses=("toy.value-maps", "toy.raw-keys"),
    unjudged={toy_heads: "whether a value or a key is there counts, and not its weight"},
)


@WHAT.check(
    "entries of W* that the plans' toys explain, d = 4, a = 2, one to three heads",
    states={
        "resformer": lambda heads: 8,
        "svformer": lambda heads: 8,
        "residual-queries": lambda heads: 4,
        "residual-keys": lambda heads: 4 + heads,
        "shared-queries": lambda heads: 4,
        "shared-keys": lambda heads: heads,
    },
    control={"residual-keys": lambda heads: 4},
    wrong="a residual of keys wins nothing",
    kind="exact",
)
def entries_are(entries: Mapping[str, Callable[[int], int]]) -> bool:
    return all(
        value_maps.explained_entries(toy_heads(resolve(name, Shape(2, heads))), 4, 2) == count(heads)
        for name, count in entries.items()
        for heads in (1, 2, 3)
    )


@WHAT.check(
    "the layers that layer 3 reads and their weights, in the one map in which each plan differs from vanilla",
    states={
        "resformer": ("values", {3: 0.5, 1: 0.5}),
        "svformer": ("values", {1: 1.0}),
        "residual-queries": ("query", {3: 0.5, 1: 0.5}),
        "residual-keys": ("keys", {3: 0.5, 1: 0.5}),
        "shared-queries": ("query", {1: 1.0}),
        "shared-keys": ("keys", {1: 1.0}),
    },
    control={"residual-queries": ("values", {3: 0.5, 1: 0.5})},
    wrong="residual queries are ResFormer's values",
    kind="exact",
)
def one_map_changes(maps: Mapping[str, tuple[str, Mapping[int, float]]]) -> bool:
    for name, (part, read) in maps.items():
        for heads in (1, 2):
            head, ordinary = (resolve(x, Shape(3, heads)).head(3, heads) for x in (name, "vanilla"))
            changed = getattr(head, part)
            (mix,) = changed if isinstance(changed, tuple) else (changed,)
            found = {term.source.layer: term.weight for term in mix.terms}
            others = replace(head, **{part: getattr(ordinary, part)}) == ordinary
            if found != read or not others or {term.source.head for term in mix.terms} != {heads}:
                return False
    return True


SOURCE = Claim(
    "resformer.source-layer",
    PAPER.ours,
    place="theory/resformer/smoothing.py, Theorem 1 (g) and (h); bears on section 4.3 (Fig. 9)",
    statement="Of half layer 1's values, half the layer before's, and the mean of all, only the first keep tokens "
    "apart at any depth, as a share mu / (2 - mu); with the mean it falls as n^(mu - 1), with the layer before's as "
    "r^n, r = (mu + sqrt(mu^2 + 8 mu)) / 4, in a vanilla stack as mu^n.",
    assumes="nothing but attention, one matrix A in all layers, eigenvalues mu in (0, 1); of losses it says nothing",
    verdict="verified",
    proof=smoothing,
    uses=("resformer.smoothing",),
    unjudged=OF_VALUES,
)
Earlier = Callable[[list[Array]], Array]


@SOURCE.check(
    "attention layer by layer, by the equations, acts on A's eigenvectors as the plans' filters say; 12 layers",
    states={
        "resformer-previous": lambda v: (v[-1] + v[max(0, len(v) - 2)]) / 2,
        "resformer-all": lambda v: np.mean(v, axis=0),
    },
    control={"resformer-previous": lambda v: (v[-1] + v[0]) / 2},
    wrong="layer 1's values in the place of the layer before's",
    kind="float64",
)
def filters_are_the_equations(read: Mapping[str, Earlier]) -> bool:
    """`read`: what layer n attends over, from V_1, ..., V_n."""
    attention = causal_attention(4)
    eigenvalues, vectors = np.linalg.eig(attention)
    for name, mixed in read.items():
        values = [vectors]
        for filtered in smoothing.depth_filters(resolve(name, Shape(12, 1))):
            values.append(attention @ mixed(values))
            if not np.allclose(values[-1], filtered(eigenvalues) * vectors, rtol=0, atol=1e-9):
                return False
    return True


@SOURCE.check(
    "the plans' filters at 60 layers: the ratio of the last two, and what is left, over closed forms, to 1e-7 and 2 %",
    states=(lambda mu: (mu + np.sqrt(mu**2 + 8 * mu)) / 4, lambda mu, n: mu * n ** (mu - 1) / gamma(1 + mu)),
    control=(lambda mu: mu, lambda mu, n: mu / (2 - mu)),
    wrong="as without the layer before, and as with layer 1's values",
    kind="float64",
)
def falls_with_depth(version: tuple[Callable[[float], float], Callable[[float, int], float]]) -> bool:
    rate, left = version
    previous, mean = (smoothing.depth_filters(resolve(f"resformer-{x}", Shape(60, 1))) for x in ("previous", "all"))
    for mu in (0.2, 0.5, 0.9):
        ratio, kept = previous[-1](mu) / previous[-2](mu), mean[-1](mu)
        if abs(ratio - rate(mu)) > 1e-7 or abs(smoothing.previous_rate(mu) - rate(mu)) > 1e-12:
            return False
        if abs(kept / left(mu, 60) - 1) > 0.02 or abs(smoothing.mean_filter(mu, 60) / kept - 1) > 1e-9:
            return False
    return True
