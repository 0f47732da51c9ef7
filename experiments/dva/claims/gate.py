"""Claims on the dynamic head's gate beside other gates."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from experiments.ledger.claim import Claim
from theory.dva import gate
from theory.dva.collapse import of_one_query
from theory.dva.gate import most_of_coordinate, query_of_ratio, ratio
from theory.dva.paper import PAPER

CLOSE = 1e-9

GATES = Claim(
    "dva.gates",
    PAPER.name,
    place="section 6: gating mechanisms are another kind of dynamic sparse attention",
    statement="A gate on a head's output decides how much of a value a query gets; dynamic values decide which.",
    assumes="one head, one query at a time; gates act on coordinates",
    verdict="corrected",
    correction="Dynamic values are a gate, too, a linear one, on values of their own beside ungated ones; with the "
    "same values they are 1 + Q x, to which every smooth gate is alike at first order.  What a gate of any function "
    "cannot change, what a coordinate gets of one key over what it gets of another, they make any number but one.  A "
    "sigmoid gate keeps outputs within the values; dynamic ones grow with the square of what is read.",
    proof=gate,
)


@GATES.check(
    "what a coordinate gets of two keys, over queries at random: ratios of a gated head, and of a dynamic one",
    states=(1, 40),
    control=(1, 1),
    wrong="one ratio for both",
)
def ratios_over_queries(counts: tuple[int, int]) -> bool:
    rng = np.random.default_rng(7)
    v, k, query = rng.standard_normal((3, 3, 5))
    one, other = rng.standard_normal((2, 5))
    tokens = rng.standard_normal((40, 5))
    gated, dynamic = set(), set()
    for x in tokens:
        squeezed = 1 / (1 + np.exp(-(query @ x)))
        gated.add(round(ratio(squeezed[0] * v[0], one, other), 9))
        row = of_one_query(v, k, query @ x)[0]
        dynamic.add(round(ratio(row, one, other), 9))
        if np.abs(row - v[0] - (query[0] @ x) * k[0]).max() > CLOSE:
            return False
    return (len(gated), len(dynamic)) == counts


@GATES.check(
    "gates that make wanted ratios",
    states=query_of_ratio,
    control=lambda v, k, one, other, wanted: wanted,
    wrong="the ratio itself for a gate",
)
def any_ratio_but_one(find: Callable[..., float]) -> bool:
    rng = np.random.default_rng(8)
    for wanted in (-3.0, 0.0, 1.0, 7.5):
        v, k, one, other = rng.standard_normal((4, 4))
        found = find(v, k, one, other, wanted)
        if abs(ratio(v + found * k, one, other) - wanted) > CLOSE * (1 + abs(wanted)):
            return False
    v, one, other = np.ones(4), *np.eye(4)[:2]
    return query_of_ratio(v, 0 * v, one, other, 1.0) == 0 and _refuses(v, one, other)


def _refuses(v: np.ndarray, one: np.ndarray, other: np.ndarray) -> bool:
    """With K_k along V_k, or nothing, all ratios are one."""
    for key in (2 * v, 0 * v):
        try:
            query_of_ratio(v, key, one, other, 1.0 + ratio(v, one, other))
        except ValueError:
            continue
        return False
    return ratio(v, one, 0 * one) == np.inf


@GATES.check(
    "outputs of dynamic heads beside the bound on a coordinate: none exceeds it, and aligned tokens attain it",
    states=2,
    control=1,
    wrong="growing with the length of tokens, not with its square",
)
def outputs_grow_with_the_square(power: int) -> bool:
    rng = np.random.default_rng(9)
    for length in (0.5, 1.0, 3.0):
        for _ in range(20):
            v, query, key = rng.standard_normal((3, 4))
            tokens = rng.standard_normal((4, 6))
            tokens *= length / np.linalg.norm(tokens, axis=0)
            s = rng.dirichlet(np.ones(6))
            out = v @ tokens @ s + (query @ tokens[:, -1]) * (key @ tokens @ s)
            sizes = [float(np.linalg.norm(row)) for row in (v, query, key)]
            bound = sizes[0] * length + sizes[1] * sizes[2] * length**power
            aligned = np.eye(4)[0]
            most = aligned @ aligned * sizes[0] * length + sizes[1] * length * sizes[2] * length
            exact = abs(most_of_coordinate(v, query, key, length) - bound) <= CLOSE * bound
            if abs(out) > bound * (1 + CLOSE) or not exact or abs(most - bound) > CLOSE * bound:
                return False
    return True


@GATES.check(
    "twice a sigmoid gate beside 1 + z / 2: the error's order in z",
    states=3,
    control=2,
    wrong="second order",
)
def sigmoids_are_linear_at_first(order: int) -> bool:
    error = [2 / (1 + np.exp(-z)) - 1 - z / 2 for z in (0.02, 0.01)]
    return bool(abs(np.log2(error[0] / error[1]) - order) < 0.01)
