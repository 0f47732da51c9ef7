"""Tasks of full-size models: text from shards, in-context regression, and associative recall.

A task names its batches by step, so nothing of it has to be saved, and every model sees the same ones.  Its losses come
apart by position, of which the training loss is the mean.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, get_args

import numpy as np
import torch
from torch import Tensor, nn

from icl.data.shards import EVERY, TokenArray, TokenData, Windows
from icl.prompts import HELD_OUT_STREAM, TRAIN_STREAM, Generator, Prompts, RegressionTask
from icl.recall import RecallTask, Sequences
from theory.errors import BadInput, at_least
from theory.plans.architecture import Patches, Stem, Tokens

HELD_OUT_SEED = 0
Scored = Literal["all", "last"]  # which answers of a prompt


@dataclass(frozen=True, eq=False)
class Batch:
    """A batch: inputs of a stem, and targets, (batch, T) tokens or (batch, positions, d) vectors."""

    inputs: Tensor
    targets: Tensor

    def to(self, device: torch.device) -> Batch:
        if device.type == "cuda":
            return Batch(*(x.pin_memory().to(device, non_blocking=True) for x in (self.inputs, self.targets)))
        return Batch(self.inputs.to(device), self.targets.to(device))

    def rows(self, which: slice) -> Batch:
        return Batch(self.inputs[which], self.targets[which])

    def filled(self, count: int) -> Batch:
        """Return a batch of `count` sequences, which begins with these; the first of them fills the rest.

        It lies in memory without gaps, whether anything was missing or not: a compiler tells strides apart.
        """
        missing = count - len(self.inputs)
        both = (torch.cat([x, x[:1].expand(missing, *x.shape[1:])]) for x in (self.inputs, self.targets))
        return Batch(*both)

    def parts(self, count: int) -> list[Batch]:
        pairs = zip(self.inputs.chunk(count), self.targets.chunk(count), strict=True)
        return [Batch(inputs, targets) for inputs, targets in pairs]


class HeldOut(Protocol):
    """A task on which a model can be evaluated.  tokens: in a sequence."""

    @property
    def tokens(self) -> int: ...

    def held_out(self) -> Iterator[Batch]:
        """Yield the held-out batches, the same every time."""
        ...

    def losses(self, answer: Tensor, targets: Tensor) -> Tensor:
        """Return the losses, (batch, positions), of a model's answer."""
        ...


class Task(HeldOut, Protocol):
    """A task on which a model can be trained too.  identity: names the task and its data."""

    @property
    def identity(self) -> str: ...

    def batch(self, seed: int, step: int, size: int, rows: slice = EVERY) -> Batch:
        """Return the batch of a step, or these rows of it."""
        ...


def blind_loss(task: HeldOut, stem: Stem) -> float:
    """Return the loss of a blind guess: all tokens, classes or values are equally likely; or all vectors zero.

    Args:
        task: The task, whose unit the loss has; the first held-out batch gives the length of vectors.
        stem: The stem of the model that answers.
    """
    if isinstance(task, Recall):
        return task.task.blind
    match stem:
        case Tokens():
            return math.log(stem.vocab)
        case Patches():
            return math.log(stem.classes)
    return float(next(task.held_out()).targets.float().square().sum(-1).mean())


