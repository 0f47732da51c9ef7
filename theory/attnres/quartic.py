"""A sharper bound on SwiGLU's output, dearer to compute, and the exact largest one of a single inner number.

Notation and assumptions as in `theory.attnres.sublayers`, whose (1) bounds the squared output by q^T G q,
    G = S T S + K^T (1 - K T^-1 K^T)^-1 K / 4,     q_i = u^T M_i u,     M_i = (a_i b_i^T + b_i a_i^T) / 2,
for every T > 0 with K T^-1 K^T < 1.  Since q_i q_j = tr(X M_i X M_j) for X = u u^T, and <X, X - tr(X) 1> = 0,
    q^T G q = <X, F(X)>,     F(X) = sum_ij G_ij M_i X M_j + l (X - tr(X) 1),     for every number l.
||X||_F <= d, so with lambda(F) the largest eigenvalue of F on symmetric matrices
    ||output|| <= d lambda(F)^(1/2).                                                                              (2)
(1) is the same with sum_ij G_ij <M_j, X> M_i for F: other matrices of one quartic form in u.  Where the M_i are many
and random that one has f directions of eigenvalues like ||M_i||_F^2, which is twice ||M_i||^2 for orthogonal a_i and
b_i, and no u comes near them all.  F's own large direction is near X = 1, to which no u u^T is near either: l takes it
away.  T is (1 + c) ||K||^2, and c and l are sought; any are bounds.

F(X) takes products of (f, f) and (f, d) matrices only, as
    4 sum_ij G_ij M_i X M_j = A^T (G * BXB^T) A + A^T (G * BXA^T) B + B^T (G * AXB^T) A + B^T (G * AXA^T) B,
entrywise products with G.  Up to width 16 its eigenvalue is that of its whole matrix; above, Lanczos' from a random
start, then from where the try before ended, to which its residual is added.

One inner number.  The largest of ||k|| |silu(a . u) b . u| is found in the plane of a and b (`one_number_maximum`), and
(2) is ||k|| h d ||M||, ||M|| = (||a|| ||b|| + |a . b|) / 2, at T = ||k||^2 (1 + 1/(2 s)), c = 1/(2 s), and l = 0.  They
are equal if a and b are parallel, and if not, their ratio tends to 1 for large a: as ||a|| grows silu(a . u) tends to
max(a . u, 0), and |a . u| |b . u| is largest, d ||M||, at u between a and b or -b.
"""

from __future__ import annotations

from math import exp, log, sqrt
from typing import TYPE_CHECKING

from theory.attnres.sublayers import even_share, feed_forward_bound, folded, gram
from theory.errors import InvalidSize

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy import float64
    from numpy.typing import NDArray

    Array = NDArray[float64]

WHOLE = 16  # widths up to which the matrix of F is written down
TRIES = 24
VECTORS, ACCURACY = 10, 1e-4  # of Lanczos: kept at a time, and relative, of the eigenvalue


def gated_bound(gate: Array, up: Array, down: Array, gain: Array, *, tries: int = TRIES) -> float:
    """Return a bound on the norm of a SwiGLU sublayer's output at a token: the least of (2) and `feed_forward_bound`.

    gate and up (f, d), down (d, f), gain (d,) of the norm before.  `tries` pairs of c and l are tried beside those that
    are best for one number; each takes, above width 16, some dozens of products of (f, d) and (f, f) matrices.  Raises
    InvalidSize if the shapes do not fit.
    """
    import numpy as np
    from scipy.optimize import minimize

    simple = feed_forward_bound(gate, up, down, gain)
    a, b, down = folded(gate, up, down, gain)
    assert a is not None
    d = b.shape[1]
    counts = (np.linalg.norm(a, axis=1) > 0) & (np.linalg.norm(b, axis=1) > 0) & (np.linalg.norm(down, axis=0) > 0)
    a, b, down = a[counts], b[counts], down[:, counts]
    if not simple:
        return simple
    shares = even_share(sqrt(d) * np.linalg.norm(a, axis=1), "silu")
    spread, products = down @ down.T, gram(a, b)
    size = float(np.linalg.eigvalsh(spread)[-1])
    random = np.random.default_rng(0).standard_normal((d, d))
    start = (random + random.T).ravel()

    def squared(c: float, shift: float) -> float:
        nonlocal start
        even = np.diag(shares**2) * size * (1 + c)
        form = even + down.T @ np.linalg.solve(np.eye(len(down)) - spread / size / (1 + c), down) / 4
        unit = 2 * float((form * products).sum()) / (d * (d + 1))  # the mean eigenvalue of (1)'s matrix
        largest, start = _largest(quartic_map(a, b, form, shift * unit), start, d)
        return largest

    usual = 1 / (2 * float(shares.max()))
    found = [squared(usual, 0.0)]

    def tried(x: Array) -> float:
        found.append(squared(usual * exp(x[0]), exp(x[1])))
        return log(max(found[-1], 1e-300))

    corners = [(0.0, -0.5), (-1.0, -0.5), (0.0, 0.7)]
    if d > 1 and tries:
        minimize(tried, corners[0], method="Nelder-Mead", options={"maxfev": tries, "initial_simplex": corners})
    return min(simple, d * sqrt(max(0.0, min(found))))


