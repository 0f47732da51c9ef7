"""The verdicts of the ladder: leads against the toy's, what each ingredient does to them, and the null."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from math import hypot, nan
from statistics import NormalDist

from experiments.across.ladder.setting import CONVERGED, FIRST, KEPT, LAST, LAYER, NULL, RUNGS, WIDTH
from experiments.store.folders import Json
from experiments.training.campaign import BASELINE, TWIN, unpredicted
from experiments.training.expectations import expected_by_paper
from experiments.verdicts.checks import Check, Expectation, Judgement
from experiments.verdicts.intervals import Interval, against_baseline, t_interval

LEAD, SHARE = "share of the signal explained, less vanilla's", "share of the signal explained"
STANDARD_ERRORS = 4
NULLS = {
    "reached": "at {width} the best of {arm} explains what vanilla's best does",
    "found": "at {width} one training of {arm} explains what vanilla's does",
}


def _numbers(shares: Sequence[float | None]) -> list[float]:
    """Return shares of the signal; a training that diverged explains nothing."""
    return [0.0 if x is None else x for x in shares]


def _part(measurement: Json, rung: str, factor: int = 1) -> Json:
    """Return single trainings on a rung, at a width that is a factor of d; where that is not 1, the last rung's."""
    part: Json = measurement["parts"][f"{rung}, width d" if factor == 1 else f"{rung}, width {factor} d"]
    return part


def found(measurement: Json, rung: str, factor: int = 1) -> dict[str, list[float]]:
    """Return what single trainings explain after the longer training: every arm's shares, one per seed."""
    return {arm: _numbers(both[-1]) for arm, both in _part(measurement, rung, factor)["share"].items()}


def best(measurement: Json, task: str, rung: str, factor: int = 1) -> dict[str, Interval]:
    """Return every arm's largest share: of its continuations and, at the first task, of its single trainings too.

    The interval is that of the prompts on which it is scored.

    Args:
        measurement: of all.
        task: at which.
        rung: on which; where the factor is not 1, the last.
        factor: of the width, in d.
    """
    reached = measurement["reached"][task] if factor == 1 else measurement["wider"][str(factor)]
    part, largest = _part(measurement, rung, factor), {}
    for arm, shares in reached[rung]["share"].items():
        tries = list(zip(shares, reached[rung]["stderr"][arm], strict=True))
        if task == measurement["task"]:
            tries += zip(part["share"][arm][-1], part["stderr"][arm], strict=True)
        share, stderr = max((one for one in tries if one[0] is not None), default=(nan, nan))
        largest[arm] = _of_prompts(share, stderr, 1)
    return largest


def _of_prompts(mean: float, stderr: float, family: int) -> Interval:
    return Interval(mean, stderr, NormalDist().inv_cdf(1 - 0.025 / family) * stderr)


def leads(measurement: Json, task: str, rung: str, what: str, factor: int = 1) -> dict[str, Interval]:
    """Return every other arm's lead over vanilla: `found`, paired by seed; or `reached`, of the best of each.

    Of the latter the interval is that of the prompts, as if they were different ones for both, which is too wide.
    """
    if what == "found":
        shares = found(measurement, rung, factor)
        return against_baseline(shares[BASELINE], {arm: x for arm, x in shares.items() if arm != BASELINE})
    largest = best(measurement, task, rung, factor=factor)
    vanilla = largest.pop(BASELINE)
    return {
        arm: _of_prompts(x.mean - vanilla.mean, hypot(x.stderr, vanilla.stderr), len(largest))
        for arm, x in largest.items()
    }


def _converged(part: Json) -> set[str]:
    """Return the arms to whose shares twice the steps add next to nothing."""
    added = {
        arm: t_interval([b - a for a, b in zip(*map(_numbers, both), strict=True)])
        for arm, both in part["share"].items()
    }
    return {arm for arm, more in added.items() if more.mean + more.half_width <= CONVERGED}


