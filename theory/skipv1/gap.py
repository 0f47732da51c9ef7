"""The loss gap of SkipV1Former, exactly: Theorem 2 of its appendix A at W0 = 0, restated, proved and sharpened.

Setting.  n context pairs with y = W* x + noise, x ~ N(0, I_d), W* ~ N(0, I_{d^2}), noise ~ N(0, sigma^2 I_d).  The
first layer is replaced by Assumption 1 of the paper: x_t stays in its token, y_t's token holds u_t = (A x_t ; B y_t)
with A: a x d and B: (d-a) x d, so `rank` a of d numbers are spent on x.  The second layer has two heads or more and
predicts P x_{n+1}, P = sum_h W^h G^h K^h A, where

    ordinary head (MHA):          G = S_xx + sum_t u_t u_t^T
    skip head (SkipV1Former):     G = S_xx + sum_t y_t u_t^T.

Loss: E ||y_{n+1} - P x_{n+1}||^2 = E ||P - W*||_F^2 + d sigma^2.  Minima are over A, B, K^h and W^h.

Theorem.  With lambda = 1/(n + d + 1 + sigma^2) and rho = n lambda, for every 0 <= a <= d,

    inf L_mha(a)    = d^2 + d sigma^2 - rho a (d - a)      with any H >= 1 ordinary heads; for 0 < a < d not attained
    min L_skipv1(a) = d^2 + d sigma^2 - rho a d            with at least one ordinary and one skip head; attained

and hence gap(a) = rho a^2 at equal rank, rho (d^2 - a(d-a)) to SkipV1Former's optimum (a = d), and
rho (d^2 - floor(d^2/4)) >= 3/4 rho d^2 between the two optima.

Proof.
(1) Parity.  Flipping the sign of (W*, noise) keeps the law of the prompt, turns S_yx odd and leaves S_xx and S_yy
    even.  Write P = P_odd + P_even.  W* is odd, so E||P - W*||^2 = E||P_odd - W*||^2 + E||P_even||^2.
(2) Isotropy.  The entries of S_yx are uncorrelated, each of variance v = n/lambda (`moments.signal_variance`), and
    E[(S_yx)_ij W*_kl] = n [i=k][j=l].  For P_odd = T(S_yx), T linear on R^{d^2},
        E||T(S_yx) - W*||^2 = d^2 + v ||T||^2 - 2 n tr T = d^2 (1 - rho) + v ||T - lambda I||^2,
    using v lambda^2 = n lambda = rho.
(3) Rank.  If T has rank at most r, then ||T - lambda I||^2 >= lambda^2 (d^2 - r) (Eckart-Young), so the loss is at
    least d^2 + d sigma^2 - rho r, with equality if and only if T is lambda times an orthogonal projection of rank r
    and P_even = 0.
(4) Which ranks.  An ordinary head sees S_yx only through B S_yx A^T, a (d-a) numbers.  A skip head sees it through
    S_yx A^T, a d numbers, of which B S_yx A^T is a function.  This proves both lower bounds, for any number of heads.
(5) SkipV1Former attains its bound (`gap_weights.skipv1_weights`): A = (I_a 0), B = 0, K^1 = K^2 = (I_a ; 0),
    W^2 = lambda I.  With Pi = diag(I_a, 0): P_odd = lambda S_yx Pi, and P_even = [W^1 (I + Pi) + lambda I] S_xx Pi,
    which W^1 = -lambda (I + Pi)^{-1} makes zero.
(6) MHA approaches its bound (`gap_weights.mha_weights`): A = (I_a 0), B = beta (0 I_{d-a}), one head with
    K = (I_a ; 0), W = (lambda/beta) diag(0, I).  Then P_odd = lambda times the lower-left block of S_yx, and
    P_even = (lambda/beta) times the lower-left block of S_xx, of mean square n a (d-a):
        L = inf L_mha(a) + rho lambda a (d-a) / beta^2.
(7) MHA does not attain it for 0 < a < d.  Equality needs rank A = a, rank B = d-a, P_even = 0 for every prompt and,
    P being linear in G, a linear map Phi(G) = sum_h W^h G K^h that is injective on the matrices (0 C^T ; C 0), with C
    any (d-a) x a matrix.  P_even = 0 splits by degree in (W*, noise): as the x x^T span the symmetric matrices and B
    has full rank,
        (i)  Phi(S + diag(A S A^T, 0)) = 0   for every symmetric S,
        (ii) Phi(diag(0, Z)) = 0             for every symmetric Z.
    Let A = (A_1 A_2), A_1: a x a.  It suffices to find a symmetric S with S_11 = 0, S_12 != 0 and
    (A S A^T) = A_1 S_12 A_2^T + A_2 S_21 A_1^T + A_2 S_22 A_2^T = 0: by (i) and (ii) then Phi(0 S_12 ; S_21 0) = 0
    with C = S_21 != 0, against injectivity.
    (Phi(G) A = 0 and Phi(G) = 0 are the same, as A has full row rank.)
      - A_1 singular, A_1 v = 0:         S_12 = v w^T for any w != 0,      S_22 = 0.
      - A_1 regular, A_2 = 0:            S_12 anything,                    S_22 = 0.
      - A_1 regular, A_2 != 0:           S_12 = A_1^{-1} A_2,              S_22 = -2 I.
    (`gap_weights.unattained_witness` builds this S for any A.)                                                 QED

What is wrong with the printed theorem
--------------------------------------
It takes W* ~ N(W0, I) and assumes sigma_d(W0) > 2 sqrt(d) sigma, which excludes W0 = 0; but its Lemmas 1 to 3 (ridge
as the posterior mean, the parity split, the isotropy of S_yx) hold only at W0 = 0.  It minimises over the attention
weights with A and B fixed, and at A = 0 both models predict zero, so no c > 0 is independent of A.  Its bound on the
gap uses the rank of the d x d matrix P, not of the linear map T: between a = 0 and a = d it is far too small, and zero
for n <= a (`paper_bound`).  The ledger (`crosslayer verify`) lists these one by one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from theory.errors import InvalidSize, check_sizes
from theory.prompts.setting import Estimate, Number, signal_share, zero_loss

if TYPE_CHECKING:
    from numpy import float64
    from numpy.random import Generator
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Gaps:
    """The theorem's five numbers at one task and rank, in squared units of y summed over its d entries.

    mha, skipv1       the lowest losses at this rank
    gap               between these two
    gap_to_optimum    from MHA at this rank to SkipV1Former at its best rank
    gap_of_optima     between both at their best ranks
    """

    mha: float
    skipv1: float
    gap: float
    gap_to_optimum: float
    gap_of_optima: float


def gaps(zero: Any, *, mha: Any, skipv1: Any, best_mha: Any, best_skipv1: Any) -> Gaps:
    """Return the theorem's numbers from the loss of predicting zero and from what both models explain.

    mha and skipv1 are at one rank, best_mha and best_skipv1 at their best ranks.
    """
    return Gaps(
        zero - mha, zero - skipv1, skipv1 - mha, gap_to_optimum=best_skipv1 - mha, gap_of_optima=best_skipv1 - best_mha
    )


@dataclass(frozen=True)
class LossGap(Gaps):
    """The theorem's five numbers at one isotropic task and rank, and rho.

    Losses are in squared units of y, summed over its d entries.

    Attributes:
        mha: Loss of the best MHA at rank a, an infimum.
        skipv1: Loss of the best SkipV1Former at rank a.
        gap: `mha` minus `skipv1`.
        gap_to_optimum: `mha` minus the loss of SkipV1Former at its best rank, a = d.
        gap_of_optima: The loss of MHA at its best rank, d // 2, minus that of SkipV1Former at its own, d.
        rho: The share of each entry of W* that S_yx explains, from 0 to 1.
    """

    rho: float


def mha_explained(d: int, n: int, sigma: Number, rank: int) -> Any:
    """Return rho a (d - a), by which the best two-layer MHA beats predicting zero."""
    check_sizes(d, n, sigma, rank)
    return signal_share(d, n, sigma) * rank * (d - rank)


def skipv1_explained(d: int, n: int, sigma: Number, rank: int) -> Any:
    """Return rho a d, by which the best SkipV1Former beats predicting zero."""
    check_sizes(d, n, sigma, rank)
    return signal_share(d, n, sigma) * rank * d


def best_mha_rank(d: int) -> int:
    """Return floor(d / 2), the rank at which MHA explains most."""
    return d // 2


def loss_gap(d: int, n: int, sigma: Number, rank: int) -> LossGap:
    """Return the theorem's five numbers and rho, exact if sigma is a Fraction.

    Raises InvalidSize for impossible sizes.
    """
    numbers = gaps(
        zero_loss(d, n, sigma),
        mha=mha_explained(d, n, sigma, rank),
        skipv1=skipv1_explained(d, n, sigma, rank),
        best_mha=mha_explained(d, n, sigma, best_mha_rank(d)),
        best_skipv1=skipv1_explained(d, n, sigma, d),
    )
    return LossGap(**vars(numbers), rho=signal_share(d, n, sigma))


LARGEST_SPECTRUM = 1024
FEWEST_SAMPLES = 8


def paper_bound(d: int, n: int, sigma: float, rank: int, *, samples: int | None = None) -> Estimate:
    """Return the paper's own lower bound on the gap between MHA at `rank` and SkipV1Former's optimum.

    lambda^2 E sum_{i > a} sigma_i(S_yx)^2, from the last step of appendix A.1; at a = d, where B is empty and the paper
    argues separately, lambda^2 E ||S_yx||^2.  Compare it with `gap_to_optimum` and with no other gap.

    Exact for a = 0 and a = d, and for n <= a < d, where S_yx has rank n and the bound is zero.  Else the mean over
    `samples` draws of S_yx from a fixed generator (default: about a second's worth), with ||S_yx||^2, whose mean is
    known, as control variate.  Raises InvalidSize for d above LARGEST_SPECTRUM or fewer than FEWEST_SAMPLES samples.
    """
    check_sizes(d, n, sigma, rank)
    rho = float(signal_share(d, n, sigma))
    if rank in (0, d):
        return Estimate(rho * d**2, 0.0, "exact: rho d^2")
    if n <= rank:
        return Estimate(0.0, 0.0, "exact: S_yx has rank at most n <= a")
    if d > LARGEST_SPECTRUM:
        raise InvalidSize(f"the paper's bound is estimated for d up to {LARGEST_SPECTRUM}, got {d}")
    samples = max(32, min(20_000, int(4e8 / (10 * d**3)))) if samples is None else samples
    if samples < FEWEST_SAMPLES:
        raise InvalidSize(f"the paper's bound needs at least {FEWEST_SAMPLES} samples, got {samples}")
    import numpy as np

    squares = _sampled_spectra(d, n, float(sigma), samples)
    total, tail = squares.sum(axis=1), squares[:, : d - rank].sum(axis=1)
    slope = np.cov(tail, total)[0, 1] / total.var(ddof=1)
    adjusted = tail - slope * (total - rho * d**2)
    return Estimate(
        value=float(adjusted.mean()),
        stderr=float(adjusted.std(ddof=2) / samples**0.5),
        method=f"Monte Carlo over {samples} prompts with control variate ||S_yx||^2",
    )


@lru_cache(maxsize=8)
def _sampled_spectra(d: int, n: int, sigma: float, samples: int) -> NDArray[float64]:
    """Return `_squared_singular_values` of the first draws from a fixed generator: (samples, d).

    The draws are the same for every rank.
    """
    import numpy as np

    rng = np.random.default_rng(0)
    spectra = np.stack([_squared_singular_values(d, n, sigma, rng) for _ in range(samples)])
    spectra.flags.writeable = False
    return spectra


def _squared_singular_values(d: int, n: int, sigma: float, rng: Generator) -> NDArray[float64]:
    """Return ascending squared singular values of lambda S_yx for one prompt, at a cost that does not grow with n.

    X = L Q with Q's rows orthonormal, so S_yx = (W* L + sigma noise Q^T) L^T, and noise Q^T is again standard normal.
    For n > d the entries of L are independent (Bartlett): normal below the diagonal, chi with n - i degrees on it.
    """
    import numpy as np

    if n > d:
        factor = np.tril(rng.standard_normal((d, d)), -1) + np.diag(np.sqrt(rng.chisquare(n - np.arange(d))))
    else:
        factor = rng.standard_normal((d, n))
    noise = rng.standard_normal((d, factor.shape[1]))
    s_yx = (rng.standard_normal((d, d)) @ factor + sigma * noise) @ factor.T / (n + d + 1 + sigma**2)
    return np.linalg.eigvalsh(s_yx @ s_yx.T).clip(min=0)
