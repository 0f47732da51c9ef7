"""Claims on the SkipV1Former theorem for inputs, weights and noise that are not normal."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import product

import numpy as np
import sympy

from experiments.ledger.claim import Claim
from experiments.skipv1.claims.general import ends_on
from experiments.skipv1.claims.moments import SIGNS, SKEW, SPIKED, Law, excess, joint_values, normal, unit
from experiments.toys.checks import ROUNDING
from theory.plans.heads import MHA, ORDINARY, SKIPV1
from theory.prompts.moments import Array, PromptMoments
from theory.prompts.setting import zero_loss
from theory.skipv1 import non_gaussian
from theory.skipv1.non_gaussian import (
    fourth_moments,
    non_gaussian_loss_gap,
    non_gaussian_mha_explained,
    non_gaussian_skipv1_explained,
    non_gaussian_skipv1_weights,
    signs_mha_weights,
)
from theory.skipv1.paper import PAPER
from theory.toy.exact import random_weights
from theory.toy.population import PopulationLoss, Weights

NON_GAUSSIAN = Claim(
    "skipv1.non-gaussian",
    PAPER.ours,
    place="theory/skipv1/non_gaussian.py; Theorem 2 of appendix A.1 assumes normal inputs, weights and noise",
    statement="Of the laws of W* and the noise the theorem needs symmetry and uncorrelated entries only; of x, "
    "E x x^T = I and E |x|^2 x x^T = (d + 2 + kappa) I, with rho = n / (n + d + 1 + kappa + sigma^2).  At full "
    "rank W* is explained best from x of length sqrt(d), such as signs.  That MHA attains its infimum for no "
    "0 < a < d needs more: for signs it does, at a = d - 1 >= 2.",
    assumes="W0 = 0; Assumption 1; x independent of W* and noise; where MHA does not attain, W* with a density",
    verdict="verified",
    proof=non_gaussian,
    uses=(
        "moments.general",
        "skipv1.mha-infimum",
        "skipv1.skipv1-minimum",
        "skipv1.mha-unattained",
        "skipv1.general-covariance",
    ),
)


@NON_GAUSSIAN.check(
    "the loss of SkipV1Former's weights from the tokens of every prompt, for signs, skew inputs and inputs "
    "that are mostly zero, W* and noise signs; exact, d = 1, 2",
    states=excess,
    control=normal,
    wrong="the step for normal inputs",
    kind="exact",
)
def enumeration_gives_the_loss(kurtosis_of: Callable[[Law], Fraction]) -> bool:
    """The loss of the weights made for these kurtoses, from the tokens of every prompt; exact.

    W* and noise are signs, times 1 and sigma.
    """
    sigma = Fraction(1, 2)
    for laws, n in (([SPIKED], 2), ([SKEW], 2), ([SIGNS, SIGNS], 1)):
        d, kurtosis = len(laws), [kurtosis_of(law) for law in laws]
        for a in range(1, d + 1):
            weights = non_gaussian_skipv1_weights(kurtosis, n, sigma, a)
            loss = d * sigma**2
            for xi, p in joint_values(laws * n):
                x = xi.reshape(n, d).T
                for signs, q in joint_values([SIGNS] * (d * d + d * n)):
                    w = signs[: d * d].reshape(d, d)
                    off = _predicted(weights, x, w @ x + sigma * signs[d * d :].reshape(d, n)) - w
                    loss += p * q * (off * off).sum()
            if loss != non_gaussian_loss_gap(fourth_moments(kurtosis), n, sigma, a).skipv1:
                return False
    return True


def _predicted(weights: Weights, x: Array, y: Array) -> Array:
    """P of one ordinary and one skip head, from tokens."""
    u = np.concatenate([weights.a @ x, weights.b @ y])
    grams = (x @ x.T + u @ u.T, x @ x.T + y @ u.T)
    return sum(w @ g @ k @ weights.a for w, g, k in zip(weights.w, grams, weights.k, strict=True))


@NON_GAUSSIAN.check(
    "exact minimisation from 2 starts ends on both bounds and not below: signs, and entries of unequal kurtosis, d = 2",
    states=1.0,
    control=1.02,
    wrong="explained signal 2 % larger",
    kind="descent",
)
def other_inputs_minimiser_finds(factor: float) -> bool:
    """Exact minimisation ends on both closed forms, and not below: signs, and unequal kurtoses; d = 2."""
    for kurtosis in ((-2.0, -2.0), (-1.0, 3.0)):
        moments = PromptMoments(2, 3, 0.5, kurtosis=np.array(kurtosis))
        for a, heads, explained in (
            (1, MHA, non_gaussian_mha_explained),
            (1, SKIPV1, non_gaussian_skipv1_explained),
            (2, SKIPV1, non_gaussian_skipv1_explained),
        ):
            expected = factor * explained(fourth_moments(kurtosis), 3, 0.5, a)
            if not ends_on(PopulationLoss(moments, heads), a, expected):
                return False
    return True


@NON_GAUSSIAN.check(
    "no random law passes d^2 n / (n + d - 1 + sigma^2) at full rank, and signs reach it; d = 1, 2, 4",
    states=lambda d: d,
    control=lambda d: d + 2,
    wrong="normal inputs are explained best",
    kind="float64",
)
def no_law_explains_more(beyond: Callable[[int], int]) -> bool:
    """tr(h + C)^{-1} <= d / (h + beyond(d)), C = E[|x|^2 x x^T], over random finite laws, with equality for signs."""
    rng = np.random.default_rng(3)
    for d, n, sigma in product((1, 2, 4), (1, 5), (0.0, 0.7)):
        bound = d**2 * n / (n - 1 + beyond(d) + sigma**2)
        if abs(non_gaussian_skipv1_explained((d,) * d, n, sigma, d) - bound) > ROUNDING * bound:
            return False
        for _ in range(20):
            x, p = rng.standard_normal((d, 2 * d)), rng.dirichlet(np.ones(2 * d))
            x = np.linalg.solve(np.linalg.cholesky((x * p) @ x.T), x)
            fourth = np.linalg.eigvalsh((x * p * (x**2).sum(axis=0)) @ x.T)
            if non_gaussian_skipv1_explained(list(fourth), n, sigma, d) > bound * (1 + ROUNDING):
                return False
    return True


@NON_GAUSSIAN.check(
    "signs: d - 1 heads of finite weights have MHA's infimum for their loss at rank d - 1; exact, d = 3, 4",
    states=-2,
    control=0,
    wrong="normal inputs",
    kind="exact",
)
def signs_attain(kurtosis: int) -> bool:
    """The exact loss of d - 1 ordinary heads is MHA's infimum at rank d - 1, d = 3, 4, for inputs of this kurtosis."""
    sigma, n = Fraction(2, 3), 3
    for d in (3, 4):
        moments = PromptMoments(d, n, sigma, kurtosis=np.array([Fraction(kurtosis)] * d))
        loss = PopulationLoss(moments, (ORDINARY,) * (d - 1)).value(signs_mha_weights(d, n, sigma))
        fourth = fourth_moments([Fraction(kurtosis)] * d)
        if loss != zero_loss(d, n, sigma) - non_gaussian_mha_explained(fourth, n, sigma, d - 1):
            return False
    return True


@NON_GAUSSIAN.check(
    "signs: a map that cancels the even part can be injective where it has to be just at a = d - 1 >= 2; "
    "exact ranks, d = 2..4",
    states=lambda a, d: a == d - 1 >= 2,
    control=lambda _a, _d: False,
    wrong="never, as for normal inputs",
    kind="exact",
)
def signs_are_obstructed(attained: Callable[[int, int], bool]) -> bool:
    """Whether a linear map of G that vanishes on the even part of every sign prompt can be injective on its odd part.

    Exact ranks, for random A, singular and with nothing beside their square block, and for the A of the proof.
    """
    rng = np.random.default_rng(12)
    for d, a in ((2, 1), (3, 1), (3, 2), (4, 2), (4, 3)):
        matrices = [random_weights(rng, 1, a, d).a for _ in range(3)]
        matrices[1][:, a:], matrices[2][:, a - 1] = 0, 0
        if a == d - 1 > 1:
            matrices.append(signs_mha_weights(d, 1, Fraction(0)).a)
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
    return unit((d, d), i, j) if i == j else unit((d, d), i, j) + unit((d, d), j, i)
