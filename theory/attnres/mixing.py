"""Depth rules as matrices: the reads that they can make of the outputs, and the memory that this takes.

For given weights, reads h_0 .. h_{n-1} (the last one feeds the head) are M times outputs v_0 .. v_{n-1}, v_0 being
the embedding.  M is lower triangular, as output r comes after read r - 1.  Its *semiseparable rank* is the largest
rank of a block on and below the diagonal, H_t = M[t:, :t + 1]: what outputs up to t do to reads from t on.

1. State.  The fewest vectors from which, once v_t is there, all later reads can be made linearly is rank H_t, at every
   t at once: the semiseparable rank is the width of the smallest stream that does for M.
   Proof.  With the later outputs zero, the reads from t on are H_t (v_0 .. v_t), and factor through what is kept.  And
   let H_t = C_t B_t with rank H_t columns, and keep s_t = B_t (v_0 .. v_t).  Then H_{t+1} (v_0 .. v_{t+1}) is the rows
   of C_t s_t but the first, plus a multiple of v_{t+1} each, and from it C_{t+1} gives s_{t+1} back.             QED
   The *rank* of M says nothing: with a nonzero diagonal it is n, a residual stream's too.

2. Sources (`greatest_rank`).  In H_t two outputs have one column if every read from t on has both in one source or sees
   neither.  So rank H_t <= min(n - t, columns that differ), whatever weights, static or not, and:
       residual stream         1
       Full                    floor((n + 1) / 2), the largest that a lower-triangular n by n matrix can have
       Block, S sublayers      max_t min(n - t, 1 + ceil(t / S)): one more than there are blocks, or less
       window of W             max_t min(n - t, 1 + min(t, W)): the embedding and W more, or less
   It is attained by positive weights x_r^(a_i), x_r > 0 growing with the read and a_i with the source, as every minor
   of (x_r^(a_i)) is positive (for a window, where n > 2 W: the W newest columns are a triangle, and read t + W sees
   none of them; shorter ones are only checked).  Dividing rows by their sums, as a softmax does, changes no rank.

3. Logits of rank one are enough.  <w_r, k_i> = r c_i has weights (e^(c_i))^r, a Vandermonde matrix: of full rank if no
   two keys have one c_i.  Where keys are normed with eps = 0 that takes d >= 2: at d = 1 they are all + or - the gain,
   so at most two columns of weights differ, and the semiseparable rank is at most 2.  In general it is at most the
   number of different keys, and of different queries.  At zero queries it is 1.

4. DenseFormer.  Its sources are streams, X_n = Y_{n-1} + o_n after each layer, o_n what the layer adds.  With S the
   shift by one, Y = A X and X = S Y + O make Y = M O, M = (I - A S)^-1 A: a one-to-one map of the lower-triangular A
   onto the lower-triangular M (A = M (I + S M)^-1; I - A S and I + S M have ones on their diagonals); and
   A_00 = 1 if and only if M_00 = 1.  So averages of streams make the very M that weights on outputs make, of any sign
   and size; a softmax makes those that are positive with rows that sum to one.

Where the weights do not depend on what comes later, the state of (1) can be kept: depth attention's queries are
parameters, so when v_i is there, its weight exp(<w_r, k_i>) in every later read r is known
(`theory.attnres.two_phase`, 3).

The paper (section 6.2) calls Full's M of rank L and Block's of an effective rank from N to N + S, which is the
residual stream at N = 1.  Semiseparable ranks, of which it speaks there, are half of the first, and never above N + 1;
one block has two sources, the embedding and its sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from theory.errors import BadInput, InvalidSize, at_least
from theory.plans.accounting import depth_reads
from theory.plans.architecture import Architecture, misfits
from theory.plans.plan import DepthAverage, Plan
from theory.prompts.setting import Number

Matrix = list[list[Fraction]]


def mixing_matrix(reads: Sequence[Sequence[range]], weights: Sequence[Sequence[Number]]) -> Matrix:
    """Return M, (n, n), from the sources of every read and their weights; exact.

    The sources are those of `theory.plans.accounting.depth_reads`.  Raises BadInput where the numbers of weights and
    sources differ.
    """
    matrix = []
    for sources, row in zip(reads, weights, strict=True):
        if len(sources) != len(row):
            raise BadInput(f"a read of {len(sources)} sources needs as many weights, got {len(row)}")
        of = [Fraction(0)] * len(reads)
        for source, weight in zip(sources, row, strict=True):
            for output in source:
                of[output] = Fraction(weight)
        matrix.append(of)
    return matrix


def powers(reads: Sequence[Sequence[range]]) -> list[list[Fraction]]:
    """Return positive weights with rows that sum to one, for (2).

    They are 2^(r a), divided by their sum, a being a source's first output.
    """
    rows = [[Fraction(2) ** (r * source.start) for source in sources] for r, sources in enumerate(reads)]
    return [[weight / sum(row) for weight in row] for row in rows]


def state_sizes(matrix: Sequence[Sequence[Number]]) -> list[int]:
    """Return rank H_t for every t: the fewest vectors, once output t exists, that give all later reads; exact.

    Raises InvalidSize unless the matrix is square, BadInput unless it is lower triangular.
    """
    n = len(matrix)
    at_least("reads", n, 1)
    if any(len(row) != n for row in matrix):
        raise InvalidSize("a mixing matrix has as many outputs as reads")
    if any(entry for r, row in enumerate(matrix) for entry in row[r + 1 :]):
        raise BadInput("a read cannot have outputs that come after it")
    return [_rank([row[: t + 1] for row in matrix[t:]]) for t in range(n)]


def semiseparable_rank(matrix: Sequence[Sequence[Number]]) -> int:
    """Return the largest rank of a block on and below the diagonal; exact.  Raises as `state_sizes` does."""
    return max(state_sizes(matrix))


def greatest_rank(config: Architecture, plan: Plan) -> int:
    """Return the largest semiseparable rank that a depth rule's weights can give its reads, the last included (2).

    Raises BadInput for a plan that does not fit, and for DenseFormer, whose reads are averages of streams: see
    `of_averages`.
    """
    for misfit in misfits(config, plan):
        raise BadInput(misfit)
    if isinstance(plan.depth, DepthAverage):
        raise BadInput("DenseFormer weighs streams, not outputs")
    reads = depth_reads(config, plan)
    seen = [{output: source.start for source in sources for output in source} for sources in reads]

    def columns(t: int) -> int:
        kinds = {tuple(row.get(output) for row in seen[t:]) for output in range(t + 1)}
        return sum(any(source is not None for source in kind) for kind in kinds)

    return max(min(len(reads) - t, columns(t)) for t in range(len(reads)))


def of_averages(averages: Sequence[Sequence[Number]]) -> Matrix:
    """Return M for DenseFormer's weights A, both lower triangular (4); exact.

    M maps what layers add to what is read after them.  averages: row n has the weights of X_0 .. X_n in Y_n.  Raises
    InvalidSize for rows of other lengths.
    """
    matrix: Matrix = []
    streams: Matrix = []  # X_n in terms of what layers add
    for n, row in enumerate(averages):
        if len(row) != n + 1:
            raise InvalidSize(f"row {n} of averages has {n + 1} weights, got {len(row)}")
        stream = list(matrix[-1]) if matrix else [Fraction(0)] * len(averages)
        stream[n] += 1
        streams.append(stream)
        matrix.append(
            [
                sum((Fraction(a) * x[i] for a, x in zip(row, streams, strict=True)), Fraction(0))
                for i in range(len(averages))
            ]
        )
    return matrix


def _rank(rows: Sequence[Sequence[Number]]) -> int:
    left = [[Fraction(x) for x in row] for row in rows]
    rank = 0
    for column in range(len(left[0])):
        pivot = next((row for row in left[rank:] if row[column]), None)
        if pivot is None:
            continue
        left.remove(pivot)
        left.insert(rank, pivot)
        rank += 1
        for row in left[rank:]:
            factor = row[column] / pivot[column]
            row[:] = [x - factor * p for x, p in zip(row, pivot, strict=True)]
        if rank == len(left):
            break
    return rank
