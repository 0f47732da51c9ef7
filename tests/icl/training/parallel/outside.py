"""What PyTorch's own tools make of layers in two processes: FSDP2, DDP, checkpointing and compiling by layer.

Every process reads half of a batch; losses and gradients are left beside those of one process that reads all of it."""

import json
import os
import sys
import warnings
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.nn.parallel import DistributedDataParallel

from icl.models.decoder import Decoder
from theory.plans.architecture import Architecture, Tokens
from theory.plans.names import resolve

SIZES = Architecture(d_model=16, n_layers=3, n_heads=4, d_ff=15, context=9, stem=Tokens(23))
VARIANTS = ("vanilla", "skipv1", "resformer", "attnres-block", "mhc", "mudd", "dva")
TOKENS = torch.randint(23, (4, 9), generator=torch.Generator().manual_seed(0))


def decoder(variant, dtype=torch.float64):
    """A decoder with weights that are far from their start, where gates and queries over depth are 0."""
    model = Decoder(SIZES, resolve(variant, SIZES.shape), seed=1).to(dtype)
    numbers = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for p in model.parameters():
            p += 0.2 * torch.randn(p.shape, generator=numbers, dtype=torch.float64).to(dtype)
    return model


def loss_of(model, tokens):
    scores = model(tokens)[:, :-1].flatten(0, 1)
    scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
    return torch.nn.functional.cross_entropy(scores, tokens[:, 1:].flatten())


def sharded(model, mesh, **options):
    """FSDP2 by layer, then the rest."""
    for module in (*model.layers, model):
        fully_shard(module, mesh=mesh, **options)
    for module in model.modules():
        if isinstance(module, FSDPModule):
            module.set_force_sum_reduction_for_comms(True)  # gloo adds, and does not average
    return model


def checkpointed(model, mesh):
    for i, layer in enumerate(model.layers):
        model.layers[i] = checkpoint_wrapper(layer)
    return sharded(model, mesh)


def compiled(model, mesh):
    for layer in model.layers:
        layer.compile(backend="aot_eager")
    return sharded(model, mesh)


def in_bf16(model, mesh):
    return sharded(model, mesh, mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32))


def replicated(model, _mesh):
    return DistributedDataParallel(model)


TOOLS = {"fsdp": sharded, "fsdp, checkpointing": checkpointed, "fsdp, compiled": compiled, "ddp": replicated}
COMPILED = ("vanilla", "skipv1")


def step(model, tokens):
    """The loss, and all gradients by name."""
    loss = loss_of(model, tokens)
    loss.backward()
    gradients = {}
    for name, p in model.named_parameters():
        gradient = p.grad.full_tensor() if hasattr(p.grad, "full_tensor") else p.grad
        gradients[name.removeprefix("module.").replace("_checkpoint_wrapped_module.", "")] = gradient
    return loss.detach(), gradients


def compared(variant, tool, mesh, dtype=torch.float64):
    """Differences of losses and gradients from one process's, relative to the largest gradient."""
    loss, gradients = step(decoder(variant), TOKENS)
    model = tool(decoder(variant, dtype), mesh)
    own, found = step(model, TOKENS[2 * mesh.get_local_rank() :][:2])
    dist.all_reduce(own)
    largest = max(float(g.abs().max()) for g in gradients.values())
    apart = {name: float((found[name] - g).abs().max()) / largest for name, g in gradients.items()}
    return {
        "names": sorted(found) == sorted(gradients),
        "loss": abs(float(own / 2 - loss)) / float(loss),
        "gradients": max(apart.values()),
        "least": min(float(g.abs().max()) for g in gradients.values()) / largest,
    }


if __name__ == "__main__":
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", "FSDP2-wrapped module", UserWarning)
    dist.init_process_group("gloo")
    both = init_device_mesh("cpu", (2,))
    results = {}
    for tool, apply in TOOLS.items():
        for variant in COMPILED if "compiled" in tool else VARIANTS:
            results[f"{variant}, {tool}"] = compared(variant, apply, both)
    for variant in VARIANTS:
        results[f"{variant}, bf16"] = compared(variant, in_bf16, both, dtype=torch.float32)
    results["control"] = compared("vanilla", lambda model, _mesh: model, both)
    (Path(sys.argv[1]) / f"{os.environ['RANK']}.json").write_text(json.dumps(results))
    dist.destroy_process_group()
