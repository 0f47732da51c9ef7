"""Claims on Lemma 2, appendix A.1: parity, blocks and constants."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from experiments.ledger.claim import Claim
from experiments.skipv1.claims.lemma1 import SIZES, blocks, constant_vanishes_from
from experiments.skipv1.claims.lemma3 import row_moment_given_x
from experiments.skipv1.claims.model import explained_at_minimum, reduced_prediction
from theory.plans.heads import MHA, SKIPV1
from theory.prompts import rationals, regression, setting
from theory.prompts.isserlis import PromptEngine
from theory.prompts.moments import Array, PromptMoments
from theory.skipv1 import gap as skipv1
from theory.skipv1.gap_weights import skipv1_weights
from theory.skipv1.paper import PAPER
from theory.toy.exact import exact_loss, prompt_map
from theory.toy.population import PopulationLoss, Weights
from theory.toy.tokens import draw, draw_weights

LEMMA2_PARITY = Claim(
    "skipv1.lemma2-parity",
    PAPER.name,
    place="appendix A.1, Lemma 2",
    statement="The part of P that is even in Y and the odd part of P - W* add up without a cross term.",
    assumes="W0 = 0",
    verdict="corrected",
    correction="True at W0 = 0.  At W0 != 0, W* is not odd, and the even part is needed to explain W0.",
    proof=skipv1,
    uses=("moments.general",),
    unjudged={rationals.product: "both parts by one factor: whether they meet counts, and not their size"},
)


@LEMMA2_PARITY.check(
    "E[even x odd] = 0 for every entry of S_xx, S_yy against S_yx, W*, by pairing, d = 2",
    states=0,
    control=1,
    wrong="W0 = I",
    kind="exact",
)
def even_and_odd_uncorrelated(w0: int) -> bool:
    """E[even x odd] for every entry of S_xx, S_yy and every one of S_yx, W*, at W0 = w0 I, symbolic in n, sigma."""
    engine, cells = PromptEngine(2), [(i, j) for i in range(2) for j in range(2)]
    at = [(g, w0 * (i == j)) for i, row in enumerate(engine.w0) for j, g in enumerate(row)]
    return all(
        engine.expect((even, *p), (odd, *q)).evaluate(at) == 0
        for even in ("xx", "yy")
        for odd in ("yx", "w")
        for p in cells
        for q in cells
    )


@LEMMA2_PARITY.check(
    "MHA at a = d, which has an even part only, explains nothing; exact minimisation, d = 2",
    states=0.0,
    control=3.0,
    wrong="W0 = 3 I, which the printed hypothesis allows at sigma = 0.3",
    kind="descent",
)
def even_part_only_hurts(scale: float) -> bool:
    """MHA at a = d has an even part and no odd one.  No weights of it explain anything around W0 = scale I."""
    explained = explained_at_minimum(MHA, 2, 4, sigma=0.3, a=2, w0=scale * np.eye(2))
    return abs(explained) <= 1e-9


def odd_formula(x: Array, y: Array, w: Weights, source: str) -> Array:
    """Return the odd part of SkipV1Former's P: N_3' as the "proof" has it, or H_2 as the "lemma" prints it.

    With u = (A x ; B y) the part of sum u u^T that is odd in Y has A X Y^T B^T above its diagonal blocks and
    B Y X^T A^T below, and that of sum y u^T is (Y X^T A^T, 0).  S_xx is even.  W^1 splits by columns, M^1 and M^2 by
    rows.
    """
    a, b, rank = w.a, w.b, w.rank
    yx = y @ x.T
    m1 = [k[:rank] @ a for k in w.k]
    if source == "lemma":
        return w.w[0] @ yx @ a.T @ m1[0] + w.w[1] @ yx @ a.T @ m1[1]
    m2 = w.k[0][rank:] @ a
    top, bottom = w.w[0][:, :rank], w.w[0][:, rank:]
    odd: Array = top @ a @ yx.T @ b.T @ m2 + bottom @ b @ yx @ a.T @ m1[0] + w.w[1] @ yx @ a.T @ m1[1]
    return odd


LEMMA2_H2 = Claim(
    "skipv1.lemma2-h2",
    PAPER.name,
    place="appendix A.1, Lemma 2, displayed formula for H_2",
    statement="The odd part of SkipV1Former's P is H_2 = sum_h W^h Y X^T A^T M_1^h.",
    assumes="none",
    verdict="corrected",
    correction="That is the skip head's part alone, summed over both heads.  The ordinary head adds what it adds "
    "in MHA: N_3' = W_1^1 A X Y^T B^T M_2^1 + W_2^1 B Y X^T A^T M_1^1 + W^2 Y X^T A^T M_1^2, as the proof has it.",
    proof=odd_formula,
    uses=("skipv1.eqns-5-6", "skipv1.lemma2-blocks"),
)


@LEMMA2_H2.check(
    "exact: the odd part of P, from tokens with whole-number entries, is the formula",
    states="proof",
    control="lemma",
    wrong="H_2 as the lemma prints it",
    kind="exact",
)
def skip_odd_part(source: str) -> bool:
    rng = np.random.default_rng(3)
    for a, d, n in ((0, 1, 1), (1, 1, 2), (1, 2, 1), (1, 3, 4), (2, 3, 2)):
        shapes = ((a, d), (d - a, d), (2, d, d), (2, d, a), (d, n), (d, n))
        *arrays, x, y = (rng.integers(-4, 5, shape).astype(object) for shape in shapes)
        w = Weights(*arrays)
        twice_odd = reduced_prediction(x, y, w, SKIPV1) - reduced_prediction(x, -y, w, SKIPV1)
        if (twice_odd != 2 * odd_formula(x, y, w, source)).any():
            return False
    return True


@LEMMA2_H2.check(
    "random real prompts and weights, d = 1..4",
    states="proof",
    control="lemma",
    wrong="H_2 as the lemma prints it",
)
def skip_odd_part_real(source: str) -> bool:
    rng = np.random.default_rng(4)
    for d in range(1, 5):
        for a in range(d + 1):
            shapes = ((a, d), (d - a, d), (2, d, d), (2, d, a), (d, 5), (d, 5))
            *arrays, x, y = (rng.standard_normal(shape) for shape in shapes)
            w = Weights(*arrays)
            odd = (reduced_prediction(x, y, w, SKIPV1) - reduced_prediction(x, -y, w, SKIPV1)) / 2
            error = np.linalg.norm(odd - odd_formula(x, y, w, source))
            if error > 1e3 * np.finfo(float).eps * (1 + np.linalg.norm(reduced_prediction(x, y, w, SKIPV1))):
                return False
    return True


def paper_weights(d: int, first: float) -> Weights:
    """Return A = I, B = 0, M^1 = M^2 = I, W^2 = I (Lambda in units of itself) and W^1 = first I.

    B is empty, so u = x: the ordinary head has G = 2 S_xx, the skip head S_xx + S_yx.  The even part is
    (2 W^1 + W^2) S_xx, which W^1 = -W^2 / 2 makes zero; with the second term counted for both heads, as Eqn. (10)
    prints it, it would be (3 W^1 + W^2) S_xx.
    """
    eye = np.eye(d)
    return Weights(eye, eye[d:], np.stack([first * eye, eye]), np.stack([eye, eye]))


EQ10_EVEN_PART = Claim(
    "skipv1.eq10-even-part",
    PAPER.name,
    place="appendix A.1, Eqn. (10), and the weights chosen in the proof of the theorem",
    statement="A = I, B = 0, W^1 = -Lambda/2, W^2 = Lambda, M^1 = M^2 = I make SkipV1Former's even part vanish.",
    assumes="none",
    verdict="corrected",
    correction="They do.  But Eqn. (10) prints W_1^1 A X X^T A^T M_1^1 inside the sum over both heads, and read so "
    "the even part of these weights is -Lambda X X^T / 2.",
    proof=paper_weights,
    uses=("skipv1.eqns-5-6", "skipv1.gap"),
)


@EQ10_EVEN_PART.check(
    "exact, from tokens with whole-number entries",
    states=1,
    control=2,
    wrong="the term counted once for each head, as printed",
    kind="exact",
)
def paper_weights_even_part(times: int) -> bool:
    """The even part, from tokens, against Eqn. (10) with its second term counted `times` times.  Halves are exact."""
    rng = np.random.default_rng(5)
    for d, n in ((1, 1), (2, 3), (3, 2)):
        x, y = (rng.integers(-4, 5, (d, n)).astype(float) for _ in range(2))
        w = paper_weights(d, -0.5)
        s_xx = x @ x.T
        formula = (w.w[0] + w.w[1]) @ s_xx + times * w.w[0] @ s_xx
        even = (reduced_prediction(x, y, w, SKIPV1) + reduced_prediction(x, -y, w, SKIPV1)) / 2
        if even.any() or (even != formula).any():
            return False
    return True


@EQ10_EVEN_PART.check(
    "the exact loss of these weights is SkipV1Former's minimum",
    states=-0.5,
    control=-1.0,
    wrong="W^1 = -Lambda, which would cancel the term counted twice",
    kind="exact",
)
def paper_weights_loss(first: float) -> bool:
    d, n, sigma = 3, 7, 0.4
    step, unit = setting.signal_share(d, n, sigma) / n, paper_weights(d, first)
    loss = PopulationLoss(PromptMoments(d, n, sigma), SKIPV1)
    value = loss.value(Weights(unit.a, unit.b, step * unit.w, unit.k))
    return bool(abs(value - skipv1.loss_gap(d, n, sigma, d).skipv1) <= 1e3 * np.finfo(float).eps * loss.zero_loss)


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
    """Check whether A^T M_1 and B^T M_2 are products of matrices that fit, M split by columns as printed."""
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
    """Check whether P has no even part at these weights for any prompt: the map S -> P on S_xx and S_yy, exact."""
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
