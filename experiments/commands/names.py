"""A training as data, from the names and numbers that a user gives."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from experiments.commands.training_options import TrainingOptions
from experiments.store.folders import UserError
from experiments.training.arms import Arm, Initial, PromptSource, RecallSource, Source, TextSource
from experiments.training.device import check_at_least_one
from experiments.training.model_folders import WEIGHTS, digest_of, model_folder
from experiments.training.text import STDLIB, VOCAB
from experiments.training.user_files import fitting, names_a_file
from icl.recipe import SCHEDULES, Recipe
from theory.errors import BadInput, check_sizes
from theory.plans.architecture import Architecture, Tokens, Vectors
from theory.plans.law import law
from theory.plans.names import checked, pairs, sized
from theory.plans.plan import Plan
from theory.plans.presets import PRESETS, resized
from theory.plans.setting import Setting
from theory.plans.suggestions import suggestions, unknown

TOKENS_A_STEP = 4096  # what a batch holds unless it is asked for
CONTEXT = 512  # likewise, where the preset's is longer
REGRESSION, RECALL = "regression", "recall"
REPLACED = ("learning_rate", "weight_decay")  # settings of a schedule that are a user's, if he says them
OF_A_RECIPE = ("steps", "depth_rate", "optimiser", "accumulate", "compile", "log_every", "evaluate_every")
SIZES = {"d": int, "n": int, "sigma": float}


@dataclass(frozen=True)
class Model:
    """A model that is to be trained, before its data are known: as it was requested, and its initial weights."""

    architecture: Architecture
    variant: str | Plan
    label: str
    initial: Initial | None = None


def model(preset: str, variant: str | None, sizes: dict[str, int | None]) -> Model:
    """Return a new model, of a preset's kind.  Raises BadInput or UserError for what makes no sense."""
    name = PRESETS[preset].variant if variant is None and preset in PRESETS else variant
    config, _ = sized(preset, "vanilla")
    config, chosen = sized(resized(config, **sizes), name)
    if not isinstance(config.stem, Tokens):
        raise UserError(f"{preset} does not read tokens; train it from Python")
    plan = fitting(chosen, config)
    return Model(config, plan if names_a_file(chosen) else chosen, name or "")


def trained(folder: Path, variant: str | None, sizes: dict[str, int | None]) -> Model:
    """Return the model in a folder, to be trained on.  Raises UserError or BadInput if there is none that can be."""
    for option, value in {"variant": variant, **sizes}.items():
        if value is not None:
            helps = "; `crosslayer convert` makes it another variant" if option == "variant" else ""
            raise UserError(f"--{option} is for new models, and {folder} says itself what it holds{helps}")
    start = model_folder(folder)
    if start.kind == "published":
        raise UserError(f"{folder} is laid out as others do it; make it a folder of our own with `crosslayer import`")
    initial = Initial(str(folder), digest_of(folder / WEIGHTS))
    return Model(start.architecture, start.plan, start.name, initial=initial)


