"""Memory of a training step, from a plan and sizes alone.  Standard library only."""

from __future__ import annotations

from theory.plans.accounting import Widths, live_heads, projections, total_parameters
from theory.plans.architecture import Architecture, Patches, Tokens
from theory.plans.plan import Plan, built, limits, shifts

QUERIES_AT_A_TIME = 256  # that attend where no fused kernel applies; what more of them keep is made again


def activations(config: Architecture, plan: Plan, *, fused: bool = False) -> int:
    """Return the numbers per token of a whole context that an uncompiled training step keeps until its backward pass.

    Of a norm: its input, the result, and of RMSNorm what lies between; so of normed queries and keys, which are turned
    to their positions, two more of each.  Of dropout its mask.  Of attention: what is projected, of the revised form of
    dynamic values what there is before the gate, and what comes out before and after heads are joined; where no fused
    kernel applies and a whole context attends at once, weights over time too.  Of the feed-forward: what its products
    and its activation put out.  Of a depth rule that weighs: each read, and what it is put together from.  Of a gate
    its sigmoid, of a scale what it multiplies, of a residual map what lies between its factors; rows of tables, and
    what is shifted or read at some tokens alone.  Of the head: log-probabilities.

    fused   attention with dropout, a latent, dynamic values or pairs of heads has a fused kernel, as on a GPU
    """
    d, sublayers, plan = config.d_model, config.sublayers(plan), config.attending(plan)
    outs = 1 + plan.output_projection + (plan.dynamic == "revised")
    shapes = projections(config, plan)
    heads = sum(p.projected + p.output_gate + p.table + p.source_gate + outs * p.attended for p in shapes)
    for copies in (shifts(plan), limits(plan)):
        heads += config.width * sum(len(built(plan)[key]) * len(each) for key, each in copies.items())
    every = config.d_model * (config.output_scale != "no") + config.residual_rank
    if config.differential:
        heads += sum(_of_pairs(p, fused) for p in shapes)
    if config.qk_norm:
        heads += 2 * sum(p.query + p.key for p in shapes)
    inner = (2 + 2 * config.gated) * config.d_ff * config.n_layers * config.has_feed_forward(plan)
    reads = reads_over_depth(config, plan)
    of_norm = {"none": 1, "layer": 2, "rms": 3}
    norms = of_norm[config.sublayer_norm] * sublayers + of_norm[config.head_norm]
    norms += bool(config.dropout) * (sublayers + 1)
    over_time = 0
    if config.context <= QUERIES_AT_A_TIME:
        over_time = _weights_over_time(config, plan, fused) * live_heads(config, plan) * config.context
    return norms * d + reads + heads + inner + sublayers * every + over_time + answered(config)


def _of_pairs(p: Widths, fused: bool) -> int:
    """Return what pairs of heads keep besides: values side by side for each, outputs twice as wide, and their norms."""
    return 2 * (p.value if fused else p.attended) - p.value + 3 * p.attended


def reads_over_depth(config: Architecture, plan: Plan) -> int:
    """Return how many numbers per token a depth rule keeps that weighs its sources."""
    return plan.depth.saved(config.d_model, config.n_layers, config.sublayers(plan) // config.n_layers)


def _weights_over_time(config: Architecture, plan: Plan, fused: bool) -> int:
    """Return how many tensors, with one weight per pair of tokens, a head keeps where no fused kernel applies."""
    if plan.dynamic == "initial":
        return 5 if config.dropout else 4
    if config.score == "linear":
        return 2
    if config.positions == "bias":
        return 3 if config.dropout else 2
    # Widths of values and of queries.
    unequal = config.latent is not None or plan.dynamic == "revised" or config.differential
    return 0 if fused else 3 if config.dropout else int(unequal)


def answered(config: Architecture) -> int:
    """Return the numbers that a model puts out per token."""
    match config.stem:
        case Tokens(vocab):
            return vocab
        case Patches(classes=classes):
            return classes
        case stem:
            return stem.width


def training_bytes(
    config: Architecture,
    plan: Plan,
    sequences: int,
    *,
    number: float = 4.0,
    fused: bool = False,
    kept: int | None = None,
) -> int:
    """Return the bytes that a step on `sequences` whole contexts needs, or its checkpoint where that needs more.

    What the program itself needs comes on top.  Weights, gradients and Adam's two moments are float32.  While a
    checkpoint is written, it holds all but the gradients twice more, apart and joined.

    Args:
        config: The architecture.
        plan: The variant.
        sequences: Whole contexts per step.
        number: Bytes per number of the activations, on average.
        fused: As in `activations`.
        kept: Numbers kept per token; by default those of `activations`.
    """
    weights = 4 * total_parameters(config, plan)
    kept = activations(config, plan, fused=fused) if kept is None else kept
    step = activation_bytes(config, kept, plan, sequences=sequences, number=number, fused=fused)
    tables = visible_bytes(config, plan, fused=fused)
    return max(4 * weights + step - tables, 9 * weights) + tables


def activation_bytes(
    config: Architecture, kept: int, plan: Plan, sequences: int, number: float, *, fused: bool = False
) -> int:
    """Return the bytes of the activations of a step on `sequences` whole contexts.

    Activations take `number` bytes on average; log-probabilities and the gradients before and after their softmax are
    float32 in every precision.
    Where a context attends in blocks of queries, one layer's weights of one block exist once more, with their
    gradients.

    Args:
        config: The architecture.
        kept: Numbers kept per token.
        plan: The variant.
        sequences: Whole contexts per step.
        number: Bytes per number, on average.
        fused: As in `activations`.
    """
    if config.context > QUERIES_AT_A_TIME:
        kept += 2 * _weights_over_time(config, plan, fused) * config.n_heads * QUERIES_AT_A_TIME
    step = round(number * (kept - answered(config))) + 12 * answered(config)
    return sequences * config.context * step + visible_bytes(config, plan, fused=fused)


def visible_bytes(config: Architecture, plan: Plan, *, fused: bool = False) -> int:
    """Return the bytes of the tables, shape (T, T), that say which tokens see each other.

    One table has a byte per pair, and one more for every window that is a layer's own.  Fused kernels keep one of
    float32 besides in every layer with a window.
    """
    windows = [config.window_of(n) for n in range(1, config.n_layers + 1)]
    short = [size for size in windows if 0 < size < config.context]
    kept = 0 if _weights_over_time(config, plan, fused) else 4 * len(short)
    own = len(set(short)) if config.windows else 0
    return (1 + own + kept) * config.context**2
