"""Growth of reads with depth when every sublayer starts with a norm, and networks that attain it.

Notation of `theory.attnres.bounds`; M sublayers, ||v_0|| <= c_0 and ||v_i|| <= C for the others.

Largest (`largest_read`).  By `read_bounds`, the last read is at most
    residual (PreNorm)                c_0 + M C                 linear in depth
    Full                              max(c_0, C)               whatever the depth, if M > 0
    Block, S sublayers per block      max(c_0, min(S, M) C)     whatever the depth; N blocks: ceil(M / N) C, linear
    PostNorm (norm after the sum)     max |gain| sqrt d         whatever the depth
    averages, layers of p sublayers   y_L, or y_1 if that is larger, if every sum_i |a_ni| <= A, after L > 0 layers:
                                      y_L = A^L c_0 + p C (A + A^2 + ... + A^L)
PostNorm is x_l = norm(x_{l-1} + f(x_{l-1})) and, at eps = 0, also bounded from below, by min |gain| sqrt d
(`postnorm_range`).  Averages: let b_n bound X_0, ..., X_n, so b_1 = c_0 + p C.  ||Y_n|| <= A b_n and ||X_{n+1}|| <=
||Y_n|| + p C, so b_{n+1} = max(b_n, A b_n + p C) will do; where y_n = A b_n does not grow, it stays at y_1.  Aligned
outputs attain it with all of A on the newest result, or on layer 1's.  So averages are bounded for A < 1, linear at A =
1 and geometric beyond; the mean, a_ni = 1 / (n + 1), has Y_n = (n Y_{n-1} + Y_{n-1} + p C) / (n + 1) if outputs are
aligned, so c_0 + p C (1/2 + ... + 1/(L + 1)): logarithmic.

Attained (`extremal`).  For a residual stream, Full, Block and windows with one head over depth, eps = 0 and no sigmoid,
*one* network attains every entry of `read_bounds` at once, a residual stream's exactly and a softmax's as its queries
grow.  Give every source a direction u_s of its own, in a plane (so d >= 2; on a line there are two).  Let every
sublayer write the direction of the source that its output will belong to, and be c_i / sqrt d u_out u_in^T behind its
norm, u_in being the direction of the largest of the sources that it reads: as value-output matrix of one attention
head, if all tokens are equal, or, as a limit, a feed-forward with one inner number.  Let the read's query be t u_in.
Members of a source are aligned and their norms add.  Keys are sqrt d u_s, so every other logit is less by at least
t sqrt d (1 - cos(2 pi / K)) for K directions; the largest source's weight tends to 1 (`picked_weight`), and the norm
turns what is read into sqrt d u_in.  So ||v_i|| = c_i, by induction.
    Without a norm before sublayers: `theory.attnres.unnormed`.  Several heads over depth: sqrt(heads) times a source.
    Averages: all sublayers write the embedding's direction, with rows as above.  PostNorm: f(x) = (c e u^T - 1) x, u
along x and e an axis, leaves e alone of every sum, so that the next x has the length |gain_e| sqrt d, the largest or
the least; with eps > 0 a little less.
eps > 0: every bound holds, and none is attained but where the embedding alone is the largest source, as norms then
return less than sqrt d.  At zero queries the largest source is not picked: Full and Block read (c_0 + M C) / (number
of sources) at most.

Typical (`typical_read`).  If the v_i are independent of mean 0, or uncorrelated, of norms c_0 and C, then E ||h||^2 =
sum_i A_i^2 E ||v_i||^2 with A_i what h holds of v_i.  Residual: c_0^2 + M C^2, so the square root of the depth.  At
zero queries this over the number of sources: Full C / sqrt(M + 1), which *falls*; Block with N blocks about C sqrt M /
(N + 1).  Other weights alpha over sources of m_s outputs of norm C make C sqrt(sum_s alpha_s^2 m_s) if they do not look
at contents: at most C sqrt(max m_s), one source alone, so C for Full and C sqrt S for Block, and at least
C / sqrt(sum_s 1 / m_s), by Cauchy and Schwarz, for alpha_s proportional to 1 / m_s (`typical_range`).  Outputs that
are scaled by 1 / sqrt M, as at usual initial weights, make streams of one size at every M (`theory.attnres.initial`).

No lower bound.  f = -(c_0 / sqrt d) u u^T behind a norm turns a token along u into v_1 = -v_0, and the next residual
read, or one with equal weights, is 0 (at eps = 0 then has no norm).  What holds: if no two sources have a negative
product, ||h||^2 >= sum_i alpha_i^2 ||v_i||^2 >= min_i ||v_i||^2 / k for k sources, with equality for orthogonal
sources of one norm and equal weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, cos, exp, pi, sqrt
from typing import TYPE_CHECKING, Any

from theory.attnres.bounds import read_bounds
from theory.errors import BadInput, InvalidSize, at_least
from theory.plans.accounting import depth_reads
from theory.plans.architecture import Architecture
from theory.plans.depth import Depth
from theory.plans.plan import Chain, DepthAttention, DepthAverage, Plan, Residual

if TYPE_CHECKING:
    from numpy import float64
    from numpy.typing import NDArray

    Array = NDArray[float64]


def largest_read(depth: Depth, sublayers: int, embedding: Any, output: Any) -> Any:
    """Return the closed form of `read_bounds` for the last read, where all outputs but the embedding have one bound.

    Exact if the bounds are.  Raises BadInput for a depth rule without one: several heads, a window, sigmoid, averages.
    """
    at_least("sublayers", sublayers, 0)
    match depth:
        case Residual():
            return embedding + sublayers * output
        case DepthAttention(block=block, score="softmax", heads=1, window=None):
            return max(embedding, min(block, sublayers) * output)
    raise BadInput(f"no closed form of the largest read under {depth}")


def largest_average(row: Any, layers: int, per_layer: int, embedding: Any, output: Any) -> Any:
    """Return DenseFormer's largest Y_L if the absolute weights of every layer add up to `row` at most."""
    at_least("layers", layers, 0)
    at_least("per_layer", per_layer, 1)
    newest = row**layers * embedding + per_layer * output * sum(row**n for n in range(1, layers + 1))
    return max(newest, row * (embedding + per_layer * output)) if layers else embedding


