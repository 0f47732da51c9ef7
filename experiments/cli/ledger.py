"""The commands on the claims ledger.  Each takes the parsed options and returns the exit status."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from difflib import get_close_matches
from typing import Any

from experiments.cli.commands import Commands
from experiments.store.folders import UserError


def add_to(commands: Commands) -> None:
    """verify, claim."""
    command = commands.add(
        "verify", verify, "run the claims ledger", "crosslayer verify skipv1.gap skipv1.lemma3-isotropy"
    )
    command.add_argument("ids", nargs="*", metavar="ID", help="ledger entries (default: all)")


def verify(options: argparse.Namespace) -> int:
    from experiments.claims import LEDGER, appendix
    from experiments.claims.ledger import verify_all

    if unknown := [i for i in options.ids if i not in LEDGER]:
        near = get_close_matches(unknown[0], LEDGER, n=3, cutoff=0.4)
        hint = f"did you mean {', '.join(near)}?" if near else "`crosslayer verify --json` lists all"
        raise UserError(f"unknown ledger entry {unknown[0]!r}; {hint}")
    done = verify_all([LEDGER[i] for i in dict.fromkeys(options.ids or LEDGER)])
    if options.json:
        print(json.dumps([_verification_json(v) for v in done], indent=1))
    else:
        for v in done:
            print(f"{'ok  ' if v.stands else 'FAIL'} {v.claim.verdict:12} {v.claim.id}  ({v.claim.place})")
            for o in v.outcomes:
                if not o.ok:
                    reason = "does not hold" if not o.holds else "its negative control is not rejected"
                    print(f"     {o.kind}: {o.what}: {reason}")
        print(f"{sum(v.stands for v in done)} of {len(done)} verdicts hold")
        if not options.ids:
            print(appendix.summary(LEDGER))
    return int(not all(v.stands for v in done))


def _verification_json(v: Verification) -> dict[str, Any]:
    claim = v.claim
    fields = ("id", "paper", "place", "statement", "assumes", "verdict", "correction")
    checks = [
        {**asdict(outcome), "ok": outcome.ok, "control": evidence.wrong}
        for outcome, evidence in zip(v.outcomes, claim.evidence, strict=True)
    ]
    return {
        **{f: getattr(claim, f) for f in fields},
        "experiments": list(claim.experiments),
        "stands": v.stands,
        "seconds": round(v.seconds, 2),
        "checks": checks,
    }
