"""Figures of what layers do: one per family, in which several trainings share every pair of axes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from matplotlib.ticker import MaxNLocator

from experiments.drawing import style
from experiments.store.folders import Json, RunFolder

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_PANELS = 4  # of a figure
NOTHING = 1e-7  # of the largest value on an axis: what is smaller is rounding, in float32
LAYER, STATE = "layer", "layers passed (0: what enters the first)"
UNIFORM: dict[str, Any] = {"color": "#8a8a8a", "linestyle": ":", "linewidth": 1.3}
Reference = Callable[[Json], "float | Sequence[float] | None"]


@dataclass(frozen=True)
class Panel:
    """One pair of axes.

    values      of a family's result, with `mean` and perhaps `stderr`
    x           LAYER or STATE: a number per layer; else the axis' label, of one layer's list
    at          which layer's list: 0 is the first, -1 the last
    uniform     what uniform attention to the past would give: a number, or a list over x
    """

    title: str
    y: str
    values: str
    x: str = LAYER
    at: int = 0
    log: bool = False
    uniform: Reference = lambda _: None

    @property
    def by_layer(self) -> bool:
        return self.x in (LAYER, STATE)


def _of(name: str, at: int | None = None) -> Reference:
    """Return a reader of the value of that name in a result, or of one number of it."""
    return lambda result: result[name] if at is None or result[name] is None else result[name][at]


POSITION, PLACE = "position (1: first token)", "place in order of size"
PANELS: dict[str, tuple[Panel, ...]] = {
    "entropy": (Panel("Entropy of token importance", "nats", "entropy", uniform=_of("uniform")),),
    "importance": (
        Panel("Importance of the first token", "share of attention", "first", uniform=_of("uniform", 0)),
        Panel("Of the most important token", "share of attention", "most", uniform=_of("uniform", 0)),
        Panel(
            "By position, last layer",
            "share of attention",
            "by_position",
            x=POSITION,
            at=-1,
            log=True,
            uniform=_of("uniform"),
        ),
    ),
    "spectrum": (
        Panel("Largest eigenvalue of the values", "squared units of $v$", "largest", log=True),
        Panel("Share of the largest", "share of the eigenvalues' sum", "share"),
        Panel("Largest, of what the layer projects", "squared units of $v$", "own", log=True),
        Panel("Eigenvalues, layer 1", "squared units of $v$", "eigenvalues", x=PLACE, at=0, log=True),
    ),
    "similarity": (Panel("Similarity of tokens' states", "mean cosine", "similarity", x=STATE),),
    "norms": (
        Panel("Values: first token", "norm / mean of the others", "value_first"),
        Panel("States: first token", "norm / mean of the others", "state_first", x=STATE),
        Panel("Values: other tokens", "mean norm (units of $v$)", "value_others", log=True),
        Panel("States: other tokens", "mean norm (units of $h$)", "state_others", x=STATE, log=True),
        Panel(
            "Values by position, last layer", "norm (units of $v$)", "value_by_position", x=POSITION, at=-1, log=True
        ),
        Panel(
            "States by position, into the last", "norm (units of $h$)", "state_by_position", x=POSITION, at=-2, log=True
        ),
    ),
    "heads": (Panel("Similarity of heads' attention", "mean cosine of two heads", "cosine"),),
    "gradients": (Panel("Gradient of a layer's parameters", "norm (units of loss / weight)", "gradient", log=True),),
    "lens": (
        Panel("Logit lens", "loss", "loss", x=STATE),
        Panel("Linear probe: token before", "held-out $R^2$", "previous", x=STATE),
    ),
    "induction": (
        Panel("To the token before", "share of attention, best head", "best_previous", uniform=_of("uniform_previous")),
        Panel("To what followed", "share of attention, best head", "best_induction", uniform=_of("uniform_induction")),
    ),
}


def panels_of(family: str, record: Json) -> list[Panel]:
    """Return the panels in which there is something to be seen."""
    return [panel for panel in PANELS[family] if any(series(panel, result) for result in record["families"][family])]


def draw(family: str, record: Json, run: RunFolder) -> None:
    """Draw FAMILY.svg and .png from a record of `experiments.commands.probing`; FAMILY-2 for a fifth panel on."""
    panels = panels_of(family, record)
    with style.drawing():
        for number, start in enumerate(range(0, len(panels), MOST_PANELS), 1):
            fig = _figure(panels[start : start + MOST_PANELS], record, record["families"][family])
            for suffix in ("svg", "png"):
                style.save_as(fig, run / f"{family}{'' if number == 1 else f'-{number}'}.{suffix}")


def _figure(panels: Sequence[Panel], record: Json, results: Sequence[Json]) -> Figure:
    unit = "squared units of $y$" if record["regression"] else "nats per token"
    fig, axes = style.figure(min(len(panels), 2), math.ceil(len(panels) / 2), width=4.0)
    for axis in axes[len(panels) :]:
        axis.set_axis_off()
    for panel, axis in zip(panels, axes, strict=False):
        for about, result, look in zip(record["runs"], results, looks(record["runs"]), strict=True):
            _draw(axis, panel, result, sequences=about["sequences"], look=look)
        for number, uniform in enumerate(_distinct([panel.uniform(result) for result in results])):
            label = None if number else "uniform attention to the past"
            if isinstance(uniform, list):
                axis.plot(range(1, len(uniform) + 1), uniform, label=label, **UNIFORM)
            else:
                axis.axhline(uniform, label=label, **UNIFORM)
        axis.set_title(panel.title)
        axis.set_xlabel(panel.x)
        axis.set_ylabel(f"{panel.y} ({unit})" if panel.y == "loss" else panel.y)
        if panel.log:
            axis.set_yscale("log")
            largest = max((max(one.values) for result in results if (one := series(panel, result))), default=1.0)
            axis.set_ylim(bottom=max(axis.get_ylim()[0], NOTHING * largest))
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    style.finish(axes[: len(panels)])
    return fig


def looks(runs: Sequence[Json]) -> list[Json]:
    """Return label, colour, line and marker of each run: its variant's own, unless two have one name."""
    names = [about["name"] for about in runs]
    if len(set(names)) == len(names):
        return [{"label": name, **style.look(name)} for name in names]
    labels = [about["name"] if about["seed"] is None else f"{about['name']}, seed {about['seed']}" for about in runs]
    if len(set(labels)) < len(labels):
        labels = [f"{label} ({number})" for number, label in enumerate(labels, 1)]
    kinds = list(style.VARIANTS)
    return [{"label": label, **style.look(kinds[i % len(kinds)])} for i, label in enumerate(labels)]


