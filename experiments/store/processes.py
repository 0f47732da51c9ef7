"""Processes that share work: how many threads each uses, and the guard of the script that starts them.

Products here are small, gain little from more threads than one and lose much on a busy machine; and with one thread
bits stay the same whatever the number of cores.  Processes that start others import the script that started them; one
without a guard would start more, and so on.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@contextmanager
def one_thread() -> Iterator[None]:
    """Use one thread for BLAS and torch: in what is loaded, now or in here, and in processes that are spawned here."""
    loaded = sys.modules.get("torch")
    before = loaded.get_num_threads() if loaded else os.cpu_count() or 1
    try:
        with one_thread_environment(), _blas_threads(1):
            if loaded:
                loaded.set_num_threads(1)
            yield
    finally:
        if torch := sys.modules.get("torch"):
            torch.set_num_threads(before)


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Use so many threads for torch, which is loaded, and for BLAS in what is."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        with _blas_threads(count):
            yield
    finally:
        torch.set_num_threads(before)


def _blas_threads(count: int) -> AbstractContextManager[object]:
    """Use so many threads in what is loaded of BLAS; without threadpoolctl, as on a rented machine, as many as before.

    That costs time where several processes share the cores, and no digit that is printed.
    """
    try:
        from threadpoolctl import threadpool_limits
    except ImportError:
        return nullcontext()
    limits: AbstractContextManager[object] = threadpool_limits(count)
    return limits


def one_thread_environment() -> AbstractContextManager[None]:
    """Set one thread for the libraries of processes that are spawned inside."""
    return environment(dict.fromkeys(THREADS, "1"))


@contextmanager
def environment(changes: Mapping[str, str]) -> Iterator[None]:
    """Set these variables for processes that are spawned inside."""
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


UNGUARDED = 77  # status of a process that ends as it would start processes while it starts itself
ADVICE = (
    'the script must start its work below `if __name__ == "__main__":`, '
    "as the processes that share the work import it again"
)


def unreadable_script() -> str | None:
    """Return one line if processes cannot import the script that starts them, as one from standard input; else None."""
    main = sys.modules.get("__main__")
    file = getattr(main, "__file__", None)
    if file is None or getattr(main, "__spec__", None) is not None or os.path.exists(file):
        return None
    return f"the script {file} is no file: save it as one, as the processes that share the work import it again"


def leave_if_starting() -> None:
    """End this process, silently, if it runs a script's work while it only imports the script to start."""
    library = sys.modules.get("multiprocessing.process")  # not imported for this: it takes time, and a child has it
    if library and getattr(library.current_process(), "_inheriting", False):
        os._exit(UNGUARDED)
