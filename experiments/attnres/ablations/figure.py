"""The figure of `attnres-ablations`: differences of losses, with the paper's beside them."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.attnres.ablations.verdicts import called, differences, rates
from experiments.drawing import style
from experiments.drawing.rows import in_rows
from experiments.store.folders import Json
from experiments.training.campaign import BASELINE, TWIN
from experiments.verdicts.intervals import Interval

Pair = tuple[str, str]


def draw(prediction: Json, measurement: Json) -> Figure:
    fig, axes = style.figure(2, width=5.6, height=4.6)
    found = differences(prediction, measurement)
    printed = {(pair["arm"], pair["against"]): pair["nats"] for pair in prediction["compared"]}
    beside = [pair for pair in printed if pair[1] == BASELINE]
    _rows(axes[0], measurement, found, printed, [*beside, (TWIN, BASELINE)])
    axes[0].set_title("Less PreNorm's loss")
    _rows(axes[1], measurement, found, printed, [pair for pair in printed if pair not in beside])
    axes[1].set_title("Ablations, less the form's own loss")
    style.finish(axes)
    return fig


def _rows(
    axis: Axes,
    measurement: Json,
    found: dict[Pair, Interval],
    printed: dict[Pair, float],
    pairs: Sequence[Pair],
) -> None:
    in_rows(
        axis,
        [found[pair] for pair in pairs],
        [_label(pair, measurement) for pair in pairs],
        label="trained here, 95 % for all pairs at once",
        printed=[printed.get(pair) for pair in pairs],
        source="printed, 436M, one run each",
    )
    axis.set_xlabel("difference of held-out losses (nats a token)")


def _label(pair: Pair, measurement: Json) -> str:
    arm, against = pair
    lines = [called(arm, measurement)]
    if against != BASELINE:
        lines[0] += f"\nless {called(against, measurement)}"
    rate = measurement["depth_rates"][arm]
    about = [] if arm == TWIN or rate == 1 else [f"over depth at {rate:g} of the rate"]
    if other := rates(arm, against, measurement).strip(" ()"):
        about.append(other)
    return "\n".join([*lines, "; ".join(about)] if about else lines)