class TextTask:
    """The next token, in nats: windows of `context` tokens in another random order every epoch.

    opened          every window's first token is the tokenizer's end of text, so that all sequences begin alike
    train_tokens    of the training text, from its start on, that are read; 0: all.  Raises BadInput for more than
                    there are, or fewer than a window
    """

    def __init__(
        self,
        data: TokenData,
        context: int,
        held_out_windows: int = 64,
        held_out_batch: int = 8,
        opened: bool = False,
        train_tokens: int = 0,
    ) -> None:
        at_least("context", context, 1)
        at_least("held_out_windows", held_out_windows, 1)
        at_least("train_tokens", train_tokens, 0)
        self.data, self.context, self._held_out_batch = data, context, held_out_batch
        self._train: TokenArray = data.tokens("train")
        if train_tokens > len(self._train):
            raise BadInput(f"{train_tokens} tokens to train on are asked for; there are only {len(self._train)}")
        self.train_tokens = train_tokens
        if train_tokens:
            self._train = self._train[:train_tokens]
        held_out = Windows(data.tokens("held_out"), context, HELD_OUT_SEED)
        self.held_out_windows = min(held_out_windows, held_out.count)
        self._held_out = held_out
        self._windows: Windows | None = None
        self._opening = data.manifest.tokenizer.end if opened else None

    @property
    def identity(self) -> str:
        opened = "" if self._opening is None else " opened"
        first = f" first {self.train_tokens}" if self.train_tokens else ""
        return (
            f"text {self.data.manifest.digest} context {self.context} held out {self.held_out_windows}{opened}{first}"
        )

    @property
    def tokens(self) -> int:
        return self.context

    def windows(self, seed: int) -> Windows:
        """Return the windows of a seed.

        Those of the latest seed are kept, as an epoch's order is drawn only once.
        """
        if self._windows is None or self._windows.seed != seed:
            self._windows = Windows(self._train, self.context, seed)
        return self._windows

    def batch(self, seed: int, step: int, size: int, rows: slice = EVERY) -> Batch:
        return _next_token(self.windows(seed).batch(step, size, rows), self._opening)

    def held_out(self) -> Iterator[Batch]:
        windows = self._held_out.in_order(self.held_out_windows)
        for start in range(0, len(windows), self._held_out_batch):
            yield _next_token(windows[start : start + self._held_out_batch], self._opening)

    def losses(self, answer: Tensor, targets: Tensor) -> Tensor:
        return _next_token_losses(answer, targets)


class GivenTokens:
    """The next token, in nats, of sequences that are given: indices (count, T + 1).

    Args:
        sequences: Those that are held out.
        held_out_batch: How many are judged at a time.
        trained: Those to train on, likewise, in another random order every epoch; by default none.
    """

    def __init__(self, sequences: np.ndarray, held_out_batch: int = 8, trained: np.ndarray | None = None) -> None:
        self.tokens, self._sequences, self._held_out_batch = sequences.shape[1] - 1, sequences, held_out_batch
        self._trained = sequences[:0] if trained is None else trained

    @property
    def identity(self) -> str:
        digest = hashlib.sha256()
        for rows in (self._trained, self._sequences):
            digest.update(repr(rows.shape).encode() + np.ascontiguousarray(rows, np.int64).tobytes())
        return f"given tokens {digest.hexdigest()}"

    def batch(self, seed: int, step: int, size: int, rows: slice = EVERY) -> Batch:
        """Return the batch of a step, or these rows of it.  Raises BadInput where there is nothing to train on."""
        count = len(self._trained)
        at_least("sequences to train on", count, 1)
        places = [divmod(number, count) for number in range(step * size, (step + 1) * size)[rows]]
        orders = {epoch: np.random.default_rng((seed, epoch)).permutation(count) for epoch, _ in places}
        return _next_token(self._trained[[orders[epoch][place] for epoch, place in places]])

    def held_out(self) -> Iterator[Batch]:
        for start in range(0, len(self._sequences), self._held_out_batch):
            yield _next_token(self._sequences[start : start + self._held_out_batch])

    def losses(self, answer: Tensor, targets: Tensor) -> Tensor:
        return _next_token_losses(answer, targets)


def _next_token(windows: object, opening: int | None = None) -> Batch:
    tokens = torch.as_tensor(windows)
    inputs = tokens[:, :-1]
    if opening is not None:
        inputs = inputs.clone()
        inputs[:, 0] = opening
    return Batch(inputs, tokens[:, 1:])


def _next_token_losses(answer: Tensor, targets: Tensor) -> Tensor:
    """Return the cross-entropy at every position, in float32."""
    flat = nn.functional.cross_entropy(answer.flatten(0, 1).float(), targets.flatten(), reduction="none")
    return flat.view_as(targets)


