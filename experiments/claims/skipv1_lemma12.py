"""Ledger entries on Lemmas 1 and 2 of SkipV1Former's appendix A.1 and their proofs, line by line.

What the lemmas say of the loss as a whole is judged in `skipv1_proof`: ridge regression, parity, H_2, Eqn. (10).
"""

from __future__ import annotations

from experiments.claims import skipv1_lemma12_checks as check
from experiments.claims import skipv1_lemma34_checks as moments
from experiments.claims.ledger import Claim, Evidence
from experiments.claims.skipv1_theorem import PAPER

CLAIMS = (
    Claim(
        id="skipv1.eqn7",
        paper=PAPER,
        place="appendix A.1, proof of Lemma 1: first-order condition, Eqn. (7) and the decomposition after it",
        statement="E[2 (U x - y) x^T (U - W_D)^T | D, x] = 0 for every U, which makes the cross term vanish.",
        assumes="x = x_{n+1}, y = y_{n+1}",
        verdict="corrected",
        correction="The condition holds at U = W_D, not at every U: (7) must read E[2 (W_D x - y) x^T (U - W_D)^T] = "
        "0. As printed its left side is 2 (U - W_D) x x^T (U - W_D)^T: 2 at d = 1, x = 1, U = W_D + 1.  With W_D "
        "there the decomposition holds.  Its cross term is printed as a d x d matrix among numbers; its trace is "
        "meant.  That a minimiser exists follows from g being quadratic, not from convexity.",
        evidence=(
            Evidence(
                "symbolic",
                "d = 1: which first factor makes the mean zero for every U",
                check.eqn7_vanishes,
                states="W_D",
                control="U",
                wrong="as printed",
            ),
            Evidence(
                "numeric",
                "d = 2: the decomposition over four equally likely labels, whole numbers, exact",
                check.decomposition_holds,
                states=0,
                control=1,
                wrong="around a matrix that is no minimiser",
            ),
        ),
    ),
    Claim(
        id="skipv1.lemma1-minimiser",
        paper=PAPER,
        place="appendix A.1, proof of Lemma 1: W_D is any minimiser of g; and the last display, with x_{n+1} gone",
        statement="Any minimiser W_D of g(U) = E[|U x_{n+1} - y_{n+1}|^2 | D, x_{n+1}] makes the loss C + E||W_D - "
        "P||^2.",
        assumes="none",
        verdict="corrected",
        correction="g sees U x_{n+1} only, so its minimisers fill d (d - 1) dimensions and may depend on x_{n+1}; the "
        "last step, E|(W_D - P) x|^2 = E||W_D - P||^2, needs one that does not: the posterior mean E[W* | D], which "
        "at W0 = 0 is the lemma's ridge regression.  The minimiser of least norm, W_D x x^T/|x|^2, would make "
        "E||W_D||^2/d of E||W_D||^2 at P = 0: half at d = 2.",
        evidence=(
            Evidence(
                "numeric",
                "the minimisers of g fill d (d - 1) dimensions; exact, d = 1..3",
                check.minimisers_left,
                states=lambda d: d * (d - 1),
                control=lambda d: 0,
                wrong="one minimiser",
            ),
            Evidence(
                "numeric",
                "the last step, d = 2, over four queries of mean x x^T = I; exact",
                check.last_step_holds,
                states="W_D",
                control="least norm",
                wrong="the minimiser of least norm",
            ),
        ),
    ),
    Claim(
        id="skipv1.lemma1-constant",
        paper=PAPER,
        place="appendix A.1, Lemma 1: C > 0, the exemplars, G_{i,D}",
        statement="There is C > 0, independent of A, B, W and M, with L_k = C + E||sum_h W^h G_{i,D} M^h - W_D||^2.",
        assumes="W0 = 0",
        verdict="corrected",
        correction="C is the loss of ridge regression, d sigma^2 + d E tr sigma^2/(S + sigma^2), and depends on the "
        "task alone.  It is zero at sigma = 0 and n >= d, so C >= 0.  G_{i,D} is G_{k,D}^h: for SkipV1Former the "
        "heads' G differ.  The exemplars are the n pairs; x_{n+1} has no label and no part in W_D.",
        evidence=(
            Evidence(
                "numeric",
                "d = 1: C and the distance to W_D add up to the exact loss at three weights, by quadrature over S",
                check.constant_adds_up,
                states=1,
                control=0,
                wrong="C without the label's own noise",
            ),
            Evidence(
                "numeric",
                "sigma = 0: C vanishes from n = d on, where whole-number prompts determine W*; exact rank",
                check.constant_vanishes_from,
                states=lambda d: d,
                control=lambda d: float("inf"),
                wrong="C > 0 at every n",
            ),
            Evidence(
                "numeric",
                "one G serves both heads: of MHA; by the map from S to P, exact",
                check.one_gram_serves,
                states="MHA",
                control="SkipV1Former",
                wrong="for SkipV1Former, as G_{i,D} says",
            ),
        ),
    ),
    Claim(
        id="skipv1.lemma2-blocks",
        paper=PAPER,
        place="appendix A.1, before Lemma 2: W^h = (W_1^h, W_2^h), M^h = (M_1^h, M_2^h); Lemma 2's H_1; Eqns. (8), (9)",
        statement="With M_1^h: d x a and M_2^h: d x (d - a), MHA's P is N_1(X) + N_2(Y) + N_3(X, Y) and H_1 = N_3.",
        assumes="none",
        verdict="corrected",
        correction="W^h splits by columns as printed, M^h by rows: M_1^h is a x d, M_2^h is (d - a) x d.  With these "
        "Eqns. (8) and (9) and H_1 are right.  With the printed shapes B^T M_2^h has no meaning, for any a < d.",
        evidence=(
            Evidence(
                "numeric",
                "N_1 + N_2 + N_3 = P; whole numbers, exact",
                check.eqn9_adds_up,
                states=("rows", True),
                control=("columns", True),
                wrong="M split by columns, as printed",
            ),
            Evidence(
                "numeric",
                "N_3 needs both of its terms; whole numbers, exact",
                check.eqn9_adds_up,
                states=("rows", True),
                control=("rows", False),
                wrong="N_3 without W_1 A X Y^T B^T M_2",
            ),
            Evidence(
                "numeric",
                "N_2' of Eqn. (10) is the part of SkipV1Former's P quadratic in Y (N_1' and N_3': "
                "skipv1.eq10-even-part and skipv1.lemma2-h2); exact",
                check.eqn10_labels,
                states=True,
                control=False,
                wrong="without the skip head's term",
            ),
        ),
    ),
    Claim(
        id="skipv1.lemma2-constants",
        paper=PAPER,
        place="appendix A.1, Lemma 2: constants C_1, C_2 > 0",
        statement="L_1 = C + C_1 + E||H_1 - W_D||^2 with a constant C_1 > 0, and L_2 likewise with C_2 > 0.",
        assumes="W0 = 0",
        verdict="corrected",
        correction="C_1 and C_2 are functions of the weights, E||N_1 + N_2||^2, and >= 0 is all that holds: they are "
        "zero at W = 0.  C_2 is zero at the weights that the theorem's own proof picks, and must be, else min L_2 "
        "would not be C + C_3.",
        evidence=(
            Evidence(
                "numeric",
                "SkipV1Former's even part vanishes at the proof's weights, for every prompt; exact",
                check.even_part_vanishes,
                states="paper",
                control="random",
                wrong="at random weights",
            ),
            Evidence(
                "numeric",
                "and at W = 0; exact",
                check.even_part_vanishes,
                states="zero",
                control="random",
                wrong="at random weights",
            ),
            Evidence(
                "numeric",
                "MHA at d = a = 1: C_1 goes with the square of the readouts; exact loss, three scales",
                check.c1_scales_with_power,
                states=2,
                control=0,
                wrong="a constant",
            ),
        ),
    ),
    Claim(
        id="skipv1.lemma2-ridge-formula",
        paper=PAPER,
        place="appendix A.1, proof of Lemma 2: W_D = Y X^T (X X^T + sigma I)^-1 almost everywhere",
        statement="The formula holds almost everywhere.",
        assumes="sigma >= 0",
        verdict="corrected",
        correction="With sigma^2 for sigma it holds for every X if sigma > 0, and almost surely if sigma = 0 and n >= "
        "d. At sigma = 0 and n < d the inverse exists nowhere; the posterior mean is then S_yx S^+ and the rest of "
        "the proof stands.",
        evidence=(
            Evidence(
                "numeric",
                "sigma = 0: X X^T can be inverted from n = d on; exact rank, d = 1..3",
                check.constant_vanishes_from,
                states=lambda d: d,
                control=lambda d: 1,
                wrong="from n = 1 on",
            ),
            Evidence(
                "numeric",
                "E[X y_i (W_D)_i | X] = S, as it must for a posterior mean, for every n; whole-number X, exact",
                moments.row_moment_given_x,
                states=2,
                control=1,
                wrong="sigma I, as printed",
            ),
        ),
    ),
)
