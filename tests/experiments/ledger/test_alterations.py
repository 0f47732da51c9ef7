"""What is altered of functions and of their source, how, and what of it shows in a check."""

import importlib
import inspect
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from types import ModuleType, SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest
import sympy

from experiments.ledger import alterations, probing
from experiments.ledger.claim import Evidence
from experiments.ledger.rewriting import rewritings


@dataclass(frozen=True)
class Part:
    size: float
    name: str

    def __post_init__(self):
        assert self.size < 2


class Pair(NamedTuple):
    left: int
    right: bool


def altered(how):
    return alterations.alterations(alterations.same, {})[how]()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (2, 3),
        (Fraction(1, 2), Fraction(3, 2)),
        (True, False),
        ("word", "word"),
        (None, None),
        ([1, (2.0, "x")], [2, (3.0, "x")]),
        ({"key": 1}, {"key": 2}),
        (Pair(1, True), Pair(2, False)),
        (sympy.Symbol("x"), sympy.Symbol("x") + 1),
        (sympy.eye(2), sympy.Matrix([[2, 1], [1, 2]])),
        (np.arange(2), np.arange(1, 3)),
        (np.array([True, False]), np.array([False, True])),
    ],
)
def test_moved_by_one(before, after):
    instead = altered("+ 1")
    found = instead(lambda: before)
    assert type(found) is type(after)
    assert alterations.same(found, after)
    assert instead.changed is not (before is None or isinstance(before, str))


def test_a_dataclass_is_altered_past_its_checks():
    part = altered("+ 1")(lambda: Part(1.5, "a"))
    assert (part.size, part.name) == (2.5, "a")


def test_exact_numbers_stay_exact():
    scaled = altered("x 1.05")
    assert scaled(lambda: 20) == 21
    assert scaled(lambda: sympy.Integer(20)) == 21
    assert scaled(lambda: np.array([Fraction(1, 3)], dtype=object))[0] == Fraction(7, 20)


def test_a_function_is_altered_wherever_it_is_bound():
    """In a container, behind a cache, with a closure, with defaults; and it is as it was afterwards."""

    def kept(one, *, more=1):
        return one + more + offset

    offset = 0
    cached, inside = cache(kept), {"held": kept}
    with alterations.replaced({kept: lambda original, *args, **kwargs: -original(*args, **kwargs)}):
        assert (kept(1), inside["held"](1), cached(1, more=2)) == (-2, -2, -3)
        assert list(inspect.signature(kept).parameters) == ["one", "more"]
    cached.cache_clear()
    assert (kept(1), cached(1, more=2)) == (2, 3)


def test_public_functions_are_found_without_their_decorators():
    module = ModuleType("some")
    own = SimpleNamespace()
    for name in ("plain", "_hidden", "remembered"):
        exec(f"def {name}(): pass", vars(module))
    own.remembered = module.remembered
    module.remembered = cache(module.remembered)
    module.foreign = np.linalg.norm
    module.Kind = type("Kind", (), {"public": lambda self: 1, "_hidden": lambda self: 2})
    for thing in (module.plain, module._hidden, own.remembered, module.remembered, module.Kind, module.Kind.public):
        thing.__module__ = "some"
    module.Kind.public.__qualname__ = "Kind.public"
    found = alterations.functions([module])
    assert found.keys() == {"some.plain", "some.remembered", "some.Kind.public"}
    assert found["some.remembered"] is own.remembered


def test_polynomials_are_compared_by_what_they_are():
    assert alterations.same(np.polynomial.Polynomial([0.0, 1.0]), np.polynomial.Polynomial([0.0, 1.0]))
    assert not alterations.same(np.polynomial.Polynomial([0.0, 1.0]), np.polynomial.Polynomial([0.0, 2.0]))


REWRITTEN = '''
def ends(values):
    """Of numbers: 2 is no place in a docstring."""
    if len(values) < 1:
        raise ValueError("fewer than 1")
    return max(values) - 0.5 * sum(values)
'''


def test_every_place_of_a_source_is_altered(tmp_path, monkeypatch):
    """Constants, operators, comparisons and reductions; not what an error says, nor the docstring."""
    (tmp_path / "rewritten.py").write_text(REWRITTEN)
    monkeypatch.syspath_prepend(tmp_path)
    ends = importlib.import_module("rewritten").ends
    alterations = {one.name.partition(": ")[2]: one for one in rewritings(ends)}
    guards = {name for name in alterations if name.startswith("len(values) < 1 ->")}
    assert guards == {"len(values) < 1 -> len(values) >= 1", "len(values) < 1 -> len(values) < 2"}
    found = {name: one.applied(ends)((4, 2)) for name, one in alterations.items() if name not in guards}
    assert found == {
        "max(values) - 0.5 * sum(values) -> max(values) + 0.5 * sum(values)": 7,
        "max(values) - 0.5 * sum(values) -> max(values) - 6 * (0.5 * sum(values)) / 5": pytest.approx(0.4),
        "max(values) -> min(values)": -1,
        "0.5 * sum(values) -> 0.5 / sum(values)": pytest.approx(4 - 0.5 / 6),
        "0.5 * sum(values) -> 0.6 * sum(values)": pytest.approx(0.4),
        "sum(values) -> max(values)": 2,
    }
    assert ends((4, 2)) == 1
    numbers = [one.name.partition(": ")[0] for one in rewritings(ends)]
    assert numbers == [f"place {k + 1}" for k in range(len(found) + len(guards))]


PROBED = """
def part(of):
    return of if of < 2 else part(of - 1) + 1


def drawn(rng, of):
    while of < 0:
        of = of + 0
    return rng.normal() + of
"""


def test_what_does_not_show_in_a_check_is_known_from_one_run(tmp_path, monkeypatch):
    """Of a recursive function too; an endless alteration shows, and so does what uses up an argument."""
    (tmp_path / "probed.py").write_text(PROBED)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(probing, "LONG", 0.05)
    probed = importlib.import_module("probed")

    def shown(function, holds):
        check = Evidence("w", holds, 0, 1, "wrong")
        made = {how.partition(": ")[2]: make() for how, make in alterations.rewritten(function).items()}
        return made.keys(), probing.shown(function, made, check)

    every, found = shown(probed.part, lambda more: probed.part(3) == 3 + more)
    assert every - found == {"of < 2 -> of < 3"}
    _, found = shown(probed.part, lambda more: probed.part(1 + more) == 1)
    assert "of < 2 -> of >= 2" in found
    every, found = shown(probed.drawn, lambda more: probed.drawn(np.random.default_rng(0), 1) < 2 - 9 * more)
    assert found == every
    _, found = shown(probed.drawn, lambda more: probed.drawn(SimpleNamespace(normal=lambda: 0), 1) == 1 + more)
    assert found == {
        "of < 0 -> of >= 0",
        "rng.normal() + of -> rng.normal() - of",
        "rng.normal() + of -> rng.normal() + 6 * of / 5",
    }
