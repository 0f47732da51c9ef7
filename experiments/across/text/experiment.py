"""Text, compute-optimally: what each variant is worth in vanilla's parameters, and when loss curves cross.

Models of one kind and several sizes read 20 tokens a parameter of real text, none of it twice.  Vanilla's loss falls
with its size, so a variant's lower loss is that of a larger vanilla, trained on as many more tokens.  Sizes are trained
from the smallest on, each as one round a seed; a result is about those that are finished.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING

from experiments.across.text.points import TRANSFER, Config, cell, transferred
from experiments.across.text.profiles import PROFILES
from experiments.experiment.protocol import Experiment, Kind, Profile
from experiments.resformer.length.points import CRITICAL
from experiments.store.folders import Json, Unfinished, UserError
from experiments.training.arms import Arm
from experiments.training.campaign import BASELINE, TWIN, of_runs, rounds
from experiments.training.comparing import Asked, names_of_own
from experiments.training.tuning import tuned
from experiments.verdicts.checks import Judgement
from theory.plans.architecture import Architecture

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from experiments.store.folders import RunFolder
    from experiments.training.text import Text

CLAIM = "toy.value-maps"


class LadderText:
    name = "ladder-text"
    title = "Compute-optimal language models: worth in parameters, and where loss curves cross"
    kind: Kind = "scale"
    claims: tuple[str, ...] = (CLAIM, CRITICAL)
    profiles: Mapping[str, Profile] = PROFILES

    def architectures(self, config: Config) -> Sequence[Architecture]:
        return [config.sizes(width, config.vocab) for width in config.widths]

    def comparing(self, config: Config, own: tuple[Asked, ...]) -> Config:
        return replace(config, variants=(BASELINE,), own=own)

    def predict(self, config: Config) -> Json:
        from experiments.across.text.papers import printed_worth, sign
        from experiments.across.text.toy import toy

        compared = [name for name in config.variants if name != BASELINE]
        plans = {name: name for name in compared} | {asked.name: asked.toy for asked in config.own}
        return {
            "assumes": "of the papers: that signs found at 60M to 3B parameters hold here, and that printed losses of "
            "single trainings give what a variant is worth; of the toy: all that it assumes, and that a better "
            "in-context learner is a better language model.  It says nothing of how narrow a language model is: what a "
            "variant is worth in width lies between the two numbers given",
            "source": "the papers, as named; theory.toy.width at two layers",
            "statistic": "held-out loss in nats a token at the last step, its paired difference to vanilla at equal "
            "width and tokens; worth: parameters of the vanilla model that does as well over those of the one of equal "
            "width, between sizes by straight lines in the logarithm of the parameters, by inverting the paired test",
            "crossings": "of held-out losses during training, means over three evaluations: from where on a variant "
            "stays behind vanilla (SVFormer) or ahead of it (AttnRes) until the end; each seed has its own, and an "
            "interval is given where every seed has one among the evaluations",
            "rule": "a sign: the family-wise 95 % interval excludes zero on the predicted side, and that of vanilla "
            "against a twin with other initial weights does not; a worth: the interval of its logarithm holds the mean "
            "of the papers', give or take their range, and is narrower than it; worths are judged one by one",
            "text": f"{config.tokens_a_parameter:g} tokens a parameter of vanilla, at most one epoch; a size for which "
            "the text does not suffice is left out",
            "tuning": _tuning(config),
            "sizes": {str(width): _size(config, width) for width in config.widths},
            "papers": {name: asdict(sign(name)) for name in plans},
            "papers_worth": {name: {f"{at:g}": x for at, x in printed_worth(name).items()} for name in plans},
            "toy": {name: toy(plan) for name, plan in plans.items()},
            **names_of_own(config.own),
        }

    def measure(self, config: Config, seeds: int, run: RunFolder) -> Json:
        from experiments.training.text import text

        read = text(run.slot.data or config.data, config.vocab, config.held_out_windows)
        widths, left_out = _in_one_epoch(config, read)
        found: dict[str, Json] = {}
        rates: dict[int, dict[str, float]] = {}
        tuning: Json = {}
        records: list[Json] = []
        for width in widths:
            at = config.tuned_for(width)
            try:
                if at not in rates:
                    rates[at], table = tuned(_arms(config, read, at, 0), config.tuning, run, f"{self.name}, width {at}")
                    tuning = _with(tuning, table, at)
                here = _rates(config, read, width, rates[at])
                by_seed = rounds(partial(_round, config, read, width, here), seeds, run, f"{self.name}, width {width}")
            except Unfinished:
                if not found:
                    raise
                break
            found[str(width)] = {**_of_width(config, read, width, by_seed), "rates": here, "tuned_at": at}
            records += [record for r in by_seed for record in r.values()]
        return {
            "seeds": max(about["seeds"] for about in found.values()),
            "widths": found,
            "left_out": left_out,
            "tuning": tuning,
            "diverged": [record["diverged"] for record in records if record["diverged"]],
            "text": read.name,
            "provenance": of_runs(records),
        }

    def compare(self, prediction: Json, measurement: Json) -> Sequence[Judgement]:
        from experiments.across.text.verdicts import verdicts

        return list(verdicts(prediction, measurement, CLAIM, CRITICAL))

    def draw(self, prediction: Json, measurement: Json) -> Figure:
        from experiments.across.text.figure import draw

        return draw(prediction, measurement)


def _tuning(config: Config) -> str:
    said = config.tuning.described(each="variant")
    if not config.tuning.grid:
        return said
    return (
        f"{said}, at width {', '.join(map(str, config.tuned))}; at others the rates found there, times the parameters' "
        f"ratio to the power -{TRANSFER:g}: the best rate falls with compute to the power 1/8 (DeepSeek LLM, 2024, "
        "section 3.1), and compute is as the parameters' square"
    )


def _size(config: Config, width: int) -> Json:
    sizes, recipe = config.sizes(width, config.vocab), config.trained(width, config.vocab)
    return {
        "layers": sizes.n_layers,
        "parameters": config.parameters(width, config.vocab),
        "steps": recipe.steps,
        "tokens": config.tokens(recipe.steps),
    }


def _in_one_epoch(config: Config, read: Text) -> tuple[list[int], Json]:
    """The widths for which the text suffices, and why the others are left out.  Raises UserError if there is none."""
    from experiments.store.progress import warn

    needed = {width: config.tokens(config.trained(width, read.vocab).steps) for width in config.widths}
    context = config.architecture.context
    fits = [width for width, tokens in needed.items() if tokens <= (read.tokens - 1) // context * context]
    left_out = {
        str(width): f"width {width} needs {tokens:,} tokens, of which {read.name} has {read.tokens:,}"
        for width, tokens in needed.items()
        if width not in fits
    }
    for why in left_out.values():
        warn(f"left out: {why}; --data names more text")
    if not fits:
        raise UserError(f"there is too little text: {next(iter(left_out.values()))}")
    return fits, left_out


def _arms(config: Config, read: Text, width: int, seed: int) -> dict[str, Arm]:
    """By name, vanilla first."""
    sizes, recipe = config.sizes(width, read.vocab), config.trained(width, read.vocab)
    asked = {asked.name: asked for asked in config.own}

    def arm(name: str) -> Arm:
        fitted, plan = asked[name].on(sizes) if name in asked else (sizes, name)
        return Arm(
            architecture=fitted,
            variant=plan,
            source=read.source,
            recipe=recipe,
            seed=seed,
            label=name if name in asked else "",
        )

    return {name: arm(name) for name in (*config.variants, *asked)}


def _rates(config: Config, read: Text, width: int, found: Mapping[str, float]) -> dict[str, float]:
    """By variant, from what was found at the width that is tuned for this one."""
    if not config.tuning.grid:
        return dict(found)
    tuned, own = (config.parameters(w, read.vocab) for w in (config.tuned_for(width), width))
    return transferred(found, tuned, own)


def _round(config: Config, read: Text, width: int, rates: Mapping[str, float], seed: int) -> dict[str, Arm]:
    arms = _arms(config, read, width, seed)
    arms = {n: replace(a, recipe=replace(a.recipe, learning_rate=rates[n])) for n, a in arms.items()}
    return {**arms, TWIN: replace(arms[BASELINE], twin=True)}


def _with(tables: Json, table: Json, width: int) -> Json:
    """What was found of several widths, by variant and width."""
    if not table["tuned"]:
        return table
    by_cell = {key: {cell(name, width): x for name, x in table[key].items()} for key in ("losses", "best")}
    return {**table, **{key: {**tables.get(key, {}), **found} for key, found in by_cell.items()}}


def _of_width(config: Config, read: Text, width: int, rounds: Sequence[Mapping[str, Json]]) -> Json:
    """Losses by variant and seed; of held-out losses during training None where one diverged."""
    names = list(rounds[0])
    recipe = config.trained(width, read.vocab)
    whole = [record for r in rounds for record in r.values() if not record["diverged"]]
    steps = [int(step) for step, _ in whole[0]["evaluations"]] if whole else []

    def curve(record: Json) -> list[float] | None:
        return None if record["diverged"] else [round(loss, 6) for _, loss in record["evaluations"]]

    return {
        "seeds": len(rounds),
        "parameters": {name: rounds[0][name]["parameters"] for name in names},
        "tokens": config.tokens(recipe.steps),
        "epochs": max((record["epochs"] for record in whole), default=None),
        "loss": {name: [r[name]["loss"] for r in rounds] for name in names},
        "evaluated": [config.tokens(step) for step in steps],
        "held_out": {name: [curve(r[name]) for r in rounds] for name in names},
        "speed": {name: [r[name]["tokens_per_second"] for r in rounds] for name in names},
    }


EXPERIMENT: Experiment = LadderText()