def searched(prediction: Json, measurement: Json, task: str) -> set[str]:
    """Return the arms whose best on the first rung is as good as is proved possible, but for KEPT, or not proved.

    Where a search falls short of that, a lead over what it found is no lead.
    """
    proved = prediction["tasks"][task]["proved"]
    return {
        arm
        for arm, share in best(measurement, task, FIRST).items()
        if (bounds := proved.get(BASELINE if arm == TWIN else arm)) is None or share.mean >= bounds[0] - KEPT
    }


def chance(measurement: Json, task: str, rung: str, arm: str) -> tuple[int, int]:
    """Return how many trainings come within KEPT of the most that is reached, and of how many."""
    shares, level = found(measurement, rung)[arm], best(measurement, task, rung)[arm].mean - KEPT
    return sum(share >= level for share in shares), len(shares)


def verdicts(prediction: Json, measurement: Json) -> Iterator[Judgement]:
    """Yield what is judged of what is reached, by task; then of single trainings, and the null."""
    for task, about in prediction["tasks"].items():
        by_rung = {rung: leads(measurement, task, rung, what="reached") for rung in RUNGS}
        settled = searched(prediction, measurement, task)
        for rung, of_rung in by_rung.items():
            vanilla = best(measurement, task, rung)[BASELINE]
            yield from _of_leads(("reached", task, rung), of_rung, vanilla, prediction=prediction, settled=settled)
            yield _never_below_bayes(measurement, task, rung, about=about)
        yield from _of_changes(task, by_rung, settled)
        yield from _of_bounds(task, best(measurement, task, FIRST), prediction, settled)
    task = measurement["task"]
    for rung in RUNGS:
        settled = _converged(_part(measurement, rung))
        vanilla = t_interval(found(measurement, rung)[BASELINE])
        of_rung = leads(measurement, task, rung, what="found")
        yield from _of_leads(("found", task, rung), of_rung, vanilla, prediction=prediction, settled=settled)
    yield from (row for what in NULLS for row, _ in null_rows(prediction, measurement, what))


def _of_leads(
    where: tuple[str, str, str],
    by_arm: Mapping[str, Interval],
    vanilla: Interval,
    prediction: Json,
    settled: set[str],
) -> Iterator[Expectation]:
    """Yield that there is a lead, and that it is as large as the toy's.

    Args:
        where: what is compared, at which task and rung.
        by_arm: leads over vanilla.
        vanilla: the share that it explains.
        prediction: of all tasks.
        settled: arms that have converged, or whose search has found what is proved possible.
    """
    what, task, rung = where
    twin = by_arm[TWIN]
    for arm, lead in by_arm.items():
        if arm == TWIN:
            continue
        name, toy = f"{what}/{task}/{rung}/{arm}", prediction["tasks"][task]["lead"].get(arm)
        group = f"{what}, {task}, {rung}: {arm}"
        compared = {arm, BASELINE} <= settled
        controls = (twin, replace(twin, mean=-twin.mean)) if compared else ()
        numbers: Json = {"group": group, "claim": WIDTH, "slack": KEPT, "quantity": LEAD}
        paper = expected_by_paper(prediction, arm, "signal") if what == "found" else None
        if paper:
            about = {"id": f"paper/{name}", "claim": paper["claim"], "rule": "sign", "slack": 0.0}
            about |= {"predicted": 1.0 if paper["better"] else -1.0}
            said = f"{arm} explains {'more' if paper['better'] else 'less'} than vanilla ({paper['place']})"
            yield Expectation.sampled(lead, *controls, **{**numbers, **about}, statement=said)
        if toy is None:
            if not paper:
                yield unpredicted(f"own/{name}", group, f"{arm} against vanilla", measured=lead, quantity=LEAD)
            continue
        if abs(toy) <= KEPT:
            numbers |= {"id": f"none/{name}", "rule": "none", "predicted": 0.0}
            wrong = (vanilla,) if compared else ()
            yield Expectation.sampled(lead, *wrong, statement=f"{arm} explains what vanilla explains", **numbers)
            continue
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


