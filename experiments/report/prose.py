"""Other people's text as Markdown: escaped, its formulas set, the ledger entries that it names linked."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache

from experiments.report.reading import spans, whole
from experiments.report.symbols import BREAK, LONG

INLINE = re.compile(r"([\\`*_{}\[\]<>&$|~^#])")  # what means something anywhere in a line
FIRST = re.compile(r"[!-/:-@]")  # what may mean something where a line begins
NUMBERED = re.compile(r"(\d+)([.)])")
SIGNS = {"<=": "≤", ">=": "≥", "!=": "≠", "<->": "↔", "->": "→", "+-": "±"}
SIGN = re.compile("|".join(map(re.escape, SIGNS)))
RELATION, SUM = re.compile(rf"{BREAK}(?![-+])"), re.compile(rf"{BREAK}(?=[-+])")  # where long formulas break
JOINED, CLOSING = "\u2060", ",.;:!?)]'%"  # no line begins with one of these behind a formula
QUOTED = re.compile(r"``(?P<double>[^`]+)``|`(?P<code>[^`']+)`|`(?P<words>[^`']{1,160}?)'")


def shown(text: str) -> str:
    """Return a text as Markdown that shows it, with signs such as <= and +- as they are printed."""
    return escaped(SIGN.sub(lambda match: SIGNS[match[0]], text))


def escaped(text: str) -> str:
    """Return a text as Markdown that shows it, on one line: nothing in it means anything."""
    shown = INLINE.sub(r"\\\1", " ".join(text.split()))
    if NUMBERED.match(shown):
        return NUMBERED.sub(r"\1\\\2", shown, count=1)
    return f"\\{shown}" if FIRST.match(shown) else shown


def plain(text: str) -> str:
    """Return a text as Markdown that shows it, what stands between backticks as code."""
    parts = text.split("`")
    if len(parts) % 2 == 0:
        return escaped(text)
    return "".join(code(part) if number % 2 else _kept(part) for number, part in enumerate(parts))


def _kept(text: str) -> str:
    """Return a text escaped, with the room that it had at either end."""
    return f"{' ' * text[:1].isspace()}{escaped(text)}{' ' * (text[-1:].isspace() and bool(text.strip()))}"


def code(text: str) -> str:
    """Return a text as Markdown's code, on one line; nothing in it means anything."""
    text = " ".join(text.split())
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", text)), default=0))
    room = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{room}{text}{room}{fence}" if text else ""


def fenced(text: str, language: str = "text") -> str:
    """Return a text of several lines as a block of code."""
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
    return f"{fence}{{code-block}} {language}\n{text.rstrip()}\n{fence}"


def in_cell(markdown: str) -> str:
    """Return Markdown on one line, for the cell of a table, in which a bar would end it."""
    return re.sub(r"(?<!\\)\|", r"\\|", markdown)


@cache
def _set(text: str, single: bool) -> str:
    """Return prose without code: escaped, its formulas as `$...$`."""
    if single and (latex := whole(text)):
        return f"${latex}$"
    parts = []
    for span in spans(text):
        if span.latex:
            parts.append(_formula(span.latex))
        else:
            protected = _kept(SIGN.sub(lambda match: SIGNS[match[0]], span.text))
            before, after = parts and span.text[0] in CLOSING, span.text[-1] in "(["
            parts.append(f"{JOINED * bool(before)}{protected}{JOINED * after}")
    return "".join(parts)


def _formula(latex: str) -> str:
    """Return a formula of a line, a long one in pieces between which the line may break."""
    if len(latex) < LONG:
        return f"${latex.replace(BREAK, '')}$"
    pieces = [latex]
    for sign in (RELATION, SUM):
        pieces = [part for piece in pieces for part in (sign.split(piece) if len(piece) > LONG else [piece])]
    first, *rest = (piece.replace(BREAK, "").strip() for piece in pieces)
    return " ".join([f"${first}$", *(f"${{}} {piece}$" for piece in rest)])


@dataclass(frozen=True)
class Names:
    """The names that prose may use, each with its page: ids of entries anywhere, all else where it stands as code."""

    entries: Mapping[str, str] = field(default_factory=dict)
    others: Mapping[str, str] = field(default_factory=dict)

    def prose(self, text: str, *, formula: bool = False) -> str:
        """Return a text as Markdown on one line.  formula: it may be one from end to end, such as `a d`."""
        parts, done, text = [], 0, " ".join(text.split())
        for match in QUOTED.finditer(text):
            parts.append(self._linked(text[done : match.start()]))
            parts.append(f"“{self._linked(match['words'])}”" if match["words"] else self.named(match[0].strip("`")))
            done = match.end()
        return "".join([*parts, self._linked(text[done:], single=formula and not done)]).strip()

    def named(self, name: str) -> str:
        """Return a name as code, with a link where it has a page."""
        page = self.entries.get(name) or self.others.get(name)
        return f"[{code(name)}]({page})" if page else code(name)

    def _linked(self, text: str, *, single: bool = False) -> str:
        parts, done = [], 0
        for match in re.finditer(r"(?<![\w./-])[a-z0-9]+\.[a-z0-9]+(?:-[a-z0-9]+)*(?![\w/]|\.[a-z])", text):
            if match[0] in self.entries:
                parts += [_set(text[done : match.start()], False), self.named(match[0])]
                done = match.end()
        return "".join([*parts, _set(text[done:], single and not done)])
