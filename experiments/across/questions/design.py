"""The question of cost: which variants buy loss cheaply, and whether the gain outlasts QK-norm and another optimiser.

Variants that a designer chooses among are trained on the same text from the same initial weights, each at its own
learning rate.  Their losses stand beside the time of a training step and the cache per token, two combinations beside
their parts, and three of the variants again with normed queries and keys, and under Muon.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from experiments.across.questions.values import LOSS, RESFORMER, SKIPV1, SVFORMER, TOY, by_the_papers
from experiments.attnres.printed import ABLATION, PLACE
from experiments.attnres.questions.depth import LOSSES, TENTH
from experiments.campaign.drawing import THIRD, in_rows
from experiments.campaign.profiles import profiles
from experiments.campaign.question import CONTROL, Config, Group
from experiments.campaign.setting import VANILLA
from experiments.campaign.signs import LOSS as BY_LOSS
from experiments.campaign.signs import Asking, Pair, Signs
from experiments.experiment.protocol import Experiment, Profile
from experiments.experiment.turns import in_turns, ratio
from experiments.store.folders import Json, RunFolder
from experiments.store.progress import warn
from experiments.training.arms import Arm
from experiments.verdicts.intervals import Interval
from theory.plans.accounting import cache

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BLOCK, ONE_HEAD = "attnres-block", "mqa"
SKIP_AND_DEPTH, RESIDUAL_AND_ONE = "skipv1+attnres-block:size=4", "resformer+mqa"
SKIPS = (SVFORMER, SKIPV1, RESFORMER)
ARMS = (*SKIPS, BLOCK, ONE_HEAD, SKIP_AND_DEPTH, RESIDUAL_AND_ONE)
CONDITIONS = {"": "AdamW, no QK-norm", "qk-norm": "QK-norm", "muon": "Muon"}
MARKERS = {ONE_HEAD: "s", SKIP_AND_DEPTH: "P", RESIDUAL_AND_ONE: "X"}
WIDTH, UNTIL = 48, 20.0
STEPS = 3  # timed, a turn
GROUPS = (
    Group(arms=ARMS, width=WIDTH, rate=None, until=UNTIL),
    Group(arms=SKIPS, width=WIDTH, rate=None, until=UNTIL, part="qk-norm"),
    Group(arms=SKIPS, width=WIDTH, rate=None, until=UNTIL, optimiser="muon"),
)
ENDS = "resformer.fig-14"


class Design(Signs):
    """The designer's question: the loss that a variant buys, and its cost."""

    name = "text-design"
    title = "Which variant buys loss most cheaply, and does the gain outlast QK-norm and Muon?"
    caption = (
        "Held-out losses at 20 tokens per parameter, minus the mean of two vanillas under the same conditions, each "
        "arm at its own learning rate. (a) Against a training step's time, in turns (thin bars: all); (b) against the "
        "cache; (c) all pairs, combinations minus their parts; (d) under other conditions. 95 %, for all at once."
    )
    order = 7
    claims: tuple[str, ...] = (LOSS, ENDS, TOY, LOSSES)
    profiles: Mapping[str, Profile] = profiles(
        GROUPS, seeds=8, seconds=90_000, detects="0.03 nats per token, for all differences at once"
    )
    models: Mapping[str, Mapping[str, Any]] = {
        BLOCK: {"variant": "attnres-block:size=4", "depth_rate": TENTH},
        SKIP_AND_DEPTH: {"depth_rate": TENTH},
    }
    words: Mapping[str, str] = {
        RESFORMER: "ResFormer",
        SVFORMER: "SVFormer",
        SKIPV1: "SkipV1Former",
        BLOCK: "Block of 4",
        ONE_HEAD: "MQA",
        SKIP_AND_DEPTH: "SkipV1Former + Block",
        RESIDUAL_AND_ONE: "ResFormer + MQA",
    }
    together = (
        (SKIP_AND_DEPTH, SKIPV1),
        (SKIP_AND_DEPTH, BLOCK),
        (RESIDUAL_AND_ONE, RESFORMER),
        (RESIDUAL_AND_ONE, ONE_HEAD),
        (SVFORMER, ONE_HEAD),
    )
    printed = "printed, smallest size, one run each"
    assumes = "that signs which papers give for their sizes, with AdamW and without QK-norm, hold here"

    def pairs(self, config: Config) -> Sequence[Pair]:  # noqa: ARG002
        """Return the papers' signs, which are tested under every condition; of combinations nobody predicts any."""
        nats = round(ABLATION[BLOCK] - ABLATION[VANILLA], 6)
        block = Pair(by="paper", arm=BLOCK, against=VANILLA, sign=-1, place=PLACE, claim=LOSSES, nats=nats)
        return [*by_the_papers(SKIPS), block]

    def predict(self, config: Config) -> Json:
        """Return the signs, and how large the cache of every arm is beside vanilla's."""
        numbers = {name: cache(arm.architecture, arm.plan).total for name, arm in self.one_of_each(config).items()}
        return {
            **super().predict(config),
            "cache": {name: count / numbers[VANILLA] for name, count in numbers.items() if name != VANILLA},
        }

    def measure(self, config: Config, seeds: int, run: RunFolder) -> Json:
        """Return what every question measures (`Question.measure`), and how long training steps take."""
        measured = super().measure(config, seeds, run)
        return {**measured, "step_times": step_times(self.one_of_each(config), run.slot.device)}

    def one_of_each(self, config: Config) -> dict[str, Arm]:
        """Return a training of vanilla, and of every arm of the first group: of any seed and rate."""
        group = config.groups[0]
        cells = {name: self.cell(config, group, name, 1.0) for name in (VANILLA, *group.arms)}
        return {name: next(iter(config.setting.arms(cell, 0).values())) for name, cell in cells.items()}

    def draw(self, prediction: Json, measurement: Json) -> Figure:
        """Draw losses against what they cost, all pairs, and the same arms under other conditions."""
        from experiments.drawing import style

        found = self.differences(prediction, measurement)
        name, *others = found
        fig, axes = style.figure(columns=2, rows=2, width=6.4, height=1.8 + 0.25 * len(found[name]))
        self._costs(axes[0], found[name], measurement["step_times"])
        axes[0].set_xlabel("time of a training step (vanilla = 1)")
        axes[0].set_title("Loss against step time")
        caches = {arm: ratio([times], [1.0]) for arm, times in prediction["cache"].items()}
        self._costs(axes[1], found[name], caches)
        axes[1].set_xlabel("cache of a token (vanilla = 1)")
        axes[1].set_title("Loss against cache")
        self.draw_ends(axes[2], name, prediction, measurement, found[name])
        self._conditions(axes[3], {name: found[name], **{other: found[other] for other in others}})
        style.finish(list(axes))
        return fig

    def _costs(self, axis: Axes, found: Mapping[Asking, Interval], cost: Mapping[str, Json]) -> None:
        """Draw losses against what they cost; where that is decided, and with the range of what was timed."""
        from experiments.drawing import style

        axis.axhline(0, color="#999999", linewidth=0.8)
        for arm, of_arm in cost.items():
            if (which := (BY_LOSS, arm, VANILLA)) not in found or of_arm["ratio"] is None:
                continue
            look = {key: y for key, y in style.look(arm).items() if key != "linestyle"}
            look |= {"marker": MARKERS[arm], "color": "#1a1a1a"} if arm in MARKERS else {}
            style.bars(axis, [of_arm["ratio"]], [found[which]], label=self.called(arm), **look)
            ends = [of_arm["low"], of_arm["high"]]
            axis.plot(ends, [found[which].mean] * 2, color=look["color"], linewidth=0.8, zorder=0)
        axis.set_ylabel("held-out loss minus vanilla's (nats per token)")

    def _conditions(self, axis: Axes, found: Mapping[str, Mapping[Asking, Interval]]) -> None:
        rows = {}
        for name, of_group in found.items():
            _, _, condition = name.partition("initial weights ")[2].partition(", ")
            for arm in (*SKIPS, CONTROL):
                if (which := (BY_LOSS, arm, VANILLA)) in of_group:
                    called = THIRD if arm == CONTROL else self.called(arm)
                    rows[f"{called}, {CONDITIONS[condition]}"] = of_group[which]
        in_rows(axis, list(rows.values()), list(rows), label="trained here, 95 % for all at once")
        axis.set_xlabel("held-out loss minus vanilla's (nats per token)")
        axis.set_title("Under other conditions")


def step_times(arms: Mapping[str, Arm], device: str) -> dict[str, Json]:
    """Return the time of a training step over vanilla's, by arm: the turns' median, lowest and highest.

    Speeds of the trainings themselves will not do: a machine is slower at times, and a pool may hold several machines'.
    An arm is left out, with a line that says why, if its gradients are not those of the plain path.
    """
    from experiments.training.timed_step import Side

    sides = {name: Side(arm.architecture, arm.plan, arm.recipe, device=device) for name, arm in arms.items()}
    other = [name for name, side in sides.items() if not side.same_answer()]
    if other:
        warn(f"gradients are not the plain path's, so that a step's time is not stated: {', '.join(other)}")
    if VANILLA in other:
        return {}
    turns = in_turns({name: partial(side.seconds, STEPS) for name, side in sides.items() if name not in other})
    return {name: ratio(seconds, turns[VANILLA]) for name, seconds in turns.items() if name != VANILLA}


EXPERIMENT: Experiment = Design()
