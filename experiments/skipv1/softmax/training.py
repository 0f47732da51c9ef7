"""Trained softmax toys and Transformers, and theory's weights put into softmax toys.

Softmax heads start near theory's weights: orthogonal A and B, one key of the opposite sign.  From a Gaussian start some
of both architectures stop on plateaus with whole directions lost.  Transformers start from Gaussian weights.  Learning
rates were searched on seeds 100 to 103, among 0.01, 0.03, 0.06 and 0.1 for softmax heads, where those from 0.03 on
differ little, and 0.003 and 0.01 for Transformers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from experiments.skipv1.softmax.points import BUILT, KINDS, TRANSFORMER, Config, Sweep, arm_key, construction, rank
from experiments.store.desk import Desk
from experiments.store.folders import Json
from experiments.store.work import results
from experiments.toys.training import held_out_batches, held_out_signal, train_stack
from theory.plans.setting import Setting

if TYPE_CHECKING:
    from experiments.store.folders import RunFolder
    from icl.toys.stack import Stack

STREAMS = 8  # of prompts, for theory's weights


@dataclass(frozen=True)
class _Stack:
    sweep: Sweep
    kind: str
    seeds: int
    held_out: int

    @property
    def size(self) -> int:
        return self.sweep.steps + held_out_batches(self.held_out)


@dataclass(frozen=True)
class _Built:
    size: Setting
    kind: str
    batches: int


def train_arms(config: Config, seeds: int, run: RunFolder) -> Json:
    """The share of W* that every arm explains on held-out prompts, one number a seed."""
    stacks = {
        f"{sweep.size.key}/{kind}": _Stack(sweep, kind, seeds, config.held_out)
        for sweep in config.sweeps
        for kind in sweep.kinds
    }
    label = "training with softmax heads"
    trained = results("trained", stacks, _trained, run, label=label, size=lambda stack: stack.size)
    return {key: shares for stack in trained.values() for key, shares in stack["explained"].items()}


def _trained(stack: _Stack, desk: Desk) -> Json:
    from icl.toys.training import toy_recipe

    sweep, d = stack.sweep, stack.sweep.size.d
    toys = _toys(sweep.size, stack.kind, stack.seeds)
    losses = train_stack(toys, toy_recipe(sweep.steps, learning_rate=sweep.learning_rate), desk)
    explained = held_out_signal(toys, stack.held_out, desk, after=sweep.steps)
    shares = [x / d**2 for x in explained]
    arms = {
        arm_key(sweep.size.key, stack.kind, toy): shares[i * stack.seeds : (i + 1) * stack.seeds]
        for i, toy in enumerate(KINDS[stack.kind])
    }
    return {"losses": losses, "explained": arms}


def _toys(size: Setting, kind: str, seeds: int) -> Stack[Any, Any]:
    """Both arms of a kind, all seeds of one after the other."""
    from icl.prompts import RegressionTask
    from icl.toys.softmax import SoftmaxToys
    from icl.toys.stacked import Opposed, ToySpec
    from icl.toys.transformer import TransformerSpec, TransformerToys

    task, start = RegressionTask(*size.floats), Opposed(embedding=1.0)
    arms = [(heads, rank(size, toy), seed) for toy, heads in KINDS[kind].items() for seed in range(seeds)]
    if kind == TRANSFORMER:
        return TransformerToys([TransformerSpec(task, *arm) for arm in arms])
    return SoftmaxToys([ToySpec(task, *arm, start) for arm in arms])


def built_measured(config: Config, run: RunFolder) -> Json:
    """By size and kind: the share that theory's weights explain on sampled prompts, with its standard error."""
    from icl.toys.stack import EVAL_BATCH

    batches = max(2, config.construction_prompts // (STREAMS * EVAL_BATCH))
    built = {f"{size.key}/{kind}": _Built(size, kind, batches) for size in config.sizes for kind in BUILT}
    label = "weights that theory writes down"
    return results("construction", built, _measured, run, label=label, size=lambda stack: stack.batches)


def _measured(built: _Built, desk: Desk) -> Json:
    import torch

    from icl.prompts import RegressionTask
    from icl.toys.softmax import SoftmaxToys
    from icl.toys.stack import EVAL_BATCH, explained_signal
    from icl.toys.stacked import Given, ToySpec
    from theory.skipv1.softmax import softmax_weights

    size, heads = built.size, KINDS[built.kind]["skipv1"]
    task, d = RegressionTask(*size.floats), size.d
    best = construction(size, built.kind)
    start = Given.of(vars(softmax_weights(d, size.n, d, heads, best.logit_scale, best.step)))
    toys = SoftmaxToys([ToySpec(task, heads, d, seed, start) for seed in range(STREAMS)], dtype=torch.float64)
    values = []
    for batch in range(built.batches):
        values.append(explained_signal(toys, EVAL_BATCH, start=batch).flatten() / d**2)
        desk.report(batch + 1, f"{size.key}, {built.kind}")
    shares = torch.stack(values).flatten()
    return {"explained": float(shares.mean()), "stderr": float(shares.std() / len(shares) ** 0.5)}
