"""Plans as numbers: the coefficients of projections that the heads of every decoder of a stack read.

A plan gives each head sums of the projections' outputs.  Decoders of one shape then differ in numbers alone, so that
vanilla, ResFormer and SkipV1Former stand in one stack.  A head that a plan leaves out reads nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from theory.plans.mix import Kind, Learned, Mix, is_number
from theory.plans.plan import HeadPlan, Plan, learned

Role = Literal["query", "keys", "values", "beside"]
KINDS: dict[Role, Kind] = {"query": "q", "keys": "k", "values": "v", "beside": "v"}


@dataclass(frozen=True)
class Term:
    """The numbers with which heads read one layer's projection.

    how   "own": each head its own head's, once; "scaled": the same, times numbers (S, H); "mixed": any heads', by
          matrices (S, H, H), from reading head to head read
    slot  where the numbers stand among those of `numbers`; -1 for "own"
    """

    layer: int
    how: Literal["own", "scaled", "mixed"]
    slot: int


Table = tuple[dict[Role, tuple[Term, ...]], ...]


class Mixes:
    """The mixes of all plans of a stack, (S, ...) numbers; S decoders, H heads, K learned weights at most.

    table   by layer, what its heads read
    fixed   the numbers of every slot: (S, H) or (S, H, H); placed: what each learned weight adds to them, (S, K, ...),
            or None; a decoder's learned weights in the order of `theory.plans.plan.learned`
    width   K
    """

    def __init__(self, plans: Sequence[Plan], dtype: torch.dtype, device: torch.device) -> None:
        shape = plans[0].shape
        self.width = max(len(learned(plan)) for plan in plans)
        self.fixed: list[Tensor] = []
        self.placed: list[Tensor | None] = []
        distinct = list(dict.fromkeys(plans))
        of = torch.tensor([distinct.index(plan) for plan in plans])
        rows: list[dict[Role, tuple[Term, ...]]] = []
        for n in range(1, shape.layers + 1):
            row: dict[Role, tuple[Term, ...]] = {}
            for role in KINDS:
                terms = []
                for layer in range(1, n + 1):
                    fixed = torch.zeros(len(distinct), shape.heads, shape.heads, dtype=dtype)
                    placed = torch.zeros(len(distinct), self.width, shape.heads, shape.heads, dtype=dtype)
                    for p, plan in enumerate(distinct):
                        _fill(fixed[p], placed[p], plan, n=n, role=role, layer=layer)
                    if fixed.any() or placed.any():
                        terms.append(self._term(layer, fixed[of].to(device), placed[of].to(device)))
                row[role] = tuple(terms)
            rows.append(row)
        self.table: Table = tuple(rows)

    def _term(self, layer: int, fixed: Tensor, placed: Tensor) -> Term:
        eye = torch.eye(fixed.shape[-1], dtype=fixed.dtype, device=fixed.device)
        learns = bool(placed.any())
        if not learns and (fixed == eye).all():
            return Term(layer, "own", -1)
        same = not (fixed * (1 - eye)).any() and not (placed * (1 - eye)).any()
        if same:
            fixed, placed = fixed.diagonal(dim1=-2, dim2=-1), placed.diagonal(dim1=-2, dim2=-1)
        self.fixed.append(fixed.contiguous())
        self.placed.append(placed.contiguous() if learns else None)
        return Term(layer, "scaled" if same else "mixed", len(self.fixed) - 1)


def numbers(fixed: Sequence[Tensor], placed: Sequence[Tensor | None], weights: Tensor) -> list[Tensor]:
    """Return the coefficients of every slot; weights: (S, K), the learned ones."""
    return [
        f if p is None else f + (weights.view(*weights.shape, *[1] * (p.dim() - 2)) * p).sum(1)
        for f, p in zip(fixed, placed, strict=True)
    ]


def _fill(fixed: Tensor, placed: Tensor, plan: Plan, n: int, role: Role, layer: int) -> None:
    """Add what layer n's heads read of `layer`: fixed (H, H), placed (K, H, H)."""
    places = {name: i for i, name in enumerate(learned(plan))}
    for h in plan.live(n):
        for term in _mix(plan.head(n, h), role).terms:
            if term.source.layer != layer:
                continue
            if isinstance(term.weight, Learned):
                placed[places[term.weight.number], h - 1, term.source.head - 1] += term.weight.slope
                fixed[h - 1, term.source.head - 1] += term.weight.offset
            else:
                assert is_number(term.weight)
                fixed[h - 1, term.source.head - 1] += term.weight


def _mix(head: HeadPlan, role: Role) -> Mix:
    if role == "query":
        return head.query
    if role == "beside":
        return head.beside
    (mix,) = head.keys if role == "keys" else head.values
    return mix
