"""The processes of one training, connected as long as it lasts.

Modules that only several processes need are not imported for one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.distributed as dist

from icl.training.parallel.launch import PATIENCE, Launch
from icl.training.processes import Alone, Processes


@contextmanager
def joined(launch: Launch | None, *, gpus: bool = True, recomputed: bool = False) -> Iterator[Processes]:
    """Yield the processes that were launched together (`launched`), connected; or one alone.

    gpus: whether each is to have one, if there are any.  Raises BadInput, in one line, where that cannot be.
    """
    if launch is None:
        yield Alone(recomputed=recomputed)
        return
    cuda = gpus and torch.cuda.is_available()
    launch.check(torch.cuda.device_count() if cuda else 0)
    if cuda:
        torch.cuda.set_device(launch.local)
    from icl.training.parallel.ranks import Ranks  # as long to import as torch itself

    dist.init_process_group("cpu:gloo,cuda:nccl" if cuda else "gloo", timeout=PATIENCE)
    try:
        ranks = Ranks(launch, recomputed=recomputed)
        try:
            yield ranks
        finally:
            ranks.close()
    finally:
        dist.destroy_process_group()
