"""Checks behind the ledger's entries on the last steps of SkipV1Former's proof, from the lower bound on L_1 to c > 0.

Three short proofs that the entries use.

Factor (`skipv1.lambda-factor`).  For regular Lambda with least singular value s, Lambda^-1 R_a(Lambda M) has rank a at
most, so ||M - R_a(M)|| <= ||M - Lambda^-1 R_a(Lambda M)|| <= ||Lambda M - R_a(Lambda M)|| / s.

Positivity (`skipv1.c-positive`).  For n > a and any W0, S_yx = W* S + noise X^T has rank above a almost surely: its
rows lie in the range of S, and given X and the noise W* has a density, so S_yx has the rank of S, min(d, n).  This is
all that c > 0 needs.

Sign (`skipv1.noise-outweighs`).  Let W0 = w I and v be a unit eigenvector of S = X X^T for its least eigenvalue l.
Then sigma_d(W* S) <= |W* S v| = l |W* v|, and given X the mean square of |W* v| is w^2 + d, so E sigma_d(W* S) <=
sqrt(w^2 + d) E l.  The first row of noise X^T has length sigma |X z|, z standard normal in n dimensions, of mean
sigma E chi_n E chi_d, so E||noise X^T||_2 >= sigma E chi_n E chi_d.  At n = d, l is at most the squared distance of one
row of X to the span of the others, of mean 1; so for any sigma > 0, w just above 2 sqrt(d) sigma and d large,
E sigma_d - E||noise X^T|| <= sqrt(4 d sigma^2 + d) - sigma (d - 1/2) < 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import sympy

from experiments.claims.skipv1_lemma12_checks import over_spectrum
from experiments.claims.tokens import draw, draw_weights, whole
from theory import skipv1
from theory.moments import Array
from theory.population import Weights
from theory.toy import MHA, ORDINARY, SKIPV1


def excess_is_at_least_c(model: str) -> bool:
    """min over weights of any rank: the loss lies above min L_2 by c of rank d - 1, the least of all c."""
    d, n, sigma = 3, 8, 0.3
    gaps = [skipv1.loss_gap(d, n, sigma, a) for a in range(d + 1)]
    bound = skipv1.paper_bound(d, n, sigma, d - 1)
    losses = [gap.mha if model == "L_1" else gap.skipv1 for gap in gaps]
    return bound.value - 5 * bound.stderr > 0 and min(losses) - gaps[d].skipv1 >= bound.value + 5 * bound.stderr


def c_is_least_at(rank: Callable[[int], int]) -> bool:
    """Over a < d, by five standard errors at n >= d; and zero there for n < d."""
    for d, n in ((2, 3), (3, 4), (4, 9)):
        bounds = [skipv1.paper_bound(d, n, 0.5, a, samples=2000) for a in range(d)]
        least = bounds[rank(d)]
        if any(b.value - least.value < 5 * np.hypot(b.stderr, least.stderr) for b in bounds if b is not least):
            return False
        if skipv1.paper_bound(d, d - 1, 0.5, rank(d)).value != 0:
            return False
    return True


def norms_add_up_noiseless(power: int) -> bool:
    """d = n = 1, sigma = 0, N_3 = 0: E|W*|^p = C_3 + E|lambda W* x^2|^p with C_3 = 2/3, lambda = 1/3."""
    z = sympy.Symbol("z", real=True)
    density = sympy.exp(-(z**2) / 2) / sympy.sqrt(2 * sympy.pi)

    def moment(order: int) -> Any:
        return 2 * sympy.integrate(z**order * density, (z, 0, sympy.oo))

    left = moment(power)
    right = sympy.Rational(2, 3) + sympy.Rational(1, 3) ** power * moment(power) * moment(2 * power)
    return bool(sympy.simplify(left - right) == 0)


def norms_add_up(power: int) -> bool:
    """d = 1, n = 4, sigma = 0.7, N_3 = S_yx / 5: the same with N_3 subtracted on both sides, by quadrature over S."""
    n, sigma, other = 4, 0.7, 0.2
    step = 1 / (n + 2 + sigma**2)
    of_normal = {1: (2 / np.pi) ** 0.5, 2: 1.0}  # E|z|^order: S_yx is normal given S

    def mean(function: Callable[[float], float], order: int) -> tuple[float, float]:
        """E|function(S) S_yx|^order and its error."""
        value, error = over_spectrum(lambda s: (s**2 + sigma**2 * s) ** (order / 2) * abs(function(s)) ** order, n)
        return value * of_normal[order], error

    c_3, e_1 = mean(lambda s: 1 / (s + sigma**2) - step, 2)
    left, e_2 = mean(lambda s: 1 / (s + sigma**2) - other, power)
    right, e_3 = mean(lambda _s: step - other, power)
    return abs(left - c_3 - right) <= 10 * (e_1 + e_2 + e_3)


def rank_is_at_most(version: tuple[str, Callable[[int, int], int]]) -> bool:
    """The rank of the part of P odd in Y, whole-number prompts and weights; attained by one of these sizes."""
    model, rank_of = version
    rng, heads = np.random.default_rng(60), MHA if model == "MHA" else SKIPV1
    ranks = []
    for a, d, n in ((1, 2, 2), (1, 3, 4), (2, 3, 3), (2, 4, 4)):
        w, p = draw_weights(rng, a, d), draw(rng, d, n)
        odd = _prediction(p.x, p.y, w, heads) - _prediction(p.x, -p.y, w, heads)
        ranks.append((int(sympy.Matrix(odd).rank()), rank_of(a, d)))
    return all(found <= stated for found, stated in ranks) and any(found == stated for found, stated in ranks)


def _prediction(x: Array, y: Array, w: Weights, heads: Any) -> Array:
    u = np.concatenate([w.a @ x, w.b @ y])
    total: Array = sum(
        w.w[h] @ (x @ x.T + (u if head == ORDINARY else y) @ u.T) @ w.k[h] @ w.a for h, head in enumerate(heads)
    )
    return total


def _tail(matrix: Array, rank: int) -> float:
    """||M - R_a(M)||_F."""
    return float(np.linalg.norm(np.linalg.svd(matrix, compute_uv=False)[rank:]))


def factor_bounds(which: str) -> bool:
    """||Lambda M - R_a(Lambda M)|| >= s ||M - R_a(M)||, s the least (or greatest) singular value of Lambda."""
    rng = np.random.default_rng(61)
    for d in range(1, 7):
        for diagonal in (True, False):
            scale, m = rng.standard_normal((2, d, d))
            scale = np.diag(np.diag(scale)) if diagonal else scale
            singular = np.linalg.svd(scale, compute_uv=False)
            factor = singular.min() if which == "least" else singular.max()
            slack = 100 * d * np.finfo(float).eps * singular.max() * np.linalg.norm(m)
            if any(_tail(scale @ m, a) < factor * _tail(m, a) - slack for a in range(d + 1)):
                return False
    return True


def factor_is_attained(factor: int) -> bool:
    """Lambda = diag(1, 2), M = I, a = 1: equality with the factor 1."""
    return _tail(np.diag([1.0, 2.0]), 1) == factor * _tail(np.eye(2), 1)


def weyl_holds(noise: str) -> bool:
    """d = n = 2: W = (0 0; 2 0), X = (0 1; 2 0), noise e_1 e_1^T, and random ones: |sigma_d(YX^T) - sigma_d(WS)|."""
    rng = np.random.default_rng(62)
    smallest = (np.array([[0.0, 0], [2, 0]]), np.array([[0.0, 1], [2, 0]]), np.array([[1.0, 0], [0, 0]]))
    for w, x, e in [smallest, *(tuple(rng.standard_normal((3, 3, 3))) for _ in range(20))]:
        if not _is_within(w, x, e, e @ (x.T if noise == "transposed" else x)):
            return False
    return True


def weyl_needs_square(transposed: bool) -> bool:
    """The bound at n != d, where noise and X are both d x n: it holds with X transposed; as printed there is none."""
    rng = np.random.default_rng(63)
    for d, n in ((1, 2), (2, 1), (3, 5), (5, 3)):
        for _ in range(10):
            w, (x, e) = rng.standard_normal((d, d)), rng.standard_normal((2, d, n))
            try:
                product = e @ (x.T if transposed else x)
            except ValueError:  # the sizes do not fit
                return False
            if not _is_within(w, x, e, product):
                return False
    return True


def _is_within(w: Array, x: Array, e: Array, product: Array) -> bool:
    """Whether |sigma_d((W X + e) X^T) - sigma_d(W X X^T)| is at most the spectral norm of `product`."""
    moved = [np.linalg.svd(m, compute_uv=False) for m in ((w @ x + e) @ x.T, w @ x @ x.T)]
    slack = 100 * np.finfo(float).eps * max(1.0, *(s[0] for s in moved))
    return bool(abs(moved[0][-1] - moved[1][-1]) <= np.linalg.norm(product, 2) + slack)


def products_of_least(which: str) -> bool:
    """sigma_d(AB) >= sigma_d(A) sigma_d(B) for square matrices, and sigma_d(X X^T) = sigma_d(X)^2 for n >= d.

    `which` names the singular value of B in the bound.
    """
    rng = np.random.default_rng(64)
    for d in range(1, 7):
        a, b = rng.standard_normal((2, d, d))
        x = rng.standard_normal((d, d + 2))
        s_a, s_b, s_ab, s_x, s_xx = (np.linalg.svd(m, compute_uv=False) for m in (a, b, a @ b, x, x @ x.T))
        slack = 100 * d * np.finfo(float).eps
        if s_ab[-1] < s_a[-1] * s_b[-1 if which == "least" else 0] - slack * s_a[0] * s_b[0]:
            return False
        if abs(s_xx[-1] - s_x[-1] ** 2) > slack * s_xx[0]:
            return False
    return True


def eigenvalue_density(value: float, d: int) -> float:
    """Density of the least eigenvalue of X X^T, X: d x d standard normal (Edelman 1988, with Tricomi's U)."""
    from scipy.special import gammaln, hyperu

    log = np.log(d) - np.log(2 * np.pi) / 2 + gammaln((d + 1) / 2) - np.log(value) / 2 - value * d / 2
    return float(np.exp(log) * hyperu((d - 1) / 2, -0.5, value / 2))


def _over_least_singular(function: Callable[[float], float], d: int, start: float = 0.0) -> float:
    """E of function(sigma_d(X)) over sigma_d(X) >= start, n = d.

    P(sqrt(d) sigma_d >= t) is about exp(-t^2/2 - t): at the end of the range, t = 15 at least, nothing is left.
    """
    from scipy.integrate import quad

    end = (4 + 12 / d) / d**0.5 + 4
    value, _ = quad(lambda u: function(u) * 2 * u * eigenvalue_density(u * u, d), start, end, limit=200)
    return float(value)


def share_above_half(d: int) -> float:
    """P(sqrt(d) sigma_d(X) >= 1/2) at n = d."""
    return _over_least_singular(lambda _u: 1.0, d, start=0.5 / d**0.5)


def share_tends_to(limit: float) -> bool:
    """`share_above_half` lies above the limit, by less than 1/d, at d = 1 .. 50."""
    return all(0 < share_above_half(d) - limit < 1 / d for d in (1, 2, 5, 10, 20, 50))


def simulated_share(share: Callable[[int], float]) -> bool:
    rng = np.random.default_rng(65)
    for d, samples in ((2, 20_000), (20, 4000)):
        least = np.linalg.svd(rng.standard_normal((samples, d, d)), compute_uv=False)[:, -1]
        found = (least * d**0.5 >= 0.5).mean()
        if abs(found - share(d)) > 5 * (share(d) * (1 - share(d)) / samples) ** 0.5:
            return False
    return True


def order_needs_square(version: tuple[Callable[[int], int], float]) -> bool:
    """At n(d) pairs, d = 20: the share of X with sqrt(d) sigma_d(X) >= 1/2 is what it says, within 5 standard errors.

    A share of 0 or 1 is to be met by every sample.
    """
    pairs, share = version
    d, samples = 20, 1000
    x = np.random.default_rng(66).standard_normal((samples, d, pairs(d)))
    gram = np.linalg.eigvalsh(x @ x.swapaxes(1, 2))[:, 0]
    return bool(abs((gram * d >= 0.25).mean() - share) <= 5 * (share * (1 - share) / samples) ** 0.5)


def fluctuation_exceeds_hypothesis(spread: float) -> bool:
    """d = 1, sigma = 1/10: P(spread |z| > 2 sigma), the chance that W* - W0 outweighs W0 at the threshold, is > 1/2."""
    from math import erfc

    return erfc(0.2 / spread / 2**0.5) > 0.5


def norm_exceeds_hypothesis(spread: float) -> bool:
    """d = 30, sigma = 1/2: ||W* - W0||_2 > 2 sqrt(d) sigma in more than half of 200 draws, by five standard errors."""
    d, samples, sigma = 30, 200, 0.5
    norms = np.linalg.norm(np.random.default_rng(67).standard_normal((samples, d, d)), 2, axis=(1, 2))
    share = (spread * norms > 2 * d**0.5 * sigma).mean()
    return bool(share - 0.5 > 5 * (0.25 / samples) ** 0.5)


def _chi_mean(k: int) -> float:
    from math import gamma

    return 2**0.5 * gamma((k + 1) / 2) / gamma(k / 2)


def bound_is_negative(value: float) -> bool:
    """sqrt(w^2 + d) E l - sigma (E chi_d)^2 at d = n = 2, sigma = 1, w = 3, where w > 2 sqrt(d) sigma."""
    d, sigma, w = 2, 1.0, 3.0
    bound = _signal_bound(d, w) - sigma * _chi_mean(d) ** 2
    return w**2 > 4 * d * sigma**2 and value < 0 and abs(bound - value) <= 1e-8


def _signal_bound(d: int, w: float) -> float:
    """sqrt(w^2 + d) E l at n = d."""
    return (w**2 + d) ** 0.5 * _over_least_singular(lambda u: u * u, d)


def least_eigenvalue_mean(value: float) -> bool:
    """E l at d = n = 2, from the density.  X is a sum of a rotation and a reflection times independent Rayleigh
    lengths r_1, r_2 of mean square 1, and l = (r_1 - r_2)^2, so that E l = 2 - 2 (E r)^2 = 2 - pi/2."""
    return abs(_over_least_singular(lambda u: u * u, 2) - value) <= 1e-8


def _simulated(d: int, sigma: float, w: float, samples: int) -> tuple[Array, Array]:
    """sigma_d(W* S) and ||noise X^T||_2 at W0 = w I, n = d: (samples,) each."""
    fluctuation, x, noise = np.random.default_rng(68).standard_normal((3, samples, d, d))
    xt = x.swapaxes(1, 2)
    signal = np.linalg.svd((w * np.eye(d) + fluctuation) @ x @ xt, compute_uv=False)[:, -1]
    return signal, np.linalg.norm(sigma * noise @ xt, 2, axis=(1, 2))


SIMULATED = ((2, 1.0, 3.0, 4000), (20, 0.5, 4.5, 500))


def simulated_difference(sign: int) -> bool:
    """The sign of E[sigma_d(W* S) - ||noise X^T||_2], by five standard errors."""
    for case in SIMULATED:
        signal, noise = _simulated(*case)
        difference = sign * (signal - noise)
        if difference.mean() <= 5 * difference.std() / len(difference) ** 0.5:
            return False
    return True


def simulated_bounds(factor: float) -> bool:
    """factor sqrt(w^2 + d) E l >= E sigma_d(W* S), E||noise X^T||_2 >= sigma (E chi_d)^2, to five standard errors."""
    for d, sigma, w, samples in SIMULATED:
        signal, noise = _simulated(d, sigma, w, samples)
        if signal.mean() - 5 * signal.std() / samples**0.5 > factor * _signal_bound(d, w):
            return False
        if noise.mean() + 5 * noise.std() / samples**0.5 < sigma * _chi_mean(d) ** 2:
            return False
    return True


def signal_vanishes(n: int) -> bool:
    """d = 2: W S is singular for whole-number W and X with n pairs, while noise X^T is not zero; exact."""
    rng = np.random.default_rng(69)
    for _ in range(5):
        w, x, noise = whole(rng, 2, 2) + 7 * np.eye(2, dtype=int), whole(rng, 2, n) + 5, whole(rng, 2, n) + 5
        if sympy.Matrix(w @ x @ x.T).det() != 0 or not (noise @ x.T).any():
            return False
    return True


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
