"""Claims on mappings between layers, mixing weights, and what of the first layer is carried."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from math import gamma

import numpy as np
import sympy

from experiments.ledger.claim import Claim, Conditions
from experiments.resformer.claims.smoothing import causal_attention
from experiments.resformer.claims.training import cost_the_same
from experiments.toys.unjudged import OF_COUNTS, OF_VALUES, OF_VALUES_IN_A_TABLE
from theory.plans.heads import toy_heads
from theory.plans.mix import Mix
from theory.plans.names import resolve
from theory.plans.plan import Plan, Shape, plan, v
from theory.prompts.moments import Array
from theory.resformer import blocks, smoothing
from theory.resformer.paper import PAPER
from theory.toy import value_maps

Weights = dict[int, Fraction]  # by layer of the values


def weights_on_tokens(plan: Plan, layer: int) -> tuple[Weights, Weights]:
    """Return a head's weights on each layer's values: on those that it attends to, and on those of the token itself."""
    head = plan.head(layer, 1)
    attended, beside = (
        {t.source.layer: Fraction(t.start).limit_denominator(100) for t in mix.terms}
        for mix in (head.values[0], head.beside)
    )
    return attended, beside


def shared(number: int, layers: int) -> Weights:
    """Return the same weight on each of the first layers, `number` in all."""
    return {n: Fraction(number, layers) for n in range(1, layers + 1)}


EQN_6 = Claim(
    "resformer.eqn6-mapping",
    PAPER.name,
    place="section 4.3, on Eqn. (6), and Eqn. (6) itself",
    statement="Eqn. (6) maps historical values by a matrix of ones; it is a naive form of the same mapping.",
    assumes="the plans of the two equations, one head",
    verdict="corrected",
    correction="By the identity, as section 3.2 says: a token gets its own earlier values.  The weights of Eqn. (6) "
    "sum to two in each row, those of Eqns. (2) to (5) to one, so that the comparison of Fig. 8 changes the scale of "
    "what is added as well as its mapping.",
    proof=weights_on_tokens,
    unjudged=OF_VALUES,
)


@EQN_6.check(
    "the weights in a row: of what is attended to, and beside it, in the plans of Eqns. (6) and (5), layers 2 to 4",
    states=Fraction(1),
    control=Fraction(1, 2),
    wrong="weights that sum to one in both",
    kind="exact",
)
def rows_sum(each: Fraction) -> Conditions:
    """Check Eqn. (5), 1/n of all layers; and Eqn. (6), `each` of layer n and of a token's own earlier values."""
    for n in (2, 3, 4):
        naive, mean = (
            weights_on_tokens(resolve(name, Shape(4, 1)), n) for name in ("identity-mapping", "resformer-all")
        )
        yield naive == ({n: each}, {m: each * share for m, share in shared(1, n - 1).items()})
        yield (
            mean
            == (
                shared(1, n),
                {},
            )
        )


@EQN_6.check(
    "Eqn. (6) with the mapping in question, on two tokens: a token's output has no part of the other's earlier values",
    states=sympy.eye,
    control=sympy.ones,
    wrong="a matrix of ones, as section 4.3 says",
    kind="exact",
)
def own_values_only(mapping: Callable[[int], sympy.Matrix]) -> bool:
    """Check that beside its attention the plan reads what the formula with this mapping reads: the same token alone."""
    earlier = sympy.Matrix(sympy.symbols("v:2"))
    read = mapping(2) * earlier
    return all(read[i].free_symbols == {earlier[i]} for i in range(2))


def dense_former(layers: int) -> list[sympy.Expr]:
    """Return Y_1, ..., Y_L of depth-weighted averaging without projections and feed-forward, in X_0, u_n = A_n V_n."""
    start = sympy.Symbol("x0")
    outputs, states = [start], [start]
    for n in range(1, layers + 1):
        outputs.append(states[-1] + sympy.Symbol(f"u{n}"))
        states.append(sympy.expand(sum(sympy.Symbol(f"a{n}{i}") * x for i, x in enumerate(outputs))))
    return states[1:]


