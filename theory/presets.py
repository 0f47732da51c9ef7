"""The papers' models by name, with what the papers say about their size.  Standard library only.

`stated` is the paper's own total where it gives one, to hold against the total that follows from its dimensions;
`note` says what the paper leaves open or gets wrong.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from theory.architecture import Architecture, Patches, Tokens, Vectors

RESFORMER_TABLE = "ResFormer, appendix A.5, Table 4"
SKIPV1_GPT2 = "SkipV1Former, appendix B.1, Table 3"
SKIPV1_LLAMA = "SkipV1Former, appendix B.2, Table 4"


@dataclass(frozen=True)
class Preset:
    """An architecture from a paper, and the variant that it is given there."""

    architecture: Architecture
    place: str
    stated: str
    note: str = ""
    variant: str = "vanilla"


def llama(
    d_model: int, n_heads: int, n_layers: int, d_ff: int, vocab: int, context: int, n_kv_heads: int = 0
) -> Architecture:
    """RMSNorm, gated feed-forward, rotary positions, no biases, input and output embeddings apart."""
    return Architecture(d_model, n_layers, n_heads, d_ff, context, Tokens(vocab), n_kv_heads=n_kv_heads)


def gpt2(
    d_model: int, n_heads: int, n_layers: int, vocab: int, context: int, *, tied: bool, qkv_bias: bool
) -> Architecture:
    """GPT-2: LayerNorm, GELU, learned positions, biases."""
    return Architecture(
        d_model,
        n_layers,
        n_heads,
        4 * d_model,
        context,
        Tokens(vocab, tied),
        norm="layer",
        gated=False,
        positions="learned",
        bias=True,
        qkv_bias=qkv_bias,
        dropout=0.1,
    )


def gpt2_rotary(d_model: int, n_heads: int, n_layers: int, vocab: int, context: int) -> Architecture:
    """GPT-2 as in SkipV1Former's published code: LayerNorm and GELU, but rotary, without biases, embeddings tied."""
    base = gpt2(d_model, n_heads, n_layers, vocab, context, tied=True, qkv_bias=False)
    return replace(base, positions="rope", bias=False, dropout=0.2)


def toy(d: int, n: int, *, heads: int = 2, layers: int = 2, copy_rank: int | None = None) -> Architecture:
    """The linear-attention toy of SkipV1Former's appendix A.1: tokens of width d, heads as wide, and nothing else.

    `copy_rank` gives its first layer Assumption 1.  Norms, positions or a feed-forward come by `dataclasses.replace`,
    the missing residual stream by a plan whose depth rule is `Chain`.
    """
    return Architecture(
        d,
        layers,
        heads,
        0,
        2 * n + 1,
        Vectors(d, read_in=False),
        head_dim=d,
        norm="none",
        positions="none",
        mask="context",
        score="linear",
        copy_rank=copy_rank,
    )


def _neox(d_model: int, n_heads: int, n_layers: int, d_ff: int, stated: str, note: str = "") -> Preset:
    return Preset(llama(d_model, n_heads, n_layers, d_ff, 50_277, 2048), RESFORMER_TABLE, stated, note)


def _c4(d_model: int, n_heads: int, n_layers: int, d_ff: int, stated: str, note: str = "") -> Preset:
    note = note or "the paper gives no vocabulary; LLaMA's 32,000 is assumed"
    return Preset(llama(d_model, n_heads, n_layers, d_ff, 32_000, 1024), SKIPV1_LLAMA, stated, note)


def _owt2(d_model: int, n_heads: int, n_layers: int, stated: str) -> Preset:
    note = "rotary, bias-free and tied as in the authors' code; vocabulary assumed: GPT-2's 50,257 padded to 50,304"
    return Preset(gpt2_rotary(d_model, n_heads, n_layers, 50_304, 1024), SKIPV1_GPT2, stated, note)


def _tiny(d_model: int, n_heads: int, n_layers: int, d_ff: int, stated: str, note: str) -> Preset:
    config = llama(d_model, n_heads, n_layers, d_ff, 32_000, 1024, n_heads // 4)
    return Preset(config, "SkipV1Former, appendix B.2, Table 6", stated, f"dimensions assumed: {note}")


_DVA_A = gpt2(768, 12, 12, 50_257, 256, tied=False, qkv_bias=False)

_VIT_TINY = Architecture(
    192,
    12,
    3,
    768,
    65,
    Patches(image=32, patch=4, channels=3, classes=10),
    norm="layer",
    gated=False,
    positions="learned",
    qkv_bias=True,
    bias=True,
    mask="none",
)

PRESETS: dict[str, Preset] = {
    "llama-2m": _neox(16, 2, 4, 56, "2M", "its dimensions make 1.6M"),
    "llama-82m": _neox(512, 8, 8, 1792, "82M"),
    "llama-180m": _neox(768, 12, 12, 2688, "180M"),
    "llama-468m": _neox(1024, 16, 24, 3584, "468M"),
    "llama-60m": _c4(512, 8, 8, 1376, "60M"),
    "llama-130m": _c4(768, 12, 12, 2048, "130M"),
    "llama-350m": _c4(1024, 16, 24, 2736, "350M", "its dimensions make 368M; vocabulary assumed as for 60M"),
    "llama-1b": _c4(
        2048, 32, 24, 5461, "1.3B", "called 1B in the text and 1.3B in the table; vocabulary assumed as for 60M"
    ),
    "llama-3b": _c4(2560, 32, 32, 6848, "3B", "its dimensions make 2.69B; vocabulary assumed as for 60M"),
    "llama-7b": replace(
        _c4(4096, 32, 32, 11_008, "7B", "the paper gives no dimensions; LLaMA-7B's are assumed"),
        place="SkipV1Former, section 6.3, Figs. 6 and 7",
    ),
    "gpt2-125m": _owt2(768, 12, 12, "125M"),
    "gpt2-200m": _owt2(1024, 16, 12, "200M"),
    "gpt2-355m": _owt2(1024, 16, 24, "355M"),
    "gpt2-550m": _owt2(1200, 20, 28, "550M"),
    "tinyllama-125m": _tiny(768, 12, 12, 2048, "125M", "LLaMA-130M's with four query heads a key/value head"),
    "tinyllama-315m": _tiny(
        1024, 16, 24, 2736, "315M", "LLaMA-350M's with four query heads a key/value head, which make 330M, not 315M"
    ),
    "tinyllama-1.1b": _tiny(
        2048,
        32,
        22,
        5632,
        "1.1B",
        "the released TinyLLaMA's, but four query heads a key/value head, where that has eight",
    ),
    "vit-tiny": Preset(
        _VIT_TINY,
        "SkipV1Former, appendix C.6",
        "5.5M",
        "patches are not given; 4 x 4 of a 32 x 32 image make 5.4M; 5.5M is what 16 x 16 of 224 x 224 makes",
    ),
    "dva-a": Preset(_DVA_A, "Dynamic Value Attention, section 4, Table 1, model a", "162,419,712"),
    "dva-b": Preset(
        replace(_DVA_A, n_heads=1),
        "Dynamic Value Attention, section 4, Table 1, model b",
        "112,800,768",
        variant="dva",
    ),
}
