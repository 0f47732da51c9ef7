"""Claims on ResFormer in the linear toy around any W0: how far it is ahead of cross-layer attention."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
from sympy import Matrix

from experiments.ledger.claim import Claim
from experiments.toys.checks import ROUNDING
from theory.plans.heads import SKIPV1, Head, toy_heads
from theory.plans.names import resolve
from theory.plans.plan import Shape
from theory.prompts.moments import Array, PromptMoments
from theory.resformer import cross_layer, cross_layer_weights
from theory.resformer.paper import PAPER
from theory.resformer.weights import ONE_HEAD
from theory.toy.enough_heads import EnoughHeads
from theory.toy.exact import loss_at_entries
from theory.toy.population import PopulationLoss, Weights
from theory.toy.tokens import whole

PLACE = "section 4.3, Fig. 8, around any W0: theory/resformer/cross_layer.py"
TOY = "Assumption 1; linear attention; a free term C x beside the prediction; any n, sigma >= 0 and W0; normal inputs"
DESCENT = 1e-6  # of the zero loss: how far the best of the descents may stay from a minimum

AHEAD = Claim(
    "resformer.cross-layer-any-w0",
    PAPER.ours,
    place=f"{PLACE}, (1)",
    statement="With any number of heads cross-layer attention explains at most rho [a (d - a) + q (a^2 - N(a))], where "
    "one head of its block form explains rho a d.",
    assumes=TOY,
    verdict="verified",
    proof=cross_layer,
    uses=("resformer.block-form-better", "skipv1.bias"),
)


@AHEAD.check(
    "descents with enough heads do not pass the bound, and end on it at W0 = 0 and, for a = 1 and a = d, around "
    "c I; d = 1, 2, 3, ten W0 and ranks",
    states=1.0,
    control=0.5,
    wrong="half the squared singular value",
    kind="descent",
)
def descents_stay_below(times: float) -> bool:
    rng = np.random.default_rng(21)
    cases = [(np.zeros((2, 2)), 1), (np.zeros((3, 3)), 2), (np.eye(1), 1), (2 * np.eye(2), 2), (5 * np.eye(3), 1)]
    cases += [(2 * rng.standard_normal((d, d)), a) for d, a in ((2, 1), (3, 1), (3, 2), (3, 3))]
    for w0, rank in [*cases, (9 * np.diag([1.0, 1.0, 0.0]), 2)]:
        d, n, sigma = len(w0), 3, 0.5
        s = np.linalg.svd(w0, compute_uv=False)
        explained = _explained(PromptMoments(d, n, sigma, w0, centred=True), rank)
        short = cross_layer.cross_layer_most(d, n, sigma, rank, times * s[0] ** 2) - explained
        met = s[0] == 0 or (rank in (1, d) and np.ptp(s) == 0)
        if short < -ROUNDING * d**2 or (met and short > DESCENT * d**2):
            return False
    return True


@AHEAD.check(
    "N(a) independent matrices X = X Pi with B X = 0 and X W0^T antisymmetric: rational elimination, A, B and W0 at "
    "random, d = 1 to 4, every rank; more around singular W0",
    states=0,
    control=1,
    wrong="one more",
    kind="exact",
)
def entries_never_read(more: int) -> bool:
    rng = np.random.default_rng(22)
    for d in (1, 2, 3, 4):
        for rank in range(1, d + 1):
            a, b, w0 = whole(rng, rank, d), whole(rng, d - rank, d), whole(rng, d, d)
            least = cross_layer.never_read(d, rank) + more
            if _unread(a, b, w0) != least or _unread(a, b, np.outer(w0[0], w0[-1])) < least:
                return False
    return True


def _unread(a: Array, b: Array, w0: Array) -> int:
    """Dimension of {Y: d x a with B Y = 0, Y A W0^T antisymmetric}, X = Y A."""
    rank, d = a.shape
    conditions = []
    for unit in np.eye(d * rank, dtype=int).reshape(-1, d, rank):
        seen = unit @ a @ w0.T
        conditions.append([*(b @ unit).ravel(), *(seen + seen.T).ravel()])
    return d * rank - int(Matrix(conditions).rank())


FULL_RANK = Claim(
    "resformer.cross-layer-full-rank",
    PAPER.ours,
    place=f"{PLACE}, (2)",
    statement="At a = d cross-layer attention with enough heads explains rho sum_{i <= j} (s_i^2 + s_j^2) / (s_i^2 + "
    "s_j^2 + 2 g^2) at its minimum, around every W0.",
    assumes=TOY,
    verdict="verified",
    proof=cross_layer.full_rank_explained,
    uses=("resformer.cross-layer-any-w0",),
)


@FULL_RANK.check(
    "the loss of an explicit linear map of S and S_yy, in fractions; W0 = diag(s), d = 1, 2, 3",
    states=1,
    control=2,
    wrong="twice that readout",
    kind="exact",
)
def a_map_attains_it(times: int) -> bool:
    """P_ij = c_ij (S_yy - W0 S W0^T - tr(S) I)_ij, as S + S_yy and, at A = I, 2 S give."""
    for powers, n, sigma in (((4,), 2, Fraction(1, 2)), ((9, 1), 3, Fraction(0)), ((1, 4, 0), 2, Fraction(3, 2))):
        d, s = len(powers), [round(power**0.5) for power in powers]
        noise, step = sigma**2, 1 / (n + d + 1 + sigma**2)
        g2 = (d * (n + d + 1) + 2 * d * noise + noise**2) * step  # 2 g^2
        p_map = np.full((d, d, 2 * d, 2 * d), Fraction(0), dtype=object)
        for i in range(d):
            for j in range(d):
                readout = times * step * Fraction(s[j]) / (s[i] ** 2 + s[j] ** 2 + g2)
                p_map[i, j, d + i, d + j] = readout
                p_map[i, j, i, j] -= readout * s[i] * s[j]
                for k in range(d if i == j else 0):
                    p_map[i, j, k, k] -= readout
        moments = PromptMoments(d, n, sigma, np.diag(s) * Fraction(1), centred=True)
        explained = cross_layer.full_rank_explained(n, sigma, [Fraction(power) for power in powers])
        if _loss_of_map(moments, p_map) != loss_at_entries(d, n, sigma, 0) - explained:
            return False
    return True


def _loss_of_map(moments: PromptMoments, p_map: Array) -> Fraction:
    """E||P - W*||^2 + d sigma^2 for P_ij = sum p_map[i, j, p, q] M_pq, M the second moment of (x ; y)."""
    d, total = moments.d, moments.zero_loss
    for i in range(d):
        for j in range(d):
            # (M Q)_pj = P_ij for rows p of p_map: E P_ij^2 = sum_pr c_pq c_rs E M_pq M_rs
            for q, s in np.ndindex(2 * d, 2 * d):
                unit = np.full((2 * d, 2 * d), Fraction(0), dtype=object)
                unit[q, s] = Fraction(1)
                if p_map[i, j, :, q].any() and p_map[i, j, :, s].any():
                    total += p_map[i, j, :, q] @ moments.sandwich(unit) @ p_map[i, j, :, s]
            for q in range(2 * d):
                if p_map[i, j, :, q].any():
                    at = np.full((d, 2 * d), Fraction(0), dtype=object)
                    at[j, q] = Fraction(1)
                    total -= 2 * moments.target_left(at)[i] @ p_map[i, j, :, q]
    return total


@FULL_RANK.check(
    "descents with enough heads end there; W0 at random, of rank one, and a rotation five times; d = 2, 3",
    states=1.0,
    control=1.01,
    wrong="1 % more",
    kind="descent",
)
def descents_end_there(times: float) -> bool:
    rng = np.random.default_rng(23)
    for d, n, sigma in ((2, 4, 0.5), (3, 2, 1.5)):
        full = 2 * rng.standard_normal((d, d))
        for w0 in (full, np.outer(full[0], full[1]), 5 * np.linalg.qr(full)[0]):
            powers = list(np.linalg.svd(w0, compute_uv=False) ** 2)
            predicted = times * cross_layer.full_rank_explained(n, sigma, powers)
            found = _explained(PromptMoments(d, n, sigma, w0, centred=True), d)
            if abs(found - predicted) > DESCENT * d**2:
                return False
    return True


SHARP = Claim(
    "resformer.cross-layer-best-constant",
    PAPER.ours,
    place=f"{PLACE}, (3)",
    statement="Around W0 = t diag(I_a, 0) two heads of cross-layer attention come to rho [a d - N(a)] as t grows; so "
    "ResFormer's optimum over a is ahead by more than rho ceil((3 d + 1)(d - 1)/8) around every W0, and by no larger "
    "constant.",
    assumes=TOY,
    verdict="verified",
    proof=cross_layer_weights,
    uses=("resformer.cross-layer-any-w0",),
)


@SHARP.check(
    "the exact loss of the explicit weights of the plan of Eqn. (2), in fractions; d = 1 to 4, every rank, two t",
    states=0,
    control=1,
    wrong="one entry more",
    kind="exact",
)
def two_heads_come_near(more: int) -> bool:
    heads = toy_heads(resolve("cross-layer", Shape(2, 2)))
    for d, n, sigma in ((1, 1, Fraction(0)), (2, 3, Fraction(1, 2)), (3, 2, Fraction(2)), (4, 1, Fraction(1, 3))):
        for rank in range(1, d + 1):
            k = max(2 * rank - d, 0)
            limit = loss_at_entries(d, n, sigma, rank * d - k * (k - 1) // 2 + more)
            found = []
            for t in (Fraction(3), Fraction(60)):
                loss = PopulationLoss(PromptMoments(d, n, sigma, _projection(d, rank, t), centred=True), heads)
                found.append(loss.value(cross_layer_weights.cross_layer_weights(d, n, sigma, rank, t)) - limit)
                if found[-1] != cross_layer_weights.cross_layer_excess(d, n, sigma, rank, t):
                    return False
            if not 0 < found[1] * 400 == found[0]:
                return False
    return True


@SHARP.check(
    "the constant is the least over a of what is left at best, written out; d = 1 to 60",
    states=1,
    control=-1,
    wrong="(3 d - 1)(d - 1)/8",
    kind="exact",
)
def left_between_the_optima(sign: int) -> bool:
    for d in range(1, 61):
        left = min(d * (d - a) + (2 * a - d) * (2 * a - d - 1) * (2 * a > d) // 2 for a in range(d + 1))
        wrong = -(-(3 * d - 1) * (d - 1) // 8)
        if left != (cross_layer.least_gap_of_optima(d) if sign == 1 else wrong):
            return False
    return True


def _projection(d: int, rank: int, t: Fraction) -> Array:
    return np.diag([t] * rank + [Fraction(0)] * (d - rank))


IDENTITY = Claim(
    "resformer.cross-layer-around-identity",
    PAPER.ours,
    place=f"{PLACE}, (4)",
    statement="Around W0 = c I cross-layer attention with enough heads explains between rho [a (d - a) + q a (a + 1)/2] "
    "and rho [a (d - a) + q (R - a (d - a))]; not a d - a (a - 1)/2 but R is the limit for long prompts and large c.",
    assumes=TOY + "; W0 = c I",
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
def lower_bound_is_explained(sign: int) -> bool:
    for d in (1, 2, 3, 4):
        for rank in range(1, d + 1):
            for c in (0.5, 1.0, 6.0):
                n, sigma, r, eye = 3, 0.5, 2.5, np.eye(d)
                moments = PromptMoments(d, n, sigma, c * eye, centred=True)
                enough = EnoughHeads(moments, _kinds())
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
            if abs(_readable(eye[:rank], lean) - limit) > 1e-3:
                return False
            if _readable(rng.standard_normal((rank, d)), rng.standard_normal((d - rank, d))) > limit + 1e-9:
                return False
    return True


def _readable(a: Array, b: Array) -> float:
    """The trace of X -> X Pi on the span of all B^T L A and all symmetric matrices."""
    d = a.shape[1]
    units = np.eye(d * d).reshape(-1, d, d)
    spanning = [*(np.outer(row, column) for row in b for column in a), *(unit + unit.T for unit in units)]
    _, sizes, basis = np.linalg.svd(np.array(spanning).reshape(-1, d * d), full_matrices=False)
    basis = basis[sizes > 1e-9].reshape(-1, d, d)
    onto = np.linalg.pinv(a) @ a
    return float(((basis @ onto) * basis).sum())


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
        found = _explained(PromptMoments(3, n, 0.5, c * np.eye(3), centred=True), 2, starts=8)
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
        found = [_least(PopulationLoss(moments, heads)) for heads in (_kinds(), ONE_HEAD)]
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
        found = [moments.zero_loss - _explained(moments, d, kinds) for kinds in (_kinds(), SKIPV1)]
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
        gap = _explained(moments, rank, SKIPV1) - _explained(moments, rank)
        power = float(np.linalg.norm(w0, 2) ** 2)
        bound = 0.5 * 2 * rank - cross_layer.cross_layer_most(2, 3, 0.0, rank, power)  # rho = 1/2
        if gap < times * bound - DESCENT * 4:
            return False
    return True


def _kinds() -> tuple[Head, ...]:
    """The kinds of head of which Eqn. (2)'s plan consists."""
    return toy_heads(resolve("cross-layer", Shape(2, 1)))


def _explained(moments: PromptMoments, rank: int, kinds: tuple[Head, ...] | None = None, starts: int = 6) -> float:
    """What the best of the descents with enough heads explains."""
    enough = EnoughHeads(moments, _kinds() if kinds is None else kinds)
    return enough.zero_loss - enough.minimise(rank, starts=starts)[0]
