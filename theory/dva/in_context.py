"""Dynamic values in the in-context toy: its last layer's gate is of no use.

Setting.  The toy of `theory.toy.population`: the context's tokens hold what a first layer has made of (x_t, y_t), the
query's token holds x or a linear map of it; linear attention without a normaliser; the target is W* x + noise, and x is
as likely as -x, whatever the context, W* and the noise are.  The target's own noise has the mean 0 and is independent
of x, W* and the context.

Theorem 1.  In the last layer a gate is of no use, in either form, with any number of heads and whatever earlier layers
made of the context, if the query's token is odd in x.  Left out, the loss is smaller by E ||gate terms||^2.
    Proof.  Given the context and W*, the answer does not depend on the target's own noise, whose mean is 0: it adds its
    variance to the loss of every answer, and may be left out.  An ordinary head answers sum_t <q(x), k_t> v_t, odd in
    x.  The gate's term is q^R(x) * sum_t <q(x), k_t> k^R_t (revised, added to that) or, in its place, sum_t <q(x), k_t>
    <q^R(x), v_t> k^R_t (initial), even in x, as two of its factors are the query's.  So answer = odd + even, the target
    W* x is odd, and
        E ||odd + even - W* x||^2 = E ||odd - W* x||^2 + E ||even||^2.                                            QED
In the initial form the gate's term is all that a head gives.  So in the last layer such a head is worse than none, by
its own mean square, and what heads of that form alone answer at best is 0.

Theorem 2.  Over an assumed copy of rank a, which shows tokens u_t = (A x_t ; B y_t) and nothing else, and around W0 =
0, dynamic values of the revised form explain no more than ordinary heads do at best, rho a (d - a)
(`theory.skipv1.gap`), even if queries, keys, values and gates all have a constant beside what they read.
    Proof.  With constants the answer is a sum of products: an entry of sum_t (1, u_t) (1, u_t)^T, quadratic at most in
    the tokens, times a polynomial of x of degree 2 at most.  As in theorem 1 what is even in x only hurts, which leaves
    it linear in x.  Turning the signs of W* and the noise turns y_t and the target: what is even in y only hurts, too,
    and of the entries B S_yx A^T and B sum_t y_t alone are odd.  Turning the signs of the context's x_t and the noise
    turns the latter and not the target.  So the part that helps is T(B S_yx A^T) x for a linear T, and that explains
    rho a (d - a) at most: it is a (d - a) uncorrelated numbers of equal worth.                                  QED
A constant in the gate alone is a second value, b * k^R_t, and one in the query of the scores makes the gate's term
(Q x) * sum_t <c, k_t> k^R_t, linear in x: a new way to read the same numbers.

A gate in the first layer alone is `theory.dva.first_layer`'s, gates in both `theory.dva.both_layers`': the lower one
puts something even in x into the query's token, so that theorem 1 does not cover it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from numpy import float64
    from numpy.typing import NDArray

    Array = NDArray[float64]


def answer(form: str, query: Array, score: Array, keys: Array, values: Array, gate: Array, gate_keys: Array) -> Array:
    """Return the output of one head of linear attention with dynamic values for the query's token.

    query (d,); score and gate (w, d): <score q, k_t> and q^R = gate q; keys, values, gate_keys (T, w).
    """
    shares = keys @ (score @ query)
    if form == "revised":
        return shares @ values + (gate @ query) * (shares @ gate_keys)
    return (shares * (values @ (gate @ query))) @ gate_keys
