"""What MHA and SkipV1Former can explain at W0 = 0: the two sides of Theorem 2's gap, sharp at every rank."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import sympy

from experiments.ledger.claim import Claim
from experiments.skipv1.claims.assumptions import W0_ZERO
from experiments.skipv1.claims.reduced_model import explained_at_minimum
from experiments.toys.checks import EXACT_SLACK, ROUNDING
from theory.plans.heads import MHA, ORDINARY, SKIP, SKIPV1, Heads
from theory.prompts.isserlis import PromptEngine
from theory.skipv1 import gap as skipv1
from theory.skipv1.gap_weights import mha_excess, mha_weights, skipv1_weights
from theory.skipv1.paper import PAPER
from theory.toy.exact import RATIONAL_TASKS, exact_loss, loss_at_entries, odd_map, prompt_map, random_weights, rational
from theory.toy.population import Weights

TASK = (4, 10, 0.4)
Rank = Callable[[Any, Any], Any]

MHA_INFIMUM = Claim(
    "skipv1.mha-infimum",
    PAPER.ours,
    place="sharpens the MHA side of the proof of Theorem 2, appendix A.1",
    statement="With rank-a compression the two-layer MHA explains at most rho a (d-a) of the signal, whatever its "
    "number of heads, and comes as near to that as one likes.  (The paper bounds the d x d matrix P by its rank a; "
    "what counts is the rank a (d-a) of the linear map from S_yx to P.)",
    assumes=W0_ZERO,
    verdict="verified",
    proof=skipv1,
    uses=("skipv1.eqns-5-6", "skipv1.lemma2-parity", "skipv1.lemma3-isotropy"),
)
SKIPV1_MINIMUM = Claim(
    "skipv1.skipv1-minimum",
    PAPER.ours,
    place="extends the SkipV1Former side of the proof of Theorem 2, appendix A.1, from a = d to every a",
    statement="With rank-a compression SkipV1Former explains at most rho a d of the signal, and exactly that at "
    "finite weights.",
    assumes=W0_ZERO,
    verdict="verified",
    proof=skipv1,
    uses=("skipv1.mha-infimum",),
)


@MHA_INFIMUM.check(
    "lower bound: the loss splits into the distance of that map to lambda I and the even part; exact rational "
    "arithmetic, random weights of one to three heads, the even part by pairing",
    states=1,
    control=0,
    wrong="v = n (n + d + sigma^2)",
    kind="exact",
)
def loss_splits(one: int) -> bool:
    """Steps (1) and (2): L = d^2 (1-rho) + d sigma^2 + v ||T - lambda I||^2 + E ||P_even||^2, v = n (n+d+one+sigma^2).

    For random rational weights of one, two and three heads; E ||P_even||^2 by pairing.
    """
    rng = np.random.default_rng(8)
    sigma, n = Fraction(1, 2), 3
    for d, a, heads in ((1, 1, SKIPV1), (2, 1, (ORDINARY,)), (2, 1, SKIPV1), (2, 2, (ORDINARY, SKIP, SKIP))):
        w = random_weights(rng, len(heads), a, d)
        engine = PromptEngine(d)
        values = [(engine.n, n), (engine.sigma, sigma)] + [(g, 0) for row in engine.w0 for g in row]
        kinds = [("xx", p, q) for p in range(d) for q in range(d)] + [("yy", p, q) for p in range(d) for q in range(d)]
        c = prompt_map(w, heads)
        even = np.concatenate([c[:, :, :d, :d], c[:, :, d:, d:]], axis=2).reshape(d * d, -1)
        power = sum(
            (even[:, i] @ even[:, j]) * rational(engine.expect(f, g), values)
            for i, f in enumerate(kinds)
            for j, g in enumerate(kinds)
        )
        share = Fraction(n) / (n + d + one + sigma**2)
        off = odd_map(w, heads) - share / n * np.eye(d * d, dtype=object)
        expected = d**2 * (1 - share) + d * sigma**2 + n * (n + d + one + sigma**2) * (off * off).sum() + power
        if exact_loss(heads, d, n, sigma).value(w) != expected:
            return False
    return True


def map_rank_is(version: tuple[Heads, Rank]) -> bool:
    """Step (4): T has at most the stated rank for any number of heads of this kind, and exactly that with five heads.

    A and B get a heavy diagonal, so that whole-number entries do not make them singular.
    """
    head, rank_of = version
    rng = np.random.default_rng(9)
    for d in range(1, 4):
        for a in range(d + 1):
            for heads in (1, 2, 5):
                w = random_weights(rng, len(head * heads), a, d)
                w = Weights(w.a + 7 * np.eye(a, d, dtype=int), w.b + 7 * np.eye(d - a, d, dtype=int), w.w, w.k)
                ranks = sympy.Matrix(odd_map(w, head * heads)).rank() if a else 0
                if ranks > rank_of(a, d) or (heads == 5 and ranks != rank_of(a, d)):
                    return False
    return True


MHA_INFIMUM.check(
    "lower bound: the map has rank at most a (d-a), and exactly that with five heads; exact, d = 1..3",
    states=((ORDINARY,), lambda a, d: a * (d - a)),
    control=((ORDINARY,), lambda a, d: a * d),
    wrong="rank a d, as if MHA saw all of S_yx A^T",
    kind="exact",
)(map_rank_is)
SKIPV1_MINIMUM.check(
    "lower bound: the linear map from S_yx to P has rank at most a d, and exactly that with five skip heads; "
    "exact, d = 1..3 (how the loss depends on the map: skipv1.mha-infimum)",
    states=((SKIP,), lambda a, d: a * d),
    control=((SKIP,), lambda a, d: a * (d - a)),
    wrong="MHA's rank",
    kind="exact",
)(map_rank_is)


@MHA_INFIMUM.check(
    "explicit weights come within rho lambda a (d-a) / beta^2 of it; exact rational arithmetic",
    states=lambda a, d: a * (d - a),
    control=lambda a, d: a * d,
    wrong="rank a d",
    kind="exact",
)
def weights_approach_mha_infimum(rank_of: Rank) -> bool:
    beta = Fraction(7, 2)
    return all(
        exact_loss(MHA, d, n, sigma).value(mha_weights(d, n, sigma, a, beta))
        == loss_at_entries(d, n, sigma, rank_of(a, d)) + mha_excess(d, n, sigma, a, beta)
        for d, n, sigma in RATIONAL_TASKS
        for a in range(d + 1)
    )


@SKIPV1_MINIMUM.check(
    "explicit weights attain it; exact rational arithmetic",
    states=lambda a, d: a * d,
    control=lambda a, d: a * (d - a),
    wrong="MHA's rank",
    kind="exact",
)
def weights_attain_skipv1_minimum(rank_of: Rank) -> bool:
    return all(
        exact_loss(SKIPV1, d, n, sigma).value(skipv1_weights(d, n, sigma, a))
        == loss_at_entries(d, n, sigma, rank_of(a, d))
        for d, n, sigma in RATIONAL_TASKS
        for a in range(d + 1)
    )


def _minimiser_finds(heads: tuple[Heads, ...], closed: Callable[..., float], factor: float) -> bool:
    d = TASK[0]
    zero = d**2 + d * TASK[2] ** 2
    return all(
        -EXACT_SLACK * closed(*TASK, a)
        <= explained_at_minimum(h, *TASK, a) - factor * closed(*TASK, a)
        <= ROUNDING * zero
        for h in heads
        for a in range(1, d)
    )


@MHA_INFIMUM.check(
    "exact minimisation from 8 starts ends on it and not below, d = 4, one and two heads",
    states=1.0,
    control=1.02,
    wrong="explained signal 2 % larger",
    kind="descent",
)
def minimiser_finds_mha_infimum(factor: float) -> bool:
    return _minimiser_finds(((ORDINARY,), MHA), skipv1.mha_explained, factor)


@SKIPV1_MINIMUM.check(
    "exact minimisation from 8 starts ends on it and not below, d = 4, one and two skip heads",
    states=1.0,
    control=1.02,
    wrong="explained signal 2 % larger",
    kind="descent",
)
def minimiser_finds_skipv1_minimum(factor: float) -> bool:
    return _minimiser_finds((SKIPV1, (ORDINARY, SKIP, SKIP)), skipv1.skipv1_explained, factor)
