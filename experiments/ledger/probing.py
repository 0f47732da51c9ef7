"""A test of which alterations of a function show at all in a check: those whose results differ at some call.

Up to the first call at which an altered function returns something else the check does the same, so one run of it as it
is shows all of them.  Those that never differ need not be run.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Mapping
from types import FunctionType
from typing import Any

import numpy as np

from experiments.ledger.alterations import Altered, replaced, same
from experiments.ledger.claim import Evidence

LONG = 1.0  # second of processor time, after which an altered call counts as different


class _LateError(BaseException):
    """The exception raised into a call that takes too long; nothing that is called catches it."""


def shown(function: FunctionType, alterations: Mapping[str, Altered], check: Evidence) -> set[str]:
    """Return which alterations differ from the function in a check's stated version or in its control.

    Args:
        function: as it is.
        alterations: by name; none that remembers.
        check: runs as it is.
    """
    pending, found = dict(alterations), set[str]()
    inside: Altered | None = None  # whose call this is in, if it is in one

    def probing(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        nonlocal inside
        if inside:
            return inside.run(original, args, kwargs)
        if not pending:
            return original(*args, **kwargs)
        if any(_used_up(x) for x in (*args, *kwargs.values())):
            found.update(pending)
            pending.clear()
            return original(*args, **kwargs)
        before = original(*args, **kwargs)
        for how, inside in list(pending.items()):  # read above
            if _differs(inside, original, before, args=args, kwargs=kwargs):
                found.add(how)
                del pending[how]
        inside = None
        return before

    with replaced({function: probing}):
        check.holds(check.states)
        check.holds(check.control)
    return found


def _used_up(argument: Any) -> bool:
    """Return whether a second call with this argument would differ, as a generator or iterator is used up."""
    return isinstance(argument, np.random.Generator | Iterator)


def _differs(
    one: Altered, original: Callable[..., Any], before: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> bool:
    def late(*_: object) -> None:
        raise _LateError

    usual = signal.signal(signal.SIGVTALRM, late)
    signal.setitimer(signal.ITIMER_VIRTUAL, LONG)
    try:
        return not same(before, one.run(original, args, kwargs))
    except (Exception, _LateError):
        return True
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, usual)
