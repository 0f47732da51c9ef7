"""Losses at which training can stop: the critical points of the loss at W0 = 0, and which of them are traps.

Setting and notation of `theory.skipv1.gap`; z = d^2 + d sigma^2 is the loss of predicting zero and v = n/lambda the
variance of an entry of S_yx.  A head's *signal* is what it sees of S_yx.  A skip head sees W S_yx A^T K A, K being the
first a rows of its K^h; an ordinary head whose readout reads the y numbers of tokens and whose keys read their x
numbers sees W B S_yx A^T K A.  Both are C S_yx N with N = A^T K A and C = W or C = W B, and by steps (1) and (2) of
that proof the loss is E||P_even||^2 + f,

    f = z - 2 n tr C tr N + v |C|^2 |N|^2                                    (Frobenius norms).

A is there twice, on both sides of K: that is what all of the following comes from.

Theorem 1 (one head's signal).  Let W, K, A and, for an ordinary head, B be a critical point of f, and k = rank A.
 (a) Heights.  f = z, or f = z - rho j k with j = d for a skip head, j = rank B for an ordinary one.  In the second case
     C = c Q and N = lambda/c Pi, Pi the projection on the row space of A and Q the identity or that on B's.
 (b) Below z, with tr C > 0 (else turn the signs of W and K).  If j < d - a, an ordinary head is at a strict saddle: the
     second derivative is negative in some direction.  Else, if k = a, it is a global minimum.  Else let V be the left
     kernel of A, of dimension a - k, L and R the maps p -> A^T K p and p -> A^T K^T p, and on V
         H(p) = -2 n tr C p^T K p + v |C|^2 (|L p|^2 + |R p|^2).
     Where H is negative for some p, it is a strict saddle; where H is positive definite, a local minimum, not a global
     one.  If K is symmetric, as many directions of H are negative as K has positive eigenvalues beyond k: it is a
     strict saddle if K has more than k, and a local minimum if it has k positive and a - k negative ones.
 (c) Height z, skip head.  With A != 0 it is a strict saddle.  With A = 0 it is one if tr W (K + K^T) has a positive
     eigenvalue, and a local minimum if all its eigenvalues are negative.
Proof.
(a) If C = 0 or N = 0, f = z.  Else the derivatives in W and K say (v |N|^2 C - n tr N I) B^T = 0, without B^T for a
    skip head, and A (v |C|^2 N - n tr C I) A^T = 0.  Since C acts from B's row space and N within A's, C = c Q with
    c = n tr N / (v |N|^2), not 0 as C is not, and N = s Pi with s = n tr C / (v |C|^2), so that c s = n/v = lambda; and
    f = z - j k (2 n lambda - v lambda^2) = z - rho j k, as v lambda^2 = n lambda = rho.
(b) *B lacks a direction.*  The derivative in B says W^T (C - c I) = 0, so W^T = W^T Q.  Take p with p^T B = 0 and q
    orthogonal to B's rows: dB = e p q^T and dW = g q p^T change C by e W p q^T to first order, and by e g q q^T to
    second, as q^T W = 0.  So f changes by -2 n tr N e g + v |N|^2 e^2 |W p|^2, negative for g much larger than e.
    *A lacks a direction.*  Write A = (A_1 ; E) in the code's coordinates, V being the last ones, E = 0 at the point.
    Nearby E = F A_1 + E' with E' orthogonal to the rows of A_1, and F goes into K: A^T K A = (A_1 ; E')^T K' (A_1 ; E')
    with K' = T^T K T, T = (I 0 ; F I), and the same last block K_22.  The blocks of N between the row space of A_1 and
    its complement have N_12 = A_1^T K'_12 E', N_21 = E'^T K'_21 A_1, N_22 = E'^T K_22 E', so that
        f = f(C, N_11) + tr(E' E'^T H') + v |C|^2 |N_22|^2,      H' = -2 n tr C sym K_22
            + v |C|^2 (K'_12^T A_1 A_1^T K'_12 + K'_21 A_1 A_1^T K'_21^T),                     sym M = (M + M^T)/2,
    where H' tends to H at the point.  f(C, N_11) >= z - rho j k by Cauchy, |tr M| <= |M| sqrt(rank M) twice.  So H > 0
    makes a local minimum, and E' = p q^T with q orthogonal to the rows of A_1, which exists as k < a <= d, gives the
    second derivative 2 H(p).  Neither is global: there are weights with k + 1.
    *K symmetric.*  N_11 = s I on the row space makes K_11 = s (A_1 A_1^T)^{-1}, so that, with v |C|^2 s = n tr C,
    H = -2 n tr C (K_22 - K_21 K_11^{-1} K_12): a Schur complement, whose positive directions are those of K minus the
    k of K_11 (Haynsworth).
(c) A != 0 and N = 0: the derivative in K says tr W = 0, and dW = g I, dK = e I give -2 n d g e |A|^2 + O(e^2).  A != 0
    and W = 0: likewise with O(g^2) in place of O(e^2), as tr N = 0.  A = 0: f - z = -2 n tr W tr(A^T K A) + O(A^4).
                                                                                                                  QED
Theorem 2 (traps of the toy itself).  Any number of ordinary and of skip heads, any rank a, and weights with P_even = 0
and P_odd = lambda S_yx Pi_k, the projection Pi_k on the k-dimensional row space of A, k < a.  They have the loss
z - rho d k.  Let
    M = sum_skip tr(W^h) K_1^h + sum_ordinary [tr(W_2^h B) K_1^h + (W_1^h)^T B^T K_2^h],
with W = (W_1 W_2) and K = (K_1 ; K_2), whose first parts have size a.  If p^T M p < 0 for every p != 0 with p^T A = 0,
they are a local minimum, which is not a global one.  There are such weights with one head of each kind at every k < a
(`trap_weights`).  Without skip heads the same holds for A = 0, at height z.
Proof.  Nearby write A = (A_1 ; F A_1 + E') as above and let Pi' be the projection on the rows of A_1.  P = P Pi' +
P (I - Pi') is orthogonal, so
    L >= z + v |T Pi'|^2 - 2 n tr(T Pi') - 2 n tr(T (I - Pi')),       T the linear map with P_odd = T(S_yx).
T Pi' maps into a space of d k dimensions, so the first three are at least z - rho d k.  A (I - Pi') is J = (0 ; E').
The trace of S -> C S A^T K J is tr C tr(J A^T K), that of S -> W_1 A S^T B^T K_2 J is tr(J A^T W_1^T B^T K_2), and
J A^T is E' E'^T in the last block and zero elsewhere.  So tr(T (I - Pi')) is that of E' E'^T times the last block of M,
at weights so near that it is still negative: at most 0.                                                          QED

What follows.  A path that goes down from such a trap does not exist nearby, however many heads there are: that an
optimum exists does not say that training reaches it (`theory.skipv1.dynamics`).  A saddle point or a trap is a plateau
of the loss, and plateaus differ by rho d.

Not covered.  An ordinary head in general also sees W_1 A S_xy B^T K_2 A, the transposed signal, and MHA's heights are
not rho j k alone: at d = 4, a = 2 some gradient flows of one head end at z - 3 rho, where C S_yx N explains the entries
of Q W* p p^T and the transposed signal those of x x^T W* q q^T, p and q in the row space of A, x in that of B.  And
MHA's even part vanishes for large B only (step (7) of `theory.skipv1.gap`): its plateaus below z are not attained, but
approached along valleys.  Critical points of SkipV1Former at which P_even does not vanish are not classified either.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from theory.errors import InvalidSize, check_sizes
from theory.prompts.moments import Array, signal_variance
from theory.prompts.setting import Number, identity, signal_share, zero_loss
from theory.toy.population import Weights


def plateau(d: int, n: int, sigma: Number, rows: int, columns: int) -> Any:
    """Return z - rho j k, in squared units of y summed over its d entries: Theorem 1 (a); exact for a Fraction sigma.

    rows     j: d for a skip head, rank B for an ordinary one
    columns  k: the rank of A
    """
    check_sizes(d, n, sigma, rows)
    check_sizes(d, n, sigma, columns)
    return zero_loss(d, n, sigma) - signal_share(d, n, sigma) * rows * columns


def signal_loss(d: int, n: int, sigma: Any, c: Array, k: Array, a: Array) -> Any:
    """Return f, for C (d, d), K (a, a) and A (a, d)."""
    form = a.T @ k @ a
    squares = (c * c).sum() * (form * form).sum()
    return zero_loss(d, n, sigma) - 2 * n * c.trace() * form.trace() + signal_variance(d, n, sigma) * squares


def lost_directions(d: int, n: int, sigma: float, c: Array, k: Array, a: Array) -> Array:
    """Return H on the left kernel of A, in an orthonormal basis of it: (a - rank A, a - rank A), in float64.

    C, K and A as in `signal_loss`, at a critical point with tr C > 0: Theorem 1 (b).
    """
    left, singular, _ = np.linalg.svd(a)
    kept = int((singular > 1e-9 * singular.max(initial=1.0)).sum())
    basis = left[:, kept:]
    gain, cost = 2 * n * c.trace(), signal_variance(d, n, sigma) * (c * c).sum()
    images = [a.T @ side @ basis for side in (k, k.T)]
    return -gain / 2 * basis.T @ (k + k.T) @ basis + cost * sum(image.T @ image for image in images)


def trap_weights(d: int, n: int, sigma: Number, rank: int, reached: int, lost: Number = -1) -> Weights:
    """Return weights of `theory.plans.heads.SKIPV1` with the loss z - rho d k, k = `reached` < rank, which is critical.

    A and B are zero beyond the first k rows of A, and there the skip head's K is `lost` times the identity: a local
    minimum for lost < 0, by Theorem 2.  At lost = 1 it is a strict saddle: dA = e p q^T, p one of the lost rows and q
    any unit vector orthogonal to those kept, changes the loss by n lambda e^2 [-2 d + lambda (n + d + 1 + k)] < 0, of
    which the last term is the even part, to second order.
    """
    check_sizes(d, n, sigma, rank)
    if not 0 <= reached < rank:
        raise InvalidSize(f"a trap lacks a direction: 0 <= reached < rank, got {reached} of {rank}")
    step, eye = signal_share(d, n, sigma) / n, identity(d, sigma)
    kept, gone = eye[:reached], eye[reached:rank]
    found = kept.T @ kept
    keys = found + lost * gone.T @ gone
    return Weights(
        a=np.concatenate([kept, 0 * gone]),
        b=0 * eye[rank:],
        w=np.stack([-step * eye / (1 + found.diagonal()), step * eye]),
        k=np.stack([found[:, :rank], keys[:, :rank]]),
    )
