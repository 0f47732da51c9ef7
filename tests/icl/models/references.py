"""A second decoder, written from the papers' formulas: head by head, pair by pair, plain tensors.

It shares nothing with `icl.models` but the names of the weights, and nothing with a plan: a `Reference` holds one
variant as its paper writes it (tests/icl/models/reference_variants.py, tests/icl/models/reference_depths.py).  Layers
and heads are counted from 1, as in the papers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from theory.plans.architecture import Architecture, Patches, Tokens, Vectors

Weights = Mapping[str, Tensor]
Sublayer = Callable[..., Tensor]  # of its input, or an attention of three, for queries, keys and values


@dataclass(frozen=True)
class Layer:
    """Layer `n` of `layers`, with `heads` key/value heads, as a formula sees it.

    project(kind, m, h) is what layer m's projection of that kind makes for head h, (batch, queries a head, T, width);
    score(queries, keys) is the attention matrix, (batch, queries a head, T, S).
    """

    n: int
    layers: int
    heads: int
    project: Callable[[str, int, int], Tensor]
    score: Callable[[Tensor, Tensor], Tensor]
    learned: Callable[[str], Tensor]

    def q(self, m: int, h: int) -> Tensor:
        return self.project("query", m, h)

    def k(self, m: int, h: int) -> Tensor:
        return self.project("key", m, h)

    def v(self, m: int, h: int) -> Tensor:
        return self.project("value", m, h)

    def e(self, m: int, h: int) -> Tensor:
        """The rows of layer m's table for the tokens."""
        return self.project("table", m, h)

    def gate(self, m: int, h: int, channels: int) -> Tensor:
        """The sigmoid of layer m's map of the first numbers of its input to one per token, for head h."""
        return self.project(f"gate:{channels}", m, h)

    def weight(self, name: str, place: int) -> Tensor:
        """One of the numbers, from 0, of a learned parameter; in a rehearsal there is only one."""
        numbers = self.learned(name).reshape(-1)
        return numbers[place] if len(numbers) > 1 else numbers[0]

    def A(self, h: int) -> Tensor:
        """The vanilla attention matrix of this layer: ResFormer, Eqn. 1."""
        return self.score(self.q(self.n, h), self.k(self.n, h))


Formula = Callable[[Layer, int], Tensor | None]


@dataclass(frozen=True)
class Stack:
    """What a depth rule has to connect: the embedding, and every layer's attention and then feed-forward."""

    embedding: Tensor
    layers: list[list[Sublayer]]
    w: Weights
    eps: float

    @property
    def sublayers(self) -> list[Sublayer]:
        return [f for layer in self.layers for f in layer]


def residual(stack: Stack) -> Tensor:
    """x <- x + f(x): the residual stream of a pre-norm Transformer."""
    x = stack.embedding
    for f in stack.sublayers:
        x = x + f(x)
    return x


@dataclass(frozen=True)
class Reference:
    """A variant as its paper writes it.

    head     (layer, h) -> the output of head h, or None for a head that is not there
    latent   under multi-head latent attention: layer -> the (latent, rotary key) of every list that is attended over
    """

    head: Formula
    latent: Callable[[Layer], list[tuple[Tensor, Tensor]]] | None = None
    depth: Callable[[Stack], Tensor] = residual
    feed_forward: bool = True
    output: bool = True


def rms(x: Tensor, eps: float) -> Tensor:
    """Zhang and Sennrich's RMSNorm without its gain."""
    return x / (x.square().mean(-1, keepdim=True) + eps).sqrt()


def norm(w: Weights, name: str, made: Architecture, x: Tensor) -> Tensor:
    if made.norm == "none":
        return x
    if made.norm == "layer":
        x = x - x.mean(-1, keepdim=True)
    x = rms(x, made.norm_eps) * w[f"{name}.weight"]
    return x + w[f"{name}.bias"] if f"{name}.bias" in w else x


def linear(w: Weights, name: str, x: Tensor) -> Tensor:
    x = torch.einsum("...i,oi->...o", x, w[f"{name}.weight"])
    return x + w[f"{name}.bias"] if f"{name}.bias" in w else x


