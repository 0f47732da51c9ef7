"""Compare the toy's predictions for a variant with training on associative recall, in minutes.

The toy (`theory.toy.width`, `theory.toy.worth`) says of a plan whether layer 2 explains more than vanilla's, and by
what factor vanilla's width would have to grow.  Its mechanism: a token as wide as one code cannot hold a copied key and
its own value, and a layer that reaches the raw value need not.  In associative recall the same happens to models that
people train, so the toy says four things of it:

    speed       at the width of one code, what gains in the toy learns sooner
    one token   where key and value share a token there is nothing to copy, and no arm gains
    null        at three times that width both fit side by side, and nothing can be gained
    width       the least width at which 90 % are answered right falls by the toy's worth

The first three compare areas, mean training losses over ln V (V values that an answer is chosen among).  Initial
weights decide as much as the rate does, so there are two scales of them, and each arm has its own best rate.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import TYPE_CHECKING, Any

from experiments.across.bridge_rows import (
    AREA,
    COLUMNS,
    FAN_IN,
    HELD,
    LEGEND,
    MARGIN,
    OCTAVE,
    OCTAVES,
    QUESTIONS,
    SAYS,
    SMALL,
    WORTH,
    Row,
    rows,
)
from experiments.drawing import style
from experiments.drawing.marks import Mark, judged
from experiments.experiment.protocol import Experiment, Kind, Profile
from experiments.store.folders import Json, RunFolder, Unfinished
from experiments.training import stacks
from experiments.training.arms import Arm, RecallSource
from experiments.training.campaign import BASELINE, TWIN, of_runs
from experiments.training.comparing import TOY, OwnVariant, model_of, names_of_own, own_names
from experiments.training.tuning import TUNING_SEED
from experiments.verdicts.checks import Judgement
from icl.recipe import Recipe
from theory.errors import BadInput
from theory.plans.architecture import Architecture, Vectors
from theory.plans.names import resolve
from theory.plans.plan import NOTHING, Plan, Shape, plan, v
from theory.plans.recall import Form

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PROBE = "recall"  # the share of right answers
OWN_MAP = "own-map"  # layer 2's values are layer 2's own map of the embedding: SVFormer without the sharing
ARMS = (BASELINE, TWIN, "svformer", "skipv1", "resformer", OWN_MAP, "skipv0", "shared-keys", "attnres")
SCALES = (SMALL, FAN_IN)


@dataclass(frozen=True, kw_only=True)
class Part:
    """Trainings of one shape and one scale of initial weights, at every rate and seed: a stack.

    width     in widths of a code
    arms      that are trained; none: all
    tuning    seeds on which rates are tried; those that are compared are others
    """

    question: str
    width: float
    scale: str
    steps: int
    rates: tuple[float, ...]
    form: Form = "interleaved"
    arms: tuple[str, ...] = ()
    tuning: int = 4

    @property
    def key(self) -> str:
        return f"{self.question}, width {self.width:g} d, {self.scale}"


@dataclass(frozen=True, kw_only=True)
class Config:
    """The trainings to run; symbols: keys, and as many values, the toy's d; decides: whether verdicts are given."""

    pairs: int
    symbols: int
    parts: tuple[Part, ...]
    recipe: Recipe
    held_out_prompts: int
    arms: tuple[str, ...] = ARMS
    own: tuple[OwnVariant, ...] = ()
    decides: bool = True

    @property
    def tuned(self) -> bool:
        return any(len(part.rates) > 1 for part in self.parts)

    def names(self, part: Part) -> tuple[str, ...]:
        return part.arms or (*self.arms, *(variant.name for variant in self.own))

    def source(self, part: Part) -> RecallSource:
        size = self.symbols
        form, held_out = part.form, self.held_out_prompts
        return RecallSource(pairs=self.pairs, keys=size, values=size, form=form, held_out_prompts=held_out)

    def architecture(self, part: Part) -> Architecture:
        """Return two layers of two heads and norms, with rotary positions and no feed-forward."""
        source, width = self.source(part), round(part.width * self.symbols)
        context, stem = source.tokens, Vectors(source.width)
        return Architecture(d_model=width, n_layers=2, n_heads=2, d_ff=0, context=context, stem=stem)