@dataclass(frozen=True)
class Series:
    x: Sequence[int]
    values: Sequence[float]
    stderr: Sequence[float] | None


def series(panel: Panel, result: Json) -> Series | None:
    """Return the line that a panel shows of one training's result; None where it has nothing to show."""
    numbers = result[panel.values]
    if numbers is None:
        return None
    values, stderr = (numbers["mean"], numbers["stderr"]) if isinstance(numbers, dict) else (numbers, None)
    if panel.by_layer:
        layers: list[int] = result["attending"] if "attending" in result else result["layers"]
        known = [i for i, value in enumerate(values) if value is not None]
        x = range(len(values)) if panel.x == STATE else layers
        return Series([x[i] for i in known], [values[i] for i in known], stderr and [stderr[i] for i in known])
    values, stderr = values[panel.at], stderr and stderr[panel.at]
    return Series(range(1, len(values) + 1), values, stderr)


def _draw(axis: Axes, panel: Panel, result: Json, sequences: int, look: Json) -> None:
    """Draw one training's line, with 95 % intervals over sequences, or batches, where the panel has means of them."""
    from scipy.special import stdtrit

    line = series(panel, result)
    if line is None:
        return
    count = result.get("batches", sequences)
    if line.stderr and count > 1:
        half = [float(stdtrit(count - 1, 0.975)) * error for error in line.stderr]
        low, high = ([y + sign * h for y, h in zip(line.values, half, strict=True)] for sign in (-1, 1))
        label = None if axis.collections else f"95 % over {'batches' if 'batches' in result else 'sequences'}"
        axis.fill_between(line.x, low, high, color=look.get("color"), alpha=0.25, linewidth=0, label=label)
    axis.plot(line.x, line.values, **(look if panel.by_layer else {**look, "marker": ""}))


def _distinct(references: Sequence[Any]) -> list[Any]:
    distinct: list[Any] = []
    for reference in references:
        if reference is not None and reference not in distinct:
            distinct.append(reference)
    return distinct
