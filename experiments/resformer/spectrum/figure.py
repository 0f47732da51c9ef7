"""The figure of `resformer-spectrum`, from its prediction and measurement alone."""

from __future__ import annotations

import math
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from experiments.drawing import style
from experiments.resformer.spectrum.points import ARMS, DIFFERENT, RESFORMER, TEXT
from experiments.store.folders import Json
from experiments.training.campaign import BASELINE, TWIN
from experiments.verdicts.intervals import t_interval

LINE: dict[str, Any] = {"color": "#b3261e", "linestyle": ":", "linewidth": 2.2, "zorder": 4}
RESFORMERS = style.look(RESFORMER)["color"]
SHIFTS = dict(zip((*ARMS, TWIN), (-0.06, 0.0, 0.06), strict=True))


def draw(prediction: Json, measurement: Json) -> Figure:
    """Layer 1's eigenvalues and all layers' sums before training; after it the largest, and how many are filled."""
    fig, axes = style.figure(2, rows=2, width=4.1, height=3.9)
    start, end = measurement["probed"]["start"], measurement["probed"]["end"]
    _eigenvalues(axes[0], prediction, start, end)
    _sums(axes[1], prediction, start)
    titles = ("Largest eigenvalue, trained (Fig. 12, right)", "Directions that values fill, trained")
    units = ("largest eigenvalue (squared units of $v$)", r"effective number, $(\sum\lambda)^2 / \sum\lambda^2$")
    axes[2].set_yscale("log")
    for axis, names, title, unit in zip(
        axes[2:], (("largest", "own"), ("participation", "own_participation")), titles, units, strict=True
    ):
        for arm in (*ARMS, TWIN):
            _by_layer(axis, arm, end[arm], names[0], TEXT)
        _by_layer(axis, RESFORMER, end[RESFORMER], names[1], TEXT, own=True)
        axis.set_title(title)
        axis.set_ylabel(unit)
    style.finish(axes)
    return fig


def _eigenvalues(axis: Axes, prediction: Json, start: Json, end: Json) -> None:
    """In order of size: before training beside theory's, on different tokens; after it on text."""
    places = range(1, len(prediction["eigenvalues"]) + 1)
    axis.plot(places, prediction["eigenvalues"], label="before training, theory: large sizes", **LINE)
    drawn = (
        ("before training, different tokens", [seed[DIFFERENT] for seed in start[BASELINE]], "#777777", "-"),
        ("vanilla, trained, on text", [seed[TEXT] for seed in end[BASELINE] if seed], "#1a1a1a", "--"),
        ("resformer, trained, on text", [seed[TEXT] for seed in end[RESFORMER] if seed], RESFORMERS, "-."),
    )
    for label, told, grey, line in drawn:
        if len(told) < 2:
            continue
        columns = list(zip(*(seed["eigenvalues"] for seed in told), strict=True))
        logs = [t_interval([math.log(x) for x in column]) for column in columns if min(column) > 0]
        middle, low, high = ([math.exp(i.mean + sign * i.half_width) for i in logs] for sign in (0, -1, 1))
        axis.fill_between(range(1, len(logs) + 1), low, high, color=grey, alpha=0.2, linewidth=0)
        axis.plot(range(1, len(logs) + 1), middle, color=grey, linestyle=line, label=label)
    axis.set_yscale("log")
    axis.set_ylim(bottom=1e-4 * prediction["largest"])
    axis.set_xlabel("place in order of size")
    axis.set_ylabel("eigenvalue (squared units of $v$)")
    axis.set_title("Spectrum of layer 1's values (Fig. 12, left)")


def _sums(axis: Axes, prediction: Json, start: Json) -> None:
    for arm in ARMS:
        _by_layer(axis, arm, start[arm], "sum", DIFFERENT)
        said = prediction["sum"][arm]
        label = "theory, before training" if arm == BASELINE else None
        axis.plot(range(1, len(said) + 1), said, label=label, **LINE)
    axis.set_ylim(bottom=0)
    axis.set_ylabel("sum of eigenvalues (squared units of $v$)")
    axis.set_title("All that heads attend over, before training")


def _by_layer(axis: Axes, arm: str, told: list[Json], name: str, shown: str, *, own: bool = False) -> None:
    each = [seed[shown][name] for seed in told if seed]
    if len(each) < 2:
        return
    look = {**style.look(arm), **({"linestyle": ":", "marker": "x"} if own else {})}
    x = [layer + 1 + SHIFTS[arm] + (0.1 if own else 0) for layer in range(len(each[0]))]
    marks = {"color": look["color"], "marker": look["marker"]}
    if axis.get_yscale() == "log":
        means = style.geometric(axis, x, [t_interval(list(map(math.log, c))) for c in zip(*each, strict=True)], **marks)
    else:
        intervals = [t_interval(column) for column in zip(*each, strict=True)]
        style.bars(axis, x, intervals, **marks)
        means = [i.mean for i in intervals]
    axis.plot(x, means, color=look["color"], linestyle=look["linestyle"], linewidth=1.1)
    words = {TWIN: "vanilla's twin", RESFORMER: "resformer, attended over"}
    label = "resformer, projected" if own else words.get(arm, arm)
    axis.plot([], [], **{**look, "markerfacecolor": "white"}, label=label)
    axis.set_xlabel("layer")
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))
