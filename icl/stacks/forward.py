"""The forward pass of a stack of decoders: `icl.models.decoder` for all of them at a time, with the batch last.

Tensors are (S, width, T, B): decoders, numbers per token, tokens, sequences.  Everything but the matrix products then
runs over contiguous batches, which is what makes a stack fast: at widths of 2 to 32 a layer's own arithmetic is less
than what a call costs.  Scores of heads of a few numbers, over prompts of some ten tokens, are products and sums of
batches too, not matrix products, and a compiler makes one loop of them.

Each function is the twin of the module that its docstring names, and equal to it to rounding.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import gelu, silu

from icl.models.rotary import Rotation
from icl.stacks.mixes import KINDS, Role, Table
from theory.plans.architecture import Architecture
from theory.plans.depth import Chain, Depth, DepthAttention, DepthAverage
from theory.plans.mix import Kind

Parameters = Mapping[str, Tensor]
State = tuple[Tensor, ...]
PROJECTIONS: dict[Kind, str] = {"q": "query", "k": "key", "v": "value"}
BIAS = "position_bias.scores"
Turned = Literal["softmax", "norms", "feed-forward"]  # what `icl.stacks.training` turns on by degrees


@dataclass(frozen=True, eq=False)
class Structure:
    """The structure that all decoders of a stack have in common."""

    config: Architecture
    depth: Depth
    feed_forward: bool
    output_projection: bool
    table: Table


def answers(structure: Structure, weights: Parameters, mixes: Sequence[Tensor], inputs: Tensor, read: slice) -> Tensor:
    """Compute `Decoder.forward`: inputs (S, d, T, B) -> answers at the tokens `read`, (S, d, tokens read, B).

    After the last layer's keys and values no token looks at another one, so the rest is computed at those alone.
    """
    config = structure.config
    x = linear(inputs, weights, "stem.read_in")
    length = x.shape[2]
    if config.positions == "learned":
        x = x + weights["positions"][:, :length].mT[..., None]
    state: State = (x,) if not isinstance(structure.depth, DepthAverage) else (x, x)
    bank: dict[tuple[Kind, int], Tensor] = {}
    step, every = 0, slice(0, length)
    for n in range(1, config.n_layers + 1):
        seen = read if n == config.n_layers else every
        x = depth_read(structure, weights, step, state=state)
        out = attention(structure, weights, mixes, n=n, x=x, bank=bank, seen=seen)
        if n == config.n_layers:
            state = tuple(source[:, :, seen] for source in state)
        state = depth_write(structure, weights, step, state=state, out=out)
        step += 1
        if structure.feed_forward:
            x = depth_read(structure, weights, step, state=state)
            state = depth_write(structure, weights, step, state=state, out=feed_forward(config, weights, n, x=x))
            step += 1
    x = norm(config, depth_read(structure, weights, step, state=state), weights, name="norm")
    return linear(x, weights, "stem.head")


def turned_name(ingredient: Turned) -> str:
    """Return the name under which a stack holds, for every decoder, the share to which an ingredient is turned on."""
    return f"turned.{ingredient}"


def turned(weights: Parameters, ingredient: Turned) -> Tensor | None:
    """Return the share to which an ingredient is turned on, from 0 to 1: (S, 1, 1, 1); None where it is fully on."""
    share = weights.get(turned_name(ingredient))
    return None if share is None else share[:, :, None, None].detach()


def linear(x: Tensor, weights: Parameters, name: str) -> Tensor:
    """Apply a linear map: (S, in, T, B) -> (S, out, T, B); return x itself where there are no weights of that name."""
    if f"{name}.weight" not in weights:
        return x
    decoders, _, *rest = x.shape
    out = torch.bmm(weights[f"{name}.weight"], x.flatten(2)).view(decoders, -1, *rest)
    bias = weights.get(f"{name}.bias")
    return out if bias is None else out + bias[:, :, None, None]


def norm(config: Architecture, x: Tensor, weights: Parameters, name: str) -> Tensor:
    """Compute `icl.models.frame.norm`; x itself where there are no weights of that name."""
    if f"{name}.weight" not in weights:
        return x
    given, share = x, turned(weights, "norms")
    if config.norm == "layer":
        x = x - x.mean(1, keepdim=True)
    x = x * (x.square().mean(1, keepdim=True) + config.norm_eps).rsqrt() * weights[f"{name}.weight"][:, :, None, None]
    bias = weights.get(f"{name}.bias")
    x = x if bias is None else x + bias[:, :, None, None]
    return x if share is None else torch.lerp(given, x, share)


def feed_forward(config: Architecture, weights: Parameters, n: int, x: Tensor) -> Tensor:
    """Compute `FeedForward` of layer n."""
    name = f"layers.{n - 1}.feed_forward"
    x = norm(config, x, weights, name=f"{name}.norm")
    up = linear(x, weights, f"{name}.up")
    inner = (
        silu(linear(x, weights, f"{name}.gate")) * up
        if config.gated
        else gelu(up, approximate="tanh" if config.tanh_gelu else "none")
    )
    out, share = linear(inner, weights, f"{name}.down"), turned(weights, "feed-forward")
    return out if share is None else share * out


def attention(
    structure: Structure,
    weights: Parameters,
    mixes: Sequence[Tensor],
    n: int,
    x: Tensor,
    bank: dict[tuple[Kind, int], Tensor],
    seen: slice,
) -> Tensor:
    """Compute `Attention` of layer n at the tokens `seen`; the bank gets this layer's entries."""
    config, name = structure.config, f"layers.{n - 1}.attention"
    heads = (x.shape[0], config.n_heads, config.width)
    x = norm(config, x, weights, name=f"{name}.norm")
    for kind, projection in PROJECTIONS.items():
        # Only the last layer's tokens are cut, and no later layer reads its queries.
        tokens = x[:, :, seen] if kind == "q" else x
        out = linear(tokens, weights, f"{name}.projections.{projection}")
        out = out.view(*heads, *out.shape[2:])
        if config.positions == "rope" and kind != "v":
            out = rotated(config, out, seen if kind == "q" else slice(0, x.shape[2]))
        bank[kind, n] = out

    def read(role: Role) -> Tensor:
        kind = KINDS[role]
        parts = []
        for term in structure.table[n - 1][role]:
            entry = bank[kind, term.layer]
            if kind == "q" and term.layer < n:
                entry = entry[:, :, :, seen]
            if term.how == "own":
                parts.append(entry)
            elif term.how == "scaled":
                parts.append(entry * mixes[term.slot][:, :, None, None, None])
            else:
                parts.append((mixes[term.slot] @ entry.flatten(2)).view_as(entry))
        return functools.reduce(torch.add, parts)

    bias = weights[f"{name}.{BIAS}"] if config.positions == "bias" else None
    share = turned(weights, "softmax")
    out = attend(config, read("query"), read("keys"), value=read("values"), bias=bias, seen=seen, share=share)
    if structure.table[n - 1]["beside"]:
        out = out + read("beside")[:, :, :, seen]
    joined = out.flatten(1, 2)
    return linear(joined, weights, f"{name}.output") if structure.output_projection else joined


