"""Claims on dynamic values in the in-context toy's layers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import sympy
from numpy.polynomial.hermite_e import hermegauss
from numpy.typing import NDArray

from experiments.ledger.claim import Claim, Conditions, at
from theory.dva import both_layers, first_layer, in_context
from theory.dva.both_layers import explained_by_cubes, linear_part, query_token
from theory.dva.first_layer import best_scale, bounds, explained_by_squares, gated_tokens, loss_of_products
from theory.dva.in_context import answer
from theory.dva.paper import PAPER
from theory.plans.setting import Setting
from theory.prompts.isserlis import Factor, PromptEngine

CLOSE, FITTED = 1e-9, 1e-8
Array = NDArray[np.float64]


def helps(x: Array, y: Array, moment: Callable[[Array, Array], Array]) -> Array:
    """Return the part of a context's moment that can help: even under one turn of signs and odd under the other.

    The turns are those of `theory.dva.first_layer`: of the inputs with the noise, and of W* with the noise.
    """
    turns = product((1, -1), (1, -1))
    return np.asarray(sum(of_w * moment(of_x * x, of_x * of_w * y) for of_x, of_w in turns) / 4)


def near(one: Array, other: Array, slack: float = CLOSE) -> bool:
    return bool(np.abs(one - other).max() <= slack * (1 + np.abs(one).max()))


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
    for form, (d, width, tokens) in product(("revised", "initial"), ((1, 1, 1), (3, 4, 5), (2, 3, 7))):
        score, gate = rng.standard_normal((2, width, d))
        keys, values, gate_keys = rng.standard_normal((3, tokens, width))
        target, x, noise = rng.standard_normal((width, d)), rng.standard_normal(d), rng.standard_normal(width)
        losses = np.zeros(3)
        for sign, of_noise in product((1, -1), (1, -1)):
            query = sign * x + constant
            whole = answer(form, query, score, keys=keys, values=values, gate=gate, gate_keys=gate_keys)
            weights = keys @ (score @ query)
            bare, gated = weights @ values, (gate @ query) * (weights @ gate_keys)
            if form == "initial":
                bare, gated = 0 * bare, (weights * (values @ (gate @ query))) @ gate_keys
            yield near(whole, bare + gated, FITTED)
            wanted = target @ (sign * x) + of_noise * noise
            losses += [float((part**2).sum()) for part in (whole - wanted, bare - wanted, whole - bare)]
        yield abs(losses[0] - losses[1] - losses[2]) <= FITTED * losses[0]


@TOY.check(
    "revised heads with constants everywhere: what is odd in x and in W* of their answers, as a linear map of "
    "B S_yx A^T times x",
    states="B S_yx A^T",
    control="A S_xx A^T",
    wrong="of the other second moments",
)
def constants_read_the_same_numbers(read: str) -> Conditions:
    """Fit on half of the draws, and compare on the other half."""
    rng = np.random.default_rng(12)
    d, n, width = 3, 4, 2
    for rank in (1, 2):
        a, b = rng.standard_normal((rank, d)), rng.standard_normal((d - rank, d))
        score, gate = rng.standard_normal((2, width, d + 1))
        matrices = rng.standard_normal((3, d + 1, width))
        features, wanted = [], []
        for _ in range(60):
            x, y, query = rng.standard_normal((d, n)), rng.standard_normal((d, n)), rng.standard_normal(d)
            moment = b @ y @ x.T @ a.T if read == "B S_yx A^T" else a @ x @ x.T @ a.T
            features.append(np.kron(moment.ravel(), query))
            # Every product of signs of (x, noise), of W* and the noise, and of the query; what helps has this parity.
            total = np.zeros(width)
            for of_x, of_w, of_query in product((1, -1), (1, -1), (1, -1)):
                u = np.concatenate([a @ x * of_x, b @ y * of_x * of_w, np.ones((1, n))]).T
                keys, values, gate_keys = (u @ m for m in matrices)
                token = np.append(of_query * query, 1.0)
                total += (
                    of_w
                    * of_query
                    * answer("revised", token, score, keys=keys, values=values, gate=gate, gate_keys=gate_keys)
                    / 8
                )
            wanted.append(total)
        x_fit, y_fit = np.array(features), np.array(wanted)
        fit, *_ = np.linalg.lstsq(x_fit[:30], y_fit[:30], rcond=None)
        yield np.linalg.norm(x_fit[30:] @ fit - y_fit[30:]) <= FITTED * np.linalg.norm(y_fit[30:])


NO_MORE_POWERS = "the sum over i goes on beyond 2 k, where the binomial coefficients are 0"
ZEROS_BEHIND = "a polynomial's list of coefficients, with zeros of higher powers behind: the same polynomial"

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
    unjudged={
        at(first_layer._moment, "2 * k + 1 -> 2 * k + 2"): NO_MORE_POWERS,
        at(first_layer._moment, "2 * k -> 3 * k"): NO_MORE_POWERS,
        at(first_layer._moment, "j + 1 -> j + 2"): ZEROS_BEHIND,
    },
)


@FIRST_LAYER.check(
    "random matrices: the part of sum u u^T that can help, with the gate and without",
    states=0.0,
    control=0.3,
    wrong="with products of y_t's token with itself beside",
)
def nothing_without_constants(of_itself: float) -> Conditions:
    rng = np.random.default_rng(30)

    def square(matrices: Sequence[Array], other: Array, x: Array, y: Array) -> Array:
        u = gated_tokens(x, y, *matrices) + of_itself * (matrices[2] @ y) * (other @ y)
        return u @ u.T

    def plain(a: Array, b: Array, x: Array, y: Array) -> Array:
        copied = np.concatenate([a @ x, b @ y])
        return copied @ copied.T

    for d, rank, n in ((1, 0, 2), (2, 1, 3), (3, 1, 5), (4, 2, 4)):
        a, b = rng.standard_normal((rank, d)), rng.standard_normal((d - rank, d))
        query, key, other = rng.standard_normal((3, d, d))
        x, y = rng.standard_normal((2, d, n))
        gated = partial(square, (a, b, query, key), other)
        apart = np.abs(helps(x, y, gated) - helps(x, y, partial(plain, a, b))).max()
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

    def total(matrices: Sequence[Array], x: Array, y: Array) -> Array:
        return np.asarray(gated_tokens(x, y, *matrices).sum(1))

    for d, rank in ((1, 0), (1, 1), (2, 0), (2, 1), (3, 1), (4, 1), (4, 2)):
        a, b = rng.standard_normal((rank, d)), rng.standard_normal((d - rank, d))
        query, key = rng.standard_normal((2, d, d))
        x, y = rng.standard_normal((2, d, 3))
        found = helps(x, y, partial(total, (a, b, query, key)))
        yield np.abs(found - products * np.diag(query @ y @ x.T @ key.T)).max() <= CLOSE * 100
        maps = [np.kron(*pair) for pair in (*product(b, a), *zip(query, key, strict=True))]
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

    def mean(engine: PromptEngine, size: int, *factors: Factor) -> Fraction:
        """Return the mean at W0 = 0."""
        found, known = engine.expect(*factors).as_expr(), {"n": size, "sigma": sympy.Rational(1, 2)}
        at = found.subs({symbol: known.get(symbol.name, 0) for symbol in found.free_symbols})
        return Fraction(int(at.p), int(at.q))

    for d, size in product((1, 2), (1, 3, 8)):
        engine, setting = PromptEngine(d), Setting(d, size, sigma)
        squares = sum(mean(engine, size, ("yx", j, 0), ("yx", j, 0)) for j in range(d))
        products = sum(mean(engine, size, ("yx", j, 0), ("w", j, 0)) for j in range(d))
        loss = setting.zero_loss - 2 * scale * products + scale**2 * squares
        yield loss == loss_of_products(setting, scale)
        least = loss_of_products(setting, best_scale(setting))
        yield least == setting.zero_loss - setting.signal_share * d * explained


FIRST_LAYER.row(
    "the best lambda by hand, 4/45, for d = 2, n = 8 and sigma = 1/2: as a fraction, and as a float",
    [Fraction(4, 45), 4 / 45],
    lambda: [best_scale(Setting(2, 8, sigma)) for sigma in (Fraction(1, 2), 0.5)],
    control=[Fraction(4, 41), 4 / 41],
    wrong="without d",
    relative=1e-12,
)


def _mean(polynomial: Any, normals: Sequence[sympy.Symbol]) -> Fraction:
    """Return the mean of a polynomial of independent standard normal numbers, monomial by monomial."""
    total = sympy.Integer(0)
    for powers, value in sympy.Poly(sympy.expand(polynomial), *normals).terms():
        total += value * sympy.prod([0 if power % 2 else sympy.factorial2(power - 1) for power in powers])
    return Fraction(int(total.p), int(total.q))


@FIRST_LAYER.check(
    "what c x sum (x_t y_t + alpha y_t^2)^2 explains at d = 1, one pair and two, by all monomials: exact",
    states=explained_by_squares,
    control=lambda n, sigma, alpha: 0 * sigma,
    wrong="nothing, as ordinary heads",
    kind="exact",
)
def squares_by_monomials(law: Callable[[int, Fraction, Fraction], Fraction]) -> Conditions:
    """Compare with (E w f)^2 / E f^2 of theorem 5."""
    half = Fraction(1, 2)
    for n, sigma, alpha in ((1, half, Fraction(2, 5)), (2, half, Fraction(-1, 3)), (2, Fraction(0), Fraction(1))):
        w, *rest = normals = sympy.symbols(f"w x1:{n + 1} e1:{n + 1}")
        pairs = [(x, w * x + sympy.Rational(sigma) * e) for x, e in zip(rest[:n], rest[n:], strict=True)]
        f = sum((x * y + sympy.Rational(alpha) * y**2) ** 2 for x, y in pairs)
        yield law(n, sigma, alpha) == _mean(w * f, normals) ** 2 / _mean(f**2, normals)


@FIRST_LAYER.check(
    "sampled prompts: losses of both constructions beside the exact ones, d = 2 and d = 1",
    states=1.0,
    control=0.0,
    wrong="the loss of ordinary heads at those ranks, of predicting zero",
    kind="sampled",
)
def losses_of_sampled_prompts(explained: float) -> Conditions:
    rng, count, d, n, sigma = np.random.default_rng(32), 40_000, 2, 8, 0.5
    setting = Setting(d, n, sigma)
    w, x = rng.standard_normal((count, d, d)), rng.standard_normal((count, d, n))
    y = w @ x + sigma * rng.standard_normal((count, d, n))
    matrices = np.zeros((0, d)), np.zeros((d, d)), np.eye(d), np.tile(np.eye(d)[0], (d, 1))
    tokens = np.array([gated_tokens(*pair, *matrices) for pair in zip(x, y, strict=True)])
    estimate = np.zeros((count, d, d))
    estimate[:, :, 0] = float(best_scale(setting)) * tokens.sum(2)
    products = setting.zero_loss - loss_of_products(setting, best_scale(setting))
    w1, x1, alpha = w[:, 0, 0], x[:, 0], 0.4
    y1 = w1[:, None] * x1 + sigma * rng.standard_normal((count, n))
    f = ((x1 * y1 + alpha * y1**2) ** 2).sum(1)
    share = float(explained_by_squares(n, sigma, alpha))
    scale = share / (6 * n * alpha * (3 + sigma**2))  # the best: E w f / E f^2
    for losses, exact in (
        (((w - estimate) ** 2).sum((1, 2)) + d * sigma**2, setting.zero_loss - explained * products),
        ((w1 - scale * f) ** 2, 1 - explained * share),
    ):
        yield abs(losses.mean() - float(exact)) < 4 * losses.std() / count**0.5


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
    unjudged={
        at(both_layers._cube, "3 * k + 1 -> 3 * k + 2"): ZEROS_BEHIND,
        at(both_layers._cube, "3 * k -> 4 * k"): ZEROS_BEHIND,
    },
)


def _grid(d: int, points: int = 4) -> list[tuple[Array, float]]:
    """Return points and weights that integrate polynomials of degree 7 over standard normal x exactly."""
    at, weights = hermegauss(points)
    every = [list(of) for of in product(range(points), repeat=d)]
    return [(at[of], float(np.prod(weights[of] / weights.sum()))) for of in every]


def _of_context(head: Array, u: Array) -> tuple[Array, Array, Array, Array, Array]:
    """Return a head's arguments over tokens u (d, n).  head: for scores, keys, values, gates and their keys."""
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
        linear, query, key = rng.standard_normal((3, d, d))
        head = _of_context(rng.standard_normal((5, width, d)), rng.standard_normal((d, n)))
        targets = rng.standard_normal((2, width, d))
        found, losses = np.zeros((width, d)), np.zeros(2)
        for x, weight in _grid(d):
            output = answer("revised", query_token(x, linear, query, key), *head)
            found += weight * np.outer(output, x)
            losses += [weight * float(((output - target @ x) ** 2).sum()) for target in targets]
        part = linear_part(*head, (linear, products * query, key))
        rest = [loss - float(((part - target) ** 2).sum()) for loss, target in zip(losses, targets, strict=True)]
        yield near(found, part)
        yield abs(rest[0] - rest[1]) <= CLOSE * (1 + np.abs(found).max()) ** 2
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
        query, key, *token = rng.standard_normal((5, d, d))
        x, y = rng.standard_normal((2, d, n))
        head = rng.standard_normal((5, 2, d))
        gated, plain = (partial(_linear_part, form, head, token, (a, b, q, key)) for q in (query, 0 * query))
        apart = np.abs(helps(x, y, gated) - helps(x, y, plain)).max()
        yield apart <= CLOSE * (1 + np.abs(gated(x, y)).max())


