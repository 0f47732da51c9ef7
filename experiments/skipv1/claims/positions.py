"""Claims on two layers whose first one sees positions: the needs of Assumption 1, and their cost for MHA."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import sympy
from scipy.optimize import minimize

from experiments.ledger.claim import Claim, Conditions
from theory.plans.heads import MHA, SKIPV1
from theory.prompts.isserlis import PromptEngine, pairings
from theory.prompts.moments import Array, PromptMoments
from theory.prompts.setting import signal_share
from theory.skipv1.paper import PAPER
from theory.toy import positions
from theory.toy.positions import TwoLayers, rotating_weights

SETTING = "W* ~ N(0, I), x ~ N(0, I), Gaussian noise; layer 1's scores are of positions alone"
PROMPTS = 100_000

ASSUMPTION_1_MASK = Claim(
    "skipv1.assumption1-mask",
    PAPER.name,
    place="appendix A.1, P in Eqn. (2) and Assumption 1",
    statement="With positions, Eqn. (2) can do what Assumption 1 says: the last token becomes (A x_{n+1} ; 0).",
    assumes="scores of contents and of positions, any number of heads; the mask P as printed",
    verdict="refuted",
    correction="P hides the last token from itself too, so it becomes a sum over the context, in which x_{n+1} "
    "stands beside a second moment of the context and never alone.  It has to attend to itself in layer 1.",
    proof=positions,
)


@ASSUMPTION_1_MASK.check(
    "with a context of zeros the last token is zero, at random whole weights",
    states="printed",
    control="itself",
    wrong="a mask by which it attends to itself",
    kind="exact",
)
def query_needs_a_context(mask: str) -> bool:
    """Check that with all context tokens zero, the last token of layer 1 is zero: A x_{n+1} is not in it."""
    context, query = np.zeros((3, 4), dtype=int), np.array([1, 2, 3])
    return not _last_token(context, query, mask).any()


@ASSUMPTION_1_MASK.check(
    "doubling the context multiplies what the last token has of x_{n+1} by four, in whole numbers",
    states=2,
    control=0,
    wrong="by one, as Assumption 1 needs",
    kind="exact",
)
def query_has_degree(degree: int) -> bool:
    """Doubling the context multiplies what is odd in x_{n+1} by 2^degree; whole numbers, the mask as printed."""
    rng = np.random.default_rng(1)
    context, query = rng.integers(-3, 4, (3, 4)), np.array([1, -2, 3])
    once, twice = (_last_token(c, query, "printed") - _last_token(c, -query, "printed") for c in (context, 2 * context))
    return bool((twice == 2**degree * once).all() and once.any())


def _last_token(context: Array, query: Array, mask: str) -> Array:
    """Return the last token that two heads make, with scores of contents and of positions and random whole weights."""
    rng = np.random.default_rng(0)
    tokens = np.concatenate([context, query[:, None]], axis=1)
    value, match = rng.integers(-3, 4, (2, 2, 3, 3))
    bias = rng.integers(1, 4, (2, tokens.shape[1]))
    visible = np.ones(tokens.shape[1], dtype=int)
    visible[-1] = mask == "itself"
    heads = zip(value, match, bias, strict=True)
    return np.sum([v @ tokens @ ((tokens.T @ m @ query + b) * visible) for v, m, b in heads], axis=0)


ROTATING_MHA = Claim(
    "toy.rotating-mha",
    PAPER.ours,
    place="theory/toy/positions.py, step (7); bears on SkipV1Former, Assumption 1",
    statement="Without Assumption 1, MHA of even width d explains rho (d^2/4 + d/2) with two heads in each layer, "
    "at finite weights, where Assumption 1 lets it approach rho d^2/4.",
    assumes=SETTING,
    verdict="verified",
    proof=positions,
    uses=("toy.positions-bound", "skipv1.mha-infimum"),
)


@ROTATING_MHA.check(
    "tokens x + y and J (x - y): G + J G J has no even part, d = 4, with symbols for the second moments",
    states="rotation",
    control="reflection",
    wrong="J^2 = I instead of -I",
    kind="exact",
)
def even_part_cancels(kind: str) -> bool:
    """G + J G J = 2 (N + J N J) for G = D + N + J (D - N) J^T, with symbols for symmetric D and N; d = 4."""
    eye, turn = sympy.eye(2), sympy.zeros(4)
    turn[:2, 2:], turn[2:, :2] = -eye if kind == "rotation" else eye, eye
    d, n = (sympy.Matrix(4, 4, lambda i, j, name=name: sympy.Symbol(f"{name}{min(i, j)}{max(i, j)}")) for name in "dn")
    gram = d + n + turn * (d - n) * turn.T
    return bool((gram + turn * gram * turn - 2 * (n + turn * n * turn)).expand() == sympy.zeros(4))


@ROTATING_MHA.check(
    "d = 2: lambda times the projection of S_yx explains 2 rho, by pairing",
    states=2,
    control=1,
    wrong="1, what Assumption 1 allows",
    kind="exact",
)
def projection_explains(entries: int) -> bool:
    """lambda Pi S_yx, d = 2, Pi on the symmetric matrices of trace zero, explains rho `entries`: exact, by pairing."""
    engine, n, sigma = PromptEngine(2), 5, Fraction(1, 3)
    basis = [((0, 0, 1), (1, 1, -1)), ((0, 1, 1), (1, 0, 1))]  # both of norm sqrt 2
    cross = power = engine.ring.zero
    for element in basis:
        for (i, j, a), (k, m, b) in product(element, repeat=2):
            cross += a * b * engine.expect(("yx", i, j), ("w", k, m))
            power += a * b * engine.expect(("yx", i, j), ("yx", k, m))
    at = {str(engine.n): n, str(engine.sigma): sympy.Rational(1, 3), **{f"w_{i}{j}": 0 for i in (0, 1) for j in (0, 1)}}
    with_w, square = (Fraction(str(p.as_expr().subs(at))) / 2 for p in (cross, power))
    step = signal_share(2, n, sigma) / n
    return bool(2 * step * with_w - step**2 * square == signal_share(2, n, sigma) * entries)


@ROTATING_MHA.check(
    "the weights, token by token, within 4 standard errors over 100,000 prompts, d = 2 and 4",
    states=lambda d: d**2 // 4 + d // 2,
    control=lambda d: d**2 // 4,
    wrong="what Assumption 1 allows",
    kind="sampled",
)
def rotating_weights_explain(entries: Callable[[int], int]) -> bool:
    """The weights of `theory.toy.positions.rotating_weights`, tokens and all, within 4 standard errors; d = 2 and 4."""
    n, sigma = 6, 0.3
    for d in (2, 4):
        mean, error = _sampled_gain(d, n, sigma)
        if not abs(mean - signal_share(d, n, sigma) * entries(d)) < 4 * error:
            return False
    return True


@ROTATING_MHA.check(
    "the weights multiplied out in exact moments, one vector per token of the prompt, d = 2, 4 and 6",
    states=lambda d: d**2 // 4 + d // 2,
    control=lambda d: d**2 // 4,
    wrong="what Assumption 1 allows",
)
def rotating_weights_explain_in_moments(entries: Callable[[int], int]) -> Conditions:
    """Compare E [2 <P, W*> - |P|^2]; the first layer treats all pairs alike, and the last token sees itself alone."""
    n, sigma = 6, 0.3
    for d in (2, 4, 6):
        weights, moments = rotating_weights(d, n, sigma), PromptMoments(d, n, sigma)
        from_token = np.einsum("hst,hij->stij", weights.bias, weights.value @ weights.read_in)
        yield from_token.shape == (2 * n + 1, 2 * n + 1, d, d)
        alike = [from_token[2 * t : 2 * t + 2, 2 * t : 2 * t + 2] for t in range(n)]
        yield all((pair == alike[0]).all() for pair in alike)
        yield np.count_nonzero(from_token) == sum(map(np.count_nonzero, alike)) + d
        yield (from_token[-1, -1] == np.eye(d)).all()
        tokens = [np.concatenate([alike[0][0, t], alike[0][1, t]], axis=1) for t in (0, 1)]
        layers = zip(weights.readout, weights.key_query, strict=True)
        terms = [(out @ token, token.T @ match) for out, match in layers for token in tokens]
        meets = sum(np.trace(right.T @ moments.target_right(left.T)) for left, right in terms)
        power = sum(np.trace(l2.T @ l1 @ moments.sandwich(r1 @ r2.T)) for l1, r1 in terms for l2, r2 in terms)
        yield abs(2 * meets - power - signal_share(d, n, sigma) * entries(d)) < 1e-9


@cache
def _sampled_gain(d: int, n: int, sigma: float) -> tuple[float, float]:
    """Return by how much `rotating_weights` beats predicting zero on sampled prompts, and its standard error."""
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((PROMPTS, d, n + 1)), rng.standard_normal((PROMPTS, d, d))
    y = (w @ x + sigma * rng.standard_normal((PROMPTS, d, n + 1)))[..., :-1]
    target = (w @ x[..., -1:])[..., 0]
    out = _predict(rotating_weights(d, n, sigma), x, y)
    gained = (target**2).sum(1) - ((out - target) ** 2).sum(1)
    return float(gained.mean()), float(gained.std() / PROMPTS**0.5)


def _predict(weights: TwoLayers, x: Array, y: Array) -> Array:
    """Return the predictions, (B, d), for x (B, d, n+1) and y (B, d, n)."""
    n = y.shape[-1]
    tokens = np.zeros((*x.shape[:2], 2 * n + 1))
    tokens[..., 0::2], tokens[..., 1::2] = x, y
    inputs = weights.read_in @ tokens
    first = sum(v @ inputs @ b for v, b in zip(weights.value, weights.bias, strict=True))
    context, last = first[..., :-1], first[..., -1:]
    layers = zip(weights.readout, weights.key_query, strict=True)
    return sum(w @ context @ (context.mT @ k @ last) for w, k in layers)[..., 0]


POSITIONS_BOUND = Claim(
    "toy.positions-bound",
    PAPER.ours,
    place="theory/toy/positions.py, steps (1) to (5)",
    statement="Without Assumption 1, if layer 1's scores depend on positions alone, MHA of width m explains at most "
    "rho min(d^2, m (m+1) / 2), with any heads and weights: at m = d a gap of at least rho d (d-1) / 2 to SkipV1Former "
    "stays.  With scores of contents neither this nor rho d^2 is a bound (toy.content-scores).",
    assumes=SETTING,
    verdict="verified",
    proof=positions,
    uses=("skipv1.mha-infimum", "skipv1.skipv1-minimum"),
    unjudged={pairings: "a list of which only the length counts"},
)


@POSITIONS_BOUND.check(
    "all that ordinary heads see of the y_s x_r^T is a symmetric m x m matrix: rank, random first layers",
    states=lambda d, m: m * (m + 1) // 2,
    control=lambda d, m: d * m,
    wrong="d m numbers, as many as a skip head sees",
)
def ordinary_head_sees(numbers: Callable[[int, int], int]) -> bool:
    """The rank of (y_s x_r^T)_sr -> the odd part of sum_t f_t f_t^T, for random f_t = sum_s A_ts x_s + B_ts y_s."""
    rng, n = np.random.default_rng(0), 4
    for d, width in ((1, 1), (2, 2), (2, 3), (3, 3), (3, 4)):
        of_x, of_y = rng.standard_normal((2, n, 2 * n, width, d))
        half = np.einsum("sTwi,rTvj->srijwv", of_y, of_x).reshape(-1, width, width)
        if np.linalg.matrix_rank((half + half.mT).reshape(len(half), -1)) != numbers(d, width):
            return False
    return True


@POSITIONS_BOUND.check(
    "descents over first layers, with all that ordinary heads can make of the odd part, come from random ones within "
    "1 % of the bound, and none passes it; d = 1, 2",
    states=lambda d, m: min(d**2, m * (m + 1) // 2),
    control=lambda d, m: min(d**2, m * d),
    wrong="d m numbers",
    kind="descent",
)
def descents_end_on_bound(entries: Callable[[int, int], int]) -> bool:
    """A descent in f_t = sum_s A_ts x_s + B_ts y_s explains `entries` of W*, in units of rho."""
    for d, width, n, sigma in ((1, 1, 2, 0.5), (2, 2, 2, 0.5), (2, 3, 2, 0.0)):
        most = _most_explained(d, width, n, sigma) / (n / (n + d + 1 + sigma**2))
        known = {heads: positions.most_entries_with_positions(heads, d, width) for heads in (MHA, SKIPV1)}
        if not 0.99 * entries(d, width) <= most <= entries(d, width) + 1e-9 or known[MHA] != entries(d, width):
            return False
        if known[SKIPV1] != d * d:
            return False
    return True


@cache
def _most_explained(d: int, width: int, n: int, sigma: float) -> float:
    """Return what the best linear function of sum_t f_t f_t^T's odd part explains, at the end of a descent."""
    rng = np.random.default_rng(1)

    def missed(flat: Array) -> float:
        of_x, of_y = flat.reshape(2, n, n, width, d)
        return -_explained(of_x, of_y, sigma)

    begin = rng.standard_normal(2 * n * n * width * d)
    return float(-minimize(missed, begin, method="L-BFGS-B", options={"maxiter": 40}).fun)


