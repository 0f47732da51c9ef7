"""What is true of Theorem 2 around every W0, with enough heads: the gap, and the floors of both losses."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from sympy import expand, symbols

from experiments.ledger.claim import Claim
from experiments.skipv1.claims.assumptions import ANY_W0
from experiments.skipv1.claims.rational_matrices import whole_matrix
from experiments.toys.checks import EXACT_SLACK, ROUNDING
from theory.plans.heads import ORDINARY, SKIP
from theory.prompts import setting
from theory.prompts.isserlis import gaussian_trace
from theory.prompts.moments import PromptMoments
from theory.skipv1 import w0 as skipv1_w0
from theory.skipv1.paper import PAPER
from theory.toy.enough_heads import EnoughHeads

W0_ENOUGH_HEADS = Claim(
    "skipv1.w0-enough-heads",
    PAPER.ours,
    place="theory.skipv1.w0, Theorem 1: what is true of Theorem 2 of appendix A.1 for every W0",
    statement="With d a ordinary and d a skip heads (2 d^2 heads for all ranks) SkipV1Former beats MHA with any "
    "number of heads by at least rho a^2 at equal rank, and by at least rho between the optima, whatever W0.",
    assumes=ANY_W0,
    verdict="verified",
    proof=skipv1_w0,
    uses=("skipv1.eqns-5-6", "skipv1.lemma3-isotropy"),
)


@W0_ENOUGH_HEADS.check(
    "step (4): the two kinds of G give every number of S; exact rank, d = 2..4, all ranks",
    states="both kinds",
    control="ordinary",
    wrong="with ordinary heads alone",
)
def s_is_seen(kinds: str) -> bool:
    """Exact: how many numbers of S the G's give free of Z, random whole-number A and B: all d (d + 1)/2 of them."""
    rng = np.random.default_rng(3)
    for d in (2, 3, 4):
        for rank in range(1, d + 1):
            a, b = whole_matrix(rng, rank, d), whole_matrix(rng, d - rank, d)
            low = np.eye(d, dtype=int)[rank:] - b
            rows = []
            for i in range(d):
                for j in range(i + 1):
                    s = np.zeros((d, d), dtype=object)
                    s[i, j] = s[j, i] = 1
                    upper = s[:rank, :rank] + a @ s @ a.T
                    lower = low @ s if kinds == "both kinds" else np.zeros((0, d))
                    rows.append(np.concatenate([upper.ravel(), np.asarray(lower).ravel()]).astype(float))
            if np.linalg.matrix_rank(np.array(rows)) != d * (d + 1) // 2:
                return False
    return True


@W0_ENOUGH_HEADS.check(
    "exact minima over all that heads can do, random W0, d = 2, 3, every rank",
    states=lambda a, _d: a**2,
    control=lambda a, d: 1.05 * a * d,
    wrong="more than rho a d",
)
def gap_with_enough_heads(least: Callable[[int, int], float]) -> bool:
    """The exact minima over all that heads can do, random W0: MHA's less SkipV1Former's, in units of rho."""
    rng = np.random.default_rng(4)
    for d, n, sigma, size in ((2, 3, 0.5, 4.0), (3, 2, 0.1, 3.0), (3, 4, 1.5, 1.0)):
        moments = PromptMoments(d, n, sigma, size * rng.standard_normal((d, d)))
        rho = setting.signal_share(d, n, sigma)
        for rank in range(1, d + 1):
            mha, skip = (EnoughHeads(moments, kinds).minimise(rank)[0] for kinds in ((ORDINARY,), (ORDINARY, SKIP)))
            if mha - skip < rho * least(rank, d) - EXACT_SLACK * rho:
                return False
    return True


W0_FLOORS = Claim(
    "skipv1.w0-floors",
    PAPER.ours,
    place="theory.skipv1.w0, Theorem 2",
    statement="The loss is at least d sigma^2 + d^2 - rho a (d - a), in SkipV1Former - rho a d, plus "
    "sum_{j>a} s_j^2 + tau_{d-a} sum_{j<=a} s_j^2; SkipV1Former with enough heads attains it if sigma = 0, a = 0 "
    "or rank W0 <= 2a, and else does not; where W0 is diagonal MHA with enough heads then approaches its own, so "
    "that the gap at equal rank is rho a^2 and no more.",
    assumes=ANY_W0,
    verdict="verified",
    proof=skipv1_w0,
    uses=("skipv1.w0-enough-heads",),
)


@W0_FLOORS.check(
    "the two statistics behind tau: their means and variances, by pairing, symbolic in n, d and sigma",
    states=4,
    control=2,
    wrong="n sigma^2 for n sigma^4",
    kind="symbolic",
)
def reads_of_the_constant(noise_power: int) -> bool:
    """Symbolic, by pairing: mean and variance of tr S, and the variance of tr(Q_B Y) - k tr S given k = 1, at n, d."""
    d, n, sigma = symbols("d n sigma")
    trace, square = gaussian_trace("X X'"), gaussian_trace("X X'", "X X'")
    if expand(square - trace**2 - 2 * n * d) != 0 or expand(trace - n * d) != 0:
        return False
    # One row of eta = D X + sigma N given X is N(0, X'X + sigma^2 I): the variance of its square is twice the trace of
    # the square of that matrix.
    inner = gaussian_trace("X X' X X'") + 2 * sigma**2 * trace + n * sigma**4
    return bool(expand(inner - n * (d * (n + d + 1) + 2 * d * sigma**2 + sigma**noise_power)) == 0)


@W0_FLOORS.check(
    "exact minima over all that heads can do, random W0, sigma up to 2",
    states=lambda d, a: d - a,
    control=lambda _d, _a: 0,
    wrong="tau_0: y y^T of no use",
)
def floor_is_met(seen_rows: Callable[[int, int], int]) -> bool:
    """With enough heads SkipV1Former's exact minimum is Theorem 2's, at 2 a >= d and at W0 of rank one."""
    rng = np.random.default_rng(5)
    for d, n, sigma, rank, of_w0 in ((2, 2, 2.0, 1, 2), (3, 3, 1.5, 2, 3), (3, 2, 2.0, 1, 1)):
        w0 = 3 * rng.standard_normal((d, of_w0)) @ rng.standard_normal((of_w0, d))
        squares = sorted((np.linalg.svd(w0, compute_uv=False) ** 2)[:of_w0].tolist() + [0.0] * (d - of_w0))[::-1]
        minimum = EnoughHeads(PromptMoments(d, n, sigma, w0), (ORDINARY, SKIP)).minimise(rank, starts=6)[0]
        tau = skipv1_w0.constant_share(d, n, sigma, seen_rows(d, rank))
        explained = setting.signal_share(d, n, sigma) * rank * d + (1 - tau) * sum(squares[:rank])
        difference = setting.zero_loss(d, n, sigma) + sum(squares) - minimum
        slack = 1e-6 * explained  # tau_k differs from tau_0 by a hundredth and more
        if not explained - slack <= difference <= explained + ROUNDING * (difference + minimum):
            return False
    return True
