"""What tests of growth and of depth rules share: small decoders in float64, with norms of eps 0, and plans."""

from dataclasses import replace

from theory.plans.architecture import Architecture, Vectors
from theory.plans.plan import DepthAttention, Residual, Shape, plan
from theory.plans.presets import llama

EXACT = 1e-12
SIZES = replace(llama(d_model=4, n_heads=1, n_layers=3, d_ff=2, vocab=2, context=4), norm_eps=0.0)
ATTAINED = ["vanilla", "attnres", "attnres-block:size=1", "attnres-block:size=3", "attnres-window:window=2"]
RULES = [Residual(), DepthAttention(), DepthAttention(block=2), DepthAttention(block=5)]


def config_of(layers, **changes):
    config = Architecture(d_model=4, n_layers=layers, n_heads=1, d_ff=4, context=8, stem=Vectors(4), positions="none")
    return replace(config, **changes)


def plan_of(layers, depth):
    return plan(Shape(layers, 1), depth=depth)
