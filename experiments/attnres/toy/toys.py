"""The toys of `attnres-toy`, how results name them, and what theory says of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache

from experiments.store.folders import Json
from icl.recipe import Recipe
from theory.attnres.bounds import read_bounds
from theory.attnres.coefficients import average_matrix, start_matrix
from theory.attnres.toy import descent_reads, mean_squares, random_reads
from theory.attnres.unnormed import unnormed_outputs
from theory.errors import BadInput
from theory.plans.architecture import Architecture, Vectors
from theory.plans.names import resolve
from theory.plans.presets import toy
from theory.plans.setting import Setting
from theory.prompts import spectral

RESIDUAL, FULL, BLOCK, AVERAGE = "vanilla", "attnres", "attnres-block:size=2", "denseformer"
RULES = {  # of reading over depth at the start, and the words for them
    RESIDUAL: "residual stream",
    FULL: "Full",
    BLOCK: "Block of 2 layers",
    "attnres-block:blocks=4": "2 blocks",  # the variant counts two sublayers a layer, and the toy has one
    AVERAGE: "DenseFormer, means over depth",
}
WEIGHTS = {"descent": "gradient steps", "random": "random weights"}
TOKENS = {"context": "a context token", "query": "the query"}
WIDTHS = {"as they come": 1.0, "three times as wide": 3.0}  # of the held-out prompts' inputs, for trained toys
CUBIC = 3  # linear attention reads queries, keys and values
STARTS = 6  # of descents for a point of a curve: at d of 3 and 5 they find what four times as many do


@dataclass(frozen=True)
class Network:
    """A toy that is trained: its depth rule, as a variant, and whether its sublayers and its head start with a norm."""

    words: str
    variant: str
    normed: bool = False
    head: bool = False

    @property
    def keys_normed(self) -> bool:
        return self.variant in (FULL, BLOCK)


UNNORMED = "attnres-no-key-norm"
NETWORKS = {
    "residual": Network("residual stream", RESIDUAL),
    "residual+head": Network("residual stream, head normed", RESIDUAL, head=True),
    "residual+sublayers": Network("residual stream, sublayers normed", RESIDUAL, normed=True),
    "average": Network("DenseFormer", AVERAGE),
    "average+sublayers": Network("DenseFormer, sublayers normed", AVERAGE, normed=True),
    "full": Network("Full", UNNORMED),
    "full+head": Network("Full, head normed", UNNORMED, head=True),
    "full+sublayers": Network("Full, sublayers normed", UNNORMED, normed=True),
    "full+keys": Network("Full, keys normed", FULL),
    "full+keys+sublayers": Network("Full, keys and sublayers normed", FULL, normed=True),
    "full+keys+head+sublayers": Network("Full, keys, head and sublayers normed", FULL, normed=True, head=True),
    "block+keys": Network("Block of 2 layers, keys normed", BLOCK),
    "block+keys+sublayers": Network("Block of 2 layers, keys and sublayers normed", BLOCK, normed=True),
}
BASELINE, TWIN = "residual", "twin"  # the twin: the residual stream without norms from other initial weights


@dataclass(frozen=True, kw_only=True)
class Config:
    """The toys that are looked at.

    Attributes:
        task: In-context regression, of the toys at the start and of those that are trained.
        step: Of every layer at the start: B = step I.
        deviation: Of random weights: entries N(0, deviation^2 / d).
        depths: Layers at which decoders that make gradient steps are measured.
        random_depths: Layers at which decoders of random weights are.
        deepest: Layers to which closed forms go.
        widths: Of the context's inputs: as many times as wide as the task's, of equally many prompts.
        wider: The same for random weights.
        prompts: Per seed and width; a multiple of the number of `wider`.
        width: Of the trained toys.
        std: Of their initial matrices.
        trained_depths: Layers over which exponents are taken.
        deeper: Layers at which it is only asked whether trainings diverge.
        deep: Tasks of the deep toy.
        layers: Of the deep toy.
        noises: Sigmas of its curves.
        answered: Prompts per seed for each of its tasks and layers.
    """

    task: Setting
    step: float
    deviation: float
    depths: tuple[int, ...]
    random_depths: tuple[int, ...]
    deepest: int
    widths: tuple[float, ...]
    wider: tuple[float, ...]
    prompts: int
    width: int
    std: float
    trained_depths: tuple[int, ...]
    deeper: int
    trained_seeds: int
    recipe: Recipe
    held_out_prompts: int
    deep: tuple[Setting, ...]
    layers: tuple[int, ...]
    noises: tuple[float, ...]
    answered: int

    def __post_init__(self) -> None:
        if self.prompts % len(self.wider):
            raise ValueError("every width of the weights meets every width of the inputs equally often")
        if self.widths[0] != 1:
            raise ValueError("prompts as they come are the first: their width is 1")

    def starts(self) -> Iterator[tuple[str, str, int]]:
        """Yield weights, depth rule and layers of every toy at the start."""
        depths = {"descent": self.depths, "random": self.random_depths}
        return ((kind, rule, depth) for kind in WEIGHTS for rule in RULES for depth in depths[kind])

    def trained(self, network: Network, depth: int) -> Architecture:
        """Return a trained toy's sizes: tokens (x ; y) side by side, read in by a linear map, and its norms."""
        normed, head = network.normed, network.head
        return replace(
            toy(self.width, self.task.n, heads=1, layers=depth),
            stem=Vectors(2 * self.task.d),
            norm="rms" if normed or head else "none",
            normed="all" if normed == head else "sublayers" if normed else "head",
        )


