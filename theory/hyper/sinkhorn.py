"""Finite Sinkhorn iterations: how far they leave a matrix from doubly stochastic, and what that does over depth.

An iteration divides the columns of a positive matrix by their sums, then the rows by theirs (mHC, arXiv 2512.24880,
Eqn. 9: t = 20 of exp of the logits).  Rows then sum to 1 exactly, columns to 1 + delta at most (`column_excess`).  A
code that ends with the columns has the transposed matrices: what is said of streams and gradients changes places.

1. Over depth (`gain_bound`).  A product P of L such matrices has rows that sum to 1 and no negative entry.  So streams
are convex combinations, and the bound of `theory.hyper.streams` holds as it is, for every number of iterations.  What
suffers is what rests on columns: the sum of the streams and, through P^T, the largest gradient, which can grow by the
largest column sum of P.  That is at most
    min(n, (1 + delta)^L),
as c^T H has entries of at most (1 + delta) max c, and as all entries of P together are n.  So 2-norms grow by the root
of this at most (||P||^2 <= ||P||_1 ||P||_inf), and *the gain is below n, whatever the depth and however few
iterations*: the last division alone keeps gradients from exploding.
    Sharp.  (1 + delta)^L is attained for L < n and delta <= 1 / (n - 1) (`steepest`): from the left, matrix k gives
each of n - k columns 1 + delta, from the n - k + 1 columns that were largest, evenly, and spreads the rest over the
others.  n is approached by one matrix with any delta > 0 (`drift`), (1 - r) I + r 1 e_1^T, r = delta / (n - 1), whose
power L has the column sum n - (n - 1) (1 - r)^L: at depths of about n / delta.

2. Two streams.  After t >= 1 iterations of any positive 2 x 2 matrix delta < 1 / (2 t) (`two_stream_excess`), and no
smaller number will do.
    Proof.  Let the columns, once divided, have the upper entries x and y, s = x + y.  Dividing rows makes the first
column's sum 1 + delta with delta = (x - y) (1 - s) / (s (2 - s)).  As |x - y| < min(s, 2 - s), |delta| < 1 / 2 after
the first iteration.  Let a matrix with rows that sum to 1 have the upper left entry p, the lower left q and p + q =
1 + delta.  The next iteration has x - y = (p - q) / (1 - delta^2) and 1 - s = delta (p - q) / (1 - delta^2), so
    delta' = delta m^2 / ((1 - delta^2)^2 - delta^2 m^2),   m = p - q, |m| < 1 - |delta|.
It grows with m^2, so |delta'| < |delta| (1 - |delta|)^2 / ((1 - delta^2)^2 - delta^2 (1 - |delta|)^2)
= |delta| / (1 + 2 |delta|): 1 / |delta'| > 1 / |delta| + 2.  It is approached by rows (eta, eta^2) and (1, 1) as
eta -> 0 (`slowest`): the limit of the first iteration is the rows (1, 0) and (1/2, 1/2), delta = 1/2 and m = 1 - delta,
which stays so.                                                                                              QED
So 20 iterations leave at most 2.5 %, at logits far apart; then halving the error takes twice the iterations.

3. Three streams and more: no number of iterations is enough for all matrices.  Let n - 1 rows be (1, eta, ..., eta)
and the last (1, ..., 1) (`crowded`).  As eta -> 0, for fixed t, all these rows become (1, 0, ..., 0), so that delta
tends to n - 2 at least.  A column but the first is divided by (n - 1)^2 less than the first in every iteration, so that
takes logits of about -2 t log(n - 1): -28 for three streams and t = 20, -44 for four.

4. Logits in [-B, B] (`excess_bound`): delta <= exp(2 B tanh(B)^(2 t - 1)) - 1.
    Proof.  Let D(x, y) = log max (x_i / y_i) - log min (x_i / y_i).  A positive matrix M shrinks D by tanh(D_M / 4),
D_M the largest log of M_ik M_jl / (M_jk M_il) (Birkhoff, Hopf), here at most 4 B; dividing and inverting entries keep
D.  Columns are multiplied by v_t = 1 / (M^T u_{t-1}), rows by u_t = 1 / (M v_t), u_0 = 1, so the column sums
c = v_t (M^T u_t) have D(c, 1) = D(M^T u_t, M^T u_{t-1}) <= tanh(B) D(u_t, u_{t-1}).  Each step back gives tanh(B)
twice, and D(u_1, 1) <= 2 B, being a ratio of row sums, where no column's entries differ by a factor of more than
exp(2 B).  As c has the mean 1, its largest entry is at most exp D(c, 1).                                    QED
"""