def _explained(of_x: Array, of_y: Array, sigma: float) -> float:
    """Return how much of W* a regression on the odd part's entries explains.

    of_x, of_y: (n, T, m, d), the A_ts and B_ts.

    E[(y_s x_r^T)_ij (y_t x_q^T)_ij] = [s=t][r=q] (d + sigma^2) + [s=r][t=q] + [s=q][t=r], by pairing, and zero for
    other entries; E[(y_s x_r^T)_ij W*_ij] = [s=r].
    """
    n, _, width, d = of_x.shape
    eye = np.eye(n)
    power = (d + sigma**2) * np.einsum("st,rq->srtq", eye, eye)
    power += np.einsum("sr,tq->srtq", eye, eye) + np.einsum("sq,tr->srtq", eye, eye)
    half = np.einsum("sTwi,rTvj->wvsrij", of_y, of_x)
    seen = (half + half.swapaxes(0, 1))[np.triu_indices(width)].reshape(-1, n * n, d * d)
    gram = np.einsum("kaq,ab,lbq->kl", seen, power.reshape(n * n, n * n), seen)
    target = np.einsum("kssq->kq", seen.reshape(-1, n, n, d * d))
    return float(np.einsum("kq,kl,lq->", target, np.linalg.pinv(gram, rcond=1e-10, hermitian=True), target))


