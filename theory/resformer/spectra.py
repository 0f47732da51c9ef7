"""Value spectra (Eqn. (12)) before training, with and without the value residual, from random-matrix theory.

Setting.  V = X W^T, l tokens of `width` d in the rows of X, `values` p numbers per token, the entries of W independent
normal of deviation s.  C = V^T V / l has the eigenvalues of Eqn. (12); K = X X^T is the tokens' Gram matrix.

Theorem 1 (any X).      E tr C   = s^2 p tr K / l,
                        E tr C^2 = s^4 p ((p + 1) tr K^2 + (tr K)^2) / l^2.
With a residual, V = own X_n W_n^T + first X_1 W_1^T and independent W_n, W_1, the same holds of
K = own^2 K_n + first^2 K_1.  So where both layers read tokens of the same lengths, as behind a norm, the eigenvalues
that heads attend over add up to own^2 + first^2 of vanilla's: half of them in ResFormer, before anything is learned.
In a decoder W_1 is in X_n, by way of layer 1's output.  That leaves E tr C as it is, as W_n is independent of both and
of mean 0; E tr C^2 need not stay.
Proof.  tr C = sum over p independent rows w of W of w^T S w, S = X^T X / l, of mean s^2 tr S each.  C = W S W^T has the
eigenvalues of S^(1/2) W^T W S^(1/2), W^T W being Wishart with p degrees of freedom: E tr (W^T W S)^2 / s^4 =
p (p + 1) tr S^2 + p (tr S)^2.  And tr S = tr K / l, tr S^2 = tr K^2 / l^2.  Beside each other, (own X_n, first X_1) and
(W_n, W_1) are one X and one W of width 2 d.                                                                       QED

Tokens of length r in independent uniform directions have E tr K = l r^2, and
    E tr K^2 = l^2 r^4 (c + (1 - c) / d),
c being the chance that two tokens, drawn with replacement, are the same: 1/l where all differ.  So of the directions
that values fill, (tr C)^2 / tr C^2, the inverse is, with the mean of each of the two and where tokens have one length,
    1/p + (1 + 1/p)(c + (1 - c)/d),      or 1/p + 1/d + c but for products of two of these.
Proof.  <x, y>^2 = r^4 / d in the mean for independent directions, r^4 for equal tokens.                           QED

Theorem 2 (large sizes, all tokens different).  In units of their mean, s^2 r^2 p / d, the eigenvalues of the d x d
matrix S^(1/2) W^T W S^(1/2), which are those of C but for zeros, tend to the free product of two Marchenko-Pastur laws,
of ratios a = d / l and b = d / p.  With psi(u) = sum_k m_k u^k of their moments, S-transforms
1 / (1 + a z) and 1 / (1 + b z) multiply:
    psi = u (1 + psi)(1 + a psi)(1 + b psi),
and the largest is min over psi > 0 of (1 + psi)(1 + a psi)(1 + b psi) / psi: 27/4 for a = b = 1, where Marchenko and
Pastur's own, of one random matrix, is 4.
Proof.  S-transforms of free factors multiply (Voiculescu), and 1/u as a function of psi decreases to the spectrum's end
and turns there.  At a = b = 1: (1 + psi)^3 / psi is least at psi = 1/2.                                            QED

What a largest eigenvalue says.  A (c V) and W_O / c are the same layer, with c^2 times the eigenvalues; and a long
enough vector added to all values makes the largest eigenvalue as large as one likes and leaves next to one direction,
while values differ as they did.  So the largest of Eqn. (12) measures no capacity; (tr C)^2 / tr C^2 at least does not
depend on units.
"""

from __future__ import annotations

import numpy as np
from numpy.polynomial import Polynomial

from theory.errors import at_least
from theory.prompts.moments import Array

GRID = 4001  # points at which the density is taken for its quantiles


def expected_sum(gram: Array, values: int, std: float) -> float:
    """Return E tr C of Theorem 1; gram (tokens, tokens)."""
    return float(std**2 * values * np.trace(gram) / len(gram))


def expected_square_sum(gram: Array, values: int, std: float) -> float:
    """Return E tr C^2 of Theorem 1; gram (tokens, tokens)."""
    squares = values * ((values + 1) * np.sum(gram * gram.T) + np.trace(gram) ** 2)
    return float(std**4 * squares / len(gram) ** 2)


def expected_gram(tokens: int, width: int, square: float = 1.0) -> Array:
    """Return a Gram matrix whose tr K and tr K^2 are the means for different tokens in uniform directions.

    square: of their lengths
    """
    at_least("tokens", tokens, 1)
    at_least("width", width, 1)
    apart = np.full((tokens, tokens), width**-0.5)
    np.fill_diagonal(apart, 1.0)
    return np.asarray(square * apart)


def residual_share(own: float, first: float) -> float:
    """Return own^2 + first^2, the share of vanilla's sum of eigenvalues that is left before training.  Theorem 1."""
    return own**2 + first**2


def normed_square(width: int, std: float, eps: float) -> float:
    """Return E |x|^2 of a normal vector of deviation `std` behind RMSNorm.

    It is d E m / (m + eps), m its mean square.
    """
    from scipy.integrate import quad
    from scipy.stats import chi2

    at_least("width", width, 1)
    unit = std**2 / width

    def integrand(z: float) -> float:
        return float(unit * z / (unit * z + eps) * chi2.pdf(z, width))

    spread = 20.0 * float(np.sqrt(2 * width))
    share, _ = quad(integrand, 0, width + spread, points=[width], limit=200)
    return float(width * share)


def _turning(a: float, b: float) -> Polynomial:
    psi = Polynomial([0.0, 1.0])
    return (1 + psi) * (1 + a * psi) * (1 + b * psi)


def largest(tokens: int, width: int, values: int) -> float:
    """Return the spectrum's end, in units of the mean over `width` eigenvalues; Theorem 2."""
    product = _turning(width / tokens, width / values)
    psi = Polynomial([0.0, 1.0])
    turns = np.asarray((psi * product.deriv() - product).roots(), complex)
    (at,) = turns.real[(np.abs(turns.imag) < 1e-9) & (turns.real > 0)]
    return float(product(float(at)) / float(at))


def density(x: Array, tokens: int, width: int, values: int) -> Array:
    """Return the density of Theorem 2's law at points x > 0, in units of the mean over `width` eigenvalues.

    Zeros do not count.
    """
    product = _turning(width / tokens, width / values)
    found = [(product - Polynomial([0.0, float(at)])).roots().imag.max() / (np.pi * at) for at in x]
    return np.asarray(found)


def quantiles(tokens: int, width: int, values: int) -> Array:
    """Return `width` eigenvalues, largest first, each of which stands for an equal share of Theorem 2's law.

    In units of their mean; zeros, of fewer tokens or values than `width`, are last.
    """
    end = largest(tokens, width, values)
    x = end * np.linspace(0, 1, GRID) ** 4  # finer near zero, where the density has a pole
    middle = (x[1:] + x[:-1]) / 2
    above = np.concatenate([np.cumsum((density(middle, tokens, width, values) * np.diff(x))[::-1])[::-1], [0.0]])
    places = (np.arange(width) + 0.5) / width
    return np.asarray(np.interp(places, above[::-1], x[::-1], right=0.0))
