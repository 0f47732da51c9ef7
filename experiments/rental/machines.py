"""The time and memory of a rental's parts, worked out before anything is started, for machines that are rented.

Nothing here is measured.  A step of a model takes the longer of two times:

    work      FLOPs / (peak x REACHED)          products
    launches  kernels x LAUNCH                  what a small model waits for

and compiling a shape takes COMPILE seconds per sublayer, for training and evaluation together.  A process needs CONTEXT
bytes beside what `theory.plans.memory` counts, and its products in bf16 read copies of the weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from icl.recipe import Recipe
from theory.plans.accounting import flops, total_parameters
from theory.plans.architecture import Architecture
from theory.plans.decoding import numbers_of_a_step
from theory.plans.memory import training_bytes
from theory.plans.plan import Plan

REACHED = 0.4  # of the peak: public trainings of 124M to 350M parameters on an H100
READ = 0.8  # of the bandwidth that decoding reaches
LAUNCH = 7e-6  # seconds from one kernel to the next where the host is what is waited for
KERNELS = {True: 15, False: 60}  # per sublayer of a training step, compiled or not
DECODED = 15  # per sublayer of a decoded token, nothing compiled
BESIDES = 60  # of embedding, loss, clip and optimiser
COMPILE = 1.2
CONTEXT = 1.0e9
INITIAL = 1.2e-8  # seconds per parameter for initial weights, drawn on one core
START = 12.0  # seconds until a process has imported torch and found its GPU
BF16, COMPILED = 0.5, 0.5  # as in `experiments.training.memory`


@dataclass(frozen=True)
class Machine:
    """A GPU by its datasheet: dense bf16 FLOP/s, bytes per second of its memory, bytes of it."""

    name: str
    flops: float
    bandwidth: float
    memory: float


MACHINES: Mapping[str, Machine] = {
    "H100": Machine("H100", 989e12, 3.35e12, 80e9),
    "H200": Machine("H200", 989e12, 4.8e12, 141e9),
}
SLOWEST = MACHINES["H100"]


def machine_named(title: str) -> Machine:
    """Return the machine that a device's name speaks of; the slowest for any other."""
    return next((machine for name, machine in MACHINES.items() if name in title), SLOWEST)


@dataclass(frozen=True)
class Forecast:
    """The forecast of one part.

    Args:
        seconds: All of it.
        least: Seconds until there is something to take home: what is not begun if less time is left.
        memory: Bytes of the GPU.
        formula: How the seconds come about.
    """

    seconds: float
    least: float
    memory: float
    formula: str


def step_seconds(config: Architecture, plan: Plan, recipe: Recipe, machine: Machine) -> float:
    """Return the seconds of one optimiser step."""
    tokens = recipe.batch * config.context
    peak = machine.flops * (1.0 if recipe.precision == "bf16" else 1 / 16)
    work = 3 * flops(config, plan, (config.context + 1) // 2) * tokens / (peak * REACHED)
    kernels = recipe.accumulate * KERNELS[recipe.compile] * config.sublayers(plan) + BESIDES
    return max(work, LAUNCH * kernels)


def compile_seconds(config: Architecture, plan: Plan, recipe: Recipe) -> float:
    """Return the seconds until a shape is compiled."""
    return COMPILE * config.sublayers(plan) * recipe.compile


def training_memory(config: Architecture, plan: Plan, recipe: Recipe) -> float:
    """Return the bytes of one training, its process included."""
    number = 4.0 * (BF16 if recipe.precision == "bf16" else 1) * (COMPILED if recipe.compile else 1)
    part = recipe.batch // recipe.accumulate
    copies = 2 * total_parameters(config, plan) * (recipe.precision == "bf16")
    return CONTEXT + copies + training_bytes(config, plan, part, number=number, fused=True)


def decoding_seconds(config: Architecture, plan: Plan, machine: Machine, *, batch: int, tokens: int) -> float:
    """Return the seconds of a decoded token in bf16: what it reads, or what it launches."""
    read = 2 * numbers_of_a_step(config, plan, batch, tokens) / (machine.bandwidth * READ)
    return max(read, LAUNCH * DECODED * config.sublayers(plan))


def initial_seconds(config: Architecture, plan: Plan) -> float:
    """Return the seconds that initial weights take."""
    return INITIAL * total_parameters(config, plan)
