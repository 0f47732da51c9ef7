"""The rental's text trainings: the largest models that the text allows in one pass, each beside its twins.

Vanilla with three sets of initial weights, SVFormer, ResFormer and AttnRes in slow blocks are trained on the same text
at two learning rates, on TOKENS tokens per parameter.  No token is read twice, so the text decides the width.  Every
training is a line of the pool that the campaign has, and numbers are those of `experiments.campaign.question`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from experiments.across.questions.design import BLOCK, Design
from experiments.across.questions.values import RESFORMER, SVFORMER
from experiments.campaign.pool import Pool
from experiments.campaign.profiles import GPU, SMOKE
from experiments.campaign.question import BASELINE, CONTROL, Config, Group, each
from experiments.campaign.rates import at_width
from experiments.campaign.reading import at_length, gain
from experiments.campaign.setting import Corpus, Setting
from experiments.rental.machines import (
    START,
    Forecast,
    Machine,
    compile_seconds,
    initial_seconds,
    step_seconds,
    training_memory,
)
from experiments.store.folders import Json, RunFolder, Slot, Unfinished
from experiments.training.arms import Arm
from experiments.training.trunks import trunks
from theory.errors import BadInput

ARMS = (SVFORMER, RESFORMER, BLOCK)
WIDTHS = (16, *range(32, 1025, 32))  # of which the largest is taken whose training the text suffices for
SEEDS, MOST_SEEDS = 2, 8  # what an interval needs; further ones while there is time
AT_A_TIME = 4
RATE, AT = 8e-3, 32  # the higher rate at this width; the other is half of it
FOLDER = ("rental", "text")  # below the results folder
LEFT = "left.json"
EVALUATED = 0.15  # seconds of an evaluation, of which there is one per length


@dataclass(frozen=True)
class Trainings:
    """Trainings of one width, which fits the text, at two rates.

    Args:
        setting: with its text.
        width: of the models.
        until: tokens per parameter.
    """

    setting: Setting
    width: int
    until: float

    @property
    def config(self) -> Config:
        """The groups, one per rate."""
        high = at_width(RATE, AT, self.width)
        rates = (high, high / 2)
        groups = tuple(Group(arms=ARMS, width=self.width, rate=rate, until=self.until) for rate in rates)
        return Config(setting=self.setting, groups=groups)

    def arms(self, seeds: int) -> list[Arm]:
        """Return the trainings of so many seeds, by length; those of one length share a trunk."""
        return each(Design().trainings(self.config, seeds))


def trainings(corpus: Corpus, *, tiny: bool = False) -> Trainings:
    """Return the largest models that a text is enough for.

    Args:
        corpus: The text.
        tiny: Whether they are to show that it runs, on a CPU.

    Raises:
        BadInput: if it is too short for the narrowest.
    """
    if tiny:
        setting = replace(SMOKE, corpus=corpus, recipe=GPU.recipe, lengths=SMOKE.lengths[:1], probes=())
        return Trainings(replace(setting, recipe=replace(setting.recipe, compile=False)), 8, setting.lengths[-1])
    setting = replace(GPU, corpus=corpus, lengths=(5.0, 10.0, 20.0), probes=())
    until = setting.lengths[-1]
    fitting = [width for width in WIDTHS if setting.tokens(width, until) <= corpus.tokens]
    if not fitting:
        need = setting.tokens(WIDTHS[0], until)
        raise BadInput(
            f"the text has {corpus.tokens:,} tokens, and the narrowest model reads {need:,} in one pass; give more "
            "text, or a smaller vocabulary"
        )
    return Trainings(setting, fitting[-1], until)


def train(out: Path, slot: Slot, *, tiny: bool = False) -> Json:
    """Train what is missing, seed after seed, until time is up; return what is measured, and how much is left.

    Args:
        out: The results folder, whose pool gets the trainings.
        slot: The machine time, with the folder of the text.
        tiny: As in `trainings`.
    """
    from experiments.training.text import STDLIB, VOCAB, text

    read = text(slot.data or STDLIB, VOCAB, GPU.held_out_windows)
    slot = replace(slot, data=read.source.folder, jobs=slot.jobs or (1 if tiny else AT_A_TIME))
    corpus = Corpus(read.name, read.source.digest, read.tokens, vocab=read.vocab)
    wanted = trainings(corpus, tiny=tiny)
    run, measured = RunFolder(out.joinpath(*FOLDER), slot), dict[str, Any]()
    run.path.mkdir(parents=True, exist_ok=True)
    for seeds in range(SEEDS, (SEEDS if tiny else MOST_SEEDS) + 1):
        try:
            measured = Design().measure(wanted.config, seeds, run)
        except Unfinished:
            break
        run.write("measurement.json", measured)
        if slot.seconds_left <= 0:
            break
    there = Pool(out, slot).finished(wanted.arms(SEEDS))
    left = len(trunks([arm for arm in wanted.arms(SEEDS) if arm not in there]))
    standing = {"width": wanted.width, "tokens": wanted.setting.tokens(wanted.width, wanted.until), "left": left}
    run.write(LEFT, {**standing, "text": corpus.name})
    return {**standing, "text": corpus.name, "gains": gains(measured) if measured else {}}


def gains(measured: Json) -> dict[str, dict[str, dict[str, float]]]:
    """Return, by group and arm, the difference to the mean of two vanillas, and its 95 % margin for all at once."""
    found = {}
    for name, group in measured["groups"].items():
        losses = at_length(group, max(group["lengths"], key=float))
        compared = [arm for arm in losses if arm not in BASELINE]
        intervals = {arm: gain(losses, arm, len(compared)) for arm in compared}
        found[name] = {arm: {"mean": x.mean, "stderr": x.stderr} for arm, x in intervals.items()}
    return found


def forecast(wanted: Trainings, machine: Machine) -> Forecast:
    """Return the time and memory of the first SEEDS seeds."""
    arms = wanted.arms(SEEDS)
    every = trunks(arms)
    seconds = [
        trunk.steps() * step_seconds(arm.architecture, arm.plan, arm.recipe, machine)
        + len(trunk.arms) * EVALUATED
        + initial_seconds(arm.architecture, arm.plan)
        for trunk in every
        for arm in [trunk.arms[-1]]
    ]
    plans = {arm.plan: arm for arm in arms}
    compiling = sum(compile_seconds(arm.architecture, arm.plan, arm.recipe) for arm in plans.values())
    memory = max(training_memory(arm.architecture, arm.plan, arm.recipe) for arm in plans.values())
    first = START + compile_seconds(arms[0].architecture, arms[0].plan, arms[0].recipe) + seconds[0] * AT_A_TIME / 2
    return Forecast(
        START + compiling + sum(seconds) / min(AT_A_TIME, 2),  # several share one GPU: twice as fast is assumed
        first,
        AT_A_TIME * memory,
        f"{len(every)} trainings of {wanted.setting.parameters(wanted.width) / 1e6:.2f}M parameters (width "
        f"{wanted.width}) on {wanted.setting.tokens(wanted.width, wanted.until) / 1e6:.1f}M tokens each, "
        f"{seconds[0]:.0f} s alone, {AT_A_TIME} at a time, twice as fast together; {len(plans)} plans to compile",
    )


def lines(result: Json) -> Sequence[str]:
    """Return what was trained and found, in words."""
    words = [f"width {result['width']}, {result['tokens']:,} tokens of {result['text']}, each read once"]
    for name, group in result["gains"].items():
        words.append(name)
        words += [
            f"  {'twin, the control' if arm == CONTROL else arm}: {x['mean']:+.4f} +- {x['stderr']:.4f} nats per token"
            for arm, x in group.items()
        ]
    if not result["gains"]:
        words.append("no comparison yet: two seeds of all arms of a rate are needed")
    return words
