"""The question of layers on text: concentration, sinks, value drains, spectra, and nearness to cross-layer attention.

It trains nothing of its own.  It reads what the campaign's probe has stored of vanilla and ResFormer, each at its own
rate, as trained for `text-values`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache
from statistics import fmean
from typing import TYPE_CHECKING

from experiments.campaign.drawing import line, look
from experiments.campaign.profiles import profiles
from experiments.campaign.question import BASELINE, Config, Group
from experiments.campaign.reading import Losses
from experiments.campaign.setting import VANILLA
from experiments.campaign.signs import Pair, Signs, own_rate_groups
from experiments.experiment.protocol import Experiment, Profile
from experiments.store.folders import Json
from experiments.verdicts.intervals import t_interval

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RESFORMER = "resformer"
CONCENTRATION, SINKS, DRAINS = "resformer.concentration", "resformer.sinks", "resformer.value-drains"
SIMILAR, EIGENVALUES, SMOOTHING = "resformer.concentration-and-similarity", "resformer.fig-12", "resformer.smoothing"
NEARER = "resformer.fig-3"
ENTROPY, DEEPER, SINK, DRAIN, OWN_DRAIN, PEAK = "entropy", "deeper", "sink", "drain", "own drain", "peak"
ALIKE, LARGEST, FILLED, COLLAPSE = "alike", "largest", "filled", "collapse"
NEAR = {f"{source}, {other}": (source, other) for source in ("previous", "first") for other in ("identity", "even")}
GROUPS = (Group(arms=(RESFORMER,), width=48, rate=None, until=20.0),)
SAID: tuple[tuple[str, str, str, int, str, str], ...] = (  # what, arm, against, sign, place, claim
    (ENTROPY, VANILLA, "", -1, "Fig. 1 (middle)", CONCENTRATION),
    (DEEPER, VANILLA, "", -1, "Fig. 1 (middle)", CONCENTRATION),
    (SINK, VANILLA, "", 1, "Figs. 10 and 19", SINKS),
    (DRAIN, VANILLA, "", -1, "Figs. 10 and 19", SINKS),
    (PEAK, VANILLA, "", 1, "Figs. 10 and 19", SINKS),
    (COLLAPSE, VANILLA, "", -1, "introduction: over-smoothing with depth", SMOOTHING),
    (ENTROPY, RESFORMER, VANILLA, 1, "Fig. 1 (middle)", CONCENTRATION),
    (DEEPER, RESFORMER, VANILLA, 1, "Fig. 1 (middle)", CONCENTRATION),
    (SINK, RESFORMER, VANILLA, -1, "Fig. 10", SINKS),
    (DRAIN, RESFORMER, VANILLA, 1, "Fig. 10", SINKS),
    (OWN_DRAIN, RESFORMER, VANILLA, 1, "section 4.5", DRAINS),
    (PEAK, RESFORMER, VANILLA, -1, "Fig. 10", SINKS),
    (ALIKE, RESFORMER, VANILLA, -1, "introduction and appendix A.1", SIMILAR),
    (LARGEST, RESFORMER, VANILLA, 1, "Fig. 12 (right)", EIGENVALUES),
    (FILLED, RESFORMER, VANILLA, 1, "section 4.5: stronger representational capacity", SMOOTHING),
    (COLLAPSE, RESFORMER, VANILLA, 1, "introduction: ResFormer alleviates over-smoothing", SMOOTHING),
    *((what, VANILLA, "", 1, "section 3.2, Fig. 3", NEARER) for what in NEAR),
)


class Layers(Signs):
    """The question about the layers of vanilla and ResFormer, as the campaign's probe measured them."""

    name = "text-layers"
    title = "What do layers do on text, and what does a value residual change in it?"
    caption = (
        "Vanilla and ResFormer, each at its own learning rate, against tokens per parameter. (a) Entropy of token "
        "importance less uniform attention's. (b) The first token's importance over uniform attention's, log. (c) "
        "Its value over the others', log. (d) Directions that values fill, log. Means over layers from 2 on; bands: "
        "95 % over seeds, point by point."
    )
    order = 6
    claims: tuple[str, ...] = (CONCENTRATION, SINKS, DRAINS, SIMILAR, EIGENVALUES, SMOOTHING, NEARER)
    profiles: Mapping[str, Profile] = profiles(
        GROUPS, seeds=8, seconds=30_000, detects="differences of about one standard deviation over seeds"
    )
    words: Mapping[str, str] = {RESFORMER: "ResFormer"}
    quantities: Mapping[str, str] = {
        ENTROPY: "entropy of token importance less uniform attention's, nats, mean over layers from 2 on",
        DEEPER: "the last layer's entropy minus the first's, nats",
        SINK: "log of the first token's importance over uniform attention's, mean over layers from 2 on",
        DRAIN: "log of the first token's value over the others', of what heads attend over",
        OWN_DRAIN: "log of the first token's value over the others', of what layers project",
        PEAK: "log of the first token's state over the others'",
        ALIKE: "mean cosine of tokens' states",
        LARGEST: "log of the largest eigenvalue of the values that heads attend over",
        FILLED: "log of the number of directions that these values fill",
        COLLAPSE: "log of that number in the last layer over the first's",
        **{
            what: f"cosine with cross-layer attention to {'layer 1' if source == 'first' else 'the layer before'}: the "
            f"current attention's minus {'even attention' if other == 'even' else 'the identity'}'s"
            for what, (source, other) in NEAR.items()
        },
    }
    assumes = "that what the paper shows of models of 82 to 468 million parameters holds at this size"

    def pairs(self, config: Config) -> Sequence[Pair]:  # noqa: ARG002
        """Return what the paper's figures and words lead one to expect."""
        rows = [dict(zip(("what", "arm", "against", "sign", "place", "claim"), row, strict=True)) for row in SAID]
        return [Pair(by="paper", **row) for row in rows]  # type: ignore[arg-type]

    def probed(self, probes: Json) -> Json:
        """Return the statistics of one model, entropy and importance as they are (`values` subtracts uniform's)."""
        entropy, norms, spectrum = probes["entropy"]["entropy"], probes["norms"], probes["spectrum"]
        filled = spectrum["participation"]
        nearness = probes.get("nearness")
        return {
            ENTROPY: fmean(entropy[1:]),
            DEEPER: entropy[-1] - entropy[0],
            SINK: math.log(fmean(probes["importance"]["first"][1:])),
            DRAIN: _logs(norms["value_first"]),
            OWN_DRAIN: _logs([x for x in norms["own_first"] if x is not None]),
            PEAK: _logs(norms["state_first"]),
            ALIKE: fmean(probes["similarity"]["similarity"][1:]),
            LARGEST: _logs(spectrum["largest"]),
            FILLED: _logs(filled),
            COLLAPSE: math.log(filled[-1] / filled[0]),
            **{
                what: fmean(nearness[source]["current"]) - fmean(nearness[source][other]) if nearness else 0.0
                for what, (source, other) in NEAR.items()
            },
        }

    def values(self, group: Json, what: str) -> Losses:
        """Return a statistic, entropy and importance minus what uniform attention has."""
        found = super().values(group, what)
        return {name: [x - _uniform(what, group["context"]) for x in of_seed] for name, of_seed in found.items()}

    def draw(self, prediction: Json, measurement: Json) -> Figure:  # noqa: ARG002
        """Draw four of the statistics against tokens."""
        from experiments.drawing import style

        group = next(iter(own_rate_groups(measurement).values()))
        fig, axes = style.figure(columns=2, rows=2, width=4.6, height=3.4)
        titles = {ENTROPY: "Concentration", SINK: "Sink", DRAIN: "Value drain", FILLED: "Directions of values"}
        units = {ENTROPY: "entropy less uniform's (nats)", SINK: "log of importance over uniform's"}
        units |= {DRAIN: "log of the value's norm over others'", FILLED: "log of the number of directions"}
        x = list(group["lengths"].values())
        for axis, (what, title) in zip(axes, titles.items(), strict=True):
            for name in (VANILLA, *([RESFORMER] if RESFORMER in group["loss"] else [])):
                shown = BASELINE if name == VANILLA else (name,)
                points = []
                for length in group["lengths"]:
                    rows = zip(*(group["probed"][one][length] for one in shown), strict=True)
                    each = [fmean(math.nan if one is None else one[what] for one in row) for row in rows]
                    points.append(t_interval([value - _uniform(what, group["context"]) for value in each]))
                line(axis, x, points, label=self.words.get(name, name), **look(name))
            axis.set_ylabel(units[what])
            axis.set_title(title)
            style.tokens_per_parameter(axis, x)
        style.finish(list(axes))
        return fig


def _logs(values: Sequence[float]) -> float:
    """Return the mean logarithm over layers from 2 on."""
    return fmean(math.log(value) for value in values[1:] or values)


@cache
def _uniform(what: str, tokens: int) -> float:
    """Return a statistic's value under uniform attention to the past; 0 where nothing is to be subtracted."""
    from theory.resformer import measures

    if what not in (ENTROPY, SINK):
        return 0.0
    importance = measures.uniform_causal_importance(tokens)
    return float(measures.entropy(importance)) if what == ENTROPY else math.log(importance[0])


EXPERIMENT: Experiment = Layers()
