"""Claims on the paper's measures, on value states and anchors, and on how near a block form is."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.polynomial import Polynomial
from scipy.integrate import quad

from experiments.ledger.claim import Claim, Conditions
from experiments.resformer.printed import printed
from experiments.toys.unjudged import OF_COUNTS, OF_VALUES, OF_VALUES_IN_A_TABLE
from theory.plans.accounting import cache
from theory.plans.names import model, resolve
from theory.plans.plan import Shape
from theory.plans.variants import VARIANTS
from theory.prompts.moments import Array
from theory.resformer import blocks, measures, smoothing
from theory.resformer.paper import PAPER


def attention_to(shares: Array, tokens: int) -> Array:
    """Return causal attention whose queries give token j the share that it has among those not hidden."""
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
)
def columns_differ(axis: int) -> Conditions:
    """Means along an axis of (queries, tokens): the importance is one of them, and tells two matrices apart."""
    rng = np.random.default_rng(1)
    found = []
    for _ in range(2):
        attention = attention_to(rng.uniform(0.1, 3, 7), 7)
        mean = attention.mean(axis=axis)
        if axis == 0:
            yield np.abs(mean - measures.token_importance(attention)).max() <= 1e-15
        found.append(measures.entropy(mean))
    yield abs(found[0] - found[1]) > 1e-3


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
)
def uniform_entropy(below: float) -> Conditions:
    attention = attention_to(np.ones(512), 512)
    closed = measures.uniform_causal_importance(512)
    yield np.abs(measures.token_importance(attention) - closed).max() <= 1e-14
    for times in (1, 3):  # it is of shares: what the numbers add up to makes no difference
        yield abs(measures.entropy(times * measures.token_importance(np.eye(512))) - np.log(512)) <= 1e-12
    many = measures.uniform_causal_importance(100_000)
    yield abs(many.sum() - 1) <= 1e-9
    yield bool(abs(np.log(100_000) - measures.entropy(many) - below) < 1e-3)


@UNIFORM.check(
    "the integral of x log x e^-x, by which the limit is proved, by quadrature",
    states=1 - np.euler_gamma,
    control=np.euler_gamma,
    wrong="gamma itself",
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
)
def spectrum_is_not_centred(eigenvalues: list[float]) -> bool:
    values = np.array([[5, 1.5, 0.5], [5, -1.5, 0.5], [5, 1.5, -0.5], [5, -1.5, -0.5]])
    return bool(np.allclose(measures.value_spectrum(values), eigenvalues, atol=1e-12))


@EQN_12.check(
    "eigenvalues of the mean of v v^T, summed token by token, for more and fewer tokens than numbers",
    states=1.0,
    control=2.0,
    wrong="sums, not means, over two tokens",
)
def eigenvalues_are_of_the_mean(times: float) -> Conditions:
    for tokens, width in ((2, 5), (9, 4)):
        values = np.random.default_rng(tokens).standard_normal((tokens, width))
        mean = sum(np.outer(v, v) for v in values) / tokens * times
        yield np.abs(np.linalg.eigvalsh(mean)[::-1] - measures.value_spectrum(values)).max() <= 1e-12


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
)
def similarity_is_a_mean_of_pairs(pairs: Callable[[int], int]) -> Conditions:
    rng = np.random.default_rng(2)
    simplex = np.eye(4) - 1 / 4
    equal = rng.uniform(1, 9, (4, 1)) * np.ones((4, 3))
    for states, known in ((rng.standard_normal((5, 3)), None), (simplex, -1 / 3), (equal, 1.0)):
        unit = states / np.linalg.norm(states, axis=1, keepdims=True)
        cosines = unit @ unit.T
        summed = (cosines.sum() - np.trace(cosines)) / pairs(len(states))
        found = measures.token_similarity(states)
        yield abs(found - summed) <= 1e-12
        if known is not None:
            yield abs(found - known) <= 1e-12


@EQN_13.check(
    "two tokens: the cosine of the angle between them, whatever their lengths",
    states=np.cos(0.7),
    control=0.7,
    wrong="the angle",
)
def two_tokens_have_a_cosine(value: float) -> bool:
    states = np.array([[3.0, 0.0], [5 * np.cos(0.7), 5 * np.sin(0.7)]])
    return abs(measures.token_similarity(states) - value) < 1e-14


FIG_12 = Claim(
    "resformer.fig-12",
    PAPER.name,
    place="abstract and section 4.5, Fig. 12",
    statement="Values of most layers have larger eigenvalues in ResFormer than in vanilla, and so a stronger capacity "
    "to represent.",
    assumes="trained decoders; eigenvalues of Eqn. (12), their largest and their mean",
    verdict="open",
    correction="Trained models decide which are larger (text-layers).  That larger means stronger does not "
    "follow: c W_V with W_O / c is the same model with eigenvalues c^2 times as large, and the mean eigenvalue is the "
    "mean square of a value's entries.  It must be said whether a layer's own values are meant or the mixed ones: of "
    "values as long as layer 1's and uncorrelated with them Eqn. (7) halves the mean, and the largest root is at most "
    "the mean of both.",
    proof=measures.value_spectrum,
    uses=("resformer.eqn12-index",),
    unjudged={**OF_VALUES},
)


@FIG_12.check(
    "the largest eigenvalue of mixed values, by that of either layer's and the plan's weights: 300 draws below, values "
    "along one direction at it",
    states=2.0,
    control=1.0,
    wrong="a mean of the eigenvalues, not of their roots",
)
def mixing_bounds_the_largest(power: float) -> Conditions:
    """sigma_1 is a norm: sqrt(lambda_1) of a sum is at most the sum of those of its parts."""
    rng = np.random.default_rng(5)
    spread = [rng.standard_normal((2, 6, 4)) * np.array([rng.uniform(0.1, 3), 1.0])[:, None, None] for _ in range(300)]
    along = np.outer(rng.standard_normal(6), rng.standard_normal(4)) * np.array([3.0, 0.5])[:, None, None]
    terms = resolve("resformer", Shape(2, 1)).head(2, 1).values[0].terms
    for values in (*spread, along):
        largest = [measures.value_spectrum(v)[0] for v in values]
        mixed = sum(term.start * values[term.source.layer - 1] for term in terms)
        bound = sum(term.start * largest[term.source.layer - 1] ** (1 / power) for term in terms) ** power
        found = measures.value_spectrum(np.asarray(mixed))[0]
        yield found <= bound * (1 + 1e-9)
        if values is along:
            yield found >= bound * (1 - 1e-9)


@FIG_12.check(
    "the mean eigenvalue of values mixed from two layers of one length, uncorrelated, times the width: mean squares by "
    "the plan's weights, 40,000 tokens, to 3 %",
    states={"vanilla": 1.0, "resformer": 0.5, "resformer-constant": 5.0},
    control={"vanilla": 1.0, "resformer": 1.0, "resformer-constant": 1.0},
    wrong="the same for all",
    kind="sampled",
)
def mean_eigenvalue_is_a_mean_square(times: dict[str, float]) -> Conditions:
    values = dict(enumerate(np.random.default_rng(6).standard_normal((3, 40_000, 5)), 1))
    for name, expected in times.items():
        terms = resolve(name, Shape(3, 1)).head(3, 1).values[0].terms
        mixed = np.sum([term.start * values[term.source.layer] for term in terms], axis=0)
        mean = measures.value_spectrum(mixed).mean()
        yield abs(mean / (mixed**2).mean() - 1) <= 1e-9
        yield abs(mean / expected - 1) <= 0.03


NO_FILTER = "filters are of values: any plan that leaves values alone has vanilla's"

EFFECTIVE_DEPTH = Claim(
    "resformer.effective-depth",
    PAPER.name,
    place="section 4.8: sharing the first layer's values may reduce the effective depth; anchors mend it",
    statement="With nothing but attention, one matrix A in all layers, SVFormer with a anchors applies A exactly a "
    "times, whatever the number of layers: its effective depth is the number of layers with values of their own.  "
    "Sharing keys or queries leaves A applied once a layer.",
    assumes="nothing but attention; of models with feed-forwards and residuals the losses must tell (resformer.fig-17)",
    verdict="verified",
    proof=smoothing.depth_filters,
    unjudged={
        **OF_VALUES_IN_A_TABLE,
        VARIANTS["shared-queries"].make: NO_FILTER,
        VARIANTS["shared-keys"].make: NO_FILTER,
    },
)


@EFFECTIVE_DEPTH.check(
    "the filter at 6 layers, for seven choices of anchors, is mu to the power of their number",
    states=len,
    control=lambda anchors: 6,
    wrong="the number of layers",
    kind="exact",
)
def anchors_are_depth(depth: Callable[[tuple[int, ...]], int]) -> Conditions:
    for anchors in ((1,), (1, 2), (1, 4), (1, 6), (1, 3, 5), (1, 2, 3, 4, 5), (1, 2, 3, 4, 5, 6)):
        plan = resolve(f"svformer:anchors={anchors}", Shape(6, 2))
        power = Polynomial([0] * depth(anchors) + [1])
        yield (smoothing.depth_filters(plan)[-1] - power).trim() == Polynomial([0.0])


@EFFECTIVE_DEPTH.check(
    "the power of mu after 1 to 5 layers, of what shares values, keys and queries",
    states={"svformer": lambda n: 1, "shared-keys": lambda n: n, "shared-queries": lambda n: n, "vanilla": lambda n: n},
    control={"svformer": lambda n: n, "shared-keys": lambda n: n, "shared-queries": lambda n: n},
    wrong="shared values leave depth as it is",
    kind="exact",
)
def only_values_carry_depth(powers: Mapping[str, Callable[[int], int]]) -> Conditions:
    for name, power in powers.items():
        for n, found in enumerate(smoothing.depth_filters(resolve(name, Shape(5, 1))), 1):
            yield (found - Polynomial([0] * power(n) + [1])).trim() == Polynomial([0.0])


FIG_17 = Claim(
    "resformer.fig-17",
    PAPER.name,
    place="section 4.8, Fig. 17",
    statement="SVFormer's loss falls as more layers renew the shared values.",
    assumes="the training of section 4.1.1, one run each",
    verdict="open",
    correction="Training decides it; no question asks it yet.  What holds without: each anchor "
    "gives back 1/(2 L) of the cache, and with all of them SVFormer is vanilla, so that the curve ends at vanilla's "
    "loss.",
    proof=cache,
    uses=("resformer.effective-depth", "resformer.costs"),
    unjudged=OF_COUNTS,
)


@FIG_17.check(
    "layers whose keys and whose values are cached, with 1 to 8 anchors in 8 layers of width 512; in vanilla all, so "
    "that each anchor gives back 1/16",
    states=lambda anchors: (8, anchors),
    control=lambda anchors: (8, 1),
    wrong="one layer's values, whatever the anchors",
    kind="exact",
    others={"keys shared, and not values": lambda anchors: (anchors, 8)},
)
def anchors_are_cached(layers: Callable[[int], tuple[int, int]]) -> Conditions:
    whole = cache(*model("llama-82m", "vanilla"))
    yield whole.keys == whole.values == (512,) * 8
    for count in range(1, 9):
        kept = cache(*model("llama-82m", f"svformer:anchors={tuple(range(1, count + 1))}"))
        yield (sum(kept.keys), sum(kept.values)) == tuple(512 * n for n in layers(count))
        yield kept.total * 16 == whole.total * sum(layers(count))


@FIG_17.check(
    "with an anchor in every layer the plan is vanilla's",
    states=(1, 2, 3, 4),
    control=(1, 2, 3),
    wrong="all layers but one",
    kind="exact",
)
def all_anchors_are_vanilla(anchors: tuple[int, ...]) -> bool:
    shape = Shape(4, 2)
    return resolve(f"svformer:anchors={anchors}", shape) == resolve("vanilla", shape)


FIG_3 = Claim(
    "resformer.fig-3",
    PAPER.name,
    place="section 3.2, Fig. 3",
    statement="The output of Eqn. (3) is nearer in direction to that of Eqn. (2) than the output of Eqn. (6) is.",
    assumes="a trained vanilla decoder, each layer with the one before it",
    verdict="open",
    correction="Only the weights of trained models decide it (text-layers).  It is no identity: keys that agree make "
    "Eqn. (3) exact, but keys of layer m with which each token finds itself make Eqn. (6) the nearer one.",
    proof=blocks.block_attention,
    uses=("resformer.eqns-3-5", "resformer.gate"),
)


def cosine(a: Array, b: Array) -> float:
    return float((a * b).sum() / np.sqrt((a * a).sum() * (b * b).sum()))


@FIG_3.check(
    "whether Eqn. (3) is nearer, 20 draws: where layer m's keys are layer n's, and where each token finds itself there",
    states={"the same keys": True, "itself": False},
    control={"the same keys": True, "itself": True},
    wrong="nearer whatever the keys",
)
def nearness_hangs_on_the_keys(nearer: Mapping[str, bool]) -> Conditions:
    for seed in range(20):
        rng = np.random.default_rng(seed)
        own, values = rng.standard_normal((6, 6)), rng.standard_normal((2, 6, 8))
        for case, expected in nearer.items():
            scores = own if case == "the same keys" else 9 * np.eye(6)
            cross = blocks.cross_layer_attention([own, scores], list(values))
            block = blocks.block_attention(own, list(values))
            identity = blocks.attention(own, values[0]) + values[1]
            yield (cosine(cross, block) > cosine(cross, identity)) == expected


@FIG_3.check(
    "1 less the cosine falls as the square of the distance of the scores, to 10 %",
    states=2,
    control=1,
    wrong="as the distance",
)
def cosine_is_of_second_order(order: int) -> bool:
    rng = np.random.default_rng(1)
    own, away, values = rng.standard_normal((5, 5)), rng.standard_normal((5, 5)), rng.standard_normal((2, 5, 7))
    block = blocks.block_attention(own, list(values))
    short = [
        1 - cosine(blocks.cross_layer_attention([own, own + eps * away], list(values)), block) for eps in (2e-3, 1e-3)
    ]
    return abs(short[0] / short[1] / 2**order - 1) < 0.1


FIGS_3_AND_8 = Claim(
    "resformer.figs-3-and-8",
    PAPER.name,
    place="section 4.3, on Fig. 8",
    statement="The losses of Fig. 8 align with the similarities of Fig. 3: the identity mapping is poor in both.",
    assumes="the words on the two figures; cross-layer attention has similarity 1 to itself",
    verdict="verified",
    correction="The paper's next sentence is the exception, the current attention ahead of the gold one: of three "
    "pairs of mappings two are in the order of nearness to Eqn. (2) and one is not.  So nearness, for which Eqns. (3) "
    "to (5) are derived, is not all that lowers the loss.",
    proof=None,
)


def orders_that_differ(best_first: tuple[str, ...]) -> int:
    """Pairs of mappings that Fig. 8's words put in another order than `best_first`."""
    signs = {(r.variant, r.against): r.sign for r in printed() if "Fig. 8" in r.place}
    pairs = [(a, b) for i, a in enumerate(best_first) for b in best_first[i + 1 :]]
    return sum(signs.get((a, b), 0) > 0 or signs.get((b, a), 0) < 0 for a, b in pairs)


@FIGS_3_AND_8.check(
    "pairs that Fig. 8 puts in another order than nearness does: gold, current, identity",
    states=("cross-layer", "resformer", "identity-mapping"),
    control=("resformer", "cross-layer", "identity-mapping"),
    wrong="the current attention nearer to the gold one than that is to itself",
    kind="exact",
)
def one_pair_differs(nearest_first: tuple[str, ...]) -> bool:
    return orders_that_differ(nearest_first) == 1


@FIGS_3_AND_8.check(
    "pairs in another order among the current attention and the identity: there the two figures say the same",
    states=("resformer", "identity-mapping"),
    control=("identity-mapping", "resformer"),
    wrong="the identity nearer",
    kind="exact",
)
def the_other_pair_agrees(nearest_first: tuple[str, ...]) -> bool:
    return orders_that_differ(nearest_first) == 0
