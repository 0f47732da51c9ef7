"""The models of SkipV1Former's paper."""

from __future__ import annotations

from dataclasses import replace

from theory.plans.architecture import Architecture, Patches
from theory.plans.presets import Preset, gpt2_rotary, llama, register

GPT2 = "SkipV1Former, appendix B.1, Table 3"
LLAMA = "SkipV1Former, appendix B.2, Table 4"


VOCAB = "the paper gives no vocabulary; LLaMA's 32,000 tokens are assumed"


def _c4(d_model: int, n_heads: int, n_layers: int, d_ff: int, stated: str, note: str = "") -> Preset:
    note = f"{note}; {VOCAB}" if note else VOCAB
    return Preset(
        llama(d_model=d_model, n_heads=n_heads, n_layers=n_layers, d_ff=d_ff, vocab=32_000, context=1024),
        LLAMA,
        stated,
        note=note,
    )


def _owt2(d_model: int, n_heads: int, n_layers: int, stated: str) -> Preset:
    note = "rotary, bias-free and tied as in the authors' code; vocabulary assumed: GPT-2's 50,257 padded to 50,304"
    return Preset(
        gpt2_rotary(d_model=d_model, n_heads=n_heads, n_layers=n_layers, vocab=50_304, context=1024),
        GPT2,
        stated,
        note=note,
    )


def _tiny(d_model: int, n_heads: int, n_layers: int, d_ff: int, stated: str, note: str) -> Preset:
    config = llama(
        d_model=d_model,
        n_heads=n_heads,
        n_layers=n_layers,
        d_ff=d_ff,
        vocab=32_000,
        context=1024,
        n_kv_heads=n_heads // 4,
    )
    return Preset(
        config, "SkipV1Former, appendix B.2, Table 6", stated, note=f"the paper gives no dimensions; assumed are {note}"
    )


_VIT_TINY = Architecture(
    d_model=192,
    n_layers=12,
    n_heads=3,
    d_ff=768,
    context=65,
    stem=Patches(image=32, patch=4, channels=3, classes=10),
    norm="layer",
    gated=False,
    positions="learned",
    qkv_bias=True,
    bias=True,
    mask="none",
)

register(
    {
        "llama-60m": _c4(512, 8, 8, d_ff=1376, stated="60M"),
        "llama-130m": _c4(768, 12, 12, d_ff=2048, stated="130M"),
        "llama-350m": _c4(
            1024, 16, 24, d_ff=2736, stated="350M", note="the paper calls it 350M; its printed dimensions make 368M"
        ),
        "llama-1b": _c4(
            2048, 32, 24, d_ff=5461, stated="1.3B", note="the paper calls it 1B in the text and 1.3B in the table"
        ),
        "llama-3b": _c4(
            2560, 32, 32, d_ff=6848, stated="3B", note="the paper calls it 3B; its printed dimensions make 2.69B"
        ),
        "llama-7b": replace(
            _c4(4096, 32, 32, d_ff=11_008, stated="7B"),
            place="SkipV1Former, section 6.3, Figs. 6 and 7",
            note="the paper gives no dimensions; LLaMA-7B's are assumed",
        ),
        "gpt2-125m": _owt2(768, 12, 12, stated="125M"),
        "gpt2-200m": _owt2(1024, 16, 12, stated="200M"),
        "gpt2-355m": _owt2(1024, 16, 24, stated="355M"),
        "gpt2-550m": _owt2(1200, 20, 28, stated="550M"),
        "tinyllama-125m": _tiny(
            768, 12, 12, d_ff=2048, stated="125M", note="LLaMA-130M's with four query heads per key/value head"
        ),
        "tinyllama-315m": _tiny(
            1024,
            16,
            24,
            d_ff=2736,
            stated="315M",
            note="LLaMA-350M's with four query heads per key/value head, which make 330M, not 315M",
        ),
        "tinyllama-1.1b": _tiny(
            2048,
            32,
            22,
            d_ff=5632,
            stated="1.1B",
            note="the released TinyLLaMA's, with four query heads per key/value head instead of eight",
        ),
        "vit-tiny": Preset(
            _VIT_TINY,
            "SkipV1Former, appendix C.6",
            "5.5M",
            note="the paper gives no patch size; 4 x 4 in images of 32 x 32 is assumed, which makes 5.4M; 16 x 16 in "
            "images of 224 x 224 would make the 5.5M that it states",
        ),
    }
)
