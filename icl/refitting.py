"""Refits of the output projections that read converted heads, from second moments of a text and without labels.

Layer n of a trained model puts out y = O z, where z holds its heads' outputs side by side.  Under another plan some of
its heads read other values, and the heads give z' instead.  The new projection is the best linear read of y,

    W = argmin E|y - W z'|^2 + r |W - W0|^2 = W0 + (E[y z'^T] - W0 E[z' z'^T]) (E[z' z'^T] + r I)^-1,

where W0 is O with zeros for the converted heads.  Layers are refitted in order: y is what the trained model gives, z'
what the converted model gives whose earlier layers are refitted already.  So later layers also make up for what earlier
ones change.  Nothing is added to the model, and no labels are read.

The ridge r is a share, one of RIDGES, of the mean square of a number of z'.  Three of four sequences fit a projection
for each share and the fourth judges them; the best share then fits all.  A share is left out if its projection is worse
on all of the sequences than the raw swap, which keeps O, or than W0, which leaves the heads out.  At r = 0 it cannot
be: W is then the minimum over all projections.

Moments are summed in float64, some sequences at a time: they and the result do not depend on how many, but for
rounding.  Kept are two states per token and what later layers read of earlier ones; the moments of one layer at a time;
and, beside the weights, which both models share, the refitted projections.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from icl.conversion import convert
from icl.models.attention import Attention
from icl.models.decoder import Decoder
from icl.models.frame import Bank, Frame
from icl.models.projections import MergeLinear, spread
from theory.errors import BadInput
from theory.plans.architecture import Architecture
from theory.plans.names import fitting, resolve
from theory.plans.plan import Plan

RIDGES = (0.0, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 0.3, 1.0, 3.0)
EVERY = 4  # sequences, of which the last judges the ridge
AT_A_TIME = 512  # tokens, so that what a layer holds while it works is small beside the weights
SAME = 1e-9  # share of an output's mean square: rounding, where a conversion changes nothing


@dataclass(frozen=True)
class Refit:
    """The refit of one layer: mean square errors of its output, as shares of the output's mean square.

    Attributes:
        layer: The layer, from 1.
        ridge: The chosen share, of RIDGES.
        raw: The error of the projection as it was: the raw swap.
        left_out: The error with zeros for the converted heads.
        fitted: The error of the refitted projection.
    """

    layer: int
    ridge: float
    raw: float
    left_out: float
    fitted: float


def refitted(
    model: Decoder,
    variant: str | Plan,
    inputs: Tensor,
    *,
    at_a_time: int = 0,
    shared: bool = False,
    advance: Callable[[int], None] = lambda _: None,
) -> tuple[Decoder, list[Refit]]:
    """Return a vanilla model under another plan, with the output projections that read converted heads refitted.

    Args:
        model: The trained model.
        variant: The plan, or its name.
        inputs: Sequences as the model takes them, (count, T) tokens, four or more.
        at_a_time: Sequences per forward pass; 0: about AT_A_TIME tokens.
        shared: Let both models share the weights that nothing changes, so that they need less memory.
        advance: Called with the number of layers done, from 0.

    Returns:
        The converted model, in evaluation mode, and a `Refit` for each layer with converted heads, in order.

    Raises:
        BadInput: for a plan that changes more than what heads attend over, a model without output projections, and too
            few sequences.
    """
    plan = fitting(variant, model.config) if isinstance(variant, str) else variant
    for obstacle in obstacles(model.config, model.plan, plan):
        raise BadInput(obstacle)
    if len(inputs) < EVERY:
        raise BadInput(f"a refit needs {EVERY} sequences or more, got {len(inputs)}")
    found = convert(model, plan, "first", shared=shared)
    if shared:
        _share(model, found)
    parts = inputs.split(at_a_time or max(1, AT_A_TIME // inputs.shape[1]))
    return found, _refit(model, found, parts, advance)


@torch.no_grad()
def _share(model: Decoder, found: Decoder) -> None:
    """Let a converted model read the trained model's tensors wherever they are equal and no refit will change them."""
    changed = {
        id(parameter)
        for layer, attention in enumerate(found.attentions, 1)
        if attention.output is not None and converted_heads(found.plan, layer)
        for parameter in attention.output.parameters()
    }
    before = dict(model.named_parameters())
    for name, parameter in found.named_parameters():
        twin = before.get(name)
        if twin is None or id(parameter) in changed or twin.shape != parameter.shape:
            continue
        if torch.equal(twin, parameter):
            parameter.data = twin.data


