"""The verdicts of `resformer-mapping`: what must hold on any weights, and what the paper leads one to expect."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from statistics import fmean

from experiments.resformer.mapping.points import (
    BETTER,
    CURRENT,
    EVEN,
    GATE,
    IDENTITY,
    IN_THE_MEAN,
    MAPPINGS,
    NEARER,
    OTHER_TEXT,
    PRINTED,
    RESFORMER,
    SHARP,
    SOURCES,
    pair,
)
from experiments.store.folders import Json
from experiments.training.campaign import TWIN, expected
from experiments.verdicts.checks import Check, Expectation, Judgement
from experiments.verdicts.intervals import Interval, against_baseline, t_interval

ROUNDING = 1e-9  # float64 sums of some hundred terms
SMALL_MOVES = 1e-6  # of a bound: what rounding leaves of it where scores hardly move
STAGES = {"start": "before training", "end": "trained"}


def verdicts(prediction: Json, measurement: Json) -> list[Judgement]:
    probed = measurement["probed"]
    judgements: list[Judgement] = []
    for stage, words in STAGES.items():
        if some := [p for p in probed[stage] if p]:
            judgements += _must_hold(some, stage, words)
    if sum(map(bool, probed["end"])) > 1:
        judgements += _nearness(prediction, [p for p in probed["end"] if p])
    return [*judgements, *_losses(prediction, measurement)]


def _must_hold(probed: list[Json], stage: str, words: str) -> Iterator[Check]:
    """Identities and bounds, at the layer, source and seed that comes nearest to breaking them."""
    pairs = [told for seed in probed for told in seed["pairs"].values()]

    def at_most(name: str, claim: str, group: str, statement: str, measured: float, control: float) -> Check:
        return Check(
            id=f"{name}/{stage}",
            group=f"{group}, {words}",
            claim=claim,
            statement=statement,
            predicted=1.0,
            measured=measured,
            stderr=0.0,
            tolerance=SMALL_MOVES,
            controls=(control,),
            relation="at most",
            slack=SMALL_MOVES,
            quantity="total variation over its bound",
        )

    yield Check(
        id=f"gate/{stage}",
        group=f"the gate's identity, {words}",
        claim=GATE,
        statement="cross-layer attention is both layers' attentions by their shares of the softmax's mass",
        predicted=0.0,
        measured=max(told["gated"] for told in pairs),
        stderr=0.0,
        tolerance=ROUNDING,
        controls=(min(told["ungated"] for told in pairs),),  # half of each
        slack=ROUNDING,
        quantity="relative error of the output",
    )
    yield Check(
        id=f"itself/{stage}",
        group=f"Eqn. (3) beside Eqn. (4), {words}",
        claim=GATE,
        statement="over a layer's own keys twice, attention is half of its attention to the sum of the values",
        predicted=1.0,
        measured=min(told["of_itself"] for told in pairs),
        stderr=0.0,
        tolerance=ROUNDING,
        controls=(max(told["cosine"][CURRENT] for told in pairs),),  # as near as to Eqn. (2)
        slack=ROUNDING,
        quantity="mean cosine over tokens",
    )
    said = "no row of weights moves farther than its own moves allow"
    largest, mean = (max(told["worst"][name] for told in pairs) for name in ("largest", "mean"))
    yield at_most("largest", SHARP, "the sharp bound, by a row's largest move", said, largest, 0.5)
    yield at_most("mean", IN_THE_MEAN, "Pinsker's bound, by a row's moves", said, mean, 0.5)


def _nearness(prediction: Json, probed: list[Json]) -> Iterator[Judgement]:
    """Eqn. (3)'s cosine less another mapping's: in the mean over layers, and of Eqn. (6) at every layer.

    Of the paper is the comparison with Eqn. (6); the others ask what that says of the current attention.
    """
    layers = prediction["layers"]
    than = {
        IDENTITY: f"than {MAPPINGS[IDENTITY]}",
        PRINTED: "than Eqn. (6) with all earlier layers' mean",
        EVEN: f"than {MAPPINGS[EVEN]}",
        OTHER_TEXT: "than to that with another text's keys",
    }
    family = len(SOURCES) * len(than)
    for source, earlier in SOURCES.items():

        def of_layers(of: Callable[[Json], float], source: str = source) -> list[list[float]]:
            """For each seed, of every layer."""
            return [[of(seed["pairs"][pair(layer, source)]) for layer in layers] for seed in probed]

        halves = [[(-1) ** i * x for x in seed] for i, seed in enumerate(of_layers(_between_halves))]
        for other, words in than.items():
            name, group = f"nearer/{source}/{other}", f"{earlier}: Eqn. (3) nearer to cross-layer attention {words}"
            gains = of_layers(partial(_gain, other))
            both = [t_interval([fmean(seed) for seed in seeds], family) for seeds in (gains, halves)]
            yield _nearer(prediction, name, group, f"with {group}", *both)
            for i, layer in enumerate(layers if other == IDENTITY else ()):
                at_layer = [
                    t_interval([seed[i] for seed in seeds], len(SOURCES) * len(layers)) for seeds in (gains, halves)
                ]
                yield _nearer(
                    prediction, f"{name}/{layer}", f"{group}, by layer", f"in layer {layer}, with {group}", *at_layer
                )


def _nearer(prediction: Json, name: str, group: str, statement: str, gain: Interval, halves: Interval) -> Expectation:
    quantity = "mean cosine, difference"
    return expected(name, group, NEARER, statement, "sign", prediction["nearer"], gain, halves, quantity=quantity)


def _losses(prediction: Json, measurement: Json) -> Iterator[Judgement]:
    losses = {name: [math.nan if x is None else x for x in of] for name, of in measurement["loss"].items()}
    base = losses.pop(RESFORMER)
    intervals = against_baseline(base, losses)
    for name, sign in prediction["losses"].items():
        yield expected(
            f"loss/{name}",
            f"Fig. 8: {name} less ResFormer",
            BETTER,
            f"trained with {name} the loss is higher than with ResFormer",
            "sign",
            float(sign),
            intervals[name],
            intervals[TWIN],
            quantity="loss less ResFormer's, nats a token",
        )


def _gain(other: str, told: Json) -> float:
    return float(told["cosine"][CURRENT] - told["cosine"][other])


def _between_halves(told: Json) -> float:
    """Eqn. (3)'s cosine on one half of the text less that on the other.

    All seeds see the same halves, which do differ.  So which of them comes first changes from seed to seed, and there
    is no difference to find.
    """
    first, second = told["halves"]
    return float(first - second)
