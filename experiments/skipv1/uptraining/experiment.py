"""Uptraining: what trained MHA costs and saves as SkipV1Former (section 5.1, figures 8 and 10), paired and tuned.

MHA and SkipV1Former are trained from scratch.  What MHA has learned is then made into SkipV1Former, by all ways there
are, and into other variants, and trained on for a share of the tokens; so is MHA itself, which is what shows whether
conversion gains anything: more tokens lower any loss.  Two profiles do so with grouped queries and with a latent
(section 5.2), by the ways that have a meaning there.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from experiments.drawing import style
from experiments.experiment.protocol import Experiment, Kind, Profile
from experiments.skipv1.uptraining.training import (
    CONTINUED,
    CONTINUED_TWIN,
    FORMS,
    MEAN,
    MHA,
    PRINTED,
    REORDERED,
    SKIPV1,
    SPLIT,
    WAYS,
    WHOLE,
    Config,
    train,
)
from experiments.store.folders import Json, RunFolder
from experiments.training.campaign import BASELINE, TWIN, expected
from experiments.training.tuning import Tuning, apart_on_the_way, mark, other_rates, tuned_rates
from experiments.verdicts.checks import Expectation, Judgement
from experiments.verdicts.intervals import Interval, paired_differences, t_interval
from icl.recipe import SCHEDULES, Recipe
from theory.plans.architecture import Architecture
from theory.plans.names import gqa, mla
from theory.plans.presets import llama
from theory.skipv1.conversion import DISTANCES, distance

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

UPTRAINING, FIRST, DISTANCE = "skipv1.uptraining", "skipv1.conversion-first-loss", "skipv1.conversion-distance"
PAPER, THEORY, ALGEBRA = "the paper", "independent heads", "algebra"
BEGINS = "difference of first held-out losses, nats per token"
ENDS = "difference of held-out losses at the end, nats per token"
ALIKE = 1e-3  # nats within which two first losses are the same: rounding, of norms' eps too, is far below
NO_EPS = 1e-12  # of norms: depth attention with zero queries is then PreNorm
SHARE = 0.15  # of the tokens from scratch, the most that the paper names; up to whole evaluations


def _sizes(**sizes: int) -> Architecture:
    return replace(llama(**sizes), norm_eps=NO_EPS)


_RECIPE = Recipe(
    **{**SCHEDULES["skipv1-llama"].settings, "steps": 1300, "batch": 8, "learning_rate": 8e-3, "clip": 1.0},
    log_every=20,
)
_SMALL = Config(
    architecture=_sizes(d_model=48, n_heads=8, n_layers=3, d_ff=132, vocab=512, context=128),
    recipe=_RECIPE,
    share=SHARE,
    tuning=Tuning(grid=(4e-3, 8e-3, 1.6e-2), share=1.0, widenings=1),
    uptuning=Tuning(grid=(1e-3, 2e-3, 4e-3, 8e-3), share=1.0, widenings=2),
    data="stdlib",
    vocab=512,
    held_out_windows=256,
    evaluations=10,
)
_GROUPED = replace(_SMALL, architecture=gqa(_SMALL.architecture), chosen=FORMS)
_LATENT = replace(_SMALL, architecture=mla(_SMALL.architecture, width=16, rope=4), chosen=FORMS)
_LONG = replace(  # 20 tokens a parameter
    _SMALL,
    architecture=_sizes(d_model=64, n_heads=8, n_layers=4, d_ff=176, vocab=512, context=128),
    recipe=replace(_RECIPE, steps=2700, batch=16),
    tuning=Tuning(grid=(2e-3, 4e-3, 8e-3, 1.6e-2), share=1.0, widenings=2),
)
_TINY = replace(
    _SMALL,
    architecture=_sizes(d_model=16, n_heads=4, n_layers=2, d_ff=44, vocab=512, context=32),
    recipe=replace(_RECIPE, steps=20, log_every=10),
    tuning=Tuning(),
    uptuning=Tuning(),
    held_out_windows=16,
    evaluations=3,
)
_ON_GPU = replace(_RECIPE, batch=64, precision="bf16", compile=True, steps=4800)
_LARGE = replace(
    _LONG,
    architecture=_sizes(d_model=256, n_heads=8, n_layers=8, d_ff=704, vocab=4096, context=256),
    vocab=4096,
    recipe=_ON_GPU,
    tuning=Tuning(grid=(1e-3, 2e-3, 4e-3), share=1.0, widenings=1),
    uptuning=Tuning(grid=(2.5e-4, 5e-4, 1e-3, 2e-3), share=1.0, widenings=1),
)
_TINY_ON_GPU = replace(  # the gpu profile's path with tiny models
    _TINY,
    recipe=replace(_ON_GPU, steps=20, batch=8, log_every=10),
    uptuning=Tuning(grid=(1e-3, 4e-3), share=1.0, widenings=0),
)
_SMALLEST = "in models of 0.13 million parameters on a half of their tokens"
_LONG_ENOUGH = "about 0.01 nats per token at the end and 0.2 at first, in models of 0.27 million parameters"
_ON_8M = "about 0.01 nats per token at the end, in models of 8 million parameters"
_FORM: Json = {"seeds": 3, "seconds": 800, "grows": True}
_GPU: Json = {"grows": True, "device": "cuda", "on_gpu": 2}
PROFILES = {
    "smoke": Profile(config=_TINY, seeds=2, seconds=15, detects=None),
    "cpu": Profile(
        config=_SMALL, seeds=8, seconds=3200, detects=f"0.02 nats per token at the end and 0.1 at first, {_SMALLEST}"
    ),
    "grouped": Profile(
        config=_GROUPED, detects=f"0.2 nats per token at the end and 0.3 at first, {_SMALLEST}", **_FORM
    ),
    "latent": Profile(config=_LATENT, detects=f"0.05 nats per token at the end and 0.6 at first, {_SMALLEST}", **_FORM),
    "long": Profile(config=_LONG, seeds=3, seconds=9000, detects=_LONG_ENOUGH, grows=True),
    "gpu": Profile(config=_LARGE, seeds=3, seconds=9000, detects=_ON_8M, **_GPU),
    "gpu-tiny": Profile(config=_TINY_ON_GPU, seeds=2, seconds=150, detects=None, grows=True),
}


class Uptraining:
    name = "scale-uptrain"
    title = "Uptraining: trained MHA made into SkipV1Former and others, and trained on"
    caption = (
        "(a) What each conversion of MHA adds to layer 2's attention; blue: independent heads. (b) First losses "
        "minus MHA's. (c) Losses while trained on, at MHA's (thick) rate; at another the beginning and end only; "
        "bands: the difference to MHA. (d) The end. 95 % over paired seeds, in (d) for all of one beginning."
    )
    kind: Kind = "scale"
    claims: tuple[str, ...] = (UPTRAINING, FIRST, DISTANCE)
    profiles: Mapping[str, Profile] = PROFILES

    def predict(self, config: Config) -> Json:
        sizes = config.architecture
        heads = sizes.kv_heads  # with its part of the output projection, for all its queries
        kind = "MLA" if sizes.latent is not None else MHA if sizes.group == 1 else "GQA"
        known = DISTANCES if sizes.latent is None else ()
        return {
            **({} if kind == MHA else {"of": kind}),
            "assumes": "of the paper: that what it finds of 125M to 355M parameters holds here; of theory: that heads "
            "of a trained layer are as independent as initial ones and alike, that values of layer 1 are as large as "
            "other layers', and that a loss is the higher the further a layer is from what was trained",
            "source": "SkipV1Former, sections 5.1, 6.4, B.1, figures 8 and 10; theory.skipv1.conversion",
            "statistic": "held-out loss in nats per token, paired differences: of first losses, before anything is "
            "trained on, and of losses at the end",
            "rule": "a sign: the family-wise 95 % interval excludes zero on the predicted side, and that of a "
            "difference that is not there does not: of vanilla trained on with the text in another order, else, of "
            "what begins with other weights, of vanilla's twin; begins as the trained function: no seed's first loss "
            "is further than 0.001 nats from vanilla's, and that of `mean` is",
            "tuning": f"{config.tuning.described()}, from scratch; {config.uptuning.described('choice')}, trained on, "
            "with a model that is not compared",
            "share": config.share,
            "ways": list(WAYS),
            "printed": list(PRINTED),
            "choices": {n: {"variant": c.variant, "how": c.how, "exact": c.exact} for n, c in config.choices.items()},
            "distances": {
                how: [float(distance(how, heads, heads // 2, overlap=Fraction(r))) for r in (0, 1)] for how in known
            },
        }

    def measure(self, config: Config, seeds: int, run: RunFolder) -> Json:
        return train(config, seeds, run, label=self.name)

    def compare(self, prediction: Json, measurement: Json) -> Sequence[Judgement]:
        return [
            *_compare_first(prediction, measurement),
            *_compare_exact(prediction, measurement),
            *_compare_ends(prediction, measurement),
        ]

    def draw(self, prediction: Json, measurement: Json) -> Figure:
        import numpy as np

        fig, axes = style.figure(2, 2, width=5.4, height=4.9)
        first = {way: numbers(losses) for way, losses in measurement["first"].items()}
        ways = sorted(first, key=lambda way: float(np.nanmean(first[way])))
        _draw_distances(axes[0], prediction, measurement, ways=ways)
        _draw_first(axes[1], prediction, measurement, ways=ways)
        _draw_during(axes[2], prediction, measurement)
        _draw_ends(axes[3], prediction, measurement)
        style.finish(axes)
        return fig


def heads_of(prediction: Json) -> str:
    """Return the kind of heads: MHA, of which the prediction says nothing, GQA or MLA."""
    return str(prediction.get("of", MHA))


def tuned_as(name: str) -> str:
    """Return whose learning rate an arm has."""
    return CONTINUED if name in (CONTINUED_TWIN, REORDERED) else name


def numbers(losses: Sequence[float | None]) -> list[float]:
    """Return the losses, nan where a training diverged."""
    return [math.nan if loss is None else loss for loss in losses]


# What begins with a seed's one trained model differs by far less between seeds than what begins with weights of its
# own.  So these are two families of intervals, each of which holds for all of its pairs at once, with its own error.


def first_losses(measurement: Json) -> dict[tuple[str, str], Interval]:
    """Return all ways minus `mean`, all at once, and vanilla's twin minus vanilla."""
    losses = {way: numbers(values) for way, values in measurement["first"].items()}
    scratch = {name: numbers(measurement["scratch"][name]) for name in (BASELINE, TWIN)}
    ways = paired_differences(losses, [(way, "mean") for way in losses if way != "mean"])
    return ways | paired_differences(scratch, [(TWIN, BASELINE)])


