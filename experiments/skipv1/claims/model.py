"""The paper's model, appendix A.1, Eqns. (2) to (6), and what two layers of it predict."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import sympy

from experiments.ledger.claim import Claim
from experiments.toys.unjudged import RANK
from theory.plans.heads import MHA, ORDINARY, SKIP, SKIPV1, Heads
from theory.prompts.moments import Array, PromptMoments
from theory.skipv1.paper import PAPER
from theory.toy.exact import odd_map, prompt_map
from theory.toy.minimise import minimise
from theory.toy.population import PopulationLoss, Weights
from theory.toy.tokens import context, draw, draw_weights, full_key, output, whole


def reduced_prediction(
    x: Array, y: Array, w: Weights, heads: Heads, *, once: bool = False, swapped: bool = False
) -> Array:
    """Return P = sum_h W^h G^h M^h of Eqns. (5) and (6), M^h = K^h A, from the context's x and y (d, n): (d, d).

    Each head sums value times key^T over the tokens that the mask keeps.  The tokens of x_t have x_t for both in every
    head, and those of y_t have u_t for both in an ordinary head, y_t and u_t in a skip head.  What meets the keys is
    W_K^T W_Q times the query's token (A x_{n+1} ; 0), so the first a columns of W_K^T W_Q, K^h, times A x_{n+1}.

    heads      ordinary and skip heads
    once       the second term of G for the last pair only, as if the sum did not reach it
    swapped    u y^T for y u^T in the skip head
    """
    u, labels = np.concatenate([w.a @ x, w.b @ y]), y
    if once:
        u, labels = u[:, -1:], labels[:, -1:]
    grams = {ORDINARY: u @ u.T, SKIP: u @ labels.T if swapped else labels @ u.T}
    total: Array = sum(w.w[h] @ (x @ x.T + grams[head]) @ w.k[h] @ w.a for h, head in enumerate(heads))
    return total


def explained_at_minimum(heads: Heads, d: int, n: int, sigma: float, a: int, w0: Any = None, starts: int = 8) -> float:
    """Return how far the exact minimum lies below predicting zero, in squared units of y summed over its d entries."""
    if w0 is None:
        return _explained_around_zero(heads, d, n, sigma=sigma, a=a, starts=starts)
    return _explained(PopulationLoss(PromptMoments(d, n, sigma, w0), heads), a, starts)


@cache
def _explained_around_zero(heads: Heads, d: int, n: int, sigma: float, a: int, starts: int) -> float:
    """Return the signal explained at W0 = 0, cached: a claim and its control are compared with one minimum."""
    return _explained(PopulationLoss(PromptMoments(d, n, sigma), heads), a, starts)


def _explained(loss: PopulationLoss, a: int, starts: int) -> float:
    return loss.zero_loss - minimise(loss, a, starts=starts).value


SIZES = ((0, 1, 1), (1, 1, 2), (1, 2, 1), (2, 3, 1), (1, 3, 4), (3, 3, 2))  # rank, d, n; one has d = 2n + 1


def shared_value_rank(rank_of: Callable[[int, int], int]) -> bool:
    """The rank of T at a = d for five skip heads with readouts O_h V, V being layer 1's, of rank r.

    Such a head adds O_h V S_yx M^h to P, so T sees the r d numbers of V S_yx and no others; and sums of
    O_h (V S_yx) M^h over enough heads are any linear map of them.
    """
    rng = np.random.default_rng(26)
    for d in (1, 2, 3):
        for r in range(d + 1):
            w = draw_weights(rng, d, d, heads=5)
            value = np.diag([1] * r + [0] * (d - r)).astype(object)
            w = Weights(w.a + 9 * np.eye(d, dtype=int), w.b, w.w @ value, w.k)
            if sympy.Matrix(odd_map(w, (SKIP,) * 5)).rank() != rank_of(r, d):
                return False
    return True


EQN2 = Claim(
    "skipv1.eqn2",
    PAPER.name,
    place="appendix A.1, Eqn. (2) and the remark on W_O below it",
    statement="With P = diag(I, 0) the query attends to the context alone; W_O may be taken into W_V.",
    assumes="none",
    verdict="corrected",
    correction="The mask does so, and the prediction is linear in x_{n+1}.  W_O W_V is any d x d matrix if heads "
    "are as wide as tokens, which Eqn. (2) has and two heads of width d/2 have not.  For a skip head W_V is layer "
    "1's own, whose other use Assumption 1 has fixed; W^2 = H W_O W_V^1 is free only if W_V^1 is regular, and "
    "with W_V^1 of rank r SkipV1Former at a = d sees r d numbers of S_yx, not d^2.",
    proof=shared_value_rank,
    uses=("skipv1.eqns-5-6",),
    unjudged={odd_map: RANK, prompt_map: RANK},
)


@EQN2.check(
    "doubling x_{n+1} doubles the prediction; from tokens, exact, both models",
    states=True,
    control=False,
    wrong="no mask",
    kind="exact",
)
def output_is_linear_in_query(masked: bool) -> bool:
    """Doubling x_{n+1} doubles the prediction, for both models, with the mask P or without it."""
    rng = np.random.default_rng(24)
    for a, d, n in SIZES:
        w, p = draw_weights(rng, a, d), draw(rng, d, n)
        mask = context(p.tokens) if masked else np.eye(2 * n + 1, dtype=object)
        for heads in (MHA, SKIPV1):
            twice = output(p.with_(query=2 * p.query), w, heads, mask)
            if (twice != 2 * output(p, w, heads, mask)).any():
                return False
    return True


@EQN2.check(
    "W_O W_V can be regular; exact rank, d = 2..4",
    states=lambda d: d,
    control=lambda d: d // 2,
    wrong="heads of width d/2",
    kind="exact",
)
def products_are_regular(width: Callable[[int], int]) -> bool:
    """W_O W_V, d x width times width x d, can be regular; whole numbers with a heavy diagonal."""
    rng = np.random.default_rng(25)
    for d in (2, 3, 4):
        eye = 30 * np.eye(d, width(d), dtype=int)
        if sympy.Matrix((whole(rng, d, width(d)) + eye) @ (whole(rng, width(d), d) + eye.T)).rank() != d:
            return False
    return True


EQN2.check(
    "five skip heads whose W_V^1 has rank r: the map from S_yx to P has rank r d; exact, d = 1..3",
    states=lambda r, d: r * d,
    control=lambda r, d: d * d,
    wrong="d^2, as if W_V^1 could be undone",
    kind="exact",
)(shared_value_rank)


EQN3_MISPRINTS = Claim(
    "skipv1.eqn3-misprints",
    PAPER.name,
    place="appendix A.1, Eqn. (3)",
    statement="Scores are TF_1(E) W_K^T W_Q TF_1(E), with W_Q^{2,2} in both heads.",
    assumes="none",
    verdict="corrected",
    correction="The first factor is TF_1(E)^T, as in Eqn. (2); as printed the shapes agree only if d = 2n + 1.  "
    "The first head's W_Q is W_Q^{2,1}; read as printed, with one W_Q for both, nothing is lost, as W_Q = I and "
    "W_K^h = (K^h 0)^T make any K^1 and K^2.",
    proof=reduced_prediction,
)


@EQN3_MISPRINTS.check(
    "the transposed form is Eqn. (6)'s, from tokens, exact",
    states=True,
    control=False,
    wrong="as printed",
    kind="exact",
)
def eqn3_conforms(transposed: bool) -> bool:
    """Eqn. (3) with TF_1(E)^T in the scores, or without as printed, is the reduced form of Eqn. (6)."""
    rng = np.random.default_rng(27)
    for a, d, n in SIZES:
        w, p = draw_weights(rng, a, d), draw(rng, d, n)
        first = p.copied(w.a, w.b)
        left = first.T if transposed else first
        if left.shape[1] != d:
            return False
        heads = ((first, w.w[0], w.k[0]), (p.tokens, w.w[1], w.k[1]))
        out = sum(v @ values @ context(first) @ (left @ full_key(k) @ first) for values, v, k in heads)
        if (out[:, -1:] != reduced_prediction(p.x, p.y, w, SKIPV1) @ p.query).any():
            return False
    return True


@EQN3_MISPRINTS.check(
    "one W_Q serves two heads of any K^1 and K^2; from tokens, exact",
    states="query",
    control="query and key",
    wrong="one W_K as well",
    kind="exact",
)
def shared_projections_suffice(which: str) -> bool:
    """Two heads with any K^1 and K^2 have a form with one W_Q, as Eqn. (3) prints it; one W_K as well is too few."""
    rng = np.random.default_rng(28)
    for a, d, n in SIZES[1:]:
        w, p = draw_weights(rng, a, d), draw(rng, d, n)
        keys = w.k if which == "query" else np.stack([w.k[0], w.k[0]])
        out = output(p, Weights(w.a, w.b, w.w, keys), SKIPV1)
        if (out != reduced_prediction(p.x, p.y, w, SKIPV1) @ p.query).any():
            return False
    return True


EQNS_5_6 = Claim(
    "skipv1.eqns-5-6",
    PAPER.name,
    place="appendix A.1, Eqns. (5) and (6), with W^h, M^h, G_{1,D}, G_{2,D}^1 and G_{2,D}^2 before them",
    statement="Under Assumption 1 Eqns. (2) and (3) predict sum_h W^h G^h M^h x_{n+1}.",
    assumes="the sum in G covers both of its terms (there is no bracket)",
    verdict="verified",
    correction="M^h is K^h A with K^h: d x a free, so minima over M are over these, not over all d x d matrices.",
    proof=reduced_prediction,
    uses=("skipv1.eqn3-misprints",),
)


def _reduces(heads: Heads, **reading: bool) -> bool:
    rng = np.random.default_rng(29)
    return all(
        (output(p, w, heads) == reduced_prediction(p.x, p.y, w, heads, **reading) @ p.query).all()
        for a, d, n in SIZES
        for w, p in [(draw_weights(rng, a, d), draw(rng, d, n))]
    )


@EQNS_5_6.check(
    "MHA, token by token, whole numbers, exact",
    states=True,
    control=False,
    wrong="a sum that covers the first term only",
    kind="exact",
)
def mha_reduces(whole_sum: bool) -> bool:
    return _reduces(MHA, once=not whole_sum)


@EQNS_5_6.check(
    "SkipV1Former, token by token, whole numbers, exact",
    states="y u^T",
    control="u y^T",
    wrong="values and keys exchanged",
    kind="exact",
)
def skipv1_reduces(order: str) -> bool:
    return _reduces(SKIPV1, swapped=order == "u y^T")
