"""The output of `run` and `compare` for a finished run."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Union

if TYPE_CHECKING:
    from rich.console import Console as RichConsole

    from experiments.store.folders import Json
    from experiments.verdicts.checks import Judgement

COLUMNS = ("check", "points", "predicted", "slack", "measured", "verdict")
MODEL_COLUMNS = ("model", "parameters", "cache, bytes per token", "FLOPs per token", "held-out loss")
LAST_COLUMNS = ("model", "after all pairs", "its toy", "minus the first's", "toy's minus the first's")
LOG_WIDTH = 1000  # columns of what is no terminal, and has no edge to wrap at


def sizes_trained(config: dict[str, Any]) -> str:
    """Return the sizes of the models that a run trained, as far as its configuration names them as most do."""
    every = {**config.get("architecture", {}), **config}
    names = ("d_model", "widths", "n_layers", "layers", "vocab", "context")
    sizes = {name: every[name] for name in names if name in every}
    return ", ".join(f"{name} {' '.join(map(str, x)) if isinstance(x, list) else x}" for name, x in sizes.items())


def print_unfinished(stop: Exception) -> None:
    """Print that an experiment's time is up, and that nothing is lost."""
    print(f"crosslayer: time is up: {stop}; the same command resumes from here", file=sys.stderr)


def print_power(saved: Json, checks: Sequence[Judgement]) -> None:
    """Print how long a run trained on text, and what its seeds could detect, beside what its profile promises."""
    from experiments.training import text
    from experiments.verdicts.checks import detected

    if words := text.in_words(saved["config"]):
        print(f"  trained on: {words}")
    if saved["detects"] and (power := detected(checks)):
        print(f"  detects: {power.words}; promised: {saved['detects']}")


def print_sentences(checks: Sequence[Judgement]) -> None:
    """Print the question and the outcome, one line per group; under its name where others ask in the same words."""
    from experiments.verdicts.checks import by_quantity
    from experiments.verdicts.words import SLACK_ALONE, sentence

    groups = [
        (name, members[0], len(members)) for named in by_quantity(checks).values() for name, members in named.items()
    ]
    statements = Counter(first.statement for _, first, _ in groups)
    for name, first, count in groups:
        place = f"{name}: " if statements[first.statement] > 1 else ""
        print(f"  {place}{sentence(first)}{f'; the worst of {count}' * (count > 1)}")
    if any(check.by_slack_alone for check in checks):
        print(f"  {SLACK_ALONE}")


def print_table(title: str, rows: Sequence[Sequence[str]], legend: Mapping[str, str]) -> None:
    """Print an experiment's own table, and what its words mean."""
    head, *others = rows
    console = terminal()
    print_rows(console, title, head, rows=others)
    console.print("\n".join(f"{word}: {meaning}" for word, meaning in legend.items()), style="dim", highlight=False)


def print_checks(title: str, checks: Sequence[Judgement]) -> None:
    """Print one line per group, with the numbers of its tightest check, under the quantity that they measure."""
    from experiments.verdicts import words
    from experiments.verdicts.checks import by_quantity

    if not checks:
        print(f"{title}\nnothing was compared: inconclusive")
        return
    rows = []
    for quantity, groups in by_quantity(checks).items():
        if quantity:
            rows.append((f"{quantity}:", *[""] * (len(COLUMNS) - 1)))
        for name, members in groups.items():
            numbers = (tell(members[0]) for tell in (words.predicted, words.slack, words.measured))
            label = f"  {name}" if quantity else name
            rows.append((label, str(len(members)), *numbers, words.verdict_of_group(members)))
    console = terminal()
    print_rows(console, title, COLUMNS, rows=rows)
    legend = "Each line shows the point that uses most of its tolerance; summary.json holds them all."
    if any(check.by_slack_alone for check in checks):
        legend += f"\n{words.SLACK_ALONE}"
    console.print(legend, style="dim")


def print_side_by_side(comparison: dict[str, Any]) -> None:
    """Print models in lines: costs over the first's, and losses minus the first's."""
    rows = []
    for number, model in enumerate(comparison["models"], 1):
        over = model["over_first"]
        rows.append(
            (
                f"{number} {model['name']}",
                f"{model['parameters']:,} {_times(over['parameters'])}",
                f"{model['cache_bytes_per_token']:,} {_times(over['cache_bytes_per_token'])}",
                f"{model['flops_per_token']:.4g} {_times(over['flops_per_token'])}",
                _loss(model),
            )
        )
    console = terminal()
    print_rows(console, "", MODEL_COLUMNS, rows=rows)
    console.print(
        "x: over the first one's.  Caches in bf16; forward FLOPs of a token that attends over "
        f"{comparison['context']:,}.\n"
        "Losses of trainings: means over all answers on the first one's held-out data, and those minus its own.\n"
        "One seed of each decides nothing about a variant: train several seeds of each, or let "
        "`crosslayer run bridge --variant ...` compare seeds on recall.",
        style="dim",
        highlight=False,
    )
    _print_last(comparison["models"])
    for number, model in enumerate(comparison["models"], 1):
        same = comparison["models"][model["plan_of"] - 1]
        if same["name"] != model["name"] and {same["kind"], model["kind"]} == {"trained"}:
            print(f"{number} has the plan of {model['plan_of']}: with so many layers and heads they are one variant")
    for number, model in enumerate(comparison["models"], 1):
        trained = "" if model["steps"] is None else f" for {model['steps']:,} steps, seed {model['seed']}"
        print(f"{number}: {model['kind']}{trained}, {model['place']}")


