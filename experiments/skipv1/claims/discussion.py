"""SkipV1Former's appendix A.2: what its authors draw from the theorem, as far as it can be checked.

What A.2 reports of trained networks and of other papers is not judged here; the entries say what is exact beside it.
What it says of the first layer is in `first_layer`, what it says of deeper models with the deeper toys.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import sympy

from experiments.ledger.claim import Claim
from experiments.skipv1.claims.setting import W0_ZERO
from experiments.toys.one_head import one_resformer_head_attains
from theory.plans.heads import MHA, SKIPV1
from theory.prompts.isserlis import PromptEngine
from theory.skipv1.paper import PAPER
from theory.toy.exact import rational
from theory.toy.tokens import draw, draw_weights, full_key, output

SIZES = ((1, 2, 2), (1, 3, 4), (2, 3, 3))  # rank, d, n


def order_is_ignored(permuted: str) -> bool:
    """Permuting the pairs, or the labels alone, leaves both models' predictions; from tokens, exact.

    P is a function of sums over the pairs, and no sum knows the order of its terms.
    """
    rng = np.random.default_rng(80)
    for a, d, n in SIZES:
        w, p = draw_weights(rng, a, d), draw(rng, d, n)
        order = np.roll(np.arange(n), 1)
        other = p.with_(y=p.y[:, order], x=p.x[:, order] if permuted == "pairs" else p.x)
        if any((output(p, w, heads) != output(other, w, heads)).any() for heads in (MHA, SKIPV1)):
            return False
    return True


A2_ORDER = Claim(
    "skipv1.a2-order",
    PAPER.name,
    place="appendix A.2, first paragraph; the remark on causal masks after Assumption 1",
    statement="The analysis centres on auto-regressive tasks: their order is what the skip connection serves.",
    assumes="none; that SkipV1Former gains nothing on other tasks (appendix C.6) is not judged",
    verdict="corrected",
    correction="Nothing in Theorem 2 uses order.  Permuting the pairs changes neither model's prediction, and a "
    "causal mask changes nothing at the query, as the remark after Assumption 1 says.  So the theorem says the "
    "same of any task whose input is a set of pairs, and cannot explain a difference between tasks with and "
    "without order.",
    proof=order_is_ignored,
    uses=("skipv1.eqns-5-6",),
)
A2_ORDER.check(
    "permuting the pairs leaves both predictions as they are; from tokens, exact",
    states="pairs",
    control="labels",
    wrong="permuting the labels alone",
    kind="exact",
)(order_is_ignored)


@A2_ORDER.check(
    "a causal mask gives the query the same prediction; from tokens, exact",
    states=lambda n: 2 * n,
    control=lambda n: n,
    wrong="a window of n tokens",
    kind="exact",
)
def mask_predicts_the_same(reach: Callable[[int], int]) -> bool:
    """A causal mask, under which a token reads the `reach(n)` before it, gives the query what P gives it; exact."""
    rng = np.random.default_rng(81)
    for a, d, n in SIZES:
        w, p = draw_weights(rng, a, d), draw(rng, d, n)
        first, size = p.copied(w.a, w.b), 2 * n + 1
        distance = np.arange(size)[None] - np.arange(size)[:, None]
        visible = ((distance > 0) & (distance <= reach(n))).astype(object)
        scores = [(first.T @ full_key(k) @ first) * visible for k in w.k]
        out = w.w[0] @ first @ scores[0] + w.w[1] @ p.tokens @ scores[1]
        if (out[:, -1:] != output(p, w, SKIPV1)).any():
            return False
    return True


def scores_scale_out(power: int) -> bool:
    """Scores twice as large and readouts times 2^power predict the same: linear attention has no temperature; exact.

    P = sum_h W^h G^h K^h A is linear in W^h and in K^h, so that a factor passes from one to the other.
    """
    rng = np.random.default_rng(82)
    for a, d, n in SIZES:
        w, p = draw_weights(rng, a, d), draw(rng, d, n)
        other = type(w)(w.a, w.b, w.w * Fraction(2) ** power, 2 * w.k)
        if (output(p, w, SKIPV1) != output(p, other, SKIPV1)).any():
            return False
    return True


A2_CONCENTRATION = Claim(
    "skipv1.a2-concentration",
    PAPER.name,
    place="appendix A.2, second paragraph, on ResFormer's explanation by attention concentration",
    statement="ResFormer gains by spreading attention; whether that is connected with this analysis is not clear.",
    assumes=W0_ZERO,
    verdict="open",
    correction="Not connected in this toy: linear attention has no temperature and nothing to concentrate, and "
    "one ResFormer head gains all that SkipV1Former gains (toy.resformer-head).  Whether softmax models gain in "
    "both ways, or in one, stays open.",
    proof=scores_scale_out,
    uses=("skipv1.eqns-5-6", "toy.resformer-head"),
)
A2_CONCENTRATION.check(
    "scores twice as large and readouts half as large predict the same; from tokens, exact",
    states=-1,
    control=0,
    wrong="readouts as they were",
    kind="exact",
)(scores_scale_out)
A2_CONCENTRATION.check(
    "one ResFormer head attains d^2 + d sigma^2 - rho a d; rational arithmetic, d = 1..4, all ranks",
    states=lambda kept: Fraction(1, 2) if kept else Fraction(1),
    control=lambda kept: Fraction(0),
    wrong="the copied half silent",
    kind="exact",
)(one_resformer_head_attains)


def least_one_layer_loss(w0: int, n: int, sigma: Fraction, residual: bool) -> Fraction:
    """Return the least E (P - W*)^2 + sigma^2 at d = 1, one layer, heads enough; P combines S_xx, S_yx, S_yy (and 1).

    A residual connection adds to P a matrix R that does not depend on the prompt: the readout of the query's own token.
    At W0 = 0 the sign flip of (W*, noise) makes R part of P's even part, which only hurts (`theory.skipv1.gap`, (1)),
    so that R = 0 is best.  Around W0 it is not: at d = n = 1, sigma = 0, P = x^2 f(W*) with f a quadratic that the
    weights choose, and P = R + x^2 f with a residual.  As E x^4 = 3 and E x^2 = 1, the best f is (W* - R)/3 and leaves
    2/3 E (W* - R)^2: 2/3 (1 + W0^2) without, 2/3 with R = W0.
    """
    engine = PromptEngine(1)
    values = [(engine.n, n), (engine.sigma, sigma), (engine.w0[0][0], w0)]
    features = [(kind,) for kind in ("xx", "yx", "yy")] + [()] * residual

    def mean(*kinds: str) -> Any:
        value = rational(engine.expect(*((kind, 0, 0) for kind in kinds)), values)
        return sympy.Rational(value.numerator, value.denominator)

    gram = sympy.Matrix(len(features), len(features), lambda i, j: mean(*features[i], *features[j]))
    hit = sympy.Matrix([mean("w", *f) for f in features])
    loss = mean("w", "w") - (hit.T * gram.inv() * hit)[0]
    return Fraction(int(loss.p), int(loss.q)) + sigma**2


A2_RESIDUAL = Claim(
    "skipv1.a2-residual",
    PAPER.name,
    place="appendix A.2, third paragraph: residual connections in one-layer Transformers",
    statement="With or without a residual connection, one layer's optimum is a gradient step, so leaving it out "
    "does not impair in-context learning.",
    assumes="tokens (x ; y), one linear layer, enough heads; W* ~ N(W0, I)",
    verdict="corrected",
    correction="True at W0 = 0, where the optimum is one step from zero either way, and in the two-layer toy too "
    "(toy.value-maps).  Around W0, which Theorem 2 is about, a residual gives W0 away: at d = n = 1, sigma = 0 "
    "the least loss is 2/3 with it, by a step from W0, and 2/3 (1 + W0^2) without, by a step from zero.  A "
    "residual in layer 1 keeps y_t beside its copy: u_t = y_t + (A x_t ; B y_t), which is covered by "
    "skipv1.assumption1-blocks.",
    proof=least_one_layer_loss,
    uses=("skipv1.lemma2-parity", "skipv1.assumption1-blocks", "toy.value-maps"),
)


@A2_RESIDUAL.check(
    "d = n = 1, sigma = 0, W0 = 2: the least losses without and with a residual, by pairing",
    states=(Fraction(10, 3), Fraction(2, 3)),
    control=(Fraction(10, 3), Fraction(10, 3)),
    wrong="the same",
    kind="exact",
)
def residual_losses(losses: tuple[Fraction, Fraction]) -> bool:
    """d = n = 1, sigma = 0, W0 = 2, by pairing: without a residual connection, and with one."""
    return tuple(least_one_layer_loss(2, 1, Fraction(0), residual) for residual in (False, True)) == losses


@A2_RESIDUAL.check(
    "W0 = 0: the two are equal, d = 1, four tasks, by pairing", states=0, control=1, wrong="W0 = 1", kind="exact"
)
def residual_is_worth_nothing(w0: int) -> bool:
    return all(
        least_one_layer_loss(w0, n, sigma, False) == least_one_layer_loss(w0, n, sigma, True)
        for n, sigma in ((1, Fraction(0)), (1, Fraction(1, 2)), (4, Fraction(0)), (3, Fraction(2)))
    )


@A2_RESIDUAL.check(
    "W0 = 0: the least loss is that of one gradient step, 1 + sigma^2 - n / (n + 2 + sigma^2), d = 1, three tasks",
    states=lambda sigma: sigma**2,
    control=lambda sigma: 0,
    wrong="without the query's own noise",
    kind="exact",
)
def one_step_from_zero(noise: Callable[[Fraction], Fraction]) -> bool:
    return all(
        least_one_layer_loss(0, n, sigma, residual) == 1 + noise(sigma) - n / (n + 2 + sigma**2)
        for n, sigma in ((1, Fraction(1, 2)), (3, Fraction(2)), (4, Fraction(0)))
        for residual in (False, True)
    )
