"""Decoding: a model reads tokens a few at a time, and keeps of those before what its plan says that later ones need.

What is kept of a token is what somebody attends over (`theory.plans.plan.lifetimes`, `cached`): projections as they
are, before a plan's sums, each once, whichever layers read it; of dynamic values the keys' gates too; of a latent its
slices and the rotary keys.  So its bytes are those of `theory.plans.accounting.cache`.  Of tables the token's index is
kept, and rows are looked up again.  Depth rules keep nothing: what they weigh is of one token.  What no layer's window
shows any more, nor a shift reaches, is not read again, and makes room for what follows.

Sums of kept projections (ResFormer's half and half) are worked out again at every step, and so is what is made from a
latent where that is cheaper than to let queries meet the latents themselves (`icl.models.latent`), as they lie here.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from icl.models.copying import AssumedCopy
from icl.models.decoder import Decoder
from icl.models.frame import Frame, windowed
from icl.models.projections import HeadTable, entry, gate_entry
from icl.models.reading import Reader, Segments
from icl.models.rotary import rotation
from theory.errors import BadInput
from theory.plans.architecture import Architecture, Patches
from theory.plans.mix import Kind
from theory.plans.plan import built, lifetimes, longest_shift, shifts

AT_ONCE = 512  # tokens that are read together
TOKENS = "tokens"  # the entry of the tokens' indices


def columns(config: Architecture, tokens: int) -> int:
    """Return how many tokens of a sequence a cache has room for.

    Those are all, or what the longest window shows and what is read at once.
    """
    window = config.longest_window
    return min(tokens, window + _at_once(config, tokens)) if window else tokens


def _at_once(config: Architecture, tokens: int) -> int:
    return min(AT_ONCE, config.longest_window or tokens)


class Cache:
    """A cache for `tokens` tokens of each of `batch` sequences, of which `lengths` have been read.

    Under windows there is room for what the longest shows, what a plan's longest shift reaches before that, and what is
    read at once, `room` columns; `starts` are the places of each sequence's first one.  What is still needed moves to
    the front where room runs out.

    Raises BadInput for a model whose answer for a token depends on later ones, or for more tokens than its context.
    """

    def __init__(self, model: Decoder, batch: int, tokens: int) -> None:
        for problem in _problems(model, batch, tokens):
            raise BadInput(problem)
        config, plan = model.config, model.config.attending(model.plan)
        of = next(model.parameters())
        self.tokens, self.lengths, self.starts = tokens, [0] * batch, [0] * batch
        self.window, self.at_once = config.longest_window, _at_once(config, tokens)
        self.reach = longest_shift(plan)
        self.room = min(tokens, columns(config, tokens) + self.reach)
        kept: dict[tuple[Kind, int], list[int]] = {}
        for life in lifetimes(plan):
            if life.cached:
                kept.setdefault((life.source.kind, life.source.layer), []).append(life.source.head)
        which, made = {what: tuple(heads) for what, heads in kept.items()}, built(plan)
        widths: dict[Kind, int] = {"k": config.width, "v": config.width}
        if config.latent is not None:
            widths = {"k": config.latent.rope, "v": config.latent.width // config.n_heads}
        sizes = {
            entry(kind, n): (1 if config.latent and kind == "k" else len(heads), widths[kind])
            for (kind, n), heads in which.items()
            if kind != "e"
        }
        if plan.gates[1]:
            live = {n: len(plan.live(n)) for n in range(1, config.n_layers + 1)}
            sizes |= {gate_entry(n): (heads, config.width) for n, heads in live.items() if heads}
        # Slices of a latent lie side by side, so that they are one latent without a copy.
        self.entries = {
            name: torch.zeros(batch, self.room, heads, width, dtype=of.dtype, device=of.device).transpose(1, 2)
            if config.latent
            else torch.zeros(batch, heads, self.room, width, dtype=of.dtype, device=of.device)
            for name, (heads, width) in sizes.items()
        }
        attentions = model.attentions
        self.readers: list[Segments] = [attention.attending(which) for attention in attentions]
        self.pieces = [_pieces(segments, self.entries) for segments in self.readers]
        # Of each layer: what it makes of this, and which of the heads that it makes; None: all as they are.
        self.made: list[list[tuple[str, list[int] | None]]] = [[] for _ in attentions]
        self.tables: dict[str, tuple[HeadTable, list[int] | None]] = {}
        for (kind, n), heads in which.items():
            if kind == "e":
                table = attentions[n - 1].projections.table
                assert table is not None
                places = None if heads == table.heads else [table.heads.index(h) for h in heads]
                self.tables[entry(kind, n)] = table, places
                continue
            whole = heads == made[kind, n] or (config.latent is not None and kind == "k")
            self.made[n - 1].append((entry(kind, n), None if whole else [made[kind, n].index(h) for h in heads]))
        if self.tables:
            self.entries[TOKENS] = torch.zeros(batch, 1, self.room, 1, dtype=torch.int32, device=of.device)
        self.read = [{name for pair in readers for reader in pair for name in reader.names} for readers in self.readers]
        self.shifted = {
            entry(kind, n, shift): (entry(kind, n), shift)
            for (kind, n), by_shift in shifts(plan).items()
            for shift in by_shift
        }

    @property
    def bytes(self) -> int:
        """The bytes of all room, filled or not."""
        return sum(x.numel() * x.element_size() for x in self.entries.values())

    def pretend(self, tokens: int) -> None:
        """Pretend that `tokens` tokens of each sequence have just been read, to time what follows."""
        if not 0 <= tokens <= self.tokens:
            raise BadInput(f"the cache has room for {self.tokens} tokens, not {tokens}")
        batch = len(self.lengths)
        self.lengths = [tokens] * batch
        self.starts = [max(0, tokens - self.window - self.reach) if self.window else 0] * batch

    def make_room(self, counts: list[int]) -> None:
        """Make room for `counts` more tokens of each sequence, at most `at_once` where `room` is less than `tokens`."""
        for row, count in enumerate(counts):
            start, length = self.starts[row], self.lengths[row]
            if length + count - start > self.room:
                seen = min(self.window + self.reach, length - start)
                for kept in self.entries.values():
                    kept[row, :, :seen] = kept[row, :, length - start - seen : length - start].clone()
                self.starts[row] = length - seen


@torch.no_grad()
def step(model: Decoder, inputs: Tensor, cache: Cache, real: Tensor | None = None) -> Tensor:
    """Return the model's answers to the tokens that follow those in the cache, and add them to the cache.

    inputs  as the model takes them, (batch, T) or (batch, T, width), T from 1
    real    (batch, T), true where a token is one; what comes out at others has no meaning, and nothing of them is kept

    Raises BadInput for more tokens than the cache has room for.
    """
    return model.stem.answer(_through(model, inputs, cache, real=real))


@torch.no_grad()
def read(model: Decoder, inputs: Tensor, cache: Cache, real: Tensor | None = None, *, at_once: int = AT_ONCE) -> Tensor:
    """Return the answer at each sequence's last real token, (batch, scores), reading `at_once` tokens at a time.

    Otherwise as `step`.  Raises BadInput as `step` does, or if a sequence has no real token.
    """
    if real is not None and not bool(real.any(-1).all()):
        raise BadInput("a sequence has no token to read")
    length = inputs.shape[1]
    last = torch.full((len(inputs),), length - 1, device=inputs.device)
    if real is not None:
        last = length - 1 - real.flip(-1).to(torch.uint8).argmax(-1)
    found: Tensor | None = None
    for start in range(0, length, at_once):
        part = slice(start, start + at_once)
        x = _through(model, inputs[:, part], cache, real=None if real is None else real[:, part])
        at = (last - start).clamp(0, x.shape[1] - 1)
        ends = x[torch.arange(len(x), device=x.device), at]
        here = ((last >= start) & (last < start + at_once))[:, None]
        found = ends if found is None else torch.where(here, ends, found)
    assert found is not None
    return model.stem.answer(found[:, None])[:, 0]


def _through(model: Decoder, inputs: Tensor, cache: Cache, real: Tensor | None) -> Tensor:
    x = model.stem.embed(inputs)
    new = x.shape[1]
    if len(x) != len(cache.lengths):
        raise BadInput(f"the cache is of {len(cache.lengths)} sequences, not {len(x)}")
    counts = _counts(x, real)
    longest = max(length + count for length, count in zip(cache.lengths, counts, strict=True))
    if longest > cache.tokens:
        raise BadInput(f"the cache has room for {cache.tokens} tokens, not {longest}")
    if longest <= cache.room or new <= cache.at_once:
        return _pass(model, x, inputs, cache, real=real)
    parts = [slice(start, start + cache.at_once) for start in range(0, new, cache.at_once)]
    found = [_pass(model, x[:, p], inputs[:, p], cache, real=None if real is None else real[:, p]) for p in parts]
    return torch.cat(found, dim=1)


def _pass(model: Decoder, x: Tensor, inputs: Tensor, cache: Cache, *, real: Tensor | None) -> Tensor:
    counts, new = _counts(x, real), x.shape[1]
    cache.make_room(counts)
    alike = real is None and len(set(zip(cache.lengths, cache.starts, strict=True))) == 1
    past = _alike(cache, new, x.device) if alike else _ragged(cache, new, real, x=x)
    visible, causal = _visible(past.places, past.held, model.config.window)
    past.keep_tokens(inputs)
    frame = Frame(
        visible,
        causal,
        rotation(model.config, past.places),
        places=past.places,
        learned=dict(model.learned.items()),
        past=past,
        tokens=inputs,
        by_layer=windowed(model.config, visible, causal, places=past.places, held=past.held),
    )
    found = model.through(x, frame, past.places)
    cache.lengths = [length + count for length, count in zip(cache.lengths, counts, strict=True)]
    return found


def _counts(x: Tensor, real: Tensor | None) -> list[int]:
    """Return the number of real tokens of each sequence."""
    return [x.shape[1]] * len(x) if real is None else [int(n) for n in real.sum(-1).tolist()]


def _visible(places: Tensor, held: Tensor, window: int) -> tuple[Tensor | None, bool]:
    """Return `visible` and `causal` as in `Frame`, for tokens at these places and the held ones."""
    if places.numel() == 1 and places.dim() == 1:  # the columns are all that it sees
        return None, False
    distance = places[..., :, None] - held[..., None, :]
    seen = distance >= 0
    if window:
        seen = seen & (distance < window)
    if places.dim() > 1:
        return seen[:, None], False
    first = len(places) == len(held)  # tokens of a sequence
    return seen, first and not 0 < window < len(held)


@dataclass(frozen=True, eq=False)
class _Past:
    """The cache during a step.  places: of the new tokens, (T,) or (batch, T); columns: the cache's columns that are
    attended over; held: as in `Past`; where: rows, tokens and columns of the real tokens, where sequences differ."""

    cache: Cache
    places: Tensor
    columns: slice
    held: Tensor
    where: tuple[Tensor, Tensor, Tensor] | None

    def attended(self, layer: int, bank: Mapping[str, Tensor]) -> tuple[Segments, Mapping[str, Tensor]]:
        """Return what the layer attends over, and keep what the layer has made."""
        cache = self.cache
        for name, heads in cache.made[layer - 1]:
            self._keep(name, bank[name] if heads is None else bank[name][:, heads])
        return cache.readers[layer - 1], {name: self._seen(name) for name in cache.read[layer - 1]}

    def keep_tokens(self, tokens: Tensor) -> None:
        """Keep the indices of the new tokens, (batch, T), where tables are looked up by them."""
        if self.cache.tables:
            self._keep(TOKENS, tokens[:, None, :, None].to(torch.int32))

    def _seen(self, name: str) -> Tensor:
        """Return an entry of all tokens that are attended over, as the bank would hold it."""
        base, shift = self.cache.shifted.get(name, (name, 0))
        start, stop = self.columns.start - shift, self.columns.stop - shift
        if base in self.cache.tables:
            table, heads = self.cache.tables[base]
            found = table(self.cache.entries[TOKENS][:, 0, max(0, start) : max(0, stop), 0])
            found = found if heads is None else found[:, heads]
        else:
            found = self.cache.entries[base][:, :, max(0, start) : max(0, stop)]
        missing = self.columns.stop - self.columns.start - found.shape[2]
        return nn.functional.pad(found, (0, 0, missing, 0)) if missing else found

    def views(self, layer: int) -> list[tuple[slice, Tensor, Tensor]] | None:
        pieces = self.cache.pieces[layer - 1]
        if pieces is None:
            return None
        return [
            (slice(p.head, p.head + p.heads), self._view(p.key, p.keys), self._view(p.value, p.heads)) for p in pieces
        ]

    def _view(self, place: tuple[str, int], heads: int) -> Tensor:
        name, start = place
        return self.cache.entries[name][:, start : start + heads, self.columns]

    def extended(self, name: str, new: Tensor) -> Tensor:
        self._keep(name, new)
        return self.cache.entries[name][:, :, self.columns]

    def _keep(self, name: str, new: Tensor) -> None:
        kept = self.cache.entries[name]
        if self.where is None:
            kept[:, :, self.columns.stop - new.shape[2] : self.columns.stop] = new
        else:
            rows, tokens, columns = self.where
            kept[rows, :, columns] = new[rows, :, tokens].to(kept.dtype)


class _Piece(NamedTuple):
    """Some neighbouring heads, from `head` on, whose keys and values are neighbours in an entry, from a place on.

    keys    how many keys they have: as many, or one that all share, a latent's
    """

    head: int
    heads: int
    keys: int
    key: tuple[str, int]
    value: tuple[str, int]


def _pieces(segments: Segments, kept: Container[str]) -> list[_Piece] | None:
    """Return a layer's pieces; None where a head attends over several lists, a sum, a table, or what is shifted."""
    if len(segments) != 1:
        return None
    of_keys, of_values = (_places(reader, kept) for reader in segments[0])
    if of_keys is None or of_values is None:
        return None
    shared = len(of_keys) < len(of_values)
    found: list[_Piece] = []
    for head, (key, value) in enumerate(zip(of_keys * len(of_values) if shared else of_keys, of_values, strict=True)):
        last = found[-1] if found else None
        follows = last and value == _following(last.value, last.heads)
        if last and follows and (shared or key == _following(last.key, last.keys)):
            found[-1] = last._replace(heads=last.heads + 1, keys=1 if shared else last.keys + 1)
        else:
            found.append(_Piece(head, 1, 1, key=key, value=value))
    return found


