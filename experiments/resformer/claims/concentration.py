"""Claims on attention concentration and value drains, sections 1 and 2.1."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from experiments.ledger.claim import Claim, Conditions, at
from experiments.resformer.claims.smoothing import causal_attention
from experiments.toys.unjudged import OF_VALUES, OF_VALUES_IN_A_TABLE
from theory.plans import mix
from theory.plans.names import resolve
from theory.plans.plan import Shape
from theory.plans.variants import VARIANTS
from theory.prompts.moments import Array
from theory.resformer import blocks, drains, measures, smoothing
from theory.resformer.paper import PAPER

ROUNDING = 1e3 * np.finfo(float).eps
ANY_MEAN = "which values are mixed makes no difference, if their weights sum to one"

LOW_QUALITY = Claim(
    "resformer.low-quality",
    PAPER.name,
    place="section 3.1, before Eqn. (2)",
    statement="A layer whose keys match the query poorly gets little weight in cross-layer attention, which limits the "
    "harm that it does.",
    assumes="poorly: its scores lie below the own layer's",
    verdict="corrected",
    correction="True of Eqn. (2): scores that are lower by Delta leave it 1 / (1 + e^Delta).  Lost in Eqns. (3) to "
    "(5) and (7), which the paper derives from it: with layer n's keys an earlier layer has the weight of layer n, "
    "whatever its quality.",
    proof=blocks.gates,
    uses=("resformer.gate", "resformer.eqns-3-5"),
)


@LOW_QUALITY.check(
    "the share of an earlier layer whose scores are lower by 0, 1 and 10",
    states=lambda delta: 1 / (1 + np.exp(delta)),
    control=lambda _delta: 0.5,
    wrong="a half, as in the block form",
)
def poor_layers_get_little(share: Callable[[float], float]) -> bool:
    own = np.random.default_rng(1).standard_normal((3, 5))
    return all(
        np.abs(blocks.gates([own, own - delta])[1] - share(delta)).max() < ROUNDING for delta in (0.0, 1.0, 10.0)
    )


@LOW_QUALITY.check(
    "how far the output follows values of the earlier layer that are off by 1 everywhere, its scores lower by 10: by "
    "Eqn. (2), and by its block form",
    states={"cross": 1 / (1 + np.exp(10)), "block": 0.5},
    control={"cross": 1 / (1 + np.exp(10)), "block": 1 / (1 + np.exp(10))},
    wrong="as little in the block form",
)
def block_form_follows_poor_values(moved: Mapping[str, float]) -> bool:
    rng = np.random.default_rng(2)
    own, (values, earlier) = rng.standard_normal((3, 5)), rng.standard_normal((2, 5, 4))

    def output(name: str, poor: Array) -> Array:
        if name == "cross":
            return blocks.cross_layer_attention([own, own - 10], [values, poor])
        return blocks.block_attention(own, [values, poor])

    return all(
        np.abs(output(name, earlier + 1) - output(name, earlier) - by).max() < ROUNDING for name, by in moved.items()
    )


EMBEDDING_SPACE = Claim(
    "resformer.embedding-space",
    PAPER.name,
    place="section 3.2, after Eqn. (5)",
    statement="Eqn. (3) projects historical values into the current layer's embedding space, with the current layer's "
    "attention as the matrix.",
    assumes="one head; A_n acts on tokens, from the left",
    verdict="corrected",
    correction="It mixes tokens and leaves the embedding space alone: rows of A_n V_m are means of rows of V_m, in the "
    "same coordinates, so in V_m's row space and within its range entry by entry.  What layer n makes of those "
    "coordinates is its output projection, which has to read V_n and V_m alike.",
    proof=blocks.attention,
    unjudged={**OF_VALUES, mix.v: ANY_MEAN, mix.total: ANY_MEAN, VARIANTS["resformer-all"].make: ANY_MEAN},
)


@EMBEDDING_SPACE.check(
    "values of a 2-dimensional row space in 5 coordinates, 20 draws: the rank of values and output together",
    states=2,
    control=3,
    wrong="a new direction",
)
def row_space_stays(rank: int) -> Conditions:
    for seed in range(20):
        rng = np.random.default_rng(seed)
        values = rng.standard_normal((6, 2)) @ rng.standard_normal((2, 5))
        out = blocks.attention(3 * rng.standard_normal((6, 6)), values)
        yield np.linalg.matrix_rank(np.concatenate([values, out])) == rank


@EMBEDDING_SPACE.check(
    "outputs within the least and the largest entry of the values, times what their weights in Eqns. (5) and (6) sum "
    "to",
    states={"resformer-all": 1.0, "identity-mapping": 2.0},
    control={"resformer-all": 1.0, "identity-mapping": 1.0},
    wrong="Eqn. (6) too",
)
def outputs_are_means(sums: Mapping[str, float]) -> Conditions:
    """Check layer 3 of the plan where all values are 1 in one coordinate and between 1/2 and 1 in the others."""
    rng = np.random.default_rng(4)
    values = {n: np.c_[np.ones(6), rng.uniform(0.5, 1, (6, 3))] for n in (1, 2, 3)}
    for name, total in sums.items():
        head = resolve(name, Shape(3, 1)).head(3, 1)
        attended, beside = (
            sum(t.start * values[t.source.layer] for t in m.terms) for m in (head.values[0], head.beside)
        )
        out = blocks.attention(rng.standard_normal((6, 6)), np.asarray(attended)) + beside
        yield np.abs(out[:, 0] - total).max() <= ROUNDING
        yield out.min() >= total / 2
        yield out.max() <= total + ROUNDING


LAYERS = 40


def concentration(attention: Array) -> float:
    """Return the entropy of token importance, Eqn. (11)."""
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
    unjudged=OF_VALUES_IN_A_TABLE,
)


@CONCENTRATION.check(
    "entropy of the importance of layer 1's tokens to layer 40's output, 6 causal tokens, five attentions: below "
    "0.01 nats, or above 1",
    states={"vanilla": False, "resformer": True, "svformer": True},
    control={"vanilla": True, "resformer": True, "svformer": True},
    wrong="dispersed in vanilla too",
)
def stacked_attention_concentrates(dispersed: Mapping[str, bool]) -> Conditions:
    """Check f_n(A), the matrix by which V_1 is mapped to the output: its rows sum to one."""
    for seed in range(5):
        attention = causal_attention(6, seed)
        for name, expected in dispersed.items():
            reach, power = np.zeros((6, 6)), np.eye(6)
            for coefficient in smoothing.depth_filters(resolve(name, Shape(LAYERS, 1)))[-1].coef:
                reach, power = reach + coefficient * power, power @ attention
            found = concentration(np.asarray(reach))
            yield (found > 1) == expected
            yield (found < 0.01) != expected


@CONCENTRATION.check(
    "two heads, each with a sink of its own: the entropy of their mean, less the mean of their entropies",
    states=np.log(2),
    control=0.0,
    wrong="no difference, whichever is averaged",
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
)
def a_drained_sink_scales(scale: Callable[[Array], Array | float]) -> Conditions:
    rng = np.random.default_rng(4)
    for sink in (-2.0, 0.0, 6.0):
        scores, values = [np.full((3, 1), sink), rng.standard_normal((3, 5))], rng.standard_normal((5, 4))
        with_sink = blocks.cross_layer_attention(scores, [np.zeros((1, 4)), values])
        share = blocks.gates(scores)[1][:, None]
        yield np.abs(with_sink - scale(share) * blocks.attention(scores[1], values)).max() <= 1e-13


@SINKS.check(
    "the score above all others that gives a token a share of 0.1 and 0.8 of 8 to 4,096 tokens",
    states=lambda share, tokens: np.log(share / (1 - share)) + np.log(tokens - 1),
    control=lambda share, tokens: np.log(share / (1 - share)) + np.log(7),
    wrong="the same score at every length",
)
def sinks_need_more_in_long_texts(score: Callable[[float, int], float]) -> Conditions:
    for share in (0.1, 0.8):
        for tokens in (8, 64, 4096):
            scores = [np.array([[score(share, tokens)]]), np.zeros((1, tokens - 1))]
            yield abs(blocks.gates(scores)[0, 0] - share) <= 1e-12


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
)
def ratio_is_harmonic(ratio: Callable[[int], float]) -> Conditions:
    for tokens in (1, 2, 7, 300):
        attention = np.tril(np.ones((tokens, tokens)))
        importance = measures.token_importance(attention / attention.sum(axis=1, keepdims=True))
        yield abs(importance[0] * tokens - ratio(tokens)) <= 1e-10


def mean_variation(attention: Array) -> float:
    """Return the mean total variation of two rows of attention, the two drawn at random.

    It is at most 2 (1 - a_max), a_max the largest importance: a row is at 1 - A_ij from attention to token j alone,
    which in the mean over rows is 1 - a_j, and two rows are no further apart than the sum of that.
    """
    return float(np.abs(attention[:, None] - attention[None]).sum(axis=-1).mean() / 2)


SIMILARITY = Claim(
    "resformer.concentration-and-similarity",
    PAPER.name,
    place="appendix A.1, on Fig. 18",
    statement="Attention concentration tends to make tokens alike; that similarity over depth is an M where entropy is "
    "a W suggests that concentration leads to over-smoothing.",
    assumes="one layer of attention and nothing else; concentration by Eqn. (11) as corrected",
    verdict="corrected",
    correction="It is enough, as two rows of attention differ by at most 2 (1 - a_max) in the mean, but it "
    "is not needed: with the largest entropy there is, log l, attention to oneself leaves tokens as they are and "
    "attention spread evenly makes them all one.  What counts is how far rows differ "
    "(resformer.smoothing-any-layers); two curves that mirror each other show no cause.",
    proof=mean_variation,
    uses=("resformer.eqn11-sum", "resformer.eqn13"),
    unjudged={
        at(
            mean_variation,
            "np.abs(attention[:, None] - attention[None]).sum(axis=-1) -> "
            "np.abs(attention[:, None] - attention[None]).sum(axis=-2)",
        ): "the mean over all else follows, and all three axes are as long: it is the same whichever is summed",
    },
)


@SIMILARITY.check(
    "entropy less the largest, Dobrushin's coefficient and similarity of the output, 5 orthogonal tokens",
    states={"oneself": (0.0, 1.0, 0.0), "evenly": (0.0, 0.0, 1.0), "one token": (-np.log(5), 0.0, 1.0)},
    control={"oneself": (0.0, 1.0, 0.0), "evenly": (0.0, 1.0, 0.0), "one token": (-np.log(5), 0.0, 1.0)},
    wrong="one similarity for one entropy",
)
def entropy_does_not_tell(found: Mapping[str, tuple[float, float, float]]) -> Conditions:
    one = np.zeros((5, 5))
    one[:, 2] = 1
    cases = {"oneself": np.eye(5), "evenly": np.full((5, 5), 1 / 5), "one token": one}
    for name, (entropy, variation, similarity) in found.items():
        a = cases[name]
        told = concentration(a) - np.log(5), smoothing.dobrushin(a), measures.token_similarity(a @ np.eye(5))
        yield np.abs(np.subtract(told, (entropy, variation, similarity))).max() <= 1e-12


@SIMILARITY.check(
    "rows of 200 random attentions differ in the mean by at most 2 (1 - a_max); nearly attained by one row in 40 that "
    "attends elsewhere",
    states=2.0,
    control=1.9,
    wrong="5 % tighter",
)
def concentrated_rows_are_alike(factor: float) -> bool:
    rng = np.random.default_rng(3)
    odd_one = np.zeros((40, 40))
    odd_one[:, 0], odd_one[-1] = 1, np.eye(40)[1]
    spread = [rng.dirichlet(np.full(6, size), 6) for size in (0.05, 0.3, 2.0, 20.0) for _ in range(50)]
    bounds = [(mean_variation(a), factor * (1 - measures.token_importance(a).max())) for a in (*spread, odd_one)]
    return all(found <= bound + 1e-12 for found, bound in bounds) and bounds[-1][0] > 0.97 * bounds[-1][1]


LENGTH = Claim(
    "resformer.concentration-length",
    PAPER.name,
    place="appendix A.2, Fig. 20",
    statement="ResFormer mitigates attention concentration the more, the shorter the sequences are.",
    assumes="trained decoders; entropies in nats",
    verdict="open",
    correction="Trained models decide it; no question asks it yet.  Entropies at two lengths have two ceilings: if "
    "the first token takes a share p whatever the length and the rest is spread evenly, entropy grows by (1 - p) log "
    "2 a doubling, so that a difference of two models' grows with the length while neither's concentration changes.  "
    "Compared must be shares, or entropies below that of attention spread evenly.",
    proof=measures,
    uses=("resformer.entropy-of-uniform",),
)


@LENGTH.check(
    "what entropy gains as 256 tokens become 512, the first with a share of 0, 0.2 and 0.8, to 0.01 nats",
    states=lambda share: (1 - share) * np.log(2),
    control=lambda share: np.log(2),
    wrong="log 2, whatever the share",
)
def entropy_of_a_fixed_share(gain: Callable[[float], float]) -> Conditions:
    """Compare entropies of what tokens receive from n queries in all, which adds up to n."""
    for share in (0.0, 0.2, 0.8):
        short, long = (measures.entropy(n * np.r_[share, np.full(n - 1, (1 - share) / (n - 1))]) for n in (256, 512))
        yield abs(long - short - gain(share)) <= 1e-2


@LENGTH.check(
    "the same share of sinks, 0.8 and 0.3: the difference of two models' entropies at 64, 512 and 4,096 tokens",
    states=1,
    control=-1,
    wrong="it falls with the length",
)
def differences_grow_with_length(sign: int) -> Conditions:
    differences = []
    for tokens in (64, 512, 4096):
        even = measures.uniform_causal_importance(tokens)
        yield abs(even.sum() - 1) <= 1e-12
        first = np.eye(1, tokens)[0]
        sunk, spread = (measures.entropy(share * first + (1 - share) * even) for share in (0.8, 0.3))
        differences.append(spread - sunk)
    yield bool(np.all(sign * np.diff(differences) > 0))


DRAINS = Claim(
    "resformer.value-drains",
    PAPER.name,
    place="abstract and appendix A.2, Fig. 19 (also section 4.5, Fig. 10)",
    statement="The start token's value state is about 0.7 times as long as the others' in ResFormer, unlike in vanilla "
    "and NeuTRENO: value-state drains are avoided.",
    assumes="that what heads attend over is shown, (V_n + V_1)/2, of which the paper does not tell",
    verdict="corrected",
    correction="0.7 does not show it: where a layer's own value drains to nothing, and values are otherwise as long as "
    "layer 1's and at right angles to them, what is seen is 1/sqrt 2 = 0.71.  At right angles the drain that is left "
    "to be seen is sqrt((c^2 r_n^2 + r_1^2) / (c^2 + 1)), and it returns as the layer's own values grow, c times layer "
    "1's.",
    proof=drains,
)


def lengths(r_n: float, r_1: float, c: float, own: float, first: float) -> tuple[float, float]:
    """Return the lengths of own v_n + first v_1 for the token and for another one, v_n and v_1 along two axes."""
    token = np.array([own * c * r_n, first * r_1])
    other = np.array([own * c, first])
    return float(np.linalg.norm(token)), float(np.linalg.norm(other))


@DRAINS.check(
    "values along two axes: a drain that is total, one that is none, weights 0.3 and 0.9; and the printed number",
    states=lambda r_n, r_1, c, own, first: drains.seen_drain(r_n, r_1, c, own=own, first=first),
    control=lambda r_n, r_1, _c, own, first: (own * r_n + first * r_1) / (own + first),
    wrong="the mean of both layers' drains",
)
def drains_are_seen(seen: Callable[[float, float, float, float, float], float]) -> Conditions:
    for case in ((0.0, 1.0, 1.0, 0.5, 0.5), (1.0, 1.0, 3.0, 0.5, 0.5), (0.2, 0.7, 2.0, 0.3, 0.9)):
        token, other = lengths(*case)
        yield abs(token / other - seen(*case)) <= 1e-12
    yield abs(drains.seen_drain(0.0, 1.0, 1.0) - 0.5**0.5) < 1e-12


@DRAINS.check(
    "500 random pairs, weights 1/2 and 1/2 and 0.3 and 0.9, stay above (a), and those in opposite directions attain it",
    states=1.0,
    control=1.01,
    wrong="1 % higher",
)
def lengths_stay_above(factor: float) -> Conditions:
    rng = np.random.default_rng(5)
    for own, first in ((0.5, 0.5), (0.3, 0.9)):
        for _ in range(250):
            v_n, v_1 = rng.standard_normal((2, 3))
            opposite = -v_1 * np.linalg.norm(v_n) / np.linalg.norm(v_1)
            bound = factor * drains.least_attended(float(np.linalg.norm(v_n)), float(np.linalg.norm(v_1)), own, first)
            yield np.linalg.norm(own * v_n + first * v_1) >= bound * (1 - 1e-9)
            yield abs(np.linalg.norm(own * opposite + first * v_1) - bound) <= 1e-9
