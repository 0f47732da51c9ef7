"""The memory that a training needs, known before anything is allocated, and the memory that there is."""

from __future__ import annotations

from dataclasses import replace

from experiments.store.folders import UserError
from experiments.training.arms import Arm, PromptSource, RecallSource
from theory import machine
from theory.plans.memory import activation_bytes, activations, answered, training_bytes
from theory.plans.sharding import recomputed, saving_bytes, state_bytes

MIB, GIB = 2**20, 2**30
MOST_OF_A_GPU = 512 * GIB  # none has more
HELD_OUT_AT_A_TIME = 8  # windows of text; of prompts there are more, `Arm.task` says how many
BF16, COMPILED = 0.5, 0.5  # shares of a float32 activation; compiled code keeps what products put out, about half


def check(arm: Arm, device: str | None, processes: int = 1, *, recompute: bool = False) -> None:
    """Raise UserError, in one line with both numbers, for a training that needs more memory than there is.

    device   None where it is not known yet; a GPU or this machine then, whichever has more
    """
    need, there = needed(arm, device, processes, recompute=recompute), available(device)
    if need > there:
        raise UserError(
            f"{arm.name} needs about {in_words(need)} of memory{' per process' if processes > 1 else ''}, and there "
            f"are {'' if device else 'at most '}{in_words(there)}; a shorter context, a smaller batch or more parts "
            "(--accumulate) need less"
        )


def in_words(count: int) -> str:
    """Return bytes in the unit that suits."""
    if count < GIB:
        return f"{-(-count // MIB):,} MiB"
    return f"{count // GIB:,} GiB" if count >= 10 * GIB else f"{count / GIB:.2g} GiB"


def needed(arm: Arm, device: str | None, processes: int = 1, *, recompute: bool = False) -> int:
    """Return bytes, by `theory.plans.memory`: of a step or an evaluation, whichever needs more, with what it reads.

    They are those of one of so many processes that train it together (`theory.plans.sharding`).
    """
    config, recipe, source = replace(arm.architecture, context=arm.context), arm.recipe, arm.source
    number = 4.0 * (BF16 if recipe.precision == "bf16" else 1) * (COMPILED if recipe.compile else 1)
    fused, part = device != "cpu", recipe.batch // recipe.accumulate // processes
    held = (recomputed if recompute else activations)(config, arm.plan, fused=fused)
    if processes == 1:
        step = training_bytes(config, arm.plan, part, number=number, fused=fused, kept=held)
    else:
        saved = 0 if fused else saving_bytes(config, arm.plan, processes)
        step = state_bytes(config, arm.plan, processes) + saved
        step += activation_bytes(config, held, arm.plan, sequences=part, number=number, fused=fused)
    held_out, read = HELD_OUT_AT_A_TIME, 16 * recipe.batch * config.context  # indices, twice
    if isinstance(source, PromptSource):
        held_out = source.held_out_at_a_time
        read = 8 * max(recipe.batch, held_out) * source.d * (2 * (source.n + 1) + source.d)  # float32, twice
        read += 8 * source.law.pool * source.d**2
    if isinstance(source, RecallSource):
        held_out = source.held_out_at_a_time
        read = 8 * max(recipe.batch, held_out) * source.tokens * source.width  # float32, twice
    answers = 8 * held_out * config.context * answered(config)
    return read + max(step, answers)


def available(device: str | None) -> int:
    """Return the bytes of a GPU, or of this machine."""
    if device is None:
        return max(available("cpu"), MOST_OF_A_GPU)
    if device.startswith("cuda"):
        import torch

        return int(torch.cuda.get_device_properties(device).total_memory)
    return machine.memory()
