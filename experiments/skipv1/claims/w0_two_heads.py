"""Where two heads suffice around W0 != 0: small W0 or many pairs, and d = 2."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from experiments.ledger.claim import Claim
from experiments.skipv1.claims.assumptions import ANY_W0
from experiments.skipv1.claims.rational_matrices import exactly, identity, whole_matrix
from experiments.toys.checks import ROUNDING
from experiments.toys.unjudged import OVER_RANKS
from theory.errors import BadInput
from theory.plans.heads import SKIPV1
from theory.prompts import setting
from theory.prompts.moments import Array, PromptMoments
from theory.skipv1 import w0 as skipv1_w0
from theory.skipv1 import w0_d2 as skipv1_w0_d2
from theory.skipv1 import w0_heads as skipv1_w0_heads
from theory.skipv1.paper import PAPER
from theory.toy.exact import exact_loss
from theory.toy.minimise import minimise
from theory.toy.population import PopulationLoss, Weights

W0_SMALL = Claim(
    "skipv1.w0-small",
    PAPER.ours,
    place="theory.skipv1.w0, Theorem 3",
    statement="Two heads suffice where ||W0||^2 < n (d^2 - floor(d^2/4))/(d + 1 + sigma^2): for small W0, and for "
    "every fixed W0 once n is large.",
    assumes=ANY_W0,
    verdict="verified",
    proof=skipv1_w0,
    uses=("skipv1.w0-floors",),
    unjudged={skipv1_w0.mha_floor: OVER_RANKS},
)


@W0_SMALL.check(
    "the exact loss of P = mu S_yx from one ordinary and one skip head; rational, random W0",
    states=Fraction(1, 2),
    control=Fraction(1),
    wrong="W^1 = -mu I: S_xx counted once in the ordinary head",
    kind="exact",
)
def small_w0_loss(fraction: Fraction) -> bool:
    """Exact loss of one ordinary and one skip head at A = I and the best mu, random whole-number W0."""
    rng = np.random.default_rng(6)
    for d, n in ((1, 1), (2, 3), (3, 2)):
        w0, sigma = whole_matrix(rng, d, d), Fraction(2, 3)
        power = (w0 * w0).sum()
        mu = (d**2 + power) / ((d**2 + power) * (n + d + 1) + sigma**2 * d**2)
        eye = identity(d)
        weights = Weights(eye, eye[:0], np.stack([-mu * fraction * eye, mu * eye]), np.stack([eye] * 2))
        if exact_loss(SKIPV1, d, n, sigma, w0).value(weights) != skipv1_w0.two_heads_loss(d, n, sigma, power):
            return False
    return True


@W0_SMALL.check(
    "at the largest norm what two heads reach, by a step mu = lambda, is MHA's best floor as n grows; rational",
    states=Fraction(1),
    control=Fraction(101, 100),
    wrong="a norm whose square is larger by a hundredth",
    kind="exact",
)
def largest_norm_is_where_floors_meet(factor: Fraction) -> bool:
    """(1 - rho)(d^2 + w^2) = d^2 - rho floor(d^2/4) at w^2 = `factor` times Theorem 3's, d = 1..5; and the best mu is
    no worse than lambda."""
    for d, n, sigma in ((1, 1, Fraction(0)), (2, 3, Fraction(1, 2)), (3, 4, Fraction(2)), (5, 9, Fraction(1, 3))):
        rho = n / (n + d + 1 + sigma**2)
        power = factor * skipv1_w0.small_power(d, n, sigma)
        if (1 - rho) * (d**2 + power) != d**2 - rho * (d**2 // 4):
            return False
        if skipv1_w0.two_heads_loss(d, n, sigma, power) > d * sigma**2 + (1 - rho) * (d**2 + power):
            return False
    return True


@W0_SMALL.check(
    "exact minimisation, d = 3, at 0.9 of that norm: at most that loss, which is below MHA's floor",
    states=0.9,
    control=9.0,
    wrong="at nine times it",
    kind="descent",
)
def small_w0_wins(share: float) -> bool:
    """Exact minimisation, d = 3, n = 8, W0 a multiple of a rotation with `share` of Theorem 3's largest norm."""
    d, n, sigma = 3, 8, 0.3
    rotation = np.linalg.qr(np.random.default_rng(7).standard_normal((d, d)))[0]
    power = share * skipv1_w0.small_power(d, n, sigma)
    floor = min(skipv1_w0.mha_floor(d, n, sigma, [power / d] * d, a) for a in range(d + 1))
    loss = PopulationLoss(PromptMoments(d, n, sigma, rotation * (power / d) ** 0.5), SKIPV1)
    loss_of_step = skipv1_w0.two_heads_loss(d, n, sigma, power)
    if not loss_of_step < floor:
        return False
    return _comes_down_to(loss, d, loss_of_step + ROUNDING * loss.zero_loss, starts=2)


