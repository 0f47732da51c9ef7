"""Bounds on a sublayer's output from its weights alone, if a norm stands before it, and where they are attained.

Notation.  ||.|| is the Euclidean norm of one token's vector and, for matrices, the spectral norm; a <= b between
symmetric matrices means that b - a has no negative eigenvalue; d is the width, and lambda the largest eigenvalue.

Norm.  RMSNorm(x) = gain * u with u = x / sqrt(mean x^2 + eps), so ||u|| <= sqrt d.  For LayerNorm without bias
u = c / sqrt(mean c^2 + eps) with c = x - mean x: the same.  Let D = diag(gain).  Biases, of a norm or of a linear map,
are not covered.

Attention.  Softmax attention over one's own values gives head h, at one token, V_h D m_h with m_h a convex combination
of the u of the tokens it sees, so ||m_h|| <= sqrt d whatever the queries and keys.  The output is sum_h W_h m_h with
W_h = O_h V_h D.  Over all m_h in the ball its largest norm is, over unit vectors y,
    sqrt d  max_y sum_h ||W_h^T y||,
as <y, W_h m_h> is at most sqrt d ||W_h^T y||, and is that at m_h = sqrt d W_h^T y / ||W_h^T y||.  By Cauchy-Schwarz,
(sum_h ||W_h^T y||)^2 <= sum_h ||W_h^T y||^2 / p_h for every p with p_h > 0 and sum p_h = 1.  So
    ||output|| <= sqrt d  min_p lambda(sum_h W_h W_h^T / p_h)^(1/2).
With p_h as ||W_h|| it is at most sqrt d sum_h ||W_h||, with p_h as ||V_h D||^2 at most
sqrt d ||(O_1 .. O_H)|| sqrt(sum_h ||V_h D||^2).  In t = -log p the problem is convex: every p is a bound, and the best
is approached.
    Where it is attained.  One head: at u the first right singular vector of W.  More: if at the best p the largest
    eigenvalue has one eigenvector y only, then p_h is as ||W_h^T y||, and y attains the bound.  If it has several,
    let Y (trace 1, no negative eigenvalue) be the best of the dual problem, max_Y (sum_h sqrt(tr W_h^T Y W_h))^2,
    which is as large (minimax), and g standard normal, y = Y^(1/2) g.  E ||W_h^T y|| >= sqrt(2/pi tr W_h^T Y W_h), as
    E sqrt(sum_i l_i g_i^2) is concave in l, so on the simplex least at a corner, where it is E |g|.  And
    E ||y|| <= 1.  So some y has sum_h ||W_h^T y|| >= sqrt(2/pi) ||y|| times the bound: the best bound is never more
    than sqrt(pi/2) = 1.2533 times what some m_h attain.  No smaller constant does for all: heads of one number each,
    W_h = w_h e^T, with w_h even over the unit sphere of many dimensions k have lambda(sum W_h W_h^T / p_h) = H^2 / k at
    p_h = 1/H, the best by symmetry, and sum_h |<w_h, y>| = H E |y_1|, near H sqrt(2 / (pi k)).  In the plane, with
    H > 1 of them at angles pi h / H, the bound is sqrt d H / sqrt 2, and sqrt d / sin(pi / (2 H)) is the most.
    Those m_h are reached, in the limit of large queries and keys, if each head sees a token of its own.  With given
    queries and keys less may be reached, but never less than sqrt d ||sum_h W_h||, by a token that sees itself alone.

Gates.  silu(a) = a g(a) with g the logistic function, gelu(a) = a g(a) with g the normal distribution's.  Both rise,
and g(-a) = 1 - g(a).  So for |a| <= r, with s = g(r) - 1/2 <= 1/2:
    silu(a), gelu(a) = a/2 + w,     |w| <= s |a|.
Inner number i sees |a_i . u| <= r_i = sqrt d ||a_i||.  GELU's g is the steeper: its s does for SiLU, too.

Feed-forward.  Without a gate let q = B u, B = up D.  With one, q_i = (a_i . u)(b_i . u) = <M_i, u u^T>, A = gate D,
M_i = (a_i b_i^T + b_i a_i^T) / 2.  In both cases the output is K (q/2 + w), K = down, |w_i| <= s_i |q_i|, with
q = R x, ||x|| <= radius:
    without a gate  R = B,          radius sqrt d;
    with            R R^T = Q,      radius d:   Q_ij = <M_i, M_j>, Q = (A A^T * B B^T + A B^T * B A^T) / 2, entrywise
                                                products, and ||u u^T||_F <= d.
For every T = diag(t_i) > 0 with K T^-1 K^T < 1, since w^T T w <= q^T S T S q (S = diag(s_i)),
    ||K (q/2 + w)||^2 <= q^T S T S q + max_w (||K q/2 + K w||^2 - w^T T w)
                       = q^T (S T S + K^T (1 - K T^-1 K^T)^-1 K / 4) q,
the maximum being at T w = K^T (1 - K T^-1 K^T)^-1 K q / 2.  Hence
    ||output|| <= radius lambda(R^T S T S R + (K R)^T (1 - K T^-1 K^T)^-1 (K R) / 4)^(1/2).                       (1)
With T = (1 + c) ||K||^2 and the best c, (1) is at most radius (||K R|| / 2 + max s_i ||K|| ||R||).  It is convex in
T; `feed_forward_bound` tries three directions, t_i as 1, as ||k_i|| / (s_i ||R_i||) and as ||k_i||^2 (1 + 1/(2 s_i)),
and a few lengths.
The second bound takes numbers one by one, k_i being the columns of K, and h_i = 1/2 + s_i:
    ||output|| <= sum_i ||k_i|| h_i |q_i|,
    |q_i| <= (||b_i|| / ||a_i|| (a_i . u)^2 + ||a_i|| / ||b_i|| (b_i . u)^2) / 2,
which is a quadratic form in u; without a gate, |q_i| <= (||b_i|| / e + e (b_i . u)^2 / ||b_i||) / 2 for the best e > 0.

Where (1), or the second, is attained.
    One inner number, ungated: ||k|| gelu(sqrt d ||b||), at u along b; gated with a and b parallel:
    ||k|| sqrt d ||b|| silu(sqrt d ||a||).  What is lost where they are not, `theory.attnres.quartic` says.
    Orthogonal numbers: b_i orthogonal, k_i orthogonal and, if gated, a_i parallel to b_i.  Then all of (1) is diagonal,
    and with the best t_i, ||k_i||^2 (1 + 1/(2 s_i)), equal to radius max_i ||k_i|| h_i ||R_i||; at u along that b_i,
    with a_i . u > 0, the output is as large.
    Aligned numbers: all a_i, b_i positive multiples of one vector and all k_i of another, as at d = 1 with positive
    weights: the second bound is the sum of the numbers' own maxima, which they attain together.
    Small weights, ungated: s -> 0, and (1) tends to sqrt d ||K B|| / 2, which is the largest of the output's linear
    part.  With a gate K q / 2 is left, whose largest norm is that of a tensor; (1) is the norm of a matrix with the
    same entries, and not attained in general; `theory.attnres.quartic` has a smaller one.
"""

