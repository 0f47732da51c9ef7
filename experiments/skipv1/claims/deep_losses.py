"""Claims on the losses of deeper linear toys, appendix A.2: the best polynomial, and compressed tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache

import numpy as np
import sympy
from scipy.optimize import least_squares

from experiments.ledger.claim import Claim, at
from experiments.skipv1.claims.deep import FAMILY, TASKS
from theory.prompts import regression, setting, spectral
from theory.prompts.isserlis import PromptEngine
from theory.skipv1 import compressed as deep_compressed
from theory.skipv1.compressed import compressed_losses
from theory.skipv1.paper import PAPER
from theory.toy.stack import Array, AttentionHead, Value, run

SAMPLES = 20_000

BEST_POLYNOMIAL = Claim(
    "deep.best-polynomial",
    PAPER.ours,
    place="theory/prompts/spectral.py, (1) to (3)",
    statement="The best polynomial of degree k is ridge regression at 0 and at the k Gauss nodes of the spectrum; "
    "its loss is the Gauss-Radau rule for ridge's, and falls to it as k grows.",
    assumes=FAMILY,
    verdict="verified",
    proof=spectral,
)


@BEST_POLYNOMIAL.check(
    "the same loss by elimination from the moments, in fractions, one to five layers",
    states=0,
    control=1,
    wrong="one layer more",
    kind="exact",
)
def normal_equations_give(degree_off: int) -> bool:
    """The loss by elimination from the moments, in fractions, at k = 1..5: `best_polynomial` at degree k + off."""
    return all(
        d * eliminated_loss(d, n, sigma**2, k) == spectral.best_polynomial(d, n, sigma, k + degree_off).loss
        for d, n, sigma in TASKS
        for k in range(1, 6)
    )


def eliminated_loss(d: int, n: int, noise: Fraction, degree: int) -> Fraction:
    """Return the best polynomial's loss on one of d outputs, noise its variance: the normal equations, in fractions."""
    moments, v = regression.trace_moments(d, n, 2 * degree), sympy.Rational(noise.numerator, noise.denominator)
    form = sympy.Matrix(degree, degree, lambda i, j: moments[i + j + 2] + v * moments[i + j + 1])
    right = sympy.Matrix(moments[1 : degree + 1])
    loss = d - (right.T * form.LUsolve(right))[0] + v
    return Fraction(int(loss.p), int(loss.q))


@BEST_POLYNOMIAL.check(
    "mean losses over 20,000 prompts, within 4 standard errors, one to three layers",
    states=1.0,
    control=1.05,
    wrong="a loss 5 % higher",
    kind="sampled",
)
def sampled_prompts_lose(factor: float) -> bool:
    """The best p's mean loss over 20,000 prompts, within 4 standard errors, for one to three layers."""
    rng = np.random.default_rng(27)
    for d, n, sigma in TASKS[1:]:
        w, x, noise = (rng.standard_normal((SAMPLES, d, size)) for size in (d, n, n))
        y = w @ x + float(sigma) * noise
        for degree in (1, 2, 3):
            best = spectral.best_polynomial(d, n, sigma, degree)
            estimate, power = np.zeros_like(w), y @ x.mT
            for c in best.residual[1:]:
                estimate, power = estimate - float(c) * power, power @ (x @ x.mT)
            losses = ((w - estimate) ** 2).sum(axis=(1, 2)) + d * float(sigma) ** 2
            if not agree(losses, factor * float(best.loss)):
                return False
    return True


def agree(losses: Array, expected: float) -> bool:
    """Return whether the mean of sampled losses is the expected one, within 4 standard errors."""
    return bool(abs(losses.mean() - expected) <= 4 * losses.std(ddof=1) / len(losses) ** 0.5)


@BEST_POLYNOMIAL.check(
    "sampled ridge losses lie between the rules of 32 layers with and without a node at 0",
    states=1.0,
    control=1.1,
    wrong="with a tenth more noise",
    kind="sampled",
)
def ridge_lies_between(factor: float) -> bool:
    """Sampled ridge losses lie between the rules without and with a node at 0, which meet to one in a thousand."""
    for d, n, sigma in ((1, 3, 1.0), (3, 8, 1.0), (4, 2, 2.0)):
        lower, upper = spectral.ridge_bounds(d, n, sigma * factor, 32)
        ridge = regression.ridge(d, n, sigma)
        if upper - lower > 1e-3 * upper or not lower - 4 * ridge.stderr <= ridge.value <= upper + 4 * ridge.stderr:
            return False
    return True


