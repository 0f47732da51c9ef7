"""Claims on attention concentration, sinks and over-smoothing: what holds on any weights, and what training decides."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from experiments.ledger.claim import Claim
from experiments.toys.unjudged import OF_VALUES
from theory.plans.names import resolve
from theory.plans.plan import Shape
from theory.prompts.moments import Array
from theory.resformer import blocks, measures, smoothing
from theory.resformer.paper import PAPER

LAYERS = 40


def causal_attention(tokens: int, seed: int) -> Array:
    """A row-stochastic lower triangular matrix."""
    weights = np.tril(np.exp(np.random.default_rng(seed).standard_normal((tokens, tokens))))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def concentration(attention: Array) -> float:
    """The entropy of token importance, Eqn. (11)."""
    return measures.entropy(measures.token_importance(attention))


CONCENTRATION = Claim(
    "resformer.concentration",
    PAPER.name,
    place="introduction, Fig. 1 (middle, right), section 4.5 and appendix A.1",
    statement="Attention concentrates on fewer tokens as depth increases, in the order concentrated, dispersed, "
    "concentrated; ResFormer's stays dispersed in the deeper layers.",
    assumes="trained decoders; the entropy of Eqn. (11) as corrected",
    verdict="open",
    correction="Trained models decide it (text-layers).  As it is printed it does not agree with itself: "
    "`increasingly' with depth (introduction), a W over depth in Llama and Mistral, so that the last layers disperse "
    "(appendix A.1).  Where nothing but attention acts, one causal matrix in all layers, what reaches a token of layer "
    "1's values comes from the first token alone as depth grows, and from several with ResFormer; of a layer's own "
    "attention, which Eqn. (11) measures, that says nothing.",
    proof=smoothing,
    uses=("resformer.eqn11-sum", "resformer.eqn11-sign", "resformer.smoothing"),
    unjudged={**OF_VALUES},
)


@CONCENTRATION.check(
    "entropy of the importance of layer 1's tokens to layer 40's output, 6 causal tokens, five attentions: below "
    "0.01 nats, or above 1",
    states={"vanilla": False, "resformer": True, "svformer": True},
    control={"vanilla": True, "resformer": True, "svformer": True},
    wrong="dispersed in vanilla too",
    kind="float64",
)
def stacked_attention_concentrates(dispersed: Mapping[str, bool]) -> bool:
    """f_n(A), the matrix by which V_1 is mapped to the output: its rows sum to one."""
    for seed in range(5):
        attention = causal_attention(6, seed)
        for name, expected in dispersed.items():
            reach, power = np.zeros((6, 6)), np.eye(6)
            for coefficient in smoothing.depth_filters(resolve(name, Shape(LAYERS, 1)))[-1].coef:
                reach, power = reach + coefficient * power, power @ attention
            found = concentration(np.asarray(reach))
            if (found > 1) != expected or (found < 0.01) == expected:
                return False
    return True


@CONCENTRATION.check(
    "two heads, each with a sink of its own: the entropy of their mean, less the mean of their entropies",
    states=np.log(2),
    control=0.0,
    wrong="no difference, whichever is averaged",
    kind="float64",
)
def averaging_heads_first_hides_sinks(difference: float) -> bool:
    heads = np.zeros((2, 5, 5))
    heads[0, :, 0], heads[1, :, 1] = 1, 1
    found = concentration(heads.mean(axis=0)) - (concentration(heads[0]) + concentration(heads[1])) / 2
    return abs(found - difference) < 1e-12


SINKS = Claim(
    "resformer.sinks",
    PAPER.name,
    place="abstract, section 4.5, Figs. 10 and 11, appendix A.2, Fig. 19",
    statement="Vanilla's and NeuTRENO's first token is an attention sink with drained values and a peak of its hidden "
    "state; ResFormer lessens all three by preventing the drain: values of 0.7 times the other tokens', hidden states "
    "of three times.",
    assumes="trained decoders",
    verdict="open",
    correction="Trained models decide it (text-layers).  What holds on any weights: a sink of value zero "
    "scales what is attended to beside it by the share that it leaves, and to take a share p of l tokens it needs a "
    "score above theirs that grows as log l, so that shares of two lengths do not compare.",
    proof=blocks,
    uses=("resformer.gate",),
)


@SINKS.check(
    "attention to a sink of value zero and to 5 other tokens: that to the others alone, times their share of the mass",
    states=lambda share: share,
    control=lambda share: 1.0,
    wrong="the others' attention unchanged",
    kind="float64",
)
def a_drained_sink_scales(scale: Callable[[Array], Array | float]) -> bool:
    rng = np.random.default_rng(4)
    for sink in (-2.0, 0.0, 6.0):
        scores, values = [np.full((3, 1), sink), rng.standard_normal((3, 5))], rng.standard_normal((5, 4))
        with_sink = blocks.cross_layer_attention(scores, [np.zeros((1, 4)), values])
        share = blocks.gates(scores)[1][:, None]
        if np.abs(with_sink - scale(share) * blocks.attention(scores[1], values)).max() > 1e-13:
            return False
    return True


@SINKS.check(
    "the score above all others that gives a token a share of 0.1 and 0.8 of 8 to 4,096 tokens",
    states=lambda share, tokens: np.log(share / (1 - share)) + np.log(tokens - 1),
    control=lambda share, tokens: np.log(share / (1 - share)) + np.log(7),
    wrong="the same score at every length",
    kind="float64",
)
def sinks_need_more_in_long_texts(score: Callable[[float, int], float]) -> bool:
    for share in (0.1, 0.8):
        for tokens in (8, 64, 4096):
            scores = [np.array([[score(share, tokens)]]), np.zeros((1, tokens - 1))]
            if abs(blocks.gates(scores)[0, 0] - share) > 1e-12:
                return False
    return True


UNIFORM_SINK = Claim(
    "resformer.sink-of-uniform",
    PAPER.ours,
    place="theory/resformer/measures.py; bears on appendix A.2, Fig. 19 (first row)",
    statement="Causal attention that is uniform over the past gives the first of l tokens H_l = 1 + 1/2 + ... + 1/l "
    "times the mean importance, 8.2 times at 2,048 tokens, and 11.8 times the median token's.  So `less than 10 "
    "times' that of other tokens may be said where there is no sink at all.",
    assumes="a causal mask; importance as corrected in resformer.eqn11-sum",
    verdict="verified",
    proof=measures.uniform_causal_importance,
    uses=("resformer.entropy-of-uniform",),
)


@UNIFORM_SINK.check(
    "importance of the first of 2,048 tokens over the mean and over the median, to a tenth",
    states=(8.2, 11.8),
    control=(1.0, 1.0),
    wrong="as much as any other",
    kind="float64",
)
def first_of_many(ratios: tuple[float, float]) -> bool:
    importance = measures.uniform_causal_importance(2048)
    found = importance[0] / importance.mean(), importance[0] / np.median(importance)
    return all(abs(a - b) < 0.1 for a, b in zip(found, ratios, strict=True))


@UNIFORM_SINK.check(
    "the ratio to the mean from the attention itself, 1 to 300 tokens",
    states=lambda tokens: sum(1 / i for i in range(1, tokens + 1)),
    control=lambda tokens: np.log(tokens),
    wrong="log l",
    kind="float64",
)
def ratio_is_harmonic(ratio: Callable[[int], float]) -> bool:
    for tokens in (1, 2, 7, 300):
        attention = np.tril(np.ones((tokens, tokens)))
        importance = measures.token_importance(attention / attention.sum(axis=1, keepdims=True))
        if abs(importance[0] * tokens - ratio(tokens)) > 1e-10:
            return False
    return True
