"""The variants of the four papers by name: functions from a shape to a plan.

Each stands with its paper and place, and what it changes in a few words.  `theory.names` reads what a user types.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil

from theory.combine import combine
from theory.mix import NOTHING, Learned, Mix, k, q, total, v
from theory.plan import DepthAttention, DepthAverage, Plan, Rule, SegmentRule, Segments, Shape, plan
from theory.sizes import at_least

RESFORMER, SKIPV1, ATTNRES, DVA = "ResFormer", "SkipV1Former", "Attention Residuals", "Dynamic Value Attention"


@dataclass(frozen=True)
class Variant:
    """A named plan: where it comes from and what it changes, in a few words."""

    name: str
    make: Callable[..., Plan]
    paper: str
    place: str
    changes: str


VARIANTS: dict[str, Variant] = {}


def _variant(paper: str, place: str, changes: str) -> Callable[[Callable[..., Plan]], Callable[..., Plan]]:
    def register(make: Callable[..., Plan]) -> Callable[..., Plan]:
        name = make.__name__.replace("_", "-")
        VARIANTS[name] = Variant(name, make, paper, place, changes)
        return make

    return register


# --- values mixed ---------------------------------------------------------------------------------------------------


@_variant("", "the baseline of all four", "nothing")
def vanilla(shape: Shape) -> Plan:
    return plan(shape)


@_variant(RESFORMER, "section 3.3, Eqn. 7", "every value is half its own, half layer 1's")
def resformer(shape: Shape, own: float = 0.5, first: float = 0.5) -> Plan:
    """Layer 1 is vanilla, whatever the weights."""
    return plan(shape, values=lambda n, h: v(1, h) if n == 1 else own * v(n, h) + first * v(1, h))


@_variant(RESFORMER, "section 4.2, Fig. 6", "every value gets twice layer 1's added")
def resformer_constant(shape: Shape, weight: float = 2.0) -> Plan:
    """A_n (V_n + weight V_1)."""
    return resformer(shape, own=1.0, first=weight)


@_variant(RESFORMER, "later versions of the paper", "every layer learns its two mixing weights")
def resformer_learned(shape: Shape, start: float = 0.5) -> Plan:
    def values(n: int, h: int) -> Mix:
        if n == 1:
            return v(1, h)
        return Learned(f"own_{n}", start) * v(n, h) + Learned(f"first_{n}", start) * v(1, h)

    return plan(shape, values=values)


@_variant(RESFORMER, "later versions of the paper", "half of layer 1's values in the last layers only")
def resformer_sparse(shape: Shape, last: int = 0, own: float = 0.5, first: float = 0.5) -> Plan:
    """In the last `last` layers; 0 stands for three eighths of them, as layers 6 to 8 of 8."""
    at_least("last", last, 0)
    if last > shape.layers:
        raise ValueError(f"last must be at most the {shape.layers} layers, got {last}")
    begin = shape.layers - (last or max(1, 3 * shape.layers // 8))
    return plan(shape, values=lambda n, h: own * v(n, h) + first * v(1, h) if n > max(1, begin) else v(n, h))


@_variant(RESFORMER, "section 4.3, Fig. 9", "every value is half its own, half the layer before's")
def resformer_previous(shape: Shape) -> Plan:
    """Also what cross-layer attention (Eqn. 2) becomes when one's own keys replace the other layer's (Eqn. 4)."""
    return plan(shape, values=lambda n, h: 0.5 * v(n, h) + 0.5 * v(max(1, n - 1), h))


@_variant(RESFORMER, "section 3.2, Eqn. 5", "every value is the mean over all layers so far")
def resformer_all(shape: Shape) -> Plan:
    return plan(shape, values=lambda n, h: total(1 / n * v(i, h) for i in range(1, n + 1)))


@_variant(RESFORMER, "section 3.2, Eqn. 6", "the mean of earlier values is added beside the attention")
def identity_mapping(shape: Shape) -> Plan:
    return plan(shape, beside=lambda n, h: total(1 / (n - 1) * v(i, h) for i in range(1, n)))


@_variant(RESFORMER, "section 3.4, Eqn. 8", "0.4 (V_1 - V_n) is added beside the attention")
def neutreno(shape: Shape, weight: float = 0.4) -> Plan:
    """Per token: the matrix of ones that Eqn. 8 puts before V_n has to be the identity, as in the authors' code."""
    return plan(shape, beside=lambda n, h: weight * v(1, h) - weight * v(n, h))