from __future__ import annotations

from math import pi, sqrt
from typing import TYPE_CHECKING, Any, Literal

from theory.errors import BadInput, InvalidSize

if TYPE_CHECKING:
    from numpy import float64
    from numpy.typing import NDArray

    Array = NDArray[float64]

Activation = Literal["silu", "gelu"]
ATTENTION_RATIO = sqrt(pi / 2)  # what the best bound on attention is, at most, of what some m_h attain
_STEPS = 40
_SHARPNESS = 60.0  # eigenvalues by this power stand in for the largest one


def attention_bound(value: Array, output: Array, gain: Array) -> float:
    """Return a bound on the norm of an attention sublayer's output at a token, whatever its queries and keys.

    value (H, w, d) and output (H, d, w), for every query head; gain (d,) of the norm before.  Softmax attention over
    the layer's own values, without biases.  Raises InvalidSize if the shapes do not fit.
    """
    import numpy as np

    value, output, gain = _attention(value, output, gain)
    scaled = value * gain
    heads = output @ scaled
    sizes = _norm(heads)
    kept = sizes > 0
    if not kept.any():
        return 0.0
    squares = heads[kept] @ heads[kept].transpose(0, 2, 1)
    starts = np.sqrt(np.trace(squares, axis1=1, axis2=2)), sizes[kept], _norm(scaled)[kept] ** 2
    start = min((p / p.sum() for p in starts), key=lambda p: _top(np.tensordot(1 / p, squares, 1)))
    return sqrt(gain.size * _shared(squares, start))