def rotated(config: Architecture, x: Tensor, seen: slice) -> Tensor:
    """Compute `Rotation`: (S, H, width, T, B), at the positions `seen`."""
    places = torch.arange(seen.start, seen.stop, seen.step or 1, device=x.device)
    rotation = Rotation(places, config.width, config.rope_theta, stretched=config.rope_stretched)
    cos, sin = (table.to(x.dtype)[0].mT[..., None] for table in (rotation.cos, rotation.sin))
    a, b = x.chunk(2, dim=2)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=2)


def attend(
    config: Architecture,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None,
    seen: slice,
    share: Tensor | None = None,
) -> Tensor:
    """Compute `icl.models.attention.attend`.

    query (S, H, width, tokens seen, B), the others (S, H, width, T, B), bias (S, H, context, context) -> as the query.
    share: of softmax scores; the rest are linear ones (None: as the architecture has it).
    """
    length = key.shape[3]
    products = (query[:, :, :, :, None] * key[:, :, :, None]).sum(2)  # (S, H, seen, T, B)
    scores = products * config.width**-0.5 if config.score == "softmax" else products
    if bias is not None:
        bias = bias[:, :, seen, :length, None]
        scores = scores + bias
    place = torch.arange(length, device=query.device)
    visible = None
    if config.mask == "causal":
        visible = (place[seen, None] >= place)[..., None]
    elif config.mask == "context":
        visible = (place < length - 1)[None, :, None]
    if config.score == "linear":
        given = scores if visible is None else scores * visible
    else:
        masked = scores if visible is None else scores.masked_fill(~visible, torch.finfo(scores.dtype).min)
        given = masked.softmax(3)
        if share is not None:
            plain = products if bias is None else products + bias
            given = torch.lerp(plain if visible is None else plain * visible, given, share[..., None])
    return (given[:, :, None] * value[:, :, :, None]).sum(4)


