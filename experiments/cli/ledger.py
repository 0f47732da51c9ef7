"""The commands on the claims ledger.  Each takes the parsed options and returns the exit status."""

from __future__ import annotations

import argparse
import json
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.cli.commands import OUT, Commands

if TYPE_CHECKING:
    from experiments.ledger.verify import Verification


def add_to(commands: Commands) -> None:
    """verify, claim."""
    command = commands.add(
        "verify", verify, "run the claims ledger", "crosslayer verify skipv1.gap skipv1.lemma3-isotropy"
    )
    command.add_argument("ids", nargs="*", metavar="ID", help="ledger entries (default: all)")
    command.add_argument("--afresh", action="store_true", help="run what is remembered to hold, too")

    command = commands.add(
        "claim", claim, "show everything on one entry of the claims ledger", "crosslayer claim skipv1.gap"
    )
    command.add_argument("id", metavar="ID", help="a ledger entry; `crosslayer verify` lists all")
    command.add_argument("--out", type=Path, default=OUT, help="where finished runs are looked up (default: runs)")


def verify(options: argparse.Namespace) -> int:
    from experiments import catalogue, runs
    from experiments.cli.claim import verification_json

    done = runs.verify(*dict.fromkeys(options.ids), afresh=options.afresh)
    if options.json:
        print(json.dumps([verification_json(v) for v in done], indent=1))
    else:
        for v in done:
            print(f"{'ok  ' if v.stands else 'FAIL'} {v.claim.verdict:12} {v.claim.id}  ({v.claim.place})")
            print("".join(f"     {line}\n" for line in _failures(v)), end="")
        again = sum(v.remembered for v in done)
        print(
            f"{sum(v.stands for v in done)} of {len(done)} verdicts hold{f', {again} of them unchanged' * bool(again)}"
        )
        if not options.ids:
            print("\n".join(index.summary(catalogue.claims()) for index in catalogue.indexes()))
    return int(not all(v.stands for v in done))


def claim(options: argparse.Namespace) -> int:
    from experiments import runs
    from experiments.cli.claim import description, print_description

    (verification,) = runs.verify(options.id)
    about = description(verification, options.out)
    if options.json:
        print(json.dumps(about, indent=1))
    else:
        print_description(about)
    return int(not verification.stands)


def _failures(v: Verification) -> Collection[str]:
    """What does not hold of an entry, a line each."""
    lines = []
    for o in (o for o in v.outcomes if not o.ok):
        reason = o.error or ("does not hold" if not o.holds else "its negative control is not rejected")
        lines.append(f"{o.kind}: {o.what}: {reason}")
    if not v.outcomes:
        lines.append("it has no checks")
    return [*lines, *(f"it rests on {name}, which has fallen" for name in v.fallen)]
