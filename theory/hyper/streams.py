"""Hyper-connections as a matrix over depth: what streams can hold, how fast they grow, what stochastic mixing changes.

Notation.  n streams of width d are the rows of X; X_0 = 1 x^T, x the embedding.  Sublayer l reads h_l = X_{l-1}^T a_l,
puts out v_l and leaves X_l = H_l X_{l-1} + b_l v_l^T, l = 1 .. L; the last read is X_L^T a.  Hyper-Connections (arXiv
2409.19606) learn a, b and H; mHC (arXiv 2512.24880) has H doubly stochastic, 0 < a < 1 and 0 < b < 2 by entries.  ||X||
is the largest norm of a stream, J = I - 1 1^T / n takes their mean away.  A norm before the sublayer bounds v_l by
c_l, from its weights alone.

Matrix (`rows`).  X_l = W_l (x, v_1, ..., v_l)^T with W_0 = 1 and W_l = [H_l W_{l-1}, b_l].  So a read is a sum of
earlier outputs, of output j with the weight a^T H_{l-1} ... H_{j+1} b_j: streams are a depth map, and what follows
needs this matrix alone.

Largest (`largest`).  A read with weights w is at most |w_0| ||x|| + |w_1| c_1 + ..., and for given a, b and H no
smaller number will do.
    Proof.  Let x lie along e, and sublayer l put out s_l c_l e (e^T u) / sqrt d for its normed input u.  Then all
reads lie along e, a read that is not zero is normed to + or - sqrt d e, and its sublayer puts out + or - c_l e, of the
sign that s_l makes it: that of w_l w_0.  A read that is zero by cancelling is not at sizes c as near as one likes. QED

Growth (`grown`).  If sum_j |H_ij| <= q, |b_i| <= beta and c_l = C, then ||H X|| <= q ||X||, so that
    ||X_L|| <= q^L ||x|| + beta C (1 + q + ... + q^(L-1)),
attained by H = q I, b = beta 1 and aligned outputs.  With q = 1 + eps, |H - I| having row sums of eps at most, streams
grow as (1 + eps)^L: geometric for every eps > 0, norms before the sublayers or not.
    Typical.  H = I + eps G / sqrt n, entries of G independent normal, outputs uncorrelated of mean square C^2, b = 1:
E ||H X||_F^2 = (1 + eps^2) ||X||_F^2, as E G = 0 and E G^T G = n I.  So mean squares of the streams obey the same
law, with 1 + eps^2 for q and squares for lengths: (1 + eps^2)^(L/2) in place of (1 + eps)^L.  The mean stream
(`typical_mean`) gets a part in n of what that adds to a residual stream's mean square r_L = ||x||^2 + L C^2:
    E ||mean||^2 = r_L + (E ||X_L||_F^2 / n - r_L) / n.
    Proof.  Let Q_l = E P^T 1 1^T P / n^2, P = H_L ... H_{l+1}.  Then Q_{l-1} = E H^T Q_l H = Q_l + eps^2 tr(Q_l) I / n,
so tr Q_l = (1 + eps^2)^(L-l) / n, Q_l = 1 1^T / n^2 + (tr Q_l - 1 / n) I / n, and 1^T Q_l 1 = 1 + ((1 + eps^2)^(L-l) -
1) / n, which is what output l, in all streams alike, counts for.                                            QED

Start (`start`).  Hyper-Connections begin with H = I, b = 1 and a = e_k, k = (l - 1) mod n.  Then every stream is
x + v_1 + ... + v_l, so every read is PreNorm's, exactly, whatever the sublayers are.  The last read, a sum over
streams, is n times PreNorm's, and a norm with eps = 0 removes that factor.

Doubly stochastic H (`mean_row`).  Rows that sum to 1, no entry negative: q = 1, and products are such matrices again,
so
    ||X_L|| <= ||x|| + max b_1 c_1 + ... + max b_L c_L     linear in depth, as PreNorm's stream is.
It is attained whatever the H are, by b_l = beta_l 1 and aligned outputs: H 1 = 1 keeps equal streams equal, so such a
network *is* PreNorm.  Columns that sum to 1: 1^T H = 1^T, so the mean stream is
    x + mean(b_1) v_1 + ... + mean(b_L) v_L     exactly.
The H have no part in it: a last read that sums the streams is a residual sum whose weights are mean(b), and an output
is never forgotten or picked there, but by its b.  Gradients: X_l hands G back to X_{l-1} as H_l^T G, and H_l^T is
doubly stochastic too, so the largest gradient of a stream does not grow through mixing, and their sum is kept.
    A code that forgets to apply H has H = I, which is doubly stochastic: it keeps below the same bound and has the same
mean stream.  What a read of single streams holds of single outputs (`rows`) tells.

Without norms, ||v_l|| <= alpha ||h_l||: ||X_l|| <= (q + alpha sum |a| beta) ||X_{l-1}||, attained by f = alpha I, equal
a and equal b.  So doubly stochastic mixing does not bound streams: with a = 1 / n and b = 1 the mean stream grows as
(1 + alpha)^L, as a residual stream does, whatever the H are; with mHC's ranges, up to (1 + 2 n alpha)^L.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from theory.errors import BadInput, at_least

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]  # of floats, or of fractions


@dataclass(frozen=True)
class Sublayer:
    """The weights of a sublayer over n streams.

    read    a, (n,): what it reads of every stream
    mix     H, (n, n): row i is what stream i becomes, without the output
    write   b, (n,): how much of the output every stream gets
    """

    read: Array
    mix: Array
    write: Array

    def __post_init__(self) -> None:
        n = len(self.read)
        if self.mix.shape != (n, n) or self.write.shape != (n,):
            raise BadInput(f"{n} streams need a mix of ({n}, {n}) and a write of ({n},), got another shape")


def rows(sublayers: Sequence[Sublayer], last: Array) -> list[Array]:
    """Return the weights of every read on the embedding and the outputs before it; exact if the weights are.

    Args:
        sublayers: in order, all over n streams.
        last: a of the last read, (n,).

    Returns:
        For sublayer l = 1 .. L an array of l weights, then the last read's L + 1.

    Raises:
        BadInput: Streams differ in number.
    """
    import numpy as np

    if any(sublayer.read.shape != last.shape for sublayer in sublayers):
        raise BadInput(f"all sublayers must have {len(last)} streams, as the last read has")
    contents = np.ones((len(last), 1), dtype=last.dtype)
    weights = []
    for sublayer in sublayers:
        weights.append(sublayer.read @ contents)
        contents = np.column_stack([sublayer.mix @ contents, sublayer.write])
    return [*weights, last @ contents]


def largest(row: Array, sizes: Sequence[Any]) -> Any:
    """Return the largest norm of a read with these weights, for the embedding and outputs of at most these norms.

    Raises BadInput if their numbers differ.
    """
    if len(row) != len(sizes):
        raise BadInput(f"a read of {len(row)} outputs, the embedding included, got {len(sizes)} sizes")
    return sum(abs(weight) * size for weight, size in zip(row, sizes, strict=True))


def grown(growth: Any, sublayers: int, *, embedding: Any, output: Any) -> Any:
    """Return q^L embedding + output (1 + q + ... + q^(L-1)), for q = growth and L sublayers; exact if these are.

    It bounds the streams for row sums of q and beta C = output, and is their mean square where all three are squares.
    """
    at_least("sublayers", sublayers, 0)
    total = embedding
    for _ in range(sublayers):
        total = growth * total + output
    return total


def typical_mean(off: Any, sublayers: int, *, streams: int, embedding: Any, output: Any) -> Any:
    """Return the mean square of the mean stream for random mixing, eps = off; embedding and output are squares, too."""
    at_least("streams", streams, 1)
    residual = grown(1, sublayers, embedding=embedding, output=output)
    return residual + (grown(1 + off**2, sublayers, embedding=embedding, output=output) - residual) / streams


def start(streams: int, sublayers: int) -> list[Sublayer]:
    """Return the weights with which Hyper-Connections begin, in whole numbers.  Raises InvalidSize."""
    import numpy as np

    at_least("streams", streams, 1)
    at_least("sublayers", sublayers, 0)
    one = np.eye(streams, dtype=int)
    return [Sublayer(one[i % streams], one, np.ones(streams, dtype=int)) for i in range(sublayers)]


def mean_row(sublayers: Sequence[Sublayer]) -> Array:
    """Return what the mean stream holds of the embedding and every output, if every H is doubly stochastic."""
    import numpy as np

    return np.array([1, *(sublayer.write.sum() / len(sublayer.write) for sublayer in sublayers)])
