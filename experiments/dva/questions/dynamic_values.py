"""The question of Dynamic Value Attention's Table 2: the effects of dynamic values, one head and no feed-forward.

Four changes to the baseline between it and the paper's model b, on the same text from the same initial weights, each
at its own learning rate.  The paper's models are GPT-2s; these have the campaign's norms, positions and feed-forward.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from experiments.campaign.profiles import profiles
from experiments.campaign.question import Config
from experiments.campaign.setting import VANILLA
from experiments.campaign.signs import Pair, Signs, groups
from experiments.experiment.protocol import Experiment, Profile
from theory.plans.plan import plan

ONE_HEAD, DYNAMIC, BARE, MODEL_B, PROJECTED, GATE = (
    "one-head",
    "one-dynamic-head",
    "bare",
    "dva",
    "dva-projected",
    "gate",
)
ARMS = (MODEL_B, PROJECTED, DYNAMIC, BARE, ONE_HEAD, GATE)
LEARNING, HEADS, FEED_FORWARD, GATES = "dva.table-2", "dva.one-head", "dva.no-feed-forward", "dva.gates"


class DynamicValues(Signs):
    """The paper's model b, taken apart."""

    name = "text-dynamic-values"
    title = "What of dynamic value attention's gain on text is whose doing?"
    caption = (
        "(a) Held-out losses at 20 tokens per parameter, each model at its own learning rate, after its name. (b), (c) "
        "Training losses at one rate, against tokens per parameter of the baseline. All minus the mean of two "
        "baselines; a third is no effect. 95 % over paired seeds: (a) for all at once, (b), (c) point by point."
    )
    order = 5
    claims: tuple[str, ...] = (LEARNING, HEADS, FEED_FORWARD, GATES)
    profiles: Mapping[str, Profile] = profiles(
        groups(ARMS), seeds=8, seconds=60_000, detects="0.03 nats per token, for all differences at once"
    )
    models: Mapping[str, Mapping[str, Any]] = {
        MODEL_B: {"heads": 1},
        PROJECTED: {"variant": partial(plan, dynamic="revised", feed_forward=False), "heads": 1},
        DYNAMIC: {"variant": "dva-attention", "heads": 1},
        BARE: {"variant": partial(plan, feed_forward=False)},
        ONE_HEAD: {"variant": VANILLA, "heads": 1},
        GATE: {"variant": "dva-gate", "heads": 1},
    }
    words: Mapping[str, str] = {
        VANILLA: "baseline: two heads, feed-forward",
        MODEL_B: "one dynamic head alone (model b)",
        PROJECTED: "one dynamic head, output projection",
        DYNAMIC: "one dynamic head, feed-forward",
        BARE: "two heads, no feed-forward",
        ONE_HEAD: "one head, feed-forward",
        GATE: "one head alone, with model b's gate",
    }
    drawn = (MODEL_B, PROJECTED, DYNAMIC, BARE, ONE_HEAD)
    assumes = "that signs which the paper gives for GPT-2 with a width of 768 hold for other decoders at this size"

    def pairs(self, config: Config) -> Sequence[Pair]:  # noqa: ARG002
        """Return the sign of Table 2, and those that the paper's words imply."""
        return [
            Pair(by="paper", arm=arm, against=against, sign=sign, place=place, claim=claim)
            for arm, against, sign, claim, place in (
                (MODEL_B, VANILLA, -1, LEARNING, "Table 2: 5.274 for 5.298 on validation text"),
                (ONE_HEAD, VANILLA, 1, HEADS, "section 2.2: several heads mitigate static values"),
                (ONE_HEAD, DYNAMIC, 1, HEADS, "sections 2.2 and 3: dynamic values are what a single head lacks"),
                (BARE, MODEL_B, 1, FEED_FORWARD, "abstract: dynamic values are why the feed-forward can be cut"),
                (GATE, MODEL_B, 1, GATES, "section 6: gates are still limited"),
            )
        ]


EXPERIMENT: Experiment = DynamicValues()
