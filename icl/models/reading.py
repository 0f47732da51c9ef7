"""Readers of the bank: the weighted sums of its entries' heads that heads attend over (`icl.models.projections`).

Sums of few terms, or alike for many heads, are added term by term.  Where every head reads nearly every head of many
layers with weights of its own, as in LIMe, the sums are products with matrices, whose entries are the weights.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor

from icl.models.projections import entry, learned_name
from theory.plans.mix import Gated, Kind, Learned, Mix, Where
from theory.plans.plan import LearnedParameter, runs

# The heads that the bank's entries hold, by kind and layer; by FIRST and layer where those at the first token differ.
Built = Mapping[tuple[Kind, int], tuple[int, ...]] | Mapping[tuple[str, int], tuple[int, ...]]
FIRST = "v@first"
DENSE = 16  # terms of all heads together, from which on they may be taken as a matrix


def held_heads(exist: Built, kind: Kind, layer: int, *, where: Where) -> tuple[int, ...]:
    """Return the heads that an entry of the bank holds."""
    known: Mapping[Any, tuple[int, ...]] = exist
    own = known.get((FIRST, layer)) if where == "first" else None
    return known[kind, layer] if own is None else own


class Weight:
    """A learned weight as it is read from a model's parameters: offset + slope * a number, or a vector."""

    def __init__(self, weight: Learned, parameters: Mapping[str, LearnedParameter]) -> None:
        self.name, self.slope, self.offset = learned_name(weight.name), weight.slope, weight.offset
        self.place = None if weight.place is None else parameters[weight.name].places.index(weight.place)
        self.wide = weight.wide

    def __call__(self, learned: Mapping[str, Tensor]) -> Tensor:
        """Return the weight, of shape (1,) or, where it is wide, (width,)."""
        x = learned[self.name]
        x = x if self.place is None else x.narrow(0, self.place, 1)
        x = x if self.slope == 1 else self.slope * x
        return x if self.offset == 0 else self.offset + x


class GateWeight:
    """The gates that weigh neighbouring heads, as they are read from the bank: offset + slope * a number per token."""

    def __init__(self, weight: Gated, exist: Built) -> None:
        self.name, self.slope, self.offset = entry("g", weight.layer), weight.slope, weight.offset
        self.first = exist["g", weight.layer].index(weight.head)

    def __call__(self, bank: Mapping[str, Tensor], count: int) -> Tensor:
        """Return the weights of so many heads, (batch, count, T, 1)."""
        x = self.slope * bank[self.name].narrow(1, self.first, count)
        return x if self.offset == 0 else self.offset + x


# A weight, an entry of the bank, and the first of the heads there.
Term = tuple[Weight | GateWeight | float, str, int]


class Reader:
    """The sums of sources that a plan gives some heads: slices of the bank, weighted and joined.

    heads, mixes    what each head reads, in order
    exist           which heads the bank's entries hold, as `built(plan)` says
    group           bank heads per head of the plan
    parameters      the plan's learned weights, as `learned_parameters(plan)` says
    """

    def __init__(
        self,
        heads: tuple[int, ...],
        mixes: tuple[Mix, ...],
        exist: Built,
        group: int = 1,
        parameters: Mapping[str, LearnedParameter] | None = None,
    ) -> None:
        self.runs: list[tuple[int, list[Term]]] = []
        sizes: dict[str, int] = {}
        for run in runs(heads, mixes):
            terms: list[Term] = []
            for weight, kind, layer, head, shift, where in run.terms:
                name, held = entry(kind, layer, shift, where), held_heads(exist, kind, layer, where=where)
                start = held.index(head) * group
                used: Weight | GateWeight | float
                match weight:
                    case Learned():
                        used = Weight(weight, parameters or {})
                    case Gated():
                        used = GateWeight(weight, exist)
                    case _:
                        used = weight
                terms.append((used, name, start))
                sizes[name] = len(held) * group
            self.runs.append((run.count * group, terms))
        self.dense = _Dense(self.runs, sizes) if _is_dense(self.runs, sizes) else None

    @property
    def names(self) -> set[str]:
        """The bank's entries that are read."""
        terms = [term for _, terms in self.runs for term in terms]
        return {name for _, name, _ in terms} | {w.name for w, *_ in terms if isinstance(w, GateWeight)}

    def __call__(self, bank: Mapping[str, Tensor], learned: Mapping[str, Tensor]) -> Tensor:
        """Return the sums, (batch, heads, T, width)."""
        if self.dense is not None:
            return self.dense(bank, learned)
        parts = [_summed(count, terms, bank, learned) for count, terms in self.runs if terms]
        if len(parts) == len(self.runs) == 1:
            return parts[0]
        zero, pieces = torch.zeros_like(parts[0][:, :1]), iter(parts)
        return torch.cat([next(pieces) if terms else zero.expand(-1, count, -1, -1) for count, terms in self.runs], 1)


