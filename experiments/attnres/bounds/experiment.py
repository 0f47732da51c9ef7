"""Ask how large reads get with depth: PreNorm and Attention Residuals, predicted, bounded and measured.

At the start the mean square of every read has a closed form (`theory.attnres.initial`).  The largest that any network
can reach has another one, which explicit networks attain (`theory.attnres.growth`).  Both need what one sublayer can
put out (`theory.attnres.sublayers`, `.quartic`, `.typical`), and those bounds are held against random inputs and inputs
that ascents have made as bad as they get.  What a trained network does none of them says; that is measured.

The exponents of trained networks depend on how they are trained, and these settings were not the first.  All that was
run, of the largest read's power minus PreNorm's, family-wise 95 %; all but the first by intervals that took the errors
of all rules to be equal:
    2 to 8 layers, 100 steps     Full -0.97 +- 0.64, blocks of 4 undecided, -0.81 +- 1.06: `cpu`, as committed; with
                                 earlier code -0.96 and -0.80 +- 0.71, -0.98 and -0.82 +- 0.63, -1.04 and -0.84 +- 0.56
    2 to 8 layers, 150 steps     Full -0.82 +- 0.74; blocks undecided
    3 to 12 layers, 300 steps    both undecided
    text, 3 to 24, 100 steps     Full's own power was 0.95: it grew nearly in proportion to the depth
So that Full grows by less than PreNorm is seen at the first of these two lengths alone, and that trained magnitudes
stay bounded in practice is not shown.  `full`, which should decide, has not been run.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from experiments.attnres.bounds import figure
from experiments.attnres.bounds.measurement import (
    KINDS,
    PRESET_STD,
    RULES,
    SHARPENED,
    STARTS,
    TRAINED,
    Config,
    at_start,
    attained,
    attaining,
    cell,
    one_layer,
    shares,
    slopes,
    trained,
    untrained,
)
from experiments.experiment.protocol import Experiment, Kind, Profile
from experiments.store.folders import Json, RunFolder
from experiments.training.campaign import BASELINE, TWIN, expected
from experiments.training.tuning import Tuning
from experiments.verdicts.checks import Check, Expectation, Judgement
from experiments.verdicts.intervals import against_baseline, t_interval
from icl.recipe import Recipe
from theory.attnres.growth import largest_read, typical_read
from theory.attnres.initial import initial_outputs, initial_reads
from theory.attnres.initial_tokens import token_reads
from theory.attnres.typical import attention_square, feed_forward_square
from theory.plans.architecture import Architecture, Vectors
from theory.plans.names import resolve
from theory.plans.presets import llama
from theory.plans.setting import Setting

if TYPE_CHECKING:
    from matplotlib.figure import Figure

GROWTH, INITIAL, TYPICAL, BOUNDED = (
    "attnres.growth",
    "attnres.initial-size",
    "attnres.typical-output",
    "attnres.bounded",
)
OUTPUT = dict(
    zip(KINDS, ("attnres.attention-output", "attnres.swiglu-quartic", "attnres.feed-forward-output"), strict=True)
)
ATTAINED = 1e-4  # of a law: queries and gates are long, not infinite
ROUNDING = 1e-9  # of float64 norms

RECIPE = Recipe(steps=100, batch=16, learning_rate=4e-3, log_every=10)
TASK = Setting(4, 8, 0.1)
CPU = Config(
    sizes=llama(d_model=32, n_heads=4, n_layers=1, d_ff=85, vocab=16, context=2),
    depths=(3, 6, 12, 24, 48),
    std=32**-0.5,
    preset=replace(llama(d_model=512, n_heads=8, n_layers=8, d_ff=1376, vocab=64, context=16), norm_eps=0.0),
    tokens=16,
    widths=(16, 64),
    random=10_000,
    ascents=200,
    steps=100,
    trained=Architecture(d_model=32, n_layers=1, n_heads=2, d_ff=85, context=2 * TASK.n + 1, stem=Vectors(TASK.d)),
    trained_depths=(2, 4, 8),
    trained_seeds=4,
    recipe=RECIPE,
    task=TASK,
    held_out_prompts=64,
)
PROFILES = {
    "smoke": Profile(
        config=replace(
            CPU,
            depths=(1, 4),
            preset=replace(llama(d_model=256, n_heads=4, n_layers=2, d_ff=512, vocab=16, context=4), norm_eps=0.0),
            widths=(8,),
            random=100,
            ascents=10,
            steps=10,
            trained_depths=(1, 2),
            trained_seeds=2,
            recipe=replace(RECIPE, steps=10),
        ),
        seeds=8,
        seconds=25,
        detects="30 % of a mean square",
    ),
    "cpu": Profile(
        config=CPU,
        seeds=12,
        seconds=110,
        detects="10 % of a mean square, and about one power of the depth, in narrow and briefly trained networks",
    ),
    "full": Profile(
        config=replace(CPU, trained_depths=(3, 6, 12, 24), trained_seeds=8, recipe=replace(RECIPE, steps=300)),
        seeds=64,
        seconds=2400,
        detects="5 % of a mean square, and 0.2 of a power of the depth, in narrow networks",
    ),
}


class Bounds:
    name = "attnres-bounds"
    title = "What is read over depth: predicted, bounded and measured, at the start and trained"
    caption = (
        "With norms before sublayers, Full AttnRes does not grow with depth. (a) The last read at initial weights: "
        "closed forms (thick), bounds (thin), measured (markers). (b) The same in the worst networks, which attain "
        "the bounds. (c) One sublayer's output over its bound. (d) Trained networks under their bounds; legend: "
        "powers of the depth. 95 % over weights or seeds."
    )
    kind: Kind = "theory"
    claims: tuple[str, ...] = (GROWTH, INITIAL, TYPICAL, *OUTPUT.values(), BOUNDED)
    profiles: Mapping[str, Profile] = PROFILES

    def architectures(self, config: Config) -> Sequence[Architecture]:
        return [at_start(config, depth) for depth in config.depths]

    def predict(self, config: Config) -> Json:
        return {
            "assumes": "at the start: normal weights, eps = 0, zero queries, one token alone, or, as a preset is "
            "started (LLaMA-60M's sizes, std 0.02, outputs scaled by depth), 16 different tokens; the largest: outputs "
            "of norm 1, one softmax over depth; of sublayers: normed inputs",
            "source": "theory.attnres.initial, .initial_tokens, .growth, .typical, .sublayers, .quartic",
            "statistic": "norms of what is read, root mean square over tokens and weights; exponents of the largest "
            "one over the number of layers",
            "rule": "closed forms lie in the family-wise 95 % interval over initial weights, laws are attained to "
            "1 in 10,000, no input exceeds a bound; of trained networks: the exponent is less than PreNorm's, by a "
            "family-wise 95 % interval, and that of a twin of PreNorm is not",
            "tuning": Tuning().described(),
            "depths": list(config.depths),
            "widths": list(config.widths),
            "trained_width": config.trained.d_model,
            "trained_depths": list(config.trained_depths),
            **predicted_reads(config),
            "preset": predicted_preset(config.preset),
            "typical": {
                f"{kind}/{width}": typical_square(kind, one_layer(width)) for width in config.widths for kind in KINDS
            },
        }

    def measure(self, config: Config, seeds: int, run: RunFolder) -> Json:
        by_arm = trained(config, run)
        return {"seeds": seeds, **untrained(config, seeds, run), "attained": attained(config), **by_arm}

    def compare(self, prediction: Json, measurement: Json) -> Sequence[Judgement]:
        return [
            *(check for kind in STARTS for check in start_checks(kind, prediction, measurement)),
            *preset_checks(prediction["preset"], measurement["preset"]),
            *worst_checks(prediction["largest"], measurement["attained"]),
            *sublayer_checks(prediction["typical"], measurement["sharp"]),
            *sharpened_checks(prediction["trained_width"], measurement),
            *exponents(prediction, measurement),
        ]

    def draw(self, prediction: Json, measurement: Json) -> Figure:
        return figure.draw(prediction, measurement)


def predicted_reads(config: Config) -> Json:
    """Return what theory says of last reads, by cell.

    Returns:
        start, scaled: mean squares at initial weights, outputs as all else and scaled by depth.
        largest: the norm in the worst network.
        uncorrelated: the norm with uncorrelated outputs at zero queries.
    """
    reads: Json = {kind: {} for kind in (*STARTS, "largest", "uncorrelated")}
    for rule in RULES:
        for depth in config.depths:
            name, sizes, worst = cell(rule, depth), at_start(config, depth), attaining(depth)
            plan = resolve(rule, sizes.shape)
            for kind, scale in STARTS.items():
                reads[kind][name] = initial_reads(sizes, plan, config.std, scale_outputs=scale)[-1]
            plan = resolve(rule, worst.shape)
            outputs = worst.sublayers(plan)
            reads["largest"][name] = float(largest_read(plan.depth, outputs, 1.0, output=1.0))
            reads["uncorrelated"][name] = typical_read(plan.depth, outputs, 1.0, output=1.0)
    return reads


def predicted_preset(sizes: Architecture) -> Json:
    """Return what theory says of the last read as a preset starts.

    Returns:
        squares: mean squares by place in the prompt.
        lone, unscaled: a lone token's, outputs scaled by depth and not.
        unrelated: by place, were tokens to stay unrelated.
        uneven: what the recursion leaves out adds at most, in parts of the whole.
    """
    plan, tokens = resolve(BASELINE, sizes.shape), range(1, sizes.context + 1)
    embedding, *outputs = initial_outputs(sizes, plan, PRESET_STD)
    attention, others = sum(outputs[::2]), embedding + sum(outputs[1::2])
    return {
        "squares": token_reads(sizes, plan, len(tokens), std=PRESET_STD)[-1].tolist(),
        "lone": initial_reads(sizes, plan, PRESET_STD)[-1],
        "unscaled": initial_reads(sizes, plan, PRESET_STD, scale_outputs=False)[-1],
        "unrelated": [others + attention / t for t in tokens],
        "uneven": (sizes.d_model * PRESET_STD**2) ** 2,
    }


def typical_square(kind: str, layer: Architecture) -> float:
    """Return the mean square of a sublayer's output."""
    width, std = layer.d_model, 1 / math.sqrt(layer.d_model)
    if kind == "attention":
        return attention_square(width, layer.n_heads, layer.width, std=std, written=std, share=1.0)
    return feed_forward_square(width, layer.d_ff, std, written=std, kind="swiglu" if kind == "SwiGLU" else "gelu")


