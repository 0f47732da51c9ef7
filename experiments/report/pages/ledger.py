"""The whole ledger on two pages: as a table to filter, and as a graph of what rests on what."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from html import escape

from experiments.ledger.claim import Claim
from experiments.report.graph import Node, drawn
from experiments.report.material import Material, Room, claim_page
from experiments.report.pages import parts
from experiments.report.prose import escaped

SHORT = 150  # characters of a statement in the table


def pages(material: Material) -> parts.Pages:
    return {"claims/index.md": _table(material), "graph.md": _graph(material)}


def first_sentence(text: str) -> str:
    """Return the first sentence; if it is long, its beginning up to a word."""
    sentence = re.split(r"(?<=\.)\s{1,2}(?=[A-Z])", text, maxsplit=1)[0]
    if len(sentence) <= SHORT:
        return sentence
    return sentence[:SHORT].rpartition(" ")[0].rstrip(",;: ") + " …"


def _table(material: Material) -> str:
    rows = [
        (
            material.names.named(claim.id),
            escaped(material.room_of(claim).name),
            material.names.prose(claim.place),
            parts.verdict(claim.verdict),
            material.names.prose(first_sentence(claim.statement)),
        )
        for claim in sorted(material.ledger.values(), key=lambda claim: _further(material.room_of(claim)))
    ]
    head = ("entry", "on", "place", "verdict", "what is claimed, in our words")
    return parts.WIDE + "\n\n".join(
        [
            "# Claims",
            f"All {len(rows)} entries of the ledger, the papers' own and ours on their settings.  "
            f"{parts.link('How to read a verdict', '/verdicts.md')}; {parts.link('what rests on what', '/graph.md')}.",
            parts.table(head, rows, kind="filterable wide"),
        ]
    )


def _further(room: Room) -> bool:
    """Return whether a room's paper is none of those that the project is about: their claims come last."""
    return room.paper is None or room.paper.further


def _graph(material: Material) -> str:
    linked = {name for claim in material.ledger.values() if claim.uses for name in (claim.id, *claim.uses)}
    nodes = [claim for claim in material.ledger.values() if claim.id in linked]
    alone = [claim for claim in material.ledger.values() if claim.id not in linked]
    rows = [
        (parts.entry(material, claim.id), "<br>".join(parts.entry(material, name) for name in claim.uses))
        for claim in nodes
        if claim.uses
    ]
    blocks = [
        "# What rests on what",
        f"{len(nodes)} entries rest on others or carry them: premises stand to the left of what uses them, and an "
        "entry falls with each of its premises.  Dashed boxes are entries on another paper, or on several.  Every box "
        "is a link; the table below says the same.",
        _legend(nodes),
    ]
    for room in material.rooms:
        if picture := _picture(material, room):
            blocks += [f"## {escaped(room.name)}", f"```{{raw}} html\n{picture}\n```"]
    blocks += ["## The same as a table", parts.table(("entry", "rests on"), rows), "## Entries by themselves"]
    blocks.append(f"{len(alone)} rest on no other, and none rests on them.")
    blocks.append("\n".join(f"- {parts.entry(material, claim.id)}" for claim in alone))
    return parts.WIDE + "\n\n".join(blocks) + "\n"


def _picture(material: Material, room: Room) -> str:
    """Return the graph of a paper's entries that rest on others or carry others, with premises elsewhere."""
    own = [claim for claim in material.claims_of(room) if claim.uses]
    shown = dict.fromkeys([*(claim.id for claim in own), *(name for claim in own for name in claim.uses)])
    prefixes = Counter(name.partition(".")[0] for name in shown)
    usual = max(prefixes, key=prefixes.__getitem__, default="")
    nodes = {}
    for name in shown:
        claim = material.ledger[name]
        here = room.holds(claim.module)
        nodes[name] = Node(
            uses=claim.uses if here else (),
            kind=claim.verdict if here else f"{claim.verdict} elsewhere",
            link=claim_page(name).strip("/").removesuffix(".md") + ".html",
            title=f"{name}, {claim.verdict}: {first_sentence(claim.statement)}",
            label=name.removeprefix(f"{usual}."),
        )
    return drawn(nodes, f"Graph of the claims on {room.name}; the table below says the same") if nodes else ""


def _legend(claims: Iterable[Claim]) -> str:
    verdicts = dict.fromkeys(claim.verdict for claim in claims)
    words = " ".join(f'<span class="verdict {escape(v)}">{escape(v)}</span>' for v in sorted(verdicts))
    return f'```{{raw}} html\n<p class="legend">{words}</p>\n```'