@POSITIONS_BOUND.check(
    "W* - lambda S_yx is uncorrelated with every y_s x_r^T, so nothing linear in them explains more",
    states=lambda d, n, sigma: 1 / (n + d + 1 + sigma**2),
    control=lambda d, n, sigma: 1 / (n + d + 1),
    wrong="lambda without the noise",
    kind="exact",
)
def rest_is_uncorrelated(step: Callable[[int, int, Any], Any]) -> bool:
    """E[(W* - step S_yx)_ij (y_s)_k (x_r)_l] = 0 for s = r and s != r, exactly; d = n = 2, sigma = 1/2."""
    sigma = sympy.Rational(1, 2)
    names = [sympy.symbols(f"{name}(:2)(:2)") for name in "wxe"]
    w, x, e = (sympy.Matrix(2, 2, entries) for entries in names)
    y = w * x + sigma * e
    rest = w - step(2, 2, sigma) * y * x.T
    symbols = [symbol for entries in names for symbol in entries]
    places = [(0, 1, 0, 1), (0, 0, 0, 0), (0, 1, 1, 0)]
    return all(
        _gaussian_mean(sympy.expand(rest[i, j] * y[k, s] * x[m, r]), symbols) == 0
        for i, j, k, m in places
        for s, r in ((0, 0), (0, 1), (1, 0))
    )


def _gaussian_mean(polynomial: Any, symbols: list[Any]) -> Any:
    """Return E of a polynomial in independent standard normal symbols."""
    terms = sympy.Poly(polynomial, *symbols).terms()
    counts = ((c, [0 if k % 2 else len(pairings(k)) for k in powers]) for powers, c in terms)
    return sum(c * int(np.prod(count)) for c, count in counts)
