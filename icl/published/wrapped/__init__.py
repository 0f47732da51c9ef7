"""Decoders under any plan as models of transformers, known to its Auto classes once this package is imported.

    import icl.published.wrapped
    from transformers import AutoConfig, AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained("exported")                    a folder of `crosslayer export`
    config = AutoConfig.for_model("crosslayer", hidden_size=512, plan="skipv1")  sizes of one's own, under a plan
    model = AutoModelForCausalLM.from_config(config)

Without the import, transformers reads such a folder where it is told to trust remote code: the modeling_crosslayer.py
in it imports this package, which must be installed, and holds no copy of it.  Arguments have the names, order and
meaning of transformers' LLaMA; a table of them stands in icl/published/TRANSFORMERS.md.
"""

from __future__ import annotations

from transformers import AutoConfig, AutoModelForCausalLM

from icl.published.own import TYPE
from icl.published.wrapped.configuration import CrosslayerConfig
from icl.published.wrapped.model import CrosslayerForCausalLM

__all__ = ["CrosslayerConfig", "CrosslayerForCausalLM"]

AutoConfig.register(TYPE, CrosslayerConfig, exist_ok=True)
AutoModelForCausalLM.register(CrosslayerConfig, CrosslayerForCausalLM, exist_ok=True)