def start(kind: str, rule: str, depth: int, token: str) -> str:
    """Return how results name a mean square at the start."""
    return f"{kind}/{rule}/{depth}/{token}"


def cell(network: str, depth: int) -> str:
    """Return how results name a network at a number of layers."""
    return f"{network}/{depth}"


def answer(setting: Setting, layers: int) -> str:
    """Return how results name a deep toy."""
    return f"{setting.key}/{layers}"


def predicted(config: Config) -> Json:
    """Return what theory says of the toys.

    Returns:
        start, curves: the last read's mean squares, where decoders are measured and at every number of layers.
        bounded: networks whose reads have a bound that no depth exceeds.
        deep: losses of the deep toy.
        gains: what depth weights gain there, by noise.
    """
    many = 2 * config.deeper, 4 * config.deeper
    largest = {name: [largest_read(config, network, depth) for depth in many] for name, network in NETWORKS.items()}
    return {
        "depths": list(config.depths),
        "random_depths": list(config.random_depths),
        "deepest": config.deepest,
        "trained_depths": list(config.trained_depths),
        "deeper": config.deeper,
        "start": {
            start(*at, token): square
            for at in config.starts()
            for token, square in zip(TOKENS, last_squares(config, *at), strict=True)
        },
        "curves": {
            f"{kind}/{rule}": [
                last_squares(config, kind, rule, depth=depth)[0] for depth in range(1, config.deepest + 1)
            ]
            for kind in WEIGHTS
            for rule in RULES
        },
        "bounded": [name for name, (few, more) in largest.items() if more is not None and few == more],
        "deep": {answer(setting, k): deep_losses(setting, k) for setting in config.deep for k in config.layers},
        "noises": list(config.noises),
        "gains": {
            f"{d}/{n}/{k}": [depth_gain(d, n, sigma, layers=k) for sigma in config.noises]
            for d, n in dict.fromkeys((setting.d, setting.n) for setting in config.deep)
            for k in config.layers
        },
    }


def last_squares(config: Config, kind: str, rule: str, depth: int) -> tuple[float, float]:
    """Return the mean squares of the last read: of a context token, and of the query."""
    task, size = config.task, config.step if kind == "descent" else config.deviation
    return exact_squares(Setting(task.d, task.n, Fraction(task.sigma)), kind, rule, depth=depth, size=Fraction(size))


@lru_cache(maxsize=1024)
def exact_squares(setting: Setting, kind: str, rule: str, depth: int, size: Fraction) -> tuple[float, float]:
    sizes = toy(2 * setting.d, setting.n, heads=1, layers=depth)
    means = [[Fraction(1, n + 1)] * (n + 1) for n in range(1, depth + 1)]
    matrix = average_matrix(means, 1) if rule == AVERAGE else start_matrix(sizes, resolve(rule, sizes.shape))
    reads = (descent_reads if kind == "descent" else random_reads)(matrix, [size] * depth)
    squares = mean_squares(setting, reads[-1])
    return float(squares.context), float(squares.query)


def largest_read(config: Config, network: Network, depth: int) -> float | None:
    """Return the bound on all reads, for embeddings of norm 2.

    With norms before sublayers it holds if no output is larger either; without, if no sublayer enlarges the cube of
    what it reads.  None: it exceeds floating-point numbers, or depth weights are averages, which are learned.
    """
    sizes = config.trained(network, depth)
    plan = resolve(network.variant, sizes.shape)
    outputs = [2.0] * depth
    try:
        if not network.normed:
            outputs = unnormed_outputs(sizes, plan, 2.0, factors=[1.0] * depth, power=CUBIC)
        return max(read_bounds(sizes, plan, 2.0, outputs=outputs))
    except BadInput:
        return None


def deep_losses(setting: Setting, layers: int) -> Json:
    """Return the losses of the best depth weights, of the best residual stream, and of one layer."""
    d, n, sigma = setting.d, setting.n, Fraction(setting.sigma)
    best = spectral.best_polynomial(d, n, sigma, degree=layers).loss
    residual = spectral.best_steps(d, n, float(sigma), count=layers).loss
    return {
        "d": d,
        "n": n,
        "sigma": setting.sigma,
        "layers": layers,
        "depth": float(best),
        "residual": residual,
        "gain": residual - float(best),
        "one layer": float(spectral.best_polynomial(d, n, sigma, degree=1).loss),
        "noise": float(d * sigma**2),
    }


def depth_gain(d: int, n: int, sigma: float, layers: int) -> float:
    """Return what depth weights gain, over what the best residual stream loses above the noise.

    It is exactly nothing for noise up to the threshold.
    """
    if sigma <= spectral.noise_threshold(d, n, layers):
        return 0.0
    best = spectral.best_loss(d, n, sigma, degree=layers)
    steps = spectral.best_steps(d, n, sigma, count=layers, starts=STARTS).loss
    return (steps - best) / (steps - d * sigma**2)
