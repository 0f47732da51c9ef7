"""Questions of the form "which of two ends lower": signs that papers and the toy give, each arm at its own rate.

A subclass says which pairs are compared, and who predicts what of them.  The end of training is judged where every arm
has its own learning rate; gains before that are drawn where all have one rate, and nothing is judged of them.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any

from experiments.campaign.drawing import THIRD, gains, in_rows
from experiments.campaign.question import BASELINE, CONTROL, OWN, Config, Group, Question
from experiments.campaign.reading import Losses, arms, at_length, gain, planned
from experiments.campaign.setting import VANILLA
from experiments.store.folders import Json
from experiments.training.campaign import expected, unpredicted
from experiments.training.comparing import OwnVariant, names_of_own, own_names
from experiments.training.expectations import expected_by_paper
from experiments.verdicts.checks import Expectation, Judgement
from experiments.verdicts.intervals import Interval, t_interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LOSS, NATS = "loss", "held-out loss in nats per token"
Asking = tuple[str, str, str]  # what is measured, of which arm, minus that of which
Differences = Mapping[str, Mapping[Asking, Interval]]  # by group
OWN_RATE = f", {OWN},"  # in the names of groups in which every arm has its own rate
WHOSE = {"paper": "the paper", "toy": "the toy"}


@dataclass(frozen=True, kw_only=True)
class Pair:
    """A prediction for what is measured of `arm` minus that of `against`.

    Args:
        by: whose it is, see WHOSE.
        what: LOSS, or one of the question's `quantities`.
        arm: that is compared.
        against: another arm; for vanilla stands the mean of two.  Empty: the arm's own is held against zero.
        sign: -1 if the arm's is lower, 1 if it is higher.
        place: where it is stated.
        claim: the ledger entry on which it bears.
        nats: the difference, where one is printed.
    """

    by: str
    arm: str
    against: str
    sign: int
    place: str
    claim: str
    nats: float | None = None
    what: str = LOSS


def groups(arms: tuple[str, ...]) -> tuple[Group, ...]:
    """Return what a question of signs trains: ends at each arm's own rate, and curves at two rates common to all."""
    return (
        Group(arms=arms, width=48, rate=None, until=20.0),
        Group(arms=arms, width=32, rate=8e-3, until=10.0),
        Group(arms=arms, width=32, rate=4e-3, until=10.0),
    )


