"""The verdicts of `resformer-blocks`."""

from __future__ import annotations

from collections.abc import Iterator

from experiments.resformer.blocks.points import BETTER, BLOCK, CROSS, DISTANCE, IN_THE_MEAN, SHARP, TOYS
from experiments.store.folders import Json
from experiments.toys.checks import ALTERED, EXACT_SLACK, ROUNDING, ClosedForm, exact_check, trained_check
from experiments.toys.runs import point_key
from experiments.verdicts.checks import Check
from experiments.verdicts.intervals import t_interval

GAP_SLACK = 0.05  # of the gap: the most that training may add to an interval
ALTERED_GAP = 0.15  # the negative controls of the gap
ALTERED_SQUARE = 0.1  # those of a squared distance
NEAR = 0.95  # a bound given the moves that is so much tighter is broken
SMALL_MOVES = 1e-6  # of a bound: what rounding leaves of it where scores hardly move


def verdicts(prediction: Json, measurement: Json) -> list[Check]:
    return [
        *_distances(prediction["keys"], measurement["keys"]),
        *_toys(prediction["toys"], measurement),
        *_bounds(prediction["softmax"], measurement),
    ]


def _distances(predicted: Json, measured: Json) -> Iterator[Check]:
    for key, said in predicted.items():
        interval, share = t_interval(measured[key], len(predicted)), said["share"]
        yield Check(
            id=f"keys/{key}",
            group=f"keys apart, {said['way']}, {said['size']}",
            claim=DISTANCE,
            statement="on prompts the mean square of cross-layer attention less its block form is the closed form's",
            predicted=share,
            measured=interval.mean,
            stderr=interval.stderr,
            tolerance=interval.half_width,
            controls=((1 - ALTERED_SQUARE) * share, (1 + ALTERED_SQUARE) * share),
            quantity="mean square of the difference, share of the block form's",
        )


def _toys(said: Json, measurement: Json) -> Iterator[Check]:
    size, rho, trained = said["size"], said["rho"], measurement["trained"]
    family = len(trained["explained"]) + said["d"]
    for rank, signals in enumerate(said["ranks"]):
        for toy in TOYS:
            key, closed = point_key(size, toy, rank), ClosedForm(BETTER, signals[toy], rho)
            explained = measurement["exact"][key]["explained"]
            statement = "the exact minimum explains what the closed form says, and not more"
            yield exact_check(f"exact/{key}", f"exact minimum, {toy}", statement, closed, explained, said["zero_loss"])
            if rank:
                interval = t_interval(trained["explained"][key], family)
                statement = "toys trained on sampled prompts explain what the closed form says, and not more"
                yield trained_check(f"trained/{key}", f"trained, {toy}", statement, closed, interval)
        if rank:
            yield _gap(size, rank, signals[BLOCK] - signals[CROSS], trained["explained"], family)
    for key, ratios in trained["distance"].items():
        interval = t_interval(ratios, len(trained["distance"]))
        yield Check(
            id=f"trained-distance/{key}",
            group="trained cross-layer attention less its block form, over the closed form",
            claim=DISTANCE,
            statement="in trained toys the mean square of the difference is the closed form's at their weights",
            predicted=1.0,
            measured=interval.mean,
            stderr=interval.stderr,
            tolerance=interval.half_width,
            controls=(1 - ALTERED_SQUARE, 1 + ALTERED_SQUARE),
            quantity="mean square of the difference over the closed form",
        )


def _gap(size: str, rank: int, gap: float, explained: Json, family: int) -> Check:
    pairs = zip(*(explained[point_key(size, toy, rank)] for toy in (BLOCK, CROSS)), strict=True)
    interval = t_interval([block - cross for block, cross in pairs], family)
    return Check(
        id=f"trained-gap/{size}/a{rank}",
        group="trained, the block form less cross-layer attention",
        claim=BETTER,
        statement="the block form explains rho a^2 more, paired by seed",
        predicted=gap,
        measured=interval.mean,
        stderr=interval.stderr,
        tolerance=interval.half_width + GAP_SLACK * gap,
        controls=((1 - ALTERED_GAP) * gap, (1 + ALTERED_GAP) * gap),
        slack=GAP_SLACK * gap,
        quantity="signal explained more, squared units of y",
    )


def _bounds(said: Json, measurement: Json) -> Iterator[Check]:
    quantity = "total variation"
    for layers, bounds in said["bounds"].items():
        for eps, bound, climbed, drawn in zip(
            said["eps"], bounds, measurement["climbed"][layers], measurement["random"][layers], strict=True
        ):
            yield Check(
                id=f"softmax/{layers} layers/eps{eps:g}",
                group=f"worst moves found, {layers} layers",
                claim=SHARP,
                statement="hill climbing on rows and moves ends at the bound, and not above",
                predicted=bound,
                measured=climbed,
                stderr=0.0,
                tolerance=EXACT_SLACK * bound,
                controls=((1 - ALTERED) * bound, (1 + ALTERED) * bound),
                above=ROUNDING,
                slack=EXACT_SLACK * bound,
                quantity=quantity,
            )
            yield Check(
                id=f"random/{layers} layers/eps{eps:g}",
                group=f"random rows and moves, {layers} layers",
                claim=SHARP,
                statement="no random row moves farther than the bound",
                predicted=bound,
                measured=drawn["most"],
                stderr=0.0,
                tolerance=ROUNDING,
                controls=(drawn["middle"],),  # a bound that half of the rows would break
                relation="at most",
                slack=ROUNDING,
                quantity=quantity,
            )
    for name, claim in (("pinsker", IN_THE_MEAN), ("kappa", SHARP)):
        most = max(found["worst"][name] for found in measurement["normal"])
        yield Check(
            id=f"normal/{name}",
            group=f"normal moves, {'by their distribution' if name == 'pinsker' else 'by the largest'}",
            claim=claim,
            statement="no row moves farther than the bound, given its own moves",
            predicted=1.0,
            measured=most,
            stderr=0.0,
            tolerance=SMALL_MOVES,
            controls=(NEAR * most,),
            relation="at most",
            slack=SMALL_MOVES,
            quantity="total variation over its bound",
        )
