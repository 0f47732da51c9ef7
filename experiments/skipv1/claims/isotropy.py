"""The moments of S_yx in SkipV1Former's Lemma 3 (appendix A.1), and the lambda_i that follow from them."""

from __future__ import annotations

import numpy as np
import sympy

from experiments.ledger.claim import Claim
from theory.plans.heads import SKIPV1
from theory.prompts.isserlis import PromptEngine, gaussian_trace
from theory.prompts.moments import PromptMoments
from theory.skipv1 import gap as skipv1
from theory.skipv1.gap_weights import skipv1_weights
from theory.skipv1.paper import PAPER
from theory.toy.population import PopulationLoss, Weights


def row_moment(anisotropic: int) -> bool:
    """E[(S_yx)_0j (S_yx)_0l] as a polynomial in n, sigma and the row w of W0.

    Derivation, for a row of W* with mean w.  The row of S_yx is S (w + D) + X noise, S = X X^T, where D is standard
    normal: given X its second moment is S w w^T S + S^2 + sigma^2 S.  With E S = n I and, for symmetric M,
    E[S M S] = n (n + 1) M + n tr(M) I, that is n (n + d + 1 + sigma^2 + |w|^2) I + n (n + 1) w w^T.
    """
    d = 2
    engine = PromptEngine(d)
    n, sigma, w = engine.n, engine.sigma, engine.w0[0]
    round_part = n * (n + d + 1 + sigma**2 + sum(x**2 for x in w))
    return all(
        engine.expect(("yx", 0, j), ("yx", 0, m))
        == (round_part if j == m else 0) + anisotropic * n * (n + 1) * w[j] * w[m]
        for j in range(d)
        for m in range(d)
    )


LEMMA3_ISOTROPY = Claim(
    "skipv1.lemma3-isotropy",
    PAPER.name,
    place="appendix A.1, Lemma 3 (from its reference 48)",
    statement="E[X y_i y_i^T X^T] is a multiple of the identity, y_i being a row of Y.",
    assumes="W0 = 0",
    verdict="corrected",
    correction="True at W0 = 0, with t_1 = n (n + d + 1 + sigma^2).  For a row of W* with mean w it is "
    "n (n+d+1+sigma^2+|w|^2) I + n (n+1) w w^T; d = 2, n = 1, sigma = 0, w = e_1 gives diag(7, 5).",
    proof=row_moment,
)
LEMMA3_ISOTROPY.check(
    "by pairing, d = 2, symbolic in n, sigma and W0",
    states=1,
    control=0,
    wrong="no term in w w^T: isotropic at every W0, as Lemma 3 says",
    kind="exact",
)(row_moment)


@LEMMA3_ISOTROPY.check(
    "by pairing, symbolic in d and n: E ||S_yx||^2 at W0 = 0",
    states=1,
    control=0,
    wrong="n (n + d + sigma^2)",
    kind="exact",
)
def signal_power(one: int) -> bool:
    d, n, sigma = sympy.symbols("d n sigma")
    total = gaussian_trace("D X X' X X' D'") + sigma**2 * gaussian_trace("N X' X N'")
    return bool(sympy.expand(total - d**2 * n * (n + d + one + sigma**2)) == 0)


STEP_SIZE = Claim(
    "skipv1.step-size",
    PAPER.ours,
    place="fills in lambda_i of Lemmas 3 and 4, appendix A.1, which the paper leaves open",
    statement="All lambda_i are equal to 1/(n + d + 1 + sigma^2).",
    assumes="W0 = 0",
    verdict="verified",
    proof=skipv1,
    uses=("skipv1.lemma3-isotropy",),
    unjudged={PopulationLoss.value: "a loss of which only the place of the minimum counts"},
)


@STEP_SIZE.check(
    "by pairing, d = 1, 2: E[W*_ij S_yx_ij] / E[S_yx_ij^2]",
    states=1,
    control=0,
    wrong="1/(n + d + sigma^2)",
    kind="exact",
)
def step_size(one: int) -> bool:
    for d in (1, 2):
        engine = PromptEngine(d)
        at_zero = [(gen, 0) for row in engine.w0 for gen in row]
        hit = engine.expect(("w", 0, d - 1), ("yx", 0, d - 1)).evaluate(at_zero)
        power = engine.expect(("yx", 0, d - 1), ("yx", 0, d - 1)).evaluate(at_zero)
        n, sigma = (hit.ring.gens[0], hit.ring.gens[1])
        if hit * (n + d + one + sigma**2) != power:
            return False
    return True


@STEP_SIZE.check(
    "SkipV1Former's optimal weights, all readouts scaled together, are best at this step, d = 3",
    states=1,
    control=0,
    wrong="1/(n + d + sigma^2)",
    kind="float64",
)
def step_size_is_best(one: int) -> bool:
    """The loss of the optimal weights, all readouts scaled by t, is a parabola in t with its minimum at t = 1."""
    d, n, sigma = 3, 6, 0.5
    w = skipv1_weights(d, n, sigma, d)
    other = (n + d + 1 + sigma**2) / (n + d + one + sigma**2)
    loss = PopulationLoss(PromptMoments(d, n, sigma), SKIPV1)
    low, mid, high = (loss.value(Weights(w.a, w.b, t * other * w.w, w.k)) for t in (0.0, 1.0, 2.0))
    best = 1 + (low - high) / (2 * (low - 2 * mid + high))
    return bool(abs(best - 1) <= 1e3 * np.finfo(float).eps)
