"""Costs of a model from its plan and sizes alone: parameters, cached numbers, FLOPs, memory over depth.

Nothing is built.  Every count follows from `plan.built` (which projections exist) and `plan.lifetimes` (which of their
outputs a later token attends over).  Standard library only.
"""

from __future__ import annotations

from dataclasses import dataclass

from theory.plans.architecture import Architecture, Norm, Patches, Tokens
from theory.plans.depth import reads_together, two_phases
from theory.plans.mix import KINDS, Kind
from theory.plans.plan import Plan, built, gate_channels, learned_parameters, lifetimes

__all__ = [
    "CachedNumbers",
    "Widths",
    "cache",
    "depth_memory",
    "depth_reads",
    "depth_sources",
    "flops",
    "live_heads",
    "norm_parameters",
    "parameters",
    "projections",
    "reads_together",
    "total_parameters",
    "two_phases",
]


@dataclass(frozen=True)
class Widths:
    """Output widths of what one layer's attention projects from its input; 0: not built.

    Under a latent, `key` is the decoupled rotary key and `value` the slices of the latent.
    `query_gate` and `key_gate` are the two further projections of dynamic values, `output_gate` that of a gated output.
    """

    query: int
    key: int
    value: int
    query_gate: int
    key_gate: int
    attended: int  # all heads' outputs side by side, from which the output projection reads
    output_gate: int = 0
    table: int = 0  # a row of the layer's table, which is looked up, not projected
    source_gate: int = 0  # numbers that weigh sources of heads
    source_channels: int = 0  # of the input, from which these are made

    @property
    def reads_input(self) -> bool:
        """True if the layer projects anything, and so has a norm before it."""
        return bool(self.projected or self.output_gate or self.source_gate)

    @property
    def projected(self) -> int:
        """The width of all that is projected from the layer's input, with biases where there are such."""
        return self.query + self.key + self.value + self.query_gate + self.key_gate

    @property
    def source_gate_map(self) -> int:
        """The numbers of the map to the gates of sources."""
        return self.source_gate * self.source_channels


def projections(config: Architecture, plan: Plan) -> list[Widths]:
    """Return the output widths of the attention projections, one entry per layer."""
    plan, width = config.attending(plan), config.width
    exist = built(plan)
    query_gate, key_gate = plan.gates

    def of_layer(layer: int) -> Widths:
        heads: dict[Kind, int] = {kind: len(exist.get((kind, layer), ())) for kind in KINDS}
        query, key, value = heads["q"] * config.group * width, heads["k"] * width, heads["v"] * width
        if config.latent is not None:
            query += heads["q"] * config.latent.rope
            key, value = config.latent.rope * bool(key), heads["v"] * config.latent.width // config.n_heads
        live = len(plan.live(layer))
        gates = query_gate * live * config.group * width, key_gate * live * width
        attended = live * config.group * width
        of_output = {"no": 0, "head": live * config.group, "element": attended}[config.output_gate]
        channels = gate_channels(plan).get(layer, 0)
        return Widths(
            query,
            key,
            value,
            *gates,
            attended=attended,
            output_gate=of_output,
            table=heads["e"] * width,
            source_gate=heads["g"],
            source_channels=min(channels or config.d_model, config.d_model) * bool(heads["g"]),
        )

    return [of_layer(layer) for layer in range(1, config.n_layers + 1)]


