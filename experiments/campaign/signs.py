"""Questions of the form "which of two ends lower": signs that papers and the toy give, each arm at its own rate.

A subclass says which pairs are compared, and who predicts what of them.  The end of training is judged where every arm
has its own learning rate; gains before that are drawn where all have one rate, and nothing is judged of them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from experiments.campaign.drawing import gains
from experiments.campaign.question import CONTROL, OWN, Config, Question
from experiments.campaign.reading import arms, at_length, gain
from experiments.campaign.setting import VANILLA
from experiments.store.folders import Json
from experiments.training.campaign import expected, unpredicted
from experiments.training.comparing import names_of_own, own_names
from experiments.training.expectations import expected_by_paper
from experiments.verdicts.checks import Expectation, Judgement
from experiments.verdicts.intervals import Interval

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NATS = "held-out loss in nats per token, less that of the arm compared with"
WHOSE = {"paper": "the paper", "toy": "the toy", "own": "its paper"}


@dataclass(frozen=True, kw_only=True)
class Pair:
    """A prediction for the loss of `arm` less that of `against`.

    Args:
        by: whose it is, see WHOSE.
        arm: that is compared.
        against: another arm; for vanilla stands the mean of two.
        sign: -1 if the arm ends lower, 1 if it ends higher.
        place: where it is said.
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


