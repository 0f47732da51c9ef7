"""Decoding: what does each variant keep of a token, and how long do a step and a prompt take (section 6.3)?

Bytes are counted and have a formula.  Times are this machine's.  They are compared with vanilla's, and with what a step
reads (`theory.plans.decoding`), which decides them where memory is slower than arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import TYPE_CHECKING

from experiments.drawing import style
from experiments.experiment.protocol import Experiment, Kind, Profile
from experiments.store.folders import Json, RunFolder, Unfinished
from experiments.training.campaign import BASELINE
from experiments.verdicts.checks import Check, Expectation, Judgement
from experiments.verdicts.intervals import Interval, t_interval
from theory.plans.architecture import Architecture
from theory.plans.names import resolve, sized
from theory.plans.presets import llama

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MEMORY, SPEED = "skipv1.inference-memory", "skipv1.inference-speed"
SKIPV1 = "skipv1"
VARIANTS = (BASELINE, SKIPV1, "gqa:group=2", "skipv1+gqa:group=2", "mla", "skipv1+mla", "attnres")
ROUNDING = {"float32": 1e-4, "bfloat16": 0.1}  # of scores, over the largest
SLOWER, AS_READ = math.log(1.05), math.log(1.1)
LOG = "logarithm of a step's seconds over vanilla's"


@dataclass(frozen=True, kw_only=True)
class Config:
    """The variants to time, the lengths, and the number of turns.

    Attributes:
        sizes: Sequences, and tokens of each in the cache, where a step is timed.
        prompts: Sequences, and tokens of each, that are read at once.
        turns: Timed turns, after one that is not timed.
    """

    architecture: Architecture
    variants: tuple[str, ...]
    sizes: tuple[tuple[int, int], ...]
    prompts: tuple[tuple[int, int], ...]
    turns: int


_CPU = Config(
    architecture=llama(d_model=256, n_heads=8, n_layers=8, d_ff=688, vocab=256, context=4224),
    variants=VARIANTS,
    sizes=((1, 128), (1, 4096), (8, 1024)),
    prompts=((1, 512),),
    turns=15,
)
_TINY = replace(
    _CPU,
    architecture=llama(d_model=32, n_heads=4, n_layers=2, d_ff=40, vocab=64, context=64),
    variants=(BASELINE, SKIPV1, "mla"),
    sizes=((1, 8), (2, 16)),
    prompts=((1, 16),),
    turns=2,
)
_LARGE = replace(
    _CPU,
    architecture=llama(d_model=1024, n_heads=16, n_layers=24, d_ff=2736, vocab=32_000, context=16_640),
    sizes=((1, 1024), (1, 16_384), (32, 1024)),
    prompts=((1, 4096),),
)
_GPU_TINY = replace(_TINY, prompts=((1, 16), (2, 16)))


def _profile(config: Config, seconds: int, share: str, device: str = "cpu") -> Profile:
    detects = f"every byte of the cache, and {share}"
    return Profile(config=config, seeds=0, seconds=seconds, detects=detects, device=device)


PROFILES = {
    "smoke": _profile(_TINY, 5, "100 % of the time of a step"),
    "cpu": _profile(_CPU, 90, "about 15 % of the time of a step"),
    "gpu": _profile(_LARGE, 300, "about 10 % of the time of a step of LLaMA-350M in bf16", device="cuda"),
    "gpu-tiny": _profile(_GPU_TINY, 5, "100 % of the time of a step"),
}


class Decoding:
    name = "scale-decode"
    title = "Decoding: bytes kept and read, and time, by variant, batch and length"
    caption = (
        "SkipV1Former's cache is smaller, a decoding step takes as long as vanilla's. (a) Cache per token: formula "
        "(bars), allocated (circles). (b) Time of a decoded token over vanilla's, after several contexts; crosses: "
        "bytes read. (c) The same for reading a prompt; crosses: FLOPs. transformers: vanilla as that library runs "
        "it. Geometric means; 95 % over turns, for all at once."
    )
    kind: Kind = "scale"
    claims: tuple[str, ...] = (MEMORY, SPEED)
    profiles: Mapping[str, Profile] = PROFILES

    def predict(self, config: Config) -> Json:
        from experiments.training.decode_times import size_of
        from theory.plans.accounting import cache, flops
        from theory.plans.decoding import numbers_of_a_step

        architectures = {name: sized(config.architecture, name) for name in config.variants}
        plans = {name: (fitted, resolve(rest, fitted.shape)) for name, (fitted, rest) in architectures.items()}
        return {
            "assumes": "that a step's time is that of reading its weights once and what its layers attend over, as "
            "where memory is slower than arithmetic; and nothing of bytes",
            "source": "theory.plans.accounting.cache; theory.plans.decoding; SkipV1Former, section 6.3",
            "rule": "bytes are the formula's; steps answer as a whole pass, to rounding; SkipV1Former's step takes no "
            "longer than vanilla's, give or take 5 %; the logarithm of a step's time over vanilla's is that of what is "
            "read, give or take 10 %; two steps of vanilla's for one are told apart from one",
            "kept": {name: cache(*plan).total for name, plan in plans.items()},
            "read": {
                name: {size_of(b, t): numbers_of_a_step(*plan, b, t) for b, t in config.sizes}
                for name, plan in plans.items()
            },
            "prompt": {
                name: {size_of(b, t): b * t * flops(*plan, (t + 1) // 2) for b, t in config.prompts}
                for name, plan in plans.items()
            },
        }

    def measure(self, config: Config, seeds: int, run: RunFolder) -> Json:  # noqa: ARG002
        """Time all variants in turns, which cannot be interrupted: begun if there is any time left."""
        from experiments.training.decode_times import decode_times

        if run.slot.seconds_left < 0:
            raise Unfinished(f"{self.name}: nothing was timed; all of it is in one sitting")
        return decode_times(
            config.architecture,
            run.slot.device,
            config.variants,
            sizes=config.sizes,
            prompts=config.prompts,
            turns=config.turns,
        )

    def compare(self, prediction: Json, measurement: Json) -> Sequence[Judgement]:
        return [*_answers_and_bytes(prediction, measurement), *_speeds(prediction, measurement)]

    def draw(self, prediction: Json, measurement: Json) -> Figure:
        fig, axes = style.panels(3, width=4.6, height=4.8)
        _draw_cache(axes[0], prediction, measurement)
        _draw_ratios(axes[1], prediction["read"], measurement, what="step")
        _draw_ratios(axes[2], prediction["prompt"], measurement, what="prompt")
        style.finish(axes)
        return fig


def _answers_and_bytes(prediction: Json, measurement: Json) -> Iterator[Check]:
    """Yield what must hold anywhere: the scores of steps, and the bytes of the cache."""
    dtype = measurement["what"].rpartition(" ")[2]
    for name, side in measurement["sides"].items():
        yield Check.exact(
            id=f"answer/{name}",
            group="steps answer as a whole pass",
            claim=SPEED,
            statement=f"{name}: scores of steps are those of a pass over all tokens",
            predicted=0.0,
            measured=side["apart"],
            controls=(1.0,),
            slack=ROUNDING[dtype],
            quantity="largest difference of scores, over the largest",
        )
        if name not in prediction["kept"]:
            continue
        for size, numbers in side["sizes"].items():
            batch, tokens = _parsed(size)
            formula = batch * tokens * prediction["kept"][name] * (4 if dtype == "float32" else 2)
            yield Check.exact(
                id=f"bytes/{name}/{size}",
                group="bytes of the cache",
                claim=MEMORY,
                statement=f"{name}: the cache of {batch} sequences of {tokens} tokens has the formula's bytes",
                predicted=float(formula),
                measured=float(numbers["bytes"]),
                controls=(formula + 1.0, formula - 1.0),
                slack=0.0,
                quantity="bytes",
            )


def _speeds(prediction: Json, measurement: Json) -> Iterator[Expectation]:
    """Yield what is expected of a step's time over vanilla's; the control is a step that takes twice as long."""
    read, seconds = prediction["read"], _seconds(measurement, "step")
    for size in read[BASELINE]:
        words = "{} sequences of {} tokens".format(*_parsed(size))
        for name in [name for name in read if name != BASELINE]:
            once, twice = (_over_vanilla(seconds, name, size, times=times) for times in (1.0, 2.0))
            if name == SKIPV1:
                yield Expectation.sampled(
                    *(replace(interval, mean=-interval.mean) for interval in (once, twice)),
                    id=f"slower/{name}/{size}",
                    group=f"{name}: a step takes no longer than vanilla's",
                    claim=SPEED,
                    statement=f"{name} takes no longer than vanilla, {words}",
                    rule="not less",
                    predicted=0.0,
                    slack=SLOWER,
                    quantity=f"minus the {LOG}",
                )
            log_read = math.log(read[name][size] / read[BASELINE][size])
            yield Expectation.sampled(
                *(replace(interval, mean=interval.mean - log_read) for interval in (once, twice)),
                id=f"read/{name}/{size}",
                group=f"{name}: a step takes as long as what it reads",
                claim=SPEED,
                statement=f"{name}, {words}: {math.exp(once.mean):.2f} of vanilla's time for {math.exp(log_read):.2f} "
                "of what it reads",
                rule="none",
                predicted=0.0,
                slack=AS_READ,
                quantity=f"{LOG}, minus that of what is read",
            )


Seconds = Mapping[str, Mapping[str, Sequence[float]]]  # by side and size, one number a turn


def _seconds(measurement: Json, what: str) -> Seconds:
    """Return the seconds of a step or of a prompt, of the sides that were timed."""
    sides = measurement["sides"].items()
    if what == "prompt":
        return {name: side["prompts"] for name, side in sides if side["prompts"]}
    return {name: {size: numbers["turns"] for size, numbers in side["sizes"].items()} for name, side in sides}


def _over_vanilla(seconds: Seconds, name: str, size: str, times: float = 1.0) -> Interval:
    """Return the logarithm of a side's time over vanilla's, as if it had taken so many `times` as long.

    The interval holds for all sides and sizes at once.
    """
    pairs = zip(seconds[name][size], seconds[BASELINE][size], strict=True)
    family = (len(seconds) - 1) * len(seconds[BASELINE])
    return t_interval([math.log(times * ours / base) for ours, base in pairs], family)


def _parsed(size: str) -> tuple[int, int]:
    batch, tokens = map(int, size.split(" x "))
    return batch, tokens


def _in_words(size: str) -> str:
    batch, tokens = _parsed(size)
    return f"{batch} sequence{'s' if batch > 1 else ''} of {tokens:,} tokens"


COARSE = (0.05, 0.1, 0.25, 0.5, 0.75, 1, 1.5, 2, 3, 4, 8, 16)
FINE = (*(x / 10 for x in range(1, 16)), 1.75, 2, 2.5, 3, 4)
COLOURS = ("#1a1a1a", "#2f7fb8", "#d98a2b", "#7a4fa3", "#66b266", "#8a8a8a")
PANELS = {  # title, label of the crosses, words before a size, place of the first size in a row, distance of the next
    "step": ("A decoded token", "what a step reads, over vanilla's", "after ", 0.28, 0.18),
    "prompt": ("Reading a prompt", "FLOPs over vanilla's", "", 0.0, 0.2),
}


def _draw_cache(axis: Axes, prediction: Json, measurement: Json) -> None:
    """Draw the bytes of a token over vanilla's, by formula and as allocated, and those of the longest cache."""
    formula, size = prediction["kept"], max(prediction["read"][BASELINE], key=lambda size: _parsed(size)[1])
    allocated = {name: side["sizes"][size]["bytes"] for name, side in measurement["sides"].items()}
    rows = list(dict.fromkeys([*formula, *allocated]))
    places = list(range(len(rows), 0, -1))
    shares = [formula.get(name, formula[BASELINE]) / formula[BASELINE] for name in rows]  # others keep vanilla's
    axis.barh(places, shares, color="#c9dcec", edgecolor="#2f7fb8", height=0.6, label="formula")
    ratios = [allocated[name] / allocated[BASELINE] for name in formula]
    axis.plot(ratios, places[: len(formula)], "o", color="#1a1a1a", markerfacecolor="white", label="allocated")
    for name, place, share in zip(rows, places, shares, strict=True):
        words = f"{share:.0%}, {allocated[name] / 1e6:.3g} MB"
        axis.annotate(words, (share, place), xytext=(6, -3), textcoords="offset points", fontsize=8)
    axis.set_xlim(0, 1.5)
    axis.set_xticks([0, 0.25, 0.5, 0.75, 1])
    axis.set_yticks(places, rows)
    axis.set_xlabel(f"bytes kept of a token, over vanilla's;\nMB: of {_in_words(size)}")
    axis.set_title("The cache")


