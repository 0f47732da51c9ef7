"""The benchmark of many small decoders: one by one, as one stack, the stack compiled, and torch.func's vmap."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from statistics import median

import torch
from torch import Tensor
from torch.func import functional_call, grad, stack_module_state, vmap

from experiments.experiment.turns import in_turns, ratio
from experiments.store.folders import Json
from experiments.store.processes import threads as on_threads
from experiments.store.progress import progress
from experiments.store.provenance import provenance
from icl.models.decoder import Decoder
from icl.prompts import RegressionTask
from icl.recipe import Recipe
from icl.stacks.decoder import StackedDecoder
from icl.stacks.training import AdamW, Feed, take_step
from icl.training.loop import take_step as take_one_step
from icl.training.objectives import PromptTask
from icl.training.optimiser import adamw
from theory.plans.architecture import Architecture, Vectors
from theory.plans.names import resolve

DECODERS, SEEDS, COMPARED = 64, 16, 3  # in a stack, streams of data, steps after which the sides are compared
LOOP_DECODERS, STEPS = 8, 5  # of the loop, which is timed on some of them; steps a turn of the others
SIZES = ((4, 2), (8, 4), (32, 2), (32, 4))  # width, layers
VARIANTS = ("vanilla", "skipv1")
TASK = RegressionTask(2, 5, 0.1)
RECIPE = Recipe(steps=100, batch=16, learning_rate=0.003, warmup=0.0, floor=1.0)
BASELINE = "one by one (baseline)"
AGREES = 1e-3  # mean distance of the weights after these steps, in learning rates


class Loop:
    """The training loop's own step, decoder after decoder."""

    def __init__(self, models: Sequence[Decoder], seeds: Sequence[int]) -> None:
        self.models, self.seeds, self.task, self.count = models, seeds, task(), 0
        self.optimisers = [adamw(model, RECIPE) for model in models]

    def step(self) -> None:
        for model, optimiser, seed in zip(self.models, self.optimisers, self.seeds, strict=True):
            take_one_step(
                model, self.task, RECIPE, optimiser=optimiser, seed=seed, step=self.count, device=torch.device("cpu")
            )
        self.count += 1

    def weights(self, i: int) -> dict[str, Tensor]:
        return {name: p.detach() for name, p in self.models[i].named_parameters()}


class Stacked:
    """`icl.stacks`."""

    def __init__(self, models: Sequence[Decoder], seeds: Sequence[int], *, compiled: bool) -> None:
        self.stack, self.count = StackedDecoder(models), 0
        self.feed = Feed(task(), seeds, self.stack.flat)
        rates = torch.full((len(models),), RECIPE.learning_rate)
        self.optimiser = AdamW(self.stack, RECIPE, rates)
        self.losses = (
            self.stack.compiled(self.feed.read) if compiled else partial(self.stack.losses, read=self.feed.read)
        )

    def step(self) -> None:
        take_step(self.stack, self.feed, self.optimiser, recipe=RECIPE, losses=self.losses, step=self.count)
        self.count += 1

    def weights(self, i: int) -> dict[str, Tensor]:
        return self.stack.weights(i)


class Vmapped:
    """A vmap over `stack_module_state`, one stack per variant, with torch.optim's AdamW over it."""

    def __init__(self, models: Sequence[Decoder], seeds: Sequence[int]) -> None:
        self.task, self.count = task(), 0
        self.parts: list[tuple[Decoder, dict[str, Tensor], torch.optim.Optimizer, list[int]]] = []
        self.places: dict[int, tuple[int, int]] = {}
        for plan in dict.fromkeys(model.plan for model in models):
            own = [i for i, model in enumerate(models) if model.plan == plan]
            self.places |= {i: (len(self.parts), place) for place, i in enumerate(own)}
            state, _ = stack_module_state([models[i] for i in own])
            parameters = {name: p.detach().requires_grad_() for name, p in state.items()}
            optimiser = torch.optim.AdamW(
                parameters.values(), lr=RECIPE.learning_rate, betas=RECIPE.betas, eps=RECIPE.eps, weight_decay=0.0
            )
            self.parts.append((models[own[0]], parameters, optimiser, [seeds[i] for i in own]))

    def step(self) -> None:
        for model, parameters, optimiser, seeds in self.parts:
            batches = {seed: self.task.batch(seed, self.count, RECIPE.batch) for seed in dict.fromkeys(seeds)}
            inputs, targets = (
                torch.stack([getattr(batches[seed], name) for seed in seeds]) for name in ("inputs", "targets")
            )

            def loss(weights: dict[str, Tensor], x: Tensor, y: Tensor, model: Decoder = model) -> Tensor:
                return self.task.losses(functional_call(model, weights, (x,)), y).mean()

            gradients = vmap(grad(loss))({name: p.detach() for name, p in parameters.items()}, inputs, targets)
            norms = sum(g.flatten(1).square().sum(1) for g in gradients.values()).sqrt()
            shrink = (RECIPE.clip / (norms + 1e-6)).clamp(max=1)
            for name, p in parameters.items():
                p.grad = gradients[name] * shrink.view(-1, *[1] * (p.dim() - 1))
            optimiser.step()
        self.count += 1

    def weights(self, i: int) -> dict[str, Tensor]:
        part, place = self.places[i]
        return {name: p.detach()[place] for name, p in self.parts[part][1].items()}


