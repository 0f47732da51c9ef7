"""The command line.  Bad input is one line on standard error and exit status 2; a failed check is exit status 1.

Modules that import torch, scipy or matplotlib are imported by the command that needs them: `--help`, `list` and
`predict` answer at once.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from experiments import registry
from experiments.runs import UserError
from theory.sizes import InvalidSize

if TYPE_CHECKING:
    from experiments.claims.ledger import Verification
    from experiments.protocol import Check

DEFAULT_OUT = Path("runs")


class _Parser(argparse.ArgumentParser):
    """argparse without the usage text before an error."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status."""
    options = _parser().parse_args(arguments)
    try:
        status: int = options.run(options)
        sys.stdout.flush()
    except (UserError, InvalidSize) as error:
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
        goes_on = "; the same command goes on from here" if options.run is _run else ""
        return _stop(f"interrupted{goes_on}", 130)
    return status


def _stop(message: str, status: int) -> int:
    """One line on standard error, whatever a user's own text in it holds."""
    line = " ".join(message.split())
    print(f"crosslayer: {line if len(line) <= 400 else line[:400] + '...'}", file=sys.stderr)
    return status


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="crosslayer", description="Check what cross-layer ideas promise, on toys and at scale.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, run: Any, what: str, example: str, *, shows_json: bool = True) -> argparse.ArgumentParser:
        command = commands.add_parser(
            name,
            help=what,
            description=f"{what[0].upper()}{what[1:]}.",
            epilog=f"example: {example}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        if shows_json:
            command.add_argument("--json", action="store_true", help="print the result as JSON")
        command.set_defaults(run=run)
        return command

    add("list", _list, "list the experiments, their claims, profiles, time and detectable effect", "crosslayer list")

    run = add("run", _run, "predict, measure, compare and draw", "crosslayer run skipv1-gap --profile smoke --out runs")
    run.add_argument("names", nargs="*", metavar="NAME", help="experiments, see `crosslayer list`")
    run.add_argument("--all", action="store_true", help="every experiment")
    run.add_argument("--profile", default="cpu", help="smoke, cpu (the default), full or gpu: see `crosslayer list`")
    run.add_argument("--seeds", type=_whole, help="how many seeds, 0 .. K-1 (default: the profile's)", metavar="K")
    run.add_argument("--out", type=Path, default=DEFAULT_OUT, help="where run folders go (default: runs)")

    predict = add(
        "predict",
        _predict,
        "print what a theorem predicts",
        "crosslayer predict skipv1 --d 3 --n 8 --sigma 0.3 --rank 2 --json",
    )
    predict.add_argument("theorem", help="skipv1: the loss gap of SkipV1Former, appendix A.1")
    predict.add_argument("--d", type=_whole, required=True, help="width of x and y")
    predict.add_argument("--n", type=_whole, required=True, help="context pairs")
    predict.add_argument("--sigma", type=_number, required=True, help="standard deviation of the noise")
    predict.add_argument("--rank", type=_whole, help="rank a of the compression (default: d // 2, MHA's best)")
    predict.add_argument("--paper-bound", action="store_true", help="also estimate the paper's own bound")

    verify = add("verify", _verify, "run the claims ledger", "crosslayer verify skipv1.gap skipv1.lemma3-isotropy")
    verify.add_argument("ids", nargs="*", metavar="ID", help="ledger entries (default: all)")

    report = add(
        "report",
        _report,
        "write the one-page report from finished runs",
        "crosslayer report --out runs",
        shows_json=False,
    )
    report.add_argument("--out", type=Path, default=DEFAULT_OUT, help="the folder that was given to `run`")

    bench = add("bench", _bench, "measure speed, each figure a ratio against a named baseline", "crosslayer bench")
    bench.add_argument(
        "--threads",
        type=_whole,
        default=min(2, os.cpu_count() or 1),
        help="CPU threads (default: 2, or as many as there are)",
    )
    return parser


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a whole number, got {text!r}") from None


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a number, got {text!r}") from None


def _list(options: argparse.Namespace) -> int:
    experiments = [registry.load(name) for name in registry.MODULES]
    if options.json:
        print(json.dumps([_describe(e) for e in experiments], indent=1))
        return 0
    for experiment in experiments:
        print(f"{experiment.name}: {experiment.title}")
        print(f"  claims: {', '.join(experiment.claims)}")
        for name, profile in experiment.profiles.items():
            print(f"  {name:6} {profile.seeds:3} seeds  about {_time(profile.seconds):7}  detects {profile.detects}")
    return 0


def _describe(experiment: Any) -> dict[str, Any]:
    profiles = {
        name: {"seeds": p.seeds, "seconds": p.seconds, "detects": p.detects} for name, p in experiment.profiles.items()
    }
    return {
        "name": experiment.name,
        "title": experiment.title,
        "claims": list(experiment.claims),
        "profiles": profiles,
    }


def _time(seconds: int) -> str:
    return f"{seconds} s" if seconds < 90 else f"{math.ceil(seconds / 60)} min"


def _run(options: argparse.Namespace) -> int:
    if options.all == bool(options.names):
        raise UserError("name experiments, or give --all, but not both")
    from experiments.protocol import worst
    from experiments.runs import execute, prepare

    experiments = [registry.load(name) for name in dict.fromkeys(registry.MODULES if options.all else options.names)]
    if options.all:  # of all experiments, those that have the profile
        experiments = [e for e in experiments if options.profile in e.profiles]
        if not experiments:
            raise UserError(f"no experiment has a profile {options.profile!r}")
    results, failed = [], False
    for job in [prepare(e, options.profile, options.seeds, options.out) for e in experiments]:
        checks = execute(job)
        failed |= worst(checks) == "fail"
        results.append(
            {"experiment": job.experiment.name, "folder": str(job.run.path), "checks": [c.to_json() for c in checks]}
        )
        if not options.json:
            _print_checks(job.experiment.title, checks)
            print(f"figure and numbers: {job.run.path}\n")
    if options.json:
        print(json.dumps(results, indent=1))
    return int(failed)


def _print_checks(title: str, checks: list[Check]) -> None:
    """One line a group, with the numbers of its tightest check."""
    from rich.console import Console
    from rich.table import Table

    from experiments.protocol import by_group

    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    table.add_column("check")
    for name in ("points", "predicted", "measured", "tolerance"):
        table.add_column(name, justify="right")
    table.add_column("verdict")
    for name, members in by_group(checks).items():
        tightest = members[0]
        numbers = (f"{x:.4g}" for x in (tightest.predicted, tightest.measured, tightest.tolerance))
        table.add_row(name, str(len(members)), *numbers, tightest.verdict)
    console = Console()
    if not console.is_terminal:
        console = Console(width=120)  # a log file has no edge to wrap at
    console.print(table)
    console.print(
        "Each line shows the point that uses most of its tolerance; summary.json holds them all.", style="dim"
    )


def _predict(options: argparse.Namespace) -> int:
    if options.theorem != "skipv1":
        raise UserError(f"unknown theorem {options.theorem!r}; there is skipv1")
    from theory import skipv1
    from theory.sizes import check_sizes

    check_sizes(options.d, options.n, options.sigma)
    rank = skipv1.best_mha_rank(options.d) if options.rank is None else options.rank
    task = (options.d, options.n, options.sigma, rank)
    result: dict[str, Any] = {**asdict(skipv1.loss_gap(*task)), "paper_bound": None}
    if options.paper_bound:
        result["paper_bound"] = asdict(skipv1.paper_bound(*task))
    if options.json:
        print(json.dumps(result))
        return 0
    print(f"SkipV1Former's theorem at d = {task[0]}, n = {task[1]}, sigma = {task[2]:g}, rank a = {rank}, W0 = 0:")
    words = {
        "mha": "loss of the best MHA at rank a (an infimum)",
        "skipv1": "loss of the best SkipV1Former at rank a",
        "gap": "gap at equal rank",
        "gap_to_optimum": "gap from this MHA to SkipV1Former's optimum (a = d)",
        "gap_of_optima": "gap between the optima over the rank",
        "rho": "share of each entry of W* that S_yx explains",
    }
    for key, text in words.items():
        print(f"  {result[key]:12.6g}  {text}")
    if bound := result["paper_bound"]:
        error = f" +- {bound['stderr']:.2g} (standard error)" if bound["stderr"] else ""
        print(f"  {bound['value']:12.6g}  the paper's bound on gap_to_optimum{error}; {bound['method']}")
    return 0


def _verify(options: argparse.Namespace) -> int:
    from experiments.claims import LEDGER
    from experiments.claims.ledger import verify_all

    if unknown := [i for i in options.ids if i not in LEDGER]:
        raise UserError(f"unknown ledger entry {unknown[0]!r}; there are {', '.join(LEDGER)}")
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


def _report(options: argparse.Namespace) -> int:
    from experiments.report import write_report

    print(f"report: {write_report(options.out)}")
    return 0


def _bench(options: argparse.Namespace) -> int:
    cores = os.cpu_count() or 1
    if not 1 <= options.threads <= cores:
        raise UserError(f"--threads must be from 1 to {cores}, the number of cores, got {options.threads}")
    from experiments.bench import run_benchmarks

    results = run_benchmarks(options.threads)
    if options.json:
        print(json.dumps(results, indent=1))
    else:
        from experiments.bench import print_results

        print_results(results)
    return int(not all(result["same_answer"] for result in results["benchmarks"]))
