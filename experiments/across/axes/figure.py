"""The figure of the axes: shares by test with the toy's marks, and losses over the size of a pool, for every rung."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.across.axes.points import ITSELF
from experiments.across.axes.reading import Results, Where
from experiments.drawing import style
from experiments.store.folders import Json
from experiments.training.campaign import BASELINE
from experiments.verdicts.intervals import Interval

LEAST = -0.5  # the shares shown; what lies below stands at the edge
PANELS = 2  # rungs


def draw(prediction: Json, measurement: Json) -> Figure:
    """Of the first two rungs, at the smallest width of each law."""
    results = Results(prediction, measurement)
    chosen = list(prediction["rungs"])[:PANELS]
    fig, axes = style.figure(len(chosen), 2, width=5.6, height=3.9)
    places = [at for at in results.places() if at.width == min(prediction["trained"][at.trained]["widths"])]
    for i, rung in enumerate(chosen):
        here = [at for at in places if at.rung == rung]
        pools = [at for at in here if "pool" in results.about(at)]
        _shares(axes[i], results, [at for at in here if not _of_pool(results, at)], rung)
        _pools(axes[len(chosen) + i], results, pools, rung)
    for letter, axis in zip("abcd", axes, strict=False):
        axis.set_title(f"({letter}) {axis.get_title(loc='left')}", loc="left")
    handles: dict[str, Any] = {}
    for axis in (axes[0], axes[len(chosen)]):
        handles |= {label: handle for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)}
    fig.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=5)
    return fig


def _of_pool(results: Results, at: Where) -> bool:
    return "pool" in results.prediction["trained"][at.trained]["law"]


def _shares(axis: Axes, results: Results, places: list[Where], rung: str) -> None:
    axis.set_ylabel("share of the test's signal explained")
    axis.set_xlabel("trained on: tested on")
    words = _rung(results, rung)
    axis.set_title(words)
    if not places:
        return
    variants = [BASELINE, *results.variants]
    for i, variant in enumerate(variants):
        look = style.look(variant)
        at = [x + 0.16 * (i - (len(variants) - 1) / 2) for x in range(len(places))]
        plain = {what: value for what, value in look.items() if what != "linestyle"}
        found = [results.share(place, variant) for place in places]
        inside = [j for j, share in enumerate(found) if share.mean >= LEAST]
        style.bars(axis, [at[j] for j in inside], [found[j] for j in inside], label=f"{variant}, 95 %", **plain)
        below = [at[j] for j, share in enumerate(found) if share.mean < LEAST]
        axis.plot(below, [LEAST] * len(below), linestyle="none", marker="v", color=look["color"], markersize=4)
        toys = [
            (x, toy) for x, place in zip(at, places, strict=True) if (toy := results.toy(place, variant)) is not None
        ]
        toys = [(x, max(toy, LEAST)) for x, toy in toys]
        name = "toy, of the same colour" if not i else None
        axis.plot(*zip(*toys, strict=True), "_", color=look["color"], markersize=9, markeredgewidth=2, label=name)
    bayes = [results.about(place)["bayes"] for place in places]
    axis.plot(range(len(places)), bayes, "x", color="black", markersize=5, label="Bayes")
    axis.axhline(0, color="#999999", linewidth=0.6)
    usual = min(place.width for place in places)
    axis.set_xticks(
        range(len(places)), [_tick(place, usual) for place in places], rotation=55, ha="right", fontsize=6.5
    )
    axis.set_ylim(LEAST - 0.06, 1.05)
    axis.set_title(f"{words}, width {usual}; triangles: below {LEAST:g}")


def _rung(results: Results, rung: str) -> str:
    return f"Rung {rung} ({results.prediction['rungs'][rung]})"


def _tick(at: Where, usual: int) -> str:
    wide = "" if at.width == usual else f" ({at.width} wide)"
    return f"{at.trained}{wide}: {'same' if at.test == ITSELF else at.test}"


def _pools(axis: Axes, results: Results, places: list[Where], rung: str) -> None:
    """Losses, which are what ridge and the posterior mean are compared by."""
    axis.set_title(f"{_rung(results, rung)}: a pool of tasks")
    axis.set_xlabel("tasks in the pool")
    axis.set_ylabel("loss on the pool (squared error, d outputs)")
    if not places:
        return
    places = sorted(places, key=lambda at: int(results.about(at)["pool"]))
    abouts = [results.about(at) for at in places]
    sizes = [about["pool"] for about in abouts]

    def loss(share: float, about: Json) -> float:
        return float(about["zero_loss"] - about["signal"] * share)

    lines = {"bayes": ("pool's posterior mean", "-"), "ridge": ("ridge", "--"), "step": ("best linear step", ":")}
    for which, (label, line) in lines.items():
        losses = [loss(about[which], about) for about in abouts]
        axis.plot(sizes, losses, linestyle=line, color="#555555", marker=".", linewidth=1.2, label=label)
    variants = [BASELINE, *results.variants]
    for i, variant in enumerate(variants):
        plain = {what: value for what, value in style.look(variant).items() if what != "linestyle"}
        found = [results.share(at, variant) for at in places]
        shown = [
            Interval(loss(share.mean, about), 0.0, about["signal"] * share.half_width)
            for share, about in zip(found, abouts, strict=True)
        ]
        style.bars(
            axis, [x * 1.06 ** (i - (len(variants) - 1) / 2) for x in sizes], shown, label=f"{variant}, 95 %", **plain
        )
    axis.set_xscale("log", base=2)
    axis.set_xticks(sizes, [str(size) for size in sizes])
    axis.minorticks_off()
    axis.set_ylim(bottom=0)
