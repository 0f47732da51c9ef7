"""The cost of a set of converted heads in nats, to second order, with bounds of what that leaves out.

Setting.  A context has scores z in R^V (logits), p = softmax(z), and the loss of a label c is log sum exp z - z_c, in
nats.  Conversion of cell s, a head of a layer, changes scores by D_s in R^V, and of a set S of cells by D_S, the sum of
their D_s: scores that are linear in what is converted (5 has others).  Labels have the law q given the context.
Expectations are over contexts.

    g_s  = E[(p - q)^T D_s]                          `slopes`: the loss's derivative
    Q_st = E[D_s^T (diag p - p p^T) D_t]             `gram`: the Gram matrix of Fisher scores
    predicted(S) = sum_S g + 1/2 1_S^T Q 1_S         `predicted`

1. Scores of samples.  With a label c drawn from the model itself, q = p, cell s has the Fisher score
phi_s = D_s[c] - p^T D_s: minus the derivative of the loss.  Its mean is 0, so g = 0 in expectation, and Q_st is the
mean of phi_s phi_t.  One cell costs 1/2 E phi_s^2.  With text for labels g need not vanish: it is zero for a model
whose p are the text's conditional frequencies.

2. The exact cost.  It is sum_S g + E KL(p || p_S), p_S = softmax(z + D_S), whatever the labels' law is.
    Proof.  log sum exp(z + D) - log sum exp z - q^T D = (p - q)^T D + [log sum p_v exp(D_v) - p^T D], and the bracket
is KL(p || p_S).                                                                                                     QED

3. Remainder (`remainder_bound`, `curvature`).  Let w bound the spread of D_S, its largest entry minus its least, in all
contexts.  Then
    |cost - predicted| <= w^3 / (36 sqrt 3),
    (e^-w + w - 1) / w^2  <=  (cost - sum_S g) / (1_S^T Q 1_S)  <=  (e^w - w - 1) / w^2,
where both bounds are 1/2 at w = 0.  No larger lower and no smaller upper factor will do.
    Proof.  Along z + x D_S, 0 <= x <= 1, the second derivative K(x) of the loss is the variance of D_S under
softmax(z + x D_S), and the third its third central moment.  Of a variable in an interval of length w the latter is at
most w^3 / (6 sqrt 3): for a given mean its maximum is at two points, of which one is an end; if both are, it is
p (1 - p)(1 - 2 p) w^3, largest at p = (1 - 1 / sqrt 3) / 2; if one is not, at most 2 w^3 / 27, which is less.  Taylor's
theorem gives the first line.  As |X - EX| <= w the third central moment is at most w times the variance, so
|K'| <= w K and K(0) e^{-w x} <= K(x) <= K(0) e^{w x}; cost - sum g is the integral of (1 - x) K(x).  Two symbols whose
scores change by 0 and w attain the bounds in the limits p -> 0 and p -> 1 of the second one.                      QED

4. Sums over heads (`additive`, `overlap`, `overlap_bounds`).  The additive cost leaves the cross terms out:
sum_S (g_s + Q_ss / 2).  With g = 0,
    0  <=  predicted(S)  <=  |S| additive(S),
both attained: by scores that cancel, and by |S| equal ones.  If no correlation of scores |Q_st| / sqrt(Q_ss Q_tt)
exceeds r in size, the factors are 1 -+ (|S| - 1) r in place of 0 and |S|.
    Proof.  predicted(S) = 1/2 E (sum phi)^2, and Cauchy-Schwarz.  For r: |Q_st| <= r (Q_ss + Q_tt) / 2.          QED

5. Scores that are not linear (`curved_bound`).  Let z(x) be the scores with a share x of the change, D = z'(0), and let
the second derivative's spread over symbols be at most k on 0 <= x <= 1.  Then the cost differs from that of linear
scores by k / 2 at most.  The Hessian of the expected loss over labels from the model is still Q at x = 0.
    Proof.  z(1) = z(0) + D + R, R the mean of z'' weighted by 1 - x, whose spread is at most k / 2.  A change R of the
scores changes the loss by log sum p_v e^{R_v} - R_c, which lies within the spread of R.  The Hessian has the further
term (p - q)^T z'', and its mean over q = p is 0.                                                                   QED

6. Choice (`greedy`, `best_set`, `greedy_trap`).  Of all sets of m cells, the one with the least predicted cost is found
by taking, m times, the cell that adds least, if all Q_st with s != t are equal, in particular if the scores are
orthogonal: then the cost is a sum over cells plus a number that depends on m alone.  Else greedy choice can be wrong by
any factor: three cells with scores e, K, -K and 0 < e < K, m = 2, where the last two cost nothing together and greedy
takes the first.  If correlations are at most r in size and g = 0, the m cells of least Q_ss cost at most
(1 + (m - 1) r) / (1 - (m - 1) r) times as much as the best m, for (m - 1) r < 1; and if no Q_st is negative, at most m
times.
    Proof.  Let B be the best m and A those of least Q_ss, so additive(A) <= additive(B); insert 4.  If no Q_st is
negative, additive(B) <= predicted(B).                                                                               QED
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import combinations
from math import sqrt

import numpy as np

from theory.errors import BadInput, at_least
from theory.reading.refit import Array


def softmax(scores: Array) -> Array:
    """Return probabilities over the last axis."""
    probabilities: Array = np.exp(scores - np.logaddexp.reduce(scores, axis=-1, keepdims=True))
    return probabilities


def fisher_scores(scores: Array, changes: Array) -> Array:
    """Return phi_s for every label, (contexts, cells, V): the change of the label's score minus the mean change.

    Args:
        scores: z, (contexts, V).
        changes: D_s, (contexts, cells, V).
    """
    return changes - np.einsum("cv,csv->cs", softmax(scores), changes)[..., None]


def gram(scores: Array, changes: Array) -> Array:
    """Return Q, (cells, cells), in nats, a mean over contexts; arguments as those of `fisher_scores`."""
    phi = fisher_scores(scores, changes)
    return np.einsum("cv,csv,ctv->st", softmax(scores), phi, phi) / len(scores)


def slopes(scores: Array, changes: Array, labels: Array) -> Array:
    """Return g, (cells,), in nats, a mean over contexts.

    Args:
        scores: z, (contexts, V).
        changes: D_s, (contexts, cells, V).
        labels: q, the labels' probabilities, (contexts, V).
    """
    return np.einsum("cv,csv->s", softmax(scores) - labels, changes) / len(scores)


def predicted(slope: Array, matrix: Array, chosen: Collection[int]) -> float:
    """Return the cost of a set to second order, in nats.

    Args:
        slope: g, (cells,).
        matrix: Q, (cells, cells).
        chosen: The cells, from 0.
    """
    cells = sorted(chosen)
    return float(slope[cells].sum() + matrix[np.ix_(cells, cells)].sum() / 2)


def additive(slope: Array, matrix: Array, chosen: Collection[int]) -> float:
    """Return the sum of the costs of a set's cells, in nats; arguments as those of `predicted`."""
    cells = sorted(chosen)
    return float(slope[cells].sum() + matrix[cells, cells].sum() / 2)


