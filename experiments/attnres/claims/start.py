"""Claims on depth attention as it starts, with queries of zero."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from experiments.ledger.claim import Claim, Conditions
from theory.attnres import zero_query
from theory.attnres.paper import PAPER
from theory.attnres.variants import attnres as attnres_plan
from theory.plans.accounting import depth_reads
from theory.plans.names import resolve
from theory.plans.presets import llama

if TYPE_CHECKING:
    from numpy import float64
    from numpy.typing import NDArray
    from torch import Tensor

    from icl.models.decoder import Decoder

    Array = NDArray[float64]

RULES = ("attnres", "attnres-block:size=3")
EPS = 1e-3

ZERO_QUERY = Claim(
    "attnres.zero-query",
    PAPER.name,
    place="section 5: zero queries reduce AttnRes to an equal-weight average at the start",
    statement="With all queries zero, depth attention weighs its sources alike, and starts as the baseline does.",
    assumes="norms before every sublayer and after the last read; Full or Block, no window",
    verdict="corrected",
    correction="An average is the residual stream over k, its number of sources, and the next norm removes k: function "
    "and gradients are the PreNorm network's, exactly, if its norms have k^2 eps in place of eps.  So they are our "
    "PreNorm network's at eps = 0 alone.  At the usual start the stream is small, and eps is not: four layers of width "
    "64 with weights of 0.02 and eps = 1e-5 answer differently by 41 %.  The first read has one source: its query is "
    "never trained.",
    proof=zero_query,
    unjudged={attnres_plan: "with zero queries a norm of the keys has no part in it"},
)


def pair(rule: str, eps: float, norm: Literal["rms", "layer"] = "rms") -> tuple[Decoder, Decoder]:
    """Return a decoder with zero queries and a PreNorm one, with the same weights otherwise."""
    from icl.models.decoder import Decoder

    config = replace(llama(d_model=8, n_heads=2, n_layers=2, d_ff=12, vocab=16, context=4), norm_eps=eps, norm=norm)
    one, other = (Decoder(config, resolve(name, config.shape), std=0.2).double() for name in (rule, "vanilla"))
    return one, other


def tokens() -> Tensor:
    import torch

    return torch.arange(16).view(4, 4)


def answer(model: Decoder) -> Tensor:
    result: Tensor = model(tokens())
    return result


def agree(one: Decoder, other: Decoder) -> bool:
    """Return whether two models agree in answers and in the gradients of all weights that both have."""
    answers = [answer(model) for model in (one, other)]
    for result in answers:
        result.square().mean().backward()
    twin = dict(one.named_parameters())
    pairs = [(answers[0], answers[1]), *((twin[name].grad, p.grad) for name, p in other.named_parameters())]
    return all(a is not None and b is not None and bool((a - b).norm() <= 1e-9 * (1 + b.norm())) for a, b in pairs)


@ZERO_QUERY.check(
    "decoders with norms of eps = 1e-3 against PreNorm ones with eps times these powers of the sources a read has",
    states=2,
    control=0,
    wrong="with the same eps",
)
def eps_of_the_prenorm_network(power: int) -> Conditions:
    for rule in RULES:
        model, prenorm = pair(rule, EPS)
        others = zero_query.equivalent_eps(model.config, model.plan)
        counts = [len(sources) for sources in depth_reads(model.config, model.plan)]
        yield all(abs(other - EPS * count**2) <= 1e-12 for other, count in zip(others, counts, strict=True))
        for module, other in zip([*prenorm.sublayers, prenorm], others, strict=True):
            norm: Any = module.norm
            norm.eps = EPS * (other / EPS) ** (power / 2)
        yield agree(model, prenorm)


@ZERO_QUERY.check(
    "decoders and PreNorm ones as they are, with norms of this eps",
    states=0.0,
    control=EPS,
    wrong="with an eps as well",
)
def starts_as_prenorm(eps: float) -> bool:
    return all(agree(*pair(rule, eps)) for rule in RULES)


@ZERO_QUERY.check(
    "by how much answers differ from PreNorm's, relative to them, at four layers of width 64, std 0.02 and eps = 1e-5",
    states=(0.36, 0.46),
    control=(0.0, 0.01),
    wrong="by no more than a percent",
)
def differs_at_the_usual_start(share: tuple[float, float]) -> bool:
    import torch

    from icl.models.decoder import Decoder

    config = replace(llama(d_model=64, n_heads=4, n_layers=4, d_ff=170, vocab=64, context=16), norm_eps=1e-5)
    tokens = torch.arange(64).view(4, 16)
    with torch.no_grad():
        full, prenorm = (
            Decoder(config, resolve(name, config.shape), std=0.02, seed=0).double()(tokens)
            for name in ("attnres", "vanilla")
        )
    return share[0] <= float((full - prenorm).norm() / prenorm.norm()) <= share[1]


@ZERO_QUERY.number(
    "reads whose query has no gradient at the start",
    {rule: [0] for rule in RULES},
    control={rule: [] for rule in RULES},
    wrong="every query is trained",
    kind="float64",
)
def dead_queries() -> Iterator[tuple[str, list[int]]]:
    for rule in RULES:
        model, _ = pair(rule, EPS)
        answer(model).square().mean().backward()
        gradient = model.get_parameter("depth.query").grad
        assert gradient is not None
        yield rule, [i for i, row in enumerate(gradient) if not row.any()]


DISTANCE = Claim(
    "attnres.zero-query-distance",
    PAPER.ours,
    place="beside section 5: zero queries",
    statement="With zero queries and norms of eps > 0 a read times its number of sources keeps within a bound of the "
    "stream of the PreNorm network with the same weights and the same eps, which follows read by read from the least "
    "mean square of a token and from how fast a sublayer's output can move: of attention sum_h ||O_h V_h|| (1 + 2 d "
    "||Q_h|| ||K_h|| / sqrt w), of a SwiGLU 2.1 sqrt d sum_i ||w_i|| ||a_i|| ||b_i||, without a gate 1.13 sum_i "
    "||w_i|| ||b_i||.",
    assumes="norms before every sublayer and after the last read, under LayerNorm with variances for mean squares; "
    "Full or Block, no window; softmax attention, no biases",
    verdict="verified",
    proof=zero_query,
    uses=(ZERO_QUERY.id,),
    unjudged=ZERO_QUERY.unjudged,
)


@DISTANCE.check(
    "the share by which a norm's output shrinks as its eps grows, written out, and its bound to leading order",
    states=lambda m, eps, other: (other - eps) / (2 * (m + eps)),
    control=lambda m, eps, other: (other - eps) / (4 * (m + eps)),
    wrong="half of that bound",
)
def norms_shrink(bound: Callable[[float, float, float], float]) -> Conditions:
    for m in (0.25, 1.0, 9.0):
        for eps, other in ((0.0, 0.01), (1e-4, 9e-4), (0.1, 0.4)):
            change = zero_query.norm_change(m, eps, other)
            exact = 1 - (m + eps) ** 0.5 / (m + other) ** 0.5
            yield abs(change - exact) <= 1e-14
            yield 0 < change <= bound(m, eps, other)


@DISTANCE.check(
    "bounds on how far reads are from the PreNorm network's: their first steps written out, and none is exceeded by "
    "decoders of two layers",
    states=1.0,
    control=0.0,
    wrong="what has come apart moves no later sublayer",
)
def distances_keep_below(carried: float) -> Conditions:
    for rule in RULES:
        for eps in (1e-6, EPS):
            model, prenorm = pair(rule, eps)
            config, plan = model.config, model.plan
            far, smallest, slopes = _apart(model, prenorm, lambda x: x)
            bounds = zero_query.difference_bounds(config, plan, smallest, slopes)
            yield all(distance <= bound + 1e-12 for distance, bound in zip(far, bounds, strict=True))
            counts = [len(sources) for sources in depth_reads(config, plan)]
            root, (m, n), (c, b) = config.d_model**0.5, smallest[1:3], slopes[1:3]
            e, f = (eps * k**2 for k in counts[1:3])
            first = c * root * (1 - ((m + eps) / (m + e)) ** 0.5)
            size = (n + f) ** 0.5
            again = carried * first / (size * max(size - first / root, f**0.5)) ** 0.5
            written = [0.0, 0.0, first, first + b * (root * (1 - ((n + eps) / (n + f)) ** 0.5) + again)]
            yield all(abs(a - w) <= 1e-9 * (1 + w) for a, w in zip(bounds, written, strict=False))


@DISTANCE.check(
    "the same bounds for decoders with LayerNorm and embeddings that are 10 from zero, by the smallest variances",
    states=lambda x: x - x.mean(-1, keepdim=True),
    control=lambda x: x,
    wrong="by the smallest mean squares",
)
def distances_under_layer_norm(centred: Callable[[Tensor], Tensor]) -> Conditions:
    import torch

    for rule in RULES:
        model, prenorm = pair(rule, EPS, "layer")
        with torch.no_grad():
            for one in (model, prenorm):
                one.get_parameter("stem.embedding.weight").add_(10)
        far, smallest, slopes = _apart(model, prenorm, centred)
        bounds = zero_query.difference_bounds(model.config, model.plan, smallest, slopes)
        yield all(distance <= bound + 1e-12 for distance, bound in zip(far, bounds, strict=True))


def _apart(
    model: Decoder, prenorm: Decoder, centred: Callable[[Tensor], Tensor]
) -> tuple[list[float], list[float], list[float]]:
    """Return reads' largest distances from the PreNorm network's, its smallest mean squares, and its slopes."""
    from experiments.attnres.networks import reads
    from icl.probes.magnitude import sublayer_weights

    own, stream = reads(model, tokens()), reads(prenorm, tokens())
    counts = [len(sources) for sources in depth_reads(model.config, model.plan)]
    far = [float((k * h - x).norm(dim=-1).max()) for k, h, x in zip(counts, own, stream, strict=True)]
    smallest = [float(centred(x).square().mean(-1).min()) for x in stream[:-1]]
    return far, smallest, [_slope(*both) for both in zip(prenorm.sublayers, sublayer_weights(prenorm), strict=True)]


def _slope(sublayer: Any, weights: Any) -> float:
    from icl.probes.magnitude import FeedForwardWeights

    if isinstance(weights, FeedForwardWeights):
        return zero_query.feed_forward_slope(**vars(weights))
    heads, width = len(weights.value), weights.value.shape[1]
    query, key = (
        sublayer.projections.get_submodule(name).weight.detach().numpy().reshape(heads, width, -1)
        for name in ("query", "key")
    )
    return zero_query.attention_slope(query, key, **vars(weights))


@DISTANCE.check(
    "slopes of sublayers with random weights, written out with these constants of GELU and SiLU",
    states=(1.13, 1.1),
    control=(1.0, 1.0),
    wrong="as if neither were ever steeper than one",
)
def slopes_written_out(steepest: tuple[float, float]) -> Conditions:
    gelu, silu = steepest
    for heads, w, d in ((1, 1, 1), (1, 2, 3), (3, 2, 5)):
        gate, up, down, gain, query, key, value, output = _random(heads, w, d)
        columns, rows = _lengths(down.T), _lengths(up * gain)
        through = [_largest(o @ (v * gain)) for v, o in zip(value, output, strict=True)]
        logits = [_largest(q * gain) * _largest(k * gain) for q, k in zip(query, key, strict=True)]
        written = [
            gelu * sum(c * r for c, r in zip(columns, rows, strict=True)),
            d**0.5 * (1 + silu) * sum(map(np.prod, zip(columns, rows, _lengths(gate * gain), strict=True))),
            sum(t * (1 + 2 * d * x / w**0.5) for t, x in zip(through, logits, strict=True)),
        ]
        found = [
            zero_query.feed_forward_slope(None, up, down, gain),
            zero_query.feed_forward_slope(gate, up, down, gain),
            zero_query.attention_slope(query, key, value, output=output, gain=gain),
        ]
        yield all(abs(a - b) <= 1e-12 * b for a, b in zip(found, written, strict=True))


@DISTANCE.check(
    "how far outputs of sublayers with random weights move between inputs 1e-4 apart, 300 pairs each: no faster than "
    "these times their slopes; and, of one unit without a gate, where GELU is steepest, as fast as 0.999 of it",
    states=1.0,
    control=0.03,
    wrong="no faster than three hundredths of them",
)
def outputs_move_no_faster(factor: float) -> Conditions:
    rng = np.random.default_rng(1)
    for heads, w, d in ((1, 1, 1), (1, 2, 3), (3, 2, 5)):
        gate, up, down, gain, query, key, value, output = _random(heads, w, d)

        def attention(
            u: Array, of: tuple[Array, ...] = (query, key, value, output), gain: Array = gain, w: int = w
        ) -> Array:
            """Return the attention's output at the last token."""
            u = u * gain
            logits = [u @ k.T @ (q @ u[-1]) / w**0.5 for q, k in zip(of[0], of[1], strict=True)]
            shares = [np.exp(x - x.max()) / np.exp(x - x.max()).sum() for x in logits]
            seen = [o @ (v @ (s @ u)) for s, v, o in zip(shares, of[2], of[3], strict=True)]
            return np.asarray(sum(seen))

        def gated(u: Array, a: Array = gate * gain, b: Array = up * gain, c: Array = down) -> Array:
            return np.asarray(c @ (_silu(a @ u[-1]) * (b @ u[-1])))

        def plain(u: Array, b: Array = up * gain, c: Array = down) -> Array:
            return np.asarray(c @ _gelu(b @ u[-1]))

        slopes: dict[Callable[[Array], Array], float] = {
            attention: zero_query.attention_slope(query, key, value, output=output, gain=gain),
            gated: zero_query.feed_forward_slope(gate, up, down, gain),
            plain: zero_query.feed_forward_slope(None, up, down, gain),
        }
        for sublayer, slope in slopes.items():
            for _ in range(300):
                one = rng.standard_normal((4, d))
                one *= 0.99 * d**0.5 / np.linalg.norm(one, axis=1, keepdims=True) * rng.uniform(size=(4, 1))
                other = one + 1e-4 * rng.standard_normal((4, d)) / d**0.5
                moved = np.linalg.norm(sublayer(other) - sublayer(one))
                yield moved <= factor * slope * np.linalg.norm(other - one, axis=1).max() * (1 + 1e-6)
    unit, step = np.ones((1, 1)), 1e-4
    rise = float((_gelu(np.array(2**0.5) + step) - _gelu(np.array(2**0.5) - step)) / (2 * step))
    yield rise >= 0.999 * zero_query.feed_forward_slope(None, unit, unit, np.ones(1)) * min(1.0, factor)


def _random(heads: int, w: int, d: int) -> tuple[Array, ...]:
    """Return random weights: gate, up, down of seven units; gain; query, key, value, output."""
    rng = np.random.default_rng(heads + w + d)
    units = [rng.standard_normal(shape) for shape in ((7, d), (7, d), (d, 7))]
    of_heads = [rng.standard_normal(shape) for shape in ((heads, w, d),) * 3 + ((heads, d, w),)]
    return (*units, rng.uniform(0.5, 1.5, d), *of_heads)


def _lengths(rows: Array) -> Sequence[float]:
    return [float(row @ row) ** 0.5 for row in rows]


def _largest(matrix: Array) -> float:
    """Return the largest singular value."""
    return float(np.linalg.eigvalsh(matrix @ matrix.T)[-1]) ** 0.5


def _silu(x: Array) -> Array:
    return np.asarray(x / (1 + np.exp(-x)))


def _gelu(x: Array) -> Array:
    from scipy.special import ndtr

    return np.asarray(x * ndtr(x))