def rotate(x: Tensor, theta: float) -> Tensor:
    """RoPE: the pair (i, i + width/2) of token t, as a complex number, times exp(1j t theta^(-2i/width))."""
    half = x.shape[-1] // 2
    speed = theta ** (-2 * torch.arange(half, dtype=x.dtype) / x.shape[-1])
    angle = torch.arange(x.shape[-2], dtype=x.dtype)[:, None] * speed
    turned = torch.complex(x[..., :half], x[..., half:]) * torch.polar(torch.ones_like(angle), angle)
    return torch.cat([turned.real, turned.imag], -1)


def visible(mask: str, length: int) -> Tensor:
    """(T, T): whether token i sees token j."""
    i, j = torch.arange(length)[:, None], torch.arange(length)[None, :]
    return {"causal": j <= i, "none": (j >= 0) & (i >= 0), "context": (j < length - 1) & (i >= 0)}[mask]


def score(made: Architecture, n: int, queries: Tensor, keys: Tensor) -> Tensor:
    """ResFormer, Eqn. 1: softmax(Q K^T / sqrt(d)) over what is visible; or Q K^T, in SkipV1Former's linear toy.

    A layer with a window of w tokens sees those from w - 1 before on.
    """
    products = torch.einsum("...id,...jd->...ij", queries, keys)
    segments = keys.shape[-2] // queries.shape[-2]
    seen = visible(made.mask, queries.shape[-2])
    windows = made.windows or (made.window,)
    if size := windows[(n - 1) % len(windows)]:
        seen = seen & (torch.arange(len(seen))[:, None] - torch.arange(len(seen)) < size)
    mask = seen.repeat(1, segments)
    if made.score == "linear":
        return products * mask
    products = products / math.sqrt(queries.shape[-1])
    shares = (products - products.amax(-1, keepdim=True).detach()).exp() * mask
    return shares / shares.sum(-1, keepdim=True)


def feed_forward(w: Weights, name: str, made: Architecture, x: Tensor) -> Tensor:
    """Shazeer's SwiGLU, or the two-layer perceptron of GPT-2 with the exact GELU."""
    if not made.parallel:
        x = norm(w, f"{name}.norm", made, x)
    up = linear(w, f"{name}.up", x)
    if made.gated:
        gate = linear(w, f"{name}.gate", x)
        up = gate / (1 + (-gate).exp()) * up
    else:
        up = up * (1 + torch.erf(up / math.sqrt(2))) / 2
    return linear(w, f"{name}.down", up)


def reads(reference: Reference, made: Architecture) -> dict[tuple[str, int], list[int]]:
    """The heads that the formulas ask of each projection, by kind and layer: nothing else is built."""
    found: set[tuple[str, int, int]] = set()

    def project(kind: str, m: int, h: int) -> Tensor:
        found.add((kind, m, h))
        return torch.zeros(1, 1, 1, 1)

    for n in range(1, made.n_layers + 1):
        layer = Layer(
            n,
            made.n_layers,
            made.kv_heads,
            project,
            lambda queries, keys: torch.zeros(1, 1, 1, keys.shape[-2]),
            lambda name: torch.zeros(()),
        )
        if made.latent:
            reference.latent(layer)
            found |= {("query", n, h) for h in range(1, made.n_heads + 1)}
        else:
            for h in range(1, made.kv_heads + 1):
                reference.head(layer, h)
    return {(kind, m): sorted(h for a, b, h in found if (a, b) == (kind, m)) for kind, m, _ in found}


Edit = Callable[[str, int, int, Tensor], Tensor]


