"""Over-smoothing with depth: the effect of attention alone on tokens, with and without the values of layer 1.

Setting.  Nothing but attention, as in Fig. 2: no projections, no feed-forward, no residual stream.  Layer n attends
with a row-stochastic matrix A_n, l x l; H_0 = V_1 are layer 1's values, l x width, and V_n = H_{n-1}.  Then
    vanilla        H_n = A_n H_{n-1}
    ResFormer      H_n = A_n (own H_{n-1} + first V_1), n >= 2 (Eqn. (7): own = first = 1/2), H_1 = A_1 V_1
    SVFormer       H_n = A_n V_1
    NeuTRENO       H_n = A_n H_{n-1} + lambda (V_1 - H_{n-1})
and so on for any plan whose heads are alike.  Where all A_n are one matrix A, H_n = f_n(A) V_1 for a polynomial f_n
that the plan determines (`depth_filters`): depth is a filter of A's spectrum, f_n(mu) at eigenvalue mu.

Theorem 1 (one A).  Let 1 be a simple eigenvalue of A and all others smaller in modulus, with A 1 = 1 and pi^T A = pi^T,
pi^T 1 = 1.  (For causal attention with positive weights: its eigenvalues are the diagonal, A_11 = 1 and pi = e_1.)
 (a) Vanilla, f_n = mu^n: H_n -> 1 pi^T V_1, of rank one: every token is the same, the first one if causal.
 (b) ResFormer with |own| < 1: H_n -> first (I - own A)^{-1} A V_1, with an error that falls as own^n.  Its rank is that
     of A V_1: what one layer of attention tells apart stays apart at any depth.  f(mu) = first mu / (1 - own mu), and
     at own = first = 1/2 a direction of eigenvalue mu keeps the share mu / (2 - mu), where vanilla keeps mu^n.
 (c) own = 1, the variant A_n (V_n + lambda V_1) of section 4.2: f_n(1) = 1 + (n-1) lambda, but f_n(mu) -> lambda mu /
     (1 - mu) for the others.  So the common part grows with depth and the differences do not: tokens become alike in
     direction, as 1/n.  (Norms of what attention reads do not change that.)
 (d) SVFormer, f_n = mu: depth does nothing, as V_1 is all there is to read.
 (e) NeuTRENO converges for every V_1 if and only if |mu - lambda| < 1 for all eigenvalues mu that count, to
     lambda ((1 + lambda) I - A)^{-1} V_1: of the rank of V_1, whatever A, for it does not attend to V_1.
 (f) With a matrix of ones in place of the identity, as Eqn. (8) prints it, the common part of H_n gets the factor
     1 - lambda l each layer: it grows without bound from l > 2 / lambda tokens on, 6 at lambda = 0.4.
 (g) Half the layer before's values in place of layer 1's (Fig. 9): f_n -> 0 for |mu| < 1, and for mu in (0, 1) by
     the factor r = (mu + sqrt(mu^2 + 8 mu)) / 4 a layer, mu < r < 1.  So tokens become alike, and where eigenvalues are
     in [0, 1] later than in a vanilla stack; for mu < -1/2 it is sooner, by sqrt(-mu / 2) a layer.
 (h) The mean of all layers' values so far (Eqn. (5)): f_n = mu / n prod_{k<n} (1 + mu / k), which tends to zero as
     mu n^{mu - 1} / Gamma(1 + mu).  So tokens become alike, for mu in (0, 1) later again; of the three, only layer 1's
     values keep them apart.
Proof.  f_n satisfies the plan's recursion in mu: f_n = mu (own f_{n-1} + first) with f_1 = mu, and so on; its fixed
point is the limit where the factor, own mu or mu - lambda, is below one in modulus.  (b) (I - own A) is regular as A's
eigenvalues are at most 1 in modulus, and it commutes with A.  (e) f_n = (mu - lambda) f_{n-1} + lambda, and 1 + lambda
is no eigenvalue.  (f) (A - lambda J) 1 = (1 - lambda l) 1, and the other eigenvalues stay those of A.  (g) f_n =
mu / 2 (f_{n-1} + f_{n-2}), f_0 = 1, f_1 = mu: a sum of powers of the roots of r^2 = mu (r + 1) / 2, of which the
positive one is the larger in modulus and has a positive part; r^2 - mu (r + 1) / 2 is mu (mu - 1) / 2 < 0 at r = mu and
1 - mu > 0 at r = 1.  |r| >= 1 would give |r|^2 <= |mu| (|r| + 1) / 2 < |r|.  For mu in (-1, 0) the roots are conjugate,
of product -mu / 2, which is below mu^2 if mu < -1/2.  (h) With S_n = f_0 + ... + f_{n-1}: f_n = mu S_n / n, so
S_{n+1} = S_n (1 + mu / n), S_1 = 1.                                                                              QED

Theorem 2 (any A_n).  Let diam X be the largest distance of two rows of X, and tau(A) the largest total variation of two
rows of A (Dobrushin's coefficient): diam A X <= tau(A) diam X.  If tau(A_n) <= tau for all n and D = diam V_1,
    vanilla      diam H_n <= tau^n D,
    ResFormer    |diam H_n - first diam A_n V_1| <= own tau h_{n-1},
                 h_n = tau (own h_{n-1} + first D), h_1 = tau D:      h_n -> first tau D / (1 - own tau),
for own, first >= 0.
Proof.  Rows of A are probabilities: two of them differ by tau times a difference of two means of rows of X.  The rest
is the triangle inequality for the distances of two rows, and induction.                                          QED
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.polynomial import Polynomial

from theory.errors import BadInput
from theory.plans.mix import Mix
from theory.plans.plan import Plan
from theory.prompts.moments import Array


def depth_filters(plan: Plan) -> list[Polynomial]:
    """Return f_1, ..., f_L: with one attention matrix A in all layers, H_n = f_n(A) V_1.

    Learned weights stand at their first value, and the plan's depth rule is left aside: there is nothing but attention.
    Raises BadInput for a plan whose heads differ within a layer, and for heads that attend over several segments.
    """
    mu, states, filters = Polynomial([0.0, 1.0]), [Polynomial([1.0])], []
    for n in range(1, plan.shape.layers + 1):
        heads = {(_weights(h.values, n), _weights((h.beside,), n)) for h in plan.table[n - 1] if h.live}
        if len(heads) != 1:
            raise BadInput(f"layer {n} has no heads, or heads that differ: there is no one filter for all of them")
        ((values, beside),) = heads
        filters.append(mu * _mixed(values, states) + _mixed(beside, states))
        states.append(filters[-1])
    return filters


def _weights(segments: Sequence[Mix], layer: int) -> tuple[tuple[int, float], ...]:
    if len(segments) != 1:
        raise BadInput(f"layer {layer} attends over {len(segments)} segments with one softmax, which is no filter")
    if any(term.source.kind == "e" or term.source.shift for term in segments[0].terms):
        raise BadInput(
            f"layer {layer} attends over tables or over shifted values, which is no filter of layer 1's values"
        )
    return tuple((term.source.layer, term.start) for term in segments[0].terms)


def _mixed(weights: tuple[tuple[int, float], ...], states: list[Polynomial]) -> Polynomial:
    return sum((weight * states[layer - 1] for layer, weight in weights), Polynomial([0.0]))


def resformer_limit(mu: Any, own: float = 0.5, first: float = 0.5) -> Any:
    """Return first mu / (1 - own mu), what remains of eigenvalue mu at any depth: Theorem 1 (b).

    Raises BadInput.
    """
    if not abs(own) < 1:
        raise BadInput(f"there is a limit for |own| < 1 only, got {own}")
    return first * mu / (1 - own * mu)


def neutreno_limit(mu: Any, weight: float = 0.4) -> Any:
    """Return lambda / (1 + lambda - mu), Theorem 1 (e).  Raises BadInput where it is no limit."""
    if not np.all(np.abs(np.asarray(mu) - weight) < 1):
        raise BadInput(f"there is a limit for |mu - lambda| < 1 only, lambda = {weight}")
    return weight / (1 + weight - mu)


def previous_rate(mu: Any) -> Any:
    """Return (mu + sqrt(mu^2 + 8 mu)) / 4, the limiting factor of a layer at eigenvalue mu >= 0: Theorem 1 (g)."""
    return (mu + np.sqrt(mu**2 + 8 * mu)) / 4


def mean_filter(mu: Any, layers: int) -> Any:
    """Return mu / n prod_{k<n} (1 + mu / k), what n = `layers` layers leave of eigenvalue mu: Theorem 1 (h)."""
    product = mu / layers
    for k in range(1, layers):
        product = product * (1 + mu / k)
    return product


def dobrushin(attention: Array) -> float:
    """Return tau(A), the largest total variation of two rows of a row-stochastic matrix, from 0 to 1."""
    return float(np.abs(attention[:, None] - attention[None]).sum(axis=-1).max() / 2)


def largest_diameters(tau: float, layers: int, own: float = 0.5, first: float = 0.5) -> list[float]:
    """Return h_1, ..., h_L of Theorem 2 in units of D: no two tokens are further apart.

    own = 1, first = 0: vanilla.
    """
    diameters = [tau]
    for _ in range(1, layers):
        diameters.append(tau * (own * diameters[-1] + first))
    return diameters
