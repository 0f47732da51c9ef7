"""A user's request for one training: its arm, its folder and its needs, in words before it begins."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from experiments.commands import names
from experiments.commands.training_options import TrainingOptions
from experiments.store.folders import RunFolder, in_a_path
from experiments.store.progress import warn
from experiments.training import extension, memory
from experiments.training.arms import Arm
from experiments.training.device import check_at_least_one, chosen_device
from icl.training.parallel.launch import check_shares
from theory.plans.accounting import parameters, total_parameters
from theory.plans.architecture import Architecture, Stem, Tokens, Vectors
from theory.plans.names import model
from theory.plans.presets import PRESETS


@dataclass(frozen=True)
class Request:
    """A requested training.

    Attributes:
        before: the training that it carries on, if it does.
        memory: that it needs, in words.
    """

    arm: Arm
    called: str
    run: RunFolder
    device: str
    before: Path | None
    memory: str


def ask(options: TrainingOptions, count: int) -> Request:
    """Return the request, for so many processes.  Raises UserError or BadInput for what makes no sense."""
    check_at_least_one(**options.sizes)
    if options.preset is not None:
        subject, called = names.model(options.preset, options.variant, options.sizes), options.preset
    else:
        assert options.init is not None
        subject, called = names.trained(options.init, options.variant, options.sizes), options.init.resolve().name
    arm, recompute = names.arm(subject, options), options.recompute
    check_shares(arm.recipe, count)
    memory.check(arm, "cpu" if options.device == "cpu" else None, count, recompute=recompute)  # before text is prepared
    device = chosen_device(options.device)
    if not options.precision:
        arm = replace(arm, recipe=replace(arm.recipe, precision="bf16" if device == "cuda" else "fp32"))
    arm = names.reading(arm)
    memory.check(arm, device, count, recompute=recompute)
    before = options.resume_from
    if before is not None:
        arm = replace(arm, start=extension.started(arm, before))
    named = in_a_path(called) if options.preset is None else f"{options.preset}-{in_a_path(subject.label)}"
    run = RunFolder(_place(options.out / "train", named, arm.key(device), preset=options.preset))
    if arm.initial and not run.has("config.json"):
        arm.model("cpu")  # damaged weights are told of before there is a folder
    if before is None and not run.has("config.json") and (line := extension.beside(arm, run, f"{named}-*")):
        warn(line)
    needs = memory.in_words(memory.needed(arm, device, count, recompute=recompute))
    return Request(
        arm, called, run, device=device, before=before, memory=f"{needs} of memory{' per process' if count > 1 else ''}"
    )


def _place(folder: Path, named: str, key: str, preset: str | None) -> Path:
    """Return where a training goes: where it was begun, if that was when a preset's own variant was called default.

    Args:
        folder: of all trainings.
        named: what it is of, in words.
        key: its digest.
        preset: whose model it is of, if it is of one.
    """
    before = folder / f"{preset}-default-{key}"
    return before if (before / "config.json").is_file() else folder / f"{named}-{key}"


def sizes(called: str, arm: Arm, needs: str) -> tuple[str, str]:
    """Return a description of the training about to begin, in two lines.

    Args:
        called: its preset, or what its folder is called.
        arm: what is trained.
        needs: memory.
    """
    config = arm.architecture
    shared = f", {config.kv_heads} of keys and values" if config.group > 1 else ""
    shared = f", on a latent of {config.latent.width}" if config.latent else shared
    read = f" (read {arm.context:,} at a time)" if arm.context < config.context else ""
    whole = (
        f"{called} {arm.name}: width {config.d_model:,}, {_count(config.n_layers, 'layer')}, "
        f"{_count(config.n_heads, 'head')} of {config.width}{shared}, "
        f"context {config.context:,}{read}, {_stem(called, config.stem)}"
    )
    step = (
        f"{total_parameters(config, arm.plan):,} parameters{_left_out(called, config)}, "
        f"{arm.recipe.batch * arm.context:,} tokens per step, about {needs}"
    )
    return whole, step


def _left_out(called: str, config: Architecture) -> str:
    """Return why a model is much smaller than the preset that it is called by, where it reads no tokens."""
    if called not in PRESETS or isinstance(config.stem, Tokens):
        return ""
    named, plan = model(called)
    parts = parameters(named, plan)
    embeddings = parts["embedding"] + parts["head"]
    return f" ({called} has {sum(parts.values()):,}, of which {embeddings:,} are embeddings of tokens, not needed here)"


def _count(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _stem(called: str, stem: Stem) -> str:
    if not isinstance(stem, Tokens):
        return f"vectors of {stem.width}" if isinstance(stem, Vectors) else str(stem)
    named = PRESETS[called].architecture.stem if called in PRESETS else stem
    own = isinstance(named, Tokens) and named.vocab == stem.vocab
    return f"vocabulary {stem.vocab:,}" + ("" if own else " (the data's, not the preset's)")