def at_the_end(measurement: Json) -> dict[tuple[str, str], Interval]:
    """Return two families of differences of last losses.

    First all that is trained on minus vanilla trained on, and minus each other or vanilla before that.  Then what
    begins with other weights, twins too.
    """
    losses = {name: numbers(values) for name, values in measurement["loss"].items()}
    losses |= {name: numbers(measurement["scratch"][name]) for name in (BASELINE, SKIPV1)}
    alike = {name: values for name, values in losses.items() if name not in (SKIPV1, CONTINUED_TWIN)}
    pairs = [(name, CONTINUED) for name in alike if name != CONTINUED]
    pairs += [(MEAN, BASELINE), *([(WHOLE, MEAN)] if WHOLE in alike else [])]
    apart = {name: losses[name] for name in (MEAN, SKIPV1, BASELINE, CONTINUED_TWIN, CONTINUED)}
    others = [(MEAN, SKIPV1), (SKIPV1, BASELINE), (CONTINUED_TWIN, CONTINUED)]
    return paired_differences(alike, pairs) | paired_differences(apart, others)


def _paper(prediction: Json) -> str:
    """Return whose claim it is: what the paper says of conversion is of MHA."""
    return PAPER if heads_of(prediction) == MHA else f"{PAPER}, of MHA"


