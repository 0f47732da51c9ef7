"""What `run` and `compare` print of a finished run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from experiments.store.folders import RunFolder
    from experiments.verdicts.checks import Judgement


def sizes_trained(config: dict[str, Any]) -> str:
    """Of the models that a run trained, as far as its configuration names them as most do."""
    every = {**config.get("architecture", {}), **config}
    names = ("d_model", "widths", "n_layers", "layers", "depths", "vocab", "context")
    told = {name: every[name] for name in names if name in every}
    if "depths" in told:
        told.pop("n_layers", None)
    return ", ".join(f"{name} {' '.join(map(str, x)) if isinstance(x, list) else x}" for name, x in told.items())


def print_sentences(checks: Sequence[Judgement]) -> None:
    """What was asked and what came out, a line a group; under its name where others ask in the same words."""
    from experiments.verdicts.checks import by_quantity
    from experiments.verdicts.words import sentence

    groups = [(name, of[0], len(of)) for named in by_quantity(checks).values() for name, of in named.items()]
    asked = Counter(first.statement for _, first, _ in groups)
    for name, first, count in groups:
        place = f"{name}: " if asked[first.statement] > 1 else ""
        print(f"  {place}{sentence(first)}{f'; the worst of {count}' * (count > 1)}")


def print_checks(title: str, checks: Sequence[Judgement]) -> None:
    """One line a group, with the numbers of its tightest check, under the quantity that they are of."""
    from rich.console import Console
    from rich.table import Table

    from experiments.verdicts import words
    from experiments.verdicts.checks import by_quantity

    if not checks:
        print(f"{title}\nnothing was compared: inconclusive")
        return
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    table.add_column("check")
    for name in ("points", "predicted", "slack", "measured"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("verdict")
    for quantity, groups in by_quantity(checks).items():
        if quantity:
            table.add_row(f"[italic]{quantity}:[/italic]")
        for name, members in groups.items():
            numbers = (tell(members[0]) for tell in (words.predicted, words.slack, words.measured))
            table.add_row(
                f"  {name}" if quantity else name, str(len(members)), *numbers, words.verdict_of_group(members)
            )
    console = Console()
    if not console.is_terminal:
        console = Console(width=140)  # a log file has no edge to wrap at
    console.print(table)
    legend = "Each line shows the point that uses most of its tolerance; summary.json holds them all."
    if any(check.by_slack_alone for check in checks):
        legend += f"\n{words.SLACK_ALONE}"
    console.print(legend, style="dim")


def print_untuned(run: RunFolder) -> None:
    from experiments.training.tuning import untuned

    for arm, why in untuned(run.read("measurement.json")).items():
        print(f"untuned: {arm}: {why}")
