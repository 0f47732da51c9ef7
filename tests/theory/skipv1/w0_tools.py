"""Exact tools for the tests around W0 != 0: rational orthogonal matrices, and the best linear use of what is seen.

Nothing of these knows a closed form: only that P is linear in the entries of the second-moment matrix M of (x ; y), and
`PromptMoments.sandwich`, which the tests hold against the pairing engine.
"""

from fractions import Fraction

import numpy as np
from hypothesis import strategies as st

from theory.plans.heads import ORDINARY, SKIP
from theory.toy.population import PopulationLoss, Weights


def exact(array):
    return np.asarray(array).astype(object) * Fraction(1)


@st.composite
def orthogonal(draw, d):
    """A product of two rational reflections."""
    whole = exact(np.eye(d, dtype=int))
    for _ in range(2):
        v = exact(np.array(draw(st.lists(st.integers(-3, 3), min_size=d, max_size=d).filter(any))))
        whole = whole - np.outer(2 * v, v @ whole) / (v @ v)
    return whole


@st.composite
def decomposed(draw, d, top=4, rank=None):
    """U diag(s) V^T, in fractions: (U, s in decreasing order, V)."""
    s = sorted(draw(st.lists(st.integers(0, top), min_size=d, max_size=d)), reverse=True)
    if rank is not None:
        s = [max(x, 1) if i < rank else 0 for i, x in enumerate(s)]
    return draw(orthogonal(d)), exact(np.array(s)), draw(orthogonal(d))


def whole_numbers(draw, *shape, bound=3):
    size = int(np.prod(shape))
    entries = draw(st.lists(st.integers(-bound, bound), min_size=size, max_size=size))
    return exact(np.array(entries, dtype=int).reshape(shape))


def power(moments):
    """E M_pq M_rs as a symmetric matrix on vec M: (4 d^2, 4 d^2)."""
    both = 2 * moments.d
    units = exact(np.eye(both * both, dtype=int)).reshape(both, both, both, both)
    return moments.sandwich(units).transpose(2, 0, 1, 3).reshape(both**2, both**2)  # [(p, q), (r, s)], by M = e_q e_r^T


def target(moments):
    """E W*_kl M_pq: (d, d, 4 d^2)."""
    d, both = moments.d, 2 * moments.d
    units = exact(np.eye(d * both, dtype=int)).reshape(d, both, d, both)
    return moments.target_left(units).transpose(2, 0, 1, 3).reshape(d, d, both**2)


def loss_of_map(moments, p_map):
    """E||P - W*||^2 + d sigma^2 for P_ij = sum p_map[i, j, p, q] M_pq."""
    rows = p_map.reshape(*p_map.shape[:2], -1)
    square = ((rows.reshape(-1, rows.shape[-1]) @ power(moments)) * rows.reshape(-1, rows.shape[-1])).sum()
    return square - 2 * (rows * target(moments)).sum() + moments.prior_power + moments.d * moments.sigma**2


def grams(a, b, kinds):
    """All entries of the G's as linear maps of vec M: (kinds * d^2, 4 d^2).

    Of "ordinary" and "skip" heads, and of "raw" ones, whose values and keys are raw.
    """
    rank, d = a.shape
    zero = 0 * exact(np.eye(d, dtype=int))
    i_x, i_y = (exact(np.eye(d, 2 * d, shift, dtype=int)) for shift in (0, d))
    u = np.concatenate([np.concatenate([a, zero[:rank]], axis=1), np.concatenate([zero[rank:], b], axis=1)])
    rows = []
    for kind in kinds:
        value, key = u if kind == "ordinary" else i_y, i_y if kind == "raw" else u
        for i in range(d):
            for j in range(d):
                rows.append((np.outer(i_x[i], i_x[j]) + np.outer(value[i], key[j])).ravel())
    return np.array(rows)


def best_loss(moments, a, b, kinds, query=None):
    """The lowest loss over all P = F(G, ...) A, F linear; A of full rank.  Least squares in fractions.

    By Gram and Schmidt over the entries seen: E||W* - P||^2 falls, for each new orthogonal entry g, by
    sum over the target's entries of E[target g]^2 / E g^2, the target being W* projected on the rows of A.

    query: of full rank, in the place of the A that the query is multiplied with
    """
    second, cross = power(moments), target(moments)
    query = a if query is None else query
    inverse = solve(query @ query.T, query)  # (A A^T)^-1 A
    explained, basis = 0, []
    for g in grams(a, b, kinds):
        rest = g
        for old, image, size in basis:
            rest = rest - (g @ image) / size * old
        image = second @ rest
        size = rest @ image
        if not size:
            continue
        basis.append((rest, image, size))
        seen = cross @ rest  # E W* g: (d, d)
        explained += ((seen @ query.T) * (seen @ inverse.T)).sum() / size
    return moments.zero_loss - explained


def solve(matrix, right):
    """Gauss and Jordan in fractions, for a regular matrix."""
    size = len(matrix)
    rows = np.concatenate([exact(matrix), exact(right)], axis=1)
    for at in range(size):
        pivot = next(i for i in range(at, size) if rows[i, at])
        rows[[at, pivot]] = rows[[pivot, at]]
        rows[at] = rows[at] / rows[at, at]
        for i in range(size):
            if i != at:
                rows[i] = rows[i] - rows[i, at] * rows[at]
    return rows[:, size:]


def in_span(vectors, basis):
    """Whether every row of `vectors` is a combination of rows of `basis`, symmetric in the two indices of M."""
    pivots = []
    for row in basis:
        rest = _reduced(row, pivots)
        at = next((i for i, x in enumerate(rest) if x), None)
        if at is not None:
            pivots.append((at, rest / rest[at]))
    return not any(_reduced(row, pivots).any() for row in vectors)


def symmetrised(rows):
    both = round(rows.shape[-1] ** 0.5)
    square = rows.reshape(-1, both, both)
    return (square + square.swapaxes(1, 2)).reshape(len(square), -1)


def check_random_weights(gap, moments, rank, *, count, seed):
    """Check that random A, B and K of `count` heads of a kind, with the best readouts for them, pass no bound of a gap.

    These may be so large that the loss is what is left of terms as large as their squares times those of random ones.
    """
    d, rng = moments.d, np.random.default_rng(seed)
    for heads, least in (((ORDINARY,) * count, gap.mha), ((ORDINARY,) * count + (SKIP,) * count, gap.skipv1)):
        loss = PopulationLoss(moments, heads)
        shapes = ((rank, d), (d - rank, d), (len(heads), d, d), (len(heads), d, rank))
        weights = Weights(*(rng.standard_normal(shape) for shape in shapes))
        best = loss.best_readout(weights)
        size = loss.zero_loss + loss.value(weights) * (best.w**2).max()
        assert loss.value(best) >= float(least) - 8 * len(heads) * d * np.finfo(float).eps * size


def _reduced(row, pivots):
    for at, pivot in pivots:
        row = row - row[at] * pivot
    return row
