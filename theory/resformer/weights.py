"""Explicit weights of ResFormer's toy: one head attains the bound of `theory.toy.value_maps`."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np

from theory.errors import check_sizes
from theory.plans.heads import Head, Heads
from theory.prompts.setting import Number, identity, signal_share
from theory.toy.population import Weights

ONE_HEAD: Heads = (Head(copied=1, raw=0, key="k"), Head(copied=0, raw=1, key="k"))


def cancelling_share(kept: bool) -> Fraction:
    """Return a diagonal entry of (I + Pi)^{-1}: 1/2 on a coordinate that A keeps, 1 on the others."""
    return Fraction(1, 1 + kept)


def one_head_weights(
    d: int, n: int, sigma: Number, rank: int, copied: Callable[[bool], Number] = cancelling_share
) -> Weights:
    """Return weights of `ONE_HEAD` whose loss is exactly d^2 + d sigma^2 - rho rank d, SkipV1Former's minimum.

    ResFormer's Eqn. (7) mixes layer 2's values with layer 1's.  Each layer has a value projection of its own, so one
    head has two readouts, W_1 for copied values and W_2 for raw ones, and one K.  Setting of `theory.skipv1.gap`, W0 =
    0. Let A = (I_a 0), B = 0 and K = (I_a ; 0), so that K A = Pi = diag(I_a, 0) and u_t = Pi x_t.  Then
        raw values       read  S_xx Pi + sum y_t u_t^T Pi = S_xx Pi + S_yx Pi,
        copied values    read  S_xx Pi + sum u_t u_t^T Pi = (I + Pi) S_xx Pi.
    W_2 = lambda I and W_1 = -lambda (I + Pi)^{-1} give P = lambda S_yx Pi: the even part cancels, and lambda Pi is what
    a map of rank a d does best (`theory.skipv1.gap`, (3)).

    copied    W_1's entry on coordinate i, in units of -lambda, from whether A keeps that coordinate, i <= a

    Exact if sigma is a Fraction.  Raises InvalidSize.
    """
    check_sizes(d, n, sigma, rank)
    step, eye = signal_share(d, n, sigma) / n, identity(d, sigma)
    shares = np.array([copied(i < rank) for i in range(d)], eye.dtype)
    return Weights(
        a=eye[:rank],
        b=0 * eye[rank:],
        w=np.stack([-step * eye * shares, step * eye]),
        k=eye[None, :, :rank],
    )