def one_number_maximum(gate: Array, up: Array, column: Array) -> float:
    """Return the largest norm of a SwiGLU sublayer of one inner number, over all u with ||u|| <= sqrt d.

    gate, up and column of down (d,), gains in gate and up.  With alpha = sqrt d ||gate||, beta = sqrt d ||up|| and psi
    the angle between them, at most a right one as up's sign does not count, u lies between them, at an angle t to gate:
    ||column|| times the largest of silu(alpha cos t) beta cos(psi - t) over 0 <= t <= psi.  With the negative gate half
    silu is no larger: |silu(-x)| < silu(x).  Raises InvalidSize if shapes differ.
    """
    import numpy as np
    from scipy.optimize import minimize_scalar

    gate, up, column = (np.asarray(x, dtype=np.float64) for x in (gate, up, column))
    if gate.ndim != 1 or not gate.shape == up.shape == column.shape:
        raise InvalidSize(f"one inner number: shapes {gate.shape}, {up.shape} and {column.shape} do not fit")
    alpha, beta = (sqrt(gate.size) * float(np.linalg.norm(x)) for x in (gate, up))
    if not alpha * beta:
        return 0.0
    psi = float(np.arccos(min(1.0, abs(float(gate @ up)) * gate.size / (alpha * beta))))

    def lost(t: float) -> float:
        a = alpha * np.cos(t)
        return -float(a * (0.5 + even_share(a, "silu")) * np.cos(psi - t))

    inside = minimize_scalar(lost, bounds=(0, psi), method="bounded", options={"xatol": 1e-12}).fun if psi else 0.0
    return -float(np.linalg.norm(column)) * beta * min(lost(0.0), inside)


def quartic_map(a: Array, b: Array, form: Array, shift: float) -> Callable[[Array], Array]:
    """Return (1)'s map F of matrices (..., d, d), of l = `shift`; of u u^T it gives the quartic form, whatever l is.

    Args:
        a: gates with the gain in them, (f, d).
        b: ups with the gain in them, (f, d).
        form: G, (f, f).
        shift: l.
    """
    import numpy as np

    d = a.shape[1]
    eye = np.eye(d)

    def applied(x: Array) -> Array:
        x = (x + x.mT) / 2
        ax, bx = a @ x, b @ x
        inner = a.T @ ((form * (bx @ b.T)) @ a + (form * (bx @ a.T)) @ b)
        inner += b.T @ ((form * (ax @ b.T)) @ a + (form * (ax @ a.T)) @ b)
        whole = inner / 4 + shift * (x - np.trace(x, axis1=-2, axis2=-1)[..., None, None] * eye)
        return (whole + whole.mT) / 2

    return applied


def _largest(applied: Callable[[Array], Array], start: Array, d: int) -> tuple[float, Array]:
    """Return the largest eigenvalue on symmetric matrices, if not negative, and where the next search may start."""
    import numpy as np
    from scipy.sparse.linalg import LinearOperator, eigsh

    def flat(x: Array) -> Array:
        return applied(x.reshape(d, d)).ravel()

    if d <= WHOLE:
        basis = np.zeros((d * (d + 1) // 2, d, d))
        rows, columns = np.triu_indices(d)
        basis[np.arange(len(basis)), rows, columns] = 1
        basis = basis + basis.mT
        basis /= np.linalg.norm(basis, axis=(1, 2), keepdims=True)
        whole = applied(basis).reshape(len(basis), -1) @ basis.reshape(len(basis), -1).T
        return float(np.linalg.eigvalsh(whole)[-1]), start
    operator = LinearOperator((d * d, d * d), matvec=flat, dtype=np.float64)
    values, vectors = eigsh(operator, k=1, which="LA", tol=ACCURACY, v0=start, ncv=VECTORS)
    vector = vectors[:, 0] / np.linalg.norm(vectors[:, 0])
    return float(values[0]) + float(np.linalg.norm(flat(vector) - values[0] * vector)), vector
