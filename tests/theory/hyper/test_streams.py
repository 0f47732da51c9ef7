"""Streams as a matrix over depth, against the recursion written out, bounds, and what stochastic mixing keeps."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from theory.errors import BadInput, InvalidSize
from theory.hyper.streams import Sublayer, grown, largest, mean_row, rows, start, typical_mean

EXACT = 1e-10
sizes = st.tuples(st.integers(1, 5), st.integers(0, 6), st.integers(1, 4))  # streams, sublayers, width
seeds = st.integers(0, 2**16)


def random_sublayers(n, count, seed):
    rng = np.random.default_rng(seed)
    return [Sublayer(*(rng.standard_normal(shape) for shape in (n, (n, n), n))) for _ in range(count)]


def permuted(n, count, seed):
    """Mixtures of two permutations, in fractions: doubly stochastic."""
    rng = np.random.default_rng(seed)
    one = np.vectorize(Fraction, otypes=[object])(np.eye(n, dtype=int))
    for _ in range(count):
        share = Fraction(int(rng.integers(0, 8)), 7)
        read, write = (np.vectorize(Fraction, otypes=[object])(rng.integers(-3, 4, n)) for _ in range(2))
        yield Sublayer(read, share * one[rng.permutation(n)] + (1 - share) * one[rng.permutation(n)], write)


@given(sizes, seeds)
def test_rows_are_what_the_recursion_holds(size, seed):
    n, count, d = size
    rng = np.random.default_rng(seed)
    sublayers, outputs = random_sublayers(n, count, seed), rng.standard_normal((count + 1, d))
    last = rng.standard_normal(n)
    streams = np.array([outputs[0]] * n)
    found = rows(sublayers, last)
    assert [len(row) for row in found] == [*range(1, count + 2)]
    for sublayer, output, row in zip(sublayers, outputs[1:], found, strict=False):
        assert np.allclose(sublayer.read @ streams, row @ outputs[: len(row)], rtol=EXACT, atol=EXACT)
        streams = sublayer.mix @ streams + sublayer.write[:, None] * output
    assert np.allclose(last @ streams, found[-1] @ outputs, rtol=EXACT, atol=EXACT)


@given(st.integers(1, 6), st.integers(0, 2**16))
def test_no_outputs_make_a_read_larger(count, seed):
    rng = np.random.default_rng(seed)
    row, lengths, d = rng.standard_normal(count), rng.exponential(1, count), 3
    outputs = rng.standard_normal((count, d))
    outputs *= (lengths / np.linalg.norm(outputs, axis=1))[:, None]
    bound = largest(row, list(lengths))
    assert np.linalg.norm(row @ outputs) <= bound * (1 + EXACT)
    assert abs(row @ (np.sign(row) * lengths)) == pytest.approx(bound)


@given(sizes, seeds, st.fractions(0, 2, max_denominator=9))
def test_no_stream_is_longer_than_grown(size, seed, q):
    n, count, d = size
    rng = np.random.default_rng(seed)
    streams = np.tile(np.eye(d)[0], (n, 1))
    for step in range(count + 1):
        bound = float(grown(q, step, embedding=Fraction(1), output=Fraction(1, 2)))
        assert np.linalg.norm(streams, axis=1).max() <= bound * (1 + EXACT)
        mix = rng.standard_normal((n, n))
        mix *= float(q) / abs(mix).sum(1, keepdims=True)
        output = rng.standard_normal(d)
        output /= 2 * np.linalg.norm(output)
        streams = mix @ streams + np.outer(rng.uniform(-1, 1, n), output)


@given(st.integers(1, 5), st.integers(0, 7))
def test_the_start_is_a_residual_stream(n, count):
    sublayers = start(n, count)
    found = rows(sublayers, np.ones(n, dtype=int))
    assert all((row == 1).all() for row in found[:-1])
    assert (found[-1] == n).all()
    assert [int(s.read.argmax()) for s in sublayers] == [i % n for i in range(count)]


@given(st.integers(1, 5), st.integers(0, 5), seeds)
def test_the_mean_stream_does_not_see_the_mixing(n, count, seed):
    sublayers = list(permuted(n, count, seed))
    mean = np.vectorize(Fraction, otypes=[object])(np.ones(n, dtype=int)) / n
    assert (rows(sublayers, mean)[-1] == mean_row(sublayers)).all()


def test_reads_of_single_streams_see_whether_the_mixing_is_applied():
    """Public codes computed H X and returned X: no bound and no mean would have told them."""
    swap = np.array([[0, 1], [1, 0]])
    first, both = np.array([1, 0]), np.array([1, 1])
    sublayers = [Sublayer(first, swap, first), Sublayer(first, swap, both)]
    forgotten = [Sublayer(s.read, np.eye(2, dtype=int), s.write) for s in sublayers]
    found = [[row.tolist() for row in rows(weights, first)] for weights in (sublayers, forgotten)]
    assert found[0] == [[1], [1, 1], [1, 0, 1]]
    assert found[1] == [[1], [1, 1], [1, 1, 1]]
    assert mean_row(sublayers).tolist() == mean_row(forgotten).tolist() == [1, 0.5, 1]


@pytest.mark.parametrize("off", [0, Fraction(1, 3)])
def test_typical_mean_of_one_stream_is_its_mean_square(off):
    expected = grown(1 + off**2, 5, embedding=2, output=3)
    assert typical_mean(off, 5, streams=1, embedding=2, output=3) == expected
    residual = 2 + 5 * 3
    assert typical_mean(off, 5, streams=4, embedding=2, output=3) - residual == (expected - residual) * Fraction(1, 4)


def test_bad_input():
    one, three = np.ones(2), np.ones(3)
    with pytest.raises(BadInput):
        Sublayer(one, np.eye(3), one)
    with pytest.raises(BadInput):
        Sublayer(one, np.eye(2), three)
    with pytest.raises(BadInput):
        rows([Sublayer(one, np.eye(2), one)], three)
    with pytest.raises(BadInput):
        largest(one, [1.0])
    with pytest.raises(InvalidSize):
        grown(1, -1, embedding=1, output=1)
    with pytest.raises(InvalidSize):
        start(0, 2)
    with pytest.raises(InvalidSize):
        start(2, -1)
    with pytest.raises(InvalidSize):
        typical_mean(1, 2, streams=0, embedding=1, output=1)
