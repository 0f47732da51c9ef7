"""Feed-forward as attention (section 2.3), and what a dynamic head has of one.

1. act(x U) D = sum_k act(<x, u_k>) d_k: a feed-forward of inner width f attends to f fixed pairs, keys u_k the columns
   of U and values d_k the rows of D, with weights act(score) in place of a softmax's.  An identity; a gate makes the
   weight act(<x, g_k>) <x, u_k>, a product of two scores.  There is no softmax: weights do not compete, and need not
   add up to anything.  A bias of U is a key for a constant in the token; one of D is a pair of weight 1.
2. The paper reads keys and values as k(e_k) and v(e_k) of a latent set of embeddings e_k, k() and v() linear.  That is
   U^T = E k and D = E v, which some E of width r can do if and only if r >= rank [U^T, D] (`embedding_width`): of
   almost all matrices min(f, 2 d), twice the width of a token's embedding at f = 4 d.  With that width it is no
   restriction, so it says nothing; with a token's width it is one, and trained feed-forwards would have to be shown to
   meet it.
   The two limits that the paper sees restrict nothing.  A query of its own, W_Q x, gives scores <W_Q x, u_k> =
   <x, W_Q^T u_k>, those of other keys, so leaving q() out loses no function.  Nor does having one head: as weights do
   not compete, H heads of f pairs each add up to one of H f pairs.
3. A token that attends to itself alone gets V x + (Q x) * (K x) from a dynamic head (`theory.dva.heads`): the linear
   map V beside a feed-forward whose activation is a product, a gated one with the identity for its activation and for
   its output matrix, and the inner width w of the head.  With an output projection O it is the bilinear feed-forward
   O [(Q x) * (K x)], of any O, Q and K of inner width w.
   In general it gets that with (s K X)_i in place of K x: a bilinear feed-forward one of whose factors has been
   mixed over the context.
So what survives of "no feed-forward is needed" is this: a dynamic block has not done without one, it holds one of inner
width w, and one ordinary head of the same width holds none, as it is linear in a token that sees itself alone.  GPT-2's
have inner width 4 d and a bend at 0; of products alone a block's answers to one token are polynomials of degree 2 in
the normed token.  Its parameters, 2 d w beside V, are those of a feed-forward of inner width w without its output.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from numpy import float64
    from numpy.typing import NDArray

    Array = NDArray[float64]


def as_attention(act: Callable[[Array], Array], x: Array, up: Array, down: Array, gate: Array | None = None) -> Array:
    """Return sum_k weight_k d_k, pair by pair.  x (T, d); up and gate (d, f), down (f, d); (T, d)."""
    import numpy as np

    out = np.zeros_like(x)
    for k in range(up.shape[1]):
        score = x @ up[:, k]
        weight = act(score) if gate is None else act(x @ gate[:, k]) * score
        out += weight[:, None] * down[k]
    return out


def embedding_width(up: Array, down: Array) -> int:
    """Return rank [U^T, D], the least width of embeddings from which keys and values both come by linear maps."""
    import numpy as np

    return int(np.linalg.matrix_rank(np.concatenate([up.T, down], axis=1)))


def embeddings(up: Array, down: Array) -> tuple[Array, Array, Array]:
    """Return e (f, r) and matrices k, v (r, d) of that least width r, with e k the keys and e v the values."""
    import numpy as np

    r, d = embedding_width(up, down), len(up)
    left, sizes, right = np.linalg.svd(np.concatenate([up.T, down], axis=1), full_matrices=False)
    both = sizes[:r, None] * right[:r]
    return left[:, :r], both[:, :d], both[:, d:]
