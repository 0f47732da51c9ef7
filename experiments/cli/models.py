"""The commands about plans, models and papers.  Each takes the parsed options and returns the exit status."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from experiments import catalogue
from experiments.cli.commands import Commands, check_figure, whole_number
from experiments.ledger.claim import Status
from experiments.store.folders import UserError
from icl.files import write_atomically
from theory.plans.papers import rooms
from theory.plans.variants import VARIANTS

if TYPE_CHECKING:
    from experiments.training.model_folders import ModelFolder

Rows = list[dict[str, Any]]


def add_to(commands: Commands) -> None:
    """Add the commands `describe`, `variants` and `papers`."""
    command = commands.add(
        "describe",
        describe,
        "say what a model costs and draw its plan",
        "crosslayer describe llama-350m --variant skipv1+gqa:group=4 --figure plan.svg",
    )
    command.add_argument(
        "preset",
        help="a model of the papers, see `crosslayer list presets`; or the folder of a trained or published model",
    )
    command.add_argument(
        "--variant", help="names joined by +, options after a colon, or FILE.py:name (default: the preset's own)"
    )
    command.add_argument("--dtype", default="bf16", help="of the cache: bf16 (the default), fp32, fp16, fp8 or int8")
    command.add_argument("--context", type=whole_number, help="tokens attended over (default: the preset's context)")
    command.add_argument("--figure", type=Path, help="draw the plan's maps into this .svg, .png or .pdf")

    command = commands.add(
        "variants",
        variants,
        "list the variants: paper, what each changes, parameters and cache against vanilla",
        "crosslayer variants --preset llama-130m",
    )
    command.add_argument("--preset", default="llama-130m", help="whose sizes the costs are for (default: llama-130m)")
    _add_table_options(command)

    command = commands.add(
        "papers",
        papers,
        "list the papers: where each is to be had, its claims by verdict, its experiments and variants",
        "crosslayer papers",
    )
    _add_table_options(command)


def _add_table_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("--markdown", action="store_true", help="print the table in Markdown")
    command.add_argument("--into", type=Path, metavar="FILE", help="write that table between its marks in this file")


def describe(options: argparse.Namespace) -> int:
    from experiments.cli.describe import BYTES, description, print_description
    from experiments.training.user_files import model
    from theory.plans.presets import PRESETS
    from theory.plans.suggestions import unknown

    if options.dtype not in BYTES:
        raise UserError(unknown("dtype", options.dtype, BYTES))
    if options.context is not None and options.context < 1:
        raise UserError(f"--context must be at least 1, got {options.context}")
    if options.figure is not None:
        check_figure(options.figure)
    if Path(options.preset).is_dir():
        model_folder = _described(Path(options.preset), options.variant)
        config, plan, variant = model_folder.architecture, model_folder.plan, model_folder.name
    else:
        config, plan = model(options.preset, options.variant)
        variant = PRESETS[options.preset].variant if options.variant is None else options.variant
    about = description(options.preset, variant, config, plan=plan, dtype=options.dtype, context=options.context)
    if options.json:
        print(json.dumps(about, indent=1))
    else:
        print_description(about, plan)
    if options.figure is not None:
        from experiments.drawing import style
        from experiments.drawing.plans import draw

        with style.drawing():
            style.save_as(draw(config, plan, f"{options.preset} under {variant}"), options.figure)
        if not options.json:
            print(f"figure: {options.figure}")
    return 0


def _described(folder: Path, variant: str | None) -> ModelFolder:
    """Return the model in a folder; of a vanilla one, with a variant, the model that it would be converted to."""
    from experiments.training import user_files
    from experiments.training.model_folders import model_folder, one_model
    from theory.errors import BadInput
    from theory.plans.names import resolve

    if variant is None:
        return one_model(folder, None)
    try:
        found = model_folder(folder)
    except (UserError, BadInput):  # weights of a variant that their folder does not say
        return one_model(folder, variant)
    if found.plan != resolve("vanilla", found.architecture.shape):
        return one_model(folder, variant)
    plan = user_files.fitting(variant, found.architecture)
    return replace(found, name=f"{found.name} as {variant}", plan=plan)


def variants(options: argparse.Namespace) -> int:
    from experiments.cli.describe import markdown, print_variants, variant_rows

    return _table(options, "variants", variant_rows(options.preset), print_rows=print_variants, markdown=markdown)


def papers(options: argparse.Namespace) -> int:
    from experiments.cli.models import markdown, paper_rows, print_papers

    return _table(options, "papers", paper_rows(), print_rows=print_papers, markdown=markdown)


def _table(
    options: argparse.Namespace,
    name: str,
    rows: Rows,
    print_rows: Callable[[Rows], None],
    markdown: Callable[[Rows], str],
) -> int:
    """Print rows in the form that the options ask for, or write them where the table of that name stands."""
    if options.json + options.markdown + (options.into is not None) > 1:
        raise UserError("choose --json, --markdown or --into")
    if options.into is not None:
        _replace(options.into, name, markdown(rows))
    elif options.json:
        print(json.dumps(rows, indent=1))
    elif options.markdown:
        print(markdown(rows))
    else:
        print_rows(rows)
    return 0


def _replace(path: Path, name: str, table: str) -> None:
    """Put a table between `<!-- name -->` and `<!-- end of name -->`.  Raises UserError for a file without these."""
    begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
    before, _, rest = path.read_text(encoding="utf-8", errors="surrogateescape").partition(begin)
    _, closed, after = rest.partition(end)
    if not closed:
        raise UserError(f"{path} has no lines {begin.strip()} and {end}, between which the table belongs")
    write_atomically(path, f"{before}{begin}{table}\n{end}{after}".encode(errors="surrogateescape"))


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
