"""Bounds on the lowest losses of MHA and of SkipV1Former, for every task that a theorem here covers.

Which theorem speaks depends on the task: `theory.skipv1.gap` at identity covariances, `general` at any covariance,
`non_gaussian` at any kurtosis, all three at W0 = 0, and `w0`, `w0_heads` and `w0_d2` around W0.  At W0 = 0 the infima
are known, and so they are around W0 if a term C x is added to the prediction, which is what centred moments say
(`bias`); else there are mostly bounds there, which depend on the number of heads.

At a = d around W0, B is empty, so P_even is a linear function of S alone: a sum of two products L S N an ordinary head
and two a skip head, or one where W0 = c I (`w0_heads`, step (2)).  `theory.toy.few_terms` bounds what such sums reach,
for any W0; the odd part leaves d^2 without skip heads, and d^2 (1 - rho) with them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from theory.errors import InvalidSize, at_least, check_sizes
from theory.plans.heads import NotCovered
from theory.prompts.moments import Array, PromptMoments
from theory.prompts.setting import signal_share, zero_loss
from theory.skipv1 import bias, general, non_gaussian, w0, w0_heads
from theory.skipv1.gap import loss_gap
from theory.toy.few_terms import identity_floor, term_floor

LARGEST = 128  # of d around W0: families of so large matrices take a second or two
GAP, GENERAL, NON_GAUSSIAN = "theory.skipv1.gap", "theory.skipv1.general", "theory.skipv1.non_gaussian"
FLOOR, ENOUGH, SMALL = (f"theory.skipv1.w0, Theorem {i}" for i in (2, 1, 3))
FEW, AT_TWO = (f"theory.skipv1.w0_heads, Theorem {i}" for i in (4, 5))
BIAS = "theory.skipv1.bias"
TERMS, ZERO = "theory.toy.few_terms, Lemmas 1 and 3", "predicting zero"


@dataclass(frozen=True)
class Between:
    """A model's lowest loss, in squared units of y summed over its d entries: from `lower` to `upper`.

    The two are equal if it is known.  lower_by and upper_by name the theorems; attained: whether weights reach it
    (None: not known).
    """

    lower: float
    lower_by: str
    upper: float
    upper_by: str
    attained: bool | None = None


@dataclass(frozen=True)
class LossBounds:
    """Bounds on the two lowest losses at one task, at one rank or, where rank is None, over all ranks.

    heads, skips            heads of layer 2: MHA has `heads` ordinary ones, SkipV1Former `skips` skip heads of them
    zero_loss               the loss of predicting zero
    gap_least, gap_most     bounds on inf L_mha - inf L_skipv1
    ahead                   the model whose lowest loss is lower; "equal", or None where that is not decided
    ahead_by                the theorem that says so, where it is not the bounds themselves
    assumed                 whether the printed theorem's hypothesis holds, sigma_d(W0) > 2 sqrt(d) sigma
    """

    rank: int | None
    heads: int
    skips: int
    zero_loss: float
    mha: Between
    skipv1: Between
    gap_least: float
    gap_most: float
    ahead: Literal["mha", "skipv1", "equal"] | None
    ahead_by: str
    assumed: bool


class _Bound(NamedTuple):
    """A bound on a lowest loss.  attained: whether weights have an upper bound for their loss (None: not known)."""

    value: float
    by: str
    attained: bool | None = None


def loss_bounds(
    moments: PromptMoments, *, rank: int | None = None, heads: int = 2, skips: int | None = None
) -> LossBounds:
    """Return bounds on the lowest losses of MHA and SkipV1Former with `heads` heads, `skips` of them skip heads.

    By default half are skip heads.  Without a rank, the losses are over all ranks.  Raises InvalidSize, and NotCovered
    for tasks that no theorem here covers.
    """
    check_sizes(moments.d, moments.n, moments.sigma, rank)
    at_least("heads", heads, 2)
    skips = heads // 2 if skips is None else skips
    if not 1 <= skips < heads:
        raise InvalidSize(f"of {heads} heads from 1 to {heads - 1} are skip heads, got {skips}")
    isotropic = all(
        np.array_equal(m, np.eye(moments.d)) for m in (moments.covariance, moments.prior_rows, moments.prior_columns)
    )
    normal, around_zero = moments.kurtosis is None or not moments.kurtosis.any(), not moments.w0.any()
    if (not isotropic) + (not normal) + (not around_zero or moments.centred) > 1:
        raise NotCovered(
            "no theorem here is about more than one of W0, a covariance and a kurtosis (a bias "
            "counting as a W0): only minimising the loss is"
        )
    if moments.centred:
        return _biased(moments, rank, heads, skips)
    if not around_zero:
        return _around(moments, rank, heads, skips)
    if not normal:
        return _not_normal(moments, rank, heads, skips)
    return _central(moments, rank, heads, skips) if isotropic else _general(moments, rank, heads, skips)


def _central(moments: PromptMoments, rank: int | None, heads: int, skips: int) -> LossBounds:
    d, n, sigma = moments.d, moments.n, moments.sigma
    of_mha, of_skipv1 = (d // 2, d) if rank is None else (rank, rank)
    mha, skipv1 = loss_gap(d, n, sigma, of_mha).mha, loss_gap(d, n, sigma, of_skipv1).skipv1
    return _compared(
        moments,
        rank,
        heads,
        skips=skips,
        mha=_known(mha, GAP, attained=of_mha in (0, d)),
        skipv1=_known(skipv1, GAP, attained=True),
    )


def _biased(moments: PromptMoments, rank: int | None, heads: int, skips: int) -> LossBounds:
    d, n, sigma = moments.d, moments.n, moments.sigma
    of_mha, of_skipv1 = (d // 2, d) if rank is None else (rank, rank)
    reached = of_mha == 0 or np.linalg.matrix_rank(moments.w0[:, of_mha:].astype(np.float64)) == d - of_mha
    mha = _known(bias.mha_infimum(d, n, sigma, of_mha), BIAS, attained=True if reached else None)
    skipv1 = _known(bias.skipv1_minimum(d, n, sigma, of_skipv1), BIAS, attained=True)
    return _compared(moments, rank, heads, skips=skips, mha=mha, skipv1=skipv1)


def _not_normal(moments: PromptMoments, rank: int | None, heads: int, skips: int) -> LossBounds:
    assert moments.kurtosis is not None
    d, kurtosis = moments.d, [float(k) for k in moments.kurtosis]
    fourth = non_gaussian.fourth_moments(kurtosis)
    gaps = [non_gaussian.non_gaussian_loss_gap(fourth, moments.n, moments.sigma, a) for a in _ranks(d, rank)]
    mha, skipv1 = min(g.mha for g in gaps), min(g.skipv1 for g in gaps)
    reached = rank in (None, 0, d) or len(set(kurtosis)) == 1
    return _compared(
        moments,
        rank,
        heads,
        skips=skips,
        mha=_known(mha, NON_GAUSSIAN, attained=True if mha == float(moments.zero_loss) else None),
        skipv1=_known(skipv1, NON_GAUSSIAN, attained=True if reached else None),
    )


def _general(moments: PromptMoments, rank: int | None, heads: int, skips: int) -> LossBounds:
    """Return infima where there are enough heads of the kind to approach them; else these are lower bounds."""
    zero, ranks = float(moments.zero_loss), _ranks(moments.d, rank)
    gaps = {a: general.general_loss_gap(moments, a) for a in ranks}

    def between(losses: dict[int, float], needed: Any, there: int) -> Between:
        lower = min(losses.values())
        reached = min(losses[a] if needed(moments, a) <= there else zero for a in ranks)
        return Between(lower, GENERAL, reached, GENERAL if reached < zero else ZERO)

    mha = between({a: g.mha for a, g in gaps.items()}, general.mha_heads_needed, heads)
    skipv1 = between({a: g.skipv1 for a, g in gaps.items()}, general.skip_heads_needed, skips)
    return _compared(moments, rank, heads, skips=skips, mha=mha, skipv1=skipv1)


def _around(moments: PromptMoments, rank: int | None, heads: int, skips: int) -> LossBounds:
    d, n, sigma = moments.d, moments.n, float(moments.sigma)
    if d > LARGEST:
        raise InvalidSize(f"around W0 bounds are worked out for d up to {LARGEST}, got {d}")
    centre = moments.w0.astype(np.float64)
    squares = (np.linalg.svd(centre, compute_uv=False) ** 2).tolist()
    ranks = _ranks(d, rank)
    mha = _best([_mha_around(d, n, sigma, centre=centre, squares=squares, heads=heads, rank=a) for a in ranks])
    skipv1 = _best(
        [_skipv1_around(d, n, sigma, centre=centre, squares=squares, heads=heads, skips=skips, rank=a) for a in ranks]
    )
    rho, fewest = signal_share(d, n, sigma), min(skips, heads - skips)
    if rank is None and fewest >= d * d:
        proved = rho
    elif rank is not None and fewest >= d * rank:
        proved = rho * rank**2
    else:
        proved = None
    printed = d == 2 and rank is None and squares[-1] > 8 * sigma**2
    theorem = (proved, ENOUGH) if proved is not None else (0.0, "theory.skipv1.w0_d2, Theorem 6") if printed else None
    return _compared(moments, rank, heads, skips=skips, mha=mha, skipv1=skipv1, theorem=theorem, strictly=printed)


def _mha_around(
    d: int, n: int, sigma: float, centre: Array, squares: list[float], heads: int, rank: int
) -> tuple[list[_Bound], list[_Bound]]:
    lower, upper = [_Bound(w0.mha_floor(d, n, sigma, squares=squares, rank=rank), FLOOR)], _zero(d, n, sigma, squares)
    if rank == d:
        lower.append(_Bound(zero_loss(d, n, sigma) + _terms(centre, squares, n, 2 * heads), TERMS))
        if _is_multiple(centre):
            for used in {min(heads, 2), min(heads, max(2, (d + 1) // 4))}:
                try:
                    loss = w0_heads.mha_loss_around(d, n, sigma, c=centre[0, 0], heads=used)
                    upper.append(_Bound(loss, FEW, attained=True))
                except InvalidSize:
                    continue  # no family of so many matrices is known
    ordered = np.array_equal(centre, np.diag(np.sort(np.abs(centre.diagonal()))[::-1]))
    if ordered and heads >= d * rank:
        upper.append(_Bound(w0.mha_enough_heads_loss(d, n, sigma, squares=squares, rank=rank), FLOOR))
    return lower, upper


def _skipv1_around(
    d: int, n: int, sigma: float, centre: Array, squares: list[float], heads: int, skips: int, rank: int
) -> tuple[list[_Bound], list[_Bound]]:
    lower, upper = (
        [_Bound(w0.skipv1_floor(d, n, sigma, squares=squares, rank=rank), FLOOR)],
        _zero(d, n, sigma, squares),
    )
    if rank == d:
        multiple = _is_multiple(centre)
        left = zero_loss(d, n, sigma) - signal_share(d, n, sigma) * d**2
        terms = 2 * heads - skips if multiple else 2 * heads
        lower.append(_Bound(left + _terms(centre, squares, n, terms), FEW if multiple else TERMS))
        upper.append(_Bound(w0.two_heads_loss(d, n, sigma, sum(squares)), SMALL, attained=True))
        if d == 2:
            even = w0.constant_share(2, n, sigma, 0) * sum(squares)
            upper.append(_Bound(zero_loss(2, n, sigma) - 2 * signal_share(2, n, sigma) + even, AT_TWO))
    if min(skips, heads - skips) >= d * rank:
        upper.append(_Bound(w0.skipv1_enough_heads_loss(d, n, sigma, squares=squares, rank=rank), FLOOR, attained=True))
    return lower, upper


def _zero(d: int, n: int, sigma: float, squares: list[float]) -> list[_Bound]:
    return [_Bound(zero_loss(d, n, sigma) + sum(squares), ZERO, attained=True)]


def _terms(centre: Array, squares: list[float], n: int, terms: int) -> float:
    """Return the least mean square distance from W0 of a sum of `terms` products L S N."""
    if _is_multiple(centre):
        return float(centre[0, 0] ** 2 * identity_floor(len(centre), n, terms))
    return float(term_floor(squares, n, terms))


def _is_multiple(centre: Array) -> bool:
    """Return whether W0 = c I."""
    return np.array_equal(centre, centre[0, 0] * np.eye(len(centre)))


def _ranks(d: int, rank: int | None) -> list[int]:
    return list(range(d + 1)) if rank is None else [rank]


def _best(bounds: list[tuple[list[_Bound], list[_Bound]]]) -> Between:
    """Return the lowest over some ranks of the tightest lower and upper bound at each."""
    lower = min((max(of_rank[0], key=_value) for of_rank in bounds), key=_value)
    upper = min((min(of_rank[1], key=_value) for of_rank in bounds), key=_value)
    known = upper.value - lower.value <= _rounding(len(bounds), upper.value)
    reached = upper.attained if known else None
    least = upper.value if known else lower.value
    return Between(float(least), lower.by, float(upper.value), upper_by=upper.by, attained=reached)


def _value(bound: _Bound) -> float:
    return bound.value


def _rounding(d: int, size: float) -> float:
    return 8 * d * float(np.finfo(np.float64).eps) * size


def _known(loss: float, by: str, *, attained: bool | None) -> Between:
    return Between(float(loss), by, float(loss), upper_by=by, attained=attained)


def _compared(
    moments: PromptMoments,
    rank: int | None,
    heads: int,
    skips: int,
    mha: Between,
    skipv1: Between,
    theorem: tuple[float, str] | None = None,
    *,
    strictly: bool = False,
) -> LossBounds:
    """Return the bounds with their comparison.

    theorem: a lower bound on the gap itself, and its name; strictly: SkipV1Former is ahead even where that is 0.
    """
    zero = float(moments.zero_loss)
    least, most, by = mha.lower - skipv1.upper, mha.upper - skipv1.lower, ""
    if theorem is not None and theorem[0] > least:
        least, by = min(theorem[0], most), theorem[1]
    rounding = _rounding(moments.d, zero)
    ahead: Literal["mha", "skipv1", "equal"] | None = None
    if least > rounding or strictly or (by and least > 0):
        ahead = "skipv1"
    elif most < -rounding:
        ahead = "mha"
    elif max(abs(least), abs(most)) <= rounding:
        ahead = "equal"
    smallest = float(np.linalg.svd(moments.w0.astype(np.float64), compute_uv=False)[-1]) if moments.w0.any() else 0.0
    assumed = smallest > 2 * moments.d**0.5 * float(moments.sigma)
    return LossBounds(
        rank,
        heads,
        skips,
        zero_loss=zero,
        mha=mha,
        skipv1=skipv1,
        gap_least=least,
        gap_most=most,
        ahead=ahead,
        ahead_by=by,
        assumed=assumed,
    )
