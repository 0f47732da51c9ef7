"""Tools to test what is yours as ours is tested: identities, and variants against formulas in plain tensor code.

    from hypothesis import given
    from icl.testing import check_identity, toy_cases  # and `plans`, for identities about variants

    @given(toy_cases())
    def test_my_identity(case):
        tokens = case.prompts.tokens()
        check_identity(my_left(tokens, case), my_right(tokens, case), terms=case.task.n)

A variant is held against a reference: its paper's formula for one head (`Layer`) or, of a variant that says how
sublayers are connected, for all of them (`Stack`).  A decoder that shares nothing with ours but the names of weights
computes the rest.  Outputs, gradients and the set of weights are compared at sizes that hypothesis draws.

    from icl.testing import Layer, check_variant, reference

    @reference
    def my_variant(x: Layer, h: int, share: float = 0.5):
        return x.A(h) @ ((1 - share) * x.v(x.n, h) + share * x.v(1, h))

    def test_my_variant():
        check_variant("my-variant")

What stands here is imported when it is first used.  It needs the extra `testing`, which is hypothesis.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from icl.testing.agreement import check_plan, check_reference, check_variant
    from icl.testing.identities import check_identity
    from icl.testing.references import REFERENCES, Layer, Reference, Stack, decode, depth_reference, reference, rms
    from icl.testing.sizes import Case, cases, generic, inputs_of
    from icl.testing.strategies import DEPTHS, ToyCase, head_tuples, mixes, plans, streams, tasks, toy_cases

__all__ = [
    "DEPTHS",
    "REFERENCES",
    "Case",
    "Layer",
    "Reference",
    "Stack",
    "ToyCase",
    "cases",
    "check_identity",
    "check_plan",
    "check_reference",
    "check_variant",
    "decode",
    "depth_reference",
    "generic",
    "head_tuples",
    "inputs_of",
    "mixes",
    "plans",
    "reference",
    "rms",
    "streams",
    "tasks",
    "toy_cases",
]

_MODULES = {
    "agreement": ("check_plan", "check_reference", "check_variant"),
    "identities": ("check_identity",),
    "references": ("REFERENCES", "Layer", "Reference", "Stack", "decode", "depth_reference", "reference", "rms"),
    "sizes": ("Case", "cases", "generic", "inputs_of"),
    "strategies": ("DEPTHS", "ToyCase", "head_tuples", "mixes", "plans", "streams", "tasks", "toy_cases"),
}
_HOMES = {name: f"{__name__}.{module}" for module, names in _MODULES.items() for name in names}

if not TYPE_CHECKING:  # a type checker reads the imports above, and a name that is not there is an error

    def __getattr__(name):
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    """Return the public names, without what happens to be loaded."""
    return sorted([*__all__, *(name for name in globals() if name.startswith("__"))])
