"""The processes that torchrun has started, as one training asks them (`icl.training.processes`).

FSDP2 cuts a decoder over them, sublayer by sublayer.  A sublayer's weights are gathered for its forward pass and,
again, for its backward pass; what sublayers share (stem, positions, the plan's learned weights, a depth rule's queries,
gains and averages, the last norm) is gathered once a step.  Values that later layers read are activations: each process
has those of its own sequences, so no plan needs any care.  Buffers there are none.

Precision is the recipe's, as in one process: weights, gradients and their sums are float32, and products in bf16 are
autocast's.  FSDP's own policy would gather whole sublayers in bf16, for half of the traffic, and so round gains and
norms too, which autocast leaves alone.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor

from icl.checkpoint import Checkpoint, state
from icl.models.decoder import Decoder
from icl.recipe import Recipe
from icl.training.compiling import compiled as compiled_function
from icl.training.objectives import Batch, Task
from icl.training.parallel.agreeing import Agreement
from icl.training.parallel.checkpoints import ShardedCheckpoints, read
from icl.training.parallel.launch import PATIENCE, Launch, check_shares
from icl.training.processes import Losses, losses, recompute

T = TypeVar("T")


class Ranks:
    """The view of one of several processes.  recomputed: as in `Alone`."""

    def __init__(self, launch: Launch, *, recomputed: bool = False) -> None:
        self.count, self.rank, self.local, self.recomputed = launch.count, launch.rank, launch.local, recomputed
        control, saving = (dist.new_group(backend="gloo", timeout=PATIENCE) for _ in range(2))
        self.agreement = Agreement(self.rank, self.count, control, saving=saving)
        self._checkpoints: list[ShardedCheckpoints] = []

    def check(self, recipe: Recipe) -> None:
        check_shares(recipe, self.count)

    def prepare(self, model: Decoder, recipe: Recipe) -> None:
        # Of outputs that are views, which nothing here changes in place.
        warnings.filterwarnings("ignore", "FSDP2-wrapped module", UserWarning)
        mesh = init_device_mesh(next(model.parameters()).device.type, (self.count,))
        shard(model, mesh, recomputed=self.recomputed, compiled=recipe.compile)

    def losses(self, recipe: Recipe) -> Losses:  # noqa: ARG002 - sublayers are compiled, one by one
        return losses

    def whole(self, model: Decoder) -> Decoder | None:
        return gathered(model, next(model.parameters()).device)

    def batch(self, task: Task, seed: int, step: int, size: int) -> Batch:
        own = size // self.count
        return task.batch(seed, step, size, slice(self.rank * own, (self.rank + 1) * own))

    def clip(self, model: Decoder, largest: float) -> Tensor:
        norm = nn.utils.clip_grad_norm_(model.parameters(), largest or math.inf)
        return norm.full_tensor() if isinstance(norm, DTensor) else norm

    def mean(self, values: Tensor) -> Tensor:
        return self.sum(values) / self.count

    def sum(self, values: Tensor) -> Tensor:
        there = values.cpu()
        dist.all_reduce(there, group=self.agreement.control)
        return there

    def any(self, *flags: bool) -> tuple[bool, ...]:
        return tuple(bool(found) for found in self.sum(torch.tensor(flags, dtype=torch.int32)))

    def checkpoints(self, folder: Path, identity: str, warn: Callable[[str], None]) -> ShardedCheckpoints:
        self._checkpoints.append(ShardedCheckpoints(folder, identity, warn, agreement=self.agreement))
        return self._checkpoints[-1]

    def state(self, model: Decoder, optimiser: torch.optim.Optimizer) -> dict[str, Tensor]:
        assert isinstance(model, FSDPModule)
        model.reshard()  # what sublayers share is still whole after an evaluation, and no parameter of the optimiser
        return state(model, optimiser)

    def restore(self, model: Decoder, optimiser: torch.optim.Optimizer, checkpoint: Checkpoint) -> None:
        read(model, optimiser, checkpoint.folder)

    def together(self) -> AbstractContextManager[None]:
        return self.agreement.together()

    def first(self, action: Callable[[], T]) -> T:
        return self.agreement.first(action)

    def wait(self) -> None:
        """Wait until everything is saved.  Raises what went wrong."""
        for saved in self._checkpoints:
            saved.wait()

    def close(self) -> None:
        """Close the checkpoints without the other processes, and ignore errors."""
        for saved in self._checkpoints:
            saved.close()


def shard(model: Decoder, mesh: DeviceMesh, *, recomputed: bool = False, compiled: bool = False) -> None:
    """Shard the model in place: parameters become DTensors of the mesh, cut along their first dimension.

    recomputed   as in `icl.training.processes`
    compiled     every sublayer by torch.compile, between the hooks that gather and free its weights
    """
    if recomputed:
        recompute(model)
    if compiled:
        for sublayer in model.sublayers:  # attention of every layer has code of its own
            sublayer.forward = compiled_function(sublayer.forward)
    for module in (*model.weight_groups, model):
        fully_shard(module, mesh=mesh)
    if mesh.device_type == "cpu":
        for module in (model, *model.weight_groups):  # gloo adds, and does not average
            module.set_force_sum_reduction_for_comms(True)  # type: ignore[operator]


def gathered(model: Decoder, device: torch.device | str) -> Decoder | None:
    """Return an ordinary decoder with the same weights, on a device, in the first process; None in the others.

    All processes have to call it.
    """
    options = StateDictOptions(full_state_dict=True, cpu_offload=True)
    weights = get_model_state_dict(model, options=options)
    if not weights:
        return None
    whole = Decoder(model.config, model.plan, device="meta")
    whole.load_state_dict(weights, assign=True)
    return whole.to(device).train(model.training)
