"""Likelihoods of texts, against one pass a pair, written out; and models for other lengths than they were built for."""

from dataclasses import replace
from unittest import mock

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from icl.models.context import of_context
from icl.models.decoder import Decoder
from icl.models.scoring import score, windows
from icl.testing import check_identity
from theory.errors import BadInput
from theory.plans.architecture import Architecture, Tokens, Vectors
from theory.plans.names import resolve

CONFIG = Architecture(d_model=8, n_layers=2, n_heads=2, d_ff=16, context=6, stem=Tokens(7))
TOKEN = st.integers(0, 6)
PAIR = st.tuples(st.lists(TOKEN, min_size=1, max_size=9), st.lists(TOKEN, min_size=1, max_size=6))


def model_of(config=CONFIG, variant="skipv1"):
    return Decoder(config, resolve(variant, config.shape), std=0.5).double().eval()


MODEL = model_of()


def alone(model, context, continuation):
    """Token by token."""
    total, greedy, text = 0.0, True, list(context)
    first = max(0, len(context) + len(continuation) - 1 - model.config.context)
    for token in continuation:
        with torch.no_grad():
            scores = model(torch.tensor([text[first:]]))[0, -1].float().log_softmax(-1)
        total, greedy, text = total + float(scores[token]), greedy and int(scores.argmax()) == token, [*text, token]
    return total, greedy


@settings(max_examples=40, deadline=None)
@given(st.lists(PAIR, min_size=1, max_size=7), st.sampled_from([1, 9, 20, 4096]), st.sampled_from([1, 2, 512]))
@pytest.mark.long
def test_pairs_are_scored_as_if_each_were_alone(pairs, at_once, positions):
    with mock.patch("icl.models.scoring.AT_ONCE", positions):
        found = score(MODEL, pairs, at_once)
    for (context, continuation), one in zip(pairs, found, strict=True):
        total, greedy = alone(MODEL, context, continuation)
        assert one.log_likelihood == pytest.approx(total, rel=1e-5)
        assert one.greedy == greedy


@given(st.lists(TOKEN, max_size=30), st.integers(1, 9))
def test_windows_predict_every_token_once(text, context):
    found = list(windows(text, 5, context))
    assert [token for _, part in found for token in part] == text
    whole, end = [5, *text], 0
    for i, (before, after) in enumerate(found):
        start, end = end, end + len(after)
        assert before
        assert len(before) + len(after) <= context + 1
        assert before == whole[start + 1 - len(before) : start + 1]
        if 0 < i < len(found) - 1:
            assert len(before) == 1
        if i == len(found) - 1 and len(text) >= context:
            assert len(before) + len(after) == context + 1


@pytest.mark.parametrize(
    ("pairs", "says"),
    [
        ([([], [1])], "holds no token"),
        ([([1], [])], "holds no token"),
        ([([1], [1] * 7)], "longer than the context of 6"),
        ([([1], [7])], "no token of the 7"),
        ([([-1], [1])], "no token of the 7"),
    ],
)
def test_bad_pairs(pairs, says):
    with pytest.raises(BadInput, match=says):
        score(MODEL, pairs)


def test_what_is_no_causal_model_of_tokens_is_refused():
    for config in (replace(CONFIG, stem=Vectors(2)), replace(CONFIG, mask="context")):
        with pytest.raises(BadInput, match="only a causal model of tokens"):
            score(model_of(config, "vanilla"), [([1], [1])])
    assert score(MODEL, []) == []


@settings(max_examples=30, deadline=None)
@given(
    st.sampled_from(["rope", "learned", "none", "bias"]),
    st.sampled_from(["vanilla", "skipv1", "attnres"]),
    st.integers(1, 6),
)
def test_a_shorter_context_is_the_same_function_of_shorter_texts(positions, variant, context):
    model = model_of(replace(CONFIG, positions=positions), variant)
    found = of_context(model, context)
    tokens = torch.randint(7, (2, context), generator=torch.Generator().manual_seed(0))
    check_identity(found(tokens), model(tokens), terms=100)
    assert (found.config.context, model.config.context, found.training) == (context, 6, False)
    if context < 6:
        with pytest.raises(ValueError, match="more than the context"):
            found(torch.zeros(1, 6, dtype=torch.long))


def test_what_is_cut_is_its_own_and_the_rest_is_shared():
    model = model_of(replace(CONFIG, positions="learned"))
    found = of_context(model, 3)
    old = dict(model.named_parameters())
    for name, weight in found.named_parameters():
        assert weight.requires_grad
        assert (weight.data_ptr() == old[name].data_ptr()) == (name != "positions")
    assert of_context(model, 6) is model


@pytest.mark.parametrize(("positions", "ends"), [("learned", "positions"), ("bias", "scores"), ("rope", None)])
def test_a_longer_context_needs_positions_that_go_on(positions, ends):
    model = model_of(replace(CONFIG, positions=positions))
    if ends is None:
        assert of_context(model, 9).config.context == 9
        return
    says = rf"^9 tokens are more than the context of 6, at which .*{ends} of the model ends"
    with pytest.raises(BadInput, match=says):
        of_context(model, 9)
    with pytest.raises(BadInput, match="context"):
        of_context(model, 0)
