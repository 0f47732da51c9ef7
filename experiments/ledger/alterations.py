"""Deliberate alterations of functions: results scaled, moved, frozen, or those of another function of the family.

An error that small cases do not show is one of them: results are scaled from some size on.

A function is altered in place, by its code, so under every name and in every container that it is bound to.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from fractions import Fraction
from functools import partial
from numbers import Rational
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np
import sympy

from experiments.ledger.rewriting import rewritings

Instead = Callable[..., Any]  # of the function as it was, and then of its arguments
SCALE = Fraction(21, 20)


def functions(modules: Iterable[ModuleType], *, private: bool = False) -> dict[str, FunctionType]:
    """Return the functions and methods that stand in these modules, by full name; public ones, or all."""
    found: dict[str, FunctionType] = {}
    for module in modules:
        for thing in _members(module, private):
            if getattr(thing, "__module__", None) == module.__name__:
                members = _members(thing, private) if isinstance(thing, type) else [thing]
                found |= {full_name(function): function for x in members if (function := underlying(x))}
    return found


def _members(owner: ModuleType | type, private: bool) -> list[Any]:
    hidden = "__" if private else "_"
    return [thing for name, thing in vars(owner).items() if not name.startswith(hidden)]


def underlying(thing: Any) -> FunctionType | None:
    """Return a function or method without its decorators; None for anything else."""
    inner = inspect.unwrap(thing) if callable(thing) and not isinstance(thing, type) else None
    inner = getattr(inner, "__func__", inner)
    return inner if isinstance(inner, FunctionType) else None


def full_name(function: FunctionType) -> str:
    return f"{function.__module__}.{function.__qualname__}"


@contextmanager
def replaced(replacements: Mapping[FunctionType, Instead]) -> Iterator[None]:
    """Call, inside, what stands in the place of these functions.  Their signatures can still be read."""
    before = {function: (function.__code__, inspect.signature(function)) for function in replacements}
    try:
        for function, instead in replacements.items():
            function.__signature__ = before[function][1]  # type: ignore[attr-defined]
            function.__globals__[name := f"instead of {function.__qualname__}"] = _bound(instead, _copy(function))
            function.__code__ = _calling(name, function.__code__)
        yield
    finally:
        for function, (code, _) in before.items():
            function.__code__ = code
            del function.__signature__  # type: ignore[attr-defined]


def _bound(instead: Instead, original: FunctionType) -> Callable[..., Any]:
    return lambda *args, **kwargs: instead(original, *args, **kwargs)


def _copy(function: FunctionType) -> FunctionType:
    copy = FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    copy.__kwdefaults__ = function.__kwdefaults__
    return copy


def _calling(name: str, code: CodeType) -> CodeType:
    """Return the code of a function that passes its arguments on to a global one, in place of `code`."""

    def passes_on(*args: Any, **kwargs: Any) -> Any:
        return its_name(*args, **kwargs)  # type: ignore[name-defined]  # noqa: F821

    return passes_on.__code__.replace(co_names=(name,), co_freevars=code.co_freevars, co_name=code.co_name)


class Altered:
    """An alteration that stands in place of a function: it changes each number in the function's results.

    changed    some result was another one for it
    remembers  what it returns depends on calls before
    """

    remembers = False

    def __init__(self, change: Callable[[Any], Any]) -> None:
        self._change = change
        self.changed = False

    def __call__(self, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        before = original(*args, **kwargs)
        after = self._result(before, args, kwargs)
        self.changed = self.changed or not same(before, after)
        return after

    def run(self, original: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Return what is returned in place of the function, and compare nothing."""
        return self._result(original(*args, **kwargs), args, kwargs)

    def _result(self, before: Any, args: Any, kwargs: Any) -> Any:  # noqa: ARG002
        return mapped(before, lambda x: _turned(x) if _is_truth(x) else self._change(x))


class Frozen(Altered):
    """An alteration that always returns the function's first result, whatever the arguments."""

    remembers = True

    def __init__(self) -> None:
        super().__init__(lambda x: x)
        self._first: list[Any] = []

    def _result(self, before: Any, args: Any, kwargs: Any) -> Any:  # noqa: ARG002
        self._first = self._first or [before]
        return self._first[0]


class FromSize(Altered):
    """An alteration that scales results only where a size is at least so large."""

    def __init__(self, function: FunctionType, size: str, least: int) -> None:
        super().__init__(_scaled)
        self._names, self._size, self._least = parameters(function), size, least

    def _result(self, before: Any, args: Any, kwargs: Any) -> Any:
        large = sizes(self._names, args, kwargs).get(self._size, self._least - 1) >= self._least
        return super()._result(before, args, kwargs) if large else before


