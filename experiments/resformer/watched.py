"""Sizes of decoders that are watched layer by layer, for experiments on what the value residual does inside."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from experiments.experiment.protocol import Profile
from icl.recipe import Recipe
from theory.plans.presets import llama

TINY = llama(d_model=16, n_heads=2, n_layers=3, d_ff=32, vocab=512, context=16)
SMALL = llama(d_model=64, n_heads=4, n_layers=4, d_ff=176, vocab=512, context=64)
LARGE = llama(d_model=512, n_heads=8, n_layers=12, d_ff=1376, vocab=16_384, context=512)


def profiles(
    config: Callable[..., Any], recipe: Recipe, gpu: Recipe, *, cpu: Profile, gpu_seconds: int, gpu_detects: str
) -> dict[str, Profile]:
    """Four of them, of which `cpu` is given; its recipe and the GPU's are shortened for the tiny ones.

    config: of an experiment, from keyword arguments architecture, data, vocab, recipe and held_out_windows.
    """

    def tiny(recipe: Recipe) -> Any:
        return config(architecture=TINY, data="stdlib", vocab=512, recipe=recipe, held_out_windows=16)

    large = config(architecture=LARGE, data="stdlib", vocab=16_384, recipe=gpu, held_out_windows=128)
    short = replace(gpu, steps=10, batch=8, accumulate=2, log_every=10)
    return {
        "smoke": Profile(config=tiny(replace(recipe, steps=10, log_every=10)), seeds=2, seconds=10, detects=None),
        "cpu": cpu,
        "gpu": Profile(config=large, seeds=3, seconds=gpu_seconds, detects=gpu_detects, grows=True, device="cuda"),
        # it takes the gpu profile's path with tiny models
        "gpu-tiny": Profile(config=tiny(short), seeds=2, seconds=150, detects=None, grows=True),
    }
