"""The times of decoding on this machine: of a step and of reading a prompt, by variant, in turns.

A step decodes one token of some sequences, over a cache that already holds a number of tokens, whose contents make no
difference to the time.  transformers, where it is installed, runs LLaMA with the very weights of vanilla and its static
cache.  Before anything is timed, each side's step is compared with a whole forward pass.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from experiments.experiment import turns as taking_turns
from experiments.experiment.turns import in_turns
from experiments.store.folders import Json
from experiments.store.progress import progress
from icl.models.cache import Cache, read, step
from icl.models.decoder import Decoder
from theory.plans.architecture import Architecture, Tokens
from theory.plans.names import resolve, sized
from theory.plans.rooms import cache_bytes

BASELINE, THEIRS = "vanilla", "transformers"
STEPS = 8  # a turn
AGREES = {torch.float32: 1e-4, torch.bfloat16: 0.1}  # largest difference of scores, over the largest score


def decode_times(
    config: Architecture,
    device: str,
    variants: Sequence[str],
    sizes: Sequence[tuple[int, int]],
    *,
    prompts: Sequence[tuple[int, int]] = (),
    turns: int | None = None,
) -> Json:
    """Return the times of decoding, by side.

    Args:
        config: of the model.
        device: cpu or cuda.
        variants: one side each.
        sizes: sequences, and tokens that each has in the cache.
        prompts: sequences, and tokens of each, whose reading is timed.
        turns: of every side; by default those of `taking_turns`.

    Returns:
        By side: `apart`, how far its steps are from a whole pass, and `same_answer`, whether that is near enough
            (`AGREES`); by size the bytes of the cache and seconds of a step in every turn; by prompt the seconds of
            reading one, by turn.
    """
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    turns = taking_turns.TURNS if turns is None else turns
    longest = max(tokens for _, tokens in (*sizes, *prompts)) + STEPS  # every turn begins at the same length again
    models: dict[str, Decoder] = {}
    results: dict[str, Json] = {}
    with progress("equal to a whole pass?", len(variants) + 1) as at:
        for i, name in enumerate(variants):
            at(i, name)
            models[name] = model_of(config, name, longest, device=device, dtype=dtype)
            results[name] = {"apart": _steps_apart(models[name]), "sizes": {}, "prompts": {}}
        theirs = _theirs(models[BASELINE], dtype) if BASELINE in models and find_spec(THEIRS) else None
        if theirs is not None:
            results[THEIRS] = {"apart": _apart_from(theirs, models[BASELINE]), "sizes": {}, "prompts": {}}
        at(len(variants) + 1)
    for side in results.values():
        side["same_answer"] = side["apart"] <= AGREES[dtype]
    for batch, tokens in sizes:
        caches = {name: Cache(model, batch, tokens + STEPS) for name, model in models.items()}
        sides: dict[str, Callable[[], float]] = {
            name: partial(_seconds, model, caches[name], tokens) for name, model in models.items()
        }
        if theirs is not None:
            sides[THEIRS] = _Theirs(theirs, batch, tokens).seconds
        by_turn = in_turns(sides, turns)
        for name in sides:
            model = models.get(name, models[BASELINE])
            cache_bytes = Cache(model, batch, tokens).bytes if name in models else _bytes(model, batch, tokens)
            results[name]["sizes"][size_of(batch, tokens)] = {
                "bytes": cache_bytes,
                "formula": _bytes(model, batch, tokens),
                "turns": by_turn[name],
            }
    for batch, tokens in prompts:
        reading: dict[str, Callable[[], float]] = {
            name: partial(_reading, model, batch, tokens) for name, model in models.items()
        }
        if theirs is not None:
            reading[THEIRS] = partial(_their_reading, theirs, batch, tokens)
        for name, seconds in in_turns(reading, turns).items():
            results[name]["prompts"][size_of(batch, tokens)] = seconds
    what = f"{config.n_layers} layers, width {config.d_model}, {str(dtype).removeprefix('torch.')}"
    return {"what": what, "sides": results}


def size_of(batch: int, tokens: int) -> str:
    return f"{batch} x {tokens}"


def model_of(config: Architecture, variant: str, context: int, device: str, dtype: torch.dtype) -> Decoder:
    """Return a model with random weights and room for so many tokens."""
    fitted, rest = sized(replace(config, context=max(context, config.context)), variant)
    return Decoder(fitted, resolve(rest, fitted.shape), std=0.1).to(device=device, dtype=dtype).eval()


def _seconds(model: Decoder, cache: Cache, tokens: int) -> float:
    """Return the seconds of a step, with so many tokens in the cache already."""
    batch = len(cache.lengths)
    device = next(model.parameters()).device
    inputs = torch.zeros(batch, 1, dtype=torch.long, device=device)
    cache.pretend(tokens)
    _synchronise(device)
    began = time.perf_counter()
    for _ in range(STEPS):
        step(model, inputs, cache)
    _synchronise(device)
    return (time.perf_counter() - began) / STEPS


def _reading(model: Decoder, batch: int, tokens: int) -> float:
    """Return the seconds of reading a prompt, up to the scores of what follows it."""
    device = next(model.parameters()).device
    cache, inputs = Cache(model, batch, tokens), torch.zeros(batch, tokens, dtype=torch.long, device=device)
    _synchronise(device)
    began = time.perf_counter()
    read(model, inputs, cache)
    _synchronise(device)
    return time.perf_counter() - began


def _bytes(model: Decoder, batch: int, tokens: int) -> int:
    size = next(model.parameters()).element_size()
    return batch * cache_bytes(model.config, model.plan, tokens, number=size)


@torch.no_grad()
def _steps_apart(model: Decoder, length: int = 24) -> float:
    """Return how far a pass in steps is from one whole pass."""
    inputs = _tokens(model, length)
    cache = Cache(model, len(inputs), length)
    logits = torch.cat([step(model, inputs[:, i : i + 1], cache) for i in range(length)], dim=1)
    return _apart(logits, model(inputs))


def _tokens(model: Decoder, length: int) -> Tensor:
    assert isinstance(model.config.stem, Tokens)
    generator = torch.Generator().manual_seed(0)
    drawn = torch.randint(model.config.stem.vocab, (2, length), generator=generator)
    return drawn.to(next(model.parameters()).device)


def _apart(one: Tensor, other: Tensor) -> float:
    return float((one - other).abs().max() / other.abs().max())


def _theirs(model: Decoder, dtype: torch.dtype) -> Any:
    """Return transformers' LLaMA with the same weights."""
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
def _apart_from(theirs: Any, model: Decoder) -> float:
    inputs = _tokens(model, 24)
    return _apart(theirs(inputs).logits, model(inputs))