def parameters(config: Architecture, plan: Plan) -> dict[str, int]:
    """Return the number of parameters of each part.  Their sum is that of the built model."""
    d = config.d_model
    shapes = projections(config, plan)
    attention = [p for p in shapes if p.attended]
    feed_forwards = config.n_layers * config.has_feed_forward(plan)
    copies = () if config.copy_rank is None else (0,)
    rows = d + config.qkv_bias
    normed = sum(p.reads_input or n in copies or config.parallel for n, p in enumerate(shapes))
    of_scale = {"no": 0, "number": 1, "vector": d}[config.output_scale]
    return {
        "embedding": _embedding(config),
        "positions": _positions(config, plan),
        "queries": rows * sum(p.query for p in shapes),
        "keys": rows * sum(p.key for p in shapes),
        "values": rows * sum(p.value for p in shapes),
        "tables": _vocabulary(config) * sum(p.table for p in shapes),
        "latent": _latent(config) * len(attention),
        "dynamic": rows * sum(p.query_gate + p.key_gate for p in shapes),
        "output": sum((p.attended + config.bias) * d for p in attention) * plan.output_projection,
        "copy": 0 if config.copy_rank is None else d * d,
        "gates": sum(d * p.output_gate + p.source_gate_map for p in shapes),
        "differences": pair_parameters(config) * len(attention),
        "scales": of_scale * config.sublayers(plan),
        "residual_maps": 2 * config.residual_rank * d * config.sublayers(plan),
        "mixing": sum(p.size(config.width) for p in learned_parameters(config.attending(plan)).values()),
        "feed_forward": _feed_forward(config) * feed_forwards,
        "norms": norm_parameters(config, config.head_norm)
        + norm_parameters(config, config.sublayer_norm) * (feed_forwards * (not config.parallel) + normed)
        + config.qk_norm * config.width * sum(bool(p.query) + bool(p.key) for p in shapes),
        "depth": plan.depth.parameters(d, config.n_layers, config.sublayers(plan) // config.n_layers),
        "head": _head(config),
    }


def total_parameters(config: Architecture, plan: Plan) -> int:
    return sum(parameters(config, plan).values())


def _positions(config: Architecture, plan: Plan) -> int:
    match config.positions:
        case "learned":
            return config.context * config.d_model
        case "bias":
            return live_heads(config, plan) * config.context**2
    return 0


def pair_parameters(config: Architecture) -> int:
    """Return the parameters of a layer whose heads go in pairs: four vectors of a head's width, and a norm's gain."""
    return 6 * config.width * config.differential


def live_heads(config: Architecture, plan: Plan) -> int:
    """Return the number of query heads that attend, in all layers together."""
    attending = config.attending(plan)
    return config.group * sum(len(attending.live(layer)) for layer in range(1, config.n_layers + 1))


def _embedding(config: Architecture) -> int:
    match config.stem:
        case Tokens(vocab):
            return vocab * config.d_model
        case Patches(patch=patch, channels=channels):
            return (patch * patch * channels + 1 + 1) * config.d_model  # weights, bias, class token
        case stem:
            return stem.width * config.d_model if stem.read_in else 0


def _vocabulary(config: Architecture) -> int:
    return config.stem.vocab if isinstance(config.stem, Tokens) else 0


def _head(config: Architecture) -> int:
    match config.stem:
        case Tokens(vocab, tied):
            return 0 if tied else vocab * config.d_model
        case Patches(classes=classes):
            return (config.d_model + 1) * classes
        case stem:
            return stem.width * config.d_model if stem.read_in else 0


def norm_parameters(config: Architecture, kind: Norm) -> int:
    """Return the parameters of one norm over the model's width."""
    return {"rms": 1, "layer": 1 + config.bias, "none": 0}[kind] * config.d_model


def _feed_forward(config: Architecture) -> int:
    d, inner, bias = config.d_model, config.d_ff, config.bias
    return (1 + config.gated) * (d + bias) * inner + (inner + bias) * d


def _latent(config: Architecture) -> int:
    """Return the parameters of the latent's norm and of the two projections from the latent."""
    if config.latent is None:
        return 0
    norm = config.latent.width if config.norm != "none" else 0
    return norm + 2 * config.latent.width * config.n_heads * config.width


def depth_reads(config: Architecture, plan: Plan) -> list[list[range]]:
    """Return the sources that each sublayer, and the final read, weighs against each other.

    A source is a sum of neighbouring outputs, given as the range of their numbers: output 0 is the embedding, output i
    that of sublayer i.  DenseFormer's sources are the layers' results.  The outputs that a layer adds stand for its
    result here, and within a layer the outputs since its start are the last source.

    Returns:
        One list of sources per sublayer, and one for the final read.

    Raises:
        BadInput: of a rule whose reads are no sums of sources, but of streams.
    """
    last = config.sublayers(plan)
    return [plan.depth.sources(after, last // config.n_layers) for after in range(last + 1)]


def depth_sources(config: Architecture, plan: Plan) -> tuple[int, ...]:
    """Return how many sources each sublayer, and the final read, weighs: 1 where it reads an existing stream."""
    if plan.depth.terms is not None:
        return plan.depth.terms
    counts = [len(sources) for sources in depth_reads(config, plan)]
    if plan.depth.once_a_layer:
        per_layer = config.sublayers(plan) // config.n_layers
        counts = [1 if after % per_layer else count for after, count in enumerate(counts)]
    return tuple(counts)


def depth_memory(config: Architecture, plan: Plan) -> int:
    """Return the numbers per token that the depth rule keeps alive at most.

    They are d for a residual stream, O(Ld) for Full attention over depth and O(Nd) for its Block form.
    """
    return plan.depth.alive(depth_sources(config, plan)) * config.d_model


@dataclass(frozen=True)
class CachedNumbers:
    """Cached numbers per token, by the layer that makes them.

    indices     of the token itself, for tables whose rows are looked up again: 1 or 0
    first       numbers of a sequence's first token that are kept besides, by layer; () for none
    """

    keys: tuple[int, ...]
    values: tuple[int, ...]
    indices: int = 0
    first: tuple[int, ...] = ()

    @property
    def total(self) -> int:
        """The numbers of all layers, without indices and what is kept of the first token alone."""
        return sum(self.keys) + sum(self.values)

    def bytes(self, number: int) -> int:
        """Return the bytes of a token, where a number of keys and values has `number` bytes."""
        return number * self.total + INDEX * self.indices


INDEX = 4  # bytes of a token's index


def cache(config: Architecture, plan: Plan) -> CachedNumbers:
    """Return the numbers that decoding caches per token.  Bytes are these numbers times the bytes of the dtype.

    Under a latent, its slices count as values and the decoupled rotary keys as keys.  Dynamic values cache their key
    gates beside the values, and so do gates of sources, a number per head.  Of tables the token's index is cached, and
    no row.  Of values that are read at a sequence's first token alone, that token's are cached.
    """
    attending = config.attending(plan)
    attended = [life.source for life in lifetimes(attending) if life.cached]

    def heads(kind: Kind, layer: int) -> int:
        return sum(source.kind == kind and source.layer == layer for source in attended)

    layers = range(1, config.n_layers + 1)
    if config.latent is not None:
        piece, rope = config.latent.width // config.n_heads, config.latent.rope
        keys = tuple(rope * bool(heads("k", n)) for n in layers)
        return CachedNumbers(keys, tuple(piece * heads("v", n) for n in layers))
    gates = [len(attending.live(n)) * plan.gates[1] for n in layers]
    keys = tuple(config.width * heads("k", n) for n in layers)
    values = tuple(config.width * (heads("v", n) + gates[n - 1]) + heads("g", n) for n in layers)
    of_first = [life.source.layer for life in lifetimes(attending) if life.first]
    return CachedNumbers(
        keys,
        values,
        indices=int(any(source.kind == "e" for source in attended)),
        first=tuple(config.width * of_first.count(n) for n in layers) if of_first else (),
    )


def flops(config: Architecture, plan: Plan, context: int) -> int:
    """Return the forward FLOPs of one token; a product and a sum are two.

    Counted are the products with weight matrices, attention, and reads over depth.  Not counted are norms, activations,
    rotations, gating and scaling, differences of heads, biases (those of scores included), looking up rows of tables,
    the mixing of values, an image's class scores and the toy's assumed copy.  The mean over a causal sequence of T
    tokens is the value at (T + 1) / 2, or smaller with a window. A backward pass costs twice as much again.

    Args:
        config: The architecture.
        plan: The variant.
        context: Tokens to attend over, the token itself included; a window keeps the last of them.
    """
    attending = config.attending(plan)
    layers = range(1, config.n_layers + 1)
    seen = {n: min(context, config.window_of(n) or context) for n in layers}
    over_time = sum(seen[n] * _attention_flops(config, attending, n) for n in layers)
    return 2 * _products(config, plan) + over_time + plan.depth.flops(config.d_model, depth_sources(config, plan))


def _products(config: Architecture, plan: Plan) -> int:
    """Return the multiplications of one token with weight matrices."""
    d, attending = config.d_model, config.attending(plan)
    count = 0
    for n, p in enumerate(projections(config, plan), 1):
        count += d * (p.projected + p.output_gate + p.attended * plan.output_projection) + p.source_gate_map
        if config.latent is not None:
            lists = len(attending.head(n, 1).values)
            count += lists * 2 * config.latent.width * config.n_heads * config.width
    if config.has_feed_forward(plan):
        count += config.n_layers * (2 + config.gated) * d * config.d_ff
    count += config.sublayers(plan) * 2 * config.residual_rank * d
    match config.stem:
        case Tokens(vocab):
            return count + vocab * d
        case Patches(patch=patch, channels=channels):
            return count + patch * patch * channels * d
        case stem:
            return count + 2 * stem.width * d * stem.read_in


def _attention_flops(config: Architecture, plan: Plan, layer: int) -> int:
    """Count a score and a weighted value, or under pairs of heads two, per attended token, head and segment."""
    rope = config.latent.rope if config.latent else 0
    per_head = 2 * (config.width + rope) + 2 * config.width * (1 + (plan.gates[1] or config.differential))
    return config.group * per_head * sum(len(plan.head(layer, h).values) for h in plan.live(layer))
