"""The length of trainings on text: tokens per parameter, from an experiment's stored configuration."""

from __future__ import annotations

from dataclasses import replace

from experiments.store.folders import Json
from experiments.training.campaign import BASELINE
from experiments.training.text import of_models
from theory.plans.accounting import total_parameters
from theory.plans.architecture import Tokens
from theory.plans.names import resolve


def tokens_per_parameter(config: Json) -> list[float]:
    """Return the tokens that trainings read over vanilla's parameters, of each length that an experiment trains.

    Parameters are counted with both embeddings.  The list is empty for an experiment that does not train on text.

    Args:
        config: as a run's config.json or summary.json holds it under `config`.
    """
    if {"setting", "groups"} <= config.keys():  # a question to the campaign
        return sorted({float(group["until"]) for group in config["groups"]})
    if "data" not in config:
        return []
    from icl.models.saved import architecture_of  # with torch, which runs on toys do without

    base = replace(architecture_of(config["architecture"]), stem=Tokens(of_models(config["vocab"])))
    recipe = config["recipe"]
    tokens = recipe["steps"] * config.get("tokens", recipe["batch"] * base.context)
    return [tokens / total_parameters(base, resolve(BASELINE, base.shape))]


def in_words(config: Json) -> str:
    """Return how long an experiment trains on text; empty if it does not."""
    ratios = tokens_per_parameter(config)
    if not ratios:
        return ""
    numbers = f"{ratios[0]:.2g}" if len(ratios) == 1 else f"{ratios[0]:.2g} to {ratios[-1]:.2g}"
    return f"{numbers} tokens of text per parameter (vanilla's, embeddings included)"
