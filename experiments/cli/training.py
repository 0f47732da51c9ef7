"""The command `train`.  It takes the parsed options and returns the exit status."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.cli.commands import OUT, Commands, number, whole_number
from experiments.store.folders import Json, RunFolder, UserError
from experiments.training.device import check_at_least_one, chosen_device
from theory.errors import BadInput
from theory.plans.architecture import Architecture, Tokens, Vectors

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from experiments.training.arms import Arm, PromptSource, TextSource

TOKENS_A_STEP = 4096  # what a batch holds unless it is asked for
CONTEXT = 512  # likewise, where the preset's is longer


def add_to(commands: Commands) -> None:
    """train."""
    command = commands.add(
        "train",
        train,
        "train one model; the same command resumes where it was killed",
        "crosslayer train --preset llama-2m --variant resformer --data stdlib --steps 200",
        resumes=True,
    )
    command.add_argument("--preset", required=True, help="a model of the papers; an unknown name lists them")
    command.add_argument("--variant", help="as for `describe` (default: the preset's own)")
    command.add_argument("--data", default="stdlib", help="stdlib, a prepared folder, or regression:d=5,n=20,sigma=0.1")
    command.add_argument("--steps", type=whole_number, required=True, help="optimiser steps")
    command.add_argument("--batch", type=whole_number, help="sequences a step (default: what makes about 4,096 tokens)")
    command.add_argument(
        "--context", type=whole_number, help="tokens a sequence of text (default: the preset's, at most 512)"
    )
    command.add_argument("--schedule", default="skipv1-llama", help="of a paper; an unknown name lists them")
    command.add_argument("--learning-rate", type=number, help="peak (default: the schedule's)")
    command.add_argument("--weight-decay", type=number, help="of matrices and embeddings (default: the schedule's)")
    command.add_argument(
        "--accumulate", type=whole_number, default=1, help="parts that a batch is cut into (default: 1)"
    )
    command.add_argument("--precision", help="fp32 or bf16, with fp32 weights (default: bf16 on a GPU)")
    command.add_argument("--compile", action="store_true", help="by torch.compile")
    command.add_argument("--seed", type=whole_number, default=0, help="of weights and data order (default: 0)")
    command.add_argument("--device", default="auto", help="auto (the default), cpu or cuda")
    command.add_argument(
        "--log-every", type=whole_number, default=10, help="steps a line of metrics.jsonl (default: 10)"
    )
    command.add_argument(
        "--evaluate-every", type=whole_number, default=0, help="steps between evaluations (default: at the end)"
    )
    command.add_argument("--save-every", type=number, default=60.0, help="seconds between checkpoints (default: 60)")
    command.add_argument("--out", type=Path, default=OUT, help="where run folders go (default: runs)")


def train(options: argparse.Namespace) -> int:
    from experiments.store.progress import progress
    from experiments.training.pool import note
    from experiments.training.records import train_arm

    device = chosen_device(options.device)
    arm = _arm(options, device)
    variant = "".join(c if c.isalnum() or c in "-+.=" else "_" for c in options.variant or "default")
    run = RunFolder(options.out / "train" / f"{options.preset}-{variant}-{arm.key(device)}")
    with run.locked():
        if not run.has("summary.json"):
            run.write("config.json", arm.to_json())
            with progress(f"{options.preset} {arm.name}", arm.recipe.steps) as at:
                record = train_arm(
                    arm,
                    run.path,
                    device,
                    lambda logged: at(logged.step, note(arm, logged)),
                    lambda text: print(f"crosslayer: {text}", file=sys.stderr),
                    options.save_every,
                    run / "model.safetensors",
                )
            if record["diverged"]:
                saved = sorted(path.name for path in run.path.glob("checkpoint-*"))
                kept = f"; the last good state is {run / saved[-1]}" if saved else ""
                print(f"crosslayer: {record['diverged']}{kept}", file=sys.stderr)
                return 1
            _draw(record, arm, run)
            run.write("summary.json", record)
        _remove_checkpoints(run)
    return _report(run, options.json)


def _remove_checkpoints(run: RunFolder) -> None:
    import shutil

    for path in run.path.glob("checkpoint-*"):
        shutil.rmtree(path)


def _report(run: RunFolder, as_json: bool) -> int:
    record = run.read("summary.json")
    if as_json:
        print(json.dumps({"folder": str(run.path), **record}, indent=1))
        return 0
    of_text = f", {record['epochs']:.2g} epochs of {record['unique_tokens']:,} tokens" if "epochs" in record else ""
    unit = "nats a token" if of_text else "squared units of y"
    print(f"{record['name']}: {record['parameters']:,} parameters, {record['tokens']:,} tokens{of_text}")
    print(f"  training loss {record['curve'][0][1]:.4g} at first, {record['curve'][-1][1]:.4g} at last")
    print(f"  held-out loss {record['loss']:.4f} {unit}")
    share = f", {record['mfu']:.1%} MFU" if record["mfu"] is not None else ""
    print(f"  {record['tokens_per_second']:,.0f} tokens/s{share} on {record['device']}")
    print(f"figure, weights and numbers: {run.path}")
    return 0


def _arm(options: argparse.Namespace, device: str) -> Arm:
    from experiments.training.arms import Arm
    from icl.training.recipe import SCHEDULES, Recipe
    from theory.plans.names import fitting, sized

    if options.schedule not in SCHEDULES:
        raise UserError(f"unknown schedule {options.schedule!r}; there are {', '.join(SCHEDULES)}")
    if options.seed < 0:
        raise UserError(f"--seed must not be negative, got {options.seed}")
    check_at_least_one(context=options.context, batch=options.batch)
    config, variant = sized(options.preset, options.variant)
    fitting(variant, config)
    config, source = _sized(options, config)
    settings: dict[str, Any] = {**SCHEDULES[options.schedule].settings}
    for name in ("learning_rate", "weight_decay"):
        if (value := getattr(options, name)) is not None:
            settings[name] = value
    batch = options.batch if options.batch is not None else max(1, TOKENS_A_STEP // config.context)
    recipe = Recipe(
        steps=options.steps,
        batch=batch,
        accumulate=options.accumulate,
        precision=options.precision or ("bf16" if device == "cuda" else "fp32"),
        compile=options.compile,
        log_every=options.log_every,
        evaluate_every=options.evaluate_every,
        **settings,
    )
    if source is not None:
        return Arm(config, variant, source, recipe, options.seed)
    read, config = _text(options, config)  # last: nothing of what is refused above needs any text prepared
    return Arm(config, variant, read, recipe, options.seed)


def _sized(options: argparse.Namespace, config: Architecture) -> tuple[Architecture, PromptSource | None]:
    """The architecture with the context of its data, and for regression with their stem; and the prompts, if any."""
    from experiments.training.arms import PromptSource

    if not isinstance(config.stem, Tokens):
        raise UserError(f"{options.preset} does not read tokens; train it from Python")
    if not options.data.startswith("regression:"):
        context = min(config.context, CONTEXT) if options.context is None else options.context
        return replace(config, context=context), None
    prompts = PromptSource(**_options(options.data))
    if options.context is not None:
        raise UserError("--context is for text: a prompt of regression data has 2 n + 1 tokens")
    return replace(config, stem=Vectors(prompts.d), context=2 * prompts.n + 1), prompts


def _text(options: argparse.Namespace, config: Architecture) -> tuple[TextSource, Architecture]:
    """The text, and the architecture with its vocabulary."""
    from experiments.training.text import text

    read = text(options.data)
    assert isinstance(config.stem, Tokens)
    if read.vocab != config.stem.vocab and not options.json:
        print(
            f"vocabulary: {read.vocab:,}, the data's, in place of the preset's {config.stem.vocab:,}", file=sys.stderr
        )
    return read.source, replace(config, stem=replace(config.stem, vocab=read.vocab))


def _options(text: str) -> dict[str, Any]:
    """d, n and sigma of regression:d=5,n=20,sigma=0.1."""
    from theory.errors import check_sizes

    kinds = {"d": int, "n": int, "sigma": float}
    try:
        given = dict(part.split("=") for part in text.removeprefix("regression:").split(","))
        values = {name: kinds[name](value) for name, value in given.items()}
        if values.keys() != kinds.keys():
            raise ValueError
    except (ValueError, KeyError):
        raise BadInput(f"regression data are written regression:d=5,n=20,sigma=0.1, got {text!r}") from None
    check_sizes(**values)
    return values


def _draw(record: Json, arm: Arm, run: RunFolder) -> None:
    from experiments.drawing import style
    from experiments.training.arms import PromptSource

    of_prompts = isinstance(arm.source, PromptSource)
    with style.drawing():
        fig, axes = style.figure(2 if of_prompts else 1, width=4.5)
        axis = axes[0]
        axis.plot(*zip(*record["curve"], strict=True), label="training", color="#2f7fb8")
        if len(record["evaluations"]) > 1:
            axis.plot(*zip(*record["evaluations"], strict=True), "s--", label="held out", color="#1a1a1a")
        else:
            axis.axhline(record["loss"], color="#1a1a1a", linestyle="--", label="held out, at the end")
        axis.set_xlabel("optimiser steps")
        axis.set_ylabel("loss (squared units of $y$)" if of_prompts else "loss (nats a token)")
        axis.set_title(f"{record['name']}, seed {record['seed']}")
        if isinstance(arm.source, PromptSource):
            _draw_positions(axes[1], record, arm.source)
        style.finish(axes)
        style.save(fig, run.path)


def _draw_positions(axis: Axes, record: Json, source: PromptSource) -> None:
    """Held-out losses after every number of pairs, with 95 % of their sampling error, under theory's curves."""
    from experiments.drawing import curves as icl_curves

    icl_curves.draw(axis, icl_curves.curves(source.d, source.n, source.sigma))
    losses, errors = record["held_out"]["loss"], [1.96 * e for e in record["held_out"]["stderr"]]
    axis.errorbar(
        range(len(losses)), losses, yerr=errors, fmt="o", color="#2f7fb8", mfc="white", label="held out, 95 %"
    )
    axis.set_title("By position, at the end")
