"""Designs of the field, as plans: rules over depth first, then sources of values and keys."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache

from theory.errors import BadInput, at_least
from theory.field.paper import PAPER
from theory.plans.mix import Learned, Mix, e, gate, k, learned_weights, shifted, v
from theory.plans.plan import Plan, Rule, Shape, plan
from theory.plans.streams import INPUT, OUTPUT, Gate, Gates, Group, Step, Streams, Sum, Wide
from theory.plans.variants import variant

NEXT: Sum = ((1.0, INPUT), (1.0, OUTPUT))  # x + f(x), for x what a sublayer read
FIRST: Sum = ((1.0, 1),)


@variant(
    PAPER,
    "nanochat, github.com/karpathy/nanochat, resid_lambdas and x0_lambdas",
    "before every layer the stream is scaled, and the embedding added, by learned numbers",
)
def residual_lambdas(shape: Shape, scale: float = 1.0, embedding: float = 0.1) -> Plan:
    """Make x <- lambda_n x + mu_n x_0 before layer n; the embedding is not normed here, as it is there."""

    def layer(n: int) -> Iterable[Step]:
        read = ((Learned(f"scale_{n}", scale), 1), (Learned(f"embedding_{n}", embedding), 2))
        yield Step((read,), ((1, NEXT),))
        yield Step((FIRST,), ((1, NEXT),))

    return _layers(shape, layer, Step((FIRST,)), copies=2)


@variant(
    PAPER,
    "modded-nanogpt, github.com/KellerJordan/modded-nanogpt, skip_weights",
    "layers of the second half add the output of their mirror image in the first, times a learned number",
)
def unet_skips(shape: Shape, start: float = 1.0) -> Plan:
    """Make x <- x + w_n y_m before layer n, y_m what layer m = L + 1 - n left; a middle layer has no mirror image."""

    def layer(n: int) -> Iterable[Step]:
        mirror = shape.layers + 1 - n
        skip: Sum = ((Learned(f"skip_{n}", start), mirror + 1),) if mirror < n else ()
        yield Step(((*FIRST, *skip),), ((1, NEXT),))
        yield Step((FIRST,), ((1, NEXT), (n + 1, NEXT)))

    return _layers(shape, layer, Step((FIRST,)))


@variant(
    PAPER,
    "MUDDFormer, arXiv 2502.12170",
    "queries, keys, values and the stream of a layer are four sums of all layers' results, weighed by every token",
)
def mudd(shape: Shape) -> Plan:
    """Make the weights A(x) = W_2 GELU(W_1 norm(x)) + a of the newest result x, as many hidden numbers as weights.

    X_0 is the embedding, X_n = x + f(x) the result of layer n, where x is the residual sum plus the attention of the
    other three.  The head reads one more sum, whose weights have four times as many hidden numbers, as in the code.
    The three inputs share one norm: gains of their own would go into the projections.
    """
    stream = shape.layers + 2  # the residual within a layer; stream n + 1 is X_n

    def gates(sources: int, ways: int) -> Gates:
        newest = ((0.0,) * (sources - 1) + (1.0,)) * ways
        return Gates((sources,), (Group(ways * sources, base=newest),), hidden=4 * sources)

    def way(number: int, sources: int) -> Sum:
        return tuple((Gate(number * sources + j), j + 1) for j in range(sources))

    def layer(n: int) -> Iterable[Step]:
        if n == 1:
            yield Step((FIRST,), ((stream, NEXT),))
        else:
            reads = way(0, n), way(1, n), way(2, n)
            yield Step(reads, ((stream, (*way(3, n), (1.0, OUTPUT))),), gates(n, 4))
        yield Step((((1.0, stream),),), ((n + 1, NEXT),))

    last = shape.layers + 1
    return _layers(shape, layer, Step((way(0, last),), gates=gates(last, 1)))


@variant(
    PAPER,
    "DeepCrossAttention, arXiv 2502.06785, GRN-v3",
    "queries, keys and values are three sums of all layers' outputs, weighed by coordinate and by every token",
)
def deepcrossattention(shape: Shape, last: int = 0, first: int = 1, between: int = 1) -> Plan:
    """Make each sum sum_j (b_j + relu(<w, x_j>)) x_j: vectors b_j, which start at one, one vector w.

    x_0 is the embedding, x_n what attention and feed-forward of layer n put out together; the feed-forward reads the
    attention's output plus the queries' sum.  The vectors w start at random: at zero a rectifier has no slope.

    Args:
        shape: Layers and heads.
        last: The newest outputs that are read by themselves; 0: all.
        first: With `last`, the earliest outputs that are read by themselves, the embedding the first of them.
        between: 1 if the sum of the outputs between is one source more, 0 if they are read no more.
    """
    at_least("last", last, 0)
    at_least("first", first, 0)
    if between not in (0, 1):
        raise BadInput(f"between must be 0 or 1, got {between}")
    inner, attended, pooled = shape.layers + 2, shape.layers + 3, shape.layers + 4  # stream n + 1 is x_n

    def sources(count: int) -> list[int]:
        """Return the streams that are read of the first `count` outputs."""
        kept = [j for j in range(count) if not last or j < first or j >= count - last]
        middle = [pooled] if between and len(kept) < count else []
        early = [j + 1 for j in kept if j < first]
        return [*early, *middle, *(j + 1 for j in kept if j >= first)]

    def reads(name: str, count: int, sums: int) -> tuple[tuple[Sum, ...], Gates]:
        streams = sources(count)

        def read(s: int) -> Sum:
            return tuple(
                term
                for i, stream in enumerate(streams)
                for term in ((Wide(f"{name}_{s}_{i}", 1.0), stream), (Gate(sums * i + s), stream))
            )

        gates = Gates(tuple(streams), (Group(sums, "relu"),), one_by_one=True, normed=False, random=True)
        return tuple(map(read, range(sums))), gates

    def pooling(n: int) -> Iterable[tuple[int, Sum]]:
        """Yield the write by which an output joins those between, after layer n, from when on it is read no more."""
        oldest = n - last  # of those that are read by themselves until then
        if last and between and oldest >= first:
            yield pooled, (*(((1.0, pooled),) if oldest > first else ()), (1.0, oldest + 1))

    def layer(n: int) -> Iterable[Step]:
        inputs, gates = reads(f"layer_{n}", n, 3)
        yield Step(inputs, ((inner, NEXT), (attended, ((1.0, OUTPUT),))), gates)
        yield Step((((1.0, inner),),), ((n + 1, ((1.0, attended), (1.0, OUTPUT))), *pooling(n)))

    at_end, gates = reads("head", shape.layers + 1, 1)
    return _layers(shape, layer, Step(at_end, gates=gates))


@variant(
    PAPER,
    "Delta Attention Residuals, arXiv 2605.18855, per sublayer",
    "every sublayer reads the residual stream plus a softmax-weighted sum of all outputs so far",
)
def delta_attnres(shape: Shape) -> Plan:
    """Make x + sum_j a_j v_j with shares a_j = softmax <w, norm(v_j)>, where x is the stream and v_0 the embedding.

    The first sublayer and the head read the stream alone, as in the authors' code.  The vectors w start at zero.
    """

    def step(k: int) -> Step:
        """Return sublayer k, from 0: stream 1 is the stream, stream j + 2 is v_j."""
        writes = (1, ((1.0, 1), (1.0, OUTPUT))), (k + 3, ((1.0, OUTPUT),))
        if k == 0:
            return Step((FIRST,), writes)
        outputs = tuple(range(2, k + 3))
        shares = tuple((Gate(j), stream) for j, stream in enumerate(outputs))
        return Step(((*FIRST, *shares),), writes, Gates(outputs, (Group(1, "softmax"),), one_by_one=True))

    return plan(shape, depth=Streams((*map(step, range(2 * shape.layers)), Step((FIRST,))), copies=2))


@variant(
    PAPER,
    "DenseFormer, arXiv 2402.02622, 4x5",
    "after every fifth layer the stream is a learned sum of every fourth layer's result",
)
def denseformer_sparse(shape: Shape, dilation: int = 4, period: int = 5) -> Plan:
    """Make Y_n = sum a_{n,i} X_i over i = n, n - dilation, ... for n a multiple of the period, X_0 the embedding.

    At dilation and period 1 this is `denseformer`.
    """
    at_least("dilation", dilation, 1)
    at_least("period", period, 1)
    stream = shape.layers + 2  # Y_n; stream n + 1 is X_n

    def layer(n: int) -> Iterable[Step]:
        before = ((1.0, stream if n > 1 else 1),)
        yield Step((before,), ((stream, NEXT),))
        summed: Sum = NEXT
        if n % period == 0:
            own = Learned(f"weight_{n}_{n}", 1.0)
            earlier = tuple((Learned(f"weight_{n}_{i}", 0.0), i + 1) for i in range(n % dilation, n, dilation))
            summed = (*earlier, (own, INPUT), (own, OUTPUT))
        yield Step((((1.0, stream),),), ((stream, summed), (n + 1, NEXT)))

    return _layers(shape, layer, Step((((1.0, stream),),)))


def _layers(shape: Shape, layer: Callable[[int], Iterable[Step]], last: Step, copies: int = 1) -> Plan:
    """Return the plan whose layers, from 1, have these steps, and whose head has the last."""
    steps = [step for n in range(1, shape.layers + 1) for step in layer(n)]
    return plan(shape, depth=Streams((*steps, last), copies))


# --- sources of values and keys ---------------------------------------------------------------------------------------


@variant(
    PAPER,
    "modded-nanogpt, github.com/KellerJordan/modded-nanogpt, value_embeds",
    "values of the first and last layers get rows of tables added, one per token; every layer learns the weights",
)
def value_embeddings(shape: Shape, tables: int = 3, start: float = 0.5) -> Plan:
    """Make v <- a_n v + b_n e_t, where the first `tables` layers share their tables with the last ones, in order.

    Layers between have a_n alone.  A model of fewer than twice as many layers has half as many tables as layers.
    """
    at_least("tables", tables, 1)
    count = min(tables, max(1, shape.layers // 2))

    def values(n: int, h: int) -> Mix:
        table = n if n <= count else n - (shape.layers - count)
        scaled = Learned(f"own_{n}", start) * v(n, h)
        return scaled + Learned(f"row_{n}", start) * e(table, h) if table > 0 else scaled

    return plan(shape, values=values)


@variant(
    PAPER,
    "nanochat, github.com/karpathy/nanochat, value_embeds and ve_gate",
    "values of every other layer get rows of a table added, weighed by a gate of every token and head",
)
def gated_value_embeddings(shape: Shape, every: int = 2, channels: int = 32, scale: float = 2.0) -> Plan:
    """Make v <- v + scale sigmoid(W x) e_t in the last layer and every `every`-th before it, each with its own table.

    x are the first `channels` numbers of what the layer's projections read, or all where there are fewer.  At first W
    is zero, so that the gate is half the scale.
    """
    at_least("every", every, 1)
    at_least("channels", channels, 1)

    def values(n: int, h: int) -> Mix:
        if (shape.layers - n) % every:
            return v(n, h)
        return v(n, h) + scale * gate(n, h, channels) * e(n, h)

    return plan(shape, values=values)


@variant(
    PAPER,
    "modded-nanogpt, github.com/KellerJordan/modded-nanogpt, lamb, November 2024",
    "every layer learns one number a, and mixes a of layer 1's values with 1 - a of its own",
)
def tied_resformer(shape: Shape, start: float = 0.5) -> Plan:
    def values(n: int, h: int) -> Mix:
        first = Learned(f"first_{n}", start)
        return (1 - first) * v(n, h) + first * v(1, h) if n > 1 else v(1, h)

    return plan(shape, values=values)


@variant(
    PAPER,
    "RWKV, arXiv 2305.13048, its token shift, for values alone",
    "every value is mixed with that of the token before, by a learned number per head and one minus it",
)
def shifted_values(shape: Shape, start: float = 0.5) -> Plan:
    """Make v_t <- a v_t + (1 - a) v_{t-1}; RWKV has a number per channel of the projection's input instead."""

    def values(n: int, h: int) -> Mix:
        kept = learned_weights(f"kept_{n}", [start] * shape.heads)[h - 1]
        return kept * v(n, h) + (1 - kept) * shifted(v(n, h))

    return plan(shape, values=values)


