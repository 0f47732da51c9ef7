"""Every closed form of theory.moments equals the pairing engine's polynomial, in n, sigma and all entries of W0."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from theory.isserlis import PromptEngine
from theory.moments import PromptMoments, signal_variance, wishart_sandwich
from theory.sizes import InvalidSize


def both(d):
    engine = PromptEngine(d)
    moments = PromptMoments(d, engine.n, engine.sigma, np.array(engine.w0, dtype=object))
    names = [("x", i) for i in range(d)] + [("y", i) for i in range(d)]

    def entry(p, q):
        (a, i), (b, j) = names[p], names[q]
        return a + b, i, j

    return engine, moments, entry


def unit(shape, at):
    m = np.zeros(shape, dtype=object)
    m[at] = 1
    return m


@pytest.mark.parametrize(("d", "every"), [(1, 1), (2, 1), (3, 3), pytest.param(3, 1, marks=pytest.mark.slow)])
def test_sandwich_is_exact(d, every):
    """All entries of E[S M S] for every so many matrix units M."""
    engine, moments, s = both(d)
    size = range(2 * d)
    for k, m in [(k, m) for k in size for m in size][::every]:
        closed = moments.sandwich(unit((2 * d, 2 * d), (k, m)))
        for i in size:
            for j in size:
                assert engine.expect(s(i, k), s(m, j)) == closed[i, j], (d, k, m, i, j)


@pytest.mark.parametrize("d", [1, 2, 3])
def test_targets_are_exact(d):
    engine, moments, s = both(d)
    for k in range(d):
        for m in range(2 * d):
            left = moments.target_left(unit((d, 2 * d), (k, m)))
            right = moments.target_right(unit((2 * d, d), (m, k)))
            for i in range(d):
                for j in range(2 * d):
                    assert engine.expect(("w", i, k), s(m, j)) == left[i, j]
                    assert engine.expect(s(j, m), ("w", k, i)) == right[j, i]


@pytest.mark.parametrize("d", [1, 2])
def test_signal_variance_is_exact_and_entries_uncorrelated(d):
    engine, _, _ = both(d)
    at_zero = [(g, 0) for row in engine.w0 for g in row]
    cells = [(i, j) for i in range(d) for j in range(d)]
    for first in cells:
        for second in cells:
            moment = engine.expect(("yx", *first), ("yx", *second)).evaluate(at_zero)
            for n, sigma in ((1, 0), (4, 3)):
                expected = signal_variance(d, n, sigma) if first == second else 0
                assert moment.evaluate([(g, v) for g, v in zip(moment.ring.gens, (n, sigma), strict=False)]) == expected


@given(st.integers(1, 6), st.integers(1, 9), st.integers(0, 999))
def test_sandwich_contains_the_wishart_one(d, n, seed):
    """The x-x block sees only S_xx: E[S_xx M S_xx] with covariance I."""
    rng = np.random.default_rng(seed)
    m = np.zeros((2 * d, 2 * d))
    m[:d, :d] = rng.standard_normal((d, d))
    block = PromptMoments(d, n, 0.7, rng.standard_normal((d, d))).sandwich(m)[:d, :d]
    np.testing.assert_allclose(
        block, wishart_sandwich(m[:d, :d], np.eye(d), n), rtol=0, atol=1e-12 * np.abs(block).max()
    )


@given(st.integers(1, 5), st.integers(0, 999))
def test_batches_are_elementwise(d, seed):
    rng = np.random.default_rng(seed)
    moments = PromptMoments(d, 3, 0.4, rng.standard_normal((d, d)))
    m = rng.standard_normal((2, 3, 2 * d, 2 * d))
    np.testing.assert_allclose(moments.sandwich(m)[1, 2], moments.sandwich(m[1, 2]), rtol=1e-12)


@pytest.mark.parametrize("bad", [(0, 1, 0.0), (2, 0, 0.0), (2, 1, -1.0), (2, 1, float("nan")), (2, 1.5, 0.0)])
def test_bad_sizes_are_refused(bad):
    with pytest.raises(InvalidSize):
        PromptMoments(*bad)


def test_w0_of_the_wrong_shape_is_refused():
    with pytest.raises(ValueError, match="W0 must be 2 x 2"):
        PromptMoments(2, 3, 0.1, np.eye(3))
