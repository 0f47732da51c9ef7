"""Claims on what share of a read one layer's output has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from math import exp, log, sqrt
from typing import TYPE_CHECKING

import numpy as np

from experiments.attnres.claims.gradients import ANY_NETWORK, CONFIG, measured
from experiments.attnres.claims.growth import CLOSE
from experiments.ledger.claim import Claim
from theory.attnres import dilution
from theory.attnres.bounds import weight_floor
from theory.attnres.coefficients import start_matrix
from theory.attnres.dilution import norm_shares, postnorm_share, projection_shares, query_for_weight, share_range
from theory.attnres.paper import PAPER
from theory.plans.accounting import depth_reads
from theory.plans.names import resolve

if TYPE_CHECKING:
    from icl.probes.gradients import Gradients
    from theory.attnres.dilution import Array

DILUTION = Claim(
    "attnres.dilution",
    PAPER.name,
    place="summary: uniform aggregation dilutes each layer's contribution",
    statement="In PreNorm's stream of l + 1 equal outputs, orthogonal or aligned, the projection of each on it is "
    "1 / (l + 1) of it.  Under depth attention the coefficient share of an output lies between 1 / (m_b + (m - m_b) "
    "exp(2 z)) and 1 / (m_b + (m - m_b) exp(-2 z)), m_b of m outputs being in its source and z = ||query * gain|| "
    "sqrt d; both are attained.",
    assumes="one softmax over depth with normed keys, eps = 0",
    verdict="corrected",
    correction="As norms, orthogonal outputs have 1 / sqrt(l + 1), and of outputs that cancel no share is bounded.  At "
    "zero queries every share is PreNorm's, and queries of bounded length dilute like 1 / l too; a weight that stays "
    "takes a length that grows as log l.  In Block no query gives an output of a finished block more than 1 / m_b, "
    "the embedding apart, so with a fixed number of blocks these dilute as 1 / l; the embedding, and the first output "
    "of a block until there is a second one, can have nearly all.  A norm after the sum dilutes geometrically.",
    proof=dilution,
    unjudged=ANY_NETWORK,
)
SOURCES = ([1, 1], [1, 1, 1, 1], [1, 3, 3, 2], [1, 3, 3, 1], [5])


@DILUTION.check(
    "orthogonal and aligned outputs of one norm: projections and norms",
    states=(1.0, 0.5),
    control=(1.0, 1.0),
    wrong="orthogonal outputs' norms have 1 / (l + 1), too",
)
@DILUTION.check(
    "orthogonal and aligned outputs of one norm: projections and norms",
    states=(1.0, 0.5),
    control=(0.5, 0.5),
    wrong="projections have 1 / sqrt(l + 1), too",
)
def equal_outputs(exponents: tuple[float, float]) -> bool:
    """Shares as powers of 1 / (l + 1): of projections in both cases, of norms where outputs are orthogonal."""
    for k in (2, 5, 9):
        orthogonal, aligned, ones = 3 * np.eye(k), np.tile(np.eye(k)[0], (k, 1)), [1.0] * k
        projections = [*projection_shares(ones, orthogonal), *projection_shares(ones, aligned)]
        norms = norm_shares(ones, orthogonal)
        if not np.allclose(projections, k ** -exponents[0]) or not np.allclose(norms, k ** -exponents[1]):
            return False
        if not np.allclose(norm_shares(ones, aligned), 1 / k):
            return False
    return True


def _of_floors(counts: list[int], source: int, query: float, d: int) -> tuple[float, float]:
    floor = weight_floor(len(counts), query, d)
    return floor / counts[source], (1 - (len(counts) - 1) * floor) / counts[source]


def _of_weights(counts: list[int], source: int, query: float, d: int) -> tuple[float, float]:
    """Of a block's outputs together."""
    others, z = sum(counts) - counts[source], query * sqrt(d)
    return 1 / (1 + others * exp(2 * z)), 1 / (1 + others * exp(-2 * z))


@DILUTION.check(
    "softmaxes over normed sources, at random and with all keys along the query or against it",
    states=share_range,
    control=_of_floors,
    wrong="what is left when all other weights are at their floors",
)
@DILUTION.check(
    "softmaxes over normed sources, at random and with all keys along the query or against it",
    states=share_range,
    control=_of_weights,
    wrong="members of a block do not share its weight",
)
def shares_range(range_of: Callable[[list[int], int, float, int], tuple[float, float]]) -> bool:
    """No share leaves the range, and both ends are attained."""
    from scipy.special import softmax

    rng, d = np.random.default_rng(0), 3
    for counts in SOURCES:
        for source in range(len(counts)):
            for length in (0.0, 0.2, 1.0):
                query = rng.standard_normal(d)
                query *= length / np.linalg.norm(query)
                own = np.arange(len(counts))[:, None] == source
                ends = [np.where(own, sign * query, -sign * query) + (length == 0) for sign in (-1, 1)]
                shares = []
                for v in (*ends, *rng.standard_normal((20, len(counts), d))):
                    weights = softmax(sqrt(d) * v @ query / np.linalg.norm(v, axis=1))
                    shares.append(weights[source] / (weights @ counts))
                found = range_of(counts, source, length, d)
                if not np.allclose(found, shares[:2], rtol=CLOSE) or not np.allclose(
                    (min(shares), max(shares)), found, rtol=CLOSE
                ):
                    return False
    return True


