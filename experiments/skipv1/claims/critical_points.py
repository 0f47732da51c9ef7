"""Heights of plateaus, saddles and traps of the assumed-copy toy's loss at W0 = 0."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import numpy as np
from scipy.optimize import least_squares

from experiments.ledger.claim import Claim
from experiments.skipv1.claims.signal_flow import Signal
from theory.plans.heads import ORDINARY, SKIP, SKIPV1
from theory.prompts.moments import Array, PromptMoments
from theory.skipv1 import landscape
from theory.skipv1.paper import PAPER
from theory.toy.exact import exact_loss, loss_at_entries, odd_map, random_weights
from theory.toy.flow import gradient_flow
from theory.toy.population import PopulationLoss, Weights

TASKS = [(1, 1, Fraction(0)), (2, 3, Fraction(1, 2)), (3, 4, Fraction(2, 3))]
ROUNDING = 1e-9

CRITICAL = Claim(
    "skipv1.critical-points",
    PAPER.ours,
    place="theory.skipv1.landscape: appendix A.1 at W0 = 0, minimised by training",
    statement="The loss at a critical point of one skip head's signal is d^2 + d sigma^2 - rho d k, k the rank of A or "
    "0, and of one ordinary head's, read from x to y, d^2 + d sigma^2 - rho j k, j the rank of B.  Where something is "
    "explained and k < a, a form on A's left kernel tells strict saddles from local minima.  The toy itself, even part "
    "and all and with any number of heads, has local minima that are not global, at the height of every k < a.",
    assumes="W0 = 0; x and noise Gaussian; Assumption 1; A, B, K and W trained",
    verdict="verified",
    proof=landscape,
    uses=("skipv1.gap",),
)


@CRITICAL.check(
    "weights at which everything is exact: the toy's loss is that of d k entries, and its gradient zero; d = 1 to 3",
    states=1,
    control=2,
    wrong="twice the skip head's readout",
    kind="exact",
)
def traps_are_critical(times: int) -> bool:
    """In fractions, at every k < a; lost keys of both signs."""
    for d, n, sigma in TASKS:
        loss = exact_loss(SKIPV1, d, n, sigma)
        for rank in range(1, d + 1):
            for reached in range(rank if d < 3 else 1, rank):
                lost = (-1) ** (rank + reached)
                found = landscape.trap_weights(d, n, sigma, rank, reached, lost)
                weights = Weights(found.a, found.b, found.w * np.array([1, times])[:, None, None], found.k)
                height = landscape.plateau(d, n, sigma, d, reached)
                if not loss.value(weights) == height == loss_at_entries(d, n, sigma, d * reached):
                    return False
                if any((x != 0).any() for x in loss.value_and_gradient(weights)[1].arrays()):
                    return False
    return True


@CRITICAL.check(
    "the signal's loss is that of the odd part of P, computed from the weights; rational, skip and ordinary heads",
    states=1,
    control=2,
    wrong="twice the readout",
    kind="exact",
)
def signal_is_odd_part(times: int) -> bool:
    """In fractions: with keys of x's numbers and, for an ordinary head, a readout of y's."""
    rng = np.random.default_rng(3)
    for d, rank, n, sigma in ((1, 1, 2, Fraction(1)), (2, 1, 3, Fraction(1, 2)), (3, 2, 2, Fraction(0))):
        for head in (SKIP, ORDINARY)[: 2 if rank < d else 1]:
            weights = random_weights(rng, 1, rank, d)
            weights.k[0, rank:] = 0
            if head == ORDINARY:
                weights.w[0, :, :rank] = 0
            odd = odd_map(weights, (head,))
            c = weights.w[0] if head == SKIP else weights.w[0][:, rank:] @ weights.b
            given = landscape.signal_loss(d, n, sigma, times * c, weights.k[0, :rank], weights.a)
            variance = n * (n + d + 1 + sigma**2)
            if given != d**2 + d * sigma**2 - 2 * n * odd.trace() + variance * (odd * odd).sum():
                return False
    return True


@CRITICAL.check(
    "nearby the toy's exact gradient flow comes back to a trap's height; d = 1 to 3, k < a = d, two and four heads",
    states=-1,
    control=1,
    wrong="lost keys of the other sign, which make a saddle",
    kind="exact",
)
def traps_hold(lost: int) -> bool:
    """That the flow finds what is lower is shown by the control, which it leaves."""
    rng = np.random.default_rng(4)
    for d, n in ((1, 2), (2, 4), (3, 4)):
        for reached in range(d if d < 3 else 1):
            for more in (0, 1):
                heads = (*SKIPV1, *SKIPV1[: 2 * more])
                trap = landscape.trap_weights(d, n, 0.5, d, reached, lost)
                idle = [0 * trap.w, 0 * trap.k]
                w, k = (np.concatenate([x, y][: 1 + more]) for x, y in zip((trap.w, trap.k), idle, strict=True))
                parts = (x + 0.03 * rng.standard_normal(x.shape) for x in (trap.a, trap.b, w * n, k))
                a, b, w, k = parts
                loss = PopulationLoss(PromptMoments(d, n, 0.5), heads)
                end = gradient_flow(loss, Weights(a, b, w / n, k), [40.0], 1e-5).losses[-1]
                if abs(end - landscape.plateau(d, n, 0.5, d, reached)) > 0.02:
                    return False
    return True


@CRITICAL.check(
    "the form on A's left kernel is the second derivative of the signal's loss, and its sign decides; random points",
    states=1,
    control=-1,
    wrong="the form with its sign turned",
    kind="float64",
)
def form_decides(sign: int) -> bool:
    """At random critical points: second differences along p q^T against 2 H(p); where H > 0 nothing nearby is lower,
    and where it is not, something is."""
    rng = np.random.default_rng(5)
    kinds = set()
    for d, rank, reached in ((2, 1, 0), (2, 2, 1), (3, 2, 1), (3, 3, 1), (4, 3, 2)) * 4:
        task, c, k, a = _critical(rng, d, rank, reached)
        form = sign * landscape.lost_directions(*task, c, k, a)
        basis = np.linalg.svd(a)[0][:, reached:]
        away = np.linalg.svd(a)[2][-1]  # orthogonal to the rows of A

        def signal(
            step: Array, at: tuple[Array, Array, Array] = (c, k, a), task: tuple[int, int, float] = task
        ) -> float:
            return float(landscape.signal_loss(*task, at[0], at[1], at[2] + step))

        height = float(landscape.plateau(*task, d, reached))
        values, vectors = np.linalg.eigh(form)
        for value, vector in zip(values, vectors.T, strict=True):
            step = 1e-3 * np.outer(basis @ vector, away)
            second = (signal(step) + signal(-step) - 2 * signal(0 * step)) / 1e-6
            if abs(signal(0 * step) - height) > ROUNDING or abs(second - 2 * value) > 1e-3 * (1 + abs(value)):
                return False
        kinds.add(bool(values[0] > 0))
        nearby = [1e-3 * rng.standard_normal((3, d, d)) for _ in range(200)]
        lowest = min(
            float(landscape.signal_loss(*task, c + x, k + y[:rank, :rank], a + z[:rank])) for x, y, z in nearby
        )
        if values[0] > 0 and lowest < height - ROUNDING:
            return False
    return kinds == {True, False}


def _critical(
    rng: np.random.Generator, d: int, rank: int, reached: int
) -> tuple[tuple[int, int, float], Array, Array, Array]:
    """A task, C, K and A at a random critical point of a skip head's signal: Theorem 1 (a), written out."""
    n, sigma = 3, 0.5
    turn = np.linalg.qr(rng.standard_normal((rank, rank)))[0]
    kept = rng.standard_normal((reached, d))
    scale = np.exp(rng.normal())
    k = rng.standard_normal((rank, rank))
    k[:reached, :reached] = np.linalg.inv(kept @ kept.T) / (n + d + 1 + sigma**2) / scale
    a = np.concatenate([kept, np.zeros((rank - reached, d))])
    return (d, n, sigma), scale * np.eye(d), turn @ k @ turn.T, turn @ a


