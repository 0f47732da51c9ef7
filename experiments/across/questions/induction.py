"""Do value skips shorten the way to induction?  SVFormer, SkipV1Former and shared keys on text, at one rate each.

In multi-query associative recall, SVFormer and SkipV1Former leave the plateau at the loss ln n sooner than vanilla, and
shared keys hardly do.  If text holds the same mechanism, then on text the gain of the value skips peaks while vanilla's
heads learn induction, their order is recall's, and at a larger size, which learns induction on fewer tokens per
parameter, less of the gain is left after the same number of these.

Curves are training losses at the constant rate of the trunk, on the same batches for all arms of a seed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise, permutations
from statistics import fmean
from typing import TYPE_CHECKING

from experiments.campaign.drawing import THIRD, gains, line
from experiments.campaign.profiles import profiles
from experiments.campaign.question import BASELINE, CONTROL, Config, Group, Question
from experiments.campaign.reading import Losses, arms, gain, over, planned
from experiments.campaign.setting import FAN_IN, VANILLA
from experiments.experiment.protocol import Experiment, Profile
from experiments.store.folders import Json
from experiments.training.campaign import expected, unpredicted
from experiments.training.comparing import names_of_own, own_names
from experiments.verdicts.checks import Expectation, Judgement
from experiments.verdicts.intervals import Interval, t_interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FASTER, ORDERS = "resformer.fig-14", "toy.value-maps"  # SVFormer trains faster than vanilla; what the toy says of text
SVFORMER, SKIPV1, SHARED_KEYS = "svformer", "skipv1", "shared-keys"
ARMS = (SVFORMER, SKIPV1, SHARED_KEYS)
ORDER = ((SVFORMER, SKIPV1), (SKIPV1, SHARED_KEYS))  # in recall the first of each pair gains more
WINDOWS = ((2.5, 5.0), (5.0, 8.0))  # tokens per parameter, over which losses are averaged
SCORES = {"induction": "induction, on the text", "previous": "previous token"}
OCTAVE = 1.0  # how far apart, in doublings of tokens, the peak of the gain and of induction's rise may lie
WORDS = {SVFORMER: "SVFormer", SKIPV1: "SkipV1Former", SHARED_KEYS: "shared keys", CONTROL: THIRD}
NATS = "training loss in nats per token, minus the mean of two vanillas"
APART = "training loss in nats per token, difference"
GROUPS = (
    Group(arms=ARMS, width=32, rate=8e-3, until=10.0),
    Group(arms=ARMS, width=48, rate=8e-3, until=10.0),
    Group(arms=ARMS, width=32, rate=4e-3, until=10.0),
    Group(arms=ARMS, width=32, rate=8e-3, std=FAN_IN, until=10.0),
)


class Induction(Question):
    """The first question of the campaign."""

    name = "text-induction"
    title = "Do value skips shorten the way to induction on text?"
    caption = (
        "(a), (b) Training loss minus the mean of two vanillas, from two initial scales; a third vanilla is what no "
        "effect looks like. (c) Mean differences from 2.5 to 5 tokens per parameter. (d) Attention of vanilla's best "
        "heads. Bands: 95 % over paired seeds, point by point; bars: for all at once."
    )
    order = 1
    claims: tuple[str, ...] = (FASTER, ORDERS)
    profiles: Mapping[str, Profile] = profiles(
        GROUPS, seeds=12, seconds=35_000, detects="0.2 nats per token, for all differences at once"
    )

    def predict(self, config: Config) -> Json:
        """Return what recall says of text."""
        there = set() if config.own else {arm for group in config.groups for arm in group.arms}
        gaining = [arm for arm in (SVFORMER, SKIPV1) if arm in there]
        return {
            "assumes": "that text holds the mechanism of recall: a value skip shortens the way to induction",
            "source": "multi-query associative recall, two and three layers of width 16: SVFormer and SkipV1Former "
            "leave the plateau sooner, shared keys hardly",
            "statistic": f"{NATS}, mean over 2.5 to 5 and 5 to 8 tokens per parameter; where the gain peaks, in "
            "doublings of tokens; that of a larger size minus that of a smaller one",
            "rule": "a sign: the family-wise 95 % interval over paired seeds lies on the predicted side, and that of a "
            "third vanilla does not",
            "tuning": "not tuned: curves are compared at one learning rate, the same for all arms",
            "windows": [list(window) for window in WINDOWS],
            "signs": dict.fromkeys(gaining, -1.0),
            "order": [list(pair) for pair in ORDER if set(pair) <= there],
            "peak": dict.fromkeys(gaining, OCTAVE),
            "sizes": [
                [small.name, large.name]
                for small, large in permutations(config.groups, 2)
                if small.width < large.width and replace(small, width=large.width) == large
            ],
            **names_of_own(config.own),
        }

    def probed(self, probes: Json) -> Json:
        """Return scores of the best head of any layer: of induction on the text, minus uniform attention's; and others.

        On random tokens (`random`) models of this size have not learned induction by 10 tokens per parameter.
        """
        text, drawn = probes["text"], probes["induction"]
        return {
            "induction": max(_known(text["best"])) - text["uniform"],
            "previous": max(_known(drawn["best_previous"])),
            "random": max(_known(drawn["best_induction"])),
            "repeated": text["loss"]["repeated"],
            "changed": text["loss"]["changed"],
        }

    def compare(self, prediction: Json, measurement: Json) -> Sequence[Judgement]:
        """Judge signs, order and peaks in every group, and the gain that a larger size leaves."""
        own = list(self._own(prediction, measurement))
        judged = (self._signs, self._peaks, self._sizes)
        return [*(check for of in judged for check in of(prediction, measurement)), *own]

    def _signs(self, prediction: Json, measurement: Json) -> Iterator[Expectation]:
        pairs = [*((arm, VANILLA) for arm in prediction["signs"]), *map(tuple, prediction["order"])]
        family = max(1, len(pairs) * len(prediction["windows"]) * planned(measurement))
        for name, group in measurement["groups"].items():
            for begin, end in prediction["windows"]:
                losses = over(group, begin, end)
                control = gain(losses, CONTROL, family)
                at = f"{begin:g} to {end:g} tokens per parameter"
                for arm, other in pairs:
                    found = gain(losses, arm, family, *([(other,)] if other != VANILLA else []))
                    beside = "the vanillas'" if other == VANILLA else f"that of {other}"
                    yield expected(
                        name=f"{name}/{begin:g} to {end:g}/{arm}/{other}",
                        group=f"{arm} minus {'vanilla' if other == VANILLA else other}, {at}",
                        claim=FASTER if (arm, other) == (SVFORMER, VANILLA) else ORDERS,
                        statement=f"the training loss of {arm} lies below {beside} ({name}: {at})",
                        rule="sign",
                        predicted=-1.0,
                        measured=found,
                        twin=control,
                        quantity=APART,
                    )

    def _own(self, prediction: Json, measurement: Json) -> Iterator[Expectation]:
        """Yield what was measured of a user's variants, of which nothing is predicted."""
        windows = prediction["windows"]
        family = max(1, len(own_names(prediction)) * len(windows) * planned(measurement))
        for name, group in measurement["groups"].items():
            for begin, end in windows:
                for arm in own_names(prediction):
                    at = f"{begin:g} to {end:g} tokens per parameter"
                    found = gain(over(group, begin, end), arm, family)
                    where = f"{name}/{begin:g} to {end:g}/{arm}"
                    yield unpredicted(
                        where, f"{arm} minus vanilla, {at}", f"{arm}, {at} ({name})", measured=found, quantity=NATS
                    )

    def _peaks(self, prediction: Json, measurement: Json) -> Iterator[Expectation]:
        family = max(1, len(prediction["peak"]) * planned(measurement))
        for name, group in measurement["groups"].items():
            control = t_interval(peaks_apart(group, CONTROL), family)  # of noise, which peaks anywhere
            for arm, octaves in prediction["peak"].items():
                apart = t_interval(peaks_apart(group, arm), family)
                yield Expectation(
                    id=f"{name}/peak/{arm}",
                    group=f"{arm}: where its gain peaks, minus where vanilla's induction rises most",
                    claim=FASTER if arm == SVFORMER else ORDERS,
                    statement=f"the gain of {arm} peaks where vanilla's score of induction rises most ({name})",
                    rule="none",
                    predicted=0.0,
                    measured=apart.mean,
                    stderr=apart.stderr,
                    tolerance=apart.half_width,
                    controls=((control.mean, control.half_width),),
                    slack=octaves,
                    quantity="doublings of tokens",
                )

    def _sizes(self, prediction: Json, measurement: Json) -> Iterator[Expectation]:
        """Yield how much less of a gain is left at a larger size, by seed, after as many tokens per parameter."""
        windows, groups = prediction["windows"], measurement["groups"]
        family = len(prediction["signs"]) * len(windows) * len(prediction["sizes"])
        for small, large in prediction["sizes"]:
            if not family or not {small, large} <= groups.keys():
                continue
            for begin, end in windows:
                both = over(groups[small], begin, end), over(groups[large], begin, end)
                control = gains_apart(both, CONTROL, family)
                at = f"{begin:g} to {end:g} tokens per parameter"
                for arm, sign in prediction["signs"].items():
                    yield expected(
                        name=f"{large}/{begin:g} to {end:g}/{arm}/{small}",
                        group=f"{arm}'s gain at a larger size, {at}",
                        claim=FASTER if arm == SVFORMER else ORDERS,
                        statement=f"{arm} gains less than it does at {small.partition(',')[0]} ({large}: {at})",
                        rule="sign",
                        predicted=-sign,
                        measured=gains_apart(both, arm, family),
                        twin=control,
                        quantity=f"{NATS}; at the larger size, minus at the smaller one",
                    )

    def draw(self, prediction: Json, measurement: Json) -> Figure:
        """Draw gains against tokens in the first and the last group, what is judged, and vanilla's induction."""
        from experiments.drawing import style

        groups = measurement["groups"]
        names = list(groups)
        shown = {name: groups[name] for name in (names[0], names[-1])}
        fig, axes = style.panels(2 + len(shown), width=4.6, height=3.6)
        for axis, (name, group) in zip(axes, shown.items(), strict=False):
            gains(axis, name, group, words=WORDS)
            axis.sharey(axes[0])
        _differences(axes[-2], measurement, prediction)
        _scores(axes[-1], shown)
        style.finish(axes)
        return fig


