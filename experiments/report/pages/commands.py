"""The command line, from the parser itself: every command with its options, their defaults and an example."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from experiments.report.pages import parts
from experiments.report.prose import code, escaped, fenced, plain

UNKNOWN = "# The command line\n\nThis site was built from Python; `crosslayer report` lists all commands here.\n"


def pages(parser: argparse.ArgumentParser | None) -> parts.Pages:
    """Return the pages of commands; parser: of all commands; None: it is not known."""
    if parser is None:
        return {"commands.md": UNKNOWN}
    blocks = [
        "# The command line",
        f"{escaped(parser.description or '')}  Every command has `--help`; `python -m experiments` is the same as "
        f"{code(parser.prog)}.  {code(f'{parser.prog} --version')} prints the versions that a bug report needs.",
        escaped(parser.epilog or ""),
    ]
    for name, command in _commands(parser):
        blocks += _command(name, command)
    return {"commands.md": "\n\n".join(block for block in blocks if block) + "\n"}


def _commands(parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Yield every command, those of two words too, by what is typed."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, command in action.choices.items():
                typed = f"{parser.prog} {name}"
                if any(isinstance(each, argparse._SubParsersAction) for each in command._actions):
                    yield from _commands(command)
                else:
                    yield typed, command


def _command(name: str, command: argparse.ArgumentParser) -> Iterator[str]:
    yield f"## {escaped(name)}"
    yield plain(command.description or "")
    if command.epilog:
        yield fenced(command.epilog.removeprefix("example: "), "sh")
    rows = [_option(action) for action in command._actions if not isinstance(action, argparse._HelpAction)]
    if rows:
        yield parts.folded(f"Its options ({len(rows)})", parts.table(("option", "what it does"), rows))


def _option(action: argparse.Action) -> tuple[str, str]:
    value = action.metavar or (action.dest.upper() if action.nargs != 0 else "")
    if action.choices is not None and not action.metavar:
        value = "{" + ",".join(map(str, action.choices)) + "}"
    shown = value[0] if isinstance(value, tuple) else value
    names = [f"{name} {shown}".strip() for name in action.option_strings] or [shown]
    help_text = "" if action.help in (None, argparse.SUPPRESS) else str(action.help) % {"default": action.default}
    required = " Required." if action.required and action.option_strings else ""
    return ", ".join(map(code, names)), plain(help_text) + required
