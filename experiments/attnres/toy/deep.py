"""Decoders that make the best polynomials of the deep toy, by weights over depth and by steps of a residual stream."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import log

import torch

from experiments.attnres.networks import descending
from experiments.attnres.toy.points import RESIDUAL, Config, answer
from experiments.attnres.toy.prompts import last_read
from experiments.store.desk import Desk
from experiments.store.folders import Json, RunFolder
from experiments.store.work import results
from icl.models.decoder import Decoder
from icl.prompts import HELD_OUT_STREAM, Generator, Prompts, RegressionTask
from theory.attnres import deep
from theory.plans.names import resolve
from theory.plans.plan import Shape
from theory.plans.setting import Setting
from theory.prompts import spectral

OF_ANSWERS = 203  # a stream of one seed


@dataclass(frozen=True)
class _Toy:
    setting: Setting
    layers: int
    prompts: int
    seeds: int


def answers(config: Config, seeds: int, run: RunFolder) -> Json:
    """By deep toy and seed: the mean losses of the best weights over depth and of the best residual stream, on the same
    prompts."""
    items = {
        answer(setting, layers): _Toy(setting, layers, config.answered, seeds)
        for setting in config.deep
        for layers in config.layers
    }
    found = results("deep", items, _losses, run, label="attnres-toy: deep", size=lambda one: one.seeds)
    return {name: found[name]["losses"] for name in items}


def _losses(one: _Toy, desk: Desk) -> Json:
    task, of_seeds = RegressionTask(*one.setting.floats), []
    models = {"depth": weighing(one.setting, one.layers), "residual": stepping(one.setting, one.layers)}
    for seed in range(one.seeds):
        desk.report(seed)
        prompts = task.sample(one.prompts, Generator(HELD_OUT_STREAM, seed, OF_ANSWERS), torch.float64)
        of_seeds.append({what: loss(*model, prompts) for what, model in models.items()})
    return {"losses": of_seeds}


def loss(model: Decoder, readout: float, prompts: Prompts) -> float:
    """Mean squared error of the query's answer, summed over the d outputs."""
    answered = readout * last_read(model, prompts)[:, -1, prompts.x.shape[1] :]
    return float((prompts.label - answered).square().sum(-1).mean())


def weighing(setting: Setting, layers: int) -> tuple[Decoder, float]:
    """A decoder whose depth weights make the best polynomial, and what its query's y slot is read out by."""
    best = spectral.best_polynomial(setting.d, setting.n, Fraction(setting.sigma), layers)
    made = deep.of_polynomial(best.residual, layers)
    model = _with_steps("attnres-static", setting, [float(step) for step in made.steps])
    logits = [model.get_parameter(f"depth.logits.{read}") for read in range(layers + 1)]
    with torch.no_grad():
        for logit, row in zip(logits, made.weights, strict=True):
            logit.copy_(_numbers([log(weight) for weight in row]))
    return model, -float(made.readout)


def stepping(setting: Setting, layers: int) -> tuple[Decoder, float]:
    """The best steps of a residual stream, likewise."""
    best = spectral.best_steps(setting.d, setting.n, float(setting.sigma), layers)
    return _with_steps(RESIDUAL, setting, best.steps), -1.0


def _with_steps(rule: str, setting: Setting, steps: Sequence[float]) -> Decoder:
    eye = torch.eye(setting.d, dtype=torch.float64)
    return descending(resolve(rule, Shape(len(steps), 1)), setting.n, _numbers(steps)[:, None, None] * eye)


def _numbers(values: Sequence[float]) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)
