"""The commands about one plan or model.  Each takes the parsed options and returns the exit status."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from experiments.cli.commands import Commands, check_figure, whole_number
from experiments.store.folders import UserError
from icl.files import write_atomically

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
        from experiments.training.model_folders import one_model

        model_folder = one_model(Path(options.preset), options.variant)
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


def variants(options: argparse.Namespace) -> int:
    from experiments.cli.describe import markdown, print_variants, variant_rows

    return _table(options, "variants", variant_rows(options.preset), print_rows=print_variants, markdown=markdown)


def papers(options: argparse.Namespace) -> int:
    from experiments.cli.papers import markdown, paper_rows, print_papers

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
