"""The trainings: vanilla and SkipV1Former from scratch, then what vanilla is made into, by several ways."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.store.desk import Desk
from experiments.store.folders import Json, RunFolder, Unfinished, UserError
from experiments.store.work import results
from experiments.training import held_out_probe
from experiments.training.arms import Arm, task_of
from experiments.training.campaign import BASELINE, TWIN, of_runs, rounds
from experiments.training.pool import beginning, train_keeping
from experiments.training.tuning import Tuning, tuned
from icl.recipe import Recipe
from theory.plans.architecture import Architecture, Tokens

if TYPE_CHECKING:
    from torch import Tensor

    from icl.models.decoder import Decoder

SKIPV1, MHA = "skipv1", "MHA"
FIRST_LOSS = "held_out"  # the probe that is asked at the start and at the end
CONTINUED, CONTINUED_TWIN = "continued", "continued-twin"  # vanilla, and vanilla's twin, trained on as they are
REORDERED = "continued-reordered"  # vanilla, trained on with the text in another order: no difference is there to find
PRINTED = ("mean", "mean-vo", "top-v", "top-vo", "svd")  # ways in the paper's figure 10
WAYS = (*PRINTED, "apart", "first", "whole")
APART = 1000  # seeds, between the order of the text from scratch and that of what is trained on
TUNED_ON = 700_000  # seed of the model on which rates of training on are tuned
SLOW = 0.1  # of its arm's rate: what weighs outputs over depth


@dataclass(frozen=True)
class Choice:
    """A model that trained vanilla is made into, and trained on.

    Attributes:
        variant: The plan.
        how: The way to it.
        exact: Whether it begins as the function that was trained.
        slow: Whether what weighs outputs over depth learns at SLOW of the rate.
    """

    variant: str
    how: str = "mean"
    exact: bool = False
    slow: bool = False


MEAN, SPLIT, WHOLE = "skipv1, mean", "skipv1, apart", "skipv1, whole"
CHOICES = {
    CONTINUED: Choice(BASELINE, exact=True),
    MEAN: Choice(SKIPV1, "mean"),
    SPLIT: Choice(SKIPV1, "apart"),
    "skipv1, svd": Choice(SKIPV1, "svd"),
    WHOLE: Choice(SKIPV1, "whole"),
    "svformer": Choice("svformer"),
    "resformer-learned": Choice("resformer-learned", exact=True),
    "attnres": Choice("attnres", exact=True, slow=True),
}
FORMS = (CONTINUED, MEAN, SPLIT, WHOLE)  # of CHOICES, where heads share keys and values or a latent


@dataclass(frozen=True, kw_only=True)
class Config:
    """The trainings from scratch, and those that go on from their ends.

    Attributes:
        architecture: Its norms have no eps that matters, so that depth attention begins as PreNorm.
        recipe: The training from scratch.
        share: Of these steps, on which a converted model is trained.
        tuning: Of rates from scratch.
        uptuning: Of rates of all that is trained on, each its own.
        evaluations: Of a training on, evenly, the last at its end.
        chosen: Of CHOICES, what is trained on.
    """

    architecture: Architecture
    recipe: Recipe
    share: float
    tuning: Tuning
    uptuning: Tuning
    data: str
    vocab: int
    held_out_windows: int
    evaluations: int
    chosen: tuple[str, ...] = tuple(CHOICES)

    @property
    def choices(self) -> dict[str, Choice]:
        """The models that are trained on, by name."""
        return {name: CHOICES[name] for name in self.chosen}

    @property
    def uptrained(self) -> Recipe:
        """The recipe of what is trained on, but for its rate: the same schedule over fewer steps."""
        every = max(1, round(self.share * self.recipe.steps / self.evaluations))
        return replace(self.recipe, steps=every * self.evaluations, log_every=every, evaluate_every=every)


def train(config: Config, seeds: int, run: RunFolder, label: str) -> Json:
    """Train from scratch, take each way's first loss, and train on; of as many seeds, two or more, as are finished.

    Raises:
        Unfinished: Fewer seeds than two are finished.
        UserError: A training from scratch diverged.
    """
    from experiments.training.text import text

    read = text(run.slot.data or config.data, config.vocab, config.held_out_windows)
    sizes = replace(config.architecture, stem=Tokens(read.vocab))
    common: Json = {"architecture": sizes, "source": read.source, "recipe": config.recipe}

    def scratch(seed: int) -> dict[str, Arm]:
        return {name: Arm(variant=name, seed=seed, **common) for name in (BASELINE, SKIPV1)}

    rates, tuning = tuned(scratch(0), config.tuning, run, label=f"{label}, from scratch")

    def before(seed: int) -> dict[str, Arm]:
        arms = _rated(scratch(seed), rates)
        return {**arms, TWIN: replace(arms[BASELINE], twin=True)}

    rounds_before = rounds(before, seeds, run, label=f"{label}, from scratch", train=train_keeping)
    for record in (by_name[name] for by_name in rounds_before for name in (BASELINE, TWIN)):
        if record["diverged"]:
            raise UserError(f"{label}: {record['diverged']}, from scratch: nothing can be made of that model")
    first = _first_losses([before(seed)[BASELINE] for seed in range(len(rounds_before))], run, label)
    up_rates, up_tuning = _tuned_on(config, before(TUNED_ON)[BASELINE], run, label=label)

    def after(seed: int) -> dict[str, Arm]:
        arms = before(seed)
        trained_on = _rated(_trained_on(config, arms[BASELINE], run, seed=seed + APART), up_rates)
        again = trained_on[CONTINUED]
        return {
            **trained_on,
            CONTINUED_TWIN: replace(again, initial=beginning(arms[TWIN], run)),
            REORDERED: replace(again, seed=seed + 2 * APART),
        }

    rounds_after = rounds(after, len(rounds_before), run, label=f"{label}, trained on")
    seeds = len(rounds_after)
    by_name = {name: [by_name[name] for by_name in rounds_after] for name in rounds_after[0]}
    tokens_a_step = config.recipe.batch * sizes.context
    whole, every = config.recipe.steps * tokens_a_step, config.uptrained.evaluate_every
    records = [record for by_name in (*rounds_before, *rounds_after) for record in by_name.values()]
    return {
        "seeds": seeds,
        "tokens": whole,
        "parameters": {name: rounds_before[0][name]["parameters"] for name in (BASELINE, SKIPV1)},
        "scratch": {name: [r[name]["loss"] for r in rounds_before[:seeds]] for name in (BASELINE, SKIPV1, TWIN)},
        "first": {way: [ways["loss"][way] for ways in first[:seeds]] for way in WAYS},
        "distance": {way: [ways["distance"][way] for ways in first[:seeds]] for way in WAYS},
        "begins": {name: [r["probes"][FIRST_LOSS]["start"]["loss"] for r in some] for name, some in by_name.items()},
        "loss": {name: [r["loss"] for r in some] for name, some in by_name.items()},
        "share": [step * tokens_a_step / whole for step in range(every, config.uptrained.steps + 1, every)],
        "held_out": {name: [_curve(r) for r in some] for name, some in by_name.items()},
        "tuning": _both(tuning, up_tuning),
        "diverged": [record["diverged"] for record in records if record["diverged"]],
        "text": read.name,
        "provenance": of_runs(records),
    }


def _rated(arms: Mapping[str, Arm], rates: Mapping[str, float]) -> dict[str, Arm]:
    return {name: replace(arm, recipe=replace(arm.recipe, learning_rate=rates[name])) for name, arm in arms.items()}


def _trained_on(config: Config, before: Arm, run: RunFolder, seed: int) -> dict[str, Arm]:
    """Return all choices by name, which begin with the weights of `before`, converted or as they are.

    Args:
        seed: Of the order of the text: other than before, so that little of it is read again.
    """
    arms = {}
    for name, choice in config.choices.items():
        recipe = replace(config.uptrained, depth_rate=SLOW) if choice.slow else config.uptrained
        initial = beginning(before, run, None if choice.variant == BASELINE else choice.how)
        changed: Json = {"variant": choice.variant, "recipe": recipe, "seed": seed, "initial": initial}
        arms[name] = replace(before, twin=False, probes=(FIRST_LOSS,), **changed)
    return arms


def _tuned_on(config: Config, model: Arm, run: RunFolder, label: str) -> tuple[dict[str, float], Json]:
    """Return rates of training on, tuned on a model of a seed that is not compared."""
    if not config.uptuning.grid:
        return dict.fromkeys(config.chosen, config.recipe.learning_rate), {"tuned": False}
    if model not in train_keeping([model], run, f"{label}, the model on which rates are tuned"):
        raise Unfinished(f"{label}: the model on which rates are tuned is not finished")
    arms = _trained_on(config, model, run, seed=TUNED_ON + APART)
    return tuned(arms, config.uptuning, run, label=f"{label}, trained on")


def _both(tuning: Json, other: Json) -> Json:
    """Return what two tunings tried, of arms that have different names."""
    if not (tuning["tuned"] and other["tuned"]):
        return other if other["tuned"] else tuning
    return {**tuning, **{key: {**tuning[key], **other[key]} for key in ("losses", "best")}}


def _curve(record: Json) -> list[float] | None:
    return None if record["diverged"] else [round(loss, 6) for _, loss in record["evaluations"]]


def _first_losses(arms: Sequence[Arm], run: RunFolder, label: str) -> list[Json]:
    """Return of every way, at each trained vanilla model, its loss, and how far layer 2 is from what it was."""
    items = {arm.key(run.slot.device): replace(arm, initial=beginning(arm, run)) for arm in arms}
    lines = results(
        "first", items, _convert_all_ways, run=run, label=f"{label}, first losses", size=lambda _: len(WAYS)
    )
    return list(lines.values())


def _convert_all_ways(arm: Arm, desk: Desk) -> Json:
    import torch

    from icl.conversion import convert
    from icl.models.saved import load

    assert arm.initial is not None
    device = desk.slot.device
    model, task = load(Path(arm.initial.folder), device=device), task_of(arm.source, arm.architecture.context)
    batch = next(iter(task.held_out())).to(torch.device(device))
    before, losses, distances = _second_attention(model, batch.inputs), {}, {}
    for done, how in enumerate(WAYS):
        desk.report(done, how)
        converted = convert(model, SKIPV1, how)
        losses[how] = held_out_probe.probe(converted, task, device)["loss"]
        moved = (_second_attention(converted, batch.inputs) - before).square().sum()
        distances[how] = float(moved / before.square().sum())
    return {"loss": losses, "distance": distances}


def _second_attention(model: Decoder, inputs: Tensor) -> Tensor:
    """Return what attention of layer 2 puts out; what it reads, no conversion changes."""
    import torch

    outputs: list[Tensor] = []
    attention = model.layers.get_submodule("1.attention")
    with torch.no_grad(), attention.register_forward_hook(lambda *hooked: outputs.append(hooked[2][0])):
        model(inputs)
    return outputs[0].double()