def _scores(axis: Axes, groups: Mapping[str, Json]) -> None:
    """Draw how much vanilla's best heads attend to what they are named by, 95 % at each length, in two groups."""
    from experiments.drawing import style

    parts = {name: name.split(", ") for name in groups}
    for (name, group), shade in zip(groups.items(), ("#1a1a1a", "#c96a8b"), strict=False):
        apart = [part for part in parts[name] if not all(part in of for of in parts.values())]
        for score, stroke in zip(SCORES, ("-", ":"), strict=True):
            label = ", ".join([SCORES[score], *apart])
            points = [t_interval(_score(group, score, length)) for length in group["lengths"]]
            line(axis, list(group["lengths"].values()), points, label=label, color=shade, linestyle=stroke)
    axis.set_ylabel("share of attention, best head of any layer")
    axis.set_title("Vanilla's heads")
    style.tokens_per_parameter(axis, list(next(iter(groups.values()))["lengths"].values()))


def _differences(axis: Axes, measurement: Json, prediction: Json) -> None:
    """Draw the mean differences of the first window, with intervals for all of them at once."""
    from experiments.drawing import style

    (begin, end), groups = prediction["windows"][0], measurement["groups"]
    rows = [(at, arm) for at in groups for arm in (CONTROL, *arms(groups[at]))]
    names = list(dict.fromkeys(arm for _, arm in rows))
    for i, arm in enumerate(names):
        of_arm = [(j, at) for j, at in enumerate(groups) if (at, arm) in rows]
        found = [gain(over(groups[at], begin, end), arm, len(names) * planned(measurement)) for _, at in of_arm]
        look = {key: x for key, x in style.look("twin" if arm == CONTROL else arm).items() if key != "linestyle"}
        x = [j + 0.6 * (i / max(1, len(names) - 1) - 0.5) for j, _ in of_arm]
        style.bars(axis, x, found, label=WORDS.get(arm, arm), **look)
    axis.axhline(0, color="#999999", linewidth=0.8)
    axis.set_xticks(range(len(groups)), [name.replace(", ", "\n") for name in groups], fontsize=7)
    axis.set_ylabel("training loss minus vanilla's (nats per token)")
    axis.set_title(f"From {begin:g} to {end:g} tokens per parameter")


