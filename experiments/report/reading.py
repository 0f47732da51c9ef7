"""Mathematics in plain text, as the ledger and docstrings write it, read as LaTeX: rho a (d - a), E||P - W*||_F^2.

Prose and formulas stand in one line, so what is a formula is decided by reading: letters, numbers, names of Greek
letters and functions, joined by operators.  What does not read as one stays as it is, letter for letter.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from experiments.report.symbols import (
    BREAK,
    DEEPEST,
    FUNCTIONS,
    LARGE,
    LETTERS,
    NAMED,
    OPEN,
    OPERATORS,
    RELATIONS,
    SHOWN,
    UNITS,
    Token,
    Tokens,
)


class Prose(Exception):
    """An exception: the text that was to be read is no formula."""


class Reader(Tokens):
    """A reader of tokens from `at` on."""

    def expression(self, closers: tuple[str, ...], depth: int) -> str:
        """Read operands, between operators or side by side; inside of brackets, up to the closing one, commas too."""
        if depth > DEEPEST:
            raise Prose
        parts = [self.sign(), self.operand(depth, first=not closers)]
        while (token := self.token()) is not None and token.text not in closers:
            here = self.at
            try:
                parts.append(self.further(token, closers, depth))
            except Prose:
                self.at = here
                break
        if closers and not self.is_next(*closers):
            raise Prose
        return " ".join(filter(None, parts))

    def sign(self) -> str:
        if self.is_next("-", "+-", "+") and not self.spaced(self.at + 1):
            self.at += 1
            return OPERATORS[self.tokens[self.at - 1].text]
        return ""

    def further(self, token: Token, closers: tuple[str, ...], depth: int) -> str:
        spaced = self.spaced(self.at), self.spaced(self.at + 1)
        if token.text in OPERATORS and (spaced[0] == spaced[1] or (token.text == "/" and spaced[0] <= spaced[1])):
            self.at += 1
            breaks = not depth and not self.alone and (token.text in RELATIONS or token.text in "+-")
            return f"{BREAK * breaks}{OPERATORS[token.text]} {self.sign()} {self.operand(depth)}"
        if closers and token.text in ",;:":
            self.at += 1
            mark = r"\,;\;" if token.text == ";" else f"{token.text}\\,"
            return mark if self.is_next(*closers) else f"{mark} {self.sign()} {self.operand(depth)}"
        if token.text == "x" and self.by():
            self.at += 1
            return rf"\times {self.operand(depth)}"
        if token.text == "a" and not closers and not self._letter_a():
            raise Prose
        if token.text in "([" and spaced[0] and self.is_next(*")]", offset=2):
            raise Prose
        if token.is_number and spaced[0] and not closers:
            raise Prose
        return self.operand(depth)

    def _letter_a(self) -> bool:
        """Return whether an `a` is a letter of a formula, and no article."""
        before, after = self.token(-1), self.token(1)
        if self.alone or after is None:
            return True
        if after.text in ("(", "["):
            return self._reads_on()
        if after.text in OPERATORS or after.text in ")]^_,.;:'" or (after.text == "x" and self.sized(2)):
            return True
        if before is not None and (before.text in LETTERS or before.text in ("rank", "ranks")):
            return True
        by = self.is_next("x", offset=2)
        return after.text in ("d", "n", "k", "m") and not by

    def _reads_on(self) -> bool:
        """Return whether the bracket that follows holds a formula."""
        here = self.at
        self.at += 1
        try:
            self.bracketed(DEEPEST - 1)
        except Prose:
            return False
        finally:
            self.at = here
        return True

    def operand(self, depth: int, first: bool = False) -> str:
        token = self.token()
        if token is None:
            raise Prose
        if token.text == "...":
            self.at += 1
            return r"\ldots"
        if token.text == "(" and first and not self.alone and self.is_next(")", offset=2) and self.spaced(self.at + 3):
            raise Prose  # the label of an item
        if token.text in OPEN:
            return self.marked(self.bracketed(depth), depth, call=False)
        if token.is_number:
            follows = self.token(1)
            if follows and not self.spaced(self.at + 1) and follows.is_word and follows.text in UNITS:
                raise Prose
            self.at += 1
            return self.marked(token.text.replace(",", "{,}"), depth, call=False)
        if token.is_word:
            return self.word(token, depth, first)
        raise Prose

    def bracketed(self, depth: int) -> str:
        token = self.tokens[self.at]
        if token.text == "<" and self.spaced(self.at + 1):
            raise Prose
        self.at += 1
        inner = self.expression(OPEN[token.text], depth + 1)
        closing = self.tokens[self.at].text
        self.at += 1
        return f"{SHOWN.get(token.text, token.text)}{inner}{SHOWN.get(closing, closing)}"

    def word(self, token: Token, depth: int, first: bool) -> str:
        text = token.text
        joined = not self.spaced(self.at + 1)
        called, lower = joined and self.is_next("(", "[", offset=1), joined and self.is_next("_", offset=1)
        if text in ("sqrt", "ceil", "floor"):
            return self.rooted(text, depth)
        if text in LARGE:
            follows = self.token(1)
            factor = follows and len(follows.text) == 1 and follows.text not in "a,.;:)-"
            if not (called or lower or (factor and (text in ("sum", "prod") or self.is_next("_", offset=2)))):
                raise Prose
            self.at += 1
            return self.marked(LARGE[text], depth, call=True)
        if text in FUNCTIONS or text == "log2":
            self.at += 1
            name = self.marked(rf"\operatorname{{{text}}}", depth, call=True)
            return name if called else rf"{name}\, {self.operand(depth)}"  # MathML leaves no space of itself
        if text == "a" and first and not self._letter_a():
            raise Prose
        begins = self.is_next(".", ":", "?", offset=-1) or self.at == 0
        if text == "A" and first and not self.alone and begins and not self._letter_a():
            raise Prose
        if first and self.is_next("appendix", "Appendix", offset=-1):
            raise Prose
        if len(text) == 1 or text in LETTERS:
            latex = LETTERS.get(text, text)
        elif text[1:].isdigit():
            latex = f"{text[0]}_{{{text[1:]}}}"
        elif text in NAMED and (
            not first or (joined and self.is_next("_", "^", offset=1)) or self.is_next("=", offset=1)
        ):
            latex = {"infinity": r"\infty", "grad": r"\nabla"}.get(text, rf"\mathrm{{{text}}}")
        else:
            raise Prose
        self.at += 1
        return self.marked(latex, depth, call=True)

    def rooted(self, name: str, depth: int) -> str:
        self.at += 1
        if self.is_next("(", "["):
            self.at += 1
            inner = self.expression((")", "]"), depth + 1)
            self.at += 1
        elif name == "sqrt":
            inner = self.operand(depth)
        else:
            raise Prose
        form = {"sqrt": r"\sqrt{%s}", "ceil": r"\lceil %s \rceil ", "floor": r"\lfloor %s \rfloor "}[name]
        return self.marked(form % inner, depth, call=False)

    def marked(self, base: str, depth: int, *, call: bool) -> str:
        """Read the marks of an operand: subscripts, powers, primes, stars, tildes, and arguments of functions."""
        lower, upper, arguments = "", "", ""
        while not self.spaced(self.at) and (token := self.token()) is not None:
            if token.text == "_" and not lower:
                self.at += 1
                lower = self.script(depth)
            elif token.text == "^":
                self.at += 1
                upper += self.script(depth)
            elif token.text == "'" and not (self.is_next("s", offset=1) and not self.spaced(self.at + 1)):
                self.at += 1
                upper += r"\prime "
            elif token.text in "*~" and not self._joined_to_more():
                self.at += 1
                base, upper = (rf"\tilde{{{base}}}", upper) if token.text == "~" else (base, upper + "*")
            elif token.text in "([" and call:
                arguments = self.bracketed(depth)
                call = False
            else:
                break
            if arguments:
                break
        if (lower or upper) and (("_{" in base and lower) or (not call and base[:1] in "([\\")):
            base = f"{{{base}}}"
        return base + (f"_{{{lower}}}" if lower else "") + (f"^{{{upper}}}" if upper else "") + arguments

    def _joined_to_more(self) -> bool:
        after = self.token(1)
        return after is not None and not self.spaced(self.at + 1) and (after.text[0].isalnum() or after.text in "([{|")

    def script(self, depth: int) -> str:
        """Read a subscript or power: what follows _ or ^."""
        sign = self.sign()
        token = self.token()
        if token is None or (self.spaced(self.at) and not sign):
            raise Prose
        if token.text in "({":
            self.at += 1
            inner = self.expression(OPEN[token.text], depth + 1)
            self.at += 1
            return sign + inner
        self.at += 1
        if token.text in ("+", "*"):
            return token.text
        if token.text == "T":
            return r"\top "
        if token.text in LETTERS:
            return f"{sign}{LETTERS[token.text]} "
        if token.text == "1" and self.is_next("/") and self.is_next("2", offset=1) and not self.spaced(self.at + 1):
            self.at += 2
            return f"{sign}1/2"
        if token.is_number or (len(token.text) <= 2 and token.is_word):
            return sign + token.text
        if not token.is_word:
            raise Prose
        name = token.text
        while not self.spaced(self.at) and (more := self.token()) is not None and (more.is_word or more.is_number):
            name += more.text
            self.at += 1
        return rf"{sign}\mathrm{{{name}}}"


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
