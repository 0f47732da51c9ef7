"""Gradient flow on the assumed-copy toy at W0 = 0: when plateaus are left, and from where the optimum is reached."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from experiments.ledger.claim import Claim
from experiments.skipv1.claims.signal_flow import Signal
from theory.plans.heads import SKIPV1
from theory.prompts.moments import Array, PromptMoments
from theory.skipv1 import dynamics
from theory.skipv1.paper import PAPER
from theory.toy.flow import gradient_flow
from theory.toy.population import PopulationLoss, Weights

FLOW = "W0 = 0; x and noise Gaussian; Assumption 1; gradient flow on one head's signal, without the even part"
SCALES = ((1.0, 0.6, 0.4), (1.0, 0.5))

STAIRCASE = Claim(
    "skipv1.staircase",
    PAPER.ours,
    place="theory.skipv1.dynamics, Theorem 4: appendix A.1, trained",
    statement="From a balanced start with keys of the sizes u_1 > .. > u_a the gradient flow learns one direction of "
    "the compression after the other, at times that tend to a closed form as the start shrinks: the first at about "
    "u_1^-2 (an ordinary head: u_1^-3), the others spaced by differences of 1/u.",
    assumes=FLOW + "; balanced start",
    verdict="verified",
    proof=dynamics,
    uses=("skipv1.critical-points",),
)

REACHABILITY = Claim(
    "skipv1.reachability",
    PAPER.ours,
    place="theory.skipv1.dynamics, Theorem 3: appendix A.1, trained",
    statement="The start bounds where the gradient flow ends: A A^T - K K^T - K^T K does not change, the rank that is "
    "reached is at least the number of its positive eigenvalues and, where the keys outweigh the compression, at most "
    "the number of the keys' eigenvalues of the right sign.  So keys small enough reach the optimum, and large "
    "symmetric ones with eigenvalues of both signs do not.",
    assumes=FLOW + "; readouts start at zero",
    verdict="verified",
    proof=dynamics,
    uses=("skipv1.critical-points",),
)


@STAIRCASE.check(
    "the flow of all weights from balance, turned at random, is that of the eigenvalues; skip and ordinary heads",
    states=1.0,
    control=1.02,
    wrong="2 % more explained",
    kind="float64",
)
def balance_is_kept(times: float) -> bool:
    rng = np.random.default_rng(1)
    for signal, scales in _signals():
        path, moments = _balanced(signal, scales, 0.3, rng)
        explained = np.array([signal.zero_loss - signal.loss(flat) for flat in path])
        predicted = dynamics.balanced_path(*signal.task, [0.3 * u for u in scales], moments, signal.kind)
        if np.abs(explained - times * predicted).max() > 1e-5 * explained.max():
            return False
    return True


def _signals() -> list[tuple[Signal, tuple[float, ...]]]:
    skip, ordinary = SCALES
    return [
        (Signal("skip", 3, len(skip), 6, 0.5), skip),
        (Signal("skip", 1, 1, 2, 0.0), (1.0,)),
        (Signal("ordinary", 5, len(ordinary), 6, 0.5), ordinary),
    ]


def _balanced(signal: Signal, scales: tuple[float, ...], size: float, rng: np.random.Generator) -> tuple[Array, Array]:
    """Weights over time from a balanced start, turned in the code and in x, and the times."""
    start = dynamics.balanced_start(signal.d, [size * u for u in scales], signal.kind)
    code = np.linalg.qr(rng.standard_normal((signal.rank, signal.rank)))[0]
    raw = np.linalg.qr(rng.standard_normal((signal.d, signal.d)))[0]
    v = start["v"] if signal.kind == "skip" else start["v"][:, signal.rank :]
    turned = {
        "a": code @ start["a"] @ raw.T,
        "b": np.zeros(signal.shapes["b"]) if signal.kind == "skip" else start["b"] @ raw.T,
        "v": raw @ v @ (raw.T if signal.kind == "skip" else np.eye(v.shape[1])),
        "k": code @ start["k"][: signal.rank] @ code.T,
    }
    times = np.linspace(0.0, 8.0, 60)
    return signal.flow(signal.flat(turned), list(times)), times


@STAIRCASE.check(
    "as the start shrinks, the flow of the eigenvalues is half way up each step when the closed form says",
    states=1.0,
    control=1.1,
    wrong="plateaus that last a tenth longer",
    kind="float64",
)
def times_are_met(longer: float) -> bool:
    for signal, scales in _signals():
        size = 0.012 if signal.kind == "skip" else 0.03
        u = [size * x for x in scales]
        predicted = dynamics.step_times(*signal.task, u, signal.kind)
        predicted = predicted[0] + longer * (predicted - predicted[0])
        worth = signal.rho * (signal.d if signal.kind == "skip" else signal.d - signal.rank)
        times = np.unique(np.concatenate([t + np.linspace(-1, 1, 401) for t in predicted]))
        explained = dynamics.balanced_path(*signal.task, u, list(times), signal.kind) / worth
        found = np.array([np.interp(k + 0.5, explained, times) for k in range(len(u))])
        if not np.allclose(found[0], predicted[0], rtol=1e-3):
            return False
        if not np.allclose(np.diff(found), np.diff(predicted), rtol=0.03):
            return False
    return True


@REACHABILITY.check(
    "A A^T - K K^T - K^T K does not change along the flow; skip and ordinary heads, random starts",
    states=1.0,
    control=0.5,
    wrong="half of what the keys take off",
    kind="float64",
)
def is_conserved(share: float) -> bool:
    rng = np.random.default_rng(2)
    for kind, d, rank in (("skip", 2, 2), ("skip", 3, 1), ("ordinary", 3, 2)):
        signal = Signal(kind, d, rank, 4, 0.5)  # type: ignore[arg-type]
        start = 0.7 * rng.standard_normal(signal.size)
        at = signal.parts(start)
        before = dynamics.conserved(at["k"], at["a"])
        for flat in signal.flow(start, [0.1, 1.0, 10.0]):
            now = signal.parts(flat)
            after = now["a"] @ now["a"].T - share * (now["k"] @ now["k"].T + now["k"].T @ now["k"])
            if np.abs(after - before).max() > 1e-5:
                return False
    return True


@REACHABILITY.check(
    "flows from random starts end between the bounds on the rank, at both, and also below the optimum; a = d = 1, 2",
    states=0,
    control=1,
    wrong="at least one more direction is learned",
    kind="float64",
)
def ranks_are_bounded(more: int) -> bool:
    rng = np.random.default_rng(3)
    above_least, below_most, lost = [], [], 0
    for d in (1, 2):
        signal = Signal("skip", d, d, 4, 0.5)
        for keys in (0.2, 1.0, 6.0) * 4:
            a, k = rng.standard_normal((d, d)), keys * rng.standard_normal((d, d))
            if keys > 1:
                k = (k + k.T) / 2
            least, most = dynamics.rank_bounds(k, a)
            start = signal.flat({"a": a, "k": k, "v": np.zeros((d, d)), "b": np.zeros(signal.shapes["b"])})
            end = signal.loss(signal.flow(start, [100.0], 1e-5)[-1])
            entries = (signal.zero_loss - end) / signal.rho / d
            above_least.append(round(entries) - least - more)
            below_most.append(most - round(entries))
            lost += round(entries) < d
    return min(above_least) == 0 == min(below_most) and lost > 0 and max(above_least) > 0


@REACHABILITY.check(
    "the flow from a start with eigenvalues of Q of both signs ends at rank 2, from keys just above the compression, "
    "with and without an antisymmetric part, at 1, which the keys' signs say; d = 2",
    states=np.max,
    control=np.min,
    wrong="the least eigenvalue of Q in place of its largest",
)
def signs_bound_where_all_keys_outweigh(extreme: Callable[[Array], float]) -> bool:
    """The bounds are computed here from Q and the keys' signs, too; both bounds are met, and neither always."""
    signal = Signal("skip", 2, 2, 4, 0.5)
    for keys, turned, compression, rank in (
        ((2.0, -0.2), 0.0, (1.0, 1.0), 2),
        ((1.0, -0.9), 0.0, (1.3, 1.2), 1),
        ((1.0, -0.9), 0.15, (1.3, 1.2), 1),
    ):
        k, a = np.diag(keys) + turned * np.array([[0, 1], [-1, 0]]), np.diag(compression)
        outweighs = np.linalg.eigvalsh(a @ a.T - k @ k.T - k.T @ k)
        most = int((np.array(keys) > 0).sum()) if extreme(outweighs) + 2 * turned**2 < 0 else 2
        start = signal.flat({"a": a, "k": k, "v": np.zeros((2, 2)), "b": np.zeros(signal.shapes["b"])})
        end = signal.loss(signal.flow(start, [100.0], 1e-5)[-1])
        entries = (signal.zero_loss - end) / signal.rho / 2
        bounds = (max(1, int((outweighs > 0).sum())), most)
        if dynamics.rank_bounds(k, a) != bounds or abs(entries - rank) > 0.01 or not bounds[0] <= rank <= bounds[1]:
            return False
    return True


