"""The training loop of full-size models: one model, one task, one recipe.

What happens at a step depends on nothing but the step, the weights and the optimiser: batches and dropout come from
streams that (seed, step) names.  So a killed run that resumes from its checkpoint ends with the numbers of one that was
not killed, bit for bit on a CPU with as many threads.  Several processes take equal parts of every batch and end with
the numbers of one, to the rounding of sums; but for dropout, of which each has masks of its own.
"""

from __future__ import annotations

import hashlib
import itertools
import math
import re
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from icl.models.decoder import Decoder
from icl.recipe import Diverged, Recipe
from icl.training.objectives import Task, blind_loss
from icl.training.optimiser import build_optimiser, set_rate
from icl.training.processes import ALONE, Losses, Processes
from icl.training.processes import losses as uncompiled
from theory.plans.accounting import flops
from theory.plans.identity import text

ROUTINE = 1  # to be raised by any change after which the same recipe trains another model; a test of golden losses asks
SAVING = 0.05  # the share of the time that is spent on saving at most, unless all that can be saved is to be
DIVERGED = 3.0  # times `starting_loss`: more than that at most steps, as a single prompt may cost a hundred times


@dataclass(frozen=True)
class HeldOut:
    """The mean held-out loss by position, and its standard error over sequences, float64."""

    loss: tuple[float, ...]
    stderr: tuple[float, ...]


@dataclass(frozen=True)
class Logged:
    """The `log_every` steps up to `step`, as one line of the log.

    It has the mean loss in the task's unit, the largest gradient norm before clipping, and, where it was due, the
    result of `evaluate`.

    tokens_per_second, mfu   measured over these steps; mfu is the share of the device's peak (None: not known)
    """

    step: int
    loss: float
    gradient_norm: float
    learning_rate: float
    tokens_per_second: float
    mfu: float | None
    held_out: HeldOut | None


def identity(model: Decoder, task: Task, recipe: Recipe, seed: int, name: str = "") -> str:
    """Return the name of a training: a digest of sizes, plan, task with its data, recipe, seed and way of training."""
    kind = next(model.parameters()).device.type
    about = (ROUTINE, model.config, model.plan, task.identity, recipe, seed, kind, name)
    return hashlib.sha256(text(about).encode()).hexdigest()


def starting_loss(losses: Tensor, blind: float) -> Tensor:
    """Return the loss against which divergence is judged: that of the first logged steps, unless they have diverged.

    What they reach is then capped by the loss before the first update, or that of a blind guess if it is larger.

    Args:
        losses: Losses of the first logged steps, (steps, ...).
        blind: `icl.training.objectives.blind_loss`.

    Returns:
        One loss for each training, (...).
    """
    return torch.minimum(losses.mean(0), losses[0].clamp(min=blind))


def is_far(loss: Tensor, stderr: Tensor, start: Tensor, blind: float) -> Tensor:
    """Return whether held-out losses show that a training diverged after most of the steps that were logged last.

    A few sequences that cost a thousand times what others cost do not: their standard error is as large.

    Args:
        loss: by position, (..., positions).
        stderr: over sequences, likewise.
        start: `starting_loss`, (...).
        blind: `icl.training.objectives.blind_loss`.
    """
    return (loss - 2 * stderr).mean(-1) > DIVERGED * start.clamp(min=blind)


