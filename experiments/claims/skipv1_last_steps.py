"""Ledger entries on the end of SkipV1Former's proof (appendix A.1): the lower bound on L_1, and c > 0, line by line."""

from __future__ import annotations

from math import exp, pi, sqrt

from experiments.claims import skipv1_last_steps_checks as check
from experiments.claims.ledger import Claim, Evidence
from experiments.claims.skipv1_theorem import PAPER

CLAIMS = (
    Claim(
        id="skipv1.missing-squares",
        paper=PAPER,
        place="appendix A.1, proof of the theorem, a < d: E||W_D - N_3|| = C_3 + E||Lambda S_yx - N_3||",
        statement="The two norms, without squares, differ by C_3.",
        assumes="W0 = 0",
        verdict="refuted",
        correction="Their squares do, by Lemma 4.  At d = n = 1, sigma = 0, N_3 = 0 the left side is sqrt(2/pi) = "
        "0.798 and the right one 2/3 + sqrt(2/pi)/3 = 0.933.",
        evidence=(
            Evidence(
                "symbolic",
                "d = n = 1, sigma = 0, N_3 = 0",
                check.norms_add_up_noiseless,
                states=2,
                control=1,
                wrong="without squares",
            ),
            Evidence(
                "numeric",
                "d = 1, n = 4, sigma = 0.7, N_3 = S_yx/5, by quadrature over S",
                check.norms_add_up,
                states=2,
                control=1,
                wrong="without squares",
            ),
        ),
    ),
    Claim(
        id="skipv1.rank-argument",
        paper=PAPER,
        place="appendix A.1, proof of the theorem, a < d: the rank of N_3 is at most a",
        statement="N_3 has rank at most a, which is what keeps MHA behind.",
        assumes="none",
        verdict="corrected",
        correction="It has, as its last factor is A.  So has SkipV1Former's N_3', for the same reason: the argument "
        "compares MHA at rank a with SkipV1Former at rank d, and shows no gap at equal A.  What tells the two apart "
        "there is the rank of the linear map from S_yx to P: a (d - a) against a d (skipv1.gap).",
        evidence=(
            Evidence(
                "numeric",
                "N_3: at most a, and attained; whole numbers, exact",
                check.rank_is_at_most,
                states=("MHA", lambda a, d: a),
                control=("MHA", lambda a, d: a - 1),
                wrong="a - 1",
            ),
            Evidence(
                "numeric",
                "N_3': at most a as well, and attained; whole numbers, exact",
                check.rank_is_at_most,
                states=("SkipV1Former", lambda a, d: a),
                control=("SkipV1Former", lambda a, d: d),
                wrong="d",
            ),
        ),
    ),
    Claim(
        id="skipv1.final-display",
        paper=PAPER,
        place="appendix A.1, proof of the theorem: c is independent of A, B, W, M; L_2 >= C + C_3 + c = L_2' + c",
        statement="As C_2 > 0, L_2 >= C + C_3 + c = L_2' + c, with c independent of A.",
        assumes="W0 = 0",
        verdict="corrected",
        correction="L_1 >= C + C_3 + c = min L_2 + c, as C_1 >= 0; L_2' is defined nowhere.  As printed the display "
        "contradicts min L_2 = C + C_3, further up.  And c depends on A through its number of rows: the c that serves "
        "all a is the one of a = d - 1, lambda^2 E sigma_d(S_yx)^2, which is zero for n < d.  The gap is not: "
        "skipv1.gap.",
        evidence=(
            Evidence(
                "numeric",
                "which loss, over all ranks, lies above min L_2 by the least c; d = 3, n = 8, closed forms",
                check.excess_is_at_least_c,
                states="L_1",
                control="L_2",
                wrong="as printed",
            ),
            Evidence(
                "numeric",
                "c is least at a = d - 1, d = 2..4, by five standard errors, and zero there for n < d",
                check.c_is_least_at,
                states=lambda d: d - 1,
                control=lambda d: 0,
                wrong="at a = 0",
            ),
        ),
    ),
    Claim(
        id="skipv1.lambda-factor",
        paper=PAPER,
        place="appendix A.1, proof of the theorem: min |lambda_i|^2 taken out of the best approximation",
        statement="||Lambda M - R_a(Lambda M)||^2 >= min |lambda_i|^2 ||M - R_a(M)||^2.",
        assumes="none",
        verdict="verified",
        correction="True of any matrix Lambda with its least singular value for min |lambda_i|; here Lambda = lambda "
        "I and it is an equality.",
        evidence=(
            Evidence(
                "numeric",
                "random diagonal and other matrices, d = 1..6, every rank",
                check.factor_bounds,
                states="least",
                control="greatest",
                wrong="the greatest |lambda_i|",
            ),
            Evidence(
                "numeric",
                "it is attained: Lambda = diag(1, 2), M = I, a = 1",
                check.factor_is_attained,
                states=1,
                control=2,
                wrong="the factor 2",
            ),
        ),
    ),
    Claim(
        id="skipv1.weyl",
        paper=PAPER,
        place="appendix A.1, proof of the theorem, Weyl's inequality",
        statement="|sigma_d(Y X^T) - sigma_d(W* X X^T)| <= ||epsilon X||_2.",
        assumes="none",
        verdict="corrected",
        correction="||epsilon X^T||_2.  epsilon and X are d x n, so epsilon X has a meaning at n = d only, and is "
        "then too small: W* = (0 0 ; 2 0), X = (0 1 ; 2 0), epsilon = e_1 e_1^T give 2 > 1.",
        evidence=(
            Evidence(
                "numeric",
                "that example, and random 3 x 3 matrices",
                check.weyl_holds,
                states="transposed",
                control="as it is",
                wrong="as printed",
            ),
            Evidence(
                "numeric",
                "n != d, random matrices: a bound where there is such a product at all",
                check.weyl_needs_square,
                states=True,
                control=False,
                wrong="as printed",
            ),
        ),
    ),
    Claim(
        id="skipv1.singular-products",
        paper=PAPER,
        place="appendix A.1, proof of the theorem: sigma_d(AB) >= sigma_d(A) sigma_d(B), and its use",
        statement="sigma_d(W* X X^T) >= sigma_d(W*) sigma_d(X)^2.",
        assumes="square A and B",
        verdict="verified",
        correction="For n < d, X has no d-th singular value; with zero for it the bound says nothing.",
        evidence=(
            Evidence(
                "numeric",
                "the product rule and sigma_d(X X^T) = sigma_d(X)^2, random matrices, d = 1..6",
                check.products_of_least,
                states="least",
                control="greatest",
                wrong="sigma_1(B) for sigma_d(B)",
            ),
            Evidence(
                "numeric",
                "both sides vanish for n < d; whole numbers, exact, d = 2",
                check.signal_vanishes,
                states=1,
                control=2,
                wrong="n = d",
            ),
        ),
    ),
    Claim(
        id="skipv1.edelman",
        paper=PAPER,
        place="appendix A.1, proof of the theorem: Edelman's theorem, and with high probability",
        statement="X ~ N(0, I_{d^2}) has sigma_d(X) = Theta(1/sqrt(d)) for large d, with high probability.",
        assumes="none",
        verdict="corrected",
        correction="X is d x n; the statement is about n = d.  There sqrt(d) sigma_d(X) has a limit law, P(sqrt(d) "
        "sigma_d >= t) -> exp(-t^2/2 - t): 0.535 for t = 1/2, so no fixed constant is below it with high probability, "
        "only with one as near 1 as the constant is small.  For n < d sigma_d is zero; for n >= 2d + 1 it is of order "
        "sqrt(n).  Nor does a bound that holds with high probability compare two expectations, which is what the next "
        "display does.",
        evidence=(
            Evidence(
                "numeric",
                "P(sqrt(d) sigma_d >= 1/2) at d = 1..50, from the exact density: above exp(-5/8), by less than 1/d",
                check.share_tends_to,
                states=exp(-5 / 8),
                control=0.95,
                wrong="high probability",
            ),
            Evidence(
                "numeric",
                "the same by simulation, d = 2 and 20",
                check.simulated_share,
                states=check.share_above_half,
                control=lambda d: 0.95,
                wrong="high probability",
            ),
            Evidence(
                "numeric",
                "at n = 2d + 1 it is never so small, d = 20",
                check.order_needs_square,
                states=(lambda d: 2 * d + 1, 1.0),
                control=(lambda d: d, 1.0),
                wrong="n = d",
            ),
        ),
    ),
    Claim(
        id="skipv1.prior-variance",
        paper=PAPER,
        place="appendix A.1, proof of the theorem: since W ~ (U, sigma I_{d^2})",
        statement="sigma_d(W0) > 2 sqrt(d) sigma keeps sigma_d(W*) away from zero.",
        assumes="none",
        verdict="refuted",
        correction="W* ~ N(W0, I): its spread is 1, not sigma, and ||W* - W0||_2 is about 2 sqrt(d).  The printed "
        "hypothesis suits a spread of sigma; for this one it would have to be sigma_d(W0) > 2 sqrt(d).  None is "
        "needed for c > 0: see skipv1.noise-outweighs.  (U is W0.)",
        evidence=(
            Evidence(
                "numeric",
                "d = 1, sigma = 0.1: W* - W0 outweighs W0 at the threshold with probability 0.84",
                check.fluctuation_exceeds_hypothesis,
                states=1,
                control=0.1,
                wrong="a spread of sigma",
            ),
            Evidence(
                "numeric",
                "d = 30, sigma = 1/2: ||W* - W0||_2 > 2 sqrt(d) sigma in more than half of 200 draws",
                check.norm_exceeds_hypothesis,
                states=1,
                control=0.5,
                wrong="a spread of sigma",
            ),
        ),
    ),
    Claim(
        id="skipv1.noise-outweighs",
        paper=PAPER,
        place="appendix A.1, proof of the theorem, last display: E[sigma_d(W* X X^T) - ||epsilon X||_2] > 0",
        statement="Under the theorem's hypothesis the expectation is positive, and so c > 0.",
        assumes="epsilon X^T for epsilon X",
        verdict="refuted",
        correction="At d = n = 2, sigma = 1, W0 = 3 I it is at most sqrt(11) (2 - pi/2) - pi/2 = -0.15, and -23 at d "
        "= n = 20, sigma = 1/2, W0 = 4.5 I.  For n < d the first term is zero.  At n = d and any sigma > 0 it fails "
        "near the threshold for every large d, where the theorem asks for large d; at d = 1 it holds.  Being positive "
        "would be enough for c > 0, but is not needed: S_yx has rank min(d, n) almost surely, for every W0, so that c "
        "> 0 just if n > a (skipv1.c-positive).",
        evidence=(
            Evidence(
                "numeric",
                "the bound sqrt(w^2 + d) E l - sigma (E chi_d)^2 at d = n = 2, sigma = 1, w = 3",
                check.bound_is_negative,
                states=sqrt(11) * (2 - pi / 2) - pi / 2,
                control=sqrt(11) * (2 - pi / 2),
                wrong="without noise",
            ),
            Evidence(
                "numeric",
                "E l = 2 - pi/2 at d = n = 2, l the least eigenvalue of X X^T, from its exact density",
                check.least_eigenvalue_mean,
                states=2 - pi / 2,
                control=1.0,
                wrong="1, the bound by one row",
            ),
            Evidence(
                "numeric",
                "both halves of the bound hold in simulation, at d = n = 2 and 20, to five standard errors",
                check.simulated_bounds,
                states=1.0,
                control=0.5,
                wrong="half the bound on the signal",
            ),
            Evidence(
                "numeric",
                "simulation at both sizes: negative by five standard errors",
                check.simulated_difference,
                states=-1,
                control=1,
                wrong="positive",
            ),
            Evidence(
                "numeric",
                "S_yx has rank min(d, n), around W0 = 0 and others; whole numbers, exact, d = 1..3",
                check.s_yx_rank,
                states=min,
                control=lambda d, n: d,
                wrong="d for every n",
            ),
        ),
    ),
)
