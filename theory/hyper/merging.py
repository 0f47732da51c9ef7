"""Streams that become one under doubly stochastic mixing, and how long they tell old outputs apart.

Notation of `theory.hyper.streams`; every H doubly stochastic, so H J = J H: mixing acts on the mean and on the
differences apart.  s(H) = ||H J||, the largest singular value of H on vectors that sum to 0 (`shrinking`).  The matrix
H itself has norm 1, by the vector 1, so 0 <= s(H) <= 1.

Differences (`spread_bound`).  J X_l = H_l J X_{l-1} + (J b_l) v_l^T and J X_0 = 0, hence
    ||J X_L||_F <= sum_l s(H_L) ... s(H_{l+1}) ||J b_l|| c_l.
So with s(H) <= s < 1, ||J b|| <= gamma and c <= C the streams keep within gamma C / (1 - s) of their mean, whatever the
depth, while the mean can be as large as ||x|| + L mean(b) C: n streams become one, with a difference that fades.
    Attained by aligned outputs, H = s I + (1 - s) 1 1^T / n (`toward_mean`), which shrinks all differences alike, and
b_l whose differences point one way.  At s = 1, as of the identity and of permutations, the differences can grow as the
mean does.

Memory.  A read holds output j with weight a^T H ... H_{j+1} b_j.  Split into means and differences this is
    sum(a) mean(b_j) + (J a)^T H ... H_{j+1} (J b_j),
so it differs from sum(a) mean(b_j), a residual stream's weight, by at most ||J a|| s ... s ||J b_j||.  What sublayers
can do to tell outputs apart fades geometrically with the distance, by s(H) a sublayer.  No H but those with s(H) = 1
carries a choice over any depth, and H = I carries it as it is.

How fast (`least_shrinking`).  If no entry of H is below mu, H = n mu (1 1^T / n) + (1 - n mu) K with K doubly
stochastic, or n mu = 1; so s(H) <= 1 - n mu, attained by `toward_mean`, where mu = (1 - s) / n.  Entries of equal
logits are all 1 / n: s(H) = 0, and one sublayer makes all streams one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from theory.errors import BadInput, at_least
from theory.hyper.streams import Sublayer

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]


def shrinking(mix: Array) -> float:
    """Return s(H) of a doubly stochastic matrix (n, n); 0 for one stream, which has no differences."""
    import numpy as np

    return float(np.linalg.norm(_differences(mix), 2))


def least_shrinking(mix: Array) -> float:
    """Return 1 - n times the least entry of a doubly stochastic matrix (n, n), which bounds s(H)."""
    return float(1 - len(mix) * mix.min())


def toward_mean(streams: int, share: Any) -> Array:
    """Return s I + (1 - s) 1 1^T / n for s = share: every difference becomes s times itself; exact if s is.

    Raises InvalidSize, and BadInput for a share outside [0, 1].
    """
    import numpy as np

    at_least("streams", streams, 1)
    if not 0 <= share <= 1:
        raise BadInput(f"a share must lie in [0, 1], got {share}")
    return np.eye(streams, dtype=int) * share + (1 - share) / streams


def spread_bound(sublayers: Sequence[Sublayer], outputs: Sequence[float]) -> float:
    """Return the bound on ||J X_L||_F for outputs of at most these norms, one for every sublayer.

    Raises BadInput if their numbers differ.
    """
    import numpy as np

    if len(sublayers) != len(outputs):
        raise BadInput(f"{len(sublayers)} sublayers have as many outputs, got {len(outputs)}")
    total = 0.0
    for sublayer, size in zip(sublayers, outputs, strict=True):
        total = shrinking(sublayer.mix) * total + float(np.linalg.norm(_differences(sublayer.write))) * size
    return total


def _differences(x: Array) -> Array:
    """Return J x: every column's mean is taken away."""
    return x - x.mean(axis=0)
