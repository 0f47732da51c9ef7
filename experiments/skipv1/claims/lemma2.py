"""Claims on the details of Lemma 2 of appendix A.1: the blocks of Eqns. (8) to (10), C_1 and C_2, W_D's formula.

What the lemma says of the loss as a whole, parity and H_2, is judged in claims of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from experiments.ledger.claim import Claim
from experiments.skipv1.claims.forms import SIZES, blocks
from experiments.skipv1.claims.lemma1 import constant_vanishes_from
from experiments.skipv1.claims.lemma3 import row_moment_given_x
from theory.plans.heads import MHA, SKIPV1
from theory.prompts import regression
from theory.skipv1.gap_weights import skipv1_weights
from theory.skipv1.paper import PAPER
from theory.toy.exact import exact_loss, prompt_map
from theory.toy.population import Weights
from theory.toy.tokens import draw, draw_weights

LEMMA2_BLOCKS = Claim(
    "skipv1.lemma2-blocks",
    PAPER.name,
    place="appendix A.1, before Lemma 2: W^h = (W_1^h, W_2^h), M^h = (M_1^h, M_2^h); Lemma 2's H_1; Eqns. (8), (9)",
    statement="With M_1^h: d x a and M_2^h: d x (d - a), MHA's P is N_1(X) + N_2(Y) + N_3(X, Y) and H_1 = N_3.",
    assumes="none",
    verdict="corrected",
    correction="W^h splits by columns as printed, M^h by rows: M_1^h is a x d, M_2^h is (d - a) x d.  With these "
    "Eqns. (8) and (9) and H_1 are right.  With the printed shapes B^T M_2^h has no meaning for any a > 0, and A^T "
    "M_1^h none for any a < d.",
    proof=blocks,
    uses=("skipv1.eqns-5-6",),
)


@LEMMA2_BLOCKS.check(
    "N_3 needs both of its terms; whole numbers, exact",
    states=("rows", True),
    control=("rows", False),
    wrong="N_3 without W_1 A X Y^T B^T M_2",
    kind="exact",
)
@LEMMA2_BLOCKS.check(
    "N_1 + N_2 + N_3 = P; whole numbers, exact",
    states=("rows", True),
    control=("columns", True),
    wrong="M split by columns, as printed",
    kind="exact",
)
def eqn9_adds_up(version: tuple[str, bool]) -> bool:
    """N_1 + N_2 + N_3 = P with M split in this way, with or without the first term of N_3; MHA, whole numbers."""
    split, both = version
    rng = np.random.default_rng(45)
    for a, d, n in SIZES:
        w, p = draw_weights(rng, a, d), draw(rng, d, n)
        u, ax, by = p.labels(w.a, w.b), w.a @ p.x, w.b @ p.y
        s_xx = p.x @ p.x.T
        total: Any = 0
        for h, (w_1, w_2, m_1, m_2) in enumerate(blocks(w, split)):
            if m_1.shape != (a, d):
                return False
            n_1 = w.w[h] @ s_xx @ w.k[h] @ w.a + w_1 @ ax @ ax.T @ m_1
            n_3 = w_2 @ by @ ax.T @ m_1 + (w_1 @ ax @ by.T @ m_2 if both else 0)
            total = total + n_1 + w_2 @ by @ by.T @ m_2 + n_3
        if (total != sum(w_h @ (s_xx + u @ u.T) @ k @ w.a for w_h, k in zip(w.w, w.k, strict=True))).any():
            return False
    return True


@LEMMA2_BLOCKS.check(
    "at which ranks A^T M_1 and B^T M_2 have a meaning with the printed shapes; d = 1..4, every rank",
    states=lambda a, d: (a == d, a == 0),
    control=lambda a, d: (a == d, a == d),
    wrong="B^T M_2 at a = d, where B is empty",
    kind="exact",
)
def printed_products_conform(meaning: Callable[[int, int], tuple[bool, bool]]) -> bool:
    """Whether A^T M_1 and B^T M_2 are products of matrices that fit, M split by columns as printed."""
    rng = np.random.default_rng(52)
    for d in range(1, 5):
        for a in range(d + 1):
            w = draw_weights(rng, a, d)
            for _, _, m_1, m_2 in blocks(w, "columns"):
                if (w.a.T.shape[1] == m_1.shape[0], w.b.T.shape[1] == m_2.shape[0]) != meaning(a, d):
                    return False
    return True


@LEMMA2_BLOCKS.check(
    "N_2' of Eqn. (10) is the part of SkipV1Former's P quadratic in Y (N_1' and N_3': "
    "skipv1.eq10-even-part and skipv1.lemma2-h2); exact",
    states=True,
    control=False,
    wrong="without the skip head's term",
    kind="exact",
)
def eqn10_labels(with_raw: bool) -> bool:
    """N_2' of Eqn. (10), the part of SkipV1Former's P quadratic in Y, with or without W^2 Y Y^T B^T M_2^2."""
    rng = np.random.default_rng(46)
    for a, d, n in SIZES:
        w, p = draw_weights(rng, a, d), draw(rng, d, n)
        (_, w_2, _, m_2), (_, _, _, raw_m_2) = blocks(w, "rows")
        by = w.b @ p.y
        formula = w_2 @ by @ by.T @ m_2 + (w.w[1] @ p.y @ by.T @ raw_m_2 if with_raw else 0)
        quadratic = np.einsum("ijpq,pq->ij", prompt_map(w, SKIPV1)[:, :, d:, d:], p.y @ p.y.T)
        if (quadratic != formula).any():
            return False
    return True


LEMMA2_CONSTANTS = Claim(
    "skipv1.lemma2-constants",
    PAPER.name,
    place="appendix A.1, Lemma 2: constants C_1, C_2 > 0",
    statement="L_1 = C + C_1 + E||H_1 - W_D||^2 with a constant C_1 > 0, and L_2 likewise with C_2 > 0.",
    assumes="W0 = 0",
    verdict="corrected",
    correction="C_1 and C_2 are functions of the weights, E||N_1 + N_2||^2, and >= 0 is all that holds: they are "
    "zero at W = 0.  C_2 is zero at the weights that the theorem's own proof picks, and must be, else min L_2 "
    "would not be C + C_3.",
    proof=skipv1_weights,
    uses=("skipv1.lemma2-blocks", "skipv1.lemma2-parity", "skipv1.eq10-even-part", "skipv1.lemma4-constant"),
)


@LEMMA2_CONSTANTS.check("and at W = 0; exact", states="zero", control="random", wrong="at random weights", kind="exact")
@LEMMA2_CONSTANTS.check(
    "SkipV1Former's even part vanishes at the proof's weights, for every prompt; exact",
    states="paper",
    control="random",
    wrong="at random weights",
    kind="exact",
)
def even_part_vanishes(which: str) -> bool:
    """Whether P has no even part at these weights, whatever the prompt: the map S -> P on S_xx and S_yy, exact."""
    rng, d = np.random.default_rng(47), 2
    eye, w = np.eye(d, dtype=object), draw_weights(rng, d, d)
    if which == "zero":
        w = Weights(w.a, w.b, 0 * w.w, w.k)
    elif which == "paper":
        w = Weights(eye, eye[d:], np.stack([-Fraction(1, 2) * eye, eye]), np.stack([eye, eye]))
    c = prompt_map(w, SKIPV1)
    return not (c[:, :, :d, :d].any() or c[:, :, d:, d:].any())


@LEMMA2_CONSTANTS.check(
    "MHA at d = a = 1: C_1 goes with the square of the readouts; exact loss, three scales",
    states=2,
    control=0,
    wrong="a constant",
    kind="exact",
)
def c1_scales_with_power(power: int) -> bool:
    """d = a = 1: MHA is even, and C_1 = L_1 - C - E||W_D||^2 = L_1 - L_1(0) at readouts t goes with t^power."""
    loss = exact_loss(MHA, 1, 3, Fraction(1, 2))
    unit = np.full((2, 1, 1), Fraction(1), dtype=object)
    excess = [loss.value(Weights(unit[0], unit[0, 1:], t * unit, unit)) - loss.zero_loss for t in (1, 2, 3)]
    return excess[0] > 0 and all(e == t**power * excess[0] for t, e in enumerate(excess, 1))


LEMMA2_RIDGE_FORMULA = Claim(
    "skipv1.lemma2-ridge-formula",
    PAPER.name,
    place="appendix A.1, proof of Lemma 2: W_D = Y X^T (X X^T + sigma I)^-1 almost everywhere",
    statement="The formula holds almost everywhere.",
    assumes="sigma >= 0",
    verdict="corrected",
    correction="With sigma^2 for sigma it holds for every X if sigma > 0, and almost surely if sigma = 0 and n >= "
    "d. At sigma = 0 and n < d the inverse exists nowhere; the posterior mean is then S_yx S^+ and the rest of "
    "the proof stands.",
    proof=regression,
    uses=("skipv1.lemma1-ridge",),
)
LEMMA2_RIDGE_FORMULA.check(
    "sigma = 0: X X^T can be inverted from n = d on; exact rank, d = 1..3",
    states=lambda d: d,
    control=lambda d: 1,
    wrong="from n = 1 on",
    kind="exact",
)(constant_vanishes_from)
LEMMA2_RIDGE_FORMULA.check(
    "E[X y_i (W_D)_i | X] = S, as it must for a posterior mean, for every n; whole-number X, exact",
    states=2,
    control=1,
    wrong="sigma I, as printed",
    kind="exact",
)(row_moment_given_x)
