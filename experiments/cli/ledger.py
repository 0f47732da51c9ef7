"""The commands on the claims ledger.  Each takes the parsed options and returns the exit status."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.cli.commands import OUT, Commands, positive
from experiments.store.folders import UserError

if TYPE_CHECKING:
    from experiments.ledger.fates import Mutation
    from experiments.ledger.verify import Verification


def add_to(commands: Commands) -> None:
    """Add the commands `verify` and `claim`."""
    command = commands.add(
        "verify", verify, "run the claims ledger", "crosslayer verify skipv1.gap skipv1.lemma3-isotropy"
    )
    command.add_argument("ids", nargs="*", metavar="ID", help="ledger entries (default: all)")
    command.add_argument("--afresh", action="store_true", help="run what is remembered, too")
    command.add_argument(
        "--mutate",
        action="store_true",
        help="alter, one at a time, every public function of `theory` that the checks call (results x 1.05, for large "
        "sizes alone too, + 1, constant, those of a function beside it), and show what they do not notice; all entries "
        "take half an hour to an hour on two free cores, and what was killed goes on with the entry where it was",
    )
    command.add_argument(
        "--source",
        action="store_true",
        help="with --mutate: alter the source instead, in the modules that prove the entries, one constant, operator, "
        "comparison or reduction at a time; an entry takes seconds to minutes, all of them hours",
    )
    command.add_argument(
        "--keep",
        type=Path,
        metavar="FOLDER",
        help="with --mutate: put there what is known of all entries that nothing survives without a reason, as it is "
        "committed in results/ledger, from where another run goes on",
    )
    command.add_argument(
        "--minutes",
        type=positive,
        help="with --mutate: stop then; the same command goes on, and --keep has what is known",
    )

    command = commands.add(
        "claim", claim, "show everything on one entry of the claims ledger", "crosslayer claim skipv1.gap"
    )
    command.add_argument("id", metavar="ID", help="a ledger entry; `crosslayer verify` lists all")
    command.add_argument("--out", type=Path, default=OUT, help="where finished runs are looked up (default: runs)")


def verify(options: argparse.Namespace) -> int:
    from experiments import runs
    from experiments.ledger.claim import IN_WORDS

    if options.mutate:
        return _mutate(options)
    if options.source:
        raise UserError("--source says what --mutate alters: give both")
    if options.keep is not None:
        raise UserError("--keep is for what --mutate finds: give both")
    if options.minutes is not None:
        raise UserError("--minutes is how long --mutate may take: give both")
    done = runs.verify(*dict.fromkeys(options.ids), afresh=options.afresh)
    if options.json:
        from experiments.cli.claim import verification_json

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
            from experiments import catalogue

            kinds = Counter(e.kind for v in done for e in v.claim.evidence)
            print(f"{kinds.total()} checks: {', '.join(f'{kinds[kind]} {words}' for kind, words in IN_WORDS.items())}")
            print("\n".join(index.summary(catalogue.claims()) for index in catalogue.indexes()))
    return int(not all(v.stands for v in done))


def _mutate(options: argparse.Namespace) -> int:
    from experiments import runs
    from experiments.cli.tables import print_unfinished
    from experiments.ledger.fates import stale
    from experiments.store.folders import Unfinished

    about = {"afresh": options.afresh, "source": options.source, "keep": options.keep, "minutes": options.minutes}
    try:
        done = runs.mutate(*dict.fromkeys(options.ids), **about)
    except Unfinished as stop:
        print_unfinished(stop)
        return 0
    if options.json:
        print(json.dumps([_mutation_json(m) for m in done], indent=1))
        return int(any(m.unexcused for m in done))
    for m in done:
        extent = f"{m.altered} alterations" if m.altered else "its checks call nothing of `theory`"
        print(f"{'FAIL' if m.unexcused else 'ok  '} {m.claim.id}  ({extent})")
        for function, how in m.unexcused.items():
            print(f"     survives {function}: {', '.join(how)}")
    excuses = sorted({(function, why) for m in done for function, hows in m.excused.items() for why in hows.values()})
    if excuses:
        print("Survived, and rightly so:")
    for function, why in excuses:
        ids = [m.claim.id for m in done if why in m.excused.get(function, {}).values()]
        print(f"     {function}: {why} [{', '.join(ids)}]")
    if unneeded := stale(done):
        print("Named as not judged, though nothing that is altered there survives:")
    for name, why in sorted(unneeded.items()):
        print(f"     {name}: {why} [{', '.join(m.claim.id for m in done if m.stale.get(name) == why)}]")
    altered, left = sum(m.altered for m in done), sum(len(how) for m in done for how in m.unexcused.values())
    overdue = f", {late} of which they did not end on" if (late := sum(m.overdue for m in done)) else ""
    print(f"{sum(not m.unexcused for m in done)} of {len(done)} entries fall with what they judge")
    print(
        f"{altered} alterations{overdue}; {sum(m.with_premises for m in done)} that a premise notices; {left} survive"
    )
    return int(left > 0)


def _mutation_json(m: Mutation) -> dict[str, object]:
    return {
        "id": m.claim.id,
        "ok": not m.unexcused,
        "altered": m.altered,
        "overdue": m.overdue,
        "with_premises": m.with_premises,
        "survivors": m.unexcused,
        "excused": m.excused,
        "stale": m.stale,
    }


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
    """Return what does not hold of an entry, one line each."""
    lines = []
    for o in (o for o in v.outcomes if not o.ok):
        reason = o.error or ("does not hold" if not o.holds else "its negative control is not rejected")
        lines.append(f"{o.kind}: {o.what}: {reason}")
    if not v.outcomes:
        lines.append("it has no checks")
    return [*lines, *(f"it rests on {name}, which has fallen" for name in v.fallen)]
