"""What theory says of the networks that are looked at."""

from __future__ import annotations

from math import sqrt

from experiments.attnres.bounds.points import PRESET_STD, RULES, STARTS, Config, at_start, attaining, cell, one_layer
from experiments.store.folders import Json
from theory.attnres.growth import largest_read, typical_read
from theory.attnres.initial import initial_outputs, initial_reads
from theory.attnres.initial_tokens import token_reads
from theory.attnres.typical import attention_square, feed_forward_square
from theory.plans.names import resolve


def predicted(config: Config) -> Json:
    """start, scaled: the last read's mean square at initial weights, and if outputs are scaled by depth; preset: as a
    preset starts, by place, beside a lone token's and that of tokens which stay unrelated; largest: the last read in
    the worst network; uncorrelated: of uncorrelated outputs at zero queries; typical: mean squares of sublayers'
    outputs, by kind and width."""
    starts: Json = {kind: {} for kind in STARTS}
    largest: Json = {}
    uncorrelated: Json = {}
    for rule in RULES:
        for depth in config.depths:
            sizes = at_start(config, depth)
            plan = resolve(rule, sizes.shape)
            for kind, scale in STARTS.items():
                starts[kind][cell(rule, depth)] = initial_reads(sizes, plan, config.std, scale_outputs=scale)[-1]
            worst = attaining(depth)
            plan = resolve(rule, worst.shape)
            outputs = worst.sublayers(plan)
            largest[cell(rule, depth)] = float(largest_read(plan.depth, outputs, 1.0, 1.0))
            uncorrelated[cell(rule, depth)] = typical_read(plan.depth, outputs, 1.0, 1.0)
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
        "trained_width": config.trained.d_model,
        "trained_depths": list(config.trained_depths),
        **starts,
        "preset": _preset(config),
        "largest": largest,
        "uncorrelated": uncorrelated,
        "typical": typical,
    }


def _preset(config: Config) -> Json:
    """uneven: what is added, at most, by what the recursion leaves out, in parts of the whole."""
    plan = resolve("vanilla", config.preset.shape)
    embedding, *outputs = initial_outputs(config.preset, plan, PRESET_STD)
    attention, others = sum(outputs[::2]), embedding + sum(outputs[1::2])
    tokens = range(1, config.preset.context + 1)
    return {
        "squares": token_reads(config.preset, plan, len(tokens), PRESET_STD)[-1].tolist(),
        "lone": initial_reads(config.preset, plan, PRESET_STD)[-1],
        "unscaled": initial_reads(config.preset, plan, PRESET_STD, scale_outputs=False)[-1],
        "unrelated": [others + attention / t for t in tokens],
        "uneven": (config.preset.d_model * PRESET_STD**2) ** 2,
    }
