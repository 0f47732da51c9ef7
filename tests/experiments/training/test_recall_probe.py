"""The probe of recall against answers that are known to be right or wrong."""

import pytest
import torch

from experiments.store.folders import UserError
from experiments.training.arms import PromptSource, RecallSource, prompt_task, recall_task
from experiments.training.recall_probe import probe

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


@pytest.mark.parametrize(("shift", "right"), [(0, 1.0), (1, 0.0)])
def test_right_answers_are_counted(shift, right):
    assert probe(Fixed(answering(shift)), recall_task(SOURCE), "cpu") == {"right": right}


def test_half_of_them():
    scores = answering(0)
    scores[:16] = answering(1)[:16]
    model = Fixed(scores)
    assert probe(model, recall_task(SOURCE), "cpu") == {"right": 0.5}
    assert model.training


def test_other_tasks_are_refused():
    with pytest.raises(UserError, match="needs recall"):
        probe(Fixed(None), prompt_task(PromptSource(2, 4, 0.1, held_out_prompts=16)), "cpu")
