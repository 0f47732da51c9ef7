"""The kinds of published models: the meaning of their config.json, and the place of each tensor.

A kind is a family of transformers' architectures.  Its *layout* names, for every tensor of theirs, the parameters of
the decoder that it holds, one above the other along its first dimension; GPT-2 keeps its matrices transposed.  What a
variant does not build is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

import torch
from torch import Tensor

from theory.errors import BadInput
from theory.plans.architecture import Architecture, Tokens

Config = Mapping[str, Any]
VARIANT = "crosslayer_variant"  # a field of ours in config.json: what the weights are of, where it is not the kind's


@dataclass(frozen=True)
class Held:
    """The decoder's parameters that one tensor holds, in order.

    transposed  each as inputs by outputs
    neighbours  the width of a head, of queries and keys whose rotary pairs are (2 i, 2 i + 1) there; 0: as here
    row         a vector here is a matrix of one row there
    """

    parameters: tuple[str, ...]
    transposed: bool = False
    neighbours: int = 0
    row: bool = False


Layout = dict[str, Held]


class Kind(Protocol):
    """A family of published models."""

    @property
    def types(self) -> tuple[str, ...]:
        """The names of the kind in config.json: `model_type`."""
        ...

    @property
    def variant(self) -> str:
        """The variant of its weights, unless another is given."""
        ...

    @property
    def words(self) -> str:
        """The common features of models of this kind."""
        ...

    @property
    def head(self) -> str:
        """The tensor that a tied model may hold once more."""
        ...

    def unknown(self, config: Config) -> Iterator[str]:
        """Yield what the decoder cannot express of a config, one item per line."""
        ...

    def architecture(self, config: Config) -> Architecture:
        """Return the architecture that a config describes.

        Raises KeyError, TypeError or ValueError for a config that describes no model.
        """
        ...

    def config(self, architecture: Architecture) -> dict[str, Any] | None:
        """Return the config as transformers reads it; None for a model that is not of this kind."""
        ...

    def layout(self, architecture: Architecture) -> Layout:
        """Return the layout of every tensor that a model of these sizes may have."""
        ...

    def called(self, name: str) -> str | None:
        """Return the layout's name of a tensor in a folder; None for what follows from config.json."""
        ...


def fitted(layout: Layout, parameters: Mapping[str, tuple[int, ...]]) -> Layout:
    """Return the layout without what a model does not have.  Raises BadInput for a parameter that has no place."""
    found = {
        name: replace(held, parameters=there)
        for name, held in layout.items()
        if (there := tuple(x for x in held.parameters if x in parameters))
    }
    placed = {parameter for held in found.values() for parameter in held.parameters}
    for parameter in parameters:
        if parameter not in placed:
            raise BadInput(f"the variant's weight {parameter} has no name in the layout of such models")
    return found


def shape(held: Held, parameters: Mapping[str, tuple[int, ...]]) -> tuple[int, ...]:
    """Return the shape of a tensor that holds these parameters."""
    first, *rest = (parameters[name] for name in held.parameters)
    joined = (first[0] + sum(other[0] for other in rest), *first[1:])
    return (1, *joined) if held.row else joined[::-1] if held.transposed else joined


def taken(held: Held, tensor: Tensor, sizes: Mapping[str, int]) -> dict[str, Tensor]:
    """Return the parameters that a tensor holds; sizes: of their first dimensions."""
    rows = tensor[0] if held.row else tensor.T if held.transposed else tensor
    parts = dict(zip(held.parameters, rows.split([sizes[x] for x in held.parameters]), strict=True))
    return {name: _in_halves(name, held, part).contiguous() for name, part in parts.items()}


def joined(held: Held, parameters: Mapping[str, Tensor]) -> Tensor:
    """Return the tensor that holds these parameters; the inverse of `taken`."""
    whole = torch.cat([_in_neighbours(name, held, parameters[name]) for name in held.parameters])
    return (whole[None] if held.row else whole.T if held.transposed else whole).contiguous()


def _turned(name: str, held: Held) -> bool:
    return held.neighbours > 0 and name.split(".")[-2] in ("query", "key")


def _in_halves(name: str, held: Held, part: Tensor) -> Tensor:
    if not _turned(name, held):
        return part
    return part.unflatten(0, (-1, held.neighbours // 2, 2)).transpose(1, 2).flatten(0, 2)


def _in_neighbours(name: str, held: Held, part: Tensor) -> Tensor:
    if not _turned(name, held):
        return part
    return part.unflatten(0, (-1, 2, held.neighbours // 2)).transpose(1, 2).flatten(0, 2)


def vocabulary(architecture: Architecture, *, layers_differ: bool = False) -> Tokens | None:
    """Return the stem of a model that could be a published one: causal, softmax, nothing but what plans vary.

    layers_differ: whether such models may have windows and positions in some layers alone.
    """
    a, stem = architecture, architecture.stem
    plain = (a.mask, a.score, a.normed, a.copy_rank, a.latent) == ("causal", "softmax", "all", None, None)
    branches = (a.output_gate, a.output_scale, a.residual_rank, a.parallel) == ("no", "no", 0, False)
    alike = layers_differ or not (a.windows or a.rotated)
    plain = plain and branches and alike and not a.differential
    return stem if plain and isinstance(stem, Tokens) else None


def per_layer(architecture: Architecture, names: Mapping[str, Held], theirs: str) -> Layout:
    """Return the layout of every layer.

    theirs: the beginning of their names, with a place for the layer's number from 0.
    """
    return {
        f"{theirs.format(n)}.{name}": replace(held, parameters=tuple(f"layers.{n}.{x}" for x in held.parameters))
        for n in range(architecture.n_layers)
        for name, held in names.items()
    }
