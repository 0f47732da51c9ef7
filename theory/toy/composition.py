"""The number of products L S N that give tr(S) I for a matrix S: Hurwitz's problem, composition of quadratic forms.

The best linear map of S = sum_{t <= n} x_t x_t^T, x ~ N(0, I_d), for the constant I is tr(S) I / (nd + 2), with error
d tau, tau = 2 / (nd + 2).  `theory.toy.few_terms` bounds what R < d products lose beside it.  Here: from which R on
nothing is lost.  S being symmetric, sum_r L_r S N_r = tr(S) I for all S says, at S = x x^T,
    (*)   sum_r (L_r x)(N_r^T x)^T = |x|^2 I.
Let p(d) be the least number of products that do so.

Lemma 1 (too few).  Let 2^k be the least power of two from d on, and Phi(S) = sum_{r <= R} L_r S N_r with R < 2^k.  Then
    E ||Phi(S) - I||^2 >= d tau + delta,                 delta = 2n / ((nd + 2)(n(d - 1) + 2)).
So p(d) >= 2^k >= d; and as delta does not depend on Phi, no sequence of such Phi comes near d tau either.  (For d = 16,
32, ... d products do not either: they would be d bilinear forms without a common zero, so that R^d were a division
algebra, which Bott, Kervaire and Milnor have excluded.)
Proof.
(1) There are unit vectors x, y with y^T L_r x = 0 for all r (Hopf's and Stiefel's theorem on bilinear maps without
    zeros).  For d = 1 there is nothing to show, as R = 0.  Else add zeros up to R = 2^k - 1.  If the R numbers
    y^T L_r x never vanished together, they would give a continuous map P^{d-1} x P^{d-1} -> P^{R-1} of real projective
    spaces, linear in x and in y, so that in cohomology with coefficients in F_2 the generator goes to a + b in
    F_2[a, b]/(a^d, b^d), and (a + b)^R = 0.  But all binomial coefficients of 2^k - 1 are odd, so a^i b^{R-i} with
    i = 2^{k-1} is there, and it is not zero: i < d and R - i = 2^{k-1} - 1 < d.
(2) Let alpha = 1/(nd + 2).  For every linear Psi, E<Psi(S), alpha tr(S) I - I> = 0: with tr Psi(S) = <Q, S>,
    E[tr(S) <Q, S>] = n (nd + 2) tr Q and E<Q, S> = n tr Q.  So alpha tr(S) I is the best linear map, and with
    Psi = Phi - alpha tr(S) I the error of Phi is d tau + E||Psi(S)||^2.
(3) Let <Q, S> = y^T Psi(S) y.  By (1) x^T Q x = -alpha, and E||Psi(S)||^2 >= E<Q, S>^2 = 2n ||Q||^2 + n^2 (tr Q)^2.
    Among these Q that is least where 2n Q + n^2 tr(Q) I is a multiple of x x^T, and there it is delta.            QED

Lemma 2 (enough).  A Hurwitz-Radon family of size N: rho(N) orthogonal N x N matrices E_i whose quotients E_i E_j^T,
i != j, are antisymmetric; rho(N) = 8b + 2^c for N = 2^{4b+c} times an odd number.  Then
    p(d) <= N ceil(d / rho(N)) ceil(d / N) for every N.
So p(d) = 2^k for d <= 9, and p(d) < d^2 / log2(d) + 2d for d >= 2.
Proof.  G(x) = sum_i x_i E_i has G G^T = |x|^2 I; its column r is L_r x with the i-th column of L_r that of E_i.  So N
products read |x|^2 I off rho(N) coordinates of x in N rows; d x d matrices need as many of these as stated.  For d <= 9
take N = 2^k, as rho(2^k) = 1, 2, 4, 8, 9 for k = 0, ..., 4.  In general rho(2^k) >= 2k, and N = 2^k < 2d with
k >= log2 d.
    The families.  With E = (0 -1; 1 0), X = (0 1; 1 0), Z = diag(1, -1), and words for Kronecker products, I and
        N = 2: E;    N = 4: EI, XE, ZE;    N = 8: EII, XEI, XXE, XZE, ZIE, ZEX, ZEZ.
E, X and Z anticommute; each word has one or three E, so it is antisymmetric, of square -I, and any two words differ in
an odd number of places where both have a letter other than I, so they anticommute: hence the quotients of these, and
with I, are antisymmetric.  From N to 16 N: X w I for the words w of eight, EIII I, and ZIII A for the antisymmetric A
of N.                                                                                                              QED

Lemma 3 (this is Hurwitz's problem).  Let q(d) be the least number of bilinear forms f_s with complex coefficients such
that |x|^2 |y|^2 = sum_s f_s(x, y)^2.  Then q(d)/2 <= p(d) <= 2 q(d).
Proof.  (*) between y^T and y is |x|^2 |y|^2 as a sum of p(d) products of two bilinear forms, and f g =
((f + g)/2)^2 + (i (f - g)/2)^2.  Conversely let f_s = y^T (U_s + i V_s) x with real U_s, V_s.  The real part of the
identity is |x|^2 |y|^2 = sum_s (y^T U_s x)^2 - (y^T V_s x)^2 for all y, so the symmetric matrices
sum_s U_s x x^T U_s^T - V_s x x^T V_s^T and |x|^2 I are equal: (*) with 2 q(d) products.                           QED

For sums of real squares the number is d just for d = 1, 2, 4, 8 (Hurwitz).  Whether p(d) is linear in d is open: from
above nothing better than the order of d^2 / log d is known to us; and q(d) > d^{1 + epsilon} for some epsilon > 0 would
give an exponential lower bound for non-commutative circuits of the permanent (Hrubes, Wigderson and Yehudayoff,
Non-commutative circuits and the sum-of-squares problem, 2011).

Descents at n = 2, whatever d = 2, ..., 8, end on d tau with 2^k products, and with 2^k - 1 above it by 0.09 to 0.53.
Lemma 2 is not the last word: at d = 11 and 12 some end on d tau, to seven digits, with 18 products, where it has 32.
"""

