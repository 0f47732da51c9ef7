"""Probes of attention where theory has their values in closed form, and against plain loops elsewhere."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from icl.models.decoder import Decoder
from icl.probes import recording
from icl.probes.attention import (
    attention_to,
    entropy,
    head_similarity,
    importance,
    induction,
    previous_token,
    repeated,
    value_norms,
    value_spectrum,
)
from icl.probes.cross_layer import CURRENT, EVEN, IDENTITY, OTHER_TEXT, SOURCES, cosines, nearness
from icl.probes.recording import observed
from tests.icl.probes.models import CONTEXT, config_of, induction_model, model_of, tokens, uniform
from theory.errors import BadInput
from theory.plans.names import model as named
from theory.plans.variants import VARIANTS
from theory.resformer import measures

EXACT = 1e-13  # of float64, over a few dozen numbers of size 1


@pytest.fixture(autouse=True)
def in_blocks(monkeypatch):
    """Of a query or two at a time."""
    monkeypatch.setattr(recording, "BLOCK", 80)


def attention_of(model, inputs):
    return observed(model, inputs, attention=lambda at: at).attention


def assert_uniform(at, length):
    """Importance (H_l - H_{j-1}) / l, all heads alike; 1 / (i + 1) to the predecessor of token i."""
    assert np.abs(importance(at).numpy() - measures.uniform_causal_importance(length)).max() < EXACT
    assert float((head_similarity(at) - 1).abs().max()) < EXACT
    if length > 1:
        share = attention_to(at, previous_token(length))
        assert float((share - sum(1 / i for i in range(2, length + 1)) / (length - 1)).abs().max()) < EXACT


@pytest.mark.parametrize("variant", ["vanilla", "resformer", "cross-layer", "svformer", "dva-attention"])
@pytest.mark.parametrize("length", [1, 2, CONTEXT])
def test_uniform_causal_attention(variant, length):
    found = attention_of(uniform(variant), tokens(length=length))
    assert len(found) == 2
    for at in found.values():
        assert_uniform(at, length)
        each = importance(at)
        assert each.shape == (3, 2, length)
        assert each.dtype == torch.float64
        expected = measures.entropy(measures.uniform_causal_importance(length))
        assert abs(entropy(each.mean(1)).numpy() - expected).max() < EXACT


@pytest.mark.parametrize("variant", sorted(VARIANTS))
def test_uniform_attention_under_every_variant(variant):
    """Whatever the heads attend over, and however many lists of it there are; with grouped queries."""
    found = attention_of(uniform(variant, layers=3, heads=2, group=2), tokens())
    assert found
    for at in found.values():
        assert_uniform(at, CONTEXT)


def test_a_previous_token_head_in_closed_form():
    """The first token gets its own query and the second's, the last none: log l - (2 / l) log 2."""
    at = attention_of(induction_model(7, CONTEXT, 2000.0), tokens())[1]
    each = importance(at)[:, 0]
    assert float((CONTEXT * each - torch.tensor([2.0, 1, 1, 1, 1, 0]).double()).abs().max()) < EXACT
    assert float((entropy(each) - math.log(CONTEXT) + 2 / CONTEXT * math.log(2)).abs().max()) < EXACT
    printed = at.weights().mean(-1)[:, 0]  # the same for every matrix there is
    assert float((entropy(printed) - math.log(CONTEXT)).abs().max()) < EXACT
    assert float((entropy(printed) - entropy(each)).abs().min()) > 0.2


def test_uniform_attention_without_a_mask_has_the_largest_entropy():
    for at in attention_of(uniform(mask="none"), tokens()).values():
        assert float((importance(at) - 1 / CONTEXT).abs().max()) < EXACT
        assert float((entropy(importance(at)) - math.log(CONTEXT)).abs().max()) < EXACT
        assert float((entropy(3 * importance(at)) - math.log(CONTEXT)).abs().max()) < EXACT  # of shares of their sum


