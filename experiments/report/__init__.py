"""The one-page report: figures first, then what was predicted and measured, the ledger's verdicts, and provenance."""

from __future__ import annotations

import base64
import os
from pathlib import Path

from experiments import catalogue
from experiments.experiment.execution import latest_runs
from experiments.store.folders import UserError, write_atomically
from experiments.store.provenance import provenance
from experiments.verdicts.checks import by_group, judgement


def write_report(out: Path) -> Path:
    """Write out/report.html from the newest finished run of every experiment below `out`, and a fresh `verify`.

    One self-contained file.  Raises UserError if there is no finished run.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    from experiments.claims import LEDGER
    from experiments.claims.ledger import verify_all

    runs = latest_runs(out, catalogue.names())
    if not runs:
        raise UserError(f"no finished run below {out}; make one with `crosslayer run --all --out {out}`")
    path = out / "report.html"
    if not os.access(out, os.W_OK):
        raise UserError(f"cannot write {path}")
    summaries = [{**run.read("summary.json"), "figure": _inline(run / "figure.png")} for run in runs]
    environment = Environment(
        loader=PackageLoader("experiments", "report"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    page = environment.get_template("page.html.j2").render(
        runs=[{**s, "groups": by_group([judgement(c) for c in s["checks"]])} for s in summaries],
        verifications=verify_all(LEDGER.values()),
        here=provenance("cpu", __name__),
    )
    write_atomically(path, page)
    return path


def _inline(path: Path) -> str:
    if not path.exists():
        raise UserError(f"{path} is missing; run the experiment again to draw it")
    return base64.b64encode(path.read_bytes()).decode()
