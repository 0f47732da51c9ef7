"""The front page, a page per paper, and each paper's notation beside ours."""

from __future__ import annotations

import re
from collections.abc import Iterator

from experiments import catalogue
from experiments.ledger.overview import Answer, Index, Line
from experiments.report.material import Material, Room, Run, verdicts_in_order
from experiments.report.pages import documents, parts
from experiments.report.prose import escaped
from theory.plans.variants import VARIANTS

MEASURED = parts.experiment_page("index").strip("/").removesuffix(".md")
FOUND = ("explore", "claims/index", "graph", "errata/index", MEASURED, "variants/index", "notation", "verdicts")
GUIDE = (*(f"guide/{name}" for name in documents.GUIDE), "tutorials/index", "notebooks/index")
REFERENCE = ("commands", "api/index")
MADE_AGAIN = "`crosslayer verify` runs every check again, `crosslayer claim ID` shows all that there is on one entry"


def pages(material: Material) -> parts.Pages:
    built = {f"papers/{room.slug}.md": _paper(material, room) for room in material.rooms}
    return {"index.md": _front(material), "notation.md": _notation(material), **built}


def answer(room: Room) -> Answer | None:
    return catalogue.answers().get(room.package)


def _front(material: Material) -> str:
    papers = sorted((room for room in material.rooms if room.paper), key=_further)
    counts = verdicts_in_order(material.ledger.values())
    blocks = [
        "# What the papers claim, and what holds",
        "These papers let a Transformer layer reach back to earlier layers. Does it help? An answer for each; its page "
        "has sizes and intervals, the proofs, and the command that makes them again.",
        "\n".join(
            f"- **{parts.link(escaped(room.name), f'/papers/{room.slug}.md')}**: {_answered(material, room)}"
            for room in papers
        ),
        f"**{parts.link('Explore', '/explore.md')}**: move the sizes of the toy or of a model, and see the gap, the "
        "worth in width, the costs and the plan of every variant.",
        _bar(counts),
    ]
    for room in papers:
        blocks += [f"({room.slug})=", f"## {escaped(room.name)}", *_answer(material, room, front=True)]
    blocks += [_several(material), _toctrees(papers, set(documents.documents(material).values()))]
    return "\n\n".join(block for block in blocks if block) + "\n"


def _further(room: Room) -> bool:
    """Return whether a room's paper is none of those that the project is about."""
    return room.paper is None or room.paper.further


def _asks(material: Material, room: Room) -> str:
    stated = answer(room)
    return material.names.prose(stated.asks) if stated else escaped(room.paper.title if room.paper else "")


def _answered(material: Material, room: Room) -> str:
    """Return what was found on a paper in a few sentences; where the findings have nothing on it, what it asks."""
    finding = documents.finding(material, room)
    return " ".join(finding.sentences.split()) if finding else _asks(material, room)


def _bar(counts: dict[str, int]) -> str:
    """Return how many entries have each verdict, as a bar and in words."""
    shares = " ".join(f'<i class="{verdict}" style="flex-grow:{count}"></i>' for verdict, count in counts.items())
    words = ", ".join(f"{count} {parts.verdict(verdict)}" for verdict, count in counts.items())
    total = sum(counts.values())
    summary = f"{total} claims: {words}. {parts.link('How to read a verdict', '/verdicts.md')}."
    return f'```{{raw}} html\n<div class="bar" aria-hidden="true">{shares}</div>\n```\n\n{summary}'


def _answer(material: Material, room: Room, *, front: bool = False) -> Iterator[str]:
    """Yield title and address, the answer in its lines, the figure."""
    paper, stated = room.paper, answer(room)
    if paper:
        address = f"[{escaped(paper.reference)}]({_address(paper.reference)})" if paper.reference else ""
        yield f"*{escaped(paper.title)}*, {paper.year}. {address}"
    finding = None if front else documents.finding(material, room)
    if finding:
        yield finding.sentences
        yield finding.table
    if stated:
        yield "" if front or not finding else "## In five lines, each with its proof"
        lines = "\n".join(f"{number}. {_line(material, line)}" for number, line in enumerate(stated.lines, 1))
        yield parts.folded("In five lines, each with its proof", lines) if front else lines
    claims = material.claims_of(room)
    if not claims:
        return
    counted = ", ".join(f"{count} {parts.verdict(v)}" for v, count in verdicts_in_order(claims).items())
    links = [parts.link("all on this paper", f"/papers/{room.slug}.md")] if front else []
    if errata := [c for c in claims if paper and c.paper == paper.name and c.verdict in ("corrected", "refuted")]:
        links.append(parts.link(f"its {len(errata)} errata", f"/errata/{room.slug}.md"))
    yield f"{len(claims)} claims: {counted}. {'; '.join(links)}".rstrip()
    if run := shown(material, room):
        yield parts.figure(run, root="" if front else "../")


def _address(reference: str) -> str:
    """Return an address as Markdown's target: what is none leads nowhere."""
    safe = reference.startswith(("https://", "http://")) and not any(c in reference for c in " <>()[]\"'\\`")
    return reference if safe else "#"


def _line(material: Material, line: Line) -> str:
    known = [name for name in line.entries if name in material.ledger]
    return f"{material.names.prose(line.says)} [{'; '.join(parts.entry(material, name) for name in known)}]{{.rests}}"


