"""Section 4 of Dynamic Value Attention, with Table 2's columns, and what its comparison lacks.

The paper trains model a (GPT-2) and a smaller model b (one dynamic head a layer and nothing else), one run each.  Here
both are trained on the same batches under paired seeds, each at a learning rate of its own and at the other's, and
beside them the ten models that lie between the two (`factors`), model b's gate alone, and GPT-2s with as many
parameters, or FLOPs, as model b.  So the difference comes apart into what one head, the missing feed-forward, the
missing output projection and dynamic values change.  A second training of both, at learning rates of their own for it,
reads a part of the text five times, as the paper's did with all of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from experiments.dva.against_gpt2.factors import MODEL_B
from experiments.dva.against_gpt2.points import (
    AT_ANOTHER_S_RATE,
    FEED_FORWARD,
    GATES,
    LEARNING,
    ONE_HEAD,
    PAIRS,
    TIME,
    TOLD,
    WORDS,
    Config,
    cost,
)
from experiments.dva.against_gpt2.profiles import PROFILES
from experiments.dva.tables import SECONDS
from experiments.experiment.protocol import Experiment, Kind, Profile
from experiments.store.folders import Json
from experiments.training.arms import Arm
from experiments.training.campaign import BASELINE, TWIN, of_runs, rounds
from experiments.training.tuning import tuned
from experiments.verdicts.checks import Judgement
from theory.plans.accounting import total_parameters
from theory.plans.architecture import Architecture

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from experiments.store.folders import RunFolder


AT_START = "held_out"  # the probe of a model before it is trained


class AgainstGPT2:
    name = "dva-against-gpt2"
    title = "Dynamic Value Attention against GPT-2: Table 2, matched, and taken apart"
    caption = (
        "(a) Losses of models a and b over one reading, both at model a's learning rate. (b) Model b less model a, "
        "change by change; cross: the paper's; other weights are no effect. (c) A small text read repeatedly. (d) "
        "Pairs the paper compares, and matched models. Bands: two standard errors; intervals: 95 % over paired seeds, "
        "family-wise."
    )
    kind: Kind = "scale"
    claims: tuple[str, ...] = (LEARNING, TIME, ONE_HEAD, FEED_FORWARD, GATES)
    profiles: Mapping[str, Profile] = PROFILES

    def architectures(self, config: Config) -> Sequence[Architecture]:
        return [config.architecture]

    def predict(self, config: Config) -> Json:
        models = config.models(config.vocab)
        flops = {name: cost(*model) for name, model in models.items()}
        return {
            "assumes": "that what the paper says of 162M and 113M parameters on a novel, one run each, holds at this "
            "size, on this text",
            "source": "Dynamic Value Attention, sections 2 to 6 and Table 2; FLOPs by theory.plans.accounting",
            "statistic": "held-out loss in nats a token at the last step, its mean paired difference to another "
            "model's; over a training: the mean difference of held-out losses at the same steps after the start, the "
            "logarithm of the ratio of standard deviations of second differences of the training loss (roughness) "
            "after a fifth of the steps, each model at its own learning rate and both at either's, and that of the "
            "ratio of times; of a part of the difference: the mean, over all orders in which model b can be made of "
            "model a, of what it changes, all models at learning rates of their own",
            "rule": "the 95 % interval, for all pairs shown at once, lies on the predicted side of zero, and that of "
            "model a to a twin with other initial weights does not; where a part is called redundant, what has it ends "
            "no lower, by the same interval, than what has not, less 0.02 (before the first run, within 0.02: a rule "
            "that called a gain from leaving it out a contradiction)",
            "tuning": config.tuning.described(),
            "parameters": {name: total_parameters(*model) for name, model in models.items()},
            "flops": flops,
            "inner": {name: model[0].d_ff for name, model in models.items()},
            "layers": {name: model[0].n_layers for name, model in models.items()},
            "compared": [asdict(pair) for pair in PAIRS],
            "similar": 0.02,
            "smoother": -1.0,
            "faster": {"paper": SECONDS["b"] / SECONDS["a"], "flops": flops[MODEL_B] / flops[BASELINE]},
            "overfits": 1.0,
        }

    def measure(self, config: Config, seeds: int, run: RunFolder) -> Json:
        from experiments.training.text import text

        read = text(run.slot.data or config.data, config.vocab, config.held_out_windows)
        tried = {name: arm for name, arm in config.arms(read.source, read.vocab, 0).items() if name != TWIN}
        tried |= config.read_again(read.source, read.vocab, 0)
        rates, tuning = tuned(tried, config.tuning, run, self.name)
        rates[TWIN] = rates[BASELINE]

        def of_seed(seed: int) -> dict[str, Arm]:
            arms = config.arms(read.source, read.vocab, seed)
            arms |= {name: replace(arms[model], label=name) for name, (model, _) in AT_ANOTHER_S_RATE.items()}
            arms |= {name: replace(arms[name], probes=(AT_START,)) for name in (BASELINE, MODEL_B)}
            arms |= config.read_again(read.source, read.vocab, seed)
            at = {**rates, **{name: rates[whose] for name, (_, whose) in AT_ANOTHER_S_RATE.items()}}
            return {n: replace(a, recipe=replace(a.recipe, learning_rate=at[n])) for n, a in arms.items()}

        by_seed = rounds(of_seed, seeds, run, self.name)
        records = [record for r in by_seed for record in r.values()]
        return {
            "seeds": len(by_seed),
            "tuning": tuning,
            "loss": {name: [r[name]["loss"] for r in by_seed] for name in WORDS},
            "curves": {name: [_curves(r[name]) for r in by_seed] for name in TOLD},
            "start": {
                name: [r[name]["probes"][AT_START]["start"]["loss"] for r in by_seed] for name in (BASELINE, MODEL_B)
            },
            "again": {name: [_curves(r[f"again/{name}"]) for r in by_seed] for name in (BASELINE, MODEL_B)},
            "epochs": by_seed[0][f"again/{BASELINE}"]["epochs"],
            "tokens_per_second": {name: [r[name]["tokens_per_second"] for r in by_seed] for name in TOLD},
            "parameters": {name: by_seed[0][name]["parameters"] for name in WORDS},
            "diverged": [record["diverged"] for record in records if record["diverged"]],
            "text": read.name,
            "provenance": of_runs(records),
        }

    def compare(self, prediction: Json, measurement: Json) -> Sequence[Judgement]:
        from experiments.dva.against_gpt2.verdicts import verdicts

        return list(verdicts(prediction, measurement))

    def table(self, measurement: Json) -> str:
        from experiments.dva.against_gpt2.parts_table import table

        return table(measurement)

    def draw(self, prediction: Json, measurement: Json) -> Figure:
        from experiments.dva.against_gpt2.figure import draw

        return draw(prediction, measurement)


def _curves(record: Json) -> Json | None:
    """Training loss, means over log lines, and held-out loss, both by step; None if it diverged."""
    if record["diverged"]:
        return None
    rounded = {kind: [[step, round(x, 5)] for step, x in record[kind]] for kind in ("curve", "evaluations")}
    return {"training": rounded["curve"], "held_out": rounded["evaluations"]}


EXPERIMENT: Experiment = AgainstGPT2()
