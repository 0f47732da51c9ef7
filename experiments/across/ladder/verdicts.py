"""The verdicts of the ladder, rung by rung: gaps, worths, orders against the toy's; and what each ingredient does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from experiments.across.gaps import KEPT, Gap, expectations
from experiments.across.ladder.ingredients import Effect, climbed, permuted
from experiments.across.ladder.orders import of_order
from experiments.across.ladder.points import key, parts
from experiments.across.ladder.reading import NEARLY, Results, against_toy
from experiments.across.ladder.rungs import without
from experiments.across.ladder.worths import worths
from experiments.store.folders import Json
from experiments.training.campaign import BASELINE, TWIN
from experiments.training.comparing import own_names
from experiments.training.expectations import expected_by_paper
from experiments.verdicts.checks import Check, Expectation, Judgement
from experiments.verdicts.intervals import t_interval

WIDTH = "toy.width"
STANDARD_ERRORS = 4


def verdicts(prediction: Json, measurement: Json) -> Sequence[Judgement]:
    """By rung: gaps at every width, worths, the order of the variants; then ingredients, and that nothing beats
    Bayes."""
    results = Results(prediction, measurement)
    judgements: list[Judgement] = []
    for rung in results.rungs:
        for task in results.tasks:
            judgements += _gaps(results, rung, task)
            judgements += worths(results, rung, task)
            judgements += _proved(results, rung, task)
            judgements.append(of_order(results, rung, task))
    judgements += [_of_ingredient(results, "ingredient", effect) for effect in climbed(results)]
    judgements += [_of_ingredient(results, "reordered", effect) for effect in permuted(results)]
    judgements += _nothing(results)
    return [*judgements, *_never_below_bayes(results)]


def _gaps(results: Results, rung: str, task: str) -> Iterator[Expectation]:
    """Of every variant at every width."""
    numbers, own = results.tasks[task], own_names(results.prediction)
    for width in numbers["widths"]:
        variants = results.compared(rung, task, width)
        if not variants:
            continue
        twin = results.gap(rung, task, TWIN, width)
        vanilla = t_interval(results.shares(rung, task, BASELINE, width), results.family)
        for variant in variants:
            where, measured = (rung, task, variant, width), results.gap(rung, task, variant, width)
            toy = results.toy_gap(task, variant, width)
            against = f"{variant}{results.note(*where)} against vanilla{results.note(rung, task, BASELINE, width)}"
            compared = results.judged(*where)
            gap = Gap(
                id=key(*where),
                group=f"rung {rung}: {against}, width {width}, {task}",
                claim=WIDTH,
                variant=variant,
                measured=measured,
                toy=toy,
                own=variant in own,
                paper=expected_by_paper(results.prediction, variant, "signal"),
                twin=twin if compared else None,
                vanilla=vanilla if compared else None,
            )
            rule = ""
            if compared and toy is not None:
                rule = f"; by the rule for gaps the rung {_does(against_toy(measured, toy))}"
            best, least = (results.best(rung, task, v, width) for v in (variant, BASELINE))
            said = f"; {results.sets_in(*where).sentence}; its best seed explains {best:.3f}, vanilla's {least:.3f}"
            yield from expectations(gap, f"at width {width} ", of_sign=said, of_size=rule)


def _does(word: str) -> str:
    return "leaves it undecided" if word == "undecided" else f"{word} it"


def _proved(results: Results, rung: str, task: str) -> Iterator[Expectation]:
    """At the first width, rungs 2 and 3.  Controls: what the assumed copy allows, where that is less; a model that
    explains nothing."""
    numbers, width = results.tasks[task], results.width(task)
    for variant, by_width in numbers["proved"].get(rung, {}).items():
        if (bounds := by_width[str(width)]) is None:
            continue
        where, (least, most) = (rung, task, variant, width), bounds
        measured, assumed = t_interval(results.shares(*where), results.family), numbers["share"][variant][str(width)]
        controls = [(0.0, 0.0)] + ([(assumed, 0.0)] if assumed < least - KEPT else [])
        yield Expectation(
            id=f"proved/{key(*where)}",
            group=f"rung {rung}: what is proved of a trained first layer, {variant}{results.note(*where)}, {task}",
            claim="toy.trained-layer" if rung == "2" else "toy.residual-stream",
            statement=f"at width {width} {variant} explains from {least:.3f} to {most:.3f} of the signal, as if "
            "layer 1's scores were of positions alone",
            rule="size",
            predicted=(least + most) / 2,
            measured=measured.mean,
            stderr=measured.stderr,
            tolerance=measured.half_width,
            controls=tuple(controls) if results.converged(*where) else (),
            slack=(most - least) / 2 + KEPT,
            quantity="share of the signal explained",
        )


def _nothing(results: Results) -> Iterator[Check]:
    """Models that are proved to explain nothing do not, whatever was made of them.  Control: a bound as far below zero
    as they explain more than nothing with biases for positions."""
    for task, numbers in results.tasks.items():
        for name in numbers["nothing"]:
            rung, _, variant, width = parts(name)
            where = (task, variant, width)
            measured, biased = (t_interval(results.shares(r, *where), results.family) for r in (rung, without(rung)))
            yield Check(
                id=f"nothing/{name}",
                group="what is proved of rotary positions under linear scores",
                claim="toy.rotary",
                statement=f"rung {rung}, width {width}, {task}: {variant} explains nothing; with biases for pairs of "
                f"positions {biased.mean:.3f}",
                predicted=0.0,
                measured=measured.mean,
                stderr=measured.stderr,
                tolerance=measured.half_width + NEARLY,
                controls=(-biased.mean,),
                relation="at most",
                slack=NEARLY,
                quantity="share of the signal explained",
            )


def _of_ingredient(results: Results, kind: str, effect: Effect) -> Expectation:
    """Does the gap stay?  The control is an ingredient that takes all of it; where there is none, one that brings a gap
    as large as what vanilla explains."""
    before, twin = effect.gap_before, effect.twin
    if abs(before.mean) <= KEPT:
        shares = results.shares(effect.after, effect.task, BASELINE, results.width(effect.task))
        before = t_interval(shares, results.family)
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
        controls=() if effect.doubt else ((before.mean, before.half_width),),
        slack=KEPT,
        quantity="change of the share won against vanilla",
    )


def _never_below_bayes(results: Results) -> Iterator[Check]:
    """The best arm of every rung and task explains no more than the posterior mean does: that would be a leak.

    Means over seeds, on prompts that all share, so the error is that of the prompts.
    """
    for task, numbers in results.tasks.items():
        signal = numbers["d"] ** 2
        for rung in results.prediction["cells"]:
            start, losses = f"{rung}/{task}/", {}
            for name, by_steps in results.measurement["losses"].items():
                trained = [x for x in by_steps[max(by_steps, key=int)] if x is not None]
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