EQN_9 = Claim(
    "resformer.eqn9-denseformer",
    PAPER.name,
    place="section 3.4, Eqn. (9)",
    statement="Without projections and feed-forward DenseFormer is U_n = sum_i alpha_i A_i V_i.",
    assumes="layers with residual connections, then a weighted sum of all layers' outputs, as DenseFormer has them",
    verdict="corrected",
    correction="The embedding is among the terms, and every layer has weights of its own, so that A_i V_i has another "
    "weight at each n; they are learned, no hyper-parameters.  Right is that A_i maps V_i.",
    proof=dense_former,
)


@EQN_9.number(
    "three layers written out: whether the embedding is there and the weights of A_1 V_1 change with the layer",
    (True, True),
    control=(False, False),
    wrong="neither, as printed",
)
def written_out() -> tuple[bool, bool]:
    states = dense_former(3)
    start, first = sympy.Symbol("x0"), sympy.Symbol("u1")
    embedding = all(state.coeff(start) != 0 for state in states)
    return (embedding, len({state.coeff(first) for state in states}) == 3)


@EQN_9.check(
    "two layers by hand: the second state is a22 u2 + (a21 + a22 a11) u1 + ... of the embedding",
    states=lambda a: a(2, 1) + a(2, 2) * a(1, 1),
    control=lambda a: a(1, 1),
    wrong="the weight that the first layer's state gives it, as one alpha_1 for all layers would",
    kind="exact",
)
def second_state_by_hand(weight: Callable[[Callable[[int, int], sympy.Expr]], sympy.Expr]) -> bool:
    state = dense_former(2)[1]
    first, second = sympy.symbols("u1 u2")
    found = state.coeff(first), state.coeff(second)
    return sympy.expand(found[0] - weight(_symbol)) == 0 and found[1] == _symbol(2, 2)


def _symbol(layer: int, of: int) -> sympy.Expr:
    return sympy.Symbol(f"a{layer}{of}")


ROUNDING = 1e4 * np.finfo(float).eps
SHAPE = Shape(4, 1)


@dataclass(frozen=True)
class Matrices:
    """The matrices of a one-head decoder, one per layer: q, k, v, o, and f of what stands for a feed-forward."""

    q: Array
    k: Array
    v: Array
    o: Array
    f: Array


def drawn(layers: int, width: int) -> Matrices:
    rng = np.random.default_rng(layers)
    return Matrices(*(rng.standard_normal((layers, width, width)) / width**0.5 for _ in range(5)))


def mixed_by(weights: Mapping[int, tuple[float, float]]) -> Plan:
    """Return a plan of values own_n V_n + first_n V_1 from layer 2 on."""

    def values(n: int, h: int) -> Mix:
        own, first = weights.get(n, (1.0, 0.0))
        return own * v(n, h) + first * v(1, h)

    return plan(SHAPE, values=values)


def decoded(plan: Plan, weights: Matrices, tokens: Array) -> Array:
    """Return the residual stream after all layers, (tokens, width): norms, causal softmax attention, tanh(x f)."""
    hidden = np.triu(np.ones((len(tokens), len(tokens)), bool), 1)
    stream, values = tokens, []
    for n in range(plan.shape.layers):
        normed = stream / np.sqrt((stream**2).mean(axis=1, keepdims=True))
        values.append(normed @ weights.v[n])
        scores = np.where(hidden, -np.inf, normed @ weights.q[n] @ (normed @ weights.k[n]).T)
        mixed = sum(term.start * values[term.source.layer - 1] for term in plan.head(n + 1, 1).values[0].terms)
        stream = stream + blocks.attention(scores, np.asarray(mixed)) @ weights.o[n]
        stream = stream + np.tanh(stream @ weights.f[n])
    return stream


