"""Claims on approximating a constant matrix by a few products L S N, and on sums of squares that compose."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
from scipy.optimize import least_squares, minimize

from experiments.ledger.claim import Claim
from experiments.toys.checks import EXACT_SLACK, ROUNDING
from theory.prompts.moments import Array
from theory.skipv1.paper import PAPER
from theory.toy import composition, few_terms
from theory.toy.few_terms import quaternions, term_floor, terms_loss
from theory.toy.tokens import whole


def identity(d: int) -> Array:
    """Return I, (d, d)."""
    return np.eye(d, dtype=int).astype(object) * Fraction(1)


def whole_matrix(rng: np.random.Generator, *shape: int) -> Array:
    """Return random whole numbers from -4 to 4."""
    return whole(rng, *shape) * Fraction(1)


def exactly(array: Array) -> Array:
    """Return the same numbers, which float64 holds, as Fractions."""
    return np.array([Fraction(float(x)) for x in np.ravel(array)], dtype=object).reshape(np.shape(array))


FEW_PRODUCTS = Claim(
    "skipv1.few-products",
    PAPER.ours,
    place="theory.toy.few_terms, Lemma 1",
    statement="No sum of R products L S N is nearer to W0 than ||W0||^2 theta/(n + theta) in mean square, "
    "theta = (1 + 2/d) ||W0||^2 / (sum of its R largest squared singular values) - 1.",
    assumes="S a Wishart matrix of n N(0, I_d) vectors",
    verdict="verified",
    proof=few_terms,
)


@FEW_PRODUCTS.check(
    "exact losses of random products, and of the four quaternion units, which meet it, d = 1..4",
    states=lambda terms: terms,
    control=lambda terms: terms - 1,
    wrong="the floor of one product less",
    kind="exact",
)
def products_stay_above(floor_of: Callable[[int], int]) -> bool:
    """Exact: random products and the quaternions, d = 1..4; `floor_of(R)` products are what the floor allows for."""
    rng = np.random.default_rng(0)
    for d in (1, 2, 3, 4):
        target = whole_matrix(rng, d, d) if d < 4 else 3 * identity(d)
        squares = (np.linalg.svd(target.astype(float), compute_uv=False) ** 2).tolist() if d < 4 else [9] * d
        for left, right in _products(rng, d):
            for n in (1, 2, 7):
                least = scaled_loss(left, right, n, target).least
                floor = term_floor(squares, n, floor_of(len(left)))
                if least < floor - (ROUNDING * sum(squares) if d < 4 else 0) or (len(left) == 4 and least != floor):
                    return False
    return True


def _products(rng: np.random.Generator, d: int) -> Iterator[tuple[Array, Array]]:
    for terms in (1, 2, 3):
        yield whole_matrix(rng, terms, d, d), whole_matrix(rng, terms, d, d)
    if d == 4:
        family = quaternions(4).astype(object) * Fraction(1)
        yield family, np.swapaxes(family, 1, 2)


@dataclass(frozen=True)
class ScaledLoss:
    """The loss of products that are all multiplied by one number t: constant + linear t + square t^2."""

    constant: Any
    linear: Any
    square: Any

    def at(self, scale: Any) -> Any:
        return self.constant + self.linear * scale + self.square * scale**2

    @property
    def least(self) -> Any:
        return self.constant - self.linear**2 / (4 * self.square) if self.square else self.constant


def scaled_loss(left: Array, right: Array, n: int, target: Array) -> ScaledLoss:
    """Return the loss exactly, for arrays of Fractions or whole numbers."""
    losses = [terms_loss(scale * left, right, n, target) for scale in (0, 1, 2)]
    zero, one, two = (loss if isinstance(loss, Fraction) else Fraction(int(loss)) for loss in losses)
    return ScaledLoss(constant=zero, linear=(4 * one - two - 3 * zero) / 2, square=(two - 2 * one + zero) / 2)


@FEW_PRODUCTS.check(
    "descent in four products at d = 4, n = 3 ends on it, and not below",
    states=4,
    control=3,
    wrong="the floor of three",
    kind="descent",
)
def descent_ends_on_floor(terms: int) -> bool:
    """Minimising over L_r and N_r at d = 4, n = 3: four products end on the floor of `terms`, and not below."""
    d, n = 4, 3
    floor = float(term_floor([1.0] * d, n, terms))
    return floor - ROUNDING * d <= products_minimum(4, d, n) <= floor * (1 + EXACT_SLACK)


@cache
def products_minimum(terms: int, d: int, n: int, starts: int = 4) -> float:
    """Return the lowest end of descents in so many products towards the identity, valued by `terms_loss`."""
    target, rng = np.eye(d), np.random.default_rng(1)

    def loss(flat: Array) -> tuple[float, Array]:
        left, right = flat.reshape(2, terms, d, d)
        return _loss_and_gradient(left, right, n)

    begins = (rng.standard_normal(2 * terms * d * d) / 2 for _ in range(starts))
    options = {"maxiter": 250, "maxcor": 20}
    flat = (minimize(loss, begin, jac=True, method="L-BFGS-B", options=options).x for begin in begins)
    ends = (end.reshape(2, terms, d, d) for end in flat)
    return min(float(terms_loss(left, right, n, target)) for left, right in ends)


def _loss_and_gradient(left: Array, right: Array, n: int) -> tuple[float, Array]:
    """Return `terms_loss` towards I and its gradient.

    With rest M = sum L N - I, E S X S = n^2 X + n X^T + n tr(X) I.
    """
    rest = n * np.einsum("rij,rjk->ik", left, right) - np.eye(left.shape[-1])
    inner, outer = left.mT[:, None] @ left[None], right[:, None] @ right.mT[None]  # [r, s]: L_r^T L_s, N_r N_s^T
    traces = np.einsum("rsjj->rs", inner), np.einsum("rsjj->rs", outer)
    loss = (rest**2).sum() + n * ((inner * outer.mT).sum() + (traces[0] * traces[1]).sum())
    by_left = rest @ right.mT + np.einsum("sij,rsjk->rik", left, outer)
    by_left += np.einsum("rs,sij->rij", traces[1], left)
    by_right = left.mT @ rest + np.einsum("rsij,sik->rjk", inner, right)
    by_right += np.einsum("rs,sij->rij", traces[0], right)
    return float(loss), 2 * n * np.concatenate([by_left.ravel(), by_right.ravel()])


CLIFFORD = (
    1,
    2,
    4,
    4,
    8,
    8,
    8,
    8,
)  # dimensions of the least real modules of 0, ..., 7 anticommuting square roots of -1

HURWITZ = Claim(
    "skipv1.hurwitz",
    PAPER.ours,
    place="theory.toy.composition, Lemmas 1 to 3",
    statement="To come as near to I, in mean square, as a multiple of tr(S) I does, a sum of products L S N needs at "
    "least 2^k of them, the least power of two from d on; with fewer the error is larger by at least "
    "2n / ((nd + 2)(n(d - 1) + 2)).  N ceil(d/rho(N)) ceil(d/N) are enough for every N, rho the Hurwitz-Radon number: "
    "2^k for d <= 9, and fewer than d^2/log2(d) + 2d for d >= 2.  The least number is, up to a factor of two, that of "
    "complex squares in a composition of x_1^2 + ... + x_d^2 with itself.",
    assumes="S a Wishart matrix of n N(0, I_d) vectors",
    verdict="verified",
    proof=composition,
    uses=("skipv1.few-products",),
)


@HURWITZ.check(
    "compositions of Hurwitz-Radon families read the trace, and are as many as stated; exact, d = 1..10 and 17",
    states=0,
    control=1,
    wrong="one product less",
    kind="exact",
)
def families_read_the_trace(left_out: int) -> bool:
    """Exact: sum_r L_r S L_r^T = tr(S) I for every symmetric S, in as many products as least Clifford modules give."""
    for d in (*range(1, 11), 17):
        left = composition.composition(d)
        left = left[: len(left) - left_out]
        of_s = np.einsum("rip,rjq->ijpq", left, left)  # the matrix is sum_pq of_s[:, :, p, q] S_pq
        eye = np.eye(d, dtype=int)
        if (of_s + of_s.swapaxes(2, 3) != 2 * np.einsum("ij,pq->ijpq", eye, eye)).any():
            return False
        sizes = [2**k for k in range(8)]
        if (
            not composition.composition_count(d)
            == len(left)
            == min(size * -(-d // _family_size(size)) * -(-d // size) for size in sizes)
        ):
            return False
    return all(composition.radon_number(size) == _family_size(size) for size in range(1, 257)) and all(
        _is_family(composition.hurwitz_radon(size), size) for size in (1, 2, 6, 8, 16, 64)
    )


def _is_family(family: Array, size: int) -> bool:
    """Return whether E_i E_j^T + E_j E_i^T = 2 [i = j] I, for as many matrices as there can be."""
    quotients = np.einsum("iab,jcb->ijac", family, family)
    eye, same = np.eye(size, dtype=int), np.eye(_family_size(size), dtype=int)
    return bool((quotients + quotients.swapaxes(0, 1) == 2 * same[:, :, None, None] * eye).all())


def _family_size(size: int) -> int:
    """Return the most matrices in a family of this size: I and as many square roots of -1 as have a module of it."""
    return 1 + max(m for m in range(40) if size % (CLIFFORD[m % 8] * 16 ** (m // 8)) == 0)


@HURWITZ.check(
    "2^k - 1 bilinear forms have a common zero, as Hopf and Stiefel say: found for random ones, d = 2, 3, 5, 6, 7",
    states=1,
    control=0,
    wrong="2^k forms, and a family with which there is none",
)
def forms_have_a_zero(left_out: int) -> bool:
    """Unit x, y with y^T L_r x = 0 for all r, by least squares.  The 2^k forms of a composition, squared, sum to 1."""
    rng = np.random.default_rng(15)
    for d in (2, 3, 5, 6, 7):
        count = composition.least_products(d)
        whole = composition.composition(d)
        if len(whole) != count:
            return False
        for forms in (whole[: count - left_out], rng.standard_normal((count - left_out, d, d))):
            if not any(_vanishes(forms, rng.standard_normal(2 * d)) for _ in range(30)):
                return False
    return True


def _vanishes(forms: Array, start: Array) -> bool:
    d = forms.shape[-1]

    def rest(flat: Array) -> Array:
        x, y = flat[:d], flat[d:]
        return np.concatenate([np.einsum("i,rij,j->r", y, forms, x), [x @ x - 1, y @ y - 1]])

    eps = np.finfo(float).eps
    return bool(np.abs(least_squares(rest, start, xtol=eps, ftol=eps, gtol=eps).fun).max() < ROUNDING)


@HURWITZ.check(
    "the least error of all linear maps that obey y^T Phi(x x^T) = 0, as too few products do for some x, y",
    states=1,
    control=2,
    wrong="twice the excess",
)
def excess_is_least(times: int) -> bool:
    """Exact least squares with that side condition: d tau and, once, `times` the excess."""
    for d, n in ((1, 2), (2, 1), (5, 3), (6, 1), (9, 2), (10, 4)):
        least = least_with_zero(d, n)
        if composition.composition_excess(d, n) * times != least - Fraction(2 * d, n * d + 2):
            return False
        products = composition.least_products(d) - 1
        if d > 4 and composition.composition_floor(d, n, products) != least:
            return False
        if composition.composition_floor(d, n, products + 1) != Fraction(2 * d, n * d + 2):
            return False
    return True


def least_with_zero(d: int, n: int) -> Fraction:
    """Return the least E||Phi(S) - I||^2 where y^T Phi(x x^T) = 0 for one pair of unit vectors, in fractions.

    All pairs are equivalent: x = y = e_1.  In the first row of Phi each entry is <Q, S>, by symmetry with a diagonal Q:
    least squares in d diagonal entries of S, whose moments are E S_pp S_qq = n^2 + 2n [p = q], with Q_11 = 0 there.
    """
    moments = n**2 + 2 * n * identity(d)
    free, bound = (_regression(moments[start:, start:], n) for start in (0, 1))
    return (d - 1) * free + bound


def _regression(moments: Array, n: int) -> Fraction:
    """Return the error of the best estimate of 1 from variables with these second moments and means n, in fractions."""
    system = np.concatenate([moments, Fraction(n) * np.ones((len(moments), 1), dtype=int)], axis=1)
    for i in range(len(system)):  # positive definite: no pivoting
        system[i] = system[i] / system[i, i]
        for j in range(len(system)):
            if j != i:
                system[j] = system[j] - system[j, i] * system[i]
    return Fraction(1 - n * sum(system[:, -1]))


@HURWITZ.check(
    "descents at d = 2, 3, n = 2 end on d tau with 2^k products, and with one less above the floor",
    states=1,
    control=2,
    wrong="half as many products",
    kind="descent",
)
def descents_need_as_many(divisor: int) -> bool:
    """Minimising over L_r and N_r: 2^k / `divisor` products reach the best linear map's error, one fewer do not."""
    n = 2
    for d in (2, 3):
        products, best = composition.least_products(d) // divisor, 2 * d / (n * d + 2)
        if not abs(products_minimum(products, d, n) - best) < EXACT_SLACK * best:
            return False
        if products_minimum(products - 1, d, n) < float(composition.composition_floor(d, n, products - 1)) - ROUNDING:
            return False
    return True


