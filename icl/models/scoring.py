"""How likely a model finds texts: of given continuations, and of whole texts longer than its context."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from icl.models.decoder import Decoder
from theory.errors import BadInput
from theory.plans.architecture import Tokens


@dataclass(frozen=True)
class Scored:
    """log_likelihood in nats, of all tokens of a continuation; greedy: whether each was the likeliest."""

    log_likelihood: float
    greedy: bool


@torch.no_grad()
def score(model: Decoder, pairs: Sequence[tuple[Sequence[int], Sequence[int]]], at_once: int = 8) -> list[Scored]:
    """Of each continuation after its context, both of token ids, in the order given.

    Of a pair longer than the model's context and the token that is predicted last, the beginning is not read.  So many
    pairs are read at a time, those of like length together.

    Raises BadInput for a model that reads no tokens, and for contexts and continuations that are empty, too long or
    hold what is no token.
    """
    for problem in _problems(model, pairs):
        raise BadInput(problem)
    device, room = next(model.parameters()).device, model.config.context + 1
    whole = [[*context, *continuation][-room:] for context, continuation in pairs]
    order = sorted(range(len(pairs)), key=lambda i: -len(whole[i]))
    found: dict[int, Scored] = {}
    for start in range(0, len(order), at_once):
        places = order[start : start + at_once]
        longest = len(whole[places[0]])
        tokens = torch.zeros(len(places), longest, dtype=torch.long)
        for row, place in enumerate(places):
            tokens[row, : len(whole[place])] = torch.tensor(whole[place])
        tokens = tokens.to(device)
        scores = model(tokens[:, :-1]).float().log_softmax(-1)  # causal: what stands behind a text changes nothing
        likeliest = scores.argmax(-1) == tokens[:, 1:]
        scores = scores.gather(-1, tokens[:, 1:, None])[..., 0].double()
        for row, place in enumerate(places):
            end = len(whole[place]) - 1
            part = slice(end - len(pairs[place][1]), end)
            found[place] = Scored(float(scores[row, part].sum()), bool(likeliest[row, part].all()))
    return [found[place] for place in range(len(pairs))]


def windows(text: Sequence[int], before: int, context: int) -> Iterator[tuple[list[int], list[int]]]:
    """A text as contexts and continuations in which every token is predicted once, as `score` takes them.

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
