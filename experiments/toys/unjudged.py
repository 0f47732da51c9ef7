"""What no entry of the ledger need judge, and why: alterations of these may go unnoticed anywhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from theory import machine
from theory.toy import exact, population, stack, tokens

ANY_INPUT = "a source of random inputs: what is claimed is claimed of any"

UNJUDGED: Mapping[Callable[..., Any], str] = {
    machine.memory: "how much may be computed at a time; no number depends on it",
    tokens.draw: ANY_INPUT,
    tokens.whole: ANY_INPUT,
    tokens.draw_weights: ANY_INPUT,
    exact.random_weights: ANY_INPUT,
    stack.prompt: ANY_INPUT,
    population.correlations: "how a descent solves for readouts: where it ends is valued without it",
}