def shown(material: Material, room: Room) -> Run | None:
    """Return the run whose figure stands for a paper."""
    stated = answer(room)
    wanted = [stated.figure] if stated else []
    names = [*wanted, *(one.name for one in material.experiments_of(room))]
    return next((material.runs[name][0] for name in names if name in material.runs), None)


def _several(material: Material) -> str:
    room = material.rooms[-1]
    names = [material.names.named(one.name) for one in material.experiments_of(room)]
    return "\n\n".join(
        [
            "## Across the papers",
            f"{len(material.claims_of(room))} claims and {len(names)} experiments need several papers, or none: "
            f"{', '.join(names)}. {parts.link('All on several papers', f'/papers/{room.slug}.md')}.",
            *([parts.figure(run, root="")] if (run := shown(material, room)) else []),
        ]
    )


def _toctrees(papers: list[Room], there: set[str]) -> str:
    """Return the tables of contents.  there: documents, of which an installed package has few."""
    entries = {
        "The papers": [*(f"papers/{room.slug}" for room in papers), "papers/several"],
        "What was found": [*(["All findings <findings>"] if documents.FOUND in there else []), *FOUND],
        "The guide": [*GUIDE],
        "Reference": [*REFERENCE, *(["contributing"] if documents.CONTRIBUTING in there else [])],
    }
    return "\n\n".join(
        f"```{{toctree}}\n:hidden:\n:titlesonly:\n:caption: {caption}\n\n" + "\n".join(names) + "\n```"
        for caption, names in entries.items()
    )


def _paper(material: Material, room: Room) -> str:
    blocks = [f"# {escaped(room.name)}", _searched(room), *_answer(material, room)]
    if written := documents.of_room(room):
        blocks.append(
            " ".join(f"**{parts.link(documents.title(path), f'/{page}')}**." for path, page in written.items())
        )
    if experiments := material.experiments_of(room):
        rows = [(material.names.named(one.name), escaped(one.title), _ran(material, one.name)) for one in experiments]
        blocks += ["## Experiments", parts.table(("name", "what it asks", "shown run"), rows)]
    built = [name for name, variant in VARIANTS.items() if variant.paper == room.paper and room.paper]
    if built:
        changes = [(material.names.named(name), escaped(VARIANTS[name].changes)) for name in built]
        blocks += ["## Variants", parts.table(("name", "what it changes"), changes)]
    for index in catalogue.indexes():
        if _room_of(index, material) is room:
            blocks += _lines(material, index)
    if material.claims_of(room):
        blocks += ["## Its claims in the ledger", _claims(material, room)]
    blocks.append(f"{MADE_AGAIN}.")
    return "\n\n".join(block for block in blocks if block) + "\n"


def _searched(room: Room) -> str:
    """Return entries by which the search finds a paper's page first: its name, and the beginning of its title."""
    name, title = (re.findall(r"[\w-]+", text) for text in (room.name, room.paper.title if room.paper else ""))
    entries = dict.fromkeys(" ".join(words) for words in (name, title[:2], title[:3]) if words and title)
    return "\n\n".join(f"```{{index}} ! single: {entry}\n```" for entry in entries)


def _room_of(index: Index, material: Material) -> Room | None:
    """Return the room that most entries of an index stand in."""
    rooms = [material.room_of(material.ledger[n]) for item in index.items for n in item.entries if n in material.ledger]
    return max(rooms, key=rooms.count) if rooms else None


def _ran(material: Material, name: str) -> str:
    runs = material.runs.get(name)
    return f"{parts.verdict(runs[0].verdict)} {parts.origin(runs[0])}" if runs else "none is finished"


def _lines(material: Material, index: Index) -> list[str]:
    prose = material.names.prose
    rows = [
        (
            prose(item.place),
            prose(item.says),
            "<br>".join(parts.entry(material, n) for n in item.entries if n in material.ledger),
        )
        for item in index.items
    ]
    summary = index.summary(material.ledger)
    return [
        "## Line by line",
        f"{escaped(summary[:1].upper() + summary[1:])}.",
        parts.folded_if_long(
            f"All {len(rows)} lines", parts.table(("place", "what it says", "judged by"), rows, kind="wide")
        ),
    ]


def _claims(material: Material, room: Room) -> str:
    rows = [
        (material.names.named(claim.id), parts.verdict(claim.verdict), material.names.prose(claim.place))
        for claim in material.claims_of(room)
    ]
    return parts.folded_if_long(f"All {len(rows)} entries", parts.table(("entry", "verdict", "place"), rows))


def _notation(material: Material) -> str:
    blocks = [
        "# Notation",
        "What each paper writes, and what stands for it in the ledger, in proofs and in the code.  Names in code are "
        "those of arguments and functions.",
    ]
    for room in material.rooms:
        if stated := answer(room):
            prose = material.names.prose
            rows = [
                (prose(s.theirs, formula=True), prose(s.ours, formula=True), prose(s.means)) for s in stated.notation
            ]
            blocks += [f"## {escaped(room.name)}", parts.table(("in the paper", "here", "what it is"), rows)]
    return "\n\n".join(blocks) + "\n"
