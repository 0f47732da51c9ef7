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


@variant(PAPER, "Block AttnRes", "every sublayer reads a softmax over the outputs of blocks of sublayers")
def attnres_block(shape: Shape, blocks: int = 8, size: int = 0) -> Plan:
    """`size` sublayers a block; 0: as few as make at most `blocks` blocks, at two sublayers a layer."""
    at_least("size", size, 0)
    block = _block_of(shape, blocks)
    return plan(shape, depth=DepthAttention(block=size or block))


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
