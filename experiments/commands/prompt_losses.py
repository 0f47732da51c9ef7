"""Losses on regression prompts, beside those of others on the same prompts: the same for `train` and `evaluate`."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from experiments.store.folders import Json
from theory.errors import BadInput, InvalidSize

if TYPE_CHECKING:
    from experiments.training.arms import PromptSource
    from theory.plans.architecture import Architecture
    from theory.plans.plan import Plan

RIDGE_SAMPLES = 4096  # of spectra: an estimate to three digits in a fraction of a second


def prompt_losses(mean: str, last: str, *, answers: int, pairs: int) -> list[str]:
    """Return the lines on a held-out loss, one of which can be compared with `crosslayer predict`.

    Args:
        mean: The loss, a mean over the answers that count.
        last: The loss of the last answer, after all pairs.
        answers: How many answers of a prompt count.
        pairs: n, the number of pairs in a prompt.
    """
    after = f"after n = {pairs:,} pair{'' if pairs == 1 else 's'}"
    if answers == 1:
        return [f"held-out loss {last} squared units of y, {after}, the one answer that counts"]
    return [
        f"held-out loss {mean} squared units of y, the mean over the answers after 0 to {pairs:,} pairs",
        f"held-out loss {last} {after}, which is what `crosslayer predict` is about",
    ]


def reference_losses(source: PromptSource, config: Architecture, plan: Plan, name: str) -> Json | None:
    """Return what others lose on the same prompts after all pairs; None for prompts of another law than the plain one.

    Args:
        source: The prompts.
        config: Sizes of a model.
        plan: Of the model.
        name: The variant's, by which its toy is known where the model has more than two layers.

    Returns:
        zero: Of predicting zero.
        toy: The best of the toy of two layers with the model's heads: loss, rank and heads; None where no closed form
            is known.
        ridge: Of ridge regression, below which no model can end; None where its estimate takes too long.
    """
    from theory.plans.law import PLAIN
    from theory.prompts import regression

    if source.law != PLAIN:
        return None
    task = source.d, source.n, source.sigma
    found: Json = {"zero": float(regression.zero(task[0], task[2])), "toy": None, "ridge": None, "d": task[0]}
    with suppress(BadInput):  # the toy does not cover the plan
        found["toy"] = _toy(plan if plan.shape.layers == 2 else _two_layers(name, plan.shape.heads), task)
    with suppress(InvalidSize):
        found["ridge"] = regression.ridge(*task, samples=RIDGE_SAMPLES).value
    return {**found, "width": config.d_model}


def reference_lines(found: Json | None, name: str) -> list[str]:
    """Return `reference_losses` in words, a line each, lowest last."""
    if found is None:
        return ["what others lose is known of plain prompts alone"]
    lines = {"predicting zero": found["zero"]}
    toy, d = found["toy"], found["d"]
    if toy is not None:
        wide = "as here" if found["width"] == d else f"{found['width']:,} here"
        what = f"two layers of linear attention, {toy['heads']} heads, its best rank, a = {toy['rank']}"
        lines[f"the toy of {name}: {what}; tokens of d = {d:,} numbers ({wide})"] = toy["loss"]
    if found["ridge"] is not None:
        lines["ridge regression, which no model can beat"] = found["ridge"]
    unknown = [] if toy else [f"the toy of {name} has no closed form here; `crosslayer predict` may find its loss"]
    return ["the same loss of others:", *(f"{loss:12.4f}  {what}" for what, loss in lines.items()), *unknown]


def _two_layers(name: str, heads: int) -> Plan:
    from theory.plans.names import resolve
    from theory.toy.predict import two_layers

    return resolve(name, two_layers(heads))


def _toy(plan: Plan, task: tuple[int, int, float]) -> Json | None:
    """Return the lowest loss of a plan's toy over its ranks, with rank and heads; None where one rank lacks a form."""
    from theory.toy.value_maps import closed_form

    optima = [closed_form(plan, *task, rank) for rank in range(task[0] + 1)]
    known = [(optimum.loss, rank) for rank, optimum in enumerate(optima) if optimum is not None]
    if len(known) < len(optima):
        return None
    loss, rank = min(known)
    return {"loss": loss, "rank": rank, "heads": plan.shape.heads}