def obstacles(config: Architecture, before: Plan, plan: Plan) -> Iterator[str]:
    """Yield why nothing can be refitted, one reason per line.

    Args:
        config: The architecture of both models.
        before: The plan of the trained model.
        plan: The plan that it is converted to.
    """
    if config.latent is not None:
        yield "a latent is read by what makes keys and values of it, and that is not refitted"
    if config.copy_rank is not None:
        yield "the assumed copy has no output projection to refit"
    if not plan.output_projection:
        yield "there is no output projection to refit"
    if plan.depth != before.depth or plan.dynamic != before.dynamic or plan.feed_forward != before.feed_forward:
        yield "a refit is for plans that change what heads attend over, and nothing else"
    if not any(converted_heads(plan, layer) for layer in range(1, plan.shape.layers + 1)):
        yield "no head of this plan is converted: there is nothing to refit"


def converted_heads(plan: Plan, layer: int) -> list[int]:
    """Return a layer's heads, from 1, that differ from a vanilla layer's; those left out among them."""
    vanilla = resolve("vanilla", plan.shape)
    heads = range(1, plan.shape.heads + 1)
    return [h for h in heads if plan.head(layer, h) != vanilla.head(layer, h)]


@torch.no_grad()
def _refit(model: Decoder, found: Decoder, parts: tuple[Tensor, ...], advance: Callable[[int], None]) -> list[Refit]:
    """Refit a converted model in place, layer by layer."""
    converted = [converted_heads(found.plan, layer) for layer in range(1, model.config.n_layers + 1)]
    last = max(layer for layer, heads in enumerate(converted, 1) if heads)
    teacher, student = Walk(model, parts), Walk(found, parts)
    refits: list[Refit] = []
    for layer in range(1, last + 1):
        advance(layer - 1)
        heads = converted[layer - 1]
        if not heads:
            teacher.go(layer)
            student.go(layer)
            continue
        old, new = model.attentions[layer - 1], found.attentions[layer - 1]
        assert isinstance(old, Attention)
        assert isinstance(new, Attention)
        assert isinstance(new.output, MergeLinear)
        fit, judge, row = Moments(), Moments(), 0
        for place, some in enumerate(parts):
            target = teacher.output(layer, place)
            read = student.read(layer, place)
            judging = torch.arange(row, row + len(some)) % EVERY == EVERY - 1
            row += len(some)
            for moments, rows in ((fit, ~judging), (judge, judging)):
                moments.add(_rows(read[rows], constant=new.output.bias is not None), _rows(target[rows]))
        query_heads = spread(heads, new.group)
        columns = [i for i, h in enumerate(new.output.heads) if h in query_heads]
        refits.append(_set(new.output, fit, judge, columns=columns, layer=layer))
        student.go(layer)
    advance(last)
    return refits


def _rows(x: Tensor, *, constant: bool = False) -> Tensor:
    """Return tokens as rows, in float64: (rows, T, width) -> (rows * T, width [+ 1]); the constant is 1."""
    rows = x.flatten(0, -2).double()
    return torch.cat([rows, torch.ones_like(rows[:, :1])], dim=1) if constant else rows


class Moments:
    """Sums of products of what a projection reads, z of (tokens, width), and of what it should give, y of (tokens, d).

    Attributes:
        read: The sum of z z^T, (width, width).
        both: The sum of y z^T, (d, width).
        square: The sum of |y|^2.
        count: The number of tokens.
    """

    def __init__(self) -> None:
        self.read: Tensor | float = 0.0
        self.both: Tensor | float = 0.0
        self.square, self.count = 0.0, 0

    def add(self, z: Tensor, y: Tensor) -> None:
        """Add tokens, in float64."""
        self.read, self.both = self.read + z.mT @ z, self.both + y.mT @ z
        self.square += float(y.square().sum())
        self.count += len(z)

    def __add__(self, other: Moments) -> Moments:
        total = Moments()
        total.read, total.both = self.read + other.read, self.both + other.both
        total.square, total.count = self.square + other.square, self.count + other.count
        return total

    def error(self, weight: Tensor) -> float:
        """Return the sum of |y - W z|^2 over that of |y|^2; 0 where y is 0 everywhere."""
        assert isinstance(self.read, Tensor)
        assert isinstance(self.both, Tensor)
        error = self.square - 2 * (weight * self.both).sum() + ((weight @ self.read) * weight).sum()
        return max(0.0, float(error)) / self.square if self.square else 0.0

    def best(self, prior: Tensor, ridges: tuple[float, ...]) -> Iterator[Tensor]:
        """Yield the projection W of each ridge: see the module's docstring.

        At a ridge of 0 directions in which z does not vary beyond rounding are left as in the prior.
        """
        assert isinstance(self.read, Tensor)
        assert isinstance(self.both, Tensor)
        sizes, directions = torch.linalg.eigh(self.read)
        sizes = sizes.clamp(min=0)
        rest = (self.both - prior @ self.read) @ directions
        tiny = len(sizes) * torch.finfo(sizes.dtype).eps * float(sizes[-1])
        for ridge in ridges:
            raised = sizes + ridge * sizes.mean()
            scale = torch.where(raised > tiny, 1 / raised.clamp(min=torch.finfo(sizes.dtype).tiny), 0.0)
            yield prior + (rest * scale) @ directions.mT


