"""Claims on cross-layer attention around any W0, with enough heads."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
from sympy import Matrix

from experiments.ledger.claim import Claim, Conditions, at
from experiments.toys.checks import ROUNDING
from theory.plans import mix
from theory.plans.heads import SKIPV1, Heads, toy_heads
from theory.plans.names import resolve
from theory.plans.plan import Shape
from theory.prompts.moments import Array, PromptMoments
from theory.resformer import cross_layer, cross_layer_weights
from theory.resformer.cross_layer_weights import TWO_HEADS
from theory.resformer.paper import PAPER
from theory.resformer.weights import ONE_HEAD
from theory.toy.enough_heads import EnoughHeads
from theory.toy.exact import loss_at_entries
from theory.toy.population import PopulationLoss, Weights
from theory.toy.tokens import whole

PLACE = "section 4.3, Fig. 8, around any W0: theory/resformer/cross_layer.py"
FREE_TERM = (
    "Assumption 1 of SkipV1Former; linear attention; a free term C x in the prediction; any n, sigma >= 0 and W0; "
    "normal x"
)
DESCENT = 1e-6  # of the zero loss, or of d^2: how far the best of the descents may stay from a minimum
KINDS = TWO_HEADS[:2]  # of which cross-layer attention consists; that its plan does, `SHARP` shows


def explained(moments: PromptMoments, rank: int, of: Heads = KINDS, starts: int = 4) -> float:
    """Return what the best descent with enough heads explains, for cross-layer attention or other kinds."""
    enough = EnoughHeads(moments, of)
    return enough.zero_loss - enough.minimise(rank, starts=starts)[0]


AHEAD = Claim(
    "resformer.cross-layer-any-w0",
    PAPER.ours,
    place=f"{PLACE}, (1)",
    statement="With any number of heads cross-layer attention explains at most rho [a (d - a) + q (a^2 - N(a))], where "
    "one head of its block form explains rho a d.  For a = 1, enough heads and long prompts it comes to "
    "that.",
    assumes=FREE_TERM,
    verdict="verified",
    correction="Here q = s_1^2 / (s_1^2 + g^2) < 1, s_1 W0's largest singular value and g^2 >= d/2 as in the proof; "
    "N(a) = k (k - 1)/2, k = max(2 a - d, 0).",
    proof=cross_layer,
    uses=("resformer.block-form-better", "skipv1.bias"),
)


@AHEAD.check(
    "descents with enough heads do not pass the bound, and end on it at W0 = 0 and, for a = 1 and a = d, around "
    "c I; d = 1, 2, 3, eight W0 and ranks",
    states=1.0,
    control=0.5,
    wrong="half the squared singular value",
    kind="descent",
)
def descents_stay_below(times: float) -> Conditions:
    rng = np.random.default_rng(21)
    cases = [(np.zeros((2, 2)), 1), (np.zeros((3, 3)), 2), (np.eye(1), 1), (2 * np.eye(2), 2), (5 * np.eye(3), 1)]
    cases += [(2 * rng.standard_normal((d, d)), a) for d, a in ((2, 1), (3, 1), (3, 2))]
    for w0, rank in cases:
        d, n, sigma = len(w0), 3, 0.5
        s = np.linalg.svd(w0, compute_uv=False)
        found = explained(PromptMoments(d, n, sigma, w0, centred=True), rank)
        short = cross_layer.cross_layer_most(d, n, sigma, rank=rank, power=times * s[0] ** 2) - found
        met = s[0] == 0 or (rank in (1, d) and np.ptp(s) == 0)
        yield short >= -ROUNDING * d**2
        if met:
            yield short <= DESCENT * d**2


@AHEAD.check(
    "N(a) independent matrices X = X Pi with B X = 0 and X W0^T antisymmetric: rational elimination, A, B and W0 at "
    "random, d = 1 to 4, every rank; more around singular W0",
    states=0,
    control=1,
    wrong="one more",
    kind="exact",
)
def entries_never_read(more: int) -> Conditions:
    rng = np.random.default_rng(22)
    for d in (1, 2, 3, 4):
        for rank in range(1, d + 1):
            a, b, w0 = whole(rng, rank, d), whole(rng, d - rank, d), whole(rng, d, d)
            least = cross_layer.never_read(d, rank) + more
            yield _unread(a, b, w0) == least
            yield _unread(a, b, np.outer(w0[0], w0[-1])) >= least


def _unread(a: Array, b: Array, w0: Array) -> int:
    """Return the dimension of {Y: d x a with B Y = 0, Y A W0^T antisymmetric}, X = Y A."""
    rank, d = a.shape
    conditions = []
    for unit in np.eye(d * rank, dtype=int).reshape(-1, d, rank):
        seen = unit @ a @ w0.T
        conditions.append([*(b @ unit).ravel(), *(seen + seen.T).ravel()])
    return d * rank - int(Matrix(conditions).rank())


@AHEAD.check(
    "at random A, B and W0 the best linear map explains rho tr(U P_g) at most, and just that for n = 10^7; d = 1 to 4",
    states=1.0,
    control=0.9,
    wrong="less noise in S_yy",
)
def what_is_read_at_a_and_b(times: float) -> Conditions:
    rng = np.random.default_rng(26)
    for d, rank in ((1, 1), (2, 1), (3, 1), (3, 2), (4, 2), (4, 3)):
        a, b, w0 = rng.standard_normal((rank, d)), rng.standard_normal((d - rank, d)), rng.standard_normal((d, d))
        for n, slack in ((3, None), (10**7, 1e-4)):
            enough = EnoughHeads(PromptMoments(d, n, 0.5, w0, centred=True), KINDS)
            found = (enough.zero_loss - enough.value(a, b)) * (n + d + 1.25) / n
            read = cross_layer.read_at(a, b, w0, times * cross_layer.noise_of_products(d, n, 0.5))
            yield found <= read + 1e-7
            if slack is not None:
                yield found >= read - slack


@AHEAD.check(
    "for a = 1, A along the first right singular vector and B across the left one meet the bound, n = 10^7; d = 2 to 4",
    states=0,
    control=-1,
    wrong="the last singular vectors",
)
def one_row_meets_it(which: int) -> Conditions:
    rng, n = np.random.default_rng(27), 10**7
    for d in (2, 3, 4):
        w0 = 2 * rng.standard_normal((d, d))
        left, s, right = np.linalg.svd(w0)
        enough = EnoughHeads(PromptMoments(d, n, 0.5, w0, centred=True), KINDS)
        b = np.delete(left.T, which, axis=0)
        found = enough.zero_loss - enough.value(30 * right[which : which + 1 or None], b)
        yield abs(found - cross_layer.cross_layer_most(d, n, 0.5, rank=1, power=s[0] ** 2)) <= 1e-4


FULL_RANK = Claim(
    "resformer.cross-layer-full-rank",
    PAPER.ours,
    place=f"{PLACE}, (2)",
    statement="At a = d cross-layer attention with enough heads explains rho sum_{i <= j} (s_i^2 + s_j^2) / (s_i^2 + "
    "s_j^2 + 2 g^2) at its minimum, around every W0, s_i its singular values.",
    assumes=FREE_TERM,
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
def a_map_attains_it(times: int) -> Conditions:
    """Check P_ij = c_ij (S_yy - W0 S W0^T - tr(S) I)_ij, as S + S_yy and, at A = I, 2 S give."""
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
        yield _loss_of_map(moments, p_map) == loss_at_entries(d, n, sigma, 0) - explained


def _loss_of_map(moments: PromptMoments, p_map: Array) -> Fraction:
    """Return E||P - W*||^2 + d sigma^2 for P_ij = sum p_map[i, j, p, q] M_pq, M the second moment of (x ; y)."""
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
def descents_end_there(times: float) -> Conditions:
    rng = np.random.default_rng(23)
    for d, n, sigma in ((2, 4, 0.5), (3, 2, 1.5)):
        full = 2 * rng.standard_normal((d, d))
        for w0 in (full, np.outer(full[0], full[1]), 5 * np.linalg.qr(full)[0]):
            powers = list(np.linalg.svd(w0, compute_uv=False) ** 2)
            predicted = times * cross_layer.full_rank_explained(n, sigma, powers)
            found = explained(PromptMoments(d, n, sigma, w0, centred=True), d)
            yield abs(found - predicted) <= DESCENT * d**2


SHARP = Claim(
    "resformer.cross-layer-best-constant",
    PAPER.ours,
    place=f"{PLACE}, (3)",
    statement="Around W0 = t diag(I_a, 0) two heads of cross-layer attention come to rho [a d - N(a)] as t grows; so "
    "ResFormer's optimum over a is ahead by more than rho ceil((3 d + 1)(d - 1)/8) around every W0, and by no larger "
    "constant.",
    assumes=FREE_TERM,
    verdict="verified",
    proof=cross_layer_weights,
    uses=("resformer.cross-layer-any-w0",),
    unjudged={
        mix.q: "whose query it is makes no difference to W and K, which are free",
        at(cross_layer_weights.cross_layer_weights, "0 * eye"): "rows of B, beyond the first m, that no head reads",
    },
)


@SHARP.check(
    "the exact loss of the explicit weights of the plan of Eqn. (2), in fractions; d = 1 to 3, every rank and "
    "two t, and d = 4, a = 3",
    states=0,
    control=1,
    wrong="one entry more",
    kind="exact",
)
def two_heads_come_near(more: int) -> Conditions:
    heads = toy_heads(resolve("cross-layer", Shape(2, 2)))
    for d, n, sigma in ((1, 1, Fraction(0)), (2, 3, Fraction(1, 2)), (3, 2, Fraction(2)), (4, 1, Fraction(1, 3))):
        for rank in range(1, d + 1) if d < 4 else (3,):
            k = max(2 * rank - d, 0)
            limit = loss_at_entries(d, n, sigma, rank * d - k * (k - 1) // 2 + more)
            found = []
            for t in (Fraction(3), Fraction(60))[: 2 if d < 4 else 1]:
                loss = PopulationLoss(PromptMoments(d, n, sigma, _projection(d, rank, t), centred=True), heads)
                found.append(loss.value(cross_layer_weights.cross_layer_weights(d, n, sigma, rank=rank, t=t)) - limit)
                yield found[-1] == cross_layer_weights.cross_layer_excess(d, n, sigma, rank=rank, t=t)
            yield 0 < found[-1] * 400 ** (len(found) - 1) == found[0]


@SHARP.check(
    "the constant is the least over a of what is left at best, written out; d = 1 to 60",
    states=1,
    control=-1,
    wrong="(3 d - 1)(d - 1)/8",
    kind="exact",
)
def left_between_the_optima(sign: int) -> Conditions:
    for d in range(1, 61):
        left = min(d * (d - a) + (2 * a - d) * (2 * a - d - 1) * (2 * a > d) // 2 for a in range(d + 1))
        wrong = -(-(3 * d - 1) * (d - 1) // 8)
        yield left == (cross_layer.least_gap_of_optima(d) if sign == 1 else wrong)


def _projection(d: int, rank: int, t: Fraction) -> Array:
    return np.diag([t] * rank + [Fraction(0)] * (d - rank))


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
)
def lower_bound_isexplained(sign: int) -> Conditions:
    for d in (1, 2, 3, 4):
        for rank in range(1, d + 1):
            for c in (0.5, 1.0, 6.0):
                n, sigma, r, eye = 3, 0.5, 2.5, np.eye(d)
                moments = PromptMoments(d, n, sigma, c * eye, centred=True)
                enough = EnoughHeads(moments, KINDS)
                found = enough.zero_loss - enough.value(r * eye[:rank], -sign / (r * c) * eye[rank:])
                least, _ = cross_layer.explained_around_identity(d, n, sigma, rank=rank, power=c**2)
                yield abs(found - least) <= 1e-7 * d**2


@IDENTITY.check(
    "U's trace on what can be read, for row spaces at random below R and, nearly parallel, next to it; d = 1 to 6",
    states="R",
    control="a d - a (a - 1)/2",
    wrong="without what B gains by leaning towards A",
)
def subspaces_reach_the_limit(formula: str) -> Conditions:
    rng = np.random.default_rng(24)
    limits: dict[str, Callable[[int, int], float]] = {
        "R": lambda d, a: float(cross_layer.most_around_identity(d, a)),
        "a d - a (a - 1)/2": lambda d, a: a * d - a * (a - 1) / 2,
    }
    for d in (1, 2, 3, 4, 5, 6):
        for rank in range(1, d + 1):
            limit, eye, m = limits[formula](d, rank), np.eye(d), min(rank, d - rank)
            lean = np.concatenate([eye[:m] + 1e-3 * eye[rank : rank + m], eye[rank + m :]])
            yield abs(cross_layer.read_at(eye[:rank], lean, eye, 0.0) - limit) <= 1e-3
            a, b = rng.standard_normal((rank, d)), rng.standard_normal((d - rank, d))
            yield cross_layer.read_at(a, b, eye, 0.0) <= limit + 1e-9


@IDENTITY.check(
    "descents with enough heads at d = 3, a = 2, c = 30 end above a d - a (a - 1)/2 and below the bound, and next to "
    "it for n = 10^6, c = 100",
    states="R",
    control="a d - a (a - 1)/2",
    wrong="the lower bound for both",
    kind="descent",
)
def descents_end_between(formula: str) -> Conditions:
    for n, c, near in ((4, 30.0, 0.1), (10**6, 100.0, 0.03)):
        least, most = cross_layer.explained_around_identity(3, n, 0.5, rank=2, power=c**2)
        most = most if formula == "R" else least
        found = explained(PromptMoments(3, n, 0.5, c * np.eye(3), centred=True), 2)
        yield least + 0.1 < found <= most and most - found < near


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
def cross_layer_wins_at_one(centred: bool) -> Conditions:
    for n, sigma, c in ((1, Fraction(1), Fraction(2)), (3, Fraction(1, 2), Fraction(7)), (2, Fraction(0), Fraction(5))):
        moments = PromptMoments(1, n, sigma, np.array([[c]]), centred=centred)
        found = [_least(PopulationLoss(moments, heads)) for heads in (KINDS, ONE_HEAD)]
        yield found == list(cross_layer.unbiased_minima(1, n, sigma, c))
        yield (found[0] < found[1]) == (sigma > 0)


def _least(loss: PopulationLoss) -> Fraction:
    """Return the least loss over the two readouts at A = 1: a quadratic, from its values at six of them."""
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
def both_minima_without_the_term(times: float) -> Conditions:
    for d, n, sigma, ahead in ((1, 2, 0.5, True), (2, 3, 3.0, True), (2, 3, 0.5, False), (3, 2, 3.0, True)):
        c = 20.0
        moments = PromptMoments(d, n, sigma, c * np.eye(d))
        found = [moments.zero_loss - explained(moments, d, of) for of in (KINDS, SKIPV1)]
        expected = cross_layer.unbiased_minima(d, n, times * sigma, c)
        yield all(abs(f - e) <= DESCENT * moments.zero_loss for f, e in zip(found, expected, strict=True))
        yield (found[0] < found[1]) == ahead


@UNBIASED.check(
    "for sigma = 0 descents with enough heads keep the bound on the gap, and meet it around c I at a = d; d = 2",
    states=1.0,
    control=1.1,
    wrong="a gap 10 % larger",
    kind="descent",
)
def bound_without_noise(times: float) -> Conditions:
    rng = np.random.default_rng(25)
    for w0, rank in ((3 * np.eye(2), 2), (rng.standard_normal((2, 2)), 1), (rng.standard_normal((2, 2)), 2)):
        moments = PromptMoments(2, 3, 0.0, w0)
        gap = explained(moments, rank, SKIPV1) - explained(moments, rank)
        power = float(np.linalg.norm(w0, 2) ** 2)
        bound = 0.5 * 2 * rank - cross_layer.cross_layer_most(2, 3, 0.0, rank=rank, power=power)  # rho = 1/2
        yield gap >= times * bound - DESCENT * 4
