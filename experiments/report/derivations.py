"""Docstrings as Markdown: paragraphs, items, and set-off lines as formulas, each with its words beside it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from experiments.report.prose import Names, code, escaped, in_cell
from experiments.report.reading import whole

ITEM = re.compile(r"(?P<lead> *)(?P<mark>[-*]|\([a-z0-9]{1,4}\)|\d+\.)(?P<gap> +)(?=\S)")
HEAD = re.compile(
    r"(?P<word>(?:Theorem|Lemma|Proof|Corollary|Setting|Remark|Open|Notation|Identity)s?\b[^.:]{0,60}[.:])(?:\s+|$)"
)
COLUMNS = re.compile(r"\s{3,}(?![=<>\s])")  # a sign goes on with what stands before it
RULED = re.compile(r"[-=~]{4,}")
FIELD = re.compile(r"(?P<name>[A-Za-z_][\w, ]{0,28}?)(?P<gap>\s{2,})(?P<says>\S.*)")  # a name, and what it is
CALL = re.compile(r"[a-z_]\w*\.[A-Za-z_]\w*(?:[.(, ].*)?")  # of the library: theory.predict(...)
FULL = 92  # a line of running text is at least so long before it breaks


def markdown(text: str, names: Names) -> str:
    """Return a docstring, dedented, as blocks of Markdown."""
    return "\n\n".join(_blocks(text.expandtabs().splitlines(), names)) + "\n"


def _blocks(lines: list[str], names: Names) -> Iterator[str]:
    """Yield the blocks of lines that begin at the left edge."""
    at = 0
    while at < len(lines):
        line = lines[at]
        if not line.strip():
            at += 1
        elif at + 1 < len(lines) and RULED.fullmatch(lines[at + 1].strip()):
            yield f"**{names.prose(line)}**"
            at += 2
        elif match := ITEM.match(line):
            end = _end_of_item(lines, at, len(match["lead"]))
            yield _item(match, lines[at:end], names)
            at = end
        elif _begins_fields(lines, at):
            end = at + 1
            while end < len(lines) and (FIELD.match(lines[end]) or (lines[end].strip() and _indent(lines[end]))):
                end += 1
            yield _fields(lines[at:end], names)
            at = end
        else:
            indent = _indent(line)
            end = at + 1
            if indent and not _begins_paragraph(lines, at):
                while end < len(lines) and _set_off(lines, end, at):
                    end += 1
                yield _display(lines[at:end], names)
            else:
                while end < len(lines) and _goes_on(lines, end):
                    end += 1
                yield _paragraph(" ".join(part.strip() for part in lines[at:end]), names)
            at = end


def _begins_fields(lines: list[str], at: int) -> bool:
    """Return whether names with their descriptions begin here, in columns."""
    wide = [match and len(match["gap"]) > 2 for line in lines[at : at + 2] if (match := FIELD.match(line))]
    return bool(FIELD.match(lines[at])) and any(wide)


def _fields(lines: list[str], names: Names) -> str:
    fields: list[list[str]] = []
    for line in lines:
        if match := FIELD.match(line):
            fields.append([match["name"], match["says"]])
        else:
            fields[-1][1] += f" {line.strip()}"
    return "\n".join(f"{code(name)}\n: {names.prose(says)}\n" for name, says in fields)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _goes_on(lines: list[str], at: int) -> bool:
    line = lines[at]
    plain = bool(line.strip()) and not _indent(line) and not ITEM.match(line) and not HEAD.match(line)
    plain = plain and not _begins_fields(lines, at)
    return plain and not (at + 1 < len(lines) and RULED.fullmatch(lines[at + 1].strip()))


def _set_off(lines: list[str], at: int, since: int) -> bool:
    """Return whether a line belongs to the set-off lines that begin at `since`."""
    line = lines[at]
    if not line.strip():
        return False
    return (
        _indent(line) > 0
        and not (ITEM.match(line) and _indent(line) <= _indent(lines[since]))
        and not (_begins_paragraph(lines, at))
    )


def _begins_paragraph(lines: list[str], at: int) -> bool:
    """Return whether an indented line is the first of a paragraph: long, and followed by the left edge."""
    after = lines[at + 1] if at + 1 < len(lines) else ""
    line = lines[at]
    running = len(line) >= FULL and not COLUMNS.search(line.strip()) and not _alone(line.strip())
    return running and bool(after.strip()) and _indent(after) < _indent(line) and not ITEM.match(after)


def _end_of_item(lines: list[str], at: int, lead: int) -> int:
    """Return where an item ends: before the next line that is no further to the right than its mark."""
    end = at + 1
    while end < len(lines):
        if lines[end].strip() and _indent(lines[end]) <= lead:
            break
        if not lines[end].strip() and not (end + 1 < len(lines) and _indent(lines[end + 1]) > lead):
            break
        end += 1
    return end


def _item(match: re.Match[str], lines: list[str], names: Names) -> str:
    """Return an item with its mark, what belongs to it indented."""
    text = match.end()
    deeper = [_indent(line) for line in lines[1:] if line.strip()]
    edge = min([text, *deeper]) if deeper else text
    rest = [lines[0][text:], *(line[min(edge, _indent(line)) :] for line in lines[1:])]
    inner = "\n\n".join(_blocks(rest, names))
    mark = "" if match["mark"] in "-*" else f"[{escaped(match['mark'])}]{{.mark}} "
    return "- " + (mark + inner).replace("\n", "\n  ")


def _paragraph(text: str, names: Names) -> str:
    text, ended = re.subn(r"\s*\bQED$", "", text)
    match = HEAD.match(text)
    head = f"**{names.prose(match['word'])}** " if match else ""
    return head + names.prose(text[match.end() :] if match else text) + " ∎" * ended


def _display(lines: list[str], names: Names) -> str:
    """Return set-off lines as one formula, or as a table of formulas and of what is said of them."""
    lines = [line for line in lines if line.strip()]
    ended = sum(bool(re.search(r"\s+QED$", line)) for line in lines)
    rows: list[list[str]] = []
    edge = min(_indent(line) for line in lines)
    for line in lines:
        line = re.sub(r"\s+QED$", "", line)
        cells = COLUMNS.split(line.strip())
        if rows and _indent(line) > edge + 3 and len(cells) == 1:
            rows[-1][-1] += " " + cells[0]
        else:
            rows.append(cells)
    if all(len(row) == 1 for row in rows):
        shown = [f"$${latex}$$" if (latex := _alone(row[0])) else names.prose(row[0], formula=True) for row in rows]
        text = "\n\n".join(shown) + " ∎" * bool(ended)
        return f":::{{container}} display\n{text}\n:::"
    width = max(map(len, rows))
    table = ["|" + "  |" * width, "|" + "---|" * width]
    for row in rows:
        cells = [in_cell(_cell(cell, names)) for cell in row]
        table.append("| " + " | ".join(cells + [""] * (width - len(cells))) + " |")
    return "\n".join([":::{container} display", *table, ":::"]) + "\n\n∎" * bool(ended)


def _cell(text: str, names: Names) -> str:
    if CALL.fullmatch(text) and text not in names.entries:
        return code(text)
    return names.prose(text, formula=True)


def _alone(text: str) -> str:
    """Return the LaTeX of a line that is a formula and a mark behind it."""
    mark = text[-1:] if text[-1:] in ".,;" else ""
    latex = whole(text[: len(text) - len(mark)])
    return f"{latex}{mark}" if latex else ""
