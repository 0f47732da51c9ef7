"""Claims on the moments behind the toy's loss, beyond isotropic, normal inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import product

import numpy as np
import sympy

from experiments.ledger.claim import Claim
from theory.prompts import moments
from theory.prompts.isserlis import PromptEngine
from theory.prompts.moments import Array, PromptMoments
from theory.prompts.wishart import independent_sandwich, inverse_sandwich, mean_inverse
from theory.skipv1.paper import PAPER

Law = dict[Fraction, Fraction]  # {value: probability}
SIGNS: Law = {Fraction(v): Fraction(1, 2) for v in (-1, 1)}
SPIKED: Law = {Fraction(0): Fraction(3, 4), **{Fraction(v): Fraction(1, 8) for v in (-2, 2)}}
SKEW: Law = {Fraction(2): Fraction(1, 5), Fraction(-1, 2): Fraction(4, 5)}


def excess(law: Law) -> Fraction:
    """The excess kurtosis of a standardised law."""
    return sum((p * v**4 for v, p in law.items()), Fraction(-3))


def normal(_law: Law) -> Fraction:
    """That of a normal law, whatever the law is."""
    return Fraction(0)


def joint_values(laws: Sequence[Law]) -> Iterator[tuple[Array, Fraction]]:
    """All joint values of independent numbers, with their probabilities."""
    for choice in product(*(law.items() for law in laws)):
        probability = Fraction(1)
        for _, p in choice:
            probability *= p
        yield np.array([v for v, _ in choice], dtype=object), probability


def unit(shape: tuple[int, int], i: int, j: int) -> Array:
    """The matrix with a one at (i, j) and zeros elsewhere, in exact numbers."""
    m = np.zeros(shape, dtype=object)
    m[i, j] = 1
    return m


MOMENTS = Claim(
    "moments.general",
    PAPER.ours,
    place="theory/prompts/moments.py and theory/prompts/wishart.py; SkipV1Former's Lemma 3 is the isotropic, "
    "normal case",
    statement="The toy's population loss is a closed form for x of any covariance, W* around any W0 with any "
    "separable covariance, and inputs whose whitened entries are independent with any kurtosis; and so are the "
    "moments of X X^T, of its inverse for n > d + 1 and of the inverse's square for n > d + 3.",
    assumes="normal W* and noise; finite fourth moments of x; for the inverse, normal x",
    verdict="verified",
    proof=moments,
)


@MOMENTS.check(
    "every entry of E[S M S] and E[W* Q S] is the sum of all pairings, a polynomial in n, sigma, W0, and "
    "the entries of Sigma, Psi and Gamma; d = 2",
    states=(0, 1),
    control=(1, 0),
    wrong="the covariances of W*'s rows and columns exchanged",
    kind="exact",
)
def pairings_give_the_moments(order: Sequence[int]) -> bool:
    """All entries of E[S M S] and E[W* Q S], d = 2, every covariance and W0 of symbols.

    order says which of the engine's two prior covariances is taken for rows and which for columns.
    """
    d, engine = 2, PromptEngine(2, general=True)
    prior = [np.array(m, dtype=object) for m in (engine.prior_rows, engine.prior_columns)]
    task = PromptMoments(
        d,
        engine.n,
        engine.sigma,
        np.array(engine.w0, dtype=object),
        covariance=np.array(engine.covariance, dtype=object),
        prior_rows=prior[order[0]],
        prior_columns=prior[order[1]],
    )
    names = [(kind, i) for kind in "xy" for i in range(d)]

    def entry(p: int, q: int) -> tuple[str, int, int]:
        return names[p][0] + names[q][0], names[p][1], names[q][1]

    both = range(2 * d)
    for k, m in product(both, both):
        closed = task.sandwich(unit((2 * d, 2 * d), k, m))
        if any(closed[i, j] != engine.expect(entry(i, k), entry(m, j)) for i, j in product(both, both)):
            return False
    for k, m in product(range(d), both):
        closed = task.target_left(unit((d, 2 * d), k, m))
        if any(closed[i, j] != engine.expect(("w", i, k), entry(m, j)) for i, j in product(range(d), both)):
            return False
    return True


@MOMENTS.check(
    "E[S_xx M S_xx] over every prompt of one and two inputs that are signs, skew, or mostly zero; exact",
    states=excess,
    control=normal,
    wrong="the moments of normal inputs",
    kind="exact",
)
def enumeration_gives_the_sandwich(kurtosis_of: Callable[[Law], Fraction]) -> bool:
    """E[S_xx M S_xx] over every prompt of n inputs, for a root of Sigma that is not diagonal; exact, n = 1, 2."""
    root = np.array([[Fraction(1), Fraction(0)], [Fraction(1, 2), Fraction(-2)]])
    m = np.array([[Fraction(1), Fraction(2)], [Fraction(-3), Fraction(1, 3)]])
    for laws in ((SIGNS, SKEW), (SPIKED, SPIKED)):
        for n in (1, 2):
            mean = 0 * m
            for xi, p in joint_values(laws * n):
                x = root @ xi.reshape(n, 2).T
                mean = mean + p * (x @ x.T @ m @ x @ x.T)
            if (independent_sandwich(m, root, np.array([kurtosis_of(law) for law in laws]), n) != mean).any():
                return False
    return True


@MOMENTS.check(
    "d = 1: the mean inverse and inverse square, by integrals of the chi-square density",
    states=0,
    control=1,
    wrong="one degree of freedom more",
    kind="exact",
)
def chi_square_inverses(shift: int) -> bool:
    """d = 1: E 1/W and E 1/W^2 by exact integrals of the density, against the closed forms at n + shift."""
    w = sympy.Symbol("w", positive=True)
    one = np.array([[Fraction(1)]])
    for n in (5, 6, 9):
        weight = w ** sympy.Rational(n - 2, 2) * sympy.exp(-w / 2)
        mass, first, second = (sympy.integrate(weight / w**k, (w, 0, sympy.oo)) for k in range(3))
        closed = mean_inverse(one, n + shift)[0, 0], inverse_sandwich(one, one, n + shift)[0, 0]
        if any(sympy.simplify(m / mass) != sympy.Rational(f) for m, f in zip((first, second), closed, strict=True)):
            return False
    return True
