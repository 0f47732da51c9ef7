"""The output projection refitted to what converted heads read, at fixed attention patterns.

Setting.  A layer's attention puts out y = W_0 r in R^m.  W_0 is its output projection, r in R^q what its heads read,
side by side: head h reads the values of its layer, weighted by its attention pattern.  A conversion gives some heads
other values, those of layer 1 or maps of them, and the heads read z in place of r.  Patterns are fixed: z does not
depend on the matrix W that then makes the output W z.  Expectations are over a calibration distribution P, and

    M = E[z z^T],    C = E[y z^T],    error(W) = E|y - W z|^2 = E|y|^2 - 2 tr(W C^T) + tr(W M W^T).

`Moments` holds the three moments.  The raw swap is W = W_0; leaving heads out is W_0 with zeros in their columns.

1. Least squares (`refit`, `least_error`, `excess`).  W* = C M^+ has the least error, E|y|^2 - tr(C M^+ C^T), and for
every W
    error(W) = error(W*) + tr((W - W*) M (W - W*)^T).
So on P it is no worse than the raw swap, than leaving the heads out, or than any other W.  Equality holds just where
W z = W* z almost surely.
    Proof.  If M u = 0 then E (u^T z)^2 = 0, so u^T z = 0 almost surely and C u = 0.  Hence C M^+ M = C, that is,
E[(y - W* z) z^T] = 0: the residual is orthogonal to every linear function of z, and Pythagoras gives the rest.      QED
    Layer by layer.  The same holds for each layer with the z that the converted layers below it make, and for any
target y, such as the trained model's output plus what the stream lacks.  It says nothing across layers: other
projections below change the patterns, and so z, above.

2. Ridge (`refit` with a ridge t > 0, `ridge_bound`).  W_t = (C + t W_1)(M + t I)^-1 minimises
error(W) + t |W - W_1|^2.  With D = W_1 - W* on the range of M and mu_i, u_i the eigenvalues and eigenvectors of M
there,
    error(W_t) - error(W*) = sum_i |D u_i|^2 mu_i t^2 / (mu_i + t)^2  <=  (t / 4) |D|^2,
with equality just if all mu_i with D u_i != 0 are t.  It grows with t from 0 to error(W_1) - error(W*).  So a ridge
*toward the raw swap* (W_1 = W_0) is never worse than the raw swap on P, however large it is.  A ridge toward zero is
never worse than an output of zero, but it can be worse than the raw swap, which it forgets.
    Proof.  M + t I is regular and W_t - W* = t D (M + t)^-1 on the range of M; insert it into 1.  The function
mu t^2 / (mu + t)^2 of mu is largest at mu = t, where it is t / 4, and grows with t to mu.                          QED

3. Another distribution (`shift_bound`).  Let Q have a density with respect to P, a <= dQ/dP <= b, a > 0.  Then on Q,
against every W, also the one that is best on Q,
    error_Q(W*_P)  <=  (a + b)^2 / (4 a b)  error_Q(W),
and no smaller number will do.  Without bounds of the density no factor will do.
    Proof.  Let e = y - W*_P z, d = (W - W*_P) z, rho = dQ/dP, s = (a + b)^2 / (4 a b).  By 1, E_P <e, d> = 0, so it
suffices to find c with rho |e|^2 - s rho |e - d|^2 + 2 c <e, d> <= 0 for all e, d and a <= rho <= b.  That is a
quadratic form with the matrix [[rho (1 - s), rho s + c], [rho s + c, -rho s]], not positive just if s >= 1 and
|s + c / rho| <= sqrt(s (s - 1)) = (b^2 - a^2) / (4 a b).  With c = -(a + b) / 2 the left side is
|(a + b)^2 / (4 a b) - (a + b) / (2 rho)|, which is linear in 1 / rho, and equal to the right side at rho = a and at
rho = b.  Attained: P uniform on two contexts, z = 1 in both, y = 1 / h and -1 / h, rho = 1 + h and 1 - h, W = 1.
Then W*_P = 0 has the error 1 / h^2 on Q, and W = 1 has (1 - h^2) / h^2; (a + b)^2 / (4 a b) = 1 / (1 - h^2).        QED
    It is the number by which Kantorovich's inequality bounds unweighted against weighted least squares.

What a smaller error does not mean.  The error is in squared units of y, weighs all directions and contexts alike, and
holds patterns fixed.  (i) In nats the refit can be worse than the raw swap, by any number: where an output is large and
its softmax saturated, the squares are large and the nats are not.  (ii) In the next layer it can be worse: where a
pattern there turns on a small output, what changes that output's sign moves the pattern.  The ledger has both as
examples.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from theory.errors import BadInput

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Moments:
    """Second moments of a layer's outputs y and of what its heads read, z.

    Attributes:
        power: E|y|^2, in squared units of y.
        cross: C = E[y z^T], (outputs, reads).
        reads: M = E[z z^T], (reads, reads).
    """

    power: Any
    cross: Array
    reads: Array


def moments(outputs: Array, reads: Array, weights: Array | None = None) -> Moments:
    """Return the second moments of samples, or of all contexts of a finite distribution.

    Args:
        outputs: y, (samples, outputs).
        reads: z, (samples, reads).
        weights: Probabilities, (samples,); default: equal.

    Raises:
        BadInput: Outputs, reads and weights are not of one number of samples.
    """
    if len(outputs) != len(reads) or (weights is not None and len(weights) != len(reads)):
        raise BadInput("outputs, reads and weights must be of the same samples")
    chance = np.full(len(reads), 1 / len(reads)) if weights is None else weights
    weighted = outputs * chance[:, None]
    return Moments((weighted * outputs).sum(), weighted.T @ reads, (reads * chance[:, None]).T @ reads)


def squared_error(of: Moments, projection: Array) -> Any:
    """Return E|y - W z|^2 of a projection W, (outputs, reads); exact if all numbers are."""
    return of.power - 2 * (projection * of.cross).sum() + ((projection @ of.reads) * projection).sum()


def refit(of: Moments, ridge: float = 0.0, toward: Array | None = None) -> Array:
    """Return the projection of least squared error, or of least error plus a ridge; the least of several.

    Args:
        of: Moments of the calibration distribution.
        ridge: t, in squared units of z.
        toward: W_1, (outputs, reads), from which the ridge counts; default: zero.

    Returns:
        W, (outputs, reads).

    Raises:
        BadInput: The ridge is negative.
    """
    if not ridge >= 0:
        raise BadInput(f"a ridge must not be negative, got {ridge}")
    if not ridge:
        return of.cross @ _inverse(of.reads)
    pulled = of.cross if toward is None else of.cross + ridge * toward
    return np.linalg.solve(of.reads + ridge * np.eye(len(of.reads)), pulled.T).T


def least_error(of: Moments) -> float:
    """Return the least squared error of any projection, E|y|^2 - tr(C M^+ C^T)."""
    return float(of.power - (of.cross * (of.cross @ _inverse(of.reads))).sum())


def excess(of: Moments, projection: Array) -> float:
    """Return by how much a projection's squared error, W (outputs, reads), exceeds the least one."""
    away = projection - refit(of)
    return float(((away @ of.reads) * away).sum())


def ridge_bound(of: Moments, ridge: float, toward: Array | None = None) -> float:
    """Return (t / 4) |D|^2, the most that a ridge t costs in squared error; arguments as those of `refit`."""
    away = -refit(of) if toward is None else toward - refit(of)
    onto = of.reads @ _inverse(of.reads)
    return float(ridge / 4 * ((away @ onto) ** 2).sum())


def shift_bound(least: Any, most: Any) -> Any:
    """Return (a + b)^2 / (4 a b), by which the refit can be worse than any projection on another distribution.

    Args:
        least: a, the least density of that distribution with respect to the calibration's.
        most: b, the largest.

    Raises:
        BadInput: These are no bounds of a density.
    """
    if not 0 < least <= 1 <= most:
        raise BadInput(f"a density has bounds 0 < a <= 1 <= b, got {least} and {most}")
    return (least + most) * (least + most) / (4 * least * most)


def _inverse(reads: Array) -> Array:
    """Return the pseudo-inverse of second moments; what is zero to rounding counts as zero."""
    return np.linalg.pinv(reads, rcond=16 * len(reads) * np.finfo(np.float64).eps, hermitian=True)
