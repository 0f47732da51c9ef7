"""Claims on training at W0 = 0: the flow of the signal, critical points, plateaus, and what is reached."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from scipy.integrate import solve_ivp
from scipy.optimize import least_squares

from experiments.ledger.claim import Claim, at
from theory.plans.heads import ORDINARY, SKIP, SKIPV1
from theory.prompts.moments import Array, PromptMoments
from theory.skipv1 import dynamics, landscape
from theory.skipv1.dynamics import HeadKind
from theory.skipv1.paper import PAPER
from theory.toy.exact import exact_loss, loss_at_entries, odd_map, random_weights
from theory.toy.flow import gradient_flow
from theory.toy.population import PopulationLoss, Weights


@dataclass(frozen=True)
class Signal:
    """E||T(S_yx/n) - W*||^2 + d sigma^2 for P_odd = T(S_yx/n) = C S_yx A^T K A / n, C = V or V B, at W0 = 0.

    Weights are one vector: a (a, d), b (d-a, d), v (d, d) or (d, d-a), k (a, a).
    """

    kind: HeadKind
    d: int
    rank: int
    n: int
    sigma: float

    @property
    def task(self) -> tuple[int, int, float]:
        return self.d, self.n, self.sigma

    @property
    def zero_loss(self) -> float:
        return self.d**2 + self.d * self.sigma**2

    @property
    def rho(self) -> float:
        return self.n / (self.n + self.d + 1 + self.sigma**2)

    @property
    def shapes(self) -> dict[str, tuple[int, int]]:
        d, a = self.d, self.rank
        b, v = ((0, d), (d, d)) if self.kind == "skip" else ((d - a, d), (d, d - a))
        return {"a": (a, d), "b": b, "v": v, "k": (a, a)}

    @property
    def size(self) -> int:
        return sum(int(np.prod(shape)) for shape in self.shapes.values())

    def flat(self, weights: Mapping[str, Array]) -> Array:
        return np.concatenate([np.asarray(weights[name], dtype=float).ravel() for name in self.shapes])

    def parts(self, flat: Array) -> dict[str, Array]:
        ends = np.cumsum([int(np.prod(shape)) for shape in self.shapes.values()])[:-1]
        return {
            name: part.reshape(shape)
            for (name, shape), part in zip(self.shapes.items(), np.split(flat, ends), strict=True)
        }

    def loss(self, flat: Array) -> float:
        c, form = self._maps(self.parts(flat))
        squares = (c * c).sum() * (form * form).sum()
        return float(self.zero_loss - 2 * c.trace() * form.trace() + squares / self.rho)

    def gradient(self, flat: Array) -> Array:
        w = self.parts(flat)
        c, form = self._maps(w)
        eye = np.eye(self.d)
        by_c = -2 * form.trace() * eye + 2 * (form * form).sum() / self.rho * c
        by_form = -2 * c.trace() * eye + 2 * (c * c).sum() / self.rho * form
        skip = self.kind == "skip"
        return self.flat(
            {
                "a": w["k"] @ w["a"] @ by_form.T + w["k"].T @ w["a"] @ by_form,
                "b": w["b"] if skip else w["v"].T @ by_c,
                "v": by_c if skip else by_c @ w["b"].T,
                "k": w["a"] @ by_form @ w["a"].T,
            }
        )

    def flow(self, start: Array, times: Sequence[float], accuracy: float = 1e-8) -> Array:
        """Return weights at these times, (times, size)."""
        path = solve_ivp(
            lambda _, flat: -self.gradient(flat),
            (0.0, float(times[-1])),
            start,
            method="LSODA",
            t_eval=list(times),
            rtol=accuracy,
            atol=accuracy / 1000,
        )
        return path.y.T

    def _maps(self, w: Mapping[str, Array]) -> tuple[Array, Array]:
        return w["v"] if self.kind == "skip" else w["v"] @ w["b"], w["a"].T @ w["k"] @ w["a"]


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
    """Compare in fractions, at every k < a; lost keys of both signs."""
    for d, n, sigma in TASKS:
        loss = exact_loss(SKIPV1, d, n, sigma)
        for rank in range(1, d + 1):
            for reached in range(rank if d < 3 else 1, rank):
                lost = (-1) ** (rank + reached)
                found = landscape.trap_weights(d, n, sigma, rank=rank, reached=reached, lost=lost)
                weights = Weights(found.a, found.b, found.w * np.array([1, times])[:, None, None], found.k)
                height = landscape.plateau(d, n, sigma, rows=d, columns=reached)
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
    """Compare in fractions: keys of x's numbers and, for an ordinary head, a readout of y's."""
    rng = np.random.default_rng(3)
    for d, rank, n, sigma in ((1, 1, 2, Fraction(1)), (2, 1, 3, Fraction(1, 2)), (3, 2, 2, Fraction(0))):
        for head in (SKIP, ORDINARY)[: 2 if rank < d else 1]:
            weights = random_weights(rng, 1, rank, d)
            weights.k[0, rank:] = 0
            if head == ORDINARY:
                weights.w[0, :, :rank] = 0
            odd = odd_map(weights, (head,))
            c = weights.w[0] if head == SKIP else weights.w[0][:, rank:] @ weights.b
            given = landscape.signal_loss(d, n, sigma, c=times * c, k=weights.k[0, :rank], a=weights.a)
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
    """Check the flow's end; the control, which it leaves, shows that the flow finds what is lower."""
    rng = np.random.default_rng(4)
    for d, n in ((1, 2), (2, 4), (3, 4)):
        for reached in range(d if d < 3 else 1):
            for more in (0, 1):
                heads = (*SKIPV1, *SKIPV1[: 2 * more])
                trap = landscape.trap_weights(d, n, 0.5, rank=d, reached=reached, lost=lost)
                idle = [0 * trap.w, 0 * trap.k]
                w, k = (np.concatenate([x, y][: 1 + more]) for x, y in zip((trap.w, trap.k), idle, strict=True))
                parts = (x + 0.03 * rng.standard_normal(x.shape) for x in (trap.a, trap.b, w * n, k))
                a, b, w, k = parts
                loss = PopulationLoss(PromptMoments(d, n, 0.5), heads)
                end = gradient_flow(loss, Weights(a, b, w / n, k), [40.0], 1e-5).losses[-1]
                if abs(end - landscape.plateau(d, n, 0.5, rows=d, columns=reached)) > 0.02:
                    return False
    return True


