"""The share of one sublayer's output in a read, under PreNorm and under depth attention.

A read h = sum_i A_i v_i holds output i with the coefficient A_i.  Three shares, and they are not the same:
    coefficient   A_i / sum_j A_j, for A >= 0: what the rule gives, whatever the outputs are;
    projection    A_i <v_i, h> / ||h||^2: adds up to 1 always, may be negative;
    norm          A_i ||v_i|| / ||h||: adds up to 1 only for aligned outputs, and is at least 1 / k for equal ones.
Scaling h changes none of them.  So at zero queries, where h is PreNorm's divided by a count
(`theory.attnres.bounds.start_scale`), every share is PreNorm's: depth attention starts as diluted.

PreNorm's law.  With l + 1 outputs of one norm, orthogonal (or uncorrelated, in mean squares) or aligned, the
coefficient and the projection share of each is 1 / (l + 1).  Its norm share is 1 / (l + 1) if they are aligned but
1 / sqrt(l + 1) if orthogonal, so "1 / l" is no law of norms.  Of outputs that cancel no share is bounded.
    Proof.  <v_i, h> = v^2 for orthogonal outputs, ||h||^2 = (l + 1) v^2; (l + 1) v^2 and (l + 1)^2 v^2 if aligned. QED
In a PostNorm stream a later sublayer's norm divides all that was there before: an output of r times the stream's norm
and orthogonal to it leaves the stream a share 1 / (1 + r^2) of the square, so the embedding's is (1 + r^2)^-l:
dilution there is geometric (`postnorm_share`).

What a softmax can give (`share_range`).  k sources of m_1, ..., m_k outputs each, logits in [-z, z] with z =
||query * gain|| sqrt d.  An output in source b has the coefficient share
    e^{l_b} / sum_j m_j e^{l_j} = 1 / (m_b + sum_{j != b} m_j e^{l_j - l_b}),
so, every difference of logits being in [-2z, 2z] and both ends attained at eps = 0 by keys along and against the query,
    1 / (m_b + (m - m_b) e^{2z})  <=  share  <=  1 / (m_b + (m - m_b) e^{-2z}),      m = m_1 + ... + m_k.
    z = 0, or one source (PreNorm)  1 / m: PreNorm's law.
    Full, m_b = 1                   the weight itself.  The floor is `weight_floor`; the ceiling is below 1, and below
                                    1 - (k - 1) floor, which floors alone would allow, from three sources on (z > 0).
    Block                           at most 1 / m_b, whatever the query: members of a block dilute each other as in a
                                    residual stream, 1 / S each in a finished one.  With N blocks at M sublayers S =
                                    M / N: 1 / M again.  The embedding and the first output of a block just begun have
                                    m_b = 1: a query can give them nearly all, as in Full.
So with queries of bounded length Full dilutes as well, like e^{2z} / k.  Solved for z: a share s takes
z >= |log((1 / s - m_b) / (m - m_b))| / 2 (`query_for_share`), and to leave a source of one output the weight p among k,
z >= log((k - 1) p / (1 - p)) / 2 (`query_for_weight`): a length that grows as the logarithm of the depth.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, isfinite, log, sqrt
from typing import TYPE_CHECKING, Any

from theory.errors import BadInput, InvalidSize, at_least

if TYPE_CHECKING:
    from numpy import float64
    from numpy.typing import NDArray

    Array = NDArray[float64]

ROUNDING = 1e-15  # of a share in float64


def projection_shares(coefficients: Sequence[float], outputs: Array) -> Array:
    """Return A_i <v_i, h> / ||h||^2 of every output.

    Shapes: outputs (k, d), coefficients k numbers.  Raises BadInput if h = 0.
    """
    parts, h = _parts(coefficients, outputs)
    return parts @ h / (h @ h)


def norm_shares(coefficients: Sequence[float], outputs: Array) -> Array:
    """Return |A_i| ||v_i|| / ||h|| of every output; shapes and errors as for `projection_shares`."""
    import numpy as np

    parts, h = _parts(coefficients, outputs)
    return np.linalg.norm(parts, axis=1) / np.linalg.norm(h)


def share_range(members: Sequence[int], source: int, query_norm: float, d: int) -> tuple[float, float]:
    """Return the range of the coefficient share of one output in source `source` (from 0); both ends are attained.

    members: outputs in every source; query_norm is ||query * gain||.  One softmax, keys normed.  Raises InvalidSize.
    """
    at_least("d", d, 1)
    for count in members:
        at_least("members", count, 1)
    if not 0 <= source < len(members):
        raise InvalidSize(f"there are {len(members)} sources, got number {source}")
    if not (isfinite(query_norm) and query_norm >= 0):
        raise InvalidSize(f"query_norm must be a finite number that is not negative, got {query_norm}")
    own, others = members[source], sum(members) - members[source]
    apart = exp(-2 * query_norm * sqrt(d))
    return (apart / (own * apart + others) if others else 1 / own), 1 / (own + others * apart)


def query_for_share(share: float, members: int, outputs: int, d: int) -> float:
    """Return the least ||query * gain|| with which an output in a source of `members` of `outputs` has this share.

    The inverse of `share_range`; 0 for one source.  A share that rounding has brought to its supremum, 1 / members,
    counts as the next below.  Raises InvalidSize.
    """
    at_least("members", members, 1)
    at_least("outputs", outputs, members)
    at_least("d", d, 1)
    if not share > 0:
        raise InvalidSize(f"share must be positive, got {share}")
    if members == outputs:
        return 0.0
    return abs(log(max(1 / share - members, ROUNDING) / (outputs - members))) / (2 * sqrt(d))


def query_for_weight(sources: int, weight: float, d: int) -> float:
    """Return the least ||query * gain|| with which one of `sources` sources has this weight.

    0 up to the equal share.  Raises InvalidSize unless 0 < weight < 1.
    """
    at_least("sources", sources, 1)
    at_least("d", d, 1)
    if not 0 < weight < 1:
        raise InvalidSize(f"weight must lie in (0, 1), got {weight}")
    return query_for_share(weight, 1, sources, d) if weight * sources > 1 else 0.0


def postnorm_share(ratio: Any, sublayers: int) -> Any:
    """Return the embedding's share of the stream's square after `sublayers` sublayers with a norm after the sum.

    ratio: every output's norm over the stream's, orthogonal to it.  Exact if the ratio is.
    """
    at_least("sublayers", sublayers, 0)
    return 1 / (1 + ratio**2) ** sublayers


def _parts(coefficients: Sequence[float], outputs: Array) -> tuple[Array, Array]:
    import numpy as np

    if len(coefficients) != len(outputs):
        raise BadInput(f"{len(outputs)} outputs need as many coefficients, got {len(coefficients)}")
    parts = np.asarray(coefficients, dtype=np.float64)[:, None] * outputs
    h = parts.sum(0)
    if not h.any():
        raise BadInput("nothing is read: there are no shares of zero")
    return parts, h
