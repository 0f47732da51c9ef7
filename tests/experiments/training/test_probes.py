"""Probes of trainings: the campaign's, by plain loops and on a model made by hand; recall's, on known answers."""

import math
from collections import defaultdict

import pytest
import torch

from experiments.store.folders import UserError
from experiments.training import recall_probe, standard_probe
from experiments.training.arms import PromptSource, RecallSource, prompt_task, recall_task
from experiments.training.probes import STANDARD, probe
from icl.probes.attention import induction
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
    assert standard_probe._uniform(induction(windows)) == pytest.approx(sum(shares) / len(shares))


def test_nearness_is_of_vanilla_alone():
    model, other = model_of(config_of(layers=3)), model_of(config_of(layers=3), "svformer")
    found = probe(STANDARD)(model, Text(), "cpu")
    assert all(len(of) == 2 for of in found["nearness"]["previous"].values())
    assert "nearness" not in probe(STANDARD)(other, Text(), "cpu")
    assert all(math.isfinite(x) for x in found["nearness"]["first"]["current"])
    assert model.training


SOURCE = RecallSource(pairs=3, keys=5, values=6, held_out_prompts=32)


def answering(shift):
    """Answers to every query: the value `shift` places after the right one."""
    task = recall_task(SOURCE)
    (batch,) = task.held_out()
    scores = torch.zeros(*batch.inputs.shape)
    scores[:, task.read, task.slot] = batch.targets.roll(shift, -1)
    return scores


class Fixed(torch.nn.Module):
    def __init__(self, scores):
        super().__init__()
        self.scores = scores

    def forward(self, _):
        return self.scores


@pytest.mark.parametrize("right", [0, 16, 32])
def test_right_answers_of_recall_are_counted(right):
    scores = answering(1)
    scores[:right] = answering(0)[:right]
    model = Fixed(scores)
    assert recall_probe.probe(model, recall_task(SOURCE), "cpu") == {"right": right / 32}
    assert model.training


def test_other_tasks_than_recall_are_refused():
    with pytest.raises(UserError, match="needs recall"):
        recall_probe.probe(Fixed(None), prompt_task(PromptSource(2, 4, 0.1, held_out_prompts=16)), "cpu")
