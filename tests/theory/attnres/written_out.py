"""Norms and sublayers written out in numpy, and small decoders in float64 with norms of eps 0, under any depth rule."""

import math
from dataclasses import replace

import numpy as np

from theory.plans.architecture import Architecture, Vectors
from theory.plans.plan import DepthAttention, Residual, Shape, plan
from theory.plans.presets import llama


def unit(x, eps=0.0, centred=False):
    """RMSNorm or LayerNorm of the last dimension, without gain."""
    x = x - x.mean(-1, keepdims=True) if centred else x
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + eps)


def softmax(x):
    weights = np.exp(x - x.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


def attention(value, output, normed, logits):
    """normed (T, d), logits (H, T, T) -> (T, d)."""
    return sum(softmax(row) @ normed @ v.T @ o.T for v, o, row in zip(value, output, logits, strict=True))


def sigma(a):
    return np.exp(-np.logaddexp(0, -a))


def feed_forward(gate, up, down, normed):
    if gate is None:
        cdf = np.vectorize(lambda a: math.erfc(-a / math.sqrt(2)) / 2)
        inner = normed @ up.T * cdf(normed @ up.T)
    else:
        a = normed @ gate.T
        inner = a * sigma(a) * (normed @ up.T)
    return inner @ down.T


def largest(x):
    return float(np.linalg.norm(x, axis=-1).max())


EXACT = 1e-12
SIZES = replace(llama(d_model=4, n_heads=1, n_layers=3, d_ff=2, vocab=2, context=4), norm_eps=0.0)
ATTAINED = ["vanilla", "attnres", "attnres-block:size=1", "attnres-block:size=3", "attnres-window:window=2"]
RULES = [Residual(), DepthAttention(), DepthAttention(block=2), DepthAttention(block=5)]


def config_of(layers, **changes):
    config = Architecture(d_model=4, n_layers=layers, n_heads=1, d_ff=4, context=8, stem=Vectors(4), positions="none")
    return replace(config, **changes)


def plan_of(layers, depth):
    return plan(Shape(layers, 1), depth=depth)
