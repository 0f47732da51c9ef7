"""A trained model on other prompts than it was trained on: longer or shorter, noisier, of another law."""

from __future__ import annotations

from icl.models.context import of_context
from icl.models.decoder import Decoder
from icl.recipe import Recipe
from icl.training.loop import HeldOut, evaluate
from icl.training.objectives import PromptTask
from theory.errors import BadInput
from theory.plans.architecture import Vectors


def evaluate_on(model: Decoder, task: PromptTask, recipe: Recipe) -> HeldOut:
    """The loss on the task's held-out prompts, by position as the task scores them; the model stays as it is.

    recipe   for its precision alone
    Raises BadInput for prompts of another width, and for longer ones than the model has positions for.
    """
    return evaluate(fitting(model, task), task, recipe)


def fitting(model: Decoder, task: PromptTask) -> Decoder:
    """The model, or what `reaching` makes of it, for prompts of the task.  Raises BadInput as `evaluate_on`."""
    stem, d = model.config.stem, task.task.d
    if not isinstance(stem, Vectors) or stem.width != d:
        raise BadInput(f"prompts of d = {d} are for a model that reads vectors of that width, not {stem}")
    return reaching(model, task.tokens)


def reaching(model: Decoder, tokens: int) -> Decoder:
    """The model itself if its context holds so many tokens, else one that does and shares its weights.

    Raises BadInput as `icl.models.context.of_context`.
    """
    return model if tokens <= model.config.context else of_context(model, tokens)
