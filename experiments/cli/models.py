"""What the commands do that speak of one plan or model.  Each takes the parsed options and returns the exit status."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from experiments.cli.commands import Commands, number, whole_number
from experiments.store.folders import UserError, write_atomically

FIGURES = (".svg", ".png", ".pdf")
Rows = list[dict[str, Any]]


def add_to(commands: Commands) -> None:
    """predict, describe, variants, papers."""
    command = commands.add(
        "predict",
        predict,
        "print the lowest loss that a two-layer plan's toy can reach",
        "crosslayer predict skipv1 --d 3 --n 8 --sigma 0.3 --rank 2 --json",
    )
    command.add_argument("plan", help="a variant of two layers (see `crosslayer variants`), or FILE.py:name")
    command.add_argument("--d", type=whole_number, required=True, help="width of x and y")
    command.add_argument("--n", type=whole_number, required=True, help="context pairs")
    command.add_argument("--sigma", type=number, required=True, help="standard deviation of the noise")
    command.add_argument("--rank", type=whole_number, help="rank a of the compression (default: d // 2, MHA's best)")
    command.add_argument("--heads", type=whole_number, default=2, help="heads of the second layer (default: 2)")
    command.add_argument("--paper-bound", action="store_true", help="also estimate the paper's own bound")

    command = commands.add(
        "describe",
        describe,
        "say what a model costs and draw its plan",
        "crosslayer describe llama-350m --variant skipv1+gqa:group=4 --figure plan.svg",
    )
    command.add_argument("preset", help="a model of the papers; an unknown name lists them")
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
    command.add_argument("--markdown", action="store_true", help="print the README's table")
    command.add_argument("--into", type=Path, metavar="FILE", help="write that table between its marks in this file")


def predict(options: argparse.Namespace) -> int:
    from experiments.store.progress import progress
    from experiments.training.user_files import resolve
    from theory.errors import check_sizes
    from theory.plans.plan import Shape
    from theory.skipv1 import gap as skipv1
    from theory.toy.value_maps import STARTS, closed_form, optimum_by_descent

    check_sizes(options.d, options.n, options.sigma)
    rank = skipv1.best_mha_rank(options.d) if options.rank is None else options.rank
    task = (options.d, options.n, options.sigma, rank)
    reference = asdict(skipv1.loss_gap(*task))
    chosen = resolve(options.plan, Shape(2, options.heads))
    optimum = closed_form(chosen, *task)
    if optimum is None:
        with progress("minimising", STARTS) as at:
            at(0)
            optimum = optimum_by_descent(chosen, *task, after_start=lambda i, loss: at(i, f"loss {loss:.5g}"))
    result: dict[str, Any] = {"plan": options.plan, **asdict(optimum), **reference, "paper_bound": None}
    if options.paper_bound:
        result["paper_bound"] = asdict(skipv1.paper_bound(*task))
    if options.json:
        print(json.dumps(result))
    else:
        _print_prediction(result, f"d = {task[0]}, n = {task[1]}, sigma = {task[2]:g}, rank a = {rank}")
    return 0


def _print_prediction(result: dict[str, Any], task: str) -> None:
    reached = {True: "attained", False: "an infimum, not attained", None: "attained or not: not known"}
    how = result["method"]
    if result["starts"]:
        how += f", {result['agreeing']} of {result['starts']} descents ended here"
    print(f"The assumed-copy toy at {task}, W0 = 0:")
    print(f"  {result['loss']:12.6g}  lowest loss of {result['plan']} ({how}; {reached[result['attained']]})")
    words = {
        "mha": "loss of the best MHA at rank a (an infimum)",
        "skipv1": "loss of the best SkipV1Former at rank a",
        "gap": "gap between these two",
        "gap_to_optimum": "gap from this MHA to SkipV1Former's optimum (a = d)",
        "gap_of_optima": "gap between the optima over the rank",
        "rho": "share of each entry of W* that S_yx explains",
    }
    for key, text in words.items():
        print(f"  {result[key]:12.6g}  {text}")
    if bound := result["paper_bound"]:
        error = f" +- {bound['stderr']:.2g} (standard error)" if bound["stderr"] else ""
        print(f"  {bound['value']:12.6g}  the paper's bound on gap_to_optimum{error}; {bound['method']}")


def describe(options: argparse.Namespace) -> int:
    from experiments.cli.describe import BYTES, description, print_description
    from experiments.training.user_files import model
    from theory.plans.presets import PRESETS

    if options.dtype not in BYTES:
        raise UserError(f"unknown dtype {options.dtype!r}; there are {', '.join(BYTES)}")
    if options.context is not None and options.context < 1:
        raise UserError(f"--context must be at least 1, got {options.context}")
    if options.figure is not None and options.figure.suffix not in FIGURES:
        raise UserError(f"--figure must end in {', '.join(FIGURES)}, got {str(options.figure)!r}")
    if options.figure is not None and (options.figure.is_dir() or not options.figure.parent.is_dir()):
        where = f"{options.figure.parent}: no such" if not options.figure.is_dir() else f"{options.figure}: is a"
        raise UserError(f"{where} folder")
    config, plan = model(options.preset, options.variant)
    variant = PRESETS[options.preset].variant if options.variant is None else options.variant
    about = description(options.preset, variant, config, plan, options.dtype, options.context)
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

    return _table(options, "variants", variant_rows(options.preset), print_variants, markdown)


def papers(options: argparse.Namespace) -> int:
    from experiments.cli.papers import markdown, paper_rows, print_papers

    return _table(options, "papers", paper_rows(), print_papers, markdown)


def _table(
    options: argparse.Namespace,
    name: str,
    rows: Rows,
    print_rows: Callable[[Rows], None],
    markdown: Callable[[Rows], str],
) -> int:
    """Print rows as was asked for, or put them where the table of that name stands."""
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
    before, _, rest = path.read_text(errors="surrogateescape").partition(begin)
    _, closed, after = rest.partition(end)
    if not closed:
        raise UserError(f"{path} has no lines {begin.strip()} and {end}, between which the table belongs")
    write_atomically(path, f"{before}{begin}{table}\n{end}{after}".encode(errors="surrogateescape"))
