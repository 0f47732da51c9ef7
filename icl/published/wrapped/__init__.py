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

from typing import Any

from transformers import AutoConfig, AutoModel, AutoModelForCausalLM

from icl.published.own import TYPE
from icl.published.wrapped.backbone import CrosslayerModel
from icl.published.wrapped.configuration import CrosslayerConfig
from icl.published.wrapped.model import CrosslayerForCausalLM

__all__ = ["CrosslayerConfig", "CrosslayerForCausalLM", "CrosslayerModel"]

AutoConfig.register(TYPE, CrosslayerConfig, exist_ok=True)
AutoModel.register(CrosslayerConfig, CrosslayerModel, exist_ok=True)
AutoModelForCausalLM.register(CrosslayerConfig, CrosslayerForCausalLM, exist_ok=True)
try:
    from transformers.conversion_mapping import register_checkpoint_conversion_mapping
    from transformers.core_model_loading import WeightRenaming
except ImportError:  # before transformers 5
    pass
else:
    # A server that puts a head of its own on a CrosslayerModel looks for its weight under LLaMA's name.
    head: list[Any] = [WeightRenaming(source_patterns=r"^decoder\.stem\.head\.", target_patterns="lm_head.")]
    register_checkpoint_conversion_mapping("CrosslayerModel", head, overwrite=True)
