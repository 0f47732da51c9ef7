"""Steps of streams as JSON content, and back.  Standard library only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from theory.plans.mix import Learned
from theory.plans.steps import Gate, Gates, Group, Step, Sum, Weight, Wide


def step_content(step: Step) -> dict[str, Any]:
    """Return a step as JSON content, for `read_step`."""
    content: dict[str, Any] = {"reads": [_sum_content(of_streams) for of_streams in step.reads]}
    if step.writes:
        content["writes"] = [[stream, _sum_content(of_streams)] for stream, of_streams in step.writes]
    if step.gates:
        groups = [{**vars(g), "gain": _number(g.gain), "scale": _number(g.scale)} for g in step.gates.groups]
        content["gates"] = {**vars(step.gates), "groups": groups}
    return content


def _sum_content(of_streams: Sum) -> list[list[Any]]:
    return [[_number(weight), stream] for weight, stream in of_streams]


def _number(weight: Weight) -> Any:
    match weight:
        case Learned(name, start):
            return {"learned": name, "start": start, **({"shared": True} if weight.shared else {})}
        case Wide(name, start):
            return {"wide": name, "start": start}
        case Gate(place):
            return {"gate": place}
    return weight


def read_step(content: Mapping[str, Any]) -> Step:
    """Return the step that JSON content describes.

    Raises TypeError, KeyError or ValueError for content that describes none, or has a field that is not known.
    """
    known(content, "reads writes gates", "a step")
    writes = tuple((stream, _read_sum(of_streams)) for stream, of_streams in content.get("writes", ()))
    gates = _read_gates(content["gates"]) if content.get("gates") else None
    return Step(tuple(map(_read_sum, content["reads"])), writes, gates)


def _read_gates(content: Mapping[str, Any]) -> Gates:
    groups = [
        Group(
            **{
                **group,
                **{name: _read_number(group[name]) for name in ("gain", "scale")},
                **_tuples(group, "bias base"),
            }
        )
        for group in content["groups"]
    ]
    return Gates(**{**content, "groups": tuple(groups), **_tuples(content, "streams")})


def _tuples(content: Mapping[str, Any], names: str) -> dict[str, tuple[Any, ...]]:
    return {name: tuple(content[name]) for name in names.split()}


def known(content: Mapping[str, Any], names: str, what: str) -> None:
    """Raise TypeError if content has fields that are none of `names`, which blanks separate."""
    if others := content.keys() - set(names.split()):
        raise TypeError(f"{what} has no {', '.join(sorted(others))}")


def _read_sum(terms: Sequence[Any]) -> Sum:
    return tuple((_read_number(weight), stream) for weight, stream in terms)


def _read_number(content: Any) -> Any:
    if not isinstance(content, Mapping):
        if not isinstance(content, int | float) or isinstance(content, bool):
            raise TypeError(f"a weight {content!r}")
        return content
    if "gate" in content:
        known(content, "gate", "a gate")
        return Gate(content["gate"])
    if "wide" in content:
        known(content, "wide start", "a weight for every coordinate")
        return Wide(content["wide"], content["start"])
    known(content, "learned start shared", "a learned weight")
    return Learned(content["learned"], content["start"], content.get("shared", False))