def _linear_part(form: str, head: Array, token: Sequence[Array], first: Sequence[Array], x: Array, y: Array) -> Array:
    """Return a prompt's linear part under the first layer's matrices; for the initial form by quadrature."""
    of = _of_context(head, gated_tokens(x, y, *first))
    if form == "revised":
        return linear_part(*of, (token[0], token[1], token[2]))
    every = [weight * np.outer(answer(form, query_token(z, *token), *of), z) for z, weight in _grid(len(x))]
    return np.asarray(sum(every))


@BOTH_LAYERS.check(
    "what gates of the initial form explain at d = 1, one pair and two, by all monomials: exact",
    states=explained_by_cubes,
    control=lambda n, sigma, c, b: 0 * sigma,
    wrong="nothing, as without products in the query's token",
    kind="exact",
)
def cubes_by_monomials(law: Callable[[int, Fraction, Fraction, Fraction], Fraction]) -> Conditions:
    """Compare with the share of w x explained by kappa q^2 sum u_t^3 at the best kappa."""
    for n, *numbers in (
        (1, Fraction(1, 2), Fraction(1, 5), Fraction(2, 5)),
        (2, Fraction(1, 2), Fraction(-1, 3), Fraction(1, 2)),
        (2, Fraction(0), Fraction(1), Fraction(-1)),
    ):
        w, x, *rest = normals = sympy.symbols(f"w x x1:{n + 1} e1:{n + 1}")
        sigma, c, b = map(sympy.Rational, numbers)
        u = [z * (1 + c * (w * z + sigma * e)) for z, e in zip(rest[:n], rest[n:], strict=True)]
        f, q = sum(z**3 for z in u), x + b * x**2
        explained = (_mean(w * f, normals) * _mean(x * q**2, normals)) ** 2
        yield law(n, *numbers) == explained / (_mean(f**2, normals) * _mean(q**4, normals))
