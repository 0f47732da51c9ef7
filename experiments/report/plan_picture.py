"""A plan as a picture for a page: a row a layer, a column a head, coloured by the layer that it reads."""

from __future__ import annotations

from html import escape

from theory.plans.mix import Mix
from theory.plans.plan import Plan
from theory.plans.words import MAPS, TITLES, shown_maps

CELL, GAP, LEFT = 26, 3, 34


def drawn(plan: Plan) -> list[tuple[str, str]]:
    """Return the title and the SVG of the value map and of every other map that differs from vanilla's."""
    return [(TITLES[name], _map(plan, name)) for name in shown_maps(plan)]


def _map(plan: Plan, name: str) -> str:
    layers, heads = plan.shape.layers, plan.shape.heads
    width, height = LEFT + heads * (CELL + GAP), layers * (CELL + GAP)
    cells = [
        _cell(plan, name, layer, head=head, x=LEFT + (head - 1) * (CELL + GAP), y=(layers - layer) * (CELL + GAP))
        for layer, head in plan.shape.cells()
    ]
    rows = [
        f'<text x="{LEFT - 8}" y="{(layers - n) * (CELL + GAP) + 18}" text-anchor="end">{n}</text>'
        for n in range(1, layers + 1)
    ]
    return (
        f'<svg class="plan" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" '
        f'aria-label="{escape(TITLES[name])}: the lines below say the same">{"".join(cells)}{"".join(rows)}</svg>'
    )


def _cell(plan: Plan, name: str, layer: int, head: int, x: int, y: int) -> str:
    mixes = MAPS[name](plan.head(layer, head))
    if not mixes:
        return f'<rect class="absent" x="{x}" y="{y}" width="{CELL}" height="{CELL}" rx="3"/>'
    parts, height = [], CELL / len(mixes)
    for part, mix in enumerate(mixes):
        terms = mix.terms
        wide = CELL / max(1, len(terms))
        for number, term in enumerate(terms):
            kind = "own" if term.source.layer == layer else f"from-{min(term.source.layer, 4)}"
            parts.append(
                f'<rect class="{kind}" x="{x + number * wide:.1f}" y="{y + part * height:.1f}" width="{wide:.1f}" '
                f'height="{height:.1f}"/>'
            )
    mark = _mark(mixes, layer)
    text = f'<text x="{x + CELL / 2}" y="{y + 18}" text-anchor="middle">{escape(mark)}</text>' if mark else ""
    return f'<g>{"".join(parts)}<rect class="edge" x="{x}" y="{y}" width="{CELL}" height="{CELL}" rx="3"/>{text}</g>'


def _mark(mixes: tuple[Mix, ...], layer: int) -> str:
    """Return the layer that is read, where it is one, and another; the colours show sums and concatenations."""
    sources = [term.source.layer for mix in mixes for term in mix.terms]
    return str(sources[0]) if len(sources) == 1 and sources[0] != layer else ""
