"""Claims on the SkipV1Former theorem for any covariance of the inputs and any separable prior."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np

from experiments.ledger.claim import Claim
from experiments.toys.checks import EXACT_SLACK, ROUNDING
from theory.plans.heads import MHA, ORDINARY, SKIP, Heads
from theory.prompts.moments import Array, PromptMoments
from theory.skipv1 import general as skipv1_general
from theory.skipv1.general import (
    general_loss_gap,
    general_mha_explained,
    general_skipv1_explained,
    modes,
    skip_heads_needed,
)
from theory.skipv1.general_weights import general_mha_weights, general_skip_head_weights, general_skipv1_weights
from theory.skipv1.paper import PAPER
from theory.toy.minimise import minimise
from theory.toy.population import PopulationLoss, Weights


def random_task(seed: int, d: int, n: int, sigma: float) -> PromptMoments:
    """Covariances of inputs and prior that do not commute."""
    factors = np.random.default_rng(seed).standard_normal((3, d, d + 1))
    covariance, rows, columns = ((f @ f.T + (f @ f.T).T) / (2 * d) for f in factors)
    return PromptMoments(d, n, sigma, covariance=covariance, prior_rows=rows, prior_columns=columns)


GENERAL_TASKS = ((0, 1, 3, 0.5), (1, 2, 5, 1.0), (2, 3, 4, 0.7), (3, 4, 2, 0.5))

MORE = "how many heads are enough: more are, too"

GENERAL_COVARIANCE = Claim(
    "skipv1.general-covariance",
    PAPER.ours,
    place="theory/skipv1/general.py; extends Theorem 2 of appendix A.1 beyond isotropic inputs and weights",
    statement="With rank-a compression SkipV1Former explains the sum of f_ij over all output directions i and the "
    "a strongest input directions j, MHA only over the d - a strongest output directions, where "
    "f_ij = n psi_i^2 g_j^2 / ((n+1) psi_i g_j + psi_i t + sigma^2), psi_i and g_j are the eigenvalues of Psi and "
    "Sigma^1/2 Gamma Sigma^1/2, and t is the sum of the g_j.  SkipV1Former needs as many skip heads as the rank of "
    "the multipliers f_ij / (n psi_i g_j): one if Psi or Sigma^1/2 Gamma Sigma^1/2 is a multiple of I.",
    assumes="x ~ N(0, Sigma), W* ~ N(0, .) with Cov(W*_ij, W*_kl) = Psi_ik Gamma_jl, Gaussian noise; Assumption 1",
    verdict="verified",
    proof=skipv1_general,
    uses=("moments.general", "skipv1.mha-infimum"),
    unjudged={skipv1_general.skip_heads_needed: MORE, skipv1_general.mha_heads_needed: MORE},
)


@GENERAL_COVARIANCE.check(
    "explicit weights have SkipV1Former's loss, and come nearer to both bounds like 1 / beta^2, at every "
    "rank of four tasks with covariances that do not commute, d = 1..4",
    states=lambda d, a: d - a,
    control=lambda d, _a: d,
    wrong="MHA explains all output directions",
    kind="exact",
)
def general_weights_reach(rows: Callable[[int, int], int]) -> bool:
    """SkipV1Former's weights have the loss that is stated, and those that approach come nearer like 1 / beta^2.

    rows is how many of the f_i count for MHA.
    """
    for task in GENERAL_TASKS:
        moments = random_task(*task)
        zero, explained = moments.zero_loss, modes(moments).explained
        for a in range(moments.d + 1):
            minimum = zero - explained[:, :a].sum()
            infimum = zero - explained[: rows(moments.d, a), :a].sum()
            size = ROUNDING * zero
            if abs(_loss(moments, general_skipv1_weights(moments, a)) - minimum) > size:
                return False
            for approaching, bound in ((general_skip_head_weights, minimum), (general_mha_weights, infimum)):
                far, near = (_loss(moments, approaching(moments, a, beta)) - bound for beta in (2.0, 16.0))
                if abs(near - far / 64) > size or far < -size:
                    return False
    return True


def _loss(moments: PromptMoments, toy: tuple[Heads, Weights]) -> float:
    return PopulationLoss(moments, toy[0]).value(toy[1])


def as_it_is(moments: PromptMoments) -> PromptMoments:
    """The task itself."""
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


@GENERAL_COVARIANCE.check(
    "what the best linear function of S_yx A^T explains, by normal equations for all its entries, d = 1..3",
    states=as_it_is,
    control=as_if_commuting,
    wrong="g_j as products of the eigenvalues of Sigma and Gamma, as if they commuted",
    kind="float64",
)
def best_read_explains(version: Callable[[PromptMoments], PromptMoments]) -> bool:
    """The best linear function of S_yx A^T, by normal equations for all its entries, at the A of the theorem.

    The closed form is that of version(task); the entries' covariances are those of `PromptMoments`.
    """
    for task in GENERAL_TASKS[:3]:
        moments = random_task(*task)
        for a in range(1, moments.d + 1):
            _, weights = general_skip_head_weights(moments, a, 1.0)
            difference = _explained_by_entries(moments, weights.a) - general_skipv1_explained(version(moments), a)
            if abs(difference) > ROUNDING * moments.zero_loss:
                return False
    return True


def _explained_by_entries(moments: PromptMoments, a: Array) -> float:
    """n^2 tr[Sigma-weighted (Cov(W*, y) Cov(y)^{-1} Cov(y, W*))] for y the entries of S_yx A^T."""
    d, units = moments.d, np.eye(2 * moments.d)
    cells = list(product(range(d), range(d)))
    entries = {(j, m): moments.sandwich(np.outer(units[j], units[m])) for j, m in cells}
    power = np.array([[entries[j, m][d + i, d + k] for k, m in cells] for i, j in cells])
    targets = {(j, k): moments.target_left(np.outer(units[j, :d], units[d + k])) for j, k in cells}
    with_w = np.array([[targets[j, k][i, m] for k, m in cells] for i, j in cells])
    compress = np.kron(np.eye(d), a.T)
    solved = np.linalg.solve(compress.T @ power @ compress, (with_w @ compress).T)
    return float(np.trace(np.kron(np.eye(d), moments.covariance) @ with_w @ compress @ solved))


@GENERAL_COVARIANCE.check(
    "exact minimisation from 2 starts ends on both and not below, d = 2",
    states=1.0,
    control=1.02,
    wrong="explained signal 2 % larger",
    kind="descent",
)
def general_minimiser_finds(factor: float) -> bool:
    """Exact minimisation ends on both closed forms, and not below; d = 2."""
    moments = random_task(*GENERAL_TASKS[1])
    for a in (1, 2):
        enough = (ORDINARY, SKIP) * skip_heads_needed(moments, a)
        for heads, explained in (
            (MHA, general_mha_explained(moments, a)),
            (enough, general_skipv1_explained(moments, a)),
        ):
            if not ends_on(PopulationLoss(moments, heads), a, factor * explained):
                return False
    return True


def ends_on(loss: PopulationLoss, rank: int, explained: float) -> bool:
    """Whether an exact minimum explains so much: short of it by the slack at most, above it by rounding only."""
    most = loss.zero_loss - minimise(loss, rank, starts=2, max_iterations=150).value
    return -EXACT_SLACK * explained <= most - explained <= ROUNDING * loss.zero_loss


@GENERAL_COVARIANCE.check(
    "two skip heads reach the optimum at d = 2 where the multipliers have rank 2; exact minimisation",
    states=2,
    control=1,
    wrong="one is enough: it stops 0.33 % of the signal short",
    kind="descent",
)
def heads_reach_the_optimum(count: int) -> bool:
    """`count` skip and as many ordinary heads reach the optimum at a = d = 2 to 1e-4 of what it explains."""
    unequal = np.diag([0.4, 0.05])
    moments = PromptMoments(2, 100, 1.0, prior_rows=unequal, prior_columns=unequal)
    least = minimise(PopulationLoss(moments, (ORDINARY, SKIP) * count), 2, starts=2).value
    gap = general_loss_gap(moments, 2)
    return least - gap.skipv1 <= 1e-4 * general_skipv1_explained(moments, 2)