class Signs(Question):
    """Arms that are compared in pairs, by the sign of a difference of losses at the end.

    Attributes:
        words: What arms are called, where it is not by their names.
        drawn: Arms whose gain is drawn against tokens, six at most with the third vanilla.
        printed: Where the crosses of the figure are from.
        assumes: What has to hold for a prediction to be about these models.
    """

    words: Mapping[str, str] = {}
    drawn: tuple[str, ...] = ()
    printed: str = "printed"
    assumes: str

    @abstractmethod
    def pairs(self, config: Config) -> Sequence[Pair]:
        """Return what is predicted of the arms of the configuration."""

    def predict(self, config: Config) -> Json:
        """Return the pairs, and the rule that decides them."""
        sweep = config.setting.sweep
        rates = ", ".join(f"{rate:g}" for rate in sweep.rates)
        return {
            "assumes": self.assumes,
            "source": "the papers, as named; the toy: theory.toy.width at two layers",
            "statistic": f"{NATS} (for vanilla: the mean of two), mean over paired seeds",
            "rule": "a sign: the family-wise 95 % interval lies on the predicted side, and that of a third vanilla "
            "against the two does not",
            "tuning": f"each arm at the rate of lowest loss, a parabola through {rates}, {sweep.seeds} seeds, width "
            f"{sweep.width}, {sweep.until:g} tokens per parameter; it falls with the root of the width",
            "compared": [] if config.own else [asdict(pair) for pair in self.pairs(config)],
            **names_of_own(config.own),
        }

    def compare(self, prediction: Json, measurement: Json) -> Sequence[Judgement]:
        """Judge the last length of the groups in which every arm has its own rate."""
        return [*self._judged(prediction, measurement), *self._own(prediction, measurement)]

    def differences(self, prediction: Json, measurement: Json) -> dict[str, dict[tuple[str, str], Interval]]:
        """Return by group, and by pair, the mean paired difference at the end, with intervals for all at once.

        Of every group in which each arm has its own rate: what is predicted, every arm against vanilla, and the
        control.
        """
        groups = own_rate_groups(measurement)
        asked = [(pair["arm"], pair["against"]) for pair in prediction["compared"]]
        found = {}
        for name, group in groups.items():
            shown = [(arm, VANILLA) for arm in (*arms(group), CONTROL)]
            pairs = [pair for pair in dict.fromkeys([*asked, *shown]) if set(pair) <= set(group["loss"])]
            losses = at_length(group, list(group["lengths"])[-1])
            family = len(pairs) * len(groups)
            found[name] = {
                (arm, other): gain(losses, arm, family, *([(other,)] if other != VANILLA else []))
                for arm, other in pairs
            }
        return found

    def _judged(self, prediction: Json, measurement: Json) -> Iterator[Expectation]:
        for name, found in self.differences(prediction, measurement).items():
            for pair in prediction["compared"]:
                names = pair["arm"], pair["against"]
                if names not in found:
                    continue
                arm, against = (self._called(one) for one in names)
                lower = "lower" if pair["sign"] < 0 else "higher"
                yield expected(
                    f"{name}/{pair['by']}/{names[0]}/{names[1]}",
                    f"{WHOSE[pair['by']]}: {arm} less {against}{rates(measurement['groups'][name], *names)}",
                    pair["claim"],
                    f"{arm} ends {lower} than {against} ({pair['place']}; {name})",
                    "sign",
                    float(pair["sign"]),
                    found[names],
                    found[CONTROL, VANILLA],
                    quantity=NATS,
                )

    def _own(self, prediction: Json, measurement: Json) -> Iterator[Expectation]:
        """Yield what was measured of a user's variants, and what their own papers expect of it."""
        for name, found in self.differences(prediction, measurement).items():
            for arm in own_names(prediction):
                stated, interval = expected_by_paper(prediction, arm, "loss"), found[arm, VANILLA]
                apart = rates(measurement["groups"][name], arm, VANILLA)
                about = f"{name}/own/{arm}", f"{arm} less vanilla{apart}"
                if stated is None:
                    yield unpredicted(*about, f"{arm} at the end ({name})", interval, quantity=NATS)
                    continue
                lower, sign = ("lower", -1.0) if stated["better"] else ("higher", 1.0)
                text = f"{arm} ends {lower} than vanilla ({stated['place']}; {name})"
                control = found[CONTROL, VANILLA]
                yield expected(*about, stated["claim"], text, "sign", sign, interval, control, quantity=NATS)

    def _called(self, arm: str) -> str:
        return self.words.get(arm, arm)

    def draw(self, prediction: Json, measurement: Json) -> Figure:
        """Draw the differences at the end beside what is printed, and gains against tokens at common rates."""
        from experiments.drawing import style
        from experiments.drawing.rows import in_rows

        ends = self.differences(prediction, measurement)
        curves = {name: group for name, group in measurement["groups"].items() if name not in ends}
        panels = [*list(ends.items())[:2], *list(curves.items())[:2]]
        nats = {(pair["arm"], pair["against"]): pair["nats"] for pair in prediction["compared"]}
        fig, axes = style.figure(columns=2, rows=(len(panels) + 1) // 2, width=5.0, height=4.2)
        for axis, (name, of_group) in zip(axes, panels, strict=False):
            if name not in ends:
                drawn = [arm for arm in self.drawn if arm in of_group["loss"]] or arms(of_group)
                gains(axis, name, of_group, self.words, drawn)
                continue
            group = measurement["groups"][name]
            in_rows(
                axis,
                list(of_group.values()),
                [self._row(group, *pair) for pair in of_group],
                label="trained here, 95 % for all at once",
                printed=[nats.get(pair) for pair in of_group],
                source=self.printed,
            )
            axis.set_xlabel(f"held-out loss at {list(group['lengths'])[-1]} tokens per parameter (nats per token)")
            axis.set_title(f"Difference, {name.partition(',')[0]}, each at its own rate")
        for axis in axes[len(panels) :]:
            axis.set_visible(False)
        style.finish(list(axes[: len(panels)]))
        return fig

    def _row(self, group: Json, arm: str, against: str) -> str:
        arm_called = "third vanilla" if arm == CONTROL else self._called(arm)
        less = "" if against == VANILLA else f"\nless {self._called(against)}"
        return f"{arm_called}{less}{rates(group, arm, against)}"


def own_rate_groups(measurement: Json) -> dict[str, Any]:
    """Return the groups in which every arm has its own rate."""
    return {name: group for name, group in measurement["groups"].items() if f", {OWN}," in name}


def rates(group: Json, arm: str, against: str) -> str:
    """Return the two learning rates, in brackets, where they differ."""
    mine, theirs = group["rates"][arm], group["rates"][against]
    return "" if mine == theirs else f" (rates {mine:g} and {theirs:g})"
