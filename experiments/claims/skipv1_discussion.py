"""Ledger entries on SkipV1Former's appendix A.2: what its authors draw from the theorem, as far as it can be checked.

What A.2 reports of trained networks and of other papers is not judged here; the entries say what is exact beside it.
"""

from __future__ import annotations

from fractions import Fraction

from experiments.claims import plans_checks as plans
from experiments.claims import skipv1_discussion_checks as check
from experiments.claims.ledger import Claim, Evidence
from experiments.claims.skipv1_theorem import PAPER, W0_ZERO

CLAIMS = (
    Claim(
        id="skipv1.a2-order",
        paper=PAPER,
        place="appendix A.2, first paragraph; the remark on causal masks after Assumption 1",
        statement="The analysis centres on auto-regressive tasks: their order is what the skip connection serves.",
        assumes="none; that SkipV1Former gains nothing on other tasks (appendix C.6) is not judged",
        verdict="corrected",
        correction="Nothing in Theorem 2 uses order.  Permuting the pairs changes neither model's prediction, and a "
        "causal mask changes nothing at the query, as the remark after Assumption 1 says.  So the theorem says the "
        "same of any task whose input is a set of pairs, and cannot explain a difference between tasks with and "
        "without order.",
        evidence=(
            Evidence(
                "numeric",
                "permuting the pairs leaves both predictions as they are; from tokens, exact",
                check.order_is_ignored,
                states="pairs",
                control="labels",
                wrong="permuting the labels alone",
            ),
            Evidence(
                "numeric",
                "a causal mask gives the query the same prediction; from tokens, exact",
                check.mask_predicts_the_same,
                states=lambda n: 2 * n,
                control=lambda n: n,
                wrong="a window of n tokens",
            ),
        ),
    ),
    Claim(
        id="skipv1.a2-concentration",
        paper=PAPER,
        place="appendix A.2, second paragraph, on ResFormer's explanation by attention concentration",
        statement="ResFormer gains by spreading attention; whether that is connected with this analysis is not clear.",
        assumes=W0_ZERO,
        verdict="open",
        correction="Not connected in this toy: linear attention has no temperature and nothing to concentrate, and "
        "one ResFormer head gains all that SkipV1Former gains (toy.resformer-head).  Whether softmax models gain in "
        "both ways, or in one, stays open.",
        evidence=(
            Evidence(
                "numeric",
                "scores twice as large and readouts half as large predict the same; from tokens, exact",
                check.scores_scale_out,
                states=-1,
                control=0,
                wrong="readouts as they were",
            ),
            Evidence(
                "numeric",
                "one ResFormer head attains d^2 + d sigma^2 - rho a d; rational arithmetic, d = 1..4, all ranks",
                plans.one_resformer_head_attains,
                states=lambda kept: Fraction(1, 2) if kept else Fraction(1),
                control=lambda kept: Fraction(0),
                wrong="the copied half silent",
            ),
        ),
    ),
    Claim(
        id="skipv1.a2-copying",
        paper=PAPER,
        place="appendix A.2, third paragraph: linear copying at the first layer's output, with residual connections",
        statement="Assumption 1's linear copying is what the first layer of deep Transformers with residual "
        "connections does.",
        assumes="an observation on trained networks, by others: not judged",
        verdict="inconclusive",
        correction="A residual connection alone does not make Eqn. (2) copy: each token is still multiplied by one "
        "matrix (skipv1.assumption1).  A residual and a head that looks one token back make y_t + C x_t, linear in "
        "the prompt, but of the form of skipv1.assumption1-blocks, with y_t whole, and not of Assumption 1's blocks; "
        "and x_t becomes x_t + C y_{t-1}.",
        evidence=(
            Evidence(
                "numeric",
                "E + TF_1(E) is one matrix times E, without positions; whole numbers, exact",
                check.residual_layer_is_one_matrix,
                states="no positions",
                control="positions",
                wrong="with a head that looks one token back",
            ),
            Evidence(
                "numeric",
                "what a residual and a look-back head make of the tokens; whole numbers, exact",
                check.look_back_makes,
                states="mixed",
                control="kept",
                wrong="x_t kept, as in Assumption 1",
            ),
        ),
    ),
    Claim(
        id="skipv1.a2-residual",
        paper=PAPER,
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
        evidence=(
            Evidence(
                "symbolic",
                "d = n = 1, sigma = 0, W0 = 2: the least losses without and with a residual, by pairing",
                check.residual_losses,
                states=(Fraction(10, 3), Fraction(2, 3)),
                control=(Fraction(10, 3), Fraction(10, 3)),
                wrong="the same",
            ),
            Evidence(
                "symbolic",
                "W0 = 0: the two are equal, d = 1, four tasks, by pairing",
                check.residual_is_worth_nothing,
                states=0,
                control=1,
                wrong="W0 = 1",
            ),
        ),
    ),
)
