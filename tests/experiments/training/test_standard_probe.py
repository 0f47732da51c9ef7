"""The campaign's probe: what it says of text, by plain loops and on a model made by hand."""

import math
from collections import defaultdict

import pytest
import torch

from experiments.training import standard_probe
from experiments.training.probes import STANDARD, probe
from icl.training.objectives import Batch
from tests.icl.probes.models import config_of, induction_model, model_of, tokens

LENGTH, VOCAB = 6, 7


class Text:
    """Held-out sequences, in batches of two."""

    tokens = LENGTH

    def __init__(self, sequences=6):
        self.windows = tokens(batch=sequences, length=LENGTH + 1, seed=3)

    def held_out(self):
        for both in self.windows.split(2):
            yield Batch(both[:, :-1], both[:, 1:])

    def losses(self, answer, targets):
        logits = answer.flatten(0, -2)
        return torch.nn.functional.cross_entropy(logits, targets.flatten(), reduction="none").view(targets.shape)


def test_tokens_are_told_apart_by_what_stood_before_them():
    """By a loop over every token, with the losses of the model."""
    text, model = Text(), model_of(config_of(layers=2))
    found = probe(STANDARD)(model, text, "cpu")["text"]
    sums, counts = defaultdict(float), defaultdict(int)
    for window in text.windows:
        losses = text.losses(model(window[None, :-1]), window[None, 1:])[0].detach()
        for place in range(LENGTH):
            read, target = int(window[place]), int(window[place + 1])
            followers = [int(window[j + 1]) for j in range(place) if int(window[j]) == read]
            kind = "repeated" if target in followers else "changed" if followers else "new"
            sums[kind] += losses[place].item()
            counts[kind] += 1
    assert found["tokens"] == dict(counts)
    assert min(counts.values()) > 1
    for kind, number in counts.items():
        assert found["loss"][kind] == pytest.approx(sums[kind] / number, rel=1e-4)


def test_an_induction_head_is_seen_on_text():
    model = induction_model(VOCAB, LENGTH, 2000.0)
    found = probe(STANDARD)(model, Text(), "cpu")["text"]
    assert found["best"][1] == pytest.approx(1, abs=1e-4)
    assert found["best"][0] < 0.7
    assert 0 < found["uniform"] < 0.5


def test_uniform_attention_gives_targets_their_share():
    windows = Text().windows[:, :-1]
    shares = []
    for window in windows.tolist():
        for place in range(LENGTH):
            targets = sum(window[j - 1] == window[place] for j in range(1, place + 1))
            shares += [targets / (place + 1)] if targets else []
    from icl.probes.attention import induction

    assert standard_probe._uniform(induction(windows)) == pytest.approx(sum(shares) / len(shares))


def test_nearness_is_of_vanilla_alone():
    model, other = model_of(config_of(layers=3)), model_of(config_of(layers=3), "svformer")
    found = probe(STANDARD)(model, Text(), "cpu")
    assert all(len(of) == 2 for of in found["nearness"]["previous"].values())
    assert "nearness" not in probe(STANDARD)(other, Text(), "cpu")
    assert all(math.isfinite(x) for x in found["nearness"]["first"]["current"])
    assert model.training
