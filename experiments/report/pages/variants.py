"""A page per variant: its plan's picture, what it costs, what the toy predicts of it, and what was measured."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from html import escape

from experiments import catalogue
from experiments.ledger.variants import variants
from experiments.report.material import Material, Run
from experiments.report.pages import parts
from experiments.report.prose import code, escaped, fenced, shown
from experiments.store.folders import in_a_path
from experiments.verdicts import words
from experiments.verdicts.checks import Judgement, by_group
from theory.errors import BadInput
from theory.plans import accounting
from theory.plans.accounting import depth_memory, flops, total_parameters
from theory.plans.architecture import Architecture
from theory.plans.mix import Mix
from theory.plans.names import BadName, model, resolve
from theory.plans.plan import Plan, Shape
from theory.plans.variants import VARIANTS
from theory.plans.words import MAPS, TITLES, depth_words, rules, shown_maps

PRESETS = ("llama-60m", "llama-130m")
SHOWN = Shape(6, 6)
TOY = {"d": 4, "n": 16, "sigma": 0.3, "rank": 2}


def pages(material: Material) -> parts.Pages:
    built: dict[str, list[str]] = {}
    for claim in material.ledger.values():
        for name in variants(claim):
            built.setdefault(name, []).append(claim.id)
    every = [run for runs in material.runs.values() for run in runs]
    each = {
        f"variants/{in_a_path(name)}.md": parts.ORPHAN
        + "\n\n".join(_sections(material, name, built.get(name, []), runs=every))
        + "\n"
        for name in VARIANTS
    }
    return {"variants/index.md": _table(material), **each}


def percent(change: float) -> str:
    """Return a change in per cent with one digit."""
    if abs(change) < 5e-4:
        return "=" if change == 0 else f"{'+' if change > 0 else '-'}<0.1%"
    return f"{change:+.1%}"


@cache
def costs(preset: str, name: str) -> dict[str, int] | None:
    """Return the costs of a preset under a variant; None where it has no meaning there."""
    try:
        config, plan = model(preset, name)
    except BadName:
        return None
    return _costs(config, plan)


def _costs(config: Architecture, plan: Plan) -> dict[str, int]:
    cached = accounting.cache(config, plan)
    return {
        "parameters": total_parameters(config, plan),
        "cache": cached.total,
        "key cache": sum(cached.keys),
        "value cache": sum(cached.values),
        "FLOPs per token": flops(config, plan, config.context),
        "depth memory": depth_memory(config, plan) // config.d_model,
    }


def _table(material: Material) -> str:
    rows = []
    vanilla = costs(PRESETS[1], "vanilla") or {}
    for name, variant in catalogue.variants().items():
        own = costs(PRESETS[1], name)
        changes = [
            percent(own[key] / vanilla[key] - 1) if own else "n/a" for key in ("parameters", "cache", "FLOPs per token")
        ]
        rows.append(
            (
                material.names.named(name),
                escaped(variant.source or "all"),
                escaped(variant.changes),
                *map(escaped, changes),
            )
        )
    return parts.WIDE + "\n\n".join(
        [
            "# Variants",
            "A variant is a plan: for every head of every layer what it attends over, and how a sublayer's input is "
            f"made from the outputs before it.  Costs are those of {code(PRESETS[1])}, against vanilla.",
            parts.table(
                ("name", "on", "what it changes", "parameters", "cache", "FLOPs"),
                rows,
                "lllrrr",
                kind="filterable wide",
            ),
        ]
    )


def _sections(material: Material, name: str, entries: list[str], runs: list[Run]) -> Iterator[str]:
    variant = VARIANTS[name]
    yield f"# {escaped(name)}"
    place = ", ".join(filter(None, (variant.source, variant.place)))
    yield f"{escaped(variant.changes[:1].upper() + variant.changes[1:])} ({escaped(place)})."
    yield from _plan(name)
    yield "## What it costs"
    yield _cost_table(name)
    yield "## What the toy predicts"
    yield _toy(material, name)
    yield "## What was measured"
    compared = [(run, check) for run in runs for check in run.checks if _is_on(check, name)]
    yield _measured(material, compared) if compared else "No shown run compares it by name."
    if entries:
        yield "## Entries whose checks build it"
        lines = "\n".join(f"- {parts.entry(material, entry)}" for entry in entries)
        yield parts.folded_if_long(f"All {len(entries)} entries", lines, most=120)
    yield "## See for yourself"
    yield fenced(
        f"crosslayer describe {PRESETS[1]} --variant {name} --figure plan.svg\n"
        f"crosslayer predict {name} --d 4 --n 16 --sigma 0.3",
        "sh",
    )


def _plan(name: str) -> Iterator[str]:
    try:
        plan = resolve(name, SHOWN)
    except BadInput as error:
        yield f"It has no plan of {SHOWN.layers} layers and {SHOWN.heads} heads: {escaped(str(error))}."
        return
    yield f"## Its plan, in {SHOWN.layers} layers of {SHOWN.heads} heads"
    pictures = "".join(f"<figure><figcaption>{title}</figcaption>{svg}</figure>" for title, svg in drawn(plan))
    yield f'```{{raw}} html\n<div class="plans">{pictures}</div>\n```'
    yield "A row is a layer, a column a head; blue is read of another layer, the darker the earlier."
    lines = [f"- {escaped(line)}" for each in shown_maps(plan) for line in rules(plan, each)]
    yield "\n".join([*lines, f"- depth: {escaped(depth_words(plan.depth))}"])


def _cost_table(name: str) -> str:
    rows: list[tuple[str, ...]] = []
    for preset in PRESETS:
        before, after = costs(preset, "vanilla"), costs(preset, name)
        if before is None or after is None:
            rows.append((code(preset), "n/a", "", "", "", "", ""))
            continue
        changes = [escaped(percent(after[key] / before[key] - 1)) for key in before if key != "depth memory"]
        rows.append((code(preset), f"{after['parameters']:,}", *changes, str(after["depth memory"])))
    head = ("preset", "parameters", "against vanilla", "cache", "key cache", "value cache", "FLOPs", "depth vectors")
    return parts.table(head, rows, "lrrrrrrr", kind="wide numbers")


def _toy(material: Material, name: str) -> str:
    from theory.toy.value_maps import closed_form

    setting = ", ".join(f"{'a' if key == 'rank' else key} = {value}" for key, value in TOY.items())
    try:
        plan, vanilla = (resolve(each, Shape(2, 2)) for each in (name, "vanilla"))
        optimum, base = closed_form(plan, **TOY), closed_form(vanilla, **TOY)  # type: ignore[arg-type]
    except (BadInput, ValueError) as error:
        return f"Nothing: {escaped(str(error))}."
    where = f"In the assumed-copy toy at {material.names.prose(setting)}, W0 = 0"
    if optimum is None or base is None:
        return f"{where}, it has no closed form; {code(f'crosslayer predict {name}')} minimises the exact loss."
    more = optimum.explained - base.explained
    against = (
        "as much as vanilla" if abs(more) < 1e-12 else f"{abs(more):.4g} {'more' if more > 0 else 'less'} than vanilla"
    )
    attained = {True: "attained", False: "not attained", None: "approached"}[optimum.attained]
    return (
        f"{where}, its lowest loss is {optimum.loss:.4g} ({escaped(optimum.method)}; {attained}): it explains "
        f"{optimum.explained:.4g} of the signal of {TOY['d'] ** 2}, {against}. "
        f"{parts.link('The theorem', material.names.entries.get('toy.value-maps', '/claims/index.md'))}."
    )


def _is_on(check: Judgement, name: str) -> bool:
    return name != "vanilla" and name in check.id.split("/")


def _by_group(compared: list[tuple[Run, Judgement]]) -> Iterator[tuple[Run, list[Judgement]]]:
    """Yield the points of one group of one run, the tightest first."""
    for run in dict.fromkeys(run.folder.path for run, _ in compared):
        of_run = [(one, check) for one, check in compared if one.folder.path == run]
        for members in by_group([check for _, check in of_run]).values():
            yield of_run[0][0], members


def _measured(material: Material, compared: list[tuple[Run, Judgement]]) -> str:
    rows = [
        (
            f"{material.names.named(run.experiment.name)} {escaped(run.saved['profile'])}",
            escaped(members[0].statement),
            str(len(members)),
            shown(words.predicted(members[0])),
            shown(words.measured(members[0])),
            parts.group_verdict(members),
        )
        for run, members in _by_group(compared)
    ]
    head = ("experiment", "what was asked", "points", "predicted", "measured", "verdict")
    return parts.folded_if_long(
        f"All {len(rows)} comparisons", parts.table(head, rows, "llrrrl", kind="wide numbers"), most=300
    )


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
