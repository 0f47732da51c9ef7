"""The values that the heads of named variants read, as short text that the page draws."""

from __future__ import annotations

from collections.abc import Iterable

from theory.errors import BadInput
from theory.plans.mix import Mix, Term
from theory.plans.names import resolve
from theory.plans.plan import HeadPlan, Plan, Shape
from theory.plans.words import depth_words, rules

SHAPES = tuple(Shape(layers, heads) for layers in (2, 4, 6, 8) for heads in (2, 4, 8))
LONGEST = 4000  # characters of one plan; larger ones have too many terms to be seen
LAYERS, HEADS, TERMS, SEGMENTS, WEIGHT = "\n", "/", "&", "|", ":"


def pictures(names: Iterable[str]) -> dict[str, dict[str, list[str]]]:
    """Return by variant and shape, as "layers x heads", the plan's text and its rules in words, then its depth rule.

    Plans that a shape does not allow, or whose text is longer than `LONGEST`, are left out.
    """
    texts: dict[str, dict[str, list[str]]] = {}
    for name in names:
        for shape in SHAPES:
            try:
                plan = resolve(name, shape)
            except BadInput:
                continue
            text = written(plan)
            if len(text) <= LONGEST:
                lines = [text, *rules(plan, "values"), f"depth: {depth_words(plan.depth)}"]
                texts.setdefault(name, {})[f"{shape.layers}x{shape.heads}"] = lines
    return texts


def written(plan: Plan) -> str:
    """Return who reads which values: a line per layer, a part per head, empty where it reads its own value alone.

    A head's lists are separated by |, their terms by &.  A term is weight:layer.head, without a weight where that is 1,
    with t before the layer for a row of a table and -s behind the head for a shift of s tokens.  A head that is not
    built is x.
    """
    rows = [
        HEADS.join(_head(plan.head(n, h), n, h) for h in range(1, plan.shape.heads + 1))
        for n in range(1, plan.shape.layers + 1)
    ]
    return LAYERS.join(rows)


def _head(head: HeadPlan, layer: int, number: int) -> str:
    if not head.live:
        return "x"
    text = SEGMENTS.join(_mix(mix) for mix in head.values)
    return "" if text == f"{layer}.{number}" else text


def _mix(mix: Mix) -> str:
    return TERMS.join(map(_term, mix.terms))


def _term(term: Term) -> str:
    source = term.source
    place = f"{'t' * (source.kind == 'e')}{source.layer}.{source.head}{f'-{source.shift}' if source.shift else ''}"
    weight = f"{term.weight:.4g}" if isinstance(term.weight, int | float) else str(term.weight)
    assert not set(weight) & set(LAYERS + HEADS + TERMS + SEGMENTS + WEIGHT), weight
    return place if weight == "1" else f"{weight}{WEIGHT}{place}"
