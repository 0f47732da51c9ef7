"""Claims on section 6: the dynamic head's gate beside other gates."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from experiments.ledger.claim import Claim, Conditions
from theory.dva import gate
from theory.dva.collapse import of_one_query
from theory.dva.gate import as_gated, most_of_coordinate, query_of_ratio, ratio, weights_of_coordinate
from theory.dva.paper import PAPER

if TYPE_CHECKING:
    pass

CLOSE = 1e-9

GATES = Claim(
    "dva.gates",
    PAPER.name,
    place="section 6: gating mechanisms are another kind of dynamic sparse attention, by optimising the score matrix",
    statement="A gate on a head's output decides how much of a value a query gets; dynamic values decide which.",
    assumes="one head, one query at a time; gates act on coordinates; what they cannot change, before an output matrix",
    verdict="corrected",
    correction="A gate on an output leaves the scores as they are: in every coordinate any two keys weigh what they "
    "weighed, one beside the other, so no key is left out for another.  Dynamic values are a gate, too, a linear one, "
    "on values of their own beside ungated ones; with the same values they are 1 + Q x, to which every smooth gate "
    "that is not 0 at 0 is alike at first order, up to a constant.  What a gate of any function cannot change in one "
    "coordinate, what that gets of one key over what it gets of another, they make any number but one.  Behind an "
    "output matrix a linear gate does so, too: of twice the width it is the dynamic head.  A sigmoid gate keeps "
    "outputs within the values; dynamic ones grow with the square of what is read.",
    proof=gate,
)


@GATES.check(
    "outputs of gated heads as sums of values by each coordinate's weights, and these over the softmax's: how many "
    "ratios a coordinate has, over five keys",
    states=lambda tokens, query: np.broadcast_to(query @ tokens[:, -1:], (len(query), tokens.shape[1])),
    control=lambda tokens, query: query @ tokens,
    wrong="gates of the keys' own tokens",
)
def a_gate_leaves_the_scores(gate_of: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Conditions:
    """Check gates; gate_of: tokens (d, keys), the query's last, and a matrix (w, d) -> what the gate squeezes."""
    rng = np.random.default_rng(27)
    for width, d in ((1, 2), (3, 4)):
        tokens, (value, query) = rng.standard_normal((d, 5)), rng.standard_normal((2, width, d))
        shares = rng.dirichlet(np.ones(5))
        gates = 1 / (1 + np.exp(-gate_of(tokens, query)))
        out = (gates * (value @ tokens)) @ shares
        weights = weights_of_coordinate(shares, gates[:, -1])
        over = weights / shares
        yield np.abs(over - over[:, :1]).max() <= CLOSE
        yield np.abs((weights * (value @ tokens)).sum(1) - out).max() <= CLOSE


@GATES.check(
    "what a coordinate gets of two keys, over queries at random: ratios of a gated head, and of a dynamic one",
    states=(1, 40),
    control=(1, 1),
    wrong="one ratio for both",
)
def ratios_over_queries(counts: tuple[int, int]) -> Conditions:
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
        yield np.abs(row - v[0] - (query[0] @ x) * k[0]).max() <= CLOSE
    yield (len(gated), len(dynamic)) == counts


@GATES.check(
    "gates that make wanted ratios",
    states=query_of_ratio,
    control=lambda v, k, one, other, wanted: wanted,
    wrong="the ratio itself for a gate",
)
def any_ratio_but_one(find: Callable[..., float]) -> Conditions:
    rng = np.random.default_rng(8)
    for wanted in (-3.0, 0.0, 1.0, 7.5):
        v, k, one, other = rng.standard_normal((4, 4))
        found = find(v, k, one, other, wanted)
        yield abs(ratio(v + found * k, one, other) - wanted) <= CLOSE * (1 + abs(wanted))
    v, one, other, third = np.ones(4), *np.eye(4)[:3]
    yield query_of_ratio(v, 0 * v, one, other=other, wanted=1.0) == 0
    key = 3 * one + other  # V_k has nothing of either, K_k has the ratio 3: every gate makes it but 0
    yield query_of_ratio(third, key, one, other=other, wanted=3.0) == 1
    yield ratio(third + key, one, other) == 3
    yield _refuses(v, 2 * v, 2.0)
    yield _refuses(v, 0 * v, 2.0)
    yield _refuses(third, 0 * v, 3.0)


def _refuses(v: np.ndarray, key: np.ndarray, wanted: float) -> bool:
    """Return whether no query gives the wanted ratio: K_k along V_k, or zero, or nothing of the two keys in either."""
    one, other = np.eye(4)[:2]
    try:
        query_of_ratio(v, key, one, other=other, wanted=wanted)
    except ValueError:
        return ratio(v, one, 0 * one) == np.inf
    return False


