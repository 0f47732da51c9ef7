"""Ledger entries on the assumption, the lemmas and the steps of SkipV1Former's proof (appendix A.1)."""

from __future__ import annotations

from experiments.claims import skipv1_proof_checks as proof
from experiments.claims.ledger import Claim, Evidence
from experiments.claims.skipv1_theorem import OURS, PAPER

CLAIMS = (
    Claim(
        id="skipv1.assumption1",
        paper=PAPER,
        place="appendix A.1, Eqn. (2) and Assumption 1",
        statement="The first layer can copy: keep x_t in its token while y_t's token becomes (A x_t ; B y_t).",
        assumes="the first layer is Eqn. (2): linear attention without positions, residual or normalisation",
        verdict="refuted",
        correction="Eqn. (2) multiplies every token by one d x d matrix, which is quadratic in the prompt.  So its "
        "output is cubic in the prompt, where Assumption 1 is linear; and for a given prompt with d independent x's, "
        "keeping them makes the matrix the identity, which leaves every y as it is.",
        evidence=(
            Evidence(
                "numeric",
                "doubling the prompt multiplies the layer's output by eight",
                proof.first_layer_has_degree,
                states=3,
                control=1,
                wrong="by two, as Assumption 1 needs",
            ),
            Evidence(
                "numeric",
                "the layer's output is one matrix times its input, at random weights",
                proof.first_layer_is_one_matrix,
                states="no positions",
                control="positions",
                wrong="a layer with a head that looks one token back",
            ),
        ),
        experiments=("skipv1-end-to-end",),
    ),
    Claim(
        id="skipv1.lemma1-ridge",
        paper=PAPER,
        place="appendix A.1, Lemma 1, and the formula for W_D in the proof of Lemma 2",
        statement="The loss is a constant plus E ||P - W_D||^2, W_D being ridge regression with strength sigma^2.",
        assumes="W0 = 0",
        verdict="corrected",
        correction="True at W0 = 0 with strength sigma^2 (the posterior mean).  Lemma 2's proof writes sigma I for "
        "sigma^2 I, and at W0 != 0 the posterior mean is W0 + (S_yx - W0 S_xx)(S_xx + sigma^2 I)^-1.",
        evidence=(
            Evidence(
                "symbolic",
                "d = 1, any W0: the conditional mean of W* is W0 + (S_yx - W0 S_xx)/(S_xx + sigma^2)",
                proof.posterior_mean,
                states=lambda sigma: sigma**2,
                control=lambda sigma: sigma,
                wrong="strength sigma, as the proof of Lemma 2 prints",
            ),
            Evidence(
                "numeric",
                "E[W_D S_yx] = E[W* S_yx] (orthogonality), d = 1, by quadrature over S_xx",
                proof.ridge_orthogonality,
                states=2,
                control=1,
                wrong="strength sigma",
            ),
        ),
    ),
    Claim(
        id="skipv1.lemma2-parity",
        paper=PAPER,
        place="appendix A.1, Lemma 2",
        statement="The part of P that is even in Y and the odd part of P - W* add up without a cross term.",
        assumes="W0 = 0",
        verdict="corrected",
        correction="True at W0 = 0.  At W0 != 0, W* is not odd, and the even part is needed to explain W0.",
        evidence=(
            Evidence(
                "symbolic",
                "E[even x odd] = 0 for every entry of S_xx, S_yy against S_yx, W*, by pairing, d = 2",
                proof.even_and_odd_uncorrelated,
                states=0,
                control=1,
                wrong="W0 = I",
            ),
            Evidence(
                "numeric",
                "MHA at a = d, which has an even part only, explains nothing; exact minimisation, d = 2",
                proof.even_part_only_hurts,
                states=0.0,
                control=3.0,
                wrong="W0 = 3 I, which the printed hypothesis allows at sigma = 0.3",
            ),
        ),
    ),
    Claim(
        id="skipv1.lemma2-h2",
        paper=PAPER,
        place="appendix A.1, Lemma 2, displayed formula for H_2",
        statement="The odd part of SkipV1Former's P is H_2 = sum_h W^h Y X^T A^T M_1^h.",
        assumes="none",
        verdict="corrected",
        correction="That is the skip head's part alone, summed over both heads.  The ordinary head adds what it adds "
        "in MHA: N_3' = W_1^1 A X Y^T B^T M_2^1 + W_2^1 B Y X^T A^T M_1^1 + W^2 Y X^T A^T M_1^2, as the proof has it.",
        evidence=(
            Evidence(
                "numeric",
                "exact: the odd part of P, from tokens with whole-number entries, is the formula",
                proof.skip_odd_part,
                states="proof",
                control="lemma",
                wrong="H_2 as the lemma prints it",
            ),
            Evidence(
                "numeric",
                "random real prompts and weights, d = 1..4",
                proof.skip_odd_part_real,
                states="proof",
                control="lemma",
                wrong="H_2 as the lemma prints it",
            ),
        ),
    ),
    Claim(
        id="skipv1.eq10-even-part",
        paper=PAPER,
        place="appendix A.1, Eqn. (10), and the weights chosen in the proof of the theorem",
        statement="A = I, B = 0, W^1 = -Lambda/2, W^2 = Lambda, M^1 = M^2 = I make SkipV1Former's even part vanish.",
        assumes="none",
        verdict="corrected",
        correction="They do.  But Eqn. (10) prints W_1^1 A X X^T A^T M_1^1 inside the sum over both heads, and read so "
        "the even part of these weights is -Lambda X X^T / 2.",
        evidence=(
            Evidence(
                "numeric",
                "exact, from tokens with whole-number entries",
                proof.paper_weights_even_part,
                states=1,
                control=2,
                wrong="the term counted once for each head, as printed",
            ),
            Evidence(
                "numeric",
                "the exact loss of these weights is SkipV1Former's minimum",
                proof.paper_weights_loss,
                states=-0.5,
                control=-1.0,
                wrong="W^1 = -Lambda, which would cancel the term counted twice",
            ),
        ),
    ),
    Claim(
        id="skipv1.lemma3-isotropy",
        paper=PAPER,
        place="appendix A.1, Lemma 3 (from its reference 48)",
        statement="E[X y_i y_i^T X^T] is a multiple of the identity, y_i being a row of Y.",
        assumes="W0 = 0",
        verdict="corrected",
        correction="True at W0 = 0, with t_1 = n (n + d + 1 + sigma^2).  For a row of W* with mean w it is "
        "n (n+d+1+sigma^2+|w|^2) I + n (n+1) w w^T; d = 2, n = 1, sigma = 0, w = e_1 gives diag(7, 5).",
        evidence=(
            Evidence(
                "symbolic",
                "by pairing, d = 2, symbolic in n, sigma and W0",
                proof.row_moment,
                states=1,
                control=0,
                wrong="no term in w w^T: isotropic at every W0, as Lemma 3 says",
            ),
            Evidence(
                "symbolic",
                "by pairing, symbolic in d and n: E ||S_yx||^2 at W0 = 0",
                proof.signal_power,
                states=1,
                control=0,
                wrong="n (n + d + sigma^2)",
            ),
        ),
    ),
    Claim(
        id="skipv1.step-size",
        paper=OURS,
        place="fills in lambda_i of Lemmas 3 and 4, appendix A.1, which the paper leaves open",
        statement="All lambda_i are equal to 1/(n + d + 1 + sigma^2).",
        assumes="W0 = 0",
        verdict="verified",
        correction="",
        evidence=(
            Evidence(
                "symbolic",
                "by pairing, d = 1, 2: E[W*_ij S_yx_ij] / E[S_yx_ij^2]",
                proof.step_size,
                states=1,
                control=0,
                wrong="1/(n + d + sigma^2)",
            ),
            Evidence(
                "numeric",
                "SkipV1Former's optimal weights, all readouts scaled together, are best at this step, d = 3",
                proof.step_size_is_best,
                states=1,
                control=0,
                wrong="1/(n + d + sigma^2)",
            ),
        ),
    ),
    Claim(
        id="skipv1.eckart-young",
        paper=PAPER,
        place="appendix A.1, proof of the theorem, the display after Eckart-Young",
        statement="||M - R_a(M)||_F^2 is at least the square of the sum of the singular values beyond a.",
        assumes="none",
        verdict="refuted",
        correction="It is the sum of their squares, which is never more than the square of their sum and equal to it "
        "only if at most one is not zero.  The bound that the proof then uses, sigma_d^2, is right.",
        evidence=(
            Evidence(
                "symbolic",
                "M = I, a = 0, d = 2: 2 against 4",
                proof.tail_of_identity,
                states="sum of squares",
                control="square of sum",
                wrong="as printed",
            ),
            Evidence(
                "numeric",
                "random matrices, d = 2..6, every rank",
                proof.tail_of_random,
                states="sum of squares",
                control="square of sum",
                wrong="as printed",
            ),
        ),
    ),
    Claim(
        id="skipv1.ridge-inequality",
        paper=PAPER,
        place="appendix A.1, proof of the theorem: the lower bound on lambda_i",
        statement="S (S + sigma^2)^-1 S >= S - sigma^2 I for S = X X^T, with mean (d - sigma^2) I.",
        assumes="none",
        verdict="corrected",
        correction="The inequality is right; the mean of its right side is (n - sigma^2) I, positive only for "
        "n > sigma^2.  That lambda_i > 0 needs none of it: see skipv1.step-size.",
        evidence=(
            Evidence(
                "symbolic",
                "eigenvalue by eigenvalue: s^2/(s + sigma^2) - s + sigma^2 = sigma^4/(s + sigma^2)",
                proof.ridge_remainder,
                states=4,
                control=2,
                wrong="remainder sigma^2/(s + sigma^2)",
            ),
            Evidence(
                "symbolic",
                "by pairing: E tr X X^T = n d",
                proof.mean_of_s,
                states="n",
                control="d",
                wrong="E X X^T = d I, as printed",
            ),
        ),
    ),
)
