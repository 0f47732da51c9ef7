"""The toy as the paper writes it equals the reduced form that the theory uses, over all sizes."""

import pytest
import torch
from hypothesis import given

from icl.prompts import Generator, Prompts, RegressionTask
from icl.testing import check_identity, tasks, toy_cases
from icl.toys.literal import SecondLayer, Toy, assumed_copy, linear_attention, toy_output
from theory.errors import InvalidSize
from theory.plans.heads import MHA, SKIPV1


def reduced_prediction(prompts, case, w, k):
    """P(D) x_{n+1} = sum_h W^h G^h K^h A x_{n+1}, by second moments."""
    d = case.task.d
    s = prompts.second_moment()
    u = torch.zeros(d, 2 * d, dtype=s.dtype)
    u[: case.rank, :d], u[case.rank :, d:] = case.a, case.b
    total = 0
    for h, head in enumerate(case.heads):
        gram = (head.copied + head.raw) * s[:, :d, :d] + (head.copied * u @ s + head.raw * s[:, d:, :]) @ u.mT
        total = total + w[h] @ gram @ k[h] @ case.a
    return (total @ prompts.query[..., None])[..., 0], total


def size_of(case, w, k):
    """The largest intermediate: product of the norms along P."""
    moment = case.prompts.second_moment().norm()
    u = 1 + case.a.norm() ** 2 + case.b.norm() ** 2
    mix = max(1.0, *(abs(h.copied) + abs(h.raw) for h in case.heads))
    return float(w.norm() * k.norm() * moment * u * mix * (1 + case.a.norm()) * case.prompts.query.norm())


@given(toy_cases())
def test_toy_is_the_reduced_form(case):
    expected, _ = reduced_prediction(case.prompts, case, case.w, case.k)
    toy = Toy(case.a, case.b, case.w, case.k, case.heads)
    got = toy(case.prompts.tokens()).detach()
    check_identity(got, expected, terms=4 * case.task.n, scale=1 + size_of(case, case.w, case.k))


@given(toy_cases())
def test_paper_weights_reduce(case):
    """Any W_Q, W_K, W_V and H: `SecondLayer.reduced` gives the W^h and K^h of the same function."""
    d, heads = case.task.d, len(case.heads)
    numbers = Generator(case.task.n, 5)
    w_q, w_k, w_v, readout = (numbers.normal(s, torch.float64) for s in (*[(heads, d, d)] * 3, (d, d)))
    layer = SecondLayer(w_q, w_k, w_v, readout)
    w, k = layer.reduced(case.rank)
    expected, _ = reduced_prediction(case.prompts, case, w, k)
    got = toy_output(case.prompts.tokens(), case.a, case.b, layer, case.heads)[..., -1]
    scale = size_of(case, readout.norm() * w_v, w_k.norm() * w_q)
    check_identity(got, expected, terms=8 * case.task.n, scale=1 + scale)


@given(tasks())
def test_first_layer_is_assumption_1(task):
    prompts = task.sample(2, Generator(1), torch.float64)
    rank = task.d // 2
    a, b = torch.randn(rank, task.d, dtype=torch.float64), torch.randn(task.d - rank, task.d, dtype=torch.float64)
    out = assumed_copy(prompts.tokens(), a, b)
    assert out.shape == (2, task.d, 2 * task.n + 1)
    for t in range(task.n):
        x, y = prompts.x[..., t], prompts.y[..., t]
        torch.testing.assert_close(out[..., 2 * t], x)
        torch.testing.assert_close(out[..., 2 * t + 1], torch.cat([x @ a.mT, y @ b.mT], dim=-1))
    query = torch.cat([prompts.query @ a.mT, torch.zeros(2, task.d - rank, dtype=torch.float64)], dim=-1)
    torch.testing.assert_close(out[..., -1], query)


def test_the_query_is_masked_out_of_the_sum():
    """P drops the last token: changing its value in `values` alone changes nothing."""
    numbers = Generator(3)
    values, stream = (numbers.normal((1, 3, 5), torch.float64) for _ in range(2))
    w = numbers.normal((3, 3, 3), torch.float64)
    other = values.clone()
    other[..., -1] += 1
    torch.testing.assert_close(linear_attention(values, stream, *w), linear_attention(other, stream, *w))


def test_skip_head_sees_raw_labels_and_ordinary_head_does_not():
    """With B = 0 the labels reach MHA nowhere, and SkipV1Former through its skip head alone."""
    task = RegressionTask(3, 4, 0.1)
    prompts = task.sample(2, Generator(0), torch.float64)
    louder = Prompts(prompts.x, 2 * prompts.y, prompts.w)
    a, b = torch.eye(3, dtype=torch.float64)[:2], torch.zeros(1, 3, dtype=torch.float64)
    w, k = torch.randn(2, 3, 3, dtype=torch.float64), torch.randn(2, 3, 2, dtype=torch.float64)
    assert torch.equal(*(Toy(a, b, w, k, MHA)(p.tokens()) for p in (prompts, louder)))
    skip = Toy(a, b, w, k, SKIPV1)
    assert not torch.allclose(skip(prompts.tokens()), skip(louder.tokens()))


def test_streams_are_reproducible_and_distinct():
    one, same, other = (Generator(*name).normal((4,), torch.float64) for name in ((1, 2), (1, 2), (2, 1)))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)


@pytest.mark.parametrize("bad", [(0, 1, 0.0), (1, 0, 0.0), (1, 1, float("nan")), (1, 1, -1.0)])
def test_tasks_refuse_impossible_sizes(bad):
    with pytest.raises(InvalidSize):
        RegressionTask(*bad)
