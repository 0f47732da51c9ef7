"""The verdicts of the axes: gaps on every test, what is learnt of a pool, and that nothing beats Bayes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import isfinite

from experiments.across.axes.points import ITSELF, key
from experiments.across.axes.reading import Results, Where
from experiments.across.gaps import KEPT, Gap, expectations
from experiments.across.ladder.verdicts import STANDARD_ERRORS
from experiments.store.folders import Json
from experiments.training.campaign import BASELINE, TWIN, expected
from experiments.training.comparing import own_names
from experiments.training.expectations import expected_by_paper
from experiments.verdicts.checks import Check, Expectation, Judgement
from experiments.verdicts.intervals import Interval

WIDTH, SHIFTS, COVARIANCE, AROUND, POOL = (
    "toy.width",
    "toy.shifts",
    "toy.covariance-at-width",
    "skipv1.bias",
    "prompts.pool",
)
ROUNDING = 1e-9
CLAIMS = (SHIFTS, COVARIANCE, POOL, WIDTH, AROUND)


def verdicts(prediction: Json, measurement: Json) -> Sequence[Judgement]:
    results = Results(prediction, measurement)
    judgements: list[Judgement] = []
    for at in results.places():
        judgements += _gaps(results, at)
        if "pool" in results.about(at):
            judgements += _pool(results, at)
    return [*judgements, *(_never_below_bayes(results, at) for at in results.places() if _trained(results, at))]


def claim_of(results: Results, at: Where) -> str:
    """The ledger's entry that a test bears on."""
    law, about = results.prediction["trained"][at.trained]["law"], results.about(at)
    if "pool" in law:
        return POOL
    if "w0" in law:
        return AROUND
    if law:
        return COVARIANCE
    return WIDTH if at.test == ITSELF and not about["law"] else SHIFTS


def _place(at: Where, variant: str) -> str:
    return f"{key(at.rung, at.trained, variant, at.width)}/{at.test}"


def _gaps(results: Results, at: Where) -> Iterator[Expectation]:
    """Of every variant."""
    learns, twin, vanilla = results.learns(at), results.gap(at, TWIN), results.share(at, BASELINE)
    for variant in results.variants:
        compared = learns and all(results.converged(at, v) for v in (variant, BASELINE))
        gap = Gap(
            id=_place(at, variant),
            group=f"{at.words}: {variant}{results.note(at, variant)} against vanilla{results.note(at, BASELINE)}",
            claim=claim_of(results, at),
            variant=variant,
            measured=results.gap(at, variant),
            toy=results.toy_gap(at, variant),
            own=variant in own_names(results.prediction),
            paper=expected_by_paper(results.prediction, variant, "signal"),
            twin=twin if compared else None,
            vanilla=vanilla if compared else None,
        )
        yield from expectations(gap, of_sign=_set_in(results, at, variant))


def _set_in(results: Results, at: Where, variant: str) -> str:
    """Of the test on what was trained on, in words."""
    if at.test != ITSELF or (found := results.sets_in(at, variant)) is None:
        return ""
    return f"; {found.sentence}"


def _pool(results: Results, at: Where) -> Iterator[Expectation]:
    """Does a model lose less than ridge on the pool it was trained on, as the best linear step does?

    A step that sees part of S_yx alone is no better than one that sees all: where that one loses more than ridge, any
    does; where it loses less, nothing is predicted of what sees part.  Nor of either, where it is close.
    """
    about = results.about(at)
    won = about["step"] - about["ridge"]
    for variant in (BASELINE, *results.variants):
        sees = about["sees"][variant][str(at.width)]
        known = abs(won) > KEPT and sees is not None and (won < 0 or sees > 1 - ROUNDING)
        share, place = results.share(at, variant), results.between(at, variant)
        measured = Interval(share.mean - about["ridge"], share.stderr, share.half_width)
        # What does the opposite: predicting zero loses more than ridge, the posterior mean less.
        opposite = (0.0 if won > 0 else about["bayes"]) - about["ridge"]
        less, note = "less" if won > 0 else "more", results.note(at, variant)
        said = f"{variant} loses {less} than ridge, as the best linear step does"
        said = said if known else f"nothing is predicted of {variant} against ridge"
        lies = f"{place.mean:.2f} +- {place.half_width:.2f}" if isfinite(place.mean) else "not known"
        judged = expected(
            f"pool/{_place(at, variant)}",
            f"{at.words}: {variant}{note} against ridge",
            POOL,
            f"on a pool of {about['pool']} {said}; its place between ridge (0) and the posterior mean (1) is {lies}",
            "sign",
            won,
            measured.widened(about["ridge_stderr"], STANDARD_ERRORS),
            None,
            quantity="share of the signal explained, less ridge's",
        )
        judged = replace(judged, controls=((opposite, judged.tolerance),), decided=known)
        yield judged if results.learns(at) and results.converged(at, variant) else replace(judged, controls=())


def _trained(results: Results, at: Where) -> bool:
    return any(isfinite(results.share(at, v).mean) for v in (BASELINE, *results.variants))


def _never_below_bayes(results: Results, at: Where) -> Check:
    """The best variant explains no more than the posterior mean does on that test: that would be a leak.

    Means over seeds, on prompts that all share, so the error is that of the prompts.
    """
    about = results.about(at)
    means = {v: results.share(at, v).mean for v in (BASELINE, *results.variants)}
    best = max((v for v in means if isfinite(means[v])), key=lambda v: means[v])
    errors = results.measurement["stderr"][key(at.rung, at.trained, best, at.width)][at.test]
    stderr = max(x for x in errors if x is not None) / about["signal"]
    return Check(
        id=f"bayes/{at.rung}/{at.trained}/{at.width}/{at.test}",
        group="no model is better than Bayes",
        claim=claim_of(results, at),
        statement=f"{at.words}: the best explains no more than the posterior mean",
        predicted=about["bayes"],
        measured=means[best],
        stderr=stderr,
        tolerance=STANDARD_ERRORS * (stderr + about["bayes_stderr"]),
        controls=(-1.0,),
        relation="at most",
        quantity="share of the signal explained",
    )
