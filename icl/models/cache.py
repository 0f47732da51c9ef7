"""Decoding: a model reads tokens a few at a time, and keeps of those before what its plan says that later ones need.

What is kept of a token is what somebody attends over (`theory.plans.plan.lifetimes`, `cached`): projections as they
are, before a plan's sums, each once, whichever layers read it; of dynamic values the keys' gates too; of a latent its
slices and the rotary keys; of gates of sources a number per head; of values that are read at the first token alone
that token's, in one column.  So its bytes per token are those of
`theory.plans.accounting.cache`.  Of tables the token's index is kept, and rows are looked up again.  Depth rules keep
nothing: what they weigh is of one token.  What no layer's window shows any more, nor a shift reaches, is not read
again, and makes room for what follows: so what is kept of each layer has the room that the windows of the layers that
attend over it need (`theory.plans.rooms`).

Sums of kept projections (ResFormer's half and half) are worked out again at every step, and so is what is made from a
latent where that is cheaper than to let queries meet the latents themselves (`icl.models.latent`), as they lie here.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from icl.models.copying import AssumedCopy
from icl.models.decoder import Decoder
from icl.models.frame import Frame, limited
from icl.models.projections import HeadTable, entry, gate_entry
from icl.models.reading import FIRST, Reader, Segments, move
from icl.models.rotary import rotation
from theory.errors import BadInput
from theory.plans.architecture import Patches
from theory.plans.mix import Kind
from theory.plans.plan import built, lifetimes, limits, shifts
from theory.plans.rooms import AT_ONCE, at_once, gate_span, room, spans

TOKENS = "tokens"  # the entry of the tokens' indices


class Cache:
    """A cache for `tokens` tokens of each of `batch` sequences, of which `lengths` have been read.

    Entry `name` keeps the last `spans[name]` tokens, 0 standing for all of them.  Entries with one span have as many
    columns, `rooms[span]`, and `starts[span]` are the places of each sequence's first one.  What is still needed moves
    to the front where room runs out.

    Raises BadInput for a model whose answer for a token depends on later ones, or for more tokens than its context.
    """

    def __init__(self, model: Decoder, batch: int, tokens: int) -> None:
        for problem in _problems(model, batch, tokens):
            raise BadInput(problem)
        config, plan = model.config, model.config.attending(model.plan)
        of = next(model.parameters())
        self.tokens, self.lengths = tokens, [0] * batch
        self.steps: dict[Any, Any] = {}
        self.at_once = at_once(config, tokens)
        self.windows = [config.window_of(n) for n in range(1, config.n_layers + 1)]
        kept: dict[tuple[Kind, int], list[int]] = {}
        for life in lifetimes(plan):
            if life.cached:
                kept.setdefault((life.source.kind, life.source.layer), []).append(life.source.head)
        which, made = {what: tuple(heads) for what, heads in kept.items()}, built(plan)
        of_first: dict[tuple[str, int], tuple[int, ...]] = {}
        for life in lifetimes(plan):
            if life.first:
                key = FIRST, life.source.layer
                of_first[key] = (*of_first.get(key, ()), life.source.head)
        widths: dict[Kind, int] = {"k": config.width, "v": config.width, "g": 1}
        if config.latent is not None:
            widths = {"k": config.latent.rope, "v": config.latent.width // config.n_heads}
        sizes = {
            entry(kind, n): (1 if config.latent and kind == "k" else len(heads), widths[kind])
            for (kind, n), heads in which.items()
            if kind != "e"
        }
        by_kind = spans(config, plan, tokens)
        self.spans = {entry(kind, n): by_kind[kind, n] for kind, n in which}
        if plan.gates[1]:
            live = {n: len(plan.live(n)) for n in range(1, config.n_layers + 1)}
            sizes |= {gate_entry(n): (heads, config.width) for n, heads in live.items() if heads}
            self.spans |= {gate_entry(n): gate_span(config, plan, tokens, layer=n) for n in live}
        of_tables = [span for (kind, _), span in by_kind.items() if kind == "e"]
        self.spans[TOKENS] = max(of_tables, default=0) if all(of_tables) else 0
        self.rooms = {span: room(span, config, tokens) for span in {0, *self.spans.values()}}
        self.starts = {span: [0] * batch for span in self.rooms}
        # Slices of a latent lie side by side, so that they are one latent without a copy.
        self.entries = {
            name: torch.zeros(
                batch, self.rooms[self.spans[name]], heads, width, dtype=of.dtype, device=of.device
            ).transpose(1, 2)
            if config.latent
            else torch.zeros(batch, heads, self.rooms[self.spans[name]], width, dtype=of.dtype, device=of.device)
            for name, (heads, width) in sizes.items()
        }
        attentions = model.attentions
        self.firsts: dict[str, Tensor] = {
            entry("v", n, where="first"): torch.zeros(
                batch, len(heads), 1, config.width, dtype=of.dtype, device=of.device
            )
            for (_, n), heads in of_first.items()
        }
        held: dict[tuple[str, int], tuple[int, ...]] = dict(of_first)
        held |= {(str(kind), n): heads for (kind, n), heads in which.items()}
        self.readers: list[Segments] = [move(attention.attending(held), of.device) for attention in attentions]
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
        # Of each layer: the entry of what it makes for the first token alone, and which of the heads that it makes.
        self.made_first: list[list[tuple[str, str, list[int]]]] = [[] for _ in attentions]
        for (_, n), heads in of_first.items():
            places = [made["v", n].index(h) for h in heads]
            self.made_first[n - 1].append((entry("v", n), entry("v", n, where="first"), places))
        if self.tables:
            columns = self.rooms[self.spans[TOKENS]]
            self.entries[TOKENS] = torch.zeros(batch, 1, columns, 1, dtype=torch.int32, device=of.device)
        self.read = [{name for pair in readers for reader in pair for name in reader.names} for readers in self.readers]
        self.shifted = {
            entry(kind, n, shift): (entry(kind, n), shift)
            for (kind, n), by_shift in shifts(plan).items()
            for shift in by_shift
        }
        self.later = {entry(kind, n, where="later"): entry(kind, n) for kind, n in limits(plan)}
        spans_read = [[self.span_of(name) for name in names - self.firsts.keys()] for names in self.read]
        self.references = [min(read, default=0, key=_shortest) for read in spans_read]

    def span_of(self, name: str) -> int:
        """Return the span of the entry from which an entry of the bank is read, shifted or looked up or as it is.

        Entries of the first token alone have none: they are put where that token stands.
        """
        base, _ = self.shifted.get(name, (self.later.get(name, name), 0))
        return self.spans[TOKENS if base in self.tables else base]

    @property
    def bytes(self) -> int:
        """The bytes of all room, filled or not."""
        return sum(x.numel() * x.element_size() for x in (*self.entries.values(), *self.firsts.values()))

    def pretend(self, tokens: int) -> None:
        """Pretend that `tokens` tokens of each sequence have just been read, to time what follows."""
        if not 0 <= tokens <= self.tokens:
            raise BadInput(f"the cache has room for {self.tokens} tokens, not {tokens}")
        batch = len(self.lengths)
        self.lengths = [tokens] * batch
        self.starts = {span: [max(0, tokens - span) if span else 0] * batch for span in self.rooms}

    def make_room(self, counts: list[int]) -> None:
        """Make room for `counts` more tokens of each sequence, at most `at_once` unless all rooms hold them."""
        for span, starts in self.starts.items():
            for row, count in enumerate(counts):
                start, length = starts[row], self.lengths[row]
                if length + count - start > self.rooms[span]:
                    seen = min(span, length - start)
                    for kept in (x for name, x in self.entries.items() if self.spans[name] == span):
                        kept[row, :, :seen] = kept[row, :, length - start - seen : length - start].clone()
                    starts[row] = length - seen

    @property
    def alike(self) -> bool:
        """True if all sequences have the same length, and their first columns the same places."""
        return all(len(set(numbers)) == 1 for numbers in (self.lengths, *self.starts.values()))


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
    if longest <= min(cache.rooms.values()) or new <= cache.at_once:
        return _pass(model, x, inputs, cache, real=real)
    parts = [slice(start, start + cache.at_once) for start in range(0, new, cache.at_once)]
    found = [_pass(model, x[:, p], inputs[:, p], cache, real=None if real is None else real[:, p]) for p in parts]
    return torch.cat(found, dim=1)


def _pass(model: Decoder, x: Tensor, inputs: Tensor, cache: Cache, *, real: Tensor | None) -> Tensor:
    counts, new = _counts(x, real), x.shape[1]
    cache.make_room(counts)
    past = _alike(cache, new, x.device) if real is None and cache.alike else _ragged(cache, new, real, x=x)
    past.keep_tokens(inputs)
    by_layer = tuple(past.visible(n) for n in range(1, model.config.n_layers + 1))
    (visible, causal), same = by_layer[0], not model.config.windows
    frame = Frame(
        visible,
        causal,
        rotation(model.config, past.places),
        places=past.places,
        learned=dict(model.learned.items()),
        past=past,
        tokens=inputs,
        by_layer=() if same else by_layer,
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
    """The cache during a step.

    places   of the new tokens, (T,) or (batch, T)
    starts   by span, the places of the cache's first columns, () or (batch, 1)
    real     rows and columns of `places` that are of tokens; None: all, of sequences that are equally long
    """

    cache: Cache
    places: Tensor
    starts: Mapping[int, Tensor | int]
    real: tuple[Tensor, Tensor] | None
    _columns: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)

    @property
    def steps(self) -> dict[Any, Any]:
        return self.cache.steps

    def _seen_columns(self, layer: int) -> tuple[int, int]:
        """Return the first and the last column that layer `layer` is shown, among those of its reference span."""
        window, span = self.cache.windows[layer - 1], self.cache.references[layer - 1]
        if (window, span) not in self._columns:
            earliest, latest = self._ends(span)
            self._columns[window, span] = max(0, earliest - window + 1) if window else 0, latest
        return self._columns[window, span]

    def _ends(self, span: int) -> tuple[int, int]:
        """Return the columns of the earliest and the latest new token, in entries of a span."""
        start = self.starts[span]
        if isinstance(start, int):  # which needs no look at a tensor
            length = self.cache.lengths[0] - start
            return length, length + len(self.places) - 1
        at = self.places - start
        return int(at.min()), int(at.max())

    def held(self, layer: int) -> Tensor:
        first, last = self._seen_columns(layer)
        columns = torch.arange(first, last + 1, device=self.places.device)
        return self.starts[self.cache.references[layer - 1]] + columns

    def visible(self, layer: int) -> tuple[Tensor | None, bool]:
        """Return `visible` and `causal` of a layer, as in `Frame`."""
        return _visible(self.places, self.held(layer), self.cache.windows[layer - 1])

    def attended(self, layer: int, bank: Mapping[str, Tensor]) -> tuple[Segments, Mapping[str, Tensor]]:
        """Return what the layer attends over, and keep what the layer has made."""
        cache = self.cache
        for name, heads in cache.made[layer - 1]:
            self._keep(name, bank[name] if heads is None else bank[name][:, heads])
        for name, kept, places in cache.made_first[layer - 1]:
            self._keep_first(kept, bank[name][:, places])
        return cache.readers[layer - 1], {name: self._seen(name, layer) for name in cache.read[layer - 1]}

    def keep_tokens(self, tokens: Tensor) -> None:
        """Keep the indices of the new tokens, (batch, T), where tables are looked up by them."""
        if self.cache.tables:
            self._keep(TOKENS, tokens[:, None, :, None].to(torch.int32))

    def _seen(self, name: str, layer: int) -> Tensor:
        """Return an entry of all tokens that the layer is shown, as the bank would hold it."""
        if name in self.cache.firsts:
            held = self.held(layer)
            return limited(self.cache.firsts[name].expand(-1, -1, held.shape[-1], -1), "first", held)
        if name in self.cache.later:
            return limited(self._shown(self.cache.later[name], layer), "later", self.held(layer))
        base, shift = self.cache.shifted.get(name, (name, 0))
        if base not in self.cache.tables:
            return self._shown(base, layer, shift)
        table, heads = self.cache.tables[base]
        tokens = self._shown(TOKENS, layer, shift)[:, 0, :, 0]
        found = table(tokens)
        found = found if heads is None else found[:, heads]
        if not shift:
            return found
        there = self._positions(layer, shift) >= 0
        return found * there.expand(len(found), -1)[:, None, :, None].to(found.dtype)

    def _positions(self, layer: int, shift: int) -> Tensor:
        """Return the places of what the layer is shown of tokens so many before, (columns,) or (batch, columns)."""
        return self.held(layer) - shift

    def _shown(self, name: str, layer: int, shift: int = 0) -> Tensor:
        """Return an entry of the cache at the places that the layer is shown, less a shift; zeros before the first."""
        kept, span = self.cache.entries[name], self.cache.spans[name]
        reference = self.cache.references[layer - 1]
        first, last = self._seen_columns(layer)
        apart = self.starts[reference] - self.starts[span]
        if isinstance(apart, int) or span == reference:
            moved = apart - shift if isinstance(apart, int) else -shift
            start, stop = first + moved, last + 1 + moved
            found = kept[:, :, max(0, start) : max(0, stop)]
            missing = stop - start - found.shape[2]
            return nn.functional.pad(found, (0, 0, missing, 0)) if missing else found
        columns = self._positions(layer, shift) - self.starts[span]
        index = columns.clamp(0, kept.shape[2] - 1)[:, None, :, None].expand(-1, kept.shape[1], -1, kept.shape[3])
        return kept.gather(2, index) * (columns >= 0)[:, None, :, None].to(kept.dtype)

    def views(self, layer: int) -> list[tuple[slice, Tensor, Tensor]] | None:
        pieces = self.cache.pieces[layer - 1]
        if pieces is None:
            return None
        return [
            (
                slice(p.head, p.head + p.heads),
                self._view(p.key, p.keys, layer),
                self._view(p.value, p.heads, layer),
            )
            for p in pieces
        ]

    def _view(self, place: tuple[str, int], heads: int, layer: int) -> Tensor:
        name, start = place
        return self._shown(name, layer)[:, start : start + heads]

    def extended(self, layer: int, name: str, new: Tensor) -> Tensor:
        self._keep(name, new)
        return self._shown(name, layer)

    def _keep_first(self, name: str, new: Tensor) -> None:
        """Keep what the first token of each sequence has, where it is among the new ones."""
        kept = self.cache.firsts[name]
        if self.real is None:
            if self.cache.lengths[0] == 0:
                kept.copy_(new[:, :, :1])
            return
        rows, tokens = self.real
        at_first = self.places[rows, tokens] == 0
        kept[rows[at_first], :, 0] = new[rows[at_first], :, tokens[at_first]].to(kept.dtype)

    def _keep(self, name: str, new: Tensor) -> None:
        kept, span = self.cache.entries[name], self.cache.spans[name]
        if self.real is None:
            first, _ = self._ends(span)
            kept[:, :, first : first + new.shape[2]] = new
        else:
            rows, tokens = self.real
            at = self.places - self.starts[span]
            kept[rows, :, at[rows, tokens]] = new[rows, :, tokens].to(kept.dtype)


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


def _shortest(span: int) -> tuple[bool, int]:
    """Return the key by which spans are ordered, 0 standing for all tokens."""
    return not span, span


def _alike(cache: Cache, new: int, device: torch.device) -> _Past:
    """Return the past of sequences that are equally long."""
    start = cache.lengths[0]
    starts = {span: of_rows[0] for span, of_rows in cache.starts.items()}
    return _Past(cache, torch.arange(start, start + new, device=device), starts, real=None)


def _ragged(cache: Cache, new: int, real: Tensor | None, x: Tensor) -> _Past:
    lengths = torch.tensor(cache.lengths, device=x.device)[:, None]
    starts = {span: torch.tensor(rows, device=x.device)[:, None] for span, rows in cache.starts.items()}
    real = torch.ones(len(x), new, dtype=torch.bool, device=x.device) if real is None else real
    places = (lengths + real.cumsum(-1) - 1).clamp(min=0)
    rows, tokens = real.nonzero(as_tuple=True)
    return _Past(cache, places, starts, real=(rows, tokens))


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
