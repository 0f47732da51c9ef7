"""Caches of transformers that hold what a plan keeps of earlier tokens.

Layer n of a `DynamicCache` or `StaticCache` holds the keys and the values of the plan's layer n that a later token
attends over, and no others (`icl.models.cache`): of SkipV1Former's later layers half of the values, of SVFormer's none.
What is neither stands in further layers behind these: the keys' gates of dynamic values, the tokens' indices of a plan
with tables, and values that are read at the first token alone, in one column.  Under windows a dynamic cache drops what
no layer sees any more.

A cache comes empty, and its layers are then replaced by those of this module, which know what the plan keeps; so all
that transformers does with a cache (`generate`, beams, crops, copies) it does with this one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from inspect import signature
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad
from transformers import Cache as AnyCache
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer, StaticLayer

from icl.models import cache as decoding
from icl.models.cache import TOKENS
from icl.models.decoder import Decoder
from icl.models.frame import limited
from icl.models.projections import entry, gate_entry
from icl.models.reading import Segments
from theory.errors import BadInput


@dataclass(frozen=True)
class Slot:
    """A layer of a cache: the entries that it holds as keys and as values, "" for none, and what a window leaves.

    window      the number of columns that are read at most, itself included; 0: all
    first       whether only the first token's column is held
    """

    keys: str
    values: str
    window: int
    first: bool = False


class Kept:
    """A decoder's part of every token that later ones need, by layers of a cache.

    Raises:
        BadInput: For a decoder whose answer for a token depends on later ones.
    """

    def __init__(self, decoder: Decoder) -> None:
        self.config = decoder.config
        self.plan = decoding.Cache(decoder, 1, 1)  # for its readers; it keeps nothing
        layers = range(1, self.config.n_layers + 1)
        there, windows = self.plan.entries, self._windows()
        pairs = [tuple(x if x in there else "" for x in (entry("k", n), entry("v", n))) for n in layers]
        pairs += [(name, "") for name in there if not any(name in pair for pair in pairs)]
        self.slots = []
        for keys, values in pairs:
            read = [windows[name] for name in (keys, values) if name]
            self.slots.append(Slot(keys, values, max(read, default=0) if all(read) else 0))
        self.slots += [Slot(name, "", window=0, first=True) for name in self.plan.firsts]
        self.places = {name: i for i, slot in enumerate(self.slots) for name in (slot.keys, slot.values) if name}

    @property
    def follows_places(self) -> bool:
        """True if reading earlier tokens depends on their positions."""
        return self.config.positions == "bias" or bool(self.plan.shifted or self.plan.firsts or self.plan.later)

    @property
    def windowed(self) -> bool:
        """True if some layer attends over its window alone."""
        return any(map(self.config.window_of, range(1, self.config.n_layers + 1)))

    def _windows(self) -> dict[str, int]:
        """Return how many of the last columns of an entry are read, by entry; 0: all."""
        found: dict[str, int] = {}
        for layer in range(1, self.config.n_layers + 1):
            window = self.config.window_of(layer) if self.windowed else 0
            for name in self.plan.read[layer - 1] | {gate_entry(layer)}:
                base, shift = self.plan.shifted.get(name, (self.plan.later.get(name, name), 0))
                base = TOKENS if base in self.plan.tables else base
                most = found.get(base, 1)
                found[base] = max(most, window + shift) if window and most else 0
        return found

    def prepare(self, cache: AnyCache, batch: int | None = None) -> None:
        """Give an empty cache the layers of this module; a cache that has them already may hold tokens.

        Raises:
            ValueError: For a cache of another kind, another model or another number of sequences.
        """
        for i, slot in enumerate(self.slots):
            there = cache.layers[i] if i < len(cache.layers) else None
            if isinstance(there, Growing | Windowed | Fixed | First | FixedFirst):
                if there.slot != slot:
                    raise ValueError("past_key_values: it holds what another plan keeps")
                if batch is not None and there.keys is not None and there.keys.shape[0] != batch:
                    raise ValueError(f"past_key_values: it is of {there.keys.shape[0]} sequences, not {batch}")
                continue
            layer = _layer(slot, cache, there)
            if i < len(cache.layers):
                cache.layers[i] = layer
            else:
                cache.layers.append(layer)


def _layer(slot: Slot, cache: AnyCache, there: Any) -> Any:
    like = there if there is not None else next(iter(cache.layers), None)
    if there is not None and there.keys is not None:
        raise ValueError("past_key_values: it holds what another model has read")
    if type(like) is StaticLayer or isinstance(like, Fixed):
        if "value_states" not in signature(StaticLayer.lazy_initialization).parameters:
            raise ValueError("past_key_values: static caches know how many heads values have since transformers 5")
        return (FixedFirst if slot.first else Fixed)(slot, like.max_cache_len)
    if like is not None and type(like) is not DynamicLayer and not isinstance(like, Growing | Windowed):
        raise ValueError(f"past_key_values: of {type(like).__name__}s; a DynamicCache or a StaticCache is filled")
    return First(slot) if slot.first else Windowed(slot) if slot.window else Growing(slot)


class Growing(DynamicLayer):
    """A layer that holds all tokens, of as many heads as its slot has."""

    def __init__(self, slot: Slot) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.slot = slot
        self.steps: dict[Any, Any] = {}

    def get_seq_length(self) -> int:
        return 0 if self.keys is None or self.keys.dim() < 4 else self.keys.shape[-2]


class Windowed(DynamicSlidingWindowLayer):
    """A layer that drops what its window does not show any more."""

    def __init__(self, slot: Slot) -> None:
        super().__init__(max(2, slot.window))  # of one column, the base class keeps all
        self.slot = slot
        self.steps: dict[Any, Any] = {}


class Fixed(StaticLayer):
    """A layer with room for a number of tokens, of as many heads of keys, and of values, as its slot has."""

    def __init__(self, slot: Slot, max_cache_len: int) -> None:
        super().__init__(max_cache_len)
        self.slot = slot
        self.steps: dict[Any, Any] = {}

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        super().lazy_initialization(key_states, value_states)
        if value_states.shape[1] != key_states.shape[1]:
            batch, heads, _, width = value_states.shape
            self.values = value_states.new_zeros(batch, heads, self.max_cache_len, width)
            if not torch.compiler.is_compiling():
                torch._dynamo.mark_static_address(self.values)


class First(DynamicLayer):
    """A layer that holds the first token's column alone, wherever it is cropped."""

    def __init__(self, slot: Slot) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.slot = slot

    def get_seq_length(self) -> int:
        return 0 if self.keys is None else 1

    def crop(self, *_: Any, **__: Any) -> None:
        """Keep the column: tokens that are read from the first one on are kept again."""

    def keep(self, made: Tensor, here: Tensor) -> Tensor:
        """Return the first token's column, (batch, heads, 1, width).

        Args:
            made: What the new tokens have, (batch, heads, T, width).
            here: Where the first token is among them, (T,) or (batch, T).
        """
        if self.keys is None:
            self.lazy_initialization(made, made)
            self.keys, self.values = torch.zeros_like(made[:, :, :1]), made.new_empty(len(made), 0, 1, 1)
        self.keys = _first_column(made, here, before=self.keys)
        return self.keys


