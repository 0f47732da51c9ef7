"""A graph of what rests on what, as SVG for a page: in layers, premises to the left, every box a link."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

BOX, HIGH, ROOM = 176, 22, 8  # of a box: width, height, and what is left free below it
BETWEEN, EDGE, APART = 64, 8, 18
SWEEPS = 12
CHARACTERS = 26  # that fit into a box

Layers = list[list[str]]


def drawn(
    uses: Mapping[str, Sequence[str]], kinds: Mapping[str, str], links: Mapping[str, str], titles: Mapping[str, str]
) -> str:
    """uses: premises of each node, nodes themselves; kinds: class names; titles: what a node is, in a sentence."""
    places, width, height = _places(uses)
    edges = [
        f'<path d="{_curve(places[premise], places[name])}" data-from="{escape(premise)}" data-to="{escape(name)}"/>'
        for name, premises in uses.items()
        for premise in premises
    ]
    nodes = [_node(name, places[name], kinds[name], links[name], titles[name]) for name in uses]
    return (
        '<div class="graph" role="region" aria-label="Graph of the claims; the table below says the same" tabindex="0">'
        f'<svg viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="group">'
        f'<g class="edges" aria-hidden="true">{"".join(edges)}</g>{"".join(nodes)}</svg></div>'
    )


def _node(name: str, place: tuple[int, int], kind: str, link: str, title: str) -> str:
    x, y = place
    shown = name if len(name) <= CHARACTERS else name[: CHARACTERS - 1] + "…"
    return (
        f'<a href="{escape(link)}" class="node {escape(kind)}" data-name="{escape(name)}" aria-label="{escape(title)}">'
        f"<title>{escape(title)}</title>"
        f'<rect x="{x}" y="{y}" width="{BOX}" height="{HIGH}" rx="4"/>'
        f'<text x="{x + 7}" y="{y + HIGH - 7}">{escape(shown)}</text></a>'
    )


def _curve(start: tuple[int, int], end: tuple[int, int]) -> str:
    x0, y0, x1, y1 = start[0] + BOX, start[1] + HIGH // 2, end[0], end[1] + HIGH // 2
    bend = max(24, (x1 - x0) // 2)
    return f"M{x0} {y0}C{x0 + bend} {y0} {x1 - bend} {y1} {x1} {y1}"


def _places(uses: Mapping[str, Sequence[str]]) -> tuple[dict[str, tuple[int, int]], int, int]:
    """The corner of every box, and the size of the whole: connected parts below each other, the largest first."""
    import networkx as nx

    graph = nx.DiGraph()
    graph.add_nodes_from(uses)
    graph.add_edges_from((premise, name) for name, premises in uses.items() for premise in premises)
    places: dict[str, tuple[int, int]] = {}
    top, width = EDGE, 0
    parts = sorted(nx.weakly_connected_components(graph), key=lambda part: (-len(part), min(part)))
    for part in parts:
        layers = _ordered(graph.subgraph(sorted(part)))
        tallest = max(map(len, layers))
        for column, layer in enumerate(layers):
            spare = (tallest - len(layer)) * (HIGH + ROOM) // 2
            for row, name in enumerate(layer):
                places[name] = (EDGE + column * (BOX + BETWEEN), top + spare + row * (HIGH + ROOM))
        top += tallest * (HIGH + ROOM) + APART
        width = max(width, EDGE * 2 + len(layers) * (BOX + BETWEEN) - BETWEEN)
    return places, width, top


def _ordered(graph: object) -> Layers:
    """Nodes in layers, each right of all its premises and as near to what uses it as can be, with few crossings."""
    import networkx as nx

    layer: dict[str, int] = {}
    for name in nx.topological_sort(graph):
        layer[name] = max((layer[p] + 1 for p in graph.predecessors(name)), default=0)  # type: ignore[attr-defined]
    for name in reversed(list(nx.topological_sort(graph))):
        if followers := [layer[f] for f in graph.successors(name)]:  # type: ignore[attr-defined]
            layer[name] = min(followers) - 1
    layers: Layers = [[] for _ in range(max(layer.values()) + 1)]
    for name in sorted(layer):
        layers[layer[name]].append(name)
    for sweep in range(SWEEPS):
        near = graph.predecessors if sweep % 2 == 0 else graph.successors  # type: ignore[attr-defined]
        for names in layers if sweep % 2 == 0 else reversed(layers):
            rank = {n: (i + 0.5) / len(row) for row in layers for i, n in enumerate(row)}

            def centre(name: str, near: object = near, rank: dict[str, float] = rank) -> float:
                around = [rank[other] for other in near(name)]  # type: ignore[operator]
                return sum(around) / len(around) if around else rank[name]

            names.sort(key=centre)
    return layers
