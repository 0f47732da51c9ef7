"""The best polynomial of the context's Gram matrix: the least loss of k layers, and when its roots are real.

Setting and lemma of `theory.prompts.regression`, with n context pairs: W = S_yx q(G), G = X X^T, has the loss
    d E sum_i [p(s_i)^2 + v s_i q(s_i)^2] + d v,            p = 1 - s q,  v = sigma^2,  s_i the eigenvalues of G.
Which p a model of k layers reaches is `theory.toy.deep`'s subject; here they are all polynomials of degree <= k with
p(0) = 1, or those with real roots only.  Let mu be the measure with E sum_i f(s_i) = int f dmu: it has mass d, a
density that is positive for s > 0 and, if n < d, an atom of d - n at 0.  Let pi be the monic polynomial of degree k
that is orthogonal, for s dmu, to all of lower degree; it has k different roots 0 < s_1 < ... < s_k.

1. Best polynomial.  The best p equals ridge regression's f(s) = v / (s + v) at 0 and at the roots of pi:
       p(s) = [v + s pi(s) / pi(-v)] / (s + v),     which is pi(s) / pi(0) for v = 0.
   Its loss is d R + d v, R the Gauss-Radau rule of int f dmu with k free nodes and one fixed at 0.
   Proof.  With p - f = -s (q - 1 / (s + v)), p^2 + v s q^2 = f + (p - f)^2 (s + v) / s at every s > 0.  p^2 - 1 and
   s q^2 are s times polynomials of degree 2k - 1 at most, for which the Gauss rule of s dmu, with nodes s_i, is exact.
   So the loss is that of the measure with k atoms at the s_i and the rest at 0, where p = f.  It is least, the integral
   of f, if p = f at every s_i; k values and p(0) = 1 fix a polynomial of degree k; v + s pi / pi(-v) is 0 at -v.  QED

2. Bounds on ridge.  int f dmu is at most R, as no estimator is better than ridge, and at least the Gauss rule of mu
   with k nodes, as the even derivatives of f are positive.  Both are functions of the moments: nothing is sampled.

3. Limit.  As k grows, the best polynomial's loss falls to ridge's; at sigma = 0, to the minimum-norm solution's.
   Proof.  The excess over ridge is d int (q - 1 / (s + v))^2 s (s + v) dmu, so polynomials have to be dense in L^2(nu),
   nu = s (s + v) dmu, to which 1 / (s + v) belongs.  If g is orthogonal to all of them, F(z) = int e^(izs) g dnu is
   analytic for |Im z| < 1/4, since E tr e^(ts) <= d (1 - 2t)^(-nd/2) for t < 1/2, and its derivatives vanish at 0.
   So F = 0, and g = 0.                                                                                            QED

4. Noise threshold.  For k >= 2 there is one sigma_k(d, n) > 0 such that the best polynomial has real roots only if and
   only if sigma <= sigma_k.  v = sigma_k^2 solves
       v prod_i (v + s_i) = min over odd j < k of max over s_j < s < s_{j+1} of  s prod_i |s - s_i|.
   Proof.  Its roots are the solutions of g(s) = s pi(s) / pi(-v) = -v other than s = -v.  Where is g negative?  For
   s < 0, where |g| falls to 0 and -v is the only solution; from s_j to s_{j+1} for odd j; and beyond s_k for odd k,
   where it falls without end and meets -v once.  On each interval it has one minimum (the k zeros of g' lie between
   those of g), so it meets -v twice, counted with multiplicity, if the minimum is <= -v, and else never.  The left side
   of the equation grows with v from 0 to infinity; the right side does not depend on v.                           QED
   For k = 2, with pi = s^2 - e1 s + e2, p is a multiple of s^2 - (e1 + v) s + v^2 + e1 v + e2, and the threshold solves
   3 v^2 + 2 e1 v = e1^2 - 4 e2.  As n grows its v tends to d + 1: noise as strong as the signal.

5. Real roots only.  The loss is strictly convex in p.  So for sigma <= sigma_k the best p with real roots is the best
   of all, and for sigma > sigma_k every p with real roots loses strictly more.  (They are a closed set, as the
   coefficients bound the inverse roots.)  The best of them then has a root twice: where all inverse roots differ,
   moving them moves p in every direction, and a stationary point would be the best of all.  So for k = 2 it is
   `regression.steps`: two steps of one size.

6. Real roots never reach ridge.  For sigma > 0 every p with real roots, of whatever degree, loses more than ridge by at
   least some c(d, n, sigma) > 0.
   Proof.  h = p / f = p(s) (1 + s / v) is a polynomial with real roots only, and -v is one of them.  Take an interval
   J = [a, b], a > 0.  The roots in J cut it into open intervals I.  On each, phi = log |h| has -phi'' = sum over the
   roots z of 1 / (s - z)^2 >= C / |I|^2 with C = min(1, |J| / (b + v))^2: if an end of I is a root, 1 / (s - z)^2 alone
   is at least 1 / |I|^2; else I = J, and the root -v will do.  So phi is concave, {|phi| <= C / 256} is at most two
   intervals, and phi varies by C / 128 at most on each; but over a length w it varies by C w^2 / (8 |I|^2) or more, so
   w <= |I| / 4, and the two are at most half of I.  Hence |h - 1| >= 1 - e^(-C / 256) on half of J, and the excess over
   ridge, d int (h - 1)^2 v^2 / (s (s + v)) dmu, is at least a positive number that does not depend on p.          QED
   With (3) and (5), sigma_k tends to 0 as k grows.

At sigma = 0, (1) is the polynomial of the method that is fastest on average (Pedregosa and Scieur, 2020).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from math import inf

import numpy as np
from numpy.typing import NDArray

from theory.errors import BadInput, InvalidSize, at_least, check_sizes
from theory.prompts.regression import trace_moments
from theory.prompts.setting import Number

Array = NDArray[np.float64]
LARGEST_DEGREE = 32
STARTS = 24


@dataclass(frozen=True)
class BestPolynomial:
    """A best polynomial p = 1 - s q: coefficients `residual`, ascending, and its loss.

    The loss is in squared units of y, summed over d.
    """

    loss: Fraction
    residual: tuple[Fraction, ...]


@dataclass(frozen=True)
class BestSteps:
    """The lowest loss found with one step size per layer, and those sizes in ascending order: an upper bound."""

    loss: float
    steps: tuple[float, ...]


def polynomial_loss(d: int, n: int, sigma: Number, residual: Sequence[Number]) -> Fraction:
    """Return the exact loss of W = S_yx q(G) for p = 1 - s q with these coefficients, ascending, p(0) = 1.

    Raises InvalidSize, BadInput if p(0) is not 1.
    """
    _check(d, n, sigma, max(len(residual) - 1, 1))
    if not residual or residual[0] != 1:
        raise BadInput("a residual polynomial is 1 at 0")
    return d * _output_loss(d, n, Fraction(sigma) ** 2, [Fraction(x) for x in residual])


def best_polynomial(d: int, n: int, sigma: Number, degree: int) -> BestPolynomial:
    """Return the p of this degree at most with the lowest loss, exactly (1).  Raises InvalidSize."""
    _check(d, n, sigma, degree)
    noise = Fraction(sigma) ** 2
    residual = _best_residual(d, n, noise, degree)
    return BestPolynomial(d * _output_loss(d, n, noise, residual), residual)


def best_output_loss(inputs: int, n: int, noise: Fraction, degree: int) -> Fraction:
    """Return the exact loss of the best polynomial on one output of `inputs` inputs, given the noise's variance.

    Without inputs that is the noise.  Raises InvalidSize.
    """
    if inputs == 0:
        return noise
    _check(inputs, n, noise, degree)
    return _output_loss(inputs, n, noise, _best_residual(inputs, n, noise, degree))


def _output_loss(d: int, n: int, noise: Fraction, p: Sequence[Fraction]) -> Fraction:
    q, moments = [-x for x in p[1:]], trace_moments(d, n, 2 * len(p))
    left = sum(a * b * moments[i + j] for i, a in enumerate(p) for j, b in enumerate(p))
    carried = sum(a * b * moments[i + j + 1] for i, a in enumerate(q) for j, b in enumerate(q))
    return left + noise * carried + noise


def _best_residual(d: int, n: int, noise: Fraction, degree: int) -> tuple[Fraction, ...]:
    pi = orthogonal(d, n, degree)
    at_noise = sum(c * (-noise) ** j for j, c in enumerate(pi))
    numerator = [noise, *(c / at_noise for c in pi)]  # v + s pi / pi(-v)
    if noise == 0:
        return tuple(numerator[1:])
    quotient = [Fraction(1)]  # divided by s + v
    for c in numerator[1:-1]:
        quotient.append((c - quotient[-1]) / noise)
    return tuple(quotient)


@lru_cache(maxsize=256)
def orthogonal(d: int, n: int, degree: int) -> tuple[Fraction, ...]:
    """Return pi, monic and orthogonal for s dmu to all lower degrees; coefficients ascending, exact.

    Raises InvalidSize.
    """
    _check(d, n, 0, max(degree, 1))
    return _recurrence(trace_moments(d, n, 2 * degree + 1)[1:], degree)[2]


def gauss_radau(d: int, n: int, degree: int) -> tuple[Array, Array]:
    """Return nodes, 0 first, and weights, of sum d, of the rule of (1): (degree + 1,) each.

    Raises InvalidSize.
    """
    _check(d, n, 0, degree)
    nodes, weights = _gauss(trace_moments(d, n, 2 * degree)[1:], degree)
    weights = weights / nodes
    return np.concatenate([[0.0], nodes]), np.concatenate([[d - weights.sum()], weights])


def best_loss(d: int, n: int, sigma: float, degree: int) -> float:
    """Return the best polynomial's loss by its rule.

    To rounding it is that of `best_polynomial`.  Raises InvalidSize.
    """
    _check(d, n, sigma, degree)
    nodes, weights = gauss_radau(d, n, degree)
    return d * _ridge_sum(nodes, weights, float(sigma) ** 2) + d * float(sigma) ** 2


def ridge_bounds(d: int, n: int, sigma: float, degree: int) -> tuple[float, float]:
    """Return bounds between which the ridge loss lies (2) and which meet as the degree grows.

    Raises InvalidSize.
    """
    _check(d, n, sigma, degree)
    nodes, weights = _gauss(trace_moments(d, n, 2 * degree - 1), degree)
    lower = d * _ridge_sum(nodes, weights, float(sigma) ** 2) + d * float(sigma) ** 2
    return lower, best_loss(d, n, sigma, degree)


def is_real_rooted(residual: Sequence[Number]) -> bool:
    """Return whether all roots of a polynomial are real, given ascending coefficients: exact, by Sturm's theorem."""
    import sympy

    s = sympy.Symbol("s")
    exact = [Fraction(c) for c in residual]
    polynomial = sympy.Poly([sympy.Rational(c.numerator, c.denominator) for c in exact[::-1]], s).sqf_part()
    return bool(polynomial.count_roots() == polynomial.degree())


