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


def adamw(model: Decoder, recipe: Recipe) -> torch.optim.AdamW:
    """The optimiser of a recipe, its learning rate still to be set at every step."""
    named = list(model.named_parameters())
    groups = [
        {"params": [p for n, p in named if is_decayed(n, p)], "weight_decay": recipe.weight_decay},
        {"params": [p for n, p in named if not is_decayed(n, p)], "weight_decay": 0.0},
    ]
    groups = [group for group in groups if group["params"]]
    return torch.optim.AdamW(groups, lr=recipe.learning_rate, betas=recipe.betas, eps=recipe.eps, fused=True)
