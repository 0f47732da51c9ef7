"""Sizes in which a question is run: the campaign's text models on a CPU, larger ones on a GPU, and a smoke test."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from experiments.campaign.question import Config, Group
from experiments.campaign.rates import at_width
from experiments.campaign.setting import Corpus, Setting, Sweep
from experiments.experiment.protocol import Profile
from icl.recipe import Recipe
from theory.plans.presets import llama

NO_EPS = 1e-12  # nothing beside what is normed: with 1e-5, depth attention does not start as PreNorm
_RECIPE = Recipe(steps=1, batch=4, learning_rate=1.0, weight_decay=0.1, floor=0.0, decay="late")
_SMALL = replace(llama(d_model=48, n_heads=2, n_layers=6, d_ff=132, vocab=512, context=256), norm_eps=NO_EPS)
_LARGE = replace(llama(d_model=256, n_heads=4, n_layers=6, d_ff=704, vocab=4096, context=512), norm_eps=NO_EPS)
CAMPAIGN = Setting(architecture=_SMALL, recipe=_RECIPE)
SMOKE = Setting(
    architecture=replace(llama(d_model=8, n_heads=2, n_layers=2, d_ff=16, vocab=512, context=32), norm_eps=NO_EPS),
    corpus=Corpus("stdlib", "", 0, vocab=512),
    recipe=replace(_RECIPE, batch=32),
    held_out_windows=16,
    sweep=Sweep(rates=(4e-3, 8e-3), width=8, until=0.625, seeds=2),
)
GPU = Setting(
    architecture=_LARGE,
    corpus=Corpus("stdlib", "", 0, vocab=4096),
    recipe=replace(_RECIPE, batch=32, precision="bf16", compile=True),
    sweep=Sweep(rates=(1e-3, 2e-3, 4e-3), width=192, until=5.0, seeds=2),
)
GPU_TINY = replace(SMOKE, recipe=GPU.recipe)
GPU_WIDTHS = {48: 256, 64: 384, 80: 512, 32: 192}  # for those of the campaign; rates fall with the root of the width


def profiles(groups: Sequence[Group], *, seeds: int, seconds: int, detects: str, few: int = 1) -> dict[str, Profile]:
    """Return a question's profiles.

    Args:
        groups: what the campaign trains for it.
        seeds: of each.
        seconds: on two cores, of all of it.
        detects: the effect that so many seeds can detect.
        few: groups of the profiles that show that it runs, of one arm each.
    """
    until = SMOKE.lengths[0]
    tiny = tuple(replace(group, arms=group.arms[:1], width=8, until=until) for group in groups[:few])
    large = tuple(replace(group, width=GPU_WIDTHS[group.width], rate=_large_rate(group)) for group in groups)
    return {
        "smoke": Profile(config=Config(setting=SMOKE, groups=tiny), seeds=2, seconds=20, detects=None),
        "cpu": Profile(
            config=Config(setting=CAMPAIGN, groups=tuple(groups)),
            seeds=seeds,
            seconds=seconds,
            detects=detects,
            grows=True,
        ),
        "gpu": Profile(
            config=Config(setting=GPU, groups=large),
            seeds=3,
            seconds=20_000,
            detects=detects,
            grows=True,
            device="cuda",
        ),
        # it takes the gpu profile's path with tiny models
        "gpu-tiny": Profile(
            config=Config(setting=GPU_TINY, groups=tiny), seeds=2, seconds=190, detects=None, grows=True
        ),
    }


def _large_rate(group: Group) -> float | None:
    return None if group.rate is None else at_width(group.rate, group.width, GPU_WIDTHS[group.width])
