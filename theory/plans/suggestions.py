"""Suggestions for a name that does not exist.  Standard library only.

Names of every kind are looked up with this one rule, so that a misspelling leads to the same hint wherever it is typed.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping
from difflib import get_close_matches

MOST = 3  # suggestions
SHARE = 0.4  # of a longer name, which a name that begins it must fill
CLOSE = 0.6  # ratio of `difflib`, from which two names are alike


def suggestions(name: str, known: Iterable[str], *, close: float = CLOSE) -> list[str]:
    """Return up to three known names that may be meant, best first.

    Case, hyphens and underscores do not count.  A name that is the same without them stands alone; else names that
    begin this one (skipv1 of skipv1former), names that this one begins or whose initials it is (lr), and at last names
    spelt alike.
    """
    letters_of = {candidate: plain(candidate) for candidate in known}
    wanted = plain(name)
    if not wanted:
        return []
    if same := [candidate for candidate, letters in letters_of.items() if letters == wanted]:
        return same[:MOST]
    begin = [c for c, part in letters_of.items() if part and wanted.startswith(part) and _fills(part, wanted)]
    if begin:
        return sorted(begin, key=len, reverse=True)[:1]
    begun = [c for c, letters in letters_of.items() if len(wanted) > 1 and letters.startswith(wanted)]
    initials = [c for c in letters_of if len(wanted) > 1 and _initials(c) == wanted]
    if first := [*initials, *sorted(begun, key=len)]:
        return list(dict.fromkeys(first))[:MOST]
    by_letters: dict[str, str] = {}
    for candidate, letters in letters_of.items():
        by_letters.setdefault(letters, candidate)
    return [by_letters[letters] for letters in get_close_matches(wanted, by_letters, n=MOST, cutoff=close)]


def unknown(
    what: str,
    name: str,
    known: Iterable[str],
    *,
    others: Mapping[str, Container[str]] | None = None,
    lists: str = "",
    close: float = CLOSE,
) -> str:
    """Return the line for a name that does not exist, with known names that may be meant.

    Args:
        what: The kind of name, such as "variant".
        name: The unknown name.
        known: The names that exist.
        others: Names that stand for something else, by kind; the line then says so.
        lists: Where all names are listed; shown instead of the names where none is alike.
        close: The ratio of `difflib` from which names are alike.
    """
    known = list(known)
    where = lists or f"there are {', '.join(known)}"
    elsewhere = next((kind for kind, names in (others or {}).items() if name in names), "")
    line = f"unknown {what} {name!r}" + (f", which is a {elsewhere}" if elsewhere else "")
    return f"{line}; {hint(name, known, where, close=close)}"


def hint(name: str, known: Iterable[str], otherwise: str, *, close: float = CLOSE) -> str:
    """Return the question whether a known name is meant, or `otherwise` where none is alike."""
    near = suggestions(name, known, close=close)
    return f"did you mean {', '.join(near)}?" if near else otherwise


def plain(name: str) -> str:
    """Return a name's letters, digits and dots, in lower case: what spellings are compared by."""
    return re.sub(r"[^a-z0-9.]", "", name.lower())


def _fills(part: str, whole: str) -> bool:
    return len(part) > 1 and len(part) >= SHARE * len(whole)


def _initials(name: str) -> str:
    return "".join(word[0] for word in re.split(r"[-_ ]+", name.lower()) if word)
