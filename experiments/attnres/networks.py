"""Decoders with weights that theory writes down: networks that grow as fast as any, and gradient descent in context."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import sqrt
from typing import TYPE_CHECKING

from theory.attnres.growth import Extremal, in_a_plane
from theory.plans.architecture import Architecture, Tokens, Vectors
from theory.plans.plan import DepthAttention, Plan
from theory.plans.presets import toy

if TYPE_CHECKING:
    from torch import Tensor

    from icl.models.decoder import Decoder

GATE = 60.0  # what a gate gets: silu is the identity there, to the last digit


def growing(
    config: Architecture, plan: Plan, network: Extremal, query: float, factors: Sequence[float] = ()
) -> Decoder:
    """Return `network` as a decoder in float64, for tokens all of which are 0; queries over depth of length `query`.

    config   LLaMA-like, with norm_eps 0; one head, as wide as the model
    factors  of a decoder without norms: the sublayers' norms as linear maps, attention only
    """
    import torch

    from icl.models.attention import Attention
    from icl.models.decoder import Decoder
    from icl.models.feed_forward import FeedForward

    model, d = Decoder(config, plan).double(), config.d_model
    directions = torch.from_numpy(in_a_plane(network.directions, d))

    with torch.no_grad():
        model.get_parameter("stem.embedding.weight")[:] = network.outputs[0] * directions[0]
        for i, sublayer in enumerate(model.sublayers):
            into, out = directions[network.read[i]], directions[network.written[i + 1]]
            size = factors[i] if factors else network.outputs[i + 1] / sqrt(d)
            if isinstance(sublayer, Attention):
                sublayer.get_parameter("projections.value.weight").copy_(torch.eye(d))
                sublayer.get_parameter("output.weight").copy_(size * torch.outer(out, into))
                continue
            assert isinstance(sublayer, FeedForward)
            for name, matrix in (("gate", GATE / sqrt(d) * into), ("up", into), ("down", size / GATE * out[:, None])):
                parameter = sublayer.get_parameter(f"{name}.weight").zero_()
                parameter[: matrix.shape[0] if name == "down" else 1, : 1 if name == "down" else d] = matrix
        if isinstance(plan.depth, DepthAttention):
            model.get_parameter("depth.query").copy_(query * directions[list(network.read)])
    return model


def reads(model: Decoder, inputs: Tensor) -> list[Tensor]:
    """Return what every sublayer and the last norm read, each (batch, T, d_model)."""
    import torch

    from icl.probes.recording import reading

    seen: list[Tensor] = []
    with torch.no_grad(), reading(model, lambda _, read: seen.append(read)):
        model(inputs)
    return seen


def read_norms(model: Decoder) -> list[float]:
    """Return the norms of all reads of one token, the last one included; tokens are numbers."""
    import torch

    return [float(h.norm()) for h in reads(model, torch.zeros(1, 1, dtype=torch.long))]


def read_squares(config: Architecture, plan: Plan, seed: int, std: float, *, scale_outputs: bool) -> list[float]:
    """Return, by read of a decoder with random weights, the squared norm of its gradient through its sublayer alone.

    The loss is linear in the scores; every token of the vocabulary stands alone.
    """
    import torch

    from icl.models.decoder import Decoder
    from icl.probes.gradients import gradients

    assert isinstance(config.stem, Tokens)
    vocab = config.stem.vocab
    model = Decoder(config, plan, seed=seed, std=std, scale_outputs=scale_outputs).double()
    direction = torch.randn(vocab, vocab, generator=torch.Generator().manual_seed(seed)).double()
    found = gradients(model, torch.arange(vocab)[:, None], lambda answer: (answer[:, 0] * direction).sum())
    return [float(b.square().sum()) for b in found.of_reads]


def descending(plan: Plan, n: int, weights: Tensor) -> Decoder:
    """Return the linear-attention toy with gradient descent's heads, in float64, tokens (x_t ; y_t) and (x ; 0).

    weights: B_1, B_2, ... of `theory.attnres.toy`, (layers, d, d).  Layer l adds -B_l sum_t y_t x_t^T x to the y slot.
    """
    import torch

    from icl.models.decoder import Decoder

    layers, d, _ = weights.shape
    config = replace(toy(2 * d, n, heads=1, layers=layers), stem=Vectors(2 * d, read_in=False))
    model = Decoder(config, plan).double()
    of_x, of_y = torch.zeros(2, 2 * d, 2 * d, dtype=torch.float64)
    of_x[:d, :d] = of_y[d:, d:] = torch.eye(d)
    with torch.no_grad():
        for layer, b in zip(model.layers, weights, strict=True):
            attention = layer.get_submodule("attention")
            for name, matrix in (("query", of_x), ("key", of_x), ("value", of_y)):
                attention.get_parameter(f"projections.{name}.weight").copy_(matrix)
            output = attention.get_parameter("output.weight").zero_()
            output[d:, d:] = -b
    return model
