"""A second decoder, written from formulas: head by head, pair by pair, plain tensors.

It shares nothing with `icl.models` but the names of the weights, and nothing with a plan: a `Reference` holds one
variant as its paper writes it, registered by `reference` or `depth_reference`.  Layers and heads are counted from 1, as
in the papers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias, TypeVar, overload

import torch
from torch import Tensor

from theory.errors import BadInput
from theory.plans.architecture import Architecture, Patches, Tokens, Vectors

Weights: TypeAlias = Mapping[str, Tensor]
Sublayer: TypeAlias = Callable[..., Tensor]  # of its input, or an attention of three, for queries, keys and values


@dataclass(frozen=True)
class Layer:
    """Layer `n` of `layers`, with `heads` key/value heads, as a formula sees it.

    Attributes:
        n: The layer's number, from 1.
        layers: The number of layers.
        heads: The number of key/value heads.
        project: (kind, m, h) -> what layer m's projection of that kind makes for head h, (batch, queries per head, T,
            width).
        score: (queries, keys) -> the attention matrix, (batch, queries per head, T, S).
        learned: The learned weight of that name, a tensor.
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
        """Return the rows of layer m's table for the tokens."""
        return self.project("table", m, h)

    def gate(self, m: int, h: int, channels: int) -> Tensor:
        """Return the sigmoid of layer m's map of the first numbers of its input to one per token, for head h."""
        return self.project(f"gate:{channels}", m, h)

    def weight(self, name: str, place: int) -> Tensor:
        """Return one of the numbers, from 0, of a learned weight; in a rehearsal there is only one."""
        numbers = self.learned(name).reshape(-1)
        return numbers[place] if len(numbers) > 1 else numbers[0]

    def A(self, h: int) -> Tensor:
        """Return the vanilla attention matrix of this layer: ResFormer, Eqn. 1."""
        return self.score(self.q(self.n, h), self.k(self.n, h))


