"""What two models must have in common before a difference of their losses says anything of an idea."""

from __future__ import annotations

from collections.abc import Iterable

from theory.plans.accounting import cache, flops, total_parameters
from theory.plans.names import model

LENGTH = 2048


def all_costs(preset: str, variant: str) -> tuple[int, int, int]:
    """Parameters, numbers cached for a token, and FLOPs of one that attends over `LENGTH` tokens."""
    config, plan = model(preset, variant)
    return total_parameters(config, plan), cache(config, plan).total, flops(config, plan, LENGTH)


def cost_the_same(pairs: Iterable[tuple[str, str]], presets: Iterable[str] = ("llama-82m", "llama-468m")) -> bool:
    """Whether the two variants of every pair do, at every size."""
    return all(all_costs(preset, one) == all_costs(preset, other) for one, other in pairs for preset in presets)
