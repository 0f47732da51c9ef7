"""SkipV1Former with softmax heads against any model of squeezed tokens: no linear attention is needed."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from experiments.ledger.claim import Claim
from experiments.skipv1.claims.softmax_attention import attention, losses, own_token_loss, squeezed_regression
from theory.skipv1 import softmax as any_architecture
from theory.skipv1.compressed import any_model_floor, best_model_loss
from theory.skipv1.paper import PAPER
from theory.skipv1.softmax import FOUR, THREE, TWO
from theory.skipv1.softmax_bound import certified
from theory.skipv1.softmax_moments import Moments, quadrature
from theory.toy.exact import loss_at_entries

ANY = Claim(
    "skipv1.any-architecture",
    PAPER.ours,
    place="theory.skipv1.softmax: appendix A.1, Theorem 2, with softmax heads and against models of any kind",
    statement="Any function of the tokens (A x_t ; B y_t), of the x_t and of the query's A x explains at most "
    "r a (d - a) of W*, r <= n/max(d, n + sigma^2), and the posterior mean just that.  Two skip heads with softmax "
    "attention over the 2n context tokens, and one ordinary one (two where a < d), explain more than rho a d at finite "
    "weights.  So SkipV1Former's best is below every such model's by more than rho d^2 - r floor(d^2/4), which is "
    "positive for all d, n and sigma.  One skip and one ordinary softmax head explain a d in the limit of long "
    "prompts.",
    assumes="W* ~ N(0, I), x ~ N(0, I), Gaussian noise; Assumption 1; the query hidden from itself by P; of the heads "
    "it is said that such weights exist, not that training finds them",
    verdict="verified",
    proof=any_architecture,
    uses=("skipv1.a2-deeper", "skipv1.skipv1-minimum"),
)
TASKS = ((1, 1, 0.5), (2, 3, 0.5), (3, 2, 1.0), (3, 6, 0.3))
NOISE = (Fraction(0), Fraction(1, 2), Fraction(4))
EXACT_TASKS = [(d, n, sigma) for d in range(1, 8) for n in (1, 2, 3, 5, 8, 40) for sigma in NOISE]


@ANY.check(
    "the posterior mean of squeezed prompts, random A and B: its loss over 20,000 prompts, every rank",
    states=lambda d, a: a * (d - a),
    control=lambda d, a: a * d,
    wrong="as if raw labels were seen",
    kind="sampled",
)
def posterior_mean_loses(entries: Callable[[int, int], int]) -> bool:
    for d, n, sigma in TASKS:
        zero = d * d + d * sigma**2
        for rank in range(d + 1):
            said = best_model_loss(d, n, sigma, rank).value
            if seen := rank * (d - rank):
                said = zero - (zero - said) * entries(d, rank) / seen
            elif entries(d, rank):
                said = zero - best_share(d, n, sigma) * entries(d, rank)
            if not squeezed_regression(d, n, sigma, rank).loss.agrees(said):
                return False
    return True


def best_share(d: int, n: int, sigma: float) -> float:
    """r, over 2,000 Gaussian matrices."""
    x = np.random.default_rng(d).standard_normal((2_000, d, n))
    spectra = np.linalg.eigvalsh(x @ x.mT)
    return float((spectra / (spectra + sigma**2)).mean())


@ANY.check(
    "nothing improves on it: features of squeezed prompts, fitted to what it leaves, explain none of it",
    states=False,
    control=True,
    wrong="features of raw labels, which do",
    kind="float64",
)
def nothing_is_left(raw: bool) -> bool:
    """Least squares on cubic and on spectral features, fitted on one half of the prompts and judged on the other."""
    for d, n, sigma, rank in ((2, 3, 0.5, 1), (3, 6, 0.3, 2)):
        if squeezed_regression(d, n, sigma, rank).improved(raw) > 0:
            return False
    return True


@ANY.check(
    "the floor is what the rank of the context allows without noise, exactly, and below the posterior mean with it",
    states=any_model_floor,
    control=lambda d, n, sigma, rank: d * d + d * sigma**2 - rank * (d - rank),
    wrong="as if prompts were endless",
    kind="exact",
)
def floor_holds(floor: Callable[[int, int, Any, int], Any]) -> bool:
    rng = np.random.default_rng(31)
    for d, n in ((1, 1), (2, 1), (3, 2), (3, 7), (4, 3)):
        rows = np.linalg.matrix_rank(rng.standard_normal((d, n)))
        for rank in range(d + 1):
            if floor(d, n, Fraction(0), rank) != d * d - Fraction(rank * (d - rank) * int(rows), d):
                return False
            if floor(d, n, 0.5, rank) > d * d + d / 4 - best_share(d, n, 0.5) * rank * (d - rank) * 0.97:
                return False
    # and with noise it is sharp for long prompts
    long = (3 * 3 + 12 - floor(3, 4000, 2.0, 1)) / 2
    return abs(1 - long - 0.001 * (1 - long / 4000)) < 1e-5


@ANY.check(
    "softmax over tokens, with the explicit weights, is the sum of sinh, and of cosh where one skip head is alone",
    states=1,
    control=-1,
    wrong="A with its sign turned",
    kind="float64",
)
def heads_are_sums(sign: int) -> bool:
    """Prompt by prompt, to rounding."""
    rng, step = np.random.default_rng(32), 0.7
    for d, n, rank, heads in ((1, 1, 1, TWO), (2, 3, 2, THREE), (3, 2, 1, FOUR), (3, 4, 2, TWO), (2, 5, 2, FOUR)):
        weights = any_architecture.softmax_weights(d, n, rank, heads, 0.6, step)
        a, b, keep = sign * weights.a, weights.b, np.arange(d) < rank
        x, y, query = (rng.standard_normal((1, size, d)) for size in (n, n, 1))
        first = np.concatenate([x, np.concatenate([x @ a.T, y @ b.T], axis=-1)], axis=1)
        found = attention(first, np.concatenate([x, y], axis=1), query[:, 0] @ a.T, weights, heads)[0]
        logits = 0.6 * x[0] @ (keep * query[0, 0])
        expected = np.sinh(logits) @ y[0]
        if heads == TWO:
            expected = expected + np.cosh(logits) @ (y[0] + keep * x[0])
        if not np.allclose(found, step / 0.6 * expected / np.cosh(logits).mean(), rtol=0, atol=1e-10):
            return False
    return True


@ANY.check(
    "softmax over tokens, with the explicit weights: the loss that quadrature gives, one to three pairs, every rank",
    states=1,
    control=-1,
    wrong="A with its sign turned",
    kind="float64",
)
def weights_lose(sign: int) -> bool:
    cases = ((1, 1, 0.5, 1, TWO), (2, 2, 0.3, 2, THREE), (2, 3, 1.0, 2, TWO), (3, 2, 0.5, 1, FOUR), (3, 1, 0.5, 2, TWO))
    for d, n, sigma, rank, heads in cases:
        moments = quadrature(d, n, sigma, rank, 0.6, nodes=24)
        step, explained = moments.step(heads), moments.explained(d, heads)
        weights = any_architecture.softmax_weights(d, n, rank, heads, 0.6, step)
        said = d * d + d * sigma**2 - explained
        if abs(d * step * (2 * moments.signal - step * moments.power(heads)) - explained) > 1e-12 * explained:
            return False
        if not losses(weights, heads, d, n, sigma, sign=sign).agrees(said):
            return False
    return True


@ANY.check(
    "the proved moments lie on the safe side of quadrature's, and near it for small logits, two and three pairs",
    states=certified,
    control=lambda d, n, sigma, rank, eps: Moments(rank * n, rank * n * (n + d + 1 + sigma**2), n / eps**2),
    wrong="the linear heads' moments",
    kind="float64",
)
def bounds_hold(bound: Callable[[int, int, float, int, float], Moments]) -> bool:
    for d, n, sigma, rank in ((1, 2, 0.0, 1), (2, 2, 0.3, 2), (3, 3, 0.5, 2)):
        for eps in (0.03, 0.1, 0.2):
            exact, proved = quadrature(d, n, sigma, rank, eps, nodes=20), bound(d, n, sigma, rank, eps)
            distances = (
                1 - proved.signal / exact.signal,
                proved.square / exact.square - 1,
                proved.even / exact.even - 1,
            )
            if min(distances) < -1e-9 or (eps < 0.05 and max(distances) > 5e-5):
                return False
    return True


@ANY.check(
    "small logits explain more than none, as much as said: second differences of quadrature; and proved at eps = 0.04",
    states=Fraction(1),
    control=Fraction(1, 2),
    wrong="half as much",
    kind="float64",
)
def small_logits_gain(factor: Fraction) -> bool:
    for d, n, sigma, rank in ((1, 1, Fraction(0), 1), (2, 2, Fraction(1, 2), 1), (3, 2, Fraction(1), 3)):
        linear = n * rank * d / (n + d + 1 + sigma**2)
        said = float(factor * any_architecture.small_logits_gain(d, n, sigma, rank))
        near, far = (
            (quadrature(d, n, float(sigma), rank, eps, nodes=20).explained(d, THREE) - linear) / eps**2
            for eps in (0.01, 0.02)
        )
        if abs((4 * near - far) / 3 / said - 1) > 1e-4:
            return False
        if certified(d, n, float(sigma), rank, 0.04).explained(d, THREE) <= linear:
            return False
    return certified(2, 8, 0.3, 2, 0.04).explained(2, THREE) > 8 * 4 / (8 + 3 + 0.09)


@ANY.check(
    "the gaps are the floor less the least loss of SkipV1Former's linear heads, positive between the optima; rational",
    states=Fraction(1, 4),
    control=Fraction(1, 2),
    wrong="as if half of W* could be seen",
    kind="exact",
)
def gaps_are_positive(seen: Fraction) -> bool:
    """Exact; for every size of EXACT_TASKS."""
    for d, n, sigma in EXACT_TASKS:
        zero, share = d * d + d * sigma**2, n / max(Fraction(d), n + sigma**2)
        minima = [loss_at_entries(d, n, sigma, rank * d) for rank in range(d + 1)]
        between = zero - share * int(seen * d * d) - minima[d]
        if between <= 0 or between != any_architecture.gap_of_optima(d, n, sigma):
            return False
        for rank, minimum in enumerate(minima):
            if zero - share * rank * (d - rank) - minimum != any_architecture.gap_at_rank(d, n, sigma, rank):
                return False
    return True


@ANY.check(
    "one skip and one ordinary head, proved: more than a (d - a) from some hundred pairs on, and a d in the limit",
    states=lambda d, a: a * d,
    control=lambda d, a: a * (d - a) + 1,
    wrong="one entry of W* more than any compressed model",
    kind="float64",
)
def two_heads_tend(limit: Callable[[int, int], int]) -> bool:
    for d, rank in ((2, 2), (4, 4), (4, 3)):
        explained = [certified(d, n, 0.3, rank, min(0.2, n**-0.25)).explained(d, TWO) for n in (10**3, 10**6, 10**9)]
        left = limit(d, rank) - np.array(explained)
        if explained[0] <= (d * d) // 4 or not 0 < left[2] < 1e-3 * rank * d or not left[0] > left[1] > left[2]:
            return False
    return True


@ANY.check(
    "with the query's own token in the softmax four heads with small logits explain the share said",
    states=True,
    control=False,
    wrong="without that token, where it is rho",
    kind="float64",
)
def own_token_costs(own: bool) -> bool:
    for d, n, sigma in ((1, 1, 0.5), (1, 2, 0.0), (2, 1, 0.5)):
        share = any_architecture.own_token_share(d, n, sigma)
        weights = any_architecture.softmax_weights(d, n, d, FOUR, 0.003, share / n * (1 + own / (2 * n)))
        explained = d * d + d * sigma**2 - own_token_loss(weights, FOUR, d, n, sigma, own)
        if abs(explained / (d * d * share) - 1) > 1e-3:
            return False
    return True
