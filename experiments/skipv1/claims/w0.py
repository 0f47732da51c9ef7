"""Claims on the printed Theorem 2 around W0 != 0: false for every d >= 3, and true with a term C x."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import cache
from math import ceil

import numpy as np

from experiments.ledger.claim import Claim, at
from experiments.skipv1.claims.products import identity, products_minimum, scaled_loss, whole_matrix
from experiments.skipv1.claims.setting import ANY_W0
from experiments.toys.checks import ROUNDING
from experiments.toys.unjudged import ONE_OF_SEVERAL, RANK
from theory.plans.heads import MHA, ORDINARY, SKIP, SKIPV1, Heads
from theory.prompts import setting
from theory.prompts.moments import Array, PromptMoments
from theory.skipv1 import bias as skipv1_bias
from theory.skipv1 import w0_heads as skipv1_w0_heads
from theory.skipv1.paper import PAPER
from theory.toy.enough_heads import EnoughHeads
from theory.toy.exact import exact_loss, loss_at_entries, prompt_map, random_weights
from theory.toy.few_terms import cyclic, identity_floor, quaternions, spreads, term_floor
from theory.toy.minimise import minimise
from theory.toy.population import PopulationLoss

SIGMA = Fraction(1, 10)
CONTEXTS = (8, 16, 256)
OF_TURNED = "the same sum with U S U^T in place of S, whose law is that of S"

W0 = Claim(
    "skipv1.w0",
    PAPER.name,
    place="appendix A.1, Theorem 2 as printed: sigma_d(W0) > 2 sqrt(d) sigma, d sufficiently large",
    statement="SkipV1Former beats MHA, two heads each, for W* around any W0 that is large enough.",
    assumes=ANY_W0,
    verdict="refuted",
    correction="True for d <= 2 (skipv1.w0-d2), false for every d >= 3: around W0 = c I, at all n > (d - 1) kappa "
    "(kappa <= (d - 1)/3; for d = 3 and 4 at any n) and for every c above a threshold, which long prompts raise, MHA "
    "reaches a loss below SkipV1Former's minimum, by as much as one likes.  At d = 4, n = 2, sigma = 0.1, c = 10: MHA "
    "96.04, SkipV1Former at least 144.80, best found 145.05, over all ranks.  Proof: theory.skipv1.w0_heads, Theorem "
    "4.  What is missing is a path from the query to the output: with a term C x_{n+1} it is true (skipv1.bias).",
    proof=skipv1_w0_heads,
    uses=("skipv1.few-products", "skipv1.w0-enough-heads", "skipv1.w0-floors", "skipv1.w0-d2"),
    unjudged={
        cyclic: ONE_OF_SEVERAL,
        prompt_map: RANK,
        at(skipv1_w0_heads._of_family, "exact[0::2] -> exact[1::2]"): OF_TURNED,
        at(skipv1_w0_heads._readers, "heads > 2"): "two heads on one group of coordinates are the quaternion family",
        at(skipv1_w0_heads._readers, "4 * heads - 1"): ONE_OF_SEVERAL,
        at(skipv1_w0_heads._readers, "4 * heads"): ONE_OF_SEVERAL,
    },
)

W0.row(
    "what SkipV1Former loses at a < d, in units of c^2, by hand: 1 + 2 tau_1, tau_1 = 25/101; d = 3, n = 2, sigma = 1",
    Fraction(151, 101),
    lambda: skipv1_w0_heads.large_prior(3, 2, Fraction(1)).small_ranks,
    control=Fraction(3, 2),
    wrong="tau_0 = 1/4, as if y y^T were of no use",
)


@W0.check(
    "the exact loss of two explicit MHA heads is d^2 + d sigma^2 + c^2 l_mha; rational, d = 3, 4, 5, 7",
    states=Fraction(1),
    control=Fraction(1, 2),
    wrong="half the excess",
    kind="exact",
)
def explicit_mha_loss(factor: Fraction) -> bool:
    """Exact loss of `mha_weights_around` in rational arithmetic: d^2 + d sigma^2 + factor c^2 l_mha."""
    for d, n, c in ((3, 2, 5), (4, 1, 3), (4, 2, 10), (5, 3, 7), (7, 2, 3)):
        weights = skipv1_w0_heads.mha_weights_around(d, n, Fraction(c))
        loss = exact_loss(MHA, d, n, sigma=SIGMA, w0=c * identity(d)).value(weights)
        share = skipv1_w0_heads.large_prior(d, n, SIGMA).mha
        if loss != d**2 + d * SIGMA**2 + factor * c**2 * share:
            return False
        if loss != skipv1_w0_heads.mha_loss_around(d, n, SIGMA, Fraction(c)):
            return False
    return True


@W0.check(
    "at a = d the even part of SkipV1Former's P is a sum of three products; exact rank, d = 4",
    states="a multiple of I",
    control="any matrix",
    wrong="for a W0 that is no multiple of I, where it is four",
    kind="exact",
)
def even_products(around: str) -> bool:
    """Exact, d = 4, a = d: the even part of SkipV1Former's P is three products W S K, as a map of S."""
    rng = np.random.default_rng(2)
    d = 4
    weights = random_weights(rng, 2, d, d)
    w0 = 3 * identity(d) if around == "a multiple of I" else whole_matrix(rng, d, d)
    c = prompt_map(weights, SKIPV1)  # P_ij = sum c[i, j, p, q] S_pq over z = (x ; y), y = W0 x
    lift = np.concatenate([identity(d), w0])
    of_s = np.einsum("ijpq,pk,ql->ikjl", c, lift, lift).reshape(d * d, d * d)  # rows (i, k), columns (j, l)
    return np.linalg.matrix_rank(of_s.astype(float)) == 3


