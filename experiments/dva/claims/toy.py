"""Claims on dynamic values in the in-context toy's layers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial
from itertools import product
from math import prod
from typing import Any

import numpy as np
import sympy
from numpy.polynomial.hermite_e import hermegauss
from numpy.typing import NDArray

from experiments.ledger.claim import Claim, Conditions
from theory.dva import both_layers, first_layer, in_context
from theory.dva.both_layers import explained_by_cubes, linear_part, query_token
from theory.dva.first_layer import best_scale, bounds, explained_by_squares, gated_tokens, loss_of_products
from theory.dva.in_context import answer
from theory.dva.paper import PAPER
from theory.plans.setting import Setting
from theory.prompts.isserlis import Factor, PromptEngine

CLOSE, FITTED = 1e-9, 1e-8
Array = NDArray[np.float64]


def turned(x: Array, y: Array) -> Iterator[tuple[int, Array, Array]]:
    """Under turns of signs of the inputs with the noise, and of W* with the noise, whose sign stands first."""
    for of_x, of_w in product((1, -1), (1, -1)):
        yield of_w, of_x * x, of_x * of_w * y


def helps(x: Array, y: Array, moment: Callable[[Array, Array], Array]) -> Array:
    """The part of a moment of the context that is even under the first turn and odd under the second."""
    return np.asarray(sum(sign * moment(a, b) for sign, a, b in turned(x, y)) / 4)


TOY = Claim(
    "dva.toy",
    PAPER.ours,
    place="theory/dva/in_context.py",
    statement="In the linear-attention toy the last layer's dynamic values are of no use, in either form: their terms "
    "are even in the query and only add to the loss.  In the initial form they are all that a head gives, so there "
    "it is worse than none.  Over an assumed copy of rank a dynamic values explain no more than ordinary heads, "
    "rho a (d - a), even with constants beside what queries, keys, values and gates read.",
    assumes="x as likely as -x; the query's token odd in x; the target's noise of mean 0 and independent; the last "
    "part: the revised form, W0 = 0",
    verdict="verified",
    proof=in_context,
    uses=("skipv1.mha-infimum",),
)


@TOY.check(
    "heads at random, both forms: the mean loss at x and -x, noise of either sign, is that without the gate, of the "
    "initial form without the head, and the gate's square",
    states=0.0,
    control=0.5,
    wrong="with something constant in the query's token",
)
def the_gate_adds_to_the_loss(constant: float) -> Conditions:
    rng = np.random.default_rng(11)
    for form in ("revised", "initial"):
        for d, width, tokens in ((1, 1, 1), (3, 4, 5), (2, 3, 7)):
            score, gate = rng.standard_normal((2, width, d))
            keys, values, gate_keys = rng.standard_normal((3, tokens, width))
            target, x, noise = rng.standard_normal((width, d)), rng.standard_normal(d), rng.standard_normal(width)
            losses, plain, squares = [], [], []
            for sign, of_noise in product((1, -1), (1, -1)):
                query = sign * x + constant
                whole = answer(form, query, score, keys, values, gate, gate_keys)
                odd = keys @ (score @ query) @ values
                bare = odd if form == "revised" else 0 * odd
                weights = keys @ (score @ query)
                gated = (gate @ query) * (weights @ gate_keys)
                if form == "initial":
                    gated = (weights * (values @ (gate @ query))) @ gate_keys
                yield np.abs(whole - bare - gated).max() <= FITTED * (1 + np.abs(whole).max())
                wanted = target @ (sign * x) + of_noise * noise
                losses.append(float(((whole - wanted) ** 2).sum()))
                plain.append(float(((bare - wanted) ** 2).sum()))
                squares.append(float(((whole - bare) ** 2).sum()))
            yield abs(sum(losses) - sum(plain) - sum(squares)) <= FITTED * sum(losses)


@TOY.check(
    "revised heads with constants everywhere: what is odd in x and in W* of their answers, as a linear map of "
    "B S_yx A^T times x",
    states="B S_yx A^T",
    control="A S_xx A^T",
    wrong="of the other second moments",
)
def constants_read_the_same_numbers(read: str) -> Conditions:
    """Fitted on half of the draws, held against the other half."""
    rng = np.random.default_rng(12)
    d, n = 3, 4
    for rank in (1, 2):
        a, b = rng.standard_normal((rank, d)), rng.standard_normal((d - rank, d))
        width, wide = 2, d + 1
        score, gate = rng.standard_normal((2, width, d + 1))
        matrices = rng.standard_normal((3, wide, width))
        features, wanted = [], []
        for _ in range(60):
            x, y, query = rng.standard_normal((d, n)), rng.standard_normal((d, n)), rng.standard_normal(d)
            moment = b @ y @ x.T @ a.T if read == "B S_yx A^T" else a @ x @ x.T @ a.T
            features.append(np.kron(moment.ravel(), query))
            # Every product of signs of (x, noise), of W* and the noise, and of the query; what helps has this parity.
            total = np.zeros(width)
            for of_x in (1, -1):
                for of_w in (1, -1):
                    for of_query in (1, -1):
                        u = np.concatenate([a @ x * of_x, b @ y * of_x * of_w, np.ones((1, n))]).T
                        keys, values, gate_keys = (u @ m for m in matrices)
                        token = np.append(of_query * query, 1.0)
                        found = answer("revised", token, score, keys, values, gate, gate_keys)
                        total = total + of_w * of_query * found / 8
            wanted.append(total)
        x_fit, y_fit = np.array(features), np.array(wanted)
        fit, *_ = np.linalg.lstsq(x_fit[:30], y_fit[:30], rcond=None)
        left = np.linalg.norm(x_fit[30:] @ fit - y_fit[30:]) / np.linalg.norm(y_fit[30:])
        yield left <= FITTED


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
def nothing_without_constants(of_itself: float) -> Conditions:
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
        yield apart <= CLOSE * (1 + np.abs(gated(x, y)).max())


@FIRST_LAYER.check(
    "random matrices: the part of sum u that can help, and how many linear maps of S_yx that is with what helps of "
    "sum u u^T, beside the bound",
    states=1,
    control=0,
    wrong="no products",
)
def numbers_with_constants(products: int) -> Conditions:
    rng = np.random.default_rng(31)
    for d, rank in ((1, 0), (1, 1), (2, 0), (2, 1), (3, 1), (4, 1), (4, 2)):
        a, b = rng.standard_normal((rank, d)), rng.standard_normal((d - rank, d))
        query, key = rng.standard_normal((2, d, d))
        x, y = rng.standard_normal((2, d, 3))
        matrices = a, b, query, key

        def total(x: Array, y: Array, matrices: tuple[Array, ...] = matrices) -> Array:
            return np.asarray(gated_tokens(x, y, *matrices).sum(1))

        found = helps(x, y, total)
        yield np.abs(found - products * np.diag(query @ y @ x.T @ key.T)).max() <= CLOSE * 100
        maps = [np.kron(row, column) for row in b for column in a] + [
            np.kron(q, k) for q, k in zip(query, key, strict=True)
        ]
        least, most = bounds(d, rank)
        yield np.linalg.matrix_rank(np.array(maps)) == most
        yield max(d, rank * (d - rank)) == least <= most


@FIRST_LAYER.check(
    "the loss of lambda x_1 sum x_t1 y_t, from moments by pairing, every lambda, d = 1 and 2; and its least: exact",
    states=1,
    control=0,
    wrong="nothing explained at its best",
    kind="exact",
)
def loss_by_pairing(explained: int) -> Conditions:
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
            yield loss == loss_of_products(setting, scale)
            share = setting.signal_share * d * explained
            yield loss_of_products(setting, best_scale(setting)) == setting.zero_loss - share


def _explained_by_monomials(n: int, sigma: Fraction, alpha: Fraction) -> Fraction:
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
    return all(law(*case) == _explained_by_monomials(*case) for case in cases)


@FIRST_LAYER.check(
    "sampled prompts: losses of both constructions beside the exact ones, d = 2 and d = 1",
    states=1.0,
    control=0.0,
    wrong="the loss of ordinary heads at those ranks, of predicting zero",
    kind="sampled",
)
def losses_of_sampled_prompts(explained: float) -> Conditions:
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
    yield _near(losses, float(exact))
    alpha, w1, x1 = 0.4, w[:, 0, 0], x[:, 0]
    y1 = w1[:, None] * x1 + sigma * rng.standard_normal((count, n))
    f = ((x1 * y1 + alpha * y1**2) ** 2).sum(1)
    share = float(explained_by_squares(n, sigma, alpha))
    scale = share / (6 * n * alpha * (3 + sigma**2))  # the best: E w f / E f^2
    yield _near((w1 - scale * f) ** 2, 1 - explained * share)


def _near(losses: Array, exact: float) -> bool:
    return bool(abs(losses.mean() - exact) < 4 * losses.std() / len(losses) ** 0.5)


BOTH_LAYERS = Claim(
    "dva.both-layers",
    PAPER.ours,
    place="theory/dva/both_layers.py",
    statement="In the in-context toy, around W0 = 0, gates of the revised form in both layers win nothing over one in "
    "the first alone, though the query's token then holds products of its own numbers: what the answer has of x beyond "
    "first order only adds to the loss, and what is left is linear in the same moments of the context.  In the initial "
    "form they can: at d = 1, where ordinary heads explain nothing, and neither does the initial form in the last "
    "layer alone, they explain more than nothing.",
    assumes="an assumed copy of rank a; x standard normal; linear attention; the query's token a function of x alone",
    verdict="verified",
    proof=both_layers,
    uses=("dva.toy", "dva.first-layer"),
)


def _grid(d: int, points: int = 4) -> list[tuple[Array, float]]:
    """Points and weights that integrate polynomials of degree 7 over standard normal x exactly."""
    at, weights = hermegauss(points)
    every = [list(of) for of in product(range(points), repeat=d)]
    return [(at[of], float(np.prod(weights[of] / weights.sum()))) for of in every]


Token = tuple[Array, Array, Array]  # C, Q, K
Head = tuple[Array, Array, Array, Array, Array]  # S, keys, values, G, gate keys: matrices of the tokens


def _token(rng: np.random.Generator, d: int) -> Token:
    linear, query, key = rng.standard_normal((3, d, d))
    return linear, query, key


def _head(rng: np.random.Generator, d: int, width: int) -> Head:
    score, gate = rng.standard_normal((2, width, d))
    key, value, gate_key = rng.standard_normal((3, width, d))
    return score, key, value, gate, gate_key


def _of_context(head: Head, u: Array) -> Head:
    """A head's arguments over the tokens u (d, n)."""
    score, key, value, gate, gate_key = head
    return score, (key @ u).T, (value @ u).T, gate, (gate_key @ u).T


