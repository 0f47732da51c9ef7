"""Text from a model: tokens drawn one after another, each from what the model answers to those before it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from numbers import Integral

import numpy as np
import torch
from torch import Tensor

from icl.models.cache import Cache, read, step
from icl.models.decoder import Decoder
from theory.errors import BadInput
from theory.plans.architecture import Tokens


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """Rules for drawing a token from a model's scores.

    temperature  scores are divided by it; at 0 the likeliest token is taken
    top_k        the number of likeliest tokens from which is drawn; None: all
    top_p        only the fewest likeliest whose probabilities, after the above, add up to at least this; None: all

    Raises BadInput for numbers without meaning.
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.temperature < float("inf"):
            raise BadInput(f"temperature must be a number from 0, got {self.temperature}")
        if self.top_k is not None and self.top_k < 1:
            raise BadInput(f"top_k must be at least 1, got {self.top_k}")
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise BadInput(f"top_p must lie above 0 and up to 1, got {self.top_p}")

    def probabilities(self, scores: Tensor) -> Tensor:
        """Return the probabilities of tokens, float64 (batch, vocab).

        Of equally likely tokens the first come first.  Raises BadInput for scores of which none, or too many, are
        finite.

        Args:
            scores: (batch, vocab).
        """
        scores = scores.double()
        scores = scores - scores.amax(-1, keepdim=True)
        if bool(scores.isnan().any()):
            raise BadInput("the model's scores are not finite: its weights are damaged, or too large for their dtype")
        if not self.temperature:
            likeliest = scores.argmax(-1, keepdim=True)
            return torch.zeros_like(scores).scatter(-1, likeliest, 1.0)
        shares = (scores / self.temperature).softmax(-1)
        ordered, places = shares.sort(dim=-1, descending=True, stable=True)
        if self.top_k is not None:
            ordered[:, self.top_k :] = 0
        if self.top_p is not None:
            ordered /= ordered.sum(-1, keepdim=True)
            before = ordered.cumsum(-1) - ordered
            ordered[before >= self.top_p] = 0  # never the first, before which there is nothing
        kept = torch.zeros_like(shares).scatter(-1, places, ordered)
        return kept / kept.sum(-1, keepdim=True)


def generate(
    model: Decoder,
    prompts: Sequence[Sequence[int]],
    new: int,
    *,
    sampling: Sampling | None = None,
    seed: int = 0,
    stop: Collection[int] = (),
    at_once: int = 512,
    vocab: int | None = None,
) -> Iterator[list[int | None]]:
    """Yield up to `new` tokens that follow each prompt: at every step one per sequence, None for those that have ended.

    A sequence ends with a token of `stop`, which comes out, or where the model's context does; all together when every
    one has.  What is drawn of a sequence depends on the seed and on its place among the prompts, and not on what the
    others are, but for rounding.

    at_once  tokens of the prompts that are read at a time
    vocab    tokens from this on are never drawn: a model may have room for more than its tokenizer has

    Raises BadInput, when it is called, for a model that does not read tokens, and for prompts that are no lists, are
    empty, hold what is no token, or leave no room in the context.
    """
    for problem in _problems(model, prompts, new):
        raise BadInput(problem)
    return _generated(
        model, prompts, new, sampling=sampling or Sampling(), seed=seed, stop=stop, at_once=at_once, vocab=vocab
    )


def _generated(
    model: Decoder,
    prompts: Sequence[Sequence[int]],
    new: int,
    sampling: Sampling,
    seed: int,
    stop: Collection[int],
    at_once: int,
    vocab: int | None,
) -> Iterator[list[int | None]]:
    device = next(model.parameters()).device
    longest, count = max(map(len, prompts)), len(prompts)
    tokens = torch.zeros(count, longest, dtype=torch.long, device=device)
    real = torch.zeros(count, longest, dtype=torch.bool, device=device)
    for row, prompt in enumerate(prompts):
        tokens[row, : len(prompt)] = torch.tensor(prompt, device=device)
        real[row, : len(prompt)] = True
    room = [min(new, model.config.context - len(prompt)) for prompt in prompts]
    # The last token that is drawn is never read.
    cache = Cache(model, count, max(1, *(len(p) + r - 1 for p, r in zip(prompts, room, strict=True))))
    generators = [_generator(seed, row) for row in range(count)]
    scores = read(model, tokens, cache, real=None if bool(real.all()) else real, at_once=at_once)
    running = [True] * count
    for drawn in range(1, max(room) + 1):
        shares = sampling.probabilities(scores if vocab is None else scores[:, :vocab]).cpu()
        picked = [
            int(torch.multinomial(share, 1, generator=of)) if goes_on else None
            for share, of, goes_on in zip(shares, generators, running, strict=True)
        ]
        yield picked
        running = [x is not None and x not in stop and drawn < r for x, r in zip(picked, room, strict=True)]
        if not any(running):
            return
        chosen = torch.tensor([[x or 0] for x in picked], device=device)
        going = torch.tensor(running, device=device)[:, None]
        scores = step(model, chosen, cache, real=None if all(running) else going)[:, -1]


def _generator(seed: int, row: int) -> torch.Generator:
    state = np.random.SeedSequence((seed, row)).generate_state(1, np.uint64)
    return torch.Generator().manual_seed(int(state[0]))


def _no_lists(prompts: object) -> str | None:
    """Return what prompts are instead of lists of token numbers, with a remedy; None if they are lists."""
    wanted = "prompts must be lists of token numbers, one list for each prompt, as in [[1, 2, 3]]"
    if isinstance(prompts, Tensor | np.ndarray):
        return f"{wanted}, not {_kind(prompts)}: its `.tolist()` is that, if it has two dimensions"
    if isinstance(prompts, str | bytes) or not isinstance(prompts, Sequence):
        return f"{wanted}, not {_kind(prompts)}"
    for prompt in prompts:
        if isinstance(prompt, str | bytes) or not isinstance(prompt, Sequence):
            return f"{wanted}; one of them is {_kind(prompt)}"
        for token in prompt:
            if isinstance(token, bool) or not isinstance(token, Integral):
                return f"{wanted}; one of them holds {_kind(token)}"
    return None


def _kind(value: object) -> str:
    if isinstance(value, str):
        return "text, of which the model's tokenizer makes such numbers"
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiou' or name == 'ndarray' else 'a'} {name}"


def _problems(model: Decoder, prompts: Sequence[Sequence[int]], new: int) -> Iterator[str]:
    if not isinstance(model, Decoder):
        yield f"the model must be a Decoder, as `icl.build` and `icl.load` return it, not {_kind(model)}"
        return
    if problem := _no_lists(prompts):
        yield problem
        return
    if isinstance(new, bool) or not isinstance(new, Integral):
        yield f"how many tokens are new must be a whole number, not {_kind(new)}"
        return
    stem, context = model.config.stem, model.config.context
    if not isinstance(stem, Tokens):
        yield "the model does not read tokens"
        return
    if new < 1:
        yield f"there must be at least one new token, not {new}"
    if not prompts or not all(prompts):
        yield "a prompt holds no token"
    if any(not 0 <= i < stem.vocab for prompt in prompts for i in prompt):
        yield f"a prompt holds what is no token of the {stem.vocab:,} that the model knows"
    if any(len(prompt) >= context for prompt in prompts):
        yield f"a prompt of {max(map(len, prompts)):,} tokens leaves no room in a context of {context:,}"
