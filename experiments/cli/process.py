"""A command as a process: its standard streams, the signals that stop it, and the status that it ends with.

0: done, and nothing failed; 1: a check failed; 2: bad input, or nothing could be done.  An end from outside is none of
these, and has the numbers that shells give it: 130 after Ctrl-C, 143 after SIGTERM, 141 if a pipe's reader has left.

What an output's encoding cannot hold is spelt in ASCII, and no command fails.  Little is imported before `main` is
called, as nothing can be done about a signal until then.
"""

# ruff: noqa: RUF001 (the signs are what this is about)

from __future__ import annotations

import codecs
import errno
import gc
import math
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import NoReturn, TypeVar

from experiments.store.shadows import shadowed

STOPS = {signal.SIGINT: "interrupted", signal.SIGTERM: "stopped"}
MOMENT = 0.5  # seconds
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)

Error = TypeVar("Error", bound=BaseException)


class Interrupt(KeyboardInterrupt):
    """A signal that asks the process to end."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command, by default that of this process, and return its exit status."""
    if arguments is not None:
        return _status(arguments)
    with _signals_raise():
        status = _status(None)
    if status > 128:
        gc.freeze()  # else an interpreter that holds much looks through all of it, for seconds, before it ends
    return status


def _status(arguments: Sequence[str] | None) -> int:
    resumes = False
    try:
        _open_standard_streams()
        keep_text()
        if message := shadowed():
            return _stop(message, 2)
        from experiments.cli.parser import parser
        from experiments.store.folders import UserError
        from theory.errors import BadInput

        try:
            try:
                typed = sys.argv[1:] if arguments is None else arguments
                options = parser(typed[0] if typed else "").parse_args(typed)
                resumes = options.resumes
                status: int = options.run(options)
            finally:
                sys.stdout.flush()
        except (UserError, BadInput) as error:
            return _stop(str(error), 2)
        except OSError as error:
            if _behind(error, BrokenPipeError):
                raise
            return _stop(_about(error), 2)
        return status
    except BaseException as error:
        if interrupt := _behind(error, KeyboardInterrupt):
            number = signal.Signals(getattr(interrupt, "number", signal.SIGINT))
            if not _is_first():
                return 128 + number
            again = "; the same command resumes from here" if resumes else ""
            return _stop(f"{STOPS[number]}{again}", 128 + number)
        if _behind(error, BrokenPipeError):
            _silence_standard_output()
            return 128 + signal.SIGPIPE
        raise


@contextmanager
def _signals_raise() -> Iterator[None]:
    """Raise Interrupt inside, at the first signal that asks for an end; a later one ends the process at once.

    A signal within a moment of it is the same request: some send it to a process and to its group, as the command
    timeout does.
    """
    last_request = -math.inf

    def end(number: int, _: object) -> None:
        if time.monotonic() - last_request > MOMENT:
            os._exit(128 + number)

    def interrupt(number: int, _: object) -> NoReturn:
        nonlocal last_request
        last_request = time.monotonic()
        hear(end)
        raise Interrupt(number)

    def hear(handler: Callable[[int, object], None]) -> None:
        for stop in heard:
            signal.signal(stop, handler)

    heard = [stop for stop in STOPS if signal.getsignal(stop) is not signal.SIG_IGN]  # as `nohup` makes it
    try:
        hear(interrupt)
        yield
    finally:
        hear(end)


def _behind(error: BaseException | None, kind: type[Error]) -> Error | None:
    """Return the error of this kind that caused an error, itself included; None if there is none.

    Compiled code wraps interrupts, and libraries that print make closed pipes failures.
    """
    while error is not None and not isinstance(error, kind):
        error = error.__cause__ or error.__context__
    return error


def _open_standard_streams() -> None:
    """Open closed standard streams on the null device: else the next file that is opened would take their place."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
            setattr(sys, name, os.fdopen(number, "w" if number else "r", encoding="utf-8"))


def _silence_standard_output() -> None:
    """Send what standard output still holds nowhere, so that nothing complains of it later."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _about(error: OSError) -> str:
    """Return the file and its error.  Errors name our own files, so a full disk without a name comes from printing."""
    if error.filename is None and error.errno in FULL:
        _silence_standard_output()
        return f"standard output: {error.strerror}"
    return f"{error.filename}: {error.strerror}" if error.filename else str(error)


def _is_first() -> bool:
    from experiments.cli.commands import is_first

    return is_first()


def _stop(message: str, status: int) -> int:
    """Print one line on standard error, whatever a user's own text in it holds, and return the status."""
    from experiments.cli.commands import one_line

    with suppress(OSError):
        print(f"crosslayer: {one_line(message)}", file=sys.stderr)
    return status


HANDLER = "crosslayer.readable"
STAND_INS = {
    "±": "+-", "×": "x", "·": "*", "−": "-", "–": "-", "—": "-", "‑": "-", "…": "...", "→": "->", "←": "<-", "↔": "<->",
    "≤": "<=", "≥": ">=", "≠": "!=", "≈": "~", "≡": "==", "∞": "inf", "∈": "in", "∑": "sum", "∏": "prod", "√": "sqrt",
    "‖": "||", "∥": "||", "⟨": "<", "⟩": ">", "⌈": "ceil(", "⌉": ")", "⌊": "floor(", "⌋": ")", "′": "'", "∂": "d",
    "‘": "'", "’": "'", "“": '"', "”": '"', "•": "*", "⊗": "(x)", "⊙": "(.)", "∘": "o", "∇": "grad",
    "²": "^2", "³": "^3", "½": "1/2",
}  # fmt: skip


def spell(text: str) -> str:
    """Return text in ASCII: a sign by its stand-in, a letter by its code, so that names stay distinct."""
    return "".join(map(_spell, text))


def keep_text() -> None:
    """Let the standard streams spell what their encoding cannot hold, where they would fail or show codes."""
    codecs.register_error(HANDLER, _handle)
    for stream in (sys.stdout, sys.stderr):
        utf = (getattr(stream, "encoding", None) or "utf-8").lower().startswith("utf")
        lossless = utf and getattr(stream, "errors", None) in ("surrogateescape", "backslashreplace")
        if not lossless and hasattr(stream, "reconfigure"):
            stream.reconfigure(errors=HANDLER)


def _handle(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return spell(error.object[error.start : error.end]), error.end


def _spell(sign: str) -> str:
    return STAND_INS.get(sign) or sign.encode("ascii", "backslashreplace").decode()
