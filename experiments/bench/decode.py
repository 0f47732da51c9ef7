"""What a token costs when it is decoded: time over the tokens in the cache, beside vanilla's and beside transformers'.

Every side decodes one token at a time for some sequences, over a cache that holds so many tokens already; what these
were makes no difference to the time.  The bytes are of the cache, filled.  transformers, where it is installed, runs
LLaMA with the very weights of vanilla and its static cache.  Before anything is timed, each side's step is held against
a whole forward pass.

On a CPU of 8 layers, width 256, fp32; on a GPU of LLaMA-350M, bf16.  Not compiled.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from statistics import median
from typing import Any

import torch

from experiments.experiment.turns import TURNS, in_turns, ratio, words
from experiments.store.folders import Json
from experiments.store.progress import progress
from experiments.store.provenance import provenance
from experiments.store.threads import threads as on_threads
from icl.files import sealed, write_atomically
from icl.models.cache import Cache, step
from icl.models.decoder import Decoder
from theory.plans.accounting import cache as cached_numbers
from theory.plans.architecture import Architecture, Tokens
from theory.plans.names import model as named_model
from theory.plans.names import resolve, sized
from theory.plans.presets import llama

VARIANTS = ("skipv1", "gqa:group=2", "skipv1+gqa:group=2", "mla", "skipv1+mla", "attnres")
BASELINE, THEIRS = "vanilla", "transformers"
SMALL = llama(d_model=256, n_heads=8, n_layers=8, d_ff=688, vocab=256, context=4224)
SIZES = {"cpu": ((1, 128), (1, 4096), (8, 1024)), "cuda": ((1, 1024), (1, 16_384), (32, 4096))}  # sequences, tokens
STEPS = 8  # a turn
AGREES = {torch.float32: 1e-4, torch.bfloat16: 0.1}  # largest difference of scores, over the largest score


def bench_decode(options: argparse.Namespace) -> int:
    """Run, print, write; 1 if a step gives another answer than a whole pass."""
    from experiments.training.device import chosen_device

    device = chosen_device(options.device)
    config = SMALL if device == "cpu" else named_model("llama-350m")[0]
    names = [BASELINE, *(options.variants.split(",") if options.variants else VARIANTS)]
    with on_threads(options.threads):
        result = decode(config, device, list(dict.fromkeys(names)), SIZES[device])
    result = {"benchmark": "decode", **provenance(device, __name__), **result}
    if options.out is not None:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(options.out, json.dumps(sealed(result), indent=1) + "\n")
    print(json.dumps(result, indent=1) if options.json else _text(result))
    return int(not all(side["same_answer"] for side in result["sides"].values()))


def decode(config: Architecture, device: str, variants: Sequence[str], sizes: Sequence[tuple[int, int]]) -> Json:
    """By side: whether it gives the same answer, and by size bytes of the cache, seconds a token and ratios."""
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    longest = max(tokens for _, tokens in sizes) + STEPS * (TURNS + 1)
    models: dict[str, Decoder] = {}
    found: dict[str, Json] = {}
    with progress("equal to a whole pass?", len(variants) + 1) as at:
        for i, name in enumerate(variants):
            at(i, name)
            models[name] = _model(config, name, longest, device, dtype)
            found[name] = {"same_answer": _same_answer(models[name]), "sizes": {}}
        theirs = _theirs(models[BASELINE], dtype) if BASELINE in models and find_spec(THEIRS) else None
        if theirs is not None:
            found[THEIRS] = {"same_answer": _same_as(theirs, models[BASELINE]), "sizes": {}}
        at(len(variants) + 1)
    for batch, tokens in sizes:
        sides: dict[str, Callable[[], float]] = {}
        caches = {name: Cache(model, batch, tokens + STEPS) for name, model in models.items()}
        for name, model in models.items():
            sides[name] = partial(_seconds, model, caches[name], tokens)
        if theirs is not None:
            sides[THEIRS] = _Theirs(theirs, batch, tokens).seconds
        turns = in_turns(sides)
        for name in sides:
            found[name]["sizes"][f"{batch} x {tokens}"] = {
                "bytes": _bytes(models.get(name, models[BASELINE]), batch, tokens),
                "seconds": median(turns[name]),
                **ratio(turns[name], turns[BASELINE]),
            }
    what = f"{config.n_layers} layers, width {config.d_model}, {str(dtype).removeprefix('torch.')}"
    return {"what": what, "sides": found}


def _model(config: Architecture, variant: str, context: int, device: str, dtype: torch.dtype) -> Decoder:
    fitted, rest = sized(replace(config, context=max(context, config.context)), variant)
    return Decoder(fitted, resolve(rest, fitted.shape), std=0.1).to(device=device, dtype=dtype).eval()


def _seconds(model: Decoder, cache: Cache, tokens: int) -> float:
    """Of a step, with so many tokens in the cache already."""
    batch = len(cache.lengths)
    device = next(model.parameters()).device
    inputs = torch.zeros(batch, 1, dtype=torch.long, device=device)
    cache.lengths = [tokens] * batch
    _synchronise(device)
    began = time.perf_counter()
    for _ in range(STEPS):
        step(model, inputs, cache)
    _synchronise(device)
    return (time.perf_counter() - began) / STEPS


def _bytes(model: Decoder, batch: int, tokens: int) -> int:
    return batch * tokens * cached_numbers(model.config, model.plan).total * next(model.parameters()).element_size()


@torch.no_grad()
def _same_answer(model: Decoder, length: int = 24) -> bool:
    """Step by step as in one pass."""
    inputs = _tokens(model, length)
    cache = Cache(model, len(inputs), length)
    found = torch.cat([step(model, inputs[:, i : i + 1], cache) for i in range(length)], dim=1)
    return _near(found, model(inputs))


def _tokens(model: Decoder, length: int) -> torch.Tensor:
    assert isinstance(model.config.stem, Tokens)
    generator = torch.Generator().manual_seed(0)
    drawn = torch.randint(model.config.stem.vocab, (2, length), generator=generator)
    return drawn.to(next(model.parameters()).device)


def _near(one: torch.Tensor, other: torch.Tensor) -> bool:
    return float((one - other).abs().max() / other.abs().max()) <= AGREES[other.dtype]


def _theirs(model: Decoder, dtype: torch.dtype) -> Any:
    """transformers' LLaMA with the same weights."""
    import transformers

    from icl.published.writing import in_theirs

    config, tensors = in_theirs(model, dtype)
    about = {k: v for k, v in config.items() if k not in ("architectures", "model_type", "rope_theta", "rope_scaling")}
    device = next(model.parameters()).device
    with torch.device(device):
        theirs: Any = transformers.LlamaForCausalLM(transformers.LlamaConfig(**about))
        theirs = theirs.to(dtype).eval()
    theirs.load_state_dict(tensors)
    return theirs


