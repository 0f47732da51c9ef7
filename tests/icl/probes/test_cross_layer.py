"""Nearness to cross-layer attention, against plain sums head by head and in cases of which the answer is known."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from icl.probes.cross_layer import CURRENT, EVEN, IDENTITY, OTHER_TEXT, SOURCES, cosines, nearness
from icl.probes.recording import observed
from tests.icl.probes.models import config_of, model_of, tokens


def attended(**changes):
    """Every layer's attention, first to last."""
    model = model_of(config_of(layers=3, heads=2, group=2, positions="rope", **changes))
    return model, list(observed(model, tokens(), attention=lambda at: at).attention.values())


def softmax(scores):
    exponents = np.exp(scores - scores.max(-1, keepdims=True))
    return exponents / exponents.sum(-1, keepdims=True)


@pytest.mark.parametrize("source", SOURCES)
def test_cosines_are_what_plain_sums_say(source):
    """With grouped queries and rotary positions."""
    model, layers = attended()
    found = nearness(model, tokens())[source]
    for i, at in enumerate(layers[1:], 1):
        other = layers[i - 1 if source == "previous" else 0]
        batch, heads, length, width = at.query.shape
        hidden = np.triu(np.ones((length, length), bool), 1)
        outputs = {name: np.zeros((batch, length, heads, width)) for name in ("true", "other", *found)}
        for b in range(batch):
            for h in range(heads):
                keys, values = (
                    [x[b, h // 2].numpy() for x in pair]
                    for pair in ((at.keys[0], other.keys[0]), (at.values[0], other.values[0]))
                )
                keys.append(other.keys[0][b - 1, h // 2].numpy())
                scores = [np.where(hidden, -np.inf, at.query[b, h].numpy() @ key.T / width**0.5) for key in keys]
                own = softmax(scores[0])
                past = ~hidden / (~hidden).sum(-1, keepdims=True)
                outputs["true"][b, :, h] = softmax(np.concatenate(scores[:2], -1)) @ np.concatenate(values)
                outputs["other"][b, :, h] = softmax(np.concatenate([scores[0], scores[2]], -1)) @ np.concatenate(values)
                outputs[CURRENT][b, :, h] = own @ (values[0] + values[1])
                outputs[IDENTITY][b, :, h] = own @ values[0] + values[1]
                outputs[EVEN][b, :, h] = own @ values[0] + past @ values[1]
        flat = {name: x.reshape(batch * length, -1) for name, x in outputs.items()}

        def cosine(a, b, flat=flat):
            a, b = flat[a], flat[b]
            return np.mean((a * b).sum(-1) / np.linalg.norm(a, axis=-1) / np.linalg.norm(b, axis=-1))

        for name in (CURRENT, IDENTITY, EVEN):
            assert found[name][i - 1] == pytest.approx(cosine(name, "true"), abs=1e-12)
        assert found[OTHER_TEXT][i - 1] == pytest.approx(cosine(CURRENT, "other"), abs=1e-12)


def test_where_the_earlier_layer_has_the_same_keys_the_current_attention_is_exact():
    _, layers = attended()
    at, other = layers[2], layers[0]
    found = cosines(at, at.keys[0], other.values[0])
    assert found[CURRENT] == pytest.approx(1, abs=1e-14)
    assert max(found[name] for name in (IDENTITY, EVEN, OTHER_TEXT)) < 0.99


def test_of_uniform_attention_even_attention_is_exact():
    _, layers = attended()
    at = replace(layers[2], query=torch.zeros_like(layers[2].query))
    found = cosines(at, layers[0].keys[0], layers[0].values[0])
    assert found[EVEN] == pytest.approx(1, abs=1e-14)
    assert found[CURRENT] == pytest.approx(1, abs=1e-14)
    assert found[IDENTITY] < 0.99