def gains_apart(both: tuple[Losses, Losses], arm: str, family: int = 1) -> Interval:
    """Return an arm's mean difference to the vanillas in the second of two groups minus that in the first.

    It is taken over the seeds that both have.
    """
    by_seed = [
        [loss - fmean(vanillas) for loss, *vanillas in zip(of[arm], *(of[name] for name in BASELINE), strict=True)]
        for of in both
    ]
    return t_interval([b - a for a, b in zip(*by_seed, strict=False)], family)


def _known(values: Sequence[float | None]) -> list[float]:
    return [x for x in values if x is not None]


def spans(group: Json) -> list[tuple[float, float]]:
    """Return, in tokens per parameter, what lies between the lengths at which the group was probed."""
    return list(pairwise([0.0, *group["lengths"].values()]))


def rises(group: Json, arm: str = VANILLA) -> list[list[float]]:
    """Return by seed how much the score of the best induction head grows over each of the spans."""
    by_length = [_score(group, "induction", length, arm=arm) for length in group["lengths"]]
    return [[b - a for a, b in pairwise([0.0, *of_seed])] for of_seed in zip(*by_length, strict=True)]


def _score(group: Json, score: str, length: str, arm: str = VANILLA) -> list[float]:
    """Return a score by seed; nan where the training diverged."""
    return [math.nan if one is None else one[score] for one in group["probed"][arm][length]]


def peaks_apart(group: Json, arm: str) -> list[float]:
    """Return by seed the doublings from where vanilla's induction rises most to where the arm's gain is largest.

    nan where one of the two diverged.
    """
    losses = [over(group, *span) for span in spans(group)]
    found = []
    for seed, rise in enumerate(rises(group)):
        gains = [of[VANILLA][seed] - of[arm][seed] for of in losses]
        whole = all(map(math.isfinite, [*gains, *rise]))
        found.append(float(gains.index(max(gains)) - rise.index(max(rise))) if whole else math.nan)
    return found


EXPERIMENT: Experiment = Induction()
