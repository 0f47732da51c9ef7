"""Small models of the field."""

from __future__ import annotations

from dataclasses import replace

from theory.plans.presets import Preset, gpt2, register

_NANO = gpt2(d_model=128, n_heads=4, n_layers=4, vocab=65, context=64, tied=True, qkv_bias=False)

register(
    {
        "gpt2-0.8m": Preset(
            replace(_NANO, bias=False, dropout=0.0),
            "nanoGPT, github.com/karpathy/nanoGPT, README: its settings for a CPU",
            "0.80M",
        ),
    }
)
