"""As many heads each around W0 = c I, half of SkipV1Former's skip heads: MHA wins up to H = d/4, and d/3 at many d."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np

from experiments.ledger.claim import Claim
from experiments.skipv1.claims.assumptions import ANY_W0
from experiments.toys.checks import ROUNDING
from experiments.toys.unjudged import ONE_OF_SEVERAL
from theory.plans.heads import ORDINARY
from theory.prompts.moments import PromptMoments
from theory.skipv1 import w0_heads
from theory.skipv1.paper import PAPER
from theory.toy.few_terms import cyclic
from theory.toy.population import PopulationLoss

EQUAL_HEADS = Claim(
    "skipv1.w0-equal-heads",
    PAPER.ours,
    place="theory.skipv1.w0_heads, Theorem 4 (d)",
    statement="With H heads each, half of SkipV1Former's skip heads, the printed claim is false around W0 = c I for "
    "every d >= 4 H, and every d > 3 H - 8 that 2 H divides, every n > (d - 1)((2d + 4)/(3H) - 1) and every large c.",
    assumes=ANY_W0,
    verdict="verified",
    proof=w0_heads,
    uses=("skipv1.few-products", "skipv1.w0-floors"),
    unjudged={cyclic: ONE_OF_SEVERAL},
)


@EQUAL_HEADS.check(
    "the loss of MHA's explicit weights, 4 to 8 heads, d = 8 to 17, from the exact moments",
    states=2,
    control=1,
    wrong="a quaternion family's kappa_i with d in place of d - 2",
    kind="exact",
)
def weights_of_groups(less: int) -> bool:
    """d sigma^2 + d^2 + c^2 sum_i kappa_i/(n + kappa_i), kappa_i = (d_g - less)/4 in groups of d_g = 4 m."""
    for d, heads, sizes in ((8, 4, (4, 4)), (12, 4, (8, 4)), (12, 6, (4, 4, 4)), (16, 4, (8, 8)), (16, 8, (4,) * 4)):
        n, sigma, c = 5, 0.5, 3.0
        weights = w0_heads.mha_weights_around(d, n, c, heads)
        loss = PopulationLoss(PromptMoments(d, n, sigma, c * np.eye(d)), (ORDINARY,) * heads).value(weights)
        share = sum(size * (size - less) / 4 / (n + (size - less) / 4) for size in sizes)
        if abs(loss - (d * sigma**2 + d**2 + c**2 * share)) > ROUNDING * loss:
            return False
        if abs(w0_heads.mha_loss_around(d, n, sigma, c, heads) - loss) > ROUNDING * loss:
            return False
    return True


@EQUAL_HEADS.check(
    "the inequality: just from 3 H - 7 on where 2 H divides d, and from 4 H on; all even H up to 40, exact",
    states=lambda heads: 3 * heads - 7,
    control=lambda heads: 3 * heads - 8,
    wrong="one width earlier, where both sides are equal",
    kind="exact",
)
def lose_from(first: Callable[[int], int]) -> bool:
    """Exact: the mean of the kappa_i below theta.  From d = 53 on, where d >= 4 H, step (4) of the proof has it."""
    for heads in range(2, 42, 2):
        for d in range(2 * heads, 4 * heads + 53):
            less = _mean_kappa(d, heads // 2) < Fraction(2 * d + 4, 3 * heads) - 1
            if less != (d >= first(heads)) if d % (2 * heads) == 0 else d >= 4 * heads and not less:
                return False
    return True


def _mean_kappa(d: int, groups: int) -> Fraction:
    """Of quaternion families on groups of 4 m coordinates, the last with the rest of d: 1, 2 or 3 more."""
    blocks, rest = divmod(d, 4)
    sizes = [4 * (blocks // groups + (g < blocks % groups)) for g in range(groups)]
    total = sum(size * (size - 2) for size in sizes[:-1]) + (sizes[-1] + rest) * (sizes[-1] + rest - 2)
    return Fraction(total + (0, 9, 8, 21)[rest], 4 * d)


@EQUAL_HEADS.check(
    "just above that n MHA's loss is below SkipV1Former's floor from the threshold on; exact, d = 4 to 26",
    states=lambda heads: heads // 2,
    control=lambda _heads: 0,
    wrong="the floor of ordinary heads alone, which MHA cannot beat",
    kind="exact",
)
def mha_is_ahead(skips_of: Callable[[int], int]) -> bool:
    """The floor at a = d, by 2 H - h products, is the lowest of all ranks there, and what `threshold` takes it for."""
    for d, heads in ((4, 2), (8, 4), (16, 4), (17, 4), (24, 6), (26, 6)):
        n, skips = int((d - 1) * (Fraction(2 * d + 4, 3 * heads) - 1)) + 1, skips_of(heads)
        theta, rho = Fraction(d + 2, 2 * heads - skips) - 1, Fraction(n, n + d + 2)
        threshold = w0_heads.threshold(d, n, Fraction(1), heads, skips)
        if threshold is None:
            return False
        c = Fraction(int(threshold) + 1)
        mha = w0_heads.mha_loss_around(d, n, Fraction(1), c, heads)
        floor = d + d**2 * (1 - rho) + c**2 * d * theta / (n + theta)
        if not mha < floor == w0_heads.skipv1_few_heads_floor(d, n, Fraction(1), c, heads, skips):
            return False
        losses = w0_heads.large_prior(d, n, Fraction(1), heads, skips)
        if (losses.mha, losses.skipv1) != ((mha - d - d**2) / c**2, d * theta / (n + theta)):
            return False
        if abs(threshold**2 * float(floor - mha + rho * d**2) / float(rho * d**2 * c**2) - 1) > ROUNDING:
            return False
    return True
