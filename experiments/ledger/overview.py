"""Exports of a paper's room on the whole paper: ANSWER, it in a few lines, and INDEX, its parts line by line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from experiments.ledger.claim import Claim
from experiments.store.folders import UserError


@dataclass(frozen=True)
class Item:
    """One line of the paper.  says: in our words; entries: ids of the ledger entries that judge it, if any."""

    place: str
    says: str
    entries: tuple[str, ...]


@dataclass(frozen=True)
class Index:
    """An index of a part of a paper, as `title` names it; items: in the order of the text."""

    title: str
    items: tuple[Item, ...]

    def summary(self, ledger: Mapping[str, Claim]) -> str:
        """A line: how many items, and what verdicts the entries have that judge them."""
        entries = dict.fromkeys(entry for item in self.items for entry in item.entries)
        if unknown := [entry for entry in entries if entry not in ledger]:
            raise UserError(f"the index of {self.title} names {unknown[0]!r}, which is no ledger entry")
        verdicts = Counter(ledger[entry].verdict for entry in entries)
        counts = ", ".join(f"{count} {verdict}" for verdict, count in verdicts.most_common())
        bare = sum(not item.entries for item in self.items)
        left = f"{bare} of them not judged, the others by" if bare else "judged by"
        return f"{self.title}: {len(self.items)} items, {left} {len(entries)} entries: {counts}"


@dataclass(frozen=True)
class Line:
    """A sentence of the answer.  entries: ids of the ledger entries that judge what it says."""

    says: str
    entries: tuple[str, ...]


@dataclass(frozen=True)
class Symbol:
    """A symbol of a paper, with the symbol that stands for it here, and its meaning."""

    theirs: str
    ours: str
    means: str


@dataclass(frozen=True)
class Answer:
    """A paper's short answer, which its room exports as ANSWER of a module `answer`.

    asks      the paper's claim in a few words, as a question
    lines     what holds of it
    figure    the experiment whose figure shows most of that
    notation  its symbols beside ours
    """

    asks: str
    lines: tuple[Line, ...]
    figure: str
    notation: tuple[Symbol, ...]
