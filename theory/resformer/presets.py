"""The models of ResFormer's paper."""

from __future__ import annotations

from theory.plans.presets import Preset, llama, register

TABLE_4 = "ResFormer, appendix A.5, Table 4"


def _neox(d_model: int, n_heads: int, n_layers: int, d_ff: int, stated: str, note: str = "") -> Preset:
    return Preset(
        llama(d_model=d_model, n_heads=n_heads, n_layers=n_layers, d_ff=d_ff, vocab=50_277, context=2048),
        TABLE_4,
        stated,
        note=note,
    )


register(
    {
        "llama-2m": _neox(
            16,
            2,
            4,
            d_ff=56,
            stated="2M",
            note="the paper calls it 2M; its printed dimensions make 1.6M, 99 % of them embeddings of 50,277 tokens",
        ),
        "llama-82m": _neox(512, 8, 8, d_ff=1792, stated="82M"),
        "llama-180m": _neox(768, 12, 12, d_ff=2688, stated="180M"),
        "llama-468m": _neox(1024, 16, 24, d_ff=3584, stated="468M"),
    }
)