def absorbed(plan: Plan, weights: Matrices) -> Matrices:
    """Return matrices with which Eqn. (7) computes what `plan` does, whose values are own_n V_n + first_n V_1.

    All first_n differ from 0.

    In layer n >= 2, (own_n V_n + first_n V_1) W_O^n = (1/2) (V_n' + V_1) W_O' with V_n' = (own_n / first_n) V_n, which
    is W_V^n scaled, and W_O' = 2 first_n W_O^n.  Nothing else reads W_V^n or W_O^n, and layer 1 stays as it is.  Where
    own_n is not 0 either this can be undone, so that all such weights, fixed or learned, give one set of functions.
    With own_n = 0, SVFormer, there are fewer of them, those with W_V^n' = 0; vanilla, first_n = 0, is a limit, in which
    W_V^n grows and W_O^n vanishes.
    """
    v, o = weights.v.copy(), weights.o.copy()
    for n in range(2, plan.shape.layers + 1):
        weight = {term.source.layer: term.start for term in plan.head(n, 1).values[0].terms}
        v[n - 1] *= weight.get(n, 0.0) / weight[1]
        o[n - 1] *= 2 * weight[1]
    return replace(weights, v=v, o=o)


def outputs_kept(plan: Plan, weights: Matrices) -> Matrices:
    return replace(absorbed(plan, weights), o=weights.o)


ABSORBED = Claim(
    "resformer.weights-absorbed",
    PAPER.ours,
    place="experiments/resformer/claims/mixing.py; bears on section 4.2 (Fig. 6) and on the end of section 2.1",
    statement="Whatever weights own_n and first_n, neither of them zero, values V_n and V_1 are mixed with, fixed or "
    "learned, alike in all layers or not, the functions that a decoder can compute are the same: W_V^n and W_O^n "
    "absorb them.  SVFormer's, own_n = 0, are among them, vanilla's, first_n = 0, a limit.",
    assumes="every layer has value and output projections of its own; weights of any size; weight decay tells them "
    "apart",
    verdict="verified",
    proof=absorbed,
    unjudged={blocks.attention: "the mixing stands beside the attention, whatever that is", **OF_VALUES},
)


@ABSORBED.check(
    "decoders of 4 layers with softmax, norms, residuals and a feed-forward, three mixtures and one that differs by "
    "layer: the same stream from Eqn. (7) with other matrices",
    states=absorbed,
    control=outputs_kept,
    wrong="the output projections as they were",
)
def one_set_of_functions(matrices: Callable[[Plan, Matrices], Matrices]) -> Conditions:
    weights, tokens = drawn(4, 5), np.random.default_rng(3).standard_normal((6, 5))
    by_layer = {2: (0.2, 1.5), 3: (1.0, -0.4), 4: (-2.0, 0.3)}
    mixtures = [dict.fromkeys((2, 3, 4), pair) for pair in ((1.0, 2.0), (1.0, 0.2), (0.0, 1.0))]
    for mixture in (*mixtures, by_layer):
        mixing = mixed_by(mixture)
        left = decoded(mixing, weights, tokens)
        right = decoded(resolve("resformer", SHAPE), matrices(mixing, weights), tokens)
        yield np.abs(left - right).max() <= ROUNDING * np.abs(left).max()


@ABSORBED.check(
    "SVFormer's stream from Eqn. (7) with W_V^n = 0 and W_O^n doubled; vanilla's as own_n / first_n grows to 1e8",
    states={"svformer": 0.0, "vanilla": 1e8},
    control={"svformer": 0.0, "vanilla": 0.0},
    wrong="vanilla's from the values of layer 1 alone",
)
def svformer_is_among_them(ratios: Mapping[str, float]) -> Conditions:
    weights, tokens = drawn(4, 5), np.random.default_rng(4).standard_normal((6, 5))
    for name, ratio in ratios.items():
        v, o = weights.v.copy(), weights.o.copy()
        v[1:], o[1:] = ratio * v[1:], 2 * o[1:] / max(ratio, 1.0)
        left = decoded(resolve(name, SHAPE), weights, tokens)
        right = decoded(resolve("resformer", SHAPE), replace(weights, v=v, o=o), tokens)
        yield np.abs(left - right).max() <= 1e-6 * np.abs(left).max()


