"""A paper in five lines, each resting on ledger entries, with its best figure; and its notation beside ours."""

from __future__ import annotations

from dataclasses import dataclass


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
