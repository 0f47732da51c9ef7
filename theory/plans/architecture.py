"""Architectures: everything that a plan leaves open, such as widths, norms, positions, masks and the stem.

Standard library only.

A model is an `Architecture` and a `Plan`.  The same fields give LLaMA (RMSNorm, gated feed-forward, rotary positions,
no biases), GPT-2 (LayerNorm, GELU, learned positions) and the linear-attention toy.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from itertools import chain
from math import exp
from typing import Literal

from theory.errors import field_problems
from theory.plans.mix import Mix, Weight
from theory.plans.plan import ABSENT, Plan, Shape, built, learned_parameters, limits, longest_shift


@dataclass(frozen=True)
class Tokens:
    """Token indices in, a score for each of `vocab` tokens out; `tied` uses one matrix for both."""

    vocab: int
    tied: bool = False


@dataclass(frozen=True)
class Vectors:
    """Vectors of width `width` in and out, as in in-context regression.  Not `read_in`: taken as they are (d_model)."""

    width: int
    read_in: bool = True


@dataclass(frozen=True)
class Patches:
    """Square images in patches, and a class token in front, from which `classes` scores are read."""

    image: int
    patch: int
    channels: int
    classes: int

    @property
    def count(self) -> int:
        return (self.image // self.patch) ** 2


Stem = Tokens | Vectors | Patches
Norm = Literal["rms", "layer", "none"]


@dataclass(frozen=True)
class Latent:
    """Multi-head latent attention: keys and values from `width` cached numbers, and `rope` more for a rotary key."""

    width: int
    rope: int


@dataclass(frozen=True)
class Stretched:
    """Rotary positions for a longer context than they were trained for, as Llama 3.1 has them.

    Pairs that turn fewer than `low` times within `context` tokens, the former context, turn `factor` times slower;
    those that turn more than `high` times as before; between them the rate is a mean of both, weighed evenly.
    """

    factor: float
    low: float
    high: float
    context: int


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """All sizes of a model.  Raises ValueError, in one line, for sizes that no model can have.

    n_kv_heads, head_dim    0 stands for n_heads and d_model / n_heads
    d_ff                    width of the feed-forward sublayer; 0: there is none
    context                 the longest sequence, class token included
    qk_norm                 queries and keys are normed before their positions, each head by itself: RMSNorm, whose gain
                            a layer's heads share
    normed                  where `norm` stands: before every sublayer and the head (all), or before either alone; a
                            latent has its own wherever there is a `norm`
    window                  the number of tokens that a token sees, itself the last of them; 0: all before it
    windows                 the same by layer, in place of `window`: of layer 1, 2 and so on, and from the first again
    differential            key/value heads go in pairs, neighbours, with the queries of their groups: both attend over
                            both heads' values, side by side, and the second one's output is taken off the first one's,
                            weighed by a number that the layer learns (`difference_start`); then RMSNorm, whose gain a
                            layer's pairs share
    output_gate             what a head gives is multiplied by a sigmoid of a linear map of what its layer reads: one
                            number per query head (head), or one for each of its numbers (element)
    output_scale            what a sublayer puts out is multiplied by a learned number, or by a learned vector of the
                            model's width, whose numbers begin at `scale_start`
    residual_rank           a sublayer adds a linear map of this rank of what it reads, before its norm, to its output;
                            0: it does not
    parallel                a layer's attention and feed-forward read the same input through one norm, and their
                            outputs are added: one sublayer
    tanh_gelu               without a gate: GELU's approximation by a tanh, as GPT-2 was released
    rope_stretched          rotary positions at rates of their own
    rotated                 whether rotary positions turn a layer's queries and keys: in layer 1, 2 and so on, and from
                            the first again; (): in all layers.  A layer where they do not is without positions
    positions               rotary; learned vectors, added to the embedding; none; or bias: a learned number for every
                            query head and pair of positions in every layer, added to its scores (with softmax, after
                            they are divided by the square root of a head's width)
    bias                    of the norms, the output projection and the feed-forward; `qkv_bias` of the other three
    dropout                 of the embeddings, of what sublayers put out, and of a softmax's weights
    mask                    causal; none; or context: every token sees all but the last one (SkipV1Former, Eqn. 2)
    score                   softmax, or linear: plain products of queries and keys
    copy_rank               the first layer's output is replaced by SkipV1Former's Assumption 1, this rank spent on x
    """

    d_model: int
    n_layers: int
    n_heads: int
    d_ff: int
    context: int
    stem: Stem
    n_kv_heads: int = 0
    head_dim: int = 0
    norm: Norm = "rms"
    norm_eps: float = 1e-5
    gated: bool = True
    positions: Literal["rope", "learned", "none", "bias"] = "rope"
    rope_theta: float = 10_000.0
    qkv_bias: bool = False
    bias: bool = False
    dropout: float = 0.0
    mask: Literal["causal", "none", "context"] = "causal"
    score: Literal["softmax", "linear"] = "softmax"
    latent: Latent | None = None
    copy_rank: int | None = None
    tanh_gelu: bool = False
    rope_stretched: Stretched | None = None
    qk_norm: bool = False
    window: int = 0
    normed: Literal["all", "sublayers", "head"] = "all"
    windows: tuple[int, ...] = ()
    output_gate: Literal["no", "head", "element"] = "no"
    output_scale: Literal["no", "number", "vector"] = "no"
    scale_start: float = 0.0
    residual_rank: int = 0
    parallel: bool = False
    differential: bool = False
    rotated: tuple[bool, ...] = ()

    def __post_init__(self) -> None:
        parts = [self, self.stem, *(part for part in (self.latent, self.rope_stretched) if part)]
        for problem in chain(*map(field_problems, parts), self._problems()):  # types first: the others compare numbers
            raise ValueError(problem)

    @property
    def kv_heads(self) -> int:
        return self.n_kv_heads or self.n_heads

    @property
    def width(self) -> int:
        """The width of a head."""
        return self.head_dim or self.d_model // self.n_heads

    @property
    def group(self) -> int:
        """The number of query heads per key/value head."""
        return self.n_heads // self.kv_heads

    @property
    def sublayer_norm(self) -> Norm:
        """The norm before every sublayer."""
        return "none" if self.normed == "head" else self.norm

    @property
    def head_norm(self) -> Norm:
        """The norm before the head."""
        return "none" if self.normed == "sublayers" else self.norm

    def window_of(self, layer: int) -> int:
        """Return the number of tokens that a token sees in a layer, from 1; 0: all before it."""
        return self.windows[(layer - 1) % len(self.windows)] if self.windows else self.window

    def rotates(self, layer: int) -> bool:
        """Return whether rotary positions turn a layer's queries and keys, from 1."""
        return self.positions == "rope" and (not self.rotated or self.rotated[(layer - 1) % len(self.rotated)])

    @property
    def shape(self) -> Shape:
        """The shape for which plans of this architecture are made."""
        return Shape(self.n_layers, self.kv_heads)

    def difference_start(self, layer: int) -> float:
        """Return the number by which the second head of a pair is weighed at first, in a layer from 1.

        What the norm puts out is scaled by one minus this number (Differential Transformer, section 2.1).
        """
        return 0.8 - 0.6 * exp(-0.3 * (layer - 1))

    def has_feed_forward(self, plan: Plan) -> bool:
        return plan.feed_forward and self.d_ff > 0

    def sublayers(self, plan: Plan) -> int:
        """Return the number of sublayers in all layers together."""
        return self.n_layers * (1 + (self.has_feed_forward(plan) and not self.parallel))

    def attending(self, plan: Plan) -> Plan:
        """Return the plan without the first layer's heads where the assumed copy stands in for them."""
        if self.copy_rank is None:
            return plan
        return replace(plan, table=(tuple(ABSENT for _ in plan.table[0]), *plan.table[1:]))

    def _problems(self) -> Iterator[str]:
        for name in ("d_model", "n_layers", "n_heads", "context"):
            if (value := getattr(self, name)) < 1:
                yield f"{name} must be at least 1, got {value}"
        for name in ("d_ff", "n_kv_heads", "head_dim", "window", "residual_rank"):
            if (value := getattr(self, name)) < 0:
                yield f"{name} must not be negative, got {value}"
        if not self.head_dim and self.d_model % self.n_heads:
            yield f"{self.n_heads} heads do not divide the width {self.d_model}"
        if self.n_heads % self.kv_heads:
            yield f"{self.kv_heads} key/value heads do not divide {self.n_heads} heads"
        for name in ("rope_theta", "norm_eps"):
            if getattr(self, name) < 0 or (name == "rope_theta" and not self.rope_theta):
                yield f"{name} must not be negative, got {getattr(self, name)}"
        if not 0 <= self.dropout < 1:
            yield f"dropout must lie in [0, 1), got {self.dropout}"
        rotated = self.latent.rope if self.latent else self.width
        if self.positions == "rope" and rotated % 2:
            yield f"rotary positions need an even width, got {rotated}"
        if self.latent is not None:
            yield from self._problems_of_latent(self.latent)
        if self.rope_stretched is not None:
            yield from _problems_of_stretched(self, self.rope_stretched)
        if self.norm == "none" and self.normed != "all":
            yield f"without norms there are none before the {self.normed} alone: normed must be all"
        if (self.window or any(self.windows)) and self.mask != "causal":
            yield f"a window ends at the token that looks through it: the mask must be causal, got {self.mask}"
        yield from _problems_of_windows(self)
        yield from _problems_of_rotated(self)
        if self.differential and self.kv_heads % 2:
            yield f"heads go in pairs, and there are {self.kv_heads} key/value heads"
        if self.output_scale == "no" and self.scale_start:
            yield f"without a scale of outputs there is none to begin at {self.scale_start}: output_scale is no"
        if self.tanh_gelu and self.gated:
            yield "a gated feed-forward has SiLU, and no GELU to approximate"
        yield from _problems_of_stem(self)
        if self.copy_rank is not None and self.qk_norm:
            yield "the assumed copy is the toy's, whose queries and keys have no norm"
        others = {
            "windows by layer": self.windows != (),
            "a gate of its output": self.output_gate != "no",
            "a scale of its output": self.output_scale != "no",
            "a residual map": self.residual_rank > 0,
            "a feed-forward beside its attention": self.parallel,
            "pairs of heads": self.differential,
            "layers without positions": self.rotated != (),
        }
        for what in (what for what, there in others.items() if there and self.copy_rank is not None):
            yield f"the assumed copy is the toy's, which does not have {what}"
        if self.copy_rank is not None and not 0 <= self.copy_rank <= self.d_model:
            yield f"copy_rank must be from 0 to d_model = {self.d_model}, got {self.copy_rank}"

    def _problems_of_latent(self, latent: Latent) -> Iterator[str]:
        if latent.width < 1 or latent.width % self.n_heads:
            yield f"{self.n_heads} heads do not divide the latent width {latent.width}"
        if self.kv_heads != self.n_heads:
            yield "a latent serves all heads: grouped queries have no meaning beside it"
        if self.positions != "rope" or latent.rope < 1:
            yield "a latent's decoupled key carries rotary positions: positions must be rope and its rope width above 0"
        if self.qkv_bias:
            yield "projections to and from a latent have no bias"
        if self.qk_norm:
            yield "a latent has a norm of its own, and its queries and keys none"
        if self.output_gate != "no":
            yield "a gate of what heads give is built for heads with keys of their own, not for a latent"
        if self.differential:
            yield "pairs of heads have keys and values of their own, and a latent serves all heads"
        if self.copy_rank is not None:
            yield "the assumed copy is the toy's, which has no latent"


def _problems_of_windows(config: Architecture) -> Iterator[str]:
    windows = config.windows
    if not isinstance(windows, tuple) or not all(type(size) is int and size >= 0 for size in windows):
        yield f"windows by layer must be whole numbers from 0, got {windows!r}"
    elif windows and config.window:
        yield f"a window is the same in all layers, or given by layer: got {config.window} and {windows}"


def _problems_of_rotated(config: Architecture) -> Iterator[str]:
    if not isinstance(config.rotated, tuple) or not all(isinstance(one, bool) for one in config.rotated):
        yield f"what positions turn by layer must be true or false, layer by layer, got {config.rotated!r}"
    elif config.rotated and (config.positions != "rope" or config.latent is not None):
        yield "only rotary positions, without a latent, can leave layers out: rotated must be empty"


def _problems_of_stretched(config: Architecture, rates: Stretched) -> Iterator[str]:
    if config.positions != "rope":
        yield "only rotary positions can be stretched"
    if rates.context < 1 or not 0 < rates.low < rates.high or rates.factor < 1:
        yield f"stretched positions need factor >= 1, 0 < low < high and context >= 1, got {rates}"


def _problems_of_stem(config: Architecture) -> Iterator[str]:
    stem = config.stem
    if any(getattr(stem, f.name) < 1 for f in fields(stem) if f.type == "int"):
        yield f"a stem's sizes must be at least 1, got {stem}"
    elif isinstance(stem, Vectors) and not stem.read_in and stem.width != config.d_model:
        yield f"vectors of width {stem.width} need a read-in for d_model {config.d_model}"
    elif isinstance(stem, Patches) and (stem.image % stem.patch or config.context != stem.count + 1):
        yield f"{stem} does not make a context of {config.context}, class token included"


def misfits(architecture: Architecture, plan: Plan) -> list[str]:
    """Return why a plan has no meaning on an architecture, one reason per line; empty if it has one."""
    if plan.shape != architecture.shape:
        return [f"a plan for {plan.shape} does not fit {architecture.shape}"]
    return [*_misfits(architecture, plan), *(_misfits_of_latent(plan) if architecture.latent else ())]


def _misfits(config: Architecture, plan: Plan) -> Iterator[str]:
    if config.score == "linear" and plan.dynamic == "initial":
        yield "dynamic values in the initial form are defined for softmax attention"
    yield from plan.depth.misfits(config.d_model, config.n_layers, config.sublayers(plan) // config.n_layers)
    if plan.depth.reads_apart and (config.latent is not None or config.copy_rank is not None or plan.dynamic != "no"):
        yield "three inputs of an attention go with neither a latent, an assumed copy nor dynamic values"
    if plan.depth.reads_apart and (config.parallel or config.residual_rank):
        yield "three inputs of an attention go with neither a parallel layer nor a residual map"
    tables = any(kind == "e" for kind, _ in built(plan))
    if tables and not isinstance(config.stem, Tokens):
        yield "a table has a row for every token of a vocabulary, and this model reads none"
    if any(kind == "g" for kind, _ in built(plan)) and config.copy_rank is not None:
        yield "the assumed copy is the toy's, whose sources are weighed by no gates"
    if config.differential and plan.dynamic != "no":
        yield "pairs of heads go with no dynamic values"
    if config.differential and any(not head.live for row in plan.table for head in row):
        yield "pairs of heads need every head"
    if config.rotated and any(len({config.rotates(n) for n in layers}) > 1 for layers in _compared_layers(plan)):
        yield "a head compares queries and keys of several layers, and positions turn those of some alone"
    if not plan.output_projection and config.n_heads * config.width != config.d_model:
        yield "without an output projection the heads together must be as wide as the model"


def _compared_layers(plan: Plan) -> Iterator[set[int]]:
    """Yield, for every head, the layers that its query and its keys come from."""
    for head in (head for row in plan.table for head in row if head.live):
        yield {term.source.layer for mix in (head.query, *head.keys) for term in mix.terms}


def _misfits_of_latent(plan: Plan) -> Iterator[str]:
    """Yield why a plan has no meaning under a latent.

    A latent's slices stand for values; its decoupled rotary key, one for all heads, for keys.
    """
    if plan.dynamic != "no":
        yield "dynamic values are made per head: they have no meaning with a latent, which serves all heads"
    if any(kind == "e" for kind, _ in built(plan)):
        yield "the rows of a table are values of heads: they have no meaning with a latent, which serves all heads"
    if any(kind == "g" for kind, _ in built(plan)):
        yield "a gate weighs what is one head's, and a latent serves all heads"
    if limits(plan):
        yield "a latent makes keys and values alike: its values alone cannot be told apart by where they stand"
    if longest_shift(plan):
        yield "a latent makes keys and values alike: its values alone cannot be shifted"
    if any(weight.wide for weight in learned_parameters(plan).values()):
        yield "a learned weight as wide as a head has no meaning with a latent, whose slices have another width"
    for n, row in enumerate(plan.table, 1):
        if any(head.beside.terms for head in row):
            yield f"layer {n}: a term beside the attention is one head's, and a latent serves all heads"
        if any(not head.live for head in row):
            yield f"layer {n}: no head can be left out of a latent, which serves all heads"
        if any(len({t.source.layer for t in key.terms}) < len(key.terms) for head in row for key in head.keys):
            yield f"layer {n}: a latent has one rotary key a layer, which a sum of its heads' keys would count twice"
        for i, key in enumerate(row[0].keys):
            rules = {_by_layer(head.keys[i]) for head in row if head.live}
            rules |= {_by_layer(head.values[i]) for head in row if head.live} if _by_layer(key) != _own(n) else set()
            if len(rules) > 1:
                yield f"layer {n}: a latent makes keys and values alike: keys must be its own or follow all its values"


def _by_layer(mix: Mix) -> tuple[tuple[Weight, int], ...]:
    return tuple((term.weight, term.source.layer) for term in mix.terms)


def _own(layer: int) -> tuple[tuple[float, int], ...]:
    return ((1.0, layer),)
