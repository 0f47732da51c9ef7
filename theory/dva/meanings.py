"""Hot girl drinks hot water: how many meanings one layer can tell apart, by heads and width (section 2.2's example).

Task.  m adjectives and n nouns; a noun that follows an adjective, and sees that and itself, has to be given the meaning
of the pair, one of m n vectors, by whatever linear map reads the layer's residual stream.  How many of the m n meanings
can be linearly independent?  (If all, any table of meanings whatever can be read.)

Ordinary heads.  Noun b after adjective a gets in head h the share s of a's value and 1 - s of its own,
    y_ab = f_b + sum_h s^h_ab (g^h_a - c^h_b),      g^h_a and c^h_b the head's values, f_b what is the noun's alone,
the stream and sum_h c^h_b.  The scores are any numbers if queries and keys are wide enough (tokens one-hot), so every
s^h_ab is any number in (0, 1).

Theorem 1.  H ordinary heads give at most min(m n, n + H (m + n - 1)) linearly independent meanings, and almost all
weights just as many, if every head is at least m + n - 1 wide.
    Proof.  The m n rows y_ab are M Z, Z the n + H (m + n) vectors f, g, c.  In M's columns of one head those of g add
up to minus those of c (s_ab in each row, and -s_ab): so its rank is at most n + H (m + n - 1).  `pattern` is M, and of
numbers s at random it has that rank: a determinant that is not zero at one place is zero almost nowhere (checked,
`independent`).                                                                                                  QED
With width w a head's columns have rank w at most.  So for all tables
    H >= n (m - 1) / (m + n - 1)            heads are needed (`heads_needed`), and H w >= n (m - 1) (`width_needed`).

A dynamic head adds to coordinate k of that the product q_bk (k_ak - k_bk) of a number of the noun's and one of the
adjective's.
Theorem 2.  One dynamic head gives at most min(m n, n + w) linearly independent meanings, w its width, and attains it.
    Proof.  Coordinates: each is one vector of the readout.  Let coordinate (a, b'), a > 1, have q_b = [b = b'], k_a = 1
at a, 0 elsewhere, and V = 0: the pair gets s_ab times the coordinate's vector, and any w of these are independent of
each other and of f.                                                                                              QED

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
    """The most linearly independent meanings that ordinary heads of a width (None: wide enough) give."""
    _check(adjectives, nouns, heads)
    each = adjectives + nouns - 1
    if width is not None:
        at_least("width", width, 1)
        each = min(each, width)
    return min(adjectives * nouns, nouns + heads * each)


def independent_of_dynamic(adjectives: int, nouns: int, width: int) -> int:
    """The most that one dynamic head of a width gives, or one with a gate."""
    _check(adjectives, nouns, 1)
    at_least("width", width, 1)
    return min(adjectives * nouns, nouns + width)


def least_loss(adjectives: int, nouns: int, independent: int) -> float:
    """The least mean squared error for orthonormal meanings, of which so many are linearly independent."""
    _check(adjectives, nouns, 0)
    at_least("independent", independent, 0)
    return max(0.0, 1 - independent / (adjectives * nouns))


def heads_needed(adjectives: int, nouns: int) -> int:
    """Ordinary heads, of any width, for every table."""
    _check(adjectives, nouns, 0)
    return -(-nouns * (adjectives - 1) // (adjectives + nouns - 1))


def width_needed(adjectives: int, nouns: int) -> int:
    """Of all heads together, ordinary or dynamic, for every table."""
    _check(adjectives, nouns, 0)
    return nouns * (adjectives - 1)


def pattern(shares: Sequence[Array]) -> Array:
    """M: a row a pair (a, b), b the faster; columns f_b, then of every head g_a and c_b.  shares: (m, n) a head."""
    import numpy as np

    m, n = shares[0].shape
    at_noun, at_adjective = np.tile(np.eye(n), (m, 1)), np.repeat(np.eye(m), n, axis=0)
    parts = [at_noun]
    for share in shares:
        s = share.reshape(-1, 1)
        parts += [s * at_adjective, -s * at_noun]
    return np.concatenate(parts, axis=1)


def dynamic_head(adjectives: int, nouns: int) -> tuple[Array, Array]:
    """Gates of the dynamic head that tells all pairs apart: q^R of every noun (n, w), k^R of every adjective (m, w).

    w = n (m - 1), V = 0, and k^R of nouns is 0: theorem 2's proof.
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
