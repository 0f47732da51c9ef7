"""Hypotheses of the statements on depth attention, each with a statement that is false without it.

Each row has a check of the ledger behind it, which is passed by what is true and rejects what is not: the statement
where the hypothesis is dropped.  `python -m theory.attnres.hypotheses` writes them out.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """A hypothesis and the statement that needs it.

    dropped: a hypothesis; falls: the statement that needs it; instead: what is true without it; entry, check: of the
    ledger, the name of the check's function.
    """

    dropped: str
    falls: str
    instead: str
    entry: str
    check: str


ROWS = (
    Row(
        "a norm before every sublayer",
        "Full reads no more than its largest output, whatever the depth",
        "max(1, a)^M of the embedding, for linear sublayers of norm a",
        entry="attnres.norms",
        check="decoders_grow",
    ),
    Row(
        "a norm before every sublayer",
        "growth is at most geometric",
        "doubly exponential, where outputs are cubic, as linear attention's",
        entry="attnres.norms",
        check="linear_attention_cubes",
    ),
    Row(
        "queries that start at zero",
        "the gradients of all parameters are PreNorm's",
        "they are others at any other query",
        entry="attnres.gradients",
        check="as_prenorm",
    ),
    Row(
        "eps = 0",
        "at zero queries Full and Block are PreNorm's function",
        "PreNorm's with k^2 eps at a read of k sources",
        entry="attnres.zero-query",
        check="starts_as_prenorm",
    ),
    Row(
        "eps = 0",
        "networks attain the bounds on reads",
        "the bounds hold, and none is attained but the embedding's own",
        entry="attnres.growth",
        check="bounds_hold_with_eps",
    ),
    Row(
        "one head over depth",
        "a read is at most as large as its largest source",
        "sqrt(m) times as large, with m heads, and that is attained",
        entry="attnres.bounded",
        check="heads_read_more_than_a_source",
    ),
    Row(
        "blocks of a fixed size",
        "Block's reads are bounded whatever the depth",
        "linear in the number of sublayers, for a fixed number of blocks",
        entry="attnres.growth",
        check="decoders_attain",
    ),
)


def table() -> str:
    """Return one line per row: without, falls, instead, and where that is checked."""
    lines = []
    for row in ROWS:
        lines += [f"without {row.dropped}:", f"    falls: {row.falls}", f"    instead: {row.instead}"]
        lines.append(f"    ({row.entry}, {row.check})")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())
