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
as that has the slopes silu'(a) c by a and silu(a) by c.  For small q chi is 1 (GELU) and 2 (SwiGLU): the degrees of z;
for q from 10^-6 to 10^4 we saw 1.07 and 2.07 at most, and never less.
And E <g, J^T g> = 0, as what writes has mean 0.

By depth.  G_{l+1} is not independent of sublayer l: later sublayers see what it wrote.  In the limit of wide networks
that makes no difference (the usual assumption of mean-field theory; not proved here), and ||x_l||^2 is s_l.  Then
    E ||G_l||^2 = E ||G_{l+1}||^2 (1 + c_l),   E ||b_l||^2 = c_l E ||G_{l+1}||^2,   c_l = chi_l (1 - 1/d) o_l / s_l,
beginning with G_M = b_M (`start_gradients`: all of them over E ||b_M||^2).

chi = 1, large d.  As s_{l+1} = s_l + o_l, c_l is s_{l+1} / s_l - 1, so with one number K for all l
    E ||G_l||^2 = K / s_l:   *PreNorm's gradient falls with depth as its stream grows*, and
    E ||b_l||^2 = E ||G_l||^2 - E ||G_{l+1}||^2 = K (1 / s_l - 1 / s_{l+1}) = K o_l / (s_l s_{l+1}).
Outputs of one size, o_l = r s_0, have s_l = s_0 (1 + r l): b_l falls as the square of the stream's norm.
Any chi, where o_l is small beside s_l: E ||G_l||^2 ~ s_l^-chi and E ||b_l||^2 ~ chi o_l s_l^-(1 + chi).  For layers of
several sublayers, what counts for G is the mean of their chi_j weighed by o_j; their b_l differ by sqrt(chi_j o_j).

Which is more even?  Full's log ||b_l|| is PreNorm's plus log(l + 1).  Of variances over reads, as Var(p + n) < Var(p)
where 2 Cov(p, n) < -Var(n), *Full's is the smaller if and only if the least-squares slope of PreNorm's log ||b_l|| by
log(l + 1) is below -1/2*.
    Powers.  Let ||x_l|| grow as (l + 1)^gamma, gamma > 0.  Then o_l goes as (l + 1)^(2 gamma - 1), and
        PreNorm's b_l  as (l + 1)^-(1/2 + gamma chi),      Full's  as (l + 1)^(1/2 - gamma chi):
    Full is more even for every gamma > 0, once there are reads enough for the power to show, and even at
    gamma chi = 1/2.  For chi = 1 that is gamma = 1/2, uncorrelated outputs of one size, large beside the embedding;
    other powers are those of outputs that shrink or grow with depth.  With chi > 1 Full's falls there too, by
    (l + 1)^-(chi - 1)/2.
    Outputs of one size.  Before l = 1 / r PreNorm's is nearly even and Full's grows as l + 1; far beyond it PreNorm's
    falls as (l + 1)^-(1 + chi)/2.  So it is their total that counts, rho = r M over M sublayers.  For many, small ones
    log ||b_l|| is -(1 + chi)/2 log(1 + rho t) up to a number, t uniform on (0, 1).  Var(log t) = 1, and by parts the
    covariance of log t and log(1 + rho t) is 1 + Li_2(-rho) / rho, so that Full is more even beyond the rho with
        (1 + chi) (1 + Li_2(-rho) / rho) = 1                                                        (`even_beyond`):
    6.49 for chi = 1, 2.69 for chi = 2.  Fewer sublayers have less: at chi = 1, 3.6 for 24, 2.8 for 12.
So in narrow networks of the usual std, whose stream hardly grows, PreNorm's is more even, in wide ones Full's.
Parameters' gradients are the same in both.

Measured over predicted, by read, root mean squares over 12 decoders of 12 layers and width 128, gated, of all matrices
with one std (results of `attnres-gradients`): 0.99 to 1.05 at std 0.003, 0.01 and 0.03; 1.02 to 1.11 at 0.09, most at
the first reads: the limit is one.  At width 32, d_ff = 85, of 24 decoders, up to 1.10 at 0.003 and 1.49 at 0.18.
"""

from __future__ import annotations

from itertools import accumulate
from math import exp, pi, sqrt
from typing import TYPE_CHECKING, Any

from theory.attnres.bounds import start_scale
from theory.attnres.initial import initial_outputs
from theory.attnres.typical import Kind, inner_square, normal_mean
from theory.errors import BadInput, InvalidSize
from theory.plans.architecture import Architecture
from theory.plans.plan import Plan

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def slope(q: float, kind: Kind) -> float:
    """Return chi for a feed-forward whose gate and up, or input, are N(0, q).  Raises InvalidSize unless q > 0."""
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


def sent_back(outputs: Sequence[Any], slopes: Sequence[Any]) -> list[Any]:
    """Return E ||b_l||^2 of every PreNorm read, over the last one, in the limit of wide networks; exact for Fractions.

    outputs  E ||v_i||^2, of the embedding and every sublayer's output
    slopes   chi_l (1 - 1/d) of every sublayer, chi_l for large d

    Raises BadInput for another number of slopes.
    """
    if len(slopes) != len(outputs) - 1:
        raise BadInput(f"{len(outputs) - 1} sublayers need as many slopes, got {len(slopes)}")
    through, found = 1, [1]
    steps = zip(slopes, outputs[1:], accumulate(outputs[:-1]), strict=True)
    for chi, output, stream in reversed(list(steps)):
        found.append(chi * output / stream * through)
        through += found[-1]
    return found[::-1]


def even_beyond(chi: float = 1.0) -> float:
    """Return the size of all outputs beyond which reads' gradients are more even under Full than under PreNorm.

    The size is E ||v||^2 of the outputs together, over that of the embedding; there are many sublayers, all of one size
    and slope chi.  Raises InvalidSize unless chi > 0.
    """
    from scipy.optimize import brentq
    from scipy.special import spence

    if not chi > 0:
        raise InvalidSize(f"chi must be positive, got {chi}")

    def left(rho: float) -> float:
        return float((1 + chi) * (1 + spence(1 + rho) / rho)) - 1  # spence(1 + rho) is Li_2(-rho)

    most = 1.0
    while left(most) < 0:
        most *= 2
    return float(brentq(left, 1e-9, most))


def start_gradients(config: Architecture, plan: Plan, std: float = 0.02, *, scale_outputs: bool = True) -> list[float]:
    """Return E ||b_l||^2 of every read, over PreNorm's last one, in the limit of wide networks.

    std, scale_outputs as a decoder takes them; zero queries.  Raises BadInput as `initial_outputs` and `start_scale`.
    """
    outputs = initial_outputs(config, plan, std, scale_outputs=scale_outputs)
    chi = [1.0]
    if config.has_feed_forward(plan):
        chi.append(slope(config.d_model * std**2, "swiglu" if config.gated else "gelu"))
    found = sent_back(outputs, [(1 - 1 / config.d_model) * x for x in chi * config.n_layers])
    return [b / scale**2 for b, scale in zip(found, start_scale(config, plan), strict=True)]
