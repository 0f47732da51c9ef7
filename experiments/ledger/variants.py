"""The named variants that the checks of an entry build."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from typing import Any

from experiments.ledger.claim import Claim
from theory.plans.names import names_in
from theory.plans.variants import VARIANTS


def variants(claim: Claim) -> list[str]:
    """Return named variants that stand in an entry's checks, or in constants of their module which these name."""
    mentioned = {name for e in claim.evidence for name in _named(e.holds)}
    mentioned |= {name for e in claim.evidence for text in _strings(e.states) for name in names_in(text)}
    return [name for name in VARIANTS if name in mentioned]


@cache
def _named(function: Any) -> frozenset[str]:
    return frozenset(name for text in _texts(function) for name in names_in(text))


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, tuple | list):
        for item in value:
            yield from _strings(item)


def _texts(function: Any) -> Iterator[str]:
    """Yield string constants of a function's code, and of its module's constants that it names."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError):
        return
    module = vars(import_module(function.__module__))
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant):
            yield from _strings(node.value)
        elif isinstance(node, ast.Name) and node.id.isupper():
            yield from _strings(module.get(node.id))
