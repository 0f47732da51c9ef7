"""The score of a pair of tokens: what it can express, and what a softmax makes of it.

Section 2.1 of the paper: a plain product of two tokens measures how similar they are, that of a query and a key how
strong their relation is (Eqn. (1)); a token gets another's value, weighted by that (Eqn. (2)).  Both are
    s(B, A) = <W_Q B, W_K A> = B^T M A,      M = W_Q^T W_K (`form`),
the plain product with M = I.
1. Only M counts: G W_Q and G^-T W_K give the same scores for every invertible G.  So the paper is right that the two
   maps say nothing apart.  M is any matrix of rank w at most, w the head's width (`factors`).
2. A plain product is symmetric, and of a token with itself not negative.  That is all that it shares with other
   products of one map, W_Q = W_K = W: M = W^T W is symmetric with no negative eigenvalue, and every such M of rank w at
   most is one.  A relation that is not mutual, s(B, A) != s(A, B), needs two maps, and has
       s(B, A) - s(A, B) = B^T (M - M^T) A.
   Beyond this nothing tells similarity and strength apart: the first is the second for some W_Q and W_K.
3. Under a softmax a score means nothing by itself: what B gives to A is a function of the differences of A's score and
   the others' (`shares`).  Of one key alone the share is 1, whatever its score is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from theory.errors import BadInput, at_least

if TYPE_CHECKING:
    from numpy import float64
    from numpy.typing import NDArray

    Array = NDArray[float64]

RANK = 1e-12  # of the largest singular value, below which one is taken for 0


def form(query: Array, key: Array) -> Array:
    """Return M (d, d), from W_Q and W_K, (w, d) each."""
    return query.T @ key


def factors(scores: Array, width: int) -> tuple[Array, Array]:
    """Return W_Q and W_K, (width, d) each, whose form is M.

    Raises BadInput where its rank is larger than the width.
    """
    import numpy as np

    at_least("width", width, 1)
    left, sizes, right = np.linalg.svd(scores)
    rank = int((sizes > RANK * sizes[0]).sum()) if sizes.size else 0
    if rank > width:
        raise BadInput(f"a head of width {width} has scores of rank {width} at most, got {rank}")
    query, key = np.zeros((2, width, len(scores)))
    query[:rank] = (left * np.sqrt(sizes))[:, :rank].T
    key[:rank] = np.sqrt(sizes[:rank, None]) * right[:rank]
    return query, key


def shares(scores: Array) -> Array:
    """Return the softmax of (..., keys)."""
    import numpy as np

    raised = np.exp(scores - scores.max(-1, keepdims=True))
    return np.asarray(raised / raised.sum(-1, keepdims=True))
