"""Exemptions from judgement: functions whose alterations may go unnoticed by every entry, with the reasons."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from theory import machine
from theory.plans import deeper, papers, plan
from theory.prompts import moments, rationals, spectral
from theory.toy import exact, population, stack, tokens

ANY_INPUT = "a source of random inputs: what is claimed is claimed of any"
DESCENT = "what a descent follows: where it ends is valued without it"

UNJUDGED: Mapping[Callable[..., Any], str] = {
    machine.memory: "how much may be computed at a time: no number depends on it",
    deeper.beyond_two_layers: "a remark on deeper models: no number depends on it",
    papers.rooms: "the papers' years, by which they are listed",
    plan.built: "which heads are built: those that nobody reads change no answer, and only their number counts",
    tokens.draw: ANY_INPUT,
    tokens.whole: ANY_INPUT,
    tokens.draw_weights: ANY_INPUT,
    exact.random_weights: ANY_INPUT,
    stack.prompt: ANY_INPUT,
    population.correlations: DESCENT,
    population.PopulationLoss.best_readout: DESCENT,
    population.PopulationLoss.value_and_gradient: DESCENT,
    population.PopulationLoss.value_and_gradient_at_best_readout: DESCENT,
    moments.PromptMoments.target_right: DESCENT,
    population.PopulationLoss.accurate_value: "the loss once more, in longer numbers",
    population.Weights.arrays: "the parts of weights: others are other weights, and their loss is theirs",
    rationals.over_one: "whole numbers and their denominator: altered alike they are the same fractions",
    spectral.orthogonal: "a polynomial whose roots count, and not its size",
}
