"""Ask what dynamic values cost with every pair's value made, and collapsed: memory and time, for the same result.

Memory is counted, tensor by tensor, and has a formula (`theory.dva.cost`).  So have products of numbers.  If these were
what takes time, time would grow with them: over tokens, and from every pair's value to none of them.  Time is a
machine's, so that is an expectation, which may be contradicted.  The sizes of the paper's two models are timed apart:
what one layer's attention costs, and on which kernels it ran.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Any

from experiments.drawing import style
from experiments.experiment.protocol import Experiment, Kind, Profile
from experiments.experiment.turns import in_turns
from experiments.store.folders import Json, RunFolder
from experiments.verdicts.checks import Check, Expectation, Judgement
from experiments.verdicts.intervals import t_interval
from theory.dva.collapse import Form, pair_numbers
from theory.dva.cost import Way, peak_numbers, products
from theory.plans.memory import QUERIES_AT_A_TIME

if TYPE_CHECKING:
    import torch
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from torch import Tensor

    Attention = Callable[[Sequence[Tensor]], Tensor]  # of query, key, value and both gates, (1, heads, T, width) each

CLAIMS: dict[Form, str] = {"revised": "dva.revised", "initial": "dva.initial"}
TOLERANCE, ALTERED = 0.02, 0.1  # relative to a formula
OTHER_BOUND = 0.7  # times an upper bound: something is above
ROUNDING, FACTOR = 1e-12, 1.5  # in float64; between times and products
NUMBER = 4  # bytes
MIB = 2**20 / NUMBER  # numbers
BLACK, BLUE = "#1a1a1a", style.DVA
Cell = tuple[str, int]  # a side or a layer, and a number of tokens


@dataclass(frozen=True, kw_only=True)
class Side:
    """A form of dynamic values, computed in one way; blocks: some queries at a time."""

    form: Form
    way: Way
    blocks: bool = False
    words: str
    marker: str

    @property
    def color(self) -> str:
        return BLACK if self.form == "initial" else BLUE

    @property
    def line(self) -> str:
        return "-" if self.way == "pairs" else ":" if self.blocks else "--"


_IN_BLOCKS = "collapsed, in blocks of queries"
SIDES = {
    "initial, pairs": Side(form="initial", way="pairs", words="initial, every pair's matrix", marker="s"),
    "revised, pairs": Side(form="revised", way="pairs", words="revised, every pair's value", marker="o"),
    "initial, collapsed": Side(form="initial", way="collapsed", words="initial, collapsed", marker="D"),
    "revised, collapsed": Side(form="revised", way="collapsed", words="revised, collapsed", marker="^"),
    "initial, blocks": Side(form="initial", way="collapsed", blocks=True, words=f"initial, {_IN_BLOCKS}", marker="v"),
    "revised, blocks": Side(form="revised", way="collapsed", blocks=True, words=f"revised, {_IN_BLOCKS}", marker="P"),
}
HEADS, ONE_HEAD = "heads", "one head"
LAYERS = {  # ways to attend at the sizes of the paper's models, and what the figure calls them
    HEADS: "model a: ordinary heads",
    ONE_HEAD: "one ordinary head",
    "kernel twice": "one dynamic head, two calls",
    "collapsed": "one dynamic head, at once",
    "blocks": "one dynamic head, in blocks",
    "pairs": "one dynamic head, every pair",
}


@dataclass(frozen=True, kw_only=True)
class Config:
    """One causal head in float32, and one layer's attention at the sizes of the paper's models.

    Attributes:
        width: The head's width.
        tokens: Numbers of tokens.
        most: The largest number of numbers that all pairs may hold at once.
        queries: The queries of a block.
        paper: The models' width, heads, and numbers of tokens.
        turns: Timed turns, after one that is not.  One alone decides nothing.
    """

    width: int
    tokens: tuple[int, ...]
    most: int
    queries: int
    paper: tuple[int, int, tuple[int, ...]]
    turns: int

    @property
    def cells(self) -> list[Cell]:
        """The sides and numbers of tokens at which pairs fit, and blocks are fewer queries than all."""

        def fits(side: Side, tokens: int) -> bool:
            few = pair_numbers(side.form, tokens, self.width, naive=side.way == "pairs") <= self.most
            return few and (not side.blocks or tokens > self.queries)

        return [(name, t) for t in self.tokens for name, side in SIDES.items() if fits(side, t)]

    @property
    def layers(self) -> list[Cell]:
        """The layers of the paper's models and numbers of tokens at which these fit."""
        width, _, tokens = self.paper
        return [
            (name, t)
            for t in tokens
            for name in LAYERS
            if not (name == "pairs" and t * t * width > self.most) and not (name == "blocks" and t <= self.queries)
        ]


