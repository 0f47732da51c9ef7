"""Text for output that cannot hold all of Unicode: what it cannot hold is spelt in ASCII, and no command fails."""

# ruff: noqa: RUF001 (the signs are what this is about)

from __future__ import annotations

import codecs
import sys

HANDLER = "crosslayer.readable"
STAND_INS = {
    "±": "+-", "×": "x", "·": "*", "−": "-", "–": "-", "—": "-", "‑": "-", "…": "...", "→": "->", "←": "<-", "↔": "<->",
    "≤": "<=", "≥": ">=", "≠": "!=", "≈": "~", "≡": "==", "∞": "inf", "∈": "in", "∑": "sum", "∏": "prod", "√": "sqrt",
    "‖": "||", "∥": "||", "⟨": "<", "⟩": ">", "⌈": "ceil(", "⌉": ")", "⌊": "floor(", "⌋": ")", "′": "'", "∂": "d",
    "‘": "'", "’": "'", "“": '"', "”": '"', "•": "*", "⊗": "(x)", "⊙": "(.)", "∘": "o", "∇": "grad",
    "²": "^2", "³": "^3", "½": "1/2",
}  # fmt: skip


def spell(text: str) -> str:
    """Return text in ASCII: a sign by its stand-in, a letter by its code, so that names stay distinct."""
    return "".join(map(_spell, text))


def keep_text() -> None:
    """Let the standard streams spell what their encoding cannot hold, where they would fail or show codes."""
    codecs.register_error(HANDLER, _handle)
    for stream in (sys.stdout, sys.stderr):
        utf = (getattr(stream, "encoding", None) or "utf-8").lower().startswith("utf")
        lossless = utf and getattr(stream, "errors", None) in ("surrogateescape", "backslashreplace")
        if not lossless and hasattr(stream, "reconfigure"):
            stream.reconfigure(errors=HANDLER)


def _handle(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return spell(error.object[error.start : error.end]), error.end


def _spell(sign: str) -> str:
    return STAND_INS.get(sign) or sign.encode("ascii", "backslashreplace").decode()