@pytest.mark.parametrize("variant", ["vanilla", "cross-layer", "skipv1"])
@pytest.mark.parametrize("group", [1, 2])
def test_against_the_whole_matrix(variant, group):
    """What is computed block by block is what theory computes of each head's matrix; lists of a token are added."""
    model = model_of(config_of(layers=3, heads=2, group=group), variant)
    for at in attention_of(model, tokens()).values():
        whole = at.weights().unflatten(-1, (len(at.keys), CONTEXT)).sum(-2)
        each, alike = importance(at), head_similarity(at)
        share = attention_to(at, previous_token(CONTEXT))
        by_layer = entropy(each.mean(1))
        for b in range(3):
            for h in range(2 * group):
                matrix = whole[b, h].numpy()
                assert np.abs(each[b, h].numpy() - measures.token_importance(matrix)).max() < EXACT
                assert abs(float(share[b, h]) - np.diag(matrix, -1).mean()) < EXACT
                for g in range(2 * group):
                    one, other = at.weights()[b, h].flatten(), at.weights()[b, g].flatten()
                    cosine = float(one @ other / (one.norm() * other.norm()))
                    assert abs(float(alike[b, h, g]) - cosine) < EXACT
            mean = measures.entropy(measures.token_importance(whole[b].mean(0).numpy()))
            assert abs(float(by_layer[b]) - mean) < EXACT
        assert bool((by_layer >= entropy(each).mean(1) - EXACT).all())  # concave


def test_values_of_known_spectrum():
    """Identity values on one-hot tokens: norm 1, each direction an l-th.  They sum to the mean square norm."""
    lists = (torch.eye(4, dtype=torch.float64)[None, None], torch.eye(4, dtype=torch.float64)[None, None])
    assert torch.equal(value_spectrum(lists[:1]), torch.full((1, 4), 0.25, dtype=torch.float64))
    assert torch.equal(value_norms(lists), torch.ones(1, 4, dtype=torch.float64))
    model = model_of(config_of(layers=3), "cross-layer")
    for at in attention_of(model, tokens()).values():
        found, norms = value_spectrum(at.values), value_norms(at.values)
        assert float((found.sum(-1) / norms.square().mean(-1) - 1).abs().max()) < EXACT
        for b in range(3):
            rows = torch.cat([v[b].transpose(0, 1).flatten(1) for v in at.values]).numpy()
            expected = measures.value_spectrum(rows)
            assert np.abs(found[b].numpy() - expected).max() < EXACT * expected[0]


def test_a_spectrum_has_as_many_numbers_as_values_are_wide_whatever_the_length():
    found = observed(model_of(config_of()), tokens(length=2), attention=lambda at: value_spectrum(at.values))
    assert found.attention[1].shape == (3, 16)
    assert float(found.attention[1][:, 2:].max()) < EXACT * float(found.attention[1].max())


def test_an_induction_head_set_by_hand_scores_1():
    """And 1 / sharpness decides by how little it misses it; layer 1 is a previous-token head."""
    vocab, length = 9, 5
    inputs = repeated(vocab, length, 4, seed=0)
    for sharpness in (40.0, 400.0):
        model = induction_model(vocab, 2 * length, sharpness)
        at = attention_of(model, inputs)
        missed = 2 * length * math.exp(-sharpness / math.sqrt(max(vocab, 2 * length) + 1)) + EXACT
        assert float((1 - attention_to(at[2], induction(inputs))).abs().max()) < missed
        assert float((1 - attention_to(at[1], previous_token(2 * length))).abs().max()) < missed
        assert float(attention_to(at[1], induction(inputs)).max()) < 0.5
        assert float(attention_to(at[2], previous_token(2 * length)).max()) < 0.5


