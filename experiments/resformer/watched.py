"""Decoders that are watched layer by layer: their sizes, and their training, for experiments on the value residual."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from experiments.experiment.protocol import Profile
from experiments.store.folders import Json
from experiments.training.arms import Arm
from experiments.training.campaign import BASELINE, TWIN, of_runs, rounds
from icl.recipe import Recipe
from theory.plans.architecture import Tokens
from theory.plans.presets import llama

if TYPE_CHECKING:
    from experiments.store.folders import RunFolder

TINY = llama(d_model=16, n_heads=2, n_layers=3, d_ff=32, vocab=512, context=16)
SMALL = llama(d_model=64, n_heads=4, n_layers=4, d_ff=176, vocab=512, context=64)
LARGE = llama(d_model=512, n_heads=8, n_layers=12, d_ff=1376, vocab=16_384, context=512)


def profiles(
    config: Callable[..., Any], *, cpu: Profile, gpu: Recipe, gpu_seconds: int, gpu_detects: str
) -> dict[str, Profile]:
    """Four of them, of which `cpu` is given; its recipe and the GPU's are shortened for the tiny ones.

    config: of an experiment, from keyword arguments architecture, data, vocab, recipe and held_out_windows.
    """

    def tiny(recipe: Recipe) -> Any:
        return config(architecture=TINY, data="stdlib", vocab=512, recipe=recipe, held_out_windows=16)

    large = config(architecture=LARGE, data="stdlib", vocab=16_384, recipe=gpu, held_out_windows=128)
    few = replace(cpu.config.recipe, steps=10, log_every=10)
    few_of_gpu = replace(gpu, steps=10, batch=8, accumulate=2, log_every=10)
    return {
        "smoke": Profile(config=tiny(few), seeds=2, seconds=10, detects=None),
        "cpu": cpu,
        "gpu": Profile(config=large, seeds=3, seconds=gpu_seconds, detects=gpu_detects, grows=True, device="cuda"),
        # it takes the gpu profile's path with tiny models
        "gpu-tiny": Profile(config=tiny(few_of_gpu), seeds=2, seconds=150, detects=None, grows=True),
    }


def measured(
    arms: Sequence[str], config: Any, seeds: int, run: RunFolder, *, probe: str, label: str, **options: Any
) -> Json:
    """What `probe` tells of every arm and of vanilla's twin, before and after training on text that begins alike.

    config: as of `profiles`; options: of `Arm`, for all.
    """
    from experiments.training.text import text

    read = text(run.slot.data or config.data, config.vocab, config.held_out_windows, opened=True)
    architecture = replace(config.architecture, stem=Tokens(read.vocab))

    def arm(name: str, seed: int) -> Arm:
        return Arm(
            architecture=architecture,
            variant=BASELINE if name == TWIN else name,
            source=read.source,
            recipe=config.recipe,
            seed=seed,
            twin=name == TWIN,
            probes=(probe,),
            **options,
        )

    names = (*arms, TWIN)
    by_seed = rounds(lambda seed: {name: arm(name, seed) for name in names}, seeds, run, label)
    records = [record for by_name in by_seed for record in by_name.values()]
    return {
        "seeds": len(by_seed),
        "probed": {
            stage: {name: [by_name[name]["probes"][probe][stage] for by_name in by_seed] for name in names}
            for stage in ("start", "end")
        },
        "loss": {name: [by_name[name]["loss"] for by_name in by_seed] for name in names},
        "diverged": [record["diverged"] for record in records if record["diverged"]],
        "text": read.name,
        "provenance": of_runs(records),
    }
