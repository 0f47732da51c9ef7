"""Attention Residuals, Full and Block, and the ablations of the paper, as plans."""

from __future__ import annotations

from math import ceil

from theory.attnres.paper import PAPER
from theory.errors import at_least
from theory.plans.plan import DepthAttention, Plan, Shape, plan
from theory.plans.variants import variant


@variant(PAPER, "Full AttnRes", "every sublayer reads a softmax over all earlier outputs")
def attnres(shape: Shape) -> Plan:
    return plan(shape, depth=DepthAttention())


@variant(
    PAPER,
    "Block AttnRes",
    "every sublayer reads a softmax over the outputs of blocks of sublayers, which may end inside a layer",
)
def attnres_block(shape: Shape, blocks: int = 8, size: int = 0, layers: int = 0) -> Plan:
    """Give every block `size` sublayers, or `layers` decoder layers, or as few as make at most `blocks` blocks.

    The default is `blocks`, with size and layers 0.  A layer counts as two sublayers, attention and feed-forward.  A
    block of an odd number of sublayers ends between the two, as it does by default where 2 L / blocks, rounded up, is
    odd: three sublayers per block at 12 layers.  The released models count in decoder layers: theirs have the form
    `layers`, as `layers=3` at 27 layers, nine blocks of six sublayers.  The last block takes what remains.
    """
    at_least("size", size, 0)
    at_least("layers", layers, 0)
    if size and layers:
        raise ValueError(f"a block's length is given by size or by layers, not by both: got {size} and {layers}")
    if layers > shape.layers:
        raise ValueError(f"layers must be at most the {shape.layers} there are, got {layers}")
    block = _block_of(shape, blocks)
    return plan(shape, depth=DepthAttention(block=2 * layers or size or block))


@variant(PAPER, "paper, ablation: no key norm", "AttnRes whose keys are not normalised")
def attnres_no_key_norm(shape: Shape) -> Plan:
    return plan(shape, depth=DepthAttention(key_norm=False))


@variant(PAPER, "paper, ablation: sigmoid", "AttnRes with sigmoid weights")
def attnres_sigmoid(shape: Shape) -> Plan:
    return plan(shape, depth=DepthAttention(score="sigmoid"))


@variant(PAPER, "paper, ablation: static mixing", "AttnRes whose weights do not depend on the input")
def attnres_static(shape: Shape) -> Plan:
    return plan(shape, depth=DepthAttention(query="static"))


@variant(PAPER, "paper, ablation: input-dependent query", "AttnRes whose query depends on the newest output")
def attnres_input_query(shape: Shape) -> Plan:
    return plan(shape, depth=DepthAttention(query="input"))


@variant(PAPER, "paper, ablation: sliding window", "AttnRes over the embedding and the newest eight outputs")
def attnres_window(shape: Shape, window: int = 8) -> Plan:
    return plan(shape, depth=DepthAttention(window=window))


@variant(PAPER, "paper, ablation: heads", "AttnRes with a softmax for each of 16 parts of the width")
def attnres_heads(shape: Shape, heads: int = 16, blocks: int = 8) -> Plan:
    return plan(shape, depth=DepthAttention(block=_block_of(shape, blocks), heads=heads))


def _block_of(shape: Shape, blocks: int) -> int:
    at_least("blocks", blocks, 1)
    return ceil(2 * shape.layers / blocks)
