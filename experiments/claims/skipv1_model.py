"""Ledger entries on SkipV1Former's simplified model: Eqns. (2), (3), (5), (6) and Assumption 1, appendix A.1."""

from __future__ import annotations

from experiments.claims import skipv1_model_checks as check
from experiments.claims.ledger import Claim, Evidence
from experiments.claims.skipv1_theorem import OURS, PAPER, W0_ZERO

CLAIMS = (
    Claim(
        id="skipv1.eqn2",
        paper=PAPER,
        place="appendix A.1, Eqn. (2) and the remark on W_O below it",
        statement="With P = diag(I, 0) the query attends to the context alone; W_O may be taken into W_V.",
        assumes="none",
        verdict="corrected",
        correction="The mask does so, and the prediction is linear in x_{n+1}.  W_O W_V is any d x d matrix if heads "
        "are as wide as tokens, which Eqn. (2) has and two heads of width d/2 have not.  For a skip head W_V is layer "
        "1's own, whose other use Assumption 1 has fixed; W^2 = H W_O W_V^1 is free only if W_V^1 is regular, and "
        "with W_V^1 of rank r SkipV1Former at a = d sees r d numbers of S_yx, not d^2.",
        evidence=(
            Evidence(
                "numeric",
                "doubling x_{n+1} doubles the prediction; from tokens, exact, both models",
                check.output_is_linear_in_query,
                states=True,
                control=False,
                wrong="no mask",
            ),
            Evidence(
                "numeric",
                "W_O W_V can be regular; exact rank, d = 2..4",
                check.products_are_regular,
                states=lambda d: d,
                control=lambda d: d // 2,
                wrong="heads of width d/2",
            ),
            Evidence(
                "numeric",
                "five skip heads whose W_V^1 has rank r: the map from S_yx to P has rank r d; exact, d = 1..3",
                check.shared_value_rank,
                states=lambda r, d: r * d,
                control=lambda r, d: d * d,
                wrong="d^2, as if W_V^1 could be undone",
            ),
        ),
    ),
    Claim(
        id="skipv1.eqn3-misprints",
        paper=PAPER,
        place="appendix A.1, Eqn. (3)",
        statement="Scores are TF_1(E) W_K^T W_Q TF_1(E), with W_Q^{2,2} in both heads.",
        assumes="none",
        verdict="corrected",
        correction="The first factor is TF_1(E)^T, as in Eqn. (2); as printed the shapes agree only if d = 2n + 1.  "
        "The first head's W_Q is W_Q^{2,1}; read as printed, with one W_Q for both, nothing is lost, as W_Q = I and "
        "W_K^h = (K^h 0)^T make any K^1 and K^2.",
        evidence=(
            Evidence(
                "numeric",
                "the transposed form is Eqn. (6)'s, from tokens, exact",
                check.eqn3_conforms,
                states=True,
                control=False,
                wrong="as printed",
            ),
            Evidence(
                "numeric",
                "one W_Q serves two heads of any K^1 and K^2; from tokens, exact",
                check.shared_projections_suffice,
                states="query",
                control="query and key",
                wrong="one W_K as well",
            ),
        ),
    ),
    Claim(
        id="skipv1.eqns-5-6",
        paper=PAPER,
        place="appendix A.1, Eqns. (5) and (6), with W^h, M^h, G_{1,D}, G_{2,D}^1 and G_{2,D}^2 before them",
        statement="Under Assumption 1 Eqns. (2) and (3) predict sum_h W^h G^h M^h x_{n+1}.",
        assumes="the sum in G covers both of its terms (there is no bracket)",
        verdict="verified",
        correction="M^h is K^h A with K^h: d x a free, so minima over M are over these, not over all d x d matrices.",
        evidence=(
            Evidence(
                "numeric",
                "MHA, token by token, whole numbers, exact",
                check.mha_reduces,
                states=True,
                control=False,
                wrong="a sum that covers the first term only",
            ),
            Evidence(
                "numeric",
                "SkipV1Former, token by token, whole numbers, exact",
                check.skipv1_reduces,
                states="y u^T",
                control="u y^T",
                wrong="values and keys exchanged",
            ),
        ),
    ),
    Claim(
        id="skipv1.assumption1-query",
        paper=PAPER,
        place="appendix A.1, Assumption 1, last token, against the remark that only the y_i copy",
        statement="Copying changes the y_i alone, and turns x_{n+1} into (A x_{n+1} ; 0).",
        assumes="W0 = 0 for what is said of the losses",
        verdict="corrected",
        correction="These two exclude each other: x_{n+1} stands where x_1, ..., x_n stand, which stay.  If it stays "
        "too, M^h is any matrix and N_3 can have rank 2 at d = 2, a = 1, so that the proof's rank argument fails; but "
        "the map from S_yx to P keeps its rank, a (d - a) or a d, so that neither bound of theory.skipv1.gap changes.",
        evidence=(
            Evidence(
                "numeric",
                "the rank of N_3 is at most a; exact, whole numbers",
                check.n3_rank_is_at_most_a,
                states="compressed",
                control="raw",
                wrong="a query that stays x_{n+1}",
            ),
            Evidence(
                "numeric",
                "MHA with any M^h: the map from S_yx to P has rank a (d - a); exact, d = 1..3",
                check.free_query_rank,
                states=(False, lambda a, d: a * (d - a)),
                control=(False, lambda a, d: a * d),
                wrong="a d",
            ),
            Evidence(
                "numeric",
                "SkipV1Former with any M^h: rank a d; exact, d = 1..3",
                check.free_query_rank,
                states=(True, lambda a, d: a * d),
                control=(True, lambda a, d: d * d),
                wrong="d^2",
            ),
        ),
    ),
    Claim(
        id="skipv1.assumption1-blocks",
        paper=OURS,
        place="bears on Assumption 1, appendix A.1: of d numbers, a are spent on x_t and d - a on y_t",
        statement="If the copy may be any linear u = A' x + B' y, both d x d, MHA explains at most rho d (d + 1) / 2, "
        "so that the gap to SkipV1Former's optimum is still at least rho d (d - 1) / 2.  That is more than blocks "
        "allow: at d = 1, where they explain nothing, the supremum is n^2 / (v + (sqrt(E X^2 E Y^2) + E XY) / 2) < "
        "rho, X = S_xx, Y = S_yy, v = n/lambda.",
        assumes=W0_ZERO.replace("Assumption 1", "x_t stays in its token"),
        verdict="verified",
        correction="",
        evidence=(
            Evidence(
                "numeric",
                "the map from S_yx to P has rank d (d + 1) / 2 at most, and just that for u = x + y; exact, d = 1..3",
                check.general_copy_rank,
                states=lambda d: d * (d + 1) // 2,
                control=lambda d: d**2 // 4,
                wrong="floor(d^2/4), the most that blocks allow",
            ),
            Evidence(
                "symbolic",
                "d = n = 1, sigma = 0, by pairing: below 1/(3 + (sqrt(27) + 3)/2) = 0.141, and within 1 % of it",
                check.general_copy_explains,
                states=lambda root: 1 / (3 + (root + 3) / 2),
                control=lambda root: 1 / 3,
                wrong="rho, as if nothing were lost",
            ),
        ),
    ),
)
