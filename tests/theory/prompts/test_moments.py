"""Closed forms of theory.prompts.moments are the pairing engine's polynomials, or sums over every prompt."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.theory.laws import LIKE_NORMAL, SIGNS, SKEW, SPIKED, excess, grid
from theory.errors import BadInput, InvalidSize
from theory.prompts import moments
from theory.prompts.isserlis import PromptEngine
from theory.prompts.moments import PromptMoments
from theory.prompts.wishart import wishart_sandwich


def both(d, general=False):
    engine = PromptEngine(d, general=general)
    matrices = (engine.w0, engine.covariance, engine.prior_rows, engine.prior_columns)
    w0, covariance, rows, columns = (np.array(m, dtype=object) for m in matrices)
    moments = (
        PromptMoments(d, engine.n, engine.sigma, w0, covariance=covariance, prior_rows=rows, prior_columns=columns)
        if general
        else PromptMoments(d, engine.n, engine.sigma, w0)
    )
    names = [("x", i) for i in range(d)] + [("y", i) for i in range(d)]

    def entry(p, q):
        (a, i), (b, j) = names[p], names[q]
        return a + b, i, j

    return engine, moments, entry


def unit(shape, at):
    m = np.zeros(shape, dtype=object)
    m[at] = 1
    return m


@pytest.mark.parametrize("general", [False, True])
@pytest.mark.parametrize("every", [3, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.long
def test_sandwich_is_exact(every, general):
    """All entries of E[S M S] for every so many matrix units M."""
    d = 3
    engine, moments, s = both(d, general)
    size = range(2 * d)
    for k, m in [(k, m) for k in size for m in size][::every]:
        closed = moments.sandwich(unit((2 * d, 2 * d), (k, m)))
        for i in size:
            for j in size:
                assert engine.expect(s(i, k), s(m, j)) == closed[i, j], (d, k, m, i, j)


@pytest.mark.parametrize("general", [False, True])
def test_targets_are_exact(general):
    d = 3
    engine, moments, s = both(d, general)
    for k in range(d):
        for m in range(2 * d):
            left = moments.target_left(unit((d, 2 * d), (k, m)))
            right = moments.target_right(unit((2 * d, d), (m, k)))
            for i in range(d):
                for j in range(2 * d):
                    assert engine.expect(("w", i, k), s(m, j)) == left[i, j]
                    assert engine.expect(s(j, m), ("w", k, i)) == right[j, i]


def enumerated(laws, root, w0, rows, columns, n):
    """E[S_pq S_rs] and E[W*_ij S_pq] over all x = root @ xi, W* = W0 + rows D columns and noise (sigma = 1).

    The entries of D and of the noise take five values and have the moments of normal ones up to order 5.
    """
    d = len(w0)
    xi, x_weights = grid(laws * n)
    entries, d_weights = grid([LIKE_NORMAL] * d**2)
    noise, noise_weights = grid([LIKE_NORMAL] * (d * n))
    w = w0 + rows @ entries.reshape(-1, d, d) @ columns
    x = root @ xi.reshape(-1, n, d).swapaxes(1, 2)
    y = w[None, :, None] @ x[:, None, None] + noise.reshape(-1, d, n)
    z = np.concatenate([np.broadcast_to(x[:, None, None], y.shape), y], axis=-2)
    weights = x_weights[:, None, None] * d_weights[:, None] * noise_weights
    s, of_w = (z @ z.swapaxes(-1, -2)).reshape(-1, 2 * d, 2 * d), np.broadcast_to(w[:, None], (*weights.shape, d, d))
    weighted = s * weights.reshape(-1, 1, 1)
    both = weighted.reshape(len(s), -1).T @ s.reshape(len(s), -1)
    with_w = of_w.reshape(len(s), -1).T @ weighted.reshape(len(s), -1)
    return both.reshape((2 * d,) * 4), with_w.reshape(d, d, 2 * d, 2 * d)


@pytest.mark.parametrize(
    ("laws", "n"),
    [([SIGNS], 1), ([SIGNS], 3), ([SKEW], 2), ([SPIKED], 3), ([SIGNS, SPIKED], 1), ([SKEW, SKEW], 1)],
)
def test_other_inputs_by_enumeration(laws, n):
    """All entries of all three moments, for inputs, W* and noise that run through every value they take."""
    d = len(laws)
    rng = np.random.default_rng(d + n)
    root = np.array([[1.5, 0.5], [0.5, 1.0]])[:d, :d]
    w0, rows, columns = rng.integers(-2, 3, (3, d, d)).astype(float)
    both, with_w = enumerated(laws, root, w0, rows, columns, n)
    moments = PromptMoments(
        d,
        n,
        1.0,
        w0,
        covariance=root @ root,
        prior_rows=rows @ rows.T,
        prior_columns=columns.T @ columns,
        kurtosis=np.array([float(excess(law)) for law in laws]),
    )
    m, q = rng.standard_normal((2 * d, 2 * d)), rng.standard_normal((d, 2 * d))
    for result, exact in (
        (moments.sandwich(m), np.einsum("pqrs,qr->ps", both, m)),
        (moments.target_left(q), np.einsum("ijqr,jq->ir", with_w, q)),
        (moments.target_right(q.T), np.einsum("jipq,qj->pi", with_w, q.T)),
    ):
        np.testing.assert_allclose(result, exact, rtol=0, atol=1e-12 * np.abs(exact).max())


def test_normal_inputs_have_no_excess_kurtosis():
    rng = np.random.default_rng(0)
    w0, m = rng.standard_normal((3, 3)), rng.standard_normal((6, 6))
    plain, zero, signs = (
        PromptMoments(3, 4, 0.5, w0, kurtosis=k).sandwich(m) for k in (None, np.zeros(3), np.full(3, -2.0))
    )
    np.testing.assert_allclose(zero, plain, rtol=1e-13)
    assert np.abs(signs - plain).max() > 0.01 * np.abs(plain).max()


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


@given(st.integers(1, 5), st.booleans(), st.integers(0, 999))
def test_one_matrix_gives_what_the_formulas_give(d, normal, seed):
    rng = np.random.default_rng(seed)
    root = rng.standard_normal((d, d))
    kurtosis = None if normal else rng.uniform(-2, 2, d)
    of = PromptMoments(d, 3, 0.4, rng.standard_normal((d, d)), covariance=root @ root.T + np.eye(d), kurtosis=kurtosis)
    shapes = {"sandwich": (2 * d, 2 * d), "target_left": (d, 2 * d), "target_right": (2 * d, d)}
    for name, shape in shapes.items():
        m = rng.standard_normal((2, 3, *shape))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(moments, "DENSE", 0)
            expected = getattr(of, name)(m)
        found = getattr(of, name)(m)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12 * np.abs(expected).max())
        assert not np.array_equal(found, getattr(of, name)(2 * m))


@given(st.integers(1, 5), st.integers(0, 999))
def test_batches_are_elementwise(d, seed):
    rng = np.random.default_rng(seed)
    of = PromptMoments(d, 3, 0.4, rng.standard_normal((d, d)))
    m = rng.standard_normal((2, 3, 2 * d, 2 * d))
    alone = of.sandwich(m[1, 2])
    np.testing.assert_allclose(of.sandwich(m)[1, 2], alone, rtol=0, atol=1e-13 * np.abs(alone).max())


@pytest.mark.parametrize("bad", [(0, 1, 0.0), (2, 0, 0.0), (2, 1, -1.0), (2, 1, float("nan")), (2, 1.5, 0.0)])
def test_bad_sizes_are_refused(bad):
    with pytest.raises(InvalidSize):
        PromptMoments(*bad)


@pytest.mark.parametrize("name", ["covariance", "prior_rows", "prior_columns"])
@pytest.mark.parametrize("matrix", [np.eye(3), np.ones(2), [[1, 2], [0, 1]], [[1, 2], [2, 1]], np.eye(2) * np.nan])
def test_what_is_no_covariance_is_refused(name, matrix):
    with pytest.raises(BadInput, match=r"must be a symmetric 2 x 2 matrix|finite and have no negative"):
        PromptMoments(2, 3, 0.1, **{name: matrix})


def test_what_is_no_kurtosis_is_refused():
    for kurtosis in (np.zeros(3), [-2.1, 0.0], [0.0, np.nan], [0.0, np.inf], ["a", "b"], 0.0):
        with pytest.raises(BadInput, match="the excess kurtosis must be 2 numbers from -2"):
            PromptMoments(2, 3, 0.1, kurtosis=kurtosis)
    exact = np.eye(2, dtype=object)
    PromptMoments(2, 3, 1, kurtosis=np.array([1, 1], dtype=object))
    with pytest.raises(BadInput, match="needs its root"):
        PromptMoments(2, 3, 1, covariance=exact, kurtosis=[0, 0])


def test_w0_of_the_wrong_shape_is_refused():
    with pytest.raises(BadInput, match="W0 must be 2 x 2"):
        PromptMoments(2, 3, 0.1, np.eye(3))


@given(st.integers(1, 4), st.booleans(), st.integers(0, 999))
def test_centred_moments_are_about_the_means(d, normal, seed):
    """E[(S - E S) M (S - E S)] and E[(W* - W0) Q (S - E S)], with E S from the moments of one number."""
    rng = np.random.default_rng(seed)
    kurtosis = None if normal else rng.uniform(-2, 2, d)
    w0, n, sigma = rng.standard_normal((d, d)), 3, 0.4
    plain, centred = (PromptMoments(d, n, sigma, w0, kurtosis=kurtosis, centred=c) for c in (False, True))
    lift = np.concatenate([np.eye(d), w0])
    mean = n * (lift @ lift.T + np.diag([0.0] * d + [d + sigma**2] * d))
    m, left, right = (rng.standard_normal(shape) for shape in ((2 * d, 2 * d), (d, 2 * d), (2 * d, d)))
    expected = {
        "sandwich": (m, mean @ m @ mean),
        "target_left": (left, w0 @ left @ mean),
        "target_right": (right, mean @ right @ w0),
    }
    for name, (q, of_means) in expected.items():
        whole = getattr(plain, name)(q)
        np.testing.assert_allclose(
            getattr(centred, name)(q), whole - of_means, rtol=0, atol=1e-12 * np.abs(whole).max()
        )
    assert plain.zero_loss - centred.zero_loss == pytest.approx((w0**2).sum(), rel=1e-12)


@pytest.mark.parametrize("entry", [np.nan, np.inf, -np.inf, 1e300, "a", 1j])
def test_w0_that_is_no_finite_matrix_is_refused(entry):
    with pytest.raises(BadInput, match="W0 must be 2 x 2"):
        PromptMoments(2, 3, 0.1, [[entry, 0], [0, 1]])


def test_ragged_rows_are_refused():
    with pytest.raises(BadInput, match="rows of one length"):
        PromptMoments(2, 3, 0.1, [[1, 2], [3]])


@pytest.mark.parametrize("d", [10**6, 10**9])
def test_a_task_beyond_memory_is_refused_with_its_size(d):
    with pytest.raises(
        InvalidSize, match=r"a task of d = 10+ needs about [\d.,e+]+ GB of memory, and this machine has"
    ):
        PromptMoments(d, 3, 0.1)
