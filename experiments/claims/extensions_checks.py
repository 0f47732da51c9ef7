"""Checks behind the ledger's entries beyond isotropic, normal inputs.  Each takes a version: see `ledger.Evidence`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import product

import numpy as np
import sympy

from experiments.toys.checks import EXACT_SLACK, ROUNDING
from theory.plans.heads import MHA, ORDINARY, SKIP, SKIPV1, Heads
from theory.prompts.isserlis import PromptEngine
from theory.prompts.moments import Array, PromptMoments
from theory.prompts.setting import zero_loss
from theory.prompts.wishart import independent_sandwich, inverse_sandwich, mean_inverse
from theory.skipv1 import general as skipv1_general
from theory.skipv1 import non_gaussian
from theory.skipv1.general_weights import mha_approaching, skipv1_approaching, skipv1_attaining
from theory.toy.exact import random_weights
from theory.toy.minimise import minimise
from theory.toy.population import PopulationLoss, Weights

Law = dict[Fraction, Fraction]  # {value: probability}
SIGNS: Law = {Fraction(v): Fraction(1, 2) for v in (-1, 1)}
SPIKED: Law = {Fraction(0): Fraction(3, 4), **{Fraction(v): Fraction(1, 8) for v in (-2, 2)}}
SKEW: Law = {Fraction(2): Fraction(1, 5), Fraction(-1, 2): Fraction(4, 5)}


def excess(law: Law) -> Fraction:
    """The excess kurtosis of a standardised law."""
    return sum((p * v**4 for v, p in law.items()), Fraction(-3))


def normal(_law: Law) -> Fraction:
    return Fraction(0)


def states(laws: Sequence[Law]) -> Iterator[tuple[Array, Fraction]]:
    """All joint values of independent numbers, with their probabilities."""
    for choice in product(*(law.items() for law in laws)):
        probability = Fraction(1)
        for _, p in choice:
            probability *= p
        yield np.array([v for v, _ in choice], dtype=object), probability


def pairings_give_the_moments(order: Sequence[int]) -> bool:
    """All entries of E[S M S] and E[W* Q S], d = 2, every covariance and W0 of symbols.

    order says which of the engine's two prior covariances is taken for rows and which for columns.
    """
    d, engine = 2, PromptEngine(2, general=True)
    prior = [np.array(m, dtype=object) for m in (engine.prior_rows, engine.prior_columns)]
    moments = PromptMoments(
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
        closed = moments.sandwich(_unit((2 * d, 2 * d), k, m))
        if any(closed[i, j] != engine.expect(entry(i, k), entry(m, j)) for i, j in product(both, both)):
            return False
    for k, m in product(range(d), both):
        closed = moments.target_left(_unit((d, 2 * d), k, m))
        if any(closed[i, j] != engine.expect(("w", i, k), entry(m, j)) for i, j in product(range(d), both)):
            return False
    return True


def _unit(shape: tuple[int, int], i: int, j: int) -> Array:
    m = np.zeros(shape, dtype=object)
    m[i, j] = 1
    return m


def enumeration_gives_the_sandwich(kurtosis_of: Callable[[Law], Fraction]) -> bool:
    """E[S_xx M S_xx] over every prompt of n inputs, for a root of Sigma that is not diagonal; exact, n = 1, 2."""
    root = np.array([[Fraction(1), Fraction(0)], [Fraction(1, 2), Fraction(-2)]])
    m = np.array([[Fraction(1), Fraction(2)], [Fraction(-3), Fraction(1, 3)]])
    for laws in ((SIGNS, SKEW), (SPIKED, SPIKED)):
        for n in (1, 2):
            mean = 0 * m
            for xi, p in states(laws * n):
                x = root @ xi.reshape(n, 2).T
                mean = mean + p * (x @ x.T @ m @ x @ x.T)
            if (independent_sandwich(m, root, np.array([kurtosis_of(law) for law in laws]), n) != mean).any():
                return False
    return True


def chi_square_inverses(shift: int) -> bool:
    """d = 1: E 1/W and E 1/W^2 by exact integrals of the density, against the closed forms at n + shift."""
    w = sympy.Symbol("w", positive=True)
    one = np.array([[Fraction(1)]])
    for n in (5, 6, 9):
        weight = w ** sympy.Rational(n - 2, 2) * sympy.exp(-w / 2)
        mass, first, second = (sympy.integrate(weight / w**k, (w, 0, sympy.oo)) for k in range(3))
        found = mean_inverse(one, n + shift)[0, 0], inverse_sandwich(one, one, n + shift)[0, 0]
        if any(sympy.simplify(m / mass) != sympy.Rational(f) for m, f in zip((first, second), found, strict=True)):
            return False
    return True


def random_task(seed: int, d: int, n: int, sigma: float) -> PromptMoments:
    """Covariances of inputs and prior that do not commute."""
    factors = np.random.default_rng(seed).standard_normal((3, d, d + 1))
    covariance, rows, columns = ((f @ f.T + (f @ f.T).T) / (2 * d) for f in factors)
    return PromptMoments(d, n, sigma, covariance=covariance, prior_rows=rows, prior_columns=columns)


GENERAL_TASKS = ((0, 1, 3, 0.5), (1, 2, 5, 1.0), (2, 3, 4, 0.7), (3, 4, 2, 0.5))


def general_weights_reach(rows: Callable[[int, int], int]) -> bool:
    """SkipV1Former's weights have the loss that is stated, and those that approach come nearer like 1 / beta^2.

    rows is how many of the f_i count for MHA.
    """
    for task in GENERAL_TASKS:
        moments = random_task(*task)
        zero, explained = skipv1_general.zero_loss(moments), skipv1_general.modes(moments).explained
        for a in range(moments.d + 1):
            minimum = zero - explained[:, :a].sum()
            infimum = zero - explained[: rows(moments.d, a), :a].sum()
            size = ROUNDING * zero
            if abs(_loss(moments, skipv1_attaining(moments, a)) - minimum) > size:
                return False
            for approaching, bound in ((skipv1_approaching, minimum), (mha_approaching, infimum)):
                far, near = (_loss(moments, approaching(moments, a, beta)) - bound for beta in (2.0, 16.0))
                if abs(near - far / 64) > size or far < -size:
                    return False
    return True


def _loss(moments: PromptMoments, found: tuple[Heads, Weights]) -> float:
    return PopulationLoss(moments, found[0]).value(found[1])


def general_minimiser_finds(factor: float) -> bool:
    """Exact minimisation ends on both closed forms, and not below; d = 2."""
    moments = random_task(*GENERAL_TASKS[1])
    for a in (1, 2):
        enough = (ORDINARY, SKIP) * skipv1_general.skip_heads_needed(moments, a)
        for heads, explained in (
            (MHA, skipv1_general.mha_explained(moments, a)),
            (enough, skipv1_general.skipv1_explained(moments, a)),
        ):
            if not _ends_on(PopulationLoss(moments, heads), a, factor * explained):
                return False
    return True


def _ends_on(loss: PopulationLoss, rank: int, explained: float) -> bool:
    found = loss.constant - minimise(loss, rank, starts=2, max_iterations=150).value
    return -EXACT_SLACK * explained <= found - explained <= ROUNDING * loss.constant


def best_read_explains(version: Callable[[PromptMoments], PromptMoments]) -> bool:
    """The best linear function of S_yx A^T, by normal equations for all its entries, at the A of the theorem.

    The closed form is that of version(task); the entries' covariances are those of `PromptMoments`.
    """
    for task in GENERAL_TASKS[:3]:
        moments = random_task(*task)
        for a in range(1, moments.d + 1):
            _, weights = skipv1_approaching(moments, a, 1.0)
            difference = _explained_by_entries(moments, weights.a) - skipv1_general.skipv1_explained(
                version(moments), a
            )
            if abs(difference) > ROUNDING * skipv1_general.zero_loss(moments):
                return False
    return True


def as_it_is(moments: PromptMoments) -> PromptMoments:
    return moments


def as_if_commuting(moments: PromptMoments) -> PromptMoments:
    """Sigma and Gamma with the same eigenvalues, but common eigenvectors."""
    covariance, columns = (np.diag(np.linalg.eigvalsh(m)) for m in (moments.covariance, moments.prior_columns))
    return PromptMoments(
        moments.d,
        moments.n,
        moments.sigma,
        covariance=covariance,
        prior_rows=moments.prior_rows,
        prior_columns=columns,
    )


def _explained_by_entries(moments: PromptMoments, a: Array) -> float:
    """n^2 tr[Sigma-weighted (Cov(W*, y) Cov(y)^{-1} Cov(y, W*))] for y the entries of S_yx A^T."""
    d, units = moments.d, np.eye(2 * moments.d)
    cells = list(product(range(d), range(d)))
    entries = {(j, m): moments.sandwich(np.outer(units[j], units[m])) for j, m in cells}
    power = np.array([[entries[j, m][d + i, d + k] for k, m in cells] for i, j in cells])
    targets = {(j, k): moments.target_left(np.outer(units[j, :d], units[d + k])) for j, k in cells}
    with_w = np.array([[targets[j, k][i, m] for k, m in cells] for i, j in cells])
    read = np.kron(np.eye(d), a.T)
    solved = np.linalg.solve(read.T @ power @ read, (with_w @ read).T)
    return float(np.trace(np.kron(np.eye(d), moments.covariance) @ with_w @ read @ solved))


def heads_reach_the_optimum(count: int) -> bool:
    """`count` skip and as many ordinary heads reach the optimum at a = d = 2 to 1e-4 of what it explains."""
    unequal = np.diag([0.4, 0.05])
    moments = PromptMoments(2, 100, 1.0, prior_rows=unequal, prior_columns=unequal)
    found = minimise(PopulationLoss(moments, (ORDINARY, SKIP) * count), 2, starts=2).value
    gap = skipv1_general.loss_gap(moments, 2)
    return found - gap.skipv1 <= 1e-4 * skipv1_general.skipv1_explained(moments, 2)


def enumeration_gives_the_loss(kurtosis_of: Callable[[Law], Fraction]) -> bool:
    """The loss of the weights made for these kurtoses, from the tokens of every prompt; exact.

    W* and noise are signs, times 1 and sigma.
    """
    sigma = Fraction(1, 2)
    for laws, n in (([SPIKED], 2), ([SKEW], 2), ([SIGNS, SIGNS], 1)):
        d, kurtosis = len(laws), [kurtosis_of(law) for law in laws]
        for a in range(1, d + 1):
            weights = non_gaussian.skipv1_optimal(kurtosis, n, sigma, a)
            loss = d * sigma**2
            for xi, p in states(laws * n):
                x = xi.reshape(n, d).T
                for signs, q in states([SIGNS] * (d * d + d * n)):
                    w = signs[: d * d].reshape(d, d)
                    off = _predicted(weights, x, w @ x + sigma * signs[d * d :].reshape(d, n)) - w
                    loss += p * q * (off * off).sum()
            if loss != non_gaussian.loss_gap(non_gaussian.fourth_moments(kurtosis), n, sigma, a).skipv1:
                return False
    return True


def _predicted(weights: Weights, x: Array, y: Array) -> Array:
    """P of one ordinary and one skip head, from tokens."""
    u = np.concatenate([weights.a @ x, weights.b @ y])
    grams = (x @ x.T + u @ u.T, x @ x.T + y @ u.T)
    return sum(w @ g @ k @ weights.a for w, g, k in zip(weights.w, grams, weights.k, strict=True))


def other_inputs_minimiser_finds(factor: float) -> bool:
    """Exact minimisation ends on both closed forms, and not below: signs, and unequal kurtoses; d = 2."""
    for kurtosis in ((-2.0, -2.0), (-1.0, 3.0)):
        moments = PromptMoments(2, 3, 0.5, kurtosis=np.array(kurtosis))
        for a, heads, explained in (
            (1, MHA, non_gaussian.mha_explained),
            (1, SKIPV1, non_gaussian.skipv1_explained),
            (2, SKIPV1, non_gaussian.skipv1_explained),
        ):
            stated = factor * explained(non_gaussian.fourth_moments(kurtosis), 3, 0.5, a)
            if not _ends_on(PopulationLoss(moments, heads), a, stated):
                return False
    return True


def largest_share(beyond: Callable[[int], int]) -> bool:
    """tr(h + C)^{-1} <= d / (h + beyond(d)), C = E[|x|^2 x x^T], over random finite laws, with equality for signs."""
    rng = np.random.default_rng(3)
    for d, n, sigma in product((1, 2, 4), (1, 5), (0.0, 0.7)):
        bound = d**2 * n / (n - 1 + beyond(d) + sigma**2)
        if abs(non_gaussian.skipv1_explained((d,) * d, n, sigma, d) - bound) > ROUNDING * bound:
            return False
        for _ in range(20):
            x, p = rng.standard_normal((d, 2 * d)), rng.dirichlet(np.ones(2 * d))
            x = np.linalg.solve(np.linalg.cholesky((x * p) @ x.T), x)
            fourth = np.linalg.eigvalsh((x * p * (x**2).sum(axis=0)) @ x.T)
            if non_gaussian.skipv1_explained(list(fourth), n, sigma, d) > bound * (1 + ROUNDING):
                return False
    return True


def signs_attain(kurtosis: int) -> bool:
    """The exact loss of d - 1 ordinary heads is MHA's infimum at rank d - 1, d = 3, 4, for inputs of this kurtosis."""
    sigma, n = Fraction(2, 3), 3
    for d in (3, 4):
        moments = PromptMoments(d, n, sigma, kurtosis=np.array([Fraction(kurtosis)] * d))
        found = PopulationLoss(moments, (ORDINARY,) * (d - 1)).value(non_gaussian.signs_attaining(d, n, sigma))
        fourth = non_gaussian.fourth_moments([Fraction(kurtosis)] * d)
        if found != zero_loss(d, n, sigma) - non_gaussian.mha_explained(fourth, n, sigma, d - 1):
            return False
    return True


