"""How much is trained in each profile.

Norms have an eps of 1e-12, so that all rules start as one function: at zero queries Full with k sources is the PreNorm
network with k^2 eps (`theory.attnres.zero_query`), and LLaMA's 1e-5 would be no small thing then.  Initial matrices
have the deviation 0.02 at width 512, and more by the root at smaller ones, as narrow models that start at 0.02 stay on
a plateau.
"""

from __future__ import annotations

from dataclasses import replace

from experiments.attnres.dilution.points import Config
from experiments.experiment.protocol import Profile
from experiments.training.tuning import Tuning
from icl.recipe import Recipe
from theory.plans.presets import llama

EPS = 1e-12

_TINY = replace(llama(d_model=16, n_heads=2, n_layers=1, d_ff=32, vocab=512, context=16), norm_eps=EPS)
_SMALL = replace(llama(d_model=32, n_heads=2, n_layers=1, d_ff=85, vocab=512, context=32), norm_eps=EPS)
_LARGE = replace(llama(d_model=512, n_heads=8, n_layers=1, d_ff=1376, vocab=16_384, context=512), norm_eps=EPS)
_CPU = Recipe(steps=140, batch=8, learning_rate=8e-3, log_every=20)
_GPU = Recipe(steps=400, batch=16, learning_rate=1e-3, log_every=10)
_SMOKE = Config(
    architecture=_TINY,
    depths=(1, 2),
    std=0.11,
    data="stdlib",
    vocab=512,
    recipe=replace(_CPU, steps=5, log_every=5),
    tuning=Tuning(),
)
PROFILES = {
    "smoke": Profile(config=_SMOKE, seeds=2, seconds=20, detects=None),
    "cpu": Profile(
        config=replace(
            _SMOKE,
            architecture=_SMALL,
            depths=(3, 6, 12),
            std=0.08,
            recipe=_CPU,
            tuning=Tuning(grid=(8e-3, 16e-3), share=1.0),
        ),
        seeds=3,
        seconds=330,
        detects="a violated bound, and a factor of 1.5 in the effective number of outputs at twelve layers, in narrow "
        "and briefly trained models",
    ),
    "gpu": Profile(
        # In fp32 and not compiled, for the reasons that `experiments.attnres.magnitude.experiment` gives.
        config=replace(
            _SMOKE,
            architecture=_LARGE,
            depths=(6, 12, 24),
            std=0.02,
            vocab=16_384,
            recipe=_GPU,
            tuning=Tuning(grid=(5e-4, 1e-3, 2e-3)),
        ),
        seeds=3,
        seconds=7500,
        detects="a violated bound, and a tenth of the effective number of outputs",
        grows=True,
        device="cuda",
        on_gpu=2,
    ),
    "gpu-tiny": Profile(
        config=replace(
            _SMOKE,
            depths=(1,),
            recipe=replace(_GPU, steps=20, batch=8, accumulate=2, precision="bf16", compile=True),
            tuning=Tuning(grid=(1e-3,)),
        ),
        seeds=2,
        seconds=190,
        detects=None,  # it takes the gpu profile's path with tiny models
        grows=True,
    ),
}