_RATES = (0.01, 0.02, 0.04)
_HIGH = (0.02, 0.04, 0.08)
_SPEED = Part(question="speed", width=1, scale=FAN_IN, steps=250, rates=_RATES)
_ONE_TOKEN = Part(question="one token", width=1, scale=FAN_IN, steps=150, rates=_HIGH, form="paired")
_NULL = Part(question="null", width=3, scale=FAN_IN, steps=100, rates=(0.004, 0.008, 0.016))
_WIDTH = Part(question="width", width=0.5, scale=FAN_IN, steps=250, rates=_HIGH)
_PARTS = (  # in the order of what is left out last where time is up
    _SPEED,
    replace(_SPEED, scale=SMALL, steps=400, rates=(0.005, *_RATES)),
    replace(_ONE_TOKEN, scale=SMALL),
    _ONE_TOKEN,
    replace(_NULL, scale=SMALL, rates=(0.005, 0.01, 0.02)),
    _NULL,
    _WIDTH,
    replace(_WIDTH, width=2, rates=(0.005, 0.01, 0.02), arms=(BASELINE, TWIN)),
)
_RECIPE = Recipe(steps=250, batch=16, learning_rate=0.01, log_every=10)
_CPU = Config(pairs=4, symbols=16, parts=_PARTS, recipe=_RECIPE, held_out_prompts=512)
_SMOKE = replace(
    _CPU,
    pairs=2,
    symbols=8,
    parts=tuple(replace(part, steps=10, rates=(0.02,)) for part in _PARTS),
    recipe=replace(_RECIPE, batch=8, log_every=5),
    held_out_prompts=64,
    decides=False,
)
_GPU = replace(_CPU, parts=tuple(replace(part, tuning=8) for part in _PARTS), held_out_prompts=1024)
_TINY = replace(
    _SMOKE,
    parts=tuple(replace(part, rates=(0.01, 0.02), tuning=2) for part in _SMOKE.parts),
    arms=(BASELINE, TWIN, "svformer", "skipv1"),
)
_DETECTS = "0.1 of ln V, and half an octave of width"
PROFILES = {
    "smoke": Profile(config=_SMOKE, seeds=2, seconds=30, detects=None),
    "cpu": Profile(config=_CPU, seeds=8, seconds=330, detects=_DETECTS),
    "long": Profile(config=_CPU, seeds=24, seconds=800, detects=_DETECTS, grows=True),
    "gpu-8": Profile(
        config=replace(_GPU, symbols=8), seeds=32, seconds=600, detects=_DETECTS, grows=True, device="cuda", on_gpu=4
    ),
    "gpu": Profile(config=_GPU, seeds=32, seconds=600, detects=_DETECTS, grows=True, device="cuda", on_gpu=4),
    "gpu-tiny": Profile(config=_TINY, seeds=2, seconds=40, detects=None, grows=True),
}