class Attentions:
    """The attention sublayers of all layers.  `edit(kind, m, n, y)` may change what layer n sees of layer m."""

    def __init__(self, w: Weights, made: Architecture, reference: Reference, edit: Edit | None, tokens: Tensor) -> None:
        self.w, self.made, self.reference, self.edit, self.tokens = w, made, reference, edit, tokens
        self.built = reads(reference, made)
        self.inputs: dict[int, dict[str, Tensor]] = {}

    def __call__(self, n: int, x: Tensor, *keys_and_values: Tensor) -> Tensor:
        name = f"layers.{n - 1}.attention"
        normed = [norm(self.w, f"{name}.norm", self.made, y) for y in (x, *(keys_and_values or (x, x)))]
        self.inputs[n] = dict(zip(("query", "key", "value"), normed, strict=True))
        heads = self.latent_heads(n) if self.made.latent else self.heads(n)
        if self.made.differential:
            heads = self.differences(n)
        if self.made.output_gate != "no":
            heads = self.gated(n, heads)
        joined = torch.cat([u.transpose(1, 2).flatten(2) for u in heads], -1)
        return linear(self.w, f"{name}.output", joined) if self.reference.output else joined

    def gated(self, n: int, heads: list[Tensor]) -> list[Tensor]:
        """Gated attention: Y sigmoid(X W), by numbers or by query heads, X what the layer's projections read."""
        gates = linear(self.w, f"layers.{n - 1}.attention.output_gate", self.inputs[n]["query"])
        gates = 1 / (1 + (-gates).exp())
        parts = gates.chunk(len(heads), -1)
        return [u * g.unflatten(-1, (u.shape[1], -1)).transpose(1, 2) for u, g in zip(heads, parts, strict=True)]

    def differences(self, n: int) -> list[Tensor]:
        """Differential Transformer, 2.1: (1 - l) RMSNorm((softmax(Q1 K1) - lambda softmax(Q2 K2)) V), l by the layer.

        A variant's formula is asked once for a head's matrix and once for its values, which it multiplies.
        """
        w, name, pairs = self.w, f"layers.{n - 1}.attention.difference", []
        for h in range(1, self.made.kv_heads + 1):
            matrices: list[Tensor] = []

            def kept(queries: Tensor, keys: Tensor, matrices: list[Tensor] = matrices) -> Tensor:
                matrices.append(score(self.made, n, queries, keys))
                return torch.eye(keys.shape[-2], dtype=keys.dtype)

            values = self.reference.head(replace(self.layer(n), score=kept), h)
            pairs.append((matrices[0], values[:, :1]))
        begin = 0.8 - 0.6 * math.exp(-0.3 * (n - 1))
        products = [w[f"{name}.{a}_query"] @ w[f"{name}.{a}_key"] for a in ("first", "second")]
        weight = math.e ** products[0] - math.e ** products[1] + begin
        heads: list[list[Tensor]] = []
        for (one, left), (two, right) in zip(pairs[::2], pairs[1::2], strict=True):
            u = (one - weight * two) @ torch.cat([left, right], -1)
            u = (1 - begin) * rms(u, self.made.norm_eps) * w[f"{name}.norm.weight"]
            heads.append([*u.split(self.made.width, -1)])
        return [half for halves in heads for half in halves]

    def layer(self, n: int) -> Layer:
        def project(kind: str, m: int, h: int) -> Tensor:
            y = self.project(kind, m, h)
            return self.edit(kind, m, n, y) if self.edit else y

        made = self.made
        return Layer(
            n,
            made.n_layers,
            made.kv_heads,
            project,
            lambda queries, keys: score(made, n, queries, keys),
            lambda name: self.w[f"learned.w_{name}"],
        )

    def heads(self, n: int) -> list[Tensor]:
        """Under grouped queries, `group` query heads at a time share one key and value head (SkipV1Former, B.2)."""
        heads = (self.reference.head(self.layer(n), h) for h in range(1, self.made.kv_heads + 1))
        return [u for u in heads if u is not None]

    def project(self, kind: str, m: int, h: int) -> Tensor:
        """(batch, queries a head, T, width), rotated where it is a query or key."""
        made, built = self.made, self.built[kind, m]
        gate = kind in ("query_gate", "key_gate")
        kind, _, channels = kind.partition(":")
        name = f"layers.{m - 1}.attention." + (kind if gate else f"projections.{kind}")
        if channels:
            y = 1 / (1 + (-linear(self.w, name, self.inputs[m]["value"][..., : int(channels)])).exp())
        elif kind == "table":
            y = self.w[f"{name}.weight"][self.tokens]
        else:
            y = linear(self.w, name, self.inputs[m][kind.partition("_")[0]])
        group = made.group if kind in ("query", "query_gate") else 1
        y = y.unflatten(-1, (len(built), group, -1))[:, :, built.index(h)].transpose(1, 2)
        rotary = made.positions == "rope" and (kind == "key" or (kind == "query" and not made.latent))
        return rotate(y, made.rope_theta) if rotary else y

    def latent_heads(self, n: int) -> list[Tensor]:
        """Multi-head latent attention (SkipV1Former, B.2): K^C = W^UK C, V^C = W^UV C, K = [K^C, K^R]."""
        w, made, name = self.w, self.made, f"layers.{n - 1}.attention"
        lists = []
        for latent, rotary in self.reference.latent(self.layer(n)):
            c = rms(latent[:, 0], made.norm_eps) * w[f"{name}.latent_norm.weight"]
            keys, values = linear(w, f"{name}.key_up", c), linear(w, f"{name}.value_up", c)
            lists.append((keys.unflatten(-1, (made.n_heads, -1)), rotary, values.unflatten(-1, (made.n_heads, -1))))
        heads = []
        for h in range(1, made.n_heads + 1):
            query = self.project("query", n, h)
            content, turned = query[..., : made.width], query[..., made.width :]
            query = torch.cat([content, rotate(turned, made.rope_theta)], -1)
            key = torch.cat([torch.cat([k[:, None, :, h - 1], r], -1) for k, r, _ in lists], -2)
            value = torch.cat([v[:, None, :, h - 1] for _, _, v in lists], -2)
            heads.append(score(made, n, query, key) @ value)
        return heads


