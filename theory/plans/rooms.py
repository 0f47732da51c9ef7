"""Rooms of a decoding cache: for how many tokens of a sequence it keeps what each layer makes.

What is kept of a layer has room for all tokens, or, if every layer that attends over it has a window, for what the
longest of these windows shows, what the plan's longest shift reaches before that, and what is read at once.  Standard
library only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from theory.plans.accounting import INDEX, cache
from theory.plans.architecture import Architecture
from theory.plans.mix import Kind, Source, Term
from theory.plans.plan import Plan, lifetimes, longest_shift

AT_ONCE = 512  # tokens that are read together, at most


def at_once(config: Architecture, tokens: int) -> int:
    """Return how many of a sequence's `tokens` tokens are read together: as many as the shortest window shows."""
    windows = [size for size in config.windows or (config.window,) if size]
    return min(AT_ONCE, min(windows, default=tokens))


def spans(config: Architecture, plan: Plan, tokens: int) -> Mapping[tuple[Kind, int], int]:
    """Return how many earlier tokens are kept of each kind and layer that is cached; 0: all of `tokens` tokens."""
    plan = config.attending(plan)
    windows: dict[tuple[Kind, int], list[int]] = {}
    for n, h in plan.shape.cells():
        head = plan.head(n, h)
        for source in (s for mix in (*head.keys, *head.values) for term in mix.terms for s in _over_time(term)):
            windows.setdefault((source.kind, source.layer), []).append(config.window_of(n))
    return {key: _span(sizes, longest_shift(plan), config, tokens=tokens) for key, sizes in windows.items()}


def _over_time(term: Term) -> Iterator[Source]:
    """Yield the sources of a term that earlier tokens keep; of one that is read at the first token alone its gate."""
    return (s for s in term.read if term.source.where != "first" or s != term.source.unshifted)


def gate_span(config: Architecture, plan: Plan, tokens: int, *, layer: int) -> int:
    """Return how many earlier tokens the keys' gates of a layer's dynamic values are kept of; 0: all."""
    return _span([config.window_of(layer)], longest_shift(config.attending(plan)), config, tokens=tokens)


def _span(windows: list[int], reach: int, config: Architecture, tokens: int) -> int:
    span = max(windows) + reach if all(windows) else 0
    return span if 0 < span < tokens - at_once(config, tokens) else 0


def room(span: int, config: Architecture, tokens: int) -> int:
    """Return the columns of a cache for `tokens` tokens, of which `span` earlier ones are kept (0: all)."""
    return span + at_once(config, tokens) if span else tokens


def cache_bytes(config: Architecture, plan: Plan, tokens: int, *, number: int) -> int:
    """Return the bytes of a cache for one sequence.

    Args:
        config: The architecture.
        plan: The variant.
        tokens: Tokens of the sequence.
        number: Bytes per number of keys and values.
    """
    attending = config.attending(plan)
    kept = spans(config, plan, tokens)
    latent, numbers = config.latent, sum(cache(config, plan).first)
    widths: dict[Kind, int] = {"k": config.width, "v": config.width, "g": 1}
    if latent is not None:
        widths = {"k": latent.rope, "v": latent.width // config.n_heads}
    cached = [life.source for life in lifetimes(attending) if life.cached]
    if latent is not None:  # one rotary key for all heads
        cached = [source for source in cached if source.kind != "k" or source.head == _first(cached, source.layer)]
    for source in cached:
        if source.kind != "e":
            numbers += widths[source.kind] * room(kept[source.kind, source.layer], config, tokens)
    for layer in range(1, config.n_layers + 1) if plan.gates[1] else ():
        span = gate_span(config, plan, tokens, layer=layer)
        numbers += len(attending.live(layer)) * config.width * room(span, config, tokens)
    return number * numbers + INDEX * max(
        (room(span, config, tokens) for (kind, _), span in kept.items() if kind == "e"), default=0
    )


def _first(cached: list[Source], layer: int) -> int:
    return min(source.head for source in cached if (source.kind, source.layer) == ("k", layer))