class Bridge:
    name = "bridge"
    title = "What the toy says of a variant, and where it is true of recall"
    caption = (
        "Do arms that gain in the toy learn recall sooner? Mean training loss below vanilla's, at (a) small and (b) "
        "fan-in initial weights, each arm at its own learning rate. Squares: key and value in one token, where the toy "
        "allows no gain. Filled: as the toy says; cross: against it; hollow: not decided. "
        "Intervals: family-wise 95 %, paired seeds."
    )
    further: Mapping[str, str] = {
        "width": "Is a skip worth width, where it binds alone? (a) Octaves by which vanilla must widen "
        "for 90 % right answers; strokes: the toy. (b) The gain at three times a code's width, where the toy allows "
        "none, each arm at its own learning rate. Filled: as the toy says; cross: against it; hollow: not decided. "
        "Intervals: family-wise 95 %."
    }
    kind: Kind = "scale"
    legend: Mapping[str, str] = LEGEND
    claims: tuple[str, ...] = (WORTH,)
    profiles: Mapping[str, Profile] = PROFILES

    def architectures(self, config: Config) -> Sequence[Architecture]:
        return list(dict.fromkeys(map(config.architecture, config.parts)))

    def comparing(self, config: Config, own: tuple[OwnVariant, ...]) -> Config:
        """Return the configuration with a user's variants beside the others, whose verdicts are known."""
        return replace(config, own=own)

    def predict(self, config: Config) -> Json:
        compared = [arm for arm in config.arms if arm not in (BASELINE, TWIN)]
        plans: dict[str, Plan | None] = {arm: own_map(TOY) if arm == OWN_MAP else resolve(arm, TOY) for arm in compared}
        plans |= {variant.name: variant.toy for variant in config.own}
        rates = "; ".join(f"{part.key}: {', '.join(map(str, part.rates))}" for part in config.parts)
        tuned = f"per arm and part by area, on {config.parts[0].tuning} seeds that are not compared: {rates}"
        return {
            "assumes": "the toy's own setting: two layers of linear attention, the assumed copy, tokens of one width, "
            "d = the number of keys; that what explains more also learns recall sooner is what is asked",
            "source": "theory.toy.width, theory.toy.worth",
            "statistic": f"{AREA}, mean over paired seeds; and {OCTAVES}, by log width between those trained",
            "rule": f"three regions: gain, beyond {MARGIN:g} of ln V; nothing, within {MARGIN:g}; loss, beyond "
            f"-{MARGIN:g}; of width {OCTAVE:g} octaves. As the toy says: the family-wise 95 % interval lies in the "
            "region that it names; against the toy: wholly outside; not decided: neither, or the control agrees too. "
            "Controls: vanilla's twin, of a gain or loss; vanilla at half of its steps, of nothing",
            "plan": "seeds are fixed: 8; whoever finds more than two verdicts not decided runs the profile long, of "
            "24, whatever the others are, and reports both",
            "tuning": tuned if config.tuned else "not tuned: one learning rate",
            "margins": {AREA: MARGIN, OCTAVES: OCTAVE},
            "decides": config.decides,
            "toy": {arm: of and _prediction(of, config) for arm, of in plans.items()},
            **names_of_own(config.own),
        }

    def measure(self, config: Config, seeds: int, run: RunFolder) -> Json:
        """Measure all parts at once, so workers share them evenly; those that are finished when time is up count."""
        steps = {part: _measured(part, config, seeds) for part in config.parts}
        answers: dict[Part, Any] = {part: next(step) for part, step in steps.items()}
        records = list[Json]()
        for label in ("rates", "seeds"):
            wanted = list(dict.fromkeys(arm for arms in answers.values() for arm in arms))
            trained = stacks.train_stacked(wanted, run, f"bridge, {label}")
            done = {part for part, arms in answers.items() if all(arm in trained for arm in arms)}
            if not done:
                raise Unfinished(f"bridge, {label}: {len(trained)} of {len(wanted)} trainings are finished")
            answers = {part: steps[part].send(trained) for part in answers if part in done}
            records += trained.values()
        parts = {part.key: numbers for part, numbers in answers.items()}
        tables = {what: {k: x for p in parts.values() for k, x in p.pop(what).items()} for what in ("losses", "best")}
        tuning = {"tuned": config.tuned, **tables}
        return {"seeds": seeds, "parts": parts, "tuning": tuning, "provenance": of_runs(records)}

    def compare(self, prediction: Json, measurement: Json) -> Sequence[Judgement]:
        return [row.judgement for row in rows(prediction, measurement) if row.arm != TWIN]

    def table(self, prediction: Json, measurement: Json) -> list[tuple[str, ...]]:
        """Return a row for every arm and question, a user's own first, with its verdict and why."""
        own = own_names(prediction)
        every = sorted(rows(prediction, measurement), key=lambda row: row.arm not in own)
        return [COLUMNS, *(row.cells() for row in every)]

    def draw(self, prediction: Json, measurement: Json) -> Figure:
        every = [row for row in rows(prediction, measurement) if row.question in QUESTIONS[:2]]
        panels = {f"Speed, initial weights {x}": [row for row in every if row.scale == x] for x in SCALES}
        return _figure(prediction, panels)

    def draw_further(self, name: str, prediction: Json, measurement: Json) -> Figure:  # noqa: ARG002
        every = rows(prediction, measurement)
        titles = {"width": "Worth in width, fan-in", "null": "The null: three times the width"}
        panels = {title: [row for row in every if row.question == what] for what, title in titles.items()}
        return _figure(prediction, panels)


def own_map(shape: Shape) -> Plan:
    """Return a plan of twice the heads, half of them not there, whose layer 2 has its own map of the embedding.

    The value projection of layer 1's missing heads is built, as layer 2 reads it, and layer 1 does not.
    """
    heads, wide = shape.heads, replace(shape, heads=2 * shape.heads)
    return plan(wide, values=lambda n, h: NOTHING if h > heads else v(1, h if n == 1 else h + heads))


def _prediction(of: Plan, config: Config) -> Json | None:
    """Return the gain's sign by question, the worth in width, and the shares behind; None where the toy is silent."""
    from theory.toy.width import explained_share_at_width
    from theory.toy.worth import worth_at_width

    d = config.symbols
    both = of, resolve(BASELINE, TOY)
    try:
        shares = {
            k: [explained_share_at_width(p, d, config.pairs, sigma=0.0, width=k * d) for p in both] for k in (1, 3)
        }
        worth = worth_at_width(of, d, d)
    except BadInput:
        return None
    if any(share is None for two in shares.values() for share in two) or worth.least != worth.most:
        return None
    gains = {width: float(own) - float(vanilla) for width, (own, vanilla) in shares.items()}  # type: ignore[arg-type]
    sign = {width: (gain > 0) - (gain < 0) for width, gain in gains.items()}
    return {
        "signs": {"speed": sign[1], "one token": 0, "null": sign[3], "width": (worth.least > 1) - (worth.least < 1)},
        "worth": worth.least,
        "gain": {f"{width} d": gain for width, gain in gains.items()},
    }


