"""Training steps at full size: tokens a second and MFU of the plain model, each variant's step time as a ratio to it.

Every variant is timed beside vanilla, in turns, so that a machine that gets slower slows both.  Before it is timed, a
variant's loss and gradients under the fast path (bf16, compiled, where they are used) are held against the plain path
in fp32, on a small batch: a path that computes something else is not reported.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from experiments.progress import progress
from experiments.protocol import Json
from experiments.runs import UserError, provenance, write_atomically
from theory.architecture import Architecture, Tokens

if TYPE_CHECKING:
    import torch

    from icl.models.decoder import Decoder
    from icl.training.recipe import Recipe

BASELINE = "vanilla"
VARIANTS = (
    "vanilla,resformer,skipv1,svformer,skipv0,cla-v,yoco-v,neutreno,denseformer,attnres-block,attnres,dva-attention"
)
TOKENS_A_STEP = 32_768
WARM_UP, TIMED, TURNS = 3, 5, 3
AGREES = {"fp32": 1e-3, "bf16": 0.1}  # relative distance of the gradients; bf16 keeps 8 bits


def bench_step(options: argparse.Namespace) -> int:
    """Run, print, write; 1 if a fast path gives another answer."""
    from experiments.train_commands import chosen_device
    from theory.names import model

    device = chosen_device(options.device)
    names = (options.variants or VARIANTS).split(",")
    config, _ = model(options.preset)
    if not isinstance(config.stem, Tokens):
        raise UserError(f"{options.preset} does not read tokens; name a preset that does")
    for name in names:
        model(options.preset, name)  # refuses what does not fit
    if options.out is not None and not options.out.parent.is_dir():
        options.out.parent.mkdir(parents=True)
    config = replace(config, context=options.context or config.context)
    batch = options.batch or max(1, TOKENS_A_STEP // config.context)
    if batch < 1:
        raise UserError(f"--batch must be at least 1, got {batch}")
    from icl.training.recipe import Recipe

    fast = device == "cuda"
    recipe = Recipe(1000, batch, 1e-4, precision="bf16" if fast else "fp32", compile=fast)
    done = {}
    with progress("training steps", len(names)) as at:
        at(0)
        for i, name in enumerate(names):
            done[name] = _against_baseline(config, name, recipe, device)
            at(i + 1, f"{name}: {done[name]['ratio']:.3f} of vanilla's step")
    baseline = done.get(BASELINE) or next(iter(done.values()))
    result = {
        "benchmark": "step",
        "preset": options.preset,
        "batch": batch,
        "context": config.context,
        "precision": recipe.precision,
        "compiled": recipe.compile,
        "baseline": {k: baseline[k] for k in ("tokens_per_second", "mfu")},
        "variants": done,
        **provenance(device),
    }
    if options.out is not None:
        write_atomically(options.out, json.dumps(result, indent=1) + "\n")
    print(json.dumps(result, indent=1) if options.json else _text(result))
    return int(not all(v["same_answer"] for v in done.values()))


def _text(result: Json) -> str:
    base = result["baseline"]
    mfu = "" if base["mfu"] is None else f", {base['mfu']:.1%} MFU"
    size = f"{result['batch']} x {result['context']} tokens"
    path = f"{result['precision']}{', compiled' if result['compiled'] else ''}"
    lines = [f"{result['preset']} {BASELINE}: {base['tokens_per_second']:,.0f} tokens/s{mfu} ({size}, {path})"]
    for name, v in result["variants"].items():
        wrong = "" if v["same_answer"] else "   NOT COMPARABLE: the fast path gives another answer"
        lines.append(f"  {name:16} {v['ratio']:.3f} of vanilla's step time ({v['low']:.3f} to {v['high']:.3f}){wrong}")
    return "\n".join([*lines, f"{result['device']}, commit {result['commit']}"])


def _against_baseline(config: Architecture, name: str, recipe: Recipe, device: str) -> Json:
    """Both in turns: the median of the turns' ratios, the lowest and the highest."""
    import torch

    from icl.training.devices import peak_flops
    from theory.accounting import flops

    torch.manual_seed(0)
    sides = [_Side(config, variant, recipe, device) for variant in (BASELINE, name)]
    same = sides[1].same_answer()
    for side in sides:
        side.seconds(WARM_UP)
    turns = [[side.seconds(TIMED) for side in sides] for _ in range(TURNS)]
    ratios = sorted(variant / baseline for baseline, variant in turns)
    seconds = sorted(turn[1] for turn in turns)[TURNS // 2]
    speed = recipe.batch * config.context / seconds
    token = 3 * flops(config, sides[1].model.plan, (config.context + 1) // 2)
    peak = peak_flops(torch.device(device), recipe.precision)
    return {
        "ratio": ratios[TURNS // 2],
        "low": ratios[0],
        "high": ratios[-1],
        "seconds": seconds,
        "tokens_per_second": speed,
        "mfu": speed * token / peak if peak else None,
        "flops_ratio": token / (3 * flops(config, sides[0].model.plan, (config.context + 1) // 2)),
        "same_answer": same,
    }


class _Side:
    """A model, its optimiser, and a batch."""

    def __init__(self, config: Architecture, variant: str, recipe: Recipe, device: str) -> None:
        import torch

        from icl.models.decoder import Decoder
        from icl.training.optimiser import adamw
        from theory.names import resolve

        self.config, self.recipe, self.device = config, recipe, torch.device(device)
        self.model: Decoder = Decoder(config, resolve(variant, config.shape), device=device)
        self.optimiser = adamw(self.model, recipe)
        vocab = config.stem.vocab if isinstance(config.stem, Tokens) else 1
        self.tokens = torch.randint(vocab, (recipe.batch, config.context + 1), device=device)
        self.plain = self._gradients(2, fast=False)
        if recipe.compile:
            self.model.compile(dynamic=False)

    def _loss(self, tokens: torch.Tensor, *, fast: bool) -> torch.Tensor:
        import torch
        from torch.nn.functional import cross_entropy

        with torch.autocast(self.device.type, torch.bfloat16, enabled=fast and self.recipe.precision == "bf16"):
            scores = self.model(tokens[:, :-1])
            return cross_entropy(scores.flatten(0, 1).float(), tokens[:, 1:].flatten())

    def _gradients(self, rows: int, *, fast: bool) -> torch.Tensor:
        import torch

        loss = self._loss(self.tokens[:rows], fast=fast)
        found = torch.autograd.grad(loss, list(self.model.parameters()), allow_unused=True)
        return torch.cat([g.flatten().float() for g in found if g is not None])

    def same_answer(self) -> bool:
        """Whether the fast path's gradients are the plain path's, as far as the precision goes."""
        fast = self._gradients(2, fast=True)
        return bool((fast - self.plain).norm() <= AGREES[self.recipe.precision] * self.plain.norm())

    def seconds(self, steps: int) -> float:
        """Of one step, mean over `steps`."""
        self._wait()
        began = time.perf_counter()
        for _ in range(steps):
            self._loss(self.tokens, fast=True).backward()
            self.optimiser.step()
            self.optimiser.zero_grad(set_to_none=True)
        self._wait()
        return (time.perf_counter() - began) / steps

    def _wait(self) -> None:
        import torch

        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