@_variant(RESFORMER, "section 4.2, appendix A.3, and its code", "ResFormer, and 0.1 (V_1 - V_n) beside the attention")
def resformer_neutreno(shape: Shape, weight: float = 0.1) -> Plan:
    """`weight` is that of V_1 - V_n, V_n being layer n's own values, not yet mixed.

    The text sets lambda = 0.2 and does not say which values lambda is put before.  The authors' code puts it before V_1
    - (V_1 + V_n)/2, the mixed values standing where Eqn. 8 has V_n: that is 0.1 (V_1 - V_n).
    """
    return combine(resformer(shape), neutreno(shape, weight))


# --- values shared --------------------------------------------------------------------------------------------------


@_variant(RESFORMER, "section 3.5, Eqn. 10", "all layers use layer 1's values")
def svformer(shape: Shape, anchors: tuple[int, ...] = (1,)) -> Plan:
    """`anchors` are the layers with values of their own (section 4.8, Fig. 17); the others use the last one's."""
    if 1 not in anchors or not all(1 <= a <= shape.layers for a in anchors):
        raise ValueError(f"anchors must hold layer 1 and lie within the {shape.layers} layers, got {anchors}")
    return plan(shape, values=lambda n, h: v(max(a for a in anchors if a <= n), h))


@_variant(SKIPV1, "section 6.1 (Cross-Layer Attention)", "every second layer uses the keys and values before it")
def cla(shape: Shape, every: int = 2) -> Plan:
    return combine(cla_k(shape, every), cla_v(shape, every))


@_variant(SKIPV1, "appendix B.1; ResFormer, Fig. 4", "every second layer uses the values before it")
def cla_v(shape: Shape, every: int = 2) -> Plan:
    at_least("every", every, 1)
    return plan(shape, values=lambda n, h: v(n - (n - 1) % every, h))


@_variant(RESFORMER, "section 3.5, Fig. 4", "every second layer uses the keys before it")
def cla_k(shape: Shape, every: int = 2) -> Plan:
    at_least("every", every, 1)
    return plan(shape, keys=lambda n, h: k(n - (n - 1) % every, h))


@_variant(SKIPV1, "appendix B.1 (You Only Cache Once)", "the upper half uses the middle layer's keys and values")
def yoco(shape: Shape) -> Plan:
    """The sharing only; the paper's YOCO also has efficient attention in its lower half."""
    return combine(yoco_k(shape), yoco_v(shape))


@_variant(SKIPV1, "appendix B.1", "the upper half uses the middle layer's values")
def yoco_v(shape: Shape) -> Plan:
    return plan(shape, values=lambda n, h: v(min(n, _middle(shape)), h))


@_variant(SKIPV1, "appendix C.5", "the upper half uses the middle layer's keys")
def yoco_k(shape: Shape) -> Plan:
    return plan(shape, keys=lambda n, h: k(min(n, _middle(shape)), h))


