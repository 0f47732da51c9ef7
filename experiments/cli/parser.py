"""All commands.

Every topic here adds its commands; that of a command which is named is imported alone.  What imports torch, scipy or
matplotlib is imported by the command that needs it: `--help`, `list`, `describe`, `variants` and every prediction with
a closed form answer at once.
"""

from __future__ import annotations

import argparse
from importlib import import_module

from experiments.cli.commands import Commands, Parser

ABOUT = "Check what cross-layer ideas promise, on toys and at scale."
STATUSES = (
    "exit status: 0 done, and nothing failed; 1 a check failed; 2 bad input, or nothing could be done; "
    "130 interrupted; 143 stopped by SIGTERM; 141 the reader of a pipe has left"
)
TOPICS = {  # modules, in the order of the help, with their commands
    "listing": ("list",),
    "runs": ("run", "compare", "report"),
    "campaign": ("campaign",),
    "predict": ("predict",),
    "models": ("describe", "variants", "papers"),
    "data": ("data",),
    "training": ("train",),
    "checkpoints": ("import", "export", "convert"),
    "advise": ("advise",),
    "generate": ("generate",),
    "evaluate": ("evaluate", "probe"),
    "ledger": ("verify", "claim"),
    "bench": ("bench",),
    "rental": ("rental",),
    "about": ("help",),
}

OF_ALL = ("help", "report")  # commands that show every command


def parser(command: str = "") -> argparse.ArgumentParser:
    """Return the parser of all commands with their options.

    Args:
        command: If it is one of them, those of its topic are enough.
    """
    commands = Parser(prog="crosslayer", description=ABOUT, epilog=STATUSES)
    topics = Commands(commands.add_subparsers(required=True, metavar="COMMAND", parser_class=Parser), commands)
    one = [topic for topic, names in TOPICS.items() if command in names and command not in OF_ALL]
    for topic in one or TOPICS:
        import_module(f"experiments.cli.{topic}").add_to(topics)
    return commands