@W0.check(
    "four descents in three products at d = 3, n = 2 end above what MHA's two heads reach, four products, and above "
    "Lemma 3's floor",
    states=3,
    control=4,
    wrong="in four products, in which they do find what MHA reaches",
    kind="descent",
)
def three_products_fall_short(products: int) -> bool:
    """d = 3: the lowest end of descents in so many products, as SkipV1Former's even part has at a = d, towards I."""
    d, n = 3, 2
    lowest, floor = products_minimum(products, d, n), identity_floor(d, n, 3)
    return bool(floor <= lowest <= 1.1 * floor and lowest > 1.1 * skipv1_w0_heads.large_prior(d, n, SIGMA).mha)


@W0.check(
    "the exact minimum at d = 4, W0 = 10 I is within 0.3 % above the floor and far above MHA's",
    states=3,
    control=2,
    wrong="the floor of two products",
    kind="descent",
)
def skipv1_above_mha(products: int) -> bool:
    """Check at d = 4, n = 2, W0 = 10 I that SkipV1Former's exact minimum at a = d exceeds MHA's explicit weights.

    It lies just above the floor of `products`, and above these weights at every rank.
    """
    d, n, sigma, c = 4, 2, 0.1, 10.0
    minima = _skipv1_minima()
    floor = d**2 * (1 - setting.signal_share(d, n, sigma)) + d * sigma**2 + term_floor([c**2] * d, n, products)
    mha = float(skipv1_w0_heads.mha_loss_around(d, n, sigma, c))
    known = skipv1_w0_heads.skipv1_few_heads_floor(d, n, sigma, c)
    return min(minima) > mha + 40 and floor <= minima[d] <= 1.003 * floor and abs(floor - known) < ROUNDING * floor


@cache
def _skipv1_minima() -> list[float]:
    """Return SkipV1Former's exact minima at every rank, d = 4, n = 2, sigma = 0.1, W0 = 10 I.

    At a = d the search ends where it is known to be.
    """
    loss = PopulationLoss(PromptMoments(4, 2, 0.1, 10 * np.eye(4)), SKIPV1)
    small = [minimise(loss, a, starts=1, max_iterations=80).value for a in range(4)]
    return [*small, minimise(loss, 4, until=lambda value: value < 145.1).value]


