"""How much of `ladder-text` is run.

Seconds are for two cores, from 45,000 tokens a second and core at 0.13 million parameters and 8,500 at 1.2 million.  Of
the long ladder the sizes up to 0.3 million take two hours, about a fiftieth; the largest takes four fifths.
"""

from __future__ import annotations

from dataclasses import replace

from experiments.across.text.points import Config
from experiments.attnres.compute.points import NO_EPS
from experiments.experiment.protocol import Profile
from experiments.training.campaign import BASELINE
from experiments.training.tuning import Tuning
from icl.recipe import SCHEDULES, Recipe
from theory.plans.presets import llama

_ALL = (BASELINE, "skipv1", "resformer", "svformer", "skipv0", "cla-v", "shared-keys", "attnres")
_SMALL = llama(d_model=48, n_heads=4, n_layers=3, d_ff=132, vocab=512, context=128)
_CPU = Recipe(**{**SCHEDULES["skipv1-llama"].settings, "steps": 1, "batch": 8, "learning_rate": 4e-3, "clip": 1.0})
_LONG = Config(
    # Depth attention starts as PreNorm where norms have no eps that matters, and then does as well as vanilla or better
    # with queries that are slow (`attnres-compute`); with that of presets it is behind.
    architecture=replace(_SMALL, norm_eps=NO_EPS),
    widths=(32, 48, 64, 80, 112, 160),  # the first two only bound from below what others are worth
    tokens_a_parameter=20,
    variants=_ALL,
    data="stdlib",
    vocab=512,
    recipe=_CPU,
    tuning=Tuning(grid=(2e-3, 4e-3, 8e-3, 1.6e-2, 3.2e-2), share=1.0, widenings=2),
    tuned=(48, 112),
    evaluations=20,
    held_out_windows=256,
)
_TINY = Config(
    architecture=llama(d_model=16, n_heads=2, n_layers=2, d_ff=44, vocab=512, context=32),
    widths=(16, 24),
    tokens_a_parameter=0.2,
    variants=(BASELINE, "resformer", "svformer", "attnres"),
    data="stdlib",
    vocab=512,
    recipe=_CPU,
    tuning=Tuning(),
    tuned=(16,),
    evaluations=5,
    held_out_windows=16,
)
_ON_GPU = replace(_CPU, batch=32, precision="bf16", compile=True)
PROFILES = {
    "smoke": Profile(config=_TINY, seeds=2, seconds=12, detects=None),
    "cpu": Profile(
        config=replace(
            _LONG,
            architecture=_SMALL,
            widths=(32, 48),
            tuned=(32,),
            tokens_a_parameter=5,  # a quarter of what is optimal
            tuning=Tuning(grid=(4e-3, 8e-3, 1.6e-2), share=1.0, widenings=1),
        ),
        seeds=3,
        seconds=600,
        detects="about 0.02 nats a token, in models of up to 0.13 million parameters on a quarter of their tokens",
    ),
    "long": Profile(
        config=_LONG,
        seeds=3,
        seconds=400_000,
        detects="about 0.01 nats a token, at every size that is finished",
        grows=True,
    ),
    "gpu": Profile(
        config=replace(_LONG, widths=(32, 48, 64, 80, 112, 160, 208), recipe=_ON_GPU),
        seeds=3,
        seconds=14_400,
        detects="about 0.01 nats a token, at every size that is finished",
        grows=True,
        device="cuda",
        on_gpu=4,
    ),
    "gpu-tiny": Profile(
        config=replace(
            _TINY,
            variants=(BASELINE, "attnres"),
            recipe=replace(_ON_GPU, batch=8, accumulate=2),
            tuning=Tuning(grid=(4e-3, 1.6e-2), share=0.5, widenings=1),
        ),
        seeds=2,
        seconds=150,
        detects=None,  # it takes the gpu profile's path with tiny models
        grows=True,
    ),
}
