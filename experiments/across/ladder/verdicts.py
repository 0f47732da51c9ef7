"""The verdicts of the ladder: leads against the toy's, what each ingredient does to them, and the null."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from math import nan
from statistics import fmean

from experiments.across.ladder.setting import CONVERGED, FIRST, KEPT, LAST, LAYER, NULL, RUNGS, WIDTH
from experiments.store.folders import Json
from experiments.training.campaign import BASELINE, TWIN, unpredicted
from experiments.verdicts.checks import Check, Expectation, Judgement
from experiments.verdicts.intervals import Interval, against_baseline, t_interval

LEAD, SHARE = "share of the signal explained, less vanilla's", "share of the signal explained"
STANDARD_ERRORS = 4


def first(prediction: Json) -> tuple[str, Json]:
    """Return the task at which everything is asked, and what is predicted of it."""
    return next(iter(prediction["tasks"].items()))


def _numbers(shares: Sequence[float | None]) -> list[float]:
    return [nan if x is None else x for x in shares]


def shares_of(measurement: Json, what: str, task: str, rung: str) -> dict[str, list[float]]:
    """Return every arm's shares, one a seed: as reached, or as found at width d by the longer training."""
    if what == "reached":
        return {arm: _numbers(x) for arm, x in measurement["reached"][task][rung]["share"].items()}
    return {arm: _numbers(x[-1]) for arm, x in measurement["parts"][f"{rung}, width d"]["share"].items()}


def against_vanilla(shares: Mapping[str, Sequence[float]]) -> dict[str, Interval]:
    """Return every other arm's lead over vanilla, paired by seed."""
    return against_baseline(shares[BASELINE], {arm: x for arm, x in shares.items() if arm != BASELINE})


def leads_by_rung(prediction: Json, measurement: Json, what: str) -> dict[str, dict[str, Interval]]:
    """Return leads at the first task by rung and arm."""
    task, _ = first(prediction)
    return {rung: against_vanilla(shares_of(measurement, what, task, rung)) for rung in RUNGS}


def _converged(part: Json) -> set[str]:
    """Return the arms to whose shares twice the steps add next to nothing."""
    added = {
        arm: t_interval([b - a for a, b in zip(*map(_numbers, both), strict=True)])
        for arm, both in part["share"].items()
    }
    return {arm for arm, more in added.items() if more.mean + more.half_width <= CONVERGED}


def chance(measurement: Json, task: str, rung: str, arm: str) -> tuple[int, int]:
    """Return how many trainings come within KEPT of the mean that is reached, and of how many."""
    reached = measurement["reached"][task][rung]["share"][arm]
    found = measurement["parts"][f"{rung}, width d"]["share"][arm][-1]
    level = fmean(x for x in reached if x is not None) - KEPT
    return sum(x is not None and x >= level for x in found), len(found)


def verdicts(prediction: Json, measurement: Json) -> Iterator[Judgement]:
    """Yield what is judged of what is reached, by task; then of single trainings, and the null."""
    decides = prediction["decides"]
    for task, about in prediction["tasks"].items():
        by_rung = {rung: shares_of(measurement, "reached", task, rung) for rung in RUNGS}
        for rung, shares in by_rung.items():
            yield from _of_leads(("reached", task, rung), shares, about, decides=decides, arms=None)
            yield _never_below_bayes(measurement, task, rung, about)
        yield from _of_changes(task, by_rung, decides=decides)
        yield from _of_bounds(task, by_rung[FIRST], about, decides=decides)
    task, about = first(prediction)
    for rung in RUNGS:
        shares, settled = (
            shares_of(measurement, "found", task, rung),
            _converged(measurement["parts"][f"{rung}, width d"]),
        )
        yield from _of_leads(("found", task, rung), shares, about, decides=decides, arms=settled)
    yield from (row for row, _ in null_rows(prediction, measurement))


def _of_leads(
    where: tuple[str, str, str],
    shares: Mapping[str, Sequence[float]],
    about: Json,
    *,
    decides: bool,
    arms: set[str] | None,
) -> Iterator[Expectation]:
    """Yield that there is a lead, and that it is as large as the toy's.  arms: those that have converged; None: all."""
    what, task, rung = where
    leads, vanilla = against_vanilla(shares), t_interval(shares[BASELINE])
    twin = leads[TWIN]
    for arm, lead in leads.items():
        if arm == TWIN:
            continue
        name, toy = f"{what}/{task}/{rung}/{arm}", about["lead"].get(arm)
        group = f"{what}, {task}, {rung}: {arm}"
        if toy is None:
            yield unpredicted(name, group, f"{arm} against vanilla", lead, quantity=LEAD)
            continue
        compared = arms is None or {arm, BASELINE} <= arms
        numbers: Json = {"group": group, "claim": WIDTH, "slack": KEPT, "quantity": LEAD, "decided": decides}
        if abs(toy) <= KEPT:
            numbers |= {"id": f"none/{name}", "rule": "none", "predicted": 0.0}
            wrong = (vanilla,) if compared else ()
            yield Expectation.sampled(lead, *wrong, statement=f"{arm} explains what vanilla explains", **numbers)
            continue
        controls = (twin, replace(twin, mean=-twin.mean)) if compared else ()
        more = "more" if toy > 0 else "less"
        yield Expectation.sampled(
            lead,
            *controls,
            **{**numbers, "id": f"lead/{name}", "rule": "beyond", "predicted": toy},
            statement=f"{arm} explains {more} than vanilla, by more than {KEPT:g}",
        )
        yield Expectation.sampled(
            lead,
            *controls,
            **{**numbers, "id": f"size/{name}", "rule": "size", "predicted": toy},
            statement=f"{arm} explains {abs(toy):.2f} {more} than vanilla, as the toy does",
        )