FIG_6 = Claim(
    "resformer.fig-6",
    PAPER.name,
    place="section 4.2, Fig. 6, and the end of section 2.1",
    statement="With A_n (V_n + lambda V_1) the loss is below vanilla's for every lambda, falls as lambda rises and is "
    "lowest at 2; no further hyper-parameter has to be chosen.",
    assumes="the training of section 4.1.1, one run each",
    verdict="open",
    correction="Training decides it (text-values asks).  What holds without: lambda = 0 is vanilla itself, so that "
    "`every' stops short of it; all other lambda, Eqn. (7) included, give the same functions "
    "(resformer.weights-absorbed), so that lambda acts through initial weights and optimisation alone; and as the loss "
    "depends on it, it is a hyper-parameter, of which Eqn. (7) takes the value 1 and not the best.",
    proof=absorbed,
    uses=("resformer.weights-absorbed", "resformer.costs"),
    unjudged=OF_COUNTS,
)


@FIG_6.check("the plan at lambda = 0 is vanilla's", states=0.0, control=0.5, wrong="that at one half", kind="exact")
def no_weight_is_vanilla(weight: float) -> bool:
    shape = Shape(5, 2)
    return resolve(f"resformer-constant:weight={weight}", shape) == resolve("vanilla", shape)


@FIG_6.check(
    "ResFormer costs at four lambda what vanilla costs, so that nothing but lambda differs",
    states="resformer-constant:weight=",
    control="resformer-learned:start=",
    wrong="learned ones, which are parameters",
    kind="exact",
)
def weights_cost_nothing(variant: str) -> bool:
    return cost_the_same((f"{variant}{weight}", "vanilla") for weight in (0.2, 0.5, 1.0, 2.0))


WHAT = Claim(
    "resformer.what-is-carried",
    PAPER.ours,
    place="theory/toy/value_maps.py and raw_keys.py; bears on section 4.3 (Fig. 7) and section 4.8 (Fig. 16)",
    statement="In the toy, in entries of W*: values of layer 1, half or all, explain a d where MHA has a (d - a).  "
    "A residual of queries changes nothing, and one of keys wins one entry a head at most.  Sharing all queries "
    "changes nothing either; sharing all keys leaves one entry a head at most.",
    assumes="the assumed-copy toy of SkipV1Former's appendix, linear attention, W0 = 0; decoders are another matter",
    verdict="verified",
    proof=value_maps,
    uses=("toy.value-maps", "toy.raw-keys"),
    unjudged={toy_heads: "whether a value or a key is there counts, and not its weight"},
)


@WHAT.check(
    "entries of W* that the plans' toys explain, d = 4, a = 2, one to three heads",
    states={
        "resformer": lambda heads: 8,
        "svformer": lambda heads: 8,
        "residual-queries": lambda heads: 4,
        "residual-keys": lambda heads: 4 + heads,
        "shared-queries": lambda heads: 4,
        "shared-keys": lambda heads: heads,
    },
    control={"residual-keys": lambda heads: 4},
    wrong="a residual of keys wins nothing",
    kind="exact",
)
def entries_are(entries: Mapping[str, Callable[[int], int]]) -> bool:
    return all(
        value_maps.explained_entries(toy_heads(resolve(name, Shape(2, heads))), 4, 2) == count(heads)
        for name, count in entries.items()
        for heads in (1, 2, 3)
    )