@BOTH_LAYERS.check(
    "heads at random, d = 1 to 3: E answer x^T by exact quadrature beside the formula, and the mean loss as that of "
    "the linear part and a rest that no target changes",
    states=1.0,
    control=0.0,
    wrong="no products in the query's token",
)
def the_linear_part_by_quadrature(products: float) -> Conditions:
    rng = np.random.default_rng(40)
    for d, width, n in ((1, 1, 1), (1, 3, 2), (2, 3, 5), (3, 2, 4)):
        token = _token(rng, d)
        head = _of_context(_head(rng, d, width), rng.standard_normal((d, n)))
        targets = rng.standard_normal((2, width, d))
        found, losses = np.zeros((width, d)), np.zeros(2)
        for x, weight in _grid(d):
            said = answer("revised", query_token(x, *token), *head)
            found += weight * np.outer(said, x)
            losses += [weight * float(((said - target @ x) ** 2).sum()) for target in targets]
        part = linear_part(*head, (token[0], products * token[1], token[2]))
        size = 1 + np.abs(found).max()
        rest = [loss - float(((part - target) ** 2).sum()) for loss, target in zip(losses, targets, strict=True)]
        yield np.abs(found - part).max() <= CLOSE * size
        yield abs(rest[0] - rest[1]) <= CLOSE * size**2
        yield min(rest) >= -CLOSE


