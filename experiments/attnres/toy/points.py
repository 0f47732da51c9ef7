"""Which toys are looked at, and how results name them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from icl.recipe import Recipe
from theory.plans.architecture import Architecture, Vectors
from theory.plans.presets import toy
from theory.plans.setting import Setting

MAGNITUDE, NORMS, BOUNDED, DEEP = "attnres.toy-magnitude", "attnres.norms", "attnres.bounded", "attnres.deep-toy"

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


@dataclass(frozen=True)
class Network:
    """A toy that is trained: how it reads over depth, as a variant, and whether its sublayers and its head start with a
    norm, each by itself; words for it."""

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
    """task     in-context regression, of the toys at the start and of those that are trained
    step        of every layer, at the start: B = step I
    deviation   of random weights: entries N(0, deviation^2 / d)
    depths      in layers, at which decoders are measured, of gradient steps; random_depths: of random weights; closed
                forms go up to `deepest`
    widths      of the context's inputs: as many times as wide as the task's, of equally many prompts
    wider       of random weights, likewise
    prompts     of a seed at every width; a multiple of the number of `wider`
    width       of the trained toys; std: of their initial matrices
    trained_depths  over which exponents are taken; `deeper`: layers at which it is only asked whether trainings diverge
    deep        (d, n, sigma) and numbers of layers of the deep toy; `noises`: sigmas of its curves
    answered    prompts of a seed for each of these
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
        depths = {"descent": self.depths, "random": self.random_depths}
        return ((kind, rule, depth) for kind in WEIGHTS for rule in RULES for depth in depths[kind])

    def trained(self, network: Network, depth: int) -> Architecture:
        """Tokens (x ; y) side by side, read in by a linear map; all else as in the toy, but for the norms."""
        normed, head = network.normed, network.head
        return replace(
            toy(self.width, self.task.n, heads=1, layers=depth),
            stem=Vectors(2 * self.task.d),
            norm="rms" if normed or head else "none",
            normed="all" if normed == head else "sublayers" if normed else "head",
        )


WIDTHS = {"as they come": 1.0, "three times as wide": 3.0}  # of the held-out prompts' inputs, for trained toys


def start(kind: str, rule: str, depth: int, token: str) -> str:
    """How results name a mean square at the start."""
    return f"{kind}/{rule}/{depth}/{token}"


def cell(network: str, depth: int) -> str:
    """How results name a network at a number of layers."""
    return f"{network}/{depth}"


def answer(setting: Setting, layers: int) -> str:
    """How results name a deep toy."""
    return f"{setting.key}/{layers}"
