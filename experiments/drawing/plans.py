"""A plan as a picture: which layer's values every head attends over, and which outputs every sublayer reads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import MaxNLocator

from experiments.drawing.canvas import canvas
from theory.plans.accounting import depth_reads
from theory.plans.architecture import Architecture
from theory.plans.mix import Gated, Learned, Mix, Term, is_number
from theory.plans.plan import DepthAttention, DepthAverage, Plan
from theory.plans.streams import Streams
from theory.plans.words import MAPS, TITLES, depth_words, layer_words, shown_maps

OWN = "#ffffff"
FIRST = "#1f5f93"  # layer 1's; later layers' are paler
LATER = "#c9dcea"
EDGE = "#555555"
INSET = 0.06
HATCHES = {"learned": "////", "gate": "....."}


def draw(config: Architecture, plan: Plan, title: str) -> Figure:
    """Draw a panel for each map that the plan changes, the value map always, and one for the depth map."""
    maps = shown_maps(plan)
    layers, heads = plan.shape.layers, plan.shape.heads
    height = min(9.0, 2.2 + 0.24 * layers)
    widths = [*(min(6.0, max(2.8, 1.6 + 0.22 * heads)) for _ in maps), max(3.4, min(6.0, height))]
    fig = canvas(sum(widths) + 0.6, height + 0.9)
    fig.suptitle(f"{title}: {layer_words(config, plan)}", fontsize=10, x=0.01, ha="left")
    axes = list(fig.subplots(1, len(widths), width_ratios=widths, squeeze=False).flat)
    for axis, name in zip(axes, maps, strict=False):
        _heads(axis, config, plan, name=name)
    _depth(axes[-1], config, plan)
    fig.legend(handles=_legend(plan), loc="outside lower left", ncols=3, frameon=False, fontsize=8)
    return fig


def _heads(axis: Axes, config: Architecture, plan: Plan, name: str) -> None:
    layers, heads = plan.shape.layers, plan.shape.heads
    labelled = layers * heads <= 400
    for n, h in plan.shape.cells():
        mixes = MAPS[name](plan.head(n, h))
        if not mixes:
            axis.add_patch(Rectangle((h - 0.5, n - 0.5), 1, 1, fill=False, edgecolor="#cccccc", linestyle=":"))
        for i, mix in enumerate(mixes):
            for x, width, term in _shares(mix):
                low = n - 0.5 + INSET + i * (1 - 2 * INSET) / len(mixes)
                size = (width * (1 - 2 * INSET), (1 - 2 * INSET) / len(mixes))
                _cell(
                    axis,
                    (h - 0.5 + INSET + x * (1 - 2 * INSET), low),
                    size,
                    term=term,
                    cell=(n, h),
                    plan=plan,
                    labelled=labelled,
                )
    axis.set(xlim=(0.4, heads + 0.6), ylim=(0.4, layers + 0.6), ylabel="layer")
    axis.set_xlabel("head" if config.group == 1 else f"key/value head, of {config.group} queries each")
    axis.set_title(TITLES[name], fontsize=9, loc="left")
    _whole_ticks(axis)


def _shares(mix: Mix) -> Iterator[tuple[float, float, Term]]:
    """Yield each term of a sum with the place in its cell where it begins, and its width: its weight's share.

    A weight that is learned, or every token's own, counts as 1.
    """
    sizes = [abs(t.weight) if is_number(t.weight) else 1.0 for t in mix.terms]
    begin = 0.0
    for size, term in zip(sizes, mix.terms, strict=True):
        yield begin, size / sum(sizes), term
        begin += size / sum(sizes)


def _cell(
    axis: Axes,
    corner: tuple[float, float],
    size: tuple[float, float],
    term: Term,
    cell: tuple[int, int],
    plan: Plan,
    labelled: bool,
) -> None:
    source, (layer, head) = term.source, cell
    color = OWN if source.layer == layer else _shade(source.layer, plan.shape.layers)
    weight = term.weight
    hatch = (
        HATCHES["learned"] if isinstance(weight, Learned) else HATCHES["gate"] if isinstance(weight, Gated) else None
    )
    # Edges of cells that are hardly wider than a line would hide them.
    line = 0.4 if min(size) * 240 / plan.shape.layers > 1.5 else 0.0
    axis.add_patch(Rectangle(corner, *size, facecolor=color, edgecolor=EDGE, linewidth=line, hatch=hatch))
    words = "-" if is_number(weight) and weight < 0 else ""
    words += "e" if source.kind == "e" else ""
    if source.layer != layer:
        words += str(source.layer)
    if source.head != head:
        words += f":{source.head}"
    words += "<" * source.shift
    words += {"first": "^", "later": ""}.get(source.where, "")
    if words and labelled and size[0] * max(1.2, 0.22 * plan.shape.heads) / plan.shape.heads > 0.035 * len(words):
        ink = "white" if sum(to_rgb(color)) < 1.8 else "black"
        middle = (corner[0] + size[0] / 2, corner[1] + size[1] / 2)
        axis.text(*middle, words, color=ink, fontsize=6, ha="center", va="center")


def _shade(source: int, layers: int) -> tuple[float, float, float]:
    """Return a source's colour, from layer 1's dark to the last layer's pale."""
    step = (source - 1) / max(1, layers - 1)
    dark, pale = to_rgb(FIRST), to_rgb(LATER)
    red, green, blue = (a + (b - a) * step**0.5 for a, b in zip(dark, pale, strict=True))
    return red, green, blue