@BOTH_LAYERS.check(
    "random matrices: of the linear part, what can help is, with a gate in the first layer, what it is without",
    states="revised",
    control="initial",
    wrong="the initial form",
)
def what_helps_is_as_without(form: str) -> Conditions:
    rng = np.random.default_rng(41)
    for d, rank, n in ((1, 1, 2), (2, 1, 3), (3, 1, 2)):
        a, b = rng.standard_normal((rank, d)), rng.standard_normal((d - rank, d))
        query, key = rng.standard_normal((2, d, d))
        x, y = rng.standard_normal((2, d, n))
        head, token = _head(rng, d, 2), _token(rng, d)
        gated, plain = (partial(_linear_part, form, head, token, (a, b, q, key)) for q in (query, 0 * query))
        apart = np.abs(helps(x, y, gated) - helps(x, y, plain)).max()
        yield apart <= CLOSE * (1 + np.abs(gated(x, y)).max())


def _linear_part(
    form: str, head: Head, token: Token, first: tuple[Array, Array, Array, Array], x: Array, y: Array
) -> Array:
    """Of a prompt, with the first layer's matrices; of the initial form by quadrature."""
    of = _of_context(head, gated_tokens(x, y, *first))
    if form == "revised":
        return linear_part(*of, token)
    every = [weight * np.outer(answer(form, query_token(z, *token), *of), z) for z, weight in _grid(len(x))]
    return np.asarray(sum(every))


