"""Trainings of every rule at every depth, at learning rates of their own and at PreNorm's."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from experiments.attnres.dilution import probe
from experiments.attnres.dilution.points import DENSE, Config, cell
from experiments.store.folders import Json
from experiments.training.arms import Arm
from experiments.training.campaign import BASELINE, TWIN, of_runs, rounds
from experiments.training.tuning import tuned
from theory.plans.architecture import Tokens

if TYPE_CHECKING:
    from experiments.store.folders import RunFolder


def measured(config: Config, seeds: int, run: RunFolder, label: str) -> Json:
    """shares, loss       by cell and seed, each at its own learning rate
    at_prenorms_rate   the last read's `effective` at the end, null where one diverged, at PreNorm's rate of the same
                       depth; nothing where there is one rate for all
    """
    from experiments.training.text import text

    read = text(run.slot.data or config.data, config.vocab, config.held_out_windows)
    own = {variant.name: variant for variant in config.own}

    def arm(rule: str, depth: int, rate: float, seed: int, *probes: str) -> Arm:
        sizes, named = replace(config.at(depth), stem=Tokens(read.vocab)), BASELINE if rule == TWIN else rule
        sizes, plan = own[rule].on(sizes) if rule in own else (sizes, named)
        return Arm(
            architecture=sizes,
            variant=plan,
            source=read.source,
            recipe=replace(config.recipe, learning_rate=rate),
            seed=seed,
            std=config.std,
            twin=rule == TWIN,
            probes=probes,
            label=rule if rule in own else "",
        )

    # The longest first, so that none is left to run alone at the end.
    cells = [(rule, depth) for depth in reversed(config.depths) for rule in reversed(config.rules(depth))]
    trials = {cell(*at): arm(*at, config.recipe.learning_rate, 0) for at in cells}
    rates, tuning = tuned(trials, config.tuning, run, label)
    prenorms = {depth: rates[cell(BASELINE, depth)] for depth in config.depths}
    at_own = [(*at, rates[cell(*at)]) for at in cells] + [(TWIN, *at) for at in prenorms.items()]
    at_prenorms = [(rule, depth, prenorms[depth]) for rule, depth in cells if tuning["tuned"] and rule != DENSE]
    every = dict.fromkeys([*at_own, *at_prenorms])
    by_seed = rounds(lambda seed: {at: arm(*at, seed, probe.NAME) for at in every}, seeds, run, label)
    records = [record for r in by_seed for record in r.values()]
    probed = {at: [r[at]["probes"][probe.NAME] for r in by_seed] for at in every}
    return {
        "seeds": len(by_seed),
        "tuning": tuning,
        "shares": {cell(*at[:2]): probed[at] for at in at_own},
        "loss": {cell(*at[:2]): [r[at]["loss"] for r in by_seed] for at in at_own},
        "at_prenorms_rate": {
            cell(*at[:2]): [both["end"] and both["end"]["effective"][-1] for both in probed[at]] for at in at_prenorms
        },
        "d_model": config.architecture.d_model,
        "diverged": [record["diverged"] for record in records if record["diverged"]],
        "text": read.name,
        "provenance": of_runs(records),
    }
