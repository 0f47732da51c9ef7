"""The verdicts of `skipv1-softmax`: what no compressed model may do, and whether training finds what exists."""

from __future__ import annotations

import math
from collections.abc import Iterator

from experiments.skipv1.softmax.points import BUILT, KINDS, arm_key
from experiments.store.folders import Json
from experiments.toys.checks import SHARE, at_most_check
from experiments.verdicts.checks import Check, Expectation, Judgement
from experiments.verdicts.intervals import t_interval

CLAIM = "skipv1.any-architecture"
ALTERED = 0.1  # the negative controls of theory's weights
LOWERED = 4  # likewise, of a bound
STANDARD_ERRORS = 4


def verdicts(prediction: Json, measurement: Json) -> list[Judgement]:
    judgements: list[Judgement] = []
    arms = measurement["explained"]
    compressed = sum(arm_key(size, kind, "mha") in arms for size in prediction["sizes"] for kind in KINDS)
    for size, numbers in prediction["sizes"].items():
        judgements += _built(size, numbers, measurement["constructions"])
        for kind in KINDS:
            if arm_key(size, kind, "mha") in arms:
                judgements += _trained(size, numbers, kind, arms, compressed)
    return judgements


def _built(size: str, numbers: Json, measured: Json) -> Iterator[Check]:
    """Theory's weights explain what it says, and three heads no less than linear ones can."""
    for kind in BUILT:
        said, result = numbers["constructions"][kind], measured[f"{size}/{kind}"]
        stderr = math.hypot(result["stderr"], said["explained_stderr"])
        yield Check(
            id=f"construction/{size}/{kind}",
            group=f"weights that theory writes down, {kind}",
            claim=CLAIM,
            statement="put into the softmax toy, token by token, they explain what theory says",
            predicted=said["explained"],
            measured=result["explained"],
            stderr=stderr,
            tolerance=STANDARD_ERRORS * stderr,
            controls=((1 - ALTERED) * said["explained"], (1 + ALTERED) * said["explained"]),
            quantity=SHARE,
        )
    result = measured[f"{size}/three heads"]
    yield Check(
        id=f"beyond linear/{size}",
        group="softmax skip heads against linear ones",
        claim=CLAIM,
        statement="three softmax heads with theory's weights explain no less than linear heads can, which is rho",
        predicted=numbers["linear"],
        measured=result["explained"],
        stderr=result["stderr"],
        tolerance=STANDARD_ERRORS * result["stderr"],
        controls=(numbers["bayes"] + ALTERED,),
        relation="at least",
        quantity=SHARE,
    )


def _trained(size: str, numbers: Json, kind: str, arms: Json, compressed: int) -> Iterator[Judgement]:
    mha, skip = (arms[arm_key(size, kind, toy)] for toy in ("mha", "skipv1"))
    bound = numbers["compressed"]
    yield at_most_check(
        f"floor/{size}/{kind}",
        f"compressed models, {kind}",
        CLAIM,
        "a trained compressed model leaves no less than any such model must",
        bound,
        t_interval(mha, compressed).widened(numbers["compressed_stderr"], STANDARD_ERRORS),
        bound / LOWERED,
    )
    yield at_most_check(
        f"bayes/{size}/{kind}",
        f"models with raw values, {kind}",
        CLAIM,
        "a trained model with raw values leaves no less than the posterior mean",
        numbers["bayes"],
        t_interval(skip, compressed).widened(numbers["bayes_stderr"], STANDARD_ERRORS),
        numbers["bayes"] / LOWERED,
    )
    known = numbers["constructions"].get(kind, {}).get("explained", numbers["bayes"])
    if known > bound:  # elsewhere theory does not say that there are better weights
        above, below = (t_interval([x - bound for x in values], compressed) for values in (skip, mha))
        yield Expectation(
            id=f"beyond/{size}/{kind}",
            group=f"beyond any compressed model, {kind}",
            claim=CLAIM,
            statement="trained with raw values, it explains more than any compressed model can",
            rule="sign",
            predicted=known - bound,
            measured=above.mean,
            stderr=above.stderr,
            tolerance=above.half_width,
            controls=((below.mean, below.half_width),),
            quantity="share of the signal explained, difference",
        )