Formula: TypeAlias = Callable[[Layer, int], Tensor | None]
Lists: TypeAlias = list[tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class Stack:
    """The parts that a depth rule connects, as a formula sees them.

    Attributes:
        embedding: (batch, T, d_model).
        layers: The sublayers of every layer: its attention, then its feed-forward.
        w: The decoder's weights by name; those of its depth rule begin with "depth.".
        eps: The norms' eps.
    """

    embedding: Tensor
    layers: list[list[Sublayer]]
    w: Weights
    eps: float

    @property
    def sublayers(self) -> list[Sublayer]:
        """Return the sublayers of layer 1, of layer 2, and so on."""
        return [f for layer in self.layers for f in layer]


def residual(stack: Stack) -> Tensor:
    """Return x after x <- x + f(x) for every sublayer: the residual stream of a pre-norm Transformer."""
    x = stack.embedding
    for f in stack.sublayers:
        x = x + f(x)
    return x


@dataclass(frozen=True)
class Reference:
    """A variant as its paper writes it.

    Attributes:
        head: (layer, h) -> the output of head h, or None for a head that is not there.
        latent: Under multi-head latent attention: layer -> the (latent, rotary key) of every list that is attended
            over.
        depth: The stack -> what the head reads, (batch, T, d_model).
        feed_forward: False for a variant without feed-forwards.
        output: False for a variant whose attention has no output projection.
    """

    head: Formula
    latent: Callable[[Layer], Lists] | None = None
    depth: Callable[[Stack], Tensor] = residual
    feed_forward: bool = True
    output: bool = True

    def lists(self, layer: Layer) -> Lists:
        """Return what a layer of latent attention attends over.  Raises BadInput for a variant without `latent`."""
        if self.latent is None:
            raise BadInput("the reference says nothing of latent attention")
        return self.latent(layer)


REFERENCES: dict[str, Callable[..., Reference]] = {}
Rule = TypeVar("Rule", bound=Callable[..., Tensor | None])
OfStack = TypeVar("OfStack", bound=Callable[..., Tensor])


@overload
def reference(formula: Rule) -> Rule: ...
@overload
def reference(
    *, latent: Callable[..., Lists] | None = None, feed_forward: bool = True, output: bool = True
) -> Callable[[Rule], Rule]: ...
def reference(
    formula: Callable[..., Any] | None = None,
    *,
    latent: Callable[..., Lists] | None = None,
    feed_forward: bool = True,
    output: bool = True,
) -> Any:
    """Register what one head of a variant computes, under the function's name with `-` for `_`.

    The function takes a `Layer` and the head's number; its other arguments are the variant's options.  `REFERENCES` has
    a function from options to a `Reference`.  With or without arguments, which are those of `Reference`.
    """

    def register(formula: Callable[..., Any]) -> Callable[..., Any]:
        def make(**options: Any) -> Reference:
            head, lists = partial(formula, **options), latent and partial(latent, **options)
            return Reference(head, lists, feed_forward=feed_forward, output=output)

        REFERENCES[_name(formula)] = make
        return formula

    return register(formula) if formula else register


@overload
def depth_reference(rule: OfStack, *, name: str = "") -> OfStack: ...
@overload
def depth_reference(*, name: str) -> Callable[[OfStack], OfStack]: ...
def depth_reference(rule: Callable[..., Tensor] | None = None, *, name: str = "") -> Any:
    """Register how a variant connects sublayers, under the function's name or another; its attention is vanilla's.

    The function takes a `Stack`; its other arguments are the variant's options.
    """

    def register(rule: Callable[..., Tensor]) -> Callable[..., Tensor]:
        def make(**options: Any) -> Reference:
            return Reference(vanilla, depth=partial(rule, **options))

        REFERENCES[name or _name(rule)] = make
        return rule

    return register(rule) if rule else register


def _name(function: Callable[..., Any]) -> str:
    """Return the name of the variant that a function of this name is."""
    return function.__name__.replace("_", "-")


@reference
def vanilla(x: Layer, h: int) -> Tensor:
    """Return A_n V_n: ResFormer, Eqn. 1."""
    return x.A(h) @ x.v(x.n, h)


def rms(x: Tensor, eps: float) -> Tensor:
    """Return Zhang and Sennrich's RMSNorm without its gain."""
    return x / (x.square().mean(-1, keepdim=True) + eps).sqrt()


def norm(w: Weights, name: str, config: Architecture, x: Tensor) -> Tensor:
    if config.norm == "none":
        return x
    if config.norm == "layer":
        x = x - x.mean(-1, keepdim=True)
    x = rms(x, config.norm_eps) * w[f"{name}.weight"]
    return x + w[f"{name}.bias"] if f"{name}.bias" in w else x


def linear(w: Weights, name: str, x: Tensor) -> Tensor:
    x = torch.einsum("...i,oi->...o", x, w[f"{name}.weight"])
    return x + w[f"{name}.bias"] if f"{name}.bias" in w else x


def rotate(x: Tensor, theta: float) -> Tensor:
    """Return RoPE's turn: the pair (i, i + width/2) of token t, a complex number, times exp(1j t theta^(-2i/width))."""
    half = x.shape[-1] // 2
    speed = theta ** (-2 * torch.arange(half, dtype=x.dtype) / x.shape[-1])
    angle = torch.arange(x.shape[-2], dtype=x.dtype)[:, None] * speed
    turned = torch.complex(x[..., :half], x[..., half:]) * torch.polar(torch.ones_like(angle), angle)
    return torch.cat([turned.real, turned.imag], -1)


def visible(mask: str, length: int) -> Tensor:
    """Return whether token i sees token j, (T, T)."""
    i, j = torch.arange(length)[:, None], torch.arange(length)[None, :]
    return {"causal": j <= i, "none": (j >= 0) & (i >= 0), "context": (j < length - 1) & (i >= 0)}[mask]


def score(config: Architecture, n: int, queries: Tensor, keys: Tensor) -> Tensor:
    """Return softmax(Q K^T / sqrt(d)) over what is visible, ResFormer's Eqn. 1; or Q K^T, in SkipV1Former's toy.

    A layer with a window of w tokens sees those from w - 1 before on.
    """
    products = torch.einsum("...id,...jd->...ij", queries, keys)
    segments = keys.shape[-2] // queries.shape[-2]
    seen = visible(config.mask, queries.shape[-2])
    windows = config.windows or (config.window,)
    if size := windows[(n - 1) % len(windows)]:
        seen = seen & (torch.arange(len(seen))[:, None] - torch.arange(len(seen)) < size)
    mask = seen.repeat(1, segments)
    if config.score == "linear":
        return products * mask
    products = products / math.sqrt(queries.shape[-1])
    shares = (products - products.amax(-1, keepdim=True).detach()).exp() * mask
    return shares / shares.sum(-1, keepdim=True)


def feed_forward(w: Weights, name: str, config: Architecture, x: Tensor) -> Tensor:
    """Return Shazeer's SwiGLU, or the two-layer perceptron of GPT-2 with the exact GELU."""
    if not config.parallel:
        x = norm(w, f"{name}.norm", config, x)
    up = linear(w, f"{name}.up", x)
    if config.gated:
        gate = linear(w, f"{name}.gate", x)
        up = gate / (1 + (-gate).exp()) * up
    else:
        up = up * (1 + torch.erf(up / math.sqrt(2))) / 2
    return linear(w, f"{name}.down", up)


def reads(reference: Reference, config: Architecture) -> dict[tuple[str, int], list[int]]:
    """Return the heads that the formulas read of each projection, by kind and layer: nothing else is built."""
    heads: set[tuple[str, int, int]] = set()

    def project(kind: str, m: int, h: int) -> Tensor:
        heads.add((kind, m, h))
        return torch.zeros(1, 1, 1, 1)

    for n in range(1, config.n_layers + 1):
        layer = Layer(
            n,
            config.n_layers,
            config.kv_heads,
            project,
            lambda queries, keys: torch.zeros(1, 1, 1, keys.shape[-2]),
            lambda name: torch.zeros(()),
        )
        if config.latent:
            reference.lists(layer)
            heads |= {("query", n, h) for h in range(1, config.n_heads + 1)}
        else:
            for h in range(1, config.kv_heads + 1):
                reference.head(layer, h)
    return {(kind, m): sorted(h for a, b, h in heads if (a, b) == (kind, m)) for kind, m, _ in heads}


Edit: TypeAlias = Callable[[str, int, int, Tensor], Tensor]


class Attentions:
    """The attention sublayers of all layers.

    Args:
        w: The decoder's weights by name.
        config: The decoder's sizes.
        reference: The variant.
        edit: (kind, m, n, y) -> what layer n sees of layer m's y, in place of y; None: y.
        tokens: What the decoder reads, which tables are indexed by.
    """

    def __init__(
        self, w: Weights, config: Architecture, reference: Reference, *, edit: Edit | None, tokens: Tensor
    ) -> None:
        self.w, self.config, self.reference, self.edit, self.tokens = w, config, reference, edit, tokens
        self.built = reads(reference, config)
        self.inputs: dict[int, dict[str, Tensor]] = {}

    def __call__(self, n: int, x: Tensor, *keys_and_values: Tensor) -> Tensor:
        name = f"layers.{n - 1}.attention"
        normed = [norm(self.w, f"{name}.norm", self.config, y) for y in (x, *(keys_and_values or (x, x)))]
        self.inputs[n] = dict(zip(("query", "key", "value"), normed, strict=True))
        heads = self.latent_heads(n) if self.config.latent else self.heads(n)
        if self.config.differential:
            heads = self.differences(n)
        if self.config.output_gate != "no":
            heads = self.gated(n, heads)
        joined = torch.cat([u.transpose(1, 2).flatten(2) for u in heads], -1)
        return linear(self.w, f"{name}.output", joined) if self.reference.output else joined

    def gated(self, n: int, heads: list[Tensor]) -> list[Tensor]:
        """Return Y sigmoid(X W), gated attention, by numbers or by query heads; X is what the projections read."""
        gates = linear(self.w, f"layers.{n - 1}.attention.output_gate", self.inputs[n]["query"])
        gates = 1 / (1 + (-gates).exp())
        parts = gates.chunk(len(heads), -1)
        return [u * g.unflatten(-1, (u.shape[1], -1)).transpose(1, 2) for u, g in zip(heads, parts, strict=True)]

    def differences(self, n: int) -> list[Tensor]:
        """Return (1 - l) RMSNorm((softmax(Q1 K1) - lambda softmax(Q2 K2)) V): Differential Transformer, section 2.1.

        A variant's formula is asked once for a head's matrix and once for its values, which it multiplies.
        """
        w, name, pairs = self.w, f"layers.{n - 1}.attention.difference", []
        for h in range(1, self.config.kv_heads + 1):
            matrices: list[Tensor] = []

            def kept(queries: Tensor, keys: Tensor, matrices: list[Tensor] = matrices) -> Tensor:
                matrices.append(score(self.config, n, queries, keys))
                return torch.eye(keys.shape[-2], dtype=keys.dtype)

            values = self.reference.head(replace(self.layer(n), score=kept), h)
            if values is None:
                raise BadInput("pairs of heads need every head")
            pairs.append((matrices[0], values[:, :1]))
        begin = 0.8 - 0.6 * math.exp(-0.3 * (n - 1))
        first, second = ((w[f"{name}.{a}_query"] @ w[f"{name}.{a}_key"]).exp() for a in ("first", "second"))
        heads: list[Tensor] = []
        for (one, left), (two, right) in zip(pairs[::2], pairs[1::2], strict=True):
            u = (one - (first - second + begin) * two) @ torch.cat([left, right], -1)
            u = (1 - begin) * rms(u, self.config.norm_eps) * w[f"{name}.norm.weight"]
            heads += u.split(self.config.width, -1)
        return heads

    def layer(self, n: int) -> Layer:
        def project(kind: str, m: int, h: int) -> Tensor:
            y = self.project(kind, m, h)
            return self.edit(kind, m, n, y) if self.edit else y

        config = self.config
        return Layer(
            n,
            config.n_layers,
            config.kv_heads,
            project,
            lambda queries, keys: score(config, n, queries, keys),
            lambda name: self.w[f"learned.w_{name}"],
        )

    def heads(self, n: int) -> list[Tensor]:
        """Return the heads; grouped queries share a key and value head, `group` at a time (SkipV1Former, B.2)."""
        heads = (self.reference.head(self.layer(n), h) for h in range(1, self.config.kv_heads + 1))
        return [u for u in heads if u is not None]

    def project(self, kind: str, m: int, h: int) -> Tensor:
        """Return a projection of a head, (batch, queries per head, T, width), rotated if it is a query or key."""
        config, built = self.config, self.built[kind, m]
        gate = kind in ("query_gate", "key_gate")
        kind, _, channels = kind.partition(":")
        name = f"layers.{m - 1}.attention." + (kind if gate else f"projections.{kind}")
        if channels:
            y = 1 / (1 + (-linear(self.w, name, self.inputs[m]["value"][..., : int(channels)])).exp())
        elif kind == "table":
            y = self.w[f"{name}.weight"][self.tokens]
        else:
            y = linear(self.w, name, self.inputs[m][kind.partition("_")[0]])
        group = config.group if kind in ("query", "query_gate") else 1
        y = y.unflatten(-1, (len(built), group, -1))[:, :, built.index(h)].transpose(1, 2)
        rotary = config.positions == "rope" and (not config.rotated or config.rotated[(m - 1) % len(config.rotated)])
        rotary = rotary and (kind == "key" or (kind == "query" and not config.latent))
        return rotate(y, config.rope_theta) if rotary else y

    def latent_heads(self, n: int) -> list[Tensor]:
        """Return latent attention's heads (SkipV1Former, B.2): K^C = W^UK C, V^C = W^UV C, K = [K^C, K^R]."""
        w, config, name = self.w, self.config, f"layers.{n - 1}.attention"
        lists = []
        for latent, rotary in self.reference.lists(self.layer(n)):
            c = rms(latent[:, 0], config.norm_eps) * w[f"{name}.latent_norm.weight"]
            keys, values = linear(w, f"{name}.key_up", c), linear(w, f"{name}.value_up", c)
            lists.append((keys.unflatten(-1, (config.n_heads, -1)), rotary, values.unflatten(-1, (config.n_heads, -1))))
        heads = []
        for h in range(1, config.n_heads + 1):
            query = self.project("query", n, h)
            content, turned = query[..., : config.width], query[..., config.width :]
            query = torch.cat([content, rotate(turned, config.rope_theta)], -1)
            key = torch.cat([torch.cat([k[:, None, :, h - 1], r], -1) for k, r, _ in lists], -2)
            value = torch.cat([v[:, None, :, h - 1] for _, _, v in lists], -2)
            heads.append(score(config, n, query, key) @ value)
        return heads


def embed(w: Weights, config: Architecture, inputs: Tensor) -> Tensor:
    """Return embedded tokens or vectors, or a class token and the patches row by row: (batch, T, d_model)."""
    match config.stem:
        case Tokens():
            x = w["stem.embedding.weight"][inputs]
        case Vectors(read_in=read_in):
            x = linear(w, "stem.read_in", inputs) if read_in else inputs
        case Patches(image=image, patch=patch):
            starts = range(0, image, patch)
            cut = [inputs[:, :, a : a + patch, b : b + patch].flatten(1) for a in starts for b in starts]
            x = linear(w, "stem.read_in", torch.stack(cut, 1))
            x = torch.cat([w["stem.class_token"].expand(x.shape[0], 1, -1), x], 1)
    return x + w["positions"][: x.shape[1]] if config.positions == "learned" else x


def read_out(w: Weights, config: Architecture, x: Tensor) -> Tensor:
    x = norm(w, "norm", config, x)
    if isinstance(config.stem, Tokens) and config.stem.tied:
        return torch.einsum("bti,oi->bto", x, w["stem.embedding.weight"])
    if isinstance(config.stem, Vectors) and not config.stem.read_in:
        return x
    return linear(w, "stem.head", x[:, 0] if isinstance(config.stem, Patches) else x)


def branch(w: Weights, name: str, config: Architecture, f: Sublayer) -> Sublayer:
    """Return what a sublayer adds: f(x), scaled as in ReZero and LayerScale, and LAuReL-LR's B A x."""

    def added(x: Tensor, *others: Tensor) -> Tensor:
        out = f(x, *others)
        if config.output_scale != "no":
            out = torch.einsum("...i,i->...i", out, w[f"{name}.scale.weight"].expand(out.shape[-1]))
        if config.residual_rank:
            inner = torch.einsum("ri,...i->...r", w[f"{name}.residual.down_map.weight"], x)
            out = out + torch.einsum("or,...r->...o", w[f"{name}.residual.up_map.weight"], inner)
        return out

    return added


def decode(
    w: Weights, config: Architecture, reference: Reference, inputs: Tensor, *, edit: Edit | None = None
) -> Tensor:
    """Return what the second decoder answers.

    Args:
        w: A decoder's weights by name.
        config: Its sizes.
        reference: The variant.
        inputs: Tokens (batch, T), vectors (batch, T, width), or images.
        edit: As of `Attentions`.
    """
    attend = Attentions(w, config, reference, edit=edit, tokens=inputs)

    def layer(n: int) -> list[Sublayer]:
        name, has_feed_forward = f"layers.{n - 1}", config.d_ff and reference.feed_forward
        if config.parallel and has_feed_forward:

            def both(x: Tensor) -> Tensor:
                normed = norm(w, f"{name}.attention.norm", config, x)
                return attend(n, x) + feed_forward(w, f"{name}.feed_forward", config, normed)

            return [branch(w, f"{name}.attention", config, both)]
        sublayers: list[Sublayer] = [branch(w, f"{name}.attention", config, lambda *x: attend(n, *x))]
        if has_feed_forward:
            inner = f"{name}.feed_forward"
            sublayers.append(branch(w, inner, config, lambda x: feed_forward(w, inner, config, x)))
        return sublayers

    layers = [layer(n) for n in range(1, config.n_layers + 1)]
    return read_out(w, config, reference.depth(Stack(embed(w, config, inputs), layers, w, config.norm_eps)))
