"""Problems of a plan's terms: sources that are not there, and weights that make no sense.  Standard library only."""

from __future__ import annotations

import math
from collections.abc import Iterator

from theory.plans.mix import WHERE, Gated, Kind, Learned, Source, Term, ill_typed_learned, is_number


def term_problems(term: Term, kind: Kind, layer: int, *, heads: int, where: str) -> Iterator[str]:
    """Yield why a term makes no sense, one reason per line.

    Args:
        term: A source with its weight.
        kind: The kind of the sources among which it stands: q, k or v.
        layer: The layer whose head reads it.
        heads: Heads per layer.
        where: The layer and the head in words, with which every line begins.
    """
    source, weight = term.source, term.weight
    words = {"q": "queries", "k": "keys", "v": "values"}
    if source.kind != kind and not (source.kind == "e" and kind == "v"):
        yield f"{where}: {source} cannot stand among {words[kind]}"
    if not type(source.layer) is type(source.head) is int:
        yield f"{where}: {source} must name a layer and a head by whole numbers"
    if not 1 <= source.layer <= layer:
        what = "a later layer" if source.layer > layer else "a layer before the first"
        yield f"{where}: {source} is of {what}"
    if not 1 <= source.head <= heads:
        yield f"{where}: {source} is of a head that is not there; there are {heads}"
    if type(source.shift) is not int or source.shift < 0:
        yield f"{where}: {source.unshifted} must be shifted by a whole number of tokens from 0, got {source.shift!r}"
    elif source.shift and source.kind in ("q", "k"):
        yield f"{where}: {source} has the position of another token; only values and tables are shifted"
    if source.where not in WHERE:
        yield f"{where}: {source.unshifted} is read {', at '.join(WHERE)} tokens, got {source.where!r}"
    elif source.where != "everywhere" and source.kind != "v":
        yield f"{where}: {source} is no value; only values are told apart by where they stand"
    elif source.where != "everywhere" and source.shift:
        yield f"{where}: {source} is shifted, and what is read at some tokens alone is of the token itself"
    if isinstance(weight, Learned):
        ill_typed = [f"{where}: {problem}" for problem in ill_typed_learned(weight)]
        yield from ill_typed or _learned_problems(weight, where)
        if ill_typed:
            return
    if isinstance(weight, Gated):
        yield from _gate_problems(weight, source, kind, layer=layer, heads=heads, where=where)
        return
    if not is_number(weight) and not isinstance(weight, Learned):
        yield f"{where}: the weight of {source} must be a number, Learned or a gate, got {weight!r}"
    elif not math.isfinite(term.start):
        yield f"{where}: the weight of {source} is not finite"


def _learned_problems(weight: Learned, where: str) -> Iterator[str]:
    if not weight.name.isidentifier():
        yield f"{where}: a learned weight's name must be an identifier, got {weight.name!r}"
    if weight.place is not None and weight.wide:
        yield f"{where}: the learned weight {weight.name} is as wide as a head, and so has no place in another"
    elif weight.place is not None and weight.place < 0:
        got = f"must be a whole number from 0, got {weight.place!r}"
        yield f"{where}: the place of the learned weight {weight.name} {got}"
    if not math.isfinite(weight.slope) or not weight.slope:
        yield f"{where}: the learned weight {weight.name} must count with a finite slope other than 0"


def _gate_problems(weight: Gated, source: Source, kind: Kind, *, layer: int, heads: int, where: str) -> Iterator[str]:
    if not type(weight.layer) is type(weight.head) is type(weight.channels) is int or weight.channels < 0:
        yield f"{where}: a gate names a layer, a head and a number of channels from 0 by whole numbers, got {weight!r}"
    elif not 1 <= weight.layer <= layer or not 1 <= weight.head <= heads:
        yield f"{where}: {weight} is of a later layer, or of a layer or head that is not there"
    if kind == "q":
        yield f"{where}: gates are made for keys and values; they cannot weigh queries"
    if source.shift:
        yield f"{where}: {source} cannot be weighed by a gate, which is of the token itself"
    numbers = weight.slope, weight.offset
    if not all(map(is_number, numbers)) or not all(map(math.isfinite, numbers)) or not weight.slope:
        yield f"{where}: a gate must count with a finite slope other than 0"
