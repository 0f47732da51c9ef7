"""Multi-query associative recall: n pairs of a key and a value, then each key again, whose value is asked for.

The form of Zoology (Arora et al., 2023, section 4), without its gaps between pairs and queries: every key is asked for
once, in random order, after all pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from icl.brief import shapes
from icl.prompts import Generator
from theory.errors import BadInput, at_least

Form = Literal["interleaved", "paired"]


@dataclass(frozen=True, kw_only=True)
class RecallTask:
    """How sequences are drawn.  Keys of a sequence are different ones, and so are its values.

    Args:
        pairs: n, in a sequence.
        keys: how many there are to draw from.
        values: likewise.
        form: `interleaved`, a token for each key and each value; or `paired`, one token for both.

    Raises:
        BadInput: for fewer keys or values than pairs.
    """

    pairs: int
    keys: int
    values: int
    form: Form = "interleaved"

    def __post_init__(self) -> None:
        at_least("pairs", self.pairs, 1)
        for name in ("keys", "values"):
            if (count := getattr(self, name)) < self.pairs:
                raise BadInput(f"{name} must be at least as many as pairs, {self.pairs}, got {count}")
        if self.form not in get_args(Form):
            raise BadInput(f"the form of recall is interleaved or paired, got {self.form!r}")

    @property
    def told(self) -> int:
        """Tokens of all pairs."""
        return self.pairs * (2 if self.form == "interleaved" else 1)

    @property
    def tokens(self) -> int:
        """Tokens of a sequence, queries included."""
        return self.told + self.pairs

    @property
    def width(self) -> int:
        """Coordinates of a token: one for each key, then one for each value."""
        return self.keys + self.values

    def sample(self, batch: int, generator: Generator) -> Sequences:
        """Return so many sequences."""
        return self._made(generator.normal((batch, self.width + self.pairs), torch.float64))

    def samples(self, batch: int, generators: Sequence[Generator]) -> Sequences:
        """Return `sample` of each of the generators, with a dimension of as many in front."""
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
        task: by which they were drawn.
        keys: of the pairs, whole numbers below `task.keys`: (..., n).
        values: likewise.
        asked: which pair each query asks for: (..., n).
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
