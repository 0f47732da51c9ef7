"""Ledger entries on Lemmas 3 and 4 of SkipV1Former's appendix A.1 and the class h of Eqn. (11), line by line."""

from __future__ import annotations

from experiments.claims import skipv1_lemma34_checks as check
from experiments.claims.ledger import Claim, Evidence
from experiments.claims.skipv1_theorem import PAPER

CLAIMS = (
    Claim(
        id="skipv1.class-h",
        paper=PAPER,
        place="appendix A.1, h(W~, M~) before Eqn. (11), and its use in the proof of the theorem",
        statement="N_3 and N_3' are special cases of h(W~, M~), so min E||W_D - N_3'||^2 >= min L~.",
        assumes="none",
        verdict="verified",
        correction="With two heads: W~^h = (W_1^h A, W_2^h B) and M~^h = (A^T M_1^h ; B^T M_2^h), and for the skip "
        "head W~^2 = (0, W^2) and M~^2 = (A^T M_1^2 ; 0).  (h is also a head's number; W_QK^h, used once, is W_K^T "
        "W_Q.)",
        evidence=(
            Evidence(
                "numeric",
                "MHA; whole numbers, exact",
                check.is_special_case,
                states=("MHA", "as stated"),
                control=("MHA", "exchanged"),
                wrong="M~'s blocks exchanged",
            ),
            Evidence(
                "numeric",
                "SkipV1Former; whole numbers, exact",
                check.is_special_case,
                states=("SkipV1Former", "as stated"),
                control=("SkipV1Former", "exchanged"),
                wrong="M~'s blocks exchanged",
            ),
        ),
    ),
    Claim(
        id="skipv1.lemma3-second-moment",
        paper=PAPER,
        place="appendix A.1, Lemma 3: t_2, lambda_i, the third display; and lambda_i's numerator in the theorem's "
        "proof",
        statement="E[X y_i (W_D)_i] = t_2 I_{d^2} for some t_2, and lambda_i makes the third display zero.",
        assumes="W0 = 0",
        verdict="corrected",
        correction="The matrices are d x d, so I_d is meant.  t_2 = n whatever sigma and d: given X the mean is S.  "
        "So lambda_i's numerator is d t_2 = n d, the sum of the proof's two terms S (S + sigma^2)^-1 S and sigma^2 S "
        "(S + sigma^2)^-1, and its sign needs no inequality.  t_1: skipv1.lemma3-isotropy.",
        evidence=(
            Evidence(
                "numeric",
                "E[X y_i (W_D)_i | X] = S for whole-number X, n below and above d; exact",
                check.row_moment_given_x,
                states=2,
                control=1,
                wrong="ridge of strength sigma",
            ),
            Evidence(
                "symbolic",
                "E[S_yx W*] is n for equal entries and 0 for others, by pairing, d = 1, 2 (W_D = E[W* | D])",
                check.target_moment,
                states=lambda n, d: n,
                control=lambda n, d: d,
                wrong="d, as the proof prints for E X X^T",
            ),
            Evidence(
                "numeric",
                "all three displays, d = 2, X over the signed permutations of a whole-number matrix; exact",
                check.lemma3_is_isotropic,
                states=0,
                control=1,
                wrong="W0 = I",
            ),
        ),
    ),
    Claim(
        id="skipv1.lemma4-gradients",
        paper=PAPER,
        place="appendix A.1, proof of Lemma 4: Eqns. (12), (13), (14), the displays between them, the gradient in M~",
        statement="L~ and L~' have the same gradient in W~ and M~.",
        assumes="W0 = 0",
        verdict="verified",
        correction="Every step is right at W0 = 0.  (L~' is written as a function of W, M; it is one of W~, M~.)  The "
        "step for i != j needs the rows of Y to be uncorrelated given X, and fails around any other W0.",
        evidence=(
            Evidence(
                "symbolic",
                "E[S_yx W*] : E[S_yx S_yx] = 1 : n + d + 1 + sigma^2 for every pair of entries, by pairing, d = 2",
                check.cross_moments_are_proportional,
                states=0,
                control=1,
                wrong="W0 = I",
            ),
            Evidence(
                "numeric",
                "Eqns. (13) and (14) and both blocks for M~, d = 2, X over the signed permutations of a matrix; exact",
                check.equations_12_to_14,
                states=0,
                control=1,
                wrong="W0 = I",
            ),
        ),
    ),
    Claim(
        id="skipv1.lemma4-constant",
        paper=PAPER,
        place="appendix A.1, Lemma 4: C_3 > 0, and min L_2 = C + C_3 in the proof of the theorem",
        statement="L~ = C_3 + E||Lambda S_yx - h||^2 with C_3 = E||W_D||^2 - E||Lambda S_yx||^2 > 0, and min L_2 = C "
        "+ C_3.",
        assumes="W0 = 0",
        verdict="verified",
        correction="C_3 = d E tr S/(S + sigma^2) - rho d^2 > 0 for every d, n and sigma, independent of A and B too, "
        "and C + C_3 = d^2 + d sigma^2 - rho d^2: ridge regression cancels.  Smallest: 2/3 at d = n = 1, sigma = 0.  "
        "Lambda is lambda I.",
        evidence=(
            Evidence(
                "numeric",
                "the split and C_3 > 0 for random W~, M~, d = 2, X over the signed permutations of a matrix; exact",
                check.lemma4_splits,
                states=1,
                control=2,
                wrong="2 Lambda",
            ),
            Evidence(
                "numeric",
                "sigma = 0: C_3 = d min(d, n) - rho d^2, and C + C_3 is SkipV1Former's minimum; exact, d = 1..5, n = "
                "1..7",
                check.c3_noiseless,
                states=1,
                control=2,
                wrong="2 rho d^2",
            ),
            Evidence(
                "numeric",
                "d = 1, sigma = 0.7: E W_D^2 - E (lambda S_yx)^2 is E (W_D - lambda S_yx)^2, by quadrature over S",
                check.c3_with_noise,
                states=1,
                control=0,
                wrong="lambda = 1/(n + d + sigma^2)",
            ),
        ),
    ),
)
