"""The figure of `toy-orderings`: a row for every variant, what the toy explains, and what the papers print."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.across.orderings.verdicts import expectation
from experiments.drawing import style
from experiments.store.folders import Json
from experiments.training.campaign import BASELINE
from experiments.training.printed import Reported
from theory.plans.variants import VARIANTS

FILL = {True: ("#2f7fb8", ""), False: ("#a9cbe3", "////"), None: ("#d9d9d9", "")}
ATTAINED = {True: "attained", False: "approached, not attained", None: "attained or not: not known"}
MARKERS = (("o", -0.15), ("s", 0.0), ("^", 0.2))  # and how far below its row
VERDICTS = {
    "agrees": ("o", "#1d6b34", "#1d6b34"),
    "contradicts": ("X", "#b3261e", "#b3261e"),
    "inconclusive": ("o", "#777777", "white"),
}
WORDS = {"agrees": "the toy agrees", "contradicts": "the toy contradicts", "inconclusive": "a tie of the toy"}


def draw(prediction: Json, measurement: Json) -> Figure:
    reports = [Reported(**r) for r in measurement["papers"]]
    rows = _rows(prediction, reports)
    fig = Figure(figsize=(11.5, 1.7 + 0.25 * len(rows)), layout="constrained")
    toy, loss, words = fig.subplots(1, 3, sharey=True, width_ratios=(1.0, 1.0, 0.75))
    _toy(toy, prediction, measurement, rows)
    _losses(loss, reports, rows)
    _words(words, prediction, reports, rows)
    toy.set_yticks(range(len(rows)), [_label(name) for name in rows], fontsize=7.5)
    toy.set_ylim(len(rows) - 0.4, -0.6)
    for letter, axis in zip("abc", (toy, loss, words), strict=True):
        axis.set_title(f"({letter}) {axis.get_title(loc='left')}", loc="left")
        style.legend_below(axis, columns=1)
    return fig


def _rows(prediction: Json, reports: Sequence[Reported]) -> list[str]:
    """Covered variants of which a text says something, and vanilla: by what the toy explains, then as listed."""
    shares = prediction["order"]["shares"]
    named = dict.fromkeys([BASELINE, *(name for r in reports for name in (r.variant, r.against) if r.sign)])
    covered = [name for name in named if shares.get(name) is not None and not name.endswith("weight=1")]
    listed = [*VARIANTS]
    return sorted(covered, key=lambda name: (-_best(prediction, name), listed.index(name.split(":")[0]), name))


def _best(prediction: Json, name: str) -> float:
    """The share of what can be explained at the figure's size; what needs more heads than it has, at the papers'."""
    if name in prediction["variants"]:
        return prediction["variants"][name]["best"] / prediction["shown"]["d"] ** 2
    return prediction["order"]["shares"][name]


def _label(name: str) -> str:
    """What the variant changes, and its name in bold."""
    known, _, options = name.partition(":")
    changes = "the vanilla Transformer" if known == BASELINE else VARIANTS[known].changes
    changes = changes.replace("V_1", "$V_1$").replace("V_n", "$V_n$")
    if options:
        share = {"ratio=0.25": "a quarter", "ratio=0.75": "three quarters"}[options]
        changes = changes.replace("half", share)
    bold = known.replace("-", "\u2011")  # a hyphen that mathtext does not take for a minus
    return f"{changes}   $\\bf{{{bold}}}$"


def _toy(axis: Axes, prediction: Json, measurement: Json, rows: Sequence[str]) -> None:
    shown = prediction["shown"]
    power = shown["d"] ** 2
    for kind, (color, hatch) in FILL.items():
        places = [
            i for i, name in enumerate(rows) if prediction["variants"].get(name, {}).get("attained", True) is kind
        ]
        widths = [_best(prediction, rows[i]) for i in places]
        axis.barh(
            places, widths, 0.62, color=color, hatch=hatch, edgecolor="#4a4a4a", linewidth=0.5, label=ATTAINED[kind]
        )
    exact: dict[str, float] = {}
    for key, point in prediction["exact"].items():
        if point["size"] == shown["key"]:
            share = measurement["exact"][key]["explained"] / (point["rho"] * power)
            exact[point["toy"]] = max(share, exact.get(point["toy"], 0.0))
    variants, toy_of = prediction["variants"], prediction["toy_of"]
    minimised = [(i, name) for i, name in enumerate(rows) if name in variants and not variants[name]["beside"]]
    crosses = [(exact[toy_of[name]], i) for i, name in minimised]
    axis.plot(*zip(*crosses, strict=True), "x", color="black", markersize=6, zorder=4, label="exact minimisation")
    limits = [(prediction["order"]["shares"][name], i) for i, name in enumerate(rows)]
    axis.plot(
        *zip(*limits, strict=True),
        "|",
        color="#d98a2b",
        markersize=11,
        markeredgewidth=2.2,
        zorder=3,
        label=f"at the papers' width, {prediction['order']['heads']} heads",
    )
    axis.set_axisbelow(True)
    axis.set_xlim(-0.02, 1.06)
    axis.set_xlabel(r"share of $\rho d^2$ explained")
    axis.set_title(f"The toy, $d={shown['d']}$, {shown['heads']} heads")


def _losses(axis: Axes, reports: Sequence[Reported], rows: Sequence[str]) -> None:
    """Every printed difference to vanilla, with what chance may add to it."""
    axis.axvline(0, color="#1a1a1a", linewidth=1, linestyle="--")
    place = {name: i for i, name in enumerate(rows)}
    printed = [r for r in reports if r.nats is not None and r.against == BASELINE and r.variant in place]
    for (marker, below), paper in zip(MARKERS, dict.fromkeys(r.paper for r in printed), strict=True):
        own = [r for r in printed if r.paper == paper]
        axis.errorbar(
            [r.nats or 0.0 for r in own],
            [place[r.variant] + below for r in own],
            xerr=[r.half_width for r in own],
            fmt=marker,
            color="#2b2b2b",
            markerfacecolor="white",
            markersize=4.5,
            elinewidth=0.6,
            capsize=1.5,
            label=paper.split(" (")[0],
        )
    axis.set_xlabel("loss less vanilla's (nats a token)")
    axis.set_title("What the papers print")


def _words(axis: Axes, prediction: Json, reports: Sequence[Reported], rows: Sequence[str]) -> None:
    """What texts say of plots, and whether the toy's order has that sign."""
    judged: dict[tuple[str, str], list[str]] = {}
    for r in reports:
        if judgement := expectation(prediction, r):
            judged.setdefault((r.variant, r.against), []).append(judgement.verdict)
    for i, name in enumerate(rows):
        spoken = [r for r in reports if name in (r.variant, r.against) and r.sign and (r.variant, r.against) in judged]
        direct = [r for r in spoken if r.variant == name and r.against == BASELINE]
        chosen = direct or spoken
        if name == BASELINE or not chosen:
            continue
        verdicts = {v for r in chosen for v in judged[r.variant, r.against]}
        marker, color, face = VERDICTS[next(v for v in ("contradicts", "agrees", "inconclusive") if v in verdicts)]
        axis.plot(0.04, i, marker, color=color, markerfacecolor=face, markersize=6)
        axis.text(0.1, i, _phrase(name, chosen), va="center", fontsize=7.5)
    for kind, (marker, color, face) in VERDICTS.items():
        axis.plot([], [], marker, color=color, markerfacecolor=face, label=WORDS[kind])
    axis.set_xlim(0, 1)
    axis.set_xticks([])
    axis.grid(False)
    for side in ("bottom", "left"):
        axis.spines[side].set_visible(False)
    axis.tick_params(axis="y", left=False)
    axis.set_title("What they say, and the toy")


def _phrase(name: str, chosen: Sequence[Reported]) -> str:
    """Better or worse, than vanilla or than others where there is nothing on vanilla."""
    if chosen[0].against == BASELINE and chosen[0].variant == name:
        return "better than vanilla" if chosen[0].sign < 0 else "not better than vanilla"
    phrases = []
    for r in chosen:
        better = (r.sign < 0) == (r.variant == name)
        phrases.append(f"{'better' if better else 'worse'} than {r.against if r.variant == name else r.variant}")
    return ", ".join(dict.fromkeys(phrases))