SMOKE = Config(width=4, tokens=(16, 64), most=2**16, queries=16, paper=(16, 2, (8, 16)), turns=1)
CPU = Config(
    width=32,
    tokens=(64, 128, 256, 512, 1024, 2048),
    most=2**26 - 1,
    queries=QUERIES_AT_A_TIME,
    paper=(768, 12, (256, 1024)),
    turns=7,
)
FULL = replace(CPU, width=64, tokens=(*CPU.tokens, 4096), most=2**28, paper=(768, 12, (256, 1024, 4096)))
DETECTS = "10 % of the memory, and a factor of two in time, of several turns"


class Collapse:
    name = "dva-collapse"
    title = "Dynamic values, every pair's value made and collapsed: memory against the formula, and time"
    caption = (
        "Collapsed, dynamic values need far less memory and time for the same function. One head over the number of "
        "tokens: (a) peak memory, lines by formula; (b) time forward and backward, medians, lines by products. (c) A "
        "layer's attention in the paper's models over ordinary heads', with the kernel that ran. Bars: all turns."
    )
    kind: Kind = "theory"
    claims: tuple[str, ...] = tuple(CLAIMS.values())
    profiles: Mapping[str, Profile] = {
        "smoke": Profile(config=SMOKE, seeds=0, seconds=5, detects=DETECTS),
        "cpu": Profile(config=CPU, seeds=0, seconds=40, detects=DETECTS),
        "full": Profile(config=FULL, seeds=0, seconds=900, detects=DETECTS),
    }

    def predict(self, config: Config) -> Json:
        numbers: Json = {"peak": {}, "products": {}}
        for name, side in SIDES.items():
            queries = config.queries if side.blocks else None
            for tokens in (t for other, t in config.cells if other == name):
                peak = peak_numbers(side.form, side.way, tokens, width=config.width, queries=queries)
                numbers["peak"].setdefault(name, {})[str(tokens)] = peak
                count = products(side.form, side.way, tokens, width=config.width)
                numbers["products"].setdefault(name, {})[str(tokens)] = count
        return {
            "assumes": "one causal head of one sequence, numbers of 4 bytes; memory beside the inputs, of tensors, at "
            "the peak of a forward and a backward pass, in PyTorch's order of work",
            "source": "theory.dva.cost",
            "rule": "memory is the formula's, in blocks at most; outputs and gradients are equal in float64; times "
            "go with the products, to a factor of 1.5",
            "width": config.width,
            **numbers,
        }

    def measure(self, config: Config, seeds: int, run: RunFolder) -> Json:  # noqa: ARG002
        """Return memory, time, differences and kernels, by side or layer and number of tokens.

        A side is held against the first of its form that fits, which is held against nothing.  Times are the device's;
        memory is counted on the CPU, whose kernels are the formula's, in numbers of 4 bytes.
        """
        import torch

        from icl.probes.costs import attention_kernels, peak_bytes

        device = run.slot.device

        def sides(place: str) -> dict[Cell, Attention]:
            masks = {t: causal(t, place) for t in config.tokens}
            return {(name, t): partial(attend, SIDES[name], config.queries, masks[t]) for name, t in config.cells}

        def layer(name: str, tokens: int) -> tuple[Attention, list[Tensor]]:
            width, heads, _ = config.paper
            count = heads if name == HEADS else 1
            leaves = inputs(count, tokens, width // count, device=device, dtype=torch.float32)
            return layer_attention(name, config.queries, masks[tokens]), leaves

        peaks: Json = {}
        differences: Json = {}
        on_cpu, on_device = sides("cpu"), sides(device)
        for (name, tokens), attention in on_cpu.items():
            leaves = inputs(1, tokens, config.width, device="cpu", dtype=torch.float32)
            peaks.setdefault(name, {})[str(tokens)] = peak_bytes(partial(both_passes, attention, leaves)) / NUMBER
            first = next(n for n, t in on_cpu if t == tokens and SIDES[n].form == SIDES[name].form)
            if first != name:
                by_tokens = differences.setdefault(name, {})
                by_tokens[str(tokens)] = difference(attention, on_cpu[first, tokens], config.width, tokens=tokens)
        least = min(config.tokens)
        other, first_form = on_cpu["revised, collapsed", least], on_cpu["initial, pairs", least]
        masks = {t: causal(t, device) for t in config.paper[2]}
        return {
            "peak": peaks,
            "apart": differences,
            "wrong": difference(other, first_form, config.width, tokens=least),
            "seconds": timed(
                config.cells,
                lambda *cell: (on_device[cell], inputs(1, cell[1], config.width, device=device, dtype=torch.float32)),
                config.turns,
            ),
            "layers": timed(config.layers, layer, config.turns),
            "kernels": {cell[0]: attention_kernels(partial(both_passes, *layer(*cell))) for cell in config.layers},
        }

    def compare(self, prediction: Json, measurement: Json) -> Sequence[Judgement]:
        return [*memory_checks(prediction, measurement), *times(prediction["products"], measurement["seconds"])]

    def draw(self, prediction: Json, measurement: Json) -> Figure:
        fig, axes = style.panels(3, width=4.4, height=4.4)
        draw_memory(axes[0], prediction, measurement["peak"])
        draw_time(axes[1], prediction["products"], measurement["seconds"])
        for axis in axes[:2]:
            axis.set_xscale("log", base=2)
            axis.set_yscale("log")
            axis.set_xlabel("tokens $T$")
        draw_layers(axes[2], measurement)
        style.finish(axes)
        return fig


def inputs(heads: int, tokens: int, width: int, device: str, dtype: torch.dtype) -> list[Tensor]:
    """Draw query, key, value and both gates, (1, heads, tokens, width) each: the same normal numbers in every dtype."""
    import torch

    generator = torch.Generator().manual_seed(tokens)
    drawn = torch.randn(5, 1, heads, tokens, width, generator=generator, dtype=torch.float64)
    return [x.to(device, dtype).requires_grad_() for x in drawn]


def causal(tokens: int, device: str) -> Tensor:
    """Return which keys (second axis) a query (first axis) sees: (tokens, tokens)."""
    import torch

    return torch.ones(tokens, tokens, device=device).tril() > 0


def attend(side: Side, queries: int, visible: Tensor, leaves: Sequence[Tensor]) -> Tensor:
    """Attend with dynamic values behind a causal mask `visible`, (T, T); in blocks of `queries` if the side has any."""
    from torch.nn.functional import scaled_dot_product_attention

    from icl.models.attention import weights
    from icl.models.dynamic_values import initial, naive, revised
    from icl.models.few_queries import blockwise

    query, key, value, query_gate, key_gate = leaves
    size = queries if side.blocks else query.shape[2]

    def with_pytorch(wide: Tensor) -> Tensor:
        if size >= query.shape[2]:
            return scaled_dot_product_attention(query, key, wide, is_causal=True)
        return blockwise(scaled_dot_product_attention, (query,), (key, wide), pairs=(visible,), causal=True, size=size)

    def of_block(q: Tensor, gate: Tensor, k: Tensor, v: Tensor, other: Tensor, seen: Tensor) -> Tensor:
        shares = weights(q, k, seen)
        if side.way == "collapsed":
            return initial(shares, gate, v, key_gate=other)
        return naive("initial" if side.form == "initial" else "revised", shares, gate, value=v, key_gate=other)

    if side.form == "revised" and side.way == "collapsed":  # as the models compute it
        return revised(with_pytorch, value, query_gate, key_gate=key_gate)
    return blockwise(of_block, (query, query_gate), (key, value, key_gate), pairs=(visible,), causal=True, size=size)


def layer_attention(name: str, queries: int, visible: Tensor) -> Attention:
    """Return one layer's attention in the paper's models, by its name in LAYERS."""
    from icl.models.attention import attend as attend_ordinarily
    from icl.models.frame import Frame

    def ordinary(leaves: Sequence[Tensor], value: Tensor) -> Tensor:
        return attend_ordinarily(
            leaves[0], (leaves[1],), (value,), frame=Frame(None, True, None, places=None, learned={})
        )

    if name in (HEADS, ONE_HEAD):
        return lambda leaves: ordinary(leaves, leaves[2])
    if name == "kernel twice":
        return lambda leaves: ordinary(leaves, leaves[2]) + leaves[3] * ordinary(leaves, leaves[4])
    return partial(attend, SIDES[f"revised, {name}"], queries, visible)


def both_passes(attention: Attention, leaves: Sequence[Tensor]) -> list[Tensor]:
    """Return the output, and the gradient of its sum to all that it depends on."""
    import torch

    out = attention(leaves)
    return [out.detach(), *(x for x in torch.autograd.grad(out.sum(), leaves, allow_unused=True) if x is not None)]


def difference(one: Attention, other: Attention, width: int, tokens: int) -> float:
    """Return the largest relative difference of outputs and gradients, in float64."""
    import torch

    leaves = inputs(1, tokens, width, device="cpu", dtype=torch.float64)
    pairs = zip(both_passes(one, leaves), both_passes(other, leaves), strict=True)
    return max(float((a - b).norm() / b.norm()) for a, b in pairs)


def timed(
    cells: Sequence[Cell], prepared: Callable[[str, int], tuple[Attention, Sequence[Tensor]]], turns: int
) -> Json:
    """Return the seconds of both passes, by turn; those with equal numbers of tokens take turns."""
    seconds: Json = {}
    for tokens in sorted({t for _, t in cells}):
        runs = {name: partial(time_of, *prepared(name, tokens)) for name, t in cells if t == tokens}
        for name, by_turn in in_turns(runs, turns).items():
            seconds.setdefault(name, {})[str(tokens)] = by_turn
    return seconds


def time_of(attention: Attention, leaves: Sequence[Tensor]) -> float:
    """Return the seconds of one forward and backward pass."""
    import torch

    start = perf_counter()
    both_passes(attention, leaves)
    if leaves[0].is_cuda:
        torch.cuda.synchronize()
    return perf_counter() - start


def memory_checks(prediction: Json, measurement: Json) -> Iterator[Check]:
    """Yield the checks of memory against the formula, and of all ways against each other."""
    for name, by_tokens in measurement["peak"].items():
        side = SIDES[name]
        for tokens, measured in by_tokens.items():
            formula = prediction["peak"][name][tokens]
            slack = 0.0 if side.blocks else TOLERANCE * formula
            yield Check.exact(
                id=f"peak/{name}/{tokens}",
                group=f"numbers at the peak: {side.words}",
                claim=CLAIMS[side.form],
                statement=f"a forward and a backward pass need {'no more than' if side.blocks else 'what'} the formula "
                "says",
                predicted=formula,
                measured=measured,
                controls=tuple(x * formula for x in ((OTHER_BOUND,) if side.blocks else (1 - ALTERED, 1 + ALTERED))),
                relation="at most" if side.blocks else "equal",
                slack=slack,
                quantity="numbers beside the inputs",
            )
            if tokens in measurement["apart"].get(name, {}):
                yield Check.exact(
                    id=f"equal/{name}/{tokens}",
                    group=f"outputs and gradients: {side.words}",
                    claim=CLAIMS[side.form],
                    statement="outputs and all gradients are those of every pair's value, else of all queries at once",
                    predicted=0.0,
                    measured=measurement["apart"][name][tokens],
                    controls=(measurement["wrong"],),
                    slack=ROUNDING,
                    quantity="largest relative difference",
                )


def times(products: Json, seconds: Json) -> Iterator[Expectation]:
    """Yield how each side grows from its last size but one to its last; what every pair's value costs at the last."""
    compared = []
    for name, side in SIDES.items():
        sizes = [(name, str(t)) for t in sorted(map(int, seconds.get(name, {})))[-2:]]
        if len(sizes) == 2:
            compared.append((f"grows/{name}", f"time over tokens: {side.words}", side.form, sizes[1], sizes[0]))
        if side.way == "pairs" and sizes:
            other = f"{side.form}, collapsed", sizes[-1][1]
            compared.append((f"saved/{name}", f"time of every pair's value: {side.form}", side.form, sizes[-1], other))
    for which, group, form, (a, tokens), (b, other_tokens) in compared:
        pairs = zip(seconds[a][tokens], seconds[b][other_tokens], strict=True)
        ratios = [math.log(one / other) for one, other in pairs]
        if len(ratios) < 2:
            continue
        interval = t_interval(ratios, len(compared))
        yield Expectation(
            id=f"time/{which}",
            group=group,
            claim=CLAIMS[form],
            statement=f"{a} at {tokens} tokens takes as many times longer than {b} at {other_tokens} as it has "
            f"more products, to a factor of {FACTOR:g}",
            rule="none",
            predicted=0.0,
            measured=interval.mean - math.log(products[a][tokens] / products[b][other_tokens]),
            stderr=interval.stderr,
            tolerance=interval.half_width,
            controls=tuple((off, interval.half_width) for off in (math.log(2), -math.log(2))),
            slack=math.log(FACTOR),
            quantity="log of the ratio of times, minus that of products",
        )


def around(medians: Sequence[float], turns: Sequence[Sequence[float]]) -> list[list[float]]:
    """Return how far all turns lie below and above their medians."""
    pairs = list(zip(medians, turns, strict=True))
    return [[middle - min(x) for middle, x in pairs], [max(x) - middle for middle, x in pairs]]


def draw_memory(axis: Axes, prediction: Json, peaks: Json) -> None:
    """Draw the memory of one head, lines the formula."""
    for name, formula in prediction["peak"].items():
        side = SIDES[name]
        tokens = sorted(map(int, formula))
        axis.plot(tokens, [formula[str(t)] / MIB for t in tokens], color=side.color, linestyle=side.line)
        look: dict[str, Any] = {"color": side.color, "markerfacecolor": "white"}
        axis.plot(tokens, [peaks[name][str(t)] / MIB for t in tokens], side.marker, **look)
        axis.plot([], [], side.marker, linestyle=side.line, label=side.words, **look)
    axis.set_ylabel("memory at the peak (MiB); lines: formula")
    axis.set_title(f"Memory of one head, $w={prediction['width']}$")


def draw_time(axis: Axes, products: Json, seconds: Json) -> None:
    """Draw times, and as lines the products, all at the speed of the revised form, collapsed, at the most tokens.

    Products of all sides but every pair's matrix are the same, but for some of a token's alone.
    """
    reference, abreast = "revised, collapsed", 1.07  # between neighbouring sides at equal numbers of tokens
    last = max(seconds[reference], key=int)
    per_product = median(seconds[reference][last]) / products[reference][last]
    for i, (name, side) in enumerate(SIDES.items()):
        if not seconds.get(name):
            continue
        tokens = sorted(map(int, seconds[name]))
        turns = [[1e3 * x for x in seconds[name][str(t)]] for t in tokens]
        medians = [median(x) for x in turns]
        axis.errorbar(
            [t * abreast ** (i - (len(SIDES) - 1) / 2) for t in tokens],
            medians,
            yerr=around(medians, turns),
            color=side.color,
            linestyle="none",
            elinewidth=1,
            marker=side.marker,
            markersize=4,
            markerfacecolor="white",
        )
    for name, line, label in (
        ("initial, pairs", "-", "products of every pair's matrix, as time; markers as in (a)"),
        (reference, ":", "products of all others, as time"),
    ):
        tokens = sorted(map(int, products.get(name, {})))
        lengths = [1e3 * per_product * products[name][str(t)] for t in tokens]
        axis.plot(tokens, lengths, color="#1a1a1a", linestyle=line, linewidth=1, label=label)
    axis.set_ylabel("time of both passes (ms; bars: all turns)")
    axis.set_title(f"Time of one head; lines: {1e-9 / per_product:.2g}$\\cdot 10^9$ products a second")


def draw_layers(axis: Axes, measurement: Json) -> None:
    """Draw the layers of the paper's models as ratios to the ordinary heads of the same turn."""
    farthest = 4.0  # what is drawn to scale; others stand at the edge, in numbers
    layers = measurement["layers"]
    places = {name: len(layers) - i for i, name in enumerate(name for name in LAYERS if name in layers)}
    all_tokens = sorted({int(t) for by_tokens in layers.values() for t in by_tokens})
    for i, (t, marker) in enumerate(zip(map(str, all_tokens), style.MARKERS, strict=False)):
        heads = layers[HEADS][t]
        ratios = {n: [a / b for a, b in zip(layers[n][t], heads, strict=True)] for n in places if t in layers[n]}
        color, height = ("#1a1a1a", "#8a8a8a", "#c8c8c8")[i % 3], 0.15 * i
        near = {name: median(x) for name, x in ratios.items() if median(x) <= farthest}
        axis.errorbar(
            list(near.values()),
            [places[name] + height for name in near],
            xerr=around(list(near.values()), [ratios[name] for name in near]),
            fmt=marker,
            color=color,
            markerfacecolor="white",
            label=f"{t} tokens: {1e3 * median(heads):.3g} ms for ordinary heads",
        )
        for name in ratios.keys() - near.keys():
            low, middle, high = (f(ratios[name]) for f in (min, median, max))
            text = f"{middle:.3g} ({low:.3g} to {high:.3g}) $\\rightarrow$"
            axis.text(farthest, places[name] + height, text, ha="right", va="center", color=color)
    axis.axvline(1, color="#8a8a8a", linewidth=1, linestyle="--")
    axis.set_yticks(list(places.values()), [f"{LAYERS[n]}\n({kernel(measurement['kernels'][n])})" for n in places])
    axis.set_xlim(0, farthest)
    axis.set_ylim(0.5, len(places) + 0.5)
    axis.set_xlabel("time over ordinary heads' (bars: all turns)")
    axis.set_title("One layer's attention in the paper's models")


def kernel(kernels: Sequence[str]) -> str:
    """Return what ran, in words."""
    fused = [name for name in kernels if name != "softmax"]
    return f"{' and '.join(fused)} kernel" if fused else "no kernel: weights of pairs"


EXPERIMENT: Experiment = Collapse()
