"""Errata, a list per paper: what is printed and does not hold, in the order of its text, for its authors."""

from __future__ import annotations

import re
import textwrap
from collections import Counter

from experiments import catalogue
from experiments.ledger.claim import IN_WORDS, Claim
from experiments.report.material import Material, Room
from experiments.report.pages import parts
from experiments.report.pages.claims import place as place_of
from experiments.report.prose import code, escaped

WIDTH = 88
FIRST = {"abstract": 0, "summary": 0, "opening": 0, "pytorch-style": 0, "introduction": 1}
APPENDIX, LAST = 100, 1000
SHOWN = 700  # words of a list before what is folded


def pages(material: Material) -> parts.Pages:
    listed = {room: errata(material, room) for room in material.rooms if room.paper}
    built = {"errata/index.md": _overview(listed)}
    for room, claims in listed.items():
        built[f"errata/{room.slug}.md"] = _page(material, room, claims)
        built[f"errata/errata-{room.slug}.txt"] = _letter(room, claims)
    return built


def errata(material: Material, room: Room) -> list[Claim]:
    """Return a paper's own claims that are corrected or refuted, in the order of its text."""
    name = room.paper.name if room.paper else ""
    wrong = [c for c in material.claims_of(room) if c.paper == name and c.verdict in ("corrected", "refuted")]
    lines = [entry for index in catalogue.indexes() for item in index.items for entry in item.entries]
    first = {entry: number for number, entry in reversed(list(enumerate(lines)))}
    return sorted(wrong, key=lambda claim: (position(claim.place), first.get(claim.id, len(lines))))


def position(place: str) -> tuple[int, ...]:
    """Return a place in a paper as numbers that sort: abstract, sections, appendices; others are last."""
    text = place.lower()
    word = re.search(r"[a-z][a-z-]*", text)
    if word and word[0] in FIRST:
        return (FIRST[word[0]],)
    match = re.search(r"sections? (\d+(?:\.\d+)*)|appendix ([a-z])((?:\.\d+)*)", text)
    if not match:
        return (LAST,)
    if match[1]:
        return tuple(int(part) for part in match[1].split("."))
    return (APPENDIX + ord(match[2]), *(int(part) for part in match[3].split(".") if part))


def _overview(listed: dict[Room, list[Claim]]) -> str:
    rows = [
        (
            parts.link(escaped(room.name), f"/errata/{room.slug}.md"),
            *(str(Counter(c.verdict for c in claims)[v]) for v in ("corrected", "refuted")),
        )
        for room, claims in listed.items()
    ]
    toctree = "```{toctree}\n:hidden:\n:titlesonly:\n\n" + "\n".join(room.slug for room in listed) + "\n```"
    return "\n\n".join(
        [
            "# Errata",
            "What is printed and does not hold, a list a paper, in the order of its text.  Each list can be sent to "
            "the paper's authors as it is; it is there as plain text, too.",
            parts.table(("paper", "corrected", "refuted"), rows, "lrr"),
            "A *corrected* statement holds in another form, which is given; a *refuted* one does not.",
            toctree,
        ]
    )


def _page(material: Material, room: Room, claims: list[Claim]) -> str:
    assert room.paper
    prose = material.names.prose
    blocks = [
        f"# Errata of {escaped(room.name)}",
        f"*{escaped(room.paper.title)}*, {room.paper.year}. {len(claims)} places where what is printed does not hold "
        "as it is printed.  The statements are in our words.  Each correction was checked by program, and each check "
        "also had to reject a wrong version; where that is possible, what is printed.",
        f"{{download}}`As plain text <errata-{room.slug}.txt>`",
    ]
    shown = 0
    for number, claim in enumerate(claims, 1):
        text = parts.definition(
            {
                "Printed": prose(claim.statement),
                "Conditions": prose(claim.assumes) if claim.assumes != "none" else "",
                "What holds": prose(claim.correction),
                "How that is known": f"{parts.entry(material, claim.id)}: {_evidence(claim)}",
            }
        )
        shown += len(parts.visible_words(text))
        blocks += [
            f"## {number}. {prose(claim.place[:1].upper() + claim.place[1:])}",
            parts.folded("What is printed, and what holds", text) if shown > SHOWN else text,
        ]
    return "\n\n".join(blocks) + "\n"


def _evidence(claim: Claim) -> str:
    counts = Counter(IN_WORDS[e.kind] for e in claim.evidence)
    checks = "; ".join(f"{count} check{'s' if count > 1 else ''} {how}" for how, count in counts.items())
    proof = f"; proof in {code(place_of(claim.proof))}" if claim.proof is not None else ""
    return f"{escaped(checks)}{proof}"


def _letter(room: Room, claims: list[Claim]) -> str:
    """Return the errata as plain text."""
    assert room.paper
    head = [
        f"Errata of {room.name}",
        f"{room.paper.title}, {room.paper.year}; {room.paper.reference}",
        "",
        *textwrap.wrap(
            "What is printed and does not hold as it is printed, in the order of the text.  Statements are in our "
            "words; names in brackets are of the entry that checks them: crosslayer claim NAME.",
            WIDTH,
        ),
    ]
    lines = [*head]
    for number, claim in enumerate(claims, 1):
        lines += ["", *textwrap.wrap(f"{number}. {claim.place} [{claim.id}]", WIDTH, subsequent_indent="   ")]
        for label, text in (("Printed", claim.statement), ("If", claim.assumes), ("Holds", claim.correction)):
            lines += textwrap.wrap(f"{label}: {text}", WIDTH, initial_indent="   ", subsequent_indent="   ")
    return "\n".join(lines) + "\n"