def attention_attained(value: Array, output: Array, gain: Array, *, starts: int = 8, seed: int = 0) -> float:
    """Return a norm that an attention sublayer's output has where every head sees the token it likes best.

    The largest found of sqrt d sum_h ||W_h^T y|| by turns over y and the heads, which never fall, from the directions
    of the heads' sum and `starts` random ones.  Shapes and errors as for `attention_bound`.
    """
    import numpy as np

    value, output, gain = _attention(value, output, gain)
    heads = output @ (value * gain)
    random = np.random.default_rng(seed).standard_normal((starts, gain.size))
    y = np.concatenate([np.linalg.svd(heads.sum(0))[0].T, *(np.linalg.svd(w)[0].T[:1] for w in heads), random])
    best = np.zeros(len(y))
    for _ in range(200):
        y = y / np.maximum(np.linalg.norm(y, axis=-1, keepdims=True), np.finfo(float).tiny)
        pulled = np.einsum("hij,ni->nhj", heads, y)
        lengths = np.linalg.norm(pulled, axis=-1)
        if (lengths.sum(1) <= best * (1 + 1e-12)).all():
            break
        best = np.maximum(best, lengths.sum(1))
        turned = pulled / np.maximum(lengths, np.finfo(float).tiny)[..., None]
        y = np.einsum("hij,nhj->ni", heads, turned)
    return sqrt(gain.size) * float(best.max())


def feed_forward_bound(
    gate: Array | None, up: Array, down: Array, gain: Array, activation: Activation | None = None
) -> float:
    """Return a bound on the norm of a feed-forward sublayer's output at a token.

    gate and up (f, d), down (d, f), gain (d,) of the norm before; SwiGLU, or without a gate (None) GELU, or SiLU if
    that is the activation.  Not said, an ungated one is bounded for both.  No biases.  Raises InvalidSize if the shapes
    do not fit.
    """
    import numpy as np

    a, b, down = folded(gate, up, down, gain)
    d = b.shape[1]
    rows = np.linalg.norm(b, axis=1)
    reach = rows if a is None else np.linalg.norm(a, axis=1)
    counts = (rows > 0) & (reach > 0) & (np.linalg.norm(down, axis=0) > 0)
    if not counts.any():
        return 0.0
    b, down, rows, reach = b[counts], down[:, counts], rows[counts], reach[counts]
    known: Activation = activation or ("gelu" if a is None else "silu")
    shares = even_share(sqrt(d) * reach, known)
    each = np.linalg.norm(down, axis=0) * (0.5 + shares)
    if a is None:
        one_by_one = (each @ rows) * _norm((b.T * (each / rows)) @ b)
        return sqrt(d) * sqrt(min(_together(b, shares, down), float(one_by_one)))
    a = a[counts]
    forms = (a.T * (each * rows / reach)) @ a + (b.T * (each * reach / rows)) @ b
    return d * min(sqrt(_together(_root(gram(a, b)), shares, down)), float(_norm(forms)) / 2)


def even_share(a: Any, activation: Activation) -> Any:
    """Return g(a) - 1/2 for silu(a) or gelu(a) = a g(a).

    That is the part of the activation beside a/2, as a share of a >= 0.
    """
    import numpy as np
    from scipy.special import erf

    return np.tanh(np.asarray(a) / 2) / 2 if activation == "silu" else erf(np.asarray(a) / sqrt(2)) / 2


def gram(a: Array, b: Array) -> Array:
    """Return inner products <M_i, M_j> of M_i = (a_i b_i^T + b_i a_i^T) / 2, for rows a and b (f, d): (f, f)."""
    cross = a @ b.T
    return ((a @ a.T) * (b @ b.T) + cross * cross.T) / 2


