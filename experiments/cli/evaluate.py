"""The command `evaluate`.  It takes the parsed options and returns the exit status."""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path

from experiments.cli import choices
from experiments.cli.commands import Commands, whole_from
from experiments.commands.prompt_losses import prompt_losses, reference_lines
from experiments.store.folders import Json, UserError


def add_to(commands: Commands) -> None:
    """Add the command `evaluate`."""
    command = commands.add(
        "evaluate",
        evaluate,
        "held-out losses of models, in all and by position: perplexity, bits per byte, what more context is worth",
        "crosslayer evaluate runs/train/llama-2m-* --tokens 65536",
        resumes=True,
    )
    choices.add_options(command)
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


def evaluate(options: argparse.Namespace) -> int:
    from experiments.commands import evaluation

    if options.tasks is not None:
        return _tasks(options)
    for option in ("tasks_from", "fewshot", "limit"):
        if getattr(options, option) is not None:
            raise UserError(f"--{option.replace('_', '-')} is for --tasks")
    evaluated = evaluation.evaluate(
        options.runs, choices=choices.choices(options), device=options.device, out=options.out
    )
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
            print(f"  minus {first}'s, sequence by sequence: {_with_error(run['less_first'])}")
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

    for option in ("tokens", "batch", "context", "data", "text"):
        if getattr(options, option) is not None:
            raise UserError(f"--{option} is for losses, and --tasks has its own data")
    names = tuple(name for name in options.tasks.split(",") if name)
    if not names:
        raise UserError("--tasks: name one or more, separated by commas")
    asked_for = harness.Tasks(names, options.tasks_from, options.fewshot, limit=options.limit)
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
