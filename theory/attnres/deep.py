"""Depth attention with fixed weights in the deep toy: it makes every polynomial of S_xx, by positive weights.

Setting.  Layers, tokens and scalar weights of `theory.toy.deep`: linear attention whose heads take queries and keys
from the x slot and values from the y slot, and write the y slot.  In place of the residual stream, read l of k + 1 is
    h_l = sum_{i <= l} M_li v_i,    v_0 the tokens (x ; y), v_{l+1} the y slot that layer l + 1 makes of h_l,
with a row of softmax weights M_l: positive, of sum one, the same for all tokens (static logits).  The last read h_k is
read out, minus its y slot, times any number.  An output v_i has nothing in its x slot, so h_l holds M_l0 x there:
queries and keys shrink with the embedding's weight.

Theorem 1.  Let b_l be the step of layer l's head.  Then v_l holds Y u_l(X^T X) in the y slots of the context, with
    u_0 = 1,   u_{l+1} = - b_{l+1} M_l0^2 s r_l,   r_l = sum_i M_li u_i,
and p = 1 + c (r_k - r_k(0)) is the residual polynomial of the answer that is read out times c: W = S_yx q(S_xx), with
p = 1 - s q.  Proof.  By induction, as theorem 1 of `theory.toy.deep`; M_l0^2 comes from queries and keys.  The query's
y slot begins at 0, so it lacks what the embedding contributes to r_k, M_k0 = r_k(0).                           QED
So with beta_{l+1} = b_{l+1} M_l0^3 and ratios a_li = M_li / M_l0, which may be any positive numbers,
    u_{l+1} = - beta_{l+1} s (1 + sum_{i >= 1} a_li u_i):
the scale of the weights is a scale of the steps.  With all logits zero, M_li = 1 / (l + 1), the network is the residual
one with steps b_l / l^3, and c = k + 1: without norms, zero queries are no PreNorm network with the same weights.

Theorem 2.  k layers reach every polynomial p of degree <= k with p(0) = 1, as ResFormer's values do, and DenseFormer's
averages at least in the limit; a residual stream reaches those with real roots only (`theory.toy.deep`, theorem 2).
One number per read is enough, the ratio a_l > 0 of all outputs alike to the embedding, so Block AttnRes reaches them
with blocks of any size, as does Full.  Nothing is lost by weights being positive or of sum one.
Proof.  Let p_l = 1 + u_1 + .. + u_l.  With one ratio, p_l = (1 - z s) p_{l-1} - z (1 / a - 1) s for z = beta_l a.
Given a p_l of degree <= l with p_l(0) = 1, and t = 1 / z, there is such a p_{l-1} of degree <= l - 1 if and only if
p_l + z (1 / a - 1) s is 0 at t, that is, 1 / a = 1 - p_l(t).  So every real t other than 0 with p_l(t) < 1 will do.
If p_l'(0) is not 0, all small t of the other sign will; and p_{l-1}'(0) = p_l'(0) - (p_l(t) - 1) / t is 0 at finitely
many t only if the degree is 2 or more, so that p_{l-1} can be treated in the same way, down to p_1 = 1 - beta_1 s.  If
p'(0) = 0 at the start, p or 2 - p, of which the latter is read out with -c, is below 1 at some small t, and then
p_{k-1}'(0) is not 0.  If p has a degree below k, the last layers stay idle: b_l = 0.                           QED
With c > 0 and one ratio a read, all but the p that are >= 1 everywhere, as 1 + s^2, are reached; these are limits.

Without a last read, where the newest output is read out, q is a multiple of r_{k-1}: any one of degree <= k - 1 with
q(0) not 0 whose q / q(0) is below 1 somewhere, or constant, by the same construction for k - 1 layers.

Theorem 3 (a window of one).  Reads of the embedding and the newest output alone reach, at k layers, every such p whose
coefficients up to its degree are not 0, and the others as limits.  Proof.  u_{l+1} = - beta s (1 + a u_l) is Horner's
scheme: with all a = 1 the inner betas are - p_{j+1} / p_j, the last is - p_1.                                  QED

What that is worth is what complex roots are (`theory.prompts.spectral`): nothing for noise up to a threshold.  At
d = 5, n = 8, sigma = 2 the best four layers lose 31.35 with depth weights and 31.69 with a residual stream, where the
noise is 20 and no layers lose 45: 2.9 % of what the residual stream loses above the noise, 1.4 % of all above it.  Two
layers gain 0.2 % of the former.  For d of 1, 3 and 5, n of 1 to 40 and 2 to 4 layers we saw 4.3 % at most.

Limits: as in `theory.toy.deep`; and weights that depend on contents are not covered.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import count, pairwise

import numpy as np

from theory.errors import BadInput, InvalidSize, at_least
from theory.prompts.setting import Number
from theory.toy import stack
from theory.toy.stack import Array

Weights = Sequence[Sequence[Number]]


@dataclass(frozen=True)
class DepthToy:
    """A stack of k layers: rows of softmax weights of reads 0 to k, read l of l + 1 outputs; steps; readout factor."""

    weights: tuple[tuple[Fraction, ...], ...]
    steps: tuple[Fraction, ...]
    readout: Fraction


def residual_polynomial(weights: Weights, steps: Sequence[Number], readout: Number) -> tuple[Fraction, ...]:
    """Return p of theorem 1, k + 1 coefficients, ascending; exact.

    weights: row l, of reads 0 to k, weighs the embedding and outputs 1 to l.  Raises InvalidSize.
    """
    _check(weights, steps)
    outputs = [[Fraction(1)]]
    for row, step in zip(weights, steps, strict=False):
        factor = -Fraction(step) * Fraction(row[0]) ** 2
        outputs.append([Fraction(0), *(factor * x for x in _sum(row, outputs))])
    return (Fraction(1), *(Fraction(readout) * x for x in _sum(weights[-1], outputs)[1:]))


def of_polynomial(residual: Sequence[Number], layers: int) -> DepthToy:
    """Return weights and steps with which `layers` layers make p: theorem 2's construction.

    The weights are positive, one ratio per read.  `residual` holds p's coefficients, ascending, p(0) = 1.  Raises
    BadInput, also if p has a larger degree.
    """
    now = _trimmed(residual, layers)
    lowest = next((j for j, x in enumerate(now[1:], 1) if x), 0)
    flip = lowest % 2 == 0 and now[lowest] > 0 and lowest > 0
    if flip:
        now = [now[0], *(-x for x in now[1:])]
    ratios, betas = [Fraction(1)] * layers, [Fraction(0)] * layers
    for layer in range(len(now) - 1, 1, -1):
        t, below = _point(now)
        ratios[layer - 1] = 1 / (1 - _value(now, t))
        betas[layer - 1] = 1 / (t * ratios[layer - 1])
        now = below
    betas[0] = -now[1] if len(now) > 1 else Fraction(0)
    rows = [_row([Fraction(1), *[a] * read]) for read, a in enumerate(ratios)]
    steps = tuple(beta / row[0] ** 3 for beta, row in zip(betas, rows, strict=True))
    last = _row([Fraction(1)] * (layers + 1))
    return DepthToy((*rows, last), steps, (-1 if flip else 1) / last[0])


def by_horner(residual: Sequence[Number], layers: int) -> DepthToy:
    """Return the same as `of_polynomial` with a window of one: theorem 3.

    Raises BadInput, also if a coefficient below the degree is 0.
    """
    now = _trimmed(residual, layers)
    if not all(now):
        raise BadInput("a window of one makes no polynomial with a coefficient of 0 below its degree")
    inner = [-after / before for before, after in pairwise(now)]
    betas = [*[Fraction(0)] * (layers - len(inner)), *inner[::-1]]
    rows = [_row([Fraction(1), *[Fraction(0)] * (read - 1), *[Fraction(1)] * (read > 0)]) for read in range(layers + 1)]
    steps = tuple(beta / row[0] ** 3 for beta, row in zip(betas, rows, strict=False))
    return DepthToy(tuple(rows), steps, 1 / rows[-1][0])


def last_read(tokens: Array, weights: Weights, steps: Sequence[float]) -> Array:
    """Return the last read of an actual stack of linear attention layers, token by token: (T, 2d) from (T, 2d).

    Raises InvalidSize.
    """
    _check(weights, steps)
    eye = np.eye(tokens.shape[1] // 2)
    outputs = [tokens]
    for row, step in zip(weights, steps, strict=False):
        read = _read(row, outputs)
        outputs.append(stack.run(read, stack.descent_layers([{1: step * eye}]))[-1] - read)
    return _read(weights[-1], outputs)


def _read(row: Sequence[Number], outputs: Sequence[Array]) -> Array:
    return np.sum([float(weight) * v for weight, v in zip(row, outputs, strict=True)], axis=0)


def _check(weights: Weights, steps: Sequence[Number]) -> None:
    at_least("layers", len(steps), 1)
    if [len(row) for row in weights] != list(range(1, len(steps) + 2)):
        raise InvalidSize(f"{len(steps)} layers have reads of 1 to {len(steps) + 1} weights")


def _sum(row: Sequence[Number], outputs: Sequence[Sequence[Fraction]]) -> list[Fraction]:
    """Return sum_i row_i u_i for polynomials u_i of growing length."""
    total = [Fraction(0)] * len(outputs[-1])
    for weight, u in zip(row, outputs, strict=True):
        for power, x in enumerate(u):
            total[power] += Fraction(weight) * x
    return total


def _trimmed(residual: Sequence[Number], layers: int) -> list[Fraction]:
    at_least("layers", layers, 1)
    now = [Fraction(x) for x in residual]
    while len(now) > 1 and not now[-1]:
        now.pop()
    if not now or now[0] != 1 or len(now) > layers + 1:
        raise BadInput(f"{layers} layers need p(0) = 1 and a degree of {layers} at most")
    return now


def _row(ratios: Sequence[Fraction]) -> tuple[Fraction, ...]:
    return tuple(x / sum(ratios) for x in ratios)


def _value(polynomial: Sequence[Fraction], t: Fraction) -> Fraction:
    total = Fraction(0)
    for x in reversed(polynomial):
        total = total * t + x
    return total


def _point(polynomial: list[Fraction]) -> tuple[Fraction, list[Fraction]]:
    """Return a t with p(t) < 1 whose p_{l-1} has a slope at 0, and that p_{l-1}."""
    lowest = next(x for x in polynomial[1:] if x)
    for power in count():
        t = (-1 if lowest > 0 else 1) * Fraction(1, 2**power)
        value = _value(polynomial, t)
        if value < 1 and (value - 1) / t != polynomial[1]:
            shifted = [polynomial[0], polynomial[1] - value / t, *polynomial[2:]]
            below = [Fraction(1)]
            for x in shifted[1:-1]:
                below.append(x + below[-1] / t)
            return t, below
    raise AssertionError  # pragma: no cover - `count` does not end