def _shared(squares: Array, p: Array) -> float:
    """Return the least lambda(sum_h W_h W_h^T / p_h) found, from this p on; squares (H, d, d) are W_h W_h^T.

    At the best p, p_h^2 is as tr Y W_h W_h^T for some Y on the largest eigenvalue's eigenvectors; turns of this, with a
    power of the matrix for Y and by half steps, come within about 2 % of the least.  Every p on the way is a bound.
    """
    import numpy as np

    best, idle = np.inf, 0
    for _ in range(_STEPS):
        values, vectors = np.linalg.eigh(np.tensordot(1 / p, squares, 1))
        idle = 0 if values[-1] < best * (1 - 1e-4) else idle + 1
        best = min(best, values[-1])
        if len(p) == 1 or idle > 3:
            break
        near = vectors * (np.maximum(values, 0) / values[-1]) ** _SHARPNESS
        wanted = np.sqrt(np.maximum(np.tensordot(squares, near @ vectors.T, 2), 0)) + 1e-9 * p
        p = np.sqrt(p * wanted / wanted.sum())
        p /= p.sum()
    return float(best)


def _together(r: Array, shares: Array, down: Array) -> float:
    """Return (1) squared, at radius 1: the least over some T.  r (f, m), shares (f,), down (d, f)."""
    import numpy as np

    product, found = down @ r, []
    columns, linear = np.linalg.norm(down, axis=0), sqrt(_top(product @ product.T)) / 2
    apart = columns**2 * (1 + 1 / (2 * shares))  # the best if numbers are orthogonal
    for direction in (np.ones(len(shares)), columns / (shares * np.linalg.norm(r, axis=1)), apart):
        spread = (down / direction) @ down.T
        size = _top(spread)
        even = size * (r.T * (shares**2 * direction)) @ r
        best = linear / sqrt(_top(even))  # of even * (1 + c) + product^2 / 4 * (1 + 1/c)
        as_it_is = [1 / size - 1] if size < 1 and direction is apart else []
        for c in (best, best / 2, *as_it_is):
            odd = product.T @ np.linalg.solve(np.eye(len(down)) - spread / size / (1 + c), product) / 4
            found.append(_top((1 + c) * even + odd))
    return min(found)


def _root(square: Array) -> Array:
    """Return R with R R^T = square, or above it by rounding."""
    import numpy as np

    more = len(square) * np.finfo(np.float64).eps * np.trace(square)
    return np.linalg.cholesky(square + more * np.eye(len(square)))


def _top(symmetric: Array) -> float:
    """Return the largest eigenvalue."""
    from scipy.linalg import eigh

    last = len(symmetric) - 1
    return float(eigh(symmetric, eigvals_only=True, subset_by_index=[last, last])[0])


def _attention(value: Array, output: Array, gain: Array) -> tuple[Array, Array, Array]:
    value, output, gain = (_finite(x) for x in (value, output, gain))
    if value.ndim != 3 or value.shape[2:] != gain.shape or output.shape != value.transpose(0, 2, 1).shape:
        raise InvalidSize(f"attention: shapes {value.shape}, {output.shape} and {gain.shape} do not fit")
    return value, output, gain


def folded(gate: Array | None, up: Array, down: Array, gain: Array) -> tuple[Array | None, Array, Array]:
    """Return A = gate D (None without one), B = up D and down, for checked weights as in `feed_forward_bound`."""
    up, down, gain = (_finite(x) for x in (up, down, gain))
    gate = None if gate is None else _finite(gate)
    like = up.shape if gate is None else gate.shape
    if up.ndim != 2 or up.shape[1:] != gain.shape or like != up.shape or down.shape != up.T.shape:
        raise InvalidSize(f"feed-forward: shapes {like}, {up.shape}, {down.shape} and {gain.shape} do not fit")
    return None if gate is None else gate * gain, up * gain, down


def _finite(x: Any) -> Array:
    import numpy as np

    array = np.asarray(x, dtype=np.float64)
    if not np.isfinite(array).all():
        raise BadInput("weights must be finite")
    return array


def _norm(matrices: Array) -> Any:
    """Return spectral norms over the last two dimensions."""
    import numpy as np

    return np.linalg.norm(matrices, ord=2, axis=(-2, -1))
