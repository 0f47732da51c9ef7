"""The input of a given length that makes a function's output largest, sought by ascents from many starts.

The result is a lower bound on the largest norm: a bound from theory has to lie above it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from theory.errors import BadInput, at_least


@dataclass(frozen=True)
class Ascent:
    """The norms of a function's outputs.

    typical  root mean square over the random inputs that the ascents start from
    starts   the norm at each of those, (starts,)
    found    the largest norm on each ascent's way, (starts,)
    inputs   where it was, (starts, width)
    """

    typical: float
    starts: Tensor
    found: Tensor
    inputs: Tensor

    @property
    def largest(self) -> float:
        return float(self.found.max())


def ascend(
    function: Callable[[Tensor], Tensor],
    width: int,
    radius: float,
    *,
    starts: int = 200,
    steps: int = 100,
    seed: int = 0,
    others: Tensor | None = None,
) -> Ascent:
    """Return ascents of ||function(u)|| over ||u|| = radius, all side by side, in float64.

    function takes (starts, width) and gives (starts, anything), row by row.  Each start is random, uniform on the
    sphere; `others` (any number, width) are tried, too, at this length.  A step goes to the point of the sphere in the
    gradient's direction, which never loses where the norm is convex in u, and half, quarter .. of the way where it
    does lose.  Raises BadInput for sizes that cannot be, or an output that is no number.
    """
    for name, size in (("width", width), ("starts", starts), ("steps", steps + 1)):
        at_least(name, size, 1)
    if not (math.isfinite(radius) and radius > 0):
        raise BadInput(f"radius must be positive, got {radius}")
    generator = torch.Generator().manual_seed(seed)
    u = torch.randn(starts, width, dtype=torch.float64, generator=generator)
    u = _on_sphere(u if others is None else torch.cat([u, others.double()]), radius)
    norms, gradients = _norms(function, u)
    first, best, where = norms[:starts], norms, u
    share = torch.ones_like(norms)
    for _ in range(steps):
        target = torch.where(gradients.norm(dim=-1, keepdim=True) > 0, _on_sphere(gradients, radius), where)
        u = _on_sphere(where + share[:, None] * (target - where), radius)
        norms, new = _norms(function, u)
        better = norms > best
        where, gradients = (torch.where(better[:, None], x, y) for x, y in ((u, where), (new, gradients)))
        best = torch.where(better, norms, best)
        share = torch.where(better, (2 * share).clamp(max=1), share / 2)
    return Ascent(typical=float(first.square().mean().sqrt()), starts=first, found=best, inputs=where)


def _norms(function: Callable[[Tensor], Tensor], u: Tensor) -> tuple[Tensor, Tensor]:
    """Return the norms of the outputs, and their gradients with respect to u."""
    with torch.enable_grad():
        u = u.detach().requires_grad_()
        squares = function(u).square().flatten(1).sum(1)
        (gradients,) = torch.autograd.grad(squares.sum(), u)
    if not torch.isfinite(squares).all():
        raise BadInput("an output is no finite number")
    return squares.detach().sqrt(), gradients


def _on_sphere(u: Tensor, radius: float) -> Tensor:
    tiny = torch.finfo(u.dtype).tiny
    return radius * u / u.norm(dim=-1, keepdim=True).clamp(min=tiny)