def start_checks(kind: str, prediction: Json, measurement: Json) -> Iterator[Check]:
    """Yield the last read's mean square over the closed form: PreNorm's, once for all rules, and theirs over it."""
    closed_form, squares, depths = prediction[kind], measurement[kind], prediction["depths"]
    (other,) = STARTS.keys() - {kind}
    words = f"at the start, outputs {'as all else' if kind == 'start' else 'scaled by depth'}"
    for depth in depths:
        name = cell(BASELINE, depth)
        yield Check.sampled(
            t_interval([x / closed_form[name] for x in squares[name]], len(STARTS) * len(depths)),
            id=f"{kind}/{depth}",
            group=f"{words}: mean square of the last read over the closed form",
            claim=INITIAL,
            statement=f"at {depth} layers of initial weights the last read is as large as said, all rules alike",
            predicted=1.0,
            controls=(prediction[other][name] / closed_form[name],),
            quantity="mean square over the closed form",
        )
    ratios = []  # of a rule's mean square to PreNorm's with the same weights, over the law; and the law
    for rule in list(RULES)[1:]:
        for depth in depths:
            name, prenorm = cell(rule, depth), cell(BASELINE, depth)
            law = closed_form[name] / closed_form[prenorm]
            ratios += [(x / y / law, law) for x, y in zip(squares[name], squares[prenorm], strict=True)]
    yield Check.exact(
        id=f"{kind}/alike",
        group=f"{words}: mean square of the last read over PreNorm's, over the square of the number of sources",
        claim=INITIAL,
        statement="every rule's last read is PreNorm's divided by the number of its sources, whatever the weights",
        predicted=1.0,
        measured=max((ratio for ratio, _ in ratios), key=lambda ratio: abs(ratio - 1)),
        controls=(min(1 / math.sqrt(law) for _, law in ratios),),  # a mean square divided as a norm
        slack=ROUNDING,
        quantity="mean square over the closed form",
    )


