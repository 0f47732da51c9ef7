"""Claims on what is measured of a layer: Eqns. (11), (12) and (13)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.integrate import quad

from experiments.ledger.claim import Claim
from theory.prompts.moments import Array
from theory.resformer import measures
from theory.resformer.paper import PAPER


def attention_to(shares: Array, tokens: int) -> Array:
    """Causal attention whose queries give token j the share that it has among those not hidden."""
    weights = np.tril(np.tile(shares[:tokens], (tokens, 1)))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


EQN_11_SUM = Claim(
    "resformer.eqn11-sum",
    PAPER.name,
    place="section 4.1.3, Eqn. (11), the importance vector",
    statement="A token's importance is (1/l) sum_j A_ij, A lower triangular with l tokens.",
    assumes="rows of A sum to one",
    verdict="corrected",
    correction="(1/l) sum_i A_ij, over queries: the printed sum runs along a row and is 1/l for every token and any A, "
    "so that the entropy would be log l always.",
    proof=measures.token_importance,
    uses=("resformer.eqn11-sign",),
)


@EQN_11_SUM.check(
    "attention to the first token alone has an importance of one there, and entropy zero",
    states=measures.token_importance,
    control=lambda attention: attention.mean(axis=1),
    wrong="the row sum, as printed",
    kind="float64",
)
def importance_tells_a_sink(importance: Callable[[Array], Array]) -> bool:
    sink = np.zeros((6, 6))
    sink[:, 0] = 1
    found = importance(sink)
    return bool(found[0] == 1 and measures.entropy(found) == 0)


@EQN_11_SUM.check(
    "random causal attention: what differs between tokens, and its entropy between matrices",
    states=0,
    control=1,
    wrong="the row sum, as printed",
    kind="float64",
)
def columns_differ(axis: int) -> bool:
    """Means along an axis of (queries, tokens): the importance is one of them, and tells two matrices apart."""
    rng = np.random.default_rng(1)
    found = []
    for _ in range(2):
        attention = attention_to(rng.uniform(0.1, 3, 7), 7)
        mean = attention.mean(axis=axis)
        if axis == 0 and np.abs(mean - measures.token_importance(attention)).max() > 1e-15:
            return False
        found.append(measures.entropy(mean))
    return abs(found[0] - found[1]) > 1e-3


EQN_11_SIGN = Claim(
    "resformer.eqn11-sign",
    PAPER.name,
    place="section 4.1.3, after Eqn. (11)",
    statement="The higher the entropy, the more attention is clustered on a few tokens.",
    assumes="importance as corrected in resformer.eqn11-sum",
    verdict="corrected",
    correction="The lower, as the caption of Fig. 1 says.",
    proof=measures.entropy,
    unjudged={measures.token_importance: "an entropy is of shares: what they add up to makes no difference"},
)


@EQN_11_SIGN.check(
    "the entropy as attention goes from uniform to the first of 8 tokens",
    states=-1,
    control=1,
    wrong="it rises, as the text says",
    kind="float64",
)
def entropy_falls_as_attention_concentrates(sign: int) -> bool:
    found = [
        measures.entropy(measures.token_importance(attention_to(np.r_[t, np.ones(7)], 8))) for t in (1, 3, 30, 1e9)
    ]
    return bool(np.all(sign * np.diff(found) > 0) and found[-1] < 1e-6)


@EQN_11_SIGN.check(
    "known entropies: log l at equal importance, log 2 for two tokens, none for one",
    states=(np.log(6), np.log(2), 0.0),
    control=(0.0, np.log(2), np.log(6)),
    wrong="the largest for one token",
    kind="float64",
)
def entropies_are_known(values: tuple[float, float, float]) -> bool:
    cases = (np.ones(6), np.array([1.0, 1, 0, 0, 0, 0]), np.array([0, 0, 5.0, 0, 0, 0]))
    return all(abs(measures.entropy(case) - value) < 1e-12 for case, value in zip(cases, values, strict=True))


UNIFORM = Claim(
    "resformer.entropy-of-uniform",
    PAPER.ours,
    place="theory/resformer/measures.py, on Eqn. (11)",
    statement="Causal attention that is uniform over the past, and so concentrates on nothing, has an importance "
    "entropy of log l - (1 - gamma) for many tokens l: 0.42 nats below the largest, which attention to oneself has.",
    assumes="a causal mask; gamma Euler's constant",
    verdict="verified",
    proof=measures,
)


@UNIFORM.check(
    "the matrix itself at 512 tokens, and the closed form at 100,000, to 1e-3",
    states=1 - np.euler_gamma,
    control=0.0,
    wrong="log l, the largest",
    kind="float64",
)
def uniform_entropy(below: float) -> bool:
    attention = attention_to(np.ones(512), 512)
    closed = measures.uniform_causal_importance(512)
    if np.abs(measures.token_importance(attention) - closed).max() > 1e-14:
        return False
    for times in (1, 3):  # it is of shares: what the numbers add up to makes no difference
        if abs(measures.entropy(times * measures.token_importance(np.eye(512))) - np.log(512)) > 1e-12:
            return False
    many = measures.uniform_causal_importance(100_000)
    if abs(many.sum() - 1) > 1e-9:
        return False
    return bool(abs(np.log(100_000) - measures.entropy(many) - below) < 1e-3)


@UNIFORM.check(
    "the integral of x log x e^-x, by which the limit is proved, by quadrature",
    states=1 - np.euler_gamma,
    control=np.euler_gamma,
    wrong="gamma itself",
    kind="float64",
)
def limit_is_an_integral(value: float) -> bool:
    found = quad(lambda x: x * np.log(x) * np.exp(-x), 0, 60)[0]
    gap = np.log(20_000) - measures.entropy(measures.uniform_causal_importance(20_000))
    return bool(abs(found - value) < 1e-6 and abs(gap - found) < 1e-2)


EQN_12 = Claim(
    "resformer.eqn12-index",
    PAPER.name,
    place="section 4.1.4, Eqn. (12)",
    statement="The mean of v_i v_i^T has eigenvectors w_j with eigenvalues lambda_j; capacity is read off them.",
    assumes="one layer's values, as attended over",
    verdict="verified",
    correction="The line below it writes w_j and lambda_j `for i = 1, ..., d'.  Values are not centred, so that a "
    "large common mean is the largest eigenvalue.",
    proof=measures.value_spectrum,
)


@EQN_12.check(
    "known spectra: orthogonal rows, and one common mean of square length 25 beside them",
    states=[25.0, 2.25, 0.25],
    control=[2.25, 0.25, 0.0],
    wrong="the centred spectrum",
    kind="float64",
)
def spectrum_is_not_centred(eigenvalues: list[float]) -> bool:
    values = np.array([[5, 1.5, 0.5], [5, -1.5, 0.5], [5, 1.5, -0.5], [5, -1.5, -0.5]])
    return bool(np.allclose(measures.value_spectrum(values), eigenvalues, atol=1e-12))


@EQN_12.check(
    "eigenvalues of the mean of v v^T, summed token by token, for more and fewer tokens than numbers",
    states=1.0,
    control=2.0,
    wrong="sums, not means, over two tokens",
    kind="float64",
)
def eigenvalues_are_of_the_mean(times: float) -> bool:
    for tokens, width in ((2, 5), (9, 4)):
        values = np.random.default_rng(tokens).standard_normal((tokens, width))
        mean = sum(np.outer(v, v) for v in values) / tokens * times
        if np.abs(np.linalg.eigvalsh(mean)[::-1] - measures.value_spectrum(values)).max() > 1e-12:
            return False
    return True


EQN_13 = Claim(
    "resformer.eqn13",
    PAPER.name,
    place="appendix A.1, Eqn. (13)",
    statement="The mean cosine similarity of two different tokens' hidden states measures over-smoothing.",
    assumes="as a number between -1/(l-1) and 1; that it follows attention concentration is for trained models to show",
    verdict="verified",
    proof=measures.token_similarity,
)


@EQN_13.check(
    "the double sum on random states; a regular simplex, where it is least; equal states of any length, where it is 1",
    states=lambda tokens: tokens * (tokens - 1),
    control=lambda tokens: tokens**2,
    wrong="a mean over all pairs, equal ones included",
    kind="float64",
)
def similarity_is_a_mean_of_pairs(pairs: Callable[[int], int]) -> bool:
    rng = np.random.default_rng(2)
    simplex = np.eye(4) - 1 / 4
    equal = rng.uniform(1, 9, (4, 1)) * np.ones((4, 3))
    for states, known in ((rng.standard_normal((5, 3)), None), (simplex, -1 / 3), (equal, 1.0)):
        unit = states / np.linalg.norm(states, axis=1, keepdims=True)
        cosines = unit @ unit.T
        summed = (cosines.sum() - np.trace(cosines)) / pairs(len(states))
        found = measures.token_similarity(states)
        if abs(found - summed) > 1e-12 or (known is not None and abs(found - known) > 1e-12):
            return False
    return True


@EQN_13.check(
    "two tokens: the cosine of the angle between them, whatever their lengths",
    states=np.cos(0.7),
    control=0.7,
    wrong="the angle",
    kind="float64",
)
def two_tokens_have_a_cosine(value: float) -> bool:
    states = np.array([[3.0, 0.0], [5 * np.cos(0.7), 5 * np.sin(0.7)]])
    return abs(measures.token_similarity(states) - value) < 1e-14