class Relative(Altered):
    """An alteration that returns, or raises, what another function does."""

    def __init__(self, other: FunctionType) -> None:
        super().__init__(lambda x: x)
        self._other = _copy(other)

    def __call__(self, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        # Once it has changed nothing needs be compared: of a recursive function that would double the work each time.
        return self._other(*args, **kwargs) if self.changed else super().__call__(original, *args, **kwargs)

    def run(self, original: Callable[..., Any], args: Any, kwargs: Any) -> Any:  # noqa: ARG002
        return self._other(*args, **kwargs)

    def _result(self, before: Any, args: Any, kwargs: Any) -> Any:  # noqa: ARG002
        return self._other(*args, **kwargs)


def parameters(function: FunctionType) -> tuple[str, ...]:
    """Return the names of a function's positional parameters, in order."""
    return function.__code__.co_varnames[: function.__code__.co_argcount]


def sizes(names: Sequence[str], args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, int]:
    """Return the whole numbers among arguments, and among public attributes of arguments, by name.

    Args:
        names: of the positional parameters.
        args: positional arguments of one call.
        kwargs: its other arguments.
    """
    found: dict[str, int] = {}
    for name, value in (*zip(names, args, strict=False), *kwargs.items()):
        if _is_whole(value):
            found[name] = value
        elif hasattr(value, "__dict__") and not callable(value):
            found |= {f"{name}.{part}": x for part, x in vars(value).items() if part[0] != "_" and _is_whole(x)}
    return found


def _is_whole(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def alterations(
    function: FunctionType,
    all_functions: Mapping[str, FunctionType],
    met: Mapping[str, Collection[int]] | None = None,
) -> dict[str, Callable[[], Altered]]:
    """Return all alterations of a function, by name.

    Args:
        function: of `theory`.
        all_functions: among which its family is, what stands beside it with its very signature.
        met: the sizes, by name, with which it is called; it is wrong from the median of several on.
    """
    larger = {size: sorted(values)[len(values) // 2] for size, values in (met or {}).items() if len(values) > 1}
    return {
        "x 1.05": lambda: Altered(_scaled),
        "+ 1": lambda: Altered(_moved),
        "constant": Frozen,
        **{f"x 1.05 for large {size}": partial(FromSize, function, size, least) for size, least in larger.items()},
        **{other.__name__: _relative(other) for other in _family(function, all_functions)},
    }


def rewritten(function: FunctionType) -> dict[str, Callable[[], Altered]]:
    """Return the function with one place of its source altered, by name of the alteration."""
    return {one.name: _relative(one.applied(function)) for one in rewritings(function)}


def _relative(other: FunctionType) -> Callable[[], Altered]:
    return lambda: Relative(other)


def _family(function: FunctionType, all_functions: Mapping[str, FunctionType]) -> list[FunctionType]:
    beside = full_name(function).rpartition(".")[0]
    signature = inspect.signature(function)
    if not signature.parameters or signature.return_annotation in (signature.empty, None, "None"):
        return []
    return [
        other
        for name, other in all_functions.items()
        if other is not function and name.rpartition(".")[0] == beside and inspect.signature(other) == signature
    ]


def _scaled(x: Any) -> Any:
    if isinstance(x, np.ndarray):
        return x * (SCALE if x.dtype == object else float(SCALE))
    if isinstance(x, sympy.Basic | sympy.MatrixBase):
        return x * sympy.Rational(SCALE.numerator, SCALE.denominator)
    return x * (SCALE if isinstance(x, Rational) else float(SCALE))


def _moved(x: Any) -> Any:
    return x.applyfunc(lambda entry: entry + 1) if isinstance(x, sympy.MatrixBase) else x + 1


def _is_truth(x: Any) -> bool:
    return isinstance(x, bool | np.bool_) or (isinstance(x, np.ndarray) and x.dtype.kind == "b")


def _turned(x: Any) -> Any:
    return ~x if isinstance(x, np.ndarray) else not x


def mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """Return the value with every number, truth value and array of them in it changed; the rest as it is."""
    if isinstance(value, np.ndarray):
        return change(value) if value.dtype.kind in "biufcO" else value
    if isinstance(value, int | float | complex | Fraction | np.number | np.bool_ | sympy.Expr | sympy.MatrixBase):
        return change(value)
    if isinstance(value, dict):
        return type(value)((key, mapped(part, change)) for key, part in value.items())
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(mapped(part, change) for part in value))
    if isinstance(value, tuple | list | set | frozenset):
        return type(value)(mapped(part, change) for part in value)
    if is_dataclass(value) and not isinstance(value, type):
        return _dataclass(value, change)
    return value


def _dataclass(value: Any, change: Callable[[Any], Any]) -> Any:
    """Return a changed copy of a dataclass's instance, past the checks of its class."""
    copy = object.__new__(type(value))
    for field in fields(value):
        if hasattr(value, field.name):
            object.__setattr__(copy, field.name, mapped(getattr(value, field.name), change))
    return copy


def same(one: Any, other: Any) -> bool:
    """Return whether the same numbers and truth values are in both, in the same order.  Two functions differ."""
    if callable(one) and callable(other):  # polynomials are
        return bool(one == other)
    parts: tuple[list[Any], list[Any]] = [], []
    for value, into in zip((one, other), parts, strict=True):
        _collect(value, into)
    return len(parts[0]) == len(parts[1]) and all(map(_equal, *parts))


def _collect(value: Any, into: list[Any]) -> None:
    def keep(x: Any) -> Any:
        into.append(x)
        return x

    mapped(value, keep)


def _equal(x: Any, y: Any) -> bool:
    if isinstance(x, np.ndarray) or isinstance(y, np.ndarray):
        return np.shape(x) == np.shape(y) and bool(np.all(x == y))
    return bool(x == y)
