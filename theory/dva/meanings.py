"""Hot girl drinks hot water (section 2.2's example): the number of meanings that one layer tells apart, by its heads.

Task.  m adjectives and n nouns; a noun that follows an adjective, and sees that and itself, has to be given the meaning
of the pair, one of m n vectors, by whatever linear map reads the layer's residual stream.  How many of the m n meanings
can be linearly independent?  (If all, any table of meanings whatever can be read.)

Ordinary heads.  Noun b after adjective a gets in head h the share s of a's value and 1 - s of its own,
    y_ab = f_b + sum_h s^h_ab (g^h_a - c^h_b),      g^h_a and c^h_b the head's values, f_b what is the noun's alone,
the stream and sum_h c^h_b.  The scores are any numbers if queries and keys are wide enough (tokens one-hot), so every
s^h_ab is any number in (0, 1).

The stream.  Counted is what heads tell apart if nothing limits their sum: what is attained below is attained in a
stream of at least so many dimensions, to which an output matrix adds the heads wherever there is room.  One of d
dimensions holds d independent meanings at most.  The paper's own model b, whose head is as wide as the stream and is
added to it without an output matrix, so tells min(m n, d) apart at most, and not n + d.

Theorem 1.  H ordinary heads of width w each give at most
    min(m n, n + H min(w, m + n - 1))
linearly independent meanings, and almost all weights just as many, if scores are free (`independent`).
    Proof.  Let N (m n x n) say which noun a pair has, and B (m n x (m + n)) be the pairs' differences g_a - c_b: the
incidence matrix of the complete bipartite graph K_mn, with the pairs as edges.  The m n rows y_ab are M Z with
M = [N, S_1 B, ..., S_H B], S_h = diag(s^h) (`pattern`), and Z the vectors f, g, c.  B has rank m + n - 1, and a head's
part S_h B Z_h rank w at most: so there are at most so many.
    At least.  Put B_h = B Z_h, Z_h a random (m + n) x w matrix, in place of B.  Choose rows I and as many columns
of [N, S_1 B_1, ..., S_H B_H].  By Laplace's expansion that minor is a polynomial in the s^h_ab, with one monomial for
every partition of I into I_0, ..., I_H of as many rows as columns are chosen of each part: the product of all s^h_ab
with ab in I_h, h > 0.  Its coefficient is, up to sign, the product of the minors of N at I_0 and of B_h at I_h.  So for
almost all s the rows I are linearly independent if and only if some partition makes each I_h independent in its own
matrix, and the rank is that of the matroids' union (Edmonds 1968): the least over all sets A of pairs of
    m n - |A| + n(A) + H min(w, r(A)),
n(A) the number of nouns in A, r(A) the rank of A's rows in B, a forest's edges.  A = {} makes it m n, and all pairs
n + H min(w, m + n - 1).  No A makes it less.  If r(A) >= w it is at least m n - m n + n + H w, as |A| - n(A) is largest
for all pairs.  Else let A's connected parts have p adjectives and q nouns, (p, q) = (p_1, q_1), (p_2, q_2), ...; each
has rank p + q - 1 and p q pairs at most.  So it is at least m n - sum phi(p_i, q_i),
    phi(p, q) = p q - q - H (p + q - 1) = (p - 1 - H) (q - H) - H^2,
which is positive only if both factors are: with one of them it is -H^2 at most, with none the product is H (H - 1) at
most.  There phi grows with p and with q, and phi(p, q) + phi(p', q') <= phi(p + p', q + q'), whose factors are the sums
of the others' and more.  So the sum is at most max(0, phi(m, n)): at least m n or n + H (m + n - 1) remains.      QED
Scores are free if queries and keys are wide enough.  Those of a head whose queries and keys are of width w, too, are
of rank w + 1; the count is the same up to 5 x 5, three heads and width 7, where it is checked and not proved.
So for all tables
    H >= n (m - 1) / (m + n - 1)            heads are needed (`heads_needed`), and H w >= n (m - 1) (`width_needed`).

A dynamic head adds to coordinate k of that the product q_bk (k_ak - k_bk) of a number of the noun's and one of the
adjective's.
Theorem 2.  One dynamic head gives at most min(m n, n + w) linearly independent meanings, w its width, and attains it.
    Proof.  At most: besides the n vectors f_b there are w coordinates, and each is one vector of the readout.  At
least: let coordinate (a, b'), a > 1, have q_b = [b = b'], k_a = 1 at a, 0 elsewhere, and V = 0: the pair gets s_ab
times the coordinate's vector, and any w of these are independent of each other and of f.                         QED

Theorem 3.  So does one head whose output a gate scales, coordinate by coordinate, with a function of the noun: the
same number, for a linear gate 1 + Q x (`theory.dva.gate`), and for any that can be 0 and 1.
    Proof.  At most, as its w coordinates are w vectors of the readout.  Coordinate (a, b') has the gate [b = b'] and
the value [token = a]: again the pair gets s_ab times the coordinate's vector.                                   QED
So what the example asks for is a product of something of the noun's and something of the adjective's, and not values
that the query exchanges for others.

What is lost.  If the m n meanings are orthonormal, outputs that span r dimensions miss them by m n - r at least in the
sum of squares, and by no more if they can span any r of the directions above: of a meaning's square the mean is
1 - r / (m n) (`least_loss`).

So what the paper's example shows is not what it is there for.  One adjective and two nouns need no head at all, as the
nouns are different; two adjectives, or three with two nouns, need one ordinary head, whatever the meanings.  The least
tables of which one ordinary head fails, however wide it is, are 3 x 3 and 4 x 2: 9 meanings, of which it tells 8 apart,
and 8, of which it tells 7.  There one dynamic head is enough, and so are two ordinary ones of half its
width, or one with a gate.
In large tables (m + n - 1 beyond the width of a head) it is width that binds, and then alike: H w for heads, w for a
dynamic one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from theory.errors import InvalidSize, at_least

if TYPE_CHECKING:
    from numpy import float64
    from numpy.typing import NDArray

    Array = NDArray[float64]


def independent(adjectives: int, nouns: int, heads: int, width: int | None = None) -> int:
    """Return the most linearly independent meanings that ordinary heads of a width give: theorem 1.

    Width None: wide enough.
    """
    _check(adjectives, nouns, heads)
    each = adjectives + nouns - 1
    if width is not None:
        at_least("width", width, 1)
        each = min(each, width)
    return min(adjectives * nouns, nouns + heads * each)


def independent_of_dynamic(adjectives: int, nouns: int, width: int) -> int:
    """Return the most linearly independent meanings that one dynamic head of a width gives, or one with a gate."""
    _check(adjectives, nouns, 1)
    at_least("width", width, 1)
    return min(adjectives * nouns, nouns + width)


def least_loss(adjectives: int, nouns: int, independent: int) -> float:
    """Return the least mean squared error for orthonormal meanings, of which `independent` are linearly independent."""
    _check(adjectives, nouns, 0)
    at_least("independent", independent, 0)
    return max(0.0, 1 - independent / (adjectives * nouns))


def heads_needed(adjectives: int, nouns: int) -> int:
    """Return how many ordinary heads, of any width, are needed to express every table."""
    _check(adjectives, nouns, 0)
    return -(-nouns * (adjectives - 1) // (adjectives + nouns - 1))


def width_needed(adjectives: int, nouns: int) -> int:
    """Return the width of all heads together, ordinary or dynamic, that is needed to express every table."""
    _check(adjectives, nouns, 0)
    return nouns * (adjectives - 1)


def pattern(shares: Sequence[Array]) -> Array:
    """Return M, one row per pair (a, b), b the faster.

    Columns: f_b, then g_a and c_b of every head.  shares: (m, n) per head.
    """
    import numpy as np

    m, n = shares[0].shape
    at_noun, at_adjective = np.tile(np.eye(n), (m, 1)), np.repeat(np.eye(m), n, axis=0)
    parts = [at_noun]
    for share in shares:
        s = share.reshape(-1, 1)
        parts += [s * at_adjective, -s * at_noun]
    return np.concatenate(parts, axis=1)


def dynamic_head(adjectives: int, nouns: int) -> tuple[Array, Array]:
    """Return gates of the dynamic head that tells all pairs apart: theorem 2's proof.

    They are q^R of every noun (n, w) and k^R of every adjective (m, w).  w = n (m - 1), V = 0, and k^R of nouns is 0.
    """
    import numpy as np

    _check(adjectives, nouns, 1)
    of_noun = np.tile(np.eye(nouns), (1, adjectives - 1))
    of_adjective = np.repeat(np.eye(adjectives)[:, 1:], nouns, axis=1)
    return of_noun, of_adjective


def _check(adjectives: int, nouns: int, heads: int) -> None:
    at_least("adjectives", adjectives, 1)
    at_least("nouns", nouns, 1)
    at_least("heads", heads, 0)
    if adjectives * nouns > 10**6:
        raise InvalidSize(f"tables have at most a million pairs, got {adjectives} x {nouns}")
