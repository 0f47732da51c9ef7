"""`crosslayer help` and `crosslayer --version`."""

from __future__ import annotations

import argparse
import platform
from collections.abc import Sequence
from importlib import metadata
from typing import NoReturn

from experiments.cli.commands import Commands
from experiments.store.folders import UserError
from theory.plans.suggestions import hint

PACKAGES = ("torch", "numpy")  # beside Python, what a bug report is asked for


def add_to(commands: Commands) -> None:
    """Add the command `help` and the option `--version`."""
    command = commands.add(
        "help", help_, "print this help, or that of a command", "crosslayer help train", shows_json=False
    )
    command.add_argument("words", nargs="*", metavar="COMMAND", help="a command, such as train or data prepare")
    command.set_defaults(commands=commands.whole)
    commands.whole.add_argument(
        "--version", action=Version, help="print the versions that a bug report needs, and exit"
    )


def help_(options: argparse.Namespace) -> int:
    command: argparse.ArgumentParser = options.commands
    for word in options.words:
        below = next((a.choices for a in command._actions if isinstance(a, argparse._SubParsersAction)), {})
        if word not in below:
            known = f"there are {', '.join(below)}" if below else f"see `{command.prog} --help`"
            raise UserError(f"unknown command {word!r}; {hint(word, below, known)}")
        command = below[word]
    command.print_help()
    return 0


class Version(argparse.Action):
    """An option that prints versions and ends the command.  It imports none of the packages."""

    def __init__(self, option_strings: Sequence[str], dest: str, help: str | None = None) -> None:
        super().__init__(option_strings, dest, nargs=0, default=argparse.SUPPRESS, help=help)

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        print(versions_line())
        parser.exit(0)


def versions_line() -> str:
    """Return Crosslayer's version, Python's, torch's and numpy's, and the system, in one line."""
    libraries = ", ".join(f"{name} {_version(name)}" for name in PACKAGES)
    return f"crosslayer {_version('crosslayer')} (Python {platform.python_version()}, {libraries}, {_system()})"


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def _system() -> str:
    return f"{platform.system()} {platform.machine()}"
