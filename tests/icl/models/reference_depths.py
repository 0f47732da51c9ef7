"""Every depth variant as its paper writes it: what the sublayers read, from the embedding to the last read.

Attention Residuals is Attention Residuals; what it leaves out, the ablations, stands in its paper, arXiv 2603.15031.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from icl.testing import Stack, rms

Read = Callable[[Stack, int, Tensor], Tensor]


def no_residual(stack: Stack) -> Tensor:
    """The toy of SkipV1Former, appendix A.1, "no residual connections": x <- f(x)."""
    x = stack.embedding
    for f in stack.sublayers:
        x = f(x)
    return x


def denseformer(stack: Stack) -> Tensor:
    """Pagliardini et al.: Y_n = sum_{i=0..n} a_{n,i} X_i, X_0 the embedding and X_n what block n makes of Y_{n-1}."""
    outputs, y = [stack.embedding], stack.embedding
    for n, layer in enumerate(stack.layers):
        for f in layer:
            y = y + f(y)
        outputs.append(y)
        y = sum(stack.w[f"depth.weights.{n}"][i] * out for i, out in enumerate(outputs))
    return y


def keys(stack: Stack, read: int, sources: Tensor) -> Tensor:
    """The keys of a read: RMSNorm(v_i), with the read's own gain."""
    return rms(sources, stack.eps) * stack.w["depth.gain"][read]


def mixed(logits: Tensor, sources: Tensor) -> Tensor:
    """h = sum_i alpha_i v_i, alpha = softmax over i; logits (sources, ...), sources (sources, ..., d)."""
    shares = logits.exp() / logits.exp().sum(0, keepdim=True)
    return (shares[..., None] * sources).sum(0)


def by_query(stack: Stack, read: int, sources: Tensor) -> Tensor:
    """Attention Residuals: alpha_{i -> l} = softmax_i <w_l, RMSNorm(v_i)>."""
    return mixed(keys(stack, read, sources) @ stack.w["depth.query"][read], sources)


def by_query_no_key_norm(stack: Stack, read: int, sources: Tensor) -> Tensor:
    """The paper's ablation without the keys' RMSNorm: alpha = softmax_i <w_l, v_i>."""
    return mixed(sources @ stack.w["depth.query"][read], sources)


def by_sigmoid(stack: Stack, read: int, sources: Tensor) -> Tensor:
    """The paper's ablation: sigmoid(<w_l, RMSNorm(v_i)>) in the place of the softmax, not normalised."""
    logits = keys(stack, read, sources) @ stack.w["depth.query"][read]
    return (sources / (1 + (-logits).exp())[..., None]).sum(0)


def by_static(stack: Stack, read: int, sources: Tensor) -> Tensor:
    """The paper's ablation: alpha = softmax of learned numbers, whatever the sources hold."""
    logits = stack.w[f"depth.logits.{read}"][0]
    return mixed(logits[:, None, None].expand(sources.shape[:-1]), sources)


def by_input(stack: Stack, read: int, sources: Tensor) -> Tensor:
    """The paper's ablation: the query depends on the newest output, w_l + W_l RMSNorm(v_{l-1})."""
    query = stack.w["depth.query"][read] + rms(sources[-1], stack.eps) @ stack.w["depth.matrix"][read].T
    return mixed((query * keys(stack, read, sources)).sum(-1), sources)


def by_parts(stack: Stack, read: int, sources: Tensor, heads: int) -> Tensor:
    """The paper's ablation with heads: each part of the width has its own softmax."""
    products = keys(stack, read, sources) * stack.w["depth.query"][read]
    parts = zip(products.chunk(heads, -1), sources.chunk(heads, -1), strict=True)
    return torch.cat([mixed(product.sum(-1), source) for product, source in parts], -1)


def full(stack: Stack, read: Read = by_query, window: int | None = None) -> Tensor:
    """Attention Residuals, Full AttnRes: h_l reads v_0 (the embedding) to v_{l-1}; one more read feeds the output."""
    v = [stack.embedding]
    for f in stack.sublayers:
        v.append(f(read(stack, len(v) - 1, torch.stack(seen(v, window)))))
    return read(stack, len(v) - 1, torch.stack(seen(v, window)))


def seen(v: list[Tensor], window: int | None) -> list[Tensor]:
    """The paper's sliding-window ablation: the embedding and the newest `window` outputs."""
    return v if window is None else v[:1] + v[max(1, len(v) - window) :]


def block(stack: Stack, size: int, read: Read = by_query) -> Tensor:
    """Block AttnRes: the pseudo-code with blocks = [embedding], and a block's first read without a partial sum."""
    blocks, partial_block = [stack.embedding], []
    for count, f in enumerate(stack.sublayers):
        out = f(read(stack, count, torch.stack(blocks + partial_block)))
        partial_block = [partial_block[0] + out] if partial_block else [out]
        if (count + 1) % size == 0:
            blocks, partial_block = blocks + partial_block, []
    return read(stack, len(stack.sublayers), torch.stack(blocks + partial_block))


def block_of(stack: Stack, blocks: int = 8, size: int = 0, layers: int = 0, read: Read = by_query) -> Tensor:
    """Blocks of `size` sublayers, of the sublayers of `layers` layers, or of the fewest that make at most `blocks`."""
    total = len(stack.sublayers)
    size = size or sum(map(len, stack.layers[:layers]))
    return block(stack, size or next(s for s in range(1, total + 1) if s * blocks >= total), read)


def in_parts(stack: Stack, heads: int = 16, blocks: int = 8) -> Tensor:
    return block_of(stack, blocks, read=partial(by_parts, heads=heads))


DEPTHS: dict[str, Callable[..., Tensor]] = {
    "denseformer": denseformer,
    "attnres": full,
    "attnres-block": block_of,
    "attnres-no-key-norm": partial(full, read=by_query_no_key_norm),
    "attnres-sigmoid": partial(full, read=by_sigmoid),
    "attnres-static": partial(full, read=by_static),
    "attnres-input-query": partial(full, read=by_input),
    "attnres-window": partial(full, window=8),
    "attnres-heads": in_parts,
}