@torch.no_grad()
def _same_as(theirs: Any, model: Decoder) -> bool:
    inputs = _tokens(model, 24)
    return _near(theirs(inputs).logits, model(inputs))


class _Theirs:
    """Its static cache goes on from turn to turn: it attends over all of its room whatever is filled."""

    def __init__(self, model: Any, batch: int, tokens: int) -> None:
        from transformers import StaticCache

        self.model, self.device = model, next(model.parameters()).device
        room = tokens + STEPS * (TURNS + 1)
        self.cache = StaticCache(config=model.config, max_cache_len=room)
        with torch.no_grad():
            for start in range(0, tokens, 1024):
                some = torch.zeros(batch, min(1024, tokens - start), dtype=torch.long, device=self.device)
                self.model(input_ids=some, past_key_values=self.cache, use_cache=True, logits_to_keep=1)
        self.inputs = torch.zeros(batch, 1, dtype=torch.long, device=self.device)

    @torch.no_grad()
    def seconds(self) -> float:
        _synchronise(self.device)
        began = time.perf_counter()
        for _ in range(STEPS):
            self.model(input_ids=self.inputs, past_key_values=self.cache, use_cache=True)
        _synchronise(self.device)
        return (time.perf_counter() - began) / STEPS


def _synchronise(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _text(result: Json) -> str:
    lines = [f"a decoded token, {result['what']}; times as ratios to {BASELINE}, in turns:"]
    for size in next(iter(result["sides"].values()))["sizes"]:
        batch, _, tokens = size.partition(" x ")
        lines.append(f"{batch} sequence{'s' if batch != '1' else ''} of {int(tokens):,} tokens")
        for name, side in result["sides"].items():
            found = side["sizes"][size]
            wrong = "" if side["same_answer"] else "   NOT COMPARABLE: its steps give other answers"
            shown = f"{1000 * found['seconds']:8.2f} ms   cache {found['bytes'] / 1e6:8.1f} MB"
            lines.append(f"  {name:22} {words(found):42} {shown}{wrong}")
    return "\n".join([*lines, f"{result['device']}, commit {result['commit']}"])