class _Theirs:
    """Its static cache, of as many tokens as ours: it attends over all of its room, whatever is filled.

    So every turn begins with an empty one, and takes as long as if the tokens before were there.
    """

    def __init__(self, model: Any, batch: int, tokens: int) -> None:
        from transformers import StaticCache

        self.model, self.device = model, next(model.parameters()).device
        self.cache = StaticCache(config=model.config, max_cache_len=tokens + STEPS)
        self.inputs = torch.zeros(batch, 1, dtype=torch.long, device=self.device)
        with torch.no_grad():  # which allocates it
            self.model(input_ids=self.inputs, past_key_values=self.cache, use_cache=True)

    @torch.no_grad()
    def seconds(self) -> float:
        self.cache.reset()
        _synchronise(self.device)
        began = time.perf_counter()
        for _ in range(STEPS):
            self.model(input_ids=self.inputs, past_key_values=self.cache, use_cache=True)
        _synchronise(self.device)
        return (time.perf_counter() - began) / STEPS


@torch.no_grad()
def _their_reading(model: Any, batch: int, tokens: int) -> float:
    from transformers import StaticCache

    device = next(model.parameters()).device
    cache = StaticCache(config=model.config, max_cache_len=tokens)
    inputs = torch.zeros(batch, tokens, dtype=torch.long, device=device)
    _synchronise(device)
    began = time.perf_counter()
    model(input_ids=inputs, past_key_values=cache, use_cache=True, logits_to_keep=1)
    _synchronise(device)
    return time.perf_counter() - began


def _synchronise(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