def noise_threshold(d: int, n: int, degree: int) -> float:
    """Return sigma_k of (4), up to which the best polynomial has real roots; infinite at degree 1.

    Raises InvalidSize.
    """
    _check(d, n, 0, degree)
    from scipy.optimize import brentq, minimize_scalar

    if degree == 1:
        return inf
    nodes = gauss_radau(d, n, degree)[0][1:]

    def log_height(s: float) -> float:
        return float(np.log(s) + np.log(abs(s - nodes)).sum())

    def highest(low: float, high: float) -> float:
        middle = minimize_scalar(lambda s: -log_height(s), bounds=(low, high), method="bounded")
        return -float(middle.fun)

    lowest = min(highest(nodes[j], nodes[j + 1]) for j in range(0, degree - 1, 2))

    def beyond(log_noise: float) -> float:
        return log_noise + float(np.log(np.exp(log_noise) + nodes).sum()) - lowest

    # prod (v + s_i) lies between prod s_i and (1 + v / s_1)^k times it.
    top = lowest - float(np.log(nodes).sum())
    return float(np.exp(brentq(beyond, top - degree * np.log1p(np.exp(top) / nodes[0]) - 1, top + 1) / 2))


def best_steps(d: int, n: int, sigma: float, count: int, *, starts: int = STARTS) -> BestSteps:
    """Return the lowest loss of p = prod (1 - eta_l s) over `count` free step sizes, from `starts` descents.

    (1) makes the excess over the best polynomial a sum of squares over the Gauss nodes, so this is a small
    least-squares problem without cancellation.  Raises InvalidSize.
    """
    _check(d, n, sigma, count)
    at_least("starts", starts, 1)
    from scipy.optimize import least_squares

    nodes, weights = (x[1:] for x in gauss_radau(d, n, count))
    noise = float(sigma) ** 2
    size, target = float(nodes.mean()), noise / (nodes + noise)
    root = np.sqrt(weights * (nodes + noise) / nodes)
    scaled = nodes / size

    def misses(eta: Array) -> Array:
        return root * (np.prod(1 - eta[:, None] * scaled, axis=0) - target)

    def jacobian(eta: Array) -> Array:
        factors = 1 - eta[:, None] * scaled
        others = [np.prod(np.delete(factors, i, axis=0), axis=0) for i in range(count)]
        return np.stack([-root * scaled * other for other in others], axis=1)

    rng = np.random.default_rng(count)
    first = [1 / scaled, np.full(count, 1.0)]
    low, high = float(np.log(scaled[0] / 2)), float(np.log(2 * scaled[-1]))
    begins = [*first, *(np.exp(-rng.uniform(low, high, count)) for _ in range(starts))][:starts]
    results = [least_squares(misses, x, jacobian, xtol=1e-15, ftol=1e-15, gtol=1e-15) for x in begins]
    best = min(results, key=lambda result: float(result.cost))
    loss = best_loss(d, n, sigma, count) + 2 * d * float(best.cost)
    return BestSteps(loss, tuple(sorted(float(x) / size for x in best.x)))


