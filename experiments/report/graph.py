"""A graph of what rests on what, as SVG for a page: in layers, premises to the left, every box a link.

Every connected part is a picture of its own, so that a page sets them side by side where there is room.  Lines that
pass a layer do so between its boxes, those of one premise together.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

BOX, GAP, EDGE = 96, 25, 3  # width of a box, between layers, around all: ten layers are 1,191 pixels wide
LINE, PAD, ROOM = 13, 4, 7  # of a box: height of a line, above and below them, and what is left free between boxes
THIN = 5  # height of a line that passes
SWEEPS = 16
CHARACTERS = 14  # that fit into a line of a box

Passing = tuple[str, int]  # a premise, and the layer that its line passes
Place = str | Passing


@dataclass(frozen=True)
class Node:
    """A node of the graph.  kind: class names; title: what it is, in a sentence; label: what its box shows."""

    uses: Sequence[str]
    kind: str
    link: str
    title: str
    label: str


def drawn(nodes: Mapping[str, Node], about: str) -> str:
    """Return pictures of all connected parts, largest first.  about: what they show, for those who do not see them."""
    import networkx as nx

    graph = nx.DiGraph((premise, name) for name, node in nodes.items() for premise in node.uses)
    parts = sorted(nx.weakly_connected_components(graph), key=lambda part: (-len(part), min(part)))
    pictures = "".join(_part({name: nodes[name] for name in sorted(part)}) for part in parts)
    return f'<div class="graph" role="group" aria-label="{escape(about)}">{pictures}</div>'


def _part(nodes: Mapping[str, Node]) -> str:
    layout = _Layout(nodes)
    width, height = layout.size()
    edges = "".join(
        f'<path d="{layout.line(premise, name)}" data-from="{escape(premise)}" data-to="{escape(name)}"/>'
        for name, node in nodes.items()
        for premise in node.uses
    )
    boxes = "".join(_box(name, nodes[name], *layout.corner(name)) for layer in layout.layers for name in _names(layer))
    return (
        f'<div class="part"><svg viewBox="0 0 {width} {height}" width="{width}" height="{height}">'
        f'<g class="edges" aria-hidden="true">{edges}</g>{boxes}</svg></div>'
    )


def _names(layer: Sequence[Place]) -> Iterator[str]:
    return (place for place in layer if isinstance(place, str))


def _box(name: str, node: Node, x: int, y: int) -> str:
    lines = _lines(node.label)
    shown = "".join(
        f'<text x="{x + 6}" y="{y + PAD + LINE * number + 10}">{escape(line)}</text>'
        for number, line in enumerate(lines)
    )
    return (
        f'<a href="{escape(node.link)}" class="node {escape(node.kind)}" data-name="{escape(name)}" '
        f'aria-label="{escape(node.title)}"><title>{escape(node.title)}</title>'
        f'<rect x="{x}" y="{y}" width="{BOX}" height="{_high(node)}" rx="4"/>{shown}</a>'
    )


def _lines(label: str) -> list[str]:
    """Return a name in lines that fit, broken where it has marks."""
    lines = [""]
    for part in re.findall(r"[^-.]+[-.]?|[-.]", label):
        if lines[-1] and len(lines[-1]) + len(part) > CHARACTERS:
            lines.append("")
        lines[-1] += part
    return [line if len(line) <= CHARACTERS else line[: CHARACTERS - 1] + "…" for line in lines]


def _high(node: Node) -> int:
    return len(_lines(node.label)) * LINE + 2 * PAD


@dataclass
class _Layout:
    """The layout of a connected part: where its boxes stand, and where lines pass.

    layers   what stands in each, from above
    centres  its height there, in pixels
    """

    nodes: Mapping[str, Node]
    layers: list[list[Place]] = field(default_factory=list)
    centres: dict[Place, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        import networkx as nx

        graph = nx.DiGraph((premise, name) for name, node in self.nodes.items() for premise in node.uses)
        self.layer = _layers(graph)
        self.graph = nx.DiGraph()
        for premise, name in graph.edges:
            nx.add_path(self.graph, self._way(premise, name))
        self.layers = [[] for _ in range(max(self.layer.values()) + 1)]
        for place in sorted(self.graph, key=str):
            self.layers[self.layer[place] if isinstance(place, str) else place[1]].append(place)
        self._order()
        self._straighten()

    def _way(self, premise: str, name: str) -> list[Place]:
        return [premise, *((premise, layer) for layer in range(self.layer[premise] + 1, self.layer[name])), name]

    def _near(self, sweep: int) -> tuple[Any, list[list[Place]]]:
        """Return the neighbours to look at and the layers in order, alternating with each sweep.

        On even sweeps these are a place's premises, with layers from the left; on odd ones its uses, from the right.
        """
        return (self.graph.successors, self.layers[::-1]) if sweep % 2 else (self.graph.predecessors, self.layers)

    def _order(self) -> None:
        """Order each layer so that few lines cross."""
        for sweep in range(SWEEPS):
            near, layers = self._near(sweep)
            for places in layers:
                rank = {place: (i + 0.5) / len(row) for row in self.layers for i, place in enumerate(row)}
                centre = {place: _mean([rank[other] for other in near(place)], rank[place]) for place in places}
                places.sort(key=centre.__getitem__)

    def _straighten(self) -> None:
        """Place each box as high as what it is joined to, as nearly as order and room allow, in least squares."""
        from scipy.optimize import isotonic_regression

        offsets: dict[Place, float] = {}
        for places in self.layers:
            top = 0.0
            for place in places:
                offsets[place] = top + self._height(place) / 2
                top += self._height(place) + ROOM
            for place in places:
                self.centres[place] = offsets[place] - top / 2
        for sweep in range(SWEEPS + 1):
            near, layers = self._near(sweep)
            for places in layers:
                wanted = [_mean([self.centres[o] for o in near(p)], self.centres[p]) - offsets[p] for p in places]
                for place, free in zip(places, isotonic_regression(wanted).x, strict=True):
                    self.centres[place] = float(free) + offsets[place]
        top = min(centre - self._height(place) / 2 for place, centre in self.centres.items())
        self.centres = {place: centre - top + EDGE for place, centre in self.centres.items()}

    def _height(self, place: Place) -> int:
        return _high(self.nodes[place]) if isinstance(place, str) else THIN

    def size(self) -> tuple[int, int]:
        bottom = max(centre + self._height(place) / 2 for place, centre in self.centres.items())
        return 2 * EDGE + len(self.layers) * (BOX + GAP) - GAP, round(bottom) + EDGE

    def corner(self, name: str) -> tuple[int, int]:
        return EDGE + self.layer[name] * (BOX + GAP), round(self.centres[name] - self._height(name) / 2)

    def line(self, premise: str, name: str) -> str:
        """Return the line from a premise's right edge to its use's left edge, level through layers that it passes."""
        way = self._way(premise, name)
        x, y = EDGE + self.layer[premise] * (BOX + GAP) + BOX, round(self.centres[premise])
        path = f"M{x} {y}"
        for place in way[1:]:
            x, y = x + GAP, round(self.centres[place])
            path += f"C{x - GAP // 2} {path.split()[-1]} {x - GAP // 2} {y} {x} {y}"
            if not isinstance(place, str):
                x += BOX
                path += f"L{x} {y}"
        return path


def _mean(numbers: Sequence[float], otherwise: float) -> float:
    return sum(numbers) / len(numbers) if numbers else otherwise


def _layers(graph: Any) -> dict[Any, int]:
    """Return layers in which each entry is right of all its premises, and as near to its uses as can be."""
    import networkx as nx

    order = list(nx.topological_sort(graph))
    layer: dict[Any, int] = {}
    for name in order:
        layer[name] = max((layer[premise] + 1 for premise in graph.predecessors(name)), default=0)
    for name in reversed(order):
        if followers := [layer[follower] for follower in graph.successors(name)]:
            layer[name] = min(followers) - 1
    return layer
