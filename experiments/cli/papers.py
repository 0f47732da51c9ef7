"""The papers, and what is checked of each: for people, as JSON and as the README's table."""

from __future__ import annotations

from collections import Counter
from typing import Any, get_args

from experiments import catalogue
from experiments.ledger.claim import Status
from theory.plans.papers import rooms
from theory.plans.variants import VARIANTS


def paper_rows() -> list[dict[str, Any]]:
    """Return a row for every paper, and last for what needs several: claims by verdict, experiments, variants."""
    rows: list[dict[str, Any]] = []
    for room in rooms():
        paper = room.paper
        about = {key: getattr(paper, key) for key in ("name", "title", "year", "reference")}
        variants = [name for name, variant in VARIANTS.items() if variant.paper == paper]
        rows.append({**about, **_checked(catalogue.package_beside(room)), "variants": variants})
    several = {"name": "several papers", "title": "", "year": None, "reference": ""}
    return [*rows, {**several, **_checked(catalogue.ACROSS), "variants": []}]


def _checked(package: str) -> dict[str, Any]:
    """Return the number of claims by verdict and the names of the experiments in a package."""
    verdicts = Counter(c.verdict for c in catalogue.claims().values() if c.module.startswith(f"{package}."))
    experiments = catalogue.all_experiments().items()
    return {
        "claims": {verdict: verdicts[verdict] for verdict in get_args(Status) if verdicts[verdict]},
        "experiments": [name for name, one in experiments if type(one).__module__.startswith(f"{package}.")],
    }


def print_papers(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        print(f"{row['name']} ({row['year']}): {row['title']}" if row["title"] else row["name"])
        for key in ("reference", "claims", "experiments", "variants"):
            if row[key]:
                print(f"  {key}: {_words(row[key])}")


def markdown(rows: list[dict[str, Any]]) -> str:
    """Return the README's table, of the papers that the project is about."""
    lines = ["| paper | claims | experiments | variants |", "|---|---|---|---:|"]
    further = {room.paper.name for room in rooms() if room.paper.further}
    for row in (row for row in rows if row["name"] not in further):
        name = f"[{row['name']}]({row['reference']}), {row['year']}" if row["reference"] else row["name"]
        experiments = ", ".join(f"`{experiment}`" for experiment in row["experiments"])
        lines.append(f"| {name} | {_words(row['claims'])} | {experiments} | {len(row['variants']) or ''} |")
    return "\n".join(lines)


def _words(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{count} {verdict}" for verdict, count in value.items())
    return value if isinstance(value, str) else ", ".join(value)