def _ridge_sum(nodes: Array, weights: Array, noise: float) -> float:
    """Return sum w f(s), f = v / (s + v), which is 1 at 0 for v = 0 too."""
    shares = np.where(nodes == 0, 1.0, noise / np.where(nodes == 0, 1.0, nodes + noise))
    return float(weights @ shares)


def _gauss(moments: Sequence[int], count: int) -> tuple[Array, Array]:
    """Return the Gauss rule of the measure with moments m_0 .. m_{2 count - 1}.

    The method is Golub and Welsch's, from exact coefficients.
    """
    centres, norms, _ = _recurrence(moments, count)
    off = [float(b / a) ** 0.5 for a, b in pairwise(norms)]
    nodes, vectors = np.linalg.eigh(np.diag([float(c) for c in centres]) + np.diag(off, 1) + np.diag(off, -1))
    return nodes, float(norms[0]) * vectors[0] ** 2


def _recurrence(moments: Sequence[int], count: int) -> tuple[list[Fraction], list[Fraction], tuple[Fraction, ...]]:
    """Return c_j and |pi_j|^2, j < count, and pi_count, of the orthogonal polynomials' recurrence.

    pi_{j+1} = (s - c_j) pi_j - |pi_j|^2 / |pi_{j-1}|^2 pi_{j-1}.
    """

    def mean(polynomial: list[Fraction], power: int) -> Fraction:
        """Return the mean of the polynomial times s^power.

        pi_j is orthogonal to lower powers, so |pi_j|^2 is its mean with s^j.
        """
        return sum((c * moments[i + power] for i, c in enumerate(polynomial)), Fraction(0))

    centres: list[Fraction] = []
    norms: list[Fraction] = []
    before, now = [Fraction(0)], [Fraction(1)]
    for j in range(count):
        norms.append(mean(now, j))
        below = now[-2] if j else Fraction(0)
        centres.append(mean(now, j + 1) / norms[j] + below)
        after = [Fraction(0), *now]
        for i, c in enumerate(now):
            after[i] -= centres[j] * c
        if j:
            for i, c in enumerate(before):
                after[i] -= norms[j] / norms[j - 1] * c
        before, now = now, after
    return centres, norms, tuple(now)


def _check(d: int, n: int, sigma: Number, degree: int) -> None:
    check_sizes(d, n, sigma)
    at_least("degree", degree, 1)
    if degree > LARGEST_DEGREE:
        raise InvalidSize(f"degree must be at most {LARGEST_DEGREE}, got {degree}")
