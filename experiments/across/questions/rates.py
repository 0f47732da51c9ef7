"""The question of learning rates: the best rate for each variant, as a table for practitioners.

Every arm of the questions on values, depth and dynamic values is trained at four rates, at the smallest width.  Its
best rate is the minimum of a parabola through its losses, with an error over seeds.  Two arms are also trained from
initial weights by fan-in, as gains hang on these, at rates twice as high, and at the next width, as rates are assumed
to fall with the root of the width.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from experiments.across.questions import values
from experiments.attnres.questions import depth
from experiments.campaign.profiles import CAMPAIGN, profiles
from experiments.campaign.question import CONTROL, TWIN, VANILLAS, Config, Group, Question
from experiments.campaign.rates import OwnRate, at_width, candidates, costs, ends, octaves_apart, own_rate
from experiments.campaign.reading import arms, at_length, gain
from experiments.campaign.setting import FAN_IN, VANILLA
from experiments.campaign.signs import NATS
from experiments.dva.questions import dynamic_values
from experiments.experiment.protocol import Experiment, Profile
from experiments.store.folders import Json
from experiments.training.arms import START
from experiments.training.campaign import unpredicted
from experiments.training.comparing import names_of_own
from experiments.verdicts.checks import Expectation, Judgement

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SWEEP = CAMPAIGN.sweep
BY_FAN_IN = tuple(2 * rate for rate in SWEEP.rates)  # the best is higher there
NEXT = 48  # the width at which the rule for rates is tried
QUESTIONS = (values.Values, depth.Depth, dynamic_values.DynamicValues)
ARMS = (*values.ARMS, *depth.ARMS, *dynamic_values.ARMS)
WORDS = {name: words for one in QUESTIONS for name, words in one.words.items() if name != VANILLA}
WORDS |= {TWIN: "vanilla, twin", CONTROL: "vanilla, second twin"}
ELSEWHERE = (values.SVFORMER,)  # also tried, with the vanillas, from other initial weights and at another width
OCTAVES, LOSS = "best learning rate, doublings", f"{NATS}, minus the mean of two vanillas"
Table = Mapping[str, Mapping[float, Sequence[float | None]]]  # by arm and rate, held-out losses by seed
LOOK: dict[str, Any] = {"color": "#1a1a1a", "markerfacecolor": "white", "linestyle": "none"}
GROUPS = (
    *(Group(arms=ARMS, width=SWEEP.width, rate=rate, until=SWEEP.until) for rate in SWEEP.rates),
    *(Group(arms=ELSEWHERE, width=SWEEP.width, rate=rate, std=FAN_IN, until=SWEEP.until) for rate in BY_FAN_IN),
    *(
        Group(arms=ELSEWHERE, width=NEXT, rate=at_width(rate, SWEEP.width, NEXT), until=SWEEP.until)
        for rate in SWEEP.rates
    ),
)


class Rates(Question):
    """The rate table."""

    name = "text-rates"
    title = "Which learning rate is best for which variant on text?"
    caption = (
        "(a) Where a parabola through held-out losses by rate is lowest; bars: 95 % over seeds, each alone, where that "
        "is inside without any of them. A triangle: an end of what was tried. (b) What other rates cost; bars: 95 %, "
        "each alone. Width 32, 10 tokens per parameter, initial weights of 0.02 unless named; twins have others."
    )
    order = 2
    claims: tuple[str, ...] = ()
    compared = "all arms at two rates"
    profiles: Mapping[str, Profile] = profiles(
        GROUPS,
        seeds=SWEEP.seeds,
        seconds=40_000,
        detects="1.5 doublings of the rate, and 0.07 nats per token of a gain",
        few=2,
    )
    models: Mapping[str, Mapping[str, Any]] = {name: of for one in QUESTIONS for name, of in one.models.items()}

    def predict(self, config: Config) -> Json:
        """Return the rule by which rates are carried to another width; of the arms nobody predicts anything."""
        widths = sorted({group.width for group in config.groups})
        return {
            "assumes": "nothing",
            "source": "the campaign's own rule",
            "statistic": "where a parabola through mean held-out losses, over the logarithm of the rate, is lowest",
            "rule": "nothing is judged: intervals are shown, 95 % each, over paired seeds (jackknife)",
            "tuning": "this is the tuning",
            "between widths": math.log2(at_width(1.0, widths[0], widths[-1])),
            **names_of_own(config.own),
        }

    def comparable(self, groups: Mapping[str, Json]) -> bool:
        """Return whether two rates of the same models are there."""
        return bool(tables({"groups": groups}))

    def compare(self, prediction: Json, measurement: Json) -> Sequence[Judgement]:
        """Show every arm's own rate against vanilla's, how two arms' move with the models, and what one gains."""
        return [*_apart(measurement), *_moved(prediction, measurement), *_gained(measurement)]

    def draw(self, prediction: Json, measurement: Json) -> Figure:  # noqa: ARG002
        """Draw every arm's own rate, and what the other rates cost it."""
        from experiments.drawing import style

        by_models = tables(measurement)
        width = _width(next(iter(by_models)))
        table = {
            f"{WORDS.get(name, name)}{_named(models)}": losses
            for models, of_models in by_models.items()
            if _width(models) == width
            for name, losses in of_models.items()
        }
        fig, axes = style.figure(columns=2, rows=1, width=5.0, height=1.2 + 0.26 * len(table))
        places = list(range(len(table), 0, -1))
        rates = sorted({rate for losses in table.values() for rate in losses})
        marks = dict(zip(rates, "vs^Dp", strict=False))
        above = {rate: 0.15 * ((len(rates) - 1) / 2 - i) for i, rate in enumerate(rates)}
        for rate, shape in marks.items():
            axes[1].plot([], [], shape, label=f"rate {rate:g}", **LOOK)
        for losses, place in zip(table.values(), places, strict=True):
            if not (known := candidates(losses)):
                continue
            best, reach = own_rate(known), ends(known)
            xerr = [[best.rate - reach[0]], [reach[1] - best.rate]] if reach else None
            mark = "o" if not best.edge else "<" if best.rate == min(known) else ">"
            axes[0].errorbar([best.rate], [place], xerr=xerr, fmt=mark, **LOOK)
            for rate, cost in costs(known).items():
                axes[1].errorbar([cost.mean], [place + above[rate]], xerr=[cost.half_width], fmt=marks[rate], **LOOK)
        axes[0].set_xscale("log", base=2)
        axes[0].set_xticks(rates, [f"{rate:g}" for rate in rates])
        axes[0].set_xlabel("learning rate of lowest held-out loss")
        axes[0].set_title("Own learning rates")
        axes[1].set_xlabel("held-out loss above its lowest (nats per token)")
        axes[1].set_title("What other rates cost")
        axes[0].set_yticks(places, list(table))
        axes[1].set_yticks(places, ["" for _ in places])
        for axis in axes:
            axis.set_ylim(0.4, len(places) + 0.6)
        style.finish(list(axes))
        return fig


