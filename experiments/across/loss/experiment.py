"""Language modelling: the variants' losses against vanilla's on paired seeds, beside what the papers and the toy say.

The papers train for billions of tokens, and the toy knows no text.  What carries over to the size of a profile is a
sign, and sometimes a size; both are written down before anything is trained.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from experiments.across.loss.papers import PAPERS, of_paper
from experiments.experiment.protocol import Experiment, Kind, Profile
from experiments.store.folders import Json
from experiments.training.arms import Arm
from experiments.training.campaign import BASELINE, TWIN, expected, of_runs, rounds, unpredicted
from experiments.training.comparing import TOY as TOY_SHAPE
from experiments.training.comparing import Asked, names_of_own, own_names
from experiments.training.tuning import Tuning, mark, other_rates, tuned
from experiments.verdicts.checks import Judgement
from experiments.verdicts.intervals import Interval, against_baseline
from icl.recipe import Recipe
from theory.errors import BadInput
from theory.plans.architecture import Architecture, Tokens
from theory.plans.names import resolve
from theory.plans.plan import Plan
from theory.plans.presets import PRESETS, llama

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from experiments.store.folders import RunFolder

CLAIM = "toy.value-maps"
LOST = "loss less vanilla's, nats a token"
TOY = (6, 60, 0.3)  # d, n, sigma at which the toy's order is asked for; it is the same at all others


@dataclass(frozen=True, kw_only=True)
class Config:
    """variants: by the name of the paper's variant, the plan that stands for it at this depth; own: a user's."""

    architecture: Architecture
    variants: Mapping[str, str]
    data: str
    vocab: int
    recipe: Recipe
    tuning: Tuning
    held_out_windows: int
    own: tuple[Asked, ...] = ()


def _variants(*names: str, block: str = "attnres-block") -> dict[str, str]:
    return {name: block if name == "attnres-block" else name for name in names}


_ALL = ("vanilla", *PAPERS)
_TINY = llama(d_model=16, n_heads=2, n_layers=2, d_ff=32, vocab=512, context=32)
_SMALL = llama(d_model=64, n_heads=4, n_layers=4, d_ff=176, vocab=2048, context=128)
_BLOCKS = "attnres-block:blocks=4"  # of two sublayers, at four layers
_CPU = Recipe(steps=400, batch=16, learning_rate=4e-3, log_every=20)
_GPU = Recipe(
    steps=600,
    batch=64,
    learning_rate=2e-3,
    clip=0.0,
    precision="bf16",
    compile=True,
    log_every=20,
    evaluate_every=200,
)
PROFILES = {
    "smoke": Profile(
        config=Config(
            architecture=_TINY,
            variants=_variants("vanilla", "resformer"),
            data="stdlib",
            vocab=512,
            recipe=replace(_CPU, steps=20, batch=8, log_every=10),
            tuning=Tuning(),
            held_out_windows=16,
        ),
        seeds=2,
        seconds=12,
        detects=None,
    ),
    "cpu": Profile(
        config=Config(
            architecture=_SMALL,
            variants=_variants(*_ALL, block=_BLOCKS),
            data="stdlib",
            vocab=2048,
            recipe=_CPU,
            tuning=Tuning(grid=(2e-3, 4e-3, 8e-3)),
            held_out_windows=128,
        ),
        seeds=3,
        seconds=900,
        detects="about 0.03 nats a token, in small and briefly trained models",
    ),
    "gpu": Profile(
        config=Config(
            architecture=PRESETS["llama-60m"].architecture,
            variants=_variants(*_ALL),
            data="stdlib",
            vocab=16_384,
            recipe=_GPU,
            tuning=Tuning(grid=(1e-3, 2e-3, 4e-3), share=0.2),
            held_out_windows=256,
        ),
        seeds=3,
        seconds=5400,
        detects="about 0.01 nats a token",
        grows=True,
        device="cuda",
    ),
    "gpu-tiny": Profile(
        config=Config(
            architecture=_TINY,
            variants=_variants("vanilla", "attnres"),
            data="stdlib",
            vocab=512,
            recipe=replace(_GPU, steps=20, batch=8, accumulate=2, log_every=10, evaluate_every=10),
            tuning=Tuning(grid=(1e-3, 4e-3), share=0.5, widenings=1),
            held_out_windows=16,
        ),
        seeds=2,
        seconds=150,
        detects=None,  # it takes the gpu profile's path with tiny models
        grows=True,
    ),
}


class ScaleLoss:
    name = "scale-loss"
    title = "Language modelling: losses against vanilla on paired seeds, beside the papers' and the toy's order"
    caption = (
        "(a) Training losses less vanilla's, means over seeds, of variants at vanilla's learning rate: others are "
        "compared at the end only. (b) Held-out losses less vanilla's at the end, with what papers (cross: their "
        "number) and the toy say; 95 % over paired seeds, for all at once. Other initial weights are no effect; "
        "untuned: best rate at an edge."
    )
    kind: Kind = "scale"
    claims: tuple[str, ...] = (CLAIM,)
    profiles: Mapping[str, Profile] = PROFILES

    def architectures(self, config: Config) -> Sequence[Architecture]:
        return [config.architecture]

    def comparing(self, config: Config, own: tuple[Asked, ...]) -> Config:
        return replace(config, variants=_variants(BASELINE), own=own)

    def predict(self, config: Config) -> Json:
        toys = {name: _in_the_toy(name) for name in config.variants if name != BASELINE}
        toys |= {variant.name: variant.toy for variant in config.own}
        own = names_of_own(config.own)
        return {
            "assumes": "of the papers: that a sign found at 60M to 436M parameters and over 1B tokens holds here; of "
            "the toy: all that it assumes, and that a better in-context learner is a better language model",
            "source": "the papers, as named; theory.toy.value_maps at two layers",
            "statistic": "held-out loss in nats a token at the last step; its mean paired difference to vanilla",
            "rule": "the family-wise 95 % interval excludes zero on the predicted side, and that of vanilla against a "
            "twin with other initial weights does not; a size: the interval holds it and is narrower than it",
            "tuning": config.tuning.described(),
            "papers": {name: of_paper(PAPERS, own, name) for name in toys},
            "toy": {name: _toy_sign(plan) for name, plan in toys.items()},
            **own,
        }

    def measure(self, config: Config, seeds: int, run: RunFolder) -> Json:
        from experiments.training.text import text

        read = text(run.slot.data or config.data, config.vocab, config.held_out_windows)
        architecture = replace(config.architecture, stem=Tokens(read.vocab))

        own = {variant.name: variant for variant in config.own}
        compared = (*config.variants, *own)

        def arm(name: str, seed: int) -> Arm:
            named = config.variants.get(BASELINE if name == TWIN else name, "")
            sizes, plan = own[name].on(architecture) if name in own else (architecture, named)
            return Arm(
                architecture=sizes,
                variant=plan,
                source=read.source,
                recipe=config.recipe,
                seed=seed,
                twin=name == TWIN,
                label=name if name in own else "",
            )

        rates, tuning = tuned({name: arm(name, 0) for name in compared}, config.tuning, run, self.name)

        def round_(seed: int) -> dict[str, Arm]:
            arms = {name: arm(name, seed) for name in (*compared, TWIN)}
            rate = {**rates, TWIN: rates[BASELINE]}
            return {n: replace(a, recipe=replace(a.recipe, learning_rate=rate[n])) for n, a in arms.items()}

        by_seed = rounds(round_, seeds, run, self.name)
        names = (*compared, TWIN)
        records = [record for r in by_seed for record in r.values()]
        return {
            "seeds": len(by_seed),
            "tuning": tuning,
            "parameters": {name: by_seed[0][name]["parameters"] for name in names},
            "loss": {name: [r[name]["loss"] for r in by_seed] for name in names},
            "curves": {name: [r[name]["curve"] for r in by_seed] for name in names},
            "speed": {name: [r[name]["tokens_per_second"] for r in by_seed] for name in names},
            "diverged": [record["diverged"] for record in records if record["diverged"]],
            "text": read.name,
            "provenance": of_runs(records),
        }

    def compare(self, prediction: Json, measurement: Json) -> Sequence[Judgement]:
        intervals = differences(prediction, measurement)
        judgements: list[Judgement] = []

        def expect(
            kind: Literal["paper", "size", "toy"], name: str, text: str, predicted: float, claim: str = CLAIM
        ) -> None:
            words = {"paper": "the paper's sign", "size": "the paper's size", "toy": "the toy's sign"}
            rule: Literal["size", "sign"] = "size" if kind == "size" else "sign"
            group = f"{name}{mark(name, measurement)}: {words[kind]}{other_rates((name, BASELINE), measurement)}"
            numbers = predicted, intervals[name], intervals[TWIN]
            judgements.append(expected(f"{kind}/{name}", group, claim, text, rule, *numbers, quantity=LOST))

        for name, number in prediction["papers"].items():
            sign, nats, claim = number["sign"], number["nats"], number.get("claim", CLAIM)
            if sign is not None:
                better = "better" if sign < 0 else "worse"
                expect(
                    "paper", name, f"{name} ends {better} than vanilla ({number['place']})", nats or float(sign), claim
                )
            if sign is not None and nats is not None:
                expect("size", name, f"{name} ends {-nats:g} nats below vanilla ({number['place']})", nats, claim)
            if toy := prediction["toy"][name]:
                expect("toy", name, f"{name} ends better than vanilla, as in the toy", toy)
            if name in own_names(prediction) and sign is None and not prediction["toy"][name]:
                apart = other_rates((name, BASELINE), measurement)
                group = f"{name}{mark(name, measurement)} against vanilla{apart}"
                tied = "; the toy tells no difference" if prediction["toy"][name] == 0 else ""
                text = f"{name} against vanilla at the end{tied}"
                judgements.append(unpredicted(f"own/{name}", group, text, intervals[name], quantity=LOST))
        return judgements

    def draw(self, prediction: Json, measurement: Json) -> Figure:
        from experiments.across.loss.figure import draw

        return draw(prediction, measurement, differences(prediction, measurement))


def _in_the_toy(name: str) -> Plan | None:
    try:
        return resolve(name, TOY_SHAPE)
    except BadInput:
        return None


def _toy_sign(plan: Plan | None) -> int | None:
    """-1 where the toy at two layers has a lower loss than MHA's, 0: the same, 1: a higher one; None: not covered."""
    from theory.toy.width import explained_share_at_width

    if plan is None:
        return None
    d, n, sigma = TOY
    baseline = explained_share_at_width(resolve(BASELINE, TOY_SHAPE), d, n, sigma, d)
    try:
        share = explained_share_at_width(plan, d, n, sigma, d)
    except BadInput:
        return None
    if share is None or baseline is None:
        return None
    return (share < baseline) - (share > baseline)


def differences(prediction: Json, measurement: Json) -> dict[str, Interval]:
    """Every variant's paired difference to vanilla in held-out loss, family-wise over the variants and the twin."""
    losses = {
        name: [float("nan") if loss is None else loss for loss in by_seed]
        for name, by_seed in measurement["loss"].items()
    }
    arms = (*prediction["papers"], TWIN)
    return against_baseline(losses[BASELINE], {name: losses[name] for name in arms})


EXPERIMENT: Experiment = ScaleLoss()
