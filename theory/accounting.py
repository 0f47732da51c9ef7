"""What a model costs, from its plan and sizes alone: parameters, cached numbers, FLOPs, memory over depth.

Nothing is built.  Every count follows from `plan.built` (which projections exist) and `plan.lifetimes` (which of their
outputs a later token attends over).  Standard library only.
"""

from __future__ import annotations

from dataclasses import dataclass

from theory.architecture import Architecture, Patches, Tokens
from theory.mix import KINDS, Kind
from theory.plan import Chain, DepthAttention, DepthAverage, Plan, built, learned, lifetimes


@dataclass(frozen=True)
class Projections:
    """Output widths of what one layer's attention projects from its input; 0: not built.

    Under a latent, `key` is the decoupled rotary key and `value` the slices of the latent.
    `query_gate` and `key_gate` are the two further projections of dynamic values.
    """

    query: int
    key: int
    value: int
    query_gate: int
    key_gate: int
    attended: int  # all heads' outputs side by side, from which the output projection reads


def projections(made: Architecture, plan: Plan) -> list[Projections]:
    """Of every layer."""
    plan, width = made.attending(plan), made.width
    exist = built(plan)
    dynamic = plan.dynamic != "no"

    def of_layer(layer: int) -> Projections:
        heads: dict[Kind, int] = {kind: len(exist.get((kind, layer), ())) for kind in KINDS}
        query, key, value = heads["q"] * made.group * width, heads["k"] * width, heads["v"] * width
        if made.latent is not None:
            query += heads["q"] * made.latent.rope
            key, value = made.latent.rope * bool(key), heads["v"] * made.latent.width // made.n_heads
        live = len(plan.live(layer))
        gates = dynamic * live * width
        return Projections(query, key, value, gates * made.group, gates, attended=live * made.group * width)

    return [of_layer(layer) for layer in range(1, made.n_layers + 1)]


def parameters(made: Architecture, plan: Plan) -> dict[str, int]:
    """Parameters by part.  Their sum is what the built model has."""
    d = made.d_model
    shapes = projections(made, plan)
    attention = [p for p in shapes if p.attended]
    rows = d + made.qkv_bias
    return {
        "embedding": _embedding(made),
        "positions": made.context * d if made.positions == "learned" else 0,
        "queries": rows * sum(p.query for p in shapes),
        "keys": rows * sum(p.key for p in shapes),
        "values": rows * sum(p.value for p in shapes),
        "latent": _latent(made) * len(attention),
        "dynamic": rows * sum(p.query_gate + p.key_gate for p in shapes),
        "output": sum((p.attended + made.bias) * d for p in attention) * plan.output_projection,
        "copy": 0 if made.copy_rank is None else d * d,
        "mixing": len(learned(plan)),
        "feed_forward": _feed_forward(made) * made.n_layers if made.has_feed_forward(plan) else 0,
        "norms": _norm(made) * (made.sublayers(plan) + 1),
        "depth": _depth(made, plan),
        "head": _head(made),
    }


def total_parameters(made: Architecture, plan: Plan) -> int:
    return sum(parameters(made, plan).values())


def _embedding(made: Architecture) -> int:
    match made.stem:
        case Tokens(vocab):
            return vocab * made.d_model
        case Patches(patch=patch, channels=channels):
            return (patch * patch * channels + 1 + 1) * made.d_model  # weights, bias, class token
        case stem:
            return stem.width * made.d_model if stem.read_in else 0


def _head(made: Architecture) -> int:
    match made.stem:
        case Tokens(vocab, tied):
            return 0 if tied else vocab * made.d_model
        case Patches(classes=classes):
            return (made.d_model + 1) * classes
        case stem:
            return stem.width * made.d_model if stem.read_in else 0


def _norm(made: Architecture) -> int:
    return {"rms": 1, "layer": 1 + made.bias, "none": 0}[made.norm] * made.d_model


def _feed_forward(made: Architecture) -> int:
    d, inner, bias = made.d_model, made.d_ff, made.bias
    return (1 + made.gated) * (d + bias) * inner + (inner + bias) * d


def _latent(made: Architecture) -> int:
    """The latent's norm, and the two projections from it."""
    if made.latent is None:
        return 0
    norm = made.latent.width if made.norm != "none" else 0
    return norm + 2 * made.latent.width * made.n_heads * made.width


