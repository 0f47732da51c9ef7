"""AdamW with the papers' exemptions, and Muon for the matrices of layers."""

from __future__ import annotations

import torch
from torch import nn

from icl.models.decoder import Decoder
from icl.recipe import Recipe


def is_decayed(name: str, parameter: nn.Parameter) -> bool:
    """Return whether weight decay applies to a parameter, as it does to matrices and embeddings.

    It does not apply to biases, those of scores included, to gains, and to what weighs one thing against another: the
    learned weights of a plan, and queries, gains, matrices and averages of a depth rule.  Decay would draw those
    towards a mix nobody chose.  Those of a depth rule have a decay of their own, `Recipe.depth_decay`.
    """
    return parameter.ndim >= 2 and not name.startswith(("learned.", "depth.")) and ".position_bias." not in name


def is_orthogonalised(name: str, parameter: nn.Parameter) -> bool:
    """Return whether Muon takes a parameter: the matrices of layers, no embeddings or tables, nor the output layer."""
    embeds = name.startswith("stem.") or name.endswith(".table.weight")
    return parameter.ndim == 2 and is_decayed(name, parameter) and not embeds


def weighs_depth(name: str) -> bool:
    """Return whether a parameter is the depth rule's own."""
    return name.startswith("depth.")


def build_optimiser(model: Decoder, recipe: Recipe) -> torch.optim.Optimizer:
    """Return the optimiser of a recipe; `set_rate` is to be called before every step."""
    if recipe.optimiser == "adamw":
        return adamw(model, recipe)
    named = dict(model.named_parameters())
    matrices = {name: parameter for name, parameter in named.items() if is_orthogonalised(name, parameter)}
    others = {name: parameter for name, parameter in named.items() if name not in matrices}
    return Joined(_muon(matrices, recipe), _adamw(others, recipe))


def adamw(model: Decoder, recipe: Recipe) -> torch.optim.AdamW:
    """Return AdamW of all parameters."""
    return _adamw(dict(model.named_parameters()), recipe)


class Joined(torch.optim.Optimizer):
    """Optimisers of different parameters as one: their groups and their state are shared with it.

    Args:
        parts: The optimisers, which step one after another.
    """

    def __init__(self, *parts: torch.optim.Optimizer) -> None:
        super().__init__([group for part in parts for group in part.param_groups], {})
        self.parts = parts
        for part in parts:
            part.state = self.state

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]  # noqa: ARG002
        """Take a step of each optimiser."""
        for part in self.parts:
            part.step()


def _adamw(named: dict[str, nn.Parameter], recipe: Recipe) -> torch.optim.AdamW:
    members: dict[tuple[float, float], list[nn.Parameter]] = {}
    for name, parameter in named.items():
        decay, factor = recipe.weight_decay if is_decayed(name, parameter) else 0.0, 1.0
        if weighs_depth(name):
            decay, factor = recipe.depth_decay, recipe.depth_rate
        members.setdefault((decay, factor), []).append(parameter)
    groups = [{"params": some, "weight_decay": decay, "factor": factor} for (decay, factor), some in members.items()]
    return torch.optim.AdamW(groups, lr=recipe.learning_rate, betas=recipe.betas, eps=recipe.eps, fused=True)


def _muon(named: dict[str, nn.Parameter], recipe: Recipe) -> torch.optim.Muon:
    """Return Muon of matrices (Jordan et al., 2024), whose updates have the root mean square of AdamW's.

    So one rate serves both (Liu et al., 2025, section 2.2).
    """
    group = {"params": list(named.values()), "factor": 1.0}
    return torch.optim.Muon(
        [group], lr=recipe.learning_rate, weight_decay=recipe.weight_decay, adjust_lr_fn="match_rms_adamw"
    )


def set_rate(optimiser: torch.optim.Optimizer, rate: float) -> None:
    """Set the learning rate of the next step; a depth rule's own parameters have theirs over it."""
    for group in optimiser.param_groups:
        group["lr"] = rate * group["factor"]