BEGINS = ("1 / scaled", "np.full(count, 1.0)", "scaled[0] / 2", "2 * scaled[-1]", "scaled[0]", "scaled[-1]")
BEGINS_AT = "where a descent begins, one of several; that the best ends as low as descents of another kind is checked"
DESCENT = "least_squares(misses, x, jacobian, xtol=1e-15, ftol=1e-15, gtol=1e-15)"
REAL_ROOTS = Claim(
    "deep.real-roots-miss-ridge",
    PAPER.ours,
    place="theory/prompts/spectral.py, (6)",
    statement="With noise, and a number for each layer's weight, own values keep a distance from ridge regression "
    "however many layers there are; with layer 1's values beside them they come as near as one likes.",
    assumes=FAMILY + "; sigma > 0",
    verdict="verified",
    proof=spectral,
    uses=("deep.own-values", "deep.mixed-values", "deep.best-polynomial"),
    unjudged={
        **{at(spectral.best_steps, place): BEGINS_AT for place in BEGINS},
        at(spectral.best_steps, DESCENT): "how near a descent ends: a fifth further makes no difference",
    },
)


@REAL_ROOTS.check(
    "random polynomials with real roots are off ridge, by the proof's bound, on half of an interval",
    states="real",
    control="best",
    wrong="the best polynomials, with complex roots",
)
def keeps_off_ridge(kind: str) -> bool:
    """log |p / f| is off 0 by the proof's bound on half of an interval: p random with real roots, or the best."""
    rng, grid = np.random.default_rng(28), 20_000
    for degree in (2, 4, 8, 12):
        for noise, low, high in ((4.0, 1.0, 6.0), (1.0, 2.0, 12.0)):
            if kind == "real":
                p = np.poly1d([1.0])
                for beta in rng.standard_normal(degree) / high:
                    p = p * np.poly1d([-2 * beta, 1.0])
            else:
                best = spectral.best_polynomial(1, 4, Fraction(int(noise) ** 0.5), degree)
                p = np.poly1d([float(c) for c in reversed(best.residual)])
            s = np.linspace(low, high, grid)
            bound = min(1.0, (high - low) / (high + noise)) ** 2 / 256
            with np.errstate(divide="ignore"):
                off = abs(np.log(abs(p(s) * (1 + s / noise)))) > bound
            if off.mean() < 0.5 - 4 * (degree + 1) / grid:
                return False
    return True


@REAL_ROOTS.check(
    "from 4 to 12 layers the excess over ridge of the best own steps falls by less than half; descents of another "
    "kind, which find the best polynomials if roots may be complex, find no better ones",
    states=-1,
    control=1,
    wrong="complex roots",
    kind="descent",
)
def excess_stays(sign: int) -> bool:
    """Check that the excess over ridge falls by less than half from 4 to 12 layers.

    It is at the lowest ends of descents in quadratic factors (1 - t s)^2 + sign c^2 s^2, whose roots are real if sign
    is -1; where they end is known.
    """
    for d, n, sigma in ((3, 8, 2.0), (1, 2, 1.5)):
        ridge = sum(spectral.ridge_bounds(d, n, sigma, 32)) / 2
        for k in (4, 12):
            real, free = (_best_factors(d, n, sigma, layers=k, sign=kind) for kind in (-1, 1))
            best, steps = spectral.best_loss(d, n, sigma, k), spectral.best_steps(d, n, sigma, k)
            if not best - 1e-9 < free < best + 0.05 * (real - ridge):
                return False
            for loss in (steps.loss, _loss_of_steps(d, n, sigma, steps.steps)):
                if abs(real - loss) > 1e-6 * (real - ridge):
                    return False
        losses = [_best_factors(d, n, sigma, layers=k, sign=sign) for k in (4, 12)]
        if losses[1] - ridge < 0.5 * (losses[0] - ridge):
            return False
    return True


