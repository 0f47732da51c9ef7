"""The plateau on which training ends, and the times at which it leaves others: gradient flow on one head, at W0 = 0.

Setting and notation of `theory.skipv1.landscape`; readouts are trained as V = n W (`theory.toy.flow`).  So with K of
size a x a, N = A^T K A, H = A A^T, and C = V for a skip head, C = V B for an ordinary one,

    f = z - 2 tr C tr N + |C|^2 |N|^2 / rho,
    K' = A G A^T,   A' = K A G^T + K^T A G,     G = 2 tr C I - 2 |C|^2 N / rho,
    V' = J, for an ordinary head V' = J B^T and B' = V^T J,     J = 2 tr N I - 2 |N|^2 C / rho.

Theorem 3 (where it ends).  Let f < z at the start, or V = 0, B != 0 and tr N != 0.  Let s be the sign of tr C there or,
if V = 0, that of tr N, and k the rank of A in the limit.
 (a) Q = A A^T - K K^T - K^T K does not change.  The flow is bounded and converges to a critical point, f -> z - rho j k
     with k >= 1, and s does not change.  j is d for a skip head, and d - a for an ordinary one with V = 0 and B of full
     rank at the start.
 (b) k is at least the number of positive eigenvalues of Q.  So if Q > 0, that is, if the compression starts larger than
     the keys, the optimum is reached.
 (c) Let K_s, K_a be the symmetric and the antisymmetric part of K at the start.  If Q + |K_a|^2 I < 0, k is at most the
     number of positive eigenvalues of s K_s.  If also K_a = 0, k is that number, or the limit is a strict saddle.
     So where symmetric keys start larger than the compression, Q < 0, with eigenvalues of both signs, the optimum is
     not reached.
Proof.
(a) Q' = 0, (|V|^2 - |K|^2)' = 0 and (B B^T - V^T V)' = 0: put the flow in.  f <= z says |C|^2 |N|^2 <= 2 rho tr C tr N
    <= 2 rho d |C| |N|, so |C| |N| is bounded.  If |K| were not, take K = R E with |E| = 1: as H = Q + K K^T + K^T K,
    |N|^2 = tr(K H K^T H) would grow at least like R^6 tr((E^T E)^3) >= R^6 / a^2, and |V|, and so |C|, without bound: a
    contradiction.  So K, V, A and B are bounded, and a bounded gradient flow of a polynomial converges to a critical
    point (Lojasiewicz).  f falls strictly at the start, so from then on tr C tr N > 0, no factor changes its sign, and
    the limit is one of Theorem 1 (a).  On the left kernel of its B, B B^T - V^T V <= 0: with V = 0 and B of full rank
    at the start there is none.
(b) On the left kernel of the limit's A, of dimension a - k, Q = -K K^T - K^T K <= 0.
(c) As A N A^T = H K H, K' = 2 tr C H - (2 |C|^2 / rho) H K H, and |K_a| falls.  2 K_s^2 = H - Q - 2 K_a K_a^T, and
    |K_a|^2, in Frobenius norm, is at least twice the largest eigenvalue of K_a K_a^T; so K_s^2 > 0 throughout and in
    the limit, and the signs of its eigenvalues do not change.  In the limit N is a positive multiple of s Pi, so s K_s
    is positive on a space of k dimensions.  A symmetric K stays symmetric, and Theorem 1 (b) calls the limit a strict
    saddle if s K has more than k positive eigenvalues.                                                            QED

(Gradient flow ends on a strict saddle from exceptional starts only.  With eigenvalues of Q of both signs k lies between
the bounds, and depends on all of the start.)

Theorem 4 (when, from balance).  Let K = diag(u_1, .., u_a) with u_i > 0 and A A^T = 2 K^2, A in K's eigenvectors;
V = w I with |V| = |K| for a skip head, and for an ordinary head B^T = V with B B^T = w I, |V| = |K|.  Let m be d and
d - a.  Then it stays so, and the eigenvalues k_i of K follow

    k_i' = 4 g k_i^2 (1 - 2 g k_i^3 / (m rho)),     g = tr C = m w = (d sum k_i^2)^{1/2}, ordinary: sum k_i^2,

with f = z - m sum (2 w nu_i - w^2 nu_i^2 / rho), nu_i = 2 k_i^3.  Directions are learned one by one, the largest u_i
first.  As the start shrinks, u -> 0 in proportion and all u_i different, the times T_k at which the k-th is learned,
and their differences, are in ratio those of

    T_1 = integral of ds / (4 g) from 0 to 1/u_1, with k_i = u_i / (1 - u_i s) in g,
    T_{k+1} = T_k + (1/u_{k+1} - 1/u_k) / (4 g_k),

g_k what g is with k directions learned and no others: g_k^2 = d k q^2, q^4 = rho d / (2 (d k)^{1/2}), and for an
ordinary head g_k = k q^2, q^5 = rho m / (2 k).  So T_1 grows like u^-2, for an ordinary head like u^-3, as for products
of four and five factors, and the differences like u^-1.  All directions are equally strong: the start
alone orders them.
Proof.  Put the form in: N has the eigenvalues 2 k_i^3, and |V|^2 - |K|^2 = 0 gives g.  With ds = 4 g dt, k_i' says
k_i = u_i / (1 - u_i s) as long as all g k_i^3 are small.  So the first is of any small fixed size e at s = 1/u_1 - 1/e,
and learned a time later that does not depend on u, while T_1 does.  It comes to rest, exponentially fast, at
2 g_1 q^3 = m rho, up to the squares of the others; from then on s grows at the rate 4 g_1 until the next is of size e,
and so on.                                                                                              QED

What is left out of f.  The even part: where A is of order one, it costs about 1/d of what a direction explains, until
the ordinary head cancels it or A has grown.  MHA's never vanishes, so its plateaus are approached slowly.  And the
transposed signal of ordinary heads (`theory.skipv1.landscape`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from scipy.integrate import quad, solve_ivp

from theory.errors import InvalidSize, check_sizes
from theory.prompts.moments import Array
from theory.prompts.setting import signal_share

HeadKind = Literal["skip", "ordinary"]


def conserved(k: Array, a: Array) -> Array:
    """Return Q = A A^T - K K^T - K^T K, which the flow keeps: (a, a), for K (a, a) and A (a, d)."""
    return a @ a.T - k @ k.T - k.T @ k


def rank_bounds(k: Array, a: Array) -> tuple[int, int]:
    """Return the ranks between which the flow from K (a, a), A (a, d) and V = 0 ends: Theorem 3 (b) and (c)."""
    kept, sign = np.linalg.eigvalsh(conserved(k, a)), np.sign((a.T @ k @ a).trace())
    skew = (k - k.T) / 2
    keys_decide = kept.max(initial=-np.inf) + (skew * skew).sum() < 0
    most = int((np.linalg.eigvalsh(sign * (k + k.T)) > 0).sum()) if keys_decide else len(k)
    return max(1, int((kept > 0).sum())), most


def balanced_start(d: int, scales: Sequence[float], kind: HeadKind = "skip") -> dict[str, Array]:
    """Return A, B, V and K of Theorem 4, one head, in the directions of the first coordinates.

    Shapes: a (a, d), b (d-a, d), v (d, d), k (d, a), whose last d - a rows are zero.  Raises InvalidSize.
    """
    rank, gain = len(scales), _gain(d, scales, kind)
    rows = _rows(d, rank, kind)
    eye = np.eye(d)
    a, k = np.diag(scales) @ eye[:rank], eye[:, :rank] @ np.diag(scales)
    size = gain / rows
    if kind == "skip":
        return {"a": 2**0.5 * a, "b": 0 * eye[rank:], "v": size * eye, "k": k}
    return {"a": 2**0.5 * a, "b": size**0.5 * eye[rank:], "v": size**0.5 * np.diag(eye[rank:].sum(0)), "k": k}


def step_times(d: int, n: int, sigma: float, scales: Sequence[float], kind: HeadKind = "skip") -> Array:
    """Return T_1, .., T_a of Theorem 4 from K = diag(scales), in units of time of the flow: (a,).

    Raises InvalidSize.
    """
    check_sizes(d, n, sigma, len(scales))
    rows, rho = _rows(d, len(scales), kind), float(signal_share(d, n, sigma))
    u = np.sort(np.asarray(scales, dtype=np.float64))[::-1]
    first = quad(lambda s: 1 / (4 * _gain(d, u / (1 - u * s), kind)), 0, 1 / u[0])[0]
    learned = np.arange(1, len(u))
    if kind == "skip":
        gains = (d * learned) ** 0.5 * (rho * d / (2 * (d * learned) ** 0.5)) ** 0.25
    else:
        gains = learned * (rho * rows / (2 * learned)) ** 0.4
    return first + np.concatenate([[0.0], np.cumsum(np.diff(1 / u) / (4 * gains))])


def balanced_path(
    d: int, n: int, sigma: float, scales: Sequence[float], times: Sequence[float] | Array, kind: HeadKind = "skip"
) -> Array:
    """Return z - f over time from the start of Theorem 4, by integrating its flow: (times,).

    Raises InvalidSize.
    """
    check_sizes(d, n, sigma, len(scales))
    rows, rho = _rows(d, len(scales), kind), float(signal_share(d, n, sigma))

    def uphill(_: float, k: Array) -> Array:
        gain = _gain(d, k, kind)
        return 4 * gain * k**2 * (1 - 2 * gain * k**3 / (rows * rho))

    span = (0.0, float(times[-1]))
    path = solve_ivp(uphill, span, scales, method="LSODA", t_eval=list(times), rtol=1e-9, atol=1e-12).y.T
    w = np.array([_gain(d, k, kind) / rows for k in path])[:, None]
    return rows * (2 * w * 2 * path**3 - (w * 2 * path**3) ** 2 / rho).sum(axis=1)


def _gain(d: int, k: Sequence[float] | Array, kind: HeadKind) -> float:
    """Return g = tr C in balance."""
    squares = float(np.square(k).sum())
    return (d * squares) ** 0.5 if kind == "skip" else squares


def _rows(d: int, rank: int, kind: HeadKind) -> int:
    """Return m, the number of rows of y that a head reads."""
    rows = d if kind == "skip" else d - rank
    if not 1 <= rank <= d or rows < 1:
        raise InvalidSize(f"a {kind} head of d = {d} has no signal at rank {rank}")
    return rows