def _print_last(models: Sequence[dict[str, Any]]) -> None:
    """Print the losses of regression after all pairs beside the toy's, and those minus the first's."""
    shown = [(number, model, model["last"]) for number, model in enumerate(models, 1) if model["last"]]
    if not shown:
        return
    first, rows = shown[0][2], []
    for number, model, last in shown:
        toys = [(one["others"] or {}).get("toy") for one in (last, first)]
        toy = "none known" if toys[0] is None else f"{toys[0]['loss']:.4f}"
        pairs = [(last["loss"], first["loss"])]
        if toys[0] is not None and toys[1] is not None:
            pairs.append((toys[0]["loss"], toys[1]["loss"]))
        differences = [f"{own - other:+.4f}" for own, other in pairs] if last is not first else []
        row = [f"{number} {model['name']}", f"{last['loss']:.4f}", toy, *differences]
        rows.append(tuple(row + [""] * (5 - len(row))))
    print_rows(terminal(), "", LAST_COLUMNS, rows=rows)
    print(f"After n = {first['pairs']:,} pairs, squared units of y; the toy: two layers of linear attention.")
    if first["others"] is not None:
        print(f"There predicting zero loses {first['others']['zero']:.4f}; a model near that has not learned the task.")


class Plain:
    """The console where rich is not installed, as on a rented machine: text as it is."""

    def print(self, text: str, **_: object) -> None:
        """Print text, whatever its style."""
        print(text)


Console = Union["RichConsole", Plain]


def terminal() -> Console:
    """Return where tables are printed; a log file has no edge to wrap at."""
    try:
        from rich.console import Console
    except ImportError:
        return Plain()
    console = Console()
    return console if console.is_terminal else Console(width=LOG_WIDTH)


def print_rows(console: Console, title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows as a table, or where the console is too narrow for it, each row as a label and a line of values.

    Args:
        console: where.
        title: of the table; empty: none.
        columns: names of the columns, of which the first, verdicts and reasons are words.
        rows: cells of each row; a row with a label alone is a heading.
    """
    if isinstance(console, Plain):
        _print_plain(title, columns, rows=rows)
        return
    from rich.measure import Measurement
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title or None, title_justify="left", box=None, pad_edge=False)
    for column in columns:
        words = column in (columns[0], "verdict", "because")
        table.add_column(column, justify="left" if words else "right", no_wrap=True)
    for row in rows:
        heading = not any(row[1:])
        table.add_row(*(Text(cell, style="italic" if heading else "") for cell in row))
    if Measurement.get(console, console.options.update(max_width=10**6), table).maximum <= console.width:
        console.print(table)
        return
    if title:
        console.print(Text(title, style="italic"))
    for label, *cells in rows:
        indent = len(label) - len(label.lstrip())
        values = ", ".join(_named(name, cell) for name, cell in zip(columns[1:], cells, strict=True) if cell)
        console.print(Padding(Text(label.strip(), style="" if values else "italic"), (0, 0, 0, indent)))
        if values:
            console.print(Padding(Text(values), (0, 0, 0, indent + 4)))


def _print_plain(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows in columns as wide as their longest cell."""
    every = [tuple(columns), *map(tuple, rows)]
    widths = [max(len(row[i]) for row in every) for i in range(len(columns))]
    for line in [*filter(None, [title]), *("  ".join(map(str.ljust, row, widths)).rstrip() for row in every)]:
        print(line)


def _named(column: str, cell: str) -> str:
    return cell if column == "verdict" else f"{column} {cell}"


def _times(ratio: float | None) -> str:
    return "" if ratio is None else f"(x {ratio:.3f})"


def _loss(model: dict[str, Any]) -> str:
    if model["loss"] is None:
        return "other data" if model["asked"] else "-"
    return f"{model['loss']:.4f} ({model['loss_less_first']:+.4f})"


def print_untuned(measurement: Json) -> None:
    from experiments.training.tuning import by_reason, untuned

    for why, arms in by_reason(untuned(measurement)).items():
        print(f"untuned, {why}: {'; '.join(arms)}")
