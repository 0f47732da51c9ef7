"""Rows of the bridge: an arm, a question, what the toy says of it, what was measured, and the verdict."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median

from experiments.store.folders import Json
from experiments.training.campaign import BASELINE, TWIN, unpredicted
from experiments.training.tuning import untuned
from experiments.verdicts import words
from experiments.verdicts.checks import Expectation
from experiments.verdicts.crossings import Crossing, crossing, octaves
from experiments.verdicts.intervals import Interval, against_baseline, t_interval

WORTH = "toy.worth"
SMALL, FAN_IN = "0.02", "fan-in"  # deviations of initial matrices: the papers', and 1 / sqrt(width)
MARGIN = 0.03  # of ln V: what is nearer to zero is no gain and no loss
OCTAVE = 0.5  # of width: likewise
RIGHT = 0.9  # of the answers
AREA = "mean training loss over ln V, vanilla's less the arm's"
OCTAVES = "log2 of the width for 90 %, vanilla's less the arm's"
WORDS = {"agrees": "as the toy says", "contradicts": "against the toy", "unpredicted": "no prediction"}
HELD = {"as the toy says": True, "against the toy": False}
COLUMNS = ("arm", "question", "weights", "the toy", "measured", "rate", "right", "left", "verdict", "because")
LEGEND = {
    "speed": f"at the width of one code; measured: {AREA}",
    "one token": "key and value share a token, so that nothing has to be copied; measured likewise",
    "null": "at three times the width of a code the copied key and the value both fit; measured likewise",
    "width": "for 90 % right answers, in octaves that vanilla must be wider than the arm",
    "weights": "deviation of initial matrices; fan-in: 1 / sqrt(width)",
    "rate": "the arm's best; an end: the lowest or highest tried, beyond which a better one may lie",
    "right": "the arm's share of right answers at the end; of width: the width for 90 %, and in how many seeds "
    "it lies outside of those trained",
    "left": "how many seeds leave the plateau ln n, by a training loss of half of it, and the median step of all",
    "own-map": "vanilla with a value projection of the embedding in layer 2, its own: SVFormer without the sharing",
    "twin": "vanilla from other initial weights, the control",
}
SAYS = {1: "gain", 0: "nothing", -1: "loss"}
QUESTIONS = ("speed", "one token", "null")  # of areas; the fourth is the width


@dataclass(frozen=True, kw_only=True)
class Row:
    """An arm and a question.

    says   what the toy does: 1 gain, 0 nothing, -1 loss; None: it is silent
    rate   at which it was trained, and whether that is an end of those tried
    right  the share answered right at the end, or the width for 90 %
    left   how many seeds leave the plateau, and the median step; empty of widths
    """

    arm: str
    question: str
    scale: str
    says: int | None
    judgement: Expectation
    rate: str = ""
    right: str = ""
    left: str = ""

    @property
    def words(self) -> str:
        return WORDS.get(self.judgement.verdict, "not decided") if self.arm != TWIN else "control"

    @property
    def interval(self) -> Interval:
        return Interval(self.judgement.measured, self.judgement.stderr, self.judgement.tolerance)

    def cells(self) -> tuple[str, ...]:
        one, known = self.judgement, math.isfinite(self.judgement.measured)
        measured = f"{one.measured:+.3f} ± {one.half_width:.3f}" if known else "not known"
        says = "says nothing" if self.says is None else SAYS[self.says]
        about = self.arm, self.question, self.scale, says, measured, self.rate, self.right, self.left
        return *about, self.words, words.because(one)


def rows(prediction: Json, measurement: Json) -> list[Row]:
    """Return rows of every arm but vanilla under every question whose trainings are finished."""
    keys = [key for key, part in measurement["parts"].items() if part["question"] in QUESTIONS]
    areas = [row for key in keys for row in _rows_of_areas(key, prediction, measurement)]
    return [*areas, *_rows_of_widths(prediction, measurement)]


def _rows_of_areas(key: str, prediction: Json, measurement: Json) -> list[Row]:
    part, ends = measurement["parts"][key], untuned(measurement)
    areas = {name: [-x for x in by_seed] for name, by_seed in part["area"].items()}  # less is better
    gains = against_baseline(areas[BASELINE], {name: x for name, x in areas.items() if name != BASELINE})
    both = zip(part["half"][BASELINE], part["area"][BASELINE], strict=True)
    slower = t_interval([half - area for half, area in both])
    rows_of_arms = []
    for name, gain in gains.items():
        rate = f"{measurement['tuning']['best'][f'{key}, {name}']:g}{' (an end)' * (f'{key}, {name}' in ends)}"
        where, right = (name, part["question"], part["scale"]), f"{fmean(part['right'][name]):.2f}"
        shown = {"rate": rate, "right": right, "left": _when(part["left"][name])}
        rows_of_arms.append(_row(where, gain, gains[TWIN], different=slower, prediction=prediction, **shown))
    return rows_of_arms


def _rows_of_widths(prediction: Json, measurement: Json) -> list[Row]:
    """Return rows that compare the least widths from which arms answer RIGHT of the queries, at fan-in weights."""
    parts = [part for part in measurement["parts"].values() if part["question"] in ("speed", "width")]
    by_width = {part["width"]: part["right"] for part in parts if part["scale"] == FAN_IN}
    if len(by_width) < 3:
        return []
    seeds, least = measurement["seeds"], min(by_width)
    crossings = {
        name: [
            crossing({width: right[name][seed] for width, right in sorted(by_width.items()) if name in right}, RIGHT)
            for seed in range(seeds)
        ]
        for name in by_width[least]
    }
    others = [name for name in crossings if name != BASELINE]
    both = {name: zip(crossings[name], crossings[BASELINE], strict=True) for name in others}
    worths = {name: t_interval([octaves(*two, OCTAVE) for two in both[name]], len(others)) for name in others}
    twin, doubled = worths[TWIN], Interval(1.0, 0.0, 0.0)
    about = {name: ((name, "width", FAN_IN), worths[name], twin, doubled, prediction) for name in others}
    return [_row(*about[name], right=_told(crossings[name])) for name in others]


def _when(steps: Sequence[int | None]) -> str:
    """Return how many seeds left the plateau, and the median step over all seeds, where it is finite."""
    middle = median(math.inf if step is None else step for step in steps)
    known = f", step {middle:g}" if math.isfinite(middle) else ""
    return f"{sum(step is not None for step in steps)} of {len(steps)}{known}"


def _told(crossings: Sequence[Crossing]) -> str:
    known = [math.log2(one.least) for one in crossings if one.known]
    outside = f"outside in {len(crossings) - len(known)}" if len(known) < len(crossings) else ""
    return ", ".join(part for part in (f"width {2 ** fmean(known):.1f}" if known else "", outside) if part)


def _row(
    where: tuple[str, str, str],
    measured: Interval,
    twin: Interval,
    different: Interval,
    prediction: Json,
    **shown: str,
) -> Row:
    """Return a row; `different` is an interval that certainly is not nothing."""
    name, question, scale = where
    toy = prediction["toy"].get(name)
    says = toy["signs"][question] if toy else None
    quantity, margin = (OCTAVES, OCTAVE) if question == "width" else (AREA, MARGIN)
    statement = f"{name}, {question}, initial weights {scale}: {'no word' if says is None else SAYS[says]}"
    about: Json = {"id": "/".join((question, scale, name)), "group": f"{name}: {question}", "statement": statement}
    if says is None:
        judgement = unpredicted(about["id"], about["group"], statement, measured=measured, quantity=quantity)
    else:
        mirrored = replace(twin, mean=-twin.mean)
        controls = ((twin, mirrored) if math.isfinite(twin.mean) else ()) if says else (different,)
        about |= {"rule": "beyond" if says else "none", "predicted": says * margin, "claim": WORTH, "slack": margin}
        judgement = Expectation.sampled(measured, *controls, **about, quantity=quantity, decided=prediction["decides"])
    return Row(arm=name, question=question, scale=scale, says=says, judgement=judgement, **shown)
