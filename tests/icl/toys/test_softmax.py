"""Toys with softmax attention: equal to plain loops over tokens, and blind to what their tokens do not hold."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from icl.prompts import TRAIN_STREAM, RegressionTask
from icl.testing import check_identity
from icl.toys.literal import assumed_copy
from icl.toys.softmax import SoftmaxToys
from icl.toys.stacked import Gaussian, Given, Opposed, ToySpec
from icl.toys.transformer import ATTENTION_HEADS, LAYERS, TransformerSpec, TransformerToys
from tests.icl.toys.small import randomised
from theory.errors import BadInput, InvalidSize
from theory.plans.heads import MHA, ORDINARY, SKIP, SKIPV1, Head

TASK = RegressionTask(3, 4, 0.5)
MIXED = (Head(0.5, 0.5), Head(0.0, 2.0))
SOFTMAX = [
    ToySpec(TASK, heads, rank, seed, Gaussian())
    for heads, rank, seed in ((MHA, 1, 0), (SKIPV1, 3, 0), (MIXED, 2, 1), (MHA, 0, 1), (SKIPV1, 1, 2))
]
TRANSFORMERS = [
    TransformerSpec(TASK, heads, rank, seed)
    for heads, rank, seed in (((ORDINARY,), 1, 0), ((SKIP,), 3, 0), ((ORDINARY,), 2, 1), ((SKIP,), 1, 1))
]


@pytest.fixture
def softmax():
    return randomised(SoftmaxToys(SOFTMAX, dtype=torch.float64), size=0.5)


@pytest.fixture
def transformers():
    return randomised(TransformerToys(TRANSFORMERS, dtype=torch.float64), size=0.5)


def plain_softmax(toys, i, tokens):
    """One prompt, token by token: (d, T) -> (d,)."""
    w = toys.parameters_of(i)
    first = assumed_copy(tokens[None], w["a"], w["b"])[0]
    query = w["a"] @ tokens[:, -1]
    out = torch.zeros(len(tokens), dtype=torch.float64)
    for h, head in enumerate(toys.specs[i].heads):
        scores = [torch.exp(first[:, j] @ w["k"][h] @ query) for j in range(tokens.shape[1] - 1)]
        values = (w["w"][h] @ (head.copied * first[:, j] + head.raw * tokens[:, j]) for j in range(len(scores)))
        out = out + sum(s * v for s, v in zip(scores, values, strict=True)) / sum(scores)
    return out


def plain_transformer(toys, i, tokens):
    """One prompt, token by token: (d, T) -> (d,)."""
    w, spec, d = toys.weights(i), toys.specs[i], len(tokens)
    a, b = w["squeeze"][:, :d], w["squeeze"][:, d:]
    of_x, of_y, of_query = w["read_in"].split(d, dim=1)
    raw = spec.heads[0].raw
    ys = [raw * tokens[:, t] + (1 - raw) * (b @ tokens[:, t]) for t in range(1, tokens.shape[1], 2)]
    stream = [of_x @ tokens[:, 2 * t] + of_y @ y for t, y in enumerate(ys)] + [of_query @ a @ tokens[:, -1]]
    for layer in range(LAYERS):
        query, key, value, output, up, down = (
            w[name][layer] for name in ("query", "key", "value", "output", "up", "down")
        )
        size = len(query) // ATTENTION_HEADS
        added = []
        for token in stream:
            parts = []
            for part in (slice(h * size, (h + 1) * size) for h in range(ATTENTION_HEADS)):
                logits = torch.stack([(query[part] @ token) @ (key[part] @ other) for other in stream]) / size**0.5
                parts.append(sum(p * (value[part] @ other) for p, other in zip(logits.softmax(0), stream, strict=True)))
            added.append(output @ torch.cat(parts))
        stream = [token + more for token, more in zip(stream, added, strict=True)]
        stream = [token + down @ (up @ token).relu() for token in stream]
    return w["readout"] @ stream[-1]


@pytest.mark.parametrize(("kind", "plain"), [("softmax", plain_softmax), ("transformers", plain_transformer)])
def test_every_toy_predicts_what_a_plain_loop_does(kind, plain, request):
    toys = request.getfixturevalue(kind)
    batch = toys.batch(3, TRAIN_STREAM, 0)
    found = toys(batch.tokens).detach()
    for i in range(len(toys.specs)):
        s, m = toys.locate[i]
        expected = torch.stack([plain(toys, i, tokens) for tokens in batch.tokens[s]])
        check_identity(found[s, m], expected, terms=5000, scale=1 + float(expected.norm()))


@pytest.mark.parametrize("kind", ["softmax", "transformers"])
def test_losses_and_explained_signal_go_together(kind, request):
    toys = request.getfixturevalue(kind)
    batch = toys.batch(50, TRAIN_STREAM, 1)
    noise = batch.label - batch.clean
    predicted = toys(batch.tokens)
    cross = (noise[:, None] * (batch.clean[:, None] - predicted)).sum(-1).mean(-1)
    signal = (batch.clean**2).sum(-1).mean(-1)[:, None] + (noise**2).sum(-1).mean(-1)[:, None]
    expected = signal - toys.explained(batch) / 50 + 2 * cross
    assert torch.allclose(toys.losses(batch), expected)


def changed(tokens, y=None, query=None):
    """Tokens with something added to every y_t, or to the query."""
    tokens = tokens.clone()
    if y is not None:
        tokens[..., 1::2] += y[:, None]
    if query is not None:
        tokens[..., -1] += query
    return tokens


def test_squeezed_tokens_hide_what_the_theorem_says(transformers, softmax):
    """What A does not see of the query and B of the labels makes no difference without raw values, and does with."""
    for toys, squeeze in ((transformers, "squeeze"), (softmax, "u")):
        for i, spec in enumerate(toys.specs):
            numbers, d = toys.weights(i)[squeeze], TASK.d
            a, b = numbers[: spec.rank, :d], numbers[spec.rank :, d:]
            tokens = toys.batch(2, TRAIN_STREAM, 0).tokens
            s, m = toys.locate[i]
            before = toys(tokens)[s, m]
            raw = any(head.raw for head in spec.heads)
            for matrix, what, seen in ((a, "query", False), (b, "y", raw)):
                hidden = torch.linalg.svd(matrix.reshape(-1, d)).Vh[len(matrix) :]
                if len(hidden):
                    after = toys(changed(tokens, **{what: hidden.sum(0)}))[s, m]
                    assert torch.allclose(after, before) != seen


def test_the_last_head_starts_opposed():
    keys = [SoftmaxToys([ToySpec(TASK, MHA, 3, 0, init)]).weights(0)["k"] for init in (Opposed(1.0), Opposed(1.0, 0.6))]
    assert torch.equal(torch.sign(keys[0].diagonal(dim1=-2, dim2=-1)), torch.tensor([[1.0] * 3, [-1.0] * 3]))
    assert torch.allclose(2 * keys[0], keys[1])


def test_given_weights_are_there(softmax):
    weights = softmax.parameters_of(4)
    start = Given.of(weights)
    fresh = SoftmaxToys([*SOFTMAX[:4], replace(SOFTMAX[4], init=start)], dtype=torch.float64)
    assert all(np.array_equal(fresh.parameters_of(4)[name], x) for name, x in weights.items())
    with pytest.raises(BadInput, match="shapes given"):
        SoftmaxToys([replace(SOFTMAX[1], init=start)])


@pytest.mark.parametrize(
    "heads", [(Head(0, 1, key_copied=0, key_raw=1),), (Head(1, 0, key="k"), Head(0, 1, key="k"))], ids=["raw", "shared"]
)
def test_raw_and_shared_keys_are_refused(heads):
    with pytest.raises(BadInput, match="copied keys"):
        SoftmaxToys([ToySpec(TASK, heads, 1, 0)])


def test_one_task_a_stack():
    other = RegressionTask(2, 4, 0.5)
    with pytest.raises(BadInput, match="one task"):
        SoftmaxToys([SOFTMAX[0], ToySpec(other, MHA, 1, 0)])
    with pytest.raises(BadInput, match="one task"):
        TransformerToys([TRANSFORMERS[0], TransformerSpec(other, (ORDINARY,), 1, 0)])
    with pytest.raises(InvalidSize):
        TransformerToys([TransformerSpec(TASK, (ORDINARY,), 4, 0)])
