"""The command `probe`.  It takes the parsed options and returns the exit status."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.cli.commands import OUT, Commands, whole_from
from experiments.training.layer_probes import FAMILIES

if TYPE_CHECKING:
    from experiments.training.probing import Probed


def add_to(commands: Commands) -> None:
    """probe."""
    command = commands.add(
        "probe",
        probe,
        "measure and draw what the layers of trained models do, on text or prompts that they have not seen; "
        "also of published LLaMA and Mistral weights (config.json and safetensors, as transformers writes them)",
        "crosslayer probe runs/train/llama-2m-* --what entropy,norms,lens",
        resumes=True,
    )
    command.add_argument(
        "runs", nargs="+", type=Path, metavar="RUN", help="folder of a finished training, or of published weights"
    )
    command.add_argument("--what", help=f"some of {', '.join(FAMILIES)} (default: all that the runs can be asked)")
    command.add_argument("--tokens", type=whole_from(1), help="tokens looked at, in whole sequences (default: 16,384)")
    command.add_argument("--batch", type=whole_from(1), help="sequences at a time (default: about 4,096 tokens)")
    command.add_argument(
        "--context",
        type=whole_from(2),
        help="tokens a sequence of text (default: a training's own; of published weights 512, or theirs if less)",
    )
    command.add_argument("--data", metavar="FOLDER", help="where the runs' text lies now (default: where it lay)")
    command.add_argument(
        "--text",
        metavar="SOURCE",
        help="for published weights, read by the tokenizer.json beside them: stdlib (the default), a file or folder, "
        "hf:NAME; or random: tokens drawn at random (the default where there is no tokenizer.json)",
    )
    command.add_argument("--variant", help="what published weights are of, such as resformer (default: vanilla)")
    command.add_argument("--device", default="auto", help="auto (the default), cpu or cuda")
    command.add_argument("--out", type=Path, default=OUT, help="where run folders go (default: runs)")


def probe(options: argparse.Namespace) -> int:
    from experiments.training import probing
    from experiments.training.by_layer import TOKENS, Sample
    from experiments.training.subjects import Asked

    what = None if options.what is None else [name.strip() for name in options.what.split(",")]
    asked = Asked(
        Sample(options.tokens or TOKENS, options.batch or 0),
        data=options.data,
        context=options.context,
        text=options.text,
        variant=options.variant,
    )
    found = probing.probe(options.runs, what, asked=asked, device=options.device, out=options.out)
    return _report(found, options.json)


def _report(found: Probed, as_json: bool) -> int:
    from experiments.training.layer_figures import looks, panels_of, series

    if as_json:
        print(json.dumps({"folder": str(found.folder), **found.record}, indent=1))
        return 0
    runs = found.record["runs"]
    labels = [look["label"] for look in looks(runs)]
    width = max(map(len, labels))
    for label, run in zip(labels, runs, strict=True):
        print(f"{label}: {run['sequences']:,} sequences, {run['tokens']:,} tokens of {run['data']}; {run['folder']}")
    for family, results in found.record["families"].items():
        for panel in panels_of(family, found.record):
            if not panel.by_layer:
                continue
            unit = panel.y.replace("$", "")  # which stand around mathematics in a figure
            print(f"{family}: {panel.title[0].lower()}{panel.title[1:]}, {unit}, by {panel.x}")
            shown = [series(panel, result) for result in results]
            places = sorted({x for one in shown if one for x in one.x})
            for label, one in zip(labels, shown, strict=True):
                values = dict(zip(one.x, one.values, strict=True)) if one else {}
                print(f"  {label:{width}}  {'  '.join(_number(values.get(x)) for x in places)}")
    print(f"figures and numbers: {found.folder}")
    return 0


def _number(value: float | None) -> str:
    return f"{'-' if value is None else format(value, '.4g'):>9}"
