"""What raw keys under copied values are worth: bounds at random and at other widths, and what has none."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from theory.errors import InvalidSize
from theory.plans.combine import combine
from theory.plans.heads import MHA, ORDINARY, Head, toy_heads
from theory.plans.names import resolve
from theory.plans.plan import Shape, k, plan
from theory.prompts.moments import PromptMoments
from theory.prompts.setting import signal_share, zero_loss
from theory.toy.exact import odd_map
from theory.toy.minimise import minimise
from theory.toy.population import PopulationLoss, Weights
from theory.toy.raw_keys import key_kinds, raw_key_bounds
from theory.toy.raw_keys_weights import (
    realignment,
    residual_key_heads,
    residual_key_weights,
    shared_key_heads,
)
from theory.toy.value_maps import closed_form, explained_entry_bounds, optimum
from theory.toy.width import explained_share_at_width, most_entries_at_width

RAW_BOTH = Head(copied=0, raw=1, key_copied=0, key_raw=1)
sizes = st.integers(1, 5).flatmap(lambda d: st.tuples(st.just(d), st.integers(0, d)))


@given(sizes, st.integers(1, 4), st.integers(0, 4), st.integers(0, 10**6))
def test_no_weights_go_below_the_bounds(size, shared, ordinary, seed):
    """Random weights with the best readout, at random scales of A, B and K."""
    d, rank = size
    rng = np.random.default_rng(seed)
    heads = shared_key_heads(shared) + (ORDINARY,) * ordinary + residual_key_heads(2)
    scale = 10.0 ** rng.uniform(-1, 2, 3)
    a, b = scale[0] * rng.standard_normal((rank, d)), scale[1] * rng.standard_normal((d - rank, d))
    loss = PopulationLoss(PromptMoments(d, 3, 0.4), heads)
    weights = Weights(a, b, np.zeros((loss.readouts, d, d)), scale[2] * rng.standard_normal((loss.keys, d, rank)))
    explained = zero_loss(d, 3, 0.4) - loss.value(loss.best_readout(weights))
    assert explained <= signal_share(d, 3, 0.4) * raw_key_bounds(heads, d, rank)[1] + 1e-7 * zero_loss(d, 3, 0.4)


@given(st.integers(1, 4), st.integers(0, 10**6))
def test_realigning_takes_the_identity_to_the_identity_and_keeps_the_norm(d, seed):
    eye = np.einsum("ik,jl->ijkl", np.eye(d), np.eye(d))
    np.testing.assert_array_equal(realignment(eye), np.eye(d * d))
    left, right = np.random.default_rng(seed).standard_normal((2, d, d))
    read = np.einsum("il,kj->ijkl", left, right)  # Z -> L Z^T R
    z = np.arange(d * d, dtype=float).reshape(d, d)
    np.testing.assert_allclose(np.einsum("ijkl,kl->ij", read, z), left @ z.T @ right, atol=1e-9)
    assert np.linalg.matrix_rank(realignment(read)) == 1
    np.testing.assert_allclose(np.linalg.norm(realignment(read)), np.linalg.norm(read))


@pytest.mark.long
def test_the_open_case():
    """One head with keys of both kinds, rank 2 of 3: of the two entries that are left possible, the lower is found."""
    assert raw_key_bounds(residual_key_heads(1), 3, 2) == (2, 3)
    assert entries_by_descent(residual_key_heads(1), 2) == pytest.approx(2, abs=1e-3)


def entries_by_descent(heads, rank):
    """Entries of W* that exact minimisation explains, d = 3."""
    task = (3, 6, 0.5)
    lowest = minimise(PopulationLoss(PromptMoments(*task), heads), rank, starts=16).value
    return (zero_loss(*task) - lowest) / signal_share(*task)


def test_bounds():
    assert raw_key_bounds(shared_key_heads(2), 4, 3) == (2, 2)
    assert raw_key_bounds(shared_key_heads(20), 4, 3) == (12, 12)
    assert raw_key_bounds(shared_key_heads(2), 4, 0) == (0, 0)
    assert raw_key_bounds(MHA, 5, 2) == (6, 6)
    assert raw_key_bounds((RAW_BOTH,), 5, 2) == (0, 0)
    assert raw_key_bounds((ORDINARY, *shared_key_heads(1)), 4, 3) == (4, 4)  # MHA's three and one more
    assert raw_key_bounds(residual_key_heads(2), 4, 2) == (6, 6)
    assert raw_key_bounds(residual_key_heads(2), 4, 3) == (4, 5)
    assert raw_key_bounds(residual_key_heads(3), 4, 3) == (6, 6)
    assert raw_key_bounds(residual_key_heads(2), 4, 4) == (2, 2)
    assert raw_key_bounds(residual_key_heads(2), 4, 4, rows=4) == (16, 16)
    assert raw_key_bounds(shared_key_heads(2), 4, 4, rows=4) == (2, 2)


def test_heads_that_share_matrices_are_one_reader():
    one_key = tuple(Head(1, 0, 0, 1, key="k") for _ in range(3))
    assert key_kinds(one_key) == [{True}]
    assert key_kinds(residual_key_heads(2)) == [{False, True}, {False, True}]
    crossed = tuple(Head(1, 0, 0, 1, readout=w, key=key) for w in "ab" for key in "cd")
    assert key_kinds(crossed) is None
    assert raw_key_bounds(crossed, 3, 1) is None
    assert explained_entry_bounds(crossed, 3, 1) == (0, 3)
    assert key_kinds((Head(1, 0, 0.5, 0.5),)) is None


@pytest.mark.parametrize("seed", range(3))
def test_one_reader_sees_one_direction(seed):
    """Three heads with one K read no more than one head does."""
    rng = np.random.default_rng(seed)
    heads = tuple(Head(1, 0, 0, 1, key="k") for _ in range(3))
    shapes = ((2, 3), (1, 3), (3, 3, 3), (1, 3, 2))
    w = Weights(*(rng.standard_normal(shape) for shape in shapes))
    assert np.linalg.matrix_rank(realignment(odd_map(w, heads).reshape(3, 3, 3, 3))) == 1


def test_named_plans():
    at = {name: optimum(resolve(name, Shape(2, 2)), 4, 8, 0.3, 2) for name in ("shared-keys", "skipv1-yoco", "yoco-k")}
    rho = signal_share(4, 8, 0.3)
    assert [o.explained / rho for o in at.values()] == pytest.approx([2, 1, 2])
    assert [o.attained for o in at.values()] == [False, None, False]
    raw_query = combine(resolve("shared-keys", Shape(2, 3)), resolve("shared-queries", Shape(2, 3)))
    assert optimum(raw_query, 4, 8, 0.3, 2).explained / rho == pytest.approx(3)


def test_widths():
    shared, residual = (toy_heads(resolve(name, Shape(2, 3))) for name in ("shared-keys", "residual-keys"))
    assert [most_entries_at_width(shared, 4, width) for width in (4, 6, 8, 20)] == [3] * 4
    assert [most_entries_at_width(residual, 4, width) for width in (4, 6, 8, 20)] == [7, 12, 16, 16]
    assert explained_share_at_width(resolve("shared-keys", Shape(2, 3)), 4, 8, 0.3, 4) == pytest.approx(
        3 / 16 * signal_share(4, 8, 0.3)
    )


def test_heads_that_bind_each_other_have_no_closed_form():
    """Two heads over both of layer 1's keys: their K are sums of the same two."""
    bound = plan(Shape(2, 2), keys=lambda n, h: k(1, 1) + k(1, 2))
    assert closed_form(bound, 4, 8, 0.3, 2) is None
    assert explained_share_at_width(bound, 4, 8, 0.3, 4) is None


