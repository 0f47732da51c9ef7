"""One side of a comparison of training steps: a model, its optimiser, and a batch that it trains on again and again.

A step is the training loop's: its losses, compiled with the model where the recipe compiles, and the mean of them.  The
*plain path* is fp32, not compiled, with attention over depth as it is written.  A side's own path may be bf16, or
compiled, or read in two phases; it is held against the plain one, gradient for gradient, before it is timed.
"""

from __future__ import annotations

import time
from functools import partial

import torch
from torch import Tensor

from icl.models.decoder import Decoder
from icl.models.depth_attention import AttentionDepth, TwoPhases, read_as
from icl.probes.costs import kept_bytes
from icl.recipe import Recipe
from icl.training.loop import state_precision
from icl.training.objectives import GivenTokens
from icl.training.optimiser import adamw
from icl.training.processes import ALONE, Losses, losses
from theory.plans.architecture import Architecture, Tokens
from theory.plans.names import resolve
from theory.plans.plan import Plan

MOVED = 0.02  # deviation of what is added to all initial weights
AGREES = {"fp32": 1e-3, "bf16": 0.1}  # relative distance of the gradients; bf16 keeps 8 bits


class Side:
    """A side of the comparison.

    Attributes:
        variant: a plan, or as `theory.plans.names.resolve` takes it.
        reads: how attention over depth is timed, by default as the decoder has it.
    """

    def __init__(
        self,
        config: Architecture,
        variant: str | Plan,
        recipe: Recipe,
        device: str,
        *,
        reads: type[AttentionDepth] | None = None,
    ) -> None:
        self.config, self.recipe, self.device = config, recipe, torch.device(device)
        plan = resolve(variant, config.shape) if isinstance(variant, str) else variant
        self.model = Decoder(config, plan, device=device)
        with torch.no_grad():
            for parameter in self.model.parameters():  # queries over depth start at 0, which hides half a gradient
                parameter.add_(MOVED * torch.randn_like(parameter))
        depth = self.model.depth
        if isinstance(depth, TwoPhases):
            self.model.depth = read_as(AttentionDepth, depth, config, plan=plan)
        self.optimiser = adamw(self.model, recipe)
        vocab = config.stem.vocab if isinstance(config.stem, Tokens) else 1
        self.tokens = torch.randint(vocab, (recipe.batch, config.context + 1), device=device)
        self.task = GivenTokens(self.tokens.cpu().numpy())
        self.losses: Losses = losses
        state_precision(self.device)
        self.plain = self._gradients(fast=False)
        self.model.depth = read_as(reads, depth, config, plan=plan) if reads and isinstance(depth, TwoPhases) else depth
        self.losses = ALONE.losses(recipe)

    def _loss(self, *, fast: bool) -> Tensor:
        with torch.autocast(self.device.type, torch.bfloat16, enabled=fast and self.recipe.precision == "bf16"):
            return self.losses(self.model, self.task, self.tokens[:, :-1], self.tokens[:, 1:]).mean()

    def _gradients(self, *, fast: bool) -> Tensor:
        loss = self._loss(fast=fast)
        named = dict(sorted(self.model.named_parameters()))  # in one order, whatever the depth rule's module
        gradients = torch.autograd.grad(loss, list(named.values()), allow_unused=True)
        return torch.cat([g.flatten().float() for g in gradients if g is not None])

    def same_answer(self) -> bool:
        """Return whether this side's gradients are the plain path's, within the precision's tolerance."""
        fast = self._gradients(fast=True)
        return bool((fast - self.plain).norm() <= AGREES[self.recipe.precision] * self.plain.norm())

    def kept_for_backward(self) -> int:
        """Return the bytes that a step keeps for its backward pass, parameters left out."""
        return kept_bytes(partial(self._loss, fast=True), self.model.parameters())

    def seconds(self, steps: int) -> float:
        """Return the seconds of one step, mean over `steps`."""
        self._wait()
        began = time.perf_counter()
        for _ in range(steps):
            self._loss(fast=True).backward()
            self.optimiser.step()
            self.optimiser.zero_grad(set_to_none=True)
        self._wait()
        return (time.perf_counter() - began) / steps

    def memory(self) -> int | None:
        """Return the most bytes that two steps allocate beside what is there from others; None on a CPU."""
        if self.device.type != "cuda":
            return None
        moments = [x for kept in self.optimiser.state.values() for x in kept.values() if isinstance(x, Tensor)]
        own = sum(x.numel() * x.element_size() for x in [*self.model.parameters(), *moments] if x.device == self.device)
        before = torch.cuda.memory_allocated(self.device) - own
        torch.cuda.reset_peak_memory_stats(self.device)
        self.seconds(2)
        return int(torch.cuda.max_memory_allocated(self.device) - before)

    def _wait(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
