"""Exemptions from judgement: functions whose alterations may go unnoticed by every entry, with the reasons.

Reasons that several entries give beside themselves stand here too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from theory import machine
from theory.plans import architecture, deeper, heads, mix, papers, plan
from theory.prompts import moments, rationals, spectral
from theory.toy import exact, population, stack, tokens

ANY_INPUT = "a source of random inputs: what is claimed is claimed of any"
DESCENT = "what a descent follows: where it ends is valued without it"

UNJUDGED: Mapping[Callable[..., Any], str] = {
    machine.memory: "how much may be computed at a time: no number depends on it",
    deeper.beyond_two_layers: "a remark on deeper models: no number depends on it",
    papers.rooms: "the papers' years, by which they are listed",
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

ONE_OF_SEVERAL = "a family of products beside others, of which the best is taken"
OVER_RANKS = "its least value over ranks is what enough heads approach, at that rank"
RANK = "a map whose rank counts, and not its size"
OF_VALUES: Mapping[Callable[..., Any], str] = {
    mix.q: "a claim on values: whose queries meet them makes no difference",
    mix.k: "a claim on values: whose keys meet them makes no difference",
}
OF_VALUE_MAPS: Mapping[Callable[..., Any], str] = {
    **OF_VALUES,
    heads.toy_heads: "whether a value is there counts, and not its weight",
    heads.is_bound: "whether bound weights attain an optimum, of which nothing is claimed",
}
NUMBER = "of the heads that are built, only how many counts"
OF_CACHES: Mapping[Callable[..., Any], str] = {mix.q: "queries are not cached", plan.Plan.live: NUMBER}
OF_COUNTS: Mapping[Callable[..., Any], str] = {plan.built: NUMBER, plan.Plan.live: NUMBER}
OF_PARAMETERS: Mapping[Callable[..., Any], str] = {
    **OF_COUNTS,
    architecture.Architecture.sublayers: "a residual stream has no parameters, however often it is read",
}
