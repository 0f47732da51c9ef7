"""AdamW, with the papers' exemptions."""

from __future__ import annotations

import torch
from torch import nn

from icl.models.decoder import Decoder
from icl.recipe import Recipe


def is_decayed(name: str, parameter: nn.Parameter) -> bool:
    """Whether weight decay applies: to matrices and embeddings.

    Not to biases, of scores too, and gains, and not to what weighs one thing against another: the learned weights of a
    plan, and queries, gains, matrices and averages of a depth rule, which decay would draw towards a mix nobody chose;
    these last have a decay of their own, `Recipe.depth_decay`.
    """
    return parameter.ndim >= 2 and not name.startswith(("learned.", "depth.")) and ".position_bias." not in name


def weighs_depth(name: str) -> bool:
    """Whether a parameter is the depth rule's own."""
    return name.startswith("depth.")


def adamw(model: Decoder, recipe: Recipe) -> torch.optim.AdamW:
    """The optimiser of a recipe; `set_rate` is to be called before every step."""
    members: dict[tuple[float, float], list[nn.Parameter]] = {}
    for name, parameter in model.named_parameters():
        decay, factor = recipe.weight_decay if is_decayed(name, parameter) else 0.0, 1.0
        if weighs_depth(name):
            decay, factor = recipe.depth_decay, recipe.depth_rate
        members.setdefault((decay, factor), []).append(parameter)
    groups = [{"params": some, "weight_decay": decay, "factor": factor} for (decay, factor), some in members.items()]
    return torch.optim.AdamW(groups, lr=recipe.learning_rate, betas=recipe.betas, eps=recipe.eps, fused=True)


def set_rate(optimiser: torch.optim.Optimizer, rate: float) -> None:
    """The learning rate of the next step; a depth rule's own parameters have theirs over it."""
    for group in optimiser.param_groups:
        group["lr"] = rate * group["factor"]
