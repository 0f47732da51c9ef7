"""Depth rules as matrices: ranks in exact arithmetic, the smallest stream by running it, averages of streams."""

from fractions import Fraction

import numpy as np
import sympy
from hypothesis import given
from hypothesis import strategies as st

from tests.theory.attnres.written_out import config_of, plan_of
from theory.attnres import mixing
from theory.plans.accounting import depth_reads
from theory.plans.depth import DepthAttention, Residual

numbers = st.fractions(-3, 3, max_denominator=4)


def reads_of(layers, depth):
    return depth_reads(config_of(layers), plan_of(layers, depth))


def rank_of(layers, depth):
    return mixing.greatest_rank(config_of(layers), plan_of(layers, depth))


RULES = [
    Residual(),
    *(DepthAttention(block=b) for b in (1, 2, 3, 5, 40)),
    *(DepthAttention(window=w) for w in (1, 2, 5)),
]


@given(st.sampled_from(RULES), st.integers(1, 3), st.data())
def test_no_weights_have_a_larger_rank(depth, layers, data):
    reads = reads_of(layers, depth)
    matrix = mixing.mixing_matrix(reads, [[data.draw(numbers) for _ in sources] for sources in reads])
    assert mixing.semiseparable_rank(matrix) <= rank_of(layers, depth)


@given(st.integers(1, 7), st.data())
def test_rank_of_a_block_is_sympy_s(n, data):
    matrix = [[data.draw(st.integers(-1, 1)) if i <= r else 0 for i in range(n)] for r in range(n)]
    expected = [sympy.Matrix(matrix)[t:, : t + 1].rank() for t in range(n)]
    assert mixing.state_sizes(matrix) == expected
    assert max(expected) <= (n + 1) // 2


@given(st.integers(1, 6), st.integers(0, 99))
def test_state_of_that_size_makes_all_reads(n, seed):
    """(1) of the docstring, run: what is kept is C_t^+ of the reads to come, never more than rank H_t vectors."""
    rng = np.random.default_rng(seed)
    rank = int(rng.integers(1, n + 1))
    whole = rng.integers(-3, 4, (n, rank)) @ rng.integers(-3, 4, (rank, n))
    matrix = np.tril(whole).astype(float)
    outputs, state, basis = rng.standard_normal((n, 3)), np.zeros((0, 3)), np.zeros((n + 1, 0))
    for t, size in enumerate(mixing.state_sizes([[Fraction(int(x)) for x in row] for row in matrix])):
        pending = basis[1:] @ state + np.outer(matrix[t:, t], outputs[t])
        basis = np.linalg.svd(matrix[t:, : t + 1])[0][:, :size]
        state = basis.T @ pending
        assert len(state) == size
        assert np.allclose((basis @ state)[0], (matrix @ outputs)[t])


def softmax_matrix(queries, keys):
    """Rows of exp <w_r, k_i>, i <= r."""
    return np.tril(np.exp(queries @ keys.T))


def ranks(matrix):
    return max(np.linalg.matrix_rank(matrix[t:, : t + 1]) for t in range(len(matrix)))


def test_logits_of_rank_one_have_full_rank_and_normed_numbers_rank_two():
    n = 7
    angles = np.linspace(0.1, 3, n)
    queries = np.outer(np.arange(n), [1.0, 0])
    circle = np.sqrt(2) * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    assert ranks(softmax_matrix(queries, circle)) == (n + 1) // 2
    signs = np.where(np.arange(n) % 2, 1.0, -1.0)[:, None]
    assert ranks(softmax_matrix(queries[:, :1], signs)) == 2
    assert ranks(softmax_matrix(0 * queries, circle)) == 1


@given(st.integers(1, 5), st.data())
def test_averages_of_streams_make_every_mixing_matrix(n, data):
    """M from A by the recursion of DenseFormer; A back from M by the formula."""
    averages = [[data.draw(numbers) for _ in range(r + 1)] for r in range(n)]
    matrix = sympy.Matrix(mixing.of_averages(averages))
    a = sympy.Matrix(n, n, lambda r, i: averages[r][i] if i <= r else 0)
    shift = sympy.Matrix(n, n, lambda r, i: int(r == i + 1))
    assert matrix == (sympy.eye(n) - a * shift).inv() * a
    assert a == matrix * (sympy.eye(n) + shift * matrix).inv()
    assert matrix[0, 0] == a[0, 0]
