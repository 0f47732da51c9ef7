"""The two models of Dynamic Value Attention's Table 1."""

from __future__ import annotations

from dataclasses import replace

from theory.plans.presets import Preset, gpt2, register

_DVA_A = gpt2(d_model=768, n_heads=12, n_layers=12, vocab=50_257, context=256, tied=False, qkv_bias=False)

register(
    {
        "dva-a": Preset(_DVA_A, "Dynamic Value Attention, section 4, Table 1, model a", "162,419,712"),
        "dva-b": Preset(
            replace(_DVA_A, n_heads=1),
            "Dynamic Value Attention, section 4, Table 1, model b",
            "112,800,768",
            variant="dva",
        ),
    }
)
