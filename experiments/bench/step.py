"""Training steps at full size: tokens per second, MFU, memory, and each variant's step time as a ratio to vanilla's.

Every variant is timed beside vanilla (`experiments.experiment.turns`), after its fast path has given the plain path's
gradients (`experiments.training.timed_step`): a path that computes something else is not reported.  A variant that
fails, for want of memory or whatever else, is named with its error, and the others go on.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median

from experiments.experiment.turns import in_turns, ratio, words
from experiments.store.folders import Json, UserError
from experiments.store.progress import progress
from experiments.store.provenance import provenance
from experiments.training.timed_step import Side
from icl.files import opened, sealed, write_atomically
from theory.plans.architecture import Tokens

BASELINE = "vanilla"
VARIANTS = (
    "vanilla,resformer,skipv1,svformer,skipv0,cla-v,yoco-v,neutreno,denseformer,attnres-block,attnres,dva-attention"
)
TOKENS_A_STEP = 32_768
TIMED = 5  # steps a turn


def bench_step(options: argparse.Namespace) -> int:
    """Run, print and write; return 1 if a fast path gives another answer.  What --out holds of the same is kept."""
    from experiments.training.device import check_at_least_one, chosen_device
    from icl.recipe import Recipe
    from theory.plans.names import model

    device = chosen_device(options.device)
    check_at_least_one(context=options.context, batch=options.batch)
    names = (options.variants or VARIANTS).split(",")
    config, _ = model(options.preset)
    if not isinstance(config.stem, Tokens):
        raise UserError(f"{options.preset} does not read tokens; name a preset that does")
    for name in names:
        model(options.preset, name)  # refuses what does not fit
    config = replace(config, context=config.context if options.context is None else options.context)
    batch = max(1, TOKENS_A_STEP // config.context) if options.batch is None else options.batch
    fast = device == "cuda"
    recipe = Recipe(steps=1000, batch=batch, learning_rate=1e-4, precision="bf16" if fast else "fp32", compile=fast)
    result = {
        "benchmark": "step",
        "preset": options.preset,
        "batch": batch,
        "context": config.context,
        "precision": recipe.precision,
        "compiled": recipe.compile,
        **provenance(device, __name__),
    }
    done = _written(options.out, result)
    if todo := [name for name in names if name not in done]:
        baseline = Side(config, BASELINE, recipe, device=device)
        with progress("training steps", len(todo)) as at:
            for i, name in enumerate(todo):
                at(i, name)
                done[name] = _tried(baseline, name)
                if options.out is not None:
                    options.out.parent.mkdir(parents=True, exist_ok=True)
                    write_atomically(options.out, json.dumps(sealed({**result, "variants": done}), indent=1) + "\n")
            at(len(todo))
    result["variants"] = {name: done[name] for name in names}
    print(json.dumps(result, indent=1) if options.json else _text(result))
    return int(not all(v.get("same_answer") for v in result["variants"].values()))


def _written(path: Path | None, result: Json) -> Json:
    """Return the variants whose ratios an earlier run of the same benchmark, perhaps interrupted, has decided.

    Raises:
        UserError: if the file is no result of this benchmark.
    """
    if path is None or not path.exists():
        return {}
    try:
        before, _ = opened(path.read_bytes())
        same = all(before[key] == value for key, value in result.items() if key not in ("commit", "source"))
        decided = {name: v for name, v in before["variants"].items() if v.get("ratio") is not None}
        return decided if same else {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise UserError(f"{path} is no result of this benchmark; delete it or name another file") from None


def _text(result: Json) -> str:
    size = f"{result['batch']} x {result['context']} tokens"
    path = f"{result['precision']}{', compiled' if result['compiled'] else ''}"
    lines = [f"{result['preset']}, a training step of {size}, {path}; times as ratios to {BASELINE}, in turns:"]
    for name, v in result["variants"].items():
        if "failed" in v:
            lines.append(f"  {name:16} failed: {v['failed']}")
            continue
        wrong = "" if v["same_answer"] else "   NOT COMPARABLE: the fast path gives another answer"
        mfu = "" if v["mfu"] is None else f", {v['mfu']:.1%} MFU"
        memory = "" if v.get("memory") is None else f", {v['memory'] / 1e9:.1f} GB"
        lines.append(f"  {name:16} {words(v)}  {v['tokens_per_second']:,.0f} tokens/s{mfu}{memory}{wrong}")
    return "\n".join([*lines, f"{result['device']}, commit {result['commit']}"])


def _tried(baseline: Side, name: str) -> Json:
    """Return the comparison of a variant with vanilla, or why it failed."""
    try:
        return _against(baseline, name)
    except (RuntimeError, ValueError, ArithmeticError, AssertionError) as error:  # torch's own errors are the first
        return {"failed": f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"[:400]}


def _against(baseline: Side, name: str) -> Json:
    """Compare a variant with vanilla, in turns; vanilla itself is not built, nor compiled, a second time."""
    from icl.training.loop import peak_flops
    from theory.plans.accounting import flops

    config, recipe, device = baseline.config, baseline.recipe, baseline.device
    side = baseline if name == BASELINE else Side(config, name, recipe, device=str(device))
    memory = side.memory()
    same = side.same_answer()
    turns = in_turns({BASELINE: partial(baseline.seconds, TIMED), "variant": partial(side.seconds, TIMED)})
    seconds = median(turns["variant"])
    speed = recipe.batch * config.context / seconds
    own, vanilla = (3 * flops(config, x.model.plan, (config.context + 1) // 2) for x in (side, baseline))
    peak = peak_flops(device, recipe.precision)
    return {
        **ratio(turns["variant"], turns[BASELINE]),
        "seconds": seconds,
        "tokens_per_second": speed,
        "mfu": speed * own / peak if peak else None,
        "flops_ratio": own / vanilla,
        "memory": memory,
        "same_answer": same,
    }
