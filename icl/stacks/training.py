"""Training a stack: every decoder as `icl.training.loop` trains it alone, to rounding, all in one step.

Each has its own data, learning rate, clip and divergence: no number of one enters another's update.

Trainings of several lengths share their beginning where their rates do (`icl.recipe`, decay "late"): the trunk at a
constant rate goes on, and every length is a branch of it, whose rate falls to the end.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Generator as Steps
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from icl.checkpoint import Checkpoints
from icl.models.decoder import Decoder
from icl.recipe import Recipe
from icl.stacks.decoder import Losses, StackedDecoder
from icl.stacks.forward import Turned
from icl.training.loop import DIVERGED, HeldOut, is_far, starting_loss, state_precision
from icl.training.objectives import Batch, Task, blind_loss
from theory.errors import BadInput
from theory.plans.identity import text


@runtime_checkable
class StackTask(Task, Protocol):
    """A task for stacks: vectors in, and the loss of some numbers of some tokens' answers.

    read  the tokens whose answers count; a batch's last targets are theirs
    slot  which numbers of such an answer are scored
    nats  whether they are scores of a softmax, and targets are one-hot; otherwise errors are squared
    """

    @property
    def read(self) -> slice: ...

    @property
    def slot(self) -> slice: ...

    @property
    def nats(self) -> bool: ...

    def batches(self, seeds: Sequence[int], step: int, size: int) -> Batch:
        """Return `batch` of every seed, to rounding, stacked along a new first dimension."""
        ...


class Feed:
    """The prompts of every decoder: equal seeds see the same ones."""

    def __init__(self, task: StackTask, seeds: Sequence[int], like: Tensor) -> None:
        self.task, self.like = task, like
        self.streams = list(dict.fromkeys(seeds))
        self.of = torch.tensor([self.streams.index(seed) for seed in seeds], device=like.device)
        self.read, self.slot, self.nats = task.read, task.slot, task.nats

    def batches(self, step: int, size: int) -> tuple[Tensor, Tensor]:
        """Return every stream's inputs (streams, width, T, B) and targets (streams, d, tokens read, B)."""
        return self.laid(self.task.batches(self.streams, step, size))

    def laid(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Move the batch last: (..., B, T, width) to (..., width, T, B), targets to (..., d, tokens read, B)."""
        count = len(range(self.task.tokens)[self.read])
        parts = (batch.inputs, batch.targets[..., -count:, :])
        inputs, targets = (x.to(self.like).transpose(-3, -1).contiguous() for x in parts)
        return inputs, targets


EVALUATED = 64  # held-out prompts at a time
TURNED = 0.5  # share of the steps of the shortest recipe after which an ingredient is on altogether
MEANINGLESS = {
    "accumulate": 1,
    "precision": "fp32",
    "evaluate_every": 0,
    "depth_rate": 1.0,
    "depth_decay": 0.0,
    "optimiser": "adamw",
}


@dataclass(frozen=True)
class Stretch:
    """Steps from `first` to `last` of one recipe: up to where a shorter training leaves, or to the recipe's end."""

    recipe: int
    first: int
    last: int
    ends: bool


@dataclass(frozen=True, eq=False)
class Logged:
    """The `log_every` steps up to `step` of a stretch, or those up to its end.

    recipe    the shortest training of which these steps are a part
    shared    whether the longer ones have them too
    losses    of every decoder, the mean over these steps
    held_out  at the end of a recipe: of every decoder, or why it diverged
    probed    there, what was asked to be measured of every decoder; None of one that diverged
    done      steps in all, shared ones once
    """

    recipe: int
    shared: bool
    step: int
    losses: tuple[float, ...]
    held_out: tuple[HeldOut | str, ...] | None
    done: int
    probed: tuple[Any, ...] | None = None


def stretches(recipes: Sequence[Recipe]) -> list[Stretch]:
    """Return the stretches of trainings that differ in length, the shortest first.

    What they share is trained once, up to a line of their logs.  Raises BadInput if one is not longer than the one
    before, or their rates do not agree until the shorter one's falls.
    """
    found, trunk = [], 0
    for i, (recipe, longer) in enumerate(pairwise(recipes)):
        leaves = _leaves(recipe, longer)
        if recipe.steps >= longer.steps or leaves < recipe.begins_to_fall() or leaves <= trunk:
            raise BadInput("trainings of several lengths share their rates until the shorter one's falls")
        logged = leaves - leaves % recipe.log_every  # a line holds the steps that it holds of a training alone
        leaves = logged if logged > trunk else leaves
        found += [Stretch(i, trunk, leaves, ends=False), Stretch(i, leaves, recipe.steps, ends=True)]
        trunk = leaves
    last = len(recipes) - 1
    return [*found, Stretch(last, trunk, recipes[last].steps, ends=True)]


@lru_cache(maxsize=1024)
def _leaves(recipe: Recipe, longer: Recipe) -> int:
    """Return the first step at which the rates of two trainings differ, or the steps of the first."""
    return next((s for s in range(recipe.steps) if recipe.rate(s) != longer.rate(s)), recipe.steps)


class AdamW:
    """AdamW with a learning rate and a clip per decoder, as `icl.training.optimiser.adamw` has it for one."""

    def __init__(self, stack: StackedDecoder, recipe: Recipe, rates: Tensor) -> None:
        self.flat, self.recipe, self.rates = stack.flat, recipe, rates[:, None]
        self.first, self.second = torch.zeros_like(stack.flat), torch.zeros_like(stack.flat)
        self.decayed = stack.decayed if recipe.weight_decay else None

    def step(self, rows: slice, gradient: Tensor, count: int, share: float) -> None:
        """Update number `count` (from 1) of some decoders, at `share` of their peak rates."""
        beta1, beta2 = self.recipe.betas
        flat, first, second, rate = self.flat[rows], self.first[rows], self.second[rows], share * self.rates[rows]
        norm = torch.linalg.vector_norm(gradient, dim=1, keepdim=True)
        gradient = torch.where(norm.isfinite(), gradient, math.nan)  # one whose norm overflows has diverged, too
        if self.recipe.clip:
            gradient = gradient * (self.recipe.clip / (norm + 1e-6)).clamp(max=1)
        if self.decayed is not None:
            flat.mul_(1 - rate * self.recipe.weight_decay * self.decayed)
        first.lerp_(gradient, 1 - beta1)
        second.mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
        spread = (second.sqrt() / (1 - beta2**count) ** 0.5).add_(self.recipe.eps)
        flat.sub_(rate / (1 - beta1**count) * first / spread)


class Run:
    """The state of a training: weights, optimiser, and which decoders have left for good."""

    def __init__(self, stack: StackedDecoder, optimiser: AdamW, blind: float) -> None:
        rows = len(stack.flat)
        self.blind = blind
        self.start = stack.flat.new_full((rows,), math.nan)  # `icl.training.loop.starting_loss`
        self.left = stack.flat.new_zeros(rows)  # the step by which it diverged
        self.tensors = {
            "flat": stack.flat,
            "first": optimiser.first,
            "second": optimiser.second,
            "start": self.start,
            "left": self.left,
        }

    def saved(self) -> dict[str, Tensor]:
        return {name: tensor.clone() for name, tensor in self.tensors.items()}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        for name, tensor in self.tensors.items():
            tensor.copy_(tensors[name])

    def watch(self, losses: Tensor, step: int) -> None:
        """Note which trainings `icl.training.loop` would stop: the loss is no number, or has left its start far behind.

        losses: (steps, rows), since what was logged before
        """
        self.start.copy_(torch.where(self.start.isnan(), starting_loss(losses, self.blind), self.start))
        far = losses.median(0).values > DIVERGED * self.start
        gone = ~losses.isfinite().all(0) | far | ~self.tensors["flat"].isfinite().all(1)
        self.left.copy_(torch.where(gone & (self.left == 0), float(step), self.left))


def train(
    models: Sequence[Decoder],
    task: StackTask,
    recipes: Sequence[Recipe],
    seeds: Sequence[int],
    rates: Sequence[float],
    *,
    folder: Path | None = None,
    seconds_between_saves: float = 60.0,
    warn: Callable[[str], None] = lambda _: None,
    on_step: Callable[[int], None] = lambda _: None,
    name: str = "",
    probe: Callable[[int, Decoder], Any] | None = None,
    turning: Turned | None = None,
) -> Steps[Logged, bool | None, StackedDecoder]:
    """Train copies of the decoders, yielding after every `log_every` steps and at the end of every recipe.

    recipes  trainings that differ in length only (`stretches`), the shortest first; their rate gives way to
    rates    of every decoder; seeds: of its data's order
    probe    what else is measured there, from a decoder's place and a copy of it
    turning  an ingredient that the decoders were trained without: it is turned on by degrees over TURNED of the steps
    folder   for checkpoints, from which a killed training is resumed; name: as in `icl.training.loop.train`

    Returns the stack at the end of the last recipe.  Sent True, it saves and ends.  Raises BadInput for decoders that
    do not stack, recipes that have no meaning for a stack and prompts that the decoders cannot read, BadCheckpoint.
    """
    for recipe in recipes:
        for field, value in MEANINGLESS.items():
            if getattr(recipe, field) != value:
                raise BadInput(f"{field} has no meaning for a stack: leave it at {value}")
    stack = StackedDecoder(models, turning=turning)
    state_precision(stack.flat.device)
    extra = len(stack.flat) - len(models)
    padded = torch.tensor([*rates, *[rates[0]] * extra], dtype=stack.flat.dtype, device=stack.flat.device)
    feed = Feed(task, [*seeds, *[seeds[0]] * extra], stack.flat)
    optimiser = AdamW(stack, recipes[-1], padded)
    run, plan = Run(stack, optimiser, blind_loss(task, models[0].config.stem)), stretches(recipes)
    about = (models[0].config, [m.plan for m in models], task.identity, list(recipes), list(seeds), list(rates), name)
    kind = (str(stack.flat.dtype), stack.flat.device.type, *([turning] if turning else []))
    identity = hashlib.sha256(text((*about, *kind)).encode()).hexdigest()
    saved = Checkpoints(folder, identity, warn) if folder else None
    done, trunk = 0, run.saved()
    if saved and (checkpoint := saved.newest()):
        run.restore(checkpoint.tensors)
        trunk = {name: checkpoint.tensors[f"trunk.{name}"] for name in trunk}
        done = checkpoint.step
    losses = (
        stack.compiled(feed.read, feed.slot, nats=feed.nats)
        if recipes[-1].compile
        else partial(stack.losses, read=feed.read, slot=feed.slot, nats=feed.nats)
    )
    taken, last_save = 0, time.perf_counter()
    on_step(done)
    for before, stretch in zip([None, *plan], plan, strict=False):
        recipe, begins = recipes[stretch.recipe], taken
        taken += stretch.last - stretch.first
        if done >= taken:
            continue
        if done == begins and before is not None:
            if before.ends:
                run.restore(trunk)
            else:
                trunk = run.saved()
        window: list[Tensor] = []
        for step in range(stretch.first + done - begins, stretch.last):
            if turning:
                stack.turn(min(1.0, (step + 1) / (TURNED * recipes[0].steps)))
            window.append(take_step(stack, feed, optimiser, recipe=recipe, losses=losses, step=step))
            done += 1
            on_step(done)
            if (step + 1) % recipe.log_every and step + 1 < stretch.last:
                continue
            logged = torch.stack(window)
            run.watch(logged, step + 1)
            ended = stretch.ends and step + 1 == stretch.last
            found = evaluate(stack, feed, run) if ended else None
            probed = _probed(stack, models, probe, ends=found) if found and probe else None
            mean = tuple(logged.mean(0)[: stack.models].tolist())
            stop = yield Logged(
                stretch.recipe, not stretch.ends, step + 1, losses=mean, held_out=found, done=done, probed=probed
            )
            window = []
            finished = stretch is plan[-1] and step + 1 == stretch.last
            if saved and (stop or finished or time.perf_counter() - last_save >= seconds_between_saves):
                saved.save(done, {**run.saved(), **{f"trunk.{name}": t for name, t in trunk.items()}})
                last_save = time.perf_counter()
            if stop:
                return stack
    return stack


def take_step(stack: StackedDecoder, feed: Feed, optimiser: AdamW, recipe: Recipe, losses: Losses, step: int) -> Tensor:
    """Take one step of all decoders, and return the loss of each."""
    inputs, targets = feed.batches(step, recipe.batch)
    means = []
    for rows in stack.chunks(recipe.batch):
        flat = stack.flat[rows].detach().requires_grad_()
        mean = losses(rows, flat, inputs[feed.of[rows]], targets[feed.of[rows]]).mean((1, 2))
        (gradient,) = torch.autograd.grad(mean.sum(), flat)
        with torch.no_grad():
            optimiser.step(rows, gradient, step + 1, recipe.share(step))
        means.append(mean.detach())
    return torch.cat(means)


def evaluate(stack: StackedDecoder, feed: Feed, run: Run) -> tuple[HeldOut | str, ...]:
    """Return the held-out losses of every decoder at the end of its training.

    For one that diverged, return a line that says by which step.
    """
    mean, spread = _held_out(stack, feed)
    diverged = ~mean.isfinite().all(-1) | is_far(mean, spread, run.start.double(), blind=run.blind)
    ends: list[HeldOut | str] = []
    for step, last, of_mean, of_spread in zip(run.left.tolist(), diverged.tolist(), mean, spread, strict=True):
        if step or last:
            ends.append(f"training diverged by step {step:.0f}" if step else "training diverged at its last step")
        else:
            ends.append(HeldOut(tuple(of_mean.tolist()), tuple(of_spread.tolist())))
    return tuple(ends[: stack.models])


def score(models: Sequence[Decoder], task: StackTask) -> list[HeldOut]:
    """Return the held-out losses of decoders that stack, one number per position."""
    stack = StackedDecoder(models)
    both = _held_out(stack, Feed(task, [0], stack.flat))
    return [HeldOut(tuple(mean.tolist()), tuple(spread.tolist())) for mean, spread in zip(*both, strict=True)][
        : len(models)
    ]


@torch.no_grad()
def _held_out(stack: StackedDecoder, feed: Feed) -> tuple[Tensor, Tensor]:
    """Return every row's mean held-out loss and standard error, (rows, positions), as `icl.training.loop.evaluate`."""
    chunks = stack.chunks(EVALUATED)
    parts: list[list[Tensor]] = [[] for _ in chunks]
    for batch in feed.task.held_out():
        inputs, targets = feed.laid(batch)
        for x, y in zip(inputs.split(EVALUATED, -1), targets.split(EVALUATED, -1), strict=True):
            for rows, found in zip(chunks, parts, strict=True):
                flat = stack.flat[rows]
                same, wanted = (tensor.expand(len(flat), *tensor.shape) for tensor in (x, y))
                found.append(stack.losses(rows, flat, same, wanted, feed.read, feed.slot, nats=feed.nats).double())
    losses = torch.cat([torch.cat(found, -1) for found in parts])  # (rows, positions, prompts)
    count = losses.shape[-1]
    return losses.mean(-1), losses.std(-1, correction=min(1, count - 1)) / count**0.5


def _probed(
    stack: StackedDecoder,
    models: Sequence[Decoder],
    probe: Callable[[int, Decoder], Any],
    ends: Sequence[HeldOut | str],
) -> tuple[Any, ...]:
    """Return the probe's result for every decoder that did not diverge, None for others."""
    each = enumerate(zip(models, ends, strict=True))
    return tuple(None if isinstance(end, str) else probe(i, stack.copied(i, model)) for i, (model, end) in each)
