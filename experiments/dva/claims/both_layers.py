"""Claims on gates in both layers of the in-context toy."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import partial
from itertools import product

import numpy as np
from numpy.polynomial.hermite_e import hermegauss
from numpy.typing import NDArray

from experiments.dva.claims.parity import helps
from experiments.ledger.claim import Claim
from theory.dva import both_layers
from theory.dva.both_layers import explained_by_cubes, linear_part, query_token
from theory.dva.first_layer import gated_tokens
from theory.dva.in_context import answer
from theory.dva.paper import PAPER

CLOSE = 1e-9
Array = NDArray[np.float64]

BOTH_LAYERS = Claim(
    "dva.both-layers",
    PAPER.ours,
    place="theory/dva/both_layers.py",
    statement="In the in-context toy, around W0 = 0, gates of the revised form in both layers win nothing over one in "
    "the first alone, though the query's token then holds products of its own numbers: what the answer has of x beyond "
    "first order only adds to the loss, and what is left is linear in the same moments of the context.  In the initial "
    "form they can: at d = 1, where ordinary heads explain nothing, and neither does the initial form in the last "
    "layer alone, they explain more than nothing.",
    assumes="an assumed copy of rank a; x standard normal; linear attention; the query's token a function of x alone",
    verdict="verified",
    proof=both_layers,
    uses=("dva.toy", "dva.first-layer"),
)


def _grid(d: int, points: int = 4) -> list[tuple[Array, float]]:
    """Points and weights that integrate polynomials of degree 7 over standard normal x exactly."""
    at, weights = hermegauss(points)
    every = [list(of) for of in product(range(points), repeat=d)]
    return [(at[of], float(np.prod(weights[of] / weights.sum()))) for of in every]


Token = tuple[Array, Array, Array]  # C, Q, K
Head = tuple[Array, Array, Array, Array, Array]  # S, keys, values, G, gate keys: matrices of the tokens


def _token(rng: np.random.Generator, d: int) -> Token:
    linear, query, key = rng.standard_normal((3, d, d))
    return linear, query, key


def _head(rng: np.random.Generator, d: int, width: int) -> Head:
    score, gate = rng.standard_normal((2, width, d))
    key, value, gate_key = rng.standard_normal((3, width, d))
    return score, key, value, gate, gate_key


def _of_context(head: Head, u: Array) -> Head:
    """A head's arguments over the tokens u (d, n)."""
    score, key, value, gate, gate_key = head
    return score, (key @ u).T, (value @ u).T, gate, (gate_key @ u).T


@BOTH_LAYERS.check(
    "heads at random, d = 1 to 3: E answer x^T by exact quadrature beside the formula, and the mean loss as that of "
    "the linear part and a rest that no target changes",
    states=1.0,
    control=0.0,
    wrong="no products in the query's token",
)
def the_linear_part_by_quadrature(products: float) -> bool:
    rng = np.random.default_rng(40)
    for d, width, n in ((1, 1, 1), (1, 3, 2), (2, 3, 5), (3, 2, 4)):
        token = _token(rng, d)
        head = _of_context(_head(rng, d, width), rng.standard_normal((d, n)))
        targets = rng.standard_normal((2, width, d))
        found, losses = np.zeros((width, d)), np.zeros(2)
        for x, weight in _grid(d):
            said = answer("revised", query_token(x, *token), *head)
            found += weight * np.outer(said, x)
            losses += [weight * float(((said - target @ x) ** 2).sum()) for target in targets]
        part = linear_part(*head, (token[0], products * token[1], token[2]))
        size = 1 + np.abs(found).max()
        rest = [loss - float(((part - target) ** 2).sum()) for loss, target in zip(losses, targets, strict=True)]
        if np.abs(found - part).max() > CLOSE * size or abs(rest[0] - rest[1]) > CLOSE * size**2 or min(rest) < -CLOSE:
            return False
    return True


@BOTH_LAYERS.check(
    "random matrices: of the linear part, what can help is, with a gate in the first layer, what it is without",
    states="revised",
    control="initial",
    wrong="the initial form",
)
def what_helps_is_as_without(form: str) -> bool:
    rng = np.random.default_rng(41)
    for d, rank, n in ((1, 1, 2), (2, 1, 3), (3, 1, 2)):
        a, b = rng.standard_normal((rank, d)), rng.standard_normal((d - rank, d))
        query, key = rng.standard_normal((2, d, d))
        x, y = rng.standard_normal((2, d, n))
        head, token = _head(rng, d, 2), _token(rng, d)
        gated, plain = (partial(_linear_part, form, head, token, (a, b, q, key)) for q in (query, 0 * query))
        apart = np.abs(helps(x, y, gated) - helps(x, y, plain)).max()
        if apart > CLOSE * (1 + np.abs(gated(x, y)).max()):
            return False
    return True


def _linear_part(
    form: str, head: Head, token: Token, first: tuple[Array, Array, Array, Array], x: Array, y: Array
) -> Array:
    """Of a prompt, with the first layer's matrices; of the initial form by quadrature."""
    of = _of_context(head, gated_tokens(x, y, *first))
    if form == "revised":
        return linear_part(*of, token)
    every = [weight * np.outer(answer(form, query_token(z, *token), *of), z) for z, weight in _grid(len(x))]
    return np.asarray(sum(every))


def _by_monomials(n: int, sigma: Fraction, c: Fraction, b: Fraction) -> Fraction:
    """Of w x by kappa q^2 sum u_t^3 at the best kappa, every monomial of w, x, x_t and the noise written out."""
    from sympy import Poly, Rational, expand, symbols

    w, x, *rest = symbols(f"w x x1:{n + 1} e1:{n + 1}")
    rational = [Rational(z.numerator, z.denominator) for z in (sigma, c, b)]
    u = [rest[t] * (1 + rational[1] * (w * rest[t] + rational[0] * rest[n + t])) for t in range(n)]
    f, q = sum(z**3 for z in u), x + rational[2] * x**2

    def mean(of: object) -> Fraction:
        def factor(power: int) -> int:
            return 0 if power % 2 else int(np.prod(range(power - 1, 0, -2), dtype=object))

        terms = Poly(expand(of), w, x, *rest).terms()
        total = sum(value * int(np.prod([factor(p) for p in powers], dtype=object)) for powers, value in terms)
        return Fraction(int(total.p), int(total.q))

    return (mean(w * f) * mean(x * q**2)) ** 2 / (mean(f**2) * mean(q**4))


@BOTH_LAYERS.check(
    "what gates of the initial form explain at d = 1, one pair and two, by all monomials: exact",
    states=explained_by_cubes,
    control=lambda n, sigma, c, b: 0 * sigma,
    wrong="nothing, as without products in the query's token",
    kind="exact",
)
def cubes_by_monomials(law: Callable[[int, Fraction, Fraction, Fraction], Fraction]) -> bool:
    cases = [
        (1, Fraction(1, 2), Fraction(1, 5), Fraction(2, 5)),
        (2, Fraction(1, 2), Fraction(-1, 3), Fraction(1, 2)),
        (2, Fraction(0), Fraction(1), Fraction(-1)),
    ]
    return all(law(*case) == _by_monomials(*case) for case in cases)