@W0.check(
    "the inequality between the two, exact, for every d up to 40; SkipV1Former's side is that of Lemmas 1 and 3, and "
    "MHA's, where 4 divides d, the least loss of four products by exact sums",
    states=3,
    control=2,
    wrong="d = 2 too, where the theorem is true",
    kind="exact",
)
def fails_from(first: int) -> bool:
    """Exact: two heads each; from d = `first` to 40 SkipV1Former loses at n just above (d - 1) kappa."""
    return all(_loses(d) for d in range(first, 41))


def _loses(d: int) -> bool:
    family = quaternions(d)
    n = int((d - 1) * sum(spreads(family)) / d) + 1
    prior, terms = skipv1_w0_heads.large_prior(d, n, Fraction(0)), min(3, d)
    theta = max(Fraction(d + 2 - terms, terms), Fraction(7, 3 * d - 1) if d % 2 and d >= 3 else Fraction(0))
    if prior.skipv1 != d * theta / (n + theta):
        return False
    if d % 4 == 0:  # all rows alike, so that one scale is best for all; int64 holds the sums exactly
        loss = scaled_loss(family, np.swapaxes(family, 1, 2), n, np.eye(d, dtype=int))
        if prior.mha != loss.least:
            return False
    return prior.excess > 0


@W0.check(
    "the threshold is where SkipV1Former's floor passes what MHA reaches, and it grows from n = 8 to 256; d = 3 to 6",
    states=1.0001,
    control=0.9999,
    wrong="just below it",
)
def threshold_is_passed(factor: float) -> bool:
    """Check that SkipV1Former's floor lies above MHA's loss at `factor` times the threshold, and not just below it."""
    for d in (3, 4, 5, 6):
        least = [skipv1_w0_heads.threshold(d, n, 0.1) or 0.0 for n in CONTEXTS]
        for n, c in zip(CONTEXTS, least, strict=True):
            if not _floor_is_above(d, n, factor * c) or _floor_is_above(d, n, 0.9999 * c):
                return False
        if not 0 < least[0] < least[1] < least[2]:
            return False
    return True


def _floor_is_above(d: int, n: int, c: float) -> bool:
    floor = skipv1_w0_heads.skipv1_few_heads_floor(d, n, 0.1, c)
    return bool(floor > skipv1_w0_heads.mha_loss_around(d, n, 0.1, c))


W0_HEADS = Claim(
    "skipv1.w0-heads",
    PAPER.ours,
    place="theory.skipv1.w0_heads, Theorem 4 (c)",
    statement="A large d does not help: with H heads, half of them skip heads, the "
    "printed claim is false around W0 = c I for every d >= 6 H - 4, every n > (d^2 - 1)/(2 H) and every large c.",
    assumes=ANY_W0,
    verdict="verified",
    proof=skipv1_w0_heads,
    uses=("skipv1.few-products", "skipv1.w0-floors"),
)


@W0_HEADS.check(
    "R cyclic shifts of R^d estimate I with kappa_i = (d + 1)/R; exact",
    states=lambda d, r: Fraction(d + 1, r),
    control=lambda d, r: Fraction(d + 2 - r, r),
    wrong="Lemma 1's floor, which they do not meet",
    kind="exact",
)
def shifts_are_spread(spread: Callable[[int, int], Fraction]) -> bool:
    """Exact: kappa_i of R cyclic shifts of R^d."""
    sizes = [(3, 2), (5, 3), (8, 4), (9, 5), (14, 7)]
    return all((spreads(cyclic(d, r)) == spread(d, r)).all() for d, r in sizes)


