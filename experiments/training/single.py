"""One training on its own: what it is, by names; carried through in its folder, and resumed there."""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from experiments.store.folders import Json, RunFolder, UserError
from experiments.store.progress import progress, warn
from experiments.training.arms import Arm, PromptSource, TextSource
from experiments.training.device import check_at_least_one, chosen_device
from experiments.training.pool import note
from experiments.training.records import train_arm
from experiments.training.user_files import fitting, names_a_file
from theory.errors import BadInput, check_sizes
from theory.plans.architecture import Architecture, Tokens, Vectors
from theory.plans.names import pairs, sized

RECORD = {"name": str, "parameters": int, "tokens": int, "curve": list, "loss": float, "tokens_per_second": float}
TOKENS_A_STEP = 4096  # what a batch holds unless it is asked for
CONTEXT = 512  # likewise, where the preset's is longer


@dataclass(frozen=True)
class Trained:
    """A training that has ended.

    folder  holds the weights (`icl.load`), the figure and the numbers of every step
    record  what was trained, its losses, speed and provenance
    """

    folder: Path
    record: Json


def train(
    preset: str,
    variant: str | None = None,
    *,
    steps: int,
    data: str = "stdlib",
    batch: int | None = None,
    context: int | None = None,
    schedule: str = "skipv1-llama",
    learning_rate: float | None = None,
    weight_decay: float | None = None,
    accumulate: int = 1,
    precision: str | None = None,
    compile: bool = False,
    seed: int = 0,
    device: str = "auto",
    log_every: int = 10,
    evaluate_every: int = 0,
    save_every: float = 60.0,
    out: Path | str = "runs",
) -> Trained:
    """Train a model of the papers under a variant, or resume it, in a folder below out/train.

    variant     names joined by `+`, FILE.py:function among them; by default the preset's own
    data        stdlib, a prepared folder, or regression:d=5,n=20,sigma=0.1
    batch       sequences a step; by default what makes about 4,096 tokens
    context     tokens a sequence of text; by default the preset's, at most 512
    schedule    of a paper (`icl.recipe.SCHEDULES`), whose rate and decay the next two replace
    precision   fp32, or bf16 with fp32 weights: the default on a GPU
    save_every  seconds between checkpoints

    Raises UserError or BadInput for what makes no sense, Diverged if the training left for good.
    """
    from experiments.training.figure import draw
    from icl.training.loop import Diverged

    device = chosen_device(device)
    arm = _arm(
        preset,
        variant,
        data,
        context=context,
        batch=batch,
        schedule=schedule,
        seed=seed,
        replaced={"learning_rate": learning_rate, "weight_decay": weight_decay},
        steps=steps,
        accumulate=accumulate,
        precision=precision or ("bf16" if device == "cuda" else "fp32"),
        compile=compile,
        log_every=log_every,
        evaluate_every=evaluate_every,
    )
    name = "".join(c if c.isalnum() or c in "-+.=" else "_" for c in variant or "default")
    run = RunFolder(Path(out) / "train" / f"{preset}-{name}-{arm.key(device)}")
    with run.locked():
        if not run.has("summary.json"):
            record = _trained(arm, f"{preset} {arm.name}", run, device, save_every)
            if record["diverged"]:
                saved = sorted(path.name for path in run.path.glob("checkpoint-*"))
                kept = f"; the last good state is {run / saved[-1]}" if saved else ""
                raise Diverged(f"{record['diverged']}{kept}")
            draw(record, arm, run)
            run.write("summary.json", record)
        for path in run.path.glob("checkpoint-*"):
            shutil.rmtree(path)
        return Trained(run.path, _record(run))


def _record(run: RunFolder) -> Json:
    keeps = f"the weights beside it are not; to train again, delete {run.path}"
    return run.read("summary.json", RECORD, advice=keeps)


def _trained(arm: Arm, label: str, run: RunFolder, device: str, save_every: float) -> Json:
    run.write("config.json", arm.to_json())
    with progress(label, arm.recipe.steps) as at:
        return train_arm(
            arm,
            run.path,
            device,
            lambda logged: at(logged.step, note(arm, logged)),
            warn,
            save_every,
            run / "model.safetensors",
            at,
        )


def _arm(
    preset: str,
    variant: str | None,
    data: str,
    *,
    context: int | None,
    batch: int | None,
    schedule: str,
    seed: int,
    replaced: dict[str, float | None],
    **recipe: Any,
) -> Arm:
    """The training as data.  replaced: settings of the schedule, unless None; recipe: fields of `Recipe`."""
    from icl.recipe import SCHEDULES, Recipe

    if schedule not in SCHEDULES:
        raise UserError(f"unknown schedule {schedule!r}; there are {', '.join(SCHEDULES)}")
    if seed < 0:
        raise UserError(f"--seed must not be negative, got {seed}")
    check_at_least_one(context=context, batch=batch)
    config, chosen = sized(preset, variant)
    plan = fitting(chosen, config)
    if not isinstance(config.stem, Tokens):
        raise UserError(f"{preset} does not read tokens; train it from Python")
    config, prompts = _sized(config, data, context)
    settings = SCHEDULES[schedule].settings | {k: v for k, v in replaced.items() if v is not None}
    batch = batch if batch is not None else max(1, TOKENS_A_STEP // config.context)
    whole = Recipe(batch=batch, **recipe, **settings)
    source: PromptSource | TextSource | None = prompts
    if source is None:  # last: nothing of what is refused above needs any text prepared
        source, config = _text(config, data)
    own = names_a_file(chosen)  # a plan, then, under the name that it was given
    return Arm(
        architecture=config,
        variant=plan if own else chosen,
        label=chosen if own else "",
        source=source,
        recipe=whole,
        seed=seed,
    )


def _sized(config: Architecture, data: str, context: int | None) -> tuple[Architecture, PromptSource | None]:
    """The architecture with the context of its data, and for regression with their stem; and the prompts, if any."""
    if not data.startswith("regression:"):
        return replace(config, context=min(config.context, CONTEXT) if context is None else context), None
    prompts = PromptSource(**_sizes(data))
    if context is not None:
        raise UserError("--context is for text: a prompt of regression data has 2 n + 1 tokens")
    return replace(config, stem=Vectors(prompts.d), context=2 * prompts.n + 1), prompts


def _text(config: Architecture, data: str) -> tuple[TextSource, Architecture]:
    """The text, and the architecture with its vocabulary."""
    from experiments.training.text import text

    read = text(data)
    assert isinstance(config.stem, Tokens)
    if read.vocab != config.stem.vocab:
        print(
            f"vocabulary: {read.vocab:,}, the data's, in place of the preset's {config.stem.vocab:,}", file=sys.stderr
        )
    return read.source, replace(config, stem=replace(config.stem, vocab=read.vocab))


def _sizes(text: str) -> dict[str, Any]:
    """d, n and sigma of regression:d=5,n=20,sigma=0.1."""
    kinds = {"d": int, "n": int, "sigma": float}
    given = pairs("regression", text.removeprefix("regression:"))
    try:
        values = {name: kinds[name](value) for name, value in given.items()}
        if values.keys() != kinds.keys():
            raise ValueError
    except (ValueError, KeyError):
        raise BadInput(f"regression data are written regression:d=5,n=20,sigma=0.1, got {text!r}") from None
    check_sizes(**values)
    return values
