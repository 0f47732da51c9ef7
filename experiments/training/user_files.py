"""Plans from a user's own file: `my_plans.py:mine`, a function from a shape to a plan, wherever a variant is named.

A plan itself stands in `plan.json`, as `crosslayer advise` writes it (`theory.plans.written`).

A function takes options and joins other variants as named variants do: my_plans.py:mine:layer=2+gqa:group=4.  The file
is run here and nowhere below: `theory` and `icl` take names of their own variants, and plans.
"""

from __future__ import annotations

import json
import runpy
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from functools import wraps
from pathlib import Path
from typing import Any

from theory.plans import names
from theory.plans.architecture import Architecture
from theory.plans.names import BadName
from theory.plans.plan import Plan, Shape
from theory.plans.written import from_json


def names_a_file(variant: str) -> bool:
    """Return whether a part of a variant is a file, or a function in one."""
    return any(names.is_file(names.parsed(part)[0]) for part in variant.split("+"))


def model(preset: str | Architecture, variant: str | None = None) -> tuple[Architecture, Plan]:
    """Return architecture and plan of a preset under a variant, as `theory.plans.names.model`, files included."""
    config, rest = names.sized(preset, variant)
    return config, fitting(rest, config)


def fitting(variant: str, config: Architecture) -> Plan:
    """Return the plan that a variant stands for on an architecture.  Raises BadName if the two do not fit."""
    return names.checked(resolve(variant, config.shape), config)


def resolve(variant: str, shape: Shape) -> Plan:
    """Return the plan that a variant stands for on a shape.  Raises BadName, whatever goes wrong in a file."""
    return names.joined([_plan(part, shape) for part in variant.split("+")])


def _plan(part: str, shape: Shape) -> Plan:
    name, options = names.parsed(part)
    if not names.is_file(name):
        return names.resolve(part, shape)
    if name.endswith(".json"):
        if options:
            raise BadName(f"{name}: a plan in a file has no options")
        return _written(Path(name), shape)
    return names.called(name, _function(name), options, first=shape)


def _written(path: Path, shape: Shape) -> Plan:
    """Return the plan in a JSON file.  Raises BadName for one that is not there, is none, or is for another shape."""
    try:
        plan = from_json(json.loads(path.read_bytes()))
    except OSError as error:
        raise BadName(f"{path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise BadName(f"{path} holds no plan ({error})") from None
    if plan.shape != shape:
        raise BadName(
            f"{path} is for {plan.shape.layers} layers of {plan.shape.heads} value heads, and the model has "
            f"{shape.layers} of {shape.heads}"
        )
    return plan


def _function(name: str) -> Callable[..., Plan]:
    """Return FILE.py:function, which raises BadName if it fails or returns no plan."""
    if name.endswith(".py"):
        raise BadName(f"{name}: name a function in it, as in {name}:mine")
    path, _, function = name.rpartition(":")
    if not Path(path).is_file():
        raise BadName(f"{path}: no such file")
    make = _guarded(path, lambda: runpy.run_path(path)).get(function)
    if not callable(make):
        raise BadName(f"{path} has no function {function!r}")

    @wraps(make)  # its options are read off its signature
    def guarded(shape: Shape, **options: Any) -> Plan:
        plan = _guarded(name, lambda: make(shape, **options))
        if not isinstance(plan, Plan):
            raise BadName(f"{name} must return a plan, as `theory.plans.plan.plan` makes it, not {type(plan).__name__}")
        return plan

    return guarded


def _guarded(name: str, run: Callable[[], Any]) -> Any:
    """Run a user's code: what it prints goes to standard error, and what it raises becomes one line."""
    try:
        with redirect_stdout(sys.stderr):
            return run()
    except ValueError as error:
        raise BadName(f"{name}: {error}") from None
    except (Exception, SystemExit) as error:
        raise BadName(f"{name}: {type(error).__name__} {error}".rstrip()) from None