def test_constructions_refuse_what_they_cannot_do():
    for rank, heads in ((0, 1), (3, 1), (2, 1)):
        with pytest.raises(InvalidSize, match="0 < rank < d and readers"):
            residual_key_weights(3, 4, 0.5, rank, heads, 0.1)


@pytest.mark.parametrize(
    ("d", "a", "b", "heads"), [(4, 3, 3, 2), (4, 2, 3, 1), (3, 2, 2, 2), (3, 3, 2, 3), (4, 2, 2, 2)]
)
def test_residual_keys_at_other_widths(d, a, b, heads):
    """Tokens of a + b numbers, x_t and raw y_t in the first d of them: the proof's weights, over 40,000 prompts."""
    n, sigma, s, prompts = 6, 0.3, 0.003, 40_000
    rng = np.random.default_rng(0)
    x = rng.standard_normal((prompts, d, n))
    target = rng.standard_normal((prompts, d, d))
    y = target @ x + sigma * rng.standard_normal((prompts, d, n))
    width, alpha, beta, step = a + b, 1 / s, 1 / s**2, 1 / (n + d + 1 + sigma**2)
    kappa, paired = step / (s * alpha**2), min(a, b)
    eye, copy, read_in = np.eye(d), np.zeros((width, d)), np.eye(width, d)
    label = np.zeros((b, d))
    label[:paired] = beta * eye[:paired]
    for i in range(min(paired, d - a)):
        label[i, a + i] = 1
    blind = np.linalg.svd(label[:paired])[2][paired:]
    label[paired:] = beta * blind[: b - paired]
    blind = blind[b - paired :]
    copy[:a, :a] = alpha * np.eye(a)
    columns = [(0, 0), *((0, m) for m in range(b, a))]
    columns += [(i, j) for i in range(d - b) for j in range(a) if (i, j) not in columns]
    readouts, copied, raw = (np.zeros((heads, *shape)) for shape in ((d, width), (width, a), (width, a)))
    for h, (i, j) in enumerate(columns[:heads]):
        readouts[h, :, j] = step * blind[i] / alpha
        raw[h, :d, j] = blind[i] / alpha
    for h, m in enumerate(range(b, a), 1):
        copied[h, 0, m] = -kappa
    readouts[0, :, a:] = s * np.linalg.pinv(label)
    copied[0, :a] = kappa * np.eye(a)
    copied[0, a : a + paired] = (1 + alpha**2) * kappa / beta * np.eye(paired, a)
    raw[0, :d] -= label.T @ copied[0, a:]
    tokens = np.concatenate([copy[:a] @ x, label @ y], axis=1)
    seen = read_in @ (x @ x.mT) @ read_in.T
    predicted = sum(
        w @ ((seen + tokens @ tokens.mT) @ c + (seen + tokens @ (read_in @ y).mT) @ r) @ copy[:a]
        for w, c, r in zip(readouts, copied, raw, strict=True)
    )
    gained = (target**2).sum((1, 2)) - ((predicted - target) ** 2).sum((1, 2))
    least, most = raw_key_bounds(residual_key_heads(heads), d, a, b)
    one = signal_share(d, n, sigma)
    assert least == most == a * b + min(heads, a * (d - b))
    stderr = gained.std() / prompts**0.5
    assert abs(gained.mean() - one * most) < 4 * stderr + 0.02 * one
    assert gained.mean() - one * (most - 1) > 4 * stderr
