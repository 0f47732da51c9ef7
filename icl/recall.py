"""Multi-query associative recall: n pairs of a key and a value, then each key again, whose value is asked for.

The form of Zoology (Arora et al., 2023, section 4), without its gaps between pairs and queries: every key is asked for
once, in random order, after all pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from icl.brief import shapes
from icl.prompts import Generator
from theory.plans.recall import RecallSetting


@dataclass(frozen=True, kw_only=True)
class RecallTask(RecallSetting):
    """A setting whose sequences can be drawn."""

    def sample(self, batch: int, generator: Generator) -> Sequences:
        """Draw `batch` sequences."""
        return self._made(generator.normal((batch, self.width + self.pairs), torch.float64))

    def samples(self, batch: int, generators: Sequence[Generator]) -> Sequences:
        """Draw `sample` from each generator, stacked along a new first dimension."""
        shape = batch, self.width + self.pairs
        return self._made(torch.stack([generator.normal(shape, torch.float64) for generator in generators]))

    def _made(self, numbers: Tensor) -> Sequences:
        keys, values, order = numbers.split([self.keys, self.values, self.pairs], dim=-1)
        asked = order.argsort(-1)
        return Sequences(self, keys.argsort(-1)[..., : self.pairs], values.argsort(-1)[..., : self.pairs], asked)


@dataclass(frozen=True, eq=False)
class Sequences:
    """Drawn sequences.

    Args:
        task: The task that drew them.
        keys: Keys of the pairs, whole numbers below `task.keys`: (..., n).
        values: Values of the pairs, whole numbers below `task.values`: (..., n).
        asked: The pair that each query asks for: (..., n).
    """

    task: RecallTask
    keys: Tensor
    values: Tensor
    asked: Tensor

    __repr__ = shapes

    def tokens(self) -> Tensor:
        """Return what a decoder reads, with a 1 for each key and value of a token: (..., T, keys + values), float32."""
        task = self.task
        keys = one_hot(self.keys, task.width)
        values = one_hot(self.values + task.keys, task.width)
        told = keys + values if task.form == "paired" else torch.stack([keys, values], dim=-2).flatten(-3, -2)
        asked = one_hot(self.keys.gather(-1, self.asked), task.width)
        return torch.cat([told, asked], dim=-2).float()

    def answers(self) -> Tensor:
        """Return the right answers to the queries, one-hot: (..., n, values), float32."""
        return one_hot(self.values.gather(-1, self.asked), self.task.values).float()
