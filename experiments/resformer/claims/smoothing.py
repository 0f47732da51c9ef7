"""Claims on over-smoothing, NeuTRENO's term, and spectra of values."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import sympy
from scipy.integrate import quad
from scipy.special import exp1

from experiments.ledger.claim import Claim, Conditions, at
from experiments.toys.unjudged import OF_VALUES, OF_VALUES_IN_A_TABLE
from theory.plans.names import resolve
from theory.plans.plan import Shape
from theory.prompts.moments import Array
from theory.resformer import measures, smoothing, spectra
from theory.resformer.paper import PAPER

LAYERS = 60


def causal_attention(tokens: int, seed: int = 3) -> Array:
    """Return a row-stochastic lower triangular matrix."""
    weights = np.tril(np.exp(np.random.default_rng(seed).standard_normal((tokens, tokens))))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def attended(kind: str, attention: Array, values: Array, layers: int = LAYERS) -> Array:
    """Return H_L from the definitions, layer by layer."""
    state = values
    for n in range(1, layers + 1):
        match kind:
            case "vanilla":
                state = attention @ state
            case "svformer":
                state = attention @ values
            case "neutreno":
                state = attention @ state + 0.4 * (values - state)
            case "printed neutreno":
                state = attention @ state - 0.4 * state.sum(axis=0) + 0.4 * values
            case _:
                state = attention @ (state if n == 1 else (state + values) / 2)
    return state


SMOOTHING = Claim(
    "resformer.smoothing",
    PAPER.name,
    place="introduction and appendix A.1: stacked attention makes tokens alike, which the first layer's values mend",
    statement="Attention alone, one matrix A in all layers, makes all tokens alike as depth grows; with half of layer "
    "1's values tokens stay as far apart, up to a factor mu / (2 - mu) at A's eigenvalue mu, as one layer of attention "
    "leaves them.",
    assumes="nothing but attention: no projections, feed-forward or residual stream; 1 a simple eigenvalue of A, all "
    "others smaller; values of layer 1 with weight 1/2 (with A (V_n + lambda V_1) differences stay, but vanish beside "
    "what is common, as 1/depth)",
    verdict="verified",
    proof=smoothing,
    unjudged=OF_VALUES_IN_A_TABLE,
)


@SMOOTHING.check(
    "rank of 60 layers' output, 5 causal tokens of width 6: singular values above 1e-4 of the largest",
    states={"vanilla": 1, "resformer": 5, "svformer": 5},
    control={"vanilla": 5, "resformer": 5, "svformer": 5},
    wrong="vanilla keeps tokens apart too",
    kind="exact",
)
def ranks_at_depth(ranks: Mapping[str, int]) -> Conditions:
    values = np.random.default_rng(4).standard_normal((5, 6))
    for kind, rank in ranks.items():
        singular = np.linalg.svd(attended(kind, causal_attention(5), values), compute_uv=False)
        yield (singular > 1e-4 * singular[0]).sum() == rank


@SMOOTHING.check(
    "the plans' filters, at every eigenvalue, against attention layer by layer; and ResFormer's limit",
    states=lambda mu: mu / (2 - mu),
    control=lambda mu: mu / 2,
    wrong="mu / 2, as if every layer forgot the others",
)
def filters_act_on_eigenvectors(limit: Callable[[Array], Array]) -> Conditions:
    attention = causal_attention(4)
    eigenvalues, vectors = np.linalg.eig(attention)
    for kind in ("vanilla", "resformer", "svformer", "neutreno"):
        filtered = smoothing.depth_filters(resolve(kind, Shape(20, 1)))[-1](eigenvalues) * vectors
        yield np.allclose(attended(kind, attention, vectors, 20), filtered, rtol=0, atol=1e-6)
    deep = attended("resformer", attention, vectors)
    yield np.allclose(deep, limit(eigenvalues) * vectors, rtol=0, atol=1e-9)
    yield (np.allclose(deep, smoothing.resformer_limit(eigenvalues) * vectors, rtol=0, atol=1e-9))


DIAMETERS = Claim(
    "resformer.smoothing-any-layers",
    PAPER.ours,
    place="theory/resformer/smoothing.py, Theorem 2",
    statement="If no two rows of any layer's attention differ by more than tau in total variation, tokens are at most "
    "tau^n of the first diameter apart after n vanilla layers; ResFormer's are at most tau / (2 - tau) apart in the "
    "limit, and half the distance that the last layer's attention leaves of V_1, give or take tau / 2 times the bound "
    "before.",
    assumes="nothing but attention; matrices that may differ from layer to layer",
    verdict="verified",
    proof=smoothing,
)


@DIAMETERS.check(
    "two tokens that all layers contract alike attain both bounds at every depth; random layers stay below",
    states=1.0,
    control=0.99,
    wrong="1 % tighter",
)
def diameters_are_bounded(factor: float) -> Conditions:
    rng, layers = np.random.default_rng(8), 6
    for tau in (0.3, 0.9):
        contracting = np.array([[1 + tau, 1 - tau], [1 - tau, 1 + tau]]) / 2
        yield abs(smoothing.dobrushin(contracting) - tau) <= 1e-12
        random = [rng.dirichlet(np.ones(4), 4) for _ in range(layers)]
        for matrices in ([contracting] * layers, random):
            values = rng.standard_normal((len(matrices[0]), 1))
            largest = max(map(smoothing.dobrushin, matrices))
            for own, first in ((1.0, 0.0), (0.5, 0.5)):
                bounds, state = smoothing.largest_diameters(largest, layers, own, first), values
                for n, (a, bound) in enumerate(zip(matrices, bounds, strict=True)):
                    state = a @ (state if n == 0 else own * state + first * values)
                    apart, limit = np.ptp(state), factor * bound * np.ptp(values)
                    yield apart <= limit * (1 + 1e-9)
                    if matrices[0] is contracting:
                        yield apart >= limit * (1 - 1e-9)


@DIAMETERS.check(
    "how far ResFormer's tokens are from half of what the last layer leaves of V_1, random layers: within tau / 2 h",
    states=0.5,
    control=0.01,
    wrong="a hundredth of tau times the bound before",
)
def tokens_stay_apart(share: float) -> bool:
    rng = np.random.default_rng(9)
    met = True
    for tau in (0.5, 0.95):
        contracting = np.array([[1 + tau, 1 - tau], [1 - tau, 1 + tau]]) / 2
        bounds = smoothing.largest_diameters(tau, 7)
        values, state = rng.standard_normal((2, 1)), np.zeros((2, 1))
        for n, before in enumerate([0.0, *bounds[:-1]]):
            state = contracting @ (values if n == 0 else (state + values) / 2)
            left = np.ptp(contracting @ values) * (1 if n == 0 else 0.5)
            met &= bool(abs(np.ptp(state) - left) <= share * tau * before * np.ptp(values) + 1e-12)
        met &= abs(smoothing.largest_diameters(tau, 60)[-1] - tau / (2 - tau)) < 1e-12
    return met


NEUTRENO_DEPTH = Claim(
    "resformer.neutreno-depth",
    PAPER.ours,
    place="theory/resformer/smoothing.py, Theorem 1 (e) and (f), on section 3.4, Eqn. (8)",
    statement="NeuTRENO keeps lambda / (1 + lambda - mu) of eigenvalue mu at any depth, and so the rank of V_1 even "
    "where attention tells no tokens apart; with the printed matrix of ones it grows without bound beyond 2 / lambda "
    "tokens.",
    assumes="nothing but attention, one matrix A in all layers, |mu - lambda| < 1",
    verdict="verified",
    proof=smoothing,
    unjudged=OF_VALUES_IN_A_TABLE,
)


@NEUTRENO_DEPTH.check(
    "all tokens attend to the first: the rank that is left of 4; and where the printed form grows, lambda = 0.4",
    states=(4, 6),
    control=(1, 3),
    wrong="the rank that ResFormer has there, and growth from three tokens on",
)
def neutreno_at_depth(version: tuple[int, int]) -> Conditions:
    """Check the rank at attention to one token, and the least number of tokens at which the printed form passes 1e6."""
    rank, tokens = version
    one, values = np.zeros((5, 5)), np.random.default_rng(1).standard_normal((5, 4))
    one[:, 0] = 1
    state = attended("neutreno", one, values)
    eigenvalues = np.linalg.eigvals(causal_attention(4)).real
    filtered = smoothing.depth_filters(resolve("neutreno", Shape(30, 1)))[-1](eigenvalues)
    yield np.allclose(filtered, smoothing.neutreno_limit(eigenvalues), rtol=0, atol=1e-5)
    few = [float(kept(0.5)) for kept in smoothing.depth_filters(resolve("neutreno", Shape(3, 1)))]
    yield len(few) == 3
    yield np.allclose(few, [0.5, 0.5 * 0.5 + 0.4 * 0.5, 0.5 * 0.45 + 0.4 * 0.55], rtol=1e-14)
    grows = [
        size
        for size in range(2, 9)
        if np.abs(attended("printed neutreno", causal_attention(size), np.ones((size, 1)), 150)).max() > 1e6
    ]
    yield bool(np.linalg.matrix_rank(state, tol=1e-6) == rank and grows[0] == tokens)


@NEUTRENO_DEPTH.check(
    "the recursion at single eigenvalues, 200 layers: what is left of 0, 1/2 and 1 at lambda = 0.4",
    states=(0.4 / 1.4, 0.4 / 0.9, 1.0),
    control=(0.0, 0.5, 1.0),
    wrong="mu, as one layer of attention leaves it",
)
def eigenvalues_are_kept(left: tuple[float, ...]) -> Conditions:
    for mu, share in zip((0.0, 0.5, 1.0), left, strict=True):
        state = 1.0
        for _ in range(200):
            state = mu * state + 0.4 * (1 - state)
        yield abs(state - share) <= 1e-9
        yield abs(smoothing.neutreno_limit(mu) - share) <= 1e-12


def neutreno_term(
    j: Callable[[int], sympy.Matrix], tokens: int, first: sympy.Matrix, own: sympy.Matrix
) -> sympy.Matrix:
    """Return what Eqn. (8) adds to A_n V_n: lambda (V_1 - J V_n), one row per token, symbolic.

    Section 2.1 has it a multiple of V_1 - V_n.  It vanishes wherever V_1 = V_n if and only if J V = V for every V, so
    J = I.  With ones every row of J V_n is the sum of all rows of V_n, later ones too, whatever the attention's mask.

    j: the size of J -> J; first and own, V_1 and V_n: (tokens, width) -> the same shape
    """
    weights = sympy.Matrix(tokens, tokens, lambda i, k: sympy.Symbol(f"a{i}{k}") if k <= i else 0)
    lam = sympy.Symbol("lambda")
    return (weights - lam * j(tokens)) * own + lam * first - weights * own


NEUTRENO_EQN_8 = Claim(
    "resformer.neutreno-eqn8",
    PAPER.name,
    place="section 3.4, Eqn. (8)",
    statement="NeuTRENO is U_n = (A_n - lambda J) V_n + lambda V_1 with J a matrix of ones.",
    assumes="causal attention",
    verdict="corrected",
    correction="J is the identity: lambda (V_1 - V_n) is added token by token.  With ones, every token would lose "
    "the sum of all tokens' values, later ones too.",
    proof=neutreno_term,
    unjudged={at(neutreno_term, "k <= i"): "A_n V_n is taken off again, whatever it is"},
)


@NEUTRENO_EQN_8.check(
    "what is added vanishes where V_n = V_1",
    states=sympy.eye,
    control=sympy.ones,
    wrong="J of ones, as printed",
    kind="exact",
)
def neutreno_vanishes_on_equal_values(j: Callable[[int], sympy.Matrix]) -> Conditions:
    """Check that the added term, a multiple of V_1 - V_n by section 2.1, vanishes where the two are equal."""
    for tokens in (1, 2, 4):
        values = sympy.Matrix(tokens, 2, lambda i, k: sympy.Symbol(f"v{i}{k}"))
        yield neutreno_term(j, tokens, values, values).expand().is_zero_matrix


@NEUTRENO_EQN_8.check(
    "no token's output depends on later tokens",
    states=sympy.eye,
    control=sympy.ones,
    wrong="J of ones, as printed",
    kind="exact",
)
def neutreno_is_causal(j: Callable[[int], sympy.Matrix]) -> Conditions:
    """Check that a token's output does not depend on later tokens' values."""
    for tokens in (2, 3):
        own, first = (sympy.Matrix(tokens, 1, lambda i, _, s=s: sympy.Symbol(f"{s}{i}")) for s in "vw")
        out = neutreno_term(j, tokens, first, own).expand()
        yield all(not out[i].has(own[k], first[k]) for i in range(tokens) for k in range(i + 1, tokens))


FIG_21 = Claim(
    "resformer.neutreno-lambda",
    PAPER.name,
    place="section 3.4, after Eqn. (8), and appendix A.3, Fig. 21",
    statement="NeuTRENO is sensitive to lambda, its loss lowest at 0.4; the term in V_n may harm the learning of the "
    "attention.",
    assumes="the training of section 4.1.1, one run each",
    verdict="open",
    correction="Training decides it, and none here varies lambda.  What holds without, for attention alone: lambda = 0 "
    "is vanilla; any other keeps lambda / (1 + lambda) of what attention tells nothing of, 0.29 at 0.4 and 0.375 at "
    "0.6, and takes A_n's diagonal below zero where a token's attention to itself is below lambda.",
    proof=smoothing.neutreno_limit,
    uses=("resformer.neutreno-eqn8", "resformer.neutreno-depth"),
    unjudged={**OF_VALUES},
)


@FIG_21.check(
    "what 60 layers leave of eigenvalue 0 at lambda = 0.2, 0.4 and 0.6, by the plans' filters and in closed form",
    states=lambda weight: weight / (1 + weight),
    control=lambda weight: weight,
    wrong="lambda itself",
)
def what_is_kept_of_nothing(share: Callable[[float], float]) -> Conditions:
    for weight in (0.2, 0.4, 0.6):
        deep = smoothing.depth_filters(resolve(f"neutreno:weight={weight}", Shape(60, 1)))[-1](0.0)
        yield max(abs(found - share(weight)) for found in (deep, smoothing.neutreno_limit(0.0, weight))) <= 1e-9


@FIG_21.check(
    "the weight of V_1, and the least that a token's own value has in Eqn. (8), where it attends to itself with 0.1; "
    "by the plan",
    states=(0.4, 0.1 - 0.4),
    control=(0.4, 0.1),
    wrong="none below zero",
)
def diagonal_below_zero(weights: tuple[float, float]) -> bool:
    head = resolve("neutreno", Shape(3, 1)).head(3, 1)
    beside = {t.source.layer: t.start for t in head.beside.terms}
    own = 0.1 * sum(t.start for t in head.values[0].terms) + beside[3]
    return bool(np.allclose((beside[1], own), weights, rtol=0, atol=1e-15))


FAR_END = "the end of an integral, so far out that what lies beyond is rounding: further is the same"

AT_START = Claim(
    "resformer.values-at-start",
    PAPER.ours,
    place="theory/resformer/spectra.py, on Eqn. (12) and Fig. 12",
    statement="Before training, the eigenvalues of the values that heads attend over add up in the mean to "
    "s^2 p tr K / l, and with a value residual to own^2 + first^2 of that: half of it in ResFormer.  Their squares add "
    "up to s^4 p ((p + 1) tr K^2 + (tr K)^2) / l^2.",
    assumes="projections with independent normal entries of deviation s; K the Gram matrix of the tokens, of equal "
    "lengths in both layers; for the squares tokens that depend on neither projection, as layer n's do on layer 1's in "
    "a decoder",
    verdict="verified",
    proof=spectra,
    unjudged={
        at(spectra.normed_square, "20.0 * float(np.sqrt(2 * width)) -> 24.0 * float(np.sqrt(2 * width))"): FAR_END,
        at(spectra.normed_square, "2 * width -> 3 * width"): FAR_END,
        at(spectra.normed_square, "width + spread -> width + 6 * spread / 5"): FAR_END,
    },
)


def _directions(rng: np.random.Generator, tokens: int, width: int) -> Array:
    x = rng.standard_normal((tokens, width))
    return np.asarray(x * width**0.5 / np.linalg.norm(x, axis=1, keepdims=True))


@AT_START.check(
    "means of 20,000 draws of both projections, weights 1 and 0, 1/2 and 1/2, 0.3 and 0.9: within 2 %",
    states=1.0,
    control=1.1,
    wrong="10 % more",
    kind="sampled",
)
def sums_are_in_the_mean(factor: float) -> Conditions:
    rng, (tokens, width, values), std = np.random.default_rng(1), (5, 3, 4), 0.3
    first, later = _directions(rng, tokens, width), _directions(rng, tokens, width)
    for own, residual in ((1.0, 0.0), (0.5, 0.5), (0.3, 0.9)):
        drawn = std * rng.standard_normal((2, 20_000, values, width))
        v = own * later @ drawn[0].mT + residual * first @ drawn[1].mT
        c = v.mT @ v / tokens
        gram = own**2 * later @ later.T + residual**2 * first @ first.T
        total, squares = np.trace(c, axis1=1, axis2=2).mean(), (c * c).sum(axis=(1, 2)).mean()
        share = spectra.residual_share(own, residual) * spectra.expected_sum(later @ later.T, values, std)
        for found, said in (
            (total, spectra.expected_sum(gram, values, std)),
            (total, share),
            (squares, spectra.expected_square_sum(gram, values, std)),
        ):
            yield abs(found / (factor * said) - 1) <= 0.02


@AT_START.check(
    "one number, whole: K = (4), one value a token; tokens in random directions, and behind a norm, by 4,000 draws",
    states=1.0,
    control=1.1,
    wrong="10 % more",
    kind="sampled",
)
def known_cases(factor: float) -> Conditions:
    """Check w^2 x^2 with w normal, which has the mean 4 and, squared, 3 * 16."""
    gram = np.array([[4.0]])
    yield abs(spectra.expected_sum(gram, 1, 1.0) - 4 * factor) <= 1e-12
    yield abs(spectra.expected_square_sum(gram, 1, 1.0) - 48 * factor) <= 1e-12
    rng = np.random.default_rng(2)
    x = np.stack([_directions(rng, 5, 3) for _ in range(4000)])
    grams, said = x @ x.mT, factor * spectra.expected_gram(5, 3, 3.0)
    yield abs((grams**2).sum(axis=(1, 2)).mean() / (said**2).sum() - 1) <= 0.02
    yield abs(np.trace(grams, axis1=1, axis2=2).mean() / np.trace(said) - 1) <= 0.02
    m = (0.1 * rng.standard_normal((4000, 7))) ** 2
    normed = m / (m.mean(axis=1, keepdims=True) + 0.004)
    yield abs(normed.sum(axis=1).mean() / (factor * spectra.normed_square(7, 0.1, 0.004)) - 1) < 0.02


@AT_START.check(
    "two numbers behind a norm: chi-squared of two degrees is exponential, and the mean has a closed form",
    states=1.0,
    control=1.0001,
    wrong="a ten-thousandth more",
)
def two_normed_numbers(factor: float) -> Conditions:
    """Compare with 2 E z / (z + 2 c), P(z > t) = e^(-t / 2), which is 2 (1 - c e^c E_1(c)); c = eps / s^2."""
    for std, eps in ((0.1, 0.004), (1.0, 3.0), (2.0, 1e-5)):
        c = eps / std**2
        known = 2 * (1 - c * np.exp(c) * exp1(c))
        yield abs(spectra.normed_square(2, std, eps) / (factor * known) - 1) <= 1e-7


LIMIT = Claim(
    "resformer.values-at-start-limit",
    PAPER.ours,
    place="theory/resformer/spectra.py, Theorem 2",
    statement="Of many different tokens the eigenvalues follow the free product of two Marchenko-Pastur laws, whose "
    "largest is 27/4 of the mean for as many tokens as width and values.",
    assumes="large sizes; tokens in independent uniform directions",
    verdict="verified",
    proof=spectra,
    uses=("resformer.eqn12-index",),
    unjudged={
        at(
            spectra.quantiles, "np.linspace(0, 1, GRID) ** 4 -> np.linspace(0, 1, GRID) ** 5"
        ): "a grid: finer still near zero, where it is fine enough",
        at(
            spectra.quantiles, "np.linspace(0, 1, GRID) -> np.linspace(0, 2, GRID)"
        ): "a grid: it goes on beyond the spectrum's end, where there is nothing",
    },
)


@LIMIT.check(
    "400 tokens, and 300 of width 200: every place within 6 % of the mean on average, the largest within 6 %; and the "
    "law's mean, 1",
    states=True,
    control=False,
    wrong="Marchenko and Pastur's own law, of tokens that are at right angles",
    kind="sampled",
)
def random_values_follow(both: bool) -> Conditions:
    for seed, (tokens, width, values) in enumerate(((400, 400, 400), (300, 200, 300))):
        rng = np.random.default_rng(seed)
        v = _directions(rng, tokens, width) @ rng.standard_normal((values, width)).T
        found = measures.value_spectrum(v)[:width] / values
        many = tokens if both else 10**9
        said = spectra.quantiles(many, width, values)
        yield abs(said.mean() - 1) <= 0.005
        yield abs(found.mean() - 1) <= 0.02
        yield np.abs(found - said).mean() <= 0.06
        yield abs(found[0] / spectra.largest(many, width, values) - 1) <= 0.06


def fuss_catalan(x: Array) -> Array:
    """Return the density of the law of two equal sizes, from its closed form."""
    root = 27 + 3 * np.sqrt(81 - 12 * x)
    share = (2 ** (1 / 3) * root ** (2 / 3) - 6 * x ** (1 / 3)) / (x ** (2 / 3) * root ** (1 / 3))
    return np.asarray(2 ** (1 / 3) * np.sqrt(3) / (12 * np.pi) * share)


@LIMIT.check(
    "equal sizes, 1, 3 and 40 of each: the closed form's share above each quantile, and below it, to a thousandth",
    states=0.5,
    control=0.6,
    wrong="not the middles of equal shares",
)
def quantiles_share_alike(middle: float) -> Conditions:
    """Integrate over x^(1/3), in which the density has no pole."""
    for width in (1, 3, 40):
        for place, value in enumerate(spectra.quantiles(width, width, width)):
            below = quad(lambda u: 3 * u * u * float(fuss_catalan(np.array(u**3))), 1e-9, value ** (1 / 3))[0]
            above = (place + middle) / width
            yield abs(below / (1 - above) - 1) <= 1e-3
            yield abs((1 - below) / above - 1) <= 1e-3


@LIMIT.check(
    "equal sizes: the end of the spectrum, and the density against its closed form; the end where tokens do not matter",
    states=27 / 4,
    control=4.0,
    wrong="Marchenko and Pastur's own end, for equal sizes",
)
def the_end_and_the_density_are_known(end: float) -> bool:
    x = np.array([0.1, 1.0, 3.0, 6.0])
    return bool(
        abs(spectra.largest(7, 7, 7) - end) < 1e-9
        and abs(spectra.largest(10**9, 7, 7) - 4) < 1e-3
        and np.allclose(spectra.density(x, 7, 7, 7), fuss_catalan(x), rtol=1e-9)
        and spectra.density(np.array([1.01 * end]), 7, 7, 7)[0] < 1e-6
    )
