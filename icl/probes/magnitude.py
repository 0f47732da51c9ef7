"""Norms of hidden states, sublayer outputs and gradients by depth (Attention Residuals, training dynamics).

Output 0 is the embedding, positions included, and output i that of sublayer i; read i is what sublayer i + 1 gets, and
the last read what the last norm gets.  `theory.plans.accounting.depth_reads` counts alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from icl.models.attention import Attention
from icl.models.decoder import Decoder
from icl.models.feed_forward import FeedForward
from icl.probes.recording import in_graph, reading, writing
from theory.plans.accounting import depth_reads
from theory.plans.mix import v
from theory.plans.plan import DepthAttention

if TYPE_CHECKING:
    from numpy import float64
    from numpy.typing import NDArray

    Array = NDArray[float64]


@dataclass(frozen=True)
class Magnitudes:
    """Norms of vectors of width d_model, over all tokens of a batch, and of gradients of the loss.

    read_rms, read_max      of every read: root mean square, and largest, over tokens
    output_rms, output_max  of every output, the embedding first
    ratio                   of every read: the largest, over tokens, of its norm over that of its largest source.  The
                            sources are what depth attention weighs; under every other rule, all outputs one by one.
                            At most 1 for a convex combination
    read_gradient           Frobenius norm of the gradient with respect to every read.  A residual stream flows on from
                            where it is read, what depth attention reads goes to its sublayer alone
    output_gradient         the same for every output, through all that reads it: comparable between depth rules
    layer_gradient          norm of the gradient with respect to all parameters of every layer
    """

    read_rms: tuple[float, ...]
    read_max: tuple[float, ...]
    output_rms: tuple[float, ...]
    output_max: tuple[float, ...]
    ratio: tuple[float, ...]
    read_gradient: tuple[float, ...]
    output_gradient: tuple[float, ...]
    layer_gradient: tuple[float, ...]


def magnitudes(model: Decoder, inputs: Tensor, loss_of: Callable[[Tensor], Tensor]) -> Magnitudes:
    """Return the norms in one forward and backward pass, in the model's present mode.

    The model's hooks and `.grad` stay as they were.

    inputs      as the model takes them
    loss_of     the model's answer -> a scalar
    """
    with torch.enable_grad(), _recorded(model) as (reads, outputs):
        loss = loss_of(model(inputs))
    layers = [[p for p in layer.parameters() if p.requires_grad] for layer in model.layers]
    wanted = [*reads, *outputs, *(p for layer in layers for p in layer)]
    gradients = torch.autograd.grad(loss, wanted, allow_unused=True)
    norms = torch.stack([_zero(loss) if g is None else _norm(g.flatten()).to(loss.device) for g in gradients]).tolist()
    by_read, by_output = norms[: len(reads)], norms[len(reads) : len(reads) + len(outputs)]
    rest = iter(norms[len(reads) + len(outputs) :])
    by_layer = [sum(next(rest) ** 2 for _ in layer) ** 0.5 for layer in layers]
    read_norms, output_norms = [_norm(x) for x in reads], [_norm(x) for x in outputs]
    return Magnitudes(
        read_rms=_each(read_norms, lambda x: x.square().mean().sqrt()),
        read_max=_each(read_norms, torch.max),
        output_rms=_each(output_norms, lambda x: x.square().mean().sqrt()),
        output_max=_each(output_norms, torch.max),
        ratio=_ratios(model, read_norms, outputs),
        read_gradient=tuple(by_read),
        output_gradient=tuple(by_output),
        layer_gradient=tuple(by_layer),
    )


@contextmanager
def _recorded(model: Decoder) -> Iterator[tuple[list[Tensor], list[Tensor]]]:
    """Yield the reads and outputs, each (batch, T, d_model), of the pass inside; all require gradients."""
    reads: list[Tensor] = []
    outputs: list[Tensor] = []
    with reading(model, lambda _, read: reads.append(read)), writing(model, in_graph(outputs)):
        yield reads, outputs


def _ratios(model: Decoder, read_norms: list[Tensor], outputs: list[Tensor]) -> tuple[float, ...]:
    if isinstance(model.plan.depth, DepthAttention):
        sources = depth_reads(model.config, model.plan)
    else:
        sources = [[range(i, i + 1) for i in range(read + 1)] for read in range(len(outputs))]
    summed = {source for each in sources for source in each}
    norms = {source: _norm(sum(outputs[i].detach() for i in source)) for source in summed}
    ratios = []
    for norm, each in zip(read_norms, sources, strict=True):
        largest = torch.stack([norms[source] for source in each]).amax(0)
        # A read of nothing but zeros is one; rounding apart, a read that is not zero has a source that is not.
        ratios.append(torch.where(norm == 0, norm, norm / largest))
    return _each(ratios, torch.max)


def _norm(x: Tensor | Any) -> Tensor:
    """Return norms over the last dimension, in float64."""
    norm: Tensor = torch.linalg.vector_norm(x.detach(), dim=-1, dtype=torch.float64)
    return norm


def _zero(like: Tensor) -> Tensor:
    return torch.zeros((), dtype=torch.float64, device=like.device)


def _each(tensors: list[Tensor], number_of: Callable[[Tensor], Tensor]) -> tuple[float, ...]:
    return tuple(torch.stack([number_of(x) for x in tensors]).tolist())


@dataclass(frozen=True, eq=False)
class AttentionWeights:
    """The weights of an attention sublayer, for every query head, in float64.

    Shapes: value (H, w, d_model), output (H, d_model, w); the norm's gain (d_model,).
    """

    value: Array
    output: Array
    gain: Array


@dataclass(frozen=True, eq=False)
class FeedForwardWeights:
    """The weights of a feed-forward sublayer, in float64.

    Shapes: gate (or None) and up (d_ff, d_model), down (d_model, d_ff); the norm's gain (d_model,).
    """

    gate: Array | None
    up: Array
    down: Array
    gain: Array


def sublayer_weights(model: Decoder) -> list[AttentionWeights | FeedForwardWeights]:
    """Return the weights that bound every sublayer's output, in order.

    Raises ValueError where no such bound holds: unless the model's sublayers have norms, it has no biases, and softmax
    attention in which every head attends over its own layer's values and nothing is added beside them.
    """
    for problem in _unbounded(model):
        raise ValueError(f"no bound on what sublayers put out: {problem}")
    weights: list[AttentionWeights | FeedForwardWeights] = []
    for sublayer in model.sublayers:
        if isinstance(sublayer, FeedForward):
            gate = None if sublayer.gate is None else _array(sublayer.gate)
            weights.append(FeedForwardWeights(gate, _array(sublayer.up), _array(sublayer.down), _array(sublayer.norm)))
            continue
        assert isinstance(sublayer, Attention)
        assert sublayer.output is not None
        config = model.config
        value = _array(sublayer.projections.get_submodule("value")).reshape(config.kv_heads, config.width, -1)
        output = _array(sublayer.output).reshape(config.d_model, config.n_heads, config.width)
        weights.append(
            AttentionWeights(value.repeat(config.group, axis=0), output.transpose(1, 0, 2), _array(sublayer.norm))
        )
    return weights


def _unbounded(model: Decoder) -> Iterator[str]:
    config, plan = model.config, model.plan
    if config.sublayer_norm == "none":
        yield "its sublayers have no norms"
    if config.bias or config.qkv_bias:
        yield "it has biases"
    if config.score != "softmax" or config.copy_rank is not None:
        yield "its attention is not softmax attention"
    if config.latent is not None or plan.dynamic != "no" or not plan.output_projection:
        yield "its values do not come from one projection each, or its heads go through none"
    if config.differential:
        yield "its heads' outputs are taken off each other"
    if config.output_gate != "no" or config.output_scale != "no" or config.residual_rank or config.parallel:
        yield "its outputs are gated, scaled, added to by a residual map, or two sublayers' together"
    for n, h in plan.shape.cells():
        head = plan.head(n, h)
        if head.values != (v(n, h),) or head.beside.terms:
            yield f"layer {n}, head {h} does not read its own values alone"


def _array(module: nn.Module) -> Array:
    weight = module.weight
    assert isinstance(weight, Tensor)
    return weight.detach().to("cpu", torch.float64).numpy()
