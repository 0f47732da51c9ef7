"""The vocabulary of variants, as far as the two-layer toy needs it.  Standard library only."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Head:
    """What a second-layer head attends over: copied * TF_1(E) + raw * E.

    `copied` weighs the first layer's output, in which y_t's token holds u_t; `raw` weighs the input tokens, which is
    what a value skip connection from layer 1 brings back.
    """

    copied: float
    raw: float


ORDINARY = Head(copied=1, raw=0)
SKIP = Head(copied=0, raw=1)

Heads = tuple[Head, ...]
MHA: Heads = (ORDINARY, ORDINARY)
SKIPV1: Heads = (ORDINARY, SKIP)
TOYS: dict[str, Heads] = {"mha": MHA, "skipv1": SKIPV1}
