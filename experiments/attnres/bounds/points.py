"""Which networks are looked at, and how results name them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from experiments.store.folders import Json
from icl.recipe import Recipe
from theory.plans.architecture import Architecture
from theory.plans.presets import llama
from theory.plans.setting import Setting

GROWTH, INITIAL, TYPICAL = "attnres.growth", "attnres.initial-size", "attnres.typical-output"
ATTENTION, FEED_FORWARD, GATED = "attnres.attention-output", "attnres.feed-forward-output", "attnres.swiglu-quartic"
BOUNDED = "attnres.bounded"

FULL = "attnres"
RULES = {  # of reading over depth, and the words for them
    "vanilla": "PreNorm",
    FULL: "Full",
    "attnres-block:size=4": "Block of 4 sublayers",
    "attnres-block:blocks=8": "8 blocks",
}
PRESET_STD = 0.02
STARTS = {"start": False, "scaled": True}  # of initial weights, whether outputs are scaled by depth
TRAINED = ("vanilla", FULL, "attnres-block:size=4")  # eight blocks are Full itself in the shallow of these
SHARPENED = ("vanilla", FULL)  # of the deepest of these, sublayers' bounds are looked at before and after training
KINDS = {"attention": ATTENTION, "SwiGLU": GATED, "GELU": FEED_FORWARD}


@dataclass(frozen=True, kw_only=True)
class Config:
    """sizes     of the networks at their start; their number of layers is replaced by each of `depths`
    std          deviation of initial matrices and embeddings; outputs as these, and scaled by depth
    preset       sizes as a preset has them, started as it is: PRESET_STD, outputs scaled by depth
    widths       of the sublayers whose bounds are compared with what inputs attain, deviation 1 / sqrt(width)
    random       inputs, and `ascents` from some of them, of `steps` steps
    trained      sizes of the networks that are trained, at each of `trained_depths`, on in-context regression
    """

    sizes: Architecture
    depths: tuple[int, ...]
    std: float
    preset: Architecture
    tokens: int
    widths: tuple[int, ...]
    random: int
    ascents: int
    steps: int
    trained: Architecture
    trained_depths: tuple[int, ...]
    trained_seeds: int
    recipe: Recipe
    task: Setting
    held_out_prompts: int


def cell(rule: str, depth: int) -> str:
    """How results name a rule at a number of layers."""
    return f"{rule}/{depth}"


def at_start(config: Config, depth: int) -> Architecture:
    """Norms have eps = 0, as the closed form has it."""
    return replace(config.sizes, n_layers=depth, norm_eps=0.0)


def attaining(depth: int) -> Architecture:
    """For networks whose every read is as large as it can be: one head, as wide as the model."""
    return replace(llama(d_model=4, n_heads=1, n_layers=depth, d_ff=2, vocab=2, context=2), norm_eps=0.0)


def one_layer(width: int) -> Architecture:
    """The sublayers whose bounds are looked at: a LLaMA's, its feed-forward 8/3 of the width."""
    return llama(d_model=width, n_heads=4, n_layers=1, d_ff=8 * width // 3, vocab=2, context=2)


def largest(probed: Json) -> float:
    """Of a trained network's root mean squares, the largest over reads."""
    return max(probed["read_rms"])


def places(tokens: int) -> list[int]:
    """Of the tokens of a prompt, those that are judged, from 1."""
    return [2**i for i in range(tokens.bit_length())]