@CRITICAL.check(
    "whatever the search, zeros of the gradient have these heights, and all of them are found",
    states=1.0,
    control=1.1,
    wrong="plateaus a tenth further apart",
    kind="float64",
)
def heights_are_found(times: float) -> bool:
    """Least squares on the gradient of the signal's loss from random starts, skip and ordinary head."""
    for signal, most in ((Signal("skip", 2, 2, 3, 0.5), 2), (Signal("ordinary", 3, 1, 3, 0.5), 2)):
        unit = times * float(landscape.plateau(*signal.task, 1, 0) - landscape.plateau(*signal.task, 1, 1))
        worth = signal.d if signal.kind == "skip" else 1
        found = set()
        for height in _zeros(signal, np.random.default_rng(6), 9):
            entries = (signal.zero_loss - height) / unit
            if abs(entries / worth - round(entries / worth)) > 1e-4:
                return False
            found.add(round(entries / worth))
        if found != set(range(most + 1)):
            return False
    return True


def _zeros(signal: Signal, rng: np.random.Generator, starts: int) -> Iterator[float]:
    """The signal's loss at zeros of its gradient."""
    for _ in range(starts):
        flat = rng.standard_normal(signal.size)
        end = least_squares(signal.gradient, flat, xtol=1e-14, ftol=1e-14, gtol=1e-14, max_nfev=100)
        if np.abs(end.fun).max() < 1e-9:
            yield signal.loss(end.x)
