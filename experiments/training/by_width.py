"""Carrying out compute-optimal trainings: from the smallest width on, a round a seed, on one epoch at most."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from experiments.store.folders import Json, Unfinished, UserError
from experiments.training.arms import Arm
from experiments.training.campaign import BASELINE, TWIN, of_runs, rounds
from experiments.training.optimal import Optimal, cell, transferred
from experiments.training.tuning import tuned
from icl.recipe import Recipe
from theory.plans.architecture import Architecture

if TYPE_CHECKING:
    from experiments.store.folders import RunFolder
    from experiments.training.text import Text

Arms = Callable[[Architecture, Recipe, int], Mapping[str, Arm]]  # of sizes, a recipe and a seed, vanilla first


def trained_by_width(config: Optimal, read: Text, arms: Arms, seeds: int, run: RunFolder, label: str) -> Json:
    """What came of all widths that are finished, rates tuned as `config` says, and a twin of vanilla at each.

    Of every width vanilla is trained first.  `ahead` holds widths at which it has more seeds than all together have,
    where these may have none: what others are worth at the widths before is read off vanilla's losses there too.

    Raises Unfinished if not even one width is, and UserError if the text suffices for none.
    """
    widths, left_out = in_one_epoch(config, read)
    found: dict[str, Json] = {}
    rates: dict[int, dict[str, float]] = {}
    tuning: Json = {}
    records: list[Json] = []
    ahead: dict[str, Json] = {}

    def at(width: int, seed: int) -> Mapping[str, Arm]:
        return arms(config.sizes(width, read.vocab), config.trained(width, read.vocab), seed)

    def round_(width: int, rates: Mapping[str, float], seed: int) -> dict[str, Arm]:
        rated = {n: replace(a, recipe=replace(a.recipe, learning_rate=rates[n])) for n, a in at(width, seed).items()}
        return {**rated, TWIN: replace(rated[BASELINE], twin=True)}

    def of_vanilla(width: int, rates: Mapping[str, float], seed: int) -> dict[str, Arm]:
        return {BASELINE: round_(width, rates, seed)[BASELINE]}

    for width in widths:
        place = config.tuned_for(width)
        try:
            if place not in rates:
                rates[place], table = tuned(at(place, 0), config.tuning, run, f"{label}, width {place}")
                tuning = with_width(tuning, table, place)
            here = _rates(config, read, width, rates[place])
            alone = rounds(partial(of_vanilla, width, here), seeds, run, f"{label}, width {width}, vanilla")
            by_seed: list[dict[str, Json]] = []
            with suppress(Unfinished) if found else nullcontext():
                by_seed = rounds(partial(round_, width, here), seeds, run, f"{label}, width {width}")
        except Unfinished:
            if not found:
                raise
            break
        if len(by_seed) < len(alone):
            ahead[str(width)] = _of_width(config, read, width, alone)
        records += [record for r in by_seed for record in r.values()]
        records += [r[BASELINE] for r in alone[len(by_seed) :]]
        if not by_seed:
            break
        found[str(width)] = {**_of_width(config, read, width, by_seed), "rates": here, "tuned_at": place}
    return {
        "seeds": max(about["seeds"] for about in found.values()),
        "widths": found,
        "ahead": ahead,
        "left_out": left_out,
        "tuning": tuning,
        "diverged": [record["diverged"] for record in records if record["diverged"]],
        "text": read.name,
        "provenance": of_runs(records),
    }


def in_one_epoch(config: Optimal, read: Text) -> tuple[list[int], Json]:
    """The widths for which the text suffices, and why the others are left out.  Raises UserError if there is none."""
    from experiments.store.progress import warn

    needed = {width: config.tokens(config.trained(width, read.vocab).steps) for width in config.widths}
    context = config.architecture.context
    fits = [width for width, tokens in needed.items() if tokens <= (read.tokens - 1) // context * context]
    left_out = {
        str(width): f"width {width} needs {tokens:,} tokens, of which {read.name} has {read.tokens:,}"
        for width, tokens in needed.items()
        if width not in fits
    }
    for why in left_out.values():
        warn(f"left out: {why}; --data names more text")
    if not fits:
        raise UserError(f"there is too little text: {next(iter(left_out.values()))}")
    return fits, left_out


def with_width(tables: Json, table: Json, width: int) -> Json:
    """What tuning found at several widths, by variant and width."""
    if not table["tuned"]:
        return table
    by_cell = {key: {cell(name, width): x for name, x in table[key].items()} for key in ("losses", "best")}
    return {**table, **{key: {**tables.get(key, {}), **found} for key, found in by_cell.items()}}


def _rates(config: Optimal, read: Text, width: int, found: Mapping[str, float]) -> dict[str, float]:
    """By variant, from what was found at the width that is tuned for this one."""
    if not config.tuning.grid:
        return dict(found)
    tuned, own = (config.parameters(w, read.vocab) for w in (config.tuned_for(width), width))
    return transferred(found, tuned, own)


def _of_width(config: Optimal, read: Text, width: int, rounds: Sequence[Mapping[str, Json]]) -> Json:
    """Losses by variant and seed; of held-out losses during training None where one diverged."""
    names = list(rounds[0])
    recipe = config.trained(width, read.vocab)
    whole = [record for r in rounds for record in r.values() if not record["diverged"]]
    steps = [int(step) for step, _ in whole[0]["evaluations"]] if whole else []

    def curve(record: Json) -> list[float] | None:
        return None if record["diverged"] else [round(loss, 6) for _, loss in record["evaluations"]]

    return {
        "seeds": len(rounds),
        "parameters": {name: rounds[0][name]["parameters"] for name in names},
        "tokens": config.tokens(recipe.steps),
        "epochs": max((record["epochs"] for record in whole), default=None),
        "loss": {name: [r[name]["loss"] for r in rounds] for name in names},
        "evaluated": [config.tokens(step) for step in steps],
        "held_out": {name: [curve(r[name]) for r in rounds] for name in names},
        "speed": {name: [r[name]["tokens_per_second"] for r in rounds] for name in names},
    }
