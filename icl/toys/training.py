"""Training a stack of toys on fresh prompts: every toy on its own, all in one step.  Any `Stack` trains like this.

Adam with a learning rate, a warm-up, a quadratic decay to zero and a gradient-norm clip *per toy*: no number of one toy
ever enters another's update, so a stack trains each of its toys as a plain loop would.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from icl.checkpoint import BadCheckpoint, Checkpoint, Checkpoints
from icl.prompts import TRAIN_STREAM
from icl.toys.stack import Stack
from theory.plans.identity import text


@dataclass(frozen=True)
class TrainConfig:
    """`steps` steps of `batch` fresh prompts a stream; `clip` bounds a toy's gradient norm, in zero losses."""

    steps: int = 3000
    batch: int = 64
    learning_rate: float = 0.003
    warmup: float = 0.05
    clip: float = 1.0
    betas: tuple[float, float] = (0.9, 0.99)
    eps: float = 1e-8
    log_every: int = 100

    def rate(self, step: int) -> float:
        """Share of the learning rate at `step` (from 0)."""
        rising = min(1.0, (step + 1) / max(1.0, self.warmup * self.steps))
        return rising * (1 - step / self.steps) ** 2


class StackedAdam:
    """Adam over the last two dimensions of each parameter, with one learning rate and one clip per toy.

    learning_rate and clip: (streams, slots).  The first and second moments are kept per entry, as in plain Adam.
    """

    def __init__(
        self, toys: Stack[Any, Any], learning_rate: Tensor, clip: Tensor, betas: tuple[float, float], eps: float
    ) -> None:
        self.parameters = dict(toys.named_parameters())
        self.learning_rate, self.clip, self.betas, self.eps = learning_rate, clip, betas, eps
        self.first = {name: torch.zeros_like(p) for name, p in self.parameters.items()}
        self.second = {name: torch.zeros_like(p) for name, p in self.parameters.items()}

    @torch.no_grad()
    def step(self, gradients: dict[str, Tensor], count: int, rate: float) -> None:
        """The update number `count` (from 1), at `rate` times the learning rates."""
        squares = [g.square().sum((-1, -2)) for g in gradients.values()]
        norm = sum(s if s.dim() == 2 else s.sum(0) for s in squares).sqrt()  # type: ignore[union-attr]
        shrink = (self.clip / (norm + 1e-6)).clamp(max=1)[..., None, None]
        beta1, beta2 = self.betas
        size = (rate / (1 - beta1**count) * self.learning_rate)[..., None, None]
        for name, parameter in self.parameters.items():
            gradient = gradients[name] * shrink
            self.first[name].lerp_(gradient, 1 - beta1)
            self.second[name].mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
            spread = (self.second[name] / (1 - beta2**count)).sqrt_().add_(self.eps)
            parameter.sub_(size * self.first[name] / spread)

    def state(self) -> dict[str, Tensor]:
        """Weights by name, and the moments of each: not copies."""
        moments = {f"{kind}.{name}": t for kind in ("first", "second") for name, t in getattr(self, kind).items()}
        return {**{name: p.detach() for name, p in self.parameters.items()}, **moments}

    def load(self, state: Mapping[str, Tensor]) -> None:
        for name, tensor in self.state().items():
            tensor.copy_(state[name])


@dataclass(frozen=True)
class Progress:
    """What training says after every `log_every` steps: losses (streams, slots) averaged over those steps."""

    step: int
    losses: Tensor


def train(
    toys: Stack[Any, Any],
    config: TrainConfig,
    *,
    learning_rates: Tensor | None = None,
    folder: Path | None = None,
    save_when: Callable[[int], bool] = lambda _: True,
    warn: Callable[[str], None] = lambda _: None,
) -> Iterator[Progress]:
    """Train in place, yielding after every `log_every` steps.

    learning_rates: (streams, slots), in place of config.learning_rate.  With a folder, checkpoints (weights, optimiser
    and step) go there at logged steps where `save_when(step)`, and at the end, and training resumes from the newest;
    `warn` is told of unreadable ones.  Prompts are named by their step, so a resumed run sees what an unbroken one
    sees.  Raises BadCheckpoint if none can be read or they belong to other toys.
    """
    zero = torch.tensor([task.zero_loss for task, _ in toys.streams], dtype=toys.dtype, device=toys.device)
    shape = toys.shape
    rates = learning_rates if learning_rates is not None else zero.new_full(shape, config.learning_rate)
    clip = config.clip * zero[:, None].expand(shape)
    adam = StackedAdam(toys, rates, clip, config.betas, config.eps)
    recipe = _recipe(toys, config, rates)
    saved, done = Checkpoints(folder, recipe, warn) if folder else None, 0
    if saved and (found := saved.newest() or _single_file(saved.folder, recipe)):
        adam.load(found.tensors)
        done = found.step
    names, parameters = zip(*adam.parameters.items(), strict=True)
    window, since = zero.new_zeros(shape), done
    for step in range(done, config.steps):
        losses = toys.sampled_losses(config.batch, TRAIN_STREAM, step)
        gradients = torch.autograd.grad(losses.sum(), parameters)
        adam.step(dict(zip(names, gradients, strict=True)), step + 1, config.rate(step))
        window += losses.detach()
        if (step + 1) % config.log_every == 0 or step + 1 == config.steps:
            # First the report, then the checkpoint: what is in a checkpoint has been reported.
            yield Progress(step + 1, window / (step + 1 - since))
            window, since = torch.zeros_like(window), step + 1
            if saved and (save_when(step + 1) or step + 1 == config.steps):
                saved.save(step + 1, adam.state())


def _recipe(toys: Stack[Any, Any], config: TrainConfig, rates: Tensor) -> str:
    """What a checkpoint belongs to: a digest of the toys, the configuration and the learning rates."""
    about = (toys.specs, toys.dtype, toys.device.type, config, rates.tolist())
    return hashlib.sha256(text(about).encode()).hexdigest()


def _single_file(folder: Path, recipe: str) -> Checkpoint | None:
    """A checkpoint as toys were once saved: one file beside the folder, so that trainings begun then still resume."""
    path = folder.with_name(f"{folder.name}.safetensors")
    if not path.exists():
        return None
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata()
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a mapping
    except SafetensorError as error:
        raise BadCheckpoint(f"{path} is damaged ({error}); delete it to retrain") from error
    if metadata.get("recipe") != recipe:
        raise BadCheckpoint(f"{path} belongs to another run; delete it to retrain")
    return Checkpoint(int(metadata["step"]), tensors, {})
