"""The measures of a layer in ResFormer's paper: token importance and its entropy, value spectra, token similarity.

Eqn. (11), mended.  The importance of a token is what it gets of all queries' attention: the column mean
    a_j = (1/l) sum_i A_ij,     sum_j a_j = 1,     e = -sum_j a_j log a_j.
Printed is (1/l) sum_j A_ij, a row sum: 1/l for every token and every A, and so e = log l whatever the attention does.
And e is low where attention is concentrated on a few tokens, as the caption of Fig. 1 has it; the sentence below the
equation has it the wrong way round.

What e is compared with.  e = log l needs equal column means.  With a causal mask, where row i has i entries, attention
only to oneself has them; uniform attention has not: a_j = (H_l - H_{j-1}) / l, H the harmonic numbers, and
    log l - e -> 1 - gamma = 0.4228 nats                         as l grows, gamma Euler's constant.
So a causal layer that cannot concentrate less than it does is 0.42 below the largest value; a change of that size, or
between lengths, says nothing of concentration.
Proof.  a_j l = -log(j / l) + O(1/j), so log l - e tends to the integral of x log x e^{-x}, Gamma'(2) = 1 - gamma.  QED

Lengths.  If the first token has a share p of the importance, whatever the length, and the rest is spread evenly,
    e = -p log p - (1 - p) log ((1 - p) / (l - 1)),
which grows by (1 - p) log 2 a doubling, as log (l - 1) does by log 2.  So two models of shares p > p' differ by
(p - p') log (l - 1) and a constant, the more the longer the text.

Eqn. (13).  With unit vectors u_i = h_i / |h_i|, sum_{i != j} u_i u_j = |sum u_i|^2 - l, so that the average similarity
costs l d and not l^2 d.
"""

from __future__ import annotations

import numpy as np

from theory.errors import BadInput, at_least
from theory.prompts.moments import Array


def token_importance(attention: Array) -> Array:
    """Return a, (tokens,): column means of row-stochastic weights, (queries, tokens)."""
    return np.asarray(attention.mean(axis=0))


def entropy(importance: Array) -> float:
    """Return -sum a' log a' in nats, a' = a / sum a (section 4.1.3, Eqn. (11)).

    Raises BadInput for no distribution.
    """
    total = importance.sum()
    if not (total > 0 and np.all(importance >= 0)):
        raise BadInput("an entropy needs weights that are not negative and not all zero")
    shares = importance[importance > 0] / total
    return float(-(shares * np.log(shares)).sum()) + 0.0


def uniform_causal_importance(tokens: int) -> Array:
    """Return (H_l - H_{j-1}) / l for j = 1, ..., l: the tokens' importance under uniform causal attention."""
    at_least("tokens", tokens, 1)
    harmonic = np.cumsum((1 / np.arange(1.0, tokens + 1))[::-1])[::-1]
    return np.asarray(harmonic / tokens)


def value_spectrum(values: Array) -> Array:
    """Return the eigenvalues of (1/l) sum v_i v_i^T, not centred, the largest first; section 4.1.4, Eqn. (12).

    values: (tokens, width), to (width,).
    """
    singular = np.linalg.svd(values, compute_uv=False)
    eigenvalues = np.zeros(values.shape[1])
    eigenvalues[: len(singular)] = singular**2 / len(values)
    return eigenvalues


def token_similarity(states: Array) -> float:
    """Return the mean cosine of two different tokens' states, (tokens, width).  Appendix A.1, Eqn. (13).

    Raises BadInput for fewer than two tokens and for a state of length zero.
    """
    lengths = np.linalg.norm(states, axis=1, keepdims=True)
    if len(states) < 2 or not np.all(lengths > 0):
        raise BadInput("a similarity needs two tokens or more, none of length zero")
    tokens = len(states)
    summed = (states / lengths).sum(axis=0)
    return float((summed @ summed - tokens) / (tokens * (tokens - 1)))