@REACHABILITY.check(
    "both bounds jump where the theorem says, within 2 %, for keys with and without an antisymmetric part",
    states=1.0,
    control=0.5,
    wrong="keys of half the size",
    kind="float64",
)
def bounds_jump_at_their_edges(size: float) -> bool:
    """With A = alpha 1 and K = diag(u, -v) + w J, 0 < v < u, J antisymmetric: K K^T + K^T K = 2 diag(u^2, v^2) + 2 w^2.

    So Q + |K_a|^2 is negative below alpha^2 = 2 v^2, where one eigenvalue of two has the right sign, and an eigenvalue
    of Q becomes positive at alpha^2 = 2 v^2 + 2 w^2 and at 2 u^2 + 2 w^2.
    """
    u, v = 1.3, 0.8
    for w in (0.0, 0.5, 1.0):
        keys = size * np.array([[u, w], [-w, -v]])
        edges = [2 * v**2 + 2 * w**2, 2 * u**2 + 2 * w**2]
        for edge in (2 * v**2, *edges):
            for square in (0.98 * edge, 1.02 * edge):
                least = max(1, sum(square > other for other in edges))
                most = 1 if square < 2 * v**2 else 2
                if dynamics.rank_bounds(keys, square**0.5 * np.eye(2)) != (least, most):
                    return False
    return True


@REACHABILITY.check(
    "the toy's exact gradient flow reaches the optimum from a compression larger than the keys; d = 2",
    states=0.2,
    control=5.0,
    wrong="keys larger than the compression, with eigenvalues of both signs",
    kind="exact",
)
def toy_reaches(keys: float) -> bool:
    rng = np.random.default_rng(4)
    for d, n in ((2, 8), (2, 3)):
        a = np.linalg.qr(rng.standard_normal((d, d)))[0]
        k = keys * rng.uniform(0.5, 1.0) * np.diag([1.0, *[-0.7] * (d - 1)])
        weights = Weights(a, np.zeros((0, d)), np.zeros((2, d, d)), np.stack([0.1 * rng.standard_normal((d, d)), k]))
        loss = PopulationLoss(PromptMoments(d, n, 0.5), SKIPV1)
        end = gradient_flow(loss, weights, [60.0], 1e-5).losses[-1]
        explained = (loss.zero_loss - end) * (n + d + 1.25) / n
        if dynamics.rank_bounds(k, a)[0] < d or not 0.97 <= explained / d**2 <= 1 + 1e-6:
            return False
    return True
