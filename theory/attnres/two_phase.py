"""Depth attention in parts: each source is looked at once by several reads, and the parts are merged exactly.

Of sources i in a set A a read keeps the *part* (o_A, z_A): z_A = log sum_A exp(l_i), o_A = sum_A exp(l_i - z_A) v_i.

1. Merging.  For disjoint A and B
       z = log(exp z_A + exp z_B),    o = exp(z_A - z) o_A + exp(z_B - z) o_B
   is the part of their union.  Proof: sum_{A or B} exp(l_i - z) v_i splits into exp(z_A - z) sum_A exp(l_i - z_A) v_i
   and the same for B.                                                                                            QED
   So merging is associative and commutative, and no exponent above is positive: logits of any size do no harm.  In
   floating point one merge rounds each entry by a few eps times the largest entry of its two parts.

2. Two phases.  <w_l, RMSNorm(v_i)> needs nothing of layer l but its query, a parameter.  So the reads of all sublayers
   of a block can look at the sources from before the block together (phase 1); each then merges in what its block has
   made so far (phase 2): Full's own outputs, one by one, or Block's partial sum, one source.  By (1) that equals the
   direct softmax.  It fails for queries that depend on the input, which are not there in phase 1.

3. Half the vectors.  For the same reason a source can be merged into all reads to come and be forgotten.  With n reads,
   t + 1 sources are there when n - t reads are still to come, so whichever is fewer need be kept: never more than
   floor((n + 1) / 2) vectors, and as many numbers z.  Without knowing the weights beforehand no linear scheme can do
   with fewer (`theory.attnres.mixing`).  A backward pass needs the outputs all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from theory.errors import InvalidSize

Array = NDArray[np.float64]
Sublayer = Callable[[Array], Array]


class Part(NamedTuple):
    """The result of reads over some sources: mean o, (..., d), and log_mass z, (...)."""

    mean: Array
    log_mass: Array


def attend(queries: Array, sources: Array, eps: float = 0.0) -> Part:
    """Return the parts that reads make of some sources, by a direct softmax of <query, v / sqrt(mean v^2 + eps)>.

    queries (..., d), sources (k, d): mean (..., d), log_mass (...).  The gain of keys belongs to the query.  A source
    of zeros has the key 0.  Raises InvalidSize if the shapes do not fit or there is no source.
    """
    if sources.ndim != 2 or not len(sources) or queries.shape[-1:] != sources.shape[1:]:
        raise InvalidSize(f"queries {queries.shape} and sources {sources.shape} do not fit")
    roots = np.sqrt((sources**2).mean(axis=1, keepdims=True) + eps)
    keys = np.divide(sources, roots, out=np.zeros_like(sources), where=roots > 0)
    logits = queries @ keys.T
    top = logits.max(axis=-1, keepdims=True)
    weights = np.exp(logits - top)
    mass = weights.sum(axis=-1, keepdims=True)
    return Part(weights @ sources / mass, (top + np.log(mass))[..., 0])


def merge(one: Part, other: Part) -> Part:
    """Return the part of both sets of sources together (1)."""
    log_mass = np.logaddexp(one.log_mass, other.log_mass)
    means = (np.exp(part.log_mass - log_mass)[..., None] * part.mean for part in (one, other))
    return Part(sum(means, np.zeros_like(one.mean)), log_mass)


def reads_from_half(
    embedding: Array, sublayers: Sequence[Sublayer], queries: Array, eps: float = 0.0
) -> tuple[list[Array], int]:
    """Return all reads of Full AttnRes, the last one too, and the most vectors that were kept at a time (3).

    embedding (d,), queries (sublayers + 1, d).  Raises InvalidSize if their number is wrong.
    """
    count = len(sublayers) + 1
    if len(queries) != count:
        raise InvalidSize(f"{count - 1} sublayers and a last read need {count} queries, got {len(queries)}")
    sources, pending, reads, kept = [embedding], None, [], 0
    for t in range(count):
        if pending is None and t + 1 >= count - t:
            pending, sources = attend(queries[t:], np.stack(sources), eps), []
        kept = max(kept, len(sources) if pending is None else len(pending.mean))
        reads.append(attend(queries[t], np.stack(sources), eps).mean if pending is None else pending.mean[0])
        if t == count - 1:
            break
        output = sublayers[t](reads[-1])
        if pending is None:
            sources.append(output)
        else:
            rest = Part(pending.mean[1:], pending.log_mass[1:])
            pending = merge(rest, attend(queries[t + 1 :], output[None], eps))
    return reads, kept
