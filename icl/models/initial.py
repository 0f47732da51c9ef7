"""Initial weights from (seed, name): equal in all variants wherever shapes agree.

A parameter of a projection with fewer heads is the same slice of what the full projection would start with, so that
`vanilla` and `skipv1` start from the same weights for the heads that both have.
"""

from __future__ import annotations

import hashlib

import torch
from torch import Tensor, nn

from icl.models.branch import OutputScale
from icl.models.differential import SPREAD, PairDifference
from icl.models.position_bias import PositionBias
from icl.models.projections import HeadLinear, HeadTable, MergeLinear, learned_name
from theory.plans.architecture import Architecture
from theory.plans.depth import Start
from theory.plans.plan import Plan, learned_parameters


def numbers(seed: int, name: str, shape: torch.Size) -> Tensor:
    """Return standard normal numbers, float32 on the CPU, that depend on nothing but the arguments."""
    digest = hashlib.sha256(f"{seed}/{name}".encode()).digest()
    generator = torch.Generator().manual_seed(int.from_bytes(digest[:8], "little") >> 1)
    return torch.randn(shape, generator=generator, dtype=torch.float32)


@torch.no_grad()
def initialise(
    decoder: nn.Module, config: Architecture, plan: Plan, *, seed: int, std: float = 0.02, scale_outputs: bool = True
) -> None:
    """Fill every parameter of a decoder of these sizes and this plan.

    Matrices, embeddings and biases of scores are normal with deviation `std`; matrices that write to the residual
    stream with std / sqrt(2 n_layers), as GPT-2's, unless `scale_outputs` is false, as in ResFormer's code.  Other
    biases are 0, gains 1.
    Depth attention starts at zero queries, which makes it a PreNorm network; depth averaging starts at the newest
    output alone; learned mixing weights, and what a depth rule names itself, start where the plan says, scales of
    outputs where the architecture does, and residual maps and the maps to gates of sources at 0.
    """
    of_outputs = std / (2 * config.n_layers) ** 0.5 if scale_outputs else std
    starts: dict[str, Start] = {
        f"learned.{learned_name(name)}": p.starts for name, p in learned_parameters(plan).items()
    }
    starts |= {f"depth.{name}": start for name, start in plan.depth.starts().items()}
    for prefix, module in decoder.named_modules():
        for short, parameter in module.named_parameters(recurse=False):
            name = f"{prefix}.{short}" if prefix else short
            if (start := starts.get(name)) is not None:
                rows = torch.tensor(start, dtype=torch.float32)
                parameter.copy_(rows.view(-1, *[1] * (parameter.ndim - 1)).expand_as(parameter))
            elif name in starts:
                parameter.copy_(std * numbers(seed, name, parameter.shape))
            else:
                is_output = name.endswith(("output.weight", "down.weight"))
                parameter.copy_(_start(module, name, parameter, seed, of_outputs if is_output else std))


def _start(module: nn.Module, name: str, parameter: Tensor, seed: int, std: float) -> Tensor:
    if isinstance(module, nn.RMSNorm | nn.LayerNorm) and name.endswith("weight"):
        return torch.ones_like(parameter)
    if name.endswith(("bias", ".up_map.weight", ".projections.gate.weight")):
        return torch.zeros_like(parameter)
    if isinstance(module, PairDifference):
        return SPREAD * numbers(seed, name, parameter.shape)
    if isinstance(module, OutputScale):
        return torch.full_like(parameter, module.start)
    if name.startswith("depth."):
        return _start_of_depth(name, parameter)
    if isinstance(module, HeadLinear | HeadTable | MergeLinear | PositionBias):
        return std * module.cut(numbers(seed, name, module.whole(parameter.shape)))
    return std * numbers(seed, name, parameter.shape)


def _start_of_depth(name: str, parameter: Tensor) -> Tensor:
    start = torch.zeros_like(parameter)
    if name == "depth.gain":
        start.fill_(1)
    elif name.startswith("depth.weights."):
        start[-1] = 1
    return start
