"""Mean squares of a sublayer's output with random weights and a normed input, exact at any width.

Weights are independent and normal with mean 0: deviation `std` in value, gate and up, `written` in output and down,
which write to the residual stream (`icl.models.initial`: written = std / sqrt(2 layers), or std).  The input is
u with ||u||^2 = d, as behind an RMSNorm with eps = 0 and gain 1, and does not depend on the weights.

Feed-forward.  Given u, the inner numbers a_i = a_i . u and b_i . u are independent N(0, q), q = d std^2, whatever u.
Given the inner vector z in R^f, the output K z is N(0, written^2 ||z||^2) in each of d entries, independently.  So
    E ||output||^2 = d f written^2 E z^2,     E ||output||^4 = d (d + 2) written^4 (f E z^4 + f (f - 1) (E z^2)^2),
    E z^2 = E silu(a)^2 q  (SwiGLU),  E gelu(a)^2  or  E silu(a)^2,     a ~ N(0, q),
and E z^4 alike, with E b^4 = 3 q^2.  With Phi and phi the normal distribution's function and density, by E a h(a) =
q E h'(a) used twice, and E Phi(a)^2 = 1/4 + arcsin(q / (1 + q)) / (2 pi) (two standard normal numbers of correlation
q / (1 + q) are both below 0), E phi(a)^2 = 1 / (2 pi sqrt(1 + 2 q)), E a phi Phi = q / (1 + q) E phi^2:
    E gelu(a)^2 = q (1/4 + arcsin(q / (1 + q)) / (2 pi)) + q^2 / (pi (1 + q) sqrt(1 + 2 q)).
silu has no such form; it is integrated.  For small q all of them are q / 4, as both are a/2 + O(a^2).

Attention.  Head h sees m_h = sum_j p_hj u_j at a token.  V_h m_h is N(0, std^2 ||m_h||^2) in each of w entries, and
outputs of heads are uncorrelated, as their O_h are independent:
    E ||output||^2 = d w (written std)^2 sum_h ||m_h||^2.
If what the token sees does not depend on V and O, it is that for grouped values, too.  u_j that are orthogonal, or
independent and of mean 0, have E ||m_h||^2 = d sum_j p_hj^2: d / t for even attention over t tokens, d for one token.

Sums.  Sublayers' outputs are uncorrelated, as a later output or down matrix is independent of all that came before it
and has mean 0, so in a PreNorm network at its start
    E ||residual stream||^2 = ||x_0||^2 + sum of the sublayers' E ||output||^2,
exactly, the inputs being normed; with depth it grows as its root.  Full AttnRes at its start reads that over the count.
"""

from __future__ import annotations

from math import asin, isfinite, pi, sqrt
from typing import TYPE_CHECKING, Literal

from theory.errors import InvalidSize, at_least

if TYPE_CHECKING:
    from collections.abc import Callable

Kind = Literal["swiglu", "gelu", "silu"]


def attention_square(d: int, heads: int, width: int, std: float, written: float, share: float) -> float:
    """Return E ||output||^2 of an attention sublayer at a token.

    share: mean over heads of sum_j p_hj^2, p_hj what head h gives to token j, for tokens whose normed vectors are
    orthogonal, or independent and of mean 0: 1/t for even attention over t tokens, 1 for one token, whatever it is.
    Raises InvalidSize.
    """
    for name, size in (("d", d), ("heads", heads), ("width", width)):
        at_least(name, size, 1)
    _deviations(std, written)
    if not 0 <= share <= 1:
        raise InvalidSize(f"share must lie in [0, 1], got {share}")
    return d * width * (written * std) ** 2 * heads * d * share


def feed_forward_square(d: int, d_ff: int, std: float, written: float, kind: Kind = "swiglu") -> float:
    """Return E ||output||^2 of a feed-forward sublayer of d_ff inner numbers at a token.  Raises InvalidSize."""
    at_least("d", d, 1)
    at_least("d_ff", d_ff, 1)
    _deviations(std, written)
    return d * d_ff * written**2 * inner_square(d * std**2, kind)


def feed_forward_spread(d: int, d_ff: int, kind: Kind = "swiglu", *, std: float) -> float:
    """Return the standard deviation of ||output||^2 over its mean, whatever writes it.  Raises InvalidSize."""
    at_least("d", d, 1)
    at_least("d_ff", d_ff, 1)
    _deviations(std, 1.0)
    q = d * std**2
    tail = _inner_moment(q, kind, 4) / inner_square(q, kind) ** 2
    return sqrt((1 + 2 / d) * (1 + (tail - 1) / d_ff) - 1)


def inner_square(q: float, kind: Kind) -> float:
    """Return E z^2 of an inner number whose gate and up, or input, are N(0, q).  Raises InvalidSize unless q > 0."""
    if not (isfinite(q) and q > 0):
        raise InvalidSize(f"q must be positive, got {q}")
    if kind == "gelu":
        return q * (0.25 + asin(q / (1 + q)) / (2 * pi)) + q**2 / (pi * (1 + q) * sqrt(1 + 2 * q))
    return _inner_moment(q, kind, 2)


def _inner_moment(q: float, kind: Kind, power: int) -> float:
    """Return E |z|^power for power 2 or 4, by quadrature."""
    from scipy.special import expit, ndtr

    gate: Callable[[float], float] = ndtr if kind == "gelu" else expit
    moment = normal_mean(lambda x: (x * gate(sqrt(q) * x)) ** power) * q ** (power / 2)
    return moment * ({2: 1, 4: 3}[power] * q ** (power / 2) if kind == "swiglu" else 1)


def normal_mean(of: Callable[[float], float]) -> float:
    """Return E of(x) for x ~ N(0, 1)."""
    from math import exp

    from scipy.integrate import quad

    ends = ((-40, -1), (-1, 0), (0, 1), (1, 40))  # a gate that changes within a small part of [-40, 0] is else not seen
    parts = (quad(lambda x: of(x) * exp(-(x**2) / 2), *pair, limit=200)[0] for pair in ends)
    return float(sum(parts)) / sqrt(2 * pi)


def _deviations(std: float, written: float) -> None:
    if not (isfinite(std) and std > 0 and isfinite(written) and written > 0):
        raise InvalidSize(f"deviations must be positive, got {std} and {written}")
