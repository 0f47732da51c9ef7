"""The benchmark of 200 toys: a plain loop over models, the stack, and torch.func's vmap over single models."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from statistics import median

import torch
from torch import Tensor
from torch.func import grad, vmap

from experiments.experiment.turns import in_turns, ratio
from experiments.store.folders import Json
from experiments.store.progress import progress
from icl.prompts import TRAIN_STREAM, Generator, Prompts, RegressionTask
from icl.toys.literal import Toy
from icl.toys.stacked import Batch, StackedToys, ToySpec
from icl.toys.training import StackedAdam, toy_recipe
from theory.plans.heads import TOYS

TOYS_IN_STACK, STREAMS, BATCH, LOOP_STEPS, STEPS = 200, 5, 64, 1, 10  # steps a turn
BASELINE = "loop over models (baseline)"
TASK = RegressionTask(5, 20, 0.5)
RECIPE = toy_recipe(100, BATCH)


class Loop:
    """One module and one torch.optim.Adam a toy, in turn."""

    def __init__(self, toys: StackedToys) -> None:
        self.seeds = [spec.seed for spec in toys.specs]
        self.toys = [
            Toy(**toys.parameters_of(i), heads=spec.heads, scale=1 / spec.task.n) for i, spec in enumerate(toys.specs)
        ]
        self.adams = [
            torch.optim.Adam(toy.parameters(), RECIPE.learning_rate, RECIPE.betas, RECIPE.eps) for toy in self.toys
        ]

    def step(self, samples: list[Prompts]) -> None:
        tokens, labels = [s.tokens() for s in samples], [s.label for s in samples]
        for toy, adam, seed in zip(self.toys, self.adams, self.seeds, strict=True):
            adam.zero_grad()
            loss = (toy(tokens[seed]) - labels[seed]).square().sum(-1).mean()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(toy.parameters(), RECIPE.clip * TASK.zero_loss)
            adam.step()

    def weights(self, i: int) -> dict[str, Tensor]:
        toy = self.toys[i]
        return {name: getattr(toy, name).detach() for name in "abwk"}


class Stacked:
    """All toys in one graph: `icl.toys.stacked`."""

    def __init__(self, toys: StackedToys) -> None:
        self.toys, self.count = toys, 0
        rates = torch.full(toys.copied.shape[1:3], RECIPE.learning_rate)
        self.adam = StackedAdam(
            toys, rates, torch.full_like(rates, RECIPE.clip * TASK.zero_loss), betas=RECIPE.betas, eps=RECIPE.eps
        )

    def step(self, samples: list[Prompts]) -> None:
        moments = torch.stack([s.second_moment() / TASK.n for s in samples])
        query, label, w = (torch.stack([getattr(s, name) for s in samples]) for name in ("query", "label", "w"))
        self.count += 1
        self.adam.step(self.gradients(Batch(moments, query, label, w=w)), self.count, 1.0)

    def gradients(self, batch: Batch) -> dict[str, Tensor]:
        names, parameters = zip(*self.toys.named_parameters(), strict=True)
        losses = self.toys.losses(batch)
        return dict(zip(names, torch.autograd.grad(losses.sum(), parameters), strict=True))

    def weights(self, i: int) -> dict[str, Tensor]:
        return self.toys.parameters_of(i)


class Vmapped(Stacked):
    """The same parameters and optimiser; gradients of one toy's loss, vmapped over slots and then streams."""

    def gradients(self, batch: Batch) -> dict[str, Tensor]:
        toys = self.toys
        one = grad(_toy_loss, argnums=(0, 1, 2))
        of_slots = vmap(one, in_dims=(0, 1, 1, 1, 1, None, None, None), out_dims=(0, 1, 1))
        of_streams = vmap(of_slots, in_dims=(0, 1, 1, 1, 1, 0, 0, 0), out_dims=(0, 1, 1))
        u, w, k = toys.u.detach(), toys.w.detach(), toys.k.detach()
        gradients = of_streams(u, w, k, toys.copied, toys.raw, batch.moments, batch.query, batch.label)
        masks = (toys.get_buffer(f"mask_{name}") for name in "uwk")
        return {name: g * mask for name, g, mask in zip("uwk", gradients, masks, strict=True)}


def _toy_loss(
    u: Tensor, w: Tensor, k: Tensor, copied: Tensor, raw: Tensor, moments: Tensor, query: Tensor, label: Tensor
) -> Tensor:
    """Return a toy's loss on one stream: u (d, 2d), w and k (H, d, d), moments (B, 2d, 2d), query and label (B, d)."""
    d = query.shape[-1]
    m = (query @ u[:, :d].mT) @ k.mT
    s_m = torch.einsum("bij,hbj->hbi", moments[:, :d, :d], m)
    s_q = torch.einsum("bij,hbj->hbi", moments, m @ u)
    read = (copied + raw) * s_m + copied * (s_q @ u.mT) + raw * s_q[..., d:]
    return ((read @ w.mT).sum(0) - label).square().sum(-1).mean()


def specs() -> list[ToySpec]:
    """Return both architectures at ranks 1 .. d, in five streams."""
    kinds = [(heads, rank) for heads in TOYS.values() for rank in range(1, TASK.d + 1)]
    per_kind = TOYS_IN_STACK // len(kinds)
    return [ToySpec(TASK, *kind, seed=i % STREAMS) for kind in kinds for i in range(per_kind)]


def stack() -> Json:
    """Return seconds per training step, prompts given; sides are compared after three steps from equal weights."""
    toys = specs()
    samples = [TASK.sample(BATCH, Generator(TRAIN_STREAM, seed)) for seed in range(STREAMS)]
    sides: dict[str, tuple[Loop | Stacked, int]] = {
        BASELINE: (Loop(StackedToys(toys)), LOOP_STEPS),
        "stack": (Stacked(StackedToys(toys)), STEPS),
        "torch.func vmap": (Vmapped(StackedToys(toys)), STEPS),
    }
    contenders = [side for side, _ in sides.values()]
    with progress("first steps, compared", len(contenders)) as at:
        for i, side in enumerate(contenders):
            at(i)
            for _ in range(3):
                side.step(samples)
        at(len(contenders))
    gap = max(
        float((ours[name] - theirs[name]).norm() / theirs[name].norm().clamp(min=1e-6))
        for i in range(len(toys))
        for theirs in [contenders[0].weights(i)]
        for ours in [side.weights(i) for side in contenders[1:]]
        for name in ours
    )
    turns = in_turns({name: partial(_per_step, side, samples, steps) for name, (side, steps) in sides.items()})
    baseline = turns[BASELINE]
    return {
        "name": "stack",
        "what": f"one training step of {len(toys)} toys, d={TASK.d}, n={TASK.n}, {BATCH} given prompts a seed",
        "baseline": "a plain loop over models: tokens, torch.optim.Adam, clip_grad_norm_",
        "seconds": {name: median(of_turns) for name, of_turns in turns.items()},
        "ratios": {name: ratio(baseline, of_turns) for name, of_turns in turns.items() if name != BASELINE},
        # float32, three Adam steps: a sign flip of a tiny gradient would show as 1
        "same_answer": gap <= 1e-2,
        "difference": gap,
    }


def _per_step(side: Loop | Stacked, samples: list[Prompts], steps: int) -> float:
    """Return seconds, mean over the steps."""
    step: Callable[[list[Prompts]], None] = side.step
    started = time.perf_counter()
    for _ in range(steps):
        step(samples)
    return (time.perf_counter() - started) / steps
