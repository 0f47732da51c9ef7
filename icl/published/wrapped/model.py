"""The decoder as a causal language model of transformers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from transformers import Cache, DynamicCache, GenerationMixin
from transformers.modeling_outputs import CausalLMOutputWithPast

from icl.models.frame import Frame, windowed
from icl.models.rotary import rotation
from icl.published.wrapped.arguments import (
    Placement,
    check_implementation,
    check_refused,
    packed,
    placement,
    positions_of_texts,
)
from icl.published.wrapped.base import CrosslayerPreTrainedModel
from icl.published.wrapped.cache import Kept, Past, kept_by
from icl.published.wrapped.outputs import recomputed, selected, states_read

OF_LOSS = ("num_items_in_batch", "ignore_index", "shift_labels")


class CrosslayerForCausalLM(CrosslayerPreTrainedModel, GenerationMixin):
    """A decoder under any plan, with the arguments and answers of transformers' LLaMA."""

    base_model_prefix = "decoder"
    accepts_loss_kwargs = True  # num_items_in_batch

    # --- decoding ----------------------------------------------------------------------------------------------------

    @staticmethod
    def create_masks_for_generate(attention_mask: Tensor | None = None, **_: Any) -> Tensor | None:
        """Return the mask of `generate` as it is, (batch, columns so far), whatever the cache."""
        return attention_mask

    def _prepare_cache_for_generation(
        self, generation_config: Any, model_kwargs: dict[str, Any], *args: Any, **kwargs: Any
    ) -> Any:
        """Prepare the cache of `generate` before it is told to remember what it drops."""
        found = super()._prepare_cache_for_generation(  # type: ignore[misc]
            generation_config, model_kwargs, *args, **kwargs
        )
        cache = model_kwargs.get("past_key_values")
        if isinstance(cache, Cache):
            self.kept().prepare(cache)
            if getattr(generation_config, "is_assistant", False) and hasattr(cache, "activate_past_recording"):
                cache.activate_past_recording()
        return found

    def kept(self, argument: str = "past_key_values") -> Kept:
        """Return what the decoder keeps of every token.

        Raises:
            ValueError: By the argument's name, for a decoder whose answer for a token depends on later ones.
        """
        if self._kept is None:
            self._kept = kept_by(self.decoder, argument)
        return self._kept

    def _cache(
        self, past_key_values: Any, use_cache: bool | None, *, batch: int, default: bool
    ) -> tuple[Cache | None, bool]:
        """Return the cache of a forward pass, prepared, and whether it is answered."""
        recomputing = self.gradient_checkpointing and self.training
        use = default if use_cache is None else bool(use_cache)
        use = use and not recomputing
        if past_key_values is None and not use:
            return None, False
        if past_key_values is not None and not isinstance(past_key_values, Cache):
            raise ValueError(f"past_key_values: a cache of transformers, and no {type(past_key_values).__name__}")
        kept = self.kept("use_cache" if past_key_values is None else "past_key_values")
        cache = DynamicCache() if past_key_values is None else past_key_values
        kept.prepare(cache, batch)
        return cache, use or past_key_values is not None

    # --- forward -----------------------------------------------------------------------------------------------------

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        past_key_values: Cache | None = None,
        inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        use_cache: bool | None = None,
        logits_to_keep: int | Tensor = 0,
        **kwargs: Any,
    ) -> CausalLMOutputWithPast | tuple[Tensor, ...]:
        """Return logits and, with labels, the mean loss of what follows each token.

        Args:
            input_ids: Tokens, (batch, T).
            attention_mask: True or not 0 where a token is real, (batch, columns), those of a cache included; or what
                sees what, (1 or batch, 1, T, columns), as booleans or as numbers to add, 0 or as low as the dtype goes.
            position_ids: (1 or batch, T); by default 0 at the first real token.  Without an attention_mask and without
                a cache, tokens whose positions do not follow one another belong to different documents.
            past_key_values: A DynamicCache or StaticCache, empty or filled by this model, which these tokens follow.
            inputs_embeds: Embedded tokens in place of input_ids, (batch, T, d_model).
            labels: (batch, T); position t is compared to label t + 1.
            use_cache: Whether a new cache is made and answered; by default as the config says, but not in training nor
                where positions tell documents apart.
            logits_to_keep: How many of the last positions are answered, 0 for all, or which.
            kwargs: output_hidden_states, output_attentions and return_dict; num_items_in_batch, by which the summed
                loss is divided; ignore_index; shift_labels, labels that are shifted already; cu_seqlens, where the
                documents of a single row begin and the last one ends, (documents + 1,) or (1, documents + 1).

        Raises:
            TypeError: For an argument that transformers' LLaMA does not have.
            ValueError: For one that the decoder has no answer to, by name.
        """
        return_dict = kwargs.pop("return_dict", None)
        of_loss = {name: value for name in OF_LOSS if (value := kwargs.pop(name, None)) is not None}
        states, attentions = (self._asked(kwargs, name) for name in ("output_hidden_states", "output_attentions"))
        cache_position, texts = kwargs.pop("cache_position", None), kwargs.pop("cu_seqlens", None)
        check_refused(kwargs)
        check_implementation(self.config._attn_implementation)
        x = self.embedded(input_ids, inputs_embeds)
        if texts is not None:
            position_ids = positions_of_texts(texts, x, position_ids, attention_mask=attention_mask)
        default = self.config.use_cache and not self.training and not packed(position_ids, attention_mask)
        cache, answered = self._cache(past_key_values, use_cache, batch=len(x), default=default)
        start = None if cache is None else int(cache.get_seq_length())
        place = placement(
            self.decoder.config, x, attention_mask, position_ids, start=start, columns=_columns(cache, x, start)
        )
        _check_cache_position(cache_position, place)
        again = self._gradient_checkpointing_func if self.gradient_checkpointing and self.training else None
        weights: list[Tensor] = []
        with (
            states_read(self.decoder, states is not False) as read,
            recomputed(self.decoder, again, self._recomputed_every),
        ):
            hidden = self._hidden(x, place, input_ids, cache=cache, see=weights.append if attentions else None)
        rows = slice(-logits_to_keep or None, None) if isinstance(logits_to_keep, int) else logits_to_keep
        logits = self.decoder.stem.answer(hidden[:, rows])
        output = CausalLMOutputWithPast(
            loss=self._loss(logits, labels, x.shape[:2], options=of_loss),
            logits=logits,
            past_key_values=cache if answered else None,
            hidden_states=None if states is False else selected([*read, hidden], states),  # type: ignore[arg-type]
            attentions=tuple(weights) if attentions else None,
        )
        if return_dict is None:
            return_dict = getattr(self.config, "return_dict", True)
        return output if return_dict else output.to_tuple()

    def _asked(self, kwargs: dict[str, Any], name: str) -> Any:
        """Return what an argument, or else the config, says of an output."""
        value = kwargs.pop(name, None)
        value = getattr(self.config, name, False) if value is None else value
        return value if isinstance(value, int | list | tuple) else bool(value)

    def _hidden(
        self,
        x: Tensor,
        place: Placement,
        tokens: Tensor | None,
        *,
        cache: Cache | None,
        see: Callable[[Tensor], None] | None,
    ) -> Tensor:
        """Return the states after the last norm, (batch, T, d_model), of embedded tokens."""
        decoder, places = self.decoder, place.places
        explicit = self.config._attn_implementation == "eager"
        if cache is not None:
            frame = self._frame_after(x, place, tokens, cache=cache)
        elif places is not None:
            frame = decoder.placed_frame(x, places, place.visible, tokens=tokens)
        else:
            frame, places = decoder.frame(x)
            frame = replace(frame, tokens=tokens)
        assert places is not None
        return decoder.through(x, replace(frame, explicit=explicit, see=see), places)

    def _frame_after(self, x: Tensor, place: Placement, tokens: Tensor | None, *, cache: Cache) -> Frame:
        """Return the frame of tokens that follow those in a cache, and keep of them what is no layer's."""
        config, kept, new = self.decoder.config, self.kept(), x.shape[1]
        columns = len(place.columns)
        if kept.follows_places:
            _check_counted(place)
        if kept.plan.tables and tokens is None:
            raise ValueError("inputs_embeds: a table has rows for tokens, not embedded tokens; give input_ids")
        past = Past(kept, cache, x, columns=columns, rows=place.rows, first=place.first)
        past.keep_tokens(tokens)
        causal = place.visible is None and new == columns
        visible = place.rows[:, None] >= place.columns if causal else place.visible
        by_layer = windowed(config, visible, causal, places=place.rows, held=place.columns)
        if past.cropped:
            every = by_layer or [(visible, causal)] * config.n_layers
            by_layer = tuple(
                (None if seen is None else seen[..., -past.count(n) :], whole)
                for n, (seen, whole) in enumerate(every, 1)
            )
        assert place.places is not None
        return Frame(
            visible,
            causal,
            rotation(config, place.places),
            place.places,
            dict(self.decoder.learned.items()),
            past=past,
            tokens=tokens,
            by_layer=by_layer,
        )

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


def _columns(cache: Cache | None, x: Tensor, start: int | None) -> int | None:
    """Return the number of columns of a cache once it holds these tokens too, filled or not."""
    if cache is None or start is None:
        return None
    room = getattr(cache.layers[0], "max_cache_len", None)
    if room is not None and start + x.shape[1] > room:
        raise ValueError(f"past_key_values: it has room for {room} tokens, not {start + x.shape[1]}")
    return start + x.shape[1] if room is None else room


def _check_cache_position(cache_position: Tensor | None, place: Placement) -> None:
    """Raise ValueError for other columns than those that follow; older releases of transformers name them."""
    if cache_position is not None and not torch.equal(cache_position.to(place.rows), place.rows):
        raise ValueError("cache_position: tokens follow those in the cache, one after the other")


def _check_counted(place: Placement) -> None:
    """Raise ValueError for positions of a cache's tokens that do not count columns from the first real token."""
    assert place.places is not None
    first = torch.zeros_like(place.rows[:1]) if place.first is None else place.first
    counted = place.rows - first
    if bool(((place.places != counted) & (counted >= 0)).any()):
        raise ValueError("position_ids: with a cache, this plan's positions count tokens from the first real one")
