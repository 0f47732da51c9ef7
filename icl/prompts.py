"""In-context linear regression: the prompts (x_1, y_1, ..., x_n, y_n, x_{n+1}) of SkipV1Former, appendix A.1."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from theory.plans.setting import Setting

INIT_STREAM, TRAIN_STREAM, HELD_OUT_STREAM = 0, 1, 2  # what a stream of numbers is for: the first part of its name


@dataclass(frozen=True)
class RegressionTask(Setting):
    """A setting whose prompts can be drawn."""

    sigma: float

    def sample(self, batch: int, generator: Generator, dtype: torch.dtype = torch.float32) -> Prompts:
        """`batch` fresh prompts, each with its own W*, on the generator's device."""
        d, columns = self.d, self.n + 1
        x, noise, w = generator.normal((batch, d, 2 * columns + d), dtype).tensor_split([columns, 2 * columns], dim=-1)
        return Prompts(x, w @ x + self.sigma * noise, w)


class Generator:
    """Standard normal numbers from a stream named by whole numbers, on any device.

    Equal names give equal numbers on one kind of device, so a resumed run needs no saved generator: it names the stream
    by its step.  Numbers in a name are below 2^32.
    """

    def __init__(self, *name: int, device: torch.device | str = "cpu") -> None:
        if any(not 0 <= part < 2**32 for part in name):
            raise ValueError(f"a stream's name holds whole numbers from 0 to 2^32 - 1, got {name}")
        state = np.random.SeedSequence([len(name), *name]).generate_state(1, np.uint64)[0]
        self._generator = torch.Generator(device).manual_seed(int(state) % 2**63)

    def normal(self, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        return torch.randn(shape, generator=self._generator, dtype=dtype, device=self._generator.device)


@dataclass(frozen=True, eq=False)
class Prompts:
    """x and y: (batch, d, n+1), the last column being the query and its label; w: (batch, d, d)."""

    x: Tensor
    y: Tensor
    w: Tensor

    @property
    def query(self) -> Tensor:
        """x_{n+1}: (batch, d)."""
        return self.x[..., -1]

    @property
    def label(self) -> Tensor:
        """y_{n+1}: (batch, d)."""
        return self.y[..., -1]

    def tokens(self) -> Tensor:
        """E = (x_1, y_1, ..., x_n, y_n, x_{n+1}): (batch, d, 2n+1)."""
        return torch.stack([self.x, self.y], dim=-1).flatten(-2)[..., :-1]

    def second_moment(self) -> Tensor:
        """S = sum over the n context pairs of (x ; y)(x ; y)^T: (batch, 2d, 2d)."""
        z = torch.cat([self.x, self.y], dim=-2)[..., :-1]
        return z @ z.mT
