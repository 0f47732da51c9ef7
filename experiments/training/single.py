"""One training on its own: its sizes are said, it is carried through in its folder, and resumed there."""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass, replace
from pathlib import Path

from experiments.store.folders import Json, RunFolder, UserError, in_a_path
from experiments.store.progress import progress, warn
from experiments.training import extension, from_names, memory
from experiments.training.arms import Arm, TextSource
from experiments.training.device import check_at_least_one, chosen_device
from experiments.training.model_folders import BESIDE
from experiments.training.pool import note
from experiments.training.records import describe, train_arm
from icl.recipe import Diverged
from theory.plans.accounting import total_parameters
from theory.plans.architecture import Stem, Tokens, Vectors
from theory.plans.presets import PRESETS

RECORD = {"name": str, "parameters": int, "tokens": int, "curve": list, "loss": float, "tokens_per_second": float}


@dataclass(frozen=True)
class Trained:
    """A training that has ended.

    folder  holds the weights (`icl.load`), a text's tokenizer, the figure and the numbers of every step
    record  what was trained, its losses, speed and provenance
    """

    folder: Path
    record: Json


def train(
    preset: str | None = None,
    variant: str | None = None,
    *,
    init: Path | str | None = None,
    steps: int,
    data: str = "stdlib",
    batch: int | None = None,
    width: int | None = None,
    layers: int | None = None,
    heads: int | None = None,
    context: int | None = None,
    schedule: str = "skipv1-llama",
    learning_rate: float | None = None,
    weight_decay: float | None = None,
    depth_rate: float = 1.0,
    accumulate: int = 1,
    precision: str | None = None,
    compile: bool = False,
    seed: int = 0,
    device: str = "auto",
    log_every: int = 10,
    evaluate_every: int = 0,
    save_every: float = 60.0,
    resume_from: Path | str | None = None,
    out: Path | str = "runs",
) -> Trained:
    """Train a model of the papers under a variant, or resume it, in a folder below out/train.

    Its sizes and what it needs of memory go to standard error first.

    init        in place of preset and variant, the folder of a model whose weights are there: trained, imported or
                converted.  Weights alone go on; the schedule begins anew, and `resume_from` is what carries on one
    variant     names joined by `+`, FILE.py:function among them; by default the preset's own
    data        stdlib, a prepared folder, or regression:d=5,n=20,sigma=0.1, to which scored=last and the fields of
                `theory.plans.law.Law` may be added: regression:d=5,n=20,sigma=0.1,spike=4,inputs=laplace,pool=64
    batch       sequences a step; by default what makes about 4,096 tokens
    width, layers, heads    of the model, in place of the preset's (`theory.plans.presets.resized`)
    context     tokens a sequence of text; by default the preset's, at most 512
    schedule    of a paper (`icl.recipe.SCHEDULES`), whose rate and decay the next two replace
    depth_rate  the rate of a depth rule's own parameters over that of all others
    precision   fp32, or bf16 with fp32 weights: the default on a GPU
    save_every  seconds between checkpoints
    resume_from the folder of a finished training of fewer steps, to be carried on in a folder of its own: weights,
                optimiser and order of the data go on, and from there the rate is the schedule's for all `steps`

    Raises UserError or BadInput for what makes no sense, Diverged if the training left for good.
    """
    from experiments.training.figure import draw

    if not save_every >= 0:
        raise UserError(f"--save-every must not be negative, got {save_every}")
    if (preset is None) == (init is None):
        raise UserError("say either --preset, for a new model, or --init, for one that is there")
    sizes_asked = {"width": width, "layers": layers, "heads": heads}
    check_at_least_one(**sizes_asked)
    if preset is not None:
        of, called = from_names.model(preset, variant, sizes_asked), preset
    else:
        assert init is not None
        of, called = from_names.trained(Path(init), variant, sizes_asked), Path(init).resolve().name
    arm = from_names.arm(
        of,
        data,
        context=context,
        batch=batch,
        schedule=schedule,
        seed=seed,
        replaced={"learning_rate": learning_rate, "weight_decay": weight_decay},
        steps=steps,
        depth_rate=depth_rate,
        accumulate=accumulate,
        precision=precision or ("fp32" if device == "cpu" else "bf16"),
        compile=compile,
        log_every=log_every,
        evaluate_every=evaluate_every,
    )
    memory.check(arm, "cpu" if device == "cpu" else None)  # before torch is imported, or text prepared
    device = chosen_device(device)
    if not precision:
        arm = replace(arm, recipe=replace(arm.recipe, precision="bf16" if device == "cuda" else "fp32"))
    arm = from_names.reading(arm)
    memory.check(arm, device)
    before = None if resume_from is None else Path(resume_from)
    if before is not None:
        arm = replace(arm, start=extension.started(arm, before))
    named = in_a_path(called) if preset is None else f"{preset}-{in_a_path(variant or 'default')}"
    run = RunFolder(Path(out) / "train" / f"{named}-{arm.key(device)}")
    if arm.initial and not run.has("config.json"):
        arm.model("cpu")  # damaged weights are told of before there is a folder
    if before is None and not run.has("config.json") and (line := extension.beside(arm, run, f"{named}-*")):
        warn(line)
    with run.locked():
        if not run.has("summary.json"):
            for line in sizes(called, arm, device):
                print(line, file=sys.stderr)
            if before is not None:
                warn(extension.handed_over(arm, before, run))
            record = _trained(arm, f"{called} {arm.name}", run, device, save_every, before)
            if record["diverged"]:
                saved = sorted(path.name for path in run.path.glob("checkpoint-*"))
                kept = f"; the last good state is {run / saved[-1]}" if saved else ""
                raise Diverged(f"{record['diverged']}{kept}")
            draw(record, arm, run)
            run.write("summary.json", record)
        for path in run.path.glob("checkpoint-*"):
            if path.name != f"checkpoint-{steps:09d}":  # the last is what `resume_from` starts with
                shutil.rmtree(path)
        return Trained(run.path, _record(run))


