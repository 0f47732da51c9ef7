"""A report on one claim, for people and as JSON: text, proof, premises, checks, experiments, figures, variants."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from experiments import catalogue
from experiments.experiment.execution import committed_results, conclusions, latest_runs, summary
from experiments.experiment.protocol import figures
from experiments.ledger.claim import Claim
from experiments.ledger.variants import variants
from experiments.ledger.verify import Verification, premises
from experiments.store.folders import RunFolder
from experiments.verdicts import words
from experiments.verdicts.checks import worst

WIDTH = 100


def description(v: Verification, out: Path) -> dict[str, Any]:
    """Return `crosslayer verify --json` of the entry, and what is known beside its own text.

    proof     file and line; None: its checks are the proof
    premises  near and far
    rests_on_it  entries that use it
    found     what the newest finished runs of its experiments, below `out` or among the committed results, say of it
    figures   of these runs, with their captions
    variants  those that its checks build
    """
    claim, ledger = v.claim, catalogue.claims()
    experiments = catalogue.experiments_on(claim.id)
    runs = [latest_runs(out, [name]) or latest_runs(committed_results(), [name]) for name in experiments]
    return {
        **verification_json(v),
        "module": claim.module,
        "proof": _place(claim.proof) if claim.proof is not None else None,
        "premises": list(premises(claim, ledger)),
        "rests_on_it": [other.id for other in ledger.values() if claim.id in other.uses],
        "runs": [str(run.path) for group in runs for run in group],
        "found": [result for group in runs for run in group if (result := _found(claim, run))],
        "figures": dict(figure for group in runs for run in group for figure in _figures(run)),
        "variants": variants(claim),
    }


def _figures(run: RunFolder) -> Iterator[tuple[str, str]]:
    """Yield path and caption of every figure of a run."""
    for name, caption in figures(catalogue.experiment(summary(run)["experiment"])).items():
        if run.has(f"{name}.png"):
            yield str(run / f"{name}.png"), caption


def _found(claim: Claim, run: RunFolder) -> dict[str, Any] | None:
    """Return how many checks of a run bear on a claim, with the worst of their verdicts; None if none does."""
    saved = summary(run)
    experiment = catalogue.experiment(saved["experiment"])
    numbers = run.read("prediction.json"), run.read("measurement.json")
    checks = [check for check in conclusions(experiment, saved, *numbers) if check.claim == claim.id]
    about = {"experiment": experiment.name, "profile": saved["profile"], "checks": len(checks)}
    return {**about, "verdict": worst(checks)} if checks else None


def verification_json(v: Verification) -> dict[str, Any]:
    """Return an entry with the outcome of its checks."""
    fields = ("id", "paper", "place", "statement", "assumes", "verdict", "correction")
    checks = [
        {**asdict(outcome), "ok": outcome.ok, "control": evidence.wrong}
        for outcome, evidence in zip(v.outcomes, v.claim.evidence, strict=True)
    ]
    return {
        **{f: getattr(v.claim, f) for f in fields},
        "uses": list(v.claim.uses),
        "experiments": catalogue.experiments_on(v.claim.id),
        "stands": v.stands,
        "fallen": list(v.fallen),
        "seconds": round(v.seconds, 2),
        "remembered": v.remembered,
        "checks": checks,
    }


def _place(proof: Any) -> str:
    """Return the place of an object in the source, as path:line, relative to the working directory if it is below."""
    if not inspect.ismodule(proof):
        proof = inspect.unwrap(proof)
    line = 1 if inspect.ismodule(proof) else inspect.getsourcelines(proof)[1]
    path = Path(inspect.getsourcefile(proof) or "")
    return f"{path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path}:{line}"


def print_description(about: dict[str, Any]) -> None:
    print(f"{about['id']}: {about['verdict']}{'' if about['stands'] else ', BUT IT HAS FALLEN'}")
    print(f"{about['paper']}; {about['place']}\n")
    label = "true is" if about["verdict"] in ("corrected", "refuted") else "remark"
    for name, text in (("claims", "statement"), ("assumes", "assumes"), (label, "correction")):
        if about[text]:
            _print(name, about[text])
    _print("proof", about["proof"] or "its checks")
    for name in ("premises", "rests_on_it", "experiments", "variants"):
        if about[name]:
            _print(name.replace("_", " "), ", ".join(about[name]))
    for path, caption in about["figures"].items():
        _print("figure", f"{path}: {caption}")
    for result in about["found"]:
        verdict = words.verdict(result["verdict"])
        _print(
            "found",
            f"{result['experiment']}, profile {result['profile']}: {verdict}, the worst of {result['checks']} checks",
        )
    when = "unchanged since they were run" if about["remembered"] else f"run in {about['seconds']:.1f} s"
    print(f"\nchecks, {when}; in brackets, what each rejects:")
    for check in about["checks"]:
        failed = check["error"] or ("does not hold" if not check["holds"] else "does not reject its control")
        what = f"{check['what']} [{check['control']}]"
        print(f"  ok   {what}" if check["ok"] else f"  FAIL {what}: {failed}")
    print("".join(f"  FAIL it rests on {name}, which has fallen\n" for name in about["fallen"]), end="")


def _print(name: str, text: str) -> None:
    """Print a label, and the text beside it."""
    lines = textwrap.wrap(text, WIDTH - 13, break_on_hyphens=False, break_long_words=False)
    print(f"{name:12} " + f"\n{'':13}".join(lines))
