"""Likelihoods that a model gives to texts: to given continuations, and to whole texts longer than its context."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from icl.models.decoder import Decoder
from theory.errors import BadInput
from theory.plans.architecture import Tokens

AT_ONCE = 512  # positions whose scores, one for every token there is, are made at a time


@dataclass(frozen=True)
class Scored:
    """The score of a continuation: log_likelihood in nats, of all tokens; greedy: whether each was the likeliest."""

    log_likelihood: float
    greedy: bool


@torch.no_grad()
def score(model: Decoder, pairs: Sequence[tuple[Sequence[int], Sequence[int]]], at_once: int = 4096) -> list[Scored]:
    """Return the score of each continuation after its context, both of token ids, in the given order.

    A pair may be longer than the model's context plus the last predicted token; then its beginning is not read.  About
    `at_once` tokens are read at a time, from pairs of similar length, at least one pair.  Scores are computed only for
    predicted tokens.

    Raises BadInput for a model that reads no tokens, and for contexts and continuations that are empty, too long or
    hold what is no token.
    """
    for problem in _problems(model, pairs):
        raise BadInput(problem)
    device, room = next(model.parameters()).device, model.config.context + 1
    whole = [[*context, *continuation][-room:] for context, continuation in pairs]
    order = sorted(range(len(pairs)), key=lambda i: -len(whole[i]))
    found: dict[int, Scored] = {}
    while order:
        longest = len(whole[order[0]])
        count = max(1, at_once // longest)
        places, order = order[:count], order[count:]
        tokens = torch.zeros(len(places), longest, dtype=torch.long)
        for row, place in enumerate(places):
            tokens[row, : len(whole[place])] = torch.tensor(whole[place])
        tokens = tokens.to(device)
        hidden = model.hidden(tokens[:, :-1])  # causal: what stands behind a text changes nothing
        for row, place in enumerate(places):
            end = len(whole[place]) - 1
            first = end - len(pairs[place][1])
            found[place] = _scored(model, hidden[row, first:end], tokens[row, first + 1 : end + 1])
    return [found[place] for place in range(len(pairs))]


def _scored(model: Decoder, hidden: Tensor, targets: Tensor) -> Scored:
    total, greedy = 0.0, True
    for x, wanted in zip(hidden.split(AT_ONCE), targets.split(AT_ONCE), strict=True):
        scores = model.stem.answer(x[None])[0].float().log_softmax(-1)
        total += float(scores.gather(-1, wanted[:, None]).double().sum())
        greedy = greedy and bool((scores.argmax(-1) == wanted).all())
    return Scored(total, greedy)


def windows(text: Sequence[int], before: int, context: int) -> Iterator[tuple[list[int], list[int]]]:
    """Yield a text as contexts and continuations, for `score`, in which every token is predicted once.

    before: the token that stands in front of the text.  Each continuation has `context` tokens and is read after one; a
    shorter last one after as many as there is room for.
    """
    whole = [before, *text]
    for start in range(0, len(text), context):
        end = min(start + context, len(text))
        first = max(0, end - context) if start else 0
        yield whole[first : start + 1], whole[start + 1 : end + 1]


def _problems(model: Decoder, pairs: Sequence[tuple[Sequence[int], Sequence[int]]]) -> Iterator[str]:
    stem, context = model.config.stem, model.config.context
    if not isinstance(stem, Tokens) or model.config.mask != "causal":
        yield "only a causal model of tokens can say how likely a text is"
        return
    for before, after in pairs:
        if not before or not after:
            yield "a context or a continuation holds no token"
        if len(after) > context:
            yield f"a continuation of {len(after):,} tokens is longer than the context of {context:,}"
        if any(not 0 <= i < stem.vocab for part in (before, after) for i in part):
            yield f"a text holds what is no token of the {stem.vocab:,} that the model knows"
