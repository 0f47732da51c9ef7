"""The composition of every read: coefficients of earlier outputs, under any depth rule, and their shares.

Outputs and reads are counted as in `icl.probes.magnitude`.  Read l is h_l = sum_{i <= l} A_li v_i:
    residual stream     A_li = 1; of a chain only A_ll is
    DenseFormer         what its averages of streams make of unit vectors in the outputs' places
    depth attention     the weight of the source that output i is in, of every token, and of every head over depth
    streams             what their sums make of it, of every token where weights are; of three inputs the queries'
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from icl.models.decoder import Decoder
from icl.models.depth import DepthRule
from icl.models.depth_attention import AttentionDepth, TwoPhases, read_as
from icl.models.streams import StreamsDepth
from icl.models.weighted_sum import weighted_sum
from icl.probes.recording import reading, writing
from theory.plans.accounting import depth_reads
from theory.plans.plan import DepthAttention


@dataclass(frozen=True)
class Shares:
    """The shares of outputs in every read, without units; a read of l + 1 outputs has l + 1 numbers where each has one.

    coefficient     |A_li| / sum_j |A_lj|, mean over tokens, and heads over depth
    least, most     of that, the least and the largest
    projection      <A_li v_i, h_l> / ||h_l||^2, mean over tokens
    square          p_i = ||A_li v_i||^2 / sum_j ||A_lj v_j||^2, mean over tokens
    effective       of every read one number: the mean over tokens of log(1 / sum_i p_i^2), the logarithm of how many
                    outputs of one norm would be as spread
    error           of every read: the largest ||sum_i A_li v_i - h_l|| / sum_i ||A_li v_i|| of a token, which is
                    rounding: of the model, as coefficients and sums are float64
    lengths         of every read ||query * gain||, where one softmax over depth with normed keys has a learned query
    """

    coefficient: tuple[tuple[float, ...], ...]
    least: tuple[tuple[float, ...], ...]
    most: tuple[tuple[float, ...], ...]
    projection: tuple[tuple[float, ...], ...]
    square: tuple[tuple[float, ...], ...]
    effective: tuple[float, ...]
    error: tuple[float, ...]
    lengths: tuple[float, ...] | None


def shares(model: Decoder, inputs: Tensor) -> Shares:
    """Return the shares in one forward pass without gradients, in the model's present mode.

    The model's hooks stay as they were.  inputs: as the model takes them.
    """
    with torch.no_grad():
        reads, outputs = recorded(model, inputs)
        outputs = [v.double() for v in outputs]
        by_read = [
            _of_read(read, rows, outputs) for read, rows in zip(reads, coefficients(model, outputs), strict=True)
        ]
    columns = {name: tuple(found[name] for found in by_read) for name in by_read[0]}
    return Shares(**columns, lengths=_lengths(model))


def recorded(model: Decoder, inputs: Tensor) -> tuple[list[Tensor], list[Tensor]]:
    """Return all reads and outputs of a forward pass, each (batch, T, d_model), the embedding the first output."""
    reads: list[Tensor] = []
    outputs: list[Tensor] = []
    with reading(model, lambda _, read: reads.append(read)), writing(model, outputs.append):
        model(inputs)
    return reads, outputs


def coefficients(model: Decoder, outputs: Sequence[Tensor]) -> list[Tensor]:
    """Return A_l0, ..., A_ll of every read: (l + 1, batch or 1, T or 1, heads over depth).

    outputs (batch, T, d_model) each, the embedding first; in float64, as should be the outputs for weights of theirs.
    """
    rule = model.depth
    if isinstance(rule, TwoPhases):
        rule = read_as(AttentionDepth, rule, model.config, plan=model.plan)
    if isinstance(rule, AttentionDepth):
        sources = depth_reads(model.config, model.plan)
        return [_spread(rule.weights(*at).double(), sources[at[0]]) for at in _states(rule, outputs)]
    if isinstance(rule, StreamsDepth):
        return [row.movedim(-1, 0)[: i + 1, ..., None] for i, row in enumerate(rule.coefficients(outputs))]
    units = torch.eye(len(outputs), dtype=torch.float64, device=outputs[0].device)[:, None, None]
    return [rule.read(i, state)[0, 0, : i + 1, None, None, None] for i, state in _states(rule, units)]


def _states(rule: DepthRule, outputs: Sequence[Tensor] | Tensor) -> Iterator[tuple[int, Any]]:
    """Yield every read's number and the state from which it is made."""
    state = rule.start(outputs[0])
    yield 0, state
    for i, out in enumerate(outputs[1:]):
        state = rule.write(i, state, out)
        yield i + 1, state


def _spread(weights: Tensor, sources: Sequence[range]) -> Tensor:
    """Spread weights from sources to the outputs in them; an output in none has the coefficient 0."""
    rows = weights.new_zeros(sources[-1].stop, *weights.shape[1:])
    for source, weight in zip(sources, weights, strict=True):
        rows[source.start : source.stop] = weight
    return rows


def _of_read(read: Tensor, rows: Tensor, outputs: Sequence[Tensor]) -> dict[str, Any]:
    parts = [weighted_sum(rows[i : i + 1], [v]) for i, v in enumerate(outputs[: len(rows)])]
    h = torch.stack(parts).sum(0)
    norms = torch.stack([part.norm(dim=-1) for part in parts])
    squares = norms.square() / norms.square().sum(0)
    coefficient = (rows.abs() / rows.abs().sum(0)).flatten(1)
    projections = torch.stack([(part * h).sum(-1) for part in parts]) / h.square().sum(-1)
    return {
        "coefficient": tuple(coefficient.mean(1).tolist()),
        "least": tuple(coefficient.amin(1).tolist()),
        "most": tuple(coefficient.amax(1).tolist()),
        "projection": tuple(projections.flatten(1).mean(1).tolist()),
        "square": tuple(squares.flatten(1).mean(1).tolist()),
        "effective": -float(squares.square().sum(0).log().mean()),
        "error": float(((h - read).norm(dim=-1) / norms.sum(0)).max()),
    }


def _lengths(model: Decoder) -> tuple[float, ...] | None:
    rule = model.plan.depth
    if not isinstance(rule, DepthAttention) or rule.heads > 1 or (rule.query, rule.score) != ("learned", "softmax"):
        return None
    if not rule.key_norm:
        return None
    query, gain = (model.get_parameter(f"depth.{name}").detach().double() for name in ("query", "gain"))
    return tuple((query * gain).norm(dim=1).tolist())
