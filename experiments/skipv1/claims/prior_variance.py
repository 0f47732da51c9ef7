"""How far W* lies from W0 in SkipV1Former's Theorem 2 (appendix A.1), against what its hypothesis allows for."""

from __future__ import annotations

from math import erfc

import numpy as np

from experiments.ledger.claim import Claim
from theory.skipv1.paper import PAPER

PRIOR_VARIANCE = Claim(
    "skipv1.prior-variance",
    PAPER.name,
    place="appendix A.1, proof of the theorem: since W ~ (U, sigma I_{d^2})",
    statement="sigma_d(W0) > 2 sqrt(d) sigma keeps sigma_d(W*) away from zero.",
    assumes="none",
    verdict="refuted",
    correction="W* ~ N(W0, I): its spread is 1, not sigma, and ||W* - W0||_2 is about 2 sqrt(d).  The printed "
    "hypothesis suits a spread of sigma; for this one it would have to be sigma_d(W0) > 2 sqrt(d).  None is "
    "needed for c > 0: see skipv1.noise-outweighs.  (U is W0.)",
    uses=("skipv1.noise-outweighs",),
)


@PRIOR_VARIANCE.check(
    "d = 1, sigma = 0.1: W* - W0 outweighs W0 at the threshold with probability 0.84",
    states=1,
    control=0.1,
    wrong="a spread of sigma",
    kind="float64",
)
def fluctuation_exceeds_hypothesis(spread: float) -> bool:
    """d = 1, sigma = 1/10: P(spread |z| > 2 sigma), the chance that W* - W0 outweighs W0 at the threshold, is > 1/2."""
    return erfc(0.2 / spread / 2**0.5) > 0.5


@PRIOR_VARIANCE.check(
    "d = 30, sigma = 1/2: ||W* - W0||_2 > 2 sqrt(d) sigma in more than half of 200 draws",
    states=1,
    control=0.5,
    wrong="a spread of sigma",
    kind="sampled",
)
def norm_exceeds_hypothesis(spread: float) -> bool:
    """d = 30, sigma = 1/2: ||W* - W0||_2 > 2 sqrt(d) sigma in more than half of 200 draws, by five standard errors."""
    d, samples, sigma = 30, 200, 0.5
    norms = np.linalg.norm(np.random.default_rng(67).standard_normal((samples, d, d)), 2, axis=(1, 2))
    share = (spread * norms > 2 * d**0.5 * sigma).mean()
    return bool(share - 0.5 > 5 * (0.25 / samples) ** 0.5)
