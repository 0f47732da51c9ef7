"""The base of models of transformers: a decoder, its weights, and its methods of training."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers import PreTrainedModel

from icl.models.decoder import Decoder
from icl.models.initial import InitialWeights
from icl.published.own import CODE, MODULE
from icl.published.wrapped.cache import Kept
from icl.published.wrapped.configuration import CrosslayerConfig
from theory.plans.architecture import Tokens


class CrosslayerPreTrainedModel(PreTrainedModel):
    """A decoder under any plan, `decoder`."""

    config_class = CrosslayerConfig
    supports_gradient_checkpointing = True
    _supports_sdpa = True
    _no_split_modules = ["Layer", "ParallelLayer"]  # noqa: RUF012
    _skip_keys_device_placement = ["past_key_values"]  # noqa: RUF012

    def __init__(self, config: CrosslayerConfig) -> None:
        super().__init__(config)
        device = torch.get_default_device()
        self.decoder = self._decoder(config)
        if device.type != "meta":  # else weights follow
            self.decoder.to_empty(device=device)
        self.gradient_checkpointing = False
        self._recomputed_every = 1
        self._kept: Kept | None = None
        self._law: InitialWeights | None = None
        self.post_init()  # type: ignore[no-untyped-call]

    def _decoder(self, config: CrosslayerConfig) -> Decoder:
        """Return the decoder without weights."""
        return Decoder(*config.described(), device="meta")

    def initialize_weights(self) -> None:
        """Write the decoder's initial weights into all parameters that hold none yet, from one number of torch's."""
        if all(p.is_meta for p in self.parameters()):
            return  # older releases would take them for written
        self._law = None
        super().initialize_weights()  # type: ignore[no-untyped-call]
        self._law = None

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        own = dict(module.named_parameters(recurse=False))
        unset = {name: p for name, p in own.items() if not getattr(p, "_is_hf_initialized", False)}
        if not unset:
            return
        name = next((name for name, other in self.decoder.named_modules() if other is module), None)
        if name is None:  # as when embeddings are widened
            super()._init_weights(module)  # type: ignore[no-untyped-call]
            return
        if self._law is None:
            seed = int(torch.randint(2**62, (), device="cpu"))
            std = self.config.initializer_range
            self._law = InitialWeights(self.decoder.config, self.decoder.plan, seed=seed, std=std)
        for short, parameter in unset.items():
            self._law.fill(module, name, short, parameter=parameter)

    def save_pretrained(self, save_directory: Any, *args: Any, **kwargs: Any) -> None:
        """Save config.json and weights as transformers does, and the file through which it reads them again."""
        self.config.described()  # which brings the sizes in it up to date
        super().save_pretrained(save_directory, *args, **kwargs)
        path = Path(save_directory)
        if path.is_dir():
            (path / MODULE).write_text(CODE, encoding="utf-8")

    @classmethod
    def register_for_auto_class(cls, auto_class: str = "AutoModel") -> None:
        """Do nothing: what is saved names the installed package, and holds no copy of its code."""

    def get_input_embeddings(self) -> nn.Module:
        return self.decoder.get_submodule("stem.embedding")

    def set_input_embeddings(self, value: nn.Module) -> None:
        self.decoder.get_submodule("stem").embedding = value

    def get_output_embeddings(self) -> nn.Module | None:
        """Return the head; None where the embeddings are the head, which are one matrix in the decoder."""
        head: nn.Module | None = self.decoder.stem.head
        return head

    def set_output_embeddings(self, new_embeddings: nn.Module) -> None:
        self.decoder.get_submodule("stem").head = new_embeddings

    def _resize_token_embeddings(
        self, new_num_tokens: Any, pad_to_multiple_of: Any = None, mean_resizing: Any = True
    ) -> nn.Module:
        """Give embeddings, the head and the tables that a plan has a row for every token."""
        super()._resize_token_embeddings(new_num_tokens, pad_to_multiple_of, mean_resizing)  # type: ignore[no-untyped-call]
        embedding = self.get_input_embeddings()
        assert isinstance(embedding, nn.Embedding)
        rows = embedding.weight.shape[0]
        for attention in self.decoder.attentions:
            table = attention.projections.table
            if table is not None:
                self._get_resized_embeddings(table, rows, mean_resizing=mean_resizing)
        stem = self.decoder.config.stem
        assert isinstance(stem, Tokens)
        self.decoder.config = replace(self.decoder.config, stem=replace(stem, vocab=rows))
        self.config.vocab_size = rows
        self.config.architecture = asdict(self.decoder.config)
        self._kept = None
        return embedding

    def _set_gradient_checkpointing(
        self,
        enable: bool = True,
        gradient_checkpointing_func: Callable[..., Any] = checkpoint,
        every_n_layers: int = 1,
    ) -> None:
        """Have sublayers made again for their gradients, always in the form that lets tensors in the bank through."""
        form = {**getattr(gradient_checkpointing_func, "keywords", {}), "use_reentrant": False}
        self._gradient_checkpointing_func = functools.partial(
            getattr(gradient_checkpointing_func, "func", gradient_checkpointing_func), **form
        )
        self.gradient_checkpointing, self._recomputed_every = enable, every_n_layers

    def embedded(self, input_ids: Tensor | None, inputs_embeds: Tensor | None) -> Tensor:
        """Return embedded tokens, (batch, T, d_model), of the one argument that is given."""
        if input_ids is not None and inputs_embeds is None:
            return self.decoder.stem.embed(input_ids)
        if inputs_embeds is not None and input_ids is None:
            return inputs_embeds
        raise ValueError("exactly one of input_ids and inputs_embeds is needed")
