"""The commands `data` and `train`.  Each takes the parsed options and returns the exit status."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from experiments.store.folders import Json, RunFolder, UserError
from experiments.training.device import chosen_device
from theory.errors import BadInput
from theory.plans.architecture import Architecture, Tokens, Vectors

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from experiments.training.arms import Arm, PromptSource, TextSource

TOKENS_A_STEP = 4096  # what a batch holds unless it is asked for
CONTEXT = 512  # likewise, where the preset's is longer


def data_prepare(options: argparse.Namespace) -> int:
    from experiments.training.text import about, prepare

    manifest = prepare(
        options.source,
        options.out,
        vocab=options.vocab,
        ranks=options.ranks,
        held_out=options.held_out,
        max_tokens=options.max_tokens,
    )
    return _show(about(options.out, manifest), options.json)


def data_info(options: argparse.Namespace) -> int:
    from experiments.training.text import about
    from icl.data.shards import open_data

    return _show(about(options.folder, open_data(options.folder).manifest), options.json)


def _show(content: Json, as_json: bool) -> int:
    if as_json:
        print(json.dumps(content, indent=1))
        return 0
    for name, value in content.items():
        text = ", ".join(f"{v:,} {k}" for k, v in value.items()) if isinstance(value, dict) else value
        print(f"{name:10} {text}")
    return 0


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
    config, variant = sized(options.preset, options.variant)
    fitting(variant, config)  # before any text is prepared
    source, config = _source(options, config)
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
    return Arm(config, variant, source, recipe, options.seed)


def _source(options: argparse.Namespace, config: Architecture) -> tuple[TextSource | PromptSource, Architecture]:
    """The data, and the architecture with a stem and a context that fit them."""
    from experiments.training.arms import PromptSource

    if not isinstance(config.stem, Tokens):
        raise UserError(f"{options.preset} does not read tokens; train it from Python")
    if options.data.startswith("regression:"):
        prompts = PromptSource(**_options(options.data))
        context = 2 * prompts.n + 1
        return prompts, replace(config, stem=Vectors(prompts.d), context=context)
    from experiments.training.text import text

    read = text(options.data)
    context = min(config.context, CONTEXT) if options.context is None else options.context
    if read.vocab != config.stem.vocab and not options.json:
        print(
            f"vocabulary: {read.vocab:,}, the data's, in place of the preset's {config.stem.vocab:,}", file=sys.stderr
        )
    return read.source, replace(config, stem=replace(config.stem, vocab=read.vocab), context=context)


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