def typical_read(depth: Depth, sublayers: int, embedding: float, output: float) -> float:
    """Return the root mean square of the last read at zero queries.

    Outputs are uncorrelated and have the given root mean squares.  Raises BadInput for a chain, and for a window, which
    leaves outputs out.
    """
    at_least("sublayers", sublayers, 0)
    stream = sqrt(embedding**2 + sublayers * output**2)
    match depth:
        case Residual() | DepthAverage():
            return stream
        case DepthAttention(score="sigmoid", window=None):
            return stream / 2
        case DepthAttention(block=block, window=None):
            return stream / (1 + ceil(sublayers / block))
    raise BadInput(f"what is read under {depth} does not hold all outputs")


def typical_range(members: Sequence[int], output: float) -> tuple[float, float]:
    """Return the least and the largest root mean square of a read over softmax weights that do not look at contents.

    members: how many uncorrelated outputs, of root mean square `output`, every source holds.  Raises InvalidSize.
    """
    at_least("sources", len(members), 1)
    for count in members:
        at_least("members", count, 1)
    return output / sqrt(sum(1 / count for count in members)), output * sqrt(max(members))


def postnorm_range(gain: Array) -> tuple[float, float]:
    """Return the least and the largest norm after a norm that follows the sum, eps = 0; gain (d,)."""
    return sqrt(gain.size) * float(abs(gain).min()), sqrt(gain.size) * float(abs(gain).max())


@dataclass(frozen=True)
class Extremal:
    """A network that attains all read bounds: directions are numbered from 0, 0 being the embedding's.

    outputs   norms c_0, c_1, ..., of the embedding and of every sublayer's output
    written   the direction of every output, the embedding first
    read      the direction that every read picks, the last one too
    reads     the norm of every read, in the limit of large queries
    """

    outputs: tuple[float, ...]
    written: tuple[int, ...]
    read: tuple[int, ...]
    reads: tuple[float, ...]

    @property
    def directions(self) -> int:
        return max(self.written) + 1


def extremal(config: Architecture, plan: Plan, embedding: float, outputs: Sequence[float]) -> Extremal:
    """Return the network that attains all read bounds for outputs of these norms.

    Raises BadInput, as `read_bounds`, and for rules whose bound is not attained so.
    """
    if isinstance(plan.depth, DepthAttention) and (plan.depth.score, plan.depth.heads) != ("softmax", 1):
        raise BadInput("the construction is for one softmax over depth")
    if isinstance(plan.depth, Chain | DepthAverage):
        raise BadInput("the construction is for a residual stream or attention over depth")
    bounds, reads = read_bounds(config, plan, embedding, outputs), depth_reads(config, plan)
    sizes = [float(embedding), *map(float, outputs)]
    firsts = [next(source.start for source in sources if i in source) for i, sources in enumerate(reads)]
    number = {first: i for i, first in enumerate(dict.fromkeys(firsts))}
    largest = [max(sources, key=lambda source: sum(sizes[i] for i in source)) for sources in reads]
    return Extremal(
        outputs=tuple(sizes),
        written=tuple(number[first] for first in firsts),
        read=tuple(number[source.start] for source in largest),
        reads=tuple(bounds),
    )


def in_a_plane(directions: int, d: int) -> Array:
    """Return unit vectors, (directions, d), evenly round a circle.  Raises InvalidSize: on a line there are two."""
    import numpy as np

    at_least("directions", directions, 1)
    at_least("d", d, 1)
    if d == 1 and directions > 2:
        raise InvalidSize(f"a line has two directions, got {directions}")
    angles = 2 * pi * np.arange(directions) / directions
    vectors = np.zeros((directions, d))
    vectors[:, 0] = np.cos(angles)
    if d > 1:
        vectors[:, 1] = np.sin(angles)
    return vectors


def picked_weight(sources: int, directions: int, query: float, d: int) -> float:
    """Return the least weight of the source that a query of this length picks, in `extremal` and at eps = 0."""
    at_least("sources", sources, 1)
    at_least("directions", directions, sources)
    return 1 / (1 + (sources - 1) * exp(-query * sqrt(d) * (1 - cos(2 * pi / directions))))
