"""SkipV1Former with softmax heads against any model that sees compressed tokens alone: a lower bound on the gap.

Setting of `theory.skipv1.gap` at W0 = 0: Assumption 1 has made the tokens TF_1(E), x_t and u_t = (A x_t ; B y_t), and
of the query (A q ; 0), q = x_{n+1}.  A *compressed model* is any function of these 2n + 1 tokens, random ones included:
layers of any number and kind.  A *softmax head* of the second layer is Eqn. (2) or (3) with a softmax in place of
linear scores, over the 2n context tokens (the paper's P hides the query): with keys k_j in TF_1(E), and values v_j in
TF_1(E) (ordinary) or E (skip), it adds W sum_j softmax_j(k_j^T K A q) v_j to the prediction.

Notation: a the rank, Pi = diag(I_a, 0), rho = n/(n + d + 1 + sigma^2), lambda = rho/n, M = max(d, n + sigma^2), and r
the share of W* that ridge regression, the posterior mean, explains.

Theorem.
(1) Compressed models lose at least d^2 + d sigma^2 - r a (d - a), and one loses just that; r <= n/M <= 1.
(2) Softmax heads at finite weights lose less than d^2 + d sigma^2 - rho a d for every a >= 1: two skip heads with one
    ordinary head at a = d, with two ordinary ones at a < d.  So they lose less than linear heads can, whatever n.
(3) So the gap to compressed models is more than rho a d - r a (d - a) at equal rank, and between the optima over a more
    than rho d^2 - r floor(d^2/4), which is positive for all d, n and sigma.
(4) With one skip and one ordinary softmax head the loss tends to d^2 + d sigma^2 - a d as n grows, eps -> 0 and
    n eps^2 -> infinity.  So the paper's two heads are enough for (3) if prompts are long, and then the gap between the
    optima tends to d^2 - floor(d^2/4).
What (2) and (4) say is that weights exist; `softmax_bound` proves how much they explain at given eps.

Proof.
(i) (1) is item 1 of `theory.skipv1.compressed`.
(ii) Weights.  A = -(I_a 0), B = 0, K = eps (I_a ; 0).  With l_t = x_t^T Pi q the logits are eps l_t on y_t's token,
    whose key is -Pi x_t, and -eps l_t on x_t's.  So the sum of all exponentials is 2 n C, C = (1/n) sum cosh(eps l_t),
    and K and -K exchange the two tokens of a pair.  That sign of A makes the softmax's denominator even in eps: the
    softmax's covariances need no means.  Times 2 n C, a skip and an ordinary head have
        sum e^(eps l_t) y_t + e^(-eps l_t) x_t      and      sum (-e^(eps l_t) Pi + e^(-eps l_t)) x_t.
    Two skip heads, K and -K, readouts +-(n c/eps) I, leave (c/eps) sum sinh(eps l_t) (y_t - x_t) / C.  Two ordinary
    heads with readouts -+(n c/eps) (I + Pi)^{-1} add (c/eps) sum sinh(eps l_t) x_t / C; at a = d a single one does,
    with -(n c/eps) I, as then -e^(eps l) Pi + e^(-eps l) = -2 sinh(eps l).  So the prediction is exactly
        f = c sum_t h_t y_t,        h_t = sinh(eps l_t) / (eps C).
    One skip head with 2 (n c/eps) I, one ordinary with -2 (n c/eps) (I + Pi)^{-1}: as e^(eps l) = cosh + sinh,
        f = c sum_t h_t y_t + c sum_t k_t (y_t + Pi x_t),        k_t = cosh(eps l_t) / (eps C).
(iii) Loss.  Let s = |Pi q|, g_t the component of x_t along Pi q, so that l_t = s g_t, s^2 ~ chi^2_a, g_t ~ N(0, 1).
    The other d - 1 components of x_t, W* and the noise are independent of s and g, and the d outputs are alike.  So
        E|f - W* q|^2 = d^2 - d (2 c X - c^2 Y),        X = E s sum h_t g_t,
        Y = E[(sum h_t g_t)^2 + (d - 1 + sigma^2) sum h_t^2].
    The second sum of one skip head is even in q, the first one and W* q are odd: it adds d c^2 Q.  Flipping the sign of
    (W*, noise) parts sum k_t y_t from sum k_t Pi x_t, so
        Q = (1 + 1/d) E(sum k_t g_t)^2 + (d - 1 + (a - 1)/d + sigma^2) E sum k_t^2.
    The best c explains d X^2/Y, or d X^2/(Y + Q).
(iv) At eps -> 0, h_t -> l_t, X -> a n and Y -> a n (n + d + 1 + sigma^2), so that d X^2/Y -> rho a d.  For
    |eps| < eps_0 the derivatives of h_t in eps are at most polynomials of the l_t times exp(C' eps_0 sum |l_t|), as
    C >= 1, and that has a finite mean if eps_0 is small: X and Y are smooth, and they are even.  As
        h_t = l_t + eps^2 (l_t^3/6 - l_t sum_s l_s^2/(2 n)) + O(eps^4)
    and E(sum g^2)^2 = n (n + 2), E sum g^4 = 3 n, E(sum g^2)^3 = n (n + 2)(n + 4), E sum g^2 sum g^4 = 3 n (n + 4),
    their derivatives in eps^2 are X' = -a (a + 2) and Y' = -2 a (a + 2)(n + d + 3 + sigma^2), whence
        2 X'/X - Y'/Y = 4 (a + 2) / (n (n + d + 1 + sigma^2)) > 0:
    small logits explain more than none.  This proves (2).
(v) rho = n/(n + sigma^2 + d + 1) >= n/(2 M + 1), and floor(d^2/4) r <= d^2 n/(4 M), so that
        rho d^2 - r floor(d^2/4) >= n d^2 (2 M - 1) / (4 M (2 M + 1)) > 0,        which proves (3).
(vi) Let c = 1/n.  By 1/C >= 2 - C, X/n >= E (s/eps) g_1 sinh(eps l_1)(2 - C) -> a.  By C >= 1,
    Y/n^2 <= E s^2 exp(eps^2 s^2) + O(1/n) -> a and Q/n^2 = O(1/(n eps^2)) -> 0.  So at least a d of W* is explained in
    the limit.  No more can be: the query's other d - a entries are not seen.                                    QED

Other tokens in the softmax.  A sink, a token of value zero and a fixed score, makes C a mean of the cosh's and of ones,
still at least 1.  All of this holds with it but one thing: (2) says "as near as one likes", as the sign in (iv) depends
on the score.
The query's own token, which P hides, has the value q and the logit eps |q|^2.  With it in the softmax the four heads at
a = d tend, for eps -> 0 and N = 2 n + 1, to c times
    S_yx q + (3 n/N) |q|^2 q - (n/N) |q|^2 (mean of the x_t + mean of the y_t).
These terms are uncorrelated: E|S_yx q|^2 = d^2 n (n + d + 1 + sigma^2), those of the other two are d (d + 2) (n/N)^2
times 9 (d + 4) and times d (1 + d + sigma^2)/n, and W* q meets the first one alone.  So less is explained, but still
all of W* as n grows (`own_token_share`), and the separation stays for long prompts.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from theory.errors import BadInput, at_least, check_sizes
from theory.plans.heads import ORDINARY, SKIP, SKIPV1, Heads
from theory.prompts.setting import Number, signal_share, zero_loss
from theory.skipv1.compressed import any_model_floor
from theory.skipv1.gap import best_mha_rank, skipv1_explained
from theory.toy.population import Weights

TWO: Heads = SKIPV1
THREE: Heads = (ORDINARY, SKIP, SKIP)
FOUR: Heads = (ORDINARY, ORDINARY, SKIP, SKIP)


def softmax_weights(d: int, n: int, rank: int, heads: Heads, logit_scale: float, step: float) -> Weights:
    """Return the weights of step (ii) for the heads TWO, FOUR or, at rank d, THREE; step: c.

    Raises InvalidSize, and BadInput for other heads.
    """
    check_sizes(d, n, 0, rank)
    if heads not in (TWO, FOUR) and not (heads == THREE and rank == d):
        raise BadInput(
            "there are weights for one or two heads of each kind, and at full rank for one and two skip heads"
        )
    eye = np.eye(d)
    keep, size = eye[:rank], n * step / logit_scale
    cancel = -np.diag(1 / (1 + keep.sum(0)))
    turned = {
        TWO: [(1, 2 * cancel), (1, 2 * eye)],
        THREE: [(1, -eye), (1, eye), (-1, -eye)],
        FOUR: [(1, cancel), (-1, -cancel), (1, eye), (-1, -eye)],
    }[heads]
    return Weights(
        a=-keep,
        b=0 * eye[rank:],
        w=size * np.stack([readout for _, readout in turned]),
        k=logit_scale * np.stack([sign * keep.T for sign, _ in turned]),
    )


def small_logits_gain(d: int, n: int, sigma: Number, rank: int) -> Any:
    """Return what is explained beyond rho a d, over eps^2, as eps -> 0; (iv).

    It is 4 (a + 2) rho a d / (n (n + d + 1 + sigma^2)), with two skip heads and the best step.  Exact if sigma is a
    Fraction.  Raises InvalidSize.
    """
    explained = skipv1_explained(d, n, sigma, rank)
    return explained * 4 * (rank + 2) / (n * (n + d + 1 + sigma**2))


def gap_at_rank(d: int, n: int, sigma: Number, rank: int) -> Any:
    """Return rho a d - a (d - a) n/M, a lower bound on SkipV1Former's lead over all compressed models of its rank.

    Not positive where prompts are short and ranks low.  Exact if sigma is a Fraction.  Raises InvalidSize.
    """
    return any_model_floor(d, n, sigma, rank) - zero_loss(d, n, sigma) + skipv1_explained(d, n, sigma, rank)


def gap_of_optima(d: int, n: int, sigma: Number) -> Any:
    """Return rho d^2 - floor(d^2/4) n/M > 0, the lower bound on the lead if both are at their best ranks."""
    best = any_model_floor(d, n, sigma, best_mha_rank(d))
    return best - zero_loss(d, n, sigma) + skipv1_explained(d, n, sigma, d)


def own_token_share(d: int, n: int, sigma: Number) -> Any:
    """Return the share of W* that FOUR heads explain for eps -> 0 with the query's own token in the softmax, at rank d.

    Exact if sigma is a Fraction.  Raises InvalidSize.
    """
    at_least("n", n, 1)
    rho, noise = signal_share(d, n, sigma), sigma**2
    cubic = (d + 2) * (9 * (d + 4) + d * (1 + d + noise) * Fraction(1, n)) / (d * (2 * n + 1) ** 2)
    return 1 / (1 / rho + cubic)
