"""A page per claim: what is printed, what is true, its proof, premises and checks, and what was measured of it."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from experiments import catalogue
from experiments.ledger.claim import IN_WORDS, Claim
from experiments.ledger.variants import variants
from experiments.ledger.verify import Verification
from experiments.report import derivations
from experiments.report.closed_forms import closed_forms
from experiments.report.material import Material
from experiments.report.pages import parts
from experiments.report.prose import code, escaped, fenced

TRUE = {
    "corrected": "What is true",
    "refuted": "What is true",
    "open": "What would decide it",
    "inconclusive": "Why it is not decided",
    "verified": "Remark",
}
LONG_PROOF = 800  # words that are shown whole


def pages(material: Material) -> parts.Pages:
    named = named_by_indexes()
    return {
        material.names.entries[claim.id].lstrip("/"): _page(material, claim, named.get(claim.id, []))
        for claim in material.ledger.values()
    }


def named_by_indexes() -> dict[str, list[str]]:
    """Return, by entry, the lines of papers that it judges."""
    named: dict[str, list[str]] = {}
    for index in catalogue.indexes():
        for item in index.items:
            for name in item.entries:
                named.setdefault(name, []).append(f"{item.place}: {item.says}")
    return named


def _page(material: Material, claim: Claim, lines: list[str]) -> str:
    return parts.ORPHAN + "\n\n".join(_sections(material, claim, lines)) + "\n"


def _sections(material: Material, claim: Claim, lines: list[str]) -> Iterator[str]:
    prose, v = material.names.prose, material.verified.get(claim.id)
    room = material.room_of(claim)
    yield f"# {escaped(claim.id)}"
    paper = parts.link(escaped(claim.paper), f"/papers/{room.slug}.md")
    yield f"{parts.verdict(claim.verdict)} {paper}; {prose(claim.place)}"
    if stands := parts.standing(v, claim):
        yield stands
    ours = claim.paper.startswith("this project")
    yield "## What is claimed" + (" (by this project)" if ours else " (in our words)")
    yield f":::{{container}} statement\n{prose(claim.statement)}\n:::"
    yield f"**Under which conditions.** {prose(claim.assumes)}"
    if claim.correction:
        yield f"## {TRUE[claim.verdict]}"
        yield f":::{{container}} statement\n{prose(claim.correction)}\n:::"
    yield "## Checks"
    yield (
        "Each must hold for what is stated here and fail for a deliberately wrong version, its negative control."
        if claim.evidence
        else "It has none."
    )
    if claim.evidence:
        yield _checks(material, claim, v)
    yield from _measured(material, claim)
    yield from _proof(material, claim)
    yield from _relations(material, claim)
    if lines:
        yield "## Lines of the paper that it judges"
        yield parts.folded_if_long(f"All {len(lines)} lines", "\n".join(f"- {prose(line)}" for line in lines), most=200)
    yield from _again(material, claim, v)


def _checks(material: Material, claim: Claim, v: Verification | None) -> str:
    rows = [
        (
            material.names.prose(e.what),
            material.names.prose(e.wrong),
            escaped(IN_WORDS[e.kind]),
            parts.outcome(v, number),
        )
        for number, e in enumerate(claim.evidence)
    ]
    return parts.table(("what is checked", "what must be rejected", "how", "last outcome"), rows, kind="wide")


def _measured(material: Material, claim: Claim) -> Iterator[str]:
    names = [name for name, one in material.experiments.items() if claim.id in one.claims]
    if not names:
        return
    yield "## What was measured"
    rows, shown = [], None
    for name in names:
        runs = material.runs.get(name, ())
        if not runs:
            rows.append((material.names.named(name), "no finished run", ""))
        for run in runs:
            checks = [check for check in run.checks if check.claim == claim.id]
            rows.append((material.names.named(name), parts.origin(run), parts.judged(checks)))
            if shown is None and checks:
                shown = run
    yield parts.table(("experiment", "run", "what it says of this"), rows)
    if shown:
        yield parts.figure(shown, root="../")


def _proof(material: Material, claim: Claim) -> Iterator[str]:
    yield "## Proof"
    if claim.proof is None:
        yield "Its checks are the proof."
        return
    yield f"It stands beside the code, in {code(place(claim.proof))}."
    text = inspect.getdoc(claim.proof)
    yield _derivation(derivations.markdown(text, material.names)) if text else ""
    if forms := closed_forms(claim.proof):
        yield "### The closed forms, as the code computes them"
        rows = [(code(form.name), f"${form.latex}$", material.names.prose(form.says)) for form in forms]
        yield parts.table(("function", "returns", "in words"), rows, kind="wide")


def _derivation(text: str) -> str:
    """Return a proof; of a long one what it proves, and the rest folded."""
    words = len(parts.visible_words(text))
    if words <= LONG_PROOF:
        return _set_as_proof(text)
    theorem, mark, rest = text.partition("\n**Proof.**")
    if not mark or len(parts.visible_words(theorem)) > LONG_PROOF:
        theorem, mark, rest = text.partition("\n\n")
    folded = parts.folded(f"The rest of it ({words} words in all)", _set_as_proof(mark + rest))
    return f"{_set_as_proof(theorem)}\n\n{folded}"


def _set_as_proof(text: str) -> str:
    return f"::::::{{container}} proof\n{text}\n::::::"


def place(proof: Any) -> str:
    """Return the place of an object in the source: path:line."""
    if inspect.ismodule(proof):
        return parts.shown_path(Path(proof.__file__ or ""))
    proof = inspect.unwrap(proof)
    return f"{parts.shown_path(Path(inspect.getsourcefile(proof) or ''))}:{inspect.getsourcelines(proof)[1]}"


def _relations(material: Material, claim: Claim) -> Iterator[str]:
    uses, used = claim.uses, material.resting_on(claim.id)
    built = variants(claim)
    yield "## What it rests on, and what rests on it"
    if uses:
        yield "It falls with each of these premises:"
        yield "\n".join(f"- {parts.entry(material, name)}" for name in uses)
    else:
        yield "It rests on no other entry."
    if used:
        yield "These rest on it:"
        yield "\n".join(f"- {parts.entry(material, name)}" for name in used)
    if built:
        yield f"Its checks build the variants {', '.join(map(material.names.named, built))}."
    yield f"{parts.link('All entries as a graph', '/graph.md')}."


def _again(material: Material, claim: Claim, v: Verification | None) -> Iterator[str]:
    yield "## See for yourself"
    yield fenced(f"crosslayer claim {claim.id}\ncrosslayer verify --afresh {claim.id}", "sh")
    here = material.here
    remembered = "" if v is None or not v.outcomes else f"; its checks took {v.seconds:.1f} s"
    yield (
        f"The entry stands in {code(claim.module)}. Commit {code(str(here['commit'] or 'unknown')[:20])}, "
        f"{escaped(here['device'])}{remembered}."
    )
