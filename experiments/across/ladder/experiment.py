"""The ladder: does what the toy says of a variant outlast softmax, norms and a feed-forward?

The task is in-context linear regression throughout.  Four rungs lead from the toy's kind of attention to a decoder,
each with two layers, two heads as wide as the model, a residual stream and biases for pairs of positions:

    linear        linear attention, both layers trained
    softmax       its scores go through a softmax
    norms         RMSNorm before each sublayer and before the output
    feed-forward  a gated feed-forward after each attention

Two questions are kept apart in every sentence.

    reached  the most that a model explains: at the end of any continuation, or of any single training.  A continuation
             leads the best of many starts on the first rung up the others, where the new ingredient is turned on by
             degrees (`icl.stacks.training`), from 0 to 1
    found    what one training from random weights explains, and how often it comes near to that

Both compare a variant with vanilla by the share of the signal E ||W*||^2 that the last answer explains.  At twice and
three times the width d the toy allows no lead; `null` asks both questions there.  What is reached can be represented;
more may be.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from experiments.across.ladder.setting import CONVERGED, KEPT, LAYER, NULL, RUNGS, WIDTH, Config, architecture
from experiments.experiment.protocol import Experiment, Kind, Profile
from experiments.store.folders import Json, RunFolder
from experiments.training.campaign import BASELINE
from experiments.training.comparing import TOY, OwnVariant, names_of_own
from experiments.training.tuning import Tuning
from experiments.verdicts.checks import Judgement
from icl.recipe import Recipe
from theory.errors import BadInput
from theory.plans.architecture import Architecture
from theory.plans.names import resolve
from theory.plans.plan import DepthAttention, Plan
from theory.plans.setting import Setting

if TYPE_CHECKING:
    from matplotlib.figure import Figure


_RECIPE = Recipe(
    steps=8000,
    batch=16,
    learning_rate=0.03,
    warmup=0.02,
    floor=0.0,
    decay="late",
    log_every=1000,
    compile=True,
    scale_outputs=False,
)
_CPU = Config(
    task=Setting(2, 4, 0.1),
    further=(Setting(3, 6, 0.1), Setting(4, 8, 0.1), Setting(5, 10, 0.1)),
    arms=("svformer", "skipv1", "resformer"),
    few=("svformer",),
    climbs=8,
    starts=16,
    search_steps=4000,
    rates=(0.003, 0.01, 0.03),
    recipe=_RECIPE,
    lengths=(8000, 16_000),
    widths=(2, 3),
    tuning=Tuning(grid=(0.003, 0.01, 0.03), share=0.25, seeds=4, widenings=1),
    scored_prompts=2**15,
)
_SMOKE = replace(
    _CPU,
    further=(),
    arms=("skipv1",),
    few=(),
    climbs=2,
    starts=2,
    search_steps=20,
    rates=(0.03,),
    recipe=replace(_RECIPE, log_every=10, compile=False),
    lengths=(20, 40),
    widths=(2,),
    tuning=Tuning(),
    scored_prompts=1024,
)
_TINY = replace(_SMOKE, tuning=Tuning(grid=(1e-2, 3e-2), share=0.5), further=(Setting(3, 4, 0.1),), few=("skipv1",))
_DETECTS = "0.05 of the signal, in half of the comparisons"
PROFILES = {
    "smoke": Profile(config=_SMOKE, seeds=2, seconds=15, detects=None),
    "cpu": Profile(config=_CPU, seeds=24, seconds=5400, detects=_DETECTS, grows=True),
    "gpu": Profile(config=_CPU, seeds=48, seconds=2500, detects=_DETECTS, grows=True, device="cuda", on_gpu=4),
    "gpu-tiny": Profile(config=_TINY, seeds=2, seconds=60, detects=None, grows=True),
}
_EARLIER = "the ladder asks two questions now, in one profile; what it found stands in results/earlier"


class Ladder:
    name = "ladder"
    title = "From the toy to softmax, norms and a feed-forward: what is reached, and what one training finds"
    caption = (
        "Does the toy's lead outlast softmax, norms and a feed-forward? Lead over vanilla at width d = 2 (a) of the "
        "best of all continuations and trainings, (b) as one training finds it. (c) How often one training comes "
        "within 0.05 of its variant's best. Dashed: the toy. 95 %: (a) of the prompts, (b) over seeds, (c) exact."
    )
    further: Mapping[str, str] = {
        "null": "Is there a lead where the toy allows none? At twice and three times the width d, with a feed-forward: "
        "(a) the best of all continuations and trainings, (b) one training. Filled: none, as the toy says; cross: "
        "against it; hollow: not decided. Grey: within 0.02. Intervals: family-wise 95 %, (a) of the prompts, (b) over "
        "seeds.",
        "tasks": "Does the lead grow with the task as the toy says? SVFormer's lead over vanilla at width d, best of "
        "all continuations, at d = 2 of trainings too, by rung. Short bars: the toy. Grey: vanilla's search fell short "
        "of what is proved possible. Intervals: 95 %, of the prompts.",
    }
    kind: Kind = "scale"
    claims: tuple[str, ...] = (WIDTH, LAYER)
    profiles: Mapping[str, Profile] = PROFILES
    retired: Mapping[str, str] = dict.fromkeys(("depths", "long", "tasks", "optima", "residual"), _EARLIER)

    def architectures(self, config: Config) -> Sequence[Architecture]:
        return [architecture(rung, task, task.d) for task in config.tasks for rung in RUNGS]

    def comparing(self, config: Config, own: tuple[OwnVariant, ...]) -> Config:
        """Return the user's variants against vanilla, at one task."""
        return replace(config, own=own, further=(), arms=())

    def predict(self, config: Config) -> Json:
        plans: dict[str, Plan | None] = {arm: resolve(arm, TOY) for arm in (BASELINE, *config.arms)}
        plans |= {asked.name: asked.toy for asked in config.own}
        rates = ", ".join(map(str, config.rates))
        return {
            "assumes": "of the toy alone: W0 = 0, two layers of linear attention, Assumption 1, the best division of "
            "the width. That trained decoders do likewise is what is asked",
            "source": "theory.toy.width; bounds of the rung linear: theory.toy.trained_layer, of a causal first layer "
            "whose scores are of positions alone",
            "statistic": f"share of E ||W*||^2 explained by the answer after all pairs, on {config.scored_prompts} "
            "held-out prompts, the same for all models. Reached: the best of an arm's continuations and, at the first "
            "task, of its single trainings less vanilla's best, with the prompts' error. Found: the mean paired "
            "difference over seeds, where a training that diverged explains nothing. Family-wise 95 %",
            "rule": f"a lead is there if its interval lies beyond {KEPT:g}; it is as large as the toy's, or as the "
            f"rung before's, within {KEPT:g}; there is none if it lies within {NULL:g}. Nothing that is reached is "
            f"decided at a task where a search with linear attention ends more than {KEPT:g} below what is proved "
            f"possible (a rule added once that was seen, which takes verdicts away). An arm has converged if twice "
            f"the steps add at most {CONVERGED:g} by the end of the paired interval; what compares one that has not is "
            "inconclusive. Controls: vanilla's twin of a lead; the lead at width d of none",
            "continued": f"per seed the best of {config.starts} starts of {config.search_steps} steps, by training "
            f"loss, learning rates {rates} in turn; then {config.lengths[0]} steps a rung, at each of these rates, of "
            "which the best by training loss goes on",
            "tuning": config.tuning.described("rung, width and variant"),
            "tasks": {task.key: _of_task(task, plans) for task in config.tasks},
            **names_of_own(config.own),
        }

    def measure(self, config: Config, seeds: int, run: RunFolder) -> Json:
        from experiments.across.ladder.measuring import measured

        return measured(config, seeds, run)

    def compare(self, prediction: Json, measurement: Json) -> Sequence[Judgement]:
        from experiments.across.ladder.verdicts import verdicts

        return list(verdicts(prediction, measurement))

    def draw(self, prediction: Json, measurement: Json) -> Figure:
        from experiments.across.ladder import figure

        return figure.draw(prediction, measurement)

    def draw_further(self, name: str, prediction: Json, measurement: Json) -> Figure:
        from experiments.across.ladder import figure

        return {"null": figure.null, "tasks": figure.tasks}[name](prediction, measurement)


