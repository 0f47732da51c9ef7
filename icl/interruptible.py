"""Compiled code that takes long, run so that a signal is obeyed meanwhile.  Standard library only.

Python hears of a signal between two of its own instructions in the main thread.  While that thread is in a library's
compiled code, Ctrl-C and SIGTERM wait for its end.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
SECONDS_BETWEEN_LOOKS = 0.2


def interruptible(work: Callable[[], T], on_wait: Callable[[float], None] = lambda _: None) -> T:
    """Return what `work` returns, and raise what it raises, or at once what a signal raises in the main thread.

    The work is done in a thread that is left alone then: it ends with the process.  So it must not write anything, and
    its library has to release the interpreter, as `tokenizers` and `tiktoken` do.

    Args:
        work: what takes long.
        on_wait: called a few times per second meanwhile, with the seconds since the beginning.
    """
    if threading.current_thread() is not threading.main_thread():
        return work()  # no signal is handled here
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:  # all of them are the caller's
            errors.append(error)

    thread, began = threading.Thread(target=run, daemon=True), time.monotonic()
    thread.start()
    while thread.is_alive():
        thread.join(SECONDS_BETWEEN_LOOKS)
        if thread.is_alive():
            on_wait(time.monotonic() - began)
    if errors:
        raise errors[0]
    return results[0]
