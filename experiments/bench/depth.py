"""The cost of attention over depth: a training step beside vanilla's, and the memory that it keeps.

It is timed in two phases, as it is written and, where there is one, by a GPU's kernel; memory stands beside what
accounting predicts for the first.  The model has 8 layers, width 256 and 256 tokens on a CPU, fp32, not compiled; on a
GPU it is LLaMA-350M at 2,048 tokens, bf16, compiled.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from statistics import median

from experiments.experiment.turns import in_turns, ratio, words
from experiments.store.folders import Json
from experiments.store.processes import threads as on_threads
from experiments.store.progress import progress
from experiments.store.provenance import provenance
from experiments.training.timed_step import Side
from icl.files import sealed, write_atomically
from icl.models.depth_attention import AttentionDepth
from icl.models.depth_kernel import KernelDepth, installed, misfit
from icl.recipe import Recipe
from theory.plans.accounting import two_phases
from theory.plans.architecture import Architecture
from theory.plans.depth import DepthAttention
from theory.plans.memory import activations
from theory.plans.names import model, resolve
from theory.plans.presets import llama

VARIANTS = ("attnres", "attnres-block")
WRITTEN, KERNEL = "as written", "fla's kernel"
BASELINE = "vanilla"
SMALL = llama(d_model=256, n_heads=4, n_layers=8, d_ff=688, vocab=256, context=256)
BATCH = {"cpu": 8, "cuda": 16}
TIMED = {"cpu": 4, "cuda": 5}  # steps a turn


def bench_depth(options: argparse.Namespace) -> int:
    """Run, print and write; return 1 if a path gives another answer."""
    from experiments.training.device import chosen_device

    device = chosen_device(options.device)
    config = SMALL if device == "cpu" else replace(model("llama-350m")[0], context=2048)
    with on_threads(options.threads):
        result = depth(config, device, (options.variants or ",".join(VARIANTS)).split(","), batch=BATCH[device])
    result = {"benchmark": "depth", **provenance(device, __name__), **result}
    if options.out is not None:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(options.out, json.dumps(sealed(result), indent=1) + "\n")
    print(json.dumps(result, indent=1) if options.json else _text(result))
    return int(not all(side["same_answer"] for side in result["sides"].values()))


def depth(config: Architecture, device: str, variants: Sequence[str], batch: int) -> Json:
    """Return ratios to vanilla's step and bytes kept, by side."""
    fast = device == "cuda"
    recipe = Recipe(steps=1000, batch=batch, learning_rate=1e-4, precision="bf16" if fast else "fp32", compile=fast)
    contenders: dict[str, tuple[str, type[AttentionDepth] | None]] = {BASELINE: (BASELINE, None)}
    for name in variants:
        rule = resolve(name, config.shape).depth
        contenders[name] = (name, None)
        if isinstance(rule, DepthAttention) and two_phases(rule):
            contenders[f"{name}, {WRITTEN}"] = (name, AttentionDepth)
            if fast and installed() and misfit(rule) is None:
                contenders[f"{name}, {KERNEL}"] = (name, KernelDepth)
    sides: dict[str, Side] = {}
    results: dict[str, Json] = {}
    with progress("equal to the plain path?", len(contenders)) as at:
        for i, (label, (name, reads)) in enumerate(contenders.items()):
            at(i, label)
            side = sides[label] = Side(config, name, recipe, device=device, reads=reads)
            tokens = batch * config.context
            formula = 4 * tokens * activations(config, resolve(name, config.shape), fused=fast)
            results[label] = {"same_answer": side.same_answer(), "kept": side.kept_for_backward(), "formula": formula}
        at(len(contenders))
    turns = in_turns({label: partial(side.seconds, TIMED[device]) for label, side in sides.items()})
    for label, of_turns in turns.items():
        results[label] |= {"seconds": median(of_turns), **ratio(of_turns, turns[BASELINE])}
    size = f"{config.n_layers} layers, width {config.d_model}, {batch} x {config.context} tokens"
    return {"what": f"{size}, {recipe.precision}{', compiled' if fast else ''}", "compiled": fast, "sides": results}


def _text(result: Json) -> str:
    lines = [f"a training step, {result['what']}; times as ratios to {BASELINE}, in turns:"]
    for label, side in result["sides"].items():
        formula = "" if result["compiled"] else f" (by formula {_mb(side['formula'])})"
        wrong = "" if side["same_answer"] else "   NOT COMPARABLE: this path gives other gradients"
        lines.append(f"  {label:26} {words(side)}  keeps {_mb(side['kept'])}{formula}{wrong}")
    return "\n".join([*lines, f"{result['device']}, commit {result['commit']}"])


def _mb(count: int) -> str:
    return f"{count / 1e6:,.0f} MB"
