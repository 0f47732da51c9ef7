"""Every attention variant as its paper writes it: the output U_n of head h of layer n, from all layers' Q, K and V.

The depth variants are in reference_depths.py and reference_streams.py; those of a paper may stand with its tests, in
theory/PAPER/references.py.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import torch
from torch import Tensor

from icl.testing import Layer, depth_reference, reference
from icl.testing.references import vanilla
from tests.icl.models import reference_latents as latents
from tests.icl.models.reference_depths import DEPTHS
from tests.icl.models.reference_streams import STREAMS


def middle(x: Layer) -> int:
    """L / 2, rounded down where L is odd."""
    return max(1, x.layers // 2)


def leader(x: Layer, every: int) -> int:
    """The first layer of the group of `every` adjacent ones that holds layer n (SkipV1Former, appendix B.1)."""
    return range(1, x.n + 1, every)[-1]


def skips(x: Layer, h: int, ratio: float = 0.5, source: int = 1) -> bool:
    """SkipV1Former, section 3.2: after the source layer, the last heads, `ratio` of them, are not the layer's own."""
    return x.n > source and h > x.heads - int(ratio * x.heads)


reference(latent=latents.vanilla)(vanilla)


# --- ResFormer ------------------------------------------------------------------------------------------------------


@reference(latent=latents.resformer)
def resformer(x: Layer, h: int, own: float = 0.5, first: float = 0.5) -> Tensor:
    """Eqn. 7: U_n = 1/2 A_n (V_n + V_1) for n >= 2, standard attention in the first layer."""
    if x.n == 1:
        return x.A(h) @ x.v(1, h)
    return own * (x.A(h) @ x.v(x.n, h)) + first * (x.A(h) @ x.v(1, h))


@reference
def resformer_constant(x: Layer, h: int, weight: float = 2.0) -> Tensor:
    """Section 4.2: U_n = A_n (V_n + lambda V_1)."""
    return x.A(h) @ (x.v(x.n, h) + weight * x.v(1, h)) if x.n > 1 else x.A(h) @ x.v(1, h)


@reference
def resformer_learned(x: Layer, h: int) -> Tensor:
    """Eqn. 7 with two learned numbers a layer."""
    if x.n == 1:
        return x.A(h) @ x.v(1, h)
    return x.A(h) @ (x.learned(f"own_{x.n}") * x.v(x.n, h) + x.learned(f"first_{x.n}") * x.v(1, h))


