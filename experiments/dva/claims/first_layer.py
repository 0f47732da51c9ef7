"""Claims on a gate in the in-context toy's first layer."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import prod
from typing import Any

import numpy as np
import sympy
from numpy.typing import NDArray

from experiments.dva.claims.parity import helps
from experiments.ledger.claim import Claim
from theory.dva import first_layer
from theory.dva.first_layer import best_scale, bounds, explained_by_squares, gated_tokens, loss_of_products
from theory.dva.paper import PAPER
from theory.plans.setting import Setting
from theory.prompts.isserlis import Factor, PromptEngine

CLOSE = 1e-9
Array = NDArray[np.float64]

FIRST_LAYER = Claim(
    "dva.first-layer",
    PAPER.ours,
    place="theory/dva/first_layer.py",
    statement="In the in-context toy, around W0 = 0, a gate in the first layer, by which y_t's token takes a product "
    "of its own and x_t's numbers into every coordinate, wins nothing if the last layer has no constants: the least "
    "loss is that of ordinary heads, which explain rho a (d - a).  With a constant beside the last layer's keys it "
    "explains rho max(d, a (d - a)) at least and rho (a (d - a) + d) at most: it wins at ranks 0, 1, d - 1 and d, and "
    "for d <= 3 over all ranks.  Without constants it wins, too, if y_t's token attends to itself as well: at d = 1 "
    "ordinary heads explain nothing and it more.",
    assumes="an assumed copy of rank a; x standard normal; linear attention; the last layer with any number of heads",
    verdict="verified",
    proof=first_layer,
    uses=("dva.toy", "skipv1.mha-infimum"),
)


@FIRST_LAYER.check(
    "random matrices: the part of sum u u^T that can help, with the gate and without",
    states=0.0,
    control=0.3,
    wrong="with products of y_t's token with itself beside",
)
def nothing_without_constants(of_itself: float) -> bool:
    rng = np.random.default_rng(30)
    for d, rank, n in ((1, 0, 2), (2, 1, 3), (3, 1, 5), (4, 2, 4)):
        a, b = rng.standard_normal((rank, d)), rng.standard_normal((d - rank, d))
        query, key, other = rng.standard_normal((3, d, d))
        x, y = rng.standard_normal((2, d, n))

        def gated(x: Array, y: Array, sizes: tuple[Array, ...] = (a, b, query, key), other: Array = other) -> Array:
            u = gated_tokens(x, y, *sizes) + of_itself * (sizes[2] @ y) * (other @ y)
            return u @ u.T

        def plain(x: Array, y: Array, sizes: tuple[Array, ...] = (a, b)) -> Array:
            copied = np.concatenate([m @ z for m, z in zip(sizes, (x, y), strict=True)])
            return copied @ copied.T

        apart = np.abs(helps(x, y, gated) - helps(x, y, plain)).max()
        if apart > CLOSE * (1 + np.abs(gated(x, y)).max()):
            return False
    return True


@FIRST_LAYER.check(
    "random matrices: the part of sum u that can help, and how many linear maps of S_yx that is with what helps of "
    "sum u u^T, beside the bound",
    states=1,
    control=0,
    wrong="no products",
)
def numbers_with_constants(products: int) -> bool:
    rng = np.random.default_rng(31)
    for d, rank in ((1, 0), (1, 1), (2, 0), (2, 1), (3, 1), (4, 1), (4, 2)):
        a, b = rng.standard_normal((rank, d)), rng.standard_normal((d - rank, d))
        query, key = rng.standard_normal((2, d, d))
        x, y = rng.standard_normal((2, d, 3))
        matrices = a, b, query, key

        def total(x: Array, y: Array, matrices: tuple[Array, ...] = matrices) -> Array:
            return np.asarray(gated_tokens(x, y, *matrices).sum(1))

        found = helps(x, y, total)
        if np.abs(found - products * np.diag(query @ y @ x.T @ key.T)).max() > CLOSE * 100:
            return False
        maps = [np.kron(row, column) for row in b for column in a] + [
            np.kron(q, k) for q, k in zip(query, key, strict=True)
        ]
        least, most = bounds(d, rank)
        if np.linalg.matrix_rank(np.array(maps)) != most or not max(d, rank * (d - rank)) == least <= most:
            return False
    return True


@FIRST_LAYER.check(
    "the loss of lambda x_1 sum x_t1 y_t, from moments by pairing, every lambda, d = 1 and 2; and its least: exact",
    states=1,
    control=0,
    wrong="nothing explained at its best",
    kind="exact",
)
def loss_by_pairing(explained: int) -> bool:
    scale, sigma = Fraction(3, 50), Fraction(1, 2)
    for d in (1, 2):
        engine = PromptEngine(d)
        for size in (1, 3, 8):
            known = {"n": size, "sigma": sympy.Rational(1, 2)}

            def mean(*factors: Factor, engine: PromptEngine = engine, known: dict[str, Any] = known) -> Fraction:
                """At W0 = 0."""
                found = engine.expect(*factors).as_expr()
                at = found.subs({symbol: known.get(symbol.name, 0) for symbol in found.free_symbols})
                return Fraction(int(at.p), int(at.q))

            setting, entries = Setting(d, size, sigma), [("yx", j, 0) for j in range(d)]
            squares = sum(mean(entry, entry) for entry in entries)
            products = sum(mean(("yx", j, 0), ("w", j, 0)) for j in range(d))
            loss = setting.zero_loss - 2 * scale * products + scale**2 * squares
            if loss != loss_of_products(setting, scale):
                return False
            share = setting.signal_share * d * explained
            if loss_of_products(setting, best_scale(setting)) != setting.zero_loss - share:
                return False
    return True


def _by_monomials(n: int, sigma: Fraction, alpha: Fraction) -> Fraction:
    """(E w f)^2 / E f^2 of theorem 5, every monomial of w, x_t and the noise written out."""
    Monomials = dict[tuple[int, ...], Fraction]

    def times(one: Monomials, other: Monomials) -> Monomials:
        found: Monomials = {}
        for p, a in one.items():
            for q, b in other.items():
                powers = tuple(i + j for i, j in zip(p, q, strict=True))
                found[powers] = found.get(powers, Fraction(0)) + a * b
        return found

    def mean(of: Monomials) -> Fraction:
        normal = [prod(range(p - 1, 0, -2)) if p % 2 == 0 else 0 for p in range(20)]
        return sum((c * prod(normal[p] for p in powers) for powers, c in of.items()), start=Fraction(0))

    def one(*places: int) -> tuple[int, ...]:
        return tuple(places.count(i) for i in range(2 * n + 1))

    f: Monomials = {}
    for t in range(n):
        y = {one(0, 1 + t): Fraction(1), one(1 + n + t): sigma}
        u = times({one(1 + t): Fraction(1)}, y)
        for powers, c in times(y, y).items():
            u[powers] = u.get(powers, Fraction(0)) + alpha * c
        for powers, c in times(u, u).items():
            f[powers] = f.get(powers, Fraction(0)) + c
    return mean(times({one(0): Fraction(1)}, f)) ** 2 / mean(times(f, f))


@FIRST_LAYER.check(
    "what c x sum (x_t y_t + alpha y_t^2)^2 explains at d = 1, one pair and two, by all monomials: exact",
    states=explained_by_squares,
    control=lambda n, sigma, alpha: 0 * sigma,
    wrong="nothing, as ordinary heads",
    kind="exact",
)
def squares_by_monomials(law: Callable[[int, Fraction, Fraction], Fraction]) -> bool:
    cases = [(1, Fraction(1, 2), Fraction(2, 5)), (2, Fraction(1, 2), Fraction(-1, 3)), (2, Fraction(0), Fraction(1))]
    return all(law(*case) == _by_monomials(*case) for case in cases)


@FIRST_LAYER.check(
    "sampled prompts: losses of both constructions beside the exact ones, d = 2 and d = 1",
    states=1.0,
    control=0.0,
    wrong="the loss of ordinary heads at those ranks, of predicting zero",
    kind="sampled",
)
def losses_of_sampled_prompts(explained: float) -> bool:
    rng, count, n, sigma = np.random.default_rng(32), 40_000, 8, 0.5
    d = 2
    setting = Setting(d, n, sigma)
    w, x = rng.standard_normal((count, d, d)), rng.standard_normal((count, d, n))
    y = w @ x + sigma * rng.standard_normal((count, d, n))
    estimate = np.zeros((count, d, d))
    first = np.tile(np.eye(d)[0], (d, 1))
    tokens = np.array(
        [gated_tokens(a, b, np.zeros((0, d)), np.zeros((d, d)), np.eye(d), first) for a, b in zip(x, y, strict=True)]
    )
    estimate[:, :, 0] = float(best_scale(setting)) * tokens.sum(2)
    losses = ((w - estimate) ** 2).sum((1, 2)) + d * sigma**2
    exact = setting.zero_loss - explained * (setting.zero_loss - loss_of_products(setting, best_scale(setting)))
    if not _near(losses, float(exact)):
        return False
    alpha, w1, x1 = 0.4, w[:, 0, 0], x[:, 0]
    y1 = w1[:, None] * x1 + sigma * rng.standard_normal((count, n))
    f = ((x1 * y1 + alpha * y1**2) ** 2).sum(1)
    share = float(explained_by_squares(n, sigma, alpha))
    scale = share / (6 * n * alpha * (3 + sigma**2))  # the best: E w f / E f^2
    return _near((w1 - scale * f) ** 2, 1 - explained * share)


def _near(losses: Array, exact: float) -> bool:
    return bool(abs(losses.mean() - exact) < 4 * losses.std() / len(losses) ** 0.5)
