"""How large hidden states can become under a depth rule, from the weights alone, and what depth attention must keep.

Notation.  Output 0 is the embedding, output i that of sublayer i, v_1 .. v_k are the sources of a read
(`theory.plans.accounting.depth_reads`), each a sum of outputs, and h is what is read.  ||.|| is the Euclidean norm of
one token's vector and, for matrices, the spectral norm.  Norms are over d numbers, with any eps >= 0.

Norm.  RMSNorm(x) = gain * u with u = x / sqrt(mean x^2 + eps), so ||u|| <= sqrt d.  For LayerNorm without bias
u = c / sqrt(mean c^2 + eps) with c = x - mean x: the same.  Let D = diag(gain).  Biases, of a norm or of a linear map,
are not covered.

Attention.  Softmax attention over one's own values gives head h, at one token, V_h D m_h with m_h a convex combination
of the u of the tokens it sees, so ||m_h|| <= sqrt d whatever the queries and keys.  The output is sum_h O_h V_h D m_h:
    ||output|| <= sqrt d sum_h ||O_h V_h D||                       by the triangle inequality,
    ||output|| <= sqrt d ||(O_1 .. O_H)|| sqrt(sum_h ||V_h D||^2)   as one matrix times the heads side by side.

Feed-forward.  |silu(a)| = |a| / (1 + exp(-a)) <= |a|, and |gelu(a)| = |a| Phi(a) <= |a|.
Without a gate, inner number i is at most |b_i . u|, b_i being row i of B = up D, so with the columns w_i of down
    ||output|| <= sqrt d min(||down|| ||B||, sum_i ||w_i|| ||b_i||).
With a gate it is at most |(a_i . u) (b_i . u)| = |<M_i, u u^T>|, A = gate D, M_i = (a_i b_i^T + b_i a_i^T) / 2.
||u u^T||_F <= d, and |<M_i, u u^T>| <= d ||M_i|| with ||M_i|| = (||a_i|| ||b_i|| + |a_i . b_i|) / 2.  So
    ||output|| <= d min(||down|| sqrt ||Q||, sum_i ||w_i|| ||M_i||),     Q_ij = <M_i, M_j>,
    Q = (A A^T * B B^T + A B^T * B A^T) / 2 with entrywise products.
The first of the two is at most ||down|| max_i ||a_i|| ||B||, as it seems: M_i is the projection of a_i b_i^T on the
symmetric matrices, so ||Q|| <= ||A A^T * B B^T||, which Schur bounds by max_i ||a_i||^2 ||B B^T||.

Reads (`read_bounds`), where c_i bounds output i.  A source is bounded by the sum of its members' c_i.
    residual            h is one source: ||x_0|| + c_1 + c_2 + ...: linear in depth, attained by aligned outputs.
    softmax, one head   h is a convex combination: the largest source.  Full: max c_i, whatever the depth.  Block with S
                        sublayers: S max c_i; so for a fixed number of blocks linear in depth again.
    softmax, m heads    Each part of the width is a convex combination of the sources' parts: ||h||^2 is at most
                        sum over parts of max_i ||part of v_i||^2, hence at most both m max_i ||v_i||^2 and
                        sum_i ||v_i||^2.  The largest source alone is no bound.
    sigmoid             Entries of the v_i times weights in (0, 1): the sum over sources.
Nothing bounds h from below: values can cancel.  Without the norms before the sublayers the c_i do not exist.

Weight floor.  A logit is <query, gain * u>, so it lies in [-z, z], z = ||query * gain|| sqrt d.  A softmax weight over
k sources is 1 / (1 + sum over the others of exp(l_j - l_i)) >= 1 / (1 + (k - 1) exp(2 z)), with equality at eps = 0
for v_i = - query * gain and all other sources + query * gain.

Start (`start_scale`).  With all queries (static logits) zero, k sources have weights 1/k, so if they hold every output
once, h is the residual stream divided by k, or by 2 under sigmoid.  If norms have eps = 0, dividing their input changes
nothing; by induction over sublayers all outputs are those of the PreNorm network with the same weights, and so
    h = (residual stream) * scale     exactly, at every read.
Full: 1/(i + 1) after i sublayers; Block: 1/(1 + ceil(i / S)).  The models' answers are equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite, log, sqrt
from typing import TYPE_CHECKING, Any

from theory.errors import BadInput, InvalidSize, at_least
from theory.plans.accounting import depth_reads
from theory.plans.architecture import Architecture, misfits
from theory.plans.plan import Chain, DepthAttention, DepthAverage, Plan, Residual

if TYPE_CHECKING:
    from numpy import float64
    from numpy.typing import NDArray

    Array = NDArray[float64]


def attention_bound(value: Array, output: Array, gain: Array) -> float:
    """The largest norm that an attention sublayer's output can have at a token.

    value (H, w, d) and output (H, d, w), for every query head; gain (d,) of the norm before.  Softmax attention over
    the layer's own values, without biases.  Raises InvalidSize if the shapes do not fit.
    """
    import numpy as np

    value, output, gain = (_finite(x) for x in (value, output, gain))
    if value.ndim != 3 or value.shape[2:] != gain.shape or output.shape != value.transpose(0, 2, 1).shape:
        raise InvalidSize(f"attention: shapes {value.shape}, {output.shape} and {gain.shape} do not fit")
    scaled = value * gain
    apart = _norm(output @ scaled).sum()
    together = _norm(np.concatenate(list(output), axis=1)) * np.linalg.norm(_norm(scaled))
    return sqrt(gain.size) * min(float(apart), float(together))


def feed_forward_bound(gate: Array | None, up: Array, down: Array, gain: Array) -> float:
    """The largest norm that a feed-forward sublayer's output can have at a token.

    gate and up (f, d), down (d, f), gain (d,) of the norm before; SwiGLU, or without a gate (None) GELU or SiLU.  No
    biases.  Raises InvalidSize if the shapes do not fit.
    """
    import numpy as np

    up, down, gain = (_finite(x) for x in (up, down, gain))
    gate = up if (ungated := gate is None) else _finite(gate)
    if up.ndim != 2 or up.shape[1:] != gain.shape or gate.shape != up.shape or down.shape != up.T.shape:
        raise InvalidSize(f"feed-forward: shapes {gate.shape}, {up.shape}, {down.shape} and {gain.shape} do not fit")
    a, b, d = gate * gain, up * gain, gain.size
    columns, rows = np.linalg.norm(down, axis=0), np.linalg.norm(b, axis=1)
    if ungated:
        return sqrt(d) * min(float(_norm(down) * _norm(b)), float(columns @ rows))
    forms = (np.linalg.norm(a, axis=1) * rows + abs((a * b).sum(axis=1))) / 2
    cross = a @ b.T
    gram = ((a @ a.T) * (b @ b.T) + cross * cross.T) / 2
    return d * min(float(_norm(down) * np.sqrt(_norm(gram))), float(columns @ forms))


def read_bounds(config: Architecture, plan: Plan, embedding: float, outputs: Sequence[float]) -> list[float]:
    """Bounds on what every sublayer reads, and on the last read, from bounds on the embedding and on every output.

    `outputs` are in the order of sublayers, as from `attention_bound` and `feed_forward_bound`.  Raises BadInput if
    their number is wrong, one is negative, or the depth rule has learned weights without a bound (DenseFormer).
    """
    reads = _reads(config, plan)
    bounds = [float(embedding), *map(float, outputs)]
    if len(bounds) != len(reads):
        raise BadInput(f"the plan has {len(reads) - 1} sublayers, got bounds for {len(bounds) - 1}")
    if not all(isfinite(b) and b >= 0 for b in bounds):
        raise BadInput("a bound on a norm must be a finite number that is not negative")
    return [_read_bound(plan, [sum(bounds[i] for i in source) for source in sources]) for sources in reads]


def weight_floor(sources: int, query_norm: float, d: int) -> float:
    """What no softmax weight over `sources` sources of width d falls below; query_norm is ||query * gain||.

    1 / (1 + (sources - 1) exp(2 query_norm sqrt d)); attained if eps = 0.  For one head, keys normed.  Raises
    InvalidSize.
    """
    from scipy.special import expit

    at_least("sources", sources, 1)
    at_least("d", d, 1)
    if not (isfinite(query_norm) and query_norm >= 0):
        raise InvalidSize(f"query_norm must be a finite number that is not negative, got {query_norm}")
    return 1.0 if sources == 1 else float(expit(-2 * query_norm * sqrt(d) - log(sources - 1)))


def start_scale(config: Architecture, plan: Plan) -> list[float]:
    """At the start, what every read (the last one too) is of the PreNorm network's, exactly if norms have eps = 0.

    Raises BadInput where there is no such number: no norms, no residual stream, or a window that leaves outputs out.
    """
    reads = _reads(config, plan)
    if config.norm == "none":
        raise BadInput("without norms, dividing what a sublayer reads changes what it puts out")
    if isinstance(plan.depth, Chain):
        raise BadInput("a chain has no residual stream, so it does not start as a PreNorm network")
    if any(sum(map(len, sources)) != i + 1 for i, sources in enumerate(reads)):
        raise BadInput("a window leaves outputs out, so the network does not start as a PreNorm network")
    if not isinstance(plan.depth, DepthAttention):
        return [1.0] * len(reads)
    return [0.5 if plan.depth.score == "sigmoid" else 1 / len(sources) for sources in reads]


def _reads(config: Architecture, plan: Plan) -> list[list[range]]:
    for misfit in misfits(config, plan):
        raise BadInput(misfit)
    return depth_reads(config, plan)


def _read_bound(plan: Plan, sources: list[float]) -> float:
    match plan.depth:
        case Residual() | Chain() | DepthAttention(score="sigmoid"):
            return sum(sources)
        case DepthAttention(heads=heads):
            return max(sources) if heads == 1 else min(sqrt(heads) * max(sources), sqrt(sum(s * s for s in sources)))
        case DepthAverage():
            raise BadInput("learned depth averages have no bound but their own weights")


def _finite(x: Any) -> Array:
    import numpy as np

    array = np.asarray(x, dtype=np.float64)
    if not np.isfinite(array).all():
        raise BadInput("weights must be finite")
    return array


def _norm(matrices: Array) -> Any:
    """Spectral norms over the last two dimensions."""
    import numpy as np

    return np.linalg.norm(matrices, ord=2, axis=(-2, -1))
