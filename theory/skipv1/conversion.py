"""The change of a layer's output when a trained MHA becomes a SkipV1Former, before further training (5.1, B.1).

A layer puts out y = sum_h O_h A_h V_h x: of every head its part of the output projection, its attention pattern, its
value.  A converted one keeps values of its own in m of its H heads, m a divisor of H and g = H / m, made of the H that
there were (`icl.conversion` has the ways); its other heads read values of layer 1, or their outputs are zero.  Where
queries are grouped, a head here is one with a key and a value: O_a A_h V_b is then a sum over its query heads.

Setting.  Write z[a, h, b] = O_a A_h V_b x, and z[a, h, b'] where the value is head b's of layer 1.  The matrices O_a
are independent of one another and of all else, of mean zero and alike; so are the V_b, and layer 1's.  Mean squares are
in units of one head's output E|z[a, h, b]|^2, that of a value of layer 1 being s.  Patterns overlap by r, that is,
E<z[a, h, b], z[a, k, b]> = r for h other than k: 1 where all heads attend alike, as where queries are zero, and 0 where
no two attend to the same.

Theorem.  The mean square of what conversion adds to y, over that of y, is, for g of 2 or more and, where a way takes
the largest matrices, with any drawn at random in their place,
    first     (1 + s) (H - m) / H
    apart     ((1 + s) (H - m) + m (g - 1) / g) / H
    mean      ((1 + s) (H - m) + m (g + 1) / g - 2 / g) / H
    top-v     ((1 + s) (H - m) + 2 m - 2 sum_j p_j(j)) / H
    mean-vo   (H + m / g^2 - 2 / g^2 sum_j sum_{a in G_j} rho(a, j)) / H
    top-vo    (H + m - 2 sum_j sum_a p_j(a)^2 rho(a, j)) / H
    whole     (H - m) / H
with j = 0, ..., m - 1 the heads that keep values, G_j = {g j, ..., g j + g - 1}, rho(a, j) = 1 if a = j, else r, and
p_j(a) = C(a, j) C(H - 1 - a, m - 1 - j) / C(H, m) the chance that the j-th of m heads drawn at random is a.
Proof.  E<z[a, h, b], z[a', k, b']> is 0 unless a = a' and b = b', since one of the matrices is then independent of all
else and has mean zero.  So y has mean square H, and the difference is a sum over (a, b) of the mean squares of
sum_h c_h z[a, h, b], which are sum_h c_h^2 + r sum_{h != k} c_h c_k.  A head that reads layer 1 and not its own value
adds z[h, h, h'] and lacks z[h, h, h]: 1 + s.  One whose output is zero lacks its own: 1.
`first` and `whole` change no other head.  Under `apart` head j has 1/g of its own value and of g - 1 others:
(1 - 1/g)^2 + (g - 1) / g^2 = (g - 1) / g.  Under `mean` so has head 0, as 0 is in G_0, and every other has none of its
own, as j < g j: 1 + g / g^2.  Under `top-v` head j has its own value with chance p_j(j), and another one, 2, otherwise.
Under `mean-vo` head j puts out g^-2 sum over a, b in G_j of z[a, j, b]: the g^2 - g with a != b, which y lacks, make
(g^2 - g) / g^4, and those with a = b, 1 + g^-4 - 2 g^-2 rho(a, j); the groups hold every head once, so nothing else is
lacking.  Under `top-vo` it puts out z[a, j, b] with a and b drawn apart from each other: of mean square 1, and in y
where both are a, with the chance p_j(a)^2: 1 - 2 sum_a p_j(a)^2 rho(a, j), beside the H that y has.                QED

At g = 2 and s = 1, H large: whole 1/2, mean-vo 5/8 (r = 1) to 9/8 (r = 0), first 1, apart 5/4, top-vo up to 3/2, mean
7/4, top-v 2.  So of independent heads the paper's way, `mean`, changes a layer more than any other of these but top-v,
and more than leaving the layer out would, which is 1.  With smaller values of layer 1 it comes before top-vo: at s = 0
it adds 1.17 of 12 heads, top-vo 1.26.  What heads of a trained model are to one another is another matter:
`scale-uptrain` measures their losses.

What the largest add.  Let signs of matrices be free: with all sizes given, each O_a and V_a is as likely as its
negative.  Let all heads attend alike, whatever x is, and what they sum be white.  Then `whole`, with the heads of the
largest products O_a V_a, adds at most (H - m) / H of the output.
Proof.  As signs are free, products of two different heads' outputs are zero on average with all sizes given, so that
the mean square of any heads' outputs is the sum of theirs, a head's being ||O_a V_a||_F^2 for white inputs.  The H - m
that are dropped are no larger than the m that are kept.                                                            QED

Theorem.  Let all heads attend alike, whatever x is, and what they sum be white.  Of all choices of m values and m parts
of the output projection of width w, other parts zero, those of `svd` change y least.
Proof.  With one pattern A for all heads y = M A x, M = sum_h O_h V_h, and any choice puts out M' A x, M' of rank m w at
most.  For white A x the mean square of (M - M') A x is ||M - M'||_F^2 times a number that no choice enters, and the
truncated singular value decomposition is nearest (Eckart and Young).                                               QED
Where queries are grouped, `svd` is of stacks over a group's queries, and the best under what `icl.conversion` says.
"""