def _following(place: tuple[str, int], heads: int) -> tuple[str, int]:
    """Return the place so many heads further on in the same entry."""
    return place[0], place[1] + heads


def _places(reader: Reader, kept: Container[str]) -> list[tuple[str, int]] | None:
    """Return each head's entry, which it reads as it is, and the place there; None where a head reads a sum."""
    if any(len(terms) != 1 or terms[0][0] != 1 or terms[0][1] not in kept for _, terms in reader.runs):
        return None
    return [(name, start + i) for count, [(_, name, start)] in reader.runs for i in range(count)]


def _alike(cache: Cache, new: int, device: torch.device) -> _Past:
    """Return the past of sequences that are equally long."""
    first, start = cache.starts[0], cache.lengths[0]
    begin = max(first, start - cache.window + 1) if cache.window else first
    held = torch.arange(begin, start + new, device=device)
    return _Past(cache, held[start - begin :], slice(begin - first, start + new - first), held=held, where=None)


def _ragged(cache: Cache, new: int, real: Tensor | None, x: Tensor) -> _Past:
    lengths, starts = (torch.tensor(of, device=x.device)[:, None] for of in (cache.lengths, cache.starts))
    real = torch.ones(len(x), new, dtype=torch.bool, device=x.device) if real is None else real
    places = (lengths + real.cumsum(-1) - 1).clamp(min=0)
    at = places - starts
    columns = slice(max(0, int(at.min()) - cache.window + 1) if cache.window else 0, int(at.max()) + 1)
    held = starts + torch.arange(columns.start, columns.stop, device=x.device)
    rows, tokens = real.nonzero(as_tuple=True)
    return _Past(cache, places, columns, held=held, where=(rows, tokens, at[rows, tokens]))


def _problems(model: Decoder, batch: int, tokens: int) -> list[str]:
    config = model.config
    found = []
    if config.mask != "causal" or isinstance(config.stem, Patches):
        found.append("only a causal model is decoded a token at a time")
    if any(isinstance(sublayer, AssumedCopy) for sublayer in model.sublayers):
        found.append("the assumed copy is of whole prompts, and is not decoded a token at a time")
    if batch < 1 or tokens < 1:
        found.append(f"a cache is of one sequence and one token at least, not {batch} and {tokens}")
    if tokens > config.context:
        found.append(f"{tokens} tokens are more than the context of {config.context}")
    return found
