"""AdamW, with the papers' exemptions."""

from __future__ import annotations

import torch
from torch import nn

from icl.models.decoder import Decoder
from icl.recipe import Recipe


def is_decayed(name: str, parameter: nn.Parameter) -> bool:
    """Whether weight decay applies: to matrices and embeddings.

    Not to biases, of scores too, and gains, and not to what weighs one thing against another: the learned weights of a
    plan, and queries, gains, matrices and averages of a depth rule, which decay would draw towards a mix nobody chose.
    """
    return parameter.ndim >= 2 and not name.startswith(("learned.", "depth.")) and ".position_bias." not in name


def weighs_depth(name: str) -> bool:
    """Whether a parameter is the depth rule's own."""
    return name.startswith("depth.")


def adamw(model: Decoder, recipe: Recipe) -> torch.optim.AdamW:
    """The optimiser of a recipe; `set_rate` is to be called before every step."""
    named = list(model.named_parameters())
    own = [p for n, p in named if weighs_depth(n)] if recipe.depth_rate != 1 else []
    apart = set(map(id, own))
    groups = [
        {"params": [p for n, p in named if is_decayed(n, p)], "weight_decay": recipe.weight_decay, "factor": 1.0},
        {
            "params": [p for n, p in named if not is_decayed(n, p) and id(p) not in apart],
            "weight_decay": 0.0,
            "factor": 1.0,
        },
        {"params": own, "weight_decay": 0.0, "factor": recipe.depth_rate},
    ]
    groups = [group for group in groups if group["params"]]
    return torch.optim.AdamW(groups, lr=recipe.learning_rate, betas=recipe.betas, eps=recipe.eps, fused=True)


def set_rate(optimiser: torch.optim.Optimizer, rate: float) -> None:
    """The learning rate of the next step; a depth rule's own parameters have theirs over it."""
    for group in optimiser.param_groups:
        group["lr"] = rate * group["factor"]
