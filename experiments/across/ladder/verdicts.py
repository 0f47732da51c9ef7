"""The verdicts of the ladder, rung by rung: gaps, worths, orders against the toy's; and what each ingredient does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from math import inf, isfinite, log2, nan

from experiments.across.ladder.ingredients import Effect, climbed, permuted
from experiments.across.ladder.points import key
from experiments.across.ladder.reading import KEPT, NEARLY, OCTAVES, Results, against_toy
from experiments.store.folders import Json
from experiments.training.campaign import BASELINE, TWIN, expected
from experiments.training.comparing import own_names
from experiments.verdicts.checks import Check, Expectation, Judgement
from experiments.verdicts.intervals import Interval, t_interval
from experiments.verdicts.orders import Pairs, agreement, convolved, null_balances, widest_by_chance
from experiments.verdicts.worth import Worth

WIDTH, WORTH = "toy.width", "toy.worth"
WON = "share of the signal explained, less vanilla's"
LEVEL = 0.05
STANDARD_ERRORS = 4
OPEN = 8.0  # log2: more than any worth


def verdicts(prediction: Json, measurement: Json) -> Sequence[Judgement]:
    """By rung: gaps at every width, worths, the order of the variants; then ingredients, and that nothing beats
    Bayes."""
    results = Results(prediction, measurement)
    judgements: list[Judgement] = []
    for rung in results.rungs:
        for task in results.tasks:
            judgements += _gaps(results, rung, task)
            judgements += _worths(results, rung, task)
            judgements += _proved(results, rung, task)
        judgements.append(_order(results, rung))
    judgements += [_of_ingredient(results, "ingredient", effect) for effect in climbed(results)]
    judgements += [_of_ingredient(results, "reordered", effect) for effect in permuted(results)]
    return [*judgements, *_never_below_bayes(results)]


def _gaps(results: Results, rung: str, task: str) -> Iterator[Expectation]:
    """Of every variant at every width: sign and size, or none; and what a user hopes of a variant of theirs."""
    numbers = results.tasks[task]
    for width in numbers["widths"]:
        twin = results.gap(rung, task, TWIN, width)
        vanilla = t_interval(results.shares(rung, task, BASELINE, width), results.family)
        for variant in results.variants:
            where, measured = (rung, task, variant, width), results.gap(rung, task, variant, width)
            name, toy = key(*where), results.toy_gap(task, variant, width)
            against = f"{variant}{results.note(*where)} against vanilla{results.note(rung, task, BASELINE, width)}"
            group = f"rung {rung}: {against}, width {width}, {task}"
            judged: list[Expectation] = []
            if variant in own_names(results.prediction):
                said = f"at width {width} {variant} explains more than vanilla"
                judged.append(expected(f"own/{name}", group, WIDTH, said, "sign", 1.0, measured, twin, quantity=WON))
            if toy is not None and abs(toy) > KEPT:
                more = "more" if toy > 0 else "less"
                said = f"at width {width} {variant} explains {more} than vanilla"
                judged.append(expected(f"sign/{name}", group, WIDTH, said, "sign", toy, measured, twin, quantity=WON))
                said = f"at width {width} {variant} explains {abs(toy):.2f} of the signal {more} than vanilla"
                said += f"; by the rule for gaps the rung {_does(against_toy(measured, toy))}"
                judged.append(
                    replace(
                        judged[-1], id=f"size/{name}", statement=said, rule="size", slack=KEPT, group=f"{group}: size"
                    )
                )
            elif toy is not None:
                # Between vanilla and predicting zero there is a difference: a rule that sees none sees nothing.
                judged.append(
                    Expectation(
                        id=f"none/{name}",
                        group=group,
                        claim=WIDTH,
                        statement=f"at width {width} {variant} explains what vanilla explains",
                        rule="none",
                        predicted=0.0,
                        measured=measured.mean,
                        stderr=measured.stderr,
                        tolerance=measured.half_width,
                        controls=((vanilla.mean, vanilla.half_width),),
                        slack=KEPT,
                        quantity=WON,
                    )
                )
            compared = _learned(results, rung, task, width) and not _short(results, rung, task, variant, width)
            yield from (x if compared else replace(x, controls=()) for x in judged)


def _does(word: str) -> str:
    return "leaves it undecided" if word == "undecided" else f"{word} it"


def _learned(results: Results, rung: str, task: str, width: int) -> bool:
    """Whether some model explains something, so that there is anything to compare."""
    arms = (BASELINE, *results.variants)
    return max(t_interval(results.shares(rung, task, v, width)).mean for v in arms) > KEPT


def _short(results: Results, rung: str, task: str, variant: str, width: int) -> bool:
    return not all(results.converged(rung, task, v, width) for v in (variant, BASELINE))


def _worths(results: Results, rung: str, task: str) -> Iterator[Expectation]:
    """In width.  Where vanilla no longer grows no interval ends, so that it is of explaining NEARLY as much.

    Controls: vanilla's twin and a worth of one, where the toy says another; a worth of two, where it says one.
    """
    numbers = results.tasks[task]
    widths = numbers["vanilla_widths"]
    for width in numbers["widths"]:
        if len(widths) < 2:
            return
        for variant in results.variants:
            toy = numbers["worth"].get(variant, {}).get(str(width))
            if not toy:
                continue
            where = (rung, task, variant, width)
            found, one = results.worth(*where, less=NEARLY), abs(log2(toy)) <= OCTAVES
            measured = _octaves(found)
            twin = _octaves(results.worth(rung, task, TWIN, width, less=NEARLY))
            reliable = _learned(results, rung, task, width) and results.converged(*where)
            reliable = reliable and all(results.converged(rung, task, BASELINE, m) for m in widths)
            controls = [(twin.mean, twin.half_width), (0.0, 0.0)]
            if one:
                controls = [(1.0, 0.0)]
            yield Expectation(
                id=f"worth/{key(*where)}",
                group=f"rung {rung}: worth of {variant}{results.note(*where)}, width {width}, {task}",
                claim=WORTH,
                statement=f"{variant} of width {width} explains what vanilla of {toy:.3g} times the width explains; "
                f"all but {NEARLY:g} of the signal it explains at {_in_words(found)} times the width",
                rule="none" if one else "size",
                predicted=log2(toy),
                measured=measured.mean,
                stderr=nan,
                tolerance=measured.half_width,
                controls=tuple(controls) if reliable else (),
                slack=OCTAVES,
                quantity="log2 of the worth in width, open ends 8 away",
            )


def _proved(results: Results, rung: str, task: str) -> Iterator[Expectation]:
    """At width d, rungs 2 and 3.  Controls: what the assumed copy allows, where that is less; a model that explains
    nothing."""
    numbers = results.tasks[task]
    d = numbers["d"]
    for variant, by_width in numbers["proved"].get(rung, {}).items():
        if (bounds := by_width[str(d)]) is None:
            continue
        where, (least, most) = (rung, task, variant, d), bounds
        measured, assumed = t_interval(results.shares(*where), results.family), numbers["share"][variant][str(d)]
        controls = [(0.0, 0.0)] + ([(assumed, 0.0)] if assumed < least - KEPT else [])
        yield Expectation(
            id=f"proved/{key(*where)}",
            group=f"rung {rung}: what is proved of a trained first layer, {variant}{results.note(*where)}, {task}",
            claim="toy.trained-layer" if rung == "2" else "toy.residual-stream",
            statement=f"at width {d} {variant} explains from {least:.3f} to {most:.3f} of the signal, as if layer 1's "
            "scores were of positions alone",
            rule="size",
            predicted=(least + most) / 2,
            measured=measured.mean,
            stderr=measured.stderr,
            tolerance=measured.half_width,
            controls=tuple(controls) if results.converged(*where) else (),
            slack=(most - least) / 2 + KEPT,
            quantity="share of the signal explained",
        )


def _octaves(found: Worth) -> Interval:
    """An interval that is open on one side reaches OPEN beyond its end: it may contradict, and never agrees."""
    least, most = (log2(end) if isfinite(end) else end for end in (found.least, found.most))
    if not (isfinite(least) or isfinite(most)):
        return Interval(nan, nan, inf)
    least = least if isfinite(least) else most - OPEN
    most = most if isfinite(most) else least + OPEN
    return Interval((least + most) / 2, nan, (most - least) / 2)


def _in_words(found: Worth) -> str:
    beyond = {inf: "more than was trained", -inf: "less than was trained"}
    point = f"{found.factor:.2f}" if isfinite(found.factor) else beyond.get(found.factor, "nobody knows how many")
    least = f"from {found.least:.2f}" if isfinite(found.least) else "from below the least"
    most = f"to {found.most:.2f}" if isfinite(found.most) else "to beyond the most"
    return f"{point} ({least} {most})"


def order(results: Results, rung: str, task: str) -> Pairs:
    """The pairs (better, worse) at width d whose paired difference is told from zero, family-wise."""
    d = results.tasks[task]["d"]
    arms = [v for v in (BASELINE, *results.variants) if results.converged(rung, task, v, d)]
    pairs = list(combinations(arms, 2))
    found = []
    for a, b in pairs:
        shares = zip(results.shares(rung, task, a, d), results.shares(rung, task, b, d), strict=True)
        difference = t_interval([x - y for x, y in shares], len(pairs))
        if abs(difference.mean) > difference.half_width:
            found.append((a, b) if difference.mean > 0 else (b, a))
    return found


def levels(results: Results, task: str) -> dict[str, int]:
    """The toy's order at width d, of what it covers: 0 for the best, equal numbers for ties."""
    numbers = results.tasks[task]
    shares = {v: by_width[str(numbers["d"])] for v, by_width in numbers["share"].items()}
    known = {v: round(share, 9) for v, share in shares.items() if share is not None}
    best_first = sorted(set(known.values()), reverse=True)
    return {v: best_first.index(share) for v, share in known.items()}