@HURWITZ.check(
    "from a composition in complex squares to products and back, d = 1, 2, 3, 5",
    states=2,
    control=1,
    wrong="one product for each square",
)
def complex_squares(products: int) -> bool:
    """Complex forms made of a real composition by a complex rotation: their real parts read a trace in 2 q products.

    And p products of two forms are 2 p complex squares.
    """
    rng = np.random.default_rng(16)
    for d in (1, 2, 3, 5):
        left = composition.composition(d)
        skew = rng.standard_normal((len(left),) * 2) + 1j * rng.standard_normal((len(left),) * 2)
        skew = skew - skew.T
        eye = np.eye(len(left))
        forms = np.einsum("sr,rij->sij", np.linalg.solve(eye + skew, eye - skew), left)  # Cayley's rotation
        signed = [(1, forms.real), (-1, forms.imag)][:products]
        x, y, z = rng.standard_normal((3, d))
        squares = (np.einsum("i,sij,j->s", y, forms, x) ** 2).sum()
        read = sum(sign * (part @ x).T @ (part @ x) for sign, part in signed)
        expected = x @ x * (y @ y)
        scale = (np.abs(forms) ** 2).sum() * expected
        if abs(squares - expected) > ROUNDING * scale or abs(y @ read @ z - x @ x * (y @ z)) > ROUNDING * scale:
            return False
        f, g = (left @ x) @ y, (left @ z) @ y
        if abs((((f + g) / 2) ** 2 + (1j * (f - g) / 2) ** 2).sum() - (f * g).sum()) > ROUNDING * (f @ f + g @ g):
            return False
    return True
