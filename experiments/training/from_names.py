"""A training as data, from the names and numbers that a user gives."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from experiments.store.folders import UserError
from experiments.training.arms import Arm, PromptSource, TextSource
from experiments.training.device import check_at_least_one
from experiments.training.text import STDLIB, VOCAB
from experiments.training.user_files import fitting, names_a_file
from icl.recipe import SCHEDULES, Recipe
from theory.errors import BadInput, check_sizes
from theory.plans.architecture import Architecture, Tokens, Vectors
from theory.plans.law import law
from theory.plans.names import pairs, sized
from theory.plans.presets import PRESETS, resized

TOKENS_A_STEP = 4096  # what a batch holds unless it is asked for
CONTEXT = 512  # likewise, where the preset's is longer
SIZES = {"d": int, "n": int, "sigma": float}


def arm(
    preset: str,
    variant: str | None,
    data: str,
    *,
    sizes: dict[str, int | None],
    context: int | None,
    batch: int | None,
    schedule: str,
    seed: int,
    replaced: dict[str, float | None],
    **recipe: Any,
) -> Arm:
    """The training as data, of text the name alone.

    replaced: settings of the schedule, unless None; recipe: fields of `Recipe`.
    """
    if schedule not in SCHEDULES:
        raise UserError(f"unknown schedule {schedule!r}; there are {', '.join(SCHEDULES)}")
    if seed < 0:
        raise UserError(f"--seed must not be negative, got {seed}")
    check_at_least_one(context=context, batch=batch, **sizes)
    asked = PRESETS[preset].variant if variant is None and preset in PRESETS else variant
    config, _ = sized(preset, "vanilla")
    config, chosen = sized(resized(config, **sizes), asked)
    if not isinstance(config.stem, Tokens):
        raise UserError(f"{preset} does not read tokens; train it from Python")
    plan = fitting(chosen, config)
    config, source = _sized(config, data, context)
    settings = SCHEDULES[schedule].settings | {k: v for k, v in replaced.items() if v is not None}
    batch = batch if batch is not None else max(1, TOKENS_A_STEP // config.context)
    return Arm(
        architecture=config,
        variant=plan if names_a_file(chosen) else chosen,
        label=asked or "",
        source=source,
        recipe=Recipe(batch=batch, **recipe, **settings),
        seed=seed,
    )


def _sized(config: Architecture, data: str, context: int | None) -> tuple[Architecture, PromptSource | TextSource]:
    """The architecture with the context of its data, for regression with their stem; and the data, if text yet to come.

    A vocabulary that is not known yet is taken for the least that there can be.
    """
    if not data.startswith("regression:"):
        config = replace(config, context=min(config.context, CONTEXT) if context is None else context)
        return _of_vocabulary(config, VOCAB if data == STDLIB else 1), TextSource(data, "")
    prompts = _prompts(data)
    if context is not None:
        raise UserError("--context is for text: a prompt of regression data has 2 n + 1 tokens")
    return replace(config, stem=Vectors(prompts.d), context=2 * prompts.n + 1), prompts


def reading(arm: Arm) -> Arm:
    """With the text that it names, and its vocabulary, if it reads text."""
    from experiments.training.text import text

    if not isinstance(arm.source, TextSource):
        return arm
    read = text(arm.source.folder)
    return replace(arm, source=read.source, architecture=_of_vocabulary(arm.architecture, read.vocab))


def _of_vocabulary(config: Architecture, vocab: int) -> Architecture:
    assert isinstance(config.stem, Tokens)
    return replace(config, stem=replace(config.stem, vocab=vocab))


def _prompts(text: str) -> PromptSource:
    """Of regression:d=5,n=20,sigma=0.1; beside these, scored=last and the fields of `theory.plans.law.Law`."""
    given = pairs("regression", text.removeprefix("regression:"))
    sizes = {name: given.pop(name) for name in SIZES if name in given}
    try:
        values: dict[str, Any] = {name: SIZES[name](value) for name, value in sizes.items()}
        if values.keys() != SIZES.keys():
            raise ValueError
    except ValueError:
        raise BadInput(f"regression data are written regression:d=5,n=20,sigma=0.1, got {text!r}") from None
    check_sizes(**values)
    scored: Any = given.pop("scored", "all")
    if scored not in ("all", "last"):
        raise BadInput(f"regression: scored must be all or last, got {scored!r}")
    return PromptSource(**values, scored=scored, law=law(given))
