"""What every command owes to whoever typed it."""

import argparse
import contextlib
import io
from unittest import mock

from experiments.cli import main
from experiments.ledger.claim import Outcome
from experiments.ledger.verify import Verification
from experiments.store.folders import UserError

MOST_LINES = 4  # on standard error: of progress, a warning, and the reason


def outcome(line, encoding="utf-8", errors=("surrogateescape", "backslashreplace")):
    """Status, output and errors of a command, with streams as strict as a terminal's."""
    streams = [io.TextIOWrapper(io.BytesIO(), encoding, on_error) for on_error in errors]
    with contextlib.redirect_stdout(streams[0]), contextlib.redirect_stderr(streams[1]):
        try:
            status = main(line)
        except SystemExit as stop:
            status = stop.code
    said = []
    for stream in streams:
        stream.flush()
        said.append(stream.buffer.getvalue().decode(encoding, errors="replace"))
    return status or 0, *said


def refused(line, says):
    """The errors of a command of which there is one line that says so, with status 2, and nothing else."""
    status, out, errors = outcome(line)
    assert (status, out, errors.count("\n")) == (2, "", 1), (line, errors)
    assert errors.startswith("crosslayer"), (line, errors)
    assert says in errors, (line, errors)
    return errors


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


def leaves(parser, words=()):
    """Every command of one or two words, with its parser."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, below in action.choices.items():
                yield from leaves(below, (*words, name))
            return
    yield words, parser


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


def prepare_text(folder):
    """The options that name text, which lies in `folder / "text"` then, made of `folder / "corpus"`."""
    write_corpus(folder / "corpus")
    assert main(["data", "prepare", f"{folder}/corpus", "--out", f"{folder}/text", "--vocab", "300"]) == 0
    return ["--data", f"{folder}/text"]


def train(place, *options, preset="llama-2m", variant="vanilla"):
    """Train a model without drawing its figure; `place` is its folder then."""
    out = place.with_name(f"out of {place.name}")
    command = ["train", "--preset", preset, "--variant", variant, *options, "--device", "cpu", "--out", str(out)]
    with mock.patch("experiments.commands.training_figure.draw"):
        assert main(command) == 0
    (trained,) = (out / "train").iterdir()
    return trained.rename(place)