def signs_are_obstructed(attained: Callable[[int, int], bool]) -> bool:
    """Whether a linear map of G that vanishes on the even part of every sign prompt can be injective on its odd part.

    Exact ranks, for random A, singular and with nothing beside their square block, and for the A of the proof.
    """
    rng = np.random.default_rng(12)
    for d, a in ((2, 1), (3, 1), (3, 2), (4, 2), (4, 3)):
        matrices = [random_weights(rng, 1, a, d).a for _ in range(3)]
        matrices[1][:, a:], matrices[2][:, a - 1] = 0, 0
        if a == d - 1 > 1:
            matrices.append(non_gaussian.signs_attaining(d, 1, Fraction(0)).a)
        if any(_injective_map_exists(matrix) for matrix in matrices) != attained(a, d):
            return False
    return True


def _injective_map_exists(a: Array) -> bool:
    rank, d = a.shape
    vanishing = [_symmetric(d, i, j) for i in range(rank, d) for j in range(rank, i + 1)]
    for s in [np.eye(d, dtype=object), *(_symmetric(d, i, j) for i in range(d) for j in range(i))]:
        g = s.copy()
        g[:rank, :rank] += a @ s @ a.T
        vanishing.append(g)
    corners = [_symmetric(d, i, j) for i in range(rank, d) for j in range(rank)]
    known = sympy.Matrix([g.ravel() for g in vanishing])
    with_corners = known.col_join(sympy.Matrix([g.ravel() for g in corners]))
    return bool(with_corners.rank() == known.rank() + len(corners))


def _symmetric(d: int, i: int, j: int) -> Array:
    return _unit((d, d), i, j) if i == j else _unit((d, d), i, j) + _unit((d, d), j, i)