def _middle(shape: Shape) -> int:
    return max(1, shape.layers // 2)


# --- some heads from layer 1 ----------------------------------------------------------------------------------------


def _own_heads(shape: Shape, ratio: float) -> int:
    """How many heads a layer keeps; the others, `ratio` of them rounded down, skip."""
    if isinstance(ratio, bool) or not 0 <= ratio <= 1:
        raise ValueError(f"ratio must lie in [0, 1], got {ratio}")
    skipped = int(ratio * shape.heads + 1e-9)
    if skipped == 0 and ratio > 0:
        raise ValueError(f"a ratio of {ratio:g} leaves no head to skip among {shape.heads} value heads")
    return shape.heads - skipped


@_variant(SKIPV1, "section 3.2", "half of the value heads are layer 1's")
def skipv1(shape: Shape, ratio: float = 0.5, source: int = 1) -> Plan:
    """After layer `source`: own heads first, then the source's last heads.  Ratios: section 6.5, Fig. 9a."""
    own = _own_heads(shape, ratio)
    if not 1 <= source <= shape.layers:
        raise ValueError(f"source must be one of the {shape.layers} layers, got {source}")
    return plan(shape, values=lambda n, h: v(source, h) if n > source and h > own else v(n, h))


@_variant(SKIPV1, "section 6.5, Fig. 9b", "half of the value heads are layer 2's")
def skipv2(shape: Shape, ratio: float = 0.5) -> Plan:
    return skipv1(shape, ratio, source=2)


@_variant(SKIPV1, "section 6.5, Fig. 9b", "half of the heads are removed after layer 1")
def skipv0(shape: Shape, ratio: float = 0.5) -> Plan:
    """Reading of "reusing no values": a head without a value is not there, nor are its queries, keys and output."""
    own = _own_heads(shape, ratio)
    return plan(shape, values=lambda n, h: NOTHING if n > 1 and h > own else v(n, h))


@_variant(SKIPV1, "appendix C.4, pooling", "half of the value heads are means of two of layer 1's")
def skipv1_pooling(shape: Shape) -> Plan:
    half = _own_heads(shape, 0.5)
    return plan(shape, values=lambda n, h: 0.5 * v(1, h - half) + 0.5 * v(1, h) if n > 1 and h > half else v(n, h))


@_variant(SKIPV1, "appendix C.4, dynamic", "half of the value heads are layer 1's, other ones in every layer")
def skipv1_dynamic(shape: Shape) -> Plan:
    """Layer n's skip heads are layer 1's heads n, n + 1, ..., round and round: our reading of one sentence."""
    half = _own_heads(shape, 0.5)
    return plan(
        shape, values=lambda n, h: v(1, (h - half + n - 2) % shape.heads + 1) if n > 1 and h > half else v(n, h)
    )


@_variant(SKIPV1, "appendix C.4, odd/even", "half of the value heads are layer 1's, first or second half in turn")
def skipv1_odd_even(shape: Shape) -> Plan:
    half = _own_heads(shape, 0.5)
    return plan(shape, values=lambda n, h: v(1, h - half if n % 2 else h) if n > 1 and h > half else v(n, h))


@_variant(
    SKIPV1, "appendix C.4, SkipV1 + ResFormer", "half of the value heads are layer 1's, which are added to the rest"
)
def skipv1_resformer(shape: Shape) -> Plan:
    half = _own_heads(shape, 0.5)
    return plan(shape, values=lambda n, h: v(1, h) if n == 1 or h > half else v(n, h) + v(1, h))


@_variant(SKIPV1, "appendix C.5", "half of the key and of the value heads are layer 1's")
def skipkv1(shape: Shape, ratio: float = 0.5) -> Plan:
    """The same heads for both: our reading of "the first layer's K and V", which are to save half of the cache."""
    own = _own_heads(shape, ratio)
    keys = plan(shape, keys=lambda n, h: k(1, h) if h > own else k(n, h))
    return combine(skipv1(shape, ratio), keys)


@_variant(SKIPV1, "appendix C.5", "SkipV1Former, and the upper half uses the middle layer's keys")
def skipv1_yoco(shape: Shape, ratio: float = 0.5) -> Plan:
    return combine(skipv1(shape, ratio), yoco_k(shape))


# --- queries and keys -----------------------------------------------------------------------------------------------


@_variant(RESFORMER, "section 4.3, Fig. 7", "every query is half its own, half layer 1's")
def residual_queries(shape: Shape) -> Plan:
    return plan(shape, queries=lambda n, h: 0.5 * q(n, h) + 0.5 * q(1, h))


@_variant(RESFORMER, "section 4.3, Fig. 7", "every key is half its own, half layer 1's")
def residual_keys(shape: Shape) -> Plan:
    return plan(shape, keys=lambda n, h: 0.5 * k(n, h) + 0.5 * k(1, h))


@_variant(RESFORMER, "section 4.8, Fig. 16", "all layers use layer 1's queries")
def shared_queries(shape: Shape) -> Plan:
    return plan(shape, queries=lambda n, h: q(1, h))


@_variant(RESFORMER, "section 4.8, Fig. 16", "all layers use layer 1's keys")
def shared_keys(shape: Shape) -> Plan:
    return plan(shape, keys=lambda n, h: k(1, h))


@_variant(RESFORMER, "section 3.1, Eqn. 2", "every layer also attends over the keys and values of the layer before")
def cross_layer(shape: Shape, source: int = 0) -> Plan:
    """One softmax over [K_n ; K_m]: m = `source`, or the layer before where that is 0."""
    if not 0 <= source <= shape.layers:
        raise ValueError(f"source must be 0 or one of the {shape.layers} layers, got {source}")

    def with_other(own: Rule) -> SegmentRule:
        def both(n: int, h: int) -> Mix | Segments:
            return (own(n, h), own(source or n - 1, h)) if n > (source or 1) else own(n, h)

        return both

    return plan(shape, keys=with_other(k), values=with_other(v))


# --- depth ----------------------------------------------------------------------------------------------------------


@_variant(RESFORMER, "section 3.4 (DenseFormer)", "after every layer, a learned sum of all layers' outputs")
def denseformer(shape: Shape) -> Plan:
    return plan(shape, depth=DepthAverage())


@_variant(ATTNRES, "Full AttnRes", "every sublayer reads a softmax over all earlier outputs")
def attnres(shape: Shape) -> Plan:
    return plan(shape, depth=DepthAttention())


@_variant(
    ATTNRES,
    "Block AttnRes",
    "every sublayer reads a softmax over the outputs of blocks of sublayers, which may end inside a layer",
)
def attnres_block(shape: Shape, blocks: int = 8, size: int = 0, layers: int = 0) -> Plan:
    """Blocks of `size` sublayers, or of `layers` whole decoder layers; 0 and 0: as few as make at most `blocks` blocks.

    A layer counts as two sublayers, attention and feed-forward.  A block of an odd number of sublayers ends between the
    two, as it does by default where 2 L / blocks, rounded up, is odd: three sublayers a block at 12 layers.  The
    released models count in decoder layers: theirs are of the form `layers`, as `layers=3` at 27 layers, nine blocks of
    six sublayers.  The last block takes what remains.
    """
    at_least("size", size, 0)
    at_least("layers", layers, 0)
    if size and layers:
        raise ValueError(f"a block's length is given by size or by layers, not by both: got {size} and {layers}")
    if layers > shape.layers:
        raise ValueError(f"layers must be at most the {shape.layers} there are, got {layers}")
    block = _block_of(shape, blocks)
    return plan(shape, depth=DepthAttention(block=2 * layers or size or block))


def _block_of(shape: Shape, blocks: int) -> int:
    at_least("blocks", blocks, 1)
    return ceil(2 * shape.layers / blocks)


@_variant(ATTNRES, "paper, ablation: no key norm", "AttnRes whose keys are not normalised")
def attnres_no_key_norm(shape: Shape) -> Plan:
    return plan(shape, depth=DepthAttention(key_norm=False))


@_variant(ATTNRES, "paper, ablation: sigmoid", "AttnRes with sigmoid weights")
def attnres_sigmoid(shape: Shape) -> Plan:
    return plan(shape, depth=DepthAttention(score="sigmoid"))


@_variant(ATTNRES, "paper, ablation: static mixing", "AttnRes whose weights do not depend on the input")
def attnres_static(shape: Shape) -> Plan:
    return plan(shape, depth=DepthAttention(query="static"))


@_variant(ATTNRES, "paper, ablation: input-dependent query", "AttnRes whose query depends on the newest output")
def attnres_input_query(shape: Shape) -> Plan:
    return plan(shape, depth=DepthAttention(query="input"))


@_variant(ATTNRES, "paper, ablation: sliding window", "AttnRes over the embedding and the newest eight outputs")
def attnres_window(shape: Shape, window: int = 8) -> Plan:
    return plan(shape, depth=DepthAttention(window=window))


@_variant(ATTNRES, "paper, ablation: heads", "AttnRes with a softmax for each of 16 parts of the width")
def attnres_heads(shape: Shape, heads: int = 16, blocks: int = 8) -> Plan:
    return plan(shape, depth=DepthAttention(block=_block_of(shape, blocks), heads=heads))


# --- dynamic values -------------------------------------------------------------------------------------------------


@_variant(DVA, "section 3.2", "values that depend on the query; no feed-forward, no output projection")
def dva(shape: Shape) -> Plan:
    return plan(shape, dynamic="revised", feed_forward=False, output_projection=False)


@_variant(DVA, "section 3.1", "the same, in the initial form")
def dva_initial(shape: Shape) -> Plan:
    """The matrix qR^T kR acts on the row v: our reading, as the text lacks the equations."""
    return plan(shape, dynamic="initial", feed_forward=False, output_projection=False)


@_variant(DVA, "section 3.2, in a normal block", "values that depend on the query")
def dva_attention(shape: Shape) -> Plan:
    return plan(shape, dynamic="revised")


@_variant(DVA, "section 3.1, in a normal block", "values that depend on the query, in the initial form")
def dva_initial_attention(shape: Shape) -> Plan:
    return plan(shape, dynamic="initial")
