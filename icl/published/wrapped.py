"""Decoders under any plan as models of transformers, which the module beside exported weights imports.

Such a folder says in config.json what the architecture and the plan are, and its modeling_crosslayer.py imports this
module; so transformers' AutoModelForCausalLM, told to trust remote code, runs the decoder of this package, which must
be installed, and no copy of it.  It answers with logits and a loss.  It keeps no cache between calls:
`generate` of transformers reads the whole text for every token, which `icl.models.sampling` does not.

Arguments have the names, order and meaning of transformers' LLaMA.  Positions that restart where no attention_mask is
given are packed documents, and no document sees another.  What the decoder has no answer to is refused by name.
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
from theory.plans.architecture import Architecture
from theory.plans.names import resolve
from theory.plans.presets import llama
from theory.plans.written import from_json, to_json

NO_CACHE = "exported models keep no cache of earlier tokens"
ONE_MASK = "documents are told apart by position_ids or attention_mask alone"
# Arguments of transformers' contract that the decoder has no answer to: the values that ask for nothing, and why.
REFUSED: dict[str, tuple[tuple[bool, ...], str]] = {
    "past_key_values": ((), f"{NO_CACHE}; give the whole text"),
    "cache_position": ((), NO_CACHE),
    "use_cache": ((False,), NO_CACHE),
    "output_hidden_states": ((False,), "exported models answer with logits alone; icl.probes shows what layers hold"),
    "output_attentions": ((False,), "exported models do not keep the weights of attention"),
    "output_router_logits": ((False,), "the model has no router"),
    "is_causal": ((True,), "what sees what is said by attention_mask"),
    "head_mask": ((), "heads cannot be masked"),
    "token_type_ids": ((), "the model has no token types"),
    "seq_idx": ((), ONE_MASK),
    **dict.fromkeys(("cu_seq_lens_q", "cu_seq_lens_k", "max_length_q", "max_length_k"), ((), ONE_MASK)),
}
FROM_CONFIG = ("output_hidden_states", "output_attentions")
OF_LOSS = ("num_items_in_batch", "ignore_index", "shift_labels")
OF_GENERATE = ("use_cache", "cache_position", "next_sequence_length", "is_first_iteration")
LEAST = llama(d_model=2, n_heads=1, n_layers=1, d_ff=1, vocab=1, context=1)


class CrosslayerConfig(PretrainedConfig):
    """The configuration of a decoder.

    architecture, plan: as `icl.published.own` writes them; without, the least model, as transformers asks for.
    """

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
    accepts_loss_kwargs = True  # num_items_in_batch

    def __init__(self, config: CrosslayerConfig) -> None:
        super().__init__(config)
        empty = torch.get_default_device().type == "meta"  # weights follow
        self.decoder = Decoder(
            architecture_of(config.architecture), from_json(config.plan), device="meta" if empty else "cpu"
        )
        self.post_init()  # type: ignore[no-untyped-call]

    def _init_weights(self, module: nn.Module) -> None:
        """Do nothing, as the decoder has initial weights of its own."""

    def get_input_embeddings(self) -> nn.Module:
        return self.decoder.get_submodule("stem.embedding")

    def prepare_inputs_for_generation(  # type: ignore[override]
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        past_key_values: Any = None,
        **kwargs: Any,
    ) -> dict[str, Any]:
        """Return the whole text, at every token; a cache that `generate` brings along stays empty."""
        if past_key_values is not None and past_key_values.get_seq_length():
            raise ValueError("past_key_values: exported models keep no cache of earlier tokens; give the whole text")
        if position_ids is not None:
            position_ids = position_ids[..., -input_ids.shape[1] :]
        others = {name: value for name, value in kwargs.items() if name not in OF_GENERATE}
        inputs = {"input_ids": input_ids, "attention_mask": attention_mask, "position_ids": position_ids}
        return {**inputs, **others}

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        past_key_values: Any = None,
        inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        use_cache: bool | None = None,
        logits_to_keep: int | Tensor = 0,
        **kwargs: Any,
    ) -> CausalLMOutputWithPast | tuple[Tensor, ...]:
        """Return logits and, with labels, the mean loss of what follows each token.

        Args:
            input_ids: Tokens, (batch, T).
            attention_mask: True or not 0 where a token is real, (batch, T); or what sees what, (1 or batch, 1, T, T),
                as booleans or as numbers to add, 0 or as low as the dtype goes.
            position_ids: (1 or batch, T); by default 0 at the first real token.  Without an attention_mask, tokens
                whose positions do not follow one another belong to different documents.
            past_key_values: None; no cache is kept.
            inputs_embeds: Embedded tokens in place of input_ids, (batch, T, d_model).
            labels: (batch, T); position t is compared to label t + 1.
            use_cache: Not True; no cache is kept.
            logits_to_keep: How many of the last positions are answered, 0 for all, or which.
            kwargs: return_dict; num_items_in_batch, by which the summed loss is divided; ignore_index; shift_labels,
                labels that are shifted already.

        Raises:
            TypeError: For an argument that transformers' LLaMA does not have.
            ValueError: For one that the decoder has no answer to, by name.
        """
        return_dict = kwargs.pop("return_dict", None)
        of_loss = {name: value for name in OF_LOSS if (value := kwargs.pop(name, None)) is not None}
        config_asks = {name: True for name in FROM_CONFIG if getattr(self.config, name, False)}
        _check_refused({"past_key_values": past_key_values, "use_cache": use_cache, **config_asks, **kwargs})
        if input_ids is not None and inputs_embeds is None:
            x = self.decoder.stem.embed(input_ids)
        elif inputs_embeds is not None and input_ids is None:
            x = inputs_embeds
        else:
            raise ValueError("exactly one of input_ids and inputs_embeds is needed")
        places, visible = positions_and_visible(self.decoder.config, x, attention_mask, position_ids=position_ids)
        if places is not None:
            hidden = self.decoder.placed(x, places, visible, tokens=input_ids)
        elif input_ids is not None:
            hidden = self.decoder.hidden(input_ids)
        else:
            hidden = self.decoder.embedded(x)
        rows = slice(-logits_to_keep or None, None) if isinstance(logits_to_keep, int) else logits_to_keep
        logits = self.decoder.stem.answer(hidden[:, rows])
        loss = self._loss(logits, labels, x.shape[:2], options=of_loss)
        output = CausalLMOutputWithPast(loss=loss, logits=logits)
        if return_dict is None:
            return_dict = getattr(self.config, "return_dict", True)
        return output if return_dict else output.to_tuple()

    def _loss(self, logits: Tensor, labels: Tensor | None, shape: torch.Size, options: dict[str, Any]) -> Tensor | None:
        shifted = options.get("shift_labels")
        if labels is None and shifted is None:
            if "ignore_index" in options:
                raise ValueError("ignore_index: there are no labels")
            return None  # a number of items without labels comes from transformers' Trainer
        for name, given in (("labels", labels), ("shift_labels", shifted)):
            if given is not None and given.shape != shape:
                raise ValueError(f"{name}: of shape {tuple(given.shape)}, and the tokens are {tuple(shape)}")
        if logits.shape[:2] != shape:
            raise ValueError("logits_to_keep: a loss needs every position")
        vocab = logits.shape[-1]
        loss: Tensor = self.loss_function(logits=logits, labels=labels, vocab_size=vocab, **options)
        return loss


def positions_and_visible(
    config: Architecture, x: Tensor, attention_mask: Tensor | None, position_ids: Tensor | None
) -> tuple[Tensor | None, Tensor | None]:
    """Return every token's position, (batch, T), and what sees what; both None for one text from position 0.

    Equal to transformers' LLaMA: without a mask, tokens whose positions do not follow one another belong to different
    documents; with one, position_ids are positions alone.

    Args:
        config: Sizes of the decoder.
        x: Embedded tokens, (batch, T, d_model).
        attention_mask: (batch, T) or (1 or batch, 1, T, T).
        position_ids: (1 or batch, T).

    Raises:
        ValueError: For shapes and numbers without meaning, and for a decoder that only reads one text from position 0.
    """
    batch, length = x.shape[:2]
    if length > config.context:
        raise ValueError(f"{length} tokens are more than the context of {config.context}")
    documents = None
    if position_ids is not None:
        position_ids = _checked_positions(config, position_ids.to(x.device), batch, length=length)
        if attention_mask is None:
            breaks = position_ids.diff(dim=-1) != 1
            if bool(breaks.any()):
                documents = torch.nn.functional.pad(breaks, (1, 0)).cumsum(-1)
    real, seen = _checked_mask(attention_mask, x)
    if position_ids is None and real is None and seen is None:
        return None, None
    if config.mask != "causal" or config.copy_rank is not None:
        raise ValueError("attention_mask and position_ids: this decoder reads whole texts from position 0")
    row = torch.arange(length, device=x.device)
    places = position_ids
    if places is None:
        first = 0 if real is None else real.int().argmax(-1, keepdim=True)
        places = (row.expand(batch, -1) - first).clamp(min=0)
    if seen is not None:
        return places, seen
    if real is None and documents is None and not 0 < config.window < length:
        return places, None
    visible = row[:, None] >= row
    if config.window:
        visible = visible & (row[:, None] - row < config.window)
    visible = visible[None]
    if documents is not None:
        visible = visible & (documents[:, :, None] == documents[:, None, :])
    if real is not None:
        # A padding token sees itself, so that no softmax is over nothing.
        visible = visible & real[:, None, :] | (row[:, None] == row) & ~real[:, :, None]
    return places, visible[:, None]


def _checked_positions(config: Architecture, position_ids: Tensor, batch: int, length: int) -> Tensor:
    if tuple(position_ids.shape) not in ((1, length), (batch, length)) or position_ids.is_floating_point():
        raise ValueError(
            f"position_ids: whole numbers of shape {(batch, length)} are needed, got {tuple(position_ids.shape)} "
            f"of {position_ids.dtype}"
        )
    if config.positions != "rope" and bool(((position_ids < 0) | (position_ids >= config.context)).any()):
        raise ValueError(f"position_ids: the model has positions from 0 to {config.context - 1}")
    return position_ids.expand(batch, -1)


def _checked_mask(mask: Tensor | None, x: Tensor) -> tuple[Tensor | None, Tensor | None]:
    """Return which tokens are real, (batch, T), and what sees what, (1 or batch, 1, T, T), where the mask says so."""
    batch, length = x.shape[:2]
    if mask is None:
        return None, None
    mask = mask.to(x.device)
    shape = tuple(mask.shape)
    if shape == (batch, length):
        return (None, None) if bool(mask.bool().all()) else (mask.bool(), None)
    if shape not in ((1, 1, length, length), (batch, 1, length, length)):
        raise ValueError(f"attention_mask: of shape {shape}; {(batch, length)} or {(batch, 1, length, length)} is read")
    if mask.dtype == torch.bool:
        return None, mask
    if not mask.is_floating_point() or bool(((mask != 0) & (mask > torch.finfo(mask.dtype).min / 2)).any()):
        raise ValueError("attention_mask: with four dimensions, booleans or numbers that are 0 or the dtype's least")
    return None, mask == 0


def _check_refused(arguments: dict[str, Any]) -> None:
    """Raise for the first argument that changes what a model of transformers answers, and not what this one does."""
    for name, value in arguments.items():
        if name not in REFUSED:
            raise TypeError(f"CrosslayerForCausalLM.forward() got an unexpected keyword argument {name!r}")
        without_effect, reason = REFUSED[name]
        if value is not None and not any(value is x for x in without_effect):
            raise ValueError(f"{name}: {reason}")
