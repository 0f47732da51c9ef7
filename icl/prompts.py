"""In-context linear regression: the prompts (x_1, y_1, ..., x_n, y_n, x_{n+1}) of SkipV1Former, appendix A.1."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import sqrt
from typing import Any

import numpy as np
import torch
from torch import Tensor

from icl.brief import shapes
from theory.errors import BadInput, check_memory
from theory.plans.identity import text
from theory.plans.law import PLAIN, Law
from theory.plans.setting import Setting

# What a stream of numbers is for: the first part of its name.
INIT_STREAM, TRAIN_STREAM, HELD_OUT_STREAM, MEAN_STREAM, POOL_STREAM = 0, 1, 2, 3, 4


@dataclass(frozen=True, repr=False)
class RegressionTask(Setting):
    """A setting whose prompts can be drawn; its inputs and tasks are plain ones, or follow another law.

    W0 and the tasks of a pool are drawn once on the CPU, in float64, from streams of their own: they are the same on
    every device, in training and held out.
    """

    sigma: float
    law: Law = PLAIN

    def __post_init__(self) -> None:
        super().__post_init__()
        check_memory(f"a pool of {self.law.pool} tasks of d = {self.d}", self.law.pool * self.d**2)

    def __repr__(self) -> str:
        return text(self)  # a law that is plain goes without saying: it was not always there

    @property
    def key(self) -> str:
        return "-".join([super().key, *(f"{name}={value}" for name, value in self.law.chosen.items())])

    @property
    def w0(self) -> Tensor:
        """The mean of W* over all tasks, the pool's too: (d, d), float64, on the CPU."""
        return _w0(self.d, self.law)

    @property
    def pool(self) -> Tensor | None:
        """The tasks that there are: (pool, d, d), float64, on the CPU; None where every prompt draws its own."""
        return _pool(self.d, self.law) if self.law.pool else None

    @property
    def signal(self) -> Any:
        """The signal's power, E ||W* x||^2 = d^2 + tr(W0 Sigma W0^T); for a pool, the mean of tr(W Sigma W^T) over
        it."""
        if not (self.law.pool or self.law.w0 or self.law.w0_random):
            return super().signal
        powers = torch.tensor(self.law.eigenvalues(self.d), dtype=torch.float64)
        if self.pool is not None:
            return float((self.pool.square() * powers).sum()) / self.law.pool
        return super().signal + float((self.w0.square() * powers).sum())

    @property
    def signal_share(self) -> Any:
        """The share of the plain setting.  Raises BadInput for another law, of which it says nothing."""
        if self.law != PLAIN:
            raise BadInput(f"n / (n + d + 1 + sigma^2) is a share of the plain task's signal, not of {self}")
        return super().signal_share

    def sample(self, batch: int, generator: Generator, dtype: torch.dtype = torch.float32) -> Prompts:
        """Draw `batch` fresh prompts, each with its own W* or its own choice from the pool, on the generator's device.

        Prompts of equal sizes from equally named streams have the same noise whatever the law, the same W* - W0 without
        a pool, and inputs that are functions of the same normal numbers.
        """
        d, columns = self.d, self.n + 1
        x, noise, w = generator.normal((batch, d, 2 * columns + d), dtype).tensor_split([columns, 2 * columns], dim=-1)
        if self.law != PLAIN:
            x = _inputs(x, self.law)
            pool = self.pool
            w = w + self.w0.to(w) if pool is None else pool.to(w.device)[generator.below(len(pool), batch)].to(w)
        return Prompts(x, w @ x + self.sigma * noise, w)

    def samples(self, batch: int, generators: Sequence[Generator], dtype: torch.dtype = torch.float32) -> Prompts:
        """Draw `sample` from each generator, stacked along a new first dimension of streams."""
        if self.law != PLAIN:
            each = [self.sample(batch, generator, dtype) for generator in generators]
            return Prompts(*(torch.stack([getattr(prompts, name) for prompts in each]) for name in ("x", "y", "w")))
        d, columns = self.d, self.n + 1
        numbers = torch.stack([generator.normal((batch, d, 2 * columns + d), dtype) for generator in generators])
        x, noise, w = numbers.tensor_split([columns, 2 * columns], dim=-1)
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

    def below(self, bound: int, count: int) -> Tensor:
        """Draw whole numbers from 0 to bound - 1, all equally likely: (count,)."""
        return torch.randint(bound, (count,), generator=self._generator, device=self._generator.device)


@dataclass(frozen=True, eq=False)
class Prompts:
    """x and y: (batch, d, n+1), the last column being the query and its label; w: (batch, d, d)."""

    x: Tensor
    y: Tensor
    w: Tensor

    __repr__ = shapes

    @property
    def query(self) -> Tensor:
        """The query x_{n+1}: (batch, d)."""
        return self.x[..., -1]

    @property
    def label(self) -> Tensor:
        """The label y_{n+1}: (batch, d)."""
        return self.y[..., -1]

    def tokens(self) -> Tensor:
        """Return E = (x_1, y_1, ..., x_n, y_n, x_{n+1}): (batch, d, 2n+1)."""
        return torch.stack([self.x, self.y], dim=-1).flatten(-2)[..., :-1]

    def second_moment(self) -> Tensor:
        """Return S = sum over the n context pairs of (x ; y)(x ; y)^T: (batch, 2d, 2d)."""
        z = torch.cat([self.x, self.y], dim=-2)[..., :-1]
        return z @ z.mT


def _inputs(z: Tensor, law: Law) -> Tensor:
    """Return inputs of a law from standard normal numbers, column by column: (..., d, columns)."""
    match law.inputs:
        case "rademacher":
            xi = torch.where(z < 0, -torch.ones_like(z), torch.ones_like(z))
        case "uniform":
            xi = sqrt(3) * torch.erf(z / sqrt(2))  # 2 Phi(z) - 1 is uniform on (-1, 1)
        case "laplace":
            xi = -z.sign() * torch.erfc(z.abs() / sqrt(2)).log() / sqrt(2)  # P(|z| > z) is uniform on (0, 1)
        case "sphere":
            xi = sqrt(z.shape[-2]) * z / z.norm(dim=-2, keepdim=True)
        case _:
            xi = z
    return xi * torch.tensor(law.eigenvalues(z.shape[-2]), dtype=z.dtype, device=z.device).sqrt()[:, None]


@lru_cache(maxsize=8)
def _w0(d: int, law: Law) -> Tensor:
    diagonal = law.w0 * torch.eye(d, dtype=torch.float64)
    return diagonal + law.w0_random * Generator(MEAN_STREAM, law.w0_seed).normal((d, d), torch.float64)


@lru_cache(maxsize=8)
def _pool(d: int, law: Law) -> Tensor:
    return _w0(d, law) + Generator(POOL_STREAM, law.pool_seed).normal((law.pool, d, d), torch.float64)
