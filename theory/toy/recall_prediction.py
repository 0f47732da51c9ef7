"""Predictions for a two-layer plan in associative recall: the loss it cannot go below, and the width of its tokens.

Interleaved prompts (`theory.toy.lookup`, `theory.toy.recall`): one layer cannot do better than ln n, so layer 2 finds
the value's token by the key that layer 1 copied there.  What a head of layer 2 reads decides.

    copied key, own value      both stand in one token: 4 numbers, or d(K) + d(V) for two keys or values
    copied key, raw value      the value is read from layer 1's projection: 2, or max(d(K), d(V))
    raw key, copied value      recall is possible, by means over all tokens; how narrow tokens may be is not known
    raw key, raw value         these depend on the token alone: no better than ln n, whatever the number of layers

Prompts whose tokens hold key and value (`theory.toy.paired_recall`): one layer with an ordinary head does it with 2
numbers, so layer 2 makes no difference.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from theory.plans.heads import NotCovered, toy_heads
from theory.plans.plan import Plan
from theory.plans.recall import RecallSetting
from theory.toy.lookup import least_width
from theory.toy.paired_recall import ordinary_head

LOOKUP, SKIP = "a lookup: a token holds a copied key and its own value", "a lookup whose values are layer 1's"
MEANS = "means over all tokens, as no key is copied"
BLIND = "keys and values of layer 2 are functions of the token alone"
ONE_LAYER = "one layer: a token holds its key beside its value"
PAIRED_WIDTH = 2  # of three or more values


@dataclass(frozen=True)
class RecallPrediction:
    """The prediction for a plan.

    Attributes:
        guess: Loss of a guess that knows nothing of the prompt, ln V, in nats per query.
        plateau: Loss of attending to all values of the prompt alike, ln n.
        floor: The loss that no weights go below: ln n or 0.
        how: The way in which the plan recalls.
        least_width: Least numbers per token for that way; None where it is not known, or the plan does not recall.
        vanilla_width: The same for vanilla.
    """

    guess: float
    plateau: float
    floor: float
    how: str
    least_width: int | None
    vanilla_width: int


def predict_recall(plan: Plan, setting: RecallSetting) -> RecallPrediction:
    """Return the prediction for recall by a plan of two layers, whose weights may be arbitrarily large.

    Args:
        plan: A plan of two layers.
        setting: At least two keys and values; at least three values where a token holds both.

    Raises:
        NotCovered: for plans and sizes of which nothing is proved.
    """
    if min(setting.keys, setting.values) < 2 + (setting.form == "paired"):
        raise NotCovered(
            "what is proved of recall is of three or more keys and values, or of two where tokens hold one"
        )
    guess, plateau = setting.blind, math.log(setting.pairs)
    if setting.form == "paired":
        ordinary_head(plan)
        return RecallPrediction(
            guess, plateau, 0.0, how=ONE_LAYER, least_width=PAIRED_WIDTH, vanilla_width=PAIRED_WIDTH
        )
    kinds = {(bool(head.raw), bool(head.key_raw)) for head in toy_heads(plan)}  # value, key
    ordinary = least_width(setting.keys, setting.values, skip=False)
    if (True, False) in kinds:
        width: int | None = least_width(setting.keys, setting.values, skip=True)
        return RecallPrediction(guess, plateau, 0.0, how=SKIP, least_width=width, vanilla_width=ordinary)
    if (False, False) in kinds:
        return RecallPrediction(guess, plateau, 0.0, how=LOOKUP, least_width=ordinary, vanilla_width=ordinary)
    if (False, True) in kinds:
        return RecallPrediction(guess, plateau, 0.0, how=MEANS, least_width=None, vanilla_width=ordinary)
    return RecallPrediction(guess, plateau, plateau, how=BLIND, least_width=None, vanilla_width=ordinary)
