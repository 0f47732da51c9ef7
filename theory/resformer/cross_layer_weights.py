"""Explicit weights: two heads of cross-layer attention that read all but N(a) entries of W*, around one W0.

Setting of `theory.resformer.cross_layer`.  Let W0 = t diag(I_a, 0), A = (I_a 0), m = min(a, d - a), and B hold t e_i,
i <= m, and zeros.  Of S and Z write indices l for 1, ..., m, h for m + 1, ..., a and o for a + 1, ..., d; the first a
columns count.  Then
    ordinary heads     G_11 = 2 S_11,      G_{a+i} = S_{a+i} + t (Z_i + t S_i), i <= m, rows; and their transposes,
    raw heads          G_11 = (1 + t^2) S_11 + t (Z_11 + Z_11^T) + Y_11,      G_o1 = S_o1 + t Z_o1 + Y_o1.
So lambda Z can be made of them in
    rows l:            lambda (G_{a+i}/t - t S_i) = lambda (Z_i + S_{a+i}/t),
    rows o:            (lambda/t) G_o1 = lambda (Z_o + (S_o + Y_o)/t),
    rows h, columns l: (lambda/t) G_11 minus S and the transpose of rows l: lambda (Z + (Y - S_{h,a+l})/t),
    rows and columns h: (lambda/2t) G_11 minus S: lambda (symmetric part of Z + Y/2t).
What is read of Z is a projection of rank a d - N(a), N(a) = k (k - 1)/2, k = a - m: all but the antisymmetric part of
the last block.  The even part has, the mean being C's, S_ij and Y_ij uncorrelated with variances n and kappa for
i != j, and Y_ii of variance 2 kappa + 2 n d,
    E||P_even||^2 = (lambda/t)^2 [a m n + k m (kappa + n) + k ((k + 1) kappa + 2 n d)/4 + (d - a) a (n + kappa)].  QED
"""

from __future__ import annotations

from typing import Any

import numpy as np

from theory.errors import InvalidSize, check_sizes
from theory.plans.heads import ORDINARY, Head, Heads
from theory.prompts.setting import Number, identity, signal_share
from theory.resformer.cross_layer import noise_of_products
from theory.toy.population import Weights

RAW_PAIR = Head(copied=0, raw=1, key_copied=0, key_raw=1)
TWO_HEADS: Heads = (ORDINARY, RAW_PAIR, ORDINARY, RAW_PAIR)  # of Eqn. (2): two pairs of a value and a key each


def cross_layer_weights(d: int, n: int, sigma: Number, rank: int, t: Number) -> Weights:
    """Return weights of `TWO_HEADS` that explain rho (a d - N(a)), minus `cross_layer_excess`.

    They are for W0 = t diag(I_a, 0).  Exact if sigma and t are.  Raises InvalidSize.
    """
    _check(d, n, sigma, rank=rank, t=t)
    step, eye = signal_share(d, n, sigma) / n, identity(d, sigma)
    m = min(rank, d - rank)
    low, high, outside = eye[:m].T @ eye[:m], eye[m:rank].T @ eye[m:rank], eye[rank:].T @ eye[rank:]
    shift = eye[:m].T @ eye[rank : rank + m]  # row a + i to row i
    of_s = 2 * low + (1 + t * t) * high + 4 * shift.T
    unit, zero = step / t, 0 * eye
    return Weights(
        a=eye[:rank],
        b=np.concatenate([t * eye[:m], zero[m : d - rank]]),
        w=np.stack([unit * shift - step * t / 2 * low, unit / 2 * high, unit / 4 * high, unit * outside]),
        k=np.stack([eye, eye + low, -of_s, eye])[:, :, :rank],
    )


def cross_layer_excess(d: int, n: int, sigma: Number, rank: int, t: Number) -> Any:
    """Return the excess of their loss, with the best C, over d^2 + d sigma^2 - rho (a d - N(a)).

    Exact if sigma and t are.
    """
    _check(d, n, sigma, rank=rank, t=t)
    share = signal_share(d, n, sigma)
    kappa = 2 * n**2 / share * noise_of_products(d, n, sigma)
    m = min(rank, d - rank)
    k = rank - m
    quarters = k * ((k + 1) * kappa + 2 * n * d)
    entries = rank * m * n + k * m * (kappa + n) + (d - rank) * rank * (n + kappa)
    return (share / (n * t)) ** 2 * (4 * entries + quarters) / 4


def _check(d: int, n: int, sigma: Number, rank: int, t: Number) -> None:
    check_sizes(d, n, sigma, rank)
    if not t > 0:
        raise InvalidSize(f"t must be a positive number, got {t}")