@CRITICAL.check(
    "the form on A's left kernel is the second derivative of the signal's loss, and its sign decides; random points",
    states=1,
    control=-1,
    wrong="the form with its sign turned",
)
def form_decides(sign: int) -> bool:
    """Compare second differences along p q^T with 2 H(p) at random critical points.

    Where H > 0 nothing nearby is lower; where it is not, something is.
    """
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
    """Return a task, C, K and A at a random critical point of a skip head's signal: Theorem 1 (a), written out."""
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
)
def heights_are_found(times: float) -> bool:
    """Check least squares on the gradient of the signal's loss from random starts, skip and ordinary head."""
    for signal, most in ((Signal("skip", 2, 2, n=3, sigma=0.5), 2), (Signal("ordinary", 3, 1, n=3, sigma=0.5), 2)):
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
    """Yield the signal's loss at zeros of its gradient."""
    for _ in range(starts):
        flat = rng.standard_normal(signal.size)
        end = least_squares(signal.gradient, flat, xtol=1e-14, ftol=1e-14, gtol=1e-14, max_nfev=100)
        if np.abs(end.fun).max() < 1e-9:
            yield signal.loss(end.x)


FLOW = "W0 = 0; x and noise Gaussian; Assumption 1; gradient flow on one head's signal, without the even part"
SCALES = ((1.0, 0.6, 0.4), (1.0, 0.5))
INTEGRATION = "solve_ivp(uphill, span, scales, method='LSODA', t_eval=list(times), rtol=1e-09, atol=1e-12)"

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
    unjudged={at(dynamics.balanced_path, INTEGRATION): "tolerances of an integration, far below those of the checks"},
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
        (Signal("skip", 3, len(skip), n=6, sigma=0.5), skip),
        (Signal("skip", 1, 1, n=2, sigma=0.0), (1.0,)),
        (Signal("ordinary", 5, len(ordinary), n=6, sigma=0.5), ordinary),
    ]


def _balanced(signal: Signal, scales: tuple[float, ...], size: float, rng: np.random.Generator) -> tuple[Array, Array]:
    """Return weights over time from a balanced start, turned in the code and in x, and the times."""
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
)
def is_conserved(share: float) -> bool:
    rng = np.random.default_rng(2)
    for kind, d, rank in (("skip", 2, 2), ("skip", 3, 1), ("ordinary", 3, 2)):
        signal = Signal(kind, d, rank, n=4, sigma=0.5)  # type: ignore[arg-type]
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
)
def ranks_are_bounded(more: int) -> bool:
    rng = np.random.default_rng(3)
    above_least, below_most, lost = [], [], 0
    for d in (1, 2):
        signal = Signal("skip", d, d, n=4, sigma=0.5)
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
    signal = Signal("skip", 2, 2, n=4, sigma=0.5)
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
)
def bounds_jump_at_their_edges(size: float) -> bool:
    """Check A = alpha 1, K = diag(u, -v) + w J, 0 < v < u, J antisymmetric: K K^T + K^T K = 2 diag(u^2, v^2) + 2 w^2.

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
