"""Claims on Lemma 4 of appendix A.1: the class h of Eqn. (11), the gradients of Eqns. (12) to (14), C_3."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import product

import numpy as np

from experiments.ledger.claim import Claim
from experiments.skipv1.claims.lemma1 import SIZES, blocks, mean_over_spectrum
from experiments.skipv1.claims.lemma3 import Orbit
from theory.plans.heads import MHA, SKIPV1
from theory.prompts import regression, setting
from theory.prompts.isserlis import PromptEngine
from theory.prompts.moments import Array
from theory.skipv1 import gap as skipv1
from theory.skipv1.paper import PAPER
from theory.toy.exact import prompt_map
from theory.toy.tokens import draw, draw_weights, whole

CLASS_H = Claim(
    "skipv1.class-h",
    PAPER.name,
    place="appendix A.1, h(W~, M~) before Eqn. (11), and its use in the proof of the theorem",
    statement="N_3 and N_3' are special cases of h(W~, M~), so min E||W_D - N_3'||^2 >= min L~.",
    assumes="none",
    verdict="verified",
    correction="With two heads: W~^h = (W_1^h A, W_2^h B) and M~^h = (A^T M_1^h ; B^T M_2^h), and for the skip "
    "head W~^2 = (0, W^2) and M~^2 = (A^T M_1^2 ; 0).  (h is also a head's number; W_QK^h, used once, is W_K^T "
    "W_Q.)",
    proof=blocks,
    uses=("skipv1.lemma2-blocks", "skipv1.lemma2-h2"),
)


@CLASS_H.check(
    "SkipV1Former; whole numbers, exact",
    states=("SkipV1Former", "as stated"),
    control=("SkipV1Former", "exchanged"),
    wrong="M~'s blocks exchanged",
    kind="exact",
)
@CLASS_H.check(
    "MHA; whole numbers, exact",
    states=("MHA", "as stated"),
    control=("MHA", "exchanged"),
    wrong="M~'s blocks exchanged",
    kind="exact",
)
def is_special_case(version: tuple[str, str]) -> bool:
    """N_3 and N_3' as h(W~, M~), W~^h = (W_1 A, W_2 B) and M~^h = (A^T M_1 ; B^T M_2) in an ordinary head.

    In the skip head W~ = (0, W) with M~ = (A^T M_1 ; 0).  `version` names the model and the order of M~'s blocks.
    """
    model, order = version
    rng, heads = np.random.default_rng(49), MHA if version[0] == "MHA" else SKIPV1
    for a, d, n in SIZES:
        w, p = draw_weights(rng, a, d), draw(rng, d, n)
        s_yx, total = p.y @ p.x.T, 0
        for h, (w_1, w_2, m_1, m_2) in enumerate(blocks(w, "rows")):
            skip = model == "SkipV1Former" and h == 1
            left = (0 * w.w[h], w.w[h]) if skip else (w_1 @ w.a, w_2 @ w.b)
            right = (w.a.T @ m_1, 0 * w.w[h] if skip else w.b.T @ m_2)
            top, bottom = right if order == "as stated" else right[::-1]
            total = total + left[0] @ s_yx.T @ bottom + left[1] @ s_yx @ top
        c = prompt_map(w, heads)
        odd = np.einsum("ijpq,pq->ij", c[:, :, d:, :d], s_yx) + np.einsum("ijpq,pq->ij", c[:, :, :d, d:], s_yx.T)
        if (odd != total).any():
            return False
    return True


def cross_moments_are_proportional(w0: int) -> bool:
    """E[(S_yx)_kl W*_ij] over E[(S_yx)_kl (S_yx)_ij] for every pair of entries, by pairing, around W0 = w0 I.

    W_D = E[W* | D], so W* may stand for it.  All of Eqns. (12) to (14) are linear in these.
    """
    d = 2
    engine = PromptEngine(d)
    at = [(g, w0 * (i == j)) for i, row in enumerate(engine.w0) for j, g in enumerate(row)]
    for i, j, k, m in product(range(d), repeat=4):
        hit = engine.expect(("yx", k, m), ("w", i, j)).evaluate(at)
        power = engine.expect(("yx", k, m), ("yx", i, j)).evaluate(at)
        n, sigma = hit.ring.gens[:2]
        if hit * (n + d + 1 + sigma**2) != power:
            return False
    return True


LEMMA4_GRADIENTS = Claim(
    "skipv1.lemma4-gradients",
    PAPER.name,
    place="appendix A.1, proof of Lemma 4: Eqns. (12), (13), (14), the displays between them, the gradient in M~",
    statement="L~ and L~' have the same gradient in W~ and M~.",
    assumes="W0 = 0",
    verdict="verified",
    correction="Every step is right at W0 = 0.  (L~' is written as a function of W, M; it is one of W~, M~.)  The "
    "step for i != j needs the rows of Y to be uncorrelated given X, and fails around any other W0.",
    proof=cross_moments_are_proportional,
    uses=("skipv1.lemma1-ridge", "skipv1.lemma3-isotropy", "skipv1.lemma3-second-moment"),
)
LEMMA4_GRADIENTS.check(
    "E[S_yx W*] : E[S_yx S_yx] = 1 : n + d + 1 + sigma^2 for every pair of entries, by pairing, d = 2",
    states=0,
    control=1,
    wrong="W0 = I",
    kind="exact",
)(cross_moments_are_proportional)


@LEMMA4_GRADIENTS.check(
    "Eqns. (13) and (14) and both blocks for M~, d = 2, X over the signed permutations of a matrix; exact",
    states=0,
    control=1,
    wrong="W0 = I",
    kind="exact",
)
def equations_12_to_14(w0: int) -> bool:
    """Eqns. (13) and (14), which make up (12), and the equation for the gradient in M~, around W0 = w0 I; exact."""
    orbit, rng = Orbit(w0), np.random.default_rng(50)
    scale = np.diag([orbit.step(0), orbit.step(1)])
    forms: tuple[Callable[[Array, Array, Array], Array], ...] = (
        lambda target, m, s: target @ m.T @ s.T,
        lambda target, m, s: target @ m.T @ s,
        lambda target, m, s: s @ m.T @ target,
        lambda target, m, s: s.T @ m.T @ target,
    )
    return all(_equation_holds(orbit, scale, form, whole(rng, 2, 2)) for form in forms)


def _equation_holds(orbit: Orbit, scale: Array, form: Callable[[Array, Array, Array], Array], m: Array) -> bool:
    """E form(W_D, m, S_yx) = E form(Lambda S_yx, m, S_yx)."""
    left = orbit.mean(lambda y, z, x, r: form(y @ r, m, z @ x.T))
    right = orbit.mean(lambda y, z, x, r: form(scale @ y @ x.T, m, z @ x.T))
    return not (left != right).any()


def lemma4_splits(factor: int) -> bool:
    """L~ - E||factor lambda S_yx - h||^2 is C_3 = E||W_D - lambda S_yx||^2 > 0 for random W~, M~; exact.

    W_D - lambda S_yx is uncorrelated with every entry of S_yx (that is Lemma 3), and h is linear in S_yx; so
    L~ = E||W_D - lambda S_yx||^2 + E||lambda S_yx - h||^2, and at h = 0
        C_3 = E||W_D - lambda S_yx||^2 = E||W_D||^2 - E||lambda S_yx||^2 = d E tr S/(S + sigma^2) - rho d^2,
    zero only if S/(S + sigma^2) = lambda S almost surely, which never holds.                                       QED
    """
    orbit, rng = Orbit(0), np.random.default_rng(51)
    step = orbit.step(0)

    def power(of_target: int, of_signal: Fraction | int, w: Array, m: Array) -> Fraction:
        """E||of_target W_D - of_signal S_yx - h(w, m)||^2."""

        def map_(y: Array, x: Array, r: Array) -> Array:
            h = sum(w[k, 0] @ x @ y.T @ m[k, 1] + w[k, 1] @ y @ x.T @ m[k, 0] for k in range(2))
            return of_target * y @ r - of_signal * y @ x.T - h

        return orbit.mean(lambda y, z, x, r: (map_(y, x, r) * map_(z, x, r)).sum())

    nothing = np.zeros((2, 2, 2, 2), dtype=object)
    c_3 = power(1, step, nothing, nothing)
    weights = [(whole(rng, 2, 2, 2, 2), whole(rng, 2, 2, 2, 2)) for _ in range(3)]
    return c_3 > 0 and all(power(1, 0, w, m) - power(0, -factor * step, w, m) == c_3 for w, m in weights)


LEMMA4_CONSTANT = Claim(
    "skipv1.lemma4-constant",
    PAPER.name,
    place="appendix A.1, Lemma 4: C_3 > 0, and min L_2 = C + C_3 in the proof of the theorem",
    statement="L~ = C_3 + E||Lambda S_yx - h||^2 with C_3 = E||W_D||^2 - E||Lambda S_yx||^2 > 0, and min L_2 = C "
    "+ C_3.",
    assumes="W0 = 0",
    verdict="verified",
    correction="C_3 = d E tr S/(S + sigma^2) - rho d^2 > 0 for every d, n and sigma, independent of A and B too, "
    "and C + C_3 = d^2 + d sigma^2 - rho d^2: ridge regression cancels.  Smallest: 2/3 at d = n = 1, sigma = 0.  "
    "Lambda is lambda I.",
    proof=lemma4_splits,
    uses=(
        "skipv1.lemma1-constant",
        "skipv1.class-h",
        "skipv1.lemma3-isotropy",
        "skipv1.lemma3-second-moment",
        "skipv1.gap",
    ),
)
LEMMA4_CONSTANT.check(
    "the split and C_3 > 0 for random W~, M~, d = 2, X over the signed permutations of a matrix; exact",
    states=1,
    control=2,
    wrong="2 Lambda",
    kind="exact",
)(lemma4_splits)


@LEMMA4_CONSTANT.check(
    "sigma = 0: C_3 = d min(d, n) - rho d^2, and C + C_3 is SkipV1Former's minimum; exact, d = 1..5, n = 1..7",
    states=1,
    control=2,
    wrong="2 rho d^2",
    kind="exact",
)
def c3_noiseless(minimum: int) -> bool:
    """sigma = 0: C = d (d - n)_+ and C_3 = d min(d, n) - rho d^2 > 0, whose sum is SkipV1Former's minimum; exact."""
    for d in range(1, 6):
        for n in range(1, 8):
            sigma = Fraction(0)
            c_3 = d * min(d, n) - minimum * setting.signal_share(d, n, sigma) * d**2
            if c_3 <= 0 or regression.minimum_norm(d, n, sigma) + c_3 != skipv1.loss_gap(d, n, sigma, d).skipv1:
                return False
    return True


@LEMMA4_CONSTANT.check(
    "d = 1, sigma = 0.7: E W_D^2 - E (lambda S_yx)^2 is E (W_D - lambda S_yx)^2, by quadrature over S",
    states=1,
    control=0,
    wrong="lambda = 1/(n + d + sigma^2)",
)
def c3_with_noise(one: int) -> bool:
    """d = 1: E W_D^2 - E (lambda S_yx)^2 = E (W_D - lambda S_yx)^2 with lambda = 1/(n + 1 + one + sigma^2)."""
    n, sigma = 4, 0.7
    step = 1 / (n + 1 + one + sigma**2)

    def power(of_target: int, of_signal: float) -> tuple[float, float]:
        """E (of_target W_D - of_signal S_yx)^2 by quadrature over S, with its error."""
        return mean_over_spectrum(
            lambda s: (s**2 + sigma**2 * s) * (of_target / (s + sigma**2) - of_signal) ** 2,
            n,
        )

    (target, e_1), (signal, e_2), (off, e_3) = power(1, 0.0), power(0, step), power(1, step)
    return abs(target - signal - off) <= 10 * (e_1 + e_2 + e_3)
