"""Ledger entries on two layers whose first one sees positions: what Assumption 1 needs, and what it costs MHA."""

from __future__ import annotations

from experiments.claims import positions_checks as check
from experiments.claims.ledger import Claim, Evidence
from experiments.claims.skipv1_theorem import OURS

W0_ZERO = "W* ~ N(0, I), x ~ N(0, I), Gaussian noise; layer 1's scores are of positions alone"

CLAIMS = (
    Claim(
        id="skipv1.assumption1-mask",
        paper="SkipV1Former (003)",
        place="appendix A.1, P in Eqn. (2) and Assumption 1",
        statement="With positions, Eqn. (2) can do what Assumption 1 says: the last token becomes (A x_{n+1} ; 0).",
        assumes="scores of contents and of positions, any number of heads; the mask P as printed",
        verdict="refuted",
        correction="P hides the last token from itself too, so it becomes a sum over the context, in which x_{n+1} "
        "stands beside a second moment of the context and never alone.  It has to attend to itself in layer 1.",
        evidence=(
            Evidence(
                "numeric",
                "with a context of zeros the last token is zero, at random whole weights",
                check.query_needs_a_context,
                states="printed",
                control="itself",
                wrong="a mask by which it attends to itself",
            ),
            Evidence(
                "numeric",
                "doubling the context multiplies what the last token has of x_{n+1} by four, in whole numbers",
                check.query_has_degree,
                states=2,
                control=0,
                wrong="by one, as Assumption 1 needs",
            ),
        ),
        experiments=("skipv1-end-to-end",),
    ),
    Claim(
        id="toy.rotating-mha",
        paper=OURS,
        place="theory/toy/positions.py, step (7); bears on SkipV1Former (003), Assumption 1",
        statement="Without Assumption 1, MHA of even width d explains rho (d^2/4 + d/2) with two heads in each layer, "
        "at finite weights, where Assumption 1 lets it approach rho d^2/4.",
        assumes=W0_ZERO,
        verdict="verified",
        correction="",
        evidence=(
            Evidence(
                "symbolic",
                "tokens x + y and J (x - y): G + J G J has no even part, d = 4, with symbols for the second moments",
                check.even_part_cancels,
                states="rotation",
                control="reflection",
                wrong="J^2 = I instead of -I",
            ),
            Evidence(
                "symbolic",
                "d = 2: lambda times the projection of S_yx explains 2 rho, by pairing",
                check.projection_explains,
                states=2,
                control=1,
                wrong="1, what Assumption 1 allows",
            ),
            Evidence(
                "numeric",
                "the weights, token by token, within 4 standard errors over 100,000 prompts, d = 2 and 4",
                check.rotating_weights_explain,
                states=lambda d: d**2 // 4 + d // 2,
                control=lambda d: d**2 // 4,
                wrong="what Assumption 1 allows",
            ),
        ),
        experiments=("skipv1-end-to-end",),
    ),
    Claim(
        id="toy.positions-bound",
        paper=OURS,
        place="theory/toy/positions.py, steps (1) to (5)",
        statement="Without Assumption 1, MHA of width m explains at most rho min(d^2, m (m+1) / 2), with any heads and "
        "weights: at m = d a gap of at least rho d (d-1) / 2 to SkipV1Former stays.",
        assumes=W0_ZERO,
        verdict="verified",
        correction="",
        evidence=(
            Evidence(
                "numeric",
                "all that ordinary heads see of the y_s x_r^T is a symmetric m x m matrix: rank, random first layers",
                check.ordinary_head_sees,
                states=lambda d, m: m * (m + 1) // 2,
                control=lambda d, m: d * m,
                wrong="d m numbers, as many as a skip head sees",
            ),
            Evidence(
                "symbolic",
                "W* - lambda S_yx is uncorrelated with every y_s x_r^T, so nothing linear in them explains more",
                check.rest_is_uncorrelated,
                states=lambda d, n, sigma: 1 / (n + d + 1 + sigma**2),
                control=lambda d, n, sigma: 1 / (n + d + 1),
                wrong="lambda without the noise",
            ),
        ),
        experiments=("skipv1-end-to-end",),
    ),
)