def depth_read(structure: Structure, weights: Parameters, step: int, state: State) -> Tensor:
    """Compute `ResidualDepth.read` and its kin."""
    rule = structure.depth
    if not isinstance(rule, DepthAttention):
        return state[-1]
    logits = torch.stack(
        _logits(structure, rule, weights, step=step, state=state)
    )  # (sources, S, heads, T or 1, B or 1)
    shares = logits.softmax(0) if rule.score == "softmax" else logits.sigmoid()
    parts = (share[:, :, None] * v.unflatten(1, (rule.heads, -1)) for share, v in zip(shares, state, strict=True))
    return functools.reduce(torch.add, parts).flatten(1, 2)


def _logits(structure: Structure, rule: DepthAttention, weights: Parameters, step: int, state: State) -> list[Tensor]:
    """Compute `AttentionDepth._logits`."""
    if rule.query == "static":
        return [logit[:, :, None, None] for logit in weights[f"depth.logits.{step}"].unbind(2)]
    eps = structure.config.norm_eps
    query = weights["depth.query"][:, step, :, None, None]
    if rule.query == "input":
        newest = state[-1]
        normed = newest * (newest.square().mean(1, keepdim=True) + eps).rsqrt()
        query = query + torch.bmm(weights["depth.matrix"][:, step], normed.flatten(2)).view_as(normed)
    if rule.key_norm:
        query = query * weights["depth.gain"][:, step, :, None, None]
    found = []
    for v in state:
        products = (query * v).unflatten(1, (rule.heads, -1)).sum(2)
        found.append(products * (v.square().mean(1, keepdim=True) + eps).rsqrt() if rule.key_norm else products)
    return found


def depth_write(structure: Structure, weights: Parameters, step: int, state: State, out: Tensor) -> State:
    """Compute `ResidualDepth.write` and its kin."""
    match structure.depth:
        case Chain():
            return (out,)
        case DepthAverage():
            *finished, stream = state
            stream = stream + out
            if (step + 1) % (1 + structure.feed_forward):
                return (*finished, stream)
            finished.append(stream)
            shares = weights[f"depth.weights.{len(finished) - 2}"].unbind(1)
            parts = (share[:, None, None, None] * v for share, v in zip(shares, finished, strict=True))
            return (*finished, functools.reduce(torch.add, parts))
        case DepthAttention() as rule:
            if step % rule.block:
                return (*state[:-1], state[-1] + out)
            window = rule.window
            kept = state[1:] if window is None else state[max(1, len(state) + 1 - window) :]
            return (state[0], *kept, out)
    return (state[0] + out,)
