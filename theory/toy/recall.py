r"""Associative recall by two layers of attention with shared keys: it remains possible, with small margins.

A prompt is k_1 v_1 ... k_n v_n, then keys again: at token t = 2n + i stands the key of a pair q, whose value is asked
for.  Keys are different ones, and so are values.  Attention is causal, there are no positions, norms or feed-forwards,
and scores of values are read from the last state, linearly.

**One layer cannot do better than ln n**, whatever its heads.  At token t a head's weights depend on the *set* of tokens
up to t, as scores depend on the two tokens alone, and so does what it reads.  Permuting v_1, ..., v_n leaves that set,
and with it the scores of all values, as they are; but it makes each of them the right one equally often.  So the mean
loss over the n! prompts is that of one distribution over values against n that are equally likely: at least ln n.

**Nor can any number of layers whose keys and values are all layer 1's.**  These are functions of the token alone, so
what a layer adds to the state of token t depends on that state and on the set of tokens up to t.  By induction over
layers the last state depends on the set alone.

**Two layers can recall although layer 2 has no keys but layer 1's**, which say nothing of a token but which it is.
Layer 1 has queries of zero, so it averages over all tokens so far: state j gets (1/j) times the sum of the codes of the
values up to there, in V coordinates of their own.  Write c_j(l) = [j >= 2l] / j for what it has of v_l.  In layer 2

- head A looks for tokens equal to its own, in its limit: k_q at 2q - 1 and t itself.  It takes B (c_{2q-1} + c_t) / 2
  off the scores: values *before* k_q lose B / (2 (2q - 1)), all of them B / (2t);
- head B looks at all tokens alike, and adds (1/t) sum_{j <= t} c_j(l) = (1/t) sum_{2l <= j <= t} 1/j, which is larger
  the *earlier* a value stands;
- B/2 times layer 1's output at t makes good for the B / (2t).

So the score of v_l is

    (1/t) sum_{2l <= j <= t} 1/j - (B/2) [l < q] / (2q - 1),

and that of a value which is not in the prompt 0.  With B = 2n that of v_q is the highest:

- of the values after it, v_{q+1} comes next, by (1/t) (1/2q + 1/(2q + 1)), at least (1/t) / (n + 1/2) and so 1/n^2
  up to a factor: t <= 3n;
- those before it lose n / (2q - 1) > 1/2 and are ahead by (1/t) sum_{2l <= j < 2q} 1/j < (q - 1) / t < 1/2;
- v_q has a positive score.

The least of these margins is that of the last query (t = 3n) for the last value but one, from n = 5 on:

    m(n) = (1/(2n - 2) + 1/(2n - 1)) / (3n), about 1 / (3 n^2).

A readout s times as large has the loss ln(1 + (V - 1) e^{-s m}) at most: as small as one likes.

A lookup (layer 1 copies k_j to v_j's token, where layer 2 looks for it) has margins that do not fall with n.  So shared
keys do not forbid recall: they make it an inference from averages, of which 1/n^2 decides.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

HALF = Fraction(1, 2)


def strength(n: int) -> int:
    """Return B, the strength of head A, for n pairs."""
    return 2 * n


def shared_key_scores(n: int, query: int, asked: int, before: int | None = None) -> list[Fraction]:
    """Return the scores of v_1, ..., v_n at a query, from two layers with shared keys; values elsewhere have 0.

    Args:
        n: Pairs.
        query: Which of the queries, from 1.
        asked: q, the pair that it asks for, from 1.
        before: B; by default `strength`.
    """
    t, weight = 2 * n + query, strength(n) if before is None else before
    after = [Fraction(0)] * (t + 2)  # after[j]: the sum of 1/i for j <= i <= t
    for j in range(t, 0, -1):
        after[j] = after[j + 1] + Fraction(1, j)
    return [after[2 * pair] / t - (HALF * weight / (2 * asked - 1) if pair < asked else 0) for pair in range(1, n + 1)]


def margin(n: int, query: int, asked: int, before: int | None = None) -> Fraction:
    """Return the lead of the right value's score over every other one, in the prompt or not."""
    scores = shared_key_scores(n, query, asked, before)
    right = scores.pop(asked - 1)
    return right - max([Fraction(0), *scores])


def least_margin(n: int) -> Fraction:
    """Return the least margin over all queries and pairs."""
    return min(margin(n, query, asked) for query in range(1, n + 1) for asked in range(1, n + 1))


def most_loss(n: int, values: int, readout: float) -> float:
    """Return the largest loss of recall by shared keys, in nats per query.

    Args:
        n: Pairs.
        values: V, the values to choose from.
        readout: s, the factor of all scores.
    """
    return math.log1p((values - 1) * math.exp(-readout * float(least_margin(n))))


def shared_key_weights(n: int, keys: int, values: int, match: float) -> dict[str, np.ndarray]:
    """Return weights of the two layers, in coordinates of keys, values and copied values: (K + V + V) wide, float64.

    Heads are K or V wide, whichever is more.  Maps are applied from the left: (out, in).

    Args:
        n: Pairs.
        keys: K, the keys to choose from.
        values: V, the values to choose from.
        match: The score of a token equal to the query's own; others have 0.  Its limit is infinite.
    """
    head = max(keys, values)
    key, value, copy = slice(0, keys), slice(keys, keys + values), slice(keys + values, keys + 2 * values)
    width = keys + 2 * values
    # one of two heads each: rows of the head, columns of the state
    look, has, gives, takes = (np.zeros((2, head, width)) for _ in range(4))
    look[0, :keys, key] = match * np.eye(keys)
    has[0, :keys, key] = np.eye(keys)
    gives[0, :values, value] = np.eye(values)
    takes[:, :values, copy] = np.eye(values)
    puts = np.zeros((2, width, head))  # of layer 1 by its first head; of layer 2 by both
    puts[0, copy, :values] = np.eye(values)
    answers = np.zeros((2, width, head))
    answers[0, value, :values] = -strength(n) * np.eye(values)
    answers[1, value, :values] = np.eye(values)
    reads = np.zeros((keys + values, width))  # v_l's score: what layer 2 wrote, and half of B times layer 1's average
    reads[value, value] = np.eye(values)
    reads[value, copy] = strength(n) / 2 * np.eye(values)
    return {"look": look, "keys": has, "gives": gives, "puts": puts, "takes": takes, "answers": answers, "reads": reads}
