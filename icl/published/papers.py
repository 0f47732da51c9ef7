"""Models under a paper's own plan in the layout of that paper's public code, as `icl.published.reading` reads them.

Those of LLaMA's names hold a config.json that says LLaMA, as that code's do, and which plan the weights are of in a
field of ours: transformers passes over it, and takes ResFormer's and NeuTRENO's weights, which have all of LLaMA's
tensors, for those of a vanilla model.  What the layouts of `icl.published.testbed` hold is what is learned: the head is
the embeddings, and masks and rotary rates follow from the sizes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from icl.models.decoder import Decoder
from icl.published.kinds import PAPERS
from icl.published.layouts import VARIANT, Kind, fitted
from icl.published.writing import SHARD, dtype_called, named, write_folder
from theory.errors import BadInput
from theory.plans.architecture import Architecture
from theory.plans.names import fitting
from theory.plans.suggestions import unknown


def save(
    model: Decoder,
    folder: Path | str,
    layout: str,
    *,
    dtype: str = "float32",
    beside: Iterable[Path] = (),
    texts: Mapping[str, str] | None = None,
    shard: int = SHARD,
) -> None:
    """Write the model into a new folder, whole or not at all; arguments as in `icl.published.writing.save`.

    layout  a name of `icl.published.kinds.PAPERS`

    Raises BadInput for a folder that is there already, and for what the layout has no place for.
    """
    config, tensors = in_paper_s(model, layout, dtype_called(dtype))
    about = {**config, "dtype": dtype, "torch_dtype": dtype}
    write_folder(Path(folder), about, tensors, texts=texts, beside=beside, shard=shard)


def in_paper_s(model: Decoder, layout: str, dtype: torch.dtype) -> tuple[Mapping[str, Any], dict[str, Tensor]]:
    """Return config.json and tensors.  Raises BadInput for a plan or sizes that the layout cannot express."""
    if layout not in PAPERS:
        raise BadInput(unknown("layout", layout, PAPERS))
    kind, variant = PAPERS[layout]
    for problem in _problems(model, kind, variant):
        raise BadInput(f"the layout {layout} {problem}")
    config = kind.config(model.config)
    assert config is not None
    said = {} if variant == kind.variant else {VARIANT: variant}
    parameters = {name: tuple(p.shape) for name, p in model.named_parameters()}
    return {**config, **said}, named(model, fitted(kind.layout(model.config), parameters), dtype)


def _problems(model: Decoder, kind: Kind, variant: str) -> Iterator[str]:
    if model.plan != fitting(variant, model.config):
        yield f"is of models under {variant}, and this one is under another plan"
        return
    config = kind.config(model.config)
    if config is None:
        yield "is of decoders of tokens, of this kind: " + kind.words
        return
    back, own = _in_full(kind.architecture(config)), _in_full(model.config)
    for field in fields(Architecture):
        said, meant = getattr(back, field.name), getattr(own, field.name)
        if said != meant:
            yield f"has no place for {field.name} = {meant}: there it is {said}"
    yield from (f"does not fit: {problem}" for problem in kind.unknown(config))


def _in_full(sizes: Architecture) -> Architecture:
    """Return the sizes with the values for which zeros stand."""
    return replace(sizes, n_kv_heads=sizes.kv_heads, head_dim=sizes.width)
