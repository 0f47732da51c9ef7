"""Carrying it out: from scratch, each way's first loss, and the trainings on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.skipv1.uptraining.points import (
    APART,
    CONTINUED,
    CONTINUED_TWIN,
    FIRST_LOSS,
    REORDERED,
    SKIPV1,
    TUNED_ON,
    WAYS,
    Config,
    from_scratch,
    trained_on,
)
from experiments.store.desk import Desk
from experiments.store.folders import Json, RunFolder, Unfinished, UserError
from experiments.store.work import results
from experiments.training import held_out_probe
from experiments.training.arms import Arm, Initial, task_of
from experiments.training.campaign import BASELINE, TWIN, of_runs, rounds
from experiments.training.kept import beginning, train_keeping
from experiments.training.tuning import tuned
from theory.plans.architecture import Tokens

if TYPE_CHECKING:
    from torch import Tensor

    from icl.models.decoder import Decoder


def measured(config: Config, seeds: int, run: RunFolder, label: str) -> Json:
    """Of as many seeds, two or more, as are finished.  Raises Unfinished for fewer."""
    from experiments.training.text import text

    read = text(run.slot.data or config.data, config.vocab, config.held_out_windows)
    sizes = replace(config.architecture, stem=Tokens(read.vocab))
    scratch = partial(from_scratch, config, read.source, sizes)
    rates, tuning = tuned(scratch(0), config.tuning, run, f"{label}, from scratch")

    def before(seed: int) -> dict[str, Arm]:
        rated = _rated(scratch(seed), rates)
        return {**rated, TWIN: replace(rated[BASELINE], twin=True)}

    rounds_before = rounds(before, seeds, run, f"{label}, from scratch", train_keeping)
    for record in (of_seed[name] for of_seed in rounds_before for name in (BASELINE, TWIN)):
        if record["diverged"]:
            raise UserError(f"{label}: {record['diverged']}, from scratch: nothing can be made of that model")
    first = _first_losses([before(seed)[BASELINE] for seed in range(len(rounds_before))], run, label)
    up_rates, up_tuning = _tuned_on(config, before(TUNED_ON)[BASELINE], run, label)

    def after(seed: int) -> dict[str, Arm]:
        arms = before(seed)
        found = _rated(
            trained_on(config, arms[BASELINE], partial(beginning, arms[BASELINE], run), seed + APART), up_rates
        )
        again = found[CONTINUED]
        return {
            **found,
            CONTINUED_TWIN: replace(again, initial=beginning(arms[TWIN], run)),
            REORDERED: replace(again, seed=seed + 2 * APART),
        }

    rounds_after = rounds(after, len(rounds_before), run, f"{label}, trained on")
    seeds = len(rounds_after)
    names = list(rounds_after[0])
    by_name = {name: [r[name] for r in rounds_after] for name in names}
    whole = config.recipe.steps * config.recipe.batch * sizes.context
    records = [record for r in (*rounds_before, *rounds_after) for record in r.values()]
    return {
        "seeds": seeds,
        "tokens": whole,
        "parameters": {name: rounds_before[0][name]["parameters"] for name in (BASELINE, SKIPV1)},
        "scratch": {name: [r[name]["loss"] for r in rounds_before[:seeds]] for name in (BASELINE, SKIPV1, TWIN)},
        "first": {way: [of_seed["loss"][way] for of_seed in first[:seeds]] for way in WAYS},
        "distance": {way: [of_seed["distance"][way] for of_seed in first[:seeds]] for way in WAYS},
        "begins": {name: [r["probes"][FIRST_LOSS]["start"]["loss"] for r in of] for name, of in by_name.items()},
        "loss": {name: [r["loss"] for r in of] for name, of in by_name.items()},
        "share": [step * config.recipe.batch * sizes.context / whole for step in _evaluated(config)],
        "held_out": {name: [_curve(r) for r in of] for name, of in by_name.items()},
        "tuning": _both(tuning, up_tuning),
        "diverged": [record["diverged"] for record in records if record["diverged"]],
        "text": read.name,
        "provenance": of_runs(records),
    }


def _rated(arms: Mapping[str, Arm], rates: Mapping[str, float]) -> dict[str, Arm]:
    return {n: replace(arm, recipe=replace(arm.recipe, learning_rate=rates[n])) for n, arm in arms.items()}


def _tuned_on(config: Config, model: Arm, run: RunFolder, label: str) -> tuple[dict[str, float], Json]:
    """Rates of training on, on a model of a seed that is not compared."""
    if not config.uptuning.grid:
        return dict.fromkeys(trained_on(config, model, _nothing, 0), config.recipe.learning_rate), {"tuned": False}
    if model not in train_keeping([model], run, f"{label}, the model on which rates are tuned"):
        raise Unfinished(f"{label}: the model on which rates are tuned is not finished")
    arms = trained_on(config, model, partial(beginning, model, run), TUNED_ON + APART)
    return tuned(arms, config.uptuning, run, f"{label}, trained on")


def _nothing(how: str | None) -> Initial:
    return Initial("", "", how)


def _both(tuning: Json, other: Json) -> Json:
    """What was found of both: names differ."""
    if not (tuning["tuned"] and other["tuned"]):
        return other if other["tuned"] else tuning
    return {**tuning, **{key: {**tuning[key], **other[key]} for key in ("losses", "best")}}


def _evaluated(config: Config) -> list[int]:
    recipe = config.uptrained
    return list(range(recipe.evaluate_every, recipe.steps + 1, recipe.evaluate_every))


def _curve(record: Json) -> list[float] | None:
    return None if record["diverged"] else [round(loss, 6) for _, loss in record["evaluations"]]


def _first_losses(arms: Sequence[Arm], run: RunFolder, label: str) -> list[Json]:
    """Of every way, at each of the trained vanilla models: its loss, and how far layer 2 is from what it was."""
    items = {arm.key(run.slot.device): replace(arm, initial=beginning(arm, run)) for arm in arms}
    found = results("first", items, _first, run, label=f"{label}, first losses", size=_ways)
    return list(found.values())


def _ways(_: Arm) -> int:
    return len(WAYS)


def _first(arm: Arm, desk: Desk) -> Json:
    import torch

    from icl.conversion import convert
    from icl.models.saved import load

    assert arm.initial is not None
    device = desk.slot.device
    model, task = load(Path(arm.initial.folder), device=device), task_of(arm.source, arm.architecture.context)
    batch = next(iter(task.held_out())).to(torch.device(device))
    was, losses, distances = _second(model, batch.inputs), {}, {}
    for done, how in enumerate(WAYS):
        desk.report(done, how)
        made = convert(model, SKIPV1, how)
        losses[how] = held_out_probe.probe(made, task, device)["loss"]
        distances[how] = float((_second(made, batch.inputs) - was).square().sum() / was.square().sum())
    return {"loss": losses, "distance": distances}


def _second(model: Decoder, inputs: Tensor) -> Tensor:
    """What attention of layer 2 puts out: what it reads, no conversion changes."""
    import torch

    found: list[Tensor] = []
    attention = model.layers.get_submodule("1.attention")
    with torch.no_grad(), attention.register_forward_hook(lambda *of: found.append(of[2][0])):
        model(inputs)
    return found[0].double()
