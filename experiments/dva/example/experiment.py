"""The paper's example as a task: a noun is to be given the meaning of its pair with the adjective before it.

Every pair has a meaning of its own, and all are orthonormal, so that a layer's error counts those that it cannot tell
apart (`theory.dva.meanings`).  One layer without a feed-forward is trained: with one ordinary head, with two of half
the width, with one dynamic head, and with one head whose output a linear gate scales.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from experiments.dva.example.points import EXAMPLE, LAYERS, Config, cell, predicted
from experiments.experiment.protocol import Experiment, Kind, Profile
from experiments.store.folders import Json
from experiments.verdicts.checks import Check

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from experiments.store.folders import RunFolder

_CPU = Config(
    tables=((1, 2), (2, 2), (3, 2), (3, 3), (4, 2)),
    swept=(4, 4),
    widths=(2, 4, 6, 8, 10, 12, 14),
    restarts=2,
    steps=200,
)


def _detects(config: Config) -> str:
    """One meaning, as a share of all that the largest table has."""
    pairs = max(rows * columns for rows, columns in {*config.tables, config.swept})
    return f"one meaning more or fewer, {100 / pairs:.0f} % of the square of the largest table's"


_SMOKE = replace(_CPU, tables=((3, 3),), swept=(4, 2), widths=(4,), restarts=1, steps=100)
_FULL = replace(_CPU, swept=(7, 6), widths=(6, 12, 18, 24, 30, 36, 40), restarts=10, steps=1000)
PROFILES = {
    "smoke": Profile(config=_SMOKE, seeds=0, seconds=6, detects=_detects(_SMOKE)),
    "cpu": Profile(config=_CPU, seeds=0, seconds=20, detects=_detects(_CPU)),
    "full": Profile(config=_FULL, seeds=0, seconds=3600, detects=_detects(_FULL)),
}


class Example:
    name = "dva-example"
    title = "Hot girl drinks hot water: how many meanings a layer tells apart, by heads, gates and width"
    caption = (
        "How well attention layers of several kinds tell the meanings of adjective and noun apart: the mean squared"
        " error, over a meaning's square, (a) of several tables at the width that they need, (b) of one table over "
        "the width of all heads together. Short bars and lines are exact minima in theory, markers the best of all "
        "trained restarts. In (b) lines join whole widths, and where kinds share a line, markers lie on one "
        "another. No sampling beside the restarts: nothing has an interval."
    )
    kind: Kind = "theory"
    claims: tuple[str, ...] = (EXAMPLE,)
    profiles: Mapping[str, Profile] = PROFILES

    def predict(self, config: Config) -> Json:
        widths = range(2, max(config.widths) + 2, 2)
        return {
            "assumes": "one layer of attention over two tokens, no feed-forward, no norm; orthonormal meanings, a "
            "linear map that reads them; the same width of all heads together",
            "source": "theory.dva.meanings",
            "rule": "the best of all restarts ends at the least error to 0.01 of a meaning's square, and none below it",
            "swept": list(config.swept),
            "meanings": {f"{m}x{n}": m * n for m, n in {*config.tables, config.swept}},
            "least": {cell(*at): predicted(*at) for at in config.cells()},
            "curves": {layer: [[w, predicted(layer, config.swept, w)] for w in widths] for layer in LAYERS},
        }

    def measure(self, config: Config, seeds: int, run: RunFolder) -> Json:  # noqa: ARG002
        from experiments.dva.example.training import trained

        return {"errors": trained(config, run)}

    def compare(self, prediction: Json, measurement: Json) -> Sequence[Check]:
        from experiments.dva.example.verdicts import verdicts

        return list(verdicts(prediction, measurement))

    def draw(self, prediction: Json, measurement: Json) -> Figure:
        from experiments.dva.example.figure import draw

        return draw(prediction, measurement)


EXPERIMENT: Experiment = Example()
