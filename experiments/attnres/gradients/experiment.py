"""Are gradients more even over depth with Attention Residuals, as its summary says?  At initial weights.

Of parameters they are PreNorm's, exactly, at zero queries and eps = 0.  What a sublayer sends back to its read is not:
it has a closed form in the limit of wide networks (`theory.attnres.start_gradients`), under which Full is more even
than PreNorm where outputs outweigh the embedding, and less where they do not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import log, sqrt
from typing import TYPE_CHECKING

from experiments.attnres.gradients.points import CLAIM, OUTPUTS, RULES, Config, cell, over_last, unevenness
from experiments.experiment.protocol import Experiment, Kind, Profile
from experiments.store.folders import Json
from experiments.training.campaign import BASELINE
from experiments.verdicts.checks import Check, Judgement
from experiments.verdicts.intervals import t_interval
from theory.plans.architecture import Architecture
from theory.plans.presets import llama

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from experiments.store.folders import RunFolder

LIMIT = 0.15  # of a root mean square at width 128, beside sampling: the closed form is a limit of wide networks
ROUNDING = 1e-9  # of float64 squares
EVEN = 0.1  # of the unevenness, for the same reason
TELLING = 0.3  # differences of unevenness from which their sign is judged

_CPU = Config(
    sizes=llama(d_model=128, n_heads=4, n_layers=12, d_ff=341, vocab=32, context=2),
    stds=(0.003, 0.01, 0.03, 0.09),
    shown=(0.003, 0.09),
    curve=tuple(round(0.002 * 1.3**i, 6) for i in range(17)),
)
PROFILES = {
    "smoke": Profile(
        config=replace(
            _CPU,
            sizes=llama(d_model=32, n_heads=2, n_layers=3, d_ff=40, vocab=8, context=2),
            stds=(0.01, 0.2),
            shown=(0.01, 0.2),
            curve=(0.01, 0.05, 0.2),
        ),
        seeds=4,
        seconds=10,
        detects="nothing below 100 % of a mean square",
    ),
    "cpu": Profile(config=_CPU, seeds=12, seconds=25, detects="16 % of a root mean square, width 128"),
    "full": Profile(
        config=replace(_CPU, sizes=replace(_CPU.sizes, n_layers=48)),
        seeds=48,
        seconds=1200,
        detects="16 % of a root mean square, at 48 layers of width 128",
    ),
}


class Gradients:
    name = "attnres-gradients"
    title = "What sublayers send back to their reads at initial weights: PreNorm against Attention Residuals"
    caption = (
        "(a), (b) The gradient that arrives at each sublayer's read at initial weights, for small and for large "
        "ones, over PreNorm's at the last read: lines are the limit of wide networks, hollow markers measured; odd "
        "sublayers are attention, even ones feed-forward. Bars: 95 % over weights, mostly smaller than the marker. "
        "(c), (d) How unevenly gradients are spread over reads, the standard deviation of their logarithms, over "
        "the size of the initial weights: lines from that limit, markers from the means over weights, without "
        "intervals. In (d) matrices that write to the stream are divided by the root of the number of sublayers. "
        "Lines join whole sublayers and computed points."
    )
    kind: Kind = "theory"
    claims: tuple[str, ...] = (CLAIM,)
    profiles: Mapping[str, Profile] = PROFILES

    def architectures(self, config: Config) -> Sequence[Architecture]:
        return [config.exact]

    def predict(self, config: Config) -> Json:
        from theory.attnres.start_gradients import start_gradients
        from theory.plans.names import resolve

        def of(rule: str, outputs: str, std: float) -> list[float]:
            plan = resolve(rule, config.exact.shape)
            return start_gradients(config.exact, plan, std, scale_outputs=OUTPUTS[outputs])

        return {
            "assumes": "normal weights, one token alone, eps = 0, zero queries; the limit of wide networks",
            "source": "theory.attnres.start_gradients; Attention Residuals, summary: more uniform gradients",
            "statistic": "root mean square over weights of the gradient at a read through its sublayer alone, over "
            "PreNorm's at the last read; unevenness: standard deviation of its logarithm over sublayers",
            "rule": f"at every read within {LIMIT:.0%} of the closed form, or the family-wise 95 % interval beyond "
            f"that; differences of unevenness within {EVEN}",
            "width": config.sizes.d_model,
            "layers": config.sizes.n_layers,
            "stds": list(config.stds),
            "shown": list(config.shown),
            "curve": list(config.curve),
            "squares": {cell(*at): of(*at) for at in config.cells()},
            "unevenness": {
                f"{rule}/{outputs}": [unevenness(of(rule, outputs, std)) for std in config.curve]
                for rule in RULES
                for outputs in OUTPUTS
            },
        }

    def measure(self, config: Config, seeds: int, run: RunFolder) -> Json:
        from experiments.attnres.gradients.measuring import squares

        return {"seeds": seeds, "squares": squares(config, seeds, run)}

    def compare(self, prediction: Json, measurement: Json) -> Sequence[Judgement]:
        return [*_by_read(prediction, measurement), *_more_even(prediction, measurement)]

    def draw(self, prediction: Json, measurement: Json) -> Figure:
        from experiments.attnres.gradients.figure import draw

        return draw(prediction, measurement)


def _by_read(prediction: Json, measurement: Json) -> list[Judgement]:
    """The read that is farthest from the closed form, once for all rules; and how far these are from one another."""
    found: list[Judgement] = []
    prenorms = {at: squares for at, squares in prediction["squares"].items() if at.startswith(f"{BASELINE}/")}
    family = sum(map(len, prenorms.values()))
    for at, squares in prenorms.items():
        _, outputs, std = at.split("/")
        ratios = [
            t_interval([x / square for x in of_read], family)
            for of_read, square in zip(over_last(measurement, at), squares, strict=True)
        ]
        far, last = max(range(len(squares) - 1), key=lambda i: abs(log(ratios[i].mean))), squares[-1]
        # As if gradients fell over depth by half the power, at the read where that is farthest from the closed form.
        halved = max(((last / square) ** 0.5 for square in squares), key=lambda ratio: abs(log(ratio)))
        found.append(
            Check(
                id=f"read/{outputs}/{std}",
                group="square of the gradient at its farthest read over the closed form",
                claim=CLAIM,
                statement=f"at std {std}, outputs {outputs}, reads get as much as said, all rules alike",
                predicted=1.0,
                measured=ratios[far].mean,
                stderr=ratios[far].stderr,
                tolerance=2 * LIMIT + ratios[far].half_width,
                controls=(halved,),
                slack=2 * LIMIT,
                quantity="mean square over the closed form",
            )
        )
    return [*found, _alike(prediction, measurement)]


def _alike(prediction: Json, measurement: Json) -> Check:
    """Of the rules: the square over PreNorm's at the same read of the same weights, over what theory says, where
    it is farthest from it."""
    ratios = []
    for at, squares in prediction["squares"].items():
        rule, rest = at.split("/", 1)
        if rule == BASELINE:
            continue
        laws = [x / y for x, y in zip(squares, prediction["squares"][f"{BASELINE}/{rest}"], strict=True)]
        for of_seed, same in zip(measurement["squares"][at], measurement["squares"][f"{BASELINE}/{rest}"], strict=True):
            ratios += [(x / y / law, law) for x, y, law in zip(of_seed, same, laws, strict=True)]
    return Check(
        id="read/alike",
        group="square of the gradient over PreNorm's, over the square of the number of the read's sources",
        claim=CLAIM,
        statement="at every read and of all weights a rule's gradient is PreNorm's times the number of its sources",
        predicted=1.0,
        measured=max(ratios, key=lambda found: abs(found[0] - 1))[0],
        stderr=0.0,
        tolerance=ROUNDING,
        controls=(min(1 / sqrt(law) for _, law in ratios if law > 1),),  # a square multiplied as a norm
        slack=ROUNDING,
        quantity="mean square over the closed form",
    )


def _more_even(prediction: Json, measurement: Json) -> list[Judgement]:
    found: list[Judgement] = []

    def measured(rule: str, rest: str) -> float:
        return unevenness([sum(of_read) / len(of_read) for of_read in over_last(measurement, f"{rule}/{rest}")])

    for outputs in OUTPUTS:
        for std in prediction["stds"]:
            rest = f"{outputs}/{std:g}"
            prenorm = unevenness(prediction["squares"][f"vanilla/{rest}"])
            for rule in list(RULES)[1:]:
                difference = unevenness(prediction["squares"][f"{rule}/{rest}"]) - prenorm
                if abs(difference) < TELLING:
                    continue
                more = "more" if difference < 0 else "less"
                found.append(
                    Check(
                        id=f"even/{rule}/{rest}",
                        group=f"unevenness of {RULES[rule]} less PreNorm's",
                        claim=CLAIM,
                        statement=f"at std {std:g}, outputs {outputs}, {RULES[rule]} is {more} even than PreNorm",
                        predicted=difference,
                        measured=measured(rule, rest) - measured("vanilla", rest),
                        stderr=0.0,
                        tolerance=EVEN,
                        controls=(0.0, -difference),
                        slack=EVEN,
                        quantity="difference of unevenness (log)",
                    )
                )
    return found


EXPERIMENT: Experiment = Gradients()
