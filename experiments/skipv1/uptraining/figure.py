"""The figure of `scale-uptrain`: first losses beside theory's distances, losses while trained on, and at the end."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.drawing import style
from experiments.skipv1.uptraining.points import CONTINUED, CONTINUED_TWIN, MEAN, REORDERED, SKIPV1
from experiments.skipv1.uptraining.verdicts import at_the_end, heads_of, numbers, tuned_as
from experiments.store.folders import Json
from experiments.training.campaign import BASELINE
from experiments.training.tuning import apart_on_the_way, mark, tuned_rates
from experiments.verdicts.intervals import t_interval

LOOKS: dict[str, dict[str, Any]] = {
    CONTINUED: {"color": "#1a1a1a", "linestyle": "-", "marker": "o"},
    CONTINUED_TWIN: {"color": "#1a1a1a", "linestyle": ":", "marker": "o"},
    REORDERED: {"color": "#8a8a8a", "linestyle": ":", "marker": "o"},
    "skipv1, mean": {"color": "#2f7fb8", "linestyle": "-", "marker": "s"},
    "skipv1, apart": {"color": "#2f7fb8", "linestyle": "--", "marker": "D"},
    "skipv1, svd": {"color": "#2f7fb8", "linestyle": "-.", "marker": "v"},
    "skipv1, whole": {"color": "#2f7fb8", "linestyle": ":", "marker": "^"},
    **{name: style.look(name) for name in ("svformer", "resformer-learned", "attnres")},
}
HOLLOW: dict[str, Any] = {"markerfacecolor": "white", "color": "#1a1a1a", "zorder": 3}


def draw(prediction: Json, measurement: Json) -> Figure:
    fig, axes = style.figure(2, 2, width=5.4, height=4.9)
    ways = _by_first_loss(measurement)
    _distances(axes[0], prediction, measurement, ways)
    _begins(axes[1], prediction, measurement, ways)
    _during(axes[2], prediction, measurement)
    _ends(axes[3], prediction, measurement)
    style.finish(axes)
    return fig


def _by_first_loss(measurement: Json) -> list[str]:
    """The ways, the lowest first."""
    return sorted(measurement["first"], key=lambda way: float(np.nanmean(numbers(measurement["first"][way]))))


def _distances(axis: Axes, prediction: Json, measurement: Json, ways: list[str]) -> None:
    """Measured, and as theory has them for independent heads, way by way."""
    places = list(range(len(ways), 0, -1))
    for place, way in zip(places, ways, strict=True):
        if ends := prediction["distances"].get(way):
            axis.plot(ends, [place] * 2, color="#2f7fb8", linewidth=4, alpha=0.35, zorder=1)
            axis.plot(ends, [place] * 2, "|", color="#2f7fb8", markersize=10, zorder=1)
        found = measurement["distance"][way]
        axis.plot(found, [place] * len(found), ".", color="#8a8a8a", zorder=2)
        axis.plot([np.mean(found)], [place], _marker(prediction, way), **HOLLOW)
    axis.plot([], [], ".", color="#8a8a8a", label="measured, by seed")
    _legend_of_ways(axis)
    if prediction["distances"]:
        axis.plot([], [], "|-", color="#2f7fb8", alpha=0.5, linewidth=4, label="of independent heads")
    axis.set_xlim(left=0)
    axis.set_yticks(places, ways)
    axis.set_xlabel("mean square added to layer 2's attention, over its own")
    axis.set_title("Made into SkipV1Former: how far from what was trained")


def _begins(axis: Axes, prediction: Json, measurement: Json, ways: list[str]) -> None:
    """First losses less vanilla's, way by way, in the order of the panel before."""
    vanilla, places = numbers(measurement["scratch"][BASELINE]), list(range(len(ways), 0, -1))
    for place, way in zip(places, ways, strict=True):
        losses = numbers(measurement["first"][way])
        interval = t_interval([a - b for a, b in zip(losses, vanilla, strict=True)])
        axis.errorbar([interval.mean], [place], xerr=[interval.half_width], fmt=_marker(prediction, way), **HOLLOW)
    _legend_of_ways(axis)
    axis.axvline(0, color="#999999", linewidth=0.8)
    axis.set_yticks(places, ways)
    axis.set_xlabel(f"first held-out loss less {heads_of(prediction)}'s (nats a token), 95 % each")
    axis.set_title("Before it is trained on")


def _marker(prediction: Json, way: str) -> str:
    return "o" if way in prediction["printed"] else "s"


def _legend_of_ways(axis: Axes) -> None:
    for marker, words in (("o", "mean, the paper's ways"), ("s", "mean, others")):
        axis.plot([], [], marker, label=words, **HOLLOW)


