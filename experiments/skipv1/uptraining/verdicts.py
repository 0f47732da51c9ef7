"""The verdicts of `scale-uptrain`: first losses of all ways, and what is left of them at the end."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from experiments.skipv1.uptraining.points import CONTINUED, CONTINUED_TWIN, MEAN, MHA, REORDERED, SKIPV1, WHOLE
from experiments.store.folders import Json
from experiments.training.campaign import BASELINE, TWIN, expected
from experiments.training.tuning import mark, other_rates
from experiments.verdicts.checks import Expectation
from experiments.verdicts.intervals import Interval, paired_differences

PAPER, THEORY, ALGEBRA = "the paper", "independent heads", "algebra"
BEGINS = "difference of first held-out losses, nats a token"
ENDS = "difference of held-out losses at the end, nats a token"
ALIKE = 1e-3  # nats within which two first losses are the same: rounding, of norms' eps too, is far below


def verdicts(prediction: Json, measurement: Json, uptraining: str, first: str, distance: str) -> Iterator[Expectation]:
    """uptraining, first, distance: the claims that they bear on."""
    yield from _first(prediction, measurement, first, distance)
    yield from _same(prediction, measurement, distance)
    yield from _end(prediction, measurement, uptraining, distance)


def heads_of(prediction: Json) -> str:
    """MHA, of which nothing is said, GQA or MLA."""
    return str(prediction.get("of", MHA))


def tuned_as(name: str) -> str:
    """Return whose learning rate an arm has."""
    return CONTINUED if name in (CONTINUED_TWIN, REORDERED) else name


def numbers(losses: Sequence[float | None]) -> list[float]:
    """nan where a training diverged."""
    return [math.nan if loss is None else loss for loss in losses]


# What begins with a seed's one trained model differs by far less between seeds than what begins with weights of its
# own.  So these are two families of intervals, each of which holds for all of its pairs at once, with its own error.


def first_losses(measurement: Json) -> dict[tuple[str, str], Interval]:
    """Of all ways less `mean`'s, all at once; of vanilla's twin less vanilla's."""
    losses = {way: numbers(of) for way, of in measurement["first"].items()}
    found = paired_differences(losses, [(way, "mean") for way in losses if way != "mean"])
    scratch = {name: numbers(measurement["scratch"][name]) for name in (BASELINE, TWIN)}
    return found | paired_differences(scratch, [(TWIN, BASELINE)])


def at_the_end(measurement: Json) -> dict[tuple[str, str], Interval]:
    """Of all that is trained on less vanilla trained on, and less each other or vanilla before that, all at once; of
    what begins with other weights, twins too, all at once."""
    losses = {name: numbers(of) for name, of in measurement["loss"].items()}
    losses |= {name: numbers(measurement["scratch"][name]) for name in (BASELINE, SKIPV1)}
    alike = {name: of for name, of in losses.items() if name not in (SKIPV1, CONTINUED_TWIN)}
    pairs = [(name, CONTINUED) for name in alike if name != CONTINUED]
    pairs += [(MEAN, BASELINE), *([(WHOLE, MEAN)] if WHOLE in alike else [])]
    found = paired_differences(alike, pairs)
    apart = {name: losses[name] for name in (MEAN, SKIPV1, BASELINE, CONTINUED_TWIN, CONTINUED)}
    others = [(MEAN, SKIPV1), (SKIPV1, BASELINE), (CONTINUED_TWIN, CONTINUED)]
    return found | paired_differences(apart, others)