@GATES.check(
    "a linear gate of twice the width, behind an output matrix, against the dynamic head; and sigmoids, whose distance "
    "goes with the square of their slope",
    states=as_gated,
    control=lambda v, k: (np.concatenate([v, k]), np.tile(np.eye(len(v)), 2)),
    wrong="ungated values beside the gated ones, unmended",
)
def wide_gates_are_dynamic_heads(made: Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]) -> Conditions:
    rng = np.random.default_rng(10)
    for width, d in ((1, 1), (2, 4), (3, 2)):
        v, k, query = rng.standard_normal((3, width, d))
        scores = query @ rng.standard_normal(d)
        dynamic = of_one_query(v, k, scores)
        values, out = made(v, k)
        yield np.abs(out @ np.diag(np.append(np.ones(width), 1 + scores)) @ values - dynamic).max() <= CLOSE
        errors = []
        for slope in (0.02, 0.01):
            gates = np.append(np.ones(width), 4 / slope * (1 / (1 + np.exp(-slope * scores)) - 1 / 2) + 1)
            errors.append(float(np.abs(out @ np.diag(gates) @ values - dynamic).max()))
        yield abs(np.log2(errors[0] / errors[1]) - 2) <= 0.01


@GATES.check(
    "gates that switch one coordinate off for one token of several and leave all others, by a Q found for them: one to "
    "four linearly independent tokens, widths of one to three",
    states=True,
    control=False,
    wrong="a token more than numbers",
)
def any_table_of_gates(independent: bool) -> Conditions:
    rng = np.random.default_rng(13)
    for width in (1, 2, 3):
        for d in (1, 2, 4):
            tokens = rng.standard_normal((d, d if independent else d + 1))
            wanted = np.ones((width, tokens.shape[1]))
            wanted[0, 0] = 0
            query = (wanted - 1) @ np.linalg.pinv(tokens)
            yield np.abs(1 + query @ tokens - wanted).max() <= CLOSE


@GATES.check(
    "outputs of dynamic heads beside the bound on a coordinate: none exceeds it, and aligned tokens attain it",
    states=2,
    control=1,
    wrong="growing with the length of tokens, not with its square",
)
def outputs_grow_with_the_square(power: int) -> Conditions:
    rng = np.random.default_rng(9)
    for length in (0.5, 1.0, 3.0):
        for _ in range(20):
            v, query, key = rng.standard_normal((3, 4))
            tokens = rng.standard_normal((4, 6))
            tokens *= length / np.linalg.norm(tokens, axis=0)
            s = rng.dirichlet(np.ones(6))
            out = (of_one_query(v[None], key[None], query[None] @ tokens[:, -1]) @ tokens @ s)[0]
            sizes = [float(np.linalg.norm(row)) for row in (v, query, key)]
            bound = sizes[0] * length + sizes[1] * sizes[2] * length**power
            one_way = np.outer(tokens[:, 0] / length, sizes).T  # rows as long, along one token
            copies = np.tile(tokens[:, :1], 6)
            most = (of_one_query(one_way[:1], one_way[2:], one_way[1:2] @ copies[:, -1]) @ copies @ s)[0]
            exact = abs(most_of_coordinate(v, query, key, length) - bound) <= CLOSE * bound
            yield abs(out) <= bound * (1 + CLOSE)
            yield exact
            yield abs(most - bound) <= CLOSE * bound


@GATES.check(
    "gates over their value at 0 beside 1 + Q x: the error's order, of sigmoid, of an exponential, and of tanh + 1",
    states={"sigmoid": 3, "exp": 2, "tanh + 1": 3},
    control={"sigmoid": 2, "exp": 2, "tanh + 1": 2},
    wrong="second order for all",
)
def smooth_gates_are_linear_at_first(orders: dict[str, int]) -> Conditions:
    """Compare each gate, by value and slope at 0, with its linear part."""
    gates: dict[str, tuple[Callable[[float], float], float, float]] = {
        "sigmoid": (lambda z: float(1 / (1 + np.exp(-z))), 0.5, 0.25),
        "exp": (lambda z: float(np.exp(z)), 1.0, 1.0),
        "tanh + 1": (lambda z: float(1 + np.tanh(z)), 1.0, 1.0),
    }
    for name, (gate_of, at_0, slope) in gates.items():
        error = [gate_of(z) / at_0 - 1 - z * slope / at_0 for z in (0.002, 0.001)]
        yield abs(np.log2(error[0] / error[1]) - orders[name]) <= 0.01