@variant(
    PAPER,
    "LIMe, arXiv 2502.09245, static routing",
    "every head's keys and values are one learned sum of those of all heads of all layers so far",
)
def lime(shape: Shape) -> Plan:
    """Mix keys and values alike from layer 2 on: a head begins with its own.

    The authors' code draws the other weights; here they begin at 0, since a plan's numbers are fixed.
    """

    heads = range(1, shape.heads + 1)

    @cache
    def routes(n: int) -> tuple[tuple[tuple[int, int], ...], tuple[Learned, ...]]:
        """Return the sources of layer n's heads, and the weights of all heads, one head after another."""
        sources = tuple((m, g) for m in range(1, n + 1) for g in heads)
        starts = [float(source == (n, head)) for head in heads for source in sources]
        return sources, learned_weights(f"route_{n}", starts)

    def routed(own: Rule) -> Rule:
        def mixed(n: int, h: int) -> Mix:
            if n == 1:
                return own(n, h)
            sources, weights = routes(n)
            of_head = weights[(h - 1) * len(sources) : h * len(sources)]
            terms = (weight * own(*source) for weight, source in zip(of_head, sources, strict=True))
            return Mix(tuple(term for mix in terms for term in mix.terms))

        return mixed

    return plan(shape, keys=routed(k), values=routed(v))


@variant(
    PAPER,
    "Gemma 3n, config num_kv_shared_layers; the part `windows` gives the layers their windows",
    "the last layers use the keys and values of the last layer of their kind, local or global, before them",
)
def gemma_sharing(shape: Shape, every: int = 5, shared: int = 0) -> Plan:
    """Share keys and values in the last `shared` layers; every `every`-th layer is global, and others are local.

    By default three sevenths of the layers share, as 15 of 35 do.  A layer whose kind does not stand before them keeps
    its own.
    """
    at_least("every", every, 1)
    at_least("shared", shared, 0)
    if shared >= shape.layers:
        raise ValueError(f"shared must be less than the {shape.layers} layers, got {shared}")
    own = shape.layers - (shared or 3 * shape.layers // 7)

    def source(n: int) -> int:
        alike = [m for m in range(1, own + 1) if (m % every == 0) == (n % every == 0)]
        return alike[-1] if n > own and alike else n

    return plan(shape, keys=lambda n, h: k(source(n), h), values=lambda n, h: v(source(n), h))
