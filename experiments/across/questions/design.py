"""The question of cost: which variants buy loss cheaply, and whether the gain outlasts QK-norm and another optimiser.

Variants that a designer chooses among are trained on the same text from the same initial weights, each at its own
learning rate.  Their losses stand beside the time of a training step and the cache per token, two combinations beside
their parts, and three of the variants again with normed queries and keys, and under Muon.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING, Any

from experiments.across.questions.values import LOSS, RESFORMER, SKIPV1, SVFORMER, TOY, by_the_papers
from experiments.attnres.printed import ABLATION, PLACE
from experiments.attnres.questions.depth import LOSSES, TENTH
from experiments.campaign.drawing import THIRD, in_rows
from experiments.campaign.profiles import profiles
from experiments.campaign.question import BASELINE, CONTROL, Config, Group
from experiments.campaign.reading import arms
from experiments.campaign.setting import VANILLA
from experiments.campaign.signs import LOSS as BY_LOSS
from experiments.campaign.signs import Asking, Pair, Signs
from experiments.experiment.protocol import Experiment, Profile
from experiments.store.folders import Json
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
        "arm at its own learning rate. (a) Against training speed, median over seeds; (b) against the cache; (c) all "
        "pairs, combinations minus their parts; (d) under other conditions. 95 %, for all at once."
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
        group = config.groups[0]

        def numbers(arm: str) -> int:
            model = next(iter(config.setting.arms(self.cell(config, group, arm, 1.0), 0).values()))
            return cache(model.architecture, model.plan).total

        return {
            **super().predict(config),
            "cache": {arm: numbers(arm) / numbers(VANILLA) for arm in group.arms},
        }

    def draw(self, prediction: Json, measurement: Json) -> Figure:
        """Draw losses against what they cost, all pairs, and the same arms under other conditions."""
        from experiments.drawing import style

        found = self.differences(prediction, measurement)
        name, *others = found
        fig, axes = style.figure(columns=2, rows=2, width=6.4, height=1.8 + 0.25 * len(found[name]))
        group = measurement["groups"][name]
        self._costs(axes[0], found[name], step_times(group))
        axes[0].set_xlabel("time of a training step (vanilla = 1)")
        axes[0].set_title("Loss against step time")
        self._costs(axes[1], found[name], prediction["cache"])
        axes[1].set_xlabel("cache of a token (vanilla = 1)")
        axes[1].set_title("Loss against cache")
        self.draw_ends(axes[2], name, prediction, measurement, found[name])
        self._conditions(axes[3], {name: found[name], **{other: found[other] for other in others}})
        style.finish(list(axes))
        return fig

    def _costs(self, axis: Axes, found: Mapping[Asking, Interval], cost: Mapping[str, float]) -> None:
        from experiments.drawing import style

        axis.axhline(0, color="#999999", linewidth=0.8)
        for arm, x in cost.items():
            if (which := (BY_LOSS, arm, VANILLA)) not in found:
                continue
            look = {key: y for key, y in style.look(arm).items() if key != "linestyle"}
            look |= {"marker": MARKERS[arm], "color": "#1a1a1a"} if arm in MARKERS else {}
            style.bars(axis, [x], [found[which]], label=self.called(arm), **look)
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


def step_times(group: Json) -> dict[str, float]:
    """Return every arm's time per token in training over vanilla's, the median over seeds of known speeds."""
    by_seed = zip(*group["speed"].values(), strict=True)
    speeds = [dict(zip(group["speed"], of_seed, strict=True)) for of_seed in by_seed if all(of_seed)]
    if not speeds:
        return {}
    vanilla = [median(by_arm[name] for name in BASELINE) for by_arm in speeds]
    return {arm: median(x / by_arm[arm] for x, by_arm in zip(vanilla, speeds, strict=True)) for arm in arms(group)}


EXPERIMENT: Experiment = Design()
