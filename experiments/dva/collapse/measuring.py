"""Attention with dynamic values in all ways: its memory, its time, and whether it is the same."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from time import perf_counter

import torch
from torch import Tensor

from experiments.dva.collapse.points import HEADS, ONE_HEAD, SIDES, Config
from experiments.dva.collapse.ways import Way, both_passes, inputs, one_side
from experiments.experiment.turns import in_turns
from experiments.store.folders import Json
from icl.models.attention import attend
from icl.models.frame import Frame
from icl.probes.kernels import attention_kernels
from icl.probes.peak import peak_bytes
from theory.dva.collapse import Form

Cell = tuple[str, int]
NUMBER = 4  # bytes


def measured(config: Config, device: str) -> Json:
    """By side and number of tokens: peak (numbers of 4 bytes), seconds by turn, and how far apart they are.

    A side is held against the first of its form that is made, which is held against nothing.  Times are the device's;
    memory is counted on the CPU, whose kernels are those that the formula is of.  Kernels are those that were called at
    the paper's sizes.
    """
    here, there = _sides(config, "cpu"), _sides(config, device)
    peaks, apart = _tree(here), _tree(here)
    for (name, tokens), run in here.items():
        leaves = inputs(1, tokens, config.width, "cpu", torch.float32)
        peaks[name][str(tokens)] = peak_bytes(partial(both_passes, run, leaves)) / NUMBER
        first = _first(here, SIDES[name].form, tokens)
        if first is not run:
            apart[name][str(tokens)] = _apart(first, config.width, tokens, run)
    least = min(config.tokens)
    first, other = (here[name, least] for name in ("initial, pairs", "revised, collapsed"))
    visible = {t: _visible(t, device) for t in config.paper[2]}
    layers: dict[Cell, Way] = {(name, t): _layer(name, config.queries, visible[t]) for name, t in config.layers}
    return {
        "peak": peaks,
        "apart": {name: by_tokens for name, by_tokens in apart.items() if by_tokens},
        "wrong": _apart(first, config.width, least, other),
        "seconds": _timed(there, lambda _, t: inputs(1, t, config.width, device, torch.float32), config.turns),
        "layers": _timed(layers, lambda name, t: _of_layer(name, config, t, device), config.turns),
        "kernels": {name: _kernels(run, _of_layer(name, config, t, device)) for (name, t), run in layers.items()},
    }


def _sides(config: Config, device: str) -> dict[Cell, Way]:
    visible = {t: _visible(t, device) for t in config.tokens}
    return {(name, t): partial(one_side, SIDES[name], config.queries, visible[t]) for name, t in config.cells}


def _visible(tokens: int, device: str) -> Tensor:
    return torch.ones(tokens, tokens, device=device).tril() > 0


def _tree(cells: Iterable[Cell]) -> Json:
    return {name: {} for name, _ in cells}


def _layer(name: str, queries: int, visible: Tensor) -> Way:
    if name in (HEADS, ONE_HEAD):
        return lambda leaves: _attended(leaves, leaves[2])
    if name == "kernel twice":
        return lambda leaves: _attended(leaves, leaves[2]) + leaves[3] * _attended(leaves, leaves[4])
    return partial(one_side, SIDES[f"revised, {name}"], queries, visible)


def _attended(leaves: Sequence[Tensor], value: Tensor) -> Tensor:
    frame = Frame(None, True, None, None, {})
    return attend(leaves[0], (leaves[1],), (value,), frame)


def _of_layer(name: str, config: Config, tokens: int, device: str) -> list[Tensor]:
    width, heads, _ = config.paper
    count = heads if name == HEADS else 1
    return inputs(count, tokens, width // count, device, torch.float32)


def _kernels(run: Way, leaves: Sequence[Tensor]) -> list[str]:
    return attention_kernels(partial(both_passes, run, leaves))


def _first(sides: Mapping[Cell, Way], form: Form, tokens: int) -> Way:
    """Of a form's sides at so many tokens the first one that is made: every pair's value, if there is memory."""
    return next(run for (name, t), run in sides.items() if t == tokens and SIDES[name].form == form)


def _apart(first: Way, width: int, tokens: int, run: Way) -> float:
    """The largest relative difference of outputs and gradients, in float64."""
    leaves = inputs(1, tokens, width, "cpu", torch.float64)
    pairs = zip(both_passes(run, leaves), both_passes(first, leaves), strict=True)
    return max(float((a - b).norm() / b.norm()) for a, b in pairs)


def _timed(runs: Mapping[Cell, Way], leaves_of: Callable[[str, int], Sequence[Tensor]], turns: int) -> Json:
    """Seconds of both passes, by turn; all sides of one number of tokens after one another."""
    found = _tree(runs)
    for tokens in sorted({t for _, t in runs}):
        sides = {name: partial(_seconds, run, leaves_of(name, t)) for (name, t), run in runs.items() if t == tokens}
        for name, seconds in in_turns(sides, turns).items():
            found[name][str(tokens)] = seconds
    return found


def _seconds(run: Way, leaves: Sequence[Tensor]) -> float:
    start = perf_counter()
    both_passes(run, leaves)
    if leaves[0].is_cuda:
        torch.cuda.synchronize()
    return perf_counter() - start
