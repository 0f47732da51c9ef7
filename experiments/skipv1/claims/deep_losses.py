"""Claims on deeper toys: the best polynomial of the context's Gram matrix, and how far real roots stay from ridge."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import sympy

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
    kind="symbolic",
)
def normal_equations_give(degree_off: int) -> bool:
    """The loss by elimination from the moments, in fractions, at k = 1..5: `best_polynomial` at degree k + off."""
    for d, n, sigma in TASKS:
        moments, noise = regression.trace_moments(d, n, 10), sympy.Rational(sigma.numerator, sigma.denominator) ** 2
        for k in range(1, 6):
            form = sympy.Matrix(k, k, lambda i, j: moments[i + j + 2] + noise * moments[i + j + 1])  # noqa: B023
            right = sympy.Matrix(moments[1 : k + 1])
            loss = d * (d - (right.T * form.LUsolve(right))[0] + noise)
            best = spectral.best_polynomial(d, n, sigma, k + degree_off).loss
            if loss != sympy.Rational(best.numerator, best.denominator):
                return False
    return True


@BEST_POLYNOMIAL.check(
    "mean losses over 20,000 prompts, within 4 standard errors, one to three layers",
    states=1.0,
    control=1.05,
    wrong="a loss 5 % higher",
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
    "the excess over ridge of the best own steps that descents find falls by less than half from 4 to 12 layers",
    states=False,
    control=True,
    wrong="the best polynomials' excess",
)
def excess_stays(free: bool) -> bool:
    """From 4 to 12 layers the excess over ridge falls by less than half, by descents over own steps, or freely."""
    for d, n, sigma in ((3, 8, 2.0), (1, 2, 1.5)):
        ridge = sum(spectral.ridge_bounds(d, n, sigma, 32)) / 2
        losses = [
            spectral.best_loss(d, n, sigma, k) if free else spectral.best_steps(d, n, sigma, k).loss for k in (4, 12)
        ]
        if losses[1] - ridge < 0.5 * (losses[0] - ridge):
            return False
    return True