def _arm(name: str, part: Part, config: Config, *, seed: int, rate: float) -> Arm:
    architecture = config.architecture(part)
    model = model_of(BASELINE if name == TWIN else name, config.own, architecture)
    if name == OWN_MAP:
        wide = replace(architecture, n_heads=2 * architecture.n_heads, head_dim=architecture.width)
        model = wide, own_map(architecture.shape)
    return Arm(
        architecture=model[0],
        variant=model[1],
        source=config.source(part),
        recipe=replace(config.recipe, steps=part.steps, learning_rate=rate),
        seed=seed,
        std=float(SMALL) if part.scale == SMALL else architecture.d_model**-0.5,
        twin=name == TWIN,
        probes=(PROBE,),
        label="" if name in (BASELINE, TWIN) else name,
    )


def _measured(part: Part, config: Config, seeds: int) -> Generator[Any, Mapping[Arm, Json], None]:
    """Yield the trainings that try rates, then those that are compared, then the numbers by arm; sent: records."""
    names, source = config.names(part), config.source(part)
    trials = {
        name: {
            rate: [_arm(name, part, config, seed=TUNING_SEED + i, rate=rate) for i in range(part.tuning)]
            for rate in part.rates
        }
        for name in names
        if len(part.rates) > 1
    }
    tried = yield [arm for of in trials.values() for some in of.values() for arm in some]
    losses = {
        name: {rate: fmean(_reading(tried[arm], source)["area"] for arm in some) for rate, some in of.items()}
        for name, of in trials.items()
    }
    best = {name: min(losses[name], key=losses[name].__getitem__) if losses else part.rates[0] for name in names}
    arms = {name: [_arm(name, part, config, seed=i, rate=best[name]) for i in range(seeds)] for name in names}
    ends = yield [arm for some in arms.values() for arm in some]
    readings = {name: [_reading(ends[arm], source) for arm in some] for name, some in arms.items()}
    yield {
        "question": part.question,
        "scale": part.scale,
        "width": config.architecture(part).d_model,
        **{
            what: {name: [one[what] for one in some] for name, some in readings.items()}
            for what in ("area", "half", "right", "left", "diverged")
        },
        "losses": {f"{part.key}, {name}": {str(rate): x for rate, x in of.items()} for name, of in losses.items()},
        "best": {f"{part.key}, {name}": rate for name, rate in best.items()},
    }


def _reading(record: Json, source: RecallSource) -> Json:
    """Return a training's measures; one that diverged has learnt nothing.  The plateau is left at half of ln n."""
    losses = [loss / source.blind for _, loss in record["curve"]]
    if record["diverged"] or not losses:
        return {"area": 1.0, "half": 1.0, "right": 0.0, "left": None, "diverged": True}
    right = record["probes"][PROBE]["end"]["right"]
    left = next((step for step, loss in record["curve"] if loss < math.log(source.pairs) / 2), None)
    half = fmean(losses[: -(-len(losses) // 2)])
    return {"area": fmean(losses), "half": half, "right": right, "left": left, "diverged": False}


def _figure(prediction: Json, panels: Mapping[str, Sequence[Row]]) -> Figure:
    fig, axes = style.figure(len(panels), width=4.6, height=4.6)
    for axis, (title, some) in zip(axes, panels.items(), strict=True):
        width = any(row.question == "width" for row in some)
        series = {"width": "trained", "null": "initial weights {}"}
        named = [(row, series.get(row.question, row.question).format(row.scale)) for row in some]
        marks = [Mark(row.arm, name, row.interval, held=HELD.get(row.words)) for row, name in named]
        labels = {row.arm: _label(row) for row in some if row.question != "one token"}
        worths = {arm: math.log2(toy["worth"]) for arm, toy in prediction["toy"].items() if toy and width}
        judged(axis, marks, labels, band=OCTAVE if width else MARGIN, predicted=worths)
        axis.set_title(title)
        axis.set_xlabel((OCTAVES if width else AREA).replace(" less ", " minus "))
    style.finish(axes)
    return fig


def _label(row: Row) -> str:
    """Return the arm's name with the toy's prediction."""
    if row.arm == TWIN:
        return "twin (control)"
    return f"{row.arm}\n(toy: {'silent' if row.says is None else SAYS[row.says]})"


EXPERIMENT: Experiment = Bridge()
