"""Texts as torchtitan lays them out: one row of tokens, and positions that begin again where a text does."""

from __future__ import annotations

import torch
from torch import Tensor

from icl.models.decoder import Decoder


def answers(decoder: Decoder, tokens: Tensor, positions: Tensor | None = None) -> Tensor:
    """Return the scores of every token's follower: the shape of tokens, then (vocab,).

    A token sees those of its own text alone.

    Args:
        decoder: The decoder.
        tokens: Indices, (T,) or (batch, T).
        positions: The place of every token in its text, of the same shape; by default every row is one text.

    Raises:
        ValueError: For positions that do not count from 0 in every text.
    """
    rows = tokens if tokens.dim() == 2 else tokens[None]
    if positions is None:
        return _scores(decoder, rows).reshape(*tokens.shape, -1)
    lengths = text_lengths(positions.flatten())
    if len(set(lengths)) == 1 and (tokens.dim() == 1 or lengths[0] == tokens.shape[1]):
        return _scores(decoder, tokens.reshape(-1, lengths[0])).reshape(*tokens.shape, -1)
    return _packed(decoder, rows, positions.reshape(rows.shape)).reshape(*tokens.shape, -1)


def text_lengths(positions: Tensor) -> list[int]:
    """Return the lengths of the texts in a row, from the places of its tokens, (T,).

    Raises:
        ValueError: For places that do not count from 0 in every text.
    """
    starts = (positions == 0).nonzero().flatten()
    ends = torch.cat([starts[1:], starts.new_full((1,), len(positions))])
    lengths: list[int] = (ends - starts).tolist()
    column = torch.arange(len(positions), device=positions.device)
    if not lengths or bool((column - starts.repeat_interleave(ends - starts) != positions).any()):
        raise ValueError("positions: the places of tokens count from 0 in every text")
    return lengths


def _scores(decoder: Decoder, tokens: Tensor) -> Tensor:
    return decoder.stem.answer(decoder.hidden(tokens))


def _packed(decoder: Decoder, tokens: Tensor, positions: Tensor) -> Tensor:
    """Return the scores of rows, (batch, T), that hold texts of different lengths."""
    config = decoder.config
    if config.mask != "causal" or config.copy_rank is not None:
        raise ValueError("positions: this decoder reads whole texts from position 0")
    if int(positions.max()) >= config.context:
        raise ValueError(f"positions: a text is longer than the context of {config.context}")
    text = (positions == 0).cumsum(-1)
    row = torch.arange(tokens.shape[1], device=tokens.device)
    visible = (row[:, None] >= row) & (text[:, None, :, None] == text[:, None, None, :])
    if config.window:
        visible = visible & (row[:, None] - row < config.window)
    x = decoder.stem.embed(tokens)
    frame = decoder.placed_frame(x, positions, visible, tokens=tokens)
    return decoder.stem.answer(decoder.through(x, frame, positions))
