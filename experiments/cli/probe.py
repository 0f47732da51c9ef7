"""The command `probe`.  It takes the parsed options and returns the exit status."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from experiments.cli import choices
from experiments.cli.commands import Commands
from experiments.training.layer_probes import FAMILIES

if TYPE_CHECKING:
    from experiments.commands.probing import Probed


def add_to(commands: Commands) -> None:
    """Add the command `probe`."""
    command = commands.add(
        "probe",
        probe,
        "measure and draw what the layers of trained models do, on text or prompts that they have not seen; "
        "also of imported models and of published weights (config.json and safetensors, as transformers writes them)",
        "crosslayer probe runs/train/llama-2m-* --what entropy,norms,lens",
        resumes=True,
    )
    choices.add_options(command)
    command.add_argument("--what", help=f"some of {', '.join(FAMILIES)} (default: all that the runs can be asked)")


def probe(options: argparse.Namespace) -> int:
    from experiments.commands import probing

    what = None if options.what is None else [name.strip() for name in options.what.split(",")]
    probed = probing.probe(options.runs, what, choices=choices.choices(options), device=options.device, out=options.out)
    return _report(probed, options.json)


def _report(probed: Probed, as_json: bool) -> int:
    from experiments.commands.layer_figures import looks, panels_of, series

    if as_json:
        print(json.dumps({"folder": str(probed.folder), **probed.record}, indent=1))
        return 0
    runs = probed.record["runs"]
    labels = [look["label"] for look in looks(runs)]
    width = max(map(len, labels))
    for label, run in zip(labels, runs, strict=True):
        print(f"{label}: {run['sequences']:,} sequences, {run['tokens']:,} tokens of {run['data']}; {run['folder']}")
    for family, results in probed.record["families"].items():
        for panel in panels_of(family, probed.record):
            if not panel.by_layer:
                continue
            unit = panel.y.replace("$", "")  # which stand around mathematics in a figure
            print(f"{family}: {panel.title[0].lower()}{panel.title[1:]}, {unit}, by {panel.x}")
            shown = [series(panel, result) for result in results]
            places = sorted({x for one in shown if one for x in one.x})
            for label, one in zip(labels, shown, strict=True):
                values = dict(zip(one.x, one.values, strict=True)) if one else {}
                print(f"  {label:{width}}  {'  '.join(_number(values.get(x)) for x in places)}")
    print(f"figures and numbers: {probed.folder}")
    return 0


def _number(value: float | None) -> str:
    return f"{'-' if value is None else format(value, '.4g'):>9}"
