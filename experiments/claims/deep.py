"""Ledger entries on deeper toys: what k layers reach by value map, what they lose, and what compression leaves."""

from __future__ import annotations

from fractions import Fraction

from experiments.claims import deep_checks as check
from experiments.claims import deep_loss_checks as loss
from experiments.claims import skipv1_discussion_checks as discussion
from experiments.claims.ledger import Claim, Evidence
from experiments.claims.skipv1_theorem import OURS, PAPER
from theory.toy.deep import residual_polynomial

FAMILY = (
    "W* ~ N(0, I), x ~ N(0, I), Gaussian noise; tokens (x ; y) of width 2d, a residual stream, linear attention over "
    "the context; queries and keys read x alone, with a multiple of x^T x', values read and outputs write y alone"
)

CLAIMS = (
    Claim(
        id="deep.own-values",
        paper=OURS,
        place="theory/toy/deep.py, theorems 1 to 3; bears on MHA and SkipV0 (003) and on shared keys and queries",
        statement="k layers of own values predict S_yx q(S_xx) x.  With a number for each layer's weight, 1 - s q is "
        "any polynomial of degree <= k with real roots only and value 1 at 0, and no other; with matrices on an even "
        "number of outputs any at all; on an odd number, none without a real root at even k.",
        assumes=FAMILY,
        verdict="verified",
        correction="",
        evidence=(
            Evidence(
                "numeric",
                "attention, token by token, 1 to 6 layers: the steps multiply",
                check.attention_computes,
                states=("vanilla", check.product_of_steps),
                control=("vanilla", check.sum_of_steps),
                wrong="the steps add up",
            ),
            Evidence(
                "symbolic",
                "200 random polynomials of six layers have real roots only, by Sturm's theorem",
                check.roots_are_real,
                states="vanilla",
                control="skipv1",
                wrong="with layer 1's values too",
            ),
            Evidence(
                "numeric",
                "two layers whose output matrices are a I + b J and a I - b J, J^2 = -I, make a pair of complex roots",
                check.complex_steps_reach,
                states=-1,
                control=1,
                wrong="J^2 = I",
            ),
            Evidence(
                "symbolic",
                "on three outputs the determinant of two layers has a real root or too low a degree; exact",
                check.two_matrices_have_a_real_root,
                states=3,
                control=2,
                wrong="on two outputs",
            ),
        ),
    ),
    Claim(
        id="deep.raw-values-one-step",
        paper=OURS,
        place="theory/toy/deep.py, theorems 2 and 3; bears on SVFormer (002), Eqn. (10), and on CLA and YOCO (003), 6.1",
        statement="k layers that all use layer 1's values are worth one gradient step, whatever k; layers that share "
        "values by blocks are worth one step a block.",
        assumes=FAMILY + ".  A head that writes to the x slot makes more of raw values, too",
        verdict="verified",
        correction="",
        evidence=(
            Evidence(
                "numeric",
                "SVFormer's attention, token by token, 1 to 6 layers: the steps add up",
                check.attention_computes,
                states=("svformer", check.sum_of_steps),
                control=("svformer", check.product_of_steps),
                wrong="the steps multiply",
            ),
            Evidence(
                "numeric",
                "value sharing in every second layer (CLA), token by token: one step for two layers",
                check.attention_computes,
                states=("cla-v", check.product_of_pairs),
                control=("cla-v", check.product_of_steps),
                wrong="one a layer",
            ),
            Evidence(
                "numeric",
                "the best loss in 1, 2, 4 and 8 layers is that of a step, the least of all linear maps of S_yx; exact",
                check.one_step_is_best,
                states="svformer",
                control="cla-v",
                wrong="CLA, which has a step for every second layer",
            ),
            Evidence(
                "numeric",
                "outside the family: with x <- (I + b S_xx) x beside, two layers of raw values make a square",
                check.writing_x_makes_more,
                states=2,
                control=0,
                wrong="one step there too",
            ),
        ),
    ),
    Claim(
        id="deep.mixed-values",
        paper=OURS,
        place="theory/toy/deep.py, theorem 2; theory/prompts/spectral.py, (4) and (5); bears on ResFormer and SkipV1Former",
        statement="k layers with their own values and layer 1's reach every polynomial of degree <= k.  Against own "
        "values with a number for each layer's weight that wins nothing up to a noise sigma_k(d, n), in particular "
        "nothing at sigma = 0, and something for every sigma above it, k >= 2; against matrices on an even number of "
        "outputs it wins nothing.",
        assumes=FAMILY + "; k free weights",
        verdict="verified",
        correction="",
        evidence=(
            Evidence(
                "symbolic",
                "weights for random polynomials, two to six layers, exactly; the own ones are given beforehand",
                check.every_polynomial_is_made,
                states=1,
                control=2,
                wrong="layer 2's values in the place of layer 1's",
            ),
            Evidence(
                "numeric",
                "one ResFormer head a layer, halves fixed, makes the best polynomial of four layers, token by token",
                check.one_resformer_head_reaches,
                states=True,
                control=False,
                wrong="all layers have layer 1's V",
            ),
            Evidence(
                "numeric",
                "attention, token by token, makes the polynomials of the recursion: SkipV1Former",
                check.attention_computes,
                states=("skipv1", residual_polynomial),
                control=("skipv1", check.product_of_steps),
                wrong="with layer 1's weights taken for own ones",
            ),
            Evidence(
                "symbolic",
                "two layers, sigma = 2: the best quadratic has complex roots and no two own steps have its loss; exact",
                check.real_roots_lose_at_two_layers,
                states=Fraction(2),
                control=Fraction(1),
                wrong="sigma = 1, below the threshold",
            ),
            Evidence(
                "symbolic",
                "the best polynomials of degree 2 to 6 have real roots just below sigma_k, and not just above; exact",
                check.threshold_parts,
                states=1.0,
                control=1.1,
                wrong="the threshold a tenth higher",
            ),
        ),
    ),
    Claim(
        id="deep.best-polynomial",
        paper=OURS,
        place="theory/prompts/spectral.py, (1) to (3)",
        statement="The best polynomial of degree k is ridge regression at 0 and at the k Gauss nodes of the spectrum; "
        "its loss is the Gauss-Radau rule for ridge's, and comes down to it as k grows.",
        assumes=FAMILY,
        verdict="verified",
        correction="",
        evidence=(
            Evidence(
                "symbolic",
                "the same loss by elimination from the moments, in fractions, one to five layers",
                loss.normal_equations_give,
                states=0,
                control=1,
                wrong="one layer more",
            ),
            Evidence(
                "numeric",
                "mean losses over 20,000 prompts, within 4 standard errors, one to three layers",
                loss.sampled_prompts_lose,
                states=1.0,
                control=1.05,
                wrong="a loss 5 % higher",
            ),
            Evidence(
                "numeric",
                "sampled ridge losses lie between the rules of 32 layers with and without a node at 0",
                loss.ridge_lies_between,
                states=1.0,
                control=1.1,
                wrong="with a tenth more noise",
            ),
        ),
    ),
    Claim(
        id="deep.real-roots-miss-ridge",
        paper=OURS,
        place="theory/prompts/spectral.py, (6)",
        statement="With noise, and a number for each layer's weight, own values keep a distance from ridge regression "
        "however many layers there are; with layer 1's values beside them they come as near as one likes.",
        assumes=FAMILY + "; sigma > 0",
        verdict="verified",
        correction="",
        evidence=(
            Evidence(
                "numeric",
                "random polynomials with real roots are off ridge, by the proof's bound, on half of an interval",
                loss.keeps_off_ridge,
                states="real",
                control="best",
                wrong="the best polynomials, with complex roots",
            ),
            Evidence(
                "numeric",
                "the excess over ridge of the best own steps that descents find falls by less than half from 4 to 12 "
                "layers",
                loss.excess_stays,
                states=False,
                control=True,
                wrong="the best polynomials' excess",
            ),
        ),
    ),
    Claim(
        id="skipv1.a2-deeper",
        paper=PAPER,
        place="appendix A.2: if each layer of a deeper Transformer performs a gradient step, the analysis carries over "
        "with the same proof technique",
        statement="The loss gap of Theorem 2 holds for deeper models, by the same proof.",
        assumes="W* ~ N(0, I), x ~ N(0, I), Gaussian noise; gradient steps as in deep.own-values",
        verdict="corrected",
        correction="The proof does not carry over: it needs P to be a fixed linear map of S_yx, and its bound fails "
        "from two steps on.  The conclusion does while tokens stay compressed: no model of any depth or kind that sees "
        "(A x ; B y) alone explains more than a (d - a) entries of W*, and after any number of steps SkipV1Former is "
        "at least rho a^2 ahead at equal rank.  But with a residual stream of width 2d nothing needs compression, and "
        "there, among models of gradient steps, raw values beside own ones win nothing (or little: deep.mixed-values), "
        "and raw values alone lose all layers but one.",
        evidence=(
            Evidence(
                "symbolic",
                "Lemma 4's proportionality fails for what a second step reads, S_yx S_xx: its ratio, by pairing, d = 1",
                discussion.second_step_correlates,
                states=4,
                control=2,
                wrong="1/lambda = n + 2 + sigma^2, as the proof would need",
            ),
            Evidence(
                "numeric",
                "the proof's bound, rho for each number seen, is exceeded by the best polynomial of two layers; exact",
                loss.linear_bound_fails,
                states=2,
                control=1,
                wrong="one layer, where the proof holds",
            ),
            Evidence(
                "numeric",
                "attention on compressed tokens, one to three steps, 20,000 prompts: MHA's loss, and a gap of rho a^2",
                loss.compressed_steps_lose,
                states=lambda a, k: Fraction(a * a),
                control=lambda a, k: Fraction(a * a * k),
                wrong="a gap that grows with the number of steps",
            ),
            Evidence(
                "numeric",
                "told all of W* that (A x ; B y) can tell, a model loses d^2 - a (d - a) + d sigma^2, 20,000 prompts",
                loss.known_rows_and_columns_leave,
                states=lambda d, a: d * d - a * (d - a),
                control=lambda d, a: d * d - a * d,
                wrong="as if raw labels were seen",
            ),
            Evidence(
                "numeric",
                "nothing compressed and no noise: one to six own steps reach the best polynomial",
                loss.raw_values_win_nothing,
                states=(Fraction(0), 0),
                control=(Fraction(0), 1),
                wrong="as if raw values were worth a layer",
            ),
        ),
    ),
)
