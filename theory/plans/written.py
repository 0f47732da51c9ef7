"""Plans as JSON and back, so that a folder can say what its model is without a name, or code, that stands for it.

    {"layers": 2, "heads": 2, "table": [[HEAD, HEAD], [HEAD, HEAD]], "depth": {"kind": "Residual"}, ...}
    HEAD    {"query": MIX, "keys": [MIX, ..], "values": [MIX, ..], "beside": MIX}, or null for one that is not built
    MIX     [[weight, "v", layer, head], ..], with the tokens of a shift as one more number, and "first" or "later" as
            the last entry of what is read at such tokens alone; a learned weight is
            {"name": .., "start": ..}, with those fields of `theory.plans.mix.Learned` besides that have another value
            than the usual one; a gate is {"gate": [layer, head]}, with those of `theory.plans.mix.Gated` likewise

Standard library only.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from theory.errors import BadInput
from theory.plans.depth import Chain, Depth, DepthAttention, DepthAverage, Residual
from theory.plans.identity import canonical
from theory.plans.mix import KINDS, Gated, Learned, Mix, Source, Term, ill_typed_learned
from theory.plans.plan import ABSENT, HeadPlan, Plan, Shape, checked
from theory.plans.registry import owner
from theory.plans.streams import Streams

PLAIN = "everywhere"  # where most sources are read
FLAGS = ("dynamic", "feed_forward", "output_projection")
DEPTHS: dict[str, type[Depth]] = {
    kind.__name__: kind for kind in (Residual, Chain, DepthAverage, DepthAttention, Streams)
}


def to_json(plan: Plan) -> dict[str, Any]:
    """Return the content that `from_json` reads back."""
    return {
        "layers": plan.shape.layers,
        "heads": plan.shape.heads,
        "table": [[_head(head) for head in row] for row in plan.table],
        "depth": {"kind": _kind(type(plan.depth)), **plan.depth.to_json()},
        **{name: getattr(plan, name) for name in FLAGS},
    }


def from_json(content: Any) -> Plan:
    """Return the plan that JSON content describes.  Raises BadInput, in one line, for content that is no plan."""
    try:
        shape = Shape(content["layers"], content["heads"])
        table = tuple(tuple(_read_head(head) for head in row) for row in content["table"])
        depth = dict(content.get("depth", {"kind": Residual.__name__}))
        kind = _depth(depth.pop("kind"))
        flags = {name: content[name] for name in FLAGS if name in content}
        return checked(Plan(shape, table, kind.from_json(depth), **flags))
    except BadInput:
        raise
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError) as error:
        raise BadInput(f"it is no plan ({type(error).__name__}: {error})") from error


def _kind(rule: type[Depth]) -> str:
    name = rule.__qualname__
    return name if DEPTHS.get(name) is rule else f"{rule.__module__}:{name}"


def _depth(kind: str) -> type[Depth]:
    """Return the depth rule of this name: ours, or MODULE:CLASS of an installed paper, and of nothing else."""
    module, colon, name = kind.partition(":")
    if not colon:
        return DEPTHS[kind]
    if owner(module) is None:
        raise BadInput(f"its depth rule is {name} of {module}, and no installed paper has that module")
    rule = getattr(import_module(module), name, None)
    if not isinstance(rule, type) or not issubclass(rule, Depth):
        raise BadInput(f"its depth rule is {name} of {module}, which is no depth rule")
    return rule


def _head(head: HeadPlan) -> dict[str, Any] | None:
    if not head.live:
        return None
    return {
        "query": _mix(head.query),
        "keys": [_mix(mix) for mix in head.keys],
        "values": [_mix(mix) for mix in head.values],
        "beside": _mix(head.beside),
    }


def _mix(mix: Mix) -> list[list[Any]]:
    def weight(term: Term) -> Any:
        if isinstance(term.weight, Gated):
            fields = canonical(term.weight)
            return {"gate": [fields.pop("layer"), fields.pop("head")], **fields}
        return canonical(term.weight) if isinstance(term.weight, Learned) else term.weight

    def place(source: Source) -> list[Any]:
        shift = [source.shift] if source.shift else []
        return [source.kind, source.layer, source.head, *shift, *([source.where] if source.where != PLAIN else [])]

    return [[weight(t), *place(t.source)] for t in mix.terms]


def _read_head(head: Mapping[str, Any] | None) -> HeadPlan:
    if head is None:
        return ABSENT
    keys, values = (tuple(_read_mix(mix) for mix in head[name]) for name in ("keys", "values"))
    return HeadPlan(_read_mix(head["query"]), keys, values, beside=_read_mix(head["beside"]))


def _read_mix(terms: Any) -> Mix:
    found = []
    for weight, kind, *places in terms:
        if kind not in KINDS:
            raise ValueError(f"{kind!r} is no kind of source")
        limit = {"where": places.pop()} if places and isinstance(places[-1], str) else {}
        if len(places) not in (2, 3) or not all(isinstance(x, int) and not isinstance(x, bool) for x in places):
            raise TypeError(f"layer and head, and perhaps a shift, are whole numbers, not {places!r}")
        source = Source(kind, *places, **limit)
        if isinstance(weight, Mapping):
            found.append(Term(_read_gate(weight) if "gate" in weight else _read_learned(weight), source))
        elif isinstance(weight, int | float) and not isinstance(weight, bool):
            found.append(Term(weight, source))
        else:
            raise TypeError(f"a weight {weight!r}")
    return Mix(tuple(found))


def _read_learned(fields: Mapping[str, Any]) -> Learned:
    learned = Learned(**fields)
    for problem in ill_typed_learned(learned):
        raise TypeError(problem)
    return learned


def _read_gate(content: Mapping[str, Any]) -> Gated:
    fields = dict(content)
    layer, head = fields.pop("gate")
    return Gated(layer, head, **fields)
