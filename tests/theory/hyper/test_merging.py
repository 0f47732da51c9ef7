"""How streams become one: the second singular value, bounds on differences, and on what tells outputs apart."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.theory.hyper.test_streams import permuted
from theory.errors import BadInput, InvalidSize
from theory.hyper.merging import least_shrinking, shrinking, spread_bound, toward_mean
from theory.hyper.streams import Sublayer, rows

EXACT = 1e-10
seeds = st.integers(0, 2**16)


def floats(sublayers):
    return [Sublayer(s.read.astype(float), s.mix.astype(float), s.write.astype(float)) for s in sublayers]


@given(st.integers(1, 6), seeds)
def test_shrinking_is_the_second_singular_value(n, seed):
    (sublayer,) = floats(permuted(n, 1, seed))
    values = np.linalg.svd(sublayer.mix, compute_uv=False)
    assert values[0] == pytest.approx(1)
    second = values[1] if n > 1 else 0.0
    assert shrinking(sublayer.mix) == pytest.approx(second, abs=1e-7)
    assert shrinking(sublayer.mix) <= least_shrinking(sublayer.mix) + EXACT


@given(st.integers(2, 6), st.floats(0, 1))
def test_toward_mean_shrinks_all_differences_alike(n, share):
    mix = toward_mean(n, share)
    assert mix.sum(0) == pytest.approx(np.ones(n))
    assert mix.sum(1) == pytest.approx(np.ones(n))
    assert shrinking(mix) == pytest.approx(share, abs=EXACT)
    assert least_shrinking(mix) == pytest.approx(share, abs=EXACT)
    assert mix @ (np.eye(n)[0] - np.eye(n)[1]) == pytest.approx(share * (np.eye(n)[0] - np.eye(n)[1]))


def test_toward_mean_is_exact():
    assert toward_mean(3, Fraction(1, 2)).tolist() == [
        [Fraction(2, 3) if i == j else Fraction(1, 6) for j in range(3)] for i in range(3)
    ]
    assert toward_mean(1, Fraction(1, 3)).tolist() == [[1]]


@given(st.integers(1, 5), st.integers(0, 5), st.integers(1, 3), seeds)
def test_differences_keep_within_their_bound(n, count, d, seed):
    rng = np.random.default_rng(seed)
    sublayers = floats(permuted(n, count, seed))
    outputs = rng.standard_normal((count, d))
    streams = np.tile(rng.standard_normal(d), (n, 1))
    for sublayer, output in zip(sublayers, outputs, strict=True):
        streams = sublayer.mix @ streams + np.outer(sublayer.write, output)
    bound = spread_bound(sublayers, [float(np.linalg.norm(v)) for v in outputs])
    assert np.linalg.norm(streams - streams.mean(0)) <= bound * (1 + EXACT) + EXACT


@given(st.integers(2, 5), st.integers(1, 5), seeds)
def test_what_tells_outputs_apart_fades(n, count, seed):
    sublayers = floats(permuted(n, count, seed))
    last = np.random.default_rng(seed).standard_normal(n)
    row = rows(sublayers, last)[-1]
    for j, sublayer in enumerate(sublayers, 1):
        kept = np.prod([shrinking(s.mix) for s in sublayers[j:]])
        sizes = np.linalg.norm(last - last.mean()) * np.linalg.norm(sublayer.write - sublayer.write.mean())
        assert abs(row[j] - last.sum() * sublayer.write.mean()) <= kept * sizes + EXACT


def test_bad_input():
    with pytest.raises(InvalidSize):
        toward_mean(0, 0.5)
    for share in (-0.1, 1.1, float("nan")):
        with pytest.raises(BadInput):
            toward_mean(2, share)
    with pytest.raises(BadInput):
        spread_bound([], [1.0])
