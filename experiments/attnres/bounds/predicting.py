"""What theory says of the networks that are looked at."""

from __future__ import annotations

from math import sqrt

from experiments.attnres.bounds.points import RULES, Config, at_start, attaining, cell, one_layer
from experiments.store.folders import Json
from theory.attnres.growth import largest_read
from theory.attnres.initial import initial_reads
from theory.attnres.typical import attention_square, feed_forward_square
from theory.plans.names import resolve


def predicted(config: Config) -> Json:
    """start, scaled: the last read's mean square at initial weights, and if outputs were scaled by depth; largest: that
    read in the worst network; typical: mean squares of sublayers' outputs, by kind and width."""
    start: Json = {}
    scaled: Json = {}
    largest: Json = {}
    for rule in RULES:
        for depth in config.depths:
            sizes = at_start(config, depth)
            plan = resolve(rule, sizes.shape)
            for found, scale in ((start, False), (scaled, True)):
                found[cell(rule, depth)] = initial_reads(sizes, plan, config.std, scale_outputs=scale)[-1]
            worst = attaining(depth)
            plan = resolve(rule, worst.shape)
            largest[cell(rule, depth)] = float(largest_read(plan.depth, worst.sublayers(plan), 1.0, 1.0))
    typical: Json = {}
    for width in config.widths:
        layer, std = one_layer(width), 1 / sqrt(width)
        inner = layer.d_ff
        typical[f"attention/{width}"] = attention_square(width, layer.n_heads, layer.width, std, std, share=1.0)
        typical[f"SwiGLU/{width}"] = feed_forward_square(width, inner, std, std, "swiglu")
        typical[f"GELU/{width}"] = feed_forward_square(width, inner, std, std, "gelu")
    return {
        "depths": list(config.depths),
        "widths": list(config.widths),
        "trained_depths": list(config.trained_depths),
        "start": start,
        "scaled": scaled,
        "largest": largest,
        "typical": typical,
    }