from __future__ import annotations

from fractions import Fraction
from functools import reduce

import numpy as np

from theory.errors import at_least, check_memory
from theory.prompts.moments import Array
from theory.toy.few_terms import TURN, identity_floor

LETTERS = {
    "I": np.eye(2, dtype=int),
    "E": TURN,
    "X": np.array([[0, 1], [1, 0]]),
    "Z": np.diag([1, -1]),
}
WORDS = {
    1: (),
    2: ("E",),
    4: ("EI", "XE", "ZE"),
    8: ("EII", "XEI", "XXE", "XZE", "ZIE", "ZEX", "ZEZ"),
}


def least_products(d: int) -> int:
    """Return 2^k of Lemma 1: with fewer products something is lost, however they are chosen."""
    at_least("d", d, 1)
    return 1 << (d - 1).bit_length()


def composition_floor(d: int, n: int, products: int) -> Fraction:
    """Return a lower bound on E||Phi(S) - I||^2 for sums of `products` products.

    It is the larger of `identity_floor` and Lemma 1.  Times c^2 it is one for c I.
    """
    floor = identity_floor(d, n, products)
    return max(floor, Fraction(2 * d, n * d + 2) + composition_excess(d, n)) if products < least_products(d) else floor


def composition_excess(d: int, n: int) -> Fraction:
    """Return Lemma 1's delta."""
    at_least("d", d, 1)
    at_least("n", n, 1)
    return Fraction(2 * n, (n * d + 2) * (n * (d - 1) + 2))


def radon_number(size: int) -> int:
    """Return rho(N), the number of matrices in a Hurwitz-Radon family of size N."""
    at_least("size", size, 1)
    b, c = divmod((size & -size).bit_length() - 1, 4)
    return 8 * b + 2**c


def hurwitz_radon(size: int) -> Array:
    """Return a Hurwitz-Radon family of signed permutations, I first (Lemma 2).

    Returns:
        Whole numbers, (rho(size), size, size).
    """
    at_least("size", size, 1)
    two = size & -size
    if two > 8:
        inner, eye = hurwitz_radon(size // 16), np.eye(size // 16, dtype=int)
        outer = [_word("X" + word) for word in WORDS[8]] + [_word("EIII")]
        units = [np.kron(w, eye) for w in outer] + [np.kron(_word("ZIII"), a) for a in inner[1:]]
    else:
        units = [np.kron(_word(word), np.eye(size // two, dtype=int)) for word in WORDS[two]]
    return np.stack([np.eye(size, dtype=int), *units])


def _word(word: str) -> Array:
    return reduce(np.kron, (LETTERS[letter] for letter in word))


def composition_count(d: int) -> int:
    """Return the number of products in `composition`: Lemma 2's bound for the best N."""
    return _count(d, _best_size(d))


def composition(d: int) -> Array:
    """Return matrices L_r with sum_r L_r S L_r^T = tr(S) I for symmetric S (Lemma 2).

    The first is I where `identity_comes_first`.

    Returns:
        Whole numbers, (R, d, d).

    Raises:
        InvalidSize: if they do not fit into memory.
    """
    size = _best_size(d)
    check_memory(f"a composition at d = {d}", _count(d, size) * d**2)
    family = _first_column_diagonal(hurwitz_radon(size))
    products = []
    for rows in _groups(d, size):
        for columns in _groups(d, len(family)):
            part = np.zeros((size, d, d), dtype=int)  # [r, i, j] = E_j[i, r]
            part[:, rows, columns] = family[: columns.stop - columns.start, : rows.stop - rows.start].transpose(2, 1, 0)
            products.append(part)
    return np.concatenate(products)


def identity_comes_first(d: int) -> bool:
    """Return whether one family suffices for `composition`, so that its first matrix is I: for d <= 9."""
    return radon_number(_best_size(d)) >= d


def _first_column_diagonal(family: Array) -> Array:
    """Permute a family's rows and turn signs, so that the first column of the i-th matrix is e_i.

    The first columns of signed permutations with antisymmetric quotients are, up to sign, different unit vectors.
    """
    first = family[:, :, 0]
    at = np.abs(first).argmax(axis=1)
    rest = [i for i in range(family.shape[1]) if i not in at]
    signs = np.concatenate([first[range(len(at)), at], np.ones(len(rest), dtype=int)])
    turned: Array = signs[None, :, None] * family[:, [*at, *rest]]
    return turned


def _groups(d: int, size: int) -> list[slice]:
    return [slice(start, min(start + size, d)) for start in range(0, d, size)]


def _count(d: int, size: int) -> int:
    return size * -(-d // radon_number(size)) * -(-d // size)


def _best_size(d: int) -> int:
    return min((2**k for k in range(least_products(d).bit_length())), key=lambda size: _count(d, size))
