"""Around W0 != 0: where SkipV1Former's optimum stays below MHA's, where it does not, and what theory says of both.

The printed Theorem 2 (SkipV1Former, appendix A.1) says it does, with two heads each, for every W0 large enough.
`theory.skipv1.w0` proves it with enough heads; `theory.skipv1.w0_heads` refutes it with few, for W0 = c I and every
d >= 3; `theory.skipv1.bias` proves it with two, if a term C x is added to the prediction.  Here both architectures are
minimised exactly over A, B, K and W, and over the rank where optima are compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from experiments.experiment.protocol import Experiment, Kind, Profile
from experiments.skipv1.around_w0.points import ENOUGH, Config, Prior, Spectrum, minimised, points, size
from experiments.skipv1.around_w0.predictions import (
    biased_heads,
    enough_heads,
    few_heads,
    large_prior,
    mixed_heads,
    region,
)
from experiments.skipv1.around_w0.verdicts import biased_checks, few_checks, many_checks
from experiments.store.folders import Json
from experiments.store.work import results
from experiments.verdicts.checks import Check

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from experiments.store.folders import RunFolder


_DETECTS = "the sign of the difference wherever it is more than 0.5 % of the loss; 2 % of what theory says exactly"
_SPECTRA: tuple[Spectrum, ...] = ("identity", "turned", "decaying", "rank one")
PROFILES = {
    "smoke": Profile(
        config=Config(
            d=4,
            n=2,
            scales=(0.5, 8.0),
            contexts=(2,),
            widths=(2, 4),
            at_widths=(2,),
            heads=(2,),
            spectra=("identity", "rank one"),
            biased=("rank one",),
            mixed=(3, 2, 2),
            starts=4,
            finished=2,
        ),
        seeds=0,
        seconds=45,
        detects=_DETECTS,
    ),
    "cpu": Profile(
        config=Config(
            d=4,
            n=2,
            scales=(0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0),
            contexts=(1, 2, 8, 32),
            widths=(2, 3, 4, 5),
            at_widths=(2, 16),
            heads=(2, 4, 6),
            spectra=_SPECTRA,
            biased=("identity", "decaying"),
            mixed=(5, 16, 4),
            starts=16,
            finished=3,
        ),
        seeds=0,
        seconds=195,
        detects=_DETECTS,
    ),
    "full": Profile(
        config=Config(
            d=4,
            n=2,
            scales=(0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0),
            contexts=(1, 2, 4, 8, 16, 32, 64, 128),
            widths=(2, 3, 4, 5, 6, 7, 8, 9),
            at_widths=(2, 16, 64),
            heads=(2, 4, 6, 8, 12),
            spectra=_SPECTRA,
            biased=_SPECTRA,
            mixed=(6, 16, 4),
            starts=48,
            finished=8,
        ),
        seeds=0,
        seconds=3600,
        detects=_DETECTS,
    ),
}


class SkipV1W0:
    name = "skipv1-w0"
    title = "Around W0 != 0: where SkipV1Former beats MHA, and where it does not (Theorem 2 as printed)"
    caption = (
        "Two heads each, around W0 = c I. Exact minima are the lowest of several descents. (a) Loss over c, on an "
        "axis that is linear near 0: lines are proved or reached by explicit weights, markers exact minima; dash-"
        "dotted: SkipV1Former with enough heads. (b) Which architecture is lower over c and the number of pairs n: "
        "shaded and hatched regions are proved, markers exact minima, above them SkipV1Former's less MHA's in per "
        "cent of E‖W*‖². (c) What is lost of a large W0, SkipV1Former's over MHA's, by width: lines are proved at "
        "the least at full rank a = d, crosses in the colour of their n are exact minima of all ranks, which may lie "
        "lower. (d) The difference at equal rank for several c: above zero MHA is lower. No sampling: nothing has an "
        "interval; lines in (c), (d) join whole numbers."
    )
    kind: Kind = "theory"
    claims: tuple[str, ...] = (
        "skipv1.w0",
        "skipv1.w0-enough-heads",
        "skipv1.w0-floors",
        "skipv1.w0-d2",
        "skipv1.bias",
    )
    profiles: Mapping[str, Profile] = PROFILES
    further: Mapping[str, str] = {
        "heads": "(a) Loss at exact minima over the number of heads, of SkipV1Former's half skip heads. (b) "
        "Loss over how many of the heads are skip heads: nothing lies below the line, crosses are exact minima. "
        "(c) SkipV1Former's loss less MHA's for several W0 of equal norm: a multiple of the identity, the same "
        "turned, of decaying singular values, of rank one; grey with two heads, hatched with enough. (d) MHA's "
        "loss less SkipV1Former's at equal rank, in units rho of what one number explains, moved apart: with "
        "enough heads the line is proved at the least, with two heads and a term C x (crosses) exactly. No "
        "sampling: nothing has an interval; lines join whole numbers.",
    }

    def predict(self, config: Config) -> Json:
        d, n = config.d, config.n
        fine = [0.0, *(2.0 ** (i / 8) for i in range(-16, 49))]
        few = [
            few_heads(prior, size, m, heads)
            for prior, size, m, heads in dict.fromkeys(
                (p.prior, p.d, p.n, p.heads)
                for p in points(config)
                if p.heads and p.skips is None and not p.biased and p.prior.spectrum == "identity"
            )
        ]
        many = [enough_heads(p) for p in points(config) if p.heads == ENOUGH and p.toy == "skipv1"]
        return {
            "assumes": "W* ~ N(W0, I), ||W0||_F = c sqrt(d); x and noise Gaussian, sigma = 0.1; Assumption 1; "
            "minima over A, B, K and W",
            "source": "theory.skipv1.w0, Theorems 1 to 3; theory.skipv1.w0_heads, Theorems 4 and 5",
            "curve": [few_heads(Prior("identity", c), d, n, 2) for c in fine],
            "widths": [[large_prior(width, m) for width in range(3, 25)] for m in (*config.at_widths, 0)],
            "thresholds": [region(d, 2.0 ** (i / 8)) for i in range(49)],
            "few": few,
            "mixed": mixed_heads(*config.mixed),
            "many": list({row["key"]: row for row in many}.values()),
            "biased": [biased_heads(p) for p in points(config) if p.biased and p.toy == "skipv1"],
        }

    def measure(self, config: Config, seeds: int, run: RunFolder) -> Json:  # noqa: ARG002
        kind, todo = "exact minimum", {p.key: p for p in points(config)}
        return {"exact": results(kind, todo, minimised, run, label=kind, size=size)}

    def compare(self, prediction: Json, measurement: Json) -> list[Check]:
        exact = measurement["exact"]
        return [
            *(check for row in prediction["few"] for check in few_checks(row, exact)),
            *(check for row in prediction["many"] for check in many_checks(row, exact)),
            *(check for row in prediction["biased"] for check in biased_checks(row, exact)),
        ]

    def draw(self, prediction: Json, measurement: Json) -> Figure:
        from experiments.skipv1.around_w0.figure import draw

        return draw(prediction, measurement)

    def draw_further(self, name: str, prediction: Json, measurement: Json) -> Figure:  # noqa: ARG002 - there is one
        from experiments.skipv1.around_w0.heads_figure import draw

        return draw(prediction, measurement)


EXPERIMENT: Experiment = SkipV1W0()
