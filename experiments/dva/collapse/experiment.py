"""Dynamic values collapse: attention with every pair's value made, and the same without.

Memory is counted, tensor by tensor, and has a formula (`theory.dva.cost`).  So have products of numbers, and if these
were what takes time, time would go with them: over tokens, and from every pair's value to none of them.  Time is a
machine's, so that is an expectation, which may be contradicted.  The sizes of the paper's two models are timed apart:
what one layer's attention costs, and on which kernels it ran.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from experiments.dva.collapse.points import CLAIMS, SIDES, Config
from experiments.experiment.protocol import Experiment, Kind, Profile
from experiments.store.folders import Json
from experiments.verdicts.checks import Judgement
from theory.plans.memory import QUERIES_AT_A_TIME

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from experiments.store.folders import RunFolder

_DETECTS = "10 % of the memory, and a factor of two in time, of several turns"
PROFILES = {
    "smoke": Profile(
        config=Config(width=4, tokens=(16, 64), most=2**16, queries=16, paper=(16, 2, (8, 16)), turns=1),
        seeds=0,
        seconds=5,
        detects=_DETECTS,
    ),
    "cpu": Profile(
        config=Config(
            width=32,
            tokens=(64, 128, 256, 512, 1024, 2048),
            most=2**26 - 1,
            queries=QUERIES_AT_A_TIME,
            paper=(768, 12, (256, 1024)),
            turns=7,
        ),
        seeds=0,
        seconds=40,
        detects=_DETECTS,
    ),
    "full": Profile(
        config=Config(
            width=64,
            tokens=(64, 128, 256, 512, 1024, 2048, 4096),
            most=2**28,
            queries=QUERIES_AT_A_TIME,
            paper=(768, 12, (256, 1024, 4096)),
            turns=7,
        ),
        seeds=0,
        seconds=900,
        detects=_DETECTS,
    ),
}


class Collapse:
    name = "dva-collapse"
    title = "Dynamic values, every pair's value made and collapsed: memory against the formula, and time"
    caption = (
        "Dynamic values in one head over the number of tokens: with every pair's matrix or value made, collapsed, "
        "and collapsed in blocks of queries, in the paper's initial form and its revised one. (a) Memory at the "
        "peak, lines the formula. (b) Time of a forward and a backward pass, moved apart, markers medians; lines "
        "are the formula's products at one speed, that of the revised form, collapsed, at the most tokens. (c) One "
        "layer's attention in the paper's models, over ordinary heads' of the same turn, medians, and in brackets "
        "the kernel that ran; a number with an arrow lies beyond the axis. Bars span all turns of the measurement."
    )
    kind: Kind = "theory"
    claims: tuple[str, ...] = tuple(CLAIMS.values())
    profiles: Mapping[str, Profile] = PROFILES

    def predict(self, config: Config) -> Json:
        from theory.dva.cost import peak_numbers, products

        def peak(name: str, tokens: int) -> float:
            side = SIDES[name]
            return peak_numbers(side.form, side.way, tokens, config.width, config.queries if side.blocks else None)

        found: Json = {name: {"peak": {}, "products": {}} for name in SIDES}
        for name, tokens in config.cells:
            found[name]["peak"][str(tokens)] = peak(name, tokens)
            found[name]["products"][str(tokens)] = products(SIDES[name].form, SIDES[name].way, tokens, config.width)
        return {
            "assumes": "one causal head of one sequence, numbers of 4 bytes; memory beside the inputs, of tensors, at "
            "the peak of a forward and a backward pass, in PyTorch's order of work",
            "source": "theory.dva.cost",
            "rule": "memory is the formula's, in blocks at most; outputs and gradients are equal in float64; times "
            "go with the products, to a factor of 1.5",
            "width": config.width,
            **{kind: {name: by[kind] for name, by in found.items() if by[kind]} for kind in ("peak", "products")},
        }

    def measure(self, config: Config, seeds: int, run: RunFolder) -> Json:  # noqa: ARG002
        from experiments.dva.collapse.measuring import measured

        return measured(config, run.slot.device)

    def compare(self, prediction: Json, measurement: Json) -> Sequence[Judgement]:
        from experiments.dva.collapse.verdicts import verdicts

        return list(verdicts(prediction, measurement))

    def draw(self, prediction: Json, measurement: Json) -> Figure:
        from experiments.dva.collapse.figure import draw

        return draw(prediction, measurement)


EXPERIMENT: Experiment = Collapse()
