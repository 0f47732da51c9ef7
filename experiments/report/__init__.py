"""The one-page report: figures first, then what was predicted and measured, the ledger's verdicts, and provenance."""

from __future__ import annotations

import base64
import io
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from experiments import catalogue
from experiments.experiment.execution import conclusions, latest_runs, summary
from experiments.store.folders import Json, RunFolder, UserError
from experiments.store.provenance import provenance
from experiments.store.sources import source_digest
from experiments.training.comparing import known_as, own_places
from experiments.training.tuning import untuned
from experiments.verdicts import words
from experiments.verdicts.checks import by_quantity, worst
from icl.files import write_atomically

if TYPE_CHECKING:
    from experiments.ledger.verify import Verification


def write_report(out: Path, verified: Sequence[Verification] | None = None) -> Path:
    """Write out/report.html from the newest finished run of every experiment below `out`, on variants of a user's own
    too, and the claims ledger.

    verified: what became of the entries; by default what is remembered of them, and where nothing is, the page says so.
    One self-contained file.  Raises UserError if there is no finished run.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    from experiments.ledger.verify import recollections

    ledger = catalogue.claims()
    runs = latest_runs(out, [place for name in catalogue.names() for place in (name, *own_places(out, name))])
    if not runs:
        raise UserError(f"no finished run below {out}; make one with `crosslayer run --all --out {out}`")
    path = out / "report.html"
    if not os.access(out, os.W_OK):
        raise UserError(f"cannot write {path}")
    environment = Environment(
        loader=PackageLoader("experiments", "report"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    page = environment.get_template("page.html.j2").render(
        runs=[_described(run) for run in runs],
        verifications=recollections(ledger.values(), ledger) if verified is None else verified,
        words=words,
        here=provenance("cpu", __name__),
    )
    write_atomically(path, page)
    return path


def _described(run: RunFolder) -> Json:
    """A run's summary with its figure, its conclusions, and the digest that its experiment's source has by now."""
    saved = summary(run)
    experiment = catalogue.experiment(known_as(saved["experiment"]))
    checks, profile = conclusions(experiment, run, saved), experiment.profiles.get(saved["profile"])
    return {
        **saved,
        "title": experiment.title if experiment.name == saved["experiment"] else saved["title"],
        "decides": profile.decides if profile else f"detects {saved['detects']}",
        "verdict": worst(checks),
        "quantities": by_quantity(checks),
        "untuned": untuned(run.read("measurement.json")),
        "by_slack_alone": any(check.by_slack_alone for check in checks),
        "figure": _inline(run / "figure.png"),
        "source_now": source_digest(type(experiment).__module__),
    }


def _inline(path: Path) -> str:
    from PIL import Image

    if not path.exists():
        raise UserError(f"{path} is missing; run the experiment again to draw it")
    content = path.read_bytes()
    try:
        Image.open(io.BytesIO(content), formats=["PNG"]).verify()
    except (OSError, SyntaxError, ValueError) as error:
        raise UserError(f"{path} is damaged; delete it and run the experiment again to draw it") from error
    return base64.b64encode(content).decode()
