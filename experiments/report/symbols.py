"""The words of mathematics in plain text, and their LaTeX; and texts as words."""

from __future__ import annotations

import re
from dataclasses import dataclass

TOKEN = re.compile(
    r"\d+(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?(?:e-?\d+\b)?|[A-Za-z]\d+(?![A-Za-z\d])|[A-Za-z]+"
    r"|<->|->|=>|<=|>=|!=|\+-|\|\||\.\.\.|\S"
)
GREEK = {
    *(
        [
            "alpha",
            "beta",
            "gamma",
            "delta",
            "eta",
            "theta",
            "kappa",
            "lambda",
            "mu",
            "nu",
            "xi",
            "pi",
            "rho",
            "sigma",
            "tau",
            "phi",
            "chi",
            "psi",
            "omega",
        ]
    ),
    *(["Gamma", "Delta", "Theta", "Lambda", "Xi", "Pi", "Sigma", "Phi", "Psi", "Omega"]),
}
LETTERS = {**{name: rf"\{name}" for name in GREEK}, "eps": r"\varepsilon", "epsilon": r"\varepsilon"}
FUNCTIONS = [
    "Cov",
    "Var",
    "arg",
    "cos",
    "cosh",
    "det",
    "diag",
    "diam",
    "dim",
    "erf",
    "exp",
    "ker",
    "ln",
    "log",
    "rank",
    "sign",
    "sin",
    "sinh",
    "softmax",
    "span",
    "std",
    "tan",
    "tanh",
    "tr",
    "vec",
]
LARGE = {"sum": r"\sum", "prod": r"\prod", "min": r"\min", "max": r"\max", "sup": r"\sup", "inf": r"\inf"}
LARGE |= {"lim": r"\lim", "argmin": r"\operatorname{argmin}"}
NAMED = ("own", "first", "infinity", "grad", "noise", "width")  # where a formula has begun
OPERATORS = {
    **{sign: sign for sign in ("+", "-", "/", "=")},
    "<": "<",
    ">": ">",
    "<=": r"\le",
    ">=": r"\ge",
    "!=": r"\ne",
    "->": r"\to",
    "<->": r"\leftrightarrow",
    "=>": r"\Rightarrow",
    "+-": r"\pm",
    "*": r"\cdot",
    "~": r"\sim",
}
OPEN = {"(": (")", "]"), "[": ("]", ")"), "{": ("}",), "|": ("|",), "||": ("||",), "<": (">",)}
SHOWN = {"{": r"\{", "}": r"\}", "|": r"\vert ", "||": r"\Vert ", "<": r"\langle ", ">": r"\rangle "}
SIZES = {*"adnlkmhpwrNLTMHDV"}  # letters that count, between which x is "by"
LABELS = {*"abcdefghi"}  # in brackets, of the items of a list
UNITS = {"x", "B", "M", "K", "G", "s", "T"}  # right behind a number: no factor
DEEPEST = 40
BREAK = "\x1f"  # where a long formula may go on in the next line
RELATIONS = {"=", "<", ">", "<=", ">=", "!=", "->", "<->", "=>", "~"}
LONG = 60  # characters of text, from which sums may be broken too


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


class Tokens:
    """The tokens of a text, and where reading is.  alone: the text is a formula, so that `a` is no article."""

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
        """Return whether there is room before a token."""
        return place >= len(self.tokens) or place <= 0 or self.tokens[place].start > self.tokens[place - 1].end

    def may_begin(self, at: int) -> bool:
        """Return whether a formula may begin here: not within a path, a dotted name, a possessive."""
        before = self.tokens[at - 1].text if at and not self.spaced(at) else ""
        if before == "(" and self.tokens[at].text in LABELS and [t.text for t in self.tokens[at + 1 : at + 2]] == [")"]:
            return False
        return not before or not (before[-1].isalnum() or before in ("_", ".", "/", "'", "-", "`", "#", "^"))

    def is_formula(self, at: int, end: int) -> bool:
        """Return whether what was read is more than numbers, labels and articles."""
        read = self.tokens[at:end]
        after = self.tokens[end] if end < len(self.tokens) else None
        if after and not self.spaced(end):
            further = self.tokens[end + 1 : end + 2]
            if after.text in ("_", "^") or (after.text in "./" and further and further[0].text[0].isalnum()):
                return self.spaced(end + 1)
            if after.is_word or after.is_number:
                return False
        if not any(t.is_word for t in read):
            return any(t.text in ("^", "=", "<=", ">=") for t in read)
        inside = [t for t in read if t.text not in "()[]"]
        return len(inside) > 1 or len(read) == 1

    def by(self) -> bool:
        """Return whether an x stands between two sizes: d x n."""
        beyond = self.is_next("^", "_", offset=2) and not self.spaced(self.at + 2)
        return (self.sized(-1) or self.is_next(")", offset=-1)) and self.sized(1) and not beyond

    def sized(self, offset: int) -> bool:
        token = self.token(offset)
        return token is not None and (token.text in SIZES or token.text == "width" or token.is_number)