def _of_changes(
    task: str, by_rung: Mapping[str, Mapping[str, Sequence[float]]], *, decides: bool
) -> Iterator[Expectation]:
    """Yield that an ingredient leaves the lead as it was.  Control: one that takes all of it."""
    arms = [arm for arm in by_rung[FIRST] if arm not in (BASELINE, TWIN)]
    leads = {
        rung: {arm: [a - b for a, b in zip(shares[arm], shares[BASELINE], strict=True)] for arm in arms}
        for rung, shares in by_rung.items()
    }
    for before, after in pairwise(RUNGS):
        for arm in arms:
            pairs = zip(leads[after][arm], leads[before][arm], strict=True)
            change = t_interval([b - a for b, a in pairs], len(arms))
            yield Expectation.sampled(
                change,
                t_interval(leads[before][arm], len(arms)),
                id=f"change/{task}/{after}/{arm}",
                group=f"what {after} does to the lead of {arm}, {task}",
                claim=WIDTH,
                statement=f"{arm}'s lead that is reached stays when {after} is added",
                rule="none",
                predicted=0.0,
                slack=KEPT,
                quantity="change of the lead (share of the signal)",
                decided=decides,
            )


def _of_bounds(
    task: str, shares: Mapping[str, Sequence[float]], about: Json, *, decides: bool
) -> Iterator[Expectation]:
    """Yield that the rung linear explains what is proved.  Controls: nothing, and all of the signal."""
    for arm, bounds in about["proved"].items():
        if bounds is None or arm not in shares:
            continue
        least, most = bounds
        yield Expectation.sampled(
            t_interval(shares[arm], len(shares)),
            Interval(0.0, 0.0, 0.0),
            Interval(1.0, 0.0, 0.0),
            id=f"proved/{task}/{arm}",
            group=f"what is proved of the rung linear, {task}",
            claim=LAYER,
            statement=f"{arm} explains from {least:.3f} to {most:.3f}, as if layer 1's scores were of positions alone",
            rule="size",
            predicted=(least + most) / 2,
            slack=(most - least) / 2 + KEPT,
            quantity=SHARE,
            decided=decides,
        )


def null_rows(prediction: Json, measurement: Json) -> Iterator[tuple[Expectation, str]]:
    """Yield that one training finds no lead at a width, and that width.  Control: the lead that it finds at width d."""
    task, about = first(prediction)
    control = against_vanilla(shares_of(measurement, "found", task, LAST))
    for key, part in measurement["parts"].items():
        if part["width"] == about["d"]:
            continue
        leads = against_vanilla({arm: _numbers(x[-1]) for arm, x in part["share"].items()})
        next(arm for arm in leads if arm != TWIN)
        settled, width = _converged(part), key.rpartition("width ")[2]
        for arm, lead in leads.items():
            compared = {arm, BASELINE} <= settled
            if about["lead"].get(arm) is None and arm != TWIN:
                yield unpredicted(f"null/{key}/{arm}", f"null, {key}: {arm}", arm, lead, quantity=LEAD), width
                continue
            row = Expectation.sampled(
                lead,
                *(
                    (control["svformer"] if arm == TWIN and "svformer" in control else control[arm],)
                    if compared
                    else ()
                ),
                id=f"null/{key}/{arm}",
                group=f"null, {key}: {arm}",
                claim=WIDTH,
                statement=f"at {width} one training of {arm} explains what vanilla's does",
                rule="none",
                predicted=0.0,
                slack=NULL,
                quantity=LEAD,
                decided=prediction["decides"],
            )
            yield row, width


def _never_below_bayes(measurement: Json, task: str, rung: str, about: Json) -> Check:
    """Return that the best model explains no more than the posterior mean does: that would be a leak."""
    reached = measurement["reached"][task][rung]
    known = {arm: [x for x in of_seeds if x is not None] for arm, of_seeds in reached["share"].items()}
    means = {arm: fmean(x) for arm, x in known.items() if x}
    best = max(means, key=means.__getitem__)
    stderr = max(x for x in reached["stderr"][best] if x is not None)
    return Check(
        id=f"bayes/{task}/{rung}",
        group="no model is better than Bayes",
        claim=WIDTH,
        statement=f"the best of {rung}, {task}, explains no more than the posterior mean",
        predicted=about["bayes"],
        measured=means[best],
        stderr=stderr,
        tolerance=STANDARD_ERRORS * (stderr + about["bayes_stderr"]),
        controls=(-1.0,),
        relation="at most",
        quantity=SHARE,
    )
