"""Ask whether advice chooses heads that can read layer 1's values, and predicts what that costs.

A model is trained, or imported.  As many heads as SkipV1Former has are made to read layer 1's values: the paper's
heads, those that advice chooses (`icl.probes.reader_costs`), or heads that are drawn at random.  What reads them is
refitted (`icl.refitting`), or left as it was.  Advice and all predicted costs are stored before any head is converted.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import TYPE_CHECKING

from experiments.across.reading.arms import ADVICE, ADVISED, RANDOM, RAW, REFITTED, TRAINED, Item, Measuring, arms_of
from experiments.across.reading.materials import Campaign, Imported, Sizes, Small, Source
from experiments.drawing import style
from experiments.experiment.protocol import Experiment, Kind, Profile
from experiments.store.backends import Serial
from experiments.store.folders import Json, RunFolder
from experiments.store.work import results
from experiments.verdicts.checks import Expectation
from experiments.verdicts.intervals import Interval, t_interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

REFIT, SETS = "reading.refit", "reading.converted-sets"
FACTOR = 1.5  # by which a predicted cost may be off
FIRST, FURTHER = "by_sequence", "further"
COLOURS = ("#2f7fb8", "#d98a2b", "#7a4fa3")
QUANTITY = "difference of held-out losses, nats per token"


@dataclass(frozen=True, kw_only=True)
class Config:
    """The models, by name, of which heads are converted."""

    models: Mapping[str, Source]


_SIZES = Sizes(advice=12_288, fitted=12_288, judged=8_192, draws=2, further=40)
CPU = Config(
    models={
        "heads": Small(heads=4, group=1, width=48, layers=6, context=128, steps=400, sizes=_SIZES),
        "grouped": Small(heads=4, group=2, width=64, layers=6, context=128, steps=400, sizes=_SIZES),
    }
)
_FEW = Sizes(advice=512, fitted=512, judged=512, draws=1, further=2)
SMOKE = Config(models={"heads": Small(heads=2, group=1, width=16, layers=3, context=32, steps=20, sizes=_FEW)})
_KEPT = Sizes(advice=12_288, fitted=12_288, judged=16_384, draws=2, further=240, batch=4)  # a tenth of the training
_MANY = Sizes(
    advice=24_576,
    fitted=24_576,
    judged=16_384,
    draws=3,
    further=200,
    further_draws=0,
    further_context=256,
    batch=1,
    rate=5e-5,
)
SMOLLM = Config(
    models={
        "campaign": Campaign(sizes=_KEPT),
        "grouped": Campaign(group=2, sizes=_KEPT),
        "SmolLM2-135M": Imported(folder="data/smollm", text="data/austen.txt", sizes=_MANY),
    }
)


class Reading:
    name = "reading"
    title = "Which heads can read layer 1's values: advice against fixed and random choices"
    caption = (
        "Advice finds heads that cost less, and says how much. (a) Rise of the loss when SkipV1Former's share of value "
        "heads reads layer 1's values. raw: no refit; others refitted; fixed: the paper's heads; crosses: predicted "
        "before; hollow: trained on. Intervals: 95 % over sequences. (b) Predicted cost of every head alone."
    )
    kind: Kind = "scale"
    claims: tuple[str, ...] = (REFIT, SETS)
    profiles: Mapping[str, Profile] = {
        "smoke": Profile(config=SMOKE, seeds=2, seconds=10, detects=None),
        "cpu": Profile(config=CPU, seeds=3, seconds=360, detects="a difference of 0.02 nats per token"),
        "smollm": Profile(config=SMOLLM, seeds=2, seconds=9000, detects="a difference of 0.05 nats per token"),
        "gpu": Profile(config=CPU, seeds=4, seconds=480, detects="a difference of 0.015 nats per token"),
        "gpu-tiny": Profile(config=SMOKE, seeds=2, seconds=10, detects=None),
    }

    def predict(self, config: Config) -> Json:
        return {
            "assumes": "patterns and inputs of layers as they were, and a small change, for predicted costs; nothing "
            "for the refit on the text that it was fitted on",
            "source": "theory.reading.second_order; theory.reading.refit",
            "rule": "a refit costs less than the raw swap of the same heads; advised heads cost less than fixed and "
            f"random ones; the predicted cost of advised heads is right within a factor of {FACTOR:g}",
            "models": list(config.models),
            "arms": list(dict.fromkeys(arm for source in config.models.values() for arm in arms_of(source))),
        }

    def measure(self, config: Config, seeds: int, run: RunFolder) -> Json:
        measuring = Measuring(run)
        lines = dict[str, Json]()
        for name, source in config.models.items():
            for seed in range(1 if isinstance(source, Imported) else seeds):
                about = Item(name, source, seed, ADVICE)
                items = [replace(about, arm=arm) for arm in arms_of(source)]
                measuring.advice |= results(
                    "advice", {about.key: about}, measuring, run=run, label=ADVICE, backend=Serial()
                )
                label = f"{self.name}, {name}"
                lines |= results(
                    "run", {item.key: item for item in items}, measuring, run=run, label=label, backend=Serial()
                )
        return {"advice": measuring.advice, "lines": lines}

    def compare(self, prediction: Json, measurement: Json) -> Sequence[Expectation]:
        return [one for name in prediction["models"] for one in _judged(name, prediction, measurement)]

    def draw(self, prediction: Json, measurement: Json) -> Figure:
        fig, axes = style.figure(2, width=4.6, height=4.2)
        draw_rises(axes[0], prediction, measurement)
        draw_scores(axes[1], prediction, measurement)
        style.finish(axes)
        return fig


def rises(measurement: Json, name: str, arm: str, when: str = FIRST) -> list[float]:
    """Return by how much each sequence's loss is above that of the unchanged model, of all seeds."""
    lines, differences = measurement["lines"], list[float]()
    for key, line in lines.items():
        model, seed, this = key.split("/")
        if (model, this) == (name, arm) and when in line:
            before = lines[f"{name}/{seed}/{TRAINED}"][when]
            differences += [a - b for a, b in zip(line[when], before, strict=True)]
    return differences


