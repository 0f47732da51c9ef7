"""The lower bound on MHA's loss in the proof of Theorem 2 (appendix A.1, a < d): its norms, and the rank of N_3."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import sympy

from experiments.ledger.claim import Claim
from experiments.skipv1.claims.forms import mean_over_spectrum
from experiments.skipv1.claims.reduced_model import reduced_prediction
from theory.plans.heads import MHA, SKIPV1
from theory.skipv1.paper import PAPER
from theory.toy.tokens import draw, draw_weights

MISSING_SQUARES = Claim(
    "skipv1.missing-squares",
    PAPER.name,
    place="appendix A.1, proof of the theorem, a < d: E||W_D - N_3|| = C_3 + E||Lambda S_yx - N_3||",
    statement="The two norms, without squares, differ by C_3.",
    assumes="W0 = 0",
    verdict="refuted",
    correction="Their squares do, by Lemma 4.  At d = n = 1, sigma = 0, N_3 = 0 the left side is sqrt(2/pi) = "
    "0.798 and the right one 2/3 + sqrt(2/pi)/3 = 0.933.",
    uses=("skipv1.lemma4-constant",),
)


@MISSING_SQUARES.check("d = n = 1, sigma = 0, N_3 = 0", states=2, control=1, wrong="without squares", kind="exact")
def norms_add_up_noiseless(power: int) -> bool:
    """d = n = 1, sigma = 0, N_3 = 0: E|W*|^p = C_3 + E|lambda W* x^2|^p with C_3 = 2/3, lambda = 1/3."""
    z = sympy.Symbol("z", real=True)
    density = sympy.exp(-(z**2) / 2) / sympy.sqrt(2 * sympy.pi)

    def moment(order: int) -> Any:
        return 2 * sympy.integrate(z**order * density, (z, 0, sympy.oo))

    left = moment(power)
    right = sympy.Rational(2, 3) + sympy.Rational(1, 3) ** power * moment(power) * moment(2 * power)
    return bool(sympy.simplify(left - right) == 0)


@MISSING_SQUARES.check(
    "d = 1, n = 4, sigma = 0.7, N_3 = S_yx/5, by quadrature over S",
    states=2,
    control=1,
    wrong="without squares",
    kind="float64",
)
def norms_add_up(power: int) -> bool:
    """d = 1, n = 4, sigma = 0.7, N_3 = S_yx / 5: the same with N_3 subtracted on both sides, by quadrature over S."""
    n, sigma, other = 4, 0.7, 0.2
    step = 1 / (n + 2 + sigma**2)
    of_normal = {1: (2 / np.pi) ** 0.5, 2: 1.0}  # E|z|^order: S_yx is normal given S

    def mean(function: Callable[[float], float], order: int) -> tuple[float, float]:
        """E|function(S) S_yx|^order and its error."""
        value, error = mean_over_spectrum(lambda s: (s**2 + sigma**2 * s) ** (order / 2) * abs(function(s)) ** order, n)
        return value * of_normal[order], error

    c_3, e_1 = mean(lambda s: 1 / (s + sigma**2) - step, 2)
    left, e_2 = mean(lambda s: 1 / (s + sigma**2) - other, power)
    right, e_3 = mean(lambda _s: step - other, power)
    return abs(left - c_3 - right) <= 10 * (e_1 + e_2 + e_3)


def rank_is_at_most(version: tuple[str, Callable[[int, int], int]]) -> bool:
    """The rank of the part of P odd in Y, whole-number prompts and weights; attained by one of these sizes.

    P = sum_h W^h G^h K^h A ends in A for every prompt, and so does its odd part (P(Y) - P(-Y))/2: in both models it
    has rank a at most.
    """
    model, rank_of = version
    rng, heads = np.random.default_rng(60), MHA if model == "MHA" else SKIPV1
    ranks = []
    for a, d, n in ((1, 2, 2), (1, 3, 4), (2, 3, 3), (2, 4, 4)):
        w, p = draw_weights(rng, a, d), draw(rng, d, n)
        odd = reduced_prediction(p.x, p.y, w, heads) - reduced_prediction(p.x, -p.y, w, heads)
        ranks.append((int(sympy.Matrix(odd).rank()), rank_of(a, d)))
    return all(rank <= bound for rank, bound in ranks) and any(rank == bound for rank, bound in ranks)


RANK_ARGUMENT = Claim(
    "skipv1.rank-argument",
    PAPER.name,
    place="appendix A.1, proof of the theorem, a < d: the rank of N_3 is at most a",
    statement="N_3 has rank at most a, which is what keeps MHA behind.",
    assumes="none",
    verdict="corrected",
    correction="It has, as its last factor is A.  So has SkipV1Former's N_3', for the same reason: the argument "
    "compares MHA at rank a with SkipV1Former at rank d, and shows no gap at equal A.  What tells the two apart "
    "there is the rank of the linear map from S_yx to P: a (d - a) against a d (skipv1.gap).",
    proof=rank_is_at_most,
    uses=("skipv1.eqns-5-6", "skipv1.gap"),
)
RANK_ARGUMENT.check(
    "N_3: at most a, and attained; whole numbers, exact",
    states=("MHA", lambda a, d: a),
    control=("MHA", lambda a, d: a - 1),
    wrong="a - 1",
    kind="exact",
)(rank_is_at_most)
RANK_ARGUMENT.check(
    "N_3': at most a as well, and attained; whole numbers, exact",
    states=("SkipV1Former", lambda a, d: a),
    control=("SkipV1Former", lambda a, d: d),
    wrong="d",
    kind="exact",
)(rank_is_at_most)
