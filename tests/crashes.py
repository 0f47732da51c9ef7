"""A process that is gone at every step of what it writes, one after the other: not at random, and nothing cleans up.

And a bit of what was written that is another."""

import os
import sys
import warnings
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

CRASHED = 137
STEPS = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "os.link", "os.symlink"}


def crashes(action: Callable[[Path], None], place: Path) -> Iterator[Path]:
    """For n = 0, 1, ...: a folder in which `action` was gone right before its n-th step; none once it ends by itself.

    A step makes, opens for writing, renames or removes a file or folder below the folder.
    """
    for n in count():
        folder = place / f"{n}"
        folder.mkdir(parents=True)
        if not _crashed(action, folder, n):
            assert n > 0, "it takes no step at all"
            return
        yield folder


def flip(path: Path, place: float = 0.5) -> None:
    """Flip a bit of the byte that stands at this share of a file; at 1 that is the last one."""
    content = bytearray(path.read_bytes())
    content[min(int(place * len(content)), len(content) - 1)] ^= 1
    path.write_bytes(content)


def _crashed(action: Callable[[Path], None], folder: Path, step: int) -> bool:
    sys.stdout.flush()
    sys.stderr.flush()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks with threads: those here sleep
        child = os.fork()
    if not child:
        try:
            _leave_before(step, folder)
            action(folder)
            os._exit(0)
        except BaseException:
            import traceback

            traceback.print_exc()
            sys.stderr.flush()
        finally:
            os._exit(1)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status in (0, CRASHED), f"it failed by itself before step {step}"
    return status == CRASHED


def _leave_before(step: int, folder: Path) -> None:
    left, where = step, os.fspath(folder)

    def hear(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal left
        if not _is_step(event, arguments) or not any(_below(where, _name(x)) for x in arguments):
            return
        if not left:
            os._exit(CRASHED)
        left -= 1

    sys.addaudithook(hear)


def _is_step(event: str, arguments: tuple[object, ...]) -> bool:
    if event != "open":
        return event in STEPS
    flags = arguments[2]
    return isinstance(flags, int) and bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))


def _below(where: str, name: str) -> bool:
    """Relative names are what rmtree removes of an open folder."""
    return where in name or bool(name and not os.path.isabs(name))


def _name(x: object) -> str:
    return os.fsdecode(x) if isinstance(x, str | bytes | os.PathLike) else ""