def spread(changes: Array, chosen: Collection[int]) -> float:
    """Return w, the largest spread over symbols of a set's changes (contexts, cells, V), in all contexts."""
    total = changes[:, sorted(chosen)].sum(1)
    return float((total.max(-1) - total.min(-1)).max())


def remainder_bound(width: float) -> float:
    """Return w^3 / (36 sqrt 3), in nats, for changes of scores with this spread."""
    return width**3 / (36 * sqrt(3))


def curvature(width: float) -> tuple[float, float]:
    """Return the least and the largest factor of 1^T Q 1 in the cost, for changes of scores with this spread.

    They are the integrals of (1 - x) e^(-w x) and (1 - x) e^(w x), confluent hypergeometric functions.
    """
    from scipy.special import hyp1f1

    return float(hyp1f1(1, 3, -width)) / 2, float(hyp1f1(1, 3, width)) / 2


def curved_bound(bend: float) -> float:
    """Return k / 2, in nats, by which scores that are not linear change the cost; k the spread of their bend."""
    return bend / 2


def overlap(matrix: Array) -> float:
    """Return r, the largest correlation of two cells' scores in size; cells without any count as 0."""
    sizes = np.sqrt(np.outer(matrix.diagonal(), matrix.diagonal()))
    apart = np.where(np.eye(len(matrix), dtype=bool), 0, np.abs(matrix))
    return float(np.divide(apart, sizes, out=np.zeros_like(sizes), where=sizes > 0).max())


def overlap_bounds(cells: int, correlation: float) -> tuple[float, float]:
    """Return the least and the largest ratio of a set's predicted cost to its additive one, without slopes.

    Args:
        cells: |S|.
        correlation: r, from 0 to 1.

    Raises:
        BadInput: The correlation lies outside [0, 1].
        InvalidSize: There are no cells.
    """
    at_least("cells", cells, 1)
    if not 0 <= correlation <= 1:
        raise BadInput(f"a correlation in size is from 0 to 1, got {correlation}")
    off = (cells - 1) * correlation
    return max(0.0, 1 - off), 1 + off


def greedy(slope: Array, matrix: Array, count: int) -> tuple[int, ...]:
    """Return the cells taken one after another, each the one that adds least; arguments as those of `best_set`."""
    _check_count(slope, count)
    chosen: list[int] = []
    for _ in range(count):
        adds = slope + matrix.diagonal() / 2 + matrix[:, chosen].sum(1)
        adds[chosen] = np.inf
        chosen.append(int(adds.argmin()))
    return tuple(chosen)


def best_set(slope: Array, matrix: Array, count: int) -> tuple[int, ...]:
    """Return the set with the least predicted cost, by trying all of them.

    Args:
        slope: g, (cells,).
        matrix: Q, (cells, cells).
        count: m, how many cells are taken.

    Raises:
        InvalidSize: There are not so many cells.
    """
    _check_count(slope, count)
    sets = combinations(range(len(slope)), count)
    return min(sets, key=lambda cells: predicted(slope, matrix, cells))


def greedy_trap(small: float, large: float) -> Array:
    """Return Q of three cells, scores e, K and -K, of which greedy takes the first: (3, 3)."""
    scores = np.array([small, large, -large])
    return np.outer(scores, scores)


def _check_count(slope: Array, count: int) -> None:
    at_least("count", count, 0)
    if count > len(slope):
        raise BadInput(f"of {len(slope)} cells {count} cannot be taken")