@W0_HEADS.check(
    "the inequality, exact, for all even H up to 40 and the first 20 widths of each",
    states=lambda heads: 6 * heads - 4,
    control=lambda heads: 6 * heads - 5,
    wrong="one width earlier, where both sides are equal",
    kind="exact",
)
def heads_fail_from(first: Callable[[int], int]) -> bool:
    """Exact: H heads, half of them skip heads, H = 2..40; from d = first(H) on, as far as 20 more."""
    for heads in range(2, 41, 2):
        for d in range(first(heads), first(heads) + 20):
            terms, kappa = 3 * heads // 2, Fraction(d + 1, 2 * heads)
            theta, n = Fraction(d + 2 - terms, terms), (d * d - 1) // (2 * heads) + 1
            mha, skip = d * kappa / (n + kappa), d * theta / (n + theta)
            if not (mha < skip and mha < 1):
                return False
    return True


@W0_HEADS.check(
    "four heads at d = 20: the exact loss by eight shifts is below the floor with two skip heads",
    states=2,
    control=0,
    wrong="the floor of four ordinary heads, which MHA cannot beat",
    kind="exact",
)
def eight_shifts_lose(skips: int) -> bool:
    """Four heads at d = 20, W0 = I: the exact loss by eight shifts, against the floor with `skips` skip heads."""
    d, heads = 20, 4
    n = ceil((d * d - 1) / (2 * heads)) + 1
    family = cyclic(d, 2 * heads)
    scale = 1 / (2 * heads * (n + Fraction(d + 1, 2 * heads)))
    # The shifts are zeros and ones: int64 holds their sums exactly.
    mha = scaled_loss(family, np.swapaxes(family, 1, 2), n, np.eye(d, dtype=int)).at(scale)
    return bool(mha < 1 and mha < term_floor([Fraction(1)] * d, n, 2 * heads - skips))


DESCENT = 1e-6  # of the zero loss: how far the best of the descents may stay from an infimum that is attained

BIAS = Claim(
    "skipv1.bias",
    PAPER.ours,
    place="theory.skipv1.bias: appendix A.1, Theorem 2, with a path from the query to the output",
    statement="If C x_{n+1} with a free matrix C is added to the prediction, one ordinary and one skip head attain "
    "d^2 + d sigma^2 - rho a d at every rank a and around every W0, MHA with any number of heads stays at or above "
    "d^2 + d sigma^2 - rho a (d - a), and one head comes as near to that as one likes.  So the gap is rho a^2 at equal "
    "rank, and rho (d^2 - floor(d^2/4)) between the optima.",
    assumes=ANY_W0,
    verdict="verified",
    proof=skipv1_bias,
    uses=("skipv1.eqns-5-6",),
)


@BIAS.check(
    "centred moments give the loss at the best C; rational, random weights of two heads, d = 2, 3",
    states=1,
    control=2,
    wrong="twice the best C",
    kind="exact",
)
def best_bias(times: int) -> bool:
    """Exact: the loss at C = times * E[W* - P], written out, against what centred moments give."""
    rng = np.random.default_rng(11)
    for heads in (MHA, SKIPV1):
        for d, rank in ((2, 1), (3, 1), (3, 2)):
            n, sigma, w0 = 3, Fraction(1, 2), whole_matrix(rng, d, d)
            weights = random_weights(rng, 2, rank, d)
            lift = np.concatenate([identity(d), w0])
            noise = np.diag([0] * d + [d + sigma**2] * d)
            mean = np.einsum("ijpq,pq->ij", prompt_map(weights, heads), n * (lift @ lift.T + noise))  # E P
            bias = times * (w0 - mean)
            plain = PopulationLoss(PromptMoments(d, n, sigma, w0), heads).value(weights)
            with_bias = plain + (bias * bias).sum() + 2 * (bias * (mean - w0)).sum()
            if with_bias != _loss(heads, d, n, sigma=sigma, w0=w0).value(weights):
                return False
    return True


