"""Claims on how large an attention sublayer's output can be."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from experiments.ledger.claim import Claim
from theory.attnres import sublayers
from theory.attnres.paper import PAPER
from theory.attnres.sublayers import ATTENTION_RATIO, attention_attained, attention_bound

if TYPE_CHECKING:
    from numpy import float64
    from numpy.typing import NDArray

    Array = NDArray[float64]

SLACK = 1 + 1e-9
SHAPES = ((16, 4, 4, 0.02), (16, 4, 4, 0.25), (6, 3, 2, 3.0))  # d, heads, their width, deviation of weights

OUTPUT = Claim(
    "attnres.attention-output",
    PAPER.name,
    place="summary: output magnitudes remain bounded across depth; by what, it does not say",
    statement="With W_h a head's value and output matrices in one, gain included, no output of softmax attention "
    "behind a norm is larger than sqrt(d) times the root of the least, over p_h > 0 of sum 1, of the largest "
    "eigenvalue of sum_h W_h W_h^T / p_h.  With one head it is attained; with several, heads that each see a token "
    "of their own attain at least sqrt(2/pi) = 0.798 of it, and no larger share holds for all weights.",
    assumes="RMSNorm, or LayerNorm without bias; no biases; a layer's own values; for what is attained: eps = 0, and "
    "queries and keys large enough to pick tokens, in the limit",
    verdict="verified",
    proof=sublayers,
)


def _random(d: int, heads: int, width: int, std: float, seed: int) -> tuple[Array, Array, Array]:
    import numpy as np

    rng = np.random.default_rng(seed)
    value, output = std * rng.standard_normal((heads, width, d)), std * rng.standard_normal((heads, d, width))
    return value, output, rng.uniform(0.5, 1.5, d)


@OUTPUT.check(
    "10,000 random inputs and 200 ascents for each of three random sublayers, each head at its own token, keep below",
    states=1.0,
    control=0.9,
    wrong="nine tenths of the bound",
    kind="descent",
)
def inputs_stay_below(factor: float) -> bool:
    """Outputs of softmax attention over two tokens with random logits, and of heads that see what they like best."""
    import numpy as np

    from experiments.attnres.sharpness import attention_output
    from icl.probes.ascent import ascend
    from icl.probes.magnitude import AttentionWeights

    for d, heads, width, std in SHAPES:
        value, output, gain = _random(d, heads, width, std, 0)
        allowed = factor * attention_bound(value, output, gain) * SLACK
        rng = np.random.default_rng(1)
        tokens = rng.standard_normal((10_000, 2, d))
        tokens *= math.sqrt(d) / np.linalg.norm(tokens, axis=-1, keepdims=True)
        share = 1 / (1 + np.exp(5 * rng.standard_normal((10_000, heads, 1))))
        seen = share * tokens[:, :1] + (1 - share) * tokens[:, 1:]
        random = np.einsum("hij,nhj->ni", output @ (value * gain), seen)
        picked = ascend(attention_output(AttentionWeights(value, output, gain), heads), heads * d, 1.0)
        if max(np.linalg.norm(random, axis=1).max(), picked.largest) > allowed:
            return False
    return True


@OUTPUT.check(
    "one head of random weights attains the bound, at the first right singular vector",
    states=0.5,
    control=0.0,
    wrong="a normed vector has length 1",
)
def one_head_attains(power: float) -> bool:
    """The bound is d^power ||W||, W = O V diag(gain)."""
    import numpy as np

    for d, width, seed in ((1, 1, 0), (5, 2, 1), (8, 8, 2)):
        value, output, gain = _random(d, 1, width, 1.0, seed)
        u = np.linalg.svd(output[0] @ value[0] * gain)[2][0] * d**power
        found = float(np.linalg.norm(output[0] @ (value[0] @ (gain * u))))
        for said in (attention_bound(value, output, gain), attention_attained(value, output, gain)):
            if not math.isclose(found, said, rel_tol=1e-9):
                return False
    return True


@OUTPUT.check(
    "1 + 1 heads to 9 of one number, even over half a circle: what is attained and the bound are the closed forms",
    states=(lambda n: n / math.sqrt(2), lambda n: 1 / math.sin(math.pi / (2 * n))),
    control=(lambda n: n / math.sqrt(2), lambda n: n / math.sqrt(2)),
    wrong="what is attained is always the bound",
)
def heads_on_a_circle(closed: tuple[object, object]) -> bool:
    """Over sqrt d: the bound, and what is attained."""
    import numpy as np

    bound, attained = closed
    assert callable(bound)
    assert callable(attained)
    for heads in range(2, 10):
        for d in (2, 7):
            angles, output = np.pi * np.arange(heads) / heads, np.zeros((heads, d, 1))
            output[:, 0, 0], output[:, 1, 0] = np.cos(angles), np.sin(angles)
            value = np.zeros((heads, 1, d))
            value[:, 0, 0] = 1
            pairs = (
                (attention_bound(value, output, np.ones(d)), bound(heads)),
                (attention_attained(value, output, np.ones(d)), attained(heads)),
            )
            if not all(math.isclose(found, math.sqrt(d) * said, rel_tol=1e-6) for found, said in pairs):
                return False
    return True


@OUTPUT.check(
    "of random sublayers of up to 8 heads the bound is at most sqrt(pi/2) of what is attained, and not below it",
    states=ATTENTION_RATIO,
    control=1.0,
    wrong="the bound is always attained",
)
def within_the_ratio(ratio: float) -> bool:
    """And of sublayers whose heads are even over a half circle, which leave a gap."""
    import numpy as np

    cases = [_random(d, heads, width, 1.0, heads) for d in (1, 3, 16) for heads in (1, 2, 8) for width in (1, 2)]
    angles = np.pi * np.arange(4) / 4
    output = np.stack([np.cos(angles), np.sin(angles)], 1)[:, :, None]
    cases.append((np.broadcast_to(np.array([[1.0, 0.0]]), (4, 1, 2)), output, np.ones(2)))
    for value, out, gain in cases:
        attained = attention_attained(value, out, gain)
        if not attained / SLACK <= attention_bound(value, out, gain) <= ratio * attained * (1 + 1e-6):
            return False
    return True
