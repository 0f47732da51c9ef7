"""The question of learning rates: the best rate for each variant, as a table for practitioners.

Every arm of the campaign's questions is trained at three rates, at the smallest width.  Its best rate is the minimum of
a parabola through its losses, with an error over seeds.  Two arms are also trained at the next width, as rates are
assumed to fall with the root of the width.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any

from experiments.across.questions import values
from experiments.attnres.questions import depth
from experiments.campaign.profiles import CAMPAIGN, profiles
from experiments.campaign.question import VANILLAS, Config, Group, Question
from experiments.campaign.rates import OwnRate, at_width, octaves_apart, own_rate, seeds_of
from experiments.campaign.reading import arms
from experiments.campaign.setting import VANILLA
from experiments.dva.questions import dynamic_values
from experiments.experiment.protocol import Experiment, Profile
from experiments.store.folders import Json, RunFolder, Unfinished
from experiments.training.campaign import unpredicted
from experiments.training.comparing import names_of_own
from experiments.verdicts.checks import Expectation, Judgement
from experiments.verdicts.intervals import quantile

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SWEEP = CAMPAIGN.sweep
NEXT = 48  # the width at which the rule for rates is tried
QUESTIONS = (values.Values, depth.Depth, dynamic_values.DynamicValues)
ARMS = (*values.ARMS, *depth.ARMS, *dynamic_values.ARMS)
TRIED_WIDER = (VANILLA, values.SVFORMER)
OCTAVES = "best learning rate, doublings"
LOOK: dict[str, Any] = {"color": "#1a1a1a", "markerfacecolor": "white", "linestyle": "none"}
GROUPS = (
    *(Group(arms=ARMS, width=SWEEP.width, rate=rate, until=SWEEP.until) for rate in SWEEP.rates),
    *(
        Group(arms=(values.SVFORMER,), width=NEXT, rate=at_width(rate, SWEEP.width, NEXT), until=SWEEP.until)
        for rate in SWEEP.rates
    ),
)


class Rates(Question):
    """The rate table."""

    name = "text-rates"
    title = "Which learning rate is best for which variant on text?"
    caption = (
        "(a) Where a parabola through held-out losses at three rates is lowest; bars: 95 % over seeds, each alone. A "
        "triangle: the lowest or highest rate tried. (b) What the two other rates cost. Width 32, 10 tokens per "
        "parameter; twins are vanilla with other initial weights."
    )
    order = 2
    claims: tuple[str, ...] = ()
    profiles: Mapping[str, Profile] = profiles(
        GROUPS, seeds=SWEEP.seeds, seconds=30_000, detects="about half a doubling of the rate", few=2
    )
    models: Mapping[str, Mapping[str, Any]] = {name: of for one in QUESTIONS for name, of in one.models.items()}

    def predict(self, config: Config) -> Json:
        """Return the rule by which rates are carried to another width; of the arms nobody predicts anything."""
        return {
            "assumes": "nothing",
            "source": "the campaign's own rule",
            "statistic": "where a parabola through mean held-out losses, over the logarithm of the rate, is lowest",
            "rule": "nothing is judged: intervals are shown, 95 % each, over paired seeds (jackknife)",
            "tuning": "this is the tuning",
            "between widths": math.log2(at_width(1.0, SWEEP.width, NEXT)),
            **names_of_own(config.own),
        }

    def measure(self, config: Config, seeds: int, run: RunFolder) -> Json:
        """Return what every question measures.  Raises Unfinished, too, before there are two rates to compare."""
        found = super().measure(config, seeds, run)
        if not by_width(found):
            raise Unfinished(f"{self.name}: two rates are needed, with all seeds of all arms at each")
        return found

    def compare(self, prediction: Json, measurement: Json) -> Sequence[Judgement]:
        """Show every arm's own rate against vanilla's, and show how two arms' move with the width."""
        return list(self._shown(prediction, measurement))

    def _shown(self, prediction: Json, measurement: Json) -> Iterator[Expectation]:
        tables = by_width(measurement)
        for width, table in tables.items():
            best = {name: own_rate(losses) for name, losses in table.items()}
            for name, losses in table.items():
                if name != VANILLA:
                    rates = ", ".join(f"{one} {_rate(best[one])}" for one in (name, VANILLA))
                    apart = octaves_apart(losses, table[VANILLA])
                    group = f"{name}: best rate over vanilla's, width {width}"
                    yield unpredicted(f"{width}/{name}", group, rates, measured=apart, quantity=OCTAVES)
        for name in TRIED_WIDER:
            if len(tables) > 1 and all(name in table for table in tables.values()):
                small, large = (table[name] for table in list(tables.values())[:2])
                text = f"{name}: the rule says {prediction['between widths']:.2f}"
                group = f"{name}: best rate at the larger width over that at the smaller"
                yield unpredicted(f"wider/{name}", group, text, measured=octaves_apart(large, small), quantity=OCTAVES)

    def draw(self, prediction: Json, measurement: Json) -> Figure:  # noqa: ARG002
        """Draw every arm's own rate, and what the other rates cost it."""
        from experiments.drawing import style

        table = next(iter(by_width(measurement).values()))
        fig, axes = style.figure(columns=2, rows=1, width=5.0, height=1.2 + 0.26 * len(table))
        places = list(range(len(table), 0, -1))
        found = {name: own_rate(of_arm) for name, of_arm in table.items()}
        for name, place in zip(table, places, strict=True):
            one, losses = found[name], table[name]
            reach = quantile(0.975, seeds_of(losses) - 1) * one.octaves
            ends = [[one.rate * (1 - 2**-reach)], [one.rate * (2**reach - 1)]]
            axes[0].errorbar([one.rate], [place], xerr=ends, fmt="^" if one.edge else "o", **LOOK)
            means = {rate: fmean(x for x in of_seed if x is not None) for rate, of_seed in losses.items()}
            for (rate, loss), marker in zip(means.items(), ("v", "s", "^"), strict=False):
                label = f"rate {rate:g}" if place == places[0] else None
                axes[1].plot([loss - min(means.values())], [place], marker, label=label, **LOOK)
        axes[0].set_xscale("log", base=2)
        axes[0].set_xticks(SWEEP.rates, [f"{rate:g}" for rate in SWEEP.rates])
        axes[0].set_xlabel("learning rate of lowest held-out loss")
        axes[0].set_title("Own learning rates")
        axes[1].set_xlabel("held-out loss above its lowest (nats per token)")
        axes[1].set_title("What other rates cost")
        axes[0].set_yticks(places, list(table))
        axes[1].set_yticks(places, ["" for _ in places])
        style.finish(list(axes))
        return fig


def by_width(measurement: Json) -> dict[int, dict[str, dict[float, list[float | None]]]]:
    """Return held-out losses at the last length by width, arm and rate, one per seed, the same seeds at every rate."""
    groups = list(measurement["groups"].values())
    tables: dict[int, dict[str, dict[float, list[float | None]]]] = {}
    for width in dict.fromkeys(group["width"] for group in groups):
        some = sorted((group for group in groups if group["width"] == width), key=lambda group: group["rates"][VANILLA])
        seeds = min(group["seeds"] for group in some)
        if len(some) > 1:
            tables[width] = {
                name: {group["rates"][name]: group["loss"][name][list(group["lengths"])[-1]][:seeds] for group in some}
                for name in (*VANILLAS, *arms(some[0]))
            }
    return tables


def _rate(one: OwnRate) -> str:
    return f"at {one.rate:.2g}{', an end of what was tried' if one.edge else ''}"


EXPERIMENT: Experiment = Rates()
