"""The share of explained variance, R^2, which says nothing of the cost of a conversion: families that show it.

Setting.  One head reads values v (N, k) of N tokens by its pattern, and a projection makes scores of symbols, whose
right one is known: the cost is the mean rise of the cross-entropy, in nats, when values v' take v's place.  v' is the
best linear read of layer 1's values v_1 (`theory.reading.token_values`), with an offset where it helps; R^2 is its
share of the variance of v, over tokens.  `HeadExample` holds all of it.

1. R^2 near 1 at any cost (`sink`).  Of n = 2 k + 1 tokens the first is a sink: it gets a share a of the attention of
every query, and its own value is 0 (a drain), while v_1 there is 1.  The others share what is left equally; their
values are +1 and -1, k of each, and v_1 says them exactly.  One of two symbols is right everywhere; the other one's
score is K times what the head reads.  Then
    R^2 = 1 - 1 / n   (without an offset: the best linear read is v_1 (n - 1) / n),
    cost = log((1 + e^u) / 2),   u = K a (n - 1) / n.
So R^2 goes to 1 with n and the cost to infinity with K.  Keeping the first token's own value costs nothing.
    Proof.  v has the mean square (n - 1) / n, v_1 has 1, and E[v v_1] = (n - 1) / n; so the read leaves (n - 1) / n^2.
What the head reads was 0 and becomes a (n - 1) / n, as the others' reads cancel.                                   QED
    R^2 counts tokens, attention does not count them alike: one token in n weighs 1 / n in R^2, and a in the cost.

2. R^2 of what attention reads, too (`quiet`).  Values are (s u, w), u and w independent signs, layer 1's value is u,
every query sees its own token, and the first of two symbols has the score K w; the right symbol is the first one where
w = 1.  Then
    R^2 = s^2 / (1 + s^2),   cost = log 2 - log(1 + e^-K),
R^2 near 1 for large s, whether of values or of what attention reads, at the cost of all that the scores say.
    Proof.  The best read is (s u, 0): scores become equal.                                                         QED
    R^2 weighs directions by their variance, the cost by what the projection makes of them.

3. R^2 = 0 at no cost (`spare`).  Two heads both read w, and the score is K/2 times the sum of their outputs.  The first
one's value is replaced by layer 1's, u, which is independent of w: R^2 = 0.  With the projection refitted the cost is
0: it takes all from the other head.  Raw, it is half of 2's for the same K.
    Proof.  The refit of w on (u, w) is (0, 1).  Raw, the score is K w where u = w and 0 else.                      QED
    What another head, or the stream, says as well need not be read again.  Where the projection ignores the head's
value the cost is 0 without a refit.

So neither says anything of the other.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from theory.errors import BadInput, at_least
from theory.reading.refit import Array, moments, refit
from theory.reading.token_values import TokenValues, by_token


@dataclass(frozen=True, eq=False)
class HeadExample:
    """Heads with one pattern, before and after a conversion.

    Attributes:
        own: Their values, side by side, (N, k).
        first: Layer 1's values, (N, m).
        converted: What the heads read after the conversion, (N, k).
        pattern: Attention of every query to every token, (queries, N).
        projection: Scores of symbols from what the heads read, (V, k).
        right: The right symbol of every query, (queries,).
    """

    own: Array
    first: Array
    converted: Array
    pattern: Array
    projection: Array
    right: Array


def loss(example: HeadExample, values: Array, projection: Array) -> float:
    """Return the mean cross-entropy in nats with these values (N, k) and this projection (V, k)."""
    scores = example.pattern @ values @ projection.T
    return float((np.logaddexp.reduce(scores, axis=1) - scores[np.arange(len(scores)), example.right]).mean())


def cost(example: HeadExample) -> float:
    """Return the rise of the loss when the heads read their converted values, in nats."""
    raw = loss(example, example.converted, example.projection)
    return raw - loss(example, example.own, example.projection)


def refitted_cost(example: HeadExample) -> float:
    """Return the rise of the loss with the projection refitted to the converted values, in nats."""
    read, before = example.pattern @ example.converted, example.pattern @ example.own @ example.projection.T
    after = loss(example, example.converted, refit(moments(before, read)))
    return after - loss(example, example.own, example.projection)


def token_values(example: HeadExample) -> TokenValues:
    """Return the heads' values and layer 1's by token, each token as often as another."""
    return by_token(np.arange(len(example.own)), example.first, example.own)


def sink(pairs: int, share: float, gain: float) -> HeadExample:
    """Return the example with a sink.

    Args:
        pairs: k, of n = 2 k + 1 tokens.
        share: a, the sink's share of attention, from 0 to 1.
        gain: K, of the wrong symbol's score.

    Raises:
        InvalidSize: There are no pairs.
        BadInput: The share lies outside [0, 1].
    """
    at_least("pairs", pairs, 1)
    if not 0 <= share <= 1:
        raise BadInput(f"a share of attention is from 0 to 1, got {share}")
    n = 2 * pairs + 1
    first = np.array([1.0, *[1.0, -1.0] * pairs])[:, None]
    own = first.copy()
    own[0] = 0.0
    pattern = np.full((n, n), (1 - share) / (n - 1))
    pattern[:, 0] = share
    return HeadExample(
        own, first, first * (n - 1) / n, pattern, projection=np.array([[0.0], [gain]]), right=np.zeros(n, dtype=int)
    )


def sink_cost(pairs: int, share: float, gain: float) -> float:
    """Return the closed form of the cost of `sink`, in nats; arguments as its."""
    n = 2 * pairs + 1
    return float(np.logaddexp(0, gain * share * (n - 1) / n) - np.log(2))


def sink_r_squared(pairs: int) -> float:
    """Return 1 - 1 / n, the share of the mean square of `sink`'s values that layer 1's explain."""
    return 1 - 1 / (2 * pairs + 1)


def first_kept(example: HeadExample) -> HeadExample:
    """Return the same conversion where the first token keeps its own values."""
    converted = example.converted.copy()
    converted[0] = example.own[0]
    return replace(example, converted=converted)


def quiet(size: float, gain: float) -> HeadExample:
    """Return the example whose variance lies where no score depends on it; s = size and K = gain."""
    u, w = np.array(list(product((1.0, -1.0), repeat=2))).T
    own = np.column_stack([size * u, w])
    return HeadExample(
        own,
        u[:, None],
        np.column_stack([size * u, 0 * w]),
        np.eye(4),
        projection=np.array([[0.0, gain], [0.0, 0.0]]),
        right=(w < 0).astype(int),
    )


def spare(gain: float) -> HeadExample:
    """Return the example of two heads that say the same; K = gain, the right symbol that of `quiet`."""
    u, w = np.array(list(product((1.0, -1.0), repeat=2))).T
    return HeadExample(
        np.column_stack([w, w]),
        u[:, None],
        np.column_stack([u, w]),
        np.eye(4),
        projection=np.array([[gain / 2, gain / 2], [0.0, 0.0]]),
        right=(w < 0).astype(int),
    )


def quiet_cost(gain: float) -> float:
    """Return log 2 - log(1 + e^-K), the cost of `quiet` in nats."""
    return float(np.log(2) - np.logaddexp(0, -gain))


def quiet_r_squared(size: float) -> float:
    """Return s^2 / (1 + s^2), the R^2 of `quiet`."""
    return size**2 / (1 + size**2)