def _of_task(task: Setting, plans: Mapping[str, Plan | None]) -> Json:
    """Return the toy's shares and leads at width d, what is proved of the rung linear, and ridge regression's share."""
    from theory.prompts.regression import ridge

    shares = {arm: _toy_share(plan, task) if plan else None for arm, plan in plans.items()}
    vanilla, bayes = shares[BASELINE], ridge(*task.floats)
    assert vanilla is not None
    return {
        "d": task.d,
        "share": shares,
        "lead": {arm: None if x is None else x - vanilla for arm, x in shares.items() if arm != BASELINE},
        "proved": {arm: _proved(plan, task) if plan else None for arm, plan in plans.items()},
        "zero": float(task.zero_loss),
        "bayes": (float(task.zero_loss) - bayes.value) / task.d**2,
        "bayes_stderr": bayes.stderr / task.d**2,
    }


def _toy_share(plan: Plan, task: Setting) -> float | None:
    from theory.toy.width import explained_share_at_width

    try:
        share = explained_share_at_width(plan, *task.floats, task.d)
    except BadInput:
        return None
    return None if share is None else float(share)


def _proved(plan: Plan, task: Setting) -> list[float] | None:
    """Return the least and the most that the rung linear explains at best; None where nothing is proved."""
    from theory.toy.trained_layer import share_bounds

    if isinstance(plan.depth, DepthAttention):
        return None
    try:
        return list(share_bounds(plan, *task.floats, task.d, "residual", causal=True, counted=True))
    except BadInput:
        return None


EXPERIMENT: Experiment = Ladder()
