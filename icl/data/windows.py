"""Windows of tokens to train on: the seed and the step alone decide which ones a step reads."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from theory.errors import BadInput, at_least

EVERY = slice(None)


class TokenArray(Protocol):
    """Tokens from which windows are cut: `shards.Tokens`, or a numpy array of one dimension."""

    def __len__(self) -> int: ...

    def __getitem__(self, span: slice, /) -> np.ndarray: ...


class Windows:
    """Windows of context + 1 tokens, from the first token on; the last token of one is the first of the next.

    So every token but the first is predicted once an epoch, save up to context - 1 at the end.  Every epoch visits all
    windows, in an order of its own.  Raises BadInput for fewer than context + 1 tokens.
    """

    def __init__(self, tokens: TokenArray, context: int, seed: int) -> None:
        at_least("context", context, 1)
        at_least("seed", seed, 0)
        if len(tokens) <= context:
            raise BadInput(f"a window of context {context} needs {context + 1} tokens; there are only {len(tokens)}")
        self.tokens, self.context, self.seed = tokens, context, seed
        self._epoch, self._order = -1, np.empty(0, np.int64)

    @property
    def count(self) -> int:
        return (len(self.tokens) - 1) // self.context

    @property
    def tokens_an_epoch(self) -> int:
        """The number of tokens that an epoch predicts."""
        return self.count * self.context

    def epochs(self, steps: int, size: int) -> float:
        """Return how often `steps` batches of `size` windows go through all of them."""
        return steps * size / self.count

    def batch(self, step: int, size: int, rows: slice = EVERY) -> np.ndarray:
        """Return the windows of one step (from 0), int64 (size, context + 1), whatever was requested before.

        rows: the windows of the batch that are read.
        """
        at_least("step", step, 0)
        at_least("size", size, 1)
        places = (divmod(number, self.count) for number in range(step * size, (step + 1) * size)[rows])
        return np.stack([self._window(int(self._permuted(epoch)[place])) for epoch, place in places])

    def in_order(self, limit: int | None = None) -> np.ndarray:
        """Return the first windows, `limit` of them or all, unshuffled: int64 (windows, context + 1)."""
        if limit is not None:
            at_least("limit", limit, 1)
        count = self.count if limit is None else min(limit, self.count)
        return np.stack([self._window(index) for index in range(count)])

    def _window(self, index: int) -> np.ndarray:
        start = index * self.context
        return self.tokens[start : start + self.context + 1].astype(np.int64)

    def _permuted(self, epoch: int) -> np.ndarray:
        """Return the order of an epoch: (count,).

        The latest is kept, as steps mostly need one epoch after another.
        """
        if epoch != self._epoch:
            generator = np.random.Generator(np.random.PCG64(np.random.SeedSequence([self.seed, epoch])))
            self._epoch, self._order = epoch, generator.permutation(self.count)
        return self._order