@BIAS.check(
    "two heads attain it: the exact loss of the explicit weights; rational, random W0, d = 1 to 4, all ranks",
    states=True,
    control=False,
    wrong="without C",
    kind="exact",
)
def two_heads_attain(biased: bool) -> bool:
    """Exact: the loss of `bias.skipv1_weights` is that of a d entries."""
    rng = np.random.default_rng(12)
    for d, n, sigma in ((1, 1, Fraction(0)), (2, 3, Fraction(1, 2)), (3, 2, Fraction(2)), (4, 5, Fraction(1, 3))):
        for rank in range(d + 1):
            w0 = whole_matrix(rng, d, d)
            loss = PopulationLoss(PromptMoments(d, n, sigma, w0, centred=biased), SKIPV1)
            found = loss.value(skipv1_bias.skipv1_weights(d, n, sigma, rank=rank, w0=w0))
            if not found == skipv1_bias.skipv1_minimum(d, n, sigma, rank) == loss_at_entries(d, n, sigma, rank * d):
                return False
    return True


@BIAS.check(
    "one ordinary head attains MHA's infimum around invertible W0, and approaches it like 1/beta^2 around singular W0",
    states=1,
    control=-1,
    wrong="B with its sign turned, which adds what it has to cancel",
)
def one_head_approaches(sign: int) -> bool:
    """d = 2 to 5, ranks 1 to d - 1: the exact loss of `bias.mha_weights` for W0 of full rank, of rank one and zero."""
    rng = np.random.default_rng(13)
    for d in (2, 3, 4, 5):
        full = rng.standard_normal((d, d))
        for rank in range(1, d):
            infimum = float(loss_at_entries(d, 3, Fraction(1, 2), rank * (d - rank)))
            for w0, attained in ((full, True), (np.outer(full[0], full[1]), rank == d - 1), (0 * full, False)):
                near, far = (_excess(w0, rank, sign * beta, infimum) for beta in (100.0, 10.0))
                if abs(near) > 1e-3 or (abs(far) > 1e-10) == attained:
                    return False
                if not attained and abs(far / near - 100) > 1:
                    return False
    return True


def _excess(w0: Array, rank: int, beta: float, infimum: float) -> float:
    d = len(w0)
    weights = skipv1_bias.mha_weights(d, 3, 0.5, rank=rank, w0=w0, beta=abs(beta))
    turned = type(weights)(weights.a, np.copysign(1, beta) * weights.b, weights.w, weights.k)
    return _loss((ORDINARY,), d, 3, sigma=0.5, w0=w0).value(turned) - infimum


@BIAS.check(
    "nothing does better: with enough heads the best of eight descents ends on MHA's infimum, d = 2, 3 and four W0",
    states=0,
    control=1,
    wrong="one more entry of W* explained",
    kind="descent",
)
def mha_ends_there(more: int) -> bool:
    """Compare descents in A and B; at given A and B the best of all linear maps of the heads' sums is a regression.

    That such descents find a minimum is shown by those with skip heads, whose minimum is known to be attained.
    """
    rng = np.random.default_rng(14)
    for d, n in ((2, 3), (3, 2)):
        for size in (0.3, 5.0):
            w0 = size * rng.standard_normal((d, d))
            moments = PromptMoments(d, n, 0.5, w0, centred=True)
            for rank in range(1, d + 1):
                both, alone = (
                    EnoughHeads(moments, kinds).minimise(rank, starts=8)[0] for kinds in ((ORDINARY, SKIP), (ORDINARY,))
                )
                attained = skipv1_bias.skipv1_minimum(d, n, 0.5, rank)
                infimum = skipv1_bias.mha_infimum(d, n, 0.5, rank) - more * n / (n + d + 1.25)
                for found, expected in ((both, attained), (alone, infimum)):
                    if not -ROUNDING <= (found - expected) / moments.zero_loss <= DESCENT:
                        return False
    return True


def _loss(heads: Heads, d: int, n: int, sigma: Fraction | float, w0: Array) -> PopulationLoss:
    return PopulationLoss(PromptMoments(d, n, sigma, w0, centred=True), heads)
