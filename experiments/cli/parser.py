"""All commands.

Every module here adds its commands.  What imports torch, scipy or matplotlib is imported by the command that needs it:
`--help`, `list`, `describe`, `variants` and every prediction with a closed form answer at once.
"""

from __future__ import annotations

import argparse

from experiments.cli import (
    about,
    bench,
    campaign,
    checkpoints,
    data,
    evaluate,
    generate,
    ledger,
    listing,
    models,
    predict,
    probe,
    runs,
    training,
)
from experiments.cli.commands import Commands, Parser

ABOUT = "Check what cross-layer ideas promise, on toys and at scale."
STATUSES = (
    "exit status: 0 done, and nothing failed; 1 a check failed; 2 bad input, or nothing could be done; "
    "130 interrupted; 143 stopped by SIGTERM; 141 the reader of a pipe has left"
)
TOPICS = (
    listing,
    runs,
    campaign,
    predict,
    models,
    data,
    training,
    checkpoints,
    generate,
    evaluate,
    probe,
    ledger,
    bench,
    about,
)


def parser() -> argparse.ArgumentParser:
    """All commands with their options."""
    commands = Parser(prog="crosslayer", description=ABOUT, epilog=STATUSES)
    topics = Commands(commands.add_subparsers(required=True, metavar="COMMAND", parser_class=Parser), commands)
    for topic in TOPICS:
        topic.add_to(topics)
    return commands
