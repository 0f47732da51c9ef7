"""Growth of reads with depth when sublayers start without a norm, under a residual stream or AttnRes.

Sublayers with ||f_i(x)|| <= a_i ||x||^p.  Softmax attention over one's own values, GELU and SiLU networks have p = 1
(`theory.attnres.bounds`, without the norm), gated ones and products of two linear maps p = 2, linear attention, whose
queries, keys and values are all read, p = 3.

Largest (`unnormed_outputs`).  `read_bounds` of the outputs so far bounds the next output, and so on.  With a_i = a and
p = 1, for M sublayers and ||v_0|| = 1 (`unnormed_law`):
    residual    (1 + a)^M
    Full        max(1, a)^M
    Block       g(S)^q g(r), M = q S + r, 0 <= r < S,   g(j) = max(1, b_j), b_0 = 0, b_j = b_{j-1} + a max(1, b_{j-1})
For a >= 1 Full's is geometric and g(S) = a (1 + a)^(S - 1): a convex combination of outputs is bounded only if
outputs are.  Full is bounded, whatever the depth, if and only if a <= 1; a residual stream only at a = 0; Block,
whose blocks are residual streams, if b_S <= 1, so S a <= 1.
    Proof for Block: no source before a block is larger than m, the largest read so far; if all that a block reads is
the larger of m and its own sum, its sum after j sublayers is m b_j, by induction, and cannot be larger.
    Attained: by the network of `theory.attnres.growth.extremal` with a_i u_out u_in^T in place of c_i / sqrt d u_out
u_in^T, in the limit of large queries.
    For p > 1 even that is slow: under Full, a = 1 and all weight on the newest output, ||v_M|| = ||v_0||^(p^M).

Zero queries, aligned (`start_growth`).  f_i = a I keeps every output along v_0.  Keys cannot tell aligned outputs from
each other, so with key norms and eps = 0 the weights are equal for *every* query.  With k_l sources, read l is the sum
of the outputs over k_l, so the sum grows by the factor 1 + a / k_l: under Full
    ||h_M|| = (1 + a) (1 + a/2) ... (1 + a/M) / (M + 1) = Gamma(M + 1 + a) / (Gamma(1 + a) (M + 1)!),
about M^(a - 1) / Gamma(1 + a), a power of the depth, against (1 + a)^M for the residual stream: at a = 1 it does not
grow.  Without norms the growth is the directions' doing: outputs that turn can be told apart, and picked.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from theory.attnres.bounds import read_bounds
from theory.attnres.coefficients import start_matrix
from theory.errors import BadInput, at_least
from theory.plans.architecture import Architecture
from theory.plans.depth import Depth
from theory.plans.plan import DepthAttention, Plan, Residual


def unnormed_outputs(
    config: Architecture, plan: Plan, embedding: float, factors: Sequence[float], power: int = 1
) -> list[float]:
    """Return bounds on the sublayers' outputs from the embedding's norm and a_1, a_2, ...; p = power.

    Raises BadInput as `read_bounds` does, also where a bound is no longer a finite number.
    """
    at_least("power", power, 1)
    outputs = [0.0] * len(factors)
    for i, factor in enumerate(factors):
        try:
            outputs[i] = factor * read_bounds(config, plan, embedding, outputs)[i] ** power
        except OverflowError:
            raise BadInput(f"the bound on output {i + 1} is larger than floating-point numbers") from None
    return outputs


def unnormed_law(depth: Depth, sublayers: int, factor: Any) -> Any:
    """Return the largest last read over the embedding's norm, for a_i = factor >= 0 and p = 1; exact if that is.

    Raises BadInput for a depth rule without a closed form.
    """
    at_least("sublayers", sublayers, 0)
    match depth:
        case Residual():
            return (1 + factor) ** sublayers
        case DepthAttention(block=block, score="softmax", heads=1, window=None):
            whole, rest = divmod(sublayers, block)
            return _of_block(block, factor) ** whole * _of_block(rest, factor)
    raise BadInput(f"no closed form of the growth under {depth}")


def start_growth(config: Architecture, plan: Plan, factor: int | Fraction) -> Fraction:
    """Return the last read over the embedding, exactly, at zero queries and f_i = factor I.  Raises BadInput."""
    *rows, last = start_matrix(config, plan)
    outputs = [Fraction(1)]
    for row in rows:
        outputs.append(factor * _read(row, outputs))
    return _read(last, outputs)


def _of_block(size: int, factor: Any) -> Any:
    total: Any = 0
    for _ in range(size):
        total = total + factor * max(1, total)
    return max(1, total)


def _read(row: Sequence[Fraction], outputs: Sequence[Fraction]) -> Fraction:
    return sum((a * v for a, v in zip(row, outputs, strict=True)), Fraction(0))
