"""A decoder cut over processes by FSDP2, sublayer by sublayer.

A sublayer's weights are gathered for its forward pass and, again, for its backward pass; what sublayers share (stem,
positions, the plan's learned weights, a depth rule's queries, gains and averages, the last norm) is gathered once a
step.  Values that later layers read are activations: each process has those of its own sequences, so no plan needs any
care.  Buffers there are none.

Precision is the recipe's, as in one process: weights, gradients and their sums are float32, and products in bf16 are
autocast's.  FSDP's own policy would gather whole sublayers in bf16, for half of the traffic, and so round gains and
norms too, which autocast leaves alone.
"""

from __future__ import annotations

import torch
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard

from icl.models.decoder import Decoder
from icl.training.recomputing import recompute


def shard(model: Decoder, mesh: DeviceMesh, *, recomputed: bool = False, compiled: bool = False) -> None:
    """Shard the model in place: parameters become DTensors of the mesh, cut along their first dimension.

    recomputed   as in `icl.training.recomputing`
    compiled     every sublayer by torch.compile, between the hooks that gather and free its weights
    """
    if recomputed:
        recompute(model)
    if compiled:
        torch.compiler.reset()
        # Attention of every layer has code of its own, and all of it counts together.
        limits = torch._dynamo.config
        limits.recompile_limit = max(limits.recompile_limit, len(model.layers))
        for sublayer in model.sublayers:
            sublayer.forward = torch.compile(sublayer.forward, dynamic=False)
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
