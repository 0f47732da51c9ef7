"""The decoder as a model of torchtitan, its parallelization, and its names in checkpoints for transformers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.fsdp import CPUOffloadPolicy, FSDPModule, MixedPrecisionPolicy, fully_shard
from torchtitan.config import TORCH_DTYPE_MAP
from torchtitan.distributed.compile import apply_compile
from torchtitan.distributed.fsdp import disable_fsdp_gradient_division, get_fsdp_reshard_after_forward_policy
from torchtitan.protocols.model import BaseModel
from torchtitan.protocols.state_dict_adapter import StateDictAdapter

from icl.models.decoder import Decoder
from icl.models.initial import initialise
from icl.models.saved import architecture_of
from icl.published.own import PREFIX
from icl.training.titan.text import answers
from theory.plans.accounting import flops
from theory.plans.architecture import Architecture
from theory.plans.plan import Plan
from theory.plans.written import from_json

UNSPLIT = ("tensor_parallel_degree", "context_parallel_degree", "pipeline_parallel_degree")


class CrosslayerDecoder(Decoder, BaseModel):
    """A decoder under any plan; its parameters have the names of `icl.models.decoder.Decoder`."""

    @dataclass(kw_only=True, slots=True)
    class Config(BaseModel.Config):
        """The sizes and the plan, as `icl.published.own` writes them.

        seed    of the initial weights; by default a number of torch's generator, which torchtitan seeds
        """

        architecture: dict[str, Any] = field(default_factory=dict)
        plan: dict[str, Any] = field(default_factory=dict)
        seed: int | None = None
        std: float = 0.02
        scale_outputs: bool = True

        def described(self) -> tuple[Architecture, Plan]:
            return architecture_of(self.architecture), from_json(self.plan)

        def update_from_config(self, *, config: Any, **_: Any) -> None:
            """Check what the training asks for.

            Raises:
                ValueError: By name, for parallelism within a layer, over a text or over layers, and for longer texts.
            """
            for name in UNSPLIT:
                if getattr(config.parallelism, name) > 1:
                    raise ValueError(f"parallelism.{name}: a layer's heads may be another layer's; use FSDP")
            context = architecture_of(self.architecture).context
            if config.training.seq_len > context:
                raise ValueError(f"training.seq_len: the model's context is {context}")

        def get_nparams_and_flops(self, model: nn.Module, seq_len: int) -> tuple[int, int]:
            """Return the number of parameters, and of FLOPs per token of a training step."""
            sizes, plan = self.described()
            return sum(p.numel() for p in model.parameters()), round(3 * flops(sizes, plan, seq_len))

    def __init__(self, config: Config) -> None:
        super().__init__(*config.described(), device="meta")
        self.start = config

    def init_states(self, *, buffer_device: torch.device | None = None) -> None:  # noqa: ARG002 - there are no buffers
        """Write the initial weights, into whole or sharded parameters."""
        seed = self.start.seed
        if seed is None:
            seed = int(torch.randint(2**62, (), device="cpu"))
        initialise(self, self.config, self.plan, seed=seed, std=self.start.std, scale_outputs=self.start.scale_outputs)

    def verify_module_protocol(self) -> None:
        """Pass: the parts of a decoder are plain modules, which `init_states` and `parallelize` know."""

    def forward(  # type: ignore[override]
        self, tokens: Tensor, positions: Tensor | None = None, **masks: Any
    ) -> Tensor:
        """Return what `answers` returns; masks are made of the positions, and given ones are refused."""
        for name, value in masks.items():
            if value is not None:
                raise ValueError(f"{name}: texts are told apart by positions")
        return answers(self, tokens, positions)


class Names(StateDictAdapter):
    """The names of parameters in `icl.published.own`'s folders, which `CrosslayerForCausalLM` reads."""

    def to_hf(self, state_dict: dict[str, Any]) -> dict[str, Any]:
        return {f"{PREFIX}{name}": tensor for name, tensor in state_dict.items()}

    def from_hf(self, hf_state_dict: dict[str, Any]) -> dict[str, Any]:
        return {name.removeprefix(PREFIX): tensor for name, tensor in hf_state_dict.items()}


def parallelize(
    model: CrosslayerDecoder,
    *,
    parallel_dims: Any,
    training: Any,
    parallelism: Any,
    compile_config: Any,
    ac_config: Any,
    dump_folder: str,
) -> CrosslayerDecoder:
    """Apply activation checkpointing, compilation and FSDP2, each by layer, and FSDP2 to the rest.

    Arguments are those of torchtitan's own models.
    """
    if ac_config is not None:
        ac_config.build(dump_folder=dump_folder).apply(model)
    if compile_config.enable and "model" in compile_config.components:
        # Every layer has entries of its own in the bank, and so code of its own.
        torch._dynamo.config.recompile_limit = max(torch._dynamo.config.recompile_limit, len(model.layers))
        apply_compile(model, compile_config=compile_config, parallel_dims=parallel_dims)
    names = ["dp_replicate", "fsdp"] if parallel_dims.dp_replicate_enabled else ["fsdp"]
    options: dict[str, Any] = {
        "mesh": parallel_dims.get_mesh(names),
        "mp_policy": MixedPrecisionPolicy(
            param_dtype=TORCH_DTYPE_MAP[training.mixed_precision_param],
            reduce_dtype=TORCH_DTYPE_MAP[training.mixed_precision_reduce],
            cast_forward_inputs=False,
        ),
    }
    if training.enable_cpu_offload:
        options["offload_policy"] = CPUOffloadPolicy()
    again = get_fsdp_reshard_after_forward_policy(parallelism.fsdp_reshard_after_forward, pp_enabled=False)
    for layer in model.layers:
        fully_shard(layer, **options, reshard_after_forward=again)
    fully_shard(model, **options)
    disable_fsdp_gradient_division(model)  # losses are sums over all tokens already
    if options["mesh"].device_type == "cpu":  # gloo adds, and does not multiply
        for module in model.modules():
            if isinstance(module, FSDPModule):
                module.set_force_sum_reduction_for_comms(True)
    return model
