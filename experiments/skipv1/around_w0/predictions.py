"""What theory says around W0, with few heads and with enough."""

from __future__ import annotations

import math

from experiments.skipv1.around_w0.points import ALTERED, C_HEADS, SIGMA, Point, Prior
from experiments.store.folders import Json
from theory.errors import InvalidSize
from theory.prompts import setting
from theory.skipv1 import bias as skipv1_bias
from theory.skipv1 import w0 as skipv1_w0
from theory.skipv1 import w0_heads as skipv1_w0_heads
from theory.toy import few_terms


def few_heads(prior: Prior, d: int, n: int, heads: int) -> Json:
    """What theory says at W0 = c I of `heads` heads, half of them skip heads in SkipV1Former."""
    c, skips = prior.c, heads // 2
    task, squares = (d, n, SIGMA), [c**2] * d
    rho, base = setting.signal_share(*task), setting.zero_loss(*task)
    try:
        reached: float | None = float(skipv1_w0_heads.mha_loss_around(*task, c, heads))
    except InvalidSize:  # no family of so many matrices is known
        reached = None
    return {
        "place": Point(prior, d, n, "mha", heads, d).place,
        "d": d,
        "n": n,
        "c": c,
        "heads": heads,
        "zero": base + d * c**2,
        "mha_reached": reached,
        "mha_floor": base + c**2 * float(few_terms.identity_floor(d, n, 2 * heads)),
        "mha_floor_one_less": base + c**2 * float(few_terms.identity_floor(d, n, 2 * heads - 1)),
        "skipv1_floor": base - rho * d**2 + c**2 * float(few_terms.identity_floor(d, n, 2 * heads - skips)),
        "skipv1_floor_one_less": base
        - rho * d**2
        + c**2 * float(few_terms.identity_floor(d, n, 2 * heads - skips - 1)),
        "enough_heads": float(skipv1_w0.skipv1_enough_heads_loss(*task, squares, d)),
        "skipv1_reached": float(skipv1_w0.two_heads_loss(*task, d * c**2)),
        "d2": base - 2 * rho + 2 * c**2 / (n + 1) if d == 2 else None,
    }


def enough_heads(point: Point) -> Json:
    """What theory says with enough heads."""
    import numpy as np

    squares = (np.linalg.svd(point.prior.matrix(point.d), compute_uv=False) ** 2).tolist()
    squares = [s if s > 1e-12 * squares[0] else 0.0 for s in squares]
    task = (point.d, point.n, SIGMA)
    rho = setting.signal_share(*task)
    return {
        "key": point.key,
        "place": point.place,
        "spectrum": point.prior.spectrum,
        "c": point.prior.c,
        "rank": point.rank,
        "d": point.d,
        "n": point.n,
        "zero": sum(squares) + setting.zero_loss(*task),
        "skipv1": float(skipv1_w0.skipv1_enough_heads_loss(*task, squares, point.rank)),
        "skipv1_floor": float(skipv1_w0.skipv1_floor(*task, squares, point.rank)),
        "gap": rho * point.rank**2,
        "gap_if_mha_explained_nothing": rho * point.rank * point.d * (1 + ALTERED),
    }


def biased_heads(point: Point) -> Json:
    """What theory says of two heads and a term C x, at one rank."""
    task = (point.d, point.n, SIGMA)
    return {
        "place": point.place,
        "spectrum": point.prior.spectrum,
        "rank": point.rank,
        "zero": float(setting.zero_loss(*task)),
        "one_number": float(setting.signal_share(*task)),
        "mha": float(skipv1_bias.mha_infimum(*task, point.rank)),
        "skipv1": float(skipv1_bias.skipv1_minimum(*task, point.rank)),
    }


def mixed_heads(d: int, n: int, heads: int) -> list[Json]:
    """Lemma 1's floors at a = d, W0 = 8 I, for h = 0 .. H skip heads: 2 H - h products, and no odd part at h = 0."""
    rho, base = setting.signal_share(d, n, SIGMA), setting.zero_loss(d, n, SIGMA)
    return [
        {
            "place": Point(Prior("identity", C_HEADS), d, n, "skipv1", heads, d, skips=skips).place,
            "d": d,
            "n": n,
            "skips": skips,
            "floor": base
            - (rho * d**2 if skips else 0)
            + C_HEADS**2 * float(few_terms.identity_floor(d, n, 2 * heads - skips)),
            "zero": base + d * C_HEADS**2,
        }
        for skips in range(heads + 1)
    ]


def large_prior(d: int, n: int) -> Json:
    """Theorem 4's two losses for two heads, in units of ||W0||^2 = d c^2 for large c; n = 0: in place of n, d^2."""
    losses = skipv1_w0_heads.large_prior(d, n or d**2, SIGMA)
    return {"d": d, "n": n, "mha": float(losses.mha) / d, "skipv1": float(losses.skipv1) / d}


def region(d: int, n: float) -> Json:
    """Scales c between which nothing is proved: SkipV1Former wins below the first, loses above the second."""
    whole = max(1, round(n))
    return {
        "n": whole,
        "wins_below": math.sqrt(skipv1_w0.small_power(d, whole, SIGMA) / d),
        "loses_above": skipv1_w0_heads.threshold(d, whole, SIGMA),
    }
