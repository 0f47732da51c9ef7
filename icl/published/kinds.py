"""The kinds of published models that can be read and written, by what config.json calls them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from icl.published.gpt2 import GPT2
from icl.published.layouts import Kind
from icl.published.llama import Llama
from icl.published.testbed import DenseFormer, SkipV1Apart, SkipV1Fused
from theory.plans.architecture import Architecture

KINDS: tuple[Kind, ...] = (Llama(), GPT2(), DenseFormer(), SkipV1Apart(), SkipV1Fused())
TYPES: dict[str, Kind] = {name: kind for kind in KINDS for name in kind.types}


def as_published(config: Architecture) -> tuple[Kind, Mapping[str, Any]] | None:
    """The kind of published models that has one of these sizes, and its config.json; None if none has."""
    for kind in KINDS:
        written = kind.config(config)
        if written is not None:
            return kind, written
    return None