def tables(measurement: Json) -> dict[str, Table]:
    """Return the losses at the last length of what is trained at two rates or more, by which models it is (`_models`).

    All rates have the same seeds.
    """
    groups, by_models = measurement["groups"], dict[str, Table]()
    for models in dict.fromkeys(map(_models, groups)):
        some = [group for name, group in groups.items() if _models(name) == models]
        some.sort(key=lambda group: group["rates"][VANILLA])
        seeds = min(group["seeds"] for group in some)
        if len(some) > 1:
            by_models[models] = {
                name: {group["rates"][name]: group["loss"][name][list(group["lengths"])[-1]][:seeds] for group in some}
                for name in (*VANILLAS, *arms(some[0]))
            }
    return by_models


def _models(group: str) -> str:
    """Return a group's name without its learning rate."""
    return ", ".join(part for part in group.split(", ") if not part.startswith("rate "))


def _named(models: str) -> str:
    """Return what sets models apart beside their width, after a comma, but for the usual initial weights."""
    apart = [part for part in models.split(", ")[1:] if part != f"initial weights {START:g}"]
    return "".join(f", {part}" for part in apart)


def _width(models: str) -> str:
    return models.partition(", ")[0]


def _apart(measurement: Json) -> Iterator[Expectation]:
    """Yield how far every arm's own rate lies from vanilla's."""
    for models, table in tables(measurement).items():
        best = {name: own_rate(losses) for name, losses in table.items() if candidates(losses)}
        for name, losses in table.items():
            if name != VANILLA and {name, VANILLA} <= best.keys():
                text = ", ".join(f"{one} {_rate(best[one])}" for one in (name, VANILLA))
                apart = octaves_apart(losses, table[VANILLA])
                group = f"{name}: best rate over vanilla's, {models}"
                yield unpredicted(f"{models}/{name}", group, text, measured=apart, quantity=OCTAVES)


def _moved(prediction: Json, measurement: Json) -> Iterator[Expectation]:
    """Yield how far the own rates of two arms move from the first models to others."""
    (first, table), *others = tables(measurement).items()
    for models, other in others:
        rule = "" if _width(models) == _width(first) else f": the rule says {prediction['between widths']:.2f}"
        for name in (VANILLA, *ELSEWHERE):
            if name in table and name in other:
                group = f"{name}: best rate, {models}, over that of {first}"
                apart = octaves_apart(other[name], table[name])
                yield unpredicted(f"moved/{models}/{name}", group, f"{name}{rule}", measured=apart, quantity=OCTAVES)


def _gained(measurement: Json) -> Iterator[Expectation]:
    """Yield what the arm that is tried elsewhere gains at every rate that it shares with vanilla."""
    for group, of_group in measurement["groups"].items():
        for name in ELSEWHERE:
            if name in of_group["loss"]:
                gained = gain(at_length(of_group, list(of_group["lengths"])[-1]), name)
                yield unpredicted(
                    f"gain/{group}/{name}",
                    f"{name} minus vanilla, {_models(group)}",
                    group,
                    measured=gained,
                    quantity=LOSS,
                )


def _rate(one: OwnRate) -> str:
    without = "" if one.octaves is not None else ", an end without one of the seeds"
    return f"at {one.rate:.2g}{', an end of what was tried' if one.edge else without}"


EXPERIMENT: Experiment = Rates()
