"""What every command owes to whoever typed it."""

import contextlib
import io

from experiments.cli import main
from experiments.ledger.claim import Outcome
from experiments.ledger.verify import Verification
from experiments.store.folders import UserError

MOST_LINES = 4  # on standard error: of progress, a warning, and the reason


def outcome(line):
    """Status, output and errors of a command, with streams as strict as a terminal's."""
    streams = [io.TextIOWrapper(io.BytesIO(), "utf-8", errors) for errors in ("surrogateescape", "backslashreplace")]
    with contextlib.redirect_stdout(streams[0]), contextlib.redirect_stderr(streams[1]):
        try:
            status = main(line)
        except SystemExit as stop:
            status = stop.code
    said = []
    for stream in streams:
        stream.flush()
        said.append(stream.buffer.getvalue().decode(errors="replace"))
    return status or 0, *said


def check(line):
    """The contract: exceptions end the test by themselves."""
    status, _, errors = outcome(line)
    assert status in (0, 1, 2), (line, status)
    assert "Traceback" not in errors, (line, errors)
    assert errors.count("\n") <= MOST_LINES, (line, errors)
    if status == 2:
        last = errors.strip().splitlines()[-1]
        assert last.startswith("crosslayer"), (line, errors)
        assert len(last.partition(": ")[2]) > 8, (line, errors)
    return status, errors


def put_aside(*_, **__):
    raise UserError("what takes long is put aside here")


def unverified(claims, *_, **__):
    """All entries as if their checks had been run, and held."""
    return [
        Verification(claim, tuple(Outcome(e.what, e.kind, True, True) for e in claim.evidence), 0.0) for claim in claims
    ]


def write_corpus(folder):
    """Sixty short texts."""
    folder.mkdir()
    for number in range(60):
        (folder / f"{number}.txt").write_text(f"text {number}, some words. " * 20)
