"""Claims on deeper toys: the best polynomial of the context's Gram matrix, and how far real roots stay from ridge."""

from __future__ import annotations

from fractions import Fraction
from functools import cache

import numpy as np
import sympy
from scipy.optimize import least_squares

from experiments.ledger.claim import Claim
from experiments.skipv1.claims.deep import FAMILY, TASKS
from theory.prompts import regression, spectral
from theory.skipv1.paper import PAPER
from theory.toy.stack import Array

SAMPLES = 20_000

BEST_POLYNOMIAL = Claim(
    "deep.best-polynomial",
    PAPER.ours,
    place="theory/prompts/spectral.py, (1) to (3)",
    statement="The best polynomial of degree k is ridge regression at 0 and at the k Gauss nodes of the spectrum; "
    "its loss is the Gauss-Radau rule for ridge's, and falls to it as k grows.",
    assumes=FAMILY,
    verdict="verified",
    proof=spectral,
)


@BEST_POLYNOMIAL.check(
    "the same loss by elimination from the moments, in fractions, one to five layers",
    states=0,
    control=1,
    wrong="one layer more",
    kind="exact",
)
def normal_equations_give(degree_off: int) -> bool:
    """The loss by elimination from the moments, in fractions, at k = 1..5: `best_polynomial` at degree k + off."""
    return all(
        d * eliminated_loss(d, n, sigma**2, k) == spectral.best_polynomial(d, n, sigma, k + degree_off).loss
        for d, n, sigma in TASKS
        for k in range(1, 6)
    )


def eliminated_loss(d: int, n: int, noise: Fraction, degree: int) -> Fraction:
    """The best polynomial's loss on one of d outputs, noise its variance: the normal equations, in fractions."""
    moments, v = regression.trace_moments(d, n, 2 * degree), sympy.Rational(noise.numerator, noise.denominator)
    form = sympy.Matrix(degree, degree, lambda i, j: moments[i + j + 2] + v * moments[i + j + 1])
    right = sympy.Matrix(moments[1 : degree + 1])
    loss = d - (right.T * form.LUsolve(right))[0] + v
    return Fraction(int(loss.p), int(loss.q))


@BEST_POLYNOMIAL.check(
    "mean losses over 20,000 prompts, within 4 standard errors, one to three layers",
    states=1.0,
    control=1.05,
    wrong="a loss 5 % higher",
    kind="sampled",
)
def sampled_prompts_lose(factor: float) -> bool:
    """The best p's mean loss over 20,000 prompts, within 4 standard errors, for one to three layers."""
    rng = np.random.default_rng(27)
    for d, n, sigma in TASKS[1:]:
        w, x, noise = (rng.standard_normal((SAMPLES, d, size)) for size in (d, n, n))
        y = w @ x + float(sigma) * noise
        for degree in (1, 2, 3):
            best = spectral.best_polynomial(d, n, sigma, degree)
            estimate, power = np.zeros_like(w), y @ x.mT
            for c in best.residual[1:]:
                estimate, power = estimate - float(c) * power, power @ (x @ x.mT)
            losses = ((w - estimate) ** 2).sum(axis=(1, 2)) + d * float(sigma) ** 2
            if not agree(losses, factor * float(best.loss)):
                return False
    return True


def agree(losses: Array, expected: float) -> bool:
    """Whether the mean of sampled losses is the expected one, within 4 standard errors."""
    return bool(abs(losses.mean() - expected) <= 4 * losses.std(ddof=1) / len(losses) ** 0.5)


@BEST_POLYNOMIAL.check(
    "sampled ridge losses lie between the rules of 32 layers with and without a node at 0",
    states=1.0,
    control=1.1,
    wrong="with a tenth more noise",
    kind="sampled",
)
def ridge_lies_between(factor: float) -> bool:
    """Sampled ridge losses lie between the rules without and with a node at 0, which meet to one in a thousand."""
    for d, n, sigma in ((1, 3, 1.0), (3, 8, 1.0), (4, 2, 2.0)):
        lower, upper = spectral.ridge_bounds(d, n, sigma * factor, 32)
        ridge = regression.ridge(d, n, sigma)
        if upper - lower > 1e-3 * upper or not lower - 4 * ridge.stderr <= ridge.value <= upper + 4 * ridge.stderr:
            return False
    return True


