"""How much of `svformer-length` is run: small decoders in contexts of some tokens, or the paper's 82M model."""

from __future__ import annotations

from dataclasses import replace

from experiments.experiment.protocol import Profile
from experiments.resformer.length.points import Config
from icl.recipe import SCHEDULES, Recipe
from theory.plans.presets import PRESETS, llama

# The warm-up of section 4.1.1; Table 4 has a tenth of it.  Output projections start smaller than in the authors' code:
# else how soon a small vanilla decoder gets under way hangs on the seed more than on anything compared here.
_SCHEDULE = {**SCHEDULES["resformer"].settings, "warmup": 0.12, "scale_outputs": True}
_TINY = llama(d_model=16, n_heads=2, n_layers=2, d_ff=32, vocab=512, context=8)
_SMALL = llama(d_model=32, n_heads=2, n_layers=6, d_ff=88, vocab=512, context=4)
_CPU = Recipe(**{**_SCHEDULE, "steps": 450, "batch": 1, "learning_rate": 0.005, "log_every": 5})
_GPU = Recipe(
    **{**_SCHEDULE, "steps": 3000, "batch": 1, "learning_rate": 1e-3, "log_every": 10},
    precision="bf16",
    compile=True,
)
_LITTLE = Config(
    architecture=_TINY,
    data="stdlib",
    vocab=512,
    recipe=replace(_CPU, steps=20, learning_rate=0.01, log_every=2),
    tokens=64,
    lengths=(4, 8),
    rates=(0.01, 0.02),
    warmups=(0.012, 0.12),
    layers=(2,),
    window=4,
    held_out_tokens=64,
)
PROFILES = {
    "smoke": Profile(config=_LITTLE, seeds=2, seconds=15, detects=None),
    "cpu": Profile(
        config=Config(
            architecture=_SMALL,
            data="stdlib",
            vocab=512,
            recipe=_CPU,
            tokens=512,
            lengths=(4, 8, 32),
            rates=(0.005, 0.01),
            warmups=(0.12,),
            layers=(6,),
            window=50,
            held_out_tokens=4096,
        ),
        seeds=4,
        seconds=280,
        detects="about 0.02 nats a token, and the order of critical points within the training, in contexts of up to "
        "32 tokens and small, briefly trained models",
    ),
    "gpu": Profile(
        config=Config(
            architecture=replace(PRESETS["llama-82m"].architecture, context=512),
            data="stdlib",
            vocab=16_384,
            recipe=_GPU,
            tokens=32_768,
            lengths=(128, 512, 2048),
            rates=(5e-4, 1e-3, 2e-3),
            warmups=(0.012, 0.12),
            layers=(4, 8),
            window=100,
            held_out_tokens=262_144,
        ),
        seeds=3,
        seconds=14_400,
        # Of the default text this reads some thirty epochs; --data names more.
        detects="about 0.01 nats a token, and the order of critical points within the training",
        grows=True,
        device="cuda",
    ),
    "gpu-tiny": Profile(
        config=replace(
            _LITTLE, recipe=replace(_GPU, steps=20, learning_rate=0.01, log_every=2), rates=(0.01,), warmups=(0.12,)
        ),
        seeds=2,
        seconds=150,
        detects=None,  # it takes the gpu profile's path with tiny models
        grows=True,
    ),
}