@WHAT.check(
    "the layers that layer 3 reads and their weights, in the one map in which each plan differs from vanilla",
    states={
        "resformer": ("values", {3: 0.5, 1: 0.5}),
        "svformer": ("values", {1: 1.0}),
        "residual-queries": ("query", {3: 0.5, 1: 0.5}),
        "residual-keys": ("keys", {3: 0.5, 1: 0.5}),
        "shared-queries": ("query", {1: 1.0}),
        "shared-keys": ("keys", {1: 1.0}),
    },
    control={"residual-queries": ("values", {3: 0.5, 1: 0.5})},
    wrong="residual queries are ResFormer's values",
    kind="exact",
)
def one_map_changes(maps: Mapping[str, tuple[str, Mapping[int, float]]]) -> Conditions:
    for name, (part, read) in maps.items():
        for heads in (1, 2):
            head, ordinary = (resolve(x, Shape(3, heads)).head(3, heads) for x in (name, "vanilla"))
            changed = getattr(head, part)
            (mix,) = changed if isinstance(changed, tuple) else (changed,)
            found = {term.source.layer: term.weight for term in mix.terms}
            others = replace(head, **{part: getattr(ordinary, part)}) == ordinary
            yield found == read
            yield others
            yield {term.source.head for term in mix.terms} == {heads}


SOURCE = Claim(
    "resformer.source-layer",
    PAPER.ours,
    place="theory/resformer/smoothing.py, Theorem 1 (g) and (h); bears on section 4.3 (Fig. 9)",
    statement="Of half layer 1's values, half the layer before's, and the mean of all, only the first keep tokens "
    "apart at any depth, as a share mu / (2 - mu); with the mean it falls as n^(mu - 1), with the layer before's as "
    "r^n, r = (mu + sqrt(mu^2 + 8 mu)) / 4, in a vanilla stack as mu^n.",
    assumes="nothing but attention, one matrix A in all layers, eigenvalues mu in (0, 1); of losses it says nothing",
    verdict="verified",
    proof=smoothing,
    uses=("resformer.smoothing",),
    unjudged=OF_VALUES_IN_A_TABLE,
)
Earlier = Callable[[list[Array]], Array]


@SOURCE.check(
    "attention layer by layer, by the equations, acts on A's eigenvectors as the plans' filters say; 12 layers",
    states={
        "resformer-previous": lambda v: (v[-1] + v[max(0, len(v) - 2)]) / 2,
        "resformer-all": lambda v: np.mean(v, axis=0),
    },
    control={"resformer-previous": lambda v: (v[-1] + v[0]) / 2},
    wrong="layer 1's values in the place of the layer before's",
)
def filters_are_the_equations(read: Mapping[str, Earlier]) -> Conditions:
    """Compare with the equations; `read`: what layer n attends over, from V_1, ..., V_n."""
    attention = causal_attention(4)
    eigenvalues, vectors = np.linalg.eig(attention)
    for name, mixed in read.items():
        values = [vectors]
        for filtered in smoothing.depth_filters(resolve(name, Shape(12, 1))):
            values.append(attention @ mixed(values))
            yield np.allclose(values[-1], filtered(eigenvalues) * vectors, rtol=0, atol=1e-9)


@SOURCE.check(
    "the plans' filters at 60 layers: the ratio of the last two, and what is left, over closed forms, to 1e-7 and 2 %",
    states=(lambda mu: (mu + np.sqrt(mu**2 + 8 * mu)) / 4, lambda mu, n: mu * n ** (mu - 1) / gamma(1 + mu)),
    control=(lambda mu: mu, lambda mu, n: mu / (2 - mu)),
    wrong="as without the layer before, and as with layer 1's values",
)
def falls_with_depth(version: tuple[Callable[[float], float], Callable[[float, int], float]]) -> Conditions:
    rate, left = version
    previous, mean = (smoothing.depth_filters(resolve(f"resformer-{x}", Shape(60, 1))) for x in ("previous", "all"))
    for mu in (0.2, 0.5, 0.9):
        ratio, kept = previous[-1](mu) / previous[-2](mu), mean[-1](mu)
        yield abs(ratio - rate(mu)) <= 1e-7
        yield abs(smoothing.previous_rate(mu) - rate(mu)) <= 1e-12
        yield abs(kept / left(mu, 60) - 1) <= 0.02
        yield abs(smoothing.mean_filter(mu, 60) / kept - 1) <= 1e-9
