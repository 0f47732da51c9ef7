"""Checks behind the ledger's entries on the steps of the paper's proof.  Each takes a version of the step."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import sympy

from experiments.claims.skipv1_theorem_checks import explained_at_minimum
from theory.plans.heads import MHA, SKIPV1
from theory.prompts import setting
from theory.prompts.isserlis import PromptEngine, gaussian_trace
from theory.prompts.moments import Array, PromptMoments
from theory.skipv1 import gap as skipv1
from theory.skipv1.gap_weights import skipv1_optimal
from theory.toy.population import PopulationLoss, Weights

if TYPE_CHECKING:
    from torch import Tensor


def _first_layer(e: Tensor, *, positions: bool = False) -> Tensor:
    """Two heads of Eqn. (2) with fixed random weights; with `positions`, a head more that looks one token back."""
    import torch

    from icl.prompts import Generator
    from icl.toys.literal import linear_attention

    w = Generator(12).normal((7, e.shape[-2], e.shape[-2]), torch.float64)
    out = linear_attention(e, e, w[0], w[1], w[2]) + linear_attention(e, e, w[3], w[4], w[5])
    return out + w[6] @ torch.roll(e, 1, dims=-1) if positions else out


def _tokens() -> Tensor:
    import torch

    from icl.prompts import Generator

    return Generator(13).normal((1, 3, 9), torch.float64)


def first_layer_is_one_matrix(kind: str) -> bool:
    """Does the matrix that the first d tokens of the output demand explain the others?"""
    import torch

    e = _tokens()
    out = _first_layer(e, positions=kind == "positions")
    matrix = torch.linalg.solve(e[..., :3], out[..., :3], left=False)
    error = torch.linalg.norm(matrix @ e - out)
    return bool(error <= 1e4 * torch.finfo(torch.float64).eps * torch.linalg.norm(out))


def first_layer_has_degree(degree: int) -> bool:
    """Doubling the prompt multiplies the output by 2^degree, to the bit."""
    e = _tokens()
    return bool((_first_layer(2 * e) == 2**degree * _first_layer(e)).all())


def posterior_mean(strength: Callable[[Any], Any]) -> bool:
    """d = 1, W* ~ N(w0, 1): the mode, and so the mean, of the posterior is w0 + (S_yx - w0 S_xx)/(S_xx + strength)."""
    w, w0, s_xx, s_yx, s_yy, sigma = sympy.symbols("w w0 s_xx s_yx s_yy sigma", positive=True)
    log_density = -((w - w0) ** 2) / 2 - (s_yy - 2 * w * s_yx + w**2 * s_xx) / (2 * sigma**2)
    (mode,) = sympy.solve(sympy.diff(log_density, w), w)
    return bool(sympy.simplify(mode - w0 - (s_yx - w0 * s_xx) / (s_xx + strength(sigma))) == 0)


def ridge_orthogonality(power: int) -> bool:
    """E[W_D S_yx] = E[(S^2 + sigma^2 S)/(S + sigma^power)] against E[W* S_yx] = n, S chi-squared with n degrees."""
    from scipy.integrate import quad
    from scipy.stats import chi2

    n, sigma = 5, 0.6
    value, error = quad(lambda s: chi2.pdf(s, n) * (s**2 + sigma**2 * s) / (s + sigma**power), 0, np.inf)
    return bool(abs(value - n) <= 10 * error)


def even_and_odd_uncorrelated(w0: int) -> bool:
    """E[even x odd] for every entry of S_xx, S_yy and every one of S_yx, W*, at W0 = w0 I, symbolic in n, sigma."""
    engine, cells = PromptEngine(2), [(i, j) for i in range(2) for j in range(2)]
    at = [(g, w0 * (i == j)) for i, row in enumerate(engine.w0) for j, g in enumerate(row)]
    return all(
        engine.expect((even, *p), (odd, *q)).evaluate(at) == 0
        for even in ("xx", "yy")
        for odd in ("yx", "w")
        for p in cells
        for q in cells
    )


def even_part_only_hurts(scale: float) -> bool:
    """MHA at a = d has an even part and no odd one.  No weights of it explain anything around W0 = scale I."""
    explained = explained_at_minimum(MHA, 2, 4, 0.3, 2, w0=scale * np.eye(2))
    return explained <= 1e-9


def prediction(x: Array, y: Array, w: Weights) -> Array:
    """SkipV1Former's P from the context's x and y (d, n), by sums over tokens."""
    u = np.concatenate([w.a @ x, w.b @ y])
    grams = (x @ x.T + u @ u.T, x @ x.T + y @ u.T)
    p: Array = sum(w.w[h] @ g @ w.k[h] @ w.a for h, g in enumerate(grams))
    return p


def _odd_formula(x: Array, y: Array, w: Weights, source: str) -> Array:
    a, b, rank = w.a, w.b, w.rank
    yx = y @ x.T
    m1 = [k[:rank] @ a for k in w.k]
    if source == "lemma":
        return w.w[0] @ yx @ a.T @ m1[0] + w.w[1] @ yx @ a.T @ m1[1]
    m2 = w.k[0][rank:] @ a
    top, bottom = w.w[0][:, :rank], w.w[0][:, rank:]
    odd: Array = top @ a @ yx.T @ b.T @ m2 + bottom @ b @ yx @ a.T @ m1[0] + w.w[1] @ yx @ a.T @ m1[1]
    return odd


def skip_odd_part(source: str) -> bool:
    rng = np.random.default_rng(3)
    for a, d, n in ((0, 1, 1), (1, 1, 2), (1, 2, 1), (1, 3, 4), (2, 3, 2)):
        shapes = ((a, d), (d - a, d), (2, d, d), (2, d, a), (d, n), (d, n))
        *arrays, x, y = (rng.integers(-4, 5, shape).astype(object) for shape in shapes)
        w = Weights(*arrays)
        if (prediction(x, y, w) - prediction(x, -y, w) != 2 * _odd_formula(x, y, w, source)).any():
            return False
    return True


def skip_odd_part_real(source: str) -> bool:
    rng = np.random.default_rng(4)
    for d in range(1, 5):
        for a in range(d + 1):
            shapes = ((a, d), (d - a, d), (2, d, d), (2, d, a), (d, 5), (d, 5))
            *arrays, x, y = (rng.standard_normal(shape) for shape in shapes)
            w = Weights(*arrays)
            odd = (prediction(x, y, w) - prediction(x, -y, w)) / 2
            error = np.linalg.norm(odd - _odd_formula(x, y, w, source))
            if error > 1e3 * np.finfo(float).eps * (1 + np.linalg.norm(prediction(x, y, w))):
                return False
    return True


def _paper_weights(d: int, first: float) -> Weights:
    """A = I, B = 0, M^1 = M^2 = I, W^2 = I (Lambda in units of itself) and W^1 = first I."""
    eye = np.eye(d)
    return Weights(eye, eye[d:], np.stack([first * eye, eye]), np.stack([eye, eye]))


def paper_weights_even_part(times: int) -> bool:
    """The even part, from tokens, against Eqn. (10) with its second term counted `times` times.  Halves are exact."""
    rng = np.random.default_rng(5)
    for d, n in ((1, 1), (2, 3), (3, 2)):
        x, y = (rng.integers(-4, 5, (d, n)).astype(float) for _ in range(2))
        w = _paper_weights(d, -0.5)
        s_xx = x @ x.T
        formula = (w.w[0] + w.w[1]) @ s_xx + times * w.w[0] @ s_xx
        even = (prediction(x, y, w) + prediction(x, -y, w)) / 2
        if even.any() or (even != formula).any():
            return False
    return True


def paper_weights_loss(first: float) -> bool:
    d, n, sigma = 3, 7, 0.4
    step, unit = setting.signal_share(d, n, sigma) / n, _paper_weights(d, first)
    loss = PopulationLoss(PromptMoments(d, n, sigma), SKIPV1)
    value = loss.value(Weights(unit.a, unit.b, step * unit.w, unit.k))
    return bool(abs(value - skipv1.loss_gap(d, n, sigma, d).skipv1) <= 1e3 * np.finfo(float).eps * loss.constant)


def row_moment(anisotropic: int) -> bool:
    """E[(S_yx)_0j (S_yx)_0l] as a polynomial in n, sigma and the row w of W0."""
    d = 2
    engine = PromptEngine(d)
    n, sigma, w = engine.n, engine.sigma, engine.w0[0]
    round_part = n * (n + d + 1 + sigma**2 + sum(x**2 for x in w))
    return all(
        engine.expect(("yx", 0, j), ("yx", 0, m))
        == (round_part if j == m else 0) + anisotropic * n * (n + 1) * w[j] * w[m]
        for j in range(d)
        for m in range(d)
    )


def signal_power(one: int) -> bool:
    d, n, sigma = sympy.symbols("d n sigma")
    total = gaussian_trace("D X X' X X' D'") + sigma**2 * gaussian_trace("N X' X N'")
    return bool(sympy.expand(total - d**2 * n * (n + d + one + sigma**2)) == 0)


def step_size(one: int) -> bool:
    for d in (1, 2):
        engine = PromptEngine(d)
        at_zero = [(gen, 0) for row in engine.w0 for gen in row]
        hit = engine.expect(("w", 0, d - 1), ("yx", 0, d - 1)).evaluate(at_zero)
        power = engine.expect(("yx", 0, d - 1), ("yx", 0, d - 1)).evaluate(at_zero)
        n, sigma = (hit.ring.gens[0], hit.ring.gens[1])
        if hit * (n + d + one + sigma**2) != power:
            return False
    return True


def step_size_is_best(one: int) -> bool:
    """The loss of the optimal weights, all readouts scaled by t, is a parabola in t with its minimum at t = 1."""
    d, n, sigma = 3, 6, 0.5
    w = skipv1_optimal(d, n, sigma, d)
    true_step = setting.signal_share(d, n, sigma) / n
    step = 1 / (n + d + one + sigma**2)
    loss = PopulationLoss(PromptMoments(d, n, sigma), SKIPV1)
    low, mid, high = (loss.value(Weights(w.a, w.b, t * step / true_step * w.w, w.k)) for t in (0.0, 1.0, 2.0))
    best = 1 + (low - high) / (2 * (low - 2 * mid + high))
    return bool(abs(best - 1) <= 1e3 * np.finfo(float).eps)


def bound_at_zero(one: int) -> bool:
    """`paper_bound` at a = 0 against lambda^2 E ||S_yx||^2, the power by pairing, lambda = 1/(n+d+one+sigma^2)."""
    d, n, sigma = sympy.symbols("d n sigma")
    power = gaussian_trace("D X X' X X' D'") + sigma**2 * gaussian_trace("N X' X N'")
    for task in ((1, 1, 0.0), (2, 3, 0.5), (5, 4, 2.0)):
        values = dict(zip((d, n, sigma), task, strict=True))
        stated = float((power / (n + d + one + sigma**2) ** 2).subs(values))
        if abs(skipv1.paper_bound(*task, 0).value - stated) > 1e2 * np.finfo(float).eps * stated:
            return False
    return True


def _tail(kind: str, singular: Array) -> float:
    return float((singular**2).sum() if kind == "sum of squares" else singular.sum() ** 2)


def tail_of_identity(kind: str) -> bool:
    return _tail(kind, np.ones(2)) <= 2.0


def tail_of_random(kind: str) -> bool:
    rng = np.random.default_rng(6)
    for d in range(2, 7):
        u, s, vt = np.linalg.svd(rng.standard_normal((d, d)))
        for a in range(d + 1):
            rest = float(np.linalg.norm((u * np.where(np.arange(d) < a, 0.0, s)) @ vt) ** 2)
            if rest < _tail(kind, s[a:]) * (1 - 100 * d * np.finfo(float).eps):
                return False
    return True


def ridge_remainder(power: int) -> bool:
    s, sigma = sympy.symbols("s sigma", positive=True)
    return bool(sympy.simplify(s**2 / (s + sigma**2) - s + sigma**2 - sigma**power / (s + sigma**2)) == 0)


def mean_of_s(symbol: str) -> bool:
    return bool(gaussian_trace("X X'") == sympy.Symbol("d") * sympy.Symbol(symbol))
