"""Which toys are compared: the variants that the toy covers, and mixtures of heads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from experiments.across.printed import reported
from theory.errors import BadInput
from theory.plans.heads import ORDINARY, SKIP, Heads, shares, toy_heads
from theory.plans.names import resolve
from theory.plans.plan import Plan, Shape
from theory.plans.setting import Setting
from theory.plans.variants import ours

if TYPE_CHECKING:
    pass


VALUE_MAPS, RAW_KEYS, HEAD_RATIO, ORDERINGS = "toy.value-maps", "toy.raw-keys", "toy.head-ratio", "toy.orderings"


PAPERS_WIDTH, PAPERS_HEADS = 768, 12  # LLaMA-130M and GPT2-125M; the order is the same at every width of the papers


TIE = 0.01  # of the signal: a smaller difference between two toys is none


NAMES = tuple(dict.fromkeys([*ours(), *(name for r in reported() for name in (r.variant, r.against))]))


@dataclass(frozen=True, kw_only=True)
class Config:
    """every_rank: sizes at which every toy is minimised at every rank; shown: the figure's, at d/2 and d only.

    heads: of every plan; mixed: of the mixtures of ordinary and skip heads, minimised at `mixed_size`.  A seed stands
    for one block of `starts` descents, of which the lowest counts; of `joint_starts` for the figure's toys whose heads
    have to work together, where one descent in forty may find the best.
    """

    every_rank: tuple[Setting, ...]
    shown: Setting
    mixed_size: Setting
    starts: int
    joint_starts: int
    heads: int = 2
    mixed: int = 4


def plans(heads: int) -> dict[str, Plan]:
    """The named variants that the toy covers, at two layers of so many heads."""
    by_name = {}
    for name in NAMES:
        try:
            plan = resolve(name, Shape(2, heads))
            toy_heads(plan)
        except BadInput:
            continue
        by_name[name] = plan
    return by_name


def toys(heads: int) -> tuple[dict[str, Heads], dict[str, str]]:
    """The toys that differ, each by the first variant that it stands for, and the toy of every variant."""
    distinct: dict[tuple[object, ...], str] = {}
    architectures: dict[str, Heads] = {}
    toy_of: dict[str, str] = {}
    for name, plan in plans(heads).items():
        reduced = tuple(sorted(toy_heads(plan), key=lambda h: (str(h.key), h.raw, h.key_raw)))
        signature = (
            tuple((h.copied, h.raw, h.key_copied, h.key_raw) for h in reduced),
            *(tuple(shares(reduced, label)[1]) for label in ("readout", "key")),
        )
        toy_of[name] = distinct.setdefault(signature, name)
        architectures.setdefault(toy_of[name], reduced)
    return architectures, toy_of


def mixtures(heads: int) -> dict[str, Heads]:
    """From ordinary heads alone to skip heads alone."""
    return {f"{h} of {heads} skip": (ORDINARY,) * (heads - h) + (SKIP,) * h for h in range(heads + 1)}
