"""The claim on Lemma 3 of appendix A.1: the second moments that determine lambda_i."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np

from experiments.ledger.claim import Claim
from experiments.skipv1.claims.orbit import Orbit, inverse
from theory.prompts.isserlis import PromptEngine
from theory.skipv1.paper import PAPER
from theory.toy.tokens import whole


def row_moment_given_x(power: int) -> bool:
    """E[X y_i (W_D)_i | X] = S for ridge of strength sigma^power, any n; whole-number X, sigma = 1/2.

    At W0 = 0, with y_i a row of Y as a column, E[X y_i y_i^T X^T | X] = X (X^T X + sigma^2 I) X^T = S (S + sigma^2), so
    that E[X y_i (W_D)_i | X] = S (S + sigma^2) (S + sigma^2)^-1 = S, of mean n I: t_2 = n.  As t_1 =
    n (n + d + 1 + sigma^2), lambda_i = t_2/t_1 = 1/(n + d + 1 + sigma^2).
    """
    rng, sigma = np.random.default_rng(48), Fraction(1, 2)
    for d, n in ((1, 1), (2, 1), (2, 3), (3, 2)):
        x = whole(rng, d, n) + np.eye(d, n, dtype=int)
        s, eye = x @ x.T, np.eye(d, dtype=object)
        row_covariance = x.T @ x + sigma**2 * np.eye(n, dtype=object)
        if (x @ row_covariance @ x.T @ inverse(s + sigma**power * eye) != s).any():
            return False
    return True


LEMMA3_SECOND_MOMENT = Claim(
    "skipv1.lemma3-second-moment",
    PAPER.name,
    place="appendix A.1, Lemma 3: t_2, lambda_i, the third display; and lambda_i's numerator in the theorem's proof",
    statement="E[X y_i (W_D)_i] = t_2 I_{d^2} for some t_2, and lambda_i makes the third display zero.",
    assumes="W0 = 0",
    verdict="corrected",
    correction="The matrices are d x d, so I_d is meant.  t_2 = n whatever sigma and d: given X the mean is S.  "
    "So lambda_i's numerator is d t_2 = n d, the sum of the proof's two terms S (S + sigma^2)^-1 S and sigma^2 S "
    "(S + sigma^2)^-1, and its sign needs no inequality.  t_1: skipv1.lemma3-isotropy.",
    proof=row_moment_given_x,
    uses=("skipv1.lemma1-ridge", "skipv1.lemma3-isotropy"),
)
LEMMA3_SECOND_MOMENT.check(
    "E[X y_i (W_D)_i | X] = S for whole-number X, n below and above d; exact",
    states=2,
    control=1,
    wrong="ridge of strength sigma",
    kind="exact",
)(row_moment_given_x)


@LEMMA3_SECOND_MOMENT.check(
    "E[S_yx W*] is n for equal entries and 0 for others, by pairing, d = 1, 2 (W_D = E[W* | D])",
    states=lambda n, d: n,
    control=lambda n, d: d,
    wrong="d, as the proof prints for E X X^T",
    kind="exact",
)
def target_moment(t2: Callable[[Any, Any], Any]) -> bool:
    """E[(S_yx)_ij W*_ij] = t_2, and zero for other pairs of entries, by pairing, d = 1, 2, symbolic in n and sigma."""
    for d in (1, 2):
        engine = PromptEngine(d)
        at_zero = [(g, 0) for row in engine.w0 for g in row]
        for i, j, k, m in product(range(d), repeat=4):
            moment = engine.expect(("yx", i, j), ("w", k, m)).evaluate(at_zero)
            if moment != (t2(moment.ring.gens[0], d) if (i, j) == (k, m) else 0):
                return False
    return True


@LEMMA3_SECOND_MOMENT.check(
    "all three displays, d = 2, X over the signed permutations of a whole-number matrix; exact",
    states=0,
    control=1,
    wrong="W0 = I",
    kind="exact",
)
def lemma3_is_isotropic(w0: int) -> bool:
    """Both matrices of Lemma 3 are multiples of the d x d identity, the second of it by E tr S/d, as t_2 = n says;
    and lambda_i makes its third display zero."""
    orbit = Orbit(w0)
    return all(_row_is_isotropic(orbit, i) for i in range(2))


def _row_is_isotropic(orbit: Orbit, i: int) -> bool:
    eye = np.eye(2, dtype=object)
    first = orbit.mean(lambda y, z, x, r: np.outer(x @ y[i], z[i] @ x.T))
    second = orbit.mean(lambda y, z, x, r: np.outer(x @ y[i], z[i] @ r))
    mean_s = Fraction(np.trace(orbit.xs[0] @ orbit.xs[0].T), 2)
    round_ = not ((first != first[0, 0] * eye).any() or (second != mean_s * eye).any())
    return round_ and not (orbit.step(i) * first != second).any()
