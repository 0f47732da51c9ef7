"""Training a stack of toys on fresh prompts: every toy on its own, all in one step.  Any `Stack` trains like this.

Adam or plain gradient descent by a `Recipe`, with a learning rate and a gradient-norm clip *per toy*: no number of one
toy ever enters another's update, so a stack trains each of its toys as a plain loop would.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from icl.checkpoint import Checkpoints
from icl.prompts import TRAIN_STREAM
from icl.recipe import Recipe
from icl.toys.stack import Stack
from theory.errors import BadInput
from theory.plans.identity import text

MEANINGLESS = (
    "accumulate",
    "compile",
    "depth_decay",
    "depth_rate",
    "evaluate_every",
    "optimiser",
    "precision",
    "scale_outputs",
    "weight_decay",
)
TO_ZERO: dict[str, Any] = {"decay": "quadratic", "floor": 0.0, "start": 0.0}


def toy_recipe(
    steps: int,
    batch: int = 64,
    learning_rate: float = 0.003,
    *,
    warmup: float = 0.05,
    betas: tuple[float, float] = (0.9, 0.99),
    log_every: int = 100,
    **others: Any,
) -> Recipe:
    """Return the recipe that suits toys: `batch` fresh prompts per stream, and a quadratic decay to zero.

    others: fields of `Recipe`.  Raises BadInput.
    """
    settings = {"warmup": warmup, "betas": betas, "log_every": log_every, **TO_ZERO, **others}
    return Recipe(steps=steps, batch=batch, learning_rate=learning_rate, **settings)


Method = Literal["adam", "descent"]


class StackedDescent:
    """Gradient descent, without momentum, with one learning rate and one clip per toy: (streams, slots) each."""

    def __init__(self, toys: Stack[Any, Any], learning_rate: Tensor, clip: Tensor) -> None:
        self.parameters = dict(toys.named_parameters())
        self.learning_rate, self.clip = learning_rate, clip

    @torch.no_grad()
    def step(self, gradients: dict[str, Tensor], count: int, rate: float) -> None:  # noqa: ARG002 - as Adam's
        """Take one step, at `rate` times the learning rates."""
        size = (rate * self.learning_rate)[..., None, None] * self.shrunk(gradients)
        for name, parameter in self.parameters.items():
            parameter.sub_(size * gradients[name])

    def shrunk(self, gradients: dict[str, Tensor]) -> Tensor:
        """Return the factors that clip the gradients: (streams, slots, 1, 1)."""
        squares = [g.square().sum((-1, -2)) for g in gradients.values()]
        norm = sum(s if s.dim() == 2 else s.sum(0) for s in squares).sqrt()  # type: ignore[union-attr]
        return (self.clip / (norm + 1e-6)).clamp(max=1)[..., None, None]

    def state(self) -> dict[str, Tensor]:
        """Return weights by name; they are not copies."""
        return {name: p.detach() for name, p in self.parameters.items()}

    def load(self, state: Mapping[str, Tensor]) -> None:
        for name, tensor in self.state().items():
            tensor.copy_(state[name])


class StackedAdam(StackedDescent):
    """Adam over the last two dimensions of each parameter.  Moments are kept per entry, as in plain Adam."""

    def __init__(
        self, toys: Stack[Any, Any], learning_rate: Tensor, clip: Tensor, betas: tuple[float, float], eps: float
    ) -> None:
        super().__init__(toys, learning_rate, clip)
        self.betas, self.eps = betas, eps
        self.first = {name: torch.zeros_like(p) for name, p in self.parameters.items()}
        self.second = {name: torch.zeros_like(p) for name, p in self.parameters.items()}

    @torch.no_grad()
    def step(self, gradients: dict[str, Tensor], count: int, rate: float) -> None:
        """Take step number `count` (from 1), at `rate` times the learning rates."""
        shrink = self.shrunk(gradients)
        beta1, beta2 = self.betas
        size = (rate / (1 - beta1**count) * self.learning_rate)[..., None, None]
        for name, parameter in self.parameters.items():
            gradient = gradients[name] * shrink
            self.first[name].lerp_(gradient, 1 - beta1)
            self.second[name].mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
            spread = (self.second[name] / (1 - beta2**count)).sqrt_().add_(self.eps)
            parameter.sub_(size * self.first[name] / spread)

    def state(self) -> dict[str, Tensor]:
        """Return weights by name, and the moments of each; they are not copies."""
        moments = {f"{kind}.{name}": t for kind in ("first", "second") for name, t in getattr(self, kind).items()}
        return {**super().state(), **moments}


@dataclass(frozen=True)
class Progress:
    """The progress of training after every `log_every` steps: losses (streams, slots) averaged over those steps."""

    step: int
    losses: Tensor


def train(
    toys: Stack[Any, Any],
    recipe: Recipe,
    *,
    learning_rates: Tensor | None = None,
    method: Method = "adam",
    folder: Path | None = None,
    seconds_between_saves: float = 5.0,
    warn: Callable[[str], None] = lambda _: None,
) -> Generator[Progress, bool | None]:
    """Train in place, yielding after every `log_every` steps.

    learning_rates: (streams, slots), in place of recipe.learning_rate; recipe.clip is in zero losses.  With a folder,
    checkpoints (weights, optimiser and step) go there at logged steps, and at the end, and training resumes from the
    newest; `warn` receives messages for unreadable ones.  Prompts are named by their step, so a resumed run sees what
    an unbroken one sees.  Sent True, the generator saves and ends.  Raises BadCheckpoint if none can be read or they
    belong to other toys, and BadInput for a recipe with settings that have no meaning for toys.
    """
    _check(recipe)
    zero = torch.tensor([task.zero_loss for task, _ in toys.streams], dtype=toys.dtype, device=toys.device)
    shape = toys.shape
    rates = learning_rates if learning_rates is not None else zero.new_full(shape, recipe.learning_rate)
    clip = (recipe.clip or math.inf) * zero[:, None].expand(shape)
    optimiser = (
        StackedDescent(toys, rates, clip)
        if method == "descent"
        else StackedAdam(toys, rates, clip, betas=recipe.betas, eps=recipe.eps)
    )
    name = identity(toys, recipe, rates, method=method)
    saved, done = Checkpoints(folder, name, warn) if folder else None, 0
    if saved and (checkpoint := saved.newest()):
        optimiser.load(checkpoint.tensors)
        done = checkpoint.step
    names, parameters = zip(*optimiser.parameters.items(), strict=True)
    window, since, last_save = zero.new_zeros(shape), done, time.monotonic()
    for step in range(done, recipe.steps):
        losses = toys.sampled_losses(recipe.batch, TRAIN_STREAM, step)
        gradients = torch.autograd.grad(losses.sum(), parameters)
        optimiser.step(dict(zip(names, gradients, strict=True)), step + 1, recipe.share(step))
        window += losses.detach()
        if (step + 1) % recipe.log_every == 0 or step + 1 == recipe.steps:
            # First the report, then the checkpoint: what is in a checkpoint has been reported.
            stop = yield Progress(step + 1, window / (step + 1 - since))
            window, since, end = torch.zeros_like(window), step + 1, step + 1 == recipe.steps
            if saved and (stop or end or time.monotonic() - last_save >= seconds_between_saves):
                saved.save(step + 1, optimiser.state())
                last_save = time.monotonic()
            if stop:
                return


def identity(toys: Stack[Any, Any], recipe: Recipe, rates: Tensor, method: Method = "adam") -> str:
    """Return the identity of checkpoints: a digest of the toys, the recipe, the rates and a method other than Adam."""
    kind, other = (toys.specs, toys.dtype, toys.device.type), () if method == "adam" else (method,)
    about = ", ".join((*map(text, kind), _recipe_text(recipe), text(rates.tolist()), *other))
    return hashlib.sha256(f"({about})".encode()).hexdigest()


def _recipe_text(recipe: Recipe) -> str:
    """Return a recipe's text in identities, which is that of a class that toys once had for themselves.

    So trainings from then still resume.  That class knew one schedule; settings of another one follow its fields.
    """
    names = ("steps", "batch", "learning_rate", "warmup", "clip", "betas", "eps", "log_every")
    others = (name for name, value in TO_ZERO.items() if getattr(recipe, name) != value)
    return f"TrainConfig({', '.join(f'{name}={text(getattr(recipe, name))}' for name in (*names, *others))})"


def _check(recipe: Recipe) -> None:
    """Raise BadInput for settings that have no meaning for toys."""
    default = {field.name: field.default for field in fields(recipe)}
    for name in MEANINGLESS:
        if (value := getattr(recipe, name)) != default[name]:
            raise BadInput(f"{name} has no meaning for toys: leave it at {default[name]}, not {value}")