def _loss_of_steps(d: int, n: int, sigma: float, steps: Sequence[float]) -> float:
    """Return the loss of p = prod (1 - eta s) as defined, over the spectrum."""
    nodes, weights = (x[1:] for x in spectral.gauss_radau(d, n, len(steps) + 1))
    p = np.prod([1 - eta * nodes for eta in steps], axis=0)
    rest = d - float(weights.sum())  # at s = 0, where p is 1 and s q^2 is 0
    return d * (float(weights @ (p**2 + sigma**2 * (1 - p) ** 2 / nodes)) + rest + sigma**2)


@cache
def _best_factors(d: int, n: int, sigma: float, layers: int, sign: int) -> float:
    """Return the lowest end of three descents in the loss as defined, E sum p^2 + sigma^2 s q^2 over the spectrum."""
    nodes, weights = (x[1:] for x in spectral.gauss_radau(d, n, 2 * layers))
    mean = float(nodes @ weights / weights.sum())
    rest = d - float(weights.sum())  # at s = 0, where p is 1 and s q^2 is 0

    def factors(flat: Array) -> tuple[Array, Array, Array]:
        t, c = flat.reshape(2, -1, 1) * nodes / mean
        return (1 - t) ** 2 + sign * c**2, -2 * (1 - t) * nodes / mean, 2 * sign * c * nodes / mean

    def parts(flat: Array) -> Array:
        p = factors(flat)[0].prod(axis=0)
        return np.concatenate([np.sqrt(weights) * p, sigma * np.sqrt(weights / nodes) * (1 - p)])

    def jacobian(flat: Array) -> Array:
        p, by_t, by_c = factors(flat)
        others = np.array([np.delete(p, i, axis=0).prod(axis=0) for i in range(len(p))])
        of_p = np.concatenate([by_t * others, by_c * others]).T
        return np.concatenate([np.sqrt(weights)[:, None] * of_p, -sigma * np.sqrt(weights / nodes)[:, None] * of_p])

    rng = np.random.default_rng(layers)
    begins = (rng.uniform(0, 2, layers) for _ in range(3))
    lowest = min(least_squares(parts, begin, jacobian, xtol=1e-14, ftol=1e-14).cost for begin in begins)
    return d * (2 * float(lowest) + rest + sigma**2)


DEEPER = Claim(
    "skipv1.a2-deeper",
    PAPER.name,
    place="appendix A.2: if each layer of a deeper Transformer performs a gradient step, the analysis carries over "
    "with the same proof technique",
    statement="The loss gap of Theorem 2 holds for deeper models, by the same proof.",
    assumes="W* ~ N(0, I), x ~ N(0, I), Gaussian noise; gradient steps as in deep.own-values",
    verdict="corrected",
    correction="The proof does not carry over: it needs P to be a fixed linear map of S_yx, and its bound fails "
    "from two steps on.  The conclusion does while tokens stay compressed: no model of any depth or kind that sees "
    "(A x ; B y) alone explains more than a (d - a) entries of W*, and after any number of steps SkipV1Former is "
    "at least rho a^2 ahead at equal rank.  But with a residual stream of width 2d nothing needs compression, and "
    "there, among models of gradient steps, raw values beside own ones win nothing (or little: deep.mixed-values), "
    "and raw values alone lose all layers but one.",
    proof=deep_compressed,
    uses=(
        "deep.own-values",
        "deep.raw-values-one-step",
        "deep.mixed-values",
        "deep.best-polynomial",
        "skipv1.mha-infimum",
    ),
)


@DEEPER.check(
    "Lemma 4's proportionality fails for what a second step reads, S_yx S_xx: its ratio, by pairing, d = 1",
    states=4,
    control=2,
    wrong="1/lambda = n + 2 + sigma^2, as the proof would need",
    kind="exact",
)
def second_step_correlates(shift: int) -> bool:
    """d = 1: E[S_yx S_xx S_yx] = (n + shift + sigma^2) E[S_yx S_xx W_D], by pairing; W_D = E[W* | D].

    Lemma 4 for what a second step reads, S_yx S_xx, would need 1/lambda = n + 2 + sigma^2 here.
    """
    engine = PromptEngine(1)
    at = [(engine.w0[0][0], 0)]
    yx, xx = ("yx", 0, 0), ("xx", 0, 0)
    hit = engine.expect(yx, xx, ("w", 0, 0)).evaluate(at)
    n, sigma = hit.ring.gens[:2]
    return bool(hit * (n + shift + sigma**2) == engine.expect(yx, xx, yx).evaluate(at))


