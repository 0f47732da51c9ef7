"""Mean squares of hidden states by depth in the linear-attention toy on in-context regression, exactly, without norms.

Setting.  `theory.toy.deep`: tokens (x_t ; y_t), t <= n, and a query (x ; 0); queries and keys of every layer read the x
slot, values read the y slot and outputs write it; all attend over the n context tokens; data as in
`theory.prompts.regression`.  The depth rule is a matrix A that does not look at contents
(`theory.attnres.coefficients`: a residual stream, averages, Full and Block at zero queries).  Only the embedding has an
x slot, so what layer l + 1 reads is (c_l x_t ; Y_l), c_l = A_l0, and it adds, B_l being its d x d weights,
    v_{l+1} = (0 ; -c_l^2 B_{l+1} Y_l X^T X)   to the context,      (0 ; -c_l^2 B_{l+1} Y_l X^T x)   to the query:
queries, keys and values are all read, so a rule that divides its sum by k divides a layer's output by k^3.

Gradient steps, B_l = beta_l I (`descent_reads`).  By induction Y_l = Y P_l(X^T X) and the query's y slot is
S_yx R_l(S_xx) x, with p_0 = 1, P_l = sum_i A_li p_i, and
    p_{l+1} = -beta_{l+1} c_l^2 s P_l,   r_{l+1} = -beta_{l+1} c_l^2 P_l,   R_l = sum_{i >= 1} A_li r_i.
Where A_li = a_l for all i, P_l = a_l prod_{i < l} (1 - beta_{i+1} a_i^3 s).

Random weights, B_l of independent entries N(0, beta_l^2 / d) (`random_reads`).  v_i and v_j, i != j, are uncorrelated,
as the later of them has mean 0 given the rest, and E ||B M||^2 = beta^2 ||M||^2.  So the squares of P_l and R_l, on
average over weights, are Q_l = sum_i A_li^2 q_i and U_l = sum_{i >= 1} A_li^2 u_i, q_0 = 1,
    q_{l+1} = beta_{l+1}^2 c_l^4 s^2 Q_l,   u_{l+1} = beta_{l+1}^2 c_l^4 Q_l.

Mean squares (`mean_squares`).  With s_1, ..., s_d the eigenvalues of S_xx, Y = W* X + N and rows of W* and N isotropic,
    context, all tokens   c^2 n d + d E sum_i s_i Q(s_i) + d sigma^2 [E sum_i Q(s_i) + (n - d) Q(0)],
    query                 c^2 d + d E sum_i s_i^2 U(s_i) + d sigma^2 E sum_i s_i U(s_i),
as the n eigenvalues of X^T X are those of S_xx, with n - d zeros more or less.  Sums of powers of s_i have means that
are whole numbers (`theory.prompts.regression.trace_moments`): with rational weights the answer is a Fraction.

Depth.  Gradient steps of one size beta > 0.
    Residual: E ||h_l||^2 grows faster than every geometric sequence, however small beta is: with positive probability
    some eigenvalue is above (1 + R) / beta, where (1 - beta s)^2l >= R^2l.  (Prompts like that are rare: the median may
    fall all the while.)
    Full at zero queries, a_l = 1 / (l + 1): the sum of outputs is bounded in mean square whatever the depth, and h_l
    falls as 1 / l.  For log prod |1 - beta s / i^3| <= sum log(1 + beta s / i^3) <= int_0^inf log(1 + beta s / t^3) dt
    = (2 pi / sqrt 3) (beta s)^(1/3), and exp of a multiple of s^(1/3) has a mean, as the density of s is at most
    e^(-s/2) times a polynomial.  Block with S layers per block repeats every a_i at most S times: S times the exponent.
    A fixed number of blocks: a_l >= 1 / (N + 1), so the sum grows as a residual stream's with steps between beta and
    beta / (N + 1)^3, and h_l too.
So here AttnRes does keep magnitudes bounded without a norm, at the start, by hardly moving: its total step is
beta (1 + 1/8 + 1/27 + ...) = 1.2 beta, whatever the depth.  What queries can do once they have moved is in
`theory.attnres.unnormed`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from theory.attnres.coefficients import Matrix
from theory.errors import BadInput
from theory.prompts.regression import trace_moments
from theory.prompts.setting import Number, Setting

Polynomial = tuple[Any, ...]  # of an eigenvalue s: coefficients, ascending


@dataclass(frozen=True)
class Read:
    """One read: c, what it holds of x; Q and U, the squares of its y slot's polynomials on average over weights."""

    x_share: Any
    context: Polynomial
    query: Polynomial


