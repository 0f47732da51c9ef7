"""Claims on over-smoothing: what depth does to tokens that nothing but attention acts on."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from experiments.ledger.claim import Claim
from experiments.toys.unjudged import OF_VALUES
from theory.plans.names import resolve
from theory.plans.plan import Shape
from theory.prompts.moments import Array
from theory.resformer import smoothing
from theory.resformer.paper import PAPER

LAYERS = 60


def causal_attention(tokens: int, seed: int = 3) -> Array:
    """A row-stochastic lower triangular matrix."""
    weights = np.tril(np.exp(np.random.default_rng(seed).standard_normal((tokens, tokens))))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def attended(kind: str, attention: Array, values: Array, layers: int = LAYERS) -> Array:
    """H_L from the definitions, layer by layer."""
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
    unjudged=OF_VALUES,
)


@SMOOTHING.check(
    "rank of 60 layers' output, 5 causal tokens of width 6: singular values above 1e-4 of the largest",
    states={"vanilla": 1, "resformer": 5, "svformer": 5},
    control={"vanilla": 5, "resformer": 5, "svformer": 5},
    wrong="vanilla keeps tokens apart too",
    kind="exact",
)
def ranks_at_depth(ranks: Mapping[str, int]) -> bool:
    values = np.random.default_rng(4).standard_normal((5, 6))
    for kind, rank in ranks.items():
        singular = np.linalg.svd(attended(kind, causal_attention(5), values), compute_uv=False)
        if (singular > 1e-4 * singular[0]).sum() != rank:
            return False
    return True


@SMOOTHING.check(
    "the plans' filters, at every eigenvalue, against attention layer by layer; and ResFormer's limit",
    states=lambda mu: mu / (2 - mu),
    control=lambda mu: mu / 2,
    wrong="mu / 2, as if every layer forgot the others",
    kind="float64",
)
def filters_act_on_eigenvectors(limit: Callable[[Array], Array]) -> bool:
    attention = causal_attention(4)
    eigenvalues, vectors = np.linalg.eig(attention)
    for kind in ("vanilla", "resformer", "svformer", "neutreno"):
        filtered = smoothing.depth_filters(resolve(kind, Shape(20, 1)))[-1](eigenvalues) * vectors
        if not np.allclose(attended(kind, attention, vectors, 20), filtered, rtol=0, atol=1e-6):
            return False
    deep = attended("resformer", attention, vectors)
    return np.allclose(deep, limit(eigenvalues) * vectors, rtol=0, atol=1e-9) and np.allclose(
        deep, smoothing.resformer_limit(eigenvalues) * vectors, rtol=0, atol=1e-9
    )


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
    kind="float64",
)
def diameters_are_bounded(factor: float) -> bool:
    rng, layers = np.random.default_rng(8), 6
    for tau in (0.3, 0.9):
        contracting = np.array([[1 + tau, 1 - tau], [1 - tau, 1 + tau]]) / 2
        if abs(smoothing.dobrushin(contracting) - tau) > 1e-12:
            return False
        random = [rng.dirichlet(np.ones(4), 4) for _ in range(layers)]
        for matrices in ([contracting] * layers, random):
            values = rng.standard_normal((len(matrices[0]), 1))
            largest = max(map(smoothing.dobrushin, matrices))
            for own, first in ((1.0, 0.0), (0.5, 0.5)):
                bounds, state = smoothing.largest_diameters(largest, layers, own, first), values
                for n, (a, bound) in enumerate(zip(matrices, bounds, strict=True)):
                    state = a @ (state if n == 0 else own * state + first * values)
                    apart, limit = np.ptp(state), factor * bound * np.ptp(values)
                    if apart > limit * (1 + 1e-9) or (matrices[0] is contracting and apart < limit * (1 - 1e-9)):
                        return False
    return True


@DIAMETERS.check(
    "how far ResFormer's tokens are from half of what the last layer leaves of V_1, random layers: within tau / 2 h",
    states=0.5,
    control=0.01,
    wrong="a hundredth of tau times the bound before",
    kind="float64",
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
    unjudged=OF_VALUES,
)


@NEUTRENO_DEPTH.check(
    "all tokens attend to the first: the rank that is left of 4; and where the printed form grows, lambda = 0.4",
    states=(4, 6),
    control=(1, 3),
    wrong="the rank that ResFormer has there, and growth from three tokens on",
    kind="float64",
)
def neutreno_at_depth(version: tuple[int, int]) -> bool:
    """Rank at attention to one token, and the least number of tokens at which the printed form passes 1e6."""
    rank, tokens = version
    one, values = np.zeros((5, 5)), np.random.default_rng(1).standard_normal((5, 4))
    one[:, 0] = 1
    state = attended("neutreno", one, values)
    eigenvalues = np.linalg.eigvals(causal_attention(4)).real
    filtered = smoothing.depth_filters(resolve("neutreno", Shape(30, 1)))[-1](eigenvalues)
    if not np.allclose(filtered, smoothing.neutreno_limit(eigenvalues), rtol=0, atol=1e-5):
        return False
    few = [float(kept(0.5)) for kept in smoothing.depth_filters(resolve("neutreno", Shape(3, 1)))]
    if len(few) != 3 or not np.allclose(few, [0.5, 0.5 * 0.5 + 0.4 * 0.5, 0.5 * 0.45 + 0.4 * 0.55], rtol=1e-14):
        return False
    grows = [
        size
        for size in range(2, 9)
        if np.abs(attended("printed neutreno", causal_attention(size), np.ones((size, 1)), 150)).max() > 1e6
    ]
    return bool(np.linalg.matrix_rank(state, tol=1e-6) == rank and grows[0] == tokens)


@NEUTRENO_DEPTH.check(
    "the recursion at single eigenvalues, 200 layers: what is left of 0, 1/2 and 1 at lambda = 0.4",
    states=(0.4 / 1.4, 0.4 / 0.9, 1.0),
    control=(0.0, 0.5, 1.0),
    wrong="mu, as one layer of attention leaves it",
    kind="float64",
)
def eigenvalues_are_kept(left: tuple[float, ...]) -> bool:
    for mu, share in zip((0.0, 0.5, 1.0), left, strict=True):
        state = 1.0
        for _ in range(200):
            state = mu * state + 0.4 * (1 - state)
        if abs(state - share) > 1e-9 or abs(smoothing.neutreno_limit(mu) - share) > 1e-12:
            return False
    return True