Side = Loop | Stacked | Vmapped


def task() -> PromptTask:
    return PromptTask(TASK, 64, 64, scored="last")


def architecture(width: int, layers: int) -> Architecture:
    return Architecture(
        d_model=width,
        n_layers=layers,
        n_heads=2,
        d_ff=2 * width,
        context=2 * TASK.n + 1,
        stem=Vectors(TASK.d),
        positions="bias",
    )


def decoders(width: int, layers: int) -> Json:
    """Return seconds per training step of one decoder, data included, compiling not.

    The sides are compared after a few steps from equal weights.
    """
    config = architecture(width, layers)

    def models() -> list[Decoder]:
        plans = [resolve(name, config.shape) for name in VARIANTS]
        return [Decoder(config, plans[i % len(plans)], seed=i % SEEDS, std=width**-0.5) for i in range(DECODERS)]

    seeds = [i % SEEDS for i in range(DECODERS)]
    sides: dict[str, tuple[Side, int, int]] = {
        BASELINE: (Loop(models()[:LOOP_DECODERS], seeds[:LOOP_DECODERS]), 1, LOOP_DECODERS),
        "stack": (Stacked(models(), seeds, compiled=False), STEPS, DECODERS),
        "stack, compiled": (Stacked(models(), seeds, compiled=True), STEPS, DECODERS),
        "torch.func vmap": (Vmapped(models(), seeds), 1, DECODERS),
    }
    with progress(f"width {width}, {layers} layers: first steps, compared", len(sides) * COMPARED) as at:
        for i, (side, _, _) in enumerate(sides.values()):
            for step in range(COMPARED):
                at(i * COMPARED + step)
                side.step()
        at(len(sides) * COMPARED)
    (loop, _, _), *others = sides.values()
    gap = max(_distance(side.weights(i), loop.weights(i)) for side, *_ in others for i in range(LOOP_DECODERS))
    turns = in_turns({name: partial(_seconds, *side) for name, side in sides.items()})
    return {
        "name": f"decoders, width {width}, {layers} layers",
        "what": f"a training step of one of {DECODERS} decoders, {RECIPE.batch} prompts of {config.context} tokens, "
        f"{SEEDS} streams of data, {' and '.join(VARIANTS)}",
        "baseline": f"the training loop, {LOOP_DECODERS} decoders one by one",
        "seconds": {name: median(of_turns) for name, of_turns in turns.items()},
        "ratios": {name: ratio(turns[BASELINE], of_turns) for name, of_turns in turns.items() if name != BASELINE},
        # Adam's first steps are the gradients' signs: of the tiniest, rounding may choose another one.
        "same_answer": gap <= AGREES,
        "difference": gap,
    }


def run_decoders(threads: int, sizes: Sequence[tuple[int, int]] = SIZES) -> Json:
    """Benchmark all sizes on so many CPU threads, with provenance."""
    with on_threads(threads):
        results = [decoders(*size) for size in sizes]
    return {"threads": threads, **provenance("cpu", __name__), "benchmarks": results}


def _distance(ours: dict[str, Tensor], theirs: dict[str, Tensor]) -> float:
    """Return the mean distance of two decoders' numbers, in sizes of steps."""
    pairs = [(ours[name], theirs[name]) for name in theirs]
    total = sum(float((a - b).abs().sum()) for a, b in pairs)
    return total / sum(b.numel() for _, b in pairs) / (COMPARED * RECIPE.learning_rate)


def _seconds(side: Side, steps: int, stacked: int) -> float:
    """Return the seconds of a step of one decoder, mean over the steps."""
    started = time.perf_counter()
    for _ in range(steps):
        side.step()
    return (time.perf_counter() - started) / steps / stacked
