"""Initial weights from (seed, name): equal in all variants wherever shapes agree.

A parameter of a projection with fewer heads is the same slice of what the full projection would start with, so that
`vanilla` and `skipv1` start from the same weights for the heads that both have.
"""

from __future__ import annotations

import hashlib
import re

import torch
from torch import Tensor, nn

from icl.models.branch import OutputScale
from icl.models.differential import SPREAD, PairDifference
from icl.models.position_bias import PositionBias
from icl.models.projections import HeadLinear, HeadTable, MergeLinear, learned_name
from theory.plans.architecture import Architecture
from theory.plans.depth import Start
from theory.plans.plan import Plan, learned_parameters

# The names that wrappers put between those of modules: activation checkpointing, torch.compile.
WRAPPED = re.compile(r"(?:^|(?<=\.))(?:_checkpoint_wrapped_module|_orig_mod)(?:\.|$)")


def numbers(seed: int, name: str, shape: torch.Size) -> Tensor:
    """Return standard normal numbers, float32 on the CPU, that depend on nothing but the arguments."""
    digest = hashlib.sha256(f"{seed}/{name}".encode()).digest()
    generator = torch.Generator().manual_seed(int.from_bytes(digest[:8], "little") >> 1)
    return torch.randn(shape, generator=generator, dtype=torch.float32, device="cpu")


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
    law = InitialWeights(config, plan, seed=seed, std=std, scale_outputs=scale_outputs)
    for prefix, module in decoder.named_modules():
        for name, parameter in module.named_parameters(recurse=False):
            law.fill(module, prefix, name, parameter=parameter)


class InitialWeights:
    """The initial weights of a decoder's parameters, one by one, with the arguments of `initialise`."""

    def __init__(
        self, config: Architecture, plan: Plan, *, seed: int, std: float = 0.02, scale_outputs: bool = True
    ) -> None:
        self.seed, self.std = seed, std
        self.of_outputs = std / (2 * config.n_layers) ** 0.5 if scale_outputs else std
        self.starts: dict[str, Start] = {
            f"learned.{learned_name(name)}": p.starts for name, p in learned_parameters(plan).items()
        }
        self.starts |= {f"depth.{name}": start for name, start in plan.depth.starts().items()}

    @torch.no_grad()
    def fill(self, module: nn.Module, prefix: str, short: str, *, parameter: nn.Parameter) -> None:
        """Write a parameter's initial weights into it.

        Args:
            module: The module that it belongs to.
            prefix: The module's name in the decoder, "" for the decoder itself; names of wrappers in it do not count.
            short: The parameter's name in the module.
            parameter: The parameter, whole or sharded (a DTensor).
        """
        name = WRAPPED.sub("", f"{prefix}.{short}" if prefix else short)
        _write(parameter, self._weights(module, name, parameter.shape))

    def _weights(self, module: nn.Module, name: str, shape: torch.Size) -> Tensor:
        """Return float32 on the CPU."""
        if (start := self.starts.get(name)) is not None:
            rows = torch.tensor(start, dtype=torch.float32, device="cpu")
            return rows.view(-1, *[1] * (len(shape) - 1)).expand(shape)
        if name in self.starts:
            return self.std * numbers(self.seed, name, shape)
        is_output = name.endswith(("output.weight", "down.weight"))
        return _start(module, name, shape, seed=self.seed, std=self.of_outputs if is_output else self.std)


def _write(parameter: nn.Parameter, weights: Tensor) -> None:
    if hasattr(parameter, "placements"):  # a DTensor, of which every process writes its own part
        from torch.distributed.tensor import DTensor, distribute_tensor

        assert isinstance(parameter, DTensor)
        weights = distribute_tensor(
            weights.to(parameter.device), parameter.device_mesh, parameter.placements, src_data_rank=None
        )
    parameter.copy_(weights)


def _start(module: nn.Module, name: str, shape: torch.Size, *, seed: int, std: float) -> Tensor:
    with torch.device("cpu"):
        if isinstance(module, nn.RMSNorm | nn.LayerNorm) and name.endswith("weight"):
            return torch.ones(shape)
        if name.endswith(("bias", ".up_map.weight", ".projections.gate.weight")):
            return torch.zeros(shape)
        if isinstance(module, OutputScale):
            return torch.full(shape, module.start, dtype=torch.float64)
        if name.startswith("depth."):
            return _start_of_depth(name, shape)
    if isinstance(module, PairDifference):
        return SPREAD * numbers(seed, name, shape)
    if isinstance(module, HeadLinear | HeadTable | MergeLinear | PositionBias):
        return std * module.cut(numbers(seed, name, module.whole(shape)))
    return std * numbers(seed, name, shape)


def _start_of_depth(name: str, shape: torch.Size) -> Tensor:
    start = torch.zeros(shape)
    if name == "depth.gain":
        start.fill_(1)
    elif name.startswith("depth.weights."):
        start[-1] = 1
    return start
