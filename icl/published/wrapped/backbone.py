"""The decoder without its head, whose attention may be somebody else's: vLLM's and SGLang's transformers backends.

Such a server registers a function with transformers' `ALL_ATTENTION_FUNCTIONS`, which is given a layer's queries, keys
and values of new tokens and keeps those of earlier ones itself, page by page.  A layer whose heads read other layers
hands over what its heads attend over, the mixed or chosen values: the answers are the plan's, and the server keeps as
much of every token as of a vanilla model's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from transformers.modeling_outputs import BaseModelOutputWithPast
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from icl.models.decoder import Decoder
from icl.models.frame import Frame
from icl.models.rotary import rotation
from icl.published.wrapped.arguments import IMPLEMENTATIONS, check_implementation, placement
from icl.published.wrapped.base import CrosslayerPreTrainedModel
from icl.published.wrapped.configuration import CrosslayerConfig
from theory.plans.architecture import Architecture
from theory.plans.plan import Plan, longest_shift


def check_served(config: Architecture, plan: Plan) -> None:
    """Raise ValueError, with the first thing that an attention function of others does not do, if there is one."""
    for problem in problems(config, plan):
        raise ValueError(f"attn_implementation: an attention function of others is given {problem}")


def problems(config: Architecture, plan: Plan) -> Iterator[str]:
    """Yield what attention needs beyond one key and one value per head and token, both of a head's width."""
    if config.mask != "causal" or config.copy_rank is not None:
        yield "a causal model alone, and this one is not"
    if config.score != "softmax":
        yield "no scores without a softmax"
    if config.positions == "bias":
        yield "no biases of scores"
    if config.latent is not None:
        yield "keys and values of heads, and no latent"
    if config.differential:
        yield "values of a head's width, and pairs of heads attend over twice that"
    if config.window or any(config.windows):
        yield "no windows"
    if plan.dynamic not in ("no", "gate"):
        yield f"values that do not depend on the query ({plan.dynamic})"
    if longest_shift(plan):
        yield "new tokens alone, and values come from the tokens before them"
    for layer, row in enumerate(plan.table, 1):
        if any(len(head.values) > 1 for head in row):
            yield f"one key and value per head and token, and layer {layer} attends over several"
        if len(plan.live(layer)) != config.kv_heads:
            yield f"all heads, and layer {layer} has {len(plan.live(layer))} of {config.kv_heads}"


@dataclass(frozen=True)
class Site:
    """A layer as an attention function asks for it."""

    layer_idx: int
    num_key_value_groups: int
    training: bool
    config: Any
    is_causal: bool = True


class CrosslayerModel(CrosslayerPreTrainedModel):
    """The states after the last norm, from which a head answers; the head itself is left out.

    "attn_implementation" may be any function of `ALL_ATTENTION_FUNCTIONS` that attends causally without a mask.
    """

    base_model_prefix = "model"
    _supports_attention_backend = True

    def __init__(self, config: CrosslayerConfig) -> None:
        super().__init__(config)
        if self.config._attn_implementation not in (None, *IMPLEMENTATIONS):
            check_served(self.decoder.config, self.decoder.plan)

    def _decoder(self, config: CrosslayerConfig) -> Decoder:
        decoder = super()._decoder(config)
        decoder.stem.head = None
        return decoder

    def get_decoder(self) -> nn.Module:
        """Return the model itself, which takes embedded tokens."""
        return self

    def get_output_embeddings(self) -> None:
        return None

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        **kwargs: Any,
    ) -> BaseModelOutputWithPast | tuple[Tensor, ...]:
        """Return the states after the last norm.

        Args:
            input_ids: Tokens, (batch, T).
            attention_mask: As `CrosslayerForCausalLM` takes it; not with an attention function of others.
            position_ids: (1 or batch, T); by default 0, 1, ...
            inputs_embeds: Embedded tokens in place of input_ids, (batch, T, d_model).
            kwargs: use_cache and return_dict; everything else goes to an attention function of others.

        Raises:
            ValueError: By name, for what cannot be answered.
        """
        return_dict = kwargs.pop("return_dict", None)
        use_cache = kwargs.pop("use_cache", None)
        if use_cache or kwargs.get("past_key_values") is not None:
            raise ValueError("use_cache, past_key_values: caches are CrosslayerForCausalLM's, or a server's own")
        x = self.embedded(input_ids, inputs_embeds)
        if self.config._attn_implementation in (None, *IMPLEMENTATIONS):
            hidden = self._whole(x, input_ids, attention_mask, position_ids, others=kwargs)
        else:
            if attention_mask is not None:
                raise ValueError("attention_mask: an attention function of others knows what sees what")
            hidden = self._served(x, input_ids, position_ids, passed=kwargs)
        if return_dict is None:
            return_dict = getattr(self.config, "return_dict", True)
        return BaseModelOutputWithPast(last_hidden_state=hidden) if return_dict else (hidden,)

    def _whole(
        self,
        x: Tensor,
        tokens: Tensor | None,
        mask: Tensor | None,
        position_ids: Tensor | None,
        *,
        others: dict[str, Any],
    ) -> Tensor:
        for name, value in others.items():
            if value is not None and value is not False:
                raise ValueError(f"{name}: the model without its head has no answer to it")
        check_implementation(self.config._attn_implementation)
        decoder = self.decoder
        place = placement(decoder.config, x, mask, position_ids)
        if place.places is None:
            frame, places = decoder.frame(x)
        else:
            frame, places = decoder.placed_frame(x, place.places, place.visible, tokens=tokens), place.places
        explicit = self.config._attn_implementation == "eager"
        return decoder.through(x, replace(frame, tokens=tokens, explicit=explicit), places)

    def _served(
        self, x: Tensor, tokens: Tensor | None, position_ids: Tensor | None, *, passed: dict[str, Any]
    ) -> Tensor:
        """Return the states of new tokens, whose earlier ones an attention function keeps."""
        decoder = self.decoder
        places = torch.arange(x.shape[1], device=x.device) if position_ids is None else position_ids
        places = places.expand(len(x), -1)
        frame = Frame(
            None,
            True,
            rotation(decoder.config, places),
            places,
            dict(decoder.learned.items()),
            tokens=tokens,
            backend=partial(self._attend, passed),
        )
        return decoder.through(x, frame, places)

    def _attend(self, passed: dict[str, Any], layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Return what the queries of a layer, from 1, get by the configured function, (batch, H, T, width)."""
        attend = ALL_ATTENTION_FUNCTIONS[self.config._attn_implementation]
        site = Site(layer - 1, query.shape[1] // key.shape[1], self.training, self.config)
        dropout = self.decoder.config.dropout if self.training else 0.0
        scaling = query.shape[-1] ** -0.5
        out, _ = attend(site, query, key, value, None, scaling=scaling, dropout=dropout, **passed)
        by_token: Tensor = out.reshape(len(query), query.shape[2], query.shape[1], -1)
        return by_token.transpose(1, 2)
