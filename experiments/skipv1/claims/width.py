"""Claims on the toy over the embedding width, on which the full-size experiments rest."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

from experiments.ledger.claim import Claim
from experiments.skipv1.claims.assumptions import W0_ZERO
from theory.prompts.setting import signal_share
from theory.skipv1.paper import PAPER
from theory.toy import width

PROMPTS = 100_000
N, SIGMA = 4, 0.3  # of the sampled task

WIDTH = Claim(
    "toy.width",
    PAPER.ours,
    place="theory/toy/width.py; bears on SkipV1Former, sections 4 and 5",
    statement="If tokens hold m >= d numbers, of the form of Assumption 1, MHA's toy explains rho floor(m/2) ceil(m/2) "
    "of the signal, and all of rho d^2 from m = 2d on: what SkipV1Former wins there is nothing.  (A first layer that "
    "is free needs less: toy.least-width.)",
    assumes=W0_ZERO + "; u_t = (A x_t ; B y_t) with a + b = m rows; the best division of m",
    verdict="verified",
    proof=width,
    uses=("toy.value-maps",),
)


@WIDTH.check(
    "P's odd part depends on B S_yx A^T: min(a, d) min(b, d) numbers; rank of that map, all a, b <= 5",
    states=lambda a, b, d: min(a, d) * min(b, d),
    control=lambda a, b, d: min(a, d) * max(d - a, 0),
    wrong="min(a, d) (d - a), as if B had d - a rows at every width",
    kind="exact",
)
def odd_part_has_rank(rank: Callable[[int, int, int], int]) -> bool:
    """The linear map S -> B S A^T, for A (a x d) and B (b x d) of random whole numbers."""
    rng = np.random.default_rng(0)
    for d in (1, 2, 3):
        for a in range(6):
            for b in range(6):
                left, right = rng.integers(1, 1000, (b, d)), rng.integers(1, 1000, (a, d))
                kronecker = np.kron(left, right).astype(float)
                matrix_rank = int(np.linalg.matrix_rank(kronecker)) if kronecker.size else 0
                if matrix_rank != rank(a, b, d):
                    return False
    return True


@WIDTH.check(
    "explicit weights of one head explain that much, within 4 standard errors over 100,000 prompts",
    states=0,
    control=1,
    wrong="one entry of W* more",
    kind="sampled",
)
def construction_explains(more: int) -> bool:
    """MHA's one head at several widths explains rho min(a, d) min(b, d), and not `more` entries of W* than that."""
    return all(width_construction(d, a, b, more) for d, a, b in ((3, 2, 2), (2, 2, 1), (3, 3, 3), (2, 1, 3)))


def width_construction(d: int, a: int, b: int, more: int = 0) -> bool:
    """One head on tokens of a + b numbers explains rho (min(a, d) min(b, d) + more), within 4 standard errors."""
    mean, error = _sampled_gain(d, a, b)
    return abs(mean - signal_share(d, N, SIGMA) * (min(a, d) * min(b, d) + more)) < 4 * error


@cache
def _sampled_gain(d: int, a: int, b: int) -> tuple[float, float]:
    """By how much one head beats predicting zero, on sampled prompts, and its standard error.

    Tokens of a + b numbers; raw x_t, u_t = (A x_t ; beta B y_t), one head that reads B's rows at A's keys.
    """
    n, sigma, beta = N, SIGMA, 1e4
    rng = np.random.default_rng(0)
    x = rng.standard_normal((PROMPTS, d, n))
    w = rng.standard_normal((PROMPTS, d, d))
    y = w @ x + sigma * rng.standard_normal((PROMPTS, d, n))
    s_yx, s_xx, s_yy = y @ x.mT, x @ x.mT, y @ y.mT
    m, rank, rows = a + b, min(a, d), min(b, d)
    read_in = np.eye(m, d)
    keys = np.eye(m) * (np.arange(m) < rank)
    copy_x, copy_y = keys @ read_in, np.zeros((m, d))
    copy_y[a : a + rows] = beta * np.eye(rows, d)
    readout = copy_y.T / (beta**2 * (n + d + 1 + sigma**2))
    s_uu = copy_x @ s_xx @ copy_x.T + copy_y @ s_yy @ copy_y.T
    s_uu += copy_y @ s_yx @ copy_x.T + copy_x @ s_yx.mT @ copy_y.T
    p = readout @ (read_in @ s_xx @ read_in.T + s_uu) @ keys @ copy_x
    gained = (w**2).sum((1, 2)) - ((p - w) ** 2).sum((1, 2))
    return float(gained.mean()), float(gained.std() / PROMPTS**0.5)