def _during(axis: Axes, prediction: Json, measurement: Json) -> None:
    """Means over seeds, first losses too; the bands are of the paired difference to vanilla that is trained on.

    What has another learning rate than that is shown where it begins and where it ends.
    """
    shares = [0, *(100 * share for share in measurement["share"])]
    middles: dict[str, Any] = {}
    for name in prediction["choices"]:
        pairs = zip(_curves(measurement, name), _curves(measurement, CONTINUED), strict=True)
        both = [(ours, base) for ours, base in pairs if ours is not None and base is not None]
        if len(both) < 2:
            continue
        look = {k: v for k, v in LOOKS[name].items() if k != "marker"}
        middle = np.mean([ours for ours, _ in both], axis=0)
        apart = [t_interval(at) for at in zip(*(np.subtract(*pair).tolist() for pair in both), strict=True)]
        half = np.array([interval.half_width for interval in apart])
        label = _words(name, heads_of(prediction), measurement)
        if apart_on_the_way(*tuned_rates((tuned_as(name), CONTINUED), measurement)):
            bars = {"yerr": half[[0, -1]], "fmt": LOOKS[name]["marker"], "color": look["color"], "markersize": 4}
            axis.errorbar([shares[0], shares[-1]], middle[[0, -1]], markerfacecolor="white", label=label, **bars)
            continue
        middles[name] = middle
        wide: dict[str, Any] = {"linewidth": 4.0, "alpha": 0.35} if name == CONTINUED else {"linewidth": 1.3}
        axis.plot(shares, middle, label=label, **wide, **look)
        axis.fill_between(shares, middle - half, middle + half, color=look["color"], alpha=0.12, linewidth=0)
    for name, words, line in ((BASELINE, heads_of(prediction), "--"), (SKIPV1, SKIPV1, ":")):
        mean = float(np.nanmean(numbers(measurement["scratch"][name])))
        axis.axhline(mean, color="#777777", linestyle=line, linewidth=1.0, label=f"{words} from scratch, at its end")
    _say_what_lies_on_another(axis, middles)
    axis.set_xlabel("tokens of training on (% of those from scratch)")
    axis.set_ylabel(
        "held-out loss (nats a token), means over seeds;\n"
        f"bands: 95 % of the difference to {heads_of(prediction)}'s trained on"
    )
    axis.set_title("Trained on")


def _curves(measurement: Json, name: str) -> list[list[float] | None]:
    """By seed, from before the first step on; None where a training diverged."""
    begun = measurement["begins"][name]
    return [
        None if of is None else [first, *of] for first, of in zip(begun, measurement["held_out"][name], strict=True)
    ]


def _say_what_lies_on_another(axis: Axes, middles: dict[str, Any]) -> None:
    """Where a line cannot be told by eye from that of what is trained on as it was."""
    if CONTINUED not in middles:
        return
    low, high = axis.get_ylim()
    for line in axis.get_lines():
        name = str(line.get_label())
        if name in middles and name != CONTINUED:
            furthest = float(np.abs(middles[name] - middles[CONTINUED]).max())
            if furthest < 0.01 * (high - low):
                line.set_label(f"{name} (on the thick line)")


def _ends(axis: Axes, prediction: Json, measurement: Json) -> None:
    """Less vanilla trained on; below the line what the paper compares with what is trained from scratch."""
    found, heads = at_the_end(measurement), heads_of(prediction)
    rows = [((name, CONTINUED), _words(name, heads, measurement)) for name in measurement["loss"] if name != CONTINUED]
    rows += [
        ((SKIPV1, BASELINE), f"skipv1 from scratch\nless {heads} from scratch"),
        ((MEAN, BASELINE), f"{MEAN}\nless {heads} from scratch"),
        ((MEAN, SKIPV1), f"{MEAN}\nless skipv1 from scratch"),
    ]
    for place, (pair, _) in enumerate(reversed(rows)):
        look = {k: v for k, v in LOOKS.get(pair[0], LOOKS[MEAN]).items() if k != "linestyle"}
        interval = found[pair]
        axis.errorbar(
            [interval.mean], [place], xerr=[interval.half_width], linestyle="none", markerfacecolor="white", **look
        )
    axis.axvline(0, color="#1a1a1a", linewidth=1, linestyle="--", label=f"{heads} trained on for as long")
    axis.axhline(2.5, color="#8a8a8a", linewidth=0.8)
    axis.locator_params(axis="x", nbins=5)
    axis.set_yticks(range(len(rows)), [words for _, words in reversed(rows)], fontsize=8)
    axis.set_xlabel(
        f"held-out loss at the end (nats a token), less {heads}'s trained on;\n"
        "below the line, less what is said; 95 % for all of one beginning"
    )
    axis.set_title("At the end")


def _words(name: str, heads: str, measurement: Json) -> str:
    others = {
        CONTINUED: f"{heads}, trained on",
        CONTINUED_TWIN: f"{heads}, other weights",
        REORDERED: f"{heads}, other order of text",
    }
    return others.get(name) or f"{name}{mark(name, measurement)}"
