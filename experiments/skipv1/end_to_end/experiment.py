"""SkipV1Former's toy with nothing assumed: does training find the copying, the gap, and what is it worth in width?

Seed claims: SkipV1Former, Theorem 2, whose first layer is Assumption 1 instead of attention; and section 4, by which it
is worth an MHA whose embedding is wide enough for both x and y.  Here both layers are trained, the first
one sees positions (`icl.toys.end_to_end`), and the embedding's width m goes from d to beyond 2d.

What is predicted.  Under Assumption 1 (`theory.toy.width`) MHA explains rho floor(m/2) ceil(m/2) entries of W*, and
SkipV1Former rho d^2, so that SkipV1Former at width d is MHA at width 2d.  That an end-to-end MHA can do better follows
from `theory.toy.positions`, which also bounds it where the first layer's scores are of positions alone.  How much
better depends on its heads: with four in layer 1 and enough in layer 2 all of rho d^2 is within reach at width 2d - 1
(`theory.toy.least_width`).  So MHA is trained with more than two heads as well, scores of positions alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from experiments.experiment.protocol import Experiment, Kind, Profile
from experiments.skipv1.end_to_end.constructions import constructions, constructions_measured
from experiments.skipv1.end_to_end.points import HEADS, Arms, Config, Sweep
from experiments.skipv1.end_to_end.training import train_arms
from experiments.store.folders import Json
from experiments.verdicts.checks import Judgement
from theory.plans.heads import TOYS
from theory.plans.setting import Setting

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from experiments.store.folders import RunFolder


def _arms(widths: tuple[int, ...], d: int) -> tuple[Arms, ...]:
    """Every kind of arm: nothing assumed, from both starts; positions alone; the mask as printed; MHA of more heads."""
    squeezed = tuple(m for m in widths if m <= 2 * d)
    many = tuple(Arms(tuple(range(d, 2 * d)), "positions", heads=heads) for heads in HEADS[1:])
    return Arms(widths), Arms(squeezed, start="copying"), Arms(squeezed, "positions"), Arms((d,), "printed"), *many


_TWO, _THREE = Setting(2, 8, 0.1), Setting(3, 12, 0.1)
STARTS = 8  # of the descents in the tokens
_DETECTS = "a gap of 3% of the signal where none is expected; explained shares 2% above a bound"
_SMOKE = Arms((2, 4)), Arms((2, 4), start="copying"), Arms((2, 4), "positions", "copying")
PROFILES = {
    "smoke": Profile(
        config=Config(
            sweeps=(Sweep(size=_TWO, arms=_SMOKE, steps=1500, learning_rates=(0.03,)),),
            held_out=16_384,
            construction_prompts=65_536,
        ),
        seeds=4,
        seconds=30,
        detects=_DETECTS,
    ),
    "cpu": Profile(
        config=Config(
            sweeps=(
                Sweep(size=_TWO, arms=_arms((2, 3, 4), 2), steps=3500, learning_rates=(0.03, 0.1)),
                Sweep(
                    size=_THREE,
                    arms=(Arms((3, 5, 6)), Arms((3, 6), start="copying")),
                    steps=3500,
                    learning_rates=(0.02, 0.01),
                ),
            )
        ),
        seeds=6,
        seconds=260,
        detects=_DETECTS,
    ),
    "full": Profile(
        config=Config(
            sweeps=(
                Sweep(size=_TWO, arms=_arms((2, 3, 4, 6), 2), steps=10_000, learning_rates=(0.03, 0.1)),
                Sweep(size=_THREE, arms=_arms((3, 4, 5, 6, 9), 3), steps=10_000, learning_rates=(0.02, 0.01)),
            ),
            held_out=131_072,
            copying_prompts=8_192,
            construction_prompts=1_048_576,
        ),
        seeds=8,
        seconds=3000,
        detects=_DETECTS,
    ),
}


class SkipV1EndToEnd:
    name = "skipv1-end-to-end"
    title = "The toy end to end: copying, gap and worth in width with nothing assumed"
    caption = (
        "(a), (b) The share of the signal explained over the numbers a token has, at two sizes; squares are MHA, "
        "circles SkipV1Former. Lines are theory, the cross MHA whose scores rotate tokens. Hollow: trained from "
        "random weights; filled: from weights near copying; small hollow: scores of positions alone; small filled: "
        "the mask as printed, where shares below zero count as zero. Dots beside are seeds. (c) What layer 1 puts "
        "into a y token, as shares of its output's square; diamonds: the same of an x token; plus signs: the share "
        "of layer 2's matrix G that is second moments of pairs; means over seeds. (d) More heads of MHA; "
        "dash-dotted: enough of them. Intervals: 95 % over seeds, markers moved apart; lines join whole widths."
    )
    kind: Kind = "theory"
    claims: tuple[str, ...] = (
        "toy.width",
        "skipv1.assumption1",
        "skipv1.assumption1-mask",
        "toy.rotating-mha",
        "toy.positions-bound",
        "toy.least-width",
    )
    profiles: Mapping[str, Profile] = PROFILES

    def predict(self, config: Config) -> Json:
        return {
            "assumes": "W0 = 0; x and noise Gaussian. assumed_copy: Assumption 1 at width m. bound: layer 1's scores "
            "are of positions alone. ridge: nothing",
            "source": "theory.toy.width, theory.toy.positions, theory.prompts.regression; units of E ||W*||^2 = d^2",
            "worth": "MHA of two heads reaches what SkipV1Former explains at width d at width 2d (section 4; "
            "theory.toy.width). enough_heads: descents on the exact loss in two kinds of tokens a pair, "
            "theory.toy.token_pairs; at width 2d - 1 the limit of explicit weights, theory.toy.least_width",
            "sizes": {sweep.size.key: _predicted(sweep) for sweep in config.sweeps},
        }

    def measure(self, config: Config, seeds: int, run: RunFolder) -> Json:
        sizes = {sweep.size: sweep.widths for sweep in config.sweeps}
        return {
            **train_arms(config, seeds, run),
            "constructions": constructions_measured(sizes, config.construction_prompts, run),
        }

    def compare(self, prediction: Json, measurement: Json) -> list[Judgement]:
        from experiments.skipv1.end_to_end.verdicts import verdicts

        return verdicts(prediction, measurement)

    def draw(self, prediction: Json, measurement: Json) -> Figure:
        from experiments.skipv1.end_to_end.figure import draw

        return draw(prediction, measurement)


def _predicted(sweep: Sweep) -> Json:
    from theory.prompts import regression, setting
    from theory.toy.least_width import sufficient_width
    from theory.toy.positions import most_entries_with_positions
    from theory.toy.token_pairs import most_entries
    from theory.toy.width import most_entries_at_width

    size = sweep.size
    task, entries = size.floats, size.d**2
    rho = float(setting.signal_share(*task))
    ridge = regression.ridge(*task)
    zero = setting.zero_loss(*task)
    widths = {}
    for width in sweep.widths:
        copied = {toy: most_entries_at_width(heads, size.d, width) or 0 for toy, heads in TOYS.items()}
        bound = {toy: most_entries_with_positions(heads, size.d, width) for toy, heads in TOYS.items()}
        widths[str(width)] = {
            "assumed_copy": {toy: rho * count / entries for toy, count in copied.items()},
            "bound": {toy: rho * count / entries for toy, count in bound.items()},
        }
        if any(arms.heads > 2 and width in arms.widths for arms in sweep.arms):
            enough = width >= sufficient_width(size.d)
            found = entries if enough else most_entries(*task, width, starts=STARTS)[0]
            widths[str(width)]["enough_heads"] = {"mha": rho * found / entries}
    return {
        "d": size.d,
        "n": size.n,
        "sigma": size.sigma,
        "rho": rho,
        "ridge": (zero - ridge.value) / entries,
        "ridge_stderr": ridge.stderr / entries,
        "widths": widths,
        "worth": 2 * size.d,
        "constructions": {c.name: c.predicted / entries for c in constructions(size, sweep.widths)},
    }


EXPERIMENT: Experiment = SkipV1EndToEnd()
