"""Bounds on hidden states under a depth rule, from the weights alone, and the weights that depth attention must keep.

Notation.  Output 0 is the embedding, output i that of sublayer i, v_1 .. v_k are the sources of a read
(`theory.plans.accounting.depth_reads`), each a sum of outputs, and h is what is read.  ||.|| is the Euclidean norm of
one token's vector.  RMSNorm(x) = gain * x / sqrt(mean x^2 + eps) is over d numbers, with any eps >= 0.

Reads (`read_bounds`), where c_i, from `theory.attnres.sublayers`, bounds output i.  A source is bounded by the sum of
its members' c_i.
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

from theory.errors import BadInput, InvalidSize, at_least
from theory.plans.accounting import depth_reads
from theory.plans.architecture import Architecture, misfits
from theory.plans.plan import Chain, DepthAttention, DepthAverage, Plan, Residual


def read_bounds(config: Architecture, plan: Plan, embedding: float, outputs: Sequence[float]) -> list[float]:
    """Return bounds on what every sublayer reads, and on the last read, from bounds on the embedding and every output.

    `outputs` are in the order of sublayers, as from `theory.attnres.sublayers`.  Raises BadInput if their
    number is wrong, one is negative, or the depth rule has learned weights without a bound (DenseFormer).
    """
    reads = _reads(config, plan)
    bounds = [float(embedding), *map(float, outputs)]
    if len(bounds) != len(reads):
        raise BadInput(f"the plan has {len(reads) - 1} sublayers, got bounds for {len(bounds) - 1}")
    if not all(isfinite(b) and b >= 0 for b in bounds):
        raise BadInput("a bound on a norm must be a finite number that is not negative")
    return [_read_bound(plan, [sum(bounds[i] for i in source) for source in sources]) for sources in reads]


def weight_floor(sources: int, query_norm: float, d: int) -> float:
    """Return the floor of a softmax weight over `sources` sources of width d, where query_norm is ||query * gain||.

    It is 1 / (1 + (sources - 1) exp(2 query_norm sqrt d)), attained if eps = 0.  For one head, keys normed.  Raises
    InvalidSize.
    """
    from scipy.special import expit

    at_least("sources", sources, 1)
    at_least("d", d, 1)
    if not (isfinite(query_norm) and query_norm >= 0):
        raise InvalidSize(f"query_norm must be a finite number that is not negative, got {query_norm}")
    return 1.0 if sources == 1 else float(expit(-2 * query_norm * sqrt(d) - log(sources - 1)))


def start_scale(config: Architecture, plan: Plan) -> list[float]:
    """Return, for every read at the start, its factor to the PreNorm network's read, exactly if norms have eps = 0.

    The last read is included.  Raises BadInput where there is no such number: no norm before the sublayers or the head,
    no residual stream, or a window that leaves outputs out.
    """
    reads = _reads(config, plan)
    if "none" in (config.sublayer_norm, config.head_norm):
        raise BadInput("without norms, dividing what a sublayer or the head reads changes what it puts out")
    if isinstance(plan.depth, Chain):
        raise BadInput("a chain has no residual stream, so it does not start as a PreNorm network")
    if any(sum(map(len, sources)) != i + 1 for i, sources in enumerate(reads)):
        raise BadInput("a window leaves outputs out, so the network does not start as a PreNorm network")
    if not isinstance(plan.depth, Residual | DepthAverage | DepthAttention):
        raise BadInput(f"how a network starts under {plan.depth.words()} is not worked out")
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
    raise BadInput(f"the bound of a read under {plan.depth.words()} is not worked out")
