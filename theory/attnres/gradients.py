"""Gradients by depth at the start: which of PreNorm's gradients depth attention changes, and which it cannot.

Setting.  A PreNorm network and the same weights under depth attention with zero queries (static logits: zero), whose
read l is h_l = x_l / k_l, x_l PreNorm's stream and k_l its number of sources (`theory.attnres.bounds.start_scale` is
1 / k_l; under sigmoid k_l = 2).  Every x_l != 0.  G_i = dL/dv_i is the gradient with respect to output i through all
that reads it, and b_l that with respect to read l through the sublayer (or last norm) alone that reads it.

1. eps = 0: a sublayer's norm makes f(x / k) = f(x).
   Parameters.  Zero queries are a point of parameter space at which the two networks are one function of all other
   parameters, so *their gradients are PreNorm's*, layer by layer, in every norm; key gains have gradient 0, as they act
   through the query alone.  Nothing about them is more uniform; a gradient step or optimiser that looks at one
   parameter at a time moves them as PreNorm's.
   Outputs.  Add delta to output i and run the rest: weights over depth stay 1 / k, reads are still the streams over
   k, so the loss is the same function of delta: G_i is PreNorm's, and in both
       G_i = sum_{l >= i} b_l^PreNorm,
   one sum along the stream (in PreNorm dL/dx_l, through everything, is G_l).  In matrices G = A^T b for the A of
   `theory.attnres.coefficients` (`output_gradients`).
   Reads.  f(x / k) = f(x) for all x has the derivative b_l(AttnRes) = k_l b_l(PreNorm) (`read_factor`).  So
   ||h_l|| ||b_l||, which no rescaling of h_l changes, is PreNorm's; and <h_l, b_l> = 0, as f is constant along h_l.
2. Which is more even, then?  Let that product fall as (l + 1)^-pi, and ||x_l|| grow as (l + 1)^gamma.  PreNorm's b_l
   goes as (l + 1)^-(gamma + pi), Full's as (l + 1)^(1 - gamma - pi) (`read_exponents`).  Full is more even if and only
   if gamma + pi > 1/2, and even at gamma + pi = 1.  At initial weights of wide decoders the product is the root of
   o_l / s_{l+1}, what the sublayer writes over what the stream is then (`theory.attnres.start_gradients`, chi = 1).
   So in a stream that grows as a power gamma > 0, pi is 1/2: Full is more even whatever gamma is, once there are reads
   enough for powers to show, and even at gamma = 1/2, uncorrelated outputs of one size.  Where outputs are small beside
   the embedding, gamma = pi = 0, PreNorm is even and Full is not.  Between them, with outputs of one size, it is their
   total over the embedding that counts: narrow decoders of the usual std are less even under Full, wide ones, whose
   first outputs are larger than the embedding, more.
3. eps > 0.  (x/k) / sqrt(mean (x/k)^2 + eps) = x / sqrt(mean x^2 + k^2 eps): at zero queries depth attention with
   norms of eps is *exactly* the PreNorm network whose norm at read l has eps k_l^2, and 1 holds of the
   two; it starts as PreNorm with eps itself only where k_l = 1.  The eps of keys does not matter.  <h_l, b_l> is no
   longer 0.  Under LayerNorm the same with the variance for the mean square.
4. Queries.  For any query, weights alpha, keys kappa_i = gain * v_i / rms(v_i) and g = dL/dh, d alpha_i / dw =
   alpha_i (kappa_i - sum_j alpha_j kappa_j), so summed over tokens (`query_gradient`)
       dL/dw = sum_i alpha_i <v_i - h, g> kappa_i:  the covariance over depth of the keys and the gains <v_i, g>.
   At zero queries and eps = 0, as <h, g> = 0 and g = k b^PreNorm, this is
       dL/dw_l = sum_i <v_i, b_l^PreNorm> kappa_i:
   the count drops out, and <v_i, b_l> is how PreNorm's loss changes with more of v_i in read l.  One source: 0.

What a trained network's gradients do is not decided here: everything in 1 holds at zero queries only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from theory.attnres.bounds import start_scale
from theory.errors import BadInput
from theory.plans.architecture import Architecture
from theory.plans.plan import Plan

if TYPE_CHECKING:
    from numpy import float64
    from numpy.typing import NDArray

    Array = NDArray[float64]


def read_factor(config: Architecture, plan: Plan) -> list[float]:
    """Return k_l, the factor of b_l to PreNorm's, for every read at zero queries and eps = 0.

    Raises BadInput as `start_scale`.
    """
    return [1 / scale for scale in start_scale(config, plan)]


def read_exponents(stream: float, product: float = 0.0) -> tuple[float, float]:
    """Return the exponents in l + 1 of PreNorm's and Full's gradient at read l.

    The stream's norm has the exponent `stream`, and ||h_l|| ||b_l|| the exponent -product.
    """
    return -stream - product, 1 - stream - product


def output_gradients(matrix: Sequence[Sequence[float]], of_reads: Sequence[Array]) -> list[Array]:
    """Return G_i of every output from b_l of every read, as A^T b.

    The depth rule does not look at contents, or not yet.  matrix: row l with l + 1 entries; of_reads: as many arrays of
    one shape.  Raises BadInput for other numbers.
    """
    if len(matrix) != len(of_reads) or any(len(row) != i for i, row in enumerate(matrix, 1)):
        raise BadInput(f"{len(of_reads)} reads need as many rows of 1, 2, ... entries")
    return [
        sum(
            (float(row[i]) * b for row, b in zip(matrix[i + 1 :], of_reads[i + 1 :], strict=True)),
            float(matrix[i][i]) * of_reads[i],
        )
        for i in range(len(matrix))
    ]


def query_gradient(query: Array, gain: Array, sources: Array, of_read: Array, eps: float = 0.0) -> Array:
    """Return dL/dw of one read with a softmax over depth, one head and normed keys, at any query; (d,).

    query, gain (d,); sources (k, T, d), for T tokens in all; of_read = dL/dh (T, d); eps of the key norm.  Raises
    BadInput if the shapes do not fit.
    """
    import numpy as np
    from scipy.special import softmax

    if sources.ndim != 3 or sources.shape[1:] != of_read.shape or not query.shape == gain.shape == sources.shape[2:]:
        raise BadInput(f"shapes {query.shape}, {gain.shape}, {sources.shape} and {of_read.shape} do not fit")
    keys = gain * sources / np.sqrt((sources**2).mean(-1, keepdims=True) + eps)
    weights = softmax(keys @ query, axis=0)
    gains = (sources * of_read).sum(-1)
    centred = gains - (weights * gains).sum(0)
    return np.einsum("kt,kt,ktd->d", weights, centred, keys)
