"""ResFormer, SVFormer and the variants to which their paper compares them, as plans."""

from __future__ import annotations

from theory.errors import at_least
from theory.plans.combine import combine
from theory.plans.mix import Learned, Mix, k, q, total, v
from theory.plans.plan import DepthAverage, Plan, Rule, SegmentRule, Segments, Shape, plan
from theory.plans.variants import variant
from theory.resformer.paper import PAPER


@variant(PAPER, "section 3.3, Eqn. 7", "every value is half its own, half layer 1's")
def resformer(shape: Shape, own: float = 0.5, first: float = 0.5) -> Plan:
    """Mix layer 1's values into those of every later layer; layer 1 is vanilla, whatever the weights."""
    return plan(shape, values=lambda n, h: v(1, h) if n == 1 else own * v(n, h) + first * v(1, h))


@variant(PAPER, "section 4.2, Fig. 6", "every value gets twice layer 1's added")
def resformer_constant(shape: Shape, weight: float = 2.0) -> Plan:
    """Attend with A_n (V_n + weight V_1)."""
    return resformer(shape, own=1.0, first=weight)


@variant(PAPER, "later versions of the paper", "every layer learns its two mixing weights")
def resformer_learned(shape: Shape, start: float = 0.5) -> Plan:
    def values(n: int, h: int) -> Mix:
        if n == 1:
            return v(1, h)
        return Learned(f"own_{n}", start) * v(n, h) + Learned(f"first_{n}", start) * v(1, h)

    return plan(shape, values=values)


@variant(PAPER, "later versions of the paper", "half of layer 1's values in the last layers only")
def resformer_sparse(shape: Shape, last: int = 0, own: float = 0.5, first: float = 0.5) -> Plan:
    """Mix layer 1's values into the last `last` layers; 0 stands for three eighths of them, as layers 6 to 8 of 8."""
    at_least("last", last, 0)
    if last > shape.layers:
        raise ValueError(f"last must be at most the {shape.layers} layers, got {last}")
    begin = shape.layers - (last or max(1, 3 * shape.layers // 8))
    return plan(shape, values=lambda n, h: own * v(n, h) + first * v(1, h) if n > max(1, begin) else v(n, h))


@variant(PAPER, "section 4.3, Fig. 9", "every value is half its own, half the layer before's")
def resformer_previous(shape: Shape) -> Plan:
    """Mix the previous layer's values into every layer, half and half.

    Cross-layer attention (Eqn. 2) becomes this when one's own keys replace the other layer's (Eqn. 4).
    """
    return plan(shape, values=lambda n, h: 0.5 * v(n, h) + 0.5 * v(max(1, n - 1), h))


@variant(PAPER, "section 3.2, Eqn. 5", "every value is the mean over all layers so far")
def resformer_all(shape: Shape) -> Plan:
    return plan(shape, values=lambda n, h: total(1 / n * v(i, h) for i in range(1, n + 1)))


@variant(PAPER, "section 3.2, Eqn. 6", "the mean of earlier values is added beside the attention")
def identity_mapping(shape: Shape) -> Plan:
    return plan(shape, beside=lambda n, h: total(1 / (n - 1) * v(i, h) for i in range(1, n)))


@variant(PAPER, "section 3.4, Eqn. 8", "0.4 (V_1 - V_n) is added beside the attention")
def neutreno(shape: Shape, weight: float = 0.4) -> Plan:
    """Add `weight` (V_1 - V_n) to every head's output, per token.

    The matrix of ones that Eqn. 8 puts before V_n has to be the identity, as in the authors' code.
    """
    return plan(shape, beside=lambda n, h: weight * v(1, h) - weight * v(n, h))


@variant(PAPER, "section 4.2, appendix A.3, and its code", "ResFormer, and 0.1 (V_1 - V_n) beside the attention")
def resformer_neutreno(shape: Shape, weight: float = 0.1) -> Plan:
    """Add `weight` (V_1 - V_n) to ResFormer, V_n being layer n's own values before mixing.

    The text sets lambda = 0.2 and does not say which values lambda is put before.  The authors' code puts it before V_1
    - (V_1 + V_n)/2, the mixed values standing where Eqn. 8 has V_n: that is 0.1 (V_1 - V_n).
    """
    return combine(resformer(shape), neutreno(shape, weight))


@variant(PAPER, "section 3.5, Eqn. 10", "all layers use layer 1's values")
def svformer(shape: Shape, anchors: tuple[int, ...] = (1,)) -> Plan:
    """Let only the `anchors` have values of their own (section 4.8, Fig. 17); others use the last anchor's."""
    if 1 not in anchors or not all(1 <= a <= shape.layers for a in anchors):
        raise ValueError(f"anchors must hold layer 1 and lie within the {shape.layers} layers, got {anchors}")
    return plan(shape, values=lambda n, h: v(max(a for a in anchors if a <= n), h))


@variant(PAPER, "section 3.5, Fig. 4", "every second layer uses the keys before it")
def cla_k(shape: Shape, every: int = 2) -> Plan:
    at_least("every", every, 1)
    return plan(shape, keys=lambda n, h: k(n - (n - 1) % every, h))


@variant(PAPER, "section 4.3, Fig. 7", "every query is half its own, half layer 1's")
def residual_queries(shape: Shape) -> Plan:
    return plan(shape, queries=lambda n, h: 0.5 * q(n, h) + 0.5 * q(1, h))


@variant(PAPER, "section 4.3, Fig. 7", "every key is half its own, half layer 1's")
def residual_keys(shape: Shape) -> Plan:
    return plan(shape, keys=lambda n, h: 0.5 * k(n, h) + 0.5 * k(1, h))


@variant(PAPER, "section 4.8, Fig. 16", "all layers use layer 1's queries")
def shared_queries(shape: Shape) -> Plan:
    return plan(shape, queries=lambda n, h: q(1, h))


@variant(PAPER, "section 4.8, Fig. 16", "all layers use layer 1's keys")
def shared_keys(shape: Shape) -> Plan:
    return plan(shape, keys=lambda n, h: k(1, h))


@variant(PAPER, "section 3.1, Eqn. 2", "every layer also attends over the keys and values of the layer before")
def cross_layer(shape: Shape, source: int = 0) -> Plan:
    """Attend by one softmax over [K_n ; K_m]: m = `source`, or the layer before where that is 0."""
    if not 0 <= source <= shape.layers:
        raise ValueError(f"source must be 0 or one of the {shape.layers} layers, got {source}")

    def with_other(own: Rule) -> SegmentRule:
        def both(n: int, h: int) -> Mix | Segments:
            return (own(n, h), own(source or n - 1, h)) if n > (source or 1) else own(n, h)

        return both

    return plan(shape, keys=with_other(k), values=with_other(v))


@variant(PAPER, "section 3.4 (DenseFormer)", "after every layer, a learned sum of all layers' outputs")
def denseformer(shape: Shape) -> Plan:
    return plan(shape, depth=DepthAverage())