from __future__ import annotations

from math import expm1, tanh
from typing import TYPE_CHECKING, Any

from theory.errors import BadInput, at_least

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]


def sinkhorn(matrix: Array, iterations: int) -> Array:
    """Return positive matrices (..., n, n) after so many iterations; exact in fractions.  Raises BadInput."""
    at_least("iterations", iterations, 0)
    if not (matrix > 0).all():
        raise BadInput("Sinkhorn iterations need a matrix of positive entries")
    for _ in range(iterations):
        matrix = matrix / matrix.sum(-2, keepdims=True)
        matrix = matrix / matrix.sum(-1, keepdims=True)
    return matrix


def column_excess(matrix: Array) -> Any:
    """Return delta of matrices (..., n, n): the largest column sum less 1."""
    return matrix.sum(-2).max(-1) - 1


def gain_bound(streams: int, sublayers: int, excess: Any) -> Any:
    """Return min(n, (1 + delta)^L): what mixing can do to the largest gradient of a stream, and to their sum."""
    at_least("streams", streams, 1)
    at_least("sublayers", sublayers, 0)
    try:
        return min(streams, (1 + excess) ** sublayers)
    except OverflowError:
        return streams


def steepest(streams: int, excess: Any) -> list[Array]:
    """Return n - 1 matrices whose product from the left has a largest column sum that each multiplies by 1 + delta.

    Args:
        streams: n, at least 2.
        excess: delta, at most 1 / (n - 1).

    Raises BadInput beyond that.
    """
    import numpy as np

    at_least("streams", streams, 2)
    if not 0 <= excess * (streams - 1) <= 1:
        raise BadInput(f"an excess over {streams} streams must lie in [0, 1 / {streams - 1}], got {excess}")
    matrices = []
    for k in range(1, streams):
        matrix = np.full((streams, streams), excess - excess)  # zeros of the same kind
        rich = streams - k + 1
        matrix[:rich, : rich - 1] = (1 + excess) / rich
        matrix[:, rich - 1 :] = ((1 - matrix.sum(1)) / k)[:, None]
        matrices.append(matrix)
    return matrices


def drift(streams: int, excess: Any) -> Array:
    """Return (1 - r) I + r 1 e_1^T, r = delta / (n - 1): every stream loses a share r to the first."""
    import numpy as np

    at_least("streams", streams, 2)
    share = excess / (streams - 1)
    matrix = (1 - share) * np.eye(streams, dtype=int)
    matrix[:, 0] += share
    return matrix


def two_stream_excess(iterations: int) -> float:
    """Return 1 / (2 t), below which delta of two streams is after t iterations."""
    at_least("iterations", iterations, 1)
    return 1 / (2 * iterations)


def excess_bound(logit: float, iterations: int) -> float:
    """Return the bound on delta for logits in [-B, B], B = logit."""
    at_least("iterations", iterations, 1)
    if not logit >= 0:
        raise BadInput(f"logits lie in an interval around 0, got {logit}")
    return expm1(2 * logit * tanh(logit) ** (2 * iterations - 1))


def slowest(eta: Any) -> Array:
    """Return the 2 x 2 matrix whose delta tends to 1 / (2 t) as eta tends to 0."""
    import numpy as np

    return np.array([[eta, eta**2], [eta / eta, eta / eta]])


def crowded(streams: int, eta: Any) -> Array:
    """Return the (n, n) matrix whose delta tends to n - 2 or more as eta tends to 0, for any number of iterations."""
    import numpy as np

    at_least("streams", streams, 2)
    matrix = np.full((streams, streams), eta)
    matrix[:, 0] = matrix[-1] = eta / eta
    return matrix