def _compare_first(prediction: Json, measurement: Json) -> Iterator[Expectation]:
    """Yield whether ways begin higher or lower than `mean`, by the paper and by theory."""
    differences, distances = first_losses(measurement), prediction["distances"]

    def expect(way: str, by: str, sign: float, **about: Any) -> Expectation:
        numbers: Json = {"measured": differences[way, "mean"], "twin": differences[TWIN, BASELINE]}
        return expected(f"first/{by}/{way}", rule="sign", predicted=sign, quantity=BEGINS, **numbers, **about)

    for way in prediction["ways"]:
        if way != "mean" and way in prediction["printed"]:
            group, statement = f"{_paper(prediction)}: mean begins lower than {way}", f"{way} begins higher than mean"
            yield expect(way, PAPER, 1.0, claim=FIRST, group=group, statement=f"{statement} (figure 10)")
        if way != "mean" and way in distances:
            ours, mean = distances[way], distances["mean"]
            signs = {math.copysign(1.0, a - b) for a, b in zip(ours, mean, strict=True)}
            if len(signs) == 1:
                sign = signs.pop()
                words = f"{way} begins {'higher' if sign > 0 else 'lower'} than mean"
                statement = (
                    f"{words}, as it takes a layer of independent heads {'further' if sign > 0 else 'less far'} "
                    f"({ours[0]:.2f} to {ours[1]:.2f} for {mean[0]:.2f})"
                )
                yield expect(way, THEORY, sign, claim=DISTANCE, group=f"{THEORY}: {words}", statement=statement)


