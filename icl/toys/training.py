"""Training a stack of toys on fresh prompts: every toy on its own, all in one step.  Any `Stack` trains like this.

Adam with a learning rate, a warm-up, a quadratic decay to zero and a gradient-norm clip *per toy*: no number of one toy
ever enters another's update, so a stack trains each of its toys as a plain loop would.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from icl.prompts import RegressionTask
from icl.toys.stacked import EVAL_STREAM, TRAIN_STREAM, StackedToys
from theory.plans.identity import text


class BadCheckpoint(ValueError):
    """A checkpoint that cannot be read, or is of other toys.  The message is one line meant for a user."""


class Stack(Protocol):
    """Toys as one module: `icl.toys.stacked.StackedToys`, `icl.toys.end_to_end.EndToEndToys`.

    Toy `specs[i]` is slot m of stream s, (s, m) = `locate[i]`; a stream is a task and a seed, which name its prompts;
    `shape` is (streams, slots).  Every parameter is (..., streams, slots, rows, columns), at most one dimension before.
    """

    locate: dict[int, tuple[int, int]]

    @property
    def specs(self) -> tuple[object, ...]: ...

    @property
    def streams(self) -> tuple[tuple[RegressionTask, int], ...]: ...

    @property
    def shape(self) -> tuple[int, int]: ...

    @property
    def dtype(self) -> torch.dtype: ...

    @property
    def device(self) -> torch.device: ...

    def named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]: ...

    def sampled_losses(self, size: int, purpose: int, step: int) -> Tensor:
        """The mean loss of every toy on `size` fresh prompts a stream: (streams, slots)."""


EVAL_BATCH = 64  # what keeps the intermediates of some hundred toys in a core's cache


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
        self, toys: Stack, learning_rate: Tensor, clip: Tensor, betas: tuple[float, float], eps: float
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
        return {f"{kind}.{name}": t for kind in ("first", "second") for name, t in getattr(self, kind).items()}

    def load(self, state: dict[str, Tensor]) -> None:
        for name, tensor in self.state().items():
            tensor.copy_(state[name])


@dataclass(frozen=True)
class Progress:
    """What training says after every `log_every` steps: losses (streams, slots) averaged over those steps."""

    step: int
    losses: Tensor


def train(
    toys: Stack,
    config: TrainConfig,
    *,
    learning_rates: Tensor | None = None,
    checkpoint: Path | None = None,
    save_when: Callable[[int], bool] = lambda _: True,
) -> Iterator[Progress]:
    """Train in place, yielding after every `log_every` steps; resumes from `checkpoint` if it is there.

    learning_rates: (streams, slots), in place of config.learning_rate.  The checkpoint (safetensors) holds weights,
    optimiser and step and is replaced atomically at logged steps where `save_when(step)`, and at the end; prompts are
    named by their step, so a resumed run sees what an unbroken one sees.  Raises BadCheckpoint for one that cannot be
    read or belongs to other toys.
    """
    zero = torch.tensor([task.zero_loss for task, _ in toys.streams], dtype=toys.dtype, device=toys.device)
    shape = toys.shape
    rates = learning_rates if learning_rates is not None else zero.new_full(shape, config.learning_rate)
    clip = config.clip * zero[:, None].expand(shape)
    adam = StackedAdam(toys, rates, clip, config.betas, config.eps)
    recipe = _recipe(toys, config, rates)
    done = _load(checkpoint, adam, recipe) if checkpoint is not None and checkpoint.exists() else 0
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
            if checkpoint is not None and (save_when(step + 1) or step + 1 == config.steps):
                _save(checkpoint, adam, step + 1, recipe)


def _recipe(toys: Stack, config: TrainConfig, rates: Tensor) -> str:
    """What a checkpoint belongs to: a digest of the toys, the configuration and the learning rates."""
    about = (toys.specs, toys.dtype, toys.device.type, config, rates.tolist())
    return hashlib.sha256(text(about).encode()).hexdigest()


def _save(path: Path, adam: StackedAdam, step: int, recipe: str) -> None:
    temporary = path.with_suffix(".part")
    tensors = {**{n: p.detach() for n, p in adam.parameters.items()}, **adam.state()}
    save_file(tensors, temporary, metadata={"step": str(step), "recipe": recipe})
    temporary.replace(path)


def _load(path: Path, adam: StackedAdam, recipe: str) -> int:
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata()
            state = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a mapping
    except SafetensorError as error:
        raise BadCheckpoint(f"{path} is damaged ({error}); delete it to train anew") from error
    if metadata.get("recipe") != recipe:
        raise BadCheckpoint(f"{path} belongs to other toys or another configuration; delete it to train anew")
    with torch.no_grad():
        for name, parameter in adam.parameters.items():
            parameter.copy_(state[name])
    adam.load(state)
    return int(metadata["step"])


@torch.no_grad()
def explained_signal(toys: StackedToys, prompts: int, batch: int = EVAL_BATCH, start: int = 0) -> Tensor:
    """How much better than zero each toy predicts, on held-out prompts: (streams, slots), float64.

    The mean over `prompts` prompts (a multiple of `batch`) of ||W*||^2 - ||P - W*||^2.  As x_{n+1} ~ N(0, I) and the
    noise are independent of the context, E ||y - P x||^2 = E ||P - W*||^2 + d sigma^2: the query is integrated exactly,
    and the loss is d^2 + d sigma^2 less this number, an unbiased estimate of lower variance than the raw loss.  `start`
    is the first batch to draw, so that chunks can be evaluated apart.
    """
    if prompts < 1 or prompts % batch:
        raise ValueError(f"the number of prompts must be a multiple of the batch, {batch}; got {prompts}")
    total = torch.zeros(toys.shape, dtype=torch.float64, device=toys.device)
    eye = torch.eye(toys.d_max, dtype=toys.dtype, device=toys.device)
    for index in range(prompts // batch):
        sample = toys.batch(batch, EVAL_STREAM, start + index)
        columns = toys(sample.moments, eye.expand(len(toys.streams), batch, -1, -1))  # column j of P as row j
        target = sample.w.mT[:, None]
        total += (target.square() - (columns - target).square()).sum((-1, -2, -3)).double()
    return total / prompts