def _cubes_by_monomials(n: int, sigma: Fraction, c: Fraction, b: Fraction) -> Fraction:
    """Of w x by kappa q^2 sum u_t^3 at the best kappa, every monomial of w, x, x_t and the noise written out."""
    from sympy import Poly, Rational, expand, symbols

    w, x, *rest = symbols(f"w x x1:{n + 1} e1:{n + 1}")
    rational = [Rational(z.numerator, z.denominator) for z in (sigma, c, b)]
    u = [rest[t] * (1 + rational[1] * (w * rest[t] + rational[0] * rest[n + t])) for t in range(n)]
    f, q = sum(z**3 for z in u), x + rational[2] * x**2

    def mean(of: object) -> Fraction:
        def factor(power: int) -> int:
            return 0 if power % 2 else int(np.prod(range(power - 1, 0, -2), dtype=object))

        terms = Poly(expand(of), w, x, *rest).terms()
        total = sum(value * int(np.prod([factor(p) for p in powers], dtype=object)) for powers, value in terms)
        return Fraction(int(total.p), int(total.q))

    return (mean(w * f) * mean(x * q**2)) ** 2 / (mean(f**2) * mean(q**4))


@BOTH_LAYERS.check(
    "what gates of the initial form explain at d = 1, one pair and two, by all monomials: exact",
    states=explained_by_cubes,
    control=lambda n, sigma, c, b: 0 * sigma,
    wrong="nothing, as without products in the query's token",
    kind="exact",
)
def cubes_by_monomials(law: Callable[[int, Fraction, Fraction, Fraction], Fraction]) -> bool:
    cases = [
        (1, Fraction(1, 2), Fraction(1, 5), Fraction(2, 5)),
        (2, Fraction(1, 2), Fraction(-1, 3), Fraction(1, 2)),
        (2, Fraction(0), Fraction(1), Fraction(-1)),
    ]
    return all(law(*case) == _cubes_by_monomials(*case) for case in cases)