def _draw_ratios(axis: Axes, predicted: Json, measurement: Json, what: str) -> None:
    """Draw times over vanilla's, and as crosses what is predicted to decide them, over vanilla's."""
    title, label, before, first, next_one = PANELS[what]
    seconds = _seconds(measurement, what)
    others = [name for name in dict.fromkeys([*predicted, *measurement["sides"]]) if name != BASELINE]
    for i, size in enumerate(predicted[BASELINE]):
        look: Json = {"color": COLOURS[i % len(COLOURS)], "marker": style.MARKERS[i], "markerfacecolor": "white"}
        for k, name in enumerate(others):
            place = len(others) - k + first - next_one * i
            if name not in seconds:
                axis.annotate("not timed", (1, place), xytext=(6, -3), textcoords="offset points", fontsize=8)
                continue
            style.geometric(axis, [place], [_over_vanilla(seconds, name, size)], along=True, markersize=4, **look)
            if name in predicted:
                ratio = predicted[name][size] / predicted[BASELINE][size]
                axis.plot([ratio], [place], "x", color=look["color"], markersize=5, zorder=4)
        each = 1e3 * median(seconds[BASELINE][size])
        axis.plot([], [], linestyle="none", label=f"{before}{_in_words(size)}: vanilla takes {each:.3g} ms", **look)
    axis.plot([], [], "x", color="#1a1a1a", label=label)
    axis.axvline(1, color="#8a8a8a", linewidth=1, linestyle="--")
    axis.set_yticks(range(len(others), 0, -1), others)
    axis.set_ylim(0.4, len(others) + 0.6)
    axis.set_xscale("log")
    low, high = axis.get_xlim()
    known = COARSE if high > 2.5 * low else FINE
    low = max((x for x in known if x <= low), default=low)  # the axis begins and ends with a tick
    high = min((x for x in known if x >= high), default=high)
    axis.set_xlim(low / 1.03, high * 1.03)
    ticks = [x for x in known if low <= x <= high]
    axis.set_xticks(ticks, [f"{x:g}" for x in ticks])
    axis.minorticks_off()
    axis.set_xlabel(f"time of a {what} over vanilla's (factor), 95 % for all at once")
    axis.set_title(title)


EXPERIMENT: Experiment = Decoding()
