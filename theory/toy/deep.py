"""Polynomials of S_xx that k layers of linear attention with a residual stream compute in context, by value map.

Setting.  The task of `theory.skipv1.gap` at W0 = 0, with nothing compressed: a token is 2d wide and holds (x_t ; y_t)
side by side, the query (x ; 0), so no layer has to copy.  Every layer reads the stream and adds to it, and all tokens
attend over the n context tokens.  The heads are those of gradient descent (von Oswald et al., 2023; Ahn et al., 2023):
queries and keys read the x slot, with a product c x_t^T x_i, values read the y slot, and outputs write it.  A plan
says which layers' values a head takes, its *sources*; layer m's values are projections of the stream into layer m.
With y_t^l the y slot after l layers, layer l adds
    - sum_m B_lm sum_t y_t^{m-1} x_t^T x_i,    m among its sources,
to token i, where B_lm = - sum_h c w O V, a d x d matrix, collects the heads that take values of layer m with weight w.
We let every B_lm be any matrix, or, for *scalar weights*, any beta_lm I.  (k heads are enough for that, if all of them
have the same sources.  For scalar weights one ResFormer head per layer is, whatever its fixed mix, as each layer has a
V of its own; so are one own and one skip head of SkipV1Former.)

Theorem 1.  After l layers y_t^l = y_t - W_l x_t, and the query's slot holds -W_l x.  For scalar weights
    W_l = S_yx q_l(S_xx),    p_l = 1 - s q_l,    p_0 = 1,    p_l = p_{l-1} - s sum_m beta_lm p_{m-1};
for matrices W_l = sum_j Q_j S_yx S_xx^j, with the same recursion for P_l = I - s sum_j Q_j s^j.
Proof.  Let Y^l and X have the tokens as columns.  By induction Y^l = Y p_l(X^T X); and what the query gets is
-sum_m beta_lm Y p_{m-1}(X^T X) X^T x = -sum_m beta_lm S_yx p_{m-1}(S_xx) x.                                     QED
`theory.prompts.spectral` has the loss of each p.  By the same lemma that of P is, s_i being the eigenvalues of S_xx,
E sum_i [||P(s_i)||^2 + sigma^2 s_i ||Q(s_i)||^2] + d sigma^2: a sum over the entries of P, so no P of some degree is
better than p I with the best p of that degree.

Theorem 2.  With scalar weights k layers reach, of all p with p(0) = 1,
    own values (MHA, SkipV0; other queries or keys change nothing)      those of degree <= k with real roots only;
    layer 1's alone (SVFormer)                                          1 - eta s: one gradient step, whatever k;
    values shared by blocks of layers (CLA, YOCO, SVFormer's anchors)   those with real roots only, one per block;
    own ones and layer 1's (ResFormer, SkipV1Former), own ones and
      the layer before's (true cross-layer attention), or all           every polynomial of degree <= k;
    own ones and layer 2's (SkipV2)                                     these, but with a real root if of even degree k;
    own ones, and layer 1's stream added again (DenseFormer, NeuTRENO)  every polynomial of degree <= k, or its limit.
Proof.  Own values: p_l = (1 - beta s) p_{l-1}.  If no layer from m on has a source before m, then p_l, for l >= m, is
p_{m-1} times what the layers from m on would reach alone: *blocks* multiply.  If all layers of a block have its first
one as their source, the block's factor is 1 - s sum beta.
    Own ones and layer 1's: p_l = (1 - beta s) p_{l-1} - gamma s.  Take any p of degree <= l with p(0) = 1 and any real
r != 0.  p + gamma s vanishes at r for gamma = -p(r) / r, so it is (1 - s / r) times a p_{l-1} of degree <= l - 1 with
p_{l-1}(0) = 1.  So the own steps beta_22, ..., beta_kk may be any numbers but 0, chosen beforehand; beta_11 and the raw
ones then follow, linearly, from p (`mixed_weights`), and the loss is a convex quadratic in them.
    Own ones and the layer before's: p_l -> (1 - s) p_l -> [(1 - b s)(1 - s) - gamma s] p_l, which is any quadratic
factor, and a real polynomial is a product of quadratic factors and at most one linear one.
    Layer 1's stream again, by a learned average over depth or beside the attention, makes y_t^l = a_l y_t - W_l x_t.
The recursion is r_l = a + b (1 - beta s) r_{l-1}, of which r - r(0) alone is read out, up to a factor.  For any r and
any real z != 0, r - r(z) has the factor 1 - s / z, so r is reached from a polynomial of lower degree, and so on down
to r_1 = 1 - beta s, of which only r_1(0) != 0 is asked: true but for finitely many z.  (Other values that come beside
the attention vanish for O -> 0 with c O fixed.)                                                                  QED

Theorem 3.  With matrices, and d even, every plan reaches all polynomials of the degree that theorem 2 gives it.  If d
is odd, own values reach them for d - 1 outputs; where k is even and p has no real root, they do not come near p I.
Plans of degree 1 have at least the loss of one gradient step.
Proof.  For even d there is a J with J^2 = -I.  The a I + b J multiply like complex numbers, and the roots of a real p
are real or come in conjugate pairs.  For odd d, det P = prod det(I - s B_l), and each factor has a real root or a
degree below d; p^d, the determinant of p I, has neither, nor has, roots being continuous, anything near it.  In a plan
of degree 1 W = T(S_yx), T linear: `theory.skipv1.gap`, (2).
QED

So in this family SVFormer loses all its layers but one, and blocks lose all but one each; reaching back beside own
values, as ResFormer and SkipV1Former do, wins complex roots and nothing else.  That is nothing at sigma = 0, nothing if
d is even, and otherwise what `theory.prompts.spectral` says for noise above its threshold.

Limits.  (a) Keys with matrices, x_t^T A x_i: at k = 1 the best A is beta I (`theory.skipv1.gap`, (2)).  For more
layers the mean over rotations of S_yx A_1 S_xx A_2 has the trace of S_xx in it, and the argument does not go through;
that no such weights are better is a conjecture.  (b) Heads that write to the x slot are outside (GD++ of von Oswald et
al.), and nothing here bounds what they can do.  With x_t <- (I + b S_xx) x_t in the first of two layers, even raw
values make W = S_yx [c + g (I + b S_xx)^2], and own ones p = (1 - c s)(1 - g s (1 + b s)^2).  At d = 3, n = 8, sigma =
1 that loses 4.69, where the best quadratic loses 5.25.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from theory.errors import BadInput
from theory.plans.depth import DepthAverage, Residual
from theory.plans.heads import NotCovered, check_sources
from theory.plans.plan import HeadPlan, Plan
from theory.prompts.setting import Number

Steps = Sequence[Mapping[int, Number]]  # of layer l, at place l - 1: beta_lm by source m


@dataclass(frozen=True)
class Reach:
    """The polynomials p with p(0) = 1 of this degree at most, with at most so many pairs of complex roots.

    With matrices for weights and d even, those of this degree at most: see theorem 3.
    """

    degree: int
    pairs: int


def residual_polynomial(steps: Steps) -> tuple[Any, ...]:
    """Return the coefficients, ascending, of p_k in Theorem 1 for scalar weights.

    Raises:
        BadInput: for a source that does not exist.
    """
    polynomials: list[list[Any]] = [[1]]
    for layer, weights in enumerate(steps, 1):
        if not all(1 <= source <= layer for source in weights):
            raise BadInput(f"layer {layer} takes values of layers 1 to {layer}, got {sorted(weights)}")
        now: list[Any] = [*polynomials[-1], *[0] * (layer + 1 - len(polynomials[-1]))]
        for source, weight in weights.items():
            for power, coefficient in enumerate(polynomials[source - 1], 1):
                now[power] -= weight * coefficient
        polynomials.append(now)
    return tuple(polynomials[-1])


def mixed_weights(residual: Sequence[Number], own: Sequence[Number]) -> list[dict[int, Any]]:
    """Return weights with which own values and layer 1's make p, given the own ones of layers 2 to k.

    Args:
        residual: p's coefficients, ascending, with p(0) = 1; at most k + 1 of them.
        own: The own weights of layers 2 to k, none of them 0.

    Raises:
        BadInput: for other coefficients or weights.
    """
    layers = len(own) + 1
    if not residual or residual[0] != 1 or len(residual) > layers + 1 or not all(own):
        raise BadInput(f"{layers} layers need p(0) = 1, a degree of {layers} at most and own steps other than 0")
    now: list[Any] = [*residual, *[0] * (layers + 1 - len(residual))]
    steps: list[dict[int, Any]] = []
    for layer in range(layers, 1, -1):
        beta = own[layer - 2]
        at_root: Any = 0
        for coefficient in reversed(now):
            at_root = at_root / beta + coefficient
        raw = -at_root * beta
        steps.insert(0, {layer: beta, 1: raw})
        now[1] += raw
        quotient: list[Any] = [1]
        for coefficient in now[1:-1]:
            quotient.append(coefficient + beta * quotient[-1])
        now = quotient
    return [{1: -now[1]}, *steps]


def value_sources(plan: Plan) -> tuple[frozenset[int], ...]:
    """Return, for each layer, the layers whose values its heads attend over."""
    return tuple(
        frozenset(term.source.layer for head in row for values in head.values for term in values.terms)
        for row in plan.table
    )


def reach(plan: Plan) -> Reach:
    """Return which polynomials a plan reaches by Theorem 2, with heads enough.

    Raises:
        NotCovered: where the theorem does not cover the plan, with the reason.
    """
    if plan.dynamic != "no":
        raise NotCovered("the deep toy's values do not depend on the query")
    check_sources(plan)
    if not plan.output_projection:
        raise NotCovered("the deep toy's heads write the y slot through an output projection")
    if not isinstance(plan.depth, Residual | DepthAverage):
        raise NotCovered("the deep toy keeps x in a residual stream, and its depth rule does not look at contents")
    sources, beside = value_sources(plan), [_beside(row) for row in plan.table]
    layers = len(sources)
    again = isinstance(plan.depth, DepthAverage) or (any(beside) and all(1 in b for b in beside[1:]))
    if again and all(layer in row for layer, row in enumerate(sources, 1)):
        return Reach(layers, layers // 2)
    if any(beside) or isinstance(plan.depth, DepthAverage):
        raise NotCovered("what this plan adds to the stream besides its attention is not worked out")
    degree = real = 0
    for first, block in _blocks(sources):
        factor = _of_block(first, block)
        degree += factor.degree
        real += factor.degree - 2 * factor.pairs
    return Reach(degree, (degree - real) // 2)


def _beside(row: Sequence[HeadPlan]) -> frozenset[int]:
    return frozenset(term.source.layer for head in row for term in head.beside.terms)


def _blocks(sources: Sequence[frozenset[int]]) -> Iterator[tuple[int, Sequence[frozenset[int]]]]:
    """Cut the plan wherever no later layer looks back, and yield each block with the number of its first layer."""
    layers = range(1, len(sources) + 1)
    cuts = [m for m in layers if all(min(row) >= m for row in sources[m - 1 :])]
    for first, after in zip(cuts, [*cuts[1:], len(sources) + 1], strict=True):
        yield first, sources[first - 1 : after - 1]


def _of_block(first: int, block: Sequence[frozenset[int]]) -> Reach:
    if all(row == {first} for row in block):
        return Reach(1, 0)
    later = list(enumerate(block[1:], first + 1))
    for other in (lambda layer: first, lambda layer: layer - 1):
        if all({layer, other(layer)} <= row for layer, row in later):
            return Reach(len(block), len(block) // 2)
    raise NotCovered(f"what layers {first} to {first + len(block) - 1} of this plan reach together is not worked out")
