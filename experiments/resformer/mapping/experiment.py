"""How near Eqn. (3) is to cross-layer attention in a trained decoder, and which of them trains best (Figs. 3 and 8).

Of a vanilla decoder trained on text, layer by layer: the cosine of true cross-layer attention (Eqn. (2)) with the
current attention's mapping (Eqn. (3)) and with the identity's (Eqn. (6)), for the layer before and for layer 1; how far
scores move when one layer's keys stand for the other's; and the weights' total variation under both bounds of
`theory.resformer.blocks`.  Beside it the losses of decoders that are trained with each mapping.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from experiments.experiment.protocol import Experiment, Kind, Profile
from experiments.resformer.mapping.points import ARMS, BETTER, GATE, IN_THE_MEAN, NEARER, RESFORMER, SHARP, Config
from experiments.store.folders import Json
from experiments.training.arms import Arm
from experiments.training.campaign import BASELINE, TWIN, of_runs, rounds
from experiments.training.tuning import Tuning
from experiments.verdicts.checks import Judgement
from icl.recipe import Recipe
from theory.plans.architecture import Tokens
from theory.plans.presets import llama

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from experiments.store.folders import RunFolder

CURVE = 121  # points of the bound
PROBE = "experiments.resformer.mapping.probe:probe"

_TINY = llama(d_model=16, n_heads=2, n_layers=3, d_ff=32, vocab=512, context=32)
_SMALL = llama(d_model=64, n_heads=4, n_layers=5, d_ff=176, vocab=512, context=64)
_CPU = Recipe(steps=200, batch=16, learning_rate=4e-3, log_every=20)
_GPU = Recipe(steps=1500, batch=64, learning_rate=2e-3, precision="bf16", compile=True, log_every=20)
PROFILES = {
    "smoke": Profile(
        config=Config(
            architecture=_TINY, data="stdlib", vocab=512, recipe=replace(_CPU, steps=20, batch=8, log_every=10)
        ),
        seeds=2,
        seconds=20,
        detects=None,
    ),
    "cpu": Profile(
        config=Config(architecture=_SMALL, data="stdlib", vocab=512, recipe=_CPU),
        seeds=4,
        seconds=240,
        detects="a violated bound, 0.05 of a cosine and about 0.05 nats a token, in small and briefly trained models",
    ),
    "gpu": Profile(
        config=Config(
            architecture=llama(d_model=512, n_heads=8, n_layers=12, d_ff=1376, vocab=16_384, context=512),
            data="stdlib",
            vocab=16_384,
            recipe=_GPU,
            held_out_windows=256,
        ),
        seeds=3,
        seconds=5400,
        detects="a violated bound, 0.02 of a cosine at twelve layers, and about 0.01 nats a token",
        grows=True,
        device="cuda",
    ),
    "gpu-tiny": Profile(
        config=Config(
            architecture=_TINY,
            data="stdlib",
            vocab=512,
            recipe=replace(_GPU, steps=20, batch=8, accumulate=2, log_every=10),
        ),
        seeds=2,
        seconds=150,
        detects=None,  # it takes the gpu profile's path with tiny models
        grows=True,
    ),
}


class ResFormerMapping:
    name = "resformer-mapping"
    title = (
        "Mappings of an earlier layer's values: nearness to cross-layer attention, and losses (ResFormer, Figs. 3, 8)"
    )
    caption = (
        "(a), (b) Mean cosine of two approximations with true cross-layer attention by layer, moved apart, over the"
        " layer before and over layer 1; even attention and another text's keys are the controls. (c) How much "
        "attention weights move when earlier keys replace the layer's own, over the largest move of a score, rows "
        "of all seeds together: the black line is a sharp bound, bands hold 95 % of rows, trained and before "
        "training, squares are Pinsker's bound. (d) Losses less ResFormer's where each mapping is trained; words "
        "say on which side of zero the paper has it; ResFormer's twin has other initial weights. Intervals: 95 % "
        "over seeds, in (d) paired and for all at once. Lines in (a), (b) join whole layers."
    )
    kind: Kind = "scale"
    claims: tuple[str, ...] = (GATE, SHARP, IN_THE_MEAN, NEARER, BETTER)
    profiles: Mapping[str, Profile] = PROFILES

    def predict(self, config: Config) -> Json:
        from experiments.resformer.printed import printed
        from theory.resformer.blocks import block_form_share

        signs = {r.variant: r.sign for r in printed() if r.against == RESFORMER and r.variant in ARMS}
        fine = [2.0 ** (-6 + 12 * i / (CURVE - 1)) for i in range(CURVE)]
        return {
            "assumes": "that what Fig. 3 shows of an 82M model and Fig. 8 of its training holds at this size",
            "source": "ResFormer, section 3.2, Fig. 3, and section 4.3, Fig. 8; theory.resformer.blocks",
            "statistic": "mean cosine over held-out tokens with cross-layer attention's output, Eqn. (3)'s less "
            "another mapping's, by layer; held-out loss in nats a token, its mean paired difference to ResFormer",
            "nearness": "to identity, Eqn. (6), by Fig. 3; to even attention and to another text's keys, by what an "
            "approximation would be",
            "rule": "bounds and identities must hold; an effect: the family-wise 95 % interval over seeds lies on the "
            "predicted side of zero, and that of a difference that is none does not: of one half of the text to the "
            "other, which change places from seed to seed, and of ResFormer to a twin with other initial weights",
            "tuning": Tuning().described(),
            "layers": list(range(2, config.architecture.n_layers + 1)),
            "nearer": 1.0,
            "losses": signs,
            "eps": fine,
            "bound": [block_form_share(eps) for eps in fine],
        }

    def measure(self, config: Config, seeds: int, run: RunFolder) -> Json:
        from experiments.training.text import text

        read = text(run.slot.data or config.data, config.vocab, config.held_out_windows)
        architecture = replace(config.architecture, stem=Tokens(read.vocab))

        def arm(name: str, seed: int) -> Arm:
            return Arm(
                architecture=architecture,
                variant=ARMS[RESFORMER if name == TWIN else name],
                source=read.source,
                recipe=config.recipe,
                seed=seed,
                twin=name == TWIN,
                probes=(PROBE,) if name == BASELINE else (),
            )

        names = (*ARMS, TWIN)
        by_seed = rounds(lambda seed: {name: arm(name, seed) for name in names}, seeds, run, self.name)
        records = [record for r in by_seed for record in r.values()]
        return {
            "seeds": len(by_seed),
            "probed": {stage: [r[BASELINE]["probes"][PROBE][stage] for r in by_seed] for stage in ("start", "end")},
            "loss": {name: [r[name]["loss"] for r in by_seed] for name in names},
            "diverged": [record["diverged"] for record in records if record["diverged"]],
            "text": read.name,
            "provenance": of_runs(records),
        }

    def compare(self, prediction: Json, measurement: Json) -> Sequence[Judgement]:
        from experiments.resformer.mapping.verdicts import verdicts

        return verdicts(prediction, measurement)

    def draw(self, prediction: Json, measurement: Json) -> Figure:
        from experiments.resformer.mapping.figure import draw

        return draw(prediction, measurement)


EXPERIMENT: Experiment = ResFormerMapping()