def _depth(made: Architecture, plan: Plan) -> int:
    d, reads = made.d_model, made.sublayers(plan) + 1
    match plan.depth:
        case DepthAverage():
            return sum(n + 1 for n in range(1, made.n_layers + 1))
        case DepthAttention(query="static", heads=heads):
            return heads * sum(depth_sources(made, plan))
        case DepthAttention(query=query, key_norm=key_norm):
            return reads * (d + d * key_norm + d * d * (query == "input"))
    return 0


def depth_reads(made: Architecture, plan: Plan) -> list[list[range]]:
    """What every sublayer, and the last read, weighs against each other: sources, each a sum of neighbouring outputs.

    Output 0 is the embedding, output i that of sublayer i.  DenseFormer's sources are the layers' results; the outputs
    that a layer adds stand for its result here.
    """
    last = made.sublayers(plan)
    return [_sources(plan, after, last // made.n_layers) for after in range(last + 1)]


def _sources(plan: Plan, after: int, per_layer: int) -> list[range]:
    match plan.depth:
        case Chain():
            return [range(after, after + 1)]
        case DepthAverage() if after and after % per_layer == 0:
            return [range(1), *(range(i, i + per_layer) for i in range(1, after, per_layer))]
        case DepthAttention(block=block, window=window):
            sources = [range(1), *(range(i, min(i + block, after + 1)) for i in range(1, after + 1, block))]
            return sources if window is None else [sources[0], *sources[1:][-window:]]
    return [range(after + 1)]


def depth_sources(made: Architecture, plan: Plan) -> tuple[int, ...]:
    """How many sources each of `depth_reads` has."""
    return tuple(len(sources) for sources in depth_reads(made, plan))


def depth_memory(made: Architecture, plan: Plan) -> int:
    """Numbers a token that the depth rule keeps alive at most: d for a residual stream, O(Ld) Full, O(Nd) Block."""
    kept = made.n_layers + 1 if isinstance(plan.depth, DepthAverage) else max(depth_sources(made, plan))
    return kept * made.d_model


@dataclass(frozen=True)
class CachedNumbers:
    """Numbers cached for a token, by the layer that makes them."""

    keys: tuple[int, ...]
    values: tuple[int, ...]

    @property
    def total(self) -> int:
        return sum(self.keys) + sum(self.values)


def cache(made: Architecture, plan: Plan) -> CachedNumbers:
    """What decoding keeps of every token.  Bytes are these numbers times the bytes of the dtype.

    Under a latent, its slices count as values and the decoupled rotary keys as keys.  Dynamic values cache their key
    gates beside the values.
    """
    attended = [life.source for life in lifetimes(made.attending(plan)) if life.cached]

    def heads(kind: Kind, layer: int) -> int:
        return sum(source.kind == kind and source.layer == layer for source in attended)

    layers = range(1, made.n_layers + 1)
    if made.latent is not None:
        piece, rope = made.latent.width // made.n_heads, made.latent.rope
        keys = tuple(rope * bool(heads("k", n)) for n in layers)
        return CachedNumbers(keys, tuple(piece * heads("v", n) for n in layers))
    gates = made.kv_heads if plan.dynamic != "no" else 0
    keys = tuple(made.width * heads("k", n) for n in layers)
    return CachedNumbers(keys, tuple(made.width * (heads("v", n) + gates) for n in layers))


def flops(made: Architecture, plan: Plan, context: int) -> int:
    """Forward FLOPs of one token that attends over `context` tokens, itself included; a product and a sum are two.

    Matrix products, attention, mixing and depth reads; norms, activations and rotations are left out.  The mean over a
    causal sequence of T tokens is the value at (T + 1) / 2; a backward pass costs twice as much again.
    """
    parts = parameters(made, plan)
    matrices = sum(parts[name] for name in ("queries", "keys", "values", "latent", "dynamic", "output", "feed_forward"))
    if not isinstance(made.stem, Tokens):
        matrices += parts["embedding"]
    matrices += made.stem.vocab * made.d_model if isinstance(made.stem, Tokens) else parts["head"]
    over_time = sum(_attention_flops(made, made.attending(plan), n) for n in range(1, made.n_layers + 1)) * context
    over_depth = sum(depth_sources(made, plan)) * made.d_model * (4 if isinstance(plan.depth, DepthAttention) else 2)
    return 2 * matrices + over_time + over_depth


def _attention_flops(made: Architecture, plan: Plan, layer: int) -> int:
    """For each token attended over: a score and a weighted value, in every head and segment."""
    rope = made.latent.rope if made.latent else 0
    per_head = 2 * (made.width + rope) + 2 * made.width * (1 if plan.dynamic == "no" else 2)
    return made.group * per_head * sum(len(plan.head(layer, h).values) for h in plan.live(layer))
