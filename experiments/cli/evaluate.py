"""The commands `evaluate` and `probe`: what trained models lose, and what their layers do, on data they have not seen.

Each takes the parsed options and returns the exit status.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.cli.commands import OUT, Commands, add_part, whole_from
from experiments.commands.prompt_losses import prompt_losses, reference_lines
from experiments.store.folders import Json, UserError
from experiments.training.layer_probes import FAMILIES

if TYPE_CHECKING:
    from experiments.commands.probing import Probed
    from experiments.commands.subjects import Choices


def add_to(commands: Commands) -> None:
    """Add the commands `evaluate` and `probe`."""
    command = commands.add(
        "evaluate",
        evaluate,
        "held-out losses of models, in all and by position: perplexity, bits per byte, what more context is worth",
        "crosslayer evaluate runs/train/llama-2m-* --tokens 65536",
        resumes=True,
    )
    _add_options(command)
    command.add_argument(
        "--tasks",
        metavar="NAME,NAME",
        help="instead of losses, tasks of lm-evaluation-harness (pip install -e '.[eval]'), such as arc_easy",
    )
    command.add_argument("--tasks-from", type=Path, metavar="FOLDER", help="more task files, as the harness reads them")
    command.add_argument(
        "--fewshot", type=whole_from(0), help="solved examples before a question (default: the task's)"
    )
    command.add_argument("--limit", type=whole_from(1), help="questions of a task (default: all)")

    command = commands.add(
        "probe",
        probe,
        "measure and draw what the layers of trained models do, on text or prompts that they have not seen; "
        "also of imported models and of published weights (config.json and safetensors, as transformers writes them)",
        "crosslayer probe runs/train/llama-2m-* --what entropy,norms,lens",
        resumes=True,
    )
    _add_options(command)
    command.add_argument(
        "--what",
        help=f"some of {', '.join(FAMILIES)} (default: all that have a meaning, but for those that take minutes)",
    )


def _add_options(command: argparse.ArgumentParser) -> None:
    """Add the options that say on which data models are looked at, and on how much of it."""
    command.add_argument(
        "runs",
        nargs="+",
        type=Path,
        metavar="RUN",
        help="folder of a training, or of an imported or published model; or a preset, of initial weights",
    )
    command.add_argument("--tokens", type=whole_from(1), help="tokens looked at, in whole sequences (default: 16,384)")
    command.add_argument("--batch", type=whole_from(1), help="sequences at a time (default: about 4,096 tokens)")
    command.add_argument(
        "--context",
        type=whole_from(2),
        help="tokens per sequence of text (default: as trained; imported models: at most 512)",
    )
    command.add_argument("--data", metavar="FOLDER", help="where the runs' text lies now (default: where it lay)")
    command.add_argument(
        "--text",
        metavar="SOURCE",
        help="stdlib, a file or folder, or hf:NAME, read by the tokenizer.json beside each model's weights; or random: "
        "tokens drawn at random (default: what a training holds out; of others' models stdlib, or random where there "
        "is no tokenizer.json)",
    )
    add_part(command)
    command.add_argument("--variant", help="what published weights are of, such as resformer (default: vanilla)")
    command.add_argument("--device", default="auto", help="auto (the default), cpu or cuda")
    command.add_argument("--out", type=Path, default=OUT, help="where run folders go (default: runs)")


def _choices(options: argparse.Namespace) -> Choices:
    """Return which data are looked at, and how much of them."""
    from experiments.commands.subjects import Choices
    from experiments.training.by_layer import TOKENS, Sample

    return Choices(
        Sample(options.tokens or TOKENS, options.batch or 0),
        data=options.data,
        context=options.context,
        text=options.text,
        variant=options.variant,
        start=options.start,
        stop=options.stop,
    )


def evaluate(options: argparse.Namespace) -> int:
    from experiments.commands import evaluation

    if options.tasks is not None:
        return _tasks(options)
    for option in ("tasks_from", "fewshot", "limit"):
        if getattr(options, option) is not None:
            raise UserError(f"--{option.replace('_', '-')} is for --tasks")
    evaluated = evaluation.evaluate(options.runs, choices=_choices(options), device=options.device, out=options.out)
    if options.json:
        print(json.dumps({"folder": str(evaluated.folder), **evaluated.record}, indent=1))
        return 0
    first_run = evaluated.record["runs"][0]
    first = first_run["name"]
    for run in evaluated.record["runs"]:
        loss, score = run["loss"], run["in_context"]
        print(f"{run['name']}: {run['sequences']:,} sequences, {run['tokens']:,} tokens of {run['data']}")
        if evaluated.record["regression"]:
            print("\n".join(f"  {line}" for line in _of_prompts(run)))
        else:
            in_bits = evaluation.bits_a_byte(run)
            of_bytes = f", {in_bits:.4f} bits per byte" if in_bits is not None else ""
            perplexity = f"perplexity {math.exp(loss['mean']):.5g}" if loss["mean"] < 700 else "no perplexity"
            print(f"  held-out loss {_with_error(loss)} nats per {evaluated.record['per']}, {perplexity}{of_bytes}")
        if "less_first" in run:
            error = "95 % over sequences; other seeds may differ by more"
            print(f"  minus {first}'s, sequence by sequence: {_with_error(run['less_first'])} ({error})")
            if evaluated.record["regression"] and len(run["by_position"]["mean"]) > 1:
                print(f"  {_of_last(run, first_run)}")
        elif run is not first_run:
            print(f"  no difference from {first}'s: other data, or a single sequence")
        if score is not None:
            print(f"  last tenth of the positions minus the second tenth: {_with_error(score)}")
    print(f"figure and numbers: {evaluated.folder}")
    return 0


def _tasks(options: argparse.Namespace) -> int:
    from experiments.commands import harness

    names = {"start": "from", "stop": "to"}
    for option in ("tokens", "batch", "context", "data", "text", "start", "stop"):
        if getattr(options, option) is not None:
            raise UserError(f"--{names.get(option, option)} is for losses, and --tasks has its own data")
    tasks = tuple(name for name in options.tasks.split(",") if name)
    if not tasks:
        raise UserError("--tasks: name one or more, separated by commas")
    asked_for = harness.Tasks(tasks, options.tasks_from, options.fewshot, limit=options.limit)
    scores = harness.evaluate_tasks(
        options.runs, asked_for, variant=options.variant, device=options.device, out=options.out
    )
    if options.json:
        print(json.dumps({"folder": str(scores.folder), **scores.record}, indent=1))
        return 0
    for run in scores.record["runs"]:
        print(f"{run['name']}:")
        for task, metrics in run["results"].items():
            shown = {k.partition(",")[0]: v for k, v in metrics.items() if isinstance(v, float) and "stderr" not in k}
            print(f"  {task:24} " + ", ".join(f"{name} {value:.4g}" for name, value in shown.items()))
    print(f"numbers: {scores.folder}")
    return 0


def _of_prompts(run: Json) -> list[str]:
    by_position = run["by_position"]
    last = {name: by_position[name][-1] for name in ("mean", "stderr")}
    answers = len(by_position["mean"])
    own = prompt_losses(_with_error(run["loss"]), _with_error(last), answers=answers, pairs=run["pairs"])
    return [*own, *reference_lines(run["others"], run["name"])] if "others" in run else own


def _of_last(run: Json, first: Json) -> str:
    """Return the paired difference of the last answers, beside that of the toys."""
    line = f"minus {first['name']}'s, after all pairs, sequence by sequence: {_with_error(run['last_less_first'])}"
    toys = [toy["loss"] for one in (run, first) if (toy := (one.get("others") or {}).get("toy"))]
    return f"{line}; of their toys: {toys[0] - toys[1]:+.4f}" if len(toys) > 1 else line


def _with_error(number: dict[str, float]) -> str:
    return f"{number['mean']:.4f} +- {1.96 * number['stderr']:.4f}"


def probe(options: argparse.Namespace) -> int:
    from experiments.commands import probing

    what = None if options.what is None else [name.strip() for name in options.what.split(",")]
    shown: set[str] = set()
    alone = len(options.runs) == 1 and not options.json

    def show(name: str, about: Json, result: Json) -> None:
        if alone:
            print("\n".join(_family_lines(name, [about], [result])), flush=True)
            shown.add(name)

    probed = probing.probe(
        options.runs, what, choices=_choices(options), device=options.device, out=options.out, show=show
    )
    if options.json:
        print(json.dumps({"folder": str(probed.folder), **probed.record}, indent=1))
        return 0
    _report_probed(probed, shown)
    return 0


def _report_probed(probed: Probed, shown: set[str]) -> None:
    """Print what was probed, and the results that were not shown as they came."""
    from experiments.commands.layer_figures import looks

    runs = probed.record["runs"]
    for look, run in zip(looks(runs), runs, strict=True):
        counts = f"{run['sequences']:,} sequences, {run['tokens']:,} tokens"
        print(f"{look['label']}: {counts} of {run['data']}; {run['folder']}")
    for family, results in probed.record["families"].items():
        if family not in shown:
            print("\n".join(_family_lines(family, runs, results)))
    print(f"figures and numbers: {probed.folder}")


def _family_lines(family: str, runs: list[Json], results: list[Json]) -> list[str]:
    """Return a family's results for some runs: per panel a row of layers, and a row for each run."""
    from experiments.commands.layer_figures import STATE, looks, panels_of, series

    labels = [look["label"] for look in looks(runs)]
    lines = []
    for panel in panels_of(family, {"families": {family: results}}):
        if not panel.by_layer:
            continue
        unit = panel.y.replace("$", "")  # which stand around mathematics in a figure
        lines.append(f"{family}: {panel.title[0].lower()}{panel.title[1:]}, {unit}, by {panel.x}")
        each = [series(panel, result) for result in results]
        places = sorted({x for one in each if one for x in one.x})
        head = "passed" if panel.x == STATE else "layer"
        width = max(map(len, (*labels, head)))
        lines.append(f"  {head:{width}}  {'  '.join(f'{x:>9}' for x in places)}")
        for label, one in zip(labels, each, strict=True):
            values = dict(zip(one.x, one.values, strict=True)) if one else {}
            lines.append(f"  {label:{width}}  {'  '.join(_number(values.get(x)) for x in places)}")
    return lines


def _number(value: float | None) -> str:
    return f"{'-' if value is None else format(value, '.4g'):>9}"