def _compare_exact(prediction: Json, measurement: Json) -> Iterator[Expectation]:
    """Yield what begins as the trained function; the control is `mean`, which does not."""
    losses = {name: numbers(values) for name, values in measurement["begins"].items()}
    mean = paired_differences(losses, [(MEAN, CONTINUED)])[MEAN, CONTINUED]
    for name in (n for n, choice in prediction["choices"].items() if choice["exact"] and n != CONTINUED):
        furthest = max(abs(a - b) for a, b in zip(losses[name], losses[CONTINUED], strict=True))
        yield Expectation.sampled(
            Interval(furthest, 0.0, 0.0),
            mean,
            id=f"same/{name}",
            group=f"{ALGEBRA}: {name} begins as the function that was trained",
            claim=DISTANCE,
            statement=f"{name} begins with vanilla's loss, of the seed that is furthest from it too",
            rule="none",
            predicted=0.0,
            slack=ALIKE,
            quantity=BEGINS,
        )


def _compare_ends(prediction: Json, measurement: Json) -> Iterator[Expectation]:
    differences, heads = at_the_end(measurement), heads_of(prediction)
    share = f"{prediction['share']:.0%}"

    def expect(pair: tuple[str, str], by: str, words: str, claim: str = UPTRAINING) -> Expectation:
        marks = "".join(mark(name, measurement) for name in pair)
        place = f"end/{by}/{pair[0]}/{pair[1]}"
        if by == PAPER and MEAN in pair:  # that SkipV1Former ends lower from scratch, it says of all kinds (table 2)
            by = _paper(prediction)
        null = (CONTINUED_TWIN, CONTINUED) if SKIPV1 in pair else (REORDERED, CONTINUED)
        rates = other_rates((tuned_as(pair[0]), tuned_as(pair[1])), measurement)
        named: Json = {"group": f"{by}: {words}{marks}{rates}", "claim": claim, "statement": words, "quantity": ENDS}
        numbers: Json = {"predicted": -1.0, "measured": differences[pair], "twin": differences[null]}
        return expected(place, rule="sign", **named, **numbers)

    yield expect((MEAN, SKIPV1), PAPER, f"after {share} of the tokens {MEAN} is below SkipV1Former from scratch")
    yield expect((MEAN, BASELINE), PAPER, f"after {share} of the tokens {MEAN} is below {heads} from scratch")
    yield expect((SKIPV1, BASELINE), PAPER, f"SkipV1Former from scratch ends below {heads} from scratch")
    for name in prediction["choices"]:
        if name != CONTINUED:
            by = PAPER if name == MEAN else "a reason to convert"
            yield expect((name, CONTINUED), by, f"{name} ends below {heads} that is trained on for as long")
    if WHOLE in prediction["choices"] and prediction["distances"]:  # of a latent's slices theory says nothing
        yield expect((WHOLE, MEAN), THEORY, f"{WHOLE} ends below {MEAN}", claim=DISTANCE)


