"""Measured orders of variants on recall, as data: how much sooner each learns, from the bridge's long run.

The numbers are `recalled` of `results/bridge/long/measurement.json`, and a test holds them against it.  They stand here
as an installed package has no results.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean

from experiments.store.folders import Json
from experiments.training.campaign import BASELINE, TWIN

MARGIN = 0.03  # of ln V, the bridge's own: what is nearer to zero is no gain and no loss
COMPARED = (BASELINE, "svformer", "skipv1", "resformer", "shared-keys")
SOURCE = "results/bridge/long: 24 seeds, the width of one code, mean over two scales of initial weights"


@dataclass(frozen=True)
class Recalled:
    """The result of one arm on recall.

    Args:
        gain: vanilla's area minus the arm's, an area being the mean training loss over ln V.
        half_width: of its interval, 95 % for all pairs of arms at once.
        level: its place in the order, 0 for the largest gain; None for the twin, which has none.
    """

    gain: float
    half_width: float
    level: int | None


RECALLED = {
    "svformer": Recalled(0.3190, 0.0519, 0),
    "skipv1": Recalled(0.2257, 0.0568, 1),
    "resformer": Recalled(0.1025, 0.0395, 2),
    "shared-keys": Recalled(-0.0468, 0.0395, 3),
    BASELINE: Recalled(0.0, 0.0, 3),
    TWIN: Recalled(-0.0209, 0.0395, None),
}


def recalled(measurement: Json) -> dict[str, Recalled]:
    """Return what a finished run of the bridge says of the arms, at the width of one code.

    Neighbours in the order of gains are at one level unless the interval of their difference lies beyond the margin of
    the bridge, within which it calls a difference none.
    """
    from experiments.verdicts.intervals import contrast

    parts = [part["area"] for part in measurement["parts"].values() if part["question"] == "speed"]
    areas = {arm: [fmean(of_seed) for of_seed in zip(*(part[arm] for part in parts), strict=True)] for arm in parts[0]}
    family = len(COMPARED) * (len(COMPARED) - 1) // 2 + 1  # all pairs, and the twin

    def gain(arm: str, other: str) -> tuple[float, float]:
        found = contrast(list(areas.values()), [float(name == other) - (name == arm) for name in areas], family)
        return found.mean, found.half_width

    gains = {arm: gain(arm, BASELINE) if arm != BASELINE else (0.0, 0.0) for arm in (*COMPARED, TWIN)}
    order = sorted(COMPARED, key=lambda arm: -gains[arm][0])
    levels = {order[0]: 0}
    for better, worse in pairwise(order):
        mean, half_width = gain(better, worse)
        levels[worse] = levels[better] + (mean - half_width > MARGIN)
    return {arm: Recalled(*numbers, levels.get(arm)) for arm, numbers in gains.items()}