def _depth(axis: Axes, config: Architecture, plan: Plan) -> None:
    reads = config.sublayers(plan) + 1
    for row, source, look in _sources(config, plan):
        corner = (source.start - 0.5 + INSET, row - 0.5 + INSET)
        size = (len(source) - 2 * INSET, 1 - 2 * INSET)
        axis.add_patch(Rectangle(corner, *size, edgecolor=EDGE, linewidth=0.4, **look))
    axis.set(xlim=(-0.6, reads - 0.4), ylim=(0.4, reads + 0.6))
    axis.set(xlabel="output of sublayer (0: the embedding)", ylabel="read by sublayer (last: the head)")
    axis.set_title(f"depth: {depth_words(plan.depth)}", fontsize=9, loc="left")
    _whole_ticks(axis)


SUMMED: dict[str, Any] = {"facecolor": "#b8b8b8"}
LEARNED: dict[str, Any] = {"facecolor": "#f3f3f3", "hatch": HATCHES["learned"]}
BY_CONTENT: dict[str, Any] = {"facecolor": "#f3f3f3", "hatch": HATCHES["gate"]}


def _sources(config: Architecture, plan: Plan) -> Iterator[tuple[int, range, dict[str, Any]]]:
    """Yield every read, from 1, with each of its sources and the look of that."""
    if isinstance(plan.depth, Streams):
        for row, reached in enumerate(plan.depth.reach, 1):
            yield from ((row, range(output, output + 1), COEFFICIENTS[kind]) for output, kind in reached.items())
        return
    per_layer = config.sublayers(plan) // config.n_layers
    for row, sources in enumerate(depth_reads(config, plan), 1):
        for source in sources:
            # DenseFormer sums once a layer; what a layer has put out since then is added as it is.
            within = row <= per_layer or ((row - 1) % per_layer and source is sources[-1])
            new = isinstance(plan.depth, DepthAverage) and within
            yield row, source, SUMMED if new else _look(plan, len(sources))


COEFFICIENTS: dict[str, dict[str, Any]] = {"fixed": SUMMED, "learned": LEARNED, "gate": BY_CONTENT}


def _look(plan: Plan, sources: int) -> dict[str, Any]:
    if isinstance(plan.depth, DepthAttention):
        return LEARNED if plan.depth.query == "static" else BY_CONTENT
    if isinstance(plan.depth, DepthAverage):
        return LEARNED if sources > 1 else SUMMED
    return COEFFICIENTS[plan.depth.coefficients]


def _legend(plan: Plan) -> list[Patch]:
    """Return the legend of what the picture holds, and nothing else."""
    heads = [(n, h, plan.head(n, h)) for n, h in plan.shape.cells()]
    reads = [MAPS[name] for name in shown_maps(plan)]
    shown = [(n, h, mix) for n, h, head in heads for read in reads for mix in read(head)]
    terms = [(n, h, term) for n, h, mix in shown for term in mix.terms]
    several = isinstance(plan.depth, DepthAttention)
    reach = plan.depth.reach if isinstance(plan.depth, Streams) else ()
    own = {str(plan.depth.coefficients)} - {"fixed"}
    kinds: set[str] = {kind for read in reach for kind in read.values()} or own
    content = "a learned share" if several and plan.depth.query == "static" else "a share that depends on the contents"  # type: ignore[attr-defined]
    clear = {"facecolor": "none", "edgecolor": "none"}
    dotted = {"facecolor": "none", "edgecolor": "#999999", "linestyle": ":"}
    entries: list[tuple[bool, str, dict[str, Any]]] = [
        (True, "the layer's own", {"facecolor": OWN}),
        (any(t.source.layer != n for n, _, t in terms), "an earlier layer's (layer 1 darkest)", {"facecolor": FIRST}),
        (any(t.source.head != h for _, h, t in terms), "after a colon: the head", clear),
        (
            any(len(mix.terms) > 1 for *_, mix in shown),
            "side by side: a sum, as wide as its weights (learned: 1)",
            clear,
        ),
        (any(len(head.values) > 1 for *_, head in heads), "one above the other: both attended over", clear),
        (any(not read(head) for *_, head in heads for read in reads), "no head, or nothing", dotted),
        (_learns(plan, terms) or "learned" in kinds, "a learned weight", LEARNED),
        (several, content, _look(plan, 2)),
        ("gate" in kinds or _gates(terms), "a weight of every token's own", BY_CONTENT),
        (not several if not kinds else "fixed" in kinds, "outputs, summed", SUMMED),
    ]
    return [Patch(**{"edgecolor": EDGE, **look}, label=label) for present, label, look in entries if present]


def _learns(plan: Plan, terms: list[tuple[int, int, Term]]) -> bool:
    return isinstance(plan.depth, DepthAverage) or any(isinstance(t.weight, Learned) for *_, t in terms)


def _gates(terms: list[tuple[int, int, Term]]) -> bool:
    return any(isinstance(t.weight, Gated) for *_, t in terms)


def _whole_ticks(axis: Axes) -> None:
    axis.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    axis.yaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    axis.grid(False)
    axis.tick_params(labelsize=8)
