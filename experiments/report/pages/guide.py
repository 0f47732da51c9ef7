"""Pages that are written by hand, as they are: how to read a verdict, the tutorials."""

from __future__ import annotations

from pathlib import Path

from experiments.report.pages.parts import Pages

TEXT = Path(__file__).parents[1] / "text"
TUTORIALS = ("index", "identity", "variant", "claim", "paper", "campaign")


def pages() -> Pages:
    made = {"verdicts.md": (TEXT / "verdicts.md").read_text(encoding="utf-8")}
    for name in TUTORIALS:
        path = TEXT / "tutorials" / f"{name}.md"
        if path.is_file():
            made[f"tutorials/{name}.md"] = path.read_text(encoding="utf-8")
    return made
