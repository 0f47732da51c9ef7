"""Claims on feed-forwards as attention, and on models without them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from experiments.ledger.claim import Claim, Conditions
from theory.dva import feed_forward
from theory.dva.feed_forward import as_attention, embedding_width, embeddings
from theory.dva.heads import alone
from theory.dva.paper import PAPER
from theory.dva.variants import dva as dva_plan

if TYPE_CHECKING:
    from theory.dva.feed_forward import Array

CLOSE = 1e-10
SIZES = ((1, 1), (2, 5), (4, 3), (4, 16))  # widths, and inner widths


def gelu(x: Array) -> Array:
    from scipy.special import ndtr

    result: Array = x * ndtr(x)
    return result


def softmax(x: Array) -> Array:
    """Return the softmax over all scores of a token together."""
    from scipy.special import softmax as of_scipy

    result: Array = of_scipy(x, axis=1)
    return result


AS_ATTENTION = Claim(
    "dva.feed-forward-as-attention",
    PAPER.name,
    place="section 2.3, Fig. 2: the feed-forward as cross-attention to a core embedding set",
    statement="A feed-forward is attention of a token to fixed pairs of keys and values, the columns of its first "
    "matrix and the rows of its second, weighted by the activation of their scores.",
    assumes="no biases",
    verdict="corrected",
    correction="An identity, but no softmax: weights do not compete and need not add up to 1.  That keys and values "
    "come from embeddings by linear maps holds of any matrices if these embeddings are as wide as rank [U^T, D], twice "
    "a token's width of almost all feed-forwards; with a token's width it would have to be shown of trained ones.  "
    "Neither of its two limits is one: without a softmax several heads are one with all their pairs, and a query of "
    "its own, <W_Q x, u> = <x, W_Q^T u>, is other keys.",
    proof=feed_forward,
)


@AS_ATTENTION.check(
    "feed-forwards pair by pair: GELU, and gated by it; widths 1 to 4, inner widths 1 to 16",
    states=gelu,
    control=softmax,
    wrong="a softmax over the pairs",
)
def feed_forwards_are_sums(act: Callable[[Array], Array]) -> Conditions:
    rng = np.random.default_rng(2)
    for d, inner in SIZES:
        x, up, gate = rng.standard_normal((3, d)), *rng.standard_normal((2, d, inner))
        down = rng.standard_normal((inner, d))
        plain, gated = act(x @ up) @ down, (act(x @ gate) * (x @ up)) @ down
        yield np.allclose(as_attention(gelu, x, up, down), plain, atol=CLOSE)
        yield np.allclose(as_attention(gelu, x, up, down=down, gate=gate), gated, atol=CLOSE)


@AS_ATTENTION.check(
    "two heads with queries of their own, square matrices, as one head with the identity for a query and other keys",
    states=lambda query, up: query.T @ up,
    control=lambda query, up: query @ up,
    wrong="the matrix itself of the keys",
)
def limits_restrict_nothing(keys: Callable[[Array, Array], Array]) -> Conditions:
    rng = np.random.default_rng(3)
    for d, inner in SIZES:
        x, queries = rng.standard_normal((3, d)), rng.standard_normal((2, d, d))
        ups, downs = rng.standard_normal((2, d, inner)), rng.standard_normal((2, inner, d))
        each = [as_attention(gelu, x @ q.T, u, v) for q, u, v in zip(queries, ups, downs, strict=True)]
        wide = np.hstack([keys(q, u) for q, u in zip(queries, ups, strict=True)])
        yield np.allclose(sum(each), as_attention(gelu, x, wide, downs.reshape(-1, d)), atol=CLOSE)


@AS_ATTENTION.check(
    "the least width of embeddings from which keys and values come, of random matrices, and embeddings of that width",
    states=lambda d, f: min(f, 2 * d),
    control=lambda d, f: min(f, d),
    wrong="a token's width",
)
def embeddings_are_wide(law: Callable[[int, int], int]) -> Conditions:
    rng = np.random.default_rng(4)
    for d, inner in SIZES:
        up, down = rng.standard_normal((d, inner)), rng.standard_normal((inner, d))
        e, k, v = embeddings(up, down)
        yield e.shape[1] == embedding_width(up, down) == law(d, inner)
        yield np.allclose(e @ k, up.T, atol=CLOSE) and np.allclose(e @ v, down, atol=CLOSE)
        yield embedding_width(up, up.T @ np.diag(np.arange(1.0, d + 1))) == min(d, inner)


WITHOUT = Claim(
    "dva.no-feed-forward",
    PAPER.name,
    place="abstract, section 2.3: the feed-forward can be cut, as values already come from far beyond the context",
    statement="A dynamic head without a feed-forward fetches enough.",
    assumes="one block at a token that attends to itself alone, or whose context is fixed",
    verdict="corrected",
    correction="It holds a feed-forward: to a token alone a dynamic head gives a linear map of it and a bilinear "
    "feed-forward, (Q x) * (K x), of inner width w, where ordinary heads give a linear map alone.  GPT-2's has inner "
    "width 4 d and a bend.  So the two models that the paper compares differ in the size of the feed-forward, not in "
    "whether there is one.",
    proof=feed_forward,
    uses=("dva.one-head",),
    unjudged={dva_plan: "an output projection, which it does without, leaves what is quadratic quadratic"},
)


@WITHOUT.check(
    "dynamic heads at a token alone, and the bilinear feed-forward beside V of this inner width",
    states=1,
    control=0,
    wrong="nothing beside V",
)
def dynamic_heads_hold_one(times: int) -> Conditions:
    rng = np.random.default_rng(6)
    for d, width in ((1, 1), (3, 2), (4, 4)):
        v, query, key = rng.standard_normal((3, width, d))
        x = rng.standard_normal(d)
        bilinear = as_attention(lambda score: score, x[None], key.T, down=np.eye(width, d), gate=query.T)[0]
        wide = np.zeros(max(width, d))
        wide[:width] = alone(v, query, key, x) - v @ x
        yield np.allclose(wide[:d], times * bilinear, atol=CLOSE)


@WITHOUT.check(
    "decoders of one layer at their first token: third differences of the answer along a line, without norms",
    states={"dva": False, "vanilla": True},
    control={"dva": True, "vanilla": True},
    wrong="both are linear in the token",
)
def decoders_at_their_first_token(linear: dict[str, bool]) -> Conditions:
    """Check differences: second ones are 0 where the output is linear; third ones are 0 in both."""
    import torch

    from icl.models.decoder import Decoder
    from theory.plans.architecture import Architecture, Vectors
    from theory.plans.names import resolve

    for name, expected in linear.items():
        config = Architecture(
            d_model=6, n_layers=1, n_heads=1, d_ff=0, context=3, stem=Vectors(4), norm="none", positions="none"
        )
        model = Decoder(config, resolve(name, config.shape), std=0.5).double()
        start, step = torch.randn(2, 4, generator=torch.Generator().manual_seed(0)).double()
        with torch.no_grad():
            at = [model((start + t * step).expand(1, 1, 4))[0, 0] for t in range(4)]
        second, third = at[2] - 2 * at[1] + at[0], at[3] - 3 * at[2] + 3 * at[1] - at[0]
        yield bool(second.norm() < CLOSE) == expected
        yield third.norm() <= CLOSE
