"""Mean squares of reads at initial weights by a token's place, in wide networks that attend evenly.

Setting of `theory.attnres.initial`, but T tokens, all different.  Two more things are assumed, both true in a limit:
    even     attention gives 1 / t to each of t tokens: its logits, of deviation d std^2, are small.  Uneven weights
             add some (d std^2)^2 of a token's own share (E exp(2 s z) / (E exp(s z))^2 = exp(s^2));
    wide     products of normed tokens are what they are on average (the usual mean-field limit; not proved here).
Let K(i, j) = E <x_i, x_j> of the stream and R(i, j) = K(i, j) / sqrt(K(i, i) K(j, j)), the mean of <u_i, u_j> / d.  The
embeddings have K = d std^2 times the identity.  As in `theory.attnres.initial`, the last matrix of a sublayer is
independent of all that came before and of mean 0, so that K grows by sums:
    attention       + a A R A^T,  A(t, s) = 1 / t for s <= t,  a = E ||v||^2 of a lone token;
    feed-forward    + d f tau^2 E z_i z_j, inner numbers of two tokens whose arguments are normal, of variance q = d
                    std^2 and correlation R(i, j).  By Mehler, E phi(a) phi(b) = sum_k c_k^2 R^k, with c_k = E phi(a)
                    He_k(a / sqrt q) / sqrt(k!); gated ones have q R times that of silu.
The first token sees itself alone and has `initial_reads`, exactly.  Without a feed-forward R = 1 is a fixed point that
is approached: *tokens become alike*, so that attention's outputs shrink by less than the 1 / t of unrelated tokens.
"""

from __future__ import annotations

from math import factorial, sqrt
from typing import TYPE_CHECKING

import numpy as np

from theory.attnres.bounds import start_scale
from theory.attnres.initial import initial_outputs
from theory.attnres.typical import Kind
from theory.errors import at_least
from theory.plans.architecture import Architecture
from theory.plans.plan import Plan

if TYPE_CHECKING:
    from numpy import float64
    from numpy.typing import NDArray

    Array = NDArray[float64]

TERMS = 24  # of Mehler's series: activations here have c_k^2 below 1e-9 of the whole by then, for q up to 1
NODES = 200


def token_reads(
    config: Architecture, plan: Plan, tokens: int, std: float = 0.02, *, scale_outputs: bool = True
) -> Array:
    """Return E ||h_l||^2 of every read by place, (reads, tokens), the last read included.

    std, scale_outputs as a decoder's.  Raises BadInput as `initial_outputs` and, for a window, `start_scale`;
    InvalidSize for fewer than one token.
    """
    at_least("tokens", tokens, 1)
    lone = initial_outputs(config, plan, std, scale_outputs=scale_outputs)
    attending = np.tril(np.ones((tokens, tokens))) / np.arange(1, tokens + 1)[:, None]
    forward = config.has_feed_forward(plan)
    kinds = ["attention", "feed-forward"] if forward else ["attention"]
    inner = inner_products(config.d_model * std**2, "swiglu" if config.gated else "gelu") if forward else None
    stream = lone[0] * np.eye(tokens)
    streams = [stream.diagonal()]
    for size, kind in zip(lone[1:], kinds * config.n_layers, strict=True):
        root = np.sqrt(stream.diagonal())
        alike = stream / np.outer(root, root)
        if kind == "attention":
            shares = attending @ alike @ attending.T
        else:
            assert inner is not None
            shares = np.polynomial.polynomial.polyval(alike, inner / inner.sum())
        stream = stream + size * shares
        streams.append(stream.diagonal())
    scales = np.array([float(scale) for scale in start_scale(config, plan)])
    return np.array(streams) * scales[:, None] ** 2


def inner_products(q: float, kind: Kind) -> Array:
    """Return the coefficients of E z_i z_j, inner numbers of two tokens, by powers of their arguments' correlation."""
    from scipy.special import expit, ndtr

    nodes, weights = np.polynomial.hermite_e.hermegauss(NODES)
    a = sqrt(q) * nodes
    phi = a * (ndtr(a) if kind == "gelu" else expit(a))
    terms = [
        (weights @ (phi * np.polynomial.hermite_e.hermeval(nodes, [0] * k + [1]))) ** 2 / factorial(k)
        for k in range(TERMS)
    ]
    series = np.array(terms) / weights.sum() ** 2
    return q * np.concatenate([[0.0], series]) if kind == "swiglu" else series
