"""Mathematics in plain text, as the ledger and docstrings write it, read as LaTeX: rho a (d - a), E||P - W*||_F^2.

Prose and formulas stand in one line, so what is a formula is decided by reading: letters, numbers, names of Greek
letters and functions, joined by operators.  What does not read as one stays as it is, letter for letter.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from experiments.report.reading import Prose, Reader


@dataclass(frozen=True)
class Span:
    """A part of a line.  latex: of a formula; "" for prose."""

    text: str
    latex: str = ""


def spans(text: str) -> list[Span]:
    """Return a text as prose and formulas in turn; their texts put together are the text."""
    parts: list[Span] = []
    done = 0
    for start, end, latex in _formulas(text):
        if start > done:
            parts.append(Span(text[done:start]))
        parts.append(Span(text[start:end], latex))
        done = end
    return [*parts, Span(text[done:])] if done < len(text) else parts


def whole(text: str) -> str:
    """Return the LaTeX of a text that is one formula from end to end, else ""."""
    reader = Reader(text, alone=True)
    try:
        latex = reader.expression((), 0)
    except Prose:
        return ""
    return latex if reader.at == len(reader.tokens) else ""


def _formulas(text: str) -> Iterator[tuple[int, int, str]]:
    reader = Reader(text)
    at = 0
    while at < len(reader.tokens):
        reader.at = at
        if reader.may_begin(at):
            try:
                latex = reader.expression((), 0)
            except Prose:
                latex = ""
            if latex and reader.is_formula(at, reader.at):
                yield reader.tokens[at].start, reader.tokens[reader.at - 1].end, latex
                at = reader.at
                continue
        at += 1
