"""The verdicts of `skipv1-end-to-end`: what theory guarantees or forbids, and what the story has training do."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from statistics import fmean

from experiments.skipv1.end_to_end.judging import WIDTH, expect, twin
from experiments.skipv1.end_to_end.points import (
    Variant,
    arm_key,
    arm_keys,
    head_counts,
    many_heads,
    variants,
    widths,
)
from experiments.store.folders import Json
from experiments.toys.checks import SHARE, at_most_check
from experiments.verdicts.checks import Check, Expectation, Judgement
from experiments.verdicts.intervals import t_interval
from theory.plans.heads import TOYS

ASSUMPTION, LEAST_WIDTH = "skipv1.assumption1", "toy.least-width"
COPIED = 0.1  # how far from 1 a share of copying may be
REACHED = 0.99  # of what SkipV1Former explains at width d: what MHA has to explain to be worth as much
ALTERED = 0.1  # the negative controls of the constructions, beside a first layer that looks one token too far back
STANDARD_ERRORS = 4


def verdicts(prediction: Json, measurement: Json) -> list[Judgement]:
    """By size: constructions, bounds, Bayes; then gaps, worth in width, copying, starts, the mask, heads."""
    judgements: list[Judgement] = []
    for size, numbers in prediction["sizes"].items():
        arms = measurement["explained"]
        judgements += _constructions(size, numbers, measurement["constructions"][size])
        judgements += _bounds(size, numbers, arms)
        judgements.append(_bayes(size, numbers, arms))
        for variant in variants(numbers, arms, size):
            judgements += _gaps(size, numbers, arms, variant)
            judgements += _worth(size, numbers, arms, variant)
            judgements += _copying(size, numbers, measurement, variant)
        judgements += _starts(size, numbers, arms)
        judgements += _printed(size, numbers, arms)
        judgements += _heads(size, numbers, arms)
    return judgements


def gaps(arms: Json, size: str, variant: Variant, width: int) -> list[float]:
    """SkipV1Former's explained share less MHA's, seed by seed."""
    skip, mha = (arms[arm_key(size, *variant, toy, width)] for toy in ("skipv1", "mha"))
    return [a - b for a, b in zip(skip, mha, strict=True)]


def worths(numbers: Json, arms: Json, size: str, variant: Variant) -> list[float]:
    """Of every seed: the width at which MHA explains REACHED of what SkipV1Former explains at width d.

    Between the trained widths, by straight lines; NaN where it is reached at none.
    """
    at = widths(numbers, arms, size, variant)
    targets = arms[arm_key(size, *variant, "skipv1", numbers["d"])]
    shares = zip(*(arms[arm_key(size, *variant, "mha", m)] for m in at), strict=True)
    return [_reaches(at, list(curve), REACHED * target) for curve, target in zip(shares, targets, strict=True)]


def _reaches(at: Sequence[int], curve: Sequence[float], target: float) -> float:
    if curve[0] >= target:
        return at[0]
    for i in range(1, len(at)):
        if curve[i] >= target:
            below, above = curve[i - 1], curve[i]
            return at[i - 1] + (at[i] - at[i - 1]) * (target - below) / (above - below)
    return math.nan


def _constructions(size: str, numbers: Json, measured: Json) -> Iterator[Check]:
    for name, explained in numbers["constructions"].items():
        result = measured[name]
        yield Check(
            id=f"construction/{size}/{name}",
            group=f"weights that theory writes down, {size}",
            claim=ASSUMPTION if name.startswith("assumption") else LEAST_WIDTH if name.startswith("hiding") else WIDTH,
            statement="put into the end-to-end toy, token by token, they explain what theory says",
            predicted=explained,
            measured=result["explained"],
            stderr=result["stderr"],
            tolerance=STANDARD_ERRORS * result["stderr"],
            controls=(result["shifted"], (1 - ALTERED) * explained, (1 + ALTERED) * explained),
            quantity=SHARE,
        )


def _bounds(size: str, numbers: Json, arms: Json) -> Iterator[Check]:
    """Positions alone: nothing beyond the bound.  Control: what Assumption 1 would allow, or half of the bound."""
    alone = [variant for variant in variants(numbers, arms, size) if variant[0] == "positions"]
    at = [(variant, m) for variant in alone for m in widths(numbers, arms, size, variant)]
    cells = [(*place, toy, toy) for place in at for toy in TOYS]
    cells += [(*place, "mha", many_heads(heads)) for place in at for heads in head_counts(arms, size, *place)[1:]]
    for variant, m, toy, trained in cells:
        key, width = arm_key(size, *variant, trained, m), str(m)
        bound = numbers["widths"][width]["bound"][toy]
        assumed = numbers["widths"][width]["assumed_copy"][toy]
        yield at_most_check(
            f"bound/{key}",
            f"positions alone, {trained}, {size}",
            WIDTH,
            "if layer 1 sees positions alone, no less is left unexplained than theory.toy.positions says",
            bound,
            t_interval(arms[key], len(cells)),
            assumed if assumed < bound else bound / 2,
        )


def _bayes(size: str, numbers: Json, arms: Json) -> Check:
    """The best of all arms, with all of them as its family."""
    keys = arm_keys(numbers, arms, size)
    best = max((t_interval(arms[key], len(keys)) for key in keys), key=lambda interval: interval.mean)
    return at_most_check(
        f"bayes/{size}",
        f"the best of all arms, {size}",
        WIDTH,
        "no toy leaves less unexplained than the Bayes posterior mean",
        numbers["ridge"],
        best.widened(numbers["ridge_stderr"], STANDARD_ERRORS),
        numbers["ridge"] / 2,
    )


def _gaps(size: str, numbers: Json, arms: Json, variant: Variant) -> Iterator[Expectation]:
    """A gap below m = 2d, of the assumed-copy toy's size, and none from there on.

    Control of a gap is MHA against MHA of other seeds, of none the gap at m = d.
    """
    if variant[0] == "printed":
        return
    at, where = widths(numbers, arms, size, variant), f"{', '.join(variant)}, {size}"
    for width in at:
        predicted_gap = _difference(numbers["widths"][str(width)]["assumed_copy"])
        interval = t_interval(gaps(arms, size, variant, width), len(at))
        name = "/".join((size, *variant, f"m{width}"))
        if width < 2 * numbers["d"]:
            other_seeds = twin(arms[arm_key(size, *variant, "mha", width)])
            statement = f"SkipV1Former explains more than MHA at width {width}"
            yield expect(
                f"gap/{name}", f"gap below 2d, {where}", statement, "sign", predicted_gap, interval, other_seeds
            )
            statement = f"the gap at width {width} is the assumed-copy toy's"
            yield expect(
                f"gap size/{name}", f"size of the gap, {where}", statement, "size", predicted_gap, interval, other_seeds
            )
        else:
            narrow = t_interval(gaps(arms, size, variant, numbers["d"]), len(at))
            statement = f"SkipV1Former explains no more than MHA at width {width}, where nothing needs compression"
            yield expect(f"no gap/{name}", f"no gap from 2d on, {where}", statement, "none", 0.0, interval, narrow)


def _worth(size: str, numbers: Json, arms: Json, variant: Variant) -> Iterator[Expectation]:
    if len(widths(numbers, arms, size, variant)) < 2 or variant[0] == "printed":
        return
    values = worths(numbers, arms, size, variant)
    yield Expectation(
        id="/".join(("worth", size, *variant)),
        group=f"worth in width, {size}",
        claim=WIDTH,
        statement=f"MHA of two heads in each layer needs width {numbers['worth']} for {REACHED:.0%} of what "
        f"SkipV1Former explains at {numbers['d']}",
        rule="size",
        predicted=float(numbers["worth"]),
        measured=t_interval(values).mean,
        stderr=t_interval(values).stderr,
        tolerance=t_interval(values).half_width,
        controls=((float(numbers["d"]), 0.0),),
        slack=0.25,
        quantity="width",
    )


def _copying(size: str, numbers: Json, measurement: Json, variant: Variant) -> Iterator[Expectation]:
    """From a random start: do tokens of width d hold what Assumption 1 says?  The control is the start itself."""
    if variant[1] != "random" or variant[0] == "printed":
        return
    statements = {
        ("x_in_y", "y_in_y"): "y tokens hold their own pair",
        ("x_kept",): "x tokens keep their own x",
        ("gram",): "layer 2 sees second moments of pairs",
    }
    for parts, statement in statements.items():
        for toy in TOYS:
            key = arm_key(size, *variant, toy, numbers["d"])
            trained, start = (
                t_interval([sum(shares[part] for part in parts) for shares in measurement[when][key]], len(TOYS))
                for when in ("copying", "copying_at_start")
            )
            group, name = f"copying, {statement}, {size}", f"copying/{'+'.join(parts)}/{key}"
            said = f"{toy}, {variant[0]}: {statement}"
            judged = expect(name, group, said, "size", 1.0, trained, start, ASSUMPTION, COPIED)
            yield replace(judged, quantity="share of the weight")


def _starts(size: str, numbers: Json, arms: Json) -> Iterator[Expectation]:
    """What exists is found: the random start explains as much as the one near the copying solution."""
    near, usual = ("both", "copying"), ("both", "random")
    at = [m for m in widths(numbers, arms, size, near) if m in widths(numbers, arms, size, usual)]
    for width in at:
        for toy in TOYS:
            far, close = (arms[arm_key(size, *variant, toy, width)] for variant in (usual, near))
            interval = t_interval([a - b for a, b in zip(close, far, strict=True)], 2 * len(at))
            statement = f"{toy} of width {width} explains as much from the random start as from near copying"
            known = t_interval(gaps(arms, size, near, numbers["d"]), 2 * len(at))
            name = f"starts/{size}/{toy}/m{width}"
            yield expect(name, f"starts, {toy}, {size}", statement, "none", 0.0, interval, known, ASSUMPTION)


def _printed(size: str, numbers: Json, arms: Json) -> Iterator[Expectation]:
    """The mask P, which hides the last token from itself in layer 1, against one that does not.

    Rare prompts throw some of these toys far off; none counts for less than predicting zero, which all can do.
    """
    for width in widths(numbers, arms, size, ("printed", "random")):
        for toy in TOYS:
            seen, hidden = (
                [max(0.0, share) for share in arms[arm_key(size, scores, "random", toy, width)]]
                for scores in ("both", "printed")
            )
            interval = t_interval([a - b for a, b in zip(seen, hidden, strict=True)], len(TOYS))
            statement = f"{toy} of width {width} explains more if the last token attends to itself"
            predicted_share = numbers["widths"][str(width)]["assumed_copy"][toy]
            name, group = f"mask/{size}/{toy}/m{width}", f"the mask P in layer 1, {size}"
            yield expect(name, group, statement, "sign", predicted_share, interval, twin(seen), ASSUMPTION)


def _heads(size: str, numbers: Json, arms: Json) -> Iterator[Expectation]:
    """More heads than two, scores of positions alone: they explain more, and at width 2d - 1 all that SkipV1Former does
    at width d.  The control of the latter is MHA of two heads."""
    variant, d = ("positions", "random"), numbers["d"]
    cells = [
        (m, heads)
        for m in widths(numbers, arms, size, variant)
        for heads in head_counts(arms, size, variant, m)
        if heads > 2
    ]
    skip = arms[arm_key(size, *variant, "skipv1", d)] if cells else []
    for m, heads in cells:
        few, many = (arms[arm_key(size, *variant, toy, m)] for toy in ("mha", many_heads(heads)))
        name, group = f"heads/{size}/m{m}/h{heads}", f"more heads than two, {size}"
        more = t_interval([a - b for a, b in zip(many, few, strict=True)], len(cells))
        said = f"MHA of width {m} explains more with {heads} heads in each layer than with two"
        share = numbers["widths"][str(m)]["enough_heads"]["mha"] - fmean(few)
        yield expect(name, group, said, "sign", share, more, twin(few), LEAST_WIDTH)
        if m == 2 * d - 1:
            rest, with_two = (
                t_interval([a - b for a, b in zip(skip, mha, strict=True)], len(cells)) for mha in (many, few)
            )
            said = f"MHA of width {m} and {heads} heads in each layer explains what SkipV1Former explains at width {d}"
            group = f"all at width 2d - 1, {size}"
            yield expect(f"least width/{size}/h{heads}", group, said, "none", 0.0, rest, with_two, LEAST_WIDTH)


def _difference(shares: Json) -> float:
    return float(shares["skipv1"] - shares["mha"])