def preset_checks(prediction: Json, by_seed: Sequence[Sequence[float]]) -> Iterator[Check]:
    """Yield the last read as a preset starts, at every power of two of places; the first token stands alone."""
    squares = prediction["squares"]
    places = [2**i for i in range(len(squares).bit_length())]
    for place in places:
        square, first = squares[place - 1], place == 1
        slack = 0.0 if first else prediction["uneven"]
        # Outputs that are not scaled by depth; else tokens that stand alone, or stay unrelated.
        wrong = [prediction["unscaled"]] if first else [prediction["lone"], prediction["unrelated"][place - 1]]
        yield Check.sampled(
            t_interval([by_place[place - 1] / square for by_place in by_seed], len(places)),
            id=f"preset/{place}",
            group="at a preset's start: mean square of the last read over theory, by place",
            claim=INITIAL,
            statement=f"at a preset's start the last read at place {place} is as large as said",
            predicted=1.0,
            controls=tuple(other / square for other in wrong),
            slack=slack,
            quantity="mean square over theory's",
        )


def worst_checks(laws: Mapping[str, float], norms: Mapping[str, float]) -> Iterator[Check]:
    """Yield whether the worst networks attain the largest read."""
    for name, law in laws.items():
        rule, depth = name.rsplit("/", 1)
        others = {laws[cell(other, int(depth))] for other in RULES} - {law}
        yield Check.exact(
            id=f"attained/{name}",
            group=f"{RULES[rule]}: the worst network's last read over its law",
            claim=GROWTH,
            statement=f"at {depth} layers a network attains the largest read of {RULES[rule]}",
            predicted=1.0,
            measured=norms[name] / law,
            controls=tuple(sorted(other / law for other in others)),  # other rules' laws
            slack=ATTAINED,
            quantity="norm over the law",
        )


