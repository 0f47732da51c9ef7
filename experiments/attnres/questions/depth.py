"""The question of depth: whether a softmax over depth lowers the loss on text, and its effect on reads.

PreNorm beside rules that read over earlier outputs, on the same text from the same initial weights, each at its own
learning rate.  Queries over depth learn at a tenth of the rate of all else, but for one arm of Full.  From stored
probes: how much a read grows from the first to the last, and of how many outputs the last one is effectively made.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from experiments.attnres.printed import ABLATION, PLACE
from experiments.campaign.profiles import profiles
from experiments.campaign.question import Config
from experiments.campaign.setting import VANILLA
from experiments.campaign.signs import LOSS, Pair, Signs, groups
from experiments.experiment.protocol import Experiment, Profile
from experiments.store.folders import Json

FULL, EQUAL, BLOCK, DENSEFORMER = "attnres", "attnres-equal", "attnres-block", "denseformer"
WINDOW, INPUT = "attnres-window", "attnres-input-query"
ARMS = (FULL, EQUAL, BLOCK, DENSEFORMER, WINDOW, INPUT)
TENTH = 0.1
LOSSES, ABLATIONS, DILUTION, BOUNDED = "attnres.loss", "attnres.ablations", "attnres.dilution", "attnres.bounded"
GROWTH, EFFECTIVE = "growth", "effective"


class Depth(Signs):
    """The question about what sublayers read over depth."""

    name = "text-depth"
    title = "Does reading over depth lower the loss on text, and are reads smaller and less diluted?"
    caption = (
        "(a) Held-out losses at 20 tokens per parameter, each rule at its own learning rate, after its name; crosses: "
        "printed. (b), (c) Training losses at one rate, against tokens per parameter. All minus the mean of two "
        "PreNorms; a third is no effect. 95 % over paired seeds: (a) for all at once, (b), (c) point by point."
    )
    order = 4
    claims: tuple[str, ...] = (LOSSES, ABLATIONS, DILUTION, BOUNDED)
    profiles: Mapping[str, Profile] = profiles(
        groups(ARMS), seeds=8, seconds=70_000, detects="0.03 nats per token, for all differences at once"
    )
    models: Mapping[str, Mapping[str, Any]] = {
        FULL: {"depth_rate": TENTH},
        EQUAL: {"variant": FULL},
        BLOCK: {"variant": "attnres-block:size=4", "depth_rate": TENTH},
        WINDOW: {"depth_rate": TENTH},
        INPUT: {"depth_rate": TENTH},
    }
    words: Mapping[str, str] = {
        VANILLA: "PreNorm",
        FULL: "Full",
        EQUAL: "Full, queries at the rate of all else",
        BLOCK: "Block of 4",
        DENSEFORMER: "DenseFormer",
        WINDOW: "embedding and newest eight",
        INPUT: "queries from the input",
    }
    quantities: Mapping[str, str] = {
        GROWTH: "log of the last read's root mean square over the first's",
        EFFECTIVE: "log of the effective number of outputs in the last read",
    }
    drawn = (FULL, EQUAL, BLOCK, DENSEFORMER, WINDOW)
    printed = "printed, 436M parameters, one run each"
    assumes = "that signs which the paper gives for 436 million parameters, one run each, hold at this size"

    def pairs(self, config: Config) -> Sequence[Pair]:  # noqa: ARG002
        """Return the signs of the paper's ablation table, and of its summary: smaller reads, less diluted."""
        table = [(arm, VANILLA, LOSSES) for arm in (FULL, EQUAL, BLOCK, WINDOW, INPUT)]
        table += [(arm, FULL, ABLATIONS) for arm in (BLOCK, WINDOW, INPUT)]
        reads = [
            Pair(by="paper", what=what, arm=arm, against=VANILLA, sign=-1, place=place, claim=claim)
            for what, claim, place in (
                (GROWTH, BOUNDED, "summary: hidden states grow without bound under PreNorm"),
                (EFFECTIVE, DILUTION, "summary: uniform aggregation dilutes each layer's contribution"),
            )
            for arm in (FULL, BLOCK)
        ]
        return [*(_printed(*row) for row in table), *reads]

    def probed(self, probes: Json) -> Json:
        """Return what the last read is beside the first, and of how many outputs it is effectively made."""
        depth = probes["depth"]
        return {GROWTH: math.log(depth["rms"][-1] / depth["rms"][0]), EFFECTIVE: depth["effective"][-1]}


def _printed(arm: str, against: str, claim: str) -> Pair:
    losses = [ABLATION[FULL if name == EQUAL else name] for name in (arm, against)]
    nats = round(losses[0] - losses[1], 6)
    sign = 1 if nats > 0 else -1
    return Pair(by="paper", what=LOSS, arm=arm, against=against, sign=sign, place=PLACE, claim=claim, nats=nats)


EXPERIMENT: Experiment = Depth()
