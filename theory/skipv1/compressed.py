"""Deeper toys whose tokens are compressed: SkipV1Former's remaining gap after k layers, and at any depth.

Setting of `theory.skipv1.gap`, W0 = 0.  The first layer has put u_t = (A x_t ; B y_t) into y_t's token, A: a x d and
B: (d - a) x d, and (A x ; 0) into the query's.  SkipV1Former's appendix A.2 has each further layer do a gradient step.

1. Any depth.  A model that sees nothing but these tokens, and the x_t in theirs, has at least the loss
       d^2 + d sigma^2 - r a (d - a) >= d^2 + d sigma^2 - a (d - a),
   whatever it computes, with r the share of W* that ridge regression explains (`theory.prompts.regression`): it
   explains at most a (d - a) entries of W*, a quarter at best.  This holds for every function of these tokens, random
   ones included: any number of layers, with softmax and feed-forward too.  The posterior mean has the first loss
   exactly, for A = (I_a 0), B = (0 I_{d-a}).  And r <= n/M, M = max(d, n + sigma^2) >= n.
   What it rests on: W* and the noise are normal, isotropic and centred, so that the rows of W* are independent; the x_t
   and the query are independent and isotropic; A and B are fixed, not functions of the prompt; and (A q ; 0) is all
   that is seen of the query q.
   Proof.  Rotate x and y so that A sees the first a' <= a entries of x and B the first b <= d - a of y.  The rows of W*
   and of the noise are independent, so nothing tells of the d - b rows that B does not see: their label has mean 0
   given all that is seen, and each costs d + sigma^2.  On the others, the entries of q that A does not see are
   independent of all that is seen and have mean 0, so that the label's mean given all that is seen is
   sum_(j <= a') m_ij q_j, m the mean of W* given the x_t and the seen rows of the y_t.  No function of what is seen is
   nearer, and it explains sum E m_ij^2: as x is isotropic, r for each of a' b entries.  Last,
   r = E tr G (G + sigma^2)^{-1} / d with G = S_xx of rank at most n, so r <= n/d; and by Jensen, twice,
   r <= n/(n + sigma^2).                                                                                         QED

2. k gradient steps.  Let A = (I_a 0) and B = (0 I_{d-a}), and let k layers with a residual stream follow, in the family
   of `theory.toy.deep`: A x_t stays, and a slot of d - a numbers holds B y_t and the predictions so far.
   (i)  MHA has a regression from a inputs to d - a outputs before it, with noise of variance v = sigma^2 + d - a: the
        unseen part of x acts like noise, for B y_t = (W* on seen entries) A x_t + e_t with E e_t e_s^T = [t = s] v I,
        and only second moments enter the lemma of `theory.prompts.regression`.  With l_k the best polynomial's loss on
        one output of that task,
            L_mha = (d - a) l_k + a (d + sigma^2).
   (ii) SkipV1Former's skip heads read raw y_t too, but the stream has no room for the a outputs that B drops.  Those
        leave with the last layer's output, in place of A x, which is needed no more: one gradient step from a
        inputs, with the loss v + a (1 - rho) = d + sigma^2 - rho a each, rho = n / (n + a + 1 + v), the rho of
        `theory.skipv1.gap`.  So
            L_skipv1 = (d - a) l_k + a (d + sigma^2 - rho a),
        and at equal rank the gap is rho a^2 after any number of steps.  For k = 1 that is the theorem of
        `theory.skipv1.gap`.
   For own values l_k is right if d - a is even or v is not above the threshold of `theory.prompts.spectral`.
   Otherwise MHA loses more, and the gap is larger.

The proof of SkipV1Former's Theorem 2 does not go this far: it needs P to be a fixed linear map of S_yx, and from two
steps on P = S_yx q(S_xx) is none.  Its bound, rho for each number that is seen, is then false (`skipv1.a2-deeper`).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from theory.errors import check_sizes
from theory.prompts.regression import ridge
from theory.prompts.setting import Estimate, Number, signal_share, zero_loss
from theory.prompts.spectral import best_output_loss


@dataclass(frozen=True)
class CompressedLosses:
    """The losses of (2), and `floor` of (1), in squared units of y summed over its d entries; exact."""

    mha: Fraction
    skipv1: Fraction
    floor: Fraction

    @property
    def gap(self) -> Fraction:
        return self.mha - self.skipv1


def compressed_losses(d: int, n: int, sigma: Number, rank: int, steps: int) -> CompressedLosses:
    """Return the losses after `steps` gradient steps, one per layer, at rank a.  Raises InvalidSize."""
    check_sizes(d, n, sigma, rank)
    noise = Fraction(sigma) ** 2
    visible_loss = (d - rank) * best_output_loss(rank, n, noise + d - rank, steps)
    dropped_loss = rank * (d + noise)
    return CompressedLosses(
        mha=visible_loss + dropped_loss,
        skipv1=visible_loss + dropped_loss - Fraction(signal_share(d, n, Fraction(sigma))) * rank**2,
        floor=any_depth_floor(d, Fraction(sigma), rank),
    )


def any_depth_floor(d: int, sigma: Number, rank: int) -> Any:
    """Return d^2 + d sigma^2 - a (d - a) of (1), exact if sigma is a Fraction.

    Raises InvalidSize.
    """
    check_sizes(d, 1, sigma, rank)
    return zero_loss(d, 1, sigma) - rank * (d - rank)


def any_model_floor(d: int, n: int, sigma: Number, rank: int) -> Any:
    """Return d^2 + d sigma^2 - a (d - a) n/max(d, n + sigma^2), a floor as r stays below that ratio; (1).

    Exact if sigma is a Fraction, and never lower than `any_depth_floor`, its limit as n grows.
    """
    check_sizes(d, n, sigma, rank)
    seen = (n + 0 * sigma) / max(d, n + sigma**2)
    return zero_loss(d, n, sigma) - seen * rank * (d - rank)


def best_model_loss(d: int, n: int, sigma: float, rank: int) -> Estimate:
    """Return d^2 + d sigma^2 - r a (d - a), the loss of the best of all models of compressed tokens; (1).

    As exact as `regression.ridge`.  Raises InvalidSize.
    """
    check_sizes(d, n, sigma, rank)
    bayes, zero = ridge(d, n, sigma), float(zero_loss(d, n, sigma))
    seen = rank * (d - rank) / d**2
    return Estimate(zero - seen * (zero - bayes.value), seen * bayes.stderr, bayes.method)
