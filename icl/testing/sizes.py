"""Sizes of decoders for hypothesis to draw, inputs that fit them, and decoders at generic points."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil
from typing import Any

import torch
from hypothesis import strategies as st
from torch import Tensor

from icl.models.decoder import Decoder
from icl.prompts import Generator
from theory.plans.architecture import Architecture, Latent, Patches, Stem, Tokens, Vectors
from theory.plans.plan import Plan


@dataclass(frozen=True)
class Case:
    """Sizes of a decoder and of its input, and the seed from which its weights and its input are drawn."""

    config: Architecture
    batch: int
    length: int
    seed: int


def cases(
    *,
    least_heads: int = 1,
    even: bool = False,
    least_layers: int = 1,
    most_layers: int = 5,
    square: bool = False,
    parts: int = 1,
    stems: tuple[str, ...] = ("tokens", "tied", "vectors"),
    latent: bool = False,
    **fields: Any,
) -> st.SearchStrategy[Case]:
    """Draw LLaMA, GPT-2 and everything between: each field of the architecture is drawn by itself.

    The width is at least 3: LayerNorm makes signs of two numbers, and gradients through it are rounding alone.

    Args:
        least_heads: The least number of key/value heads, for variants that split them.
        even: Their number is even.
        least_layers: The least number of layers.
        most_layers: The largest.
        square: The heads together are as wide as the model, for variants without an output projection.
        parts: A divisor of the width, for depth attention with heads.
        stems: "tokens", "tied" (tokens, with a tied head), "vectors", "patches": those that are drawn from.
        latent: Multi-head latent attention.
        fields: Fields of the architecture that are not drawn.
    """
    return _cases(
        range(least_layers, most_layers + 1),
        least_heads=least_heads,
        even=even,
        square=square,
        parts=parts,
        stems=stems,
        latent=latent,
        fields=fields,
    )


@st.composite
def _cases(
    draw: st.DrawFn,
    layers: range,
    *,
    least_heads: int,
    even: bool,
    square: bool,
    parts: int,
    stems: tuple[str, ...],
    latent: bool,
    fields: dict[str, Any],
) -> Case:
    kv = draw(st.integers(least_heads, 4).filter(lambda n: n % 2 == 0 if even else True))
    group = 1 if latent else draw(st.integers(1, 2))
    positions = "rope" if latent else draw(st.sampled_from(["rope", "learned", "none"]))
    widths = [2, 4] if positions == "rope" and not latent else [1, 2, 3]
    width = draw(st.sampled_from([w for w in widths if not square or kv * group * w >= 3]))
    d_model = kv * group * width if square else parts * draw(st.integers(ceil(3 / parts), max(1, 8 // parts)))
    n_layers = draw(st.sampled_from(layers))
    biased = not latent and draw(st.booleans())
    stem, length = _stem(draw(st.sampled_from(stems)), draw(st.integers(1, 7)))
    config = Architecture(
        d_model=d_model,
        n_layers=n_layers,
        n_heads=kv * group,
        d_ff=draw(st.integers(1, 6)),
        context=length + draw(st.integers(0, 1)) * (not isinstance(stem, Patches)),
        stem=stem,
        n_kv_heads=kv,
        head_dim=width,
        norm=draw(st.sampled_from(["rms", "layer"])),
        norm_eps=draw(st.sampled_from([1e-5, 0.1])),
        gated=draw(st.booleans()),
        positions=positions,  # type: ignore[arg-type]
        rope_theta=draw(st.sampled_from([10.0, 10_000.0])),
        qkv_bias=biased,
        bias=draw(st.booleans()),
        mask="none" if isinstance(stem, Patches) else "causal",
        latent=Latent(kv * draw(st.integers(1, 2)), draw(st.sampled_from([2, 4]))) if latent else None,
    )
    return Case(replace(config, **fields), draw(st.integers(1, 3)), length, draw(st.integers(0, 2**16)))


def _stem(kind: str, length: int) -> tuple[Stem, int]:
    """Return a stem, and the length that it makes of the one that was drawn."""
    match kind:
        case "vectors":
            return Vectors(3), length
        case "patches":
            side = 2 if length > 3 else 1
            return Patches(image=2 * side, patch=2, channels=3, classes=4), side**2 + 1
        case _:
            return Tokens(5, tied=kind == "tied"), length


def inputs_of(case: Case, stream: int = 0) -> Tensor:
    """Return an input of a case's sizes; another one for another stream."""
    numbers = Generator(case.seed, 1, stream)
    match case.config.stem:
        case Tokens(vocab=vocab):
            return (numbers.normal((case.batch, case.length), torch.float64) * 1e3).long() % vocab
        case Vectors(width=width):
            return numbers.normal((case.batch, case.length, width), torch.float64)
        case Patches(image=image, channels=channels):
            return numbers.normal((case.batch, channels, image, image), torch.float64)


def generic(config: Architecture, plan: Plan, seed: int) -> Decoder:
    """Return a float64 decoder at a generic point: no weight keeps a special starting value (0, 1, one-hot)."""
    model = Decoder(config, plan, seed=seed, std=0.3).double()
    numbers = Generator(seed, 2)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * numbers.normal(tuple(parameter.shape), torch.float64))
    return model
