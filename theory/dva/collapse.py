"""Dynamic values never have to be made: both forms of them are ordinary attention with other values, and a gate.

One head.  s (T, T) holds what query i gives to key j: a softmax's shares, masked, dropped out, or none at all; nothing
but its numbers enters here.  v, k^R, q^R (T, w) are values and the two further projections, one row per token; a * b
is the product entry by entry.

Revised form (section 3.2, Eqns. (6) to (8)): r_ij = q^R_i * k^R_j is added to v_j.
    sum_j s_ij (v_j + q^R_i * k^R_j) = (s v)_i + q^R_i * (s k^R)_i:
attention with the values [v ; k^R], twice as wide, and a gate on the second half that is linear in the query's token.
    Proof.  q^R_i does not depend on j, and multiplying by it entry by entry is linear.                         QED

Initial form (section 3.1, Eqns. (3) to (5)): r_ij = (q^R_i)^T k^R_j, a w x w matrix of rank 1, transforms v_j.  The
text does not say from which side.
    v_j r_ij = <v_j, q^R_i> k^R_j:       sum_j s_ij v_j r_ij = sum_j (s_ij <q^R_i, v_j>) k^R_j,
attention to k^R with weights that are products of two scores, the second one without a softmax.
    r_ij v_j^T = <k^R_j, v_j> (q^R_i)^T:  sum_j s_ij r_ij v_j = q^R_i (s u)_i with u_j = <k^R_j, v_j>,
whose output has the query's direction whatever the context holds: of that, one number per head gets through.

So with weights that are dropped out (s after dropout), grouped queries (k^R and v shared by a group, s and q^R a head's
own), a mask or a linear score everything stays as it is.  Making every pair's value takes T^2 w numbers, of r_ij as
matrices T^2 w^2; the collapsed forms take T^2 at most beside their inputs and outputs (`pair_numbers`).

What one query gets (`of_one_query`).  In the revised form it is, with V and K^R the matrices that make v and k^R,
    sum_j s_ij (V + diag(q^R_i) K^R) x_j:
an ordinary head's, whose value matrix depends on the query's token.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from theory.errors import BadInput, at_least

if TYPE_CHECKING:
    from numpy import float64
    from numpy.typing import NDArray

    Array = NDArray[float64]

Form = Literal["revised", "initial", "transposed"]


def pair_values(form: Form, v: Array, query: Array, key: Array) -> Array:
    """Return what token j gives to query i, as the paper has it: (T, T, w).

    v, query (q^R), key (k^R): (T, w).  transposed: the initial form's matrix from the other side.  Raises BadInput.
    """
    import numpy as np

    if not v.shape == query.shape == key.shape or v.ndim != 2:
        raise BadInput(f"values and both gates are (T, w), got {v.shape}, {query.shape} and {key.shape}")
    if form == "revised":
        return v[None] + query[:, None] * key[None]
    relation = query[:, None, :, None] * key[None, :, None, :]  # (T, T, w, w): rows q^R_i, columns k^R_j
    if form == "initial":
        return np.einsum("jw,ijwu->iju", v, relation)
    if form == "transposed":
        return np.einsum("ijwu,ju->ijw", relation, v)
    raise BadInput(f"a form is revised, initial or transposed, got {form!r}")


def attended(s: Array, pairs: Array) -> Array:
    """Return sum_j s_ij pairs_ij, (T, w)."""
    import numpy as np

    return np.einsum("ij,ijw->iw", s, pairs)


def collapsed(form: Form, s: Array, v: Array, query: Array, key: Array) -> Array:
    """Return the same as `attended` of `pair_values`, without the pairs' values.  Raises BadInput for another form."""
    if form == "revised":
        return s @ v + query * (s @ key)
    if form == "initial":
        return (s * (query @ v.T)) @ key
    if form == "transposed":
        return query * (s @ (key * v).sum(1))[:, None]
    raise BadInput(f"a form is revised, initial or transposed, got {form!r}")


def of_one_query(v: Array, key: Array, gate: Array) -> Array:
    """Return V + diag(q^R_i) K^R, the value matrix that a query with this gate (w,) sees.

    v, key: matrices (w, d).
    """
    return v + gate[:, None] * key


def pair_numbers(form: Form, tokens: int, width: int, *, naive: bool) -> int:
    """Return the numbers that one head holds beside its inputs and output while it attends.  Raises InvalidSize.

    naive: the values of all pairs, and in the initial form its matrices; else the weights of pairs.
    """
    at_least("tokens", tokens, 1)
    at_least("width", width, 1)
    if not naive:
        return tokens**2
    return tokens**2 * width * (1 if form == "revised" else width)
