"""Arguments of a forward pass: positions, what sees what, and what is refused by name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from theory.plans.architecture import Architecture

ONE_MASK = "documents are told apart by position_ids or attention_mask alone"
# Arguments of transformers' contract that the decoder has no answer to: the values that ask for nothing, and why.
REFUSED: dict[str, tuple[tuple[bool, ...], str]] = {
    "output_router_logits": ((False,), "the model has no router"),
    "is_causal": ((True,), "what sees what is said by attention_mask"),
    "head_mask": ((), "heads cannot be masked"),
    "token_type_ids": ((), "the model has no token types"),
    "seq_idx": ((), ONE_MASK),
    **dict.fromkeys(("cu_seq_lens_q", "cu_seq_lens_k", "max_length_q", "max_length_k"), ((), ONE_MASK)),
}
IMPLEMENTATIONS = ("sdpa", "eager")


def check_refused(arguments: dict[str, Any]) -> None:
    """Raise for the first argument that changes what a model of transformers answers, and not what this one does.

    Raises:
        TypeError: For an argument that transformers' LLaMA does not have.
        ValueError: For one that the decoder has no answer to, by name.
    """
    for name, value in arguments.items():
        if name not in REFUSED:
            raise TypeError(f"CrosslayerForCausalLM.forward() got an unexpected keyword argument {name!r}")
        without_effect, reason = REFUSED[name]
        if value is not None and not any(value is x for x in without_effect):
            raise ValueError(f"{name}: {reason}")


def check_implementation(name: str | None) -> None:
    """Raise ValueError for attention by a kernel that does not know what a plan's heads attend over."""
    if name not in (None, *IMPLEMENTATIONS):
        raise ValueError(
            f"attn_implementation: {name!r}; a plan's heads attend through {' or '.join(map(repr, IMPLEMENTATIONS))}, "
            "and the first of them uses the flash kernels of PyTorch"
        )


@dataclass(frozen=True, eq=False)
class Placement:
    """Positions of the new tokens, and what they see of all columns: those of earlier tokens, and their own.

    places      the positions, (batch, T); None: 0, 1, ..., and no cache
    visible     true where a token (row) sees a column, (T, columns) or (1 or batch, 1, T, columns); None: each sees all
                columns up to its own
    rows        the columns of the new tokens, (T,)
    columns     (columns,): 0, 1, ...
    first       the column of the first real token of every sequence, (batch, 1); None: 0
    """

    places: Tensor | None
    visible: Tensor | None
    rows: Tensor
    columns: Tensor
    first: Tensor | None


def placement(
    config: Architecture,
    x: Tensor,
    attention_mask: Tensor | None,
    position_ids: Tensor | None,
    *,
    start: int | None = None,
    columns: int | None = None,
) -> Placement:
    """Return the positions of tokens and what they see, as transformers' LLaMA has them.

    Without a mask and without a cache, tokens whose positions do not follow one another belong to different documents;
    otherwise position_ids are positions alone.

    Args:
        config: Sizes of the decoder.
        x: Embedded tokens, (batch, T, d_model).
        attention_mask: (batch, columns of all tokens so far) or (1 or batch, 1, T, columns).
        position_ids: (1 or batch, T).
        start: The number of columns before these tokens in a cache; None: there is no cache.
        columns: The number of a cache's columns, filled or not.

    Raises:
        ValueError: For shapes and numbers without meaning, and for a decoder that only reads one text from position 0.
    """
    batch, length = x.shape[:2]
    before, cached = start or 0, start is not None
    so_far = before + length
    columns = so_far if columns is None else columns
    column = torch.arange(columns, device=x.device)
    row = column[before:so_far]
    documents = None
    if position_ids is not None:
        position_ids = _checked_positions(config, position_ids.to(x.device), batch, length=length)
        if attention_mask is None and not cached:
            documents = _documents(position_ids)
    longest = so_far if documents is None or position_ids is None else int(position_ids.max()) + 1
    if longest > config.context:
        raise ValueError(f"{longest} tokens are more than the context of {config.context}")
    real, visible = _checked_mask(attention_mask, x, so_far, columns=columns)
    if not cached and position_ids is None and real is None and visible is None:
        return Placement(None, None, row, column, None)
    if config.mask != "causal" or config.copy_rank is not None:
        raise ValueError("attention_mask and position_ids: this decoder reads whole texts from position 0")
    first = None if real is None else real.int().argmax(-1, keepdim=True)
    places = position_ids
    if places is None:
        places = row.expand(batch, -1) if first is None else (row - first).clamp(min=0)
    if visible is None:
        if real is None and documents is None and _sees_all(config, length, before, columns=columns):
            visible = None
        else:
            visible = _seen(config, row, column, real=real, documents=documents)
    return Placement(places, visible, row, column, first)