class Signs(Question):
    """Arms that are compared in pairs, by the sign of a difference of losses at the end.

    Attributes:
        words: What arms are called, where it is not by their names.
        quantities: What is judged beside the loss, by what `probed` calls it: in words, with the unit.
        together: Arms that are compared though nobody predicts which ends lower: shown, and not judged.
        drawn: Arms whose gain is drawn against tokens, six at most with the third vanilla.
        printed: Where the crosses of the figure are from.
        assumes: What has to hold for a prediction to be about these models.
    """

    words: Mapping[str, str] = {}
    quantities: Mapping[str, str] = {}
    together: Sequence[tuple[str, str]] = ()
    drawn: tuple[str, ...] = ()
    printed: str = "printed"
    assumes: str

    @abstractmethod
    def pairs(self, config: Config) -> Sequence[Pair]:
        """Return what is predicted of the arms of the configuration."""

    def of_own(self, own: Sequence[OwnVariant]) -> Sequence[Pair]:  # noqa: ARG002
        """Return what is predicted of a user's variants, beside what their own papers expect; by default nothing."""
        return []

    def predict(self, config: Config) -> Json:
        """Return the pairs, and the rule that decides them."""
        sweep = config.setting.sweep
        rates = ", ".join(f"{rate:g}" for rate in sweep.rates)
        return {
            "assumes": self.assumes,
            "source": "the papers, as named; the toy: theory.toy.width at two layers",
            "statistic": f"{'; '.join([NATS, *self.quantities.values()])}, minus that of the arm compared with (of "
            "vanilla: the mean of two), mean over paired seeds",
            "rule": "a sign: the family-wise 95 % interval lies on the predicted side, and that of a third vanilla "
            "against the two holds zero",
            "tuning": f"each arm at the rate of lowest loss, a parabola through {rates}, {sweep.seeds} seeds, width "
            f"{sweep.width}, {sweep.until:g} tokens per parameter; it falls with the root of the width",
            "compared": [asdict(pair) for pair in (self.of_own(config.own) if config.own else self.pairs(config))],
            **names_of_own(config.own),
        }

    def compare(self, prediction: Json, measurement: Json) -> Sequence[Judgement]:
        """Judge the last length of the groups in which every arm has its own rate."""
        differences = self.differences(prediction, measurement)
        return [
            *self._judged(prediction, measurement, differences),
            *self._own(prediction, measurement, differences),
            *self._together(measurement, differences),
        ]

    def differences(self, prediction: Json, measurement: Json) -> dict[str, dict[Asking, Interval]]:
        """Return by group, and by what is compared, mean paired differences at the end, with intervals for all at once.

        Of every group in which each arm has its own rate: what is predicted, every arm's loss against vanilla's, and
        the controls.
        """
        decided = own_rate_groups(measurement)
        compared = [(pair["what"], pair["arm"], pair["against"]) for pair in prediction["compared"]]
        intervals = {}
        for name, group in decided.items():
            shown = [(LOSS, arm, VANILLA) for arm in arms(group)]
            shown += [(LOSS, arm, against) for arm, against in self.together]
            controls = [(what, CONTROL, VANILLA) for what in (LOSS, *self.quantities)]
            every = dict.fromkeys([*compared, *shown, *controls])
            known = {*group["loss"], ""}
            which = [(what, arm, other) for what, arm, other in every if arm in known and other in known]
            values = {what: self.values(group, what) for what in (LOSS, *self.quantities)}
            family = len(which) * planned(measurement, OWN_RATE)
            intervals[name] = {
                (what, arm, other): _interval(values[what], arm, other, family=family) for what, arm, other in which
            }
        return intervals

    def values(self, group: Json, what: str) -> Losses:
        """Return what is judged of every arm, by seed, at the last length; nan where a training diverged."""
        last = list(group["lengths"])[-1]
        if what == LOSS:
            return at_length(group, last)
        return {
            name: [math.nan if one is None else one[what] for one in by[last]] for name, by in group["probed"].items()
        }

    def _judged(self, prediction: Json, measurement: Json, differences: Differences) -> Iterator[Expectation]:
        for name, intervals in differences.items():
            for pair in prediction["compared"]:
                which = what, *names = pair["what"], pair["arm"], pair["against"]
                if which not in intervals:
                    continue
                arm, against = (self.called(one) for one in names)
                lower = "lower" if pair["sign"] < 0 else "higher"
                ends = f"{arm} ends {lower} than {against}"
                difference = f"{arm} minus {against}" if against else arm
                side = lower if against else "below zero" if pair["sign"] < 0 else "above zero"
                subject = ends if what == LOSS else f"{difference}, {self.quantities[what]}: {side}"
                yield expected(
                    name="/".join(filter(None, [name, pair["by"], what if what != LOSS else "", *names])),
                    group=f"{WHOSE[pair['by']]}: {difference}{rates(measurement['groups'][name], *names)}",
                    claim=pair["claim"],
                    statement=f"{subject} ({pair['place']}; {name})",
                    rule="sign",
                    predicted=float(pair["sign"]),
                    measured=intervals[which],
                    twin=intervals[what, CONTROL, VANILLA],
                    quantity=f"{NATS if what == LOSS else self.quantities[what]}{', difference' if against else ''}",
                )

    def _together(self, measurement: Json, differences: Differences) -> Iterator[Expectation]:
        """Yield what was measured of pairs of which nobody predicts anything."""
        for name, intervals in differences.items():
            for arm, against in self.together:
                if (which := (LOSS, arm, against)) in intervals:
                    mine, theirs = self.called(arm), self.called(against)
                    group = f"{mine} minus {theirs}{rates(measurement['groups'][name], arm, against)}"
                    text = f"{mine} beside {theirs} ({name})"
                    yield unpredicted(
                        f"{name}/{arm}/{against}",
                        group,
                        text,
                        measured=intervals[which],
                        quantity=f"{NATS}, difference",
                    )

    def _own(self, prediction: Json, measurement: Json, differences: Differences) -> Iterator[Expectation]:
        """Yield what was measured of a user's variants, and what their own papers expect of it."""
        for name, intervals in differences.items():
            for arm in own_names(prediction):
                stated, interval = expected_by_paper(prediction, arm, "loss"), intervals[LOSS, arm, VANILLA]
                apart = rates(measurement["groups"][name], arm, VANILLA)
                about = f"{name}/own/{arm}", f"{arm} minus vanilla{apart}"
                if stated is None and any(pair["arm"] == arm for pair in prediction["compared"]):
                    continue
                if stated is None:
                    yield unpredicted(*about, f"{arm} at the end ({name})", interval, quantity=f"{NATS}, difference")
                    continue
                lower, sign = ("lower", -1.0) if stated["better"] else ("higher", 1.0)
                text = f"{arm} ends {lower} than vanilla ({stated['place']}; {name})"
                control = intervals[LOSS, CONTROL, VANILLA]
                yield expected(
                    *about, stated["claim"], text, "sign", sign, interval, control, quantity=f"{NATS}, difference"
                )

    def called(self, arm: str) -> str:
        """Return what an arm is called in figures and statements."""
        return self.words.get(arm, arm)

    def draw(self, prediction: Json, measurement: Json) -> Figure:
        """Draw the differences at the end beside what is printed, and gains against tokens at common rates."""
        from experiments.drawing import style

        ends = self.differences(prediction, measurement)
        curves = {name: group for name, group in measurement["groups"].items() if name not in ends}
        panels = [*list(ends.items())[:2], *list(curves.items())[:2]]
        rows = max((len(of_group) for name, of_group in panels if name in ends), default=0)
        fig, axes = style.figure(columns=2, rows=(len(panels) + 1) // 2, width=5.6, height=max(4.0, 0.9 + 0.27 * rows))
        for axis, (name, of_group) in zip(axes, panels, strict=False):
            if name not in ends:
                drawn = [arm for arm in self.drawn if arm in of_group["loss"]] or arms(of_group)
                gains(axis, name, of_group, words=self.words, shown=drawn)
                continue
            self.draw_ends(axis, name, prediction, measurement=measurement, intervals=of_group)
        for axis in axes[len(panels) :]:
            axis.set_visible(False)
        style.finish(list(axes[: len(panels)]))
        return fig

    def draw_ends(
        self, axis: Axes, name: str, prediction: Json, measurement: Json, intervals: Mapping[Asking, Interval]
    ) -> None:
        """Draw a group's differences of losses at the end, one below another, beside what is printed."""
        nats = {(LOSS, pair["arm"], pair["against"]): pair["nats"] for pair in prediction["compared"] if pair["nats"]}
        group = measurement["groups"][name]
        losses = {which: interval for which, interval in intervals.items() if which[0] == LOSS}
        in_rows(
            axis,
            list(losses.values()),
            [self._row(group, arm, against) for _, arm, against in losses],
            label="trained here, 95 % for all at once",
            printed=[nats.get(which) for which in losses],
            source=self.printed,
        )
        axis.set_xlabel(f"held-out loss at {list(group['lengths'])[-1]} tokens per parameter (nats per token)")
        axis.set_title(f"{name.partition(',')[0]}, each at its own rate")

    def _row(self, group: Json, arm: str, against: str) -> str:
        called = [THIRD if name == CONTROL else self.called(name) for name in (arm, against)]
        labels = [f"{name}, {group['rates'][one]:g}" for name, one in zip(called, (arm, against), strict=True)]
        return labels[0] if against == VANILLA else f"{labels[0]}, minus {labels[1]}"


def _interval(values: Losses, arm: str, against: str, family: int) -> Interval:
    if not against:
        of_arm = [values[name] for name in (BASELINE if arm == VANILLA else (arm,))]
        return t_interval([fmean(of_seed) for of_seed in zip(*of_arm, strict=True)], family)
    return gain(values, arm, family, *([(against,)] if against != VANILLA else []))


def own_rate_groups(measurement: Json) -> dict[str, Any]:
    """Return the groups in which every arm has its own rate."""
    return {name: group for name, group in measurement["groups"].items() if OWN_RATE in name}


def rates(group: Json, arm: str, against: str) -> str:
    """Return the two learning rates, in brackets, where they differ."""
    mine, theirs = group["rates"][arm], group["rates"][against or arm]
    return "" if mine == theirs else f" (rates {mine:g} and {theirs:g})"