def test_the_induction_score_of_uniform_attention():
    """(H_2n - H_n) / n: one target each, of i + 1 tokens that query i sees."""
    n = 3
    inputs = repeated(7, n, 5, seed=1)
    assert torch.equal(inputs[:, :n], inputs[:, n:])
    assert all(len(set(row.tolist())) == n for row in inputs)
    for at in attention_of(uniform(), inputs).values():
        share = attention_to(at, induction(inputs))
        assert float((share - sum(1 / i for i in range(n + 1, 2 * n + 1)) / n).abs().max()) < EXACT


def test_targets_of_induction_by_a_loop():
    inputs = tokens(batch=20, length=6)
    for row, found in zip(inputs.tolist(), induction(inputs), strict=True):
        expected = [[0 < j <= i and row[j - 1] == row[i] for j in range(6)] for i in range(6)]
        assert found.tolist() == expected


def test_heads_of_different_kinds_are_told_apart():
    """One head looks at itself, one at its predecessor: alike in the first query alone, 1 / l."""
    context = 6
    model = induction_model(7, context, 2000.0)
    config = replace(model.config, n_heads=2)
    pair = Decoder(config, named(config)[1]).double().eval()
    with torch.no_grad():
        for parameter in pair.parameters():
            parameter.zero_()
        pair.stem.embedding.weight.copy_(model.stem.embedding.weight)
        pair.positions.copy_(model.positions)
        first, ours = pair.layers[0].attention.projections, model.layers[0].attention.projections
        first.key.weight.copy_(ours.key.weight.repeat(2, 1))
        itself = torch.zeros_like(ours.query.weight)
        itself[range(context), range(7, 7 + context)] = 2000.0
        first.query.weight.copy_(torch.cat([ours.query.weight, itself]))
    found = observed(pair, tokens(), attention=head_similarity).attention[1]
    expected = torch.tensor([[1, 1 / context], [1 / context, 1]]).double()
    assert float((found - expected).abs().max()) < 1e-6


def test_what_makes_no_sense_is_refused():
    linear = attention_of(model_of(config_of(score="linear")), tokens())[1]
    for measure in (importance, lambda at: attention_to(at, previous_token(CONTEXT))):
        with pytest.raises(BadInput, match="softmax"):
            measure(linear)
    assert head_similarity(linear).shape == (3, 2, 2)
    at = attention_of(model_of(config_of()), tokens())[1]
    with pytest.raises(BadInput, match="targets"):
        attention_to(at, torch.zeros(CONTEXT, CONTEXT, dtype=torch.bool))
    with pytest.raises(BadInput, match="not all zero"):
        entropy(torch.zeros(3))
    with pytest.raises(BadInput, match="vocabulary of 3"):
        repeated(3, 4, 1, 0)


# --- nearness to cross-layer attention -------------------------------------------------------------------------------


def three_layers():
    """Every layer's attention, first to last."""
    model = model_of(config_of(layers=3, heads=2, group=2, positions="rope"))
    return model, list(attention_of(model, tokens()).values())


def softmax(scores):
    exponents = np.exp(scores - scores.max(-1, keepdims=True))
    return exponents / exponents.sum(-1, keepdims=True)


@pytest.mark.parametrize("source", SOURCES)
def test_cosines_are_what_plain_sums_say(source):
    """With grouped queries and rotary positions."""
    model, layers = three_layers()
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
    _, layers = three_layers()
    at, other = layers[2], layers[0]
    found = cosines(at, at.keys[0], other.values[0])
    assert found[CURRENT] == pytest.approx(1, abs=1e-14)
    assert max(found[name] for name in (IDENTITY, EVEN, OTHER_TEXT)) < 0.99


def test_of_uniform_attention_even_attention_is_exact():
    _, layers = three_layers()
    at = replace(layers[2], query=torch.zeros_like(layers[2].query))
    found = cosines(at, layers[0].keys[0], layers[0].values[0])
    assert found[EVEN] == pytest.approx(1, abs=1e-14)
    assert found[CURRENT] == pytest.approx(1, abs=1e-14)
    assert found[IDENTITY] < 0.99
