"""How much of `dva-against-gpt2` is trained."""

from __future__ import annotations

from dataclasses import replace

from experiments.dva.against_gpt2.points import Config, Epochs
from experiments.experiment.protocol import Profile
from experiments.training.tuning import Finals, Tuning
from icl.recipe import Recipe
from theory.plans.architecture import Architecture
from theory.plans.presets import gpt2

_CPU = Recipe(steps=1280, batch=8, learning_rate=4e-3, weight_decay=0.1, log_every=16)
_GPU = Recipe(steps=1500, batch=16, learning_rate=1e-3, weight_decay=0.1, precision="bf16", compile=True, log_every=10)


def _sizes(**sizes: int) -> Architecture:
    return gpt2(tied=False, qkv_bias=False, **sizes)


_TINY = Config(
    architecture=_sizes(d_model=16, n_heads=4, n_layers=3, vocab=512, context=16),
    data="stdlib",
    vocab=512,
    recipe=replace(_CPU, steps=6, batch=2, log_every=2),
    tuning=Tuning(),
    evaluations=3,
    epochs=Epochs(tokens=256, epochs=2, batch=2),
    held_out_windows=8,
)
_SMALL = Config(
    architecture=_sizes(d_model=64, n_heads=8, n_layers=4, vocab=512, context=64),
    data="stdlib",
    vocab=512,
    recipe=_CPU,
    tuning=Tuning(
        grid=(1e-3, 2e-3, 4e-3, 8e-3, 1.6e-2, 3.2e-2),
        share=0.2,
        widenings=1,
        finals=Finals(rates=3, trials=1),
    ),
    evaluations=10,
    epochs=Epochs(tokens=131_072, epochs=5, batch=8),
    held_out_windows=256,
)
_DETECTS = (
    "about 0.04 nats a token between two models, half of that of a part of the difference, in small models that have "
    "learned to use attention"
)
PROFILES = {
    "smoke": Profile(config=_TINY, seeds=2, seconds=30, detects=None),
    "cpu": Profile(config=_SMALL, seeds=5, seconds=4300, detects=_DETECTS),
    "long": Profile(config=_SMALL, seeds=8, seconds=10_800, detects=_DETECTS, grows=True),  # the same, over sittings
    "gpu": Profile(
        config=Config(
            architecture=_sizes(d_model=768, n_heads=12, n_layers=12, vocab=50_304, context=256),
            data="stdlib",
            vocab=50_257,
            recipe=_GPU,
            tuning=Tuning(grid=(3e-4, 6e-4, 1.2e-3, 2.4e-3), share=0.3),
            evaluations=15,
            epochs=Epochs(tokens=3002 * 256, epochs=5, batch=2),
            held_out_windows=256,
        ),
        seeds=3,
        seconds=30_000,
        detects="about 0.02 nats a token at the paper's size",
        grows=True,
        device="cuda",
    ),
    "gpu-tiny": Profile(
        config=replace(_TINY, recipe=replace(_GPU, steps=6, batch=4, accumulate=2, log_every=2)),
        seeds=2,
        seconds=190,
        detects=None,  # it takes the gpu profile's path with tiny models, untuned
        grows=True,
    ),
}