def packed(position_ids: Tensor | None, attention_mask: Tensor | None) -> bool:
    """Return whether tokens belong to several documents, of which only their positions tell."""
    return position_ids is not None and attention_mask is None and _documents(position_ids) is not None


def positions_of_texts(
    texts: Tensor, x: Tensor, position_ids: Tensor | None, *, attention_mask: Tensor | None
) -> Tensor:
    """Return positions that mark documents, (1, T), from where these begin: the cu_seqlens of flash-linear-attention.

    Args:
        texts: The columns in which documents begin, and the number of columns, (documents + 1,) or (1, documents + 1).
        x: Embedded tokens, (1, T, d_model).
        position_ids: Positions that are given besides, (1, T), and must be the same.
        attention_mask: What must not be given besides.

    Raises:
        ValueError: By name, for anything else.
    """
    texts, columns = texts.flatten().to(x.device), x.shape[1]
    lengths = texts.diff()
    whole = len(texts) > 1 and int(texts[0]) == 0 and int(texts[-1]) == columns and bool((lengths > 0).all())
    if len(x) != 1 or not whole:
        raise ValueError(f"cu_seqlens: rising from 0 to the {columns} tokens of a single row")
    if attention_mask is not None:
        raise ValueError("cu_seqlens: attention_mask says already what sees what")
    positions = torch.arange(columns, device=x.device) - texts[:-1].repeat_interleave(lengths)
    if position_ids is not None and not torch.equal(position_ids.to(positions).flatten(), positions):
        raise ValueError("cu_seqlens: position_ids begin documents elsewhere")
    return positions[None]


def _documents(position_ids: Tensor) -> Tensor | None:
    """Return the number of every token's document, (batch, T); None where there is one."""
    breaks = position_ids.diff(dim=-1) != 1
    return pad(breaks, (1, 0)).cumsum(-1) if bool(breaks.any()) else None


def _sees_all(config: Architecture, length: int, before: int, *, columns: int) -> bool:
    """Return whether tokens see all columns up to their own, and there are no others."""
    whole = length in (1, columns) and before + length == columns
    return whole and not 0 < config.window < columns


def _seen(
    config: Architecture, row: Tensor, column: Tensor, *, real: Tensor | None, documents: Tensor | None
) -> Tensor:
    """Return `Placement.visible`; windows that are given by layer are not in it."""
    visible = row[:, None] >= column
    if config.window:
        visible = visible & (row[:, None] - column < config.window)
    if documents is not None:
        visible = visible & (documents[:, None, :, None] == documents[:, None, None, :])
    if real is not None:
        # A padding token sees itself, so that no softmax is over nothing.
        padding = ~real[:, row]
        visible = visible & real[:, None, None, :] | (row[:, None] == column) & padding[:, None, :, None]
    return visible


def _checked_positions(config: Architecture, position_ids: Tensor, batch: int, length: int) -> Tensor:
    if tuple(position_ids.shape) not in ((1, length), (batch, length)) or position_ids.is_floating_point():
        raise ValueError(
            f"position_ids: whole numbers of shape {(batch, length)} are needed, got {tuple(position_ids.shape)} "
            f"of {position_ids.dtype}"
        )
    if config.positions != "rope" and bool(((position_ids < 0) | (position_ids >= config.context)).any()):
        raise ValueError(f"position_ids: the model has positions from 0 to {config.context - 1}")
    return position_ids.expand(batch, -1)


def _checked_mask(mask: Tensor | None, x: Tensor, so_far: int, *, columns: int) -> tuple[Tensor | None, Tensor | None]:
    """Return which columns are real, (batch, columns), and what sees what, (1 or batch, 1, T, columns).

    Either is None where nothing is said of it.
    """
    batch, length = x.shape[:2]
    if mask is None:
        return None, None
    mask = mask.to(x.device)
    shape = tuple(mask.shape)
    if shape == (batch, so_far):
        real = mask.bool()
        return (None if bool(real.all()) else pad(real, (0, columns - so_far))), None
    if shape not in ((1, 1, length, columns), (batch, 1, length, columns)):
        raise ValueError(
            f"attention_mask: of shape {shape}; {(batch, so_far)} or {(batch, 1, length, columns)} is read"
        )
    if mask.dtype == torch.bool:
        return None, mask
    if not mask.is_floating_point() or bool(((mask != 0) & (mask > torch.finfo(mask.dtype).min / 2)).any()):
        raise ValueError("attention_mask: with four dimensions, booleans or numbers that are 0 or the dtype's least")
    return None, mask == 0
