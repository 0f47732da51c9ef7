"""Decoding: the cache that each variant needs, and what a token and a prompt take of time (section 6.3).

Bytes are counted and have a formula.  Time is what this machine takes: it is held against what a step reads
(`theory.plans.decoding`), which decides it where memory is slower than arithmetic, and against vanilla's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from experiments.experiment.protocol import Experiment, Kind, Profile
from experiments.store.folders import Json, Unfinished
from experiments.verdicts.checks import Judgement
from theory.plans.architecture import Architecture
from theory.plans.names import sized
from theory.plans.presets import llama

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from experiments.store.folders import RunFolder
    from theory.plans.plan import Plan

MEMORY, SPEED = "skipv1.inference-memory", "skipv1.inference-speed"
VARIANTS = ("vanilla", "skipv1", "gqa:group=2", "skipv1+gqa:group=2", "mla", "skipv1+mla", "attnres")


@dataclass(frozen=True, kw_only=True)
class Config:
    """sizes, prompts  sequences, and tokens of each: in the cache where a step is timed, and read at once

    turns      that are timed, after one that is not
    """

    architecture: Architecture
    variants: tuple[str, ...]
    sizes: tuple[tuple[int, int], ...]
    prompts: tuple[tuple[int, int], ...]
    turns: int

    def plan(self, variant: str) -> tuple[Architecture, Plan]:
        from theory.plans.names import resolve

        fitted, rest = sized(self.architecture, variant)
        return fitted, resolve(rest, fitted.shape)


_CPU = Config(
    architecture=llama(d_model=256, n_heads=8, n_layers=8, d_ff=688, vocab=256, context=4224),
    variants=VARIANTS,
    sizes=((1, 128), (1, 4096), (8, 1024)),
    prompts=((1, 512),),
    turns=15,
)
_TINY = replace(
    _CPU,
    architecture=llama(d_model=32, n_heads=4, n_layers=2, d_ff=40, vocab=64, context=64),
    variants=("vanilla", "skipv1", "mla"),
    sizes=((1, 8), (2, 16)),
    prompts=((1, 16),),
    turns=2,
)
_SMOKE = "every byte of the cache, and 100 % of the time of a step"
PROFILES = {
    "smoke": Profile(config=_TINY, seeds=0, seconds=5, detects=_SMOKE),
    "cpu": Profile(
        config=_CPU, seeds=0, seconds=90, detects="every byte of the cache, and about 15 % of the time of a step"
    ),
    "gpu": Profile(
        config=replace(
            _CPU,
            architecture=llama(d_model=1024, n_heads=16, n_layers=24, d_ff=2736, vocab=32_000, context=16_640),
            sizes=((1, 1024), (1, 16_384), (32, 1024)),
            prompts=((1, 4096),),
        ),
        seeds=0,
        seconds=300,
        detects="every byte of the cache, and about 10 % of the time of a step of LLaMA-350M in bf16",
        device="cuda",
    ),
    "gpu-tiny": Profile(config=replace(_TINY, prompts=((1, 16), (2, 16))), seeds=0, seconds=5, detects=_SMOKE),
}


class Decoding:
    name = "scale-decode"
    title = "Decoding: bytes kept and read, and time, by variant, batch and length"
    caption = (
        "(a) What the cache keeps of a token: bars by formula, circles as allocated. (b) Time of a decoded token "
        "over vanilla's in the same turn, after several lengths of context; a cross is the bytes that the step "
        "reads, over vanilla's. (c) Time to read a prompt over vanilla's, and crosses for its FLOPs. gqa: heads "
        "share keys and values in groups; mla: a latent is kept in their place; transformers: vanilla as that "
        "library runs it. Markers are geometric means. Intervals: 95 % over turns, of logarithms, for all variants "
        "and sizes at once."
    )
    kind: Kind = "scale"
    claims: tuple[str, ...] = (MEMORY, SPEED)
    profiles: Mapping[str, Profile] = PROFILES

    def predict(self, config: Config) -> Json:
        from experiments.training.decode_times import size_of
        from theory.plans.accounting import cache, flops
        from theory.plans.decoding import numbers_of_a_step

        plans = {name: config.plan(name) for name in config.variants}
        return {
            "assumes": "that a step's time is that of reading its weights once and what its layers attend over, as "
            "where memory is slower than arithmetic; and nothing of bytes",
            "source": "theory.plans.accounting.cache; theory.plans.decoding; SkipV1Former, section 6.3",
            "rule": "bytes are the formula's; steps answer as a whole pass, to rounding; SkipV1Former's step takes no "
            "longer than vanilla's, give or take 5 %; the logarithm of a step's time over vanilla's is that of what is "
            "read, give or take 10 %; two steps of vanilla's for one are told apart from one",
            "kept": {name: cache(*of).total for name, of in plans.items()},
            "read": {
                name: {size_of(b, t): numbers_of_a_step(*of, b, t) for b, t in config.sizes}
                for name, of in plans.items()
            },
            "prompt": {
                name: {size_of(b, t): b * t * flops(*of, (t + 1) // 2) for b, t in config.prompts}
                for name, of in plans.items()
            },
        }

    def measure(self, config: Config, seeds: int, run: RunFolder) -> Json:  # noqa: ARG002
        """All variants in turns, which cannot be interrupted: begun if there is any time left."""
        from experiments.training.decode_times import decode_times

        if run.slot.seconds_left < 0:
            raise Unfinished(f"{self.name}: nothing was timed; all of it is in one sitting")
        return decode_times(
            config.architecture,
            run.slot.device,
            config.variants,
            config.sizes,
            prompts=config.prompts,
            turns=config.turns,
        )

    def compare(self, prediction: Json, measurement: Json) -> Sequence[Judgement]:
        from experiments.skipv1.decoding.verdicts import verdicts

        return list(verdicts(prediction, measurement, MEMORY, SPEED))

    def draw(self, prediction: Json, measurement: Json) -> Figure:
        from experiments.skipv1.decoding.figure import draw

        return draw(prediction, measurement)


EXPERIMENT: Experiment = Decoding()