def _first(prediction: Json, measurement: Json, claim: str, distance: str) -> Iterator[Expectation]:
    found = first_losses(measurement)
    twin, paper = found[TWIN, BASELINE], _paper(prediction)
    for way in prediction["ways"]:
        if way == "mean":
            continue
        if way in prediction["printed"]:
            yield expected(
                f"first/{PAPER}/{way}",
                f"{paper}: mean begins lower than {way}",
                claim,
                f"{way} begins higher than mean (figure 10)",
                "sign",
                1.0,
                found[way, "mean"],
                twin,
                quantity=BEGINS,
            )
        if way in prediction["distances"]:
            ours, mean = prediction["distances"][way], prediction["distances"]["mean"]
            signs = {math.copysign(1.0, a - b) for a, b in zip(ours, mean, strict=True)}
            if len(signs) == 1:
                sign = signs.pop()
                yield expected(
                    f"first/{THEORY}/{way}",
                    f"{THEORY}: {way} begins {'higher' if sign > 0 else 'lower'} than mean",
                    distance,
                    f"{way} begins {'higher' if sign > 0 else 'lower'} than mean, as it takes a layer of independent "
                    f"heads {'further' if sign > 0 else 'less far'} ({ours[0]:.2f} to {ours[1]:.2f} for "
                    f"{mean[0]:.2f})",
                    "sign",
                    sign,
                    found[way, "mean"],
                    twin,
                    quantity=BEGINS,
                )


def _same(prediction: Json, measurement: Json, claim: str) -> Iterator[Expectation]:
    """What begins as the trained function, beside `mean`, which does not."""
    losses = {name: numbers(of) for name, of in measurement["begins"].items()}
    exact = [n for n, choice in prediction["choices"].items() if choice["exact"] and n != CONTINUED]
    for name in exact:
        pairs = {other: paired_differences(losses, [(other, CONTINUED)])[other, CONTINUED] for other in (name, MEAN)}
        furthest = max(abs(a - b) for a, b in zip(losses[name], losses[CONTINUED], strict=True))
        yield Expectation(
            f"same/{name}",
            f"{ALGEBRA}: {name} begins as the function that was trained",
            claim,
            f"{name} begins with vanilla's loss, of the seed that is furthest from it too",
            "none",
            0.0,
            furthest,
            0.0,
            0.0,
            ((pairs[MEAN].mean, pairs[MEAN].half_width),),
            ALIKE,
            BEGINS,
        )


def _end(prediction: Json, measurement: Json, claim: str, distance: str) -> Iterator[Expectation]:
    found, share, heads = at_the_end(measurement), f"{prediction['share']:.0%}", heads_of(prediction)

    def expect(pair: tuple[str, str], by: str, words: str, about: str = claim) -> Expectation:
        marks = "".join(mark(name, measurement) for name in pair)
        place = f"end/{by}/{pair[0]}/{pair[1]}"
        if by == PAPER and MEAN in pair:  # that SkipV1Former ends lower from scratch, it says of all kinds (table 2)
            by = _paper(prediction)
        null = (CONTINUED_TWIN, CONTINUED) if SKIPV1 in pair else (REORDERED, CONTINUED)
        numbers = -1.0, found[pair], found[null]
        apart = other_rates((tuned_as(pair[0]), tuned_as(pair[1])), measurement)
        return expected(place, f"{by}: {words}{marks}{apart}", about, words, "sign", *numbers, quantity=ENDS)

    yield expect((MEAN, SKIPV1), PAPER, f"after {share} of the tokens {MEAN} is below SkipV1Former from scratch")
    yield expect((MEAN, BASELINE), PAPER, f"after {share} of the tokens {MEAN} is below {heads} from scratch")
    yield expect((SKIPV1, BASELINE), PAPER, f"SkipV1Former from scratch ends below {heads} from scratch")
    for name in prediction["choices"]:
        if name != CONTINUED:
            by = PAPER if name == MEAN else "a reason to convert"
            yield expect((name, CONTINUED), by, f"{name} ends below {heads} that is trained on for as long")
    if WHOLE in prediction["choices"] and prediction["distances"]:  # of a latent's slices theory says nothing
        yield expect((WHOLE, MEAN), THEORY, f"{WHOLE} ends below {MEAN}", distance)


def _paper(prediction: Json) -> str:
    """Whose claim it is: what the paper says of conversion is of MHA."""
    return PAPER if heads_of(prediction) == MHA else f"{PAPER}, of MHA"