def arm(chosen: Model, options: TrainingOptions) -> Arm:
    """Return the training as data, text by name alone.  Raises UserError or BadInput for what makes no sense."""
    schedule, context, batch = options.schedule, options.context, options.batch
    if schedule not in SCHEDULES:
        raise UserError(unknown("schedule", schedule, SCHEDULES))
    if options.seed < 0:
        raise UserError(f"--seed must not be negative, got {options.seed}")
    check_at_least_one(context=context, batch=batch)
    data = options.data
    config, source = _continued(chosen, data, context) if chosen.initial else _sized(chosen.architecture, data, context)
    of_user: dict[str, Any] = {name: getattr(options, name) for name in OF_A_RECIPE}
    replaced = {name: x for name in REPLACED if (x := getattr(options, name)) is not None}
    precision = options.precision or ("fp32" if options.device == "cpu" else "bf16")
    length = (source.context if isinstance(source, TextSource) else 0) or config.context
    about = {**SCHEDULES[schedule].settings, **replaced, **of_user, "precision": precision}
    training = Arm(
        architecture=config,
        variant=chosen.variant,
        label=chosen.label,
        source=source,
        recipe=Recipe(batch=batch or max(1, TOKENS_A_STEP // length), **about),
        seed=options.seed,
        initial=chosen.initial,
    )
    checked(training.plan, config)  # prompts bring a stem of their own, which tables of tokens do not fit
    return training


def _sized(config: Architecture, data: str, context: int | None) -> tuple[Architecture, Source]:
    """Return the architecture with the context of its data, for prompts with their stem; and the data, if text, unread.

    A vocabulary that is not known yet is taken for the least that there can be.
    """
    if data.startswith(f"{RECALL}:"):
        recall = recalled(data)
        if context is not None:
            raise UserError(f"--context is for text: a sequence of {data} has {recall.tokens} tokens")
        return replace(config, stem=Vectors(recall.width), context=recall.tokens), recall
    if not data.startswith(f"{REGRESSION}:"):
        _check_kind(data)
        config = replace(config, context=min(config.context, CONTEXT) if context is None else context)
        return _of_vocabulary(config, VOCAB if data == STDLIB else 1), TextSource(data, "")
    prompts = _prompts(data)
    if context is not None:
        raise UserError("--context is for text: a prompt of regression data has 2 n + 1 tokens")
    return replace(config, stem=Vectors(prompts.d), context=2 * prompts.n + 1), prompts


def _check_kind(data: str) -> None:
    """Raise UserError for data written like a misspelt `regression:...`, unless there is a folder of that name."""
    kind, colon, _ = data.partition(":")
    if colon and not Path(data).exists() and (near := suggestions(kind, [REGRESSION, RECALL])):
        raise UserError(f"unknown data {data!r}; did you mean {near[0]}:...?")


def _continued(chosen: Model, data: str, context: int | None) -> tuple[Architecture, Source]:
    """Return architecture and data as `_sized` does, for a model whose stem and vocabulary are there.

    Its context stays, unless a longer one is requested; it may read shorter sequences.
    """
    config = chosen.architecture
    assert chosen.initial is not None
    sizes, source = _sized(replace(config, stem=Tokens(1)), data, context)
    given = None if isinstance(source, TextSource) else sizes.stem
    if (given or Tokens) != (config.stem if given else type(config.stem)):
        raise UserError(f"{chosen.initial.folder} holds a model that reads {_kind(config)}, and the data are {data}")
    if sizes.context > config.context and config.positions not in ("rope", "none"):
        raise UserError(
            f"{sizes.context} tokens are more than the context of {config.context}, at which the positions of "
            f"{chosen.initial.folder} end"
        )
    if isinstance(source, TextSource) and sizes.context < config.context:
        return config, replace(source, context=sizes.context)
    return replace(config, context=sizes.context), source


def _kind(config: Architecture) -> str:
    return f"vectors of {config.stem.width}" if isinstance(config.stem, Vectors) else "tokens"


def reading(arm: Arm) -> Arm:
    """Return the arm with the text that it names, and its vocabulary, if it reads text.

    Raises UserError for text by another tokenizer than that of a model which is trained on.
    """
    from experiments.training.text import text

    if not isinstance(arm.source, TextSource):
        return arm
    read = text(arm.source.folder)
    if arm.initial:
        _check_tokenizer(Path(read.source.folder), Path(arm.initial.folder), arm.architecture)
        return replace(arm, source=replace(read.source, context=arm.source.context))
    return replace(arm, source=read.source, architecture=_of_vocabulary(arm.architecture, read.vocab))


def _check_tokenizer(data: Path, folder: Path, config: Architecture) -> None:
    from icl.data.shards import read_manifest
    from icl.data.tokenizers import saved_tokenizer

    assert isinstance(config.stem, Tokens)
    used, own = read_manifest(data).tokenizer, saved_tokenizer(folder)
    if used.vocab > config.stem.vocab:
        raise UserError(f"{data} may hold {used.vocab:,} different tokens, and {folder} knows {config.stem.vocab:,}")
    if own is not None and (own.digest, own.end) != (used.digest, used.end):
        raise UserError(
            f"{data} was made by another tokenizer, {used.name}, than {folder} knows; make text for it with "
            f"`crosslayer data prepare SOURCE --tokenizer {folder} --out FOLDER`"
        )


def _of_vocabulary(config: Architecture, vocab: int) -> Architecture:
    assert isinstance(config.stem, Tokens)
    return replace(config, stem=replace(config.stem, vocab=vocab))


def _prompts(text: str) -> PromptSource:
    """Read regression:d=5,n=20,sigma=0.1; beside these, scored=last and the fields of `theory.plans.law.Law`."""
    given = pairs("regression", text.removeprefix("regression:"))
    values = _sizes(given, "regression data are written regression:d=5,n=20,sigma=0.1", text)
    check_sizes(**values)
    scored: Any = given.pop("scored", "all")
    if scored not in ("all", "last"):
        raise BadInput(f"regression: scored must be all or last, got {scored!r}")
    return PromptSource(**values, scored=scored, law=law(given))


def recalled(text: str) -> RecallSource:
    """Return what recall:pairs=4,keys=16,values=16,form=interleaved asks for.  Raises BadInput for anything else."""
    given: dict[str, Any] = dict(pairs(RECALL, text.removeprefix(f"{RECALL}:")))
    form: dict[str, Any] = {"form": given.pop("form")} if "form" in given else {}
    try:
        sizes: dict[str, Any] = {name: int(value) for name, value in given.items()}
        if sizes.keys() != {"pairs", "keys", "values"}:
            raise ValueError
    except ValueError:
        raise BadInput(f"recall data are written recall:pairs=4,keys=16,values=16, got {text!r}") from None
    return RecallSource(**sizes, **form)


def setting(text: str) -> Setting:
    """Return what d=7,n=12,sigma=0.4 asks for.  Raises BadInput for anything else."""
    given = pairs("size", text)
    form = "a size is written d=7,n=12,sigma=0.4"
    size = Setting(**_sizes(given, form, text))
    if given:
        raise BadInput(f"{form}, got {text!r}")
    return size


def _sizes(given: dict[str, str], form: str, text: str) -> dict[str, Any]:
    """Take the sizes out of what is given.  Raises BadInput, which says the form, where one lacks or is no number."""
    sizes = {name: given.pop(name) for name in SIZES if name in given}
    try:
        values: dict[str, Any] = {name: SIZES[name](value) for name, value in sizes.items()}
    except ValueError:
        values = {}
    if values.keys() != SIZES.keys():
        raise BadInput(f"{form}, got {text!r}")
    return values