def _judged(name: str, prediction: Json, measurement: Json) -> Iterator[Expectation]:
    draws = [arm for arm in prediction["arms"] if arm.startswith(RANDOM)]
    for when, words in ((FIRST, "at first"), (FURTHER, "after training on")):
        rise = {arm: rises(measurement, name, arm, when) for arm in (RAW, *prediction["arms"])}
        by_chance = [fmean(x) for x in zip(*(rise[arm] for arm in draws if rise[arm]), strict=True)]
        pairs = {
            "refit": (REFIT, "a refit costs less than the raw swap", rise[RAW], rise[REFITTED]),
            "fixed": (SETS, "advised heads cost less than fixed ones", rise[REFITTED], rise[ADVISED]),
            "random": (SETS, "advised heads cost less than random ones", by_chance, rise[ADVISED]),
        }
        for key, (claim, statement, more, less) in pairs.items():
            if not more or not less:
                continue
            interval = t_interval([a - b for a, b in zip(more, less, strict=True)])
            yield Expectation.sampled(
                interval,
                replace(interval, mean=0.0),  # in which no sign may be seen
                id=f"{key}/{name}/{when}",
                group=f"{statement}, {words}",
                claim=claim,
                statement=f"{name}: {statement}, {words}",
                rule="sign",
                predicted=1.0,
                quantity=QUANTITY,
            )
    if rises(measurement, name, ADVISED):
        yield _within(name, measurement)


def _within(name: str, measurement: Json) -> Expectation:
    """Return the expectation of the predicted cost of advised heads, as a logarithm of a ratio."""
    costs = [line["cost"][ADVISED] for key, line in measurement["advice"].items() if key.startswith(f"{name}/")]
    interval = t_interval(rises(measurement, name, ADVISED))
    log = math.log(max(interval.mean, 1e-12) / fmean(costs))
    ratio = Interval(log, interval.stderr / abs(interval.mean), interval.half_width / abs(interval.mean))
    return Expectation.sampled(
        ratio,
        *(replace(ratio, mean=sign * math.log(FACTOR**3)) for sign in (1, -1)),  # off by far more than the factor
        id=f"predicted/{name}",
        group="the predicted cost of advised heads is right",
        claim=SETS,
        statement=f"{name}: predicted {fmean(costs):.3f} nats per token, measured {interval.mean:.3f}",
        rule="none",
        predicted=0.0,
        slack=math.log(FACTOR),
        quantity="logarithm of a measured cost over the predicted one",
    )


def draw_rises(axis: Axes, prediction: Json, measurement: Json) -> None:
    """Draw by how much losses rise: filled at first, hollow after training on, crosses predicted."""
    there = {key.split("/")[2] for key in measurement["lines"]}
    arms = [arm for arm in dict.fromkeys((RAW, *prediction["arms"])) if arm in there - {TRAINED}]
    for i, name in enumerate(prediction["models"]):
        places = [k + 0.25 * (i - (len(prediction["models"]) - 1) / 2) for k in range(len(arms))]
        look: Json = {"color": COLOURS[i % len(COLOURS)], "marker": style.MARKERS[i], "linestyle": "none"}
        for when, face in ((FIRST, look["color"]), (FURTHER, "white")):
            if not rises(measurement, name, TRAINED, when):
                continue
            by_place = [(x, rises(measurement, name, arm, when)) for x, arm in zip(places, arms, strict=True)]
            shown = [(x, t_interval(differences)) for x, differences in by_place if differences]
            label = name if when == FIRST else None
            style.bars(axis, [x for x, _ in shown], [y for _, y in shown], markerfacecolor=face, label=label, **look)
        costs = [line["cost"] for key, line in measurement["advice"].items() if key.startswith(f"{name}/")]
        known = [(x, fmean(one[arm] for one in costs)) for x, arm in zip(places, arms, strict=True) if arm in costs[0]]
        style.crosses(axis, [x for x, _ in known], [y for _, y in known], label=None if i else "predicted")
    axis.set_xticks(range(len(arms)), arms, rotation=30)
    if axis.dataLim.ymin > 0:
        axis.set_yscale("log")
    else:
        axis.set_yscale("symlog", linthresh=0.01)
    axis.set_ylabel("loss above the unchanged model's (nats per token)")
    axis.set_title("Ways to choose heads")


def draw_scores(axis: Axes, prediction: Json, measurement: Json) -> None:
    """Draw the predicted cost of every head alone, by layer."""
    for i, name in enumerate(prediction["models"]):
        lines = [line for key, line in measurement["advice"].items() if key.startswith(f"{name}/")]
        places, scores = zip(*((n, score) for line in lines for n, _, score in line["scores"]), strict=True)
        axis.plot(places, scores, style.MARKERS[i], color=COLOURS[i % len(COLOURS)], label=name, alpha=0.7)
    axis.set_yscale("log")
    axis.set_xlabel("layer")
    axis.set_ylabel("predicted cost of one head (nats per token)")
    axis.set_title("Every head alone")


EXPERIMENT: Experiment = Reading()
