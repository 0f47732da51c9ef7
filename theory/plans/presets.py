"""The papers' models by name, with what the papers say about their size, and the shapes that they are made of.

They stand in the papers' rooms, `theory/PAPER/presets.py`, and register themselves.  Standard library only.

`stated` is the paper's own total where it gives one, to compare with the total that follows from its dimensions;
`note` says what the paper leaves open or gets wrong.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace

from theory.errors import BadInput
from theory.plans.architecture import Architecture, Tokens, Vectors
from theory.plans.papers import Room
from theory.plans.registry import Registry, owner
from theory.plans.variants import VARIANTS


@dataclass(frozen=True)
class Preset:
    """An architecture from a paper, and the variant that it is given there."""

    architecture: Architecture
    place: str
    stated: str
    note: str = ""
    variant: str = "vanilla"


def llama(
    *, d_model: int, n_heads: int, n_layers: int, d_ff: int, vocab: int, context: int, n_kv_heads: int = 0
) -> Architecture:
    """Return LLaMA's architecture: RMSNorm, gated feed-forward, rotary positions, no biases, untied embeddings."""
    return Architecture(
        d_model=d_model,
        n_layers=n_layers,
        n_heads=n_heads,
        d_ff=d_ff,
        context=context,
        stem=Tokens(vocab),
        n_kv_heads=n_kv_heads,
    )


def gpt2(
    *, d_model: int, n_heads: int, n_layers: int, vocab: int, context: int, tied: bool, qkv_bias: bool
) -> Architecture:
    """Return GPT-2's architecture: LayerNorm, GELU, learned positions, biases."""
    return Architecture(
        d_model=d_model,
        n_layers=n_layers,
        n_heads=n_heads,
        d_ff=4 * d_model,
        context=context,
        stem=Tokens(vocab, tied),
        norm="layer",
        gated=False,
        positions="learned",
        bias=True,
        qkv_bias=qkv_bias,
        dropout=0.1,
    )


def gpt2_rotary(*, d_model: int, n_heads: int, n_layers: int, vocab: int, context: int) -> Architecture:
    """Return GPT-2 as in SkipV1Former's published code.

    It has LayerNorm and GELU, but rotary positions, no biases and tied embeddings.
    """
    base = gpt2(
        d_model=d_model, n_heads=n_heads, n_layers=n_layers, vocab=vocab, context=context, tied=True, qkv_bias=False
    )
    return replace(base, positions="rope", bias=False, dropout=0.2)


def toy(d: int, n: int, *, heads: int = 2, layers: int = 2, copy_rank: int | None = None) -> Architecture:
    """Return the linear-attention toy of SkipV1Former's appendix A.1: tokens of width d, heads as wide, nothing else.

    `copy_rank` gives its first layer Assumption 1.  Norms, positions or a feed-forward come by `dataclasses.replace`,
    the missing residual stream by a plan whose depth rule is `Chain`.
    """
    return Architecture(
        d_model=d,
        n_layers=layers,
        n_heads=heads,
        d_ff=0,
        context=2 * n + 1,
        stem=Vectors(d, read_in=False),
        head_dim=d,
        norm="none",
        positions="none",
        mask="context",
        score="linear",
        copy_rank=copy_rank,
    )


MOST_HEADS = 20_000  # of all layers together: a plan is a table of them


def resized(
    config: Architecture, *, width: int | None = None, layers: int | None = None, heads: int | None = None
) -> Architecture:
    """Return the same kind of model in another size.  Sizes that are not given follow as in the original.

    Heads keep their width, so a wider model has more of them; given their number, they share the model's width.  The
    feed-forward stays as many times as wide as the model, and as many query heads share a key/value head.  Raises
    BadInput for what does not divide.
    """
    d, n = width or config.d_model, layers or config.n_layers
    if heads is None and d % config.width:
        raise BadInput(f"heads {config.width} wide do not divide a width of {d}; say how many there are to be")
    count = heads or d // config.width
    if n * count > MOST_HEADS:
        raise BadInput(f"{n:,} layers of {count:,} heads are too many; there may be {MOST_HEADS:,} heads in all")
    if count % config.group:
        raise BadInput(f"{config.group} query heads share a key/value head, which does not divide {count} heads")
    try:
        return replace(
            config,
            d_model=d,
            n_layers=n,
            n_heads=count,
            n_kv_heads=count // config.group if config.n_kv_heads else 0,
            d_ff=round(config.d_ff * d / config.d_model),
        )
    except ValueError as error:
        raise BadInput(str(error)) from None


PRESETS: Registry[Preset] = Registry("preset", "presets")


def register(presets: dict[str, Preset]) -> None:
    """Register a paper's models by name.  Raises BadInput for a name that another of ours has."""
    module = sys._getframe(1).f_globals["__name__"]
    room = owner(module)
    for name, preset in presets.items():
        variant = preset.variant if room is None else _own(preset.variant, room)
        PRESETS.register(name, replace(preset, variant=variant), module)


def _own(variant: str, room: Room) -> str:
    """Return the variant with a paper's own names qualified where others have them."""

    def part(text: str) -> str:
        name, colon, options = text.partition(":")
        qualified = f"{room.qualifier}.{name.strip()}"
        own = VARIANTS.get(qualified)
        return text if own is None or VARIANTS.get(name.strip()) is own else f"{qualified}{colon}{options}"

    return "+".join(map(part, variant.split("+")))