@DEEPER.check(
    "the proof's bound, rho for each number seen, is exceeded by the best polynomial of two layers; exact",
    states=2,
    control=1,
    wrong="one layer, where the proof holds",
    kind="exact",
)
def linear_bound_fails(layers: int) -> bool:
    """Check that at a = d the best p of so many layers explains more than rho d^2, the proof's bound; exact.

    The best of one layer attains it.
    """
    for d, n, sigma in TASKS:
        bound = d**2 * setting.signal_share(d, n, sigma)
        one, some = (
            setting.zero_loss(d, n, sigma) - spectral.best_polynomial(d, n, sigma, count).loss for count in (1, layers)
        )
        if one != bound or not some > bound:
            return False
    return True


@DEEPER.check(
    "attention on compressed tokens, one to three steps, 20,000 prompts: MHA's loss, and a gap of rho a^2",
    states=lambda a, k: Fraction(a * a),
    control=lambda a, k: Fraction(a * a * k),
    wrong="a gap that grows with the number of steps",
    kind="sampled",
)
def compressed_steps_lose(share: Callable[[int, int], Fraction]) -> bool:
    """Sampled losses of one to three steps on compressed tokens; SkipV1Former's lie rho times share(a, k) below."""
    for d, n, sigma, rank, count in ((2, 4, 0.5, 1, 1), (2, 4, 0.5, 1, 2), (4, 9, 1.0, 2, 2), (4, 9, 1.0, 2, 3)):
        losses, variance = compressed_losses(d, n, Fraction(sigma), rank=rank, steps=count), Fraction(sigma) ** 2
        one_output = eliminated_loss(rank, n, variance + d - rank, count)
        mha, gap = float(losses.mha), float(n / (n + d + 1 + sigma**2) * share(rank, count))
        if losses.mha != (d - rank) * one_output + rank * (d + variance):
            return False
        if losses.mha - losses.skipv1 != n / (n + d + 1 + variance) * share(rank, count):
            return False
        without, with_skip = sampled_on_compressed_tokens(d, n, sigma, rank=rank, count=count)
        if not (agree(without, mha) and agree(with_skip, mha - gap)):
            return False
    return True


def sampled_on_compressed_tokens(d: int, n: int, sigma: float, rank: int, count: int) -> tuple[Array, Array]:
    """Return losses of MHA and of SkipV1Former, token by token over `SAMPLES` prompts.

    Own steps of the best polynomial on (A x ; B y), as matrices where its roots are complex (d - rank even); and in
    SkipV1Former's last layer a skip head that writes what raw y says into A x's place.
    """
    rng = np.random.default_rng([d, n, rank, count])
    w = rng.standard_normal((SAMPLES, d, d))
    x, y = rng.standard_normal((SAMPLES, n + 1, d)), sigma * rng.standard_normal((SAMPLES, n + 1, d))
    y = y + x @ w.mT
    tokens = np.concatenate([x[..., :rank], y[..., rank:]], axis=-1)
    tokens[:, -1, rank:] = 0
    upper, lower = (np.diag(flags).astype(float) for flags in (np.arange(d) < rank, np.arange(d) >= rank))
    layers = [
        [AttentionHead((Value(layer, lower),), -step, upper, upper)]
        for layer, step in enumerate(_steps(d, n, sigma, rank=rank, count=count), 1)
    ]
    skip = AttentionHead((Value(0, upper),), upper / (n + d + 1 + sigma**2), upper, upper)
    layers[-1].append(skip)
    streams = run(tokens, layers, raw=y)
    label, last, change = y[:, -1], streams[-1][:, -1], (streams[-1] - streams[-2])[:, -1]
    visible = ((label + last) ** 2)[:, rank:].sum(axis=1)
    return visible + (label**2)[:, :rank].sum(axis=1), visible + ((label - change) ** 2)[:, :rank].sum(axis=1)


def _steps(d: int, n: int, sigma: float, rank: int, count: int) -> list[Array]:
    """Return B_ll on the last d - rank numbers of a token, (d, d) each."""
    residual = spectral.best_polynomial(rank, n, float(np.sqrt(sigma**2 + d - rank)), count).residual
    inverse = [1 / z for z in np.roots([float(c) for c in reversed(residual)])]
    flat, turn = np.zeros((d, d)), np.zeros((d, d))
    flat[rank:, rank:] = np.eye(d - rank)
    for i in range(rank, d - 1, 2):
        turn[i, i + 1], turn[i + 1, i] = -1, 1
    return [z.real * flat + z.imag * turn for z in inverse]