@reference
def resformer_sparse(x: Layer, h: int, last: int = 0, own: float = 0.5, first: float = 0.5) -> Tensor:
    """Eqn. 7 in the last layers only: `last` of them, or three eighths, rounded down but at least one."""
    mixed = x.n > 1 and x.layers - x.n < (last or max(1, x.layers * 3 // 8))
    return resformer(x, h, own, first) if mixed else vanilla(x, h)


@reference
def resformer_previous(x: Layer, h: int) -> Tensor:
    """Eqn. 4 with m = n - 1: U_n = 1/2 A_n (V_n + V_{n-1})."""
    return x.A(h) @ (x.v(x.n, h) + x.v(x.n - 1, h)) / 2 if x.n > 1 else x.A(h) @ x.v(1, h)


@reference
def resformer_all(x: Layer, h: int) -> Tensor:
    """Eqn. 5: U_n = 1/n A_n sum_{i=1..n} V_i."""
    return x.A(h) @ sum(x.v(i, h) for i in range(1, x.n + 1)) / x.n


@reference
def identity_mapping(x: Layer, h: int) -> Tensor:
    """Eqn. 6: U_n = A_n V_n + 1/(n-1) sum_{i=1..n-1} V_i."""
    u = x.A(h) @ x.v(x.n, h)
    return u + sum(x.v(i, h) for i in range(1, x.n)) / (x.n - 1) if x.n > 1 else u


@reference
def neutreno(x: Layer, h: int, weight: float = 0.4) -> Tensor:
    """Eqn. 8, J being the identity: U_n = (A_n - lambda J) V_n + lambda V_1.

    The matrix of ones that the paper calls J would add a sum over the future, which no causal model has.
    """
    A = x.A(h)
    return (A - weight * torch.eye(A.shape[-1], dtype=A.dtype)) @ x.v(x.n, h) + weight * x.v(1, h)


@reference
def resformer_neutreno(x: Layer, h: int, weight: float = 0.1) -> Tensor:
    """Eqn. 8 with the values of Eqn. 7 in the place of V_n, as in the authors' code, where 2 `weight` is lambda = 0.2
    (appendix A.3)."""
    mixed = (x.v(1, h) + x.v(x.n, h)) / 2
    return x.A(h) @ mixed + 2 * weight * (x.v(1, h) - mixed)


@reference(latent=latents.svformer)
def svformer(x: Layer, h: int, anchors: tuple[int, ...] = (1,)) -> Tensor:
    """Eqn. 10: U_n = A_n V_1; with anchors (section 4.8), of the newest anchor in place of layer 1."""
    return x.A(h) @ x.v([a for a in sorted(anchors) if a <= x.n][-1], h)


@reference
def residual_queries(x: Layer, h: int) -> Tensor:
    """Section 4.3: the residual connection of Eqn. 7 on the queries."""
    return x.score((x.q(x.n, h) + x.q(1, h)) / 2, x.k(x.n, h)) @ x.v(x.n, h)


@reference
def residual_keys(x: Layer, h: int) -> Tensor:
    """Section 4.3: the residual connection of Eqn. 7 on the keys."""
    return x.score(x.q(x.n, h), (x.k(x.n, h) + x.k(1, h)) / 2) @ x.v(x.n, h)


@reference
def shared_queries(x: Layer, h: int) -> Tensor:
    """Section 4.8: the first layer's queries in all layers."""
    return x.score(x.q(1, h), x.k(x.n, h)) @ x.v(x.n, h)


@reference
def shared_keys(x: Layer, h: int) -> Tensor:
    """Section 4.8: the first layer's keys in all layers."""
    return x.score(x.q(x.n, h), x.k(1, h)) @ x.v(x.n, h)


@reference(latent=latents.cross_layer)
def cross_layer(x: Layer, h: int, source: int = 0) -> Tensor:
    """Eqn. 2: Softmax(Q_n Concat(K_n, K_m)^T / sqrt(d)) Concat(V_n, V_m), m < n."""
    m = source or x.n - 1
    if not 1 <= m < x.n:
        return x.A(h) @ x.v(x.n, h)
    both = torch.cat([x.k(x.n, h), x.k(m, h)], -2), torch.cat([x.v(x.n, h), x.v(m, h)], -2)
    return x.score(x.q(x.n, h), both[0]) @ both[1]


# --- SkipV1Former ---------------------------------------------------------------------------------------------------


@reference(latent=latents.cla)
def cla(x: Layer, h: int, every: int = 2) -> Tensor:
    """Appendix B.1: keys and values shared by every l adjacent layers."""
    m = leader(x, every)
    return x.score(x.q(x.n, h), x.k(m, h)) @ x.v(m, h)


@reference
def cla_v(x: Layer, h: int, every: int = 2) -> Tensor:
    """Appendix B.1, V-only."""
    return x.A(h) @ x.v(leader(x, every), h)


@reference
def cla_k(x: Layer, h: int, every: int = 2) -> Tensor:
    """ResFormer, Fig. 4: keys only."""
    return x.score(x.q(x.n, h), x.k(leader(x, every), h)) @ x.v(x.n, h)


@reference
def yoco(x: Layer, h: int) -> Tensor:
    """Appendix B.1: the last L/2 layers have layer L/2's keys and values."""
    m = min(x.n, middle(x))
    return x.score(x.q(x.n, h), x.k(m, h)) @ x.v(m, h)


@reference
def yoco_v(x: Layer, h: int) -> Tensor:
    """Appendix B.1, V-only."""
    return x.A(h) @ x.v(min(x.n, middle(x)), h)


@reference
def yoco_k(x: Layer, h: int) -> Tensor:
    """Appendix C.5: the key sharing of YOCO."""
    return x.score(x.q(x.n, h), x.k(min(x.n, middle(x)), h)) @ x.v(x.n, h)


@reference(latent=latents.skipv1)
def skipv1(x: Layer, h: int, ratio: float = 0.5, source: int = 1) -> Tensor:
    """Section 3.2: V^h for the first heads, V_1^h for the last ones."""
    return x.A(h) @ (x.v(source, h) if skips(x, h, ratio, source) else x.v(x.n, h))


@reference
def skipv2(x: Layer, h: int, ratio: float = 0.5) -> Tensor:
    """Section 6.5: the same with V_2^h."""
    return x.A(h) @ (x.v(2, h) if skips(x, h, ratio, 2) else x.v(x.n, h))


@reference
def skipv0(x: Layer, h: int, ratio: float = 0.5) -> Tensor | None:
    """Section 6.5: the first sum of section 3.2 without the second."""
    return None if skips(x, h, ratio) else x.A(h) @ x.v(x.n, h)


@reference
def skipv1_pooling(x: Layer, h: int) -> Tensor:
    """Appendix C.4: the mean of the first and the second half of layer 1's heads."""
    half = x.heads // 2
    return x.A(h) @ ((x.v(1, h - half) + x.v(1, h)) / 2 if skips(x, h) else x.v(x.n, h))


@reference
def skipv1_dynamic(x: Layer, h: int) -> Tensor:
    """Appendix C.4: layer i injects layer 1's head i, and from there on in a rotating manner."""
    wheel = list(range(1, x.heads + 1))
    turn = (x.n - 1) % x.heads
    wheel = wheel[turn:] + wheel[:turn]
    return x.A(h) @ (x.v(1, wheel[h - (x.heads - x.heads // 2) - 1]) if skips(x, h) else x.v(x.n, h))


@reference
def skipv1_odd_even(x: Layer, h: int) -> Tensor:
    """Appendix C.4: the first-half heads for odd-indexed layers, the second-half heads for even-indexed ones."""
    taken = h if x.n % 2 == 0 else h - x.heads // 2
    return x.A(h) @ (x.v(1, taken) if skips(x, h) else x.v(x.n, h))


@reference
def skipv1_resformer(x: Layer, h: int) -> Tensor:
    """Appendix C.4: besides, layer 1's first-half heads are added to the first-half heads of later layers."""
    if x.n == 1:
        return x.A(h) @ x.v(1, h)
    return x.A(h) @ (x.v(1, h) if skips(x, h) else x.v(x.n, h) + x.v(1, h))


@reference
def skipkv1(x: Layer, h: int, ratio: float = 0.5) -> Tensor:
    """Appendix C.5: skip connections on both keys and values."""
    m = 1 if skips(x, h, ratio) else x.n
    return x.score(x.q(x.n, h), x.k(m, h)) @ x.v(m, h)


@reference
def skipv1_yoco(x: Layer, h: int, ratio: float = 0.5) -> Tensor:
    """Appendix C.5: the last L/2 layers attend by K_{L/2}."""
    A = x.score(x.q(x.n, h), x.k(min(x.n, middle(x)), h))
    return A @ (x.v(1, h) if skips(x, h, ratio) else x.v(x.n, h))


# --- Dynamic Value Attention, pair by pair --------------------------------------------------------------------------


def revised(x: Layer, h: int, v: Tensor) -> Tensor:
    """Eqns. 6 to 8: r_ij = q^R_i * k^R_j, and v_j + r_ij in the place of v_j."""
    q, k = x.project("query_gate", x.n, h), x.project("key_gate", x.n, h)
    r = q[..., :, None, :] * k[..., None, :, :]
    return torch.einsum("bgij,bgijd->bgid", x.A(h), v[..., None, :, :] + r)


def initial(x: Layer, h: int, v: Tensor) -> Tensor:
    """Eqns. 3 to 5: r_ij = (q^R_i)^T k^R_j, a matrix, and the row v_j r_ij in the place of v_j."""
    q, k = x.project("query_gate", x.n, h), x.project("key_gate", x.n, h)
    r = torch.einsum("bgid,bxje->bgijde", q, k)
    return torch.einsum("bgij,bgije->bgie", x.A(h), torch.einsum("bxjd,bgijde->bgije", v, r))


@reference(feed_forward=False, output=False)
def dva(x: Layer, h: int) -> Tensor:
    """Section 3.2; no feed-forward block (section 2.3), no output projection (Table 1)."""
    return revised(x, h, x.v(x.n, h))


@reference(feed_forward=False, output=False)
def dva_gate(x: Layer, h: int) -> Tensor:
    """Section 3.2 with k^R_j = v_j."""
    q, v = x.project("query_gate", x.n, h), x.v(x.n, h)
    return torch.einsum("bgij,bgijd->bgid", x.A(h), v[..., None, :, :] + q[..., :, None, :] * v[..., None, :, :])


@reference(feed_forward=False, output=False)
def dva_initial(x: Layer, h: int) -> Tensor:
    """Section 3.1, as far as `dva`."""
    return initial(x, h, x.v(x.n, h))


@reference
def dva_attention(x: Layer, h: int) -> Tensor:
    """Section 3.2."""
    return revised(x, h, x.v(x.n, h))


@reference
def dva_initial_attention(x: Layer, h: int) -> Tensor:
    """Section 3.1."""
    return initial(x, h, x.v(x.n, h))


for name, rule in (DEPTHS | STREAMS).items():
    depth_reference(rule, name=name)

for module in (Path(__file__).parents[2] / "theory").glob("*/references.py"):
    import_module(f"tests.theory.{module.parent.name}.references")
