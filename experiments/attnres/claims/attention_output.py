"""Claims on upper bounds of an attention sublayer's output."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from experiments.ledger.claim import Claim, Conditions, at
from theory.attnres import sublayers
from theory.attnres.paper import PAPER
from theory.attnres.sublayers import ATTENTION_RATIO, attention_attained, attention_bound

if TYPE_CHECKING:
    from numpy import float64
    from numpy.typing import NDArray

    Array = NDArray[float64]

SLACK = 1 + 1e-9
ATTENTIONS = ((16, 4, 4, 0.02), (16, 4, 4, 0.25), (6, 3, 2, 3.0))  # d, heads, their width, deviation of weights

A_START = "where a search for p begins: every p gives a bound"
MORE_STARTS = "a direction to begin with, beside others"
THE_END = "when a search ends: what it has found by then holds, whenever that is"
GUARD = "keeps a p_h from being 0: a billionth of it"
_STARTS = (
    "_norm(scaled)[kept] ** 2",
    "min((p / p.sum() for p in starts), key=lambda p: _top(np.tensordot(1 / p, squares, 1)))",
    "1 / p",
)
_DIRECTIONS = ("heads.sum(0) -> heads.max(0)", "np.linalg.svd(w)[0].T[:1] -> np.linalg.svd(w)[0].T[:2]")
_ENDS_OF_TURNS = ("best * (1 + 1e-12) -> best / (1 + 1e-12)", "1 + 1e-12 -> 1 - 1e-12")
_ENDS_OF_A_SEARCH = (
    "0 if values[-1] < best * (1 - 0.0001) else idle + 1 -> 1 if values[-1] < best * (1 - 0.0001) else idle + 1",
    "idle + 1 -> idle - 1",
    "idle + 1 -> idle + 6 * 1 / 5",
    "idle > 3 -> idle > 4",
    "best * (1 - 0.0001) -> best / (1 - 0.0001)",
    "1 - 0.0001",
)
_GUARDS = (
    "np.sqrt(np.maximum(np.tensordot(squares, near @ vectors.T, 2), 0)) + 1e-09 * p -> "
    "np.sqrt(np.maximum(np.tensordot(squares, near @ vectors.T, 2), 0)) + 6 * (1e-09 * p) / 5",
    "1e-09 * p",
)

ATTENTION = Claim(
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
    unjudged={
        **{at(attention_bound, place): A_START for place in _STARTS},
        sublayers._top: "attention's p is looked for from the best of three, which this finds: " + A_START,
        **{at(attention_attained, place): MORE_STARTS for place in _DIRECTIONS},
        **{at(attention_attained, place): THE_END for place in _ENDS_OF_TURNS},
        **{at(sublayers._shared, place): THE_END for place in _ENDS_OF_A_SEARCH},
        **{at(sublayers._shared, place): GUARD for place in _GUARDS},
        **{
            at(sublayers._shared, change): "a factor of all p_h, which then are scaled to sum 1"
            for change in (
                "p * wanted / wanted.sum() -> p * wanted * wanted.sum()",
                "wanted.sum() -> wanted.max()",
            )
        },
    },
)


def _random_attention(d: int, heads: int, width: int, std: float, seed: int) -> tuple[Array, Array, Array]:
    import numpy as np

    rng = np.random.default_rng(seed)
    value, output = std * rng.standard_normal((heads, width, d)), std * rng.standard_normal((heads, d, width))
    return value, output, rng.uniform(0.5, 1.5, d)


@ATTENTION.check(
    "10,000 random inputs and 200 ascents for each of three random sublayers, each head at its own token, keep below",
    states=1.0,
    control=0.9,
    wrong="nine tenths of the bound",
    kind="descent",
)
def attentions_stay_below(factor: float) -> Conditions:
    """Check softmax attention over two tokens with random logits, and heads that attend to their best token."""
    import numpy as np

    from experiments.attnres.sharpness import attention_output
    from icl.probes.ascent import ascend
    from icl.probes.magnitude import AttentionWeights

    for d, heads, width, std in ATTENTIONS:
        value, output, gain = _random_attention(d, heads, width, std=std, seed=0)
        allowed = factor * attention_bound(value, output, gain) * SLACK
        rng = np.random.default_rng(1)
        tokens = rng.standard_normal((10_000, 2, d))
        tokens *= math.sqrt(d) / np.linalg.norm(tokens, axis=-1, keepdims=True)
        share = 1 / (1 + np.exp(5 * rng.standard_normal((10_000, heads, 1))))
        seen = share * tokens[:, :1] + (1 - share) * tokens[:, 1:]
        random = np.einsum("hij,nhj->ni", output @ (value * gain), seen)
        picked = ascend(attention_output(AttentionWeights(value, output, gain), heads), heads * d, 1.0)
        yield max(np.linalg.norm(random, axis=1).max(), picked.largest) <= allowed


@ATTENTION.check(
    "one head of random weights attains the bound, at the first right singular vector",
    states=0.5,
    control=0.0,
    wrong="a normed vector has length 1",
)
def one_head_attains(power: float) -> Conditions:
    """Check that the bound is d^power ||W||, W = O V diag(gain)."""
    import numpy as np

    for d, width, seed in ((1, 1, 0), (5, 2, 1), (8, 8, 2)):
        value, output, gain = _random_attention(d, 1, width, std=1.0, seed=seed)
        u = np.linalg.svd(output[0] @ value[0] * gain)[2][0] * d**power
        found = float(np.linalg.norm(output[0] @ (value[0] @ (gain * u))))
        for said in (attention_bound(value, output, gain), attention_attained(value, output, gain)):
            yield math.isclose(found, said, rel_tol=1e-9)


@ATTENTION.check(
    "1 + 1 heads to 9 of one number, even over half a circle: what is attained and the bound are the closed forms",
    states=(lambda n: n / math.sqrt(2), lambda n: 1 / math.sin(math.pi / (2 * n))),
    control=(lambda n: n / math.sqrt(2), lambda n: n / math.sqrt(2)),
    wrong="what is attained is always the bound",
)
def heads_on_a_circle(closed: tuple[object, object]) -> Conditions:
    """Compare the bound and what is attained, both over sqrt d, with closed forms."""
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
            yield all(math.isclose(found, math.sqrt(d) * said, rel_tol=1e-6) for found, said in pairs)


@ATTENTION.check(
    "of random sublayers of up to 8 heads the bound is at most sqrt(pi/2) of what is attained, and not below it",
    states=ATTENTION_RATIO,
    control=1.0,
    wrong="the bound is always attained",
)
def within_the_ratio(ratio: float) -> Conditions:
    """Check random sublayers, and heads spread evenly over a half circle, which leave a gap."""
    import numpy as np

    cases = [
        _random_attention(d, heads, width, std=1.0, seed=heads)
        for d in (1, 3, 16)
        for heads in (1, 2, 8)
        for width in (1, 2)
    ]
    angles = np.pi * np.arange(4) / 4
    output = np.stack([np.cos(angles), np.sin(angles)], 1)[:, :, None]
    cases.append((np.broadcast_to(np.array([[1.0, 0.0]]), (4, 1, 2)), output, np.ones(2)))
    for value, out, gain in cases:
        attained = attention_attained(value, out, gain)
        yield attained / SLACK <= attention_bound(value, out, gain) <= ratio * attained * (1 + 1e-6)


SINGLE = ((2, 2, 1, 0), (2, 2, 1, 2), (4, 3, 3, 0), (4, 3, 3, 1), (5, 4, 2, 0), (5, 4, 2, 1))


@ATTENTION.check(
    "two to four heads of six random sublayers, whose largest eigenvalue at the best p is single, attain the bound",
    states=attention_bound,
    control=lambda value, output, gain: math.sqrt(gain.size) * _at_sizes(output @ (value * gain)),
    wrong="p_h as ||W_h|| in place of the best p",
)
def single_eigenvalues_attain(bound: Callable[..., float]) -> Conditions:
    """Compare with what is attained, for sublayers of these d, heads, widths and seeds."""
    for d, heads, width, seed in SINGLE:
        weights = _random_attention(d, heads, width, std=0.1, seed=seed)
        yield math.isclose(bound(*weights), attention_attained(*weights), rel_tol=2e-6)


@ATTENTION.check(
    "two heads across each other, one a million times smaller: sqrt d times the root of 1 + 10^-12",
    states=attention_bound,
    control=lambda value, output, gain: math.sqrt(gain.size) * _at_sizes(output @ (value * gain)),
    wrong="p_h as ||W_h|| in place of the best p",
)
def a_small_head(bound: Callable[..., float]) -> bool:
    import numpy as np

    value, output = np.eye(2)[:, None, :], np.eye(2)[:, :, None] * np.array([1.0, 1e-6])[:, None, None]
    return math.isclose(bound(value, output, np.ones(2)), math.sqrt(2 * (1 + 1e-12)), rel_tol=1e-8)


def _at_sizes(heads: Array) -> float:
    """Return the root of the largest eigenvalue of sum_h W_h W_h^T / p_h at p_h as ||W_h||."""
    import numpy as np

    sizes = np.linalg.norm(heads, 2, (1, 2))
    together = sum(w @ w.T * sizes.sum() / size for w, size in zip(heads, sizes, strict=True))
    return math.sqrt(float(np.linalg.eigvalsh(together)[-1]))


@ATTENTION.check(
    "in the plane what is attained is the largest of sqrt d sum_h ||W_h^T y|| on a fine circle, 2 to 40 heads",
    states=1,
    control=2,
    wrong="the root of the sum of squares in place of the sum",
)
def attained_on_a_circle(power: int) -> Conditions:
    """Search a circle twice, the second time near the best; norms add up to this power."""
    import numpy as np

    for heads, seed in ((2, 0), (3, 1), (5, 2), (40, 3)):
        value, output, gain = _random_attention(2, heads, 1, std=1.0, seed=seed)
        best, reach = 0.0, math.pi
        for _ in range(3):
            angles = best + np.linspace(-reach, reach, 4001)
            pulled = np.stack([np.cos(angles), np.sin(angles)], 1) @ (output @ (value * gain))
            sums = (np.linalg.norm(pulled, axis=-1) ** power).sum(0) ** (1 / power)
            best, reach, largest = float(angles[sums.argmax()]), reach / 1000, float(sums.max())
        yield math.isclose(attention_attained(value, output, gain), math.sqrt(2) * largest, rel_tol=1e-9)