def _order(results: Results, rung: str) -> Expectation:
    """All tasks together, beside the exact permutation distribution: 95 % of it lie inside the interval."""
    by_task = []
    for task in results.tasks:
        known = levels(results, task)
        by_task.append((known, [p for p in order(results, rung, task) if p[0] in known and p[1] in known]))
    null = convolved(null_balances(known, pairs) for known, pairs in by_task)
    found = [agreement(known, pairs) for known, pairs in by_task]
    with_it, against, tied = (sum(getattr(a, x) for a in found) for x in ("concordant", "discordant", "tied"))
    widest = float(widest_by_chance(null, LEVEL))
    return Expectation(
        id=f"order/{rung}",
        group=f"rung {rung}: order of the variants at width d",
        claim=WIDTH,
        statement=f"variants that differ stand in the toy's order: {with_it} pairs do, {against} stand in the opposite "
        f"one, {tied} differ that the toy ties",
        rule="sign",
        predicted=1.0,
        measured=float(with_it - against),
        stderr=sum(p * balance**2 for balance, p in null.items()) ** 0.5,
        tolerance=widest,
        controls=((0.0, widest),),  # a toy that tells no pair apart
        quantity="pairs in the toy's order, less those against it",
    )


def _of_ingredient(results: Results, kind: str, effect: Effect) -> Expectation:
    """Does the gap stay?  The control is an ingredient that takes all of it; where there is none, one that brings a gap
    as large as what vanilla explains."""
    d, before, twin = results.tasks[effect.task]["d"], effect.gap_before, effect.twin
    if abs(before.mean) <= KEPT:
        before = t_interval(results.shares(effect.after, effect.task, BASELINE, d), results.family)
    return Expectation(
        id=f"{kind}/{effect.before} to {effect.after}/{effect.task}/{effect.variant}",
        group=f"{'in other orders, ' if kind == 'reordered' else ''}adding {effect.added}: {effect.variant}",
        claim=WIDTH,
        statement=f"{effect.sentence}; of vanilla's twin {twin.mean:+.3f} +- {twin.half_width:.3f}",
        rule="none",
        predicted=0.0,
        measured=effect.change.mean,
        stderr=effect.change.stderr,
        tolerance=effect.change.half_width,
        controls=((before.mean, before.half_width),) if effect.reliable else (),
        slack=KEPT,
        quantity="change of the share won against vanilla",
    )


