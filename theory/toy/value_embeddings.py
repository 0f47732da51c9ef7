"""Value embeddings: when a table of values by token is no more than layer 1's values, and by how much it is more.

N tokens with embeddings E, (N, d); values of m numbers, all heads together.  A *table* T, (N, m), gives every token a
value of its own, as value embeddings do, for the layers that read it.  Layer 1's values are V_1 = E W, W (d, m), if the
embedding reaches them as it is: no positions are added to it (rotary ones turn queries and keys alone) and no norm
precedes.  Behind a norm all of this holds of the normed rows of E, which span a space of the same dimension unless the
norm takes a mean away, which costs one.

1. E given (`nearest`, `missed`, `covered`).  T is a V_1 if and only if its columns lie in the column space of E: rank
[E T] = rank E.  The nearest V_1 is E E^+ T, at the square distance ||(1 - E E^+) T||_F^2.  V_1's make a space of
rank(E) m dimensions, of the N m of all tables: so *every table is a V_1 if and only if the N embeddings are linearly
independent*, which takes N <= d, as one-hot tokens have it.  There a skip to layer 1's values is a value embedding: a
table in the factors E and W.  For N > d most tables are none; of one with independent entries of variance 1 the V_1 of
any E miss (N - rank E) m on average, a share of 1 - d / N at least, nearly all of it in a language's vocabulary.

2. E free, as if it served the values alone (`least_missed`).  E W is any matrix of rank d or less, so T is a V_1 of
some embedding if and only if rank T <= d, and else the least square distance is the sum of squares of its singular
values beyond the first d (Eckart, Young).  So one table of m <= d columns is no more than an embedding could hold.  It
is more beside the other things that E is for, and tables T_1, ..., T_k of k layers are more together: V_1 = E W_i for
all of them asks rank [T_1 ... T_k] <= d, which k m columns exceed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from theory.errors import BadInput, at_least

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]


def nearest(embedding: Array, table: Array) -> Array:
    """Return the W (d, m) whose E W is nearest to a table (N, m), for an embedding (N, d); the least of several.

    Raises BadInput if they have different numbers of tokens.
    """
    import numpy as np

    if len(embedding) != len(table):
        raise BadInput(f"an embedding of {len(embedding)} tokens, and a table of {len(table)}")
    return np.linalg.pinv(embedding) @ table


def missed(embedding: Array, table: Array) -> float:
    """Return the least square distance of a table (N, m) from layer 1's values, for a given embedding (N, d)."""
    return float(((table - embedding @ nearest(embedding, table)) ** 2).sum())


def covered(embedding: Array, width: int) -> int:
    """Return the dimension of the space of V_1's with m = width numbers, of N m of all tables; embedding (N, d)."""
    import numpy as np

    at_least("width", width, 1)
    return int(np.linalg.matrix_rank(embedding)) * width


def least_missed(table: Array, d: int) -> float:
    """Return the least square distance of a table (N, m) from E W, over all embeddings of width d and all W."""
    import numpy as np

    at_least("d", d, 1)
    return float((np.linalg.svd(table, compute_uv=False)[d:] ** 2).sum())
