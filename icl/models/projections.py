"""Projections of a layer's attention, and its table of tokens' rows and its gates of sources, where it has some.

The *bank* holds their outputs that this or a later layer reads, as `bank["v3"]`, of shape (batch, heads built, T,
width); what a plan shifts by a token stands there as `bank["v3<1"]`, and what it reads at a sequence's first token
alone as `bank["v3@first"]`.  It goes into a layer and comes out of it; nothing is remembered in a module.  How heads
read it: `icl.models.reading`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor, nn

from icl.models.frame import Bank, Frame, limited, shifted
from icl.models.rotary import Rotation
from icl.models.unset import Embedding, Linear
from theory.plans.architecture import Architecture, Tokens
from theory.plans.mix import KINDS, Kind, Where
from theory.plans.plan import Plan, built, gate_channels, lifetimes, limits, shifts

Read = Tensor | tuple[Tensor, Tensor, Tensor]  # what a sublayer reads, or an attention for queries, keys and values
NAMES: dict[Kind, str] = {"q": "query", "k": "key", "v": "value", "e": "table", "g": "gate"}


def entry(kind: Kind, layer: int, shift: int = 0, where: Where = "everywhere") -> str:
    """Return the bank's name for the output of a projection or table, shifted by so many tokens, or limited to some."""
    if where != "everywhere":
        return f"{kind}{layer}@{where}"
    return f"{kind}{layer}<{shift}" if shift else f"{kind}{layer}"


def gate_entry(layer: int) -> str:
    """Return the name of the keys' gates of dynamic values, where they are kept for later tokens."""
    return f"gate{layer}"


def learned_name(name: str) -> str:
    """Return the parameter name of a plan's learned weight, which never is an attribute of a ParameterDict."""
    return f"w_{name}"


class HeadLinear(Linear):
    """A linear map to some of a layer's heads: those rows of the map to all of them, in every respect.

    `made_for` is how many there are, `heads` which of them (from 1) are built, `width` the numbers per head.  It maps
    (batch, T, d_model) to (batch, T, heads built * width), as any linear map, so that whatever wraps linear maps can
    wrap it; `by_head` tells the heads apart.
    """

    def __init__(self, d_model: int, made_for: int, heads: Sequence[int], width: int, bias: bool) -> None:
        super().__init__(d_model, len(heads) * width, bias)
        self.made_for, self.heads, self.width = made_for, tuple(heads), width

    def whole(self, shape: torch.Size) -> torch.Size:
        """Return the shape of a parameter if all heads were built."""
        return torch.Size((self.made_for * self.width, *shape[1:]))

    def cut(self, whole: Tensor) -> Tensor:
        """Return the built heads' part of a parameter for all heads."""
        rows = whole.unflatten(0, (self.made_for, self.width))
        return rows[[h - 1 for h in self.heads]].flatten(0, 1)


class HeadTable(Embedding):
    """A learned row per token for some of a layer's heads: those columns of the table for all of them."""

    def __init__(self, vocab: int, made_for: int, heads: Sequence[int], width: int) -> None:
        super().__init__(vocab, len(heads) * width)
        self.made_for, self.heads, self.width = made_for, tuple(heads), width

    def whole(self, shape: torch.Size) -> torch.Size:
        return torch.Size((shape[0], self.made_for * self.width))

    def cut(self, whole: Tensor) -> Tensor:
        columns = whole.unflatten(1, (self.made_for, self.width))
        return columns[:, [h - 1 for h in self.heads]].flatten(1, 2)

    def forward(self, tokens: Tensor) -> Tensor:
        """Look (batch, T) tokens up: (batch, heads built, T, width)."""
        return by_head(super().forward(tokens), self.width)


class MergeLinear(Linear):
    """The output projection from some of a layer's heads, `merged`: those columns of the map from all of them."""

    def __init__(self, d_model: int, made_for: int, heads: Sequence[int], width: int, bias: bool) -> None:
        super().__init__(len(heads) * width, d_model, bias)
        self.made_for, self.heads, self.width = made_for, tuple(heads), width

    def whole(self, shape: torch.Size) -> torch.Size:
        return torch.Size((shape[0], self.made_for * self.width)) if len(shape) == 2 else shape

    def cut(self, whole: Tensor) -> Tensor:
        if whole.dim() == 1:
            return whole
        columns = whole.unflatten(1, (self.made_for, self.width))
        return columns[:, [h - 1 for h in self.heads]].flatten(1, 2)


def by_head(x: Tensor, width: int) -> Tensor:
    """Tell heads apart: (batch, T, heads * width) -> (batch, heads, T, width)."""
    return x.unflatten(-1, (-1, width)).transpose(1, 2)


def merged(heads: Tensor) -> Tensor:
    """Join heads: (batch, heads, T, width) -> (batch, T, heads * width)."""
    return heads.transpose(1, 2).flatten(-2)


def spread(heads: Sequence[int], group: int) -> list[int]:
    """Return the query heads, from 1, of key/value heads."""
    return [(h - 1) * group + i for h in heads for i in range(1, group + 1)]


