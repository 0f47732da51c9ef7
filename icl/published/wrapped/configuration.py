"""The configuration of a decoder in transformers: its architecture and plan, and the fields that tools read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from transformers import PretrainedConfig

from icl.models.saved import architecture_of
from icl.published.kinds import LLAMA
from icl.published.own import AUTO, TYPE, fields
from theory.plans.architecture import Architecture, Tokens
from theory.plans.names import checked, model
from theory.plans.plan import Plan
from theory.plans.written import from_json, to_json

# Sizes of LLaMA's fields that are left out: the least model, which transformers makes of no arguments at all.
LEAST = {
    "model_type": "llama",
    "vocab_size": 1,
    "hidden_size": 2,
    "num_hidden_layers": 1,
    "num_attention_heads": 1,
    "intermediate_size": 1,
    "max_position_embeddings": 1,
}


class CrosslayerConfig(PretrainedConfig):
    """The sizes and the plan of a decoder.

    Args:
        architecture: The sizes as `icl.published.own` writes them.  Without, they are those of LLaMA's fields among
            `others`: hidden_size, num_hidden_layers, num_attention_heads, num_key_value_heads, head_dim,
            intermediate_size, vocab_size, max_position_embeddings, rms_norm_eps, rope_parameters, tie_word_embeddings.
        plan: A variant's name, such as "skipv1+gqa", or a plan as `theory.plans.written` writes it.
        initializer_range: The deviation of initial weights, the `std` of `icl.models.initial.initialise`.
        use_cache: Whether a forward pass answers a cache, unless it is told; by default where a model is causal.
        others: Fields of transformers.  Those that tools read are set from the architecture.

    Raises:
        ValueError: For sizes and plans without meaning, and for fields that contradict the architecture.
    """

    model_type = TYPE
    keys_to_ignore_at_inference = ["past_key_values"]  # noqa: RUF012

    def __init__(
        self,
        architecture: dict[str, Any] | None = None,
        plan: dict[str, Any] | str | None = None,
        initializer_range: float = 0.02,
        use_cache: bool | None = None,
        **others: Any,
    ) -> None:
        if architecture is None:
            sizes = _of_llama_fields(others)
        else:
            sizes = architecture_of(architecture)
            _check_fields(sizes, others, but=("tie_word_embeddings",))  # which older folders have always as false
        if isinstance(plan, dict):
            chosen = checked(from_json(plan), sizes)
        else:
            sizes, chosen = model(sizes, plan or "vanilla")
        self.architecture, self.plan = asdict(sizes), to_json(chosen)
        self.initializer_range = initializer_range
        self.use_cache = sizes.mask == "causal" and sizes.copy_rank is None if use_cache is None else use_cache
        super().__init__(**{"auto_map": AUTO, **others, **fields(sizes)})

    @classmethod
    def register_for_auto_class(cls, auto_class: str = "AutoConfig") -> None:
        """Do nothing: what is saved names the installed package, and holds no copy of its code."""

    def described(self) -> tuple[Architecture, Plan]:
        """Return the architecture and the plan of the decoder.

        A vocabulary, and whether the embeddings are the head, may have been set since the configuration was made.

        Raises:
            ValueError: Where another field has been set that contradicts the architecture.
        """
        sizes = architecture_of(self.architecture)
        stem = sizes.stem
        if isinstance(stem, Tokens):
            sizes = replace(sizes, stem=Tokens(self.vocab_size, bool(self.tie_word_embeddings)))
        _check_fields(sizes, self.__dict__)
        self.architecture = asdict(sizes)
        return sizes, from_json(self.plan)


def _of_llama_fields(others: Mapping[str, Any]) -> Architecture:
    config = {**LEAST, **{name: value for name, value in others.items() if value is not None}, "model_type": "llama"}
    for problem in LLAMA.unknown(config):
        raise ValueError(problem)
    return LLAMA.architecture(config)


def _check_fields(sizes: Architecture, others: Mapping[str, Any], but: tuple[str, ...] = ()) -> None:
    """Raise ValueError for a field with another value than the architecture gives it."""
    for name, value in fields(sizes).items():
        if name not in but and name in others and isinstance(value, int) and others[name] not in (None, value):
            raise ValueError(f"{name}: {others[name]!r}, and the architecture has {value!r}; leave one of the two out")
