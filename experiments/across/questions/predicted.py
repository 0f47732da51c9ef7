"""Does text order variants as the toy and recall do?  Predicted order and gains beside the campaign's.

The toy says which share of its task a variant explains at the width of one code; recall has measured how much sooner a
variant learns.  Each puts variants in an order.  Both orders are held against decoders trained on text: those of
`text-induction`, over its windows, and those of `text-values`, at the end.  No training is asked for that these two do
not ask for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import combinations
from typing import TYPE_CHECKING

from experiments.across.questions.induction import APART, NATS, WINDOWS, Induction
from experiments.across.questions.values import CLA, RESFORMER, SHARED_KEYS, SKIPV1, SVFORMER, TIE, Values, share
from experiments.across.recalled import MARGIN, RECALLED, SOURCE
from experiments.campaign.profiles import profiles
from experiments.campaign.question import BASELINE, CONTROL, Config, Group, Question, Rounds
from experiments.campaign.rates import OwnRates
from experiments.campaign.reading import at_length, gain, over
from experiments.campaign.setting import VANILLA
from experiments.campaign.signs import NATS as HELD_OUT
from experiments.experiment.protocol import Experiment, Profile
from experiments.store.folders import Json
from experiments.training.campaign import TWIN, expected, unpredicted
from experiments.training.comparing import names_of_own, own_names
from experiments.verdicts.checks import Expectation, Judgement
from experiments.verdicts.intervals import Interval
from experiments.verdicts.orders import agreement, null_balances, tail, widest_by_chance
from theory.plans.names import resolve
from theory.plans.plan import Shape

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CLAIM = "toy.value-maps"
ARMS = (SVFORMER, SKIPV1, RESFORMER, CLA, SHARED_KEYS)
WORDS = {**Values.words, CONTROL: "vanilla again (control)"}
WHO = {"toy": "the toy", "recall": "recall"}
CHANCE = 0.05
Pair = tuple[str, str]  # of arms; for vanilla stands the mean of two
Intervals = Mapping[str, Mapping[Pair, Interval]]  # by place: losses of the first minus those of the second


@dataclass(frozen=True, kw_only=True)
class Borrowed(Group):
    """A group of another question, of no more seeds than that one trains."""

    seeds: int


def borrowed(question: type[Question]) -> Iterator[Borrowed]:
    """Yield the groups in which a question decides anything, with those of their arms that are compared here."""
    profile = question.profiles["cpu"]
    for group in profile.config.groups:
        if question is Induction or group.rate is None:
            about = {field.name: getattr(group, field.name) for field in fields(Group)}
            about["arms"] = tuple(arm for arm in ARMS if arm in group.arms)
            yield Borrowed(**about, seeds=profile.seeds)


class Predicted(Question):
    """The last question of the campaign."""

    name = "text-predicted"
    title = "Does text order variants as the toy and recall do?"
    caption = (
        "Gains over vanilla: (a) by the toy; (b) in recall; (c) on text, by tokens per parameter. (d) Is the first's "
        "loss below the second's, as the toy (T) or recall (R) predicts? Question mark: not decided; grey: not trained "
        "yet. Intervals: 95 % over paired seeds, for all differences of (b), and of (c) and (d), at once."
    )
    order = 8
    claims: tuple[str, ...] = (CLAIM,)
    profiles: Mapping[str, Profile] = profiles(
        (*borrowed(Induction), *borrowed(Values)),
        seeds=12,
        seconds=75_000,
        detects="0.25 nats per token, for all differences at once",
    )

    def trainings(self, config: Config, seeds: int, rates: OwnRates | None = None) -> dict[str, Rounds]:
        """Return what is needed, by group, of no more seeds than the other question trains."""
        most = {group.name: group.seeds for group in config.groups if isinstance(group, Borrowed)}
        return {name: rounds[: most[name]] for name, rounds in super().trainings(config, seeds, rates).items()}

    def predict(self, config: Config) -> Json:
        """Return gains by the toy and in recall, the orders that follow, and which pairs are compared where."""
        arms = list(dict.fromkeys(arm for group in config.groups for arm in group.arms))
        plans = {variant.name: variant.toy for variant in config.own}
        shape = Shape(2, config.setting.architecture.kv_heads)
        plans |= {arm: resolve(arm, shape) for arm in (VANILLA, *arms) if arm not in plans}
        shares = {arm: known for arm, plan in plans.items() if plan and (known := share(plan)) is not None}
        recall = {arm: known for arm, known in RECALLED.items() if arm in (VANILLA, TWIN, *arms)}
        levels = {
            "toy": _levels(shares),
            "recall": {arm: known.level for arm, known in recall.items() if known.level is not None},
        }
        places = dict(_places(config.groups))
        return {
            "assumes": "of the toy: all that it assumes, and that what explains more of its task has the lower loss on "
            "text; of recall: that what learns it sooner has",
            "source": f"theory.toy.width at two layers, d = 8; {SOURCE}",
            "statistic": f"{NATS}, mean over a window; {HELD_OUT} at the last length; paired seeds",
            "rule": "a sign: the interval, 95 % for all pairs at all places together, lies on the predicted side, and "
            "that of a third vanilla does not; an order: more pairs stand in it, minus those against it, than in 95 % "
            "of its permutations",
            "tuning": "not tuned over windows, where all arms have one learning rate; at the last length each arm has "
            "its own, as in text-values",
            "toy": {arm: known - shares[VANILLA] for arm, known in shares.items()},
            "recall": {arm: [known.gain, known.half_width] for arm, known in recall.items()},
            "levels": levels,
            "places": places,
            "compared": [
                {"place": place, "by": who, "pair": sorted(pair, key=order_by_arm.__getitem__)}
                for place, about in places.items()
                for who, order_by_arm in levels.items()
                for pair in about["pairs"]
                if len({order_by_arm[arm] for arm in pair if arm in order_by_arm}) == 2
            ],
            **names_of_own(config.own),
        }

    def compare(self, prediction: Json, measurement: Json) -> Sequence[Judgement]:
        """Judge every predicted pair at every place, and the orders as a whole."""
        intervals = differences(prediction, measurement)
        whose = dict.fromkeys(one["by"] for one in prediction["compared"])
        orders = [order(who, prediction, intervals) for who in whose]
        return [*judged(prediction, intervals).values(), *orders, *_own(prediction, intervals)]

    def draw(self, prediction: Json, measurement: Json) -> Figure:
        """Draw gains by the toy, in recall and on text, and which pairs stand in the predicted order."""
        from experiments.drawing import marks, style

        intervals, places = differences(prediction, measurement), prediction["places"]
        arms = {arm for about in places.values() for arm, _ in about["pairs"]}
        rows = {arm: _called(arm) for arm in [*ARMS, *own_names(prediction)] if arm in arms}
        rows[CONTROL] = _called(CONTROL)
        fig, axes = style.figure(columns=2, rows=2, width=5.4, height=max(3.9, 1.2 + 0.55 * len(rows)))
        toy = {arm: Interval(known, 0.0, 0.0) for arm, known in {**prediction["toy"], CONTROL: 0.0}.items()}
        marks.in_series(axes[0], rows, {"predicted, closed form": toy}, missing="nothing said")
        axes[0].set(title="The toy", xlabel="share of the signal explained, minus vanilla's")
        recall = {arm: Interval(mean, 0.0, width) for arm, (mean, width) in prediction["recall"].items()}
        axes[1].axvspan(-MARGIN, MARGIN, color="#e6e6e6", zorder=0, label="no difference, by its margin")
        marks.in_series(axes[1], rows, {"measured": {**recall, CONTROL: recall[TWIN]}}, missing="not measured")
        axes[1].set(title="Recall", xlabel=r"mean training loss over $\ln V$, vanilla's minus the arm's")
        last = {about["group"]: place for place, about in places.items()}  # of each group: six places with the first
        drawn = [place for place in intervals if place in (next(iter(intervals)), *last.values())]
        gains = {place: {arm: x for (other, arm), x in intervals[place].items() if other == VANILLA} for place in drawn}
        marks.in_series(axes[2], rows, gains, missing="not trained yet")
        axes[2].set(title="Text", xlabel="loss below the mean of two vanillas (nats per token)")
        marks.in_cells(axes[3], *_cells(prediction, judged(prediction, intervals)))
        axes[3].set(title="Predicted order on text", xlabel="tokens per parameter, and models")
        style.finish(list(axes))
        return fig


def _places(groups: Sequence[Group]) -> Iterator[tuple[str, Json]]:
    """Yield each window or last length of a group at which its pairs are compared, and what it is called."""
    for group in groups:
        for span in [(group.until,)] if group.rate is None else WINDOWS:
            tokens = " to ".join(f"{at:g}" for at in span)
            pairs = [list(pair) for pair in combinations((*group.arms, VANILLA), 2)]
            yield f"{group.name}: {tokens}", {"group": group.name, "tokens": tokens, "span": list(span), "pairs": pairs}


def _levels(shares: Mapping[str, float]) -> dict[str, int]:
    """Return places in the order of what the toy explains, 0 for the most; within a tie they are the same."""
    levels, level, before = dict[str, int](), 0, 1.0
    for arm in sorted(shares, key=lambda arm: -shares[arm]):
        level += bool(levels) and before - shares[arm] >= TIE
        levels[arm], before = level, shares[arm]
    return levels


def differences(prediction: Json, measurement: Json) -> Intervals:
    """Return by place the paired differences of all pairs, both ways round, and that of the third vanilla.

    Intervals hold for all places at once, trained or not, so that none widens as more is trained.
    """
    family = sum(len(about["pairs"]) for about in prediction["places"].values())
    intervals = {}
    for place, about in prediction["places"].items():
        if (group := measurement["groups"].get(about["group"])) is None:
            continue
        window = len(about["span"]) > 1
        losses = over(group, *about["span"]) if window else at_length(group, list(group["lengths"])[-1])
        at_place = dict[Pair, Interval]()
        for arm, other in [*about["pairs"], (CONTROL, VANILLA)]:
            less = gain(losses, arm, family, against=BASELINE if other == VANILLA else (other,))
            at_place[arm, other] = less
            at_place[other, arm] = replace(less, mean=-less.mean)
        intervals[place] = at_place
    return intervals


def judged(prediction: Json, intervals: Intervals) -> dict[tuple[str, str, Pair], Expectation]:
    """Return what became of every predicted pair, by place, whose prediction it is, and the pair."""
    checks = {}
    for one in prediction["compared"]:
        place, who, (lower, higher) = one["place"], one["by"], one["pair"]
        if place in intervals:
            checks[place, who, (lower, higher)] = expected(
                name=f"{place}/{who}/{lower}/{higher}",
                group=f"{WHO[who]}: {_called(lower)} below {_called(higher)}",
                claim=CLAIM,
                statement=f"as {WHO[who]} says, the loss of {lower} lies below that of {higher} "
                f"({place} tokens per parameter)",
                rule="sign",
                predicted=-1.0,
                measured=intervals[place][lower, higher],
                twin=intervals[place][CONTROL, VANILLA],
                quantity=_quantity(prediction, place),
            )
    return checks


def order(who: str, prediction: Json, intervals: Intervals) -> Expectation:
    """Return how many pairs stand in an order, each once, beside the exact distribution over its permutations.

    A pair counts as decided if it is so at some place, and at none the other way round.
    """
    levels = prediction["levels"][who]
    lower = dict.fromkeys(
        pair
        for at_place in intervals.values()
        if abs((control := at_place[CONTROL, VANILLA]).mean) <= control.half_width  # else differences show nothing
        for pair, less in at_place.items()
        if {*pair} <= levels.keys() and less.mean + less.half_width < 0
    )
    decided = [pair for pair in lower if pair[::-1] not in lower]
    result, null = agreement(levels, decided), null_balances(levels, decided)
    count = len({tuple(one["pair"]) for one in prediction["compared"] if one["by"] == who})
    widest = float(widest_by_chance(null, CHANCE))
    return Expectation(
        id=f"order/{who}",
        group=f"{WHO[who]}: the order of pairs",
        claim=CLAIM,
        statement=f"of {count} pairs that {WHO[who]} orders, text orders {result.concordant} as predicted, "
        f"{result.discordant} the other way, and leaves {count - result.concordant - result.discordant} open; "
        f"exact permutation p = {tail(null, result.balance):.2g}, at best {tail(null, max(null)):.2g}",
        rule="sign",
        predicted=1.0,
        measured=float(result.balance),
        stderr=sum(p * balance**2 for balance, p in null.items()) ** 0.5,
        tolerance=widest,
        controls=((0.0, widest),),  # an order that tells no pair apart
        quantity="pairs in the predicted order, minus those against it",
    )


def _own(prediction: Json, intervals: Intervals) -> Iterator[Expectation]:
    """Yield what was measured of a user's variants of which nobody predicts how they compare with vanilla."""
    known = {arm for one in prediction["compared"] if VANILLA in one["pair"] for arm in one["pair"]}
    for place, at_place in intervals.items():
        for arm in own_names(prediction):
            if arm not in known:
                about = f"{place}/own/{arm}", f"{arm} minus vanilla", f"{arm} ({place} tokens per parameter)"
                yield unpredicted(*about, at_place[arm, VANILLA], quantity=_quantity(prediction, place))