@DEEPER.check(
    "told all of W* that (A x ; B y) can tell, a model loses d^2 - a (d - a) + d sigma^2, 20,000 prompts",
    states=lambda d, a: d * d - a * (d - a),
    control=lambda d, a: d * d - a * d,
    wrong="as if raw labels were seen",
    kind="sampled",
)
def known_rows_and_columns_leave(unknown: Callable[[int, int], int]) -> bool:
    """Given all of W* that (A x ; B y) shows, a model still loses unknown + d sigma^2; 20,000 prompts, every rank."""
    rng, d, sigma = np.random.default_rng(29), 3, 0.5
    w, query, noise = (rng.standard_normal((SAMPLES, d, size)) for size in (d, 1, 1))
    for rank in range(d + 1):
        known = w.copy()
        known[:, :rank], known[:, :, rank:] = 0, 0
        losses = ((w @ query + sigma * noise - known @ query) ** 2).sum(axis=(1, 2))
        floor = deep_compressed.any_depth_floor(d, Fraction(sigma), rank)
        if floor != unknown(d, rank) + d * Fraction(sigma) ** 2 or not agree(losses, float(floor)):
            return False
    return True


@DEEPER.check(
    "a regression on 96 random features of all that is seen, 20,000 prompts and as many others: below what the bound "
    "allows, n = 16",
    states="compressed",
    control="raw",
    wrong="with raw labels, by which the same regression passes it",
    kind="sampled",
)
def nothing_learned_passes_bound(labels: str) -> bool:
    """Check at d = 2, a = 1 that what a regression of y_{n+1} explains on new prompts is at most a (d - a) = 1.

    Its features are of (A x ; B y), all x_t and A x_{n+1}: products with A x_{n+1} of second moments and of random
    functions of tokens.
    """
    rng, d, n, sigma, size = np.random.default_rng(30), 2, 16, 0.2, 2 * SAMPLES
    w, x = rng.standard_normal((size, d, d)), rng.standard_normal((size, n + 1, d))
    y = x @ w.mT + sigma * rng.standard_normal((size, n + 1, d))
    seen = np.concatenate([x[:, :-1], y[:, :-1, (1 if labels == "compressed" else 0) :]], axis=-1)
    moments = (seen.mT @ seen / n).reshape(size, -1)
    bent = np.tanh(seen @ rng.standard_normal((seen.shape[-1], 12))).mean(axis=1)
    told = np.concatenate(
        [np.ones((size, 1)), moments, bent, np.tanh(moments @ rng.standard_normal((moments.shape[1], 12)))], axis=1
    )
    query = x[:, -1] if labels == "raw" else x[:, -1, :1]
    features = np.einsum("bi,bj->bij", told, query).reshape(size, -1)
    fit = np.linalg.lstsq(features[:SAMPLES], y[:SAMPLES, -1], rcond=None)[0]
    target = y[SAMPLES:, -1]
    gained = (target**2).sum(axis=1) - ((target - features[SAMPLES:] @ fit) ** 2).sum(axis=1)
    return bool(0.7 < gained.mean() < 1 + 4 * gained.std() / SAMPLES**0.5)


@DEEPER.check(
    "nothing compressed and no noise: one to six own steps reach the best polynomial",
    states=(Fraction(0), 0),
    control=(Fraction(0), 1),
    wrong="as if raw values were worth a layer",
)
def raw_values_win_nothing(version: tuple[Fraction, int]) -> bool:
    """Nothing compressed: k = 1..6 own steps reach the best polynomial of degree k + more; exact and by descent."""
    sigma, more = version
    for d, n, _ in TASKS:
        for k in range(1, 7):
            best = spectral.best_polynomial(d, n, sigma, k)
            loss = spectral.best_steps(d, n, float(sigma), k).loss
            expected = float(spectral.best_polynomial(d, n, sigma, k + more).loss)
            if not spectral.is_real_rooted(best.residual) or abs(loss - expected) > 1e-9 * d * d:
                return False
    return True