def _comes_down_to(loss: PopulationLoss, rank: int, value: float, *, starts: int) -> bool:
    """Is the exact minimum at most `value`?  The search ends as soon as it is."""
    return bool(minimise(loss, rank, starts=starts, until=lambda best: best <= value).value <= value)


W0_D2 = Claim(
    "skipv1.w0-d2",
    PAPER.ours,
    place="theory.skipv1.w0_heads, Theorem 5, and theory.skipv1.w0_d2, Theorem 6",
    statement="At d = 2 the printed inequality is true: around every W0 that the hypothesis allows two heads are "
    "strictly better than MHA with any number of heads, by at least rho unless W0 is lopsided.",
    assumes=ANY_W0,
    verdict="verified",
    proof=skipv1_w0_d2,
    uses=("skipv1.w0-floors",),
)


@W0_D2.check(
    "the exact loss of the weights; rational, random W0",
    states=2,
    control=1,
    wrong="half of what S A^-T adds",
    kind="exact",
)
def d2_weights_have_loss(cross: int) -> bool:
    """Exact loss of `d2_weights`, random W0: 2 sigma^2 + 4 + tau_0 w^2, less what Z and plus what S adds."""
    rng = np.random.default_rng(8)
    for n, beta, sigma in (
        (1, Fraction(3, 2), Fraction(1)),
        (2, Fraction(2), Fraction(1, 3)),
        (5, Fraction(7), Fraction(0)),
    ):
        w0 = whole_matrix(rng, 2, 2)
        loss = exact_loss(SKIPV1, 2, n, sigma, w0).value(skipv1_w0_heads.d2_weights(n, w0, beta))
        nu = Fraction(1, 2 * n + 2)
        mu = nu * (1 - beta**-2)
        odd = 4 * (2 * mu * n - mu**2 * n * (n + 3 + sigma**2))
        if loss != 2 * sigma**2 + 4 + (w0 * w0).sum() / Fraction(n + 1) - odd + cross * n * (n + 3) * mu**2 / beta**2:
            return False
    return True


@W0_D2.check(
    "exact minima for three W0: below MHA's floor for any number of heads",
    states=1.0,
    control=4.0,
    wrong="by 4 rho",
    kind="descent",
)
def d2_gap(least: float) -> bool:
    """Exact minimisation at d = 2: SkipV1Former with two heads below MHA's floor for any number by `least` rho."""
    rng = np.random.default_rng(9)
    for n, sigma, w0 in (
        (2, 0.0, 6 * rng.standard_normal((2, 2))),
        (4, 1.0, np.diag([6.0, 3.0])),
        (3, 0.5, 5 * np.eye(2)),
    ):
        squares = (np.linalg.svd(w0, compute_uv=False) ** 2).tolist()
        floor = min(skipv1_w0.mha_floor(2, n, sigma, squares, a) for a in range(3))
        loss = PopulationLoss(PromptMoments(2, n, sigma, w0), SKIPV1)
        if not _comes_down_to(loss, 2, floor - least * setting.signal_share(2, n, sigma), starts=8):
            return False
    return True


@W0_D2.check(
    "lopsided W0, s_1 = 12 s_2, where MHA's floor is lowest at a = 1: explicit weights pass below it",
    states="a = 1",
    control="a = 2",
    wrong="Theorem 5's weights, which see nothing of y y^T",
    kind="float64",
)
def d2_lopsided(rank: str) -> bool:
    """The exact loss, in rational arithmetic, of explicit weights of SkipV1Former, against MHA's floors."""
    for n, sigma, s_2 in ((2, 1.0, 3.0), (1, 3.0, 9.0)):
        squares = [(12 * s_2) ** 2, s_2**2]
        floor = min(skipv1_w0.mha_floor(2, n, sigma, squares, a) for a in range(3))
        w0 = np.diag([12 * s_2, s_2])
        if rank == "a = 2":
            weights = skipv1_w0_heads.d2_weights(n, w0, min(skipv1_w0_heads.d2_best_beta(n, sigma), 1e3))
        else:
            weights = _first_of_rank_one(n, sigma, w0)
        rational = Weights(*(exactly(x) for x in weights.arrays()))
        loss = float(exact_loss(SKIPV1, 2, n, Fraction(sigma), exactly(w0)).value(rational))
        if loss >= floor - 1e3 * np.finfo(float).eps * squares[0]:
            return False
    return True


def _first_of_rank_one(n: int, sigma: float, w0: Array) -> Weights:
    """Theorem 6's weights at the largest alpha of a falling sequence, of one sign or the other."""
    for alpha in (sign * 0.5**i for i in range(40) for sign in (1, -1)):
        try:
            return skipv1_w0_d2.rank_one_weights(n, sigma, w0, alpha)
        except BadInput:
            continue
    raise AssertionError("Theorem 6 promises weights")
