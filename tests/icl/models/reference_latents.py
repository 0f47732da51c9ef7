"""Variants under multi-head latent attention: the latents C and rotary keys K^R that layer n attends over.

SkipV1Former, section 5.2: what a variant does to value heads it does to as many slices of the latent, before the
latent's norm.  So the content keys, made from the latent, follow the values; the rotary key stays the layer's own,
unless the variant moves keys.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from icl.testing import Layer
from icl.testing.references import Lists


def whole(x: Layer, m: int) -> Tensor:
    """All slices of layer m's latent C = W^DKV X."""
    return torch.cat([x.v(m, h) for h in range(1, x.heads + 1)], -1)


def vanilla(x: Layer) -> Lists:
    """C_n, K^R_n."""
    return [(whole(x, x.n), x.k(x.n, 1))]


def resformer(x: Layer, own: float = 0.5, first: float = 0.5) -> Lists:
    """ResFormer, Eqn. 7, on the latent."""
    return [(own * whole(x, x.n) + first * whole(x, 1) if x.n > 1 else whole(x, 1), x.k(x.n, 1))]


def skipv1(x: Layer, ratio: float = 0.5) -> Lists:
    """Half of C_n and the other half of C_1."""
    if x.n == 1:
        return vanilla(x)
    own = x.heads - int(ratio * x.heads)
    slices = [x.v(x.n, h) for h in range(1, own + 1)] + [x.v(1, h) for h in range(own + 1, x.heads + 1)]
    return [(torch.cat(slices, -1), x.k(x.n, 1))]


def svformer(x: Layer, anchors: tuple[int, ...] = (1,)) -> Lists:
    """ResFormer, Eqn. 10, on the latent."""
    return [(whole(x, max(a for a in anchors if a <= x.n)), x.k(x.n, 1))]


def cla(x: Layer, every: int = 2) -> Lists:
    """Appendix B.1: both parts of the cache are shared."""
    m = range(1, x.n + 1, every)[-1]
    return [(whole(x, m), x.k(m, 1))]


def cross_layer(x: Layer, source: int = 0) -> Lists:
    """ResFormer, Eqn. 2, over the two caches."""
    m = source or x.n - 1
    return [(whole(x, i), x.k(i, 1)) for i in ([x.n, m] if 1 <= m < x.n else [x.n])]


LATENTS: dict[str, Callable[..., Lists]] = {
    rule.__name__: rule for rule in (vanilla, resformer, skipv1, svformer, cla, cross_layer)
}