def _record(run: RunFolder) -> Json:
    keeps = f"the weights beside it are not; to train again, delete {run.path}"
    return run.read("summary.json", RECORD, advice=keeps)


def sizes(called: str, arm: Arm, device: str) -> tuple[str, str]:
    """What is about to be trained, in two lines; called: its preset, or what its folder is called."""
    config = arm.architecture
    shared = f", {config.kv_heads} of keys and values" if config.group > 1 else ""
    shared = f", on a latent of {config.latent.width}" if config.latent else shared
    read = f" (read {arm.context:,} at a time)" if arm.context < config.context else ""
    model = (
        f"{called} {arm.name}: width {config.d_model:,}, {_count(config.n_layers, 'layer')}, "
        f"{_count(config.n_heads, 'head')} of {config.width}{shared}, "
        f"context {config.context:,}{read}, {_stem(called, config.stem)}"
    )
    step = (
        f"{total_parameters(config, arm.plan):,} parameters, {arm.recipe.batch * arm.context:,} tokens a step, "
        f"about {memory.in_words(memory.needed(arm, device))} of memory"
    )
    return model, step


def _count(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _stem(called: str, stem: Stem) -> str:
    if not isinstance(stem, Tokens):
        return f"vectors of {stem.width}" if isinstance(stem, Vectors) else str(stem)
    named = PRESETS[called].architecture.stem if called in PRESETS else stem
    own = isinstance(named, Tokens) and named.vocab == stem.vocab
    return f"vocabulary {stem.vocab:,}" + ("" if own else " (the data's, not the preset's)")


def _trained(arm: Arm, label: str, run: RunFolder, device: str, save_every: float, start: Path | None) -> Json:
    describe(arm, run)
    if isinstance(arm.source, TextSource):
        from icl.data.shards import TokenData, read_manifest

        folder = Path(arm.source.folder)
        TokenData(folder, read_manifest(folder)).tokenizer().save(run.path)
    if arm.initial:
        for name in BESIDE:
            if (Path(arm.initial.folder) / name).is_file():
                shutil.copy(Path(arm.initial.folder) / name, run / name)
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
            start,
        )