def embed(w: Weights, made: Architecture, inputs: Tensor) -> Tensor:
    """(batch, T, d_model): tokens, vectors, or a class token and the patches row by row; with learned positions."""
    match made.stem:
        case Tokens():
            x = w["stem.embedding.weight"][inputs]
        case Vectors(read_in=read_in):
            x = linear(w, "stem.read_in", inputs) if read_in else inputs
        case Patches(image=image, patch=patch):
            starts = range(0, image, patch)
            cut = [inputs[:, :, a : a + patch, b : b + patch].flatten(1) for a in starts for b in starts]
            x = linear(w, "stem.read_in", torch.stack(cut, 1))
            x = torch.cat([w["stem.class_token"].expand(x.shape[0], 1, -1), x], 1)
    return x + w["positions"][: x.shape[1]] if made.positions == "learned" else x


def read_out(w: Weights, made: Architecture, x: Tensor) -> Tensor:
    x = norm(w, "norm", made, x)
    if isinstance(made.stem, Tokens) and made.stem.tied:
        return torch.einsum("bti,oi->bto", x, w["stem.embedding.weight"])
    if isinstance(made.stem, Vectors) and not made.stem.read_in:
        return x
    return linear(w, "stem.head", x[:, 0] if isinstance(made.stem, Patches) else x)


def branch(w: Weights, name: str, made: Architecture, f: Sublayer) -> Sublayer:
    """What a sublayer adds: f(x), scaled as in ReZero and LayerScale, and LAuReL-LR's B A x."""

    def added(x: Tensor, *others: Tensor) -> Tensor:
        out = f(x, *others)
        if made.output_scale != "no":
            out = torch.einsum("...i,i->...i", out, w[f"{name}.scale.weight"].expand(out.shape[-1]))
        if made.residual_rank:
            inner = torch.einsum("ri,...i->...r", w[f"{name}.residual.down_map.weight"], x)
            out = out + torch.einsum("or,...r->...o", w[f"{name}.residual.up_map.weight"], inner)
        return out

    return added


def decode(w: Weights, made: Architecture, reference: Reference, inputs: Tensor, edit: Edit | None = None) -> Tensor:
    attend = Attentions(w, made, reference, edit, inputs)

    def layer(n: int) -> list[Sublayer]:
        name, has_feed_forward = f"layers.{n - 1}", made.d_ff and reference.feed_forward
        if made.parallel and has_feed_forward:

            def both(x: Tensor) -> Tensor:
                normed = norm(w, f"{name}.attention.norm", made, x)
                return attend(n, x) + feed_forward(w, f"{name}.feed_forward", made, normed)

            return [branch(w, f"{name}.attention", made, both)]
        sublayers: list[Sublayer] = [branch(w, f"{name}.attention", made, lambda *x: attend(n, *x))]
        if has_feed_forward:
            inner = f"{name}.feed_forward"
            sublayers.append(branch(w, inner, made, lambda x: feed_forward(w, inner, made, x)))
        return sublayers

    layers = [layer(n) for n in range(1, made.n_layers + 1)]
    return read_out(w, made, reference.depth(Stack(embed(w, made, inputs), layers, w, made.norm_eps)))