def _never_below_bayes(results: Results) -> Iterator[Check]:
    """The best arm of every rung and task explains no more than the posterior mean does: that would be a leak.

    Means over seeds, on prompts that all share, so the error is that of the prompts.
    """
    for task, numbers in results.tasks.items():
        signal = numbers["d"] ** 2
        for rung in results.prediction["cells"] | results.prediction["rungs"]:
            start, losses = f"{rung}/{task}/", {}
            for name, by_steps in results.measurement["losses"].items():
                trained = [x for x in by_steps[str(results.measurement["lengths"][-1])] if x is not None]
                if name.startswith(start) and trained:
                    losses[name] = sum(trained) / len(trained)
            if not losses:
                continue
            best = min(losses, key=lambda name: losses[name])
            stderr = max(x for x in results.measurement["stderr"][best] if x is not None) / signal
            allowed = STANDARD_ERRORS * (stderr + numbers["ridge_stderr"])
            yield Check(
                id=f"bayes/{rung}/{task}",
                group="no model is better than Bayes",
                claim=WIDTH,
                statement=f"the best of rung {rung}, {task}, explains no more than the posterior mean",
                predicted=numbers["ridge"],
                measured=(numbers["zero_loss"] - losses[best]) / signal,
                stderr=stderr,
                tolerance=allowed,
                controls=(-1.0,),
                relation="at most",
                quantity="share of the signal explained",
            )
