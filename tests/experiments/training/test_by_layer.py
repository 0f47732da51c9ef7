"""Samples of held-out data, and means over batches of any size."""

import numpy as np
import pytest
import torch

from experiments.store.folders import UserError
from experiments.training.by_layer import Average, Sample
from icl.prompts import RegressionTask
from icl.training.objectives import PromptTask


@pytest.mark.parametrize("sizes", [(7,), (3, 4), (1, 1, 5), (1, 6)])
def test_an_average_is_that_of_all_however_they_come(sizes):
    """Also where the mean is large beside the spread."""
    values = 1e6 + torch.randn(7, 2, 3, generator=torch.Generator().manual_seed(0)).double()
    found = Average()
    for part in values.split(sizes):
        found.add(part)
    about = found.to_json()
    assert np.allclose(about["mean"], values.mean(0), rtol=1e-14)
    assert np.allclose(about["stderr"], values.std(0) / 7**0.5, rtol=1e-8)


@pytest.mark.parametrize(("tokens", "batch", "sizes"), [(35, 3, [3, 2]), (41, 0, [5]), (10**6, 8, [8, 2, 8, 2])])
def test_a_sample_is_the_first_of_the_held_out_sequences(tokens, batch, sizes):
    task = PromptTask(RegressionTask(2, 3, 0.1), 20, 10)  # of 7 tokens
    found = Sample(tokens, batch).batches(task, "cpu")
    assert [len(b.inputs) for b in found] == sizes
    whole = torch.cat([b.inputs for b in task.held_out()])
    assert torch.equal(torch.cat([b.inputs for b in found]), whole[: sum(sizes)])
    assert [len(b.targets) for b in found] == sizes


@pytest.mark.parametrize("tokens", [1, 7, 13])
def test_a_single_sequence_is_no_sample(tokens):
    with pytest.raises(UserError, match="two sequences or more"):
        Sample(tokens).batches(PromptTask(RegressionTask(2, 3, 0.1), 20, 10), "cpu")
