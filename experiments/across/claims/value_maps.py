"""Claims on the signal that every value map explains in the toy, and its equivalent in vanilla's width."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from functools import cache

import numpy as np
import sympy

from experiments.ledger.claim import Claim
from experiments.skipv1.claims.gap import map_rank_is
from experiments.skipv1.claims.setting import W0_ZERO
from experiments.toys.checks import ROUNDING
from experiments.toys.one_head import one_resformer_head_attains
from experiments.toys.unjudged import NUMBER, OF_VALUE_MAPS
from theory.plans.heads import ORDINARY, SKIP, Head, Heads, shares, toy_heads
from theory.plans.names import resolve
from theory.plans.plan import Plan, Shape
from theory.plans.variants import VARIANTS
from theory.prompts.moments import Array, PromptMoments
from theory.resformer import weights as resformer_weights
from theory.resformer.weights import cancelling_share
from theory.skipv1.gap_weights import mha_weights
from theory.skipv1.paper import PAPER
from theory.toy import value_maps, worth
from theory.toy.exact import RATIONAL_TASKS, exact_loss, loss_at_entries
from theory.toy.minimise import minimise
from theory.toy.population import PopulationLoss, Weights
from theory.toy.raw_keys import key_kinds, raw_key_bounds
from theory.toy.value_maps import optimum

NAMED: dict[str, Callable[[int, int], int]] = {
    **dict.fromkeys(("vanilla", "skipv0", "cross-layer", "skipkv1"), lambda a, d: a * (d - a)),
    **dict.fromkeys(("resformer", "svformer", "cla-v"), lambda a, d: a * d),
    "cla": lambda _a, _d: 0,
}
TASKS = [(d, rank) for d in (1, 2, 3) for rank in range(d + 1)]
RAW_BOTH = Head(copied=0, raw=1, key_copied=0, key_raw=1)

MHAS_TOY = {VARIANTS[name].make: "MHA's toy, as others'" for name in ("skipv0", "skipkv1")}

VALUE_MAPS = Claim(
    "toy.value-maps",
    PAPER.ours,
    place="theory/toy/value_maps.py; bears on the orderings of ResFormer, sections 4.2, 4.3 and 4.8, and "
    "SkipV1Former, section 6.5 and appendix C.5",
    statement="A two-layer plan's toy explains rho a d of the signal if some value from layer 1 meets a key of "
    "layer 2 (SkipV1Former, ResFormer, SVFormer); rho a (d - a) if none does, no value of layer 2 meets a key of "
    "layer 1, and one meets a key of layer 2 (MHA, SkipV0, true cross-layer attention, SkipKV1Former); nothing if "
    "values of layer 1 meet keys of layer 1 alone (sharing both, as CLA does).  Terms beside the attention "
    "(NeuTRENO) change none of these.",
    assumes=W0_ZERO + "; every head has an output matrix of its own; no weights that cancel each other",
    verdict="verified",
    proof=value_maps,
    uses=("skipv1.mha-infimum", "toy.svformer-infimum"),
    unjudged={
        **OF_VALUE_MAPS,
        Plan.live: NUMBER,
        **MHAS_TOY,
        **dict.fromkeys((raw_key_bounds, key_kinds), "no value of layer 2 has a key of layer 1 here: toy.raw-keys"),
    },
)

VALUE_MAPS.check(
    "a raw value with a copied key: the map from S_yx to P has rank a d, and no more; exact, d = 1..3",
    states=((SKIP,), lambda a, d: a * d),
    control=((SKIP,), lambda a, d: a * (d - a)),
    wrong="rank a (d - a)",
    kind="exact",
)(map_rank_is)

VALUE_MAPS.check(
    "true cross-layer attention: a raw value with a raw key beside MHA leaves its rank as it is; exact",
    states=((ORDINARY, RAW_BOTH), lambda a, d: a * (d - a)),
    control=((ORDINARY, RAW_BOTH), lambda a, d: a * d),
    wrong="rank a d, as if cross-layer attention brought the raw labels back",
    kind="exact",
)(map_rank_is)

VALUE_MAPS.check(
    "a raw value with a raw key sees nothing of S_yx; exact",
    states=((RAW_BOTH,), lambda a, d: 0),
    control=((RAW_BOTH,), lambda a, d: a * (d - a)),
    wrong="rank a (d - a)",
    kind="exact",
)(map_rank_is)


@VALUE_MAPS.check(
    "terms beside the attention: exact losses of explicit weights stay above MHA's infimum and approach it",
    states=10**7,
    control=1,
    wrong="weights that are not rescaled",
    kind="exact",
)
def beside_changes_nothing(c: int) -> bool:
    """Check explicit weights W beside a large C made from them: never below MHA's infimum, and W / c with c K near it.

    The loss is E||P + C - W*||^2 = E||P - W*||^2 + ||C||^2 + 2 <C, E P>, all in exact numbers; near is within 1e-5.
    """
    rng = np.random.default_rng(3)
    for d, n, sigma in RATIONAL_TASKS[1:]:
        loss = exact_loss((Head(1, 0),), d, n, sigma)
        for a in range(1, d):
            infimum = loss_at_entries(d, n, sigma, a * (d - a))
            near = mha_weights(d, n, sigma, rank=a, beta=Fraction(1000))
            weights = Weights(near.a, near.b, near.w[:1] / c, near.k[:1] * c)
            beside = weights.w[0] @ (1000 * rng.integers(1, 3, (d, d)).astype(object) + Fraction(0))
            total = loss.value(weights) + np.sum(beside**2) + 2 * np.sum(beside * _mean_map(weights, d, n, sigma))
            if not 0 <= total - infimum <= Fraction(1, 10**5):
                return False
    return True


def _mean_map(weights: Weights, d: int, n: int, sigma: Fraction) -> Array:
    """Return E P for one ordinary head at W0 = 0: E[x x^T] = I, E[y y^T] = (d + sigma^2) I, E[x y^T] = 0."""
    gram = n * np.eye(d, dtype=int).astype(object)
    gram[: weights.rank, : weights.rank] += n * weights.a @ weights.a.T
    gram[weights.rank :, weights.rank :] += n * (d + sigma**2) * weights.b @ weights.b.T
    return weights.w[0] @ gram @ weights.k[0] @ weights.a


@VALUE_MAPS.check(
    "exact minimisation of eight named plans ends on the closed forms and not below, d = 4, ranks 1 and 3",
    states=1.0,
    control=1.02,
    wrong="explained signal 2 % larger",
    kind="descent",
)
def minimiser_finds_value_maps(factor: float) -> bool:
    """Check that minimisation, and `optimum`, end on the values in `NAMED` (in units of rho), d = 4, ranks 1 and 3."""
    d, n, sigma = 4, 10, 0.4
    for name, entries in NAMED.items():
        plan = resolve(name, Shape(2, 2))
        heads = _numbered(toy_heads(plan))
        for rank in (1, 3):
            signal, known = d**2 + d * sigma**2, n / (n + d + 1 + sigma**2) * entries(rank, d)
            most, explained = known * factor, signal - _least_loss(heads, d, n, sigma=sigma, rank=rank)
            found = optimum(plan, d, n, sigma=sigma, rank=rank)
            if abs(found.explained - known) > ROUNDING or abs(signal - known - found.loss) > ROUNDING:
                return False
            if not -1e-4 * signal <= explained - most <= ROUNDING * signal or (factor == 1 and most < 0):
                return False
    return True


@VALUE_MAPS.check(
    "a plan whose values and keys meet in one way alone approaches what it explains and never attains it, whatever "
    "stands beside the attention; raw and copied values that meet copied keys attain it; so does who explains nothing",
    states={
        **dict.fromkeys(("vanilla", "skipv0", "neutreno", "svformer", "cla-v", "cla-k"), False),
        **dict.fromkeys(("resformer", "skipv1"), True),
    },
    control=dict.fromkeys(("vanilla", "skipv0", "neutreno", "svformer", "cla-v", "cla-k", "resformer", "skipv1"), True),
    wrong="every plan attains it",
    kind="exact",
)
def attained_by(plans: Mapping[str, bool]) -> bool:
    """Check d = 1, 2 and 3 at every rank, including 0."""
    for name, attained in plans.items():
        plan = resolve(name, Shape(2, 2))
        for d, rank in TASKS:
            found = optimum(plan, d, 4, sigma=0.5, rank=rank)
            if found.attained is not (attained or found.explained == 0):
                return False
    return True


def _numbered(heads: Heads) -> Heads:
    """Return the same heads with shared matrices numbered: plans that differ in names only have one toy."""
    readouts, keys = (shares(heads, label)[1] for label in ("readout", "key"))
    return tuple(replace(head, readout=w, key=k) for head, w, k in zip(heads, readouts, keys, strict=True))


@cache
def _least_loss(heads: Heads, d: int, n: int, sigma: float, rank: int) -> float:
    return minimise(PopulationLoss(PromptMoments(d, n, sigma), heads), rank, starts=4).value


RESFORMER_HEAD = Claim(
    "toy.resformer-head",
    PAPER.ours,
    place="theory/toy/value_maps.py; ResFormer, Eqn. (7)",
    statement="One ResFormer head attains SkipV1Former's minimum at every rank, at finite weights.",
    assumes=W0_ZERO + "; layers 1 and 2 have value projections of their own",
    verdict="verified",
    proof=resformer_weights.one_head_weights,
    uses=("skipv1.mha-infimum", "skipv1.skipv1-minimum"),
)

RESFORMER_HEAD.check(
    "explicit weights have exactly that loss; rational arithmetic, d = 1..4, all ranks",
    states=cancelling_share,
    control=lambda kept: Fraction(0),
    wrong="the copied half silent, so that the even part stays",
    kind="exact",
)(one_resformer_head_attains)

RESFORMER_HEAD.check(
    "nothing goes below it: ordinary and skip heads together have a map of rank a d at most; exact",
    states=((ORDINARY, SKIP), lambda a, d: a * d),
    control=((ORDINARY, SKIP), lambda a, d: a * (d - a)),
    wrong="rank a (d - a)",
    kind="exact",
)(map_rank_is)

SVFORMER_INFIMUM = Claim(
    "toy.svformer-infimum",
    PAPER.ours,
    place="theory/toy/value_maps.py; ResFormer, Eqn. (10)",
    statement="SVFormer, all values from layer 1, comes as near to SkipV1Former's minimum as one likes, with an "
    "excess of lambda^2 a n (n + d + 1) / beta^2 at ||A|| ~ beta; it does not attain it for a >= 1.",
    assumes=W0_ZERO,
    verdict="verified",
    proof=value_maps,
    uses=("skipv1.mha-infimum", "skipv1.skipv1-minimum"),
)


@SVFORMER_INFIMUM.check(
    "the excess of explicit weights, exactly; rational arithmetic, d = 1..4, all ranks",
    states=2,
    control=1,
    wrong="falling like 1 / beta",
    kind="exact",
)
def svformer_excess(power: int) -> bool:
    """Compare the excess at A = beta (I_a 0), W = lambda / beta^2 I with lambda^2 a n (n + d + 1) / beta^power."""
    beta = Fraction(5, 2)
    for d, n, sigma in RATIONAL_TASKS:
        lam = Fraction(1) / (n + d + 1 + sigma**2)
        for a in range(d + 1):
            eye, top, bottom = _eyes(d, a)
            weights = Weights(beta * top, bottom, lam / beta**2 * eye[None], eye[None, :, :a])
            loss = loss_at_entries(d, n, sigma, a * d) + lam**2 * a * n * (n + d + 1) / beta**power
            if exact_loss((Head(0, 1),), d, n, sigma).value(weights) != loss:
                return False
    return True


def _eyes(d: int, a: int) -> tuple[Array, Array, Array]:
    """Return I (d, d), its first a rows, and an empty B, in fractions."""
    eye = np.eye(d, dtype=int).astype(object) + Fraction(0)
    return eye, eye[:a], np.zeros((d - a, d), dtype=object) + Fraction(0)


SVFORMER_INFIMUM.check(
    "nothing goes below it: rank a d; exact",
    states=((SKIP,), lambda a, d: a * d),
    control=((SKIP,), lambda a, d: d * d),
    wrong="rank d^2",
    kind="exact",
)(map_rank_is)


@SVFORMER_INFIMUM.check(
    "no weights attain it: the equations for a vanishing even part and a full odd part have no solution",
    states=True,
    control=False,
    wrong="the even part forgotten",
    kind="exact",
)
def svformer_attains_nowhere(antisymmetric: bool) -> bool:
    """Show that the proof's linear system has no solution for any number of heads.

    This is exact, for d = 1..3, all ranks and random A.

    The unknowns are tau_{ijkl} for each i and l, antisymmetric in j, k; required is sum_{k <= a} tau_jk A_km = delta_ij
    Pi'_ml.
    """
    rng = np.random.default_rng(5)
    for d in (1, 2, 3):
        for a in range(1, d + 1):
            top = sympy.Matrix(rng.integers(-3, 4, (a, d)).tolist()) + 7 * sympy.eye(d)[:a, :]
            projection = top.T * (top * top.T).inv() * top
            if all(
                _solvable(top, projection, i, column=column, antisymmetric=antisymmetric)
                for i in range(d)
                for column in range(d)
            ):
                return False
    return True


def _solvable(top: sympy.Matrix, projection: sympy.Matrix, i: int, column: int, antisymmetric: bool) -> bool:
    a, d = top.shape
    free = sympy.Matrix(d, d, lambda j, k: sympy.Symbol(f"t{j}{k}"))
    tau = free - free.T if antisymmetric else free
    target = sympy.Matrix(d, d, lambda j, m: projection[m, column] if j == i else 0)
    return bool(sympy.linsolve(list(tau[:, :a] * top - target), list(free)))


WORTH = Claim(
    "toy.worth",
    PAPER.ours,
    place="theory/toy/worth.py; bears on SkipV1Former, sections 4 and 5",
    statement="Under the assumed copy vanilla explains rho min(floor(w^2 / 4), d^2) at every width w, so that at width "
    "m >= d SkipV1Former, ResFormer and SVFormer are worth max(1, 2d / m) times their width of vanilla, for all n, "
    "sigma and numbers of heads: 2 at m = d, 1 from 2d on.  H < d^2 heads with keys of layer 1 alone are worth "
    "2 sqrt(H) / m if H is a square, and below 1 just where floor(m^2 / 4) > H.",
    assumes=W0_ZERO + "; u_t = (A x_t ; B y_t) with a + b = m rows, the best division of m; between whole widths "
    "vanilla is a straight line in log width",
    verdict="verified",
    proof=worth,
    uses=("toy.width", "toy.value-maps", "toy.raw-keys"),
    unjudged={**OF_VALUE_MAPS, VARIANTS["skipv0"].make: "MHA's toy, as others'"},
)


@WORTH.check(
    "vanilla's entries: the best rank of S -> B S A^T over a + b = w, w = 1 to 2d + 2, d = 1 to 4; exact",
    states=worth.vanilla_entries,
    control=lambda d, w: min((w // 2) ** 2, d * d),
    wrong="equal halves, which lose a row at odd widths",
    kind="exact",
)
def vanilla_has_entries(entries: Callable[[int, int], int]) -> bool:
    """Compare with ranks of random whole matrices; a read-in of w < d rows stands before A and B."""
    rng = np.random.default_rng(0)
    for d in (1, 2, 3, 4):
        for w in range(1, 2 * d + 3):
            read_in = rng.integers(1, 100, (w, d)).astype(float)
            of_a, of_b = (rng.integers(1, 100, (w, w)) @ read_in for _ in "ab")
            ranks = [_rank(of_a[:a]) * _rank(of_b[: w - a]) for a in range(w + 1)]
            if max(ranks) != entries(d, w) or not isinstance(entries(d, w), int):
                return False
    return True


def _rank(matrix: Array) -> int:
    return int(np.linalg.matrix_rank(matrix)) if matrix.size else 0


@WORTH.check(
    "the three that reach back are worth 2d / m up to 2d and 1 beyond, vanilla and SkipV0 1, CLA 0; d = 1 to 5",
    states=lambda d, m: max(1.0, 2 * d / m),
    control=lambda d, m: 2.0,
    wrong="2 at every width",
)
def reaching_back_is_worth(factor: Callable[[int, int], float]) -> bool:
    known: dict[str, Callable[[int, int], float]] = {
        **dict.fromkeys(("skipv1", "resformer", "svformer"), factor),
        **dict.fromkeys(("vanilla", "skipv0"), lambda _d, _m: 1.0),
        "cla": lambda _d, m: float(m == 1),  # at m = 1 vanilla explains nothing too
    }
    return all(
        np.allclose(worth.worth_at_width(resolve(name, Shape(2, 2)), d, m), of(d, m), rtol=1e-12, atol=0)
        for name, of in known.items()
        for d in (1, 2, 3, 5)
        for m in range(d, 2 * d + 3)
    )


@WORTH.check(
    "vanilla's width for the entries of a whole width is that width, exactly; widths 2 to 2d, d = 1 to 9",
    states=lambda w: w * w // 4,
    control=lambda w: (w // 2) ** 2,
    wrong="equal halves, which lose a row at odd widths",
    kind="exact",
)
def whole_widths_are_whole(entries: Callable[[int], int]) -> bool:
    """Check that whole widths come out whole, without a logarithm's rounding."""
    return all(worth.equal_width(d, entries(w)) == w for d in range(1, 10) for w in range(2, 2 * d + 1))


def _in_log(x: float) -> float:
    return float(np.log(x))


def _as_it_is(x: float) -> float:
    return float(x)


@WORTH.check(
    "keys of layer 1, one to ten heads: vanilla's width read off a line through whole widths; d = 2 and 3",
    states=_in_log,
    control=_as_it_is,
    wrong="a line in the width itself",
)
def raw_keys_are_worth(scale: Callable[[float], float]) -> bool:
    """Compare with the line through vanilla's entries at widths 1 to 2d, recomputed here with numpy."""
    for d in (2, 3):
        widths = range(1, 2 * d + 1)
        counts = [min(w * w // 4, d * d) for w in widths]
        for heads in range(1, 11):
            entries = min(heads, d * d)
            read = float(np.interp(entries, counts, [scale(w) for w in widths]))
            equal = float(np.exp(read)) if scale is _in_log else read
            for m in range(d, 2 * d + 1):
                expected = 1.0 if counts[m - 1] == entries else equal / m
                found = worth.worth_at_width(resolve("shared-keys", Shape(2, heads)), d, m)
                if not np.allclose(found, expected, rtol=1e-12, atol=0):
                    return False
                if heads < d * d and (found.most < 1) != (m * m // 4 > heads):
                    return False
    return True
