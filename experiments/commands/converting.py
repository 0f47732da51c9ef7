"""Conversions of a folder's model to another plan, and what they cost before any training."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import TYPE_CHECKING

from experiments.commands.evaluation import losses
from experiments.commands.importing import BEFORE, SavedModel, digests, free, is_plain, origin, texts_of, write
from experiments.commands.subjects import Choices, Published, Subject, Trained, subject
from experiments.store.folders import UserError
from experiments.store.progress import progress
from experiments.training import user_files
from experiments.training.arms import TextSource
from experiments.training.by_layer import Sample
from experiments.training.model_folders import IMPORTED, ModelFolder, model_folder
from theory.plans.architecture import Architecture, Tokens
from theory.plans.plan import Plan, built
from theory.plans.suggestions import unknown

if TYPE_CHECKING:
    from torch import Tensor

    from icl.models.decoder import Decoder
    from icl.refitting import Refit

FIT, USUAL = "fit", "mean"
SHORT = 32  # tokens by which two models are compared where there is no text
TOKENS = 32_768  # of a text, of which HELD_OUT is for the first loss
HELD_OUT = 4  # sequences of a text, of which the first loss takes one
AT_A_TIME = 512  # tokens of which scores are held


@dataclass(frozen=True)
class FirstLoss:
    """Held-out losses before a conversion and after it, in nats per token or as the task has them.

    Attributes:
        before: The loss of the model that was converted.
        after: The loss of the converted model, before any training.
        change: The mean difference, sequence by sequence.
        stderr: The standard error of the change, over sequences.
        uniform: The loss of a guess that takes all tokens to be equally likely.
        tokens: How many tokens were scored.
        data: What they are of.
    """

    before: float
    after: float
    change: float
    stderr: float
    uniform: float
    tokens: int
    data: str

    @property
    def worse_than_guessing(self) -> bool:
        """True if the converted model scores no better than uniform guessing."""
        return not self.after < self.uniform


@dataclass(frozen=True)
class Converted:
    """A converted model's folder, and what is known of it.

    Attributes:
        saved: The folder; its `change` is that of the scores for some tokens.
        how: The way: fit, or one of `icl.conversion.WAYS`.
        first: The first loss; None where there was no text to measure it on.
        refits: The refitted layers, where the way is fit.
        fit_tokens: How many tokens they were refitted on.
    """

    saved: SavedModel
    how: str
    first: FirstLoss | None
    refits: tuple[Refit, ...] = ()
    fit_tokens: int = 0


def convert(
    run: Path | str, out: Path | str, *, variant: str, how: str | None = None, choices: Choices | None = None
) -> Converted:
    """Write a folder with another folder's model under another plan (`icl.conversion`, `icl.refitting`).

    Args:
        run: The folder of a vanilla model.
        out: The folder to make.
        variant: The plan, by name or as a file.
        how: fit, or one of `icl.conversion.WAYS`; by default fit where a text is chosen, else mean.
        choices: The text that the model is refitted and judged on.  Without one a training is judged on what it holds
            out, and refitted on what it was trained on.

    Raises:
        UserError: for what is not there, a way that does nothing, and an `out` that is there already.
        BadInput: for what has no meaning.
    """
    from icl.conversion import WAYS
    from icl.conversion import convert as converted
    from icl.refitting import refitted

    place, original = Path(out), model_folder(Path(run))
    free(place)
    if how not in (None, FIT, *WAYS):
        raise UserError(unknown("way", str(how), (FIT, *WAYS)))
    plan = user_files.fitting(variant, original.architecture)
    check_does_something(how, original.architecture, plan)
    chosen = how or (FIT if choices is not None and choices.text and _can_fit(original, plan) else USUAL)
    data = _data(original, choices, needed=chosen == FIT)
    layers = original.architecture.n_layers
    with progress(f"converting {run}", layers + 3) as at:
        at(0, "reading")
        trained = original.model("cpu")
        refits: list[Refit] = []
        fit_tokens = 0
        if chosen == FIT:
            assert data is not None
            inputs = _calibration(data)
            fit_tokens = inputs.shape[0] * inputs.shape[1]
            model, refits = refitted(
                trained, plan, inputs, shared=True, advance=lambda done: at(done, f"refitting, layer {done + 1}")
            )
        else:
            at(layers, chosen)
            model = converted(trained, plan, chosen, shared=True)
        at(layers, "first loss")
        first = None if data is None else _first_loss(trained, model, data, at=lambda done: at(layers + 2 * done))
        change = _change(trained, model)
        about = {
            "name": f"{original.name} as {variant}{f', {chosen}' if how or chosen == FIT else ''}",
            "variant": variant,
            IMPORTED: {"from": str(run), "type": f"converted, {chosen}"},
            "sha256_of_files": digests(original.folder),
            BEFORE: origin(original),
        }
        about |= {} if first is None else {"first_loss": asdict(first)}
        about |= {"refit": {"tokens": fit_tokens, "layers": [asdict(one) for one in refits]}} if refits else {}
        at(layers + 2, "writing")
        del trained
        write(place, model, about, before=original.folder, texts={} if original.published else texts_of(original))
        at(layers + 3)
    saved = SavedModel(place, model_folder(place), is_plain(model), change=change)
    return Converted(saved, chosen, first, tuple(refits), fit_tokens)


def check_does_something(how: str | None, config: Architecture, plan: Plan) -> None:
    """Raise UserError for a way that would choose nothing: every layer keeps all of its values, or none."""
    if how in (None, FIT):
        return
    counts = [len(built(plan).get(("v", layer), ())) for layer in range(1, config.n_layers + 1)]
    if not any(0 < count < config.shape.heads for count in counts):
        raise UserError(
            f"--how {how} says what becomes of values where a layer keeps some of them, and here every layer keeps all "
            "or none; leave it out, or say --how fit"
        )


def _can_fit(original: ModelFolder, plan: Plan) -> bool:
    """Return whether a refit has a meaning under a plan, as far as the plan and the architecture say."""
    from icl.refitting import obstacles
    from theory.plans.names import resolve

    return not any(obstacles(original.architecture, resolve("vanilla", plan.shape), plan))


def _data(original: ModelFolder, choices: Choices | None, *, needed: bool) -> Subject | None:
    """Return the subject that says what the model is refitted and judged on; None where there is nothing.

    Raises:
        UserError: for a refit without text.
    """
    choices = choices or Choices(Sample(TOKENS))
    if original.published and choices.text is None:
        if needed:
            raise UserError("--how fit refits on text: name a file, a folder or stdlib by --text")
        return None
    try:
        return subject(original.folder, choices)
    except UserError:
        if needed or choices.text is not None:
            raise
        return None  # a training whose text is not there any more


def _calibration(data: Subject) -> Tensor:
    """Return the inputs that a model is refitted on, (count, T)."""
    import torch

    from icl.training.objectives import TextTask

    if isinstance(data, Published):
        return torch.from_numpy(data.sequences[: _fitted(len(data.sequences)), :-1].copy())
    task = data.task()
    if not isinstance(data, Trained) or not isinstance(data.source, TextSource) or not isinstance(task, TextTask):
        raise UserError(f"--how fit refits on text, and {data.model_folder.folder} was trained on {data.kind}")
    return task.batch(0, 0, _fitted(max(2, TOKENS // task.tokens))).inputs


def _fitted(count: int) -> int:
    """Return how many of a text's sequences a refit reads; the others are for the first loss."""
    return count - max(2, count // HELD_OUT)


def _first_loss(before: Decoder, after: Decoder, data: Subject, *, at: Callable[[float], None]) -> FirstLoss:
    """Return the losses of both models on what neither was refitted on."""
    from icl.training.objectives import GivenTokens, blind_loss

    task = data.task()
    if isinstance(data, Published):
        task = GivenTokens(data.sequences[_fitted(len(data.sequences)) :])
    batches = Sample(TOKENS // HELD_OUT, max(1, AT_A_TIME // task.tokens)).batches(task, "cpu")
    old = losses(before.eval(), task, batches)
    at(0.5)
    new = losses(after.eval(), task, batches)
    at(1.0)
    change = [b - a for a, b in zip(old["by_sequence"], new["by_sequence"], strict=True)]
    return FirstLoss(
        before=old["loss"]["mean"],
        after=new["loss"]["mean"],
        change=fmean(change),
        stderr=stdev(change) / math.sqrt(len(change)),
        uniform=blind_loss(task, before.config.stem),
        tokens=old["tokens"],
        data=data.data,
    )


def _change(before: Decoder, after: Decoder) -> float | None:
    """Return |after - before| / |before| of two models' scores for some tokens; None if they do not read tokens."""
    import torch

    stem = before.config.stem
    if not isinstance(stem, Tokens):
        return None
    length = min(SHORT, before.config.context)
    tokens = torch.randint(stem.vocab, (1, length), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        old, new = (model.eval()(tokens).float() for model in (before, after))
    return float((new - old).norm() / old.norm())


def report_lines(done: Converted, *, chose: bool) -> Sequence[str]:
    """Return what a conversion did and costs, line by line.

    Args:
        done: The conversion.
        chose: Whether the user chose the way.
    """
    lines = []
    if done.refits:
        raw, left, fitted = (fmean(getattr(one, name) for one in done.refits) for name in ("raw", "left_out", "fitted"))
        lines.append(
            f"refitted {len(done.refits)} output projections on {done.fit_tokens:,} tokens; mean share of attention's "
            f"output that is missed: {fitted:.3f}, as it was {raw:.3f}, without the converted heads {left:.3f}"
        )
    if (first := done.first) is not None:
        lines.append(
            f"first loss {first.after:.4f}, before {first.before:.4f}: {first.change:+.4f} +- "
            f"{1.96 * first.stderr:.4f} ({first.tokens:,} tokens of {first.data}); uniform guessing {first.uniform:.4f}"
        )
        if first.worse_than_guessing:
            hint = "" if done.how == FIT else "; --how fit, which refits what reads the converted heads, may help"
            lines.append(f"worse than uniform guessing: the model is of no use before it is trained on{hint}")
    elif not chose and done.how == USUAL:
        lines.append(
            f"--how fit with --text FILE would refit what reads the converted heads, on {TOKENS:,} tokens, and measure "
            "the first loss"
        )
    return lines