class Projections(nn.Module):
    """The q, k and v projections of one layer, its table and its gates of sources, as far as somebody reads them.

    made_for    per kind, how many heads and how wide they are; a kind that is left out is not built here
    group       query heads per key/value head
    norm        makes what norms a head's queries, or keys, before they are turned to their positions
    rotated     whether rotary positions turn this layer's queries and keys
    """

    def __init__(
        self,
        d_model: int,
        plan: Plan,
        layer: int,
        made_for: Mapping[Kind, tuple[int, int]],
        *,
        group: int = 1,
        bias: bool = False,
        norm: Callable[[], nn.Module] | None = None,
        stem: Tokens | None = None,
        rotated: bool = True,
    ) -> None:
        super().__init__()
        exist = built(plan)
        self.kinds: list[tuple[Kind, str]] = []
        self.widths: dict[Kind, int] = {}
        self.table: HeadTable | None = None
        if heads := exist.get(("e", layer)):
            assert stem is not None
            number, width = made_for["v"]
            self.table = HeadTable(stem.vocab, number, heads, width)
        for kind, (number, width) in made_for.items():
            if heads := exist.get((kind, layer)):
                if kind == "q":
                    heads = tuple(spread(heads, group))
                elif number == 1:  # one for all heads
                    heads = (1,)
                self.kinds.append((kind, entry(kind, layer)))
                self.add_module(NAMES[kind], HeadLinear(d_model, number, heads, width, bias))
                self.widths[kind] = width
                if norm is not None and kind != "v":
                    self.add_module(_norm_of(kind), norm())
        self.gate: HeadLinear | None = None
        if heads := exist.get(("g", layer)):
            self.gate_channels = min(gate_channels(plan)[layer] or d_model, d_model)
            self.gate = HeadLinear(self.gate_channels, made_for["v"][0], heads, 1, False)
        self.name_of_gate = entry("g", layer)
        self.normed, self.rotated = norm is not None, rotated
        lives = lifetimes(plan)
        kept = {entry(life.source.kind, life.source.layer) for life in lives if life.last > layer}
        self.shifts: list[tuple[str, str, int]] = []  # of this layer's entries: the entry, its shifted name, the tokens
        for (kind, n), by_shift in shifts(plan).items():
            kept |= {entry(kind, n, shift) for shift, last in by_shift.items() if last > layer}
            if n == layer:
                self.shifts += [(entry(kind, n), entry(kind, n, shift), shift) for shift in by_shift]
        self.limits: list[tuple[str, str, Where]] = []  # likewise: the entry, its name at some tokens, which these are
        for (kind, n), places in limits(plan).items():
            kept |= {entry(kind, n, where=where) for where, last in places.items() if last > layer}
            if n == layer:
                self.limits += [(entry(kind, n), entry(kind, n, where=where), where) for where in places]
        self.kept = frozenset(kept)
        self.name_of_table = entry("e", layer)

    @property
    def reads_input(self) -> bool:
        """True if anything is made of the layer's input, and not of tokens alone."""
        return bool(self.kinds) or self.gate is not None

    def forward(self, x: Read, bank: Bank, frame: Frame) -> Bank:
        """Return the bank with this layer's entries; queries and keys, normed or not, are rotated to their places."""
        bank, rotation = dict(bank), frame.rotation if self.rotated else None
        for kind, name in self.kinds:
            projection = self.get_submodule(NAMES[kind])
            out = by_head(projection(x if isinstance(x, Tensor) else x[KINDS.index(kind)]), self.widths[kind])
            if self.normed and kind != "v":
                out = self.get_submodule(_norm_of(kind))(out)
            bank[name] = out if rotation is None or kind == "v" else self.rotate(kind, out, rotation)
        if self.gate is not None:
            of_values = x if isinstance(x, Tensor) else x[2]
            bank[self.name_of_gate] = by_head(self.gate(of_values[..., : self.gate_channels]), 1).sigmoid()
        if self.table is not None:
            bank[self.name_of_table] = self.table(frame.looked_up)
        if frame.past is None:  # else the tokens before are there, and what is shifted is made from them
            for name, shifted_name, tokens in self.shifts:
                bank[shifted_name] = shifted(bank[name], tokens, frame.before)
            for name, limited_name, where in self.limits:
                bank[limited_name] = limited(bank[name], where, frame.places)
        return bank

    def rotate(self, kind: Kind, projected: Tensor, rotation: Rotation) -> Tensor:
        """Rotate queries or keys to their positions."""
        return rotation(projected)

    def still_needed(self, bank: Bank) -> Bank:
        """Return the part of the bank that later layers read."""
        return {name: tensor for name, tensor in bank.items() if name in self.kept}


def _norm_of(kind: Kind) -> str:
    return f"{NAMES[kind]}_norm"


def head_sizes(config: Architecture) -> dict[Kind, tuple[int, int]]:
    """Return each projection's number of heads when all are built, and their width."""
    kv = config.kv_heads, config.width
    return {"q": (config.n_heads, config.width), "k": kv, "v": kv}
