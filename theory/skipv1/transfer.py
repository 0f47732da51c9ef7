"""Plans trained on a covariance of x: what the toy explains at every width, and its step, for tests elsewhere.

Setting and notation of `theory.skipv1.general`, a prior with Psi = psi I, and `theory.toy.width`: u_t = (A x_t ; B y_t)
with a + b = m rows.

Theorem.  At width m >= d the toys explain, at the best division of m,
    d (f_1 + ... + f_d)                                            if some raw value has a copied key,
    max over a + b = m of min(b, d) (f_1 + ... + f_min(a, d))      if no pair mixes the two, but some head is ordinary,
with f_j = n psi^2 g_j^2 / ((n + 1) psi g_j + psi t + sigma^2), g_j the eigenvalues of Sigma^{1/2} Gamma Sigma^{1/2} and
t their sum; 0 if all pairs are a raw value with a raw key.  It is P = Q S_yx M, Q any projection on b outputs, with
    M = Sigma^{-1/2} U diag(mu_j) U^T Sigma^{-1/2},    mu_j = psi g_j / ((n + 1) psi g_j + psi t + sigma^2),
U the eigenvectors of the a largest g_j.
Proof.  Steps (1) to (5) of `theory.skipv1.general` hold for B of b rows: with one psi the rows of Z' are uncorrelated
and alike, so that e(B, V) is b times that of one row, at most f_1 + ... + f_a.  Its step (8) has P.               QED

The f_j fall, so that the mean of the first a is no less than that of all: vanilla explains at least as large a part of
what the plans that reach back do as under isotropic inputs.  But all of it needs a = b = d, so that these are worth
2d / m as ever (`theory.toy.worth`), if Sigma and Gamma are regular.
"""

from __future__ import annotations

import numpy as np

from theory.errors import BadInput, at_least, check_sizes
from theory.plans.heads import Heads
from theory.prompts.moments import Array, PromptMoments
from theory.skipv1.general import modes


def explained_at_width(moments: PromptMoments, heads: Heads, width: int) -> float | None:
    """Return the most that a plan's toy explains of E ||W* Sigma^(1/2)||^2 at this width; None: not known.

    In squared units of y.  Raises InvalidSize for a width below d, BadInput for a Psi that is no multiple of I, and as
    `modes`.
    """
    division = best_division(moments, heads, width)
    if division is None:
        return None
    outputs, inputs = division
    return float(outputs * modes(moments).explained[0, :inputs].sum())


def best_division(moments: PromptMoments, heads: Heads, width: int) -> tuple[int, int] | None:
    """Return b and a of the theorem: how many outputs and inputs the optimum sees; None: not known.

    Raises as `explained_at_width`.
    """
    d = moments.d
    at_least("width", width, d)
    if not np.allclose(moments.prior_rows.astype(float), float(moments.prior_rows[0, 0]) * np.eye(d), rtol=1e-12):
        raise BadInput("the prior's covariance of rows must be a multiple of the identity")
    pairs = {(bool(head.raw), bool(head.key_raw)) for head in heads}
    if (True, False) in pairs:
        return d, d
    if (False, True) in pairs:
        return None
    if (False, False) not in pairs:
        return 0, 0
    each = modes(moments).explained[0]
    divisions = [(min(width - a, d), min(a, d)) for a in range(width + 1)]
    return max(divisions, key=lambda division: division[0] * each[: division[1]].sum())


def trained_columns(moments: PromptMoments, inputs: int) -> Array:
    """Return M of the theorem, (d, d) in float64, for the `inputs` strongest inputs.

    Raises InvalidSize, and as `modes`.
    """
    check_sizes(moments.d, moments.n, moments.sigma, inputs)
    of = modes(moments)
    into = of.whiten @ of.of_inputs[:, :inputs]
    return (into * of.multipliers[0, :inputs]) @ into.T