def _of_changes(task: str, by_rung: Mapping[str, Mapping[str, Interval]], settled: set[str]) -> Iterator[Expectation]:
    """Yield that an ingredient leaves the lead that is reached as it was.  Control: one that takes all of it."""
    for before, after in pairwise(RUNGS):
        for arm, lead in by_rung[after].items():
            if arm == TWIN:
                continue
            earlier = by_rung[before][arm]
            change = _of_prompts(lead.mean - earlier.mean, hypot(lead.stderr, earlier.stderr), len(by_rung[after]) - 1)
            yield Expectation.sampled(
                change,
                *((earlier,) if {arm, BASELINE} <= settled else ()),
                id=f"change/{task}/{after}/{arm}",
                group=f"what {after} does to the lead of {arm}, {task}",
                claim=WIDTH,
                statement=f"{arm}'s lead that is reached stays when {after} is added",
                rule="none",
                predicted=0.0,
                slack=KEPT,
                quantity="change of the lead (share of the signal)",
            )


def _of_bounds(
    task: str, largest: Mapping[str, Interval], prediction: Json, settled: set[str]
) -> Iterator[Expectation]:
    """Yield that the rung linear explains what is proved.  Controls: nothing, and all of the signal.

    A search that ends below what is possible contradicts nothing, and decides nothing.
    """
    for arm, bounds in prediction["tasks"][task]["proved"].items():
        if bounds is None or arm not in largest:
            continue
        least, most = bounds
        yield Expectation.sampled(
            largest[arm],
            *((Interval(0.0, 0.0, 0.0), Interval(1.0, 0.0, 0.0)) if arm in settled else ()),
            id=f"proved/{task}/{arm}",
            group=f"what is proved of the rung linear, {task}",
            claim=LAYER,
            statement=f"{arm} explains from {least:.3f} to {most:.3f}, as if layer 1's scores were of positions alone",
            rule="size",
            predicted=(least + most) / 2,
            slack=(most - least) / 2 + KEPT,
            quantity=SHARE,
        )


def null_rows(prediction: Json, measurement: Json, what: str) -> Iterator[tuple[Expectation, str]]:
    """Yield that there is no lead at a width, and that width.  Control: the lead at width d.

    Args:
        prediction: of all tasks.
        measurement: of all.
        what: `reached` or `found`, as of `leads`.
    """
    task = measurement["task"]
    about, control = prediction["tasks"][task], leads(measurement, task, LAST, what=what)
    for key, part in measurement["parts"].items():
        if part["width"] == about["d"]:
            continue
        width, where = key.rpartition("width ")[2], ("reached", key) if what == "reached" else (key,)
        by_arm = leads(measurement, task, LAST, what=what, factor=part["width"] // about["d"])
        settled = {*by_arm, BASELINE} if what == "reached" else _converged(part)
        other = next((arm for arm in by_arm if arm != TWIN), TWIN)  # the twin alone, where no stack can hold the rest
        for arm, lead in by_arm.items():
            name = {"id": "/".join(("null", *where, arm)), "group": f"{', '.join(('null', *where))}: {arm}"}
            if about["lead"].get(arm) is None and arm != TWIN:
                yield unpredicted(name["id"], name["group"], arm, measured=lead, quantity=LEAD), width
                continue
            row = Expectation.sampled(
                lead,
                *((control[other if arm == TWIN else arm],) if {arm, BASELINE} <= settled else ()),
                **name,
                claim=WIDTH,
                statement=NULLS[what].format(width=width, arm=arm),
                rule="none",
                predicted=0.0,
                slack=NULL,
                quantity=LEAD,
            )
            yield row, width


def _never_below_bayes(measurement: Json, task: str, rung: str, about: Json) -> Check:
    """Return that the best model explains no more than the posterior mean does: that would be a leak."""
    largest = best(measurement, task, rung)
    first_of_all = max(largest.values(), key=lambda one: one.mean)
    return Check(
        id=f"bayes/{task}/{rung}",
        group="no model is better than Bayes",
        claim=WIDTH,
        statement=f"the best of {rung}, {task}, explains no more than the posterior mean",
        predicted=about["bayes"],
        measured=first_of_all.mean,
        stderr=first_of_all.stderr,
        tolerance=STANDARD_ERRORS * (first_of_all.stderr + about["bayes_stderr"]),
        controls=(-1.0,),
        relation="at most",
        quantity=SHARE,
    )
