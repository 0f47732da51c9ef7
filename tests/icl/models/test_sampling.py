"""Text from a model: which tokens can be drawn, how often, and where a sequence ends."""

from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from icl.models.decoder import Decoder
from icl.models.sampling import Sampling, generate
from tests.icl.models.small import LLAMA
from theory.errors import BadInput
from theory.plans.architecture import Vectors
from theory.plans.names import resolve

SCORES = torch.tensor([[2.0, 0.0, 1.0, 1.0, -3.0], [0.0, 0.0, 0.0, 0.0, 0.0]])


def model(name="skipv1", **changes):
    config = replace(LLAMA, **changes)
    return Decoder(config, resolve(name, config.shape), std=0.4).double().eval()


def whole(found, row=0):
    return [picked[row] for picked in found if picked[row] is not None]


def test_without_limits_shares_are_the_softmax():
    assert torch.allclose(Sampling().probabilities(SCORES), SCORES.double().softmax(-1))
    halved = Sampling(temperature=2.0).probabilities(SCORES)
    assert torch.allclose(halved, (SCORES.double() / 2).softmax(-1))


def test_at_zero_the_likeliest_is_taken_and_of_equals_the_first():
    assert Sampling(temperature=0.0).probabilities(SCORES).tolist() == [[1, 0, 0, 0, 0], [1, 0, 0, 0, 0]]


@given(st.integers(1, 7), st.floats(0.01, 1.0), st.floats(0.1, 3.0), st.integers(0, 99))
def test_limits_keep_the_likeliest_alone(k, p, temperature, seed):
    scores = torch.randn(3, 6, generator=torch.Generator().manual_seed(seed))
    shares = (scores.double() / temperature).softmax(-1)
    found = Sampling(temperature=temperature, top_k=k, top_p=p).probabilities(scores)
    assert torch.allclose(found.sum(-1), torch.ones(3).double())
    for all_of, kept in zip(shares, found, strict=True):
        order = all_of.argsort(descending=True)
        count = int((kept > 0).sum())
        assert 1 <= count <= k
        assert set(order[:count].tolist()) == set(kept.nonzero().flatten().tolist())
        first = all_of[order[:k]] / all_of[order[:k]].sum()
        assert count == k or count == 6 or float(first[:count].sum()) >= p - 1e-12
        assert count == 1 or float(first[: count - 1].sum()) < p + 1e-12
        assert torch.allclose(kept[order[:count]], all_of[order[:count]] / all_of[order[:count]].sum())


def test_tokens_are_drawn_as_often_as_their_shares_say():
    one, count = model(), 3000
    shares = Sampling().probabilities(one(torch.tensor([[3, 1, 4]]))[:, -1])[0]
    drawn = torch.tensor(next(generate(one, [[3, 1, 4]] * count, 1))).bincount(minlength=11)
    error = (shares * (1 - shares) / count).sqrt()
    assert ((drawn / count - shares).abs() <= 4.5 * error + 1e-12).all()


@pytest.mark.parametrize("name", ["vanilla", "skipv1", "resformer", "attnres"])
def test_the_likeliest_tokens_are_those_of_whole_passes(name):
    one, tokens = model(name), [2, 7]
    found = whole(generate(one, [tokens], 6, sampling=Sampling(temperature=0.0)))
    for _ in range(6):
        tokens = [*tokens, int(one(torch.tensor([tokens]))[0, -1].argmax())]
    assert found == tokens[2:]


def test_sequences_do_not_depend_on_each_other():
    one, prompts = model(), [[1, 2, 3], [4], [9, 8, 7, 6, 5]]
    together = list(generate(one, prompts, 5, seed=3))
    for row, prompt in enumerate(prompts):
        others = [[0, 0]] * row
        assert whole(together, row) == whole(generate(one, [*others, prompt], 5, seed=3), row)
    assert whole(generate(one, [prompts[0]], 5, seed=4)) != whole(together)
    twice = list(generate(one, [prompts[0]] * 2, 5, seed=3))
    assert whole(twice) == whole(together) != whole(twice, 1)


def test_a_sequence_ends_with_a_stop_token_or_with_the_context():
    one = model()
    free = list(generate(one, [[1], [2, 3]], 8, seed=1))
    stop = free[2][0]
    found = list(generate(one, [[1], [2, 3]], 8, seed=1, stop=[stop]))
    first, second = whole(found), whole(found, 1)
    assert first == whole(free)[: whole(free).index(stop) + 1]
    assert second == (whole(free, 1)[: whole(free, 1).index(stop) + 1] if stop in whole(free, 1) else whole(free, 1))
    for earlier, later in pairwise(picked[0] is None for picked in found):
        assert later or not earlier
    assert len(whole(generate(one, [[1] * 9, [2]], 100))) == one.config.context - 9
    assert len(whole(generate(one, [[1] * 9, [2]], 100), 1)) == one.config.context - 1


def test_the_smallest_temperature_takes_the_likeliest_and_damaged_scores_are_refused():
    assert Sampling(temperature=1e-320).probabilities(SCORES)[0].argmax() == 0
    assert Sampling(temperature=1e-320).probabilities(SCORES).isfinite().all()
    with pytest.raises(BadInput, match="not finite"):
        Sampling().probabilities(torch.tensor([[float("inf"), 1.0]]))


def test_tokens_beyond_the_tokenizer_s_are_never_drawn():
    drawn = next(generate(model(), [[1]] * 400, 1, vocab=3))
    assert set(drawn) == {0, 1, 2}


def test_what_makes_no_sense_is_refused():
    one = model()
    for prompts, new, says in [
        ([], 1, "no token"),
        ([[1], []], 1, "no token"),
        ([[11]], 1, "no token of the 11"),
        ([[1]], 0, "at least one"),
        ([[1] * 12], 1, "no room"),
    ]:
        with pytest.raises(BadInput, match=says):
            next(generate(one, prompts, new))
    with pytest.raises(BadInput, match="does not read tokens"):
        next(generate(model(stem=Vectors(4)), [[1]], 1))
    for wrong in ({"temperature": -1.0}, {"temperature": float("nan")}, {"top_k": 0}, {"top_p": 0.0}, {"top_p": 1.5}):
        with pytest.raises(BadInput, match="must"):
            Sampling(**wrong)
