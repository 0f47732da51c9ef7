"""Gradients by depth at random initial weights, in wide networks: PreNorm's, and depth attention's at zero queries.

Setting of `theory.attnres.initial`: one token alone, eps = 0, M sublayers; x_l is PreNorm's stream after l of them,
v_{l+1} = f_l(u_l) what sublayer l adds, u_l = sqrt d x_l / ||x_l||; s_l = E ||x_l||^2 and o_l = E ||v_{l+1}||^2 have
closed forms.  G_l is the loss's gradient with respect to x_l, through everything, b_l that through sublayer l alone:
    G_l = G_{l+1} + b_l,   b_l = J_l^T G_{l+1},   J_l = Df_l(u_l) sqrt d / ||x_l|| (I - u_l u_l^T / d);
the head's norm makes b_M such a product too.

One sublayer.  For a fixed g and normal weights that are independent of it and of x,
    E ||J^T g||^2 = chi (1 - 1/d) E ||f(u)||^2 / ||x||^2  ||g||^2                                         (`slope`)
exactly, at any width.  Attention of a lone token is linear, O V u: E ||(O V)^T g||^2 is E ||O V u||^2 ||g||^2 / d, and
the projection leaves d - 1 of d directions: chi = 1.  A feed-forward with inner numbers z = phi(a . u): the rows' parts
across u are independent of a . u ~ N(0, q), q = d std^2, so that
    chi = q E phi'(a)^2 / E phi(a)^2,    and    chi = 1 + q E silu'(a)^2 / E silu(a)^2    for silu(a . u) (c . u),
as that has the slopes silu'(a) c by a and silu(a) by c.  For small q chi is 1 (GELU) and 2 (SwiGLU): the degrees of z.
And E <g, J^T g> = 0, as what writes has mean 0.

By depth.  G_{l+1} is not independent of sublayer l: later sublayers see what it wrote.  In the limit of wide networks
that makes no difference (the usual assumption of mean-field theory; not proved here), and ||x_l||^2 is s_l.  Then
    E ||G_l||^2 = E ||G_{l+1}||^2 (1 + c_l),   E ||b_l||^2 = c_l E ||G_{l+1}||^2,   c_l = chi_l (1 - 1/d) o_l / s_l,
beginning with G_M = b_M (`start_gradients`: all of them over E ||b_M||^2).  As s_{l+1} = s_l + o_l, for chi = 1 and
large d
    E ||G_l||^2 s_l is the same at all l:   *PreNorm's gradient falls with depth as its stream grows*,
and of sublayers with outputs of one size, b_l falls as the square of the stream.  With ||x_l|| growing as
(l + 1)^gamma,
    PreNorm's b_l  falls as (l + 1)^(-2 gamma);      Full's is l + 1 times that: (l + 1)^(1 - 2 gamma).
So at the start what Full's sublayers send back to their reads is *even* where outputs are large beside the embedding
and uncorrelated, gamma = 1/2, while PreNorm's falls as 1 / (l + 1); it is the more even of the two for gamma > 1/4.  In
narrow networks of the usual std, whose stream hardly grows, PreNorm's is.  Parameters' gradients are the same in both.

Measured over predicted, by read, root mean squares of 24 decoders of 12 layers: 1.01 to 1.08 at width 128, 1.06 to 1.45
at width 32, most at the first reads: the limit is one.
"""

from __future__ import annotations

from itertools import accumulate
from math import exp, pi, sqrt
from typing import TYPE_CHECKING

from theory.attnres.bounds import start_scale
from theory.attnres.initial import initial_outputs
from theory.attnres.typical import Kind, inner_square, normal_mean
from theory.errors import InvalidSize
from theory.plans.architecture import Architecture
from theory.plans.plan import Plan

if TYPE_CHECKING:
    from collections.abc import Callable


def slope(q: float, kind: Kind) -> float:
    """chi of a feed-forward whose gate and up, or input, are N(0, q).  Raises InvalidSize unless q > 0."""
    from scipy.special import expit, ndtr

    if not q > 0:
        raise InvalidSize(f"q must be positive, got {q}")
    root = sqrt(q)
    slopes: dict[str, Callable[[float], float]] = {
        "gelu": lambda a: ndtr(a) + a * exp(-(a**2) / 2) / sqrt(2 * pi),
        "silu": lambda a: expit(a) * (1 + a * expit(-a)),
    }
    if kind == "swiglu":
        return 1 + q * normal_mean(lambda x: slopes["silu"](root * x) ** 2) / inner_square(q, "silu")
    return q * normal_mean(lambda x: slopes[kind](root * x) ** 2) / inner_square(q, kind)


def start_gradients(config: Architecture, plan: Plan, std: float = 0.02, *, scale_outputs: bool = True) -> list[float]:
    """E ||b_l||^2 of every read, over PreNorm's last one, in the limit of wide networks.

    std, scale_outputs as a decoder takes them; zero queries.  Raises BadInput as `initial_outputs` and `start_scale`.
    """
    outputs = initial_outputs(config, plan, std, scale_outputs=scale_outputs)
    d, streams = config.d_model, list(accumulate(outputs))
    per_layer = config.sublayers(plan) // config.n_layers
    chi = [1.0]
    if per_layer > 1:
        chi.append(slope(d * std**2, "swiglu" if config.gated else "gelu"))
    through, found = 1.0, [1.0]
    for i in reversed(range(len(outputs) - 1)):
        found.append(chi[i % per_layer] * (1 - 1 / d) * outputs[i + 1] / streams[i] * through)
        through += found[-1]
    return [b / scale**2 for b, scale in zip(reversed(found), start_scale(config, plan), strict=True)]
