"""The verdicts of `scale-icl`: what variants explain against vanilla, held against the toy, and Bayes against all."""

from __future__ import annotations

from collections.abc import Sequence

from experiments.across.gaps import KEPT, WON, Gap, expectations
from experiments.store.folders import Json
from experiments.training.campaign import BASELINE, TWIN, expected
from experiments.training.comparing import own_names
from experiments.training.expectations import expected_by_paper
from experiments.training.tuning import mark
from experiments.verdicts.checks import Check, Judgement
from experiments.verdicts.intervals import Interval, against_baseline, t_interval

CLAIM = "toy.width"


def verdicts(prediction: Json, measurement: Json) -> Sequence[Judgement]:
    """By width and variant, then how gaps close from the narrowest to the widest, then that nothing beats Bayes."""
    gaps, won = prediction["gap"], intervals(prediction, measurement)
    widths = [str(m) for m in prediction["widths"]]
    judgements: list[Judgement] = []
    for width in widths:
        shares = {v: t_interval(explained_shares(prediction, measurement, v, width)) for v in (BASELINE, *gaps)}
        learned = max(share.mean for share in shares.values()) > KEPT
        for variant, by_width in gaps.items():
            gap = Gap(
                id=cell(variant, width),
                group=f"{variant}{mark(cell(variant, width), measurement)} against vanilla, width {width}",
                claim=CLAIM,
                variant=variant,
                measured=won[width][variant],
                toy=by_width[width],
                own=variant in own_names(prediction),
                paper=expected_by_paper(prediction, variant, "signal"),
                twin=won[width][TWIN] if learned else None,
                vanilla=shares[BASELINE] if learned else None,
            )
            judgements += expectations(gap, f"at width {width} ")
    narrow, wide = widths[0], widths[-1]
    closing = _closing(prediction, measurement, narrow, wide)
    for variant, by_width in gaps.items():
        if None not in by_width.values() and by_width[narrow] > by_width[wide]:
            judgements.append(
                expected(
                    f"closing/{variant}",
                    f"gap at width {narrow} less gap at width {wide}",
                    CLAIM,
                    "what is won shrinks once nothing needs compression",
                    "sign",
                    by_width[narrow] - by_width[wide],
                    closing[variant],
                    closing[TWIN],
                    quantity=f"{WON}, narrowest less widest",
                )
            )
    judgements += _never_below_bayes(prediction, measurement)
    return judgements


def cell(variant: str, width: int | str) -> str:
    """How results name a variant at a width."""
    return f"{variant}/{width}"


def explained_shares(prediction: Json, measurement: Json, variant: str, width: str) -> list[float]:
    """Of every seed, the share of E ||W*||^2 that the model explains with all n pairs in its context."""
    signal = prediction["d"] ** 2
    losses = measurement["losses"][cell(variant, width)]
    return [(prediction["zero_loss"] - loss[-1]) / signal if loss else float("nan") for loss in losses]


def intervals(prediction: Json, measurement: Json) -> dict[str, dict[str, Interval]]:
    """By width and variant: the paired difference to vanilla, family-wise over the variants."""
    arms = (*prediction["gap"], TWIN)
    return {
        str(m): against_baseline(
            explained_shares(prediction, measurement, BASELINE, str(m)),
            {v: explained_shares(prediction, measurement, v, str(m)) for v in arms},
        )
        for m in prediction["widths"]
    }


def _closing(prediction: Json, measurement: Json, narrow: str, wide: str) -> dict[str, Interval]:
    """How much a variant's paired difference to vanilla shrinks from the narrow to the wide embedding."""

    def change(variant: str) -> list[float]:
        both = (explained_shares(prediction, measurement, variant, width) for width in (narrow, wide))
        return [a - b for a, b in zip(*both, strict=True)]

    return against_baseline(change(BASELINE), {v: change(v) for v in (*prediction["gap"], TWIN)})


def _never_below_bayes(prediction: Json, measurement: Json) -> list[Judgement]:
    """No model may predict better than the posterior mean does: that would be a leak.

    A mean over seeds, on prompts they share, so the error is that of the prompts.
    """
    last, most = prediction["curves"]["Bayes ridge"][-1], prediction["zero_loss"]
    judgements: list[Judgement] = []
    for key, losses in measurement["losses"].items():
        trained = [loss[-1] for loss in losses if loss]
        if not trained:
            continue
        stderr = max(errors[-1] for errors in measurement["stderr"][key] if errors)
        judgements.append(
            Check(
                id=f"bayes/{key}",
                group="no model is better than Bayes",
                claim=CLAIM,
                statement="the loss with all pairs is not below the posterior mean's",
                predicted=last,
                measured=sum(trained) / len(trained),
                stderr=stderr,
                tolerance=4 * stderr,
                controls=(2 * most,),
                relation="at least",
                quantity="loss, squared units of y",
            )
        )
    return judgements
