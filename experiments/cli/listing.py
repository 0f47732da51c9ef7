"""The command `list`.  It takes the parsed options and returns the exit status."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Sequence
from typing import Any

from experiments import catalogue
from experiments.cli.commands import Commands
from experiments.store.folders import UserError
from theory.plans.suggestions import plain, unknown

Rows = list[dict[str, Any]]
LINE = 120  # characters


def add_to(commands: Commands) -> None:
    """Add the command `list`."""
    command = commands.add(
        "list",
        list_,
        "list experiments, or one with its claims, profiles, time and detectable effect; claims, variants, presets",
        "crosslayer list skipv1-gap",
    )
    command.add_argument(
        "words",
        nargs="*",
        metavar="WORD",
        help=f"a kind ({', '.join(KINDS)}; default: experiments), and words that all must occur in what is listed",
    )


def list_(options: argparse.Namespace) -> int:
    words = list(options.words)
    kinds = {kind.removesuffix("s"): kind for kind in KINDS} | {kind: kind for kind in KINDS}
    kind = kinds[words.pop(0)] if words and words[0] in kinds else "experiments"
    make_rows, print_rows = KINDS[kind]
    rows = make_rows()
    matching = [row for row in rows if row["name"] in words] or [row for row in rows if _matches(row, words)]
    if not matching:
        names = [row["name"] for row in rows]
        others = [other for other in KINDS if other != kind and any(_matches(r, words) for r in KINDS[other][0]())]
        if others:
            raise UserError(f"no {kind} with {' '.join(words)!r}; see `crosslayer list {others[0]} {' '.join(words)}`")
        raise UserError(unknown(kind.removesuffix("s"), words[0], names, lists=f"`crosslayer list {kind}` lists all"))
    if options.json:
        print(json.dumps(matching, indent=1))
    elif kind == "experiments" and len(matching) == 1:
        _print_experiment(matching[0])
    else:
        print_rows(matching)
    return 0


def _matches(row: dict[str, Any], words: Sequence[str]) -> bool:
    """Return whether every word occurs in a row, whatever its case, hyphens and underscores."""
    texts = [text for value in row.values() for text in (value if isinstance(value, list) else [value])]
    letters = [plain(text) for text in texts if isinstance(text, str)]
    return all(any(plain(word) in text for text in letters) for word in words)


def _experiments() -> Rows:
    return [
        {
            "name": experiment.name,
            "title": experiment.title,
            "claims": list(experiment.claims),
            "profiles": {
                name: {"seeds": p.seeds, "seconds": p.seconds, "detects": p.detects}
                for name, p in experiment.profiles.items()
            },
        }
        for experiment in map(catalogue.experiment, catalogue.names())
    ]


def _print_experiments(rows: Rows) -> None:
    _print_lines([(row["name"], row["title"]) for row in rows])
    print("`crosslayer list NAME` shows claims, profiles, time and detectable effect")


def _print_experiment(row: dict[str, Any]) -> None:
    print(f"{row['name']}: {row['title']}")
    print(f"  claims: {', '.join(row['claims'])}")
    for name, profile in catalogue.experiment(row["name"]).profiles.items():
        print(f"  {name:6} {profile.seeds:3} seeds  about {_time(profile.seconds):7}  {profile.decides}")


def _time(seconds: int) -> str:
    return f"{seconds} s" if seconds < 90 else f"{math.ceil(seconds / 60)} min"


def _claims() -> Rows:
    return [
        {"name": c.id, "verdict": c.verdict, "paper": c.paper, "place": c.place, "statement": c.statement}
        for c in catalogue.claims().values()
    ]


def _variants() -> Rows:
    return [
        {"name": name, "paper": variant.source, "place": variant.place, "changes": variant.changes}
        for name, variant in catalogue.variants().items()
    ]


def _presets() -> Rows:
    from theory.plans.accounting import total_parameters
    from theory.plans.names import model
    from theory.plans.presets import PRESETS

    return [
        {
            "name": name,
            "place": preset.place,
            "variant": preset.variant,
            "parameters": total_parameters(*model(name)),
            "stated_parameters": preset.stated,
            "note": preset.note,
        }
        for name, preset in PRESETS.items()
    ]


def _print_claims(rows: Rows) -> None:
    _print_lines([(row["name"], f"{row['verdict']}: {row['statement']}") for row in rows])


def _print_variants(rows: Rows) -> None:
    _print_lines(
        [(row["name"], f"{row['changes']} ({', '.join(filter(None, (row['paper'], row['place'])))})") for row in rows]
    )


def _print_presets(rows: Rows) -> None:
    _print_lines(
        [(row["name"], f"{row['parameters']:>13,} parameters, {row['variant']}; {row['place']}") for row in rows]
    )


def _print_lines(pairs: list[tuple[str, str]]) -> None:
    """Print names and what they are, one line each."""
    width = max(len(name) for name, _ in pairs)
    for name, text in pairs:
        line = f"{name:{width}}  {' '.join(text.split())}"
        print(line if len(line) <= LINE else f"{line[: LINE - 3]}...")


KINDS: dict[str, tuple[Callable[[], Rows], Callable[[Rows], None]]] = {
    "experiments": (_experiments, _print_experiments),
    "claims": (_claims, _print_claims),
    "variants": (_variants, _print_variants),
    "presets": (_presets, _print_presets),
}
