"""Decoders with the weights of gradient steps, and with random ones: how large their last reads are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from experiments.attnres.networks import descending
from experiments.attnres.toy.points import RESIDUAL, TOKENS, Config, start
from experiments.attnres.toy.prompts import at_widths, last_read, log_weights
from experiments.store.desk import Desk
from experiments.store.folders import Json, RunFolder
from experiments.store.work import longest_first, results
from icl.models.decoder import Decoder
from icl.probes.recording import removed_after
from icl.prompts import HELD_OUT_STREAM, Generator, RegressionTask
from theory.plans.names import resolve
from theory.plans.plan import DepthAverage, Shape

OF_INPUTS, OF_WEIGHTS = 201, 202  # streams of one seed


@dataclass(frozen=True)
class _Start:
    config: Config
    kind: str
    rule: str
    depth: int
    seeds: int


def starts(config: Config, seeds: int, run: RunFolder) -> Json:
    """squares: by cell and seed, the last read's mean square over prompts of every width, and over weights; plain: of
    the residual stream's context tokens, over prompts as they come alone."""
    cells = {"/".join(map(str, at)): at for at in config.starts()}
    items = {name: _Start(config, *at, seeds) for name, at in cells.items()}
    in_order, label = longest_first(items, _layers), "attnres-toy: at the start"
    found = results("start", in_order, _squares, run, label=label, size=_layers)
    of_tokens = {start(*at, token): found[name]["squares"][token] for name, at in cells.items() for token in TOKENS}
    plain = {str(one.depth): found[name]["plain"] for name, one in items.items() if _is_plain(one)}
    return {"squares": of_tokens, "plain": plain}


def _layers(one: _Start) -> int:
    return one.depth * one.seeds


def _is_plain(one: _Start) -> bool:
    return one.kind == "descent" and one.rule == RESIDUAL


def _squares(one: _Start, desk: Desk) -> Json:
    found: Json = {"squares": {token: [] for token in TOKENS}, "plain": []}
    for seed in range(one.seeds):
        desk.report(one.depth * seed)
        squares, weights = last_squares(one.config, one.kind, one.rule, one.depth, seed)
        means = {"context": squares[:, :-1].mean(1), "query": squares[:, -1]}
        for token in TOKENS:
            found["squares"][token].append(float((weights * means[token]).mean()))
        if _is_plain(one):
            found["plain"].append(float(means["context"][: one.config.prompts].mean()))
    return found


def last_squares(config: Config, kind: str, rule: str, depth: int, seed: int) -> tuple[Tensor, Tensor]:
    """Squares of the last read, (prompts, tokens), and the prompts' weights; they are the same for every rule."""
    task, d = RegressionTask(*config.task.floats), config.task.d
    count = config.prompts * len(config.widths)
    drawn = task.sample(count, Generator(HELD_OUT_STREAM, seed, OF_INPUTS), torch.float64)
    prompts = at_widths(drawn, torch.tensor(config.widths).double().repeat_interleave(config.prompts))
    logs = log_weights(prompts.x[..., :-1], config.widths)
    plan, eye = resolve(rule, Shape(depth, 1)), torch.eye(d, dtype=torch.float64)
    if kind == "descent":
        model = means(descending(plan, config.task.n, config.step * eye.expand(depth, d, d)))
        last = last_read(model, prompts)
        return last.square().sum(-1), logs.exp()
    shape = count, depth, d, d
    each = torch.tensor(config.wider).double().repeat(count // len(config.wider))
    stream = Generator(HELD_OUT_STREAM, seed, OF_WEIGHTS, depth)
    numbers = stream.normal(shape, torch.float64) * each[:, None, None, None]
    model = means(descending(plan, config.task.n, eye.expand(depth, d, d)))
    with own_weights(model, config.deviation / d**0.5 * numbers):
        last = last_read(model, prompts)
    return last.square().sum(-1), (logs + log_weights(numbers, config.wider)).exp()


def means(model: Decoder) -> Decoder:
    """The model; if it averages over depth, its averages are means now, where they start as a residual stream."""
    if isinstance(model.plan.depth, DepthAverage):
        with torch.no_grad():
            for name, weights in model.named_parameters():
                if name.startswith("depth."):
                    weights.fill_(1 / len(weights))
    return model


@contextmanager
def own_weights(model: Decoder, weights: Tensor) -> Iterator[None]:
    """Inside, layer l's B is that of the prompt, weights[:, l - 1], (prompts, d, d), where it was the identity."""
    d = weights.shape[-1]

    def hook(of_layer: Tensor) -> Callable[[nn.Module, object, Tensor], Tensor]:
        def multiplied(_module: nn.Module, _args: object, out: Tensor) -> Tensor:
            return torch.cat([out[..., :d], out[..., d:] @ of_layer.mT], dim=-1)

        return multiplied

    outputs = [layer.get_submodule("attention.output") for layer in model.layers]
    hooks = [module.register_forward_hook(hook(b)) for module, b in zip(outputs, weights.unbind(1), strict=True)]
    with removed_after(hooks):
        yield