class FixedFirst(Fixed):
    """Such a layer, whose column does not move in memory."""

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        super().lazy_initialization(key_states[:, :, :1], value_states[:, :, :1])
        self.keys, self.values = (x.new_zeros(*x.shape[:2], 1, x.shape[3]) for x in (key_states, value_states))
        if not torch.compiler.is_compiling():
            torch._dynamo.mark_static_address(self.keys)

    def get_seq_length(self) -> int:
        return int(self.is_initialized)

    def keep(self, made: Tensor, here: Tensor) -> Tensor:
        """Return the first token's column, as `First` does."""
        if not self.is_initialized:
            self.lazy_initialization(made, made[:, :0])
        assert self.keys is not None
        return self.keys.copy_(_first_column(made, here, before=self.keys))


def _first_column(made: Tensor, here: Tensor, before: Tensor) -> Tensor:
    """Return what the first token has where it is among the new ones, and what was kept before elsewhere."""
    here = here.expand(len(made), -1)[:, None, :, None]
    return torch.where(here.any(2, keepdim=True), torch.where(here, made, 0).sum(2, keepdim=True), before)


class Past:
    """A cache during a forward pass, `icl.models.frame.Past` for the decoder.

    Args:
        kept: What the decoder keeps.
        cache: A cache that is prepared for it, and holds what came before.
        x: The new tokens, embedded, (batch, T, d_model).
        columns: The number of columns, those of the new tokens included.
        rows: The columns of the new tokens, (T,).
        first: The column of every sequence's first real token, (batch, 1); None: 0.
    """

    def __init__(
        self, kept: Kept, cache: AnyCache, x: Tensor, *, columns: int, rows: Tensor, first: Tensor | None
    ) -> None:
        self.kept, self.cache, self.columns, self.first = kept, cache, columns, first
        self.is_first = rows == (0 if first is None else first)
        self.cropped = kept.windowed and not isinstance(cache.layers[0], Fixed)
        self.new, self.nothing = x.shape[1], x.new_empty(len(x), 0, x.shape[1], 1)
        self.seen: dict[str, Tensor] = {}
        first_layer = cache.layers[0]
        assert isinstance(first_layer, Growing | Windowed | Fixed)
        self.steps = first_layer.steps

    def count(self, layer: int) -> int:
        """Return how many of the last columns a layer attends over: its window, and the new tokens, or all."""
        window = self.kept.config.window_of(layer) if self.cropped else 0
        return min(self.columns, window - 1 + self.new) if window else self.columns

    def held(self, layer: int) -> Tensor:
        """Return the positions of the columns that a layer attends over, (columns,) or (batch, columns)."""
        column = torch.arange(self.columns - self.count(layer), self.columns, device=self.nothing.device)
        return column if self.first is None else (column - self.first).clamp(min=0)

    def attended(self, layer: int, bank: Mapping[str, Tensor]) -> tuple[Segments, Mapping[str, Tensor]]:
        """Return what the layer attends over, and keep what it has made."""
        plan = self.kept.plan
        by_slot: dict[int, dict[str, Tensor]] = {layer - 1: {}}
        for name, heads in plan.made[layer - 1]:
            made = by_slot.setdefault(self.kept.places[name], {})
            made[name] = bank[name] if heads is None else bank[name][:, heads]
        for place, made in by_slot.items():
            self._keep(place, made)
        for name, kept, heads in plan.made_first[layer - 1]:
            holder = self.cache.layers[self.kept.places[kept]]
            assert isinstance(holder, First | FixedFirst)
            self.seen[kept] = holder.keep(bank[name][:, heads], self.is_first)
        return plan.readers[layer - 1], {name: self._read(name, layer) for name in plan.read[layer - 1]}

    def keep_tokens(self, tokens: Tensor | None) -> None:
        """Keep the indices of the new tokens, (batch, T), where tables are looked up by them."""
        if self.kept.plan.tables:
            assert tokens is not None
            self._keep(self.kept.places[TOKENS], {TOKENS: tokens[:, None, :, None].to(torch.int32)})

    def views(self, layer: int) -> list[tuple[slice, Tensor, Tensor]] | None:
        pieces = self.kept.plan.pieces[layer - 1]
        return None if pieces is None else [self._view(piece, layer) for piece in pieces]

    def _view(self, piece: Any, layer: int) -> tuple[slice, Tensor, Tensor]:
        key, value = (
            self._last(name, layer)[:, first : first + piece.heads] for name, first in (piece.key, piece.value)
        )
        return slice(piece.head, piece.head + piece.heads), key, value

    def extended(self, layer: int, name: str, new: Tensor) -> Tensor:
        self._keep(self.kept.places[name], {name: new})
        return self._last(name, layer)

    def _keep(self, place: int, made: Mapping[str, Tensor]) -> None:
        slot = self.kept.slots[place]
        keys, values = (made.get(name, self.nothing) for name in (slot.keys, slot.values))
        self.seen[slot.keys], self.seen[slot.values] = self.cache.update(keys, values, place)

    def _last(self, name: str, layer: int, shift: int = 0) -> Tensor:
        """Return the columns of an entry that a layer attends over, or those so many tokens before; zeros before 0."""
        there, count = self.seen[name], self.count(layer)
        end = there.shape[2] - shift
        found = there[:, :, max(0, end - count) : max(0, end)]
        missing = count - found.shape[2]
        return pad(found, (0, 0, missing, 0)) if missing else found

    def _read(self, name: str, layer: int) -> Tensor:
        """Return an entry of all tokens that are attended over, as the bank would hold it."""
        plan = self.kept.plan
        if name in plan.firsts:
            return limited(self.seen[name].expand(-1, -1, self.count(layer), -1), "first", self.held(layer))
        if name in plan.later:
            return limited(self._last(plan.later[name], layer), "later", self.held(layer))
        base, shift = plan.shifted.get(name, (name, 0))
        if base in plan.tables:
            table, heads = plan.tables[base]
            found = table(self._last(TOKENS, layer, shift)[:, 0, :, 0])
            found = found if heads is None else found[:, heads]
        else:
            found = self._last(base, layer, shift)
        if not shift:
            return found
        follows = self.held(layer) >= shift
        return found * (follows if follows.dim() == 1 else follows[:, None])[..., None]


def kept_by(decoder: Decoder, argument: str) -> Kept:
    """Return what a decoder keeps.  Raises ValueError, by the argument's name, where a plan cannot be decoded."""
    try:
        return Kept(decoder)
    except BadInput as error:
        raise ValueError(f"{argument}: {error}") from None
