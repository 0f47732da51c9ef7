"""Theorem 2 of SkipV1Former as it could have been: a term C x_{n+1} in the prediction, and it holds around every W0."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from experiments.ledger.claim import Claim
from experiments.skipv1.claims.assumptions import ANY_W0
from experiments.skipv1.claims.rational_matrices import identity, whole_matrix
from experiments.toys.checks import ROUNDING
from theory.plans.heads import MHA, ORDINARY, SKIP, SKIPV1, Heads
from theory.prompts.moments import Array, PromptMoments
from theory.skipv1 import bias as skipv1_bias
from theory.skipv1.paper import PAPER
from theory.toy.enough_heads import EnoughHeads
from theory.toy.exact import loss_at_entries, prompt_map, random_weights
from theory.toy.population import PopulationLoss

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
            if with_bias != _loss(heads, d, n, sigma, w0).value(weights):
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
            found = loss.value(skipv1_bias.skipv1_weights(d, n, sigma, rank, w0))
            if not found == skipv1_bias.skipv1_minimum(d, n, sigma, rank) == loss_at_entries(d, n, sigma, rank * d):
                return False
    return True


@BIAS.check(
    "one ordinary head attains MHA's infimum around invertible W0, and approaches it like 1/beta^2 around singular W0",
    states=1,
    control=-1,
    wrong="B with its sign turned, which adds what it has to cancel",
    kind="float64",
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
    weights = skipv1_bias.mha_weights(d, 3, 0.5, rank, w0, abs(beta))
    turned = type(weights)(weights.a, np.copysign(1, beta) * weights.b, weights.w, weights.k)
    return _loss((ORDINARY,), d, 3, 0.5, w0).value(turned) - infimum


@BIAS.check(
    "nothing does better: with enough heads the best of eight descents ends on MHA's infimum, d = 2, 3 and four W0",
    states=0,
    control=1,
    wrong="one more entry of W* explained",
    kind="descent",
)
def mha_ends_there(more: int) -> bool:
    """At given A and B the best of all linear maps of the heads' sums is a regression; A and B descend.

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