from __future__ import annotations

from fractions import Fraction
from math import comb

from theory.errors import BadInput, at_least

DISTANCES = ("first", "mean", "apart", "top-v", "mean-vo", "top-vo", "whole")


def distance(
    how: str, heads: int, kept: int, overlap: Fraction = Fraction(1), first: Fraction = Fraction(1)
) -> Fraction:
    """Return the mean square that conversion adds to a layer's output, over that of the output.

    Heads have independent weights; heads that a way chooses by their size are taken to be drawn at random.

    kept      m heads keep values of their own, a divisor of the number of heads H
    overlap   r of the heads' patterns, 0 to 1
    first     s, a value of layer 1 in mean square over one of the layer's own

    Raises BadInput for a way of which this is not known, such as svd, and for numbers that make no sense.
    """
    at_least("heads", heads, 1)
    at_least("kept", kept, 1)
    if heads % kept:
        raise BadInput(f"kept must divide the {heads} heads, got {kept}")
    if not 0 <= overlap <= 1 or first < 0:
        raise BadInput(f"an overlap is from 0 to 1 and a mean square is not negative, got {overlap} and {first}")
    group, own, of_first = heads // kept, range(kept), (1 + first) * (heads - kept)
    added: Fraction
    match how:
        case _ if group == 1 and how in DISTANCES:
            return Fraction(0)
        case "first":
            added = Fraction(of_first)
        case "apart":
            added = of_first + Fraction(kept * (group - 1), group)
        case "mean":
            added = of_first + Fraction(kept * (group + 1) - 2, group)
        case "top-v":
            added = of_first + 2 * kept - 2 * sum((_chance(j, j, heads, kept) for j in own), Fraction(0))
        case "mean-vo":
            alike = sum((_rho(a, j, overlap) for j in own for a in range(group * j, group * (j + 1))), Fraction(0))
            added = heads + (kept - 2 * alike) / group**2
        case "top-vo":
            drawn = (_chance(a, j, heads, kept) ** 2 * _rho(a, j, overlap) for j in own for a in range(heads))
            added = heads + kept - 2 * sum(drawn, Fraction(0))
        case "whole":
            added = Fraction(heads - kept)
        case _:
            raise BadInput(f"the distance of {how!r} is not known; it is of {', '.join(DISTANCES)}")
    return added / heads


def _chance(a: int, j: int, heads: int, kept: int) -> Fraction:
    """Return the probability that head a is the j-th, from 0, of those drawn."""
    return Fraction(comb(a, j) * comb(heads - 1 - a, kept - 1 - j), comb(heads, kept))


def _rho(a: int, j: int, overlap: Fraction) -> Fraction:
    return Fraction(1) if a == j else overlap
