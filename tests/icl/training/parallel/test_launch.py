"""What a launcher tells a process, and batches in equal shares."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from icl.training.parallel.launch import Launch, check_shares, launched
from icl.training.parallel.ranks import Ranks
from tests.icl.training.small import RECIPE, prompts, text
from theory.errors import BadInput

TOLD = {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1", "MASTER_ADDR": "here", "MASTER_PORT": "1"}


def test_torchrun_tells_rank_and_count():
    assert launched(TOLD) == Launch(1, 2, 1)
    for alone in ({}, {"WORLD_SIZE": "1"}, {**TOLD, "WORLD_SIZE": "1"}):
        assert launched(alone) is None


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"RANK": ""}, r"^WORLD_SIZE=2 asks for several processes, and RANK is not set; start them with torchrun$"),
        ({"MASTER_ADDR": "", "MASTER_PORT": ""}, "MASTER_ADDR and MASTER_PORT are not set"),
        ({"RANK": "2"}, "RANK=2 is none of 2 processes"),
        ({"RANK": "one"}, "are whole numbers"),
        ({"WORLD_SIZE": "-2"}, "none of -2 processes"),
    ],
)
def test_what_a_launcher_has_left_out_is_said(changed, says):
    with pytest.raises(BadInput, match=says) as stop:
        launched({**TOLD, **changed})
    assert "\n" not in str(stop.value)


@pytest.mark.parametrize(("lacking", "gpus"), [("gloo", 0), ("gloo", 2), ("nccl", 2)])
def test_a_torch_without_what_processes_speak_over_is_told_of_once(lacking, gpus, monkeypatch):
    for name in ("gloo", "nccl"):
        monkeypatch.setattr(torch.distributed, f"is_{name}_available", lambda name=name: name != lacking)
    with pytest.raises(BadInput, match=f"without {lacking}|without {lacking.upper()}"):
        Launch(0, 2, 0).check(gpus)
    with pytest.raises(SystemExit) as stop:
        Launch(1, 2, 1).check(gpus)
    assert stop.value.code == 2


def test_every_process_has_a_gpu_of_its_own_or_none(monkeypatch):
    monkeypatch.setattr(torch.distributed, "is_nccl_available", lambda: True)
    Launch(1, 2, 1).check(0)
    Launch(1, 2, 1).check(2)
    with pytest.raises(BadInput, match="process 1 of this machine has no GPU of its own: there are 1"):
        Launch(1, 2, 1).check(1)


@pytest.mark.parametrize("task", [text, prompts])
@pytest.mark.parametrize("count", [2, 3])
def test_shares_are_the_batch_in_one_process(task, count):
    """Each row once, in its order."""
    whole, ranks = task().batch(5, 1, 6), (SimpleNamespace(rank=rank, count=count) for rank in range(count))
    shares = [Ranks.batch(rank, task(), 5, 1, 6) for rank in ranks]
    for name in ("inputs", "targets"):
        assert torch.equal(torch.cat([getattr(share, name) for share in shares]), getattr(whole, name))


def test_only_the_rows_of_a_share_are_read():
    task, read = text(), []
    windows = task.windows(0)
    own = windows._window
    windows._window = lambda index: read.append(index) or own(index)
    task.batch(0, 0, 6, slice(2, 4))
    assert len(read) == 2


def test_a_batch_that_cannot_be_shared_is_refused():
    check_shares(replace(RECIPE, batch=12, accumulate=2), 3)
    for batch, parts, count, says in (
        (5, 1, 2, "of 5 sequences equally"),
        (4, 2, 4, "of 4 sequences in 2 parts equally"),
    ):
        with pytest.raises(BadInput, match=f"^{count} processes cannot share a batch {says}$"):
            check_shares(replace(RECIPE, batch=batch, accumulate=parts), count)
