"""Ask of a trained vanilla model what ResFormer says of vanilla models: concentration, sinks, drains, nearness.

ResFormer's claims set two models side by side, and both were trained for it.  Here one model that others have trained
is looked at: of the claims this judges what they say of vanilla alone, on one model and one text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import fmean
from typing import TYPE_CHECKING

from experiments.across.reading.materials import Imported, Sizes, Small, Source, material
from experiments.drawing import style
from experiments.experiment.protocol import Experiment, Kind, Profile
from experiments.store.backends import Serial
from experiments.store.desk import Desk
from experiments.store.folders import Json, RunFolder
from experiments.store.work import results
from experiments.verdicts.checks import Expectation
from experiments.verdicts.intervals import Interval, t_interval

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from torch import Tensor

    from icl.models.decoder import Decoder

CONCENTRATION, SINKS = "resformer.concentration", "resformer.sinks"
NEARER, ADDED = "resformer.fig-3", "resformer.fig-6"
PAIR = 2  # sequences at a time: one lends the other its keys
ENTROPY, FIRST, VALUE, STATE = "entropy", "first", "value", "state"
FILLED, BLOCK, IDENTITY, SLOPE = "filled", "current", "identity", "slope"
QUANTITY = "difference in a mean over layers"
WORDS = {
    ENTROPY: "entropy (nats)",
    FIRST: "first token's importance",
    VALUE: "value",
    STATE: "state",
    BLOCK: "Eqn. (3)",
    IDENTITY: "Eqn. (6)",
}
PANELS = {  # by title, the label of the axis and what is drawn
    "Concentration": ("minus uniform attention's", (ENTROPY, FIRST)),
    "The first token": ("norm over the others' mean", (VALUE, STATE)),
    "Nearness": ("cosine with cross-layer attention", (BLOCK, IDENTITY)),
}


@dataclass(frozen=True, kw_only=True)
class Config:
    """Trained vanilla models, by name."""

    models: Mapping[str, Source]


def _judged(tokens: int) -> Sizes:
    return Sizes(advice=0, fitted=0, judged=tokens)


CPU = Config(
    models={"small": Small(heads=4, group=1, width=48, layers=6, context=128, steps=800, sizes=_judged(16_384))}
)
SMOKE = Config(models={"small": Small(heads=2, group=1, width=16, layers=3, context=32, steps=5, sizes=_judged(256))})
SMOLLM = Config(models={"SmolLM2-135M": Imported(folder="data/smollm", text="data/austen.txt", sizes=_judged(3072))})


@dataclass(frozen=True)
class Item:
    """A model, and the seed of its training."""

    source: Source
    seed: int


class TrainedLayers:
    name = "trained-layers"
    title = "What ResFormer says of vanilla models, on models that are trained already"
    caption = (
        "The first token is a sink with drained values and large states. By layer, means over held-out sequences: (a) "
        "entropy and first token's importance, minus uniform attention's; (b) norms of the first token's value and "
        "state over the others'; (c) cosines with cross-layer attention to the layer before. Intervals: 95 % over "
        "sequences, in (c) over pairs of them."
    )
    kind: Kind = "scale"
    claims: tuple[str, ...] = (CONCENTRATION, SINKS, NEARER, ADDED)
    profiles: Mapping[str, Profile] = {
        "smoke": Profile(config=SMOKE, seeds=2, seconds=6, detects=None),
        "cpu": Profile(config=CPU, seeds=3, seconds=220, detects="a difference of 0.1 in a mean over layers"),
        "smollm": Profile(config=SMOLLM, seeds=0, seconds=300, detects="a difference of 0.1 in a mean over layers"),
        "gpu": Profile(config=CPU, seeds=4, seconds=300, detects="a difference of 0.1 in a mean over layers"),
        "gpu-tiny": Profile(config=SMOKE, seeds=2, seconds=6, detects=None),
    }

    def predict(self, config: Config) -> Json:
        return {
            "assumes": "the trained vanilla model is one of those that the paper means",
            "source": "ResFormer, abstract, sections 3.2, 4.2 and 4.5, appendix A.2",
            "rule": "means over layers after the first lie on the predicted side, by their intervals over sequences",
            "models": list(config.models),
        }

    def measure(self, config: Config, seeds: int, run: RunFolder) -> Json:
        items = {
            f"{name}/{seed}": Item(source, seed)
            for name, source in config.models.items()
            for seed in range(max(1, seeds))
        }
        return results("run", items, partial(work, run=run), run=run, label=self.name, backend=Serial())

    def compare(self, prediction: Json, measurement: Json) -> Sequence[Expectation]:
        expectations = list[Expectation]()
        for name in prediction["models"]:
            lines = [line["sequences"] for key, line in measurement.items() if key.startswith(f"{name}/")]
            for part, (claim, statement, predicted, differences) in _questions(lines).items():
                interval = t_interval(differences)
                expectations.append(
                    Expectation.sampled(
                        interval,
                        replace(interval, mean=0.0),  # in which no sign may be seen
                        id=f"{part}/{name}",
                        group=statement,
                        claim=claim,
                        statement=f"{name}: {statement}",
                        rule="sign",
                        predicted=predicted,
                        quantity=QUANTITY,
                    )
                )
        return expectations

    def draw(self, prediction: Json, measurement: Json) -> Figure:
        fig, axes = style.figure(3, width=3.6, height=3.6)
        lines = {key: line for key, line in measurement.items() if key.split("/")[0] in prediction["models"]}
        for axis, (title, (label, parts)) in zip(axes, PANELS.items(), strict=True):
            for i, part in enumerate(parts):
                look: Json = {"color": ("#2f7fb8", "#d98a2b")[i], "marker": style.MARKERS[i], "markersize": 5}
                start = 2 if part in (BLOCK, IDENTITY) else 1
                for k, line in enumerate(lines.values()):
                    means, widths = line["layers"][part], line["half_widths"][part]
                    intervals = [Interval(mean, 0.0, width) for mean, width in zip(means, widths, strict=True)]
                    places = range(start, start + len(means))
                    style.bars(axis, places, intervals, label=None if k else WORDS[part], **look)
            axis.set_title(title)
            axis.set_xlabel("layer")
            axis.set_ylabel(label)
        axes[1].set_yscale("log")
        style.finish(axes)
        return fig


def _questions(lines: Sequence[Json]) -> dict[str, tuple[str, str, float, list[float]]]:
    """Return by part: the claim, what it says of vanilla, the sign that follows, and a number for every sequence."""

    def mean(part: str) -> list[float]:
        return [x for line in lines for x in line[part]]

    return {
        ENTROPY: (CONCENTRATION, "attention is more concentrated than uniform attention", -1.0, mean(ENTROPY)),
        FIRST: (SINKS, "the first token gets more attention than from uniform attention", 1.0, mean(FIRST)),
        VALUE: (SINKS, "the first token's values are shorter than the others'", -1.0, [x - 1 for x in mean(VALUE)]),
        STATE: (SINKS, "the first token's states are longer than the others'", 1.0, [x - 1 for x in mean(STATE)]),
        BLOCK: (
            NEARER,
            "Eqn. (3) is nearer to cross-layer attention than Eqn. (6)",
            1.0,
            [a - b for a, b in zip(mean(BLOCK), mean(IDENTITY), strict=True)],
        ),
        SLOPE: (ADDED, "the loss falls as layer 1's values are added to all layers", -1.0, mean(SLOPE)),
    }


def work(item: Item, _: Desk, run: RunFolder) -> Json:
    """Return means by layer over all sequences, with their intervals, and for every sequence means over layers."""
    given = material(item.source, seed=item.seed, run=run)
    pairs = given.judged[: len(given.judged) // PAIR * PAIR].split(PAIR)
    losses = list[float]()
    each: dict[str, list[list[float]]] = {}  # by part, a row of layers for every sequence, or every pair
    for rows in pairs:
        for part, values in by_layer(given.model, rows[:, :-1]).items():
            each.setdefault(part, []).extend(values)
        loss, added = slopes(given.model, rows)
        each.setdefault(SLOPE, []).extend(added)
        losses += loss
    intervals = {part: [t_interval(x) for x in zip(*rows, strict=True)] for part, rows in each.items()}
    layers = {part: [interval.mean for interval in row] for part, row in intervals.items()}
    half_widths = {part: [interval.half_width for interval in row] for part, row in intervals.items()}
    sequences = {part: [_over_layers(part, row) for row in rows] for part, rows in each.items()}
    return {"layers": layers, "half_widths": half_widths, "sequences": sequences, "loss": fmean(losses)}


def _over_layers(part: str, row: list[float]) -> float:
    """Return the mean over layers after the first; the sum of slopes, as one weight moves in all layers."""
    if part == SLOPE:
        return sum(row)
    return fmean(row if part in (BLOCK, IDENTITY) else row[1:])


def by_layer(model: Decoder, inputs: Tensor) -> dict[str, list[list[float]]]:
    """Return measures of every layer, for each sequence; cosines for all sequences together, from layer 2 on."""
    import numpy as np
    import torch

    from icl.probes import attention, states
    from icl.probes.cross_layer import cosines
    from icl.probes.recording import Attended, observed
    from theory.resformer import measures

    uniform = measures.uniform_causal_importance(inputs.shape[1])
    parts: dict[str, list[Tensor]] = {name: [] for name in (ENTROPY, FIRST, VALUE, FILLED, STATE)}
    near: dict[str, list[float]] = {BLOCK: [], IDENTITY: []}
    before: list[tuple[Tensor, Tensor]] = []

    def ratio(norms: Tensor) -> Tensor:
        return norms[:, 0] / norms[:, 1:].mean(1)

    def see(at: Attended) -> None:
        each = attention.importance(at).mean(1)
        parts[ENTROPY].append(attention.entropy(each) - measures.entropy(np.asarray(uniform)))
        parts[FIRST].append(each[:, 0] - float(uniform[0]))
        parts[VALUE].append(ratio(attention.value_norms(at.values)))
        sizes = attention.value_spectrum(at.values)
        parts[FILLED].append(sizes.sum(-1).square() / sizes.square().sum(-1))
        if before:
            cosine_of = cosines(at, *before.pop())
            for name in near:
                near[name].append(cosine_of[name])
        before.append((at.keys[0], at.values[0]))

    observed(model, inputs, attention=see, state=lambda x: parts[STATE].append(ratio(states.state_norms(x))))
    each = {name: torch.stack(rows, dim=1).tolist() for name, rows in parts.items()}
    return {**each, **{name: [row] for name, row in near.items()}}


def slopes(model: Decoder, rows: Tensor) -> tuple[list[float], list[list[float]]]:
    """Return the loss of each sequence, and d loss / d lambda at 0 of every layer after the first.

    Layer n attends over V_n + lambda V_1 (`resformer-learned`, which begins as the trained function).
    """
    import torch
    from torch.nn.functional import cross_entropy

    from icl.conversion import convert

    mixed = convert(model, "resformer-learned", "first", shared=True)
    weights = [mixed.learned[f"w_first_{n}"] for n in range(2, model.config.n_layers + 1)]
    frozen = [p for p in mixed.parameters() if p.requires_grad and not any(p is w for w in weights)]
    losses, gradients = list[float](), list[list[float]]()
    try:
        for parameter in frozen:
            parameter.requires_grad_(False)
        for row in rows:
            loss = cross_entropy(mixed(row[None, :-1])[0], row[1:])
            losses.append(float(loss.detach()))
            gradients.append([float(g) for g in torch.autograd.grad(loss, weights)])
    finally:
        for parameter in frozen:
            parameter.requires_grad_(True)
    return losses, gradients


EXPERIMENT: Experiment = TrainedLayers()
