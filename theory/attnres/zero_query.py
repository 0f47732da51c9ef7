"""Zero queries when norms have eps > 0: the PreNorm network that depth attention starts as, and its distance from ours.

At the start a read is k^-1 times the stream, k its number of sources (`theory.attnres.bounds.start_scale`).  And
    (x / k) / sqrt(mean (x / k)^2 + eps) = x / sqrt(mean x^2 + k^2 eps),
for LayerNorm too, with the centred x.  So the start is, exactly, in function and parameter gradients, the PreNorm
network with the same weights whose norm after each read has k^2 eps in place of eps (`equivalent_eps`); under sigmoid
4 eps.  With eps = 0 that is the same network.  With eps > 0 it is another, the more so the deeper: k^2 is 1, 4, 9, ..
(2 L + 1)^2 for Full with L layers, at most (N + 1)^2 for N blocks.  The eps of the keys' norms has no part in this.

Distance.  Let m be a token's mean square in the stream, and e = k^2 eps.  (LayerNorm is RMSNorm of the centred token:
there m is its variance, and as centring makes no distance longer, the rest holds as it stands.  The mean square of
the token as it is would be too large, and bounds by it too small.)  The norms' outputs differ by a factor:
    0 <= 1 - sqrt((m + eps) / (m + e)) <= (k^2 - 1) eps / (2 (m + eps)),     by (1 + x)^-1/2 >= 1 - x / 2.
Let x and x' be the streams of the two networks.  N_e(x) is all but the last number of sqrt(d) X / ||X||, where X =
(x, sqrt(d e)); and ||X / ||X|| - Y / ||Y|| || <= ||X - Y|| / sqrt(||X|| ||Y||), as ||X|| ||Y|| times the square of the
left is ||X - Y||^2 - (||X|| - ||Y||)^2.  So with s = sqrt(m + e) and s' = max(s - ||x - x'|| / sqrt d, sqrt e)
    ||N_eps(x) - N_e(x')|| <= sqrt d (1 - sqrt((m + eps) / (m + e))) + ||x - x'|| / sqrt(s s'),
and a sublayer of slope c, in the largest norm over tokens, adds c times that to ||x - x'|| (`difference_bounds`).  To
leading order all of it is proportional to eps: the answer changes by eps sum_l (k_l^2 - 1) times its derivative by the
eps of norm l, plus O(eps^2).  The bound multiplies worst cases.  On decoders of two layers it was 20 to 60 times what
was found at weights of the size of a start, and useless at large ones.

Slopes, for inputs u within the ball ||u|| <= sqrt d, gains taken into the matrices.  Attention: the values contribute
sum_h ||O_h V_h||; logits move by at most 2 sqrt d ||Q_h|| ||K_h|| / sqrt w, and softmax rows by half of that in total
variation, over values that lie within 2 sqrt d ||O_h V_h|| of each other: in all sum_h ||O_h V_h|| (1 + 2 d ||Q_h||
||K_h|| / sqrt w).  Rotations of queries and keys change nothing.  Feed-forward: the slope of GELU is at most 1.13, of
SiLU 1.1, and |silu(a)| <= |a|, so with columns w_i of down and rows a_i, b_i it is 1.13 sum_i ||w_i|| ||b_i|| without a
gate, sqrt d (1 + 1.1) sum_i ||w_i|| ||a_i|| ||b_i|| with one.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite, sqrt
from typing import TYPE_CHECKING

from theory.attnres.bounds import start_scale
from theory.errors import BadInput, at_least
from theory.plans.architecture import Architecture
from theory.plans.plan import Plan

if TYPE_CHECKING:
    from numpy import float64
    from numpy.typing import NDArray

    Array = NDArray[float64]

GELU, SILU = 1.13, 1.1


def equivalent_eps(config: Architecture, plan: Plan) -> list[float]:
    """Return the eps of the norm after every read in the PreNorm network that a rule starts as.

    The last read is included.  Raises BadInput where `start_scale` does.
    """
    return [config.norm_eps / scale**2 for scale in start_scale(config, plan)]


def norm_change(mean_square: float, eps: float, other: float) -> float:
    """Return the share by which a norm's output shrinks when its eps grows to `other`.

    It is 1 - sqrt((m + eps) / (m + other)), m the mean square.  Raises BadInput for negative numbers.
    """
    if not (isfinite(mean_square + other) and mean_square >= 0 and 0 <= eps <= other):
        raise BadInput(f"need a mean square from 0 and 0 <= eps <= other, got {mean_square}, {eps} and {other}")
    return 0.0 if eps == other else 1 - sqrt((mean_square + eps) / (mean_square + other))


def difference_bounds(
    config: Architecture, plan: Plan, mean_squares: Sequence[float], slopes: Sequence[float]
) -> list[float]:
    """Return bounds, at every read, on the distance of a token's h / scale from the PreNorm network's stream.

    Both networks have the same weights.  mean_squares: the smallest of a token in that stream, before each sublayer,
    under LayerNorm the smallest variance; slopes: of the sublayers.  One more number is returned, for the last read.
    Raises BadInput as `equivalent_eps` does, or if there are not as many.
    """
    others = equivalent_eps(config, plan)
    if not len(mean_squares) == len(slopes) == len(others) - 1:
        raise BadInput(f"the plan has {len(others) - 1} sublayers, got {len(mean_squares)} and {len(slopes)} numbers")
    bounds, root = [0.0], sqrt(config.d_model)
    for mean_square, slope, other in zip(mean_squares, slopes, others, strict=False):
        at = bounds[-1]
        moved = root * norm_change(mean_square, config.norm_eps, other)
        if at:
            size = sqrt(mean_square + other)
            moved += at / sqrt(size * max(size - at / root, sqrt(other)))
        bounds.append(at + slope * moved)
    return bounds


def attention_slope(query: Array, key: Array, value: Array, output: Array, gain: Array) -> float:
    """Return a Lipschitz constant of an attention sublayer in its normed inputs, in the largest norm over tokens.

    query, key and value (H, w, d), output (H, d, w), of every query head; gain (d,).  Softmax attention, no biases.
    """
    import numpy as np

    at_least("heads", len(value), 1)
    queries, keys, through = (np.linalg.norm(m * gain, 2, axis=(1, 2)) for m in (query, key, output @ value))
    return float((through * (1 + 2 * gain.size * queries * keys / sqrt(query.shape[1]))).sum())


def feed_forward_slope(gate: Array | None, up: Array, down: Array, gain: Array) -> float:
    """Return the same constant for a feed-forward sublayer.

    gate and up (f, d), down (d, f), gain (d,); without a gate (None), GELU.
    """
    import numpy as np

    columns, rows = np.linalg.norm(down, axis=0), np.linalg.norm(up * gain, axis=1)
    if gate is None:
        return GELU * float(columns @ rows)
    return sqrt(gain.size) * (1 + SILU) * float((columns * rows) @ np.linalg.norm(gate * gain, axis=1))