LOOKS: dict[str, dict[str, Any]] = {
    CONTINUED: {"color": "#1a1a1a", "linestyle": "-", "marker": "o"},
    CONTINUED_TWIN: {"color": "#1a1a1a", "linestyle": ":", "marker": "o"},
    REORDERED: {"color": "#8a8a8a", "linestyle": ":", "marker": "o"},
    MEAN: {"color": "#2f7fb8", "linestyle": "-", "marker": "s"},
    SPLIT: {"color": "#2f7fb8", "linestyle": "--", "marker": "D"},
    "skipv1, svd": {"color": "#2f7fb8", "linestyle": "-.", "marker": "v"},
    WHOLE: {"color": "#2f7fb8", "linestyle": ":", "marker": "^"},
}  # other variants have `style.look`
HOLLOW: dict[str, Any] = {"markerfacecolor": "white", "color": "#1a1a1a", "zorder": 3}


def _look(name: str) -> Mapping[str, Any]:
    return LOOKS.get(name) or style.look(name)


def _words(name: str, heads: str, measurement: Json) -> str:
    others = {
        CONTINUED: f"{heads}, trained on",
        CONTINUED_TWIN: f"{heads}, other weights",
        REORDERED: f"{heads}, other order of text",
    }
    return others.get(name) or f"{name}{mark(name, measurement)}"


def _draw_distances(axis: Axes, prediction: Json, measurement: Json, ways: list[str]) -> None:
    """Draw, way by way, distances as measured, and as theory has them for independent heads."""
    for place, way in zip(range(len(ways), 0, -1), ways, strict=True):
        if ends := prediction["distances"].get(way):
            axis.plot(ends, [place] * 2, color="#2f7fb8", linewidth=4, alpha=0.35, zorder=1)
            axis.plot(ends, [place] * 2, "|", color="#2f7fb8", markersize=10, zorder=1)
        by_seed = measurement["distance"][way]
        axis.plot(by_seed, [place] * len(by_seed), ".", color="#8a8a8a", zorder=2)
        axis.plot([t_interval(by_seed).mean], [place], _marker(prediction, way), **HOLLOW)
    axis.plot([], [], ".", color="#8a8a8a", label="measured, by seed")
    _name_rows(axis, ways)
    if prediction["distances"]:
        axis.plot([], [], "|-", color="#2f7fb8", alpha=0.5, linewidth=4, label="of independent heads")
    axis.set_xlim(left=0)
    axis.set_xlabel("mean square added to layer 2's attention, over its own")
    axis.set_title("Made into SkipV1Former: how far from what was trained")


def _draw_first(axis: Axes, prediction: Json, measurement: Json, ways: list[str]) -> None:
    """Draw first losses minus vanilla's, way by way."""
    vanilla = numbers(measurement["scratch"][BASELINE])
    for place, way in zip(range(len(ways), 0, -1), ways, strict=True):
        losses = numbers(measurement["first"][way])
        interval = t_interval([a - b for a, b in zip(losses, vanilla, strict=True)])
        axis.errorbar([interval.mean], [place], xerr=[interval.half_width], fmt=_marker(prediction, way), **HOLLOW)
    _name_rows(axis, ways)
    axis.axvline(0, color="#999999", linewidth=0.8)
    axis.set_xlabel(f"first held-out loss minus {heads_of(prediction)}'s (nats per token), 95 % each")
    axis.set_title("Before it is trained on")


def _marker(prediction: Json, way: str) -> str:
    return "o" if way in prediction["printed"] else "s"


def _name_rows(axis: Axes, ways: list[str]) -> None:
    for marker, words in (("o", "mean, the paper's ways"), ("s", "mean, others")):
        axis.plot([], [], marker, label=words, **HOLLOW)
    axis.set_yticks(range(len(ways), 0, -1), ways)