@DILUTION.check(
    "long queries, over the sources of every read of four blocks at 8 to 64 sublayers: the largest share of an output",
    states=lambda length, place: 1 / min(place, length),
    control=lambda length, place: 1 / length,
    wrong="as in a finished block, in one just begun as well",
)
@DILUTION.check(
    "long queries, over the sources of every read of four blocks at 8 to 64 sublayers: the largest share of an output",
    states=lambda length, place: 1 / min(place, length),
    control=lambda length, place: 1.0,
    wrong="nearly all, as in Full",
)
def blocks_dilute(law: Callable[[int, int], float]) -> bool:
    """law: in blocks of this length, of which this many outputs are there; the embedding's is 1."""
    for layers in (4, 8, 32):
        config, length = replace(CONFIG, n_layers=layers), layers // 2
        for after, sources in enumerate(depth_reads(config, resolve("attnres-block:blocks=4", config.shape))):
            counts = [len(source) for source in sources]
            laws = [1.0, *(law(length, after - length * block) for block in range(len(sources) - 1))]
            for source, largest in enumerate(laws):
                along = np.where(np.arange(len(sources)) == source, 1.0, -1.0)
                weights = np.exp(sqrt(16) * 10 * (along - 1))
                found = weights[source] / (weights @ counts), share_range(counts, source, 10.0, 16)[1]
                if not np.allclose(found, largest, rtol=CLOSE):
                    return False
    return True


@DILUTION.check(
    "decoders at zero queries: every output's projection on every read, and PreNorm's",
    states=0.0,
    control=0.3,
    wrong="with other queries",
)
def decoders_start_diluted(query: float) -> bool:
    prenorm = _shares("vanilla", measured("vanilla"))
    for name in ("attnres", "attnres-block:size=2"):
        shares = _shares(name, measured(name, query=query))
        if not all(np.allclose(a, b, rtol=1e-6, atol=CLOSE) for a, b in zip(shares, prenorm, strict=True)):
            return False
    return True


def _shares(name: str, found: Gradients) -> list[Array]:
    """Of the newest token; the coefficients of the start have to make what is read."""
    outputs, reads = ([x[-1, -1].numpy() for x in part] for part in (found.outputs, found.reads))
    rows = start_matrix(CONFIG, resolve(name, CONFIG.shape))
    shares = []
    for row, h in zip(rows, reads, strict=True):
        coefficients, read = [float(a) for a in row], np.stack(outputs[: len(row)])
        made = np.allclose(coefficients @ read, h, rtol=1e-6, atol=CLOSE)
        shares.append(projection_shares(coefficients, read) if made else np.full(len(row), np.nan))
    return shares


@DILUTION.check(
    "the length of a query that can leave a source half of the weight: attained, and logarithmic",
    states=lambda k: log(k - 1) / 2,
    control=lambda k: 0.0,
    wrong="any length",
)
def lengths_needed(law: Callable[[int], float]) -> bool:
    """In units of 1 / sqrt d; then one source along the query and the others against it have equal sums of weights."""
    for k in (3, 10, 1000):
        length = query_for_weight(k, 0.5, 16)
        z = length * sqrt(16)
        if abs(length - law(k) / sqrt(16)) > CLOSE or abs(exp(z) - (k - 1) * exp(-z)) > CLOSE * k:
            return False
    return query_for_weight(3, 0.1, 16) == 0


@DILUTION.check(
    "streams with a norm after the sum, written out: the embedding's share of the square",
    states=lambda ratio, m: 1 / (1 + ratio**2) ** m,
    control=lambda ratio, m: 1 / (1 + m * ratio**2),
    wrong="as in a residual stream",
)
def postnorm_dilutes(law: Callable[[Fraction, int], Fraction]) -> bool:
    for ratio in (Fraction(1), Fraction(1, 2)):
        x = np.eye(5)[0]
        for i in range(1, 5):
            x = x + float(ratio) * np.eye(5)[i]
            x = x / np.linalg.norm(x)
            if postnorm_share(ratio, i) != law(ratio, i) or abs(x[0] ** 2 - float(law(ratio, i))) > CLOSE:
                return False
    return True
