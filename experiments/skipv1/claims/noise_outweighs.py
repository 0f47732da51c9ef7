"""Signal against noise at the end of SkipV1Former's proof of Theorem 2 (appendix A.1), where c > 0."""

from __future__ import annotations

from collections.abc import Callable
from math import gamma, pi, sqrt

import numpy as np
import sympy

from experiments.ledger.claim import Claim
from experiments.skipv1.claims.edelman import mean_over_least_singular
from theory.prompts.moments import Array
from theory.skipv1.paper import PAPER
from theory.toy.tokens import whole


def signal_bound(d: int, w: float) -> float:
    """sqrt(w^2 + d) E l at n = d, l the least eigenvalue of S = X X^T: more than E sigma_d(W* S) around W0 = w I.

    Let v be a unit eigenvector of S for l.  Then sigma_d(W* S) <= |W* S v| = l |W* v|, and given X the mean square of
    |W* v| is w^2 + d, so E sigma_d(W* S) <= sqrt(w^2 + d) E l.

    The noise.  The first row of noise X^T has length sigma |X z|, z standard normal in n dimensions, of mean
    sigma E chi_n E chi_d, so E||noise X^T||_2 >= sigma E chi_n E chi_d.

    The sign.  At n = d, l is at most the squared distance of one row of X to the span of the others, of mean 1; so for
    any sigma > 0, w just above 2 sqrt(d) sigma and d large, E sigma_d - E||noise X^T|| <=
    sqrt(4 d sigma^2 + d) - sigma (d - 1/2) < 0.
    """
    return (w**2 + d) ** 0.5 * mean_over_least_singular(lambda u: u * u, d)


NOISE_OUTWEIGHS = Claim(
    "skipv1.noise-outweighs",
    PAPER.name,
    place="appendix A.1, proof of the theorem, last display: E[sigma_d(W* X X^T) - ||epsilon X||_2] > 0",
    statement="Under the theorem's hypothesis the expectation is positive, and so c > 0.",
    assumes="epsilon X^T for epsilon X",
    verdict="refuted",
    correction="At d = n = 2, sigma = 1, W0 = 3 I it is at most sqrt(11) (2 - pi/2) - pi/2 = -0.15, and -23 at d "
    "= n = 20, sigma = 1/2, W0 = 4.5 I.  For n < d the first term is zero.  At n = d and any sigma > 0 it fails "
    "near the threshold for every large d, where the theorem asks for large d; at d = 1 it holds.  Being positive "
    "would be enough for c > 0, but is not needed: S_yx has rank min(d, n) almost surely, for every W0, so that c "
    "> 0 if and only if n > a (skipv1.c-positive).",
    proof=signal_bound,
    uses=("skipv1.weyl", "skipv1.c-positive"),
)


def _chi_mean(k: int) -> float:
    return 2**0.5 * gamma((k + 1) / 2) / gamma(k / 2)


@NOISE_OUTWEIGHS.check(
    "the bound sqrt(w^2 + d) E l - sigma (E chi_d)^2 at d = n = 2, sigma = 1, w = 3",
    states=sqrt(11) * (2 - pi / 2) - pi / 2,
    control=sqrt(11) * (2 - pi / 2),
    wrong="without noise",
    kind="float64",
)
def bound_is_negative(value: float) -> bool:
    """sqrt(w^2 + d) E l - sigma (E chi_d)^2 at d = n = 2, sigma = 1, w = 3, where w > 2 sqrt(d) sigma."""
    d, sigma, w = 2, 1.0, 3.0
    bound = signal_bound(d, w) - sigma * _chi_mean(d) ** 2
    return w**2 > 4 * d * sigma**2 and value < 0 and abs(bound - value) <= 1e-8


@NOISE_OUTWEIGHS.check(
    "E l = 2 - pi/2 at d = n = 2, l the least eigenvalue of X X^T, from its exact density",
    states=2 - pi / 2,
    control=1.0,
    wrong="1, the bound by one row",
    kind="exact",
)
def least_eigenvalue_mean(value: float) -> bool:
    """E l at d = n = 2, from the density.  X is a sum of a rotation and a reflection times independent Rayleigh
    lengths r_1, r_2 of mean square 1, and l = (r_1 - r_2)^2, so that E l = 2 - 2 (E r)^2 = 2 - pi/2."""
    return abs(mean_over_least_singular(lambda u: u * u, 2) - value) <= 1e-8


def _simulated(d: int, sigma: float, w: float, samples: int) -> tuple[Array, Array]:
    """sigma_d(W* S) and ||noise X^T||_2 at W0 = w I, n = d: (samples,) each."""
    fluctuation, x, noise = np.random.default_rng(68).standard_normal((3, samples, d, d))
    xt = x.swapaxes(1, 2)
    signal = np.linalg.svd((w * np.eye(d) + fluctuation) @ x @ xt, compute_uv=False)[:, -1]
    return signal, np.linalg.norm(sigma * noise @ xt, 2, axis=(1, 2))


SIMULATED = ((2, 1.0, 3.0, 4000), (20, 0.5, 4.5, 500))


@NOISE_OUTWEIGHS.check(
    "both halves of the bound hold in simulation, at d = n = 2 and 20, to five standard errors",
    states=1.0,
    control=0.5,
    wrong="half the bound on the signal",
    kind="sampled",
)
def simulated_bounds(factor: float) -> bool:
    """factor sqrt(w^2 + d) E l >= E sigma_d(W* S), E||noise X^T||_2 >= sigma (E chi_d)^2, to five standard errors."""
    for d, sigma, w, samples in SIMULATED:
        signal, noise = _simulated(d, sigma, w, samples)
        if signal.mean() - 5 * signal.std() / samples**0.5 > factor * signal_bound(d, w):
            return False
        if noise.mean() + 5 * noise.std() / samples**0.5 < sigma * _chi_mean(d) ** 2:
            return False
    return True


@NOISE_OUTWEIGHS.check(
    "simulation at both sizes: negative by five standard errors", states=-1, control=1, wrong="positive", kind="sampled"
)
def simulated_difference(sign: int) -> bool:
    """The sign of E[sigma_d(W* S) - ||noise X^T||_2], by five standard errors."""
    for case in SIMULATED:
        signal, noise = _simulated(*case)
        difference = sign * (signal - noise)
        if difference.mean() <= 5 * difference.std() / len(difference) ** 0.5:
            return False
    return True


@NOISE_OUTWEIGHS.check(
    "S_yx has rank min(d, n), around W0 = 0 and others; whole numbers, exact, d = 1..3",
    states=lambda d, n: min(d, n),
    control=lambda d, n: d,
    wrong="d for every n",
    kind="exact",
)
def s_yx_rank(rank_of: Callable[[int, int], int]) -> bool:
    """The rank of W S + noise X^T, W around W0 = 0 and around a regular W0: min(d, n), exact, whole numbers."""
    rng = np.random.default_rng(70)
    for d in (1, 2, 3):
        for n in (1, 2, 3, 5):
            for w0 in (0, 9):
                x = whole(rng, d, n) + 7 * np.eye(d, n, dtype=int)
                w, noise = rng.integers(-99, 100, (d, d)).astype(object) + w0 * np.eye(d, dtype=int), whole(rng, d, n)
                if sympy.Matrix(w @ x @ x.T + noise @ x.T).rank() != rank_of(d, n):
                    return False
    return True
