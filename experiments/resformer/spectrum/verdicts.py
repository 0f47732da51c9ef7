"""The verdicts of `resformer-spectrum`: random matrices before training, and what the paper leads one to expect."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from experiments.resformer.spectrum.points import (
    ARMS,
    AT_START,
    DIFFERENT,
    LIMIT,
    RESFORMER,
    SAID,
    STATISTICS,
    TEXT,
    Said,
)
from experiments.store.folders import Json
from experiments.training.campaign import BASELINE, TWIN, expected
from experiments.verdicts.checks import Check, Judgement
from experiments.verdicts.intervals import against_baseline, t_interval

NEARLY = 0.03  # relative: what the states' growth with depth leaves of a norm's epsilon
OF_THE_LIMIT = 0.1  # relative: how far the largest of some tens of eigenvalues may be from its limit


def verdicts(prediction: Json, measurement: Json) -> list[Judgement]:
    """Nothing is expected of trainings where one has diverged."""
    judgements: list[Judgement] = list(_before_training(prediction, measurement["probed"]["start"]))
    told = measurement["probed"]["end"]
    if all(seed for of_seeds in told.values() for seed in of_seeds):
        judgements += [_said(said, prediction["signs"][said.key], told) for said in SAID]
    return judgements


def _before_training(prediction: Json, told: Json) -> Iterator[Check]:
    shown = {arm: [seed[DIFFERENT] for seed in told[arm]] for arm in ARMS}
    other = {BASELINE: RESFORMER, RESFORMER: BASELINE}
    layers = len(prediction["sum"][BASELINE])
    for arm in ARMS:
        for layer in range(1, layers):
            yield _check(
                f"sum/{arm}/{layer + 1}",
                AT_START,
                f"{arm}, layer {layer + 1}: what the eigenvalues add up to before training",
                prediction["sum"][arm][layer],
                [seed["sum"][layer] for seed in shown[arm]],
                prediction["sum"][other[arm]][layer],
                family=len(ARMS) * (layers - 1),
            )
    yield _check(
        "square sum",
        AT_START,
        "layer 1: what the eigenvalues' squares add up to before training",
        prediction["square_sum"],
        [seed["square_sum"][0] for seed in shown[BASELINE]],
        prediction["square_sum_at_right_angles"],
    )
    yield _check(
        "largest at start",
        LIMIT,
        "layer 1: the largest eigenvalue before training is near the end of the limiting spectrum",
        prediction["largest"],
        [seed["largest"][0] for seed in shown[BASELINE]],
        prediction["largest_of_one_matrix"],
        slack=OF_THE_LIMIT,
    )


def _check(
    name: str,
    claim: str,
    statement: str,
    predicted: float,
    values: Sequence[float],
    control: float,
    *,
    slack: float = NEARLY,
    family: int = 1,
) -> Check:
    found = t_interval(values, family)
    return Check(
        id=f"start/{name}",
        group=f"before training: {name.split('/')[0]}",
        claim=claim,
        statement=statement,
        predicted=predicted,
        measured=found.mean,
        stderr=found.stderr,
        tolerance=found.half_width + slack * predicted,
        controls=(control,),
        slack=slack * predicted,
        quantity="squared units of v" if "square" not in name else "their squares",
    )


def _said(said: Said, sign: int, told: Json) -> Judgement:
    statistic = STATISTICS[said.statistic]
    numbers = {arm: [statistic.of(seed[TEXT]) for seed in of_seeds] for arm, of_seeds in told.items()}
    differences = against_baseline(numbers[BASELINE], {arm: of for arm, of in numbers.items() if arm != BASELINE})
    side = ("higher" if sign > 0 else "lower") + " with ResFormer than with vanilla"
    words = f"{statistic.words} is {'below one' if said.of_vanilla else side}"
    measured = t_interval(numbers[BASELINE]) if said.of_vanilla else differences[RESFORMER]
    return expected(
        said.key,
        f"{'vanilla' if said.of_vanilla else 'ResFormer less vanilla'}: {said.statistic} ({said.place})",
        statistic.claim,
        words,
        "sign",
        float(sign),
        measured,
        differences[TWIN],
        quantity=statistic.quantity,
    )
