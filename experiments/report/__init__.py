"""The one-page report: figures first, then what was predicted and measured, the ledger's verdicts, and provenance."""

from __future__ import annotations

import base64
import os
from pathlib import Path

from experiments import catalogue
from experiments.experiment.execution import latest_runs
from experiments.store.folders import Json, RunFolder, UserError, write_atomically
from experiments.store.provenance import provenance
from experiments.store.sources import source_digest
from experiments.training.campaign import untuned
from experiments.verdicts.checks import by_group, judgement


def write_report(out: Path) -> Path:
    """Write out/report.html from the newest finished run of every experiment below `out`, and a fresh `verify`.

    One self-contained file.  Raises UserError if there is no finished run.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    from experiments.ledger.verify import verifications

    ledger = catalogue.claims()
    runs = latest_runs(out, catalogue.names())
    if not runs:
        raise UserError(f"no finished run below {out}; make one with `crosslayer run --all --out {out}`")
    path = out / "report.html"
    if not os.access(out, os.W_OK):
        raise UserError(f"cannot write {path}")
    summaries = [_summary(run) for run in runs]
    environment = Environment(
        loader=PackageLoader("experiments", "report"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    page = environment.get_template("page.html.j2").render(
        runs=[{**s, "groups": by_group([judgement(c) for c in s["checks"]])} for s in summaries],
        verifications=verifications(ledger.values(), ledger),
        here=provenance("cpu", __name__),
    )
    write_atomically(path, page)
    return path


def _summary(run: RunFolder) -> Json:
    """A run's summary with its figure, and the digest that the source of its experiment has by now."""
    summary, short = run.read("summary.json"), untuned(run.read("measurement.json"))
    module = type(catalogue.experiment(summary["experiment"])).__module__
    return {**summary, "untuned": short, "figure": _inline(run / "figure.png"), "source_now": source_digest(module)}


def _inline(path: Path) -> str:
    if not path.exists():
        raise UserError(f"{path} is missing; run the experiment again to draw it")
    return base64.b64encode(path.read_bytes()).decode()
