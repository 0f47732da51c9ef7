"""Prompts as tokens (x ; y) side by side, and prompts whose inputs are wide, by which what is rare gets common.

Mean squares over prompts of what grows like a power of their inputs are made by prompts that are in no sample: an
interval from prompts as they come is narrow, and wrong.  So equally many prompts are drawn at each of several widths w,
their inputs w times as wide, and weighted by
    p(x) / mean_w p_w(x),    p_w the density of w times standard normal numbers, p = p_1,
a mean under which is one under p, whatever the widths (the balance heuristic of Veach and Guibas, 1995).
With 1 among them no weight exceeds their number.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log

import torch
from torch import Tensor

from icl.models.decoder import Decoder
from icl.prompts import Prompts


def side_by_side(prompts: Prompts) -> Tensor:
    """Tokens (x_t ; y_t) and the query (x ; 0): (batch, n + 1, 2d), or with more dimensions in front."""
    y = torch.cat([prompts.y[..., :-1], torch.zeros_like(prompts.y[..., -1:])], dim=-1)
    return torch.cat([prompts.x, y], dim=-2).mT.contiguous()


def last_read(model: Decoder, prompts: Prompts) -> Tensor:
    """Of a toy without norms and without a read-out, whose answer it is: (batch, n + 1, 2d)."""
    with torch.no_grad():
        read: Tensor = model(side_by_side(prompts))
    return read


def at_widths(prompts: Prompts, each: Tensor | float) -> Prompts:
    """The same W*, noise and query, with the context's inputs so many times as wide; each: (batch,), or one for all."""
    x = prompts.x.clone()
    x[..., :-1] *= torch.as_tensor(each, dtype=x.dtype).view(-1, 1, 1)
    return Prompts(x, prompts.y + prompts.w @ (x - prompts.x), prompts.w)


def log_weights(numbers: Tensor, widths: Sequence[float]) -> Tensor:
    """log p / mean_w p_w of independent numbers, (batch, ...), drawn equally often at each of the widths: (batch,)."""
    flat = numbers.flatten(1)
    squares, count = flat.square().sum(1), flat.shape[1]
    densities = torch.stack([-squares / (2 * w**2) - count * log(w) for w in widths])
    return -squares / 2 - densities.logsumexp(0) + log(len(widths))
