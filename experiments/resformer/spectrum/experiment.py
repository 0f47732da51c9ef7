"""Are the values' eigenvalues larger with the value residual (Fig. 12), and do values fill more directions?

Of decoders trained on text, layer by layer, before training and after it: the spectrum of Eqn. (12) of the values that
heads attend over and of those that layers project; its largest eigenvalue, which Fig. 12 compares, and how many
directions the values fill, which does not depend on their units.  Before training both follow from random matrices.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from experiments.experiment.protocol import Experiment, Kind, Profile
from experiments.resformer.spectrum.points import ARMS, AT_START, EIGENVALUES, LIMIT, SAID, SMOOTHING, Config
from experiments.resformer.watched import SMALL, measured, profiles
from experiments.store.folders import Json
from experiments.training.campaign import BASELINE
from experiments.training.tuning import Tuning
from experiments.verdicts.checks import Judgement
from icl.recipe import Recipe

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from experiments.store.folders import RunFolder

PROBE = "experiments.resformer.spectrum.probe:probe"
STD = 0.02  # of the initial matrices

_CPU = Recipe(steps=300, batch=8, learning_rate=5e-3, log_every=50)
PROFILES = profiles(
    Config,
    gpu=replace(_CPU, steps=2000, batch=64, learning_rate=2e-3, precision="bf16", compile=True),
    cpu=Profile(
        config=Config(architecture=SMALL, data="stdlib", vocab=512, recipe=_CPU),
        seeds=4,
        seconds=120,
        detects="a tenth of the sums before training; a factor of 1.5 of the largest eigenvalue and 1.2 of the "
        "directions that are filled, in small and briefly trained models",
    ),
    gpu_seconds=3600,
    gpu_detects="a hundredth of the sums before training; a factor of 1.2 of the largest eigenvalue, at twelve layers",
)


class ResFormerSpectrum:
    name = "resformer-spectrum"
    title = "Spectra of values by layer, with and without the value residual (ResFormer, Fig. 12)"
    caption = (
        "(a) Eigenvalues of layer 1's values in order of size; dotted is theory for large sizes. (b) Their sum over"
        " what heads attend over, before training, dotted as theory has it. (c) The largest eigenvalue and (d) the "
        "number of directions that values fill effectively, by layer, trained; crosses are what ResFormer's layer "
        "itself projects, before layer 1's values are added. vanilla's twin has other initial weights: what it "
        "differs by is no effect. (a) and (c) show geometric means. Bands and intervals: 95 % over seeds, in (a) "
        "and (c) of logarithms; markers are moved apart, lines join whole layers."
    )
    kind: Kind = "scale"
    claims: tuple[str, ...] = (AT_START, LIMIT, EIGENVALUES, SMOOTHING)
    profiles: Mapping[str, Profile] = PROFILES

    def predict(self, config: Config) -> Json:
        import numpy as np

        from theory.resformer import spectra

        a = config.architecture
        values, layers = a.kv_heads * a.width, a.n_layers
        square = spectra.normed_square(a.d_model, STD, a.norm_eps)
        gram = spectra.expected_gram(a.context, a.d_model, square)
        total = spectra.expected_sum(gram, values, STD)
        half = spectra.residual_share(0.5, 0.5)
        sizes = a.context, a.d_model, values
        return {
            "assumes": "before training: normal weights, and tokens in independent directions behind each norm; after "
            "it, that what Fig. 12 shows of an 82M model holds at this size",
            "source": "ResFormer, section 4.5 and Fig. 12; theory.resformer.spectra",
            "statistic": "of each model a number by layer, its mean log over layers from 2 on where nothing else is "
            "said; its mean over seeds, or its mean paired difference to vanilla",
            "rule": "before training: sums over seeds within their 95 % intervals and 3 %; an effect: the 95 % "
            "interval over seeds lies on the predicted side of zero, and that of vanilla's twin does not",
            "tuning": Tuning().described(),
            "sum": {BASELINE: [total] * layers, ARMS[1]: [total] + [half * total] * (layers - 1)},
            "square_sum": spectra.expected_square_sum(gram, values, STD),
            "square_sum_at_right_angles": spectra.expected_square_sum(square * np.eye(a.context), values, STD),
            "largest": spectra.largest(*sizes) * total / a.d_model,
            "largest_of_one_matrix": spectra.largest(10**9, a.d_model, values) * total / a.d_model,
            "eigenvalues": (spectra.quantiles(*sizes) * total / a.d_model).tolist(),
            "signs": {said.key: said.sign for said in SAID},
        }

    def measure(self, config: Config, seeds: int, run: RunFolder) -> Json:
        return measured(ARMS, config, seeds, run, probe=PROBE, label=self.name, std=STD)

    def compare(self, prediction: Json, measurement: Json) -> Sequence[Judgement]:
        from experiments.resformer.spectrum.verdicts import verdicts

        return verdicts(prediction, measurement)

    def draw(self, prediction: Json, measurement: Json) -> Figure:
        from experiments.resformer.spectrum.figure import draw

        return draw(prediction, measurement)


EXPERIMENT: Experiment = ResFormerSpectrum()