class PromptTask:
    """The task of in-context regression through a linear read-in: at every x_{k+1}, y_{k+1} from the k pairs before it.

    The losses are ||y - prediction||^2, summed over the d outputs: (batch, n + 1), after 0, 1, ..., n pairs.  Where the
    last answer alone is scored, in training and on held-out prompts alike, they are (batch, 1), after n pairs: no other
    answer is trained.  The prompts are the same ones, so the last loss of a model is the same number either way.
    """

    def __init__(
        self,
        task: RegressionTask,
        held_out_prompts: int = 4096,
        held_out_batch: int = 512,
        scored: Scored = "all",
    ) -> None:
        at_least("held_out_prompts", held_out_prompts, 1)
        if scored not in get_args(Scored):
            raise BadInput(f"the answers that are scored are all or last, got {scored!r}")
        if held_out_prompts % held_out_batch:
            raise BadInput(f"held_out_prompts must be a multiple of {held_out_batch}, got {held_out_prompts}")
        self.task, self._prompts, self._held_out_batch = task, held_out_prompts, held_out_batch
        self.scored: Scored = scored

    @property
    def identity(self) -> str:
        scored = "" if self.scored == "all" else f" scored {self.scored}"
        return f"{self.task} held out {self._prompts} in {self._held_out_batch}{scored}"

    @property
    def tokens(self) -> int:
        return 2 * self.task.n + 1

    def batch(self, seed: int, step: int, size: int, rows: slice = EVERY) -> Batch:
        return _prompts(self.task.sample(size, Generator(TRAIN_STREAM, seed, step))).rows(rows)

    @property
    def read(self) -> slice:
        """The tokens whose answers are scored."""
        return slice(self.tokens - 1, self.tokens) if self.scored == "last" else slice(0, self.tokens, 2)

    @property
    def slot(self) -> slice:
        """The numbers of such an answer that are scored."""
        return EVERY

    nats = False  # the unit of the loss is that of the answer, squared

    def batches(self, seeds: Sequence[int], step: int, size: int) -> Batch:
        """Return `batch` of every seed, to rounding, stacked along a new first dimension."""
        prompts = self.task.samples(size, [Generator(TRAIN_STREAM, seed, step) for seed in seeds])
        return Batch(prompts.tokens().mT, prompts.y.mT)

    def held_out(self) -> Iterator[Batch]:
        for index in range(self._prompts // self._held_out_batch):
            yield _prompts(self.task.sample(self._held_out_batch, Generator(HELD_OUT_STREAM, HELD_OUT_SEED, index)))

    def losses(self, answer: Tensor, targets: Tensor) -> Tensor:
        if self.scored == "last":
            answer, targets = answer[:, -1:], targets[:, -1:]
        return (answer[:, ::2].float() - targets).square().sum(-1)


def _prompts(prompts: Prompts) -> Batch:
    return Batch(prompts.tokens().mT.contiguous(), prompts.y.mT.contiguous())


class Recall:
    """Associative recall, read in through a linear map: the loss of every query's answer, in nats.

    Of the numbers that a decoder answers with at a query, those of the values are scores of a softmax.
    """

    def __init__(self, task: RecallTask, held_out_prompts: int = 1024, held_out_batch: int = 256) -> None:
        at_least("held_out_prompts", held_out_prompts, 1)
        if held_out_prompts % held_out_batch:
            raise BadInput(f"held_out_prompts must be a multiple of {held_out_batch}, got {held_out_prompts}")
        self.task, self._prompts, self._held_out_batch = task, held_out_prompts, held_out_batch

    @property
    def identity(self) -> str:
        return f"{self.task} held out {self._prompts} in {self._held_out_batch}"

    @property
    def tokens(self) -> int:
        return self.task.tokens

    @property
    def read(self) -> slice:
        """The queries."""
        return slice(self.task.told, self.task.tokens)

    @property
    def slot(self) -> slice:
        """The scores of values in an answer."""
        return slice(self.task.keys, self.task.width)

    nats = True

    def batch(self, seed: int, step: int, size: int, rows: slice = EVERY) -> Batch:
        return _recalled(self.task.sample(size, Generator(TRAIN_STREAM, seed, step))).rows(rows)

    def batches(self, seeds: Sequence[int], step: int, size: int) -> Batch:
        """Return `batch` of every seed, stacked along a new first dimension."""
        return _recalled(self.task.samples(size, [Generator(TRAIN_STREAM, seed, step) for seed in seeds]))

    def held_out(self) -> Iterator[Batch]:
        for index in range(self._prompts // self._held_out_batch):
            yield _recalled(self.task.sample(self._held_out_batch, Generator(HELD_OUT_STREAM, HELD_OUT_SEED, index)))

    def losses(self, answer: Tensor, targets: Tensor) -> Tensor:
        """Return the cross-entropy of every query, in float32: (batch, n)."""
        scores = answer[:, self.read, self.slot].float()
        return scores.logsumexp(-1) - (scores * targets).sum(-1)


def _recalled(sequences: Sequences) -> Batch:
    return Batch(sequences.tokens(), sequences.answers())