def train(
    model: Decoder,
    task: Task,
    recipe: Recipe,
    seed: int,
    *,
    folder: Path | None = None,
    seconds_between_saves: float = 60.0,
    warn: Callable[[str], None] = lambda _: None,
    on_step: Callable[[int], None] = lambda _: None,
    name: str = "",
    start: Path | None = None,
    processes: Processes = ALONE,
) -> Generator[Logged, bool | None]:
    """Train in place on the model's device, yielding after every `log_every` steps and at the end.

    With a folder, checkpoints go there and training resumes from the newest; `warn` hears of unreadable ones.  At least
    `seconds_between_saves` lie between two, and more where saving would take more than SAVING of the time; with 0 there
    is one at every report.
    `on_step` hears how many steps are done: at the start, and after each.  `name` tells apart what these arguments do
    not, such as initial weights.  Where the folder has no checkpoint, the training starts with the newest in the folder
    `start`, at its step: another training's end.  Sent True, in any of the processes, the generator saves and ends.
    What is in a checkpoint has been yielded before.  Raises Diverged, leaving the checkpoints as they are, and
    BadCheckpoint, and BadInput for a recipe that these processes cannot share out.

    processes   that train the model together, this one among them; each of them goes through all of this
    """
    processes.check(recipe)
    device = next(model.parameters()).device
    named = identity(model, task, recipe, seed=seed, name=name)
    state_precision(device)
    processes.prepare(model, recipe)
    losses_of = processes.losses(recipe)
    optimiser = build_optimiser(model, recipe)
    saved = processes.checkpoints(folder, named, warn) if folder else None
    done, first = 0, None
    checkpoint = saved.newest() if saved else None
    if checkpoint is None and start:
        checkpoint = processes.checkpoints(start, "", warn).newest(of_any=True)
    if checkpoint:
        processes.restore(model, optimiser, checkpoint)
        done, first = checkpoint.step, checkpoint.numbers["first_loss"]
    token_flops = 3 * flops(model.config, model.plan, (task.tokens + 1) // 2)
    peak = peak_flops(device, recipe.precision)
    peak = peak * processes.count if peak else None
    blind = blind_loss(task, model.config.stem)
    window: list[Tensor] = []
    model.train()
    on_step(done)
    began = time.perf_counter()
    last_save, pause = began, seconds_between_saves
    for step in range(done, recipe.steps):
        window.append(
            take_step(
                model,
                task,
                recipe,
                optimiser=optimiser,
                seed=seed,
                step=step,
                device=device,
                processes=processes,
                losses_of=losses_of,
            )
        )
        on_step(step + 1)
        if (step + 1) % recipe.log_every and step + 1 < recipe.steps:
            continue
        losses, norms = processes.mean(torch.stack(window).double()).unbind(1)
        loss, norm = float(losses.mean()), float(norms.max())
        speed = len(window) * recipe.batch * task.tokens / (time.perf_counter() - began)
        window = []
        first = float(starting_loss(losses, blind)) if first is None else first
        due = step + 1 == recipe.steps or (recipe.evaluate_every and (step + 1) % recipe.evaluate_every == 0)
        held_out = evaluate(model, task, recipe, processes=processes, losses_of=losses_of) if due else None
        numbers = (loss, norm, *(held_out.loss if held_out else ()))  # only the last tells of the last update
        ends_far = step + 1 == recipe.steps and _ends_far(held_out, first, blind)
        far = float(losses.median()) > DIVERGED * first or ends_far
        if far or not all(map(math.isfinite, numbers)):
            ends = f", held-out loss {sum(held_out.loss) / len(held_out.loss):.4g}" if held_out else ""
            raise Diverged(f"training diverged by step {step + 1}: loss {loss:.4g}, gradient norm {norm:.4g}{ends}")
        mfu = speed * token_flops / peak if peak else None
        stop = yield Logged(
            step + 1, loss, norm, learning_rate=recipe.rate(step), tokens_per_second=speed, mfu=mfu, held_out=held_out
        )
        stop, long_ago = processes.any(bool(stop), time.perf_counter() - last_save >= pause)
        last = stop or step + 1 == recipe.steps
        if saved and (last or long_ago):
            before = time.perf_counter()
            saved.save(step + 1, processes.state(model, optimiser), first_loss=first)
            last_save = time.perf_counter()
            pause = max(seconds_between_saves, (last_save - before) / SAVING) if seconds_between_saves else 0.0
            if last:
                saved.wait()
        if stop:
            return
        began = time.perf_counter()


def take_step(
    model: Decoder,
    task: Task,
    recipe: Recipe,
    optimiser: torch.optim.Optimizer,
    seed: int,
    step: int,
    device: torch.device,
    processes: Processes = ALONE,
    losses_of: Losses = uncompiled,
) -> Tensor:
    """Take one optimiser step and return its loss, for this process's part of the batch, and gradient norm.

    Both are still on the device.  `losses_of` is `Processes.losses`.
    """
    total = torch.zeros((), device=device)
    for i, part in enumerate(processes.batch(task, seed, step, recipe.batch).parts(recipe.accumulate)):
        part = part.to(device)
        with _dropout_stream(model, seed, step, part=i, rank=processes.rank), _autocast(device, recipe):
            loss = losses_of(model, task, part.inputs, part.targets).mean() / recipe.accumulate
        loss.backward()
        total += loss.detach()
    norm = processes.clip(model, recipe.clip)
    set_rate(optimiser, recipe.rate(step))
    optimiser.step()
    optimiser.zero_grad(set_to_none=True)
    return torch.stack([total, norm.detach().float()])


@torch.no_grad()
def evaluate(
    model: Decoder, task: Task, recipe: Recipe, processes: Processes = ALONE, *, losses_of: Losses = uncompiled
) -> HeldOut:
    """Return the loss on the task's held-out batches, without dropout; processes take turns.

    Where the recipe compiles, a batch that is smaller than the first is filled up to its size, so that one shape is
    compiled; the losses of what was added are left out.
    """
    device = next(model.parameters()).device
    whole = 0
    batches, parts = task.held_out(), []
    model.eval()
    while turn := list(itertools.islice(batches, processes.count)):
        # Of a last turn that is too short for all, some take a batch of another's, as a pass needs all of them.
        own = turn[min(processes.rank, len(turn) - 1)].to(device)
        count = len(own.targets)
        whole = whole or count
        own = own.filled(whole) if recipe.compile else own
        with _autocast(device, recipe):
            found = losses_of(model, task, own.inputs, own.targets)[:count].double()
        sizes = enumerate(len(batch.targets) for batch in turn)
        parts += [found if i == processes.rank else found.new_zeros(size, found.shape[1]) for i, size in sizes]
    model.train()
    losses = processes.sum(torch.cat(parts))
    spread = losses.std(0, correction=min(1, len(losses) - 1)) / len(losses) ** 0.5
    return HeldOut(tuple(losses.mean(0).tolist()), tuple(spread.tolist()))


def _ends_far(end: HeldOut | None, start: float, blind: float) -> bool:
    if end is None:
        return False
    loss, stderr, reference = (torch.tensor(x, dtype=torch.float64) for x in (end.loss, end.stderr, start))
    return bool(is_far(loss, stderr, reference, blind=blind))


def state_precision(device: torch.device) -> None:
    """Make float32 products IEEE float32 on a GPU, not TF32, whatever was set before.

    So a recipe's fp32 means the same on every device.  What bf16 leaves in float32 (norms, softmax over depth, losses)
    is bound by memory, and TF32 would not make it faster.
    """
    if device.type == "cuda":
        torch.set_float32_matmul_precision("highest")


def _autocast(device: torch.device, recipe: Recipe) -> AbstractContextManager[None]:
    if recipe.precision == "fp32":
        return nullcontext()
    return torch.autocast(device.type, torch.bfloat16)


def _dropout_stream(model: Decoder, seed: int, step: int, part: int, rank: int = 0) -> AbstractContextManager[None]:
    """Use random numbers of this step's own, so that no generator has to be saved and variants share their masks."""
    if not model.config.dropout:
        return nullcontext()
    return _forked(seed, step, part, *((rank,) if rank else ()))


@contextmanager
def _forked(*name: int) -> Iterator[None]:
    digest = hashlib.sha256(repr(("dropout", *name)).encode()).digest()
    with torch.random.fork_rng(range(torch.cuda.device_count())):
        torch.manual_seed(int.from_bytes(digest[:8], "little") >> 1)
        yield


# Dense bf16 matrix products, FLOP/s, by vendors' datasheets.
PEAK_BF16 = {
    "H200": 989e12,
    "H100 PCIe": 756e12,
    "H100 NVL": 835e12,
    "H100": 989e12,
    "B200": 2250e12,
    "A100": 312e12,
    "A6000": 155e12,
    "L40S": 362e12,
    "L4": 121e12,
    "RTX 4090": 165e12,
    "RTX 3090": 71e12,
}


def peak_flops(device: torch.device, precision: str) -> float | None:
    """Return the FLOP/s of dense products; None where it is not known (a CPU, another GPU, fp32)."""
    if device.type != "cuda" or precision != "bf16":
        return None
    title = torch.cuda.get_device_name(device)
    return next((peak for known, peak in PEAK_BF16.items() if re.search(rf"\b{known}\b", title)), None)
