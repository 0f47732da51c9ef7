"""What the paper says of heads: that static values need several, that dynamic values make all but one redundant.

Two things would have to be seen.  With ordinary values more heads (of the same width together) end at a lower loss, and
with dynamic ones they do not.  And the more heads a model has, the larger is the share of them that it can do without:
heads are left out of trained models, those first that cost least alone, until the loss has risen by what is said.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from experiments.dva.heads.points import ONE_HEAD, ORDINARY, PROBE, REDUNDANCY, Config, cell
from experiments.experiment.protocol import Experiment, Kind, Profile
from experiments.store.folders import Json
from experiments.training.campaign import TWIN, of_runs, rounds
from experiments.training.tuning import Finals, Tuning, tuned
from experiments.verdicts.checks import Judgement
from icl.recipe import Recipe
from theory.plans.architecture import Architecture
from theory.plans.presets import gpt2

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from experiments.store.folders import RunFolder


def _sizes(**sizes: int) -> Architecture:
    return replace(gpt2(tied=False, qkv_bias=False, n_heads=1, **sizes), dropout=0.0)


_CPU = Recipe(steps=1280, batch=8, learning_rate=4e-3, weight_decay=0.1, log_every=20)
_GPU = Recipe(steps=1500, batch=64, learning_rate=1e-3, weight_decay=0.1, precision="bf16", compile=True, log_every=20)
_TINY = Config(
    architecture=_sizes(d_model=16, n_layers=2, vocab=512, context=16),
    heads=(1, 2),
    data="stdlib",
    vocab=512,
    recipe=replace(_CPU, steps=4, batch=2, log_every=2),
    tuning=Tuning(),
    held_out_windows=8,
)
PROFILES = {
    "smoke": Profile(config=_TINY, seeds=2, seconds=20, detects=None),
    "cpu": Profile(
        config=Config(
            architecture=_sizes(d_model=64, n_layers=4, vocab=512, context=64),
            heads=(1, 2, 4, 8),
            data="stdlib",
            vocab=512,
            recipe=_CPU,
            tuning=Tuning(grid=(2e-3, 4e-3, 8e-3), share=0.25, widenings=2, finals=Finals(rates=2, trials=1)),
        ),
        seeds=4,
        seconds=1500,
        detects="about 0.02 nats a token a doubling of heads, in small models that have learned to use them",
    ),
    "gpu": Profile(
        config=Config(
            architecture=_sizes(d_model=768, n_layers=12, vocab=16_384, context=256),
            heads=(1, 2, 4, 12, 24),
            data="stdlib",
            vocab=16_384,
            recipe=_GPU,
            tuning=Tuning(grid=(5e-4, 1e-3, 2e-3), share=0.2),
            held_out_windows=256,
        ),
        seeds=3,
        seconds=18_000,
        detects="about 0.01 nats a token a doubling of heads",
        grows=True,
        device="cuda",
    ),
    "gpu-tiny": Profile(
        config=replace(
            _TINY,
            recipe=replace(_GPU, steps=4, batch=4, accumulate=2, log_every=2),
            tuning=Tuning(grid=(1e-3,), share=0.5),
        ),
        seeds=2,
        seconds=190,
        detects=None,  # it takes the gpu profile's path with tiny models
        grows=True,
    ),
}


class Heads:
    name = "dva-heads"
    title = "What heads are for: losses by number of heads, and how many can be left out (Dynamic Value Attention)"
    caption = (
        "(a) Held-out loss by the number of heads at equal total width; the legend says by how much a doubling "
        "changes it. (b) How it rises as heads of ordinary values are left out, those first that cost least alone, "
        "mean of seeds; the axis is linear below the dotted line, logarithmic above it. (c) The share of heads that"
        " can be left out before it has risen by as much as that line says, moved apart, small dots single seeds. "
        "Intervals: 95 % over seeds that did not diverge, in (a) of distances to the mean over numbers of heads, so"
        " that a seed's own level drops out. Lines join whole numbers of heads."
    )
    kind: Kind = "scale"
    claims: tuple[str, ...] = (ONE_HEAD, REDUNDANCY)
    profiles: Mapping[str, Profile] = PROFILES

    def architectures(self, config: Config) -> Sequence[Architecture]:
        return [replace(config.architecture, n_heads=heads) for heads in config.heads]

    def predict(self, config: Config) -> Json:
        return {
            "assumes": "that what the paper says of heads holds at this size; the width of all heads together is the "
            "same",
            "source": "Dynamic Value Attention, abstract, sections 2.2 and 3",
            "statistic": "change of the held-out loss with a doubling of heads, nats a token, by least squares over "
            "paired seeds; and of the share of all heads that a trained model can do without, at a rise of the loss by "
            f"{config.spared:g} nats at most",
            "rule": "the family-wise 95 % interval lies on the predicted side of zero; where more heads are said to be "
            "of no use, above zero less 0.01 nats (before the first run, within 0.01 of zero).  Of models that do not "
            "use their heads nothing is told: where leaving all of them out costs less than "
            f"{config.in_use:g} nats a token, it is not decided",
            "tuning": config.tuning.described("number of heads"),
            "heads": list(config.heads),
            "spared": config.spared,
            "in_use": config.in_use,
            "said": {"ordinary": -1.0, "dynamic": 0.0, "alone": 0.0, "more than dynamic": -1.0, "redundant": 1.0},
            "similar": 0.01,
        }

    def measure(self, config: Config, seeds: int, run: RunFolder) -> Json:
        from experiments.training.text import text

        read = text(run.slot.data or config.data, config.vocab, config.held_out_windows)
        names = list(config.models())
        tried = {name: arm for name, arm in config.arms(read.source, read.vocab, 0).items() if name != TWIN}
        rates, tuning = tuned(tried, config.tuning, run, self.name)
        rates[TWIN] = rates[cell(ORDINARY, config.heads[-1])]
        by_seed = rounds(
            lambda seed: {
                name: replace(arm, recipe=replace(arm.recipe, learning_rate=rates[name]))
                for name, arm in config.arms(read.source, read.vocab, seed).items()
            },
            seeds,
            run,
            self.name,
        )
        records = [record for r in by_seed for record in r.values()]
        return {
            "seeds": len(by_seed),
            "tuning": tuning,
            "loss": {name: [r[name]["loss"] for r in by_seed] for name in names},
            "without": {name: [_end(r[name]) for r in by_seed] for name in names},
            "parameters": {name: by_seed[0][name]["parameters"] for name in names},
            "diverged": [record["diverged"] for record in records if record["diverged"]],
            "text": read.name,
            "provenance": of_runs(records),
        }

    def compare(self, prediction: Json, measurement: Json) -> Sequence[Judgement]:
        from experiments.dva.heads.verdicts import verdicts

        return list(verdicts(prediction, measurement))

    def draw(self, prediction: Json, measurement: Json) -> Figure:
        from experiments.dva.heads.figure import draw

        return draw(prediction, measurement)


def _end(record: Json) -> list[float] | None:
    return None if record["diverged"] else record["probes"][PROBE]["end"]["losses"]


EXPERIMENT: Experiment = Heads()
