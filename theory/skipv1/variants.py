"""SkipV1Former, its ablations, and the ways of sharing to which its paper compares it, as plans."""

from __future__ import annotations

from theory.errors import at_least
from theory.plans.combine import combine
from theory.plans.mix import NOTHING, Mix, first, k, later, v
from theory.plans.plan import Plan, Shape, plan
from theory.plans.variants import variant
from theory.skipv1.paper import PAPER


def _own_heads(shape: Shape, ratio: float) -> int:
    """Return how many heads a layer keeps; the others, `ratio` of them rounded down, skip."""
    if isinstance(ratio, bool) or not 0 <= ratio <= 1:
        raise ValueError(f"ratio must lie in [0, 1], got {ratio}")
    skipped = int(ratio * shape.heads + 1e-9)
    if skipped == 0 and ratio > 0:
        raise ValueError(f"a ratio of {ratio:g} leaves no head to skip among {shape.heads} value heads")
    return shape.heads - skipped


@variant(PAPER, "section 3.2", "half of the value heads are layer 1's")
def skipv1(shape: Shape, ratio: float = 0.5, source: int = 1, sink: int = 0) -> Plan:
    """Give layers after `source` their own heads first, then the source's last heads.  Ratios: section 6.5, Fig. 9a.

    With sink=1, which the paper does not have, a sequence's first token keeps its own values.  Trained models attend to
    it to attend to nothing, and its values are small.
    """
    own = _own_heads(shape, ratio)
    if not 1 <= source <= shape.layers:
        raise ValueError(f"source must be one of the {shape.layers} layers, got {source}")
    if sink not in (0, 1):
        raise ValueError(f"sink must be 0 or 1, got {sink}")

    def skipped(n: int, h: int) -> Mix:
        return later(v(source, h)) + first(v(n, h)) if sink else v(source, h)

    return plan(shape, values=lambda n, h: skipped(n, h) if n > source and h > own else v(n, h))


@variant(PAPER, "section 6.5, Fig. 9b", "half of the value heads are layer 2's")
def skipv2(shape: Shape, ratio: float = 0.5) -> Plan:
    return skipv1(shape, ratio, source=2)


@variant(PAPER, "section 6.5, Fig. 9b", "half of the heads are removed after layer 1")
def skipv0(shape: Shape, ratio: float = 0.5) -> Plan:
    """Leave out a head without a value, with its queries, keys and output: our reading of "reusing no values"."""
    own = _own_heads(shape, ratio)
    return plan(shape, values=lambda n, h: NOTHING if n > 1 and h > own else v(n, h))


@variant(PAPER, "appendix C.4, pooling", "half of the value heads are means of two of layer 1's")
def skipv1_pooling(shape: Shape) -> Plan:
    half = _own_heads(shape, 0.5)
    return plan(shape, values=lambda n, h: 0.5 * v(1, h - half) + 0.5 * v(1, h) if n > 1 and h > half else v(n, h))


@variant(PAPER, "appendix C.4, dynamic", "half of the value heads are layer 1's, other ones in every layer")
def skipv1_dynamic(shape: Shape) -> Plan:
    """Take layer 1's heads n, n + 1, ..., round and round, as layer n's skip heads: our reading of one sentence."""
    half = _own_heads(shape, 0.5)
    return plan(
        shape, values=lambda n, h: v(1, (h - half + n - 2) % shape.heads + 1) if n > 1 and h > half else v(n, h)
    )


@variant(PAPER, "appendix C.4, odd/even", "half of the value heads are layer 1's, first or second half in turn")
def skipv1_odd_even(shape: Shape) -> Plan:
    half = _own_heads(shape, 0.5)
    return plan(shape, values=lambda n, h: v(1, h - half if n % 2 else h) if n > 1 and h > half else v(n, h))


@variant(
    PAPER, "appendix C.4, SkipV1 + ResFormer", "half of the value heads are layer 1's, which are added to the rest"
)
def skipv1_resformer(shape: Shape) -> Plan:
    half = _own_heads(shape, 0.5)
    return plan(shape, values=lambda n, h: v(1, h) if n == 1 or h > half else v(n, h) + v(1, h))


@variant(PAPER, "appendix C.5", "half of the key and of the value heads are layer 1's")
def skipkv1(shape: Shape, ratio: float = 0.5) -> Plan:
    """Share the same heads of keys and values.

    This is our reading of "the first layer's K and V", which are to save half of the cache.
    """
    own = _own_heads(shape, ratio)
    keys = plan(shape, keys=lambda n, h: k(1, h) if h > own else k(n, h))
    return combine(skipv1(shape, ratio), keys)


@variant(PAPER, "appendix C.5", "SkipV1Former, and the upper half uses the middle layer's keys")
def skipv1_yoco(shape: Shape, ratio: float = 0.5) -> Plan:
    return combine(skipv1(shape, ratio), yoco_k(shape))


@variant(PAPER, "section 6.1 (Cross-Layer Attention)", "every second layer uses the keys and values before it")
def cla(shape: Shape, every: int = 2) -> Plan:
    at_least("every", every, 1)
    return plan(
        shape,
        keys=lambda n, h: k(n - (n - 1) % every, h),
        values=lambda n, h: v(n - (n - 1) % every, h),
    )


@variant(PAPER, "appendix B.1; ResFormer, Fig. 4", "every second layer uses the values before it")
def cla_v(shape: Shape, every: int = 2) -> Plan:
    at_least("every", every, 1)
    return plan(shape, values=lambda n, h: v(n - (n - 1) % every, h))


@variant(PAPER, "appendix B.1 (You Only Cache Once)", "the upper half uses the middle layer's keys and values")
def yoco(shape: Shape) -> Plan:
    """Share as YOCO does; the paper's YOCO also has efficient attention in its lower half."""
    return combine(yoco_k(shape), yoco_v(shape))


@variant(PAPER, "appendix B.1", "the upper half uses the middle layer's values")
def yoco_v(shape: Shape) -> Plan:
    return plan(shape, values=lambda n, h: v(min(n, _middle(shape)), h))


@variant(PAPER, "appendix C.5", "the upper half uses the middle layer's keys")
def yoco_k(shape: Shape) -> Plan:
    return plan(shape, keys=lambda n, h: k(min(n, _middle(shape)), h))


def _middle(shape: Shape) -> int:
    return max(1, shape.layers // 2)
