"""Projections of a layer's attention, and how heads read them, their own layer's or an earlier one's.

The *bank* holds the projections' outputs that this or a later layer reads, as `bank["v3"]`, of shape
(batch, heads built, T, width).  It goes into a layer and comes out of it; nothing is remembered in a module.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor, nn

from icl.models.rotary import Rotation
from icl.models.unset import Linear
from theory.plans.architecture import Architecture
from theory.plans.mix import KINDS, Kind, Learned, Mix
from theory.plans.plan import Plan, built, lifetimes, runs

Bank = dict[str, Tensor]
Read = Tensor | tuple[Tensor, Tensor, Tensor]  # what a sublayer reads, or an attention for queries, keys and values
Built = Mapping[tuple[Kind, int], tuple[int, ...]]  # the heads that the bank's entries hold, by kind and layer
NAMES: dict[Kind, str] = {"q": "query", "k": "key", "v": "value"}


def entry(kind: Kind, layer: int) -> str:
    """Return the bank's name for a projection's output."""
    return f"{kind}{layer}"


def gate_entry(layer: int) -> str:
    """Return the name of the keys' gates of dynamic values, where they are kept for later tokens."""
    return f"gate{layer}"


def learned_name(name: str) -> str:
    """Return the parameter name of a plan's learned weight, which never is an attribute of a ParameterDict."""
    return f"w_{name}"


class HeadLinear(Linear):
    """A linear map to some of a layer's heads: those rows of the map to all of them, in every respect.

    `made_for` is how many there are, `heads` which of them (from 1) are built, `width` the numbers per head.
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

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, T, d_model) to (batch, heads built, T, width)."""
        return super().forward(x).unflatten(-1, (len(self.heads), self.width)).transpose(1, 2)


class MergeLinear(Linear):
    """The output projection from some of a layer's heads: those columns of the map from all of them."""

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

    def forward(self, heads: Tensor) -> Tensor:
        """Map (batch, heads, T, width) to (batch, T, d_model)."""
        return super().forward(merged(heads))


def merged(heads: Tensor) -> Tensor:
    """Join heads: (batch, heads, T, width) -> (batch, T, heads * width)."""
    return heads.transpose(1, 2).flatten(-2)


def spread(heads: Sequence[int], group: int) -> list[int]:
    """Return the query heads, from 1, of key/value heads."""
    return [(h - 1) * group + i for h in heads for i in range(1, group + 1)]


class Projections(nn.Module):
    """The q, k and v projections of one layer, as far as somebody reads them.

    made_for    per kind, how many heads and how wide they are; a kind that is left out is not built here
    group       query heads per key/value head
    norm        makes what norms a head's queries, or keys, before they are turned to their positions
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
    ) -> None:
        super().__init__()
        exist = built(plan)
        self.kinds: list[tuple[Kind, str]] = []
        for kind, (number, width) in made_for.items():
            if heads := exist.get((kind, layer)):
                if kind == "q":
                    heads = tuple(spread(heads, group))
                elif number == 1:  # one for all heads
                    heads = (1,)
                self.kinds.append((kind, entry(kind, layer)))
                self.add_module(NAMES[kind], HeadLinear(d_model, number, heads, width, bias))
                if norm is not None and kind != "v":
                    self.add_module(_norm_of(kind), norm())
        self.normed = norm is not None
        lives = lifetimes(plan)
        self.kept = frozenset(entry(life.source.kind, life.source.layer) for life in lives if life.last > layer)

    def forward(self, x: Read, bank: Bank, rotation: Rotation | None) -> Bank:
        """Return the bank with this layer's entries; queries and keys, normed or not, are rotated to their places."""
        bank = dict(bank)
        for kind, name in self.kinds:
            out = self.get_submodule(NAMES[kind])(x if isinstance(x, Tensor) else x[KINDS.index(kind)])
            if self.normed and kind != "v":
                out = self.get_submodule(_norm_of(kind))(out)
            bank[name] = out if rotation is None or kind == "v" else self.rotate(kind, out, rotation)
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


class Reader:
    """The sums of sources that a plan gives some heads: slices of the bank, weighted and joined.

    heads, mixes    what each head reads, in order
    exist           which heads the bank's entries hold, as `built(plan)` says
    group           bank heads per head of the plan
    """

    def __init__(
        self,
        heads: tuple[int, ...],
        mixes: tuple[Mix, ...],
        exist: Built,
        group: int = 1,
    ) -> None:
        self.runs: list[tuple[int, list[tuple[str | float, str, int]]]] = []
        for run in runs(heads, mixes):
            terms = []
            for weight, kind, layer, head in run.terms:
                start = exist[kind, layer].index(head) * group
                used = learned_name(weight.name) if isinstance(weight, Learned) else weight
                terms.append((used, entry(kind, layer), start))
            self.runs.append((run.count * group, terms))

    @property
    def names(self) -> set[str]:
        """The bank's entries that are read."""
        return {name for _, terms in self.runs for _, name, _ in terms}

    def __call__(self, bank: Mapping[str, Tensor], learned: Mapping[str, Tensor]) -> Tensor:
        """Return the sums, (batch, heads, T, width)."""
        parts = [_summed(count, terms, bank, learned) for count, terms in self.runs if terms]
        if len(parts) == len(self.runs) == 1:
            return parts[0]
        zero, pieces = torch.zeros_like(parts[0][:, :1]), iter(parts)
        return torch.cat([next(pieces) if terms else zero.expand(-1, count, -1, -1) for count, terms in self.runs], 1)


Segments = list[tuple[Reader, Reader]]  # of keys and of values, for each list that a layer's heads attend over


def _summed(
    count: int, terms: list[tuple[str | float, str, int]], bank: Mapping[str, Tensor], learned: Mapping[str, Tensor]
) -> Tensor:
    parts = []
    for weight, name, start in terms:
        part = bank[name] if bank[name].shape[1] == count else bank[name].narrow(1, start, count)
        if isinstance(weight, str):
            part = part * learned[weight].to(part.dtype)
        elif weight != 1:
            part = part * weight
        parts.append(part)
    return functools.reduce(torch.add, parts)