def sublayer_checks(typical: Mapping[str, float], sharp: Json) -> Iterator[Check]:
    """Yield the outputs of sublayers: the largest against the bound, the typical one against the closed form."""
    for name, square in typical.items():
        kind, width = name.split("/")
        yield within_bound(
            f"bound/{name}",
            group=kind,
            kind=kind,
            statement=f"no input of width {width} makes the output of {kind} larger than its bound",
            largest=max(max(x["largest"], x["random"]) / x["bound"] for x in sharp[name]),
            width=int(width),
        )
        yield Check.sampled(
            t_interval([x["typical"] ** 2 / square for x in sharp[name]], len(typical)),
            id=f"typical/{name}",
            group=f"{kind}: mean square of the output over the closed form",
            claim=TYPICAL,
            statement=f"at width {width} the output of {kind} is typically as large as said",
            predicted=1.0,
            controls=(1 / float(width),),  # the same mistake
            quantity="mean square over the closed form",
        )


def sharpened_checks(width: int, measurement: Json) -> Iterator[Check]:
    """Yield the largest output over its bound of networks that are trained, before and after."""
    times = {"start": "of networks before they are trained", "end": "of trained networks"}
    for rule, when, kind in ((rule, when, kind) for rule in SHARPENED for when in times for kind in KINDS[:2]):
        ratios = [
            x for layers in shares(measurement, rule, when, kind=kind, norms=("largest", "random")) for x in layers
        ]
        if ratios:
            yield within_bound(
                f"{when}/{rule}/{kind}",
                group=f"sublayers {times[when]}",
                kind=kind,
                statement=f"{times[when]}, no input makes the output of {RULES[rule]}'s {kind} larger than its bound",
                largest=max(ratios),
                width=width,
            )


def within_bound(name: str, *, group: str, kind: str, statement: str, largest: float, width: int) -> Check:
    """Check the largest output of a sublayer, over its bound."""
    return Check.exact(
        id=name,
        group=f"{group}: largest output found over its bound",
        claim=OUTPUT[kind],
        statement=statement,
        predicted=1.0,
        measured=largest,
        controls=(width**-0.5,),  # a bound that takes a normed vector's length for 1
        relation="at most",
        slack=ROUNDING,
        quantity="norm over its bound",
    )


def exponents(prediction: Json, measurement: Json) -> Iterator[Expectation]:
    """Yield, of trained networks, the largest read as a power of the number of layers, minus PreNorm's."""
    values = {rule: slopes(prediction, measurement, rule) for rule in (*TRAINED, TWIN)}
    intervals = against_baseline(values.pop(BASELINE), values)
    twin = intervals.pop(TWIN)
    for rule, interval in intervals.items():
        yield expected(
            name=f"exponent/{rule}",
            group="trained: exponent of the largest read over depth, minus PreNorm's",
            claim=BOUNDED,
            statement=f"trained, the largest read of {RULES[rule]} grows with depth by a smaller power than PreNorm's",
            rule="sign",
            predicted=-1.0,
            measured=interval,
            twin=twin,
            quantity="difference of exponents",
        )


EXPERIMENT: Experiment = Bounds()
