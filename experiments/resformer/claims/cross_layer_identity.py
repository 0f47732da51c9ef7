"""Claims on ResFormer in the linear toy: around W0 = c I, and without a path from the query to the output."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np

from experiments.ledger.claim import Claim
from experiments.resformer.claims.enough_heads import DESCENT, FREE_TERM, KINDS, PLACE, explained
from theory.plans.heads import SKIPV1
from theory.prompts.moments import PromptMoments
from theory.resformer import cross_layer
from theory.resformer.paper import PAPER
from theory.resformer.weights import ONE_HEAD
from theory.toy.enough_heads import EnoughHeads
from theory.toy.population import PopulationLoss, Weights

IDENTITY = Claim(
    "resformer.cross-layer-around-identity",
    PAPER.ours,
    place=f"{PLACE}, (4)",
    statement="Around W0 = c I enough heads of cross-layer attention explain between rho [a (d - a) + q a (a + 1)/2] "
    "and rho [a (d - a) + q (R - a (d - a))], R = a d - a (a - 1)/2 + m (2 a - m - 1)/4, m = min(a, d - a).  For long "
    "prompts and large c they come to rho R.",
    assumes=FREE_TERM + "; W0 = c I",
    verdict="verified",
    proof=cross_layer,
    uses=("resformer.cross-layer-any-w0",),
)


@IDENTITY.check(
    "the best linear map at the A and B of the proof explains just the lower bound; d = 1 to 4, every rank, three c",
    states=1,
    control=-1,
    wrong="B with its sign turned, which adds S in place of taking it off",
    kind="float64",
)
def lower_bound_isexplained(sign: int) -> bool:
    for d in (1, 2, 3, 4):
        for rank in range(1, d + 1):
            for c in (0.5, 1.0, 6.0):
                n, sigma, r, eye = 3, 0.5, 2.5, np.eye(d)
                moments = PromptMoments(d, n, sigma, c * eye, centred=True)
                enough = EnoughHeads(moments, KINDS)
                found = enough.zero_loss - enough.value(r * eye[:rank], -sign / (r * c) * eye[rank:])
                least, _ = cross_layer.explained_around_identity(d, n, sigma, rank, c**2)
                if abs(found - least) > 1e-7 * d**2:
                    return False
    return True


@IDENTITY.check(
    "U's trace on what can be read, for row spaces at random below R and, nearly parallel, next to it; d = 1 to 6",
    states="R",
    control="a d - a (a - 1)/2",
    wrong="without what B gains by leaning towards A",
    kind="float64",
)
def subspaces_reach_the_limit(formula: str) -> bool:
    rng = np.random.default_rng(24)
    limits: dict[str, Callable[[int, int], float]] = {
        "R": lambda d, a: float(cross_layer.most_around_identity(d, a)),
        "a d - a (a - 1)/2": lambda d, a: a * d - a * (a - 1) / 2,
    }
    for d in (1, 2, 3, 4, 5, 6):
        for rank in range(1, d + 1):
            limit, eye, m = limits[formula](d, rank), np.eye(d), min(rank, d - rank)
            lean = np.concatenate([eye[:m] + 1e-3 * eye[rank : rank + m], eye[rank + m :]])
            if abs(cross_layer.read_at(eye[:rank], lean, eye, 0.0) - limit) > 1e-3:
                return False
            a, b = rng.standard_normal((rank, d)), rng.standard_normal((d - rank, d))
            if cross_layer.read_at(a, b, eye, 0.0) > limit + 1e-9:
                return False
    return True


@IDENTITY.check(
    "descents with enough heads at d = 3, a = 2, c = 30 end above a d - a (a - 1)/2 and below the bound, and next to "
    "it for n = 10^6, c = 100",
    states="R",
    control="a d - a (a - 1)/2",
    wrong="the lower bound for both",
    kind="descent",
)
def descents_end_between(formula: str) -> bool:
    for n, c, near in ((4, 30.0, 0.1), (10**6, 100.0, 0.03)):
        least, most = cross_layer.explained_around_identity(3, n, 0.5, 2, c**2)
        most = most if formula == "R" else least
        found = explained(PromptMoments(3, n, 0.5, c * np.eye(3), centred=True), 2)
        if not (least + 0.1 < found <= most and most - found < near):
            return False
    return True


UNBIASED = Claim(
    "resformer.cross-layer-needs-the-term",
    PAPER.ours,
    place="theory/resformer/cross_layer.py, without the term C x",
    statement="Without a path from the query to the output cross-layer attention can be the better one if sigma > 0: "
    "at d = 1 it always is, around large W0.  If sigma = 0 the bound on the gap stays, given enough heads.",
    assumes="as resformer.cross-layer-any-w0, but without C",
    verdict="verified",
    proof=cross_layer,
    uses=("resformer.cross-layer-any-w0", "skipv1.w0-enough-heads"),
)


@UNBIASED.check(
    "both minima at d = a = 1, from the exact loss of one head each, in fractions, and their order for large W0",
    states=False,
    control=True,
    wrong="with C",
    kind="exact",
)
def cross_layer_wins_at_one(centred: bool) -> bool:
    for n, sigma, c in ((1, Fraction(1), Fraction(2)), (3, Fraction(1, 2), Fraction(7)), (2, Fraction(0), Fraction(5))):
        moments = PromptMoments(1, n, sigma, np.array([[c]]), centred=centred)
        found = [_least(PopulationLoss(moments, heads)) for heads in (KINDS, ONE_HEAD)]
        if found != list(cross_layer.unbiased_minima(1, n, sigma, c)) or (found[0] < found[1]) != (sigma > 0):
            return False
    return True


def _least(loss: PopulationLoss) -> Fraction:
    """Over the two readouts at A = 1: a quadratic, from its values at six of them."""
    one = np.array([[Fraction(1)]])
    keys = np.stack([one] * loss.keys)

    def at(first: int, second: int) -> Fraction:
        w = np.array([[[Fraction(first)]], [[Fraction(second)]]])
        return Fraction(loss.value(Weights(one, one[:0], w, keys)))

    zero = at(0, 0)
    h_1, h_2 = (at(*e) + at(-e[0], -e[1]) - 2 * zero for e in ((1, 0), (0, 1)))
    g_1, g_2 = ((at(*e) - at(-e[0], -e[1])) / 2 for e in ((1, 0), (0, 1)))
    across = at(1, 1) - at(1, 0) - at(0, 1) + zero
    return zero - (h_2 * g_1**2 - 2 * across * g_1 * g_2 + h_1 * g_2**2) / (2 * (h_1 * h_2 - across**2))


@UNBIASED.check(
    "descents with enough heads end on both minima around c I, d = a = 1, 2, 3, and the order turns with sigma",
    states=1.0,
    control=1.05,
    wrong="5 % more noise",
    kind="descent",
)
def both_minima_without_the_term(times: float) -> bool:
    for d, n, sigma, ahead in ((1, 2, 0.5, True), (2, 3, 3.0, True), (2, 3, 0.5, False), (3, 2, 3.0, True)):
        c = 20.0
        moments = PromptMoments(d, n, sigma, c * np.eye(d))
        found = [moments.zero_loss - explained(moments, d, of) for of in (KINDS, SKIPV1)]
        expected = cross_layer.unbiased_minima(d, n, times * sigma, c)
        if any(abs(f - e) > DESCENT * moments.zero_loss for f, e in zip(found, expected, strict=True)):
            return False
        if (found[0] < found[1]) != ahead:
            return False
    return True


@UNBIASED.check(
    "for sigma = 0 descents with enough heads keep the bound on the gap, and meet it around c I at a = d; d = 2",
    states=1.0,
    control=1.1,
    wrong="a gap 10 % larger",
    kind="descent",
)
def bound_without_noise(times: float) -> bool:
    rng = np.random.default_rng(25)
    for w0, rank in ((3 * np.eye(2), 2), (rng.standard_normal((2, 2)), 1), (rng.standard_normal((2, 2)), 2)):
        moments = PromptMoments(2, 3, 0.0, w0)
        gap = explained(moments, rank, SKIPV1) - explained(moments, rank)
        power = float(np.linalg.norm(w0, 2) ** 2)
        bound = 0.5 * 2 * rank - cross_layer.cross_layer_most(2, 3, 0.0, rank, power)  # rho = 1/2
        if gap < times * bound - DESCENT * 4:
            return False
    return True
