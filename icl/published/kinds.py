"""The kinds of published models that can be read and written, by what config.json calls them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from icl.published.gpt2 import GPT2
from icl.published.layouts import Kind
from icl.published.llama import Llama
from icl.published.testbed import DenseFormer, SkipV1Apart, SkipV1Fused
from theory.plans.architecture import Architecture

OF_TRANSFORMERS: tuple[Kind, ...] = (LLAMA := Llama(), GPT2())
KINDS: tuple[Kind, ...] = (*OF_TRANSFORMERS, *(OTHERS := (DenseFormer(), SkipV1Apart(), SkipV1Fused())))
TYPES: dict[str, Kind] = {name: kind for kind in KINDS for name in kind.types}
# The layouts of papers' own code, by name: the kind, and the variant that the weights are of.
OF_LLAMA_S_NAMES = ("skipv1", "resformer", "svformer", "neutreno")
PAPERS: dict[str, tuple[Kind, str]] = {
    **{name: (LLAMA, name) for name in OF_LLAMA_S_NAMES},
    **{kind.types[0]: (kind, kind.variant) for kind in OTHERS},
}


def as_published(config: Architecture) -> tuple[Kind, Mapping[str, Any]] | None:
    """Return the kind of transformers' models with these sizes, and its config.json; None if there is none."""
    for kind in OF_TRANSFORMERS:
        written = kind.config(config)
        if written is not None:
            return kind, written
    return None