@dataclass(frozen=True)
class MeanSquares:
    """The mean E ||h||^2 of a read, for a context token (their average) and for the query; both slots together."""

    context: Any
    query: Any


def descent_reads(matrix: Matrix, steps: Sequence[Number]) -> list[Read]:
    """Return the reads of layers with B_l = steps[l - 1] I under the depth rule `matrix`.

    Raises BadInput if their numbers differ.
    """
    *rows, last = _checked(matrix, steps)
    outputs: list[Polynomial] = [(1,)]
    answers: list[Polynomial] = [(0,)]
    reads = []
    for row, step in zip([*rows, last], [*steps, 0], strict=True):
        p = _combined(row, outputs)
        reads.append(Read(row[0], _squared(p), _squared(_combined(row, answers))))
        factor = -step * row[0] ** 2
        outputs.append((0, *(factor * c for c in p)))
        answers.append(tuple(factor * c for c in p))
    return reads


def random_reads(matrix: Matrix, deviations: Sequence[Number]) -> list[Read]:
    """Return the reads of layers whose B_l has independent entries N(0, deviations[l - 1]^2 / d).

    As `descent_reads` otherwise.
    """
    *rows, last = _checked(matrix, deviations)
    outputs: list[Polynomial] = [(1,)]
    answers: list[Polynomial] = [(0,)]
    reads = []
    for row, deviation in zip([*rows, last], [*deviations, 0], strict=True):
        squares = [a**2 for a in row]
        q = _combined(squares, outputs)
        reads.append(Read(row[0], q, _combined(squares, answers)))
        factor = deviation**2 * row[0] ** 4
        outputs.append((0, 0, *(factor * c for c in q)))
        answers.append(tuple(factor * c for c in q))
    return reads


def mean_squares(setting: Setting, read: Read) -> MeanSquares:
    """Return the mean squares of a read over prompts too; exact for rational weights and sigma."""
    d, n, noise = setting.d, setting.n, setting.sigma**2
    traces = trace_moments(d, n, max(len(read.context), len(read.query) + 1))

    def mean(polynomial: Polynomial, shift: int) -> Any:
        """Return E sum_i s_i^shift polynomial(s_i)."""
        return sum(c * traces[power] for power, c in enumerate(polynomial, shift))

    y = mean(read.context, 1) + noise * (mean(read.context, 0) + (n - d) * read.context[0])
    answer = mean(read.query, 2) + noise * mean(read.query, 1)
    x = read.x_share**2 * d
    return MeanSquares(context=x + d * y / n, query=x + d * answer)


def _checked(matrix: Matrix, weights: Sequence[Number]) -> Matrix:
    if len(matrix) != len(weights) + 1 or any(len(row) != i for i, row in enumerate(matrix, 1)):
        raise BadInput(f"{len(weights)} layers need a lower triangular matrix of {len(weights) + 1} reads")
    return matrix


def _combined(weights: Sequence[Any], polynomials: Sequence[Polynomial]) -> Polynomial:
    length = max(map(len, polynomials))
    padded = [(*p, *[0] * (length - len(p))) for p in polynomials]
    return tuple(sum(w * c for w, c in zip(weights, column, strict=True)) for column in zip(*padded, strict=True))


def _squared(p: Polynomial) -> Polynomial:
    out: list[Any] = [0] * (2 * len(p) - 1)
    for i, a in enumerate(p):
        for j, b in enumerate(p):
            out[i + j] += a * b
    return tuple(out)
