"""The command line.  Bad input is one line on standard error and exit status 2; a failed check is exit status 1.

Every module here adds its commands.  What imports torch, scipy or matplotlib is imported by the command that needs it:
`--help`, `list`, `describe`, `variants` and every prediction with a closed form answer at once.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from experiments.cli import bench, data, ledger, models, predict, runs, training
from experiments.cli.commands import Commands, Parser, one_line
from experiments.store.folders import UserError
from theory.errors import BadInput

TOPICS = (runs, predict, models, data, training, ledger, bench)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status."""
    options = parser().parse_args(arguments)
    try:
        status: int = options.run(options)
        sys.stdout.flush()
    except (UserError, BadInput) as error:
        return _stop(str(error), 2)
    except BrokenPipeError:  # the reader has left, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except OSError as error:
        return _stop(f"{error.filename or 'output'}: {error.strerror}", 2)
    except (KeyboardInterrupt, SystemError) as stop:
        # Compiled code may wrap an interrupt in a SystemError.
        if not isinstance(stop, KeyboardInterrupt) and not isinstance(stop.__context__, KeyboardInterrupt):
            raise
        return _stop(f"interrupted{'; the same command resumes from here' if options.resumes else ''}", 130)
    return status


def parser() -> argparse.ArgumentParser:
    """All commands with their options."""
    commands = Parser(prog="crosslayer", description="Check what cross-layer ideas promise, on toys and at scale.")
    topics = Commands(commands.add_subparsers(required=True, metavar="COMMAND", parser_class=Parser))
    for topic in TOPICS:
        topic.add_to(topics)
    return commands


def _stop(message: str, status: int) -> int:
    print(f"crosslayer: {one_line(message)}", file=sys.stderr)
    return status