def _set(output: MergeLinear, fit: Moments, judge: Moments, *, columns: list[int], layer: int) -> Refit:
    """Put the refitted projection into a layer's output; `columns`: the places of its converted query heads."""
    raw = output.weight.double()
    if output.bias is not None:
        raw = torch.cat([raw, output.bias.double()[:, None]], dim=1)
    left_out = raw.clone()
    for place in columns:
        left_out[:, place * output.width : (place + 1) * output.width] = 0
    every = fit + judge
    errors = every.error(raw), every.error(left_out)
    if errors[0] <= SAME:
        return Refit(layer, 0.0, raw=errors[0], left_out=errors[1], fitted=errors[0])
    judged = [judge.error(weight) for weight in fit.best(left_out, RIDGES)]
    worst = min(errors) * (1 + 1e-9)
    chosen, fitted, weight = -1, math.inf, raw
    for place, fit_on_all in enumerate(every.best(left_out, RIDGES)):
        error = every.error(fit_on_all)
        allowed = place == 0 or error <= worst
        if allowed and (chosen < 0 or judged[place] < judged[chosen]):
            chosen, fitted, weight = place, error, fit_on_all
    if output.bias is not None:
        output.bias.copy_(weight[:, -1])
        weight = weight[:, :-1]
    output.weight.copy_(weight)
    return Refit(layer, RIDGES[chosen], raw=errors[0], left_out=errors[1], fitted=fitted)


class _Reached(Exception):
    """The signal that a forward pass has reached what was looked for."""


class Walk:
    """Sequences on their way through a decoder, a layer at a time, without gradients.

    Args:
        model: The decoder, in evaluation mode.
        parts: Its inputs, (sequences, T) each; what is kept of them is what later layers read.
    """

    def __init__(self, model: Decoder, parts: tuple[Tensor, ...]) -> None:
        self.model, self.parts = model, parts
        first = model.stem.embed(parts[0])
        self.frame: Frame
        self.frame, places = model.frame(first)
        self.states: list[tuple[Any, Bank]] = []
        for some in parts:
            x = model.stem.embed(some)
            x = x if model.positions is None else x + model.positions[places]
            self.states.append((model.depth.start(x), {}))

    def _through(self, layer: int, place: int) -> tuple[Any, Bank]:
        model, (state, bank) = self.model, self.states[place]
        frame = replace(self.frame, tokens=self.parts[place])
        found: tuple[Any, Bank] = model.layers[layer - 1](state, bank, frame, depth=model.depth, dropout=model.dropout)
        return found

    def go(self, layer: int) -> None:
        """Take all sequences through a layer, from 1."""
        for place in range(len(self.parts)):
            self._keep(place, self._through(layer, place))

    def _keep(self, place: int, after: tuple[Any, Bank]) -> None:
        """Hold a part's state behind a layer, in the memory of the one in front of it where both are one tensor."""
        (before, _), (state, bank) = self.states[place], after
        if isinstance(before, Tensor) and isinstance(state, Tensor) and before.shape == state.shape:
            state = before.copy_(state)
        self.states[place] = state, bank

    def output(self, layer: int, place: int) -> Tensor:
        """Take one part through a layer; return what its output projection gave, (sequences, T, d_model)."""
        seen: list[Tensor] = []
        hook = self._projection(layer).register_forward_hook(lambda _module, _args, out: seen.append(out))
        try:
            self._keep(place, self._through(layer, place))
        finally:
            hook.remove()
        return seen[0]

    def read(self, layer: int, place: int) -> Tensor:
        """Return what a layer's output projection reads of one part, (sequences, T, heads * width).

        The part goes no further: it stays in front of the layer.
        """
        seen: list[Tensor] = []

        def see(_module: nn.Module, args: tuple[Tensor, ...]) -> None:
            seen.append(args[0])
            raise _Reached

        hook: RemovableHandle = self._projection(layer).register_forward_pre_hook(see)
        try:
            self._through(layer, place)
        except _Reached:
            pass
        finally:
            hook.remove()
        return seen[0]

    def _projection(self, layer: int) -> nn.Module:
        output = self.model.attentions[layer - 1].output
        assert isinstance(output, nn.Module)
        return output