def _cells(
    prediction: Json, checks: Mapping[tuple[str, str, Pair], Expectation]
) -> tuple[dict[str, list[str | None]], list[tuple[str, str]]]:
    """Return by predicted pair, and who predicts it, what became of it at every place; and what places are called."""
    places, cells = prediction["places"], dict[Pair, list[str | None]]()
    whose: dict[Pair, dict[str, None]] = {}
    for one in prediction["compared"]:
        place, who, (lower, higher) = one["place"], one["by"], one["pair"]
        check = checks.get((place, who, (lower, higher)))
        word = {"agrees": "yes", "contradicts": "no"}.get(check.verdict, "?") if check else ""
        cells.setdefault((lower, higher), [None] * len(places))[list(places).index(place)] = word
        whose.setdefault((lower, higher), {})[who[0].upper()] = None
    rows = {f"{_called(a)} < {_called(b)} ({', '.join(whose[a, b])})": words for (a, b), words in cells.items()}
    heads = [about["group"].replace("initial weights", "init").replace(", ", "\n") for about in places.values()]
    return rows, [(head, about["tokens"]) for head, about in zip(heads, places.values(), strict=True)]


def _called(arm: str) -> str:
    return WORDS.get(arm, arm)


def _quantity(prediction: Json, place: str) -> str:
    return APART if len(prediction["places"][place]["span"]) > 1 else f"{HELD_OUT}, difference"


EXPERIMENT: Experiment = Predicted()