REAL_ROOTS = Claim(
    "deep.real-roots-miss-ridge",
    PAPER.ours,
    place="theory/prompts/spectral.py, (6)",
    statement="With noise, and a number for each layer's weight, own values keep a distance from ridge regression "
    "however many layers there are; with layer 1's values beside them they come as near as one likes.",
    assumes=FAMILY + "; sigma > 0",
    verdict="verified",
    proof=spectral,
    uses=("deep.own-values", "deep.mixed-values", "deep.best-polynomial"),
)


@REAL_ROOTS.check(
    "random polynomials with real roots are off ridge, by the proof's bound, on half of an interval",
    states="real",
    control="best",
    wrong="the best polynomials, with complex roots",
    kind="float64",
)
def keeps_off_ridge(kind: str) -> bool:
    """log |p / f| is off 0 by the proof's bound on half of an interval: p random with real roots, or the best."""
    rng, grid = np.random.default_rng(28), 20_000
    for degree in (2, 4, 8, 12):
        for noise, low, high in ((4.0, 1.0, 6.0), (1.0, 2.0, 12.0)):
            if kind == "real":
                p = np.poly1d([1.0])
                for beta in rng.standard_normal(degree) / high:
                    p = p * np.poly1d([-2 * beta, 1.0])
            else:
                best = spectral.best_polynomial(1, 4, Fraction(int(noise) ** 0.5), degree)
                p = np.poly1d([float(c) for c in reversed(best.residual)])
            s = np.linspace(low, high, grid)
            bound = min(1.0, (high - low) / (high + noise)) ** 2 / 256
            with np.errstate(divide="ignore"):
                off = abs(np.log(abs(p(s) * (1 + s / noise)))) > bound
            if off.mean() < 0.5 - 4 * (degree + 1) / grid:
                return False
    return True


@REAL_ROOTS.check(
    "from 4 to 12 layers the excess over ridge of the best own steps falls by less than half; descents of another "
    "kind, which find the best polynomials if roots may be complex, find no better ones",
    states=-1,
    control=1,
    wrong="complex roots",
    kind="descent",
)
def excess_stays(sign: int) -> bool:
    """The excess over ridge falls by less than half from 4 to 12 layers, at the lowest ends of descents in quadratic
    factors (1 - t s)^2 + sign c^2 s^2, whose roots are real if sign is -1; and where they end is known."""
    for d, n, sigma in ((3, 8, 2.0), (1, 2, 1.5)):
        ridge = sum(spectral.ridge_bounds(d, n, sigma, 32)) / 2
        for k in (4, 12):
            real, free = (_best_factors(d, n, sigma, k, kind) for kind in (-1, 1))
            best, steps = spectral.best_loss(d, n, sigma, k), spectral.best_steps(d, n, sigma, k).loss
            if abs(real - steps) > 1e-6 * (real - ridge) or not best - 1e-9 < free < best + 0.05 * (real - ridge):
                return False
        losses = [_best_factors(d, n, sigma, k, sign) for k in (4, 12)]
        if losses[1] - ridge < 0.5 * (losses[0] - ridge):
            return False
    return True


@cache
def _best_factors(d: int, n: int, sigma: float, layers: int, sign: int) -> float:
    """The lowest end of three descents in the loss as it is defined, E sum p^2 + sigma^2 s q^2 over the spectrum."""
    nodes, weights = (x[1:] for x in spectral.gauss_radau(d, n, 2 * layers))
    mean = float(nodes @ weights / weights.sum())
    rest = d - float(weights.sum())  # at s = 0, where p is 1 and s q^2 is 0

    def factors(flat: Array) -> tuple[Array, Array, Array]:
        t, c = flat.reshape(2, -1, 1) * nodes / mean
        return (1 - t) ** 2 + sign * c**2, -2 * (1 - t) * nodes / mean, 2 * sign * c * nodes / mean

    def parts(flat: Array) -> Array:
        p = factors(flat)[0].prod(axis=0)
        return np.concatenate([np.sqrt(weights) * p, sigma * np.sqrt(weights / nodes) * (1 - p)])

    def jacobian(flat: Array) -> Array:
        p, by_t, by_c = factors(flat)
        others = np.array([np.delete(p, i, axis=0).prod(axis=0) for i in range(len(p))])
        of_p = np.concatenate([by_t * others, by_c * others]).T
        return np.concatenate([np.sqrt(weights)[:, None] * of_p, -sigma * np.sqrt(weights / nodes)[:, None] * of_p])

    rng = np.random.default_rng(layers)
    begins = (rng.uniform(0, 2, layers) for _ in range(3))
    lowest = min(least_squares(parts, begin, jacobian, xtol=1e-14, ftol=1e-14).cost for begin in begins)
    return d * (2 * float(lowest) + rest + sigma**2)
