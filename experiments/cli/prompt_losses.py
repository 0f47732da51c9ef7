"""Losses on regression prompts in words, the same for `train` and `evaluate`."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from experiments.training.arms import PromptSource

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


def reference_losses(source: PromptSource, variant: object, width: int) -> list[str]:
    """Return lines on what others lose on the same prompts after all pairs, a line each, lowest last.

    Predicting zero, the best that the toy of the variant's two layers can do, at any rank, and ridge regression, below
    which no model can end.

    Args:
        source: The prompts; of others than plain ones nothing is known here.
        variant: A name, or what stands for a plan of one's own, of which the toy is left to `crosslayer predict`.
        width: Of the trained model's tokens, said beside that of the toy's.
    """
    from theory.errors import InvalidSize
    from theory.plans.law import PLAIN
    from theory.prompts import regression

    if source.law != PLAIN:
        return []
    d, n, sigma = source.d, source.n, source.sigma
    losses = {"predicting zero": float(regression.zero(d, sigma))}
    toy = _toy_loss(variant, d, n, sigma=sigma) if isinstance(variant, str) else None
    if toy is not None:
        wide = "as here" if width == d else f"{width:,} here"
        losses[f"the toy of {variant}, two layers of linear attention; tokens of d = {d:,} numbers ({wide})"] = toy
    with suppress(InvalidSize):  # too large to be estimated
        ridge = regression.ridge(d, n, sigma, samples=RIDGE_SAMPLES)
        losses["ridge regression, which no model can beat"] = ridge.value
    return ["the same loss of others:", *(f"{loss:12.4f}  {name}" for name, loss in losses.items())]


def _toy_loss(variant: str, d: int, n: int, sigma: float) -> float | None:
    """Return the lowest loss of a variant's toy over its ranks; None where no closed form is known."""
    from theory.errors import BadInput
    from theory.plans.names import resolve
    from theory.toy.predict import two_layers
    from theory.toy.value_maps import closed_form

    try:
        plan = resolve(variant, two_layers(2))
        optima = [closed_form(plan, d, n, sigma=sigma, rank=rank) for rank in range(d + 1)]
    except BadInput:  # nor where the toy does not cover the plan
        return None
    losses = [optimum.loss for optimum in optima if optimum is not None]
    return min(losses) if len(losses) == len(optima) else None
