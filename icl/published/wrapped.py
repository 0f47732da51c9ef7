"""Decoders under any plan, as transformers takes models: what the module beside exported weights asks for.

Such a folder says in config.json what the architecture and the plan are, and its modeling_crosslayer.py imports this
module; so transformers' AutoModelForCausalLM, told to trust remote code, runs the decoder of this package, which must
be installed, and no copy of it.  It answers with logits and a loss.  It keeps no cache between calls:
`generate` of transformers reads the whole text for every token, which `icl.models.sampling` does not.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor, nn
from transformers import GenerationMixin, PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutputWithPast

from icl.models.decoder import Decoder
from icl.models.saved import architecture_of
from icl.published.own import TYPE
from theory.plans.names import resolve
from theory.plans.presets import llama
from theory.plans.written import from_json, to_json

LEAST = llama(d_model=2, n_heads=1, n_layers=1, d_ff=1, vocab=1, context=1)


class CrosslayerConfig(PretrainedConfig):
    """architecture, plan: as `icl.published.own` writes them; without, the least model, as transformers asks for."""

    model_type = TYPE

    def __init__(
        self, architecture: dict[str, Any] | None = None, plan: dict[str, Any] | None = None, **others: Any
    ) -> None:
        self.architecture = architecture or asdict(LEAST)
        self.plan = plan or to_json(resolve("vanilla", LEAST.shape))
        super().__init__(**{"use_cache": False, **others})


class CrosslayerForCausalLM(PreTrainedModel, GenerationMixin):
    config_class = CrosslayerConfig
    base_model_prefix = "decoder"
    accepts_loss_kwargs = False  # the loss is a mean over the batch that is given, whatever others there are

    def __init__(self, config: CrosslayerConfig) -> None:
        super().__init__(config)
        empty = torch.get_default_device().type == "meta"  # weights follow
        self.decoder = Decoder(
            architecture_of(config.architecture), from_json(config.plan), device="meta" if empty else "cpu"
        )
        self.post_init()  # type: ignore[no-untyped-call]

    def _init_weights(self, module: nn.Module) -> None:
        """The decoder has initial weights of its own."""

    def get_input_embeddings(self) -> nn.Module:
        return self.decoder.get_submodule("stem.embedding")

    def prepare_inputs_for_generation(  # type: ignore[override]
        self, input_ids: Tensor, attention_mask: Tensor | None = None, **_: Any
    ) -> dict[str, Any]:
        """The whole text, at every token."""
        return {"input_ids": input_ids, "attention_mask": attention_mask}

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor | None = None, labels: Tensor | None = None, **_: Any
    ) -> CausalLMOutputWithPast:
        """(batch, T) -> logits (batch, T, vocab), and the mean loss of what follows each token, where labels are."""
        padding = None if attention_mask is None or bool(attention_mask.all()) else attention_mask.bool()
        logits = self.decoder(input_ids, padding)
        loss = None
        if labels is not None:
            loss = nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1).float(), labels[:, 1:].flatten())
        return CausalLMOutputWithPast(loss=loss, logits=logits)