def _draw_during(axis: Axes, prediction: Json, measurement: Json) -> None:
    """Draw means over seeds, first losses too, with bands of the paired difference to vanilla that is trained on.

    What has another learning rate than that is shown where it begins and where it ends.
    """
    import numpy as np

    shares, heads = [0, *(100 * share for share in measurement["share"])], heads_of(prediction)
    middles: dict[str, Any] = {}
    for name in prediction["choices"]:
        pairs = zip(_curves(measurement, name), _curves(measurement, CONTINUED), strict=True)
        both = [(ours, base) for ours, base in pairs if ours is not None and base is not None]
        if len(both) < 2:
            continue
        look = dict(_look(name))
        marker = look.pop("marker")
        middle = np.mean([ours for ours, _ in both], axis=0)
        differences = zip(*(np.subtract(*pair).tolist() for pair in both), strict=True)
        half = np.array([t_interval(by_seed).half_width for by_seed in differences])
        label = _words(name, heads, measurement)
        if apart_on_the_way(*tuned_rates((tuned_as(name), CONTINUED), measurement)):
            bars = {"yerr": half[[0, -1]], "fmt": marker, "color": look["color"], "markersize": 4}
            axis.errorbar([shares[0], shares[-1]], middle[[0, -1]], markerfacecolor="white", label=label, **bars)
            continue
        middles[name] = middle
        wide: dict[str, Any] = {"linewidth": 4.0, "alpha": 0.35} if name == CONTINUED else {"linewidth": 1.3}
        axis.plot(shares, middle, label=label, **wide, **look)
        axis.fill_between(shares, middle - half, middle + half, color=look["color"], alpha=0.12, linewidth=0)
    for name, words, line in ((BASELINE, heads, "--"), (SKIPV1, SKIPV1, ":")):
        mean = float(np.nanmean(numbers(measurement["scratch"][name])))
        axis.axhline(mean, color="#777777", linestyle=line, linewidth=1.0, label=f"{words} from scratch, at its end")
    _say_what_lies_on_another(axis, middles)
    axis.set_xlabel("tokens of training on (% of those from scratch)")
    axis.set_ylabel(
        f"held-out loss (nats per token), means over seeds;\nbands: 95 % of the difference to {heads}'s trained on"
    )
    axis.set_title("Trained on")


def _curves(measurement: Json, name: str) -> list[list[float] | None]:
    """Return by seed the losses from before the first step on; None where a training diverged."""
    pairs = zip(measurement["begins"][name], measurement["held_out"][name], strict=True)
    return [None if rest is None else [first, *rest] for first, rest in pairs]


def _say_what_lies_on_another(axis: Axes, middles: dict[str, Any]) -> None:
    """Name the lines that cannot be told by eye from that of what is trained on as it was."""
    low, high = axis.get_ylim()
    for line in axis.get_lines():
        name = str(line.get_label())
        if name in middles and name != CONTINUED and CONTINUED in middles:
            furthest = float(abs(middles[name] - middles[CONTINUED]).max())
            if furthest < 0.01 * (high - low):
                line.set_label(f"{name} (on the thick line)")


def _draw_ends(axis: Axes, prediction: Json, measurement: Json) -> None:
    """Draw last losses minus continued vanilla's; below the line what the paper compares with training from scratch."""
    differences, heads = at_the_end(measurement), heads_of(prediction)
    rows = [((name, CONTINUED), _words(name, heads, measurement)) for name in measurement["loss"] if name != CONTINUED]
    rows += [
        ((SKIPV1, BASELINE), f"skipv1 from scratch\nminus {heads} from scratch"),
        ((MEAN, BASELINE), f"{MEAN}\nminus {heads} from scratch"),
        ((MEAN, SKIPV1), f"{MEAN}\nminus skipv1 from scratch"),
    ]
    for place, (pair, _) in enumerate(reversed(rows)):
        look = {**_look(MEAN if pair[0] == SKIPV1 else pair[0]), "linestyle": "none", "markerfacecolor": "white"}
        axis.errorbar([differences[pair].mean], [place], xerr=[differences[pair].half_width], **look)
    axis.axvline(0, color="#1a1a1a", linewidth=1, linestyle="--", label=f"{heads} trained on for as long")
    axis.axhline(2.5, color="#8a8a8a", linewidth=0.8)
    axis.locator_params(axis="x", nbins=5)
    axis.set_yticks(range(len(rows)), [words for _, words in reversed(rows)], fontsize=8)
    axis.set_xlabel(
        f"held-out loss at the end (nats per token), minus {heads}'s trained on;\n"
        "below the line, minus what is named; 95 % for all of one beginning"
    )
    axis.set_title("At the end")


EXPERIMENT: Experiment = Uptraining()
