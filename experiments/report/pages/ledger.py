"""The whole ledger on two pages: as a table to filter, and as a graph of what rests on what."""

from __future__ import annotations

import re
from collections.abc import Iterable
from html import escape

from experiments.ledger.claim import Claim
from experiments.report.graph import drawn
from experiments.report.material import Material, claim_page
from experiments.report.pages import parts
from experiments.report.prose import escaped

SHORT = 150  # characters of a statement in the table


def pages(material: Material) -> parts.Pages:
    return {"claims/index.md": _table(material), "graph.md": _graph(material)}


def first_sentence(text: str) -> str:
    """The first sentence; of a long one its beginning, up to a word."""
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
        for claim in material.ledger.values()
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


def _graph(material: Material) -> str:
    linked = {name for claim in material.ledger.values() if claim.uses for name in (claim.id, *claim.uses)}
    nodes = {name: claim for name, claim in material.ledger.items() if name in linked}
    alone = [claim for name, claim in material.ledger.items() if name not in linked]
    picture = drawn(
        {name: claim.uses for name, claim in nodes.items()},
        {name: claim.verdict for name, claim in nodes.items()},
        {name: claim_page(name).strip("/").removesuffix(".md") + ".html" for name in nodes},
        {name: f"{name}, {claim.verdict}: {first_sentence(claim.statement)}" for name, claim in nodes.items()},
    )
    rows = [
        (parts.entry(material, claim.id), "<br>".join(parts.entry(material, name) for name in claim.uses))
        for claim in nodes.values()
        if claim.uses
    ]
    return parts.WIDE + "\n\n".join(
        [
            "# What rests on what",
            f"{len(nodes)} entries rest on others or carry them: premises stand to the left of what uses them, and "
            "an entry falls with each of its premises.  Every box is a link; the table below says the same.",
            _legend(nodes.values()),
            f"```{{raw}} html\n{picture}\n```",
            "## The same as a table",
            parts.table(("entry", "rests on"), rows),
            "## Entries by themselves",
            f"{len(alone)} rest on no other, and none rests on them.",
            "\n".join(f"- {parts.entry(material, claim.id)}" for claim in alone),
        ]
    )


def _legend(claims: Iterable[Claim]) -> str:
    verdicts = dict.fromkeys(claim.verdict for claim in claims)
    words = " ".join(f'<span class="verdict {escape(v)}">{escape(v)}</span>' for v in sorted(verdicts))
    return f'```{{raw}} html\n<p class="legend">{words}</p>\n```'
