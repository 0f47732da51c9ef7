"""What no entry of the ledger need judge, and why: alterations of these may go unnoticed anywhere.

And reasons that several entries give beside themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from theory import machine
from theory.plans import mix, papers
from theory.prompts import spectral
from theory.toy import exact, population, stack, tokens

ANY_INPUT = "a source of random inputs: what is claimed is claimed of any"

UNJUDGED: Mapping[Callable[..., Any], str] = {
    machine.memory: "how much may be computed at a time: no number depends on it",
    papers.rooms: "the papers' years, by which they are listed",
    tokens.draw: ANY_INPUT,
    tokens.whole: ANY_INPUT,
    tokens.draw_weights: ANY_INPUT,
    exact.random_weights: ANY_INPUT,
    stack.prompt: ANY_INPUT,
    population.correlations: "how a descent solves for readouts: where it ends is valued without it",
    spectral.orthogonal: "a polynomial whose roots count, and not its size",
}

RANK = "a map whose rank counts, and not its size"
OF_VALUES: Mapping[Callable[..., Any], str] = {
    mix.q: "a claim on values: whose queries meet them makes no difference",
    mix.k: "a claim on values: whose keys meet them makes no difference",
}