Segments = list[tuple[Reader, Reader]]  # of keys and of values, for each list that a layer's heads attend over


def move(segments: Segments, device: torch.device) -> Segments:
    """Return readers whose numbers, which are no parameters, lie on a device: a step that copies them waits for it."""
    for reader in (reader for pair in segments for reader in pair):
        if reader.dense is not None:
            reader.dense.move(device)
    return segments


def _summed(count: int, terms: list[Term], bank: Mapping[str, Tensor], learned: Mapping[str, Tensor]) -> Tensor:
    parts = []
    for weight, name, start in terms:
        part = bank[name] if bank[name].shape[1] == count else bank[name].narrow(1, start, count)
        if isinstance(weight, Weight):
            part = part * weight(learned).to(part.dtype)
        elif isinstance(weight, GateWeight):
            part = part * weight(bank, count)
        elif weight != 1:
            part = part * weight
        parts.append(part)
    return functools.reduce(torch.add, parts)


def _is_dense(runs: list[tuple[int, list[Term]]], sizes: Mapping[str, int]) -> bool:
    """Return whether at least half of what heads could read of the entries is read, with weights of its own."""
    terms = [weight for _, terms in runs for weight, _, _ in terms]
    if len(runs) < 2 or len(terms) < DENSE or any(map(_is_apart, terms)):
        return False
    return 2 * len(terms) >= sum(count for count, _ in runs) * sum(sizes.values())


def _is_apart(weight: Weight | GateWeight | float) -> bool:
    """Return whether a weight is none that a matrix of numbers holds."""
    return isinstance(weight, GateWeight) or (isinstance(weight, Weight) and weight.wide)


class _Dense:
    """All sums as one product: a matrix of weights times the entries, one above the other.

    Numbers of the matrix are fixed, or those of learned parameters, a slope and an offset each, which are put in place
    by parameter.
    """

    def __init__(self, runs: list[tuple[int, list[Term]]], sizes: Mapping[str, int]) -> None:
        self.names = list(sizes)
        starts = dict(zip(sizes, accumulate(sizes.values(), initial=0), strict=False))
        self.shape = sum(count for count, _ in runs), sum(sizes.values())
        fixed = [[0.0] * self.shape[1] for _ in range(self.shape[0])]
        chosen: dict[str, list[tuple[int, int, float]]] = {}  # by parameter: number, place in the matrix, slope
        row = 0
        for count, terms in runs:
            for weight, name, start in terms:
                for i in range(count):
                    column = starts[name] + start + i
                    if isinstance(weight, Weight):
                        place = (row + i) * self.shape[1] + column
                        chosen.setdefault(weight.name, []).append((weight.place or 0, place, weight.slope))
                        fixed[row + i][column] += weight.offset
                    else:
                        assert not isinstance(weight, GateWeight)
                        fixed[row + i][column] += weight
            row += count
        self.fixed = torch.tensor(fixed, dtype=torch.float64, device="cpu")
        self.chosen = {name: tuple(map(_column, zip(*terms, strict=True))) for name, terms in chosen.items()}

    def move(self, device: torch.device) -> None:
        """Move the numbers to the model's device; on `meta` they would be lost."""
        if device.type != "meta":
            self.fixed = self.fixed.to(device)
            self.chosen = {name: tuple(x.to(device) for x in columns) for name, columns in self.chosen.items()}

    def __call__(self, bank: Mapping[str, Tensor], learned: Mapping[str, Tensor]) -> Tensor:
        entries = torch.cat([bank[name] for name in self.names], dim=1)
        device = entries.device
        dtype = torch.promote_types(entries.dtype, torch.float32)
        matrix = self.fixed.to(device=device, dtype=dtype).flatten()
        for name, (numbers, places, slopes) in self.chosen.items():
            weights = learned[name].to(dtype)[numbers.to(device)] * slopes.to(device=device, dtype=dtype)
            matrix = matrix.index_add(0, places.to(device), weights)
        out: Tensor = torch.einsum("hs,bstw->bhtw", matrix.view(self.shape).to(entries.dtype), entries)
        return out


def _column(numbers: tuple[float, ...]) -> Tensor:
    return torch.tensor(numbers, device="cpu")
