"""Tools that every command's options are made with: one form of help, one way to read numbers."""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Callable
from fractions import Fraction
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from experiments.cli.unknown_options import about_option, unknown_option

if TYPE_CHECKING:
    from experiments.commands.subjects import Choices

OUT = Path("runs")
SHOWN = 400  # characters of a message
FIGURES = (".svg", ".png", ".pdf")
Run = Callable[[argparse.Namespace], int]
LARGEST = 10**12  # of counts: beyond, nothing could be held, nor ever be finished


class Parser(argparse.ArgumentParser):
    """argparse without abbreviations, with suggestions, and without the usage text before an error.

    What has commands below it prints its help where none is named.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **{"allow_abbrev": False, **options})

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        args = sys.argv[1:] if args is None else list(args)
        for arg in args:
            if arg.startswith("--") and arg.endswith("=--"):  # argparse drops such a value, and gives an empty list
                self.error(f"argument {arg.partition('=')[0]}: expected one argument")
        if self._has_commands:
            if not args:
                self.print_help()
                self.exit(0)
            own = list(takewhile(lambda arg: arg.startswith("-"), args))
            otherwise = f"options of a command come after it, see `{self.prog} --help`"
        else:
            own, otherwise = args, f"see `{self.prog} --help`"
        takes_value = {name: action.nargs != 0 for name, action in self._option_string_actions.items()}
        if (name := unknown_option(own, takes_value)) is not None:
            self.error(about_option(name, self._long_options, otherwise))
        parsed, extra = super().parse_known_args(args, namespace)
        if extra:
            self.error(f"unexpected {one_line(' '.join(extra))!r}; {otherwise}")
        return parsed, extra

    @property
    def _has_commands(self) -> bool:
        return self._subparsers is not None

    @property
    def _long_options(self) -> list[str]:
        return [name for name in self._option_string_actions if name.startswith("--")]

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        from theory.plans.suggestions import hint, unknown  # here: a user's own `theory` is named in one line

        choices = list(map(str, action.choices))
        if isinstance(action, argparse._SubParsersAction):
            near = hint(value, [*choices, *self._long_options], f"there are {', '.join(choices)}")
            self.error(f"unknown {str(action.metavar).lower()} {value!r}; {near}")
        what = f"value of {action.option_strings[-1]}" if action.option_strings else action.dest
        self.error(unknown(what, str(value), choices))

    def error(self, message: str) -> NoReturn:
        if not is_first():
            self.exit(2)
        self.exit(2, f"{self.prog}: {one_line(message.removeprefix('argument ').replace(': must ', ' must ', 1))}\n")


class Commands:
    """The commands of a parser, or of a group of them.  whole: the parser of all."""

    def __init__(self, parsers: Any, whole: argparse.ArgumentParser) -> None:
        self._parsers, self.whole = parsers, whole

    def add(
        self, name: str, run: Run, what: str, example: str, *, shows_json: bool = True, resumes: bool = False
    ) -> argparse.ArgumentParser:
        """Add a command: what it does, in a few words, and an example.

        run      takes the parsed options and returns the exit status
        resumes  the same command, given again after an interrupt, resumes where it stopped
        """
        command: argparse.ArgumentParser = self._parsers.add_parser(name, **_help(what, example))
        if shows_json:
            command.add_argument("--json", action="store_true", help="print the result as JSON")
        command.set_defaults(run=run, resumes=resumes)
        return command

    def group(self, name: str, what: str, example: str) -> Commands:
        """Add a group of two-word commands."""
        group = self._parsers.add_parser(name, **_help(what, example))
        return Commands(group.add_subparsers(required=True, metavar="ACTION"), self.whole)


def _help(what: str, example: str) -> dict[str, Any]:
    return {
        "help": what,
        "description": f"{what[0].upper()}{what[1:]}.",
        "epilog": f"example: {example}",
        "formatter_class": argparse.RawDescriptionHelpFormatter,
    }


def is_first() -> bool:
    """Return whether this process speaks for all those that torchrun has started, if it has."""
    return os.environ.get("RANK", "0") in ("", "0")


def one_line(message: str) -> str:
    """Return a message as one line, not too long, whatever a user's own text in it holds."""
    line = " ".join(message.split())
    return line if len(line) <= SHOWN else line[:SHOWN] + "..."


def whole_number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a whole number, got {text[:24]!r}") from None


def number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a number, got {text[:24]!r}") from None


def whole_from(least: int, most: int = LARGEST) -> Callable[[str], int]:
    """Return a reader of whole numbers from `least` to `most`."""

    def read(text: str) -> int:
        value = whole_number(text)
        _refuse(value < least, f"must be at least {least}" if least else "must not be negative", text)
        _refuse(value > most, f"must be at most {most:,}", text)
        return value

    return read


def positive(text: str) -> float:
    value = finite(text)
    _refuse(value <= 0, "must be positive", text)
    return value


def not_negative(text: str) -> float:
    value = finite(text)
    _refuse(value < 0, "must not be negative", text)
    return value


def finite(text: str) -> float:
    value = number(text)
    _refuse(not math.isfinite(value), "must be a finite number", text)
    return value


def text_bound(text: str) -> int | float:
    """Return a bound of a part of a text: whole tokens, or a share of its characters such as 0.5 or 1/2."""
    if "." in text or "/" in text:
        try:
            value = float(Fraction(text))
        except (ValueError, ZeroDivisionError):
            value = math.nan
        _refuse(not 0 <= value <= 1, "must be a number of tokens, or a share from 0 to 1 such as 0.5 or 1/2", text)
        return value
    return whole_from(0)(text)


def add_part(command: argparse.ArgumentParser) -> None:
    """Add the options that say which part of a text is read."""
    command.add_argument(
        "--from",
        dest="start",
        type=text_bound,
        metavar="WHERE",
        help="where in the text to begin: tokens, or a share of its characters such as 0.5 (default: its beginning)",
    )
    command.add_argument(
        "--to", dest="stop", type=text_bound, metavar="WHERE", help="where to end, likewise (default: its end)"
    )


def text_choices(options: argparse.Namespace, tokens: int) -> Choices:
    """Return which text a model is calibrated on: sequences from all of what is named, not its beginning alone.

    Args:
        options: As `add_part` reads them, with text, tokens and context.
        tokens: How many, where the options do not say.
    """
    from experiments.commands.subjects import SPREAD, Choices
    from experiments.training.by_layer import Sample

    return Choices(
        Sample(options.tokens or tokens),
        context=options.context,
        text=options.text,
        start=options.start,
        stop=options.stop,
        spread=SPREAD,
    )


def _refuse(wrong: bool, words: str, text: str) -> None:
    if wrong:
        raise argparse.ArgumentTypeError(f"{words}, got {text[:24]}")


def check_figure(path: Path) -> None:
    """Raise UserError unless a figure can be drawn into this file."""
    from experiments.store.folders import UserError

    if path.suffix not in FIGURES:
        raise UserError(f"--figure must end in {', '.join(FIGURES)}, got {str(path)!r}")
    if path.is_dir() or not path.parent.is_dir():
        raise UserError(f"{path}: is a folder" if path.is_dir() else f"{path.parent}: no such folder")
