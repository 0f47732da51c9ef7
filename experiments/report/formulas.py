"""Mathematics in plain text, as the ledger and docstrings write it, read as LaTeX: rho a (d - a), E||P - W*||_F^2.

Prose and formulas stand in one line, so what is a formula is decided by reading: letters, numbers, names of Greek
letters and functions, joined by operators.  What does not read as one stays as it is, letter for letter.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

TOKEN = re.compile(
    r"\d+(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?(?:e-?\d+\b)?|[A-Za-z]\d+(?![A-Za-z\d])|[A-Za-z]+"
    r"|<->|->|=>|<=|>=|!=|\+-|\|\||\.\.\.|\S"
)
GREEK = {
    *("alpha beta gamma delta eta theta kappa lambda mu nu xi pi rho sigma tau phi chi psi omega".split()),
    *("Gamma Delta Theta Lambda Xi Pi Sigma Phi Psi Omega".split()),
}
GREEK_AS = {**{name: rf"\{name}" for name in GREEK}, "eps": r"\varepsilon", "epsilon": r"\varepsilon"}
FUNCTIONS = (
    "Cov Var arg cos cosh det diag diam dim erf exp ker ln log rank sign sin sinh softmax span std tan tanh tr vec"
).split()
LARGE = {"sum": r"\sum", "prod": r"\prod", "min": r"\min", "max": r"\max", "sup": r"\sup", "inf": r"\inf"}
LARGE |= {"lim": r"\lim", "argmin": r"\operatorname{argmin}"}
NAMED = ("own", "first", "infinity", "grad", "noise", "width")  # where a formula has begun
OPERATORS = {
    **{sign: sign for sign in ("+", "-", "/", "=")},
    **{"<": "<", ">": ">", "<=": r"\le", ">=": r"\ge", "!=": r"\ne", "->": r"\to", "<->": r"\leftrightarrow"},
    **{"=>": r"\Rightarrow", "+-": r"\pm", "*": r"\cdot", "~": r"\sim"},
}
OPEN = {"(": (")", "]"), "[": ("]", ")"), "{": ("}",), "|": ("|",), "||": ("||",), "<": (">",)}
SHOWN = {"{": r"\{", "}": r"\}", "|": r"\vert ", "||": r"\Vert ", "<": r"\langle ", ">": r"\rangle "}
SIZES = {*"adnlkmhpwrNLTMHDV"}  # letters that count, between which x is "by"
UNITS = {"x", "B", "M", "K", "G", "s", "T"}  # right behind a number: no factor
DEEPEST = 40
BREAK = "\x1f"  # where a long formula may go on in the next line
RELATIONS = {"=", "<", ">", "<=", ">=", "!=", "->", "<->", "=>", "~"}
LONG = 60  # characters of text, from which sums may be broken too


class _Prose(Exception):
    """What was to be read is no formula."""


@dataclass(frozen=True)
class Token:
    text: str
    start: int
    end: int

    @property
    def is_word(self) -> bool:
        return self.text[0].isalpha()

    @property
    def is_number(self) -> bool:
        return self.text[0].isdigit()


@dataclass(frozen=True)
class Span:
    """A part of a line.  latex: of a formula; "" for prose."""

    text: str
    latex: str = ""


def spans(text: str) -> list[Span]:
    """A text as prose and formulas in turn; their texts put together are the text."""
    found: list[Span] = []
    done = 0
    for start, end, latex in _formulas(text):
        if start > done:
            found.append(Span(text[done:start]))
        found.append(Span(text[start:end], latex))
        done = end
    return [*found, Span(text[done:])] if done < len(text) else found


def whole(text: str) -> str:
    """The LaTeX of a text that is one formula from end to end, else ""."""
    reader = _Reader(text, alone=True)
    try:
        latex = reader.expression((), 0)
    except _Prose:
        return ""
    return latex if reader.at == len(reader.tokens) else ""


def _formulas(text: str) -> Iterator[tuple[int, int, str]]:
    reader = _Reader(text)
    at = 0
    while at < len(reader.tokens):
        reader.at = at
        if reader.may_begin(at):
            try:
                latex = reader.expression((), 0)
            except _Prose:
                latex = ""
            if latex and reader.is_formula(at, reader.at):
                yield reader.tokens[at].start, reader.tokens[reader.at - 1].end, latex
                at = reader.at
                continue
        at += 1


class _Reader:
    """Reads tokens from `at` on.  alone: the text is a formula, so that `a` is no article."""

    def __init__(self, text: str, alone: bool = False) -> None:
        self.text, self.alone = text, alone
        self.tokens = [Token(m[0], m.start(), m.end()) for m in TOKEN.finditer(text)]
        self.at = 0

    def token(self, offset: int = 0) -> Token | None:
        place = self.at + offset
        return self.tokens[place] if 0 <= place < len(self.tokens) else None

    def is_next(self, *texts: str, offset: int = 0) -> bool:
        token = self.token(offset)
        return token is not None and token.text in texts

    def spaced(self, place: int) -> bool:
        """Whether there is room before a token."""
        return place >= len(self.tokens) or place <= 0 or self.tokens[place].start > self.tokens[place - 1].end

    def may_begin(self, at: int) -> bool:
        """Whether a formula may begin here: not within a path, a dotted name, a possessive."""
        before = self.tokens[at - 1].text if at and not self.spaced(at) else ""
        return not before or not (before[-1].isalnum() or before in ("_", ".", "/", "'", "-", "`", "#", "^"))

    def is_formula(self, at: int, end: int) -> bool:
        """Whether what was read is more than numbers, labels and articles."""
        read = self.tokens[at:end]
        after = self.tokens[end] if end < len(self.tokens) else None
        if after and not self.spaced(end):
            further = self.tokens[end + 1 : end + 2]
            if after.text in ("_", "^") or after.text in "./" and further and further[0].text[0].isalnum():
                return self.spaced(end + 1)
            if after.is_word or after.is_number:
                return False
        if not any(t.is_word for t in read):
            return any(t.text in ("^", "=", "<=", ">=") for t in read)
        inside = [t for t in read if t.text not in "()[]"]
        return len(inside) > 1 or len(read) == 1

    def expression(self, closers: tuple[str, ...], depth: int) -> str:
        """Operands, between operators or side by side; inside of brackets, up to the closing one, commas too."""
        if depth > DEEPEST:
            raise _Prose
        parts = [self.sign(), self.operand(depth, first=not closers)]
        while (token := self.token()) is not None and token.text not in closers:
            here = self.at
            try:
                parts.append(self.further(token, closers, depth))
            except _Prose:
                self.at = here
                break
        if closers and not self.is_next(*closers):
            raise _Prose
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
        if token.text == "x" and self._by():
            self.at += 1
            return rf"\times {self.operand(depth)}"
        if token.text == "a" and not closers and not self._letter_a():
            raise _Prose
        if token.text in "([" and spaced[0] and self.is_next(*")]", offset=2):
            raise _Prose
        if token.is_number and spaced[0] and not closers:
            raise _Prose
        return self.operand(depth)

    def _by(self) -> bool:
        """Whether an x stands between two sizes: d x n."""
        beyond = self.is_next("^", "_", offset=2) and not self.spaced(self.at + 2)
        return (self._sized(-1) or self.is_next(")", offset=-1)) and self._sized(1) and not beyond

    def _letter_a(self) -> bool:
        """Whether an `a` is a letter of a formula, and no article."""
        before, after = self.token(-1), self.token(1)
        if self.alone or after is None:
            return True
        if after.text in ("(", "["):
            return self._reads_on()
        if after.text in OPERATORS or after.text in ")]^_,.;:'" or (after.text == "x" and self._sized(2)):
            return True
        if before is not None and (before.text in GREEK_AS or before.text in ("rank", "ranks")):
            return True
        by = self.is_next("x", offset=2)
        return after.text in ("d", "n", "k", "m") and not by

    def _reads_on(self) -> bool:
        """Whether the bracket that follows holds a formula."""
        here = self.at
        self.at += 1
        try:
            self.bracketed(DEEPEST - 1)
        except _Prose:
            return False
        finally:
            self.at = here
        return True

    def _sized(self, offset: int) -> bool:
        token = self.token(offset)
        return token is not None and (token.text in SIZES or token.text == "width" or token.is_number)

    def operand(self, depth: int, first: bool = False) -> str:
        token = self.token()
        if token is None:
            raise _Prose
        if token.text == "...":
            self.at += 1
            return r"\ldots"
        if token.text == "(" and first and not self.alone and self.is_next(")", offset=2) and self.spaced(self.at + 3):
            raise _Prose  # the label of an item
        if token.text in OPEN:
            return self.marked(self.bracketed(depth), depth, call=False)
        if token.is_number:
            follows = self.token(1)
            if follows and not self.spaced(self.at + 1) and follows.is_word and follows.text in UNITS:
                raise _Prose
            self.at += 1
            return self.marked(token.text.replace(",", "{,}"), depth, call=False)
        if token.is_word:
            return self.word(token, depth, first)
        raise _Prose

    def bracketed(self, depth: int) -> str:
        token = self.tokens[self.at]
        if token.text == "<" and self.spaced(self.at + 1):
            raise _Prose
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
                raise _Prose
            self.at += 1
            return self.marked(LARGE[text], depth, call=True)
        if text in FUNCTIONS or text == "log2":
            self.at += 1
            name = self.marked(rf"\operatorname{{{text}}}", depth, call=True)
            return name if called else f"{name} {self.operand(depth)}"
        if text == "a" and first and not self._letter_a():
            raise _Prose
        begins = self.is_next(".", ":", "?", offset=-1) or self.at == 0
        if text == "A" and first and not self.alone and begins and not self._letter_a():
            raise _Prose
        if first and self.is_next("appendix", "Appendix", offset=-1):
            raise _Prose
        if len(text) == 1 or text in GREEK_AS:
            latex = GREEK_AS.get(text, text)
        elif text[1:].isdigit():
            latex = f"{text[0]}_{{{text[1:]}}}"
        elif text in NAMED and (not first or (joined and self.is_next("_", "^", offset=1)) or self.is_next("=", offset=1)):
            latex = {"infinity": r"\infty", "grad": r"\nabla"}.get(text, rf"\mathrm{{{text}}}")
        else:
            raise _Prose
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
            raise _Prose
        form = {"sqrt": r"\sqrt{%s}", "ceil": r"\lceil %s \rceil ", "floor": r"\lfloor %s \rfloor "}[name]
        return self.marked(form % inner, depth, call=False)

    def marked(self, base: str, depth: int, *, call: bool) -> str:
        """What stands at an operand: subscripts, powers, primes, stars, tildes, and arguments of functions."""
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
        if "_{" in base and lower:
            base = f"{{{base}}}"
        return base + (f"_{{{lower}}}" if lower else "") + (f"^{{{upper}}}" if upper else "") + arguments

    def _joined_to_more(self) -> bool:
        after = self.token(1)
        return after is not None and not self.spaced(self.at + 1) and (after.text[0].isalnum() or after.text in "([{|")

    def script(self, depth: int) -> str:
        """What follows _ or ^."""
        sign = self.sign()
        token = self.token()
        if token is None or (self.spaced(self.at) and not sign):
            raise _Prose
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
        if token.text in GREEK_AS:
            return f"{sign}{GREEK_AS[token.text]} "
        if token.text == "1" and self.is_next("/") and self.is_next("2", offset=1) and not self.spaced(self.at + 1):
            self.at += 2
            return f"{sign}1/2"
        if token.is_number or len(token.text) <= 2 and token.is_word:
            return sign + token.text
        if not token.is_word:
            raise _Prose
        name = token.text
        while not self.spaced(self.at) and (more := self.token()) is not None and (more.is_word or more.is_number):
            name += more.text
            self.at += 1
        return rf"{sign}\mathrm{{{name}}}"
