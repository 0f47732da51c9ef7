"""Many assumed-copy toys as one model: all seeds, ranks, sizes and architectures of a sweep in a few tensors.

Toys that see the same prompts (same task and seed) are the *slots* of one *stream*; every stream has the same number of
slots, and smaller sizes are padded with zeros, so that parameters are (streams, slots, ...) tensors.  With D the
largest d, U = (A B) is D x 2D with A's rows above B's, and the padding, the rank and the unused slots are one fixed
mask per parameter.  Masked entries never move: their gradients are zero.

A prompt enters through its second moment S (2D x 2D), computed once and shared by all toys of its stream:
    m_h = K^h A x,      q_h = U^T m_h,
    prediction = sum_h W^h [ (copied + raw) S_xx m_h + copied U S q_h + raw (S q_h)_y ],
which is `theory.toy.population`'s P x_{n+1}.  As in linear attention with a normaliser, S is divided by n, so readouts
have the same scale at every n; `weights(i)` undoes it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from icl.prompts import Generator, RegressionTask
from theory.errors import check_sizes
from theory.plans.heads import Heads

INIT_STREAM = 0  # names of random streams, see `tasks.Generator`
TRAIN_STREAM = 1
EVAL_STREAM = 2


@dataclass(frozen=True)
class Orthogonal:
    """Initial weights near what the theorem's own construction looks like, so that training need not search for it.

    Rows of A and of B are orthogonal with norm `embedding`, K^h is `key` (I ; 0) plus a tenth of that in noise.  Large
    rows shrink the even part of P, which only hurts, and K near (I ; 0) keeps the sign of every direction of A^T K A.
    """

    embedding: float = 8.0
    key: float = 0.3


@dataclass(frozen=True)
class Gaussian:
    """Entries of A, B and K^h of variance `scale`^2 / d: the usual start, which knows nothing of the theorem."""

    scale: float = 1.0


Init = Orthogonal | Gaussian


@dataclass(frozen=True)
class ToySpec:
    """One toy of a sweep.  Whatever `init`, W^h starts at zero, so that every toy starts by predicting zero."""

    task: RegressionTask
    heads: Heads
    rank: int
    seed: int
    init: Init = Orthogonal()


@dataclass(frozen=True, eq=False)
class Batch:
    """Prompts of all streams.  moments: (S, B, 2D, 2D), over n; query and label: (S, B, D); w: (S, B, D, D)."""

    moments: Tensor
    query: Tensor
    label: Tensor
    w: Tensor


class StackedToys(nn.Module):
    """The toys of `specs`, in their order, as one module.

    `u` (S, M, D, 2D), `w` and `k` (H, S, M, D, D) are the parameters; `locate[i]` is the (stream, slot) of specs[i].
    Raises ValueError if the toys do not all have the same number of heads, InvalidSize if a rank exceeds its d.
    """

    u: nn.Parameter
    w: nn.Parameter
    k: nn.Parameter
    mask_u: Tensor
    mask_w: Tensor
    mask_k: Tensor
    copied: Tensor
    raw: Tensor

    def __init__(self, specs: Sequence[ToySpec], dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        if {len(spec.heads) for spec in specs} in (set(), {0}):
            raise ValueError("a stack needs at least one toy, and a toy at least one head")
        if len({len(spec.heads) for spec in specs}) != 1:
            raise ValueError("the toys of one stack need the same number of heads")
        self.specs = tuple(specs)
        slots: dict[tuple[RegressionTask, int], list[int]] = defaultdict(list)
        for i, spec in enumerate(self.specs):
            check_sizes(spec.task.d, spec.task.n, spec.task.sigma, spec.rank)
            slots[spec.task, spec.seed].append(i)
        self.streams = tuple(slots)
        self.locate = {i: (s, m) for s, members in enumerate(slots.values()) for m, i in enumerate(members)}
        self.d_max = max(spec.task.d for spec in self.specs)
        self.shape = shape = len(self.streams), max(map(len, slots.values()))
        heads = len(self.specs[0].heads)
        d = self.d_max
        masks = {
            "u": torch.zeros(*shape, d, 2 * d, dtype=dtype),
            "w": torch.zeros(heads, *shape, d, d, dtype=dtype),
            "k": torch.zeros(heads, *shape, d, d, dtype=dtype),
        }
        start = {name: torch.zeros_like(mask) for name, mask in masks.items()}
        copied, raw = (torch.zeros(heads, *shape, 1, 1, dtype=dtype) for _ in range(2))
        for i, spec in enumerate(self.specs):
            at = self.locate[i]
            size, rank = spec.task.d, spec.rank
            masks["u"][at][:rank, :size] = 1
            masks["u"][at][rank:size, d : d + size] = 1
            masks["w"][:, *at, :size, :size] = 1
            masks["k"][:, *at, :size, :rank] = 1
            u, k = _initial(spec)
            start["u"][at][:size, :size] = u[0].to(dtype)
            start["u"][at][:size, d : d + size] = u[1].to(dtype)
            start["k"][:, *at, :size, :size] = k.to(dtype)
            for h, head in enumerate(spec.heads):
                copied[h, *at], raw[h, *at] = head.copied, head.raw
        for name, mask in masks.items():
            self.register_buffer(f"mask_{name}", mask)
            self.register_parameter(name, nn.Parameter(start[name] * mask))
        self.register_buffer("copied", copied)
        self.register_buffer("raw", raw)

    @property
    def dtype(self) -> torch.dtype:
        return self.copied.dtype

    @property
    def device(self) -> torch.device:
        return self.copied.device

    def batch(self, size: int, purpose: int, step: int) -> Batch:
        """`size` fresh prompts for every stream, padded.

        A stream's prompts depend on its own task and seed, the purpose and the step, not on what else is in the stack.
        """
        drawn = [
            task.sample(size, Generator(purpose, seed, step, device=self.device), self.dtype)
            for task, seed in self.streams
        ]
        d, streams = self.d_max, len(self.streams)
        moments = self.copied.new_zeros(streams, size, 2, d, 2, d)
        query, label = (self.copied.new_zeros(streams, size, d) for _ in range(2))
        w = self.copied.new_zeros(streams, size, d, d)
        for s, (prompt, (task, _)) in enumerate(zip(drawn, self.streams, strict=True)):
            k = task.d
            moments[s, :, :, :k, :, :k] = prompt.second_moment().view(size, 2, k, 2, k) / task.n
            query[s, :, :k], label[s, :, :k], w[s, :, :k, :k] = prompt.query, prompt.label, prompt.w
        return Batch(moments.view(streams, size, 2 * d, 2 * d), query, label, w)

    def forward(self, moments: Tensor, query: Tensor) -> Tensor:
        """Predictions (S, M, B, Q, D) for Q queries a prompt: moments (S, B, 2D, 2D), query (S, B, Q, D)."""
        d = self.d_max
        streams, batch, queries, _ = query.shape
        u = self.u * self.mask_u
        flat = query.reshape(streams, 1, batch * queries, d)
        m = (flat @ u[..., :d].mT) @ (self.k * self.mask_k).mT  # (H, S, M, B Q, D)
        q = m @ u  # (H, S, M, B Q, 2D)
        s_m = _per_prompt(m, moments[..., :d, :d], batch)
        s_q = _per_prompt(q, moments, batch)
        read = (self.copied + self.raw) * s_m + self.copied * (s_q @ u.mT) + self.raw * s_q[..., d:]
        out: Tensor = (read @ (self.w * self.mask_w).mT).sum(0)
        return out.view(*out.shape[:-2], batch, queries, d)

    def losses(self, batch: Batch) -> Tensor:
        """Mean of ||y_{n+1} - prediction||^2 over the batch, for every toy: (S, M).  Unused slots predict zero."""
        predicted = self(batch.moments, batch.query[..., None, :])
        return (predicted - batch.label[:, None, :, None]).square().sum(-1).mean((-1, -2))

    def sampled_losses(self, size: int, purpose: int, step: int) -> Tensor:
        """The losses on `batch(size, purpose, step)`."""
        return self.losses(self.batch(size, purpose, step))

    @torch.no_grad()
    def parameters_of(self, i: int) -> dict[str, Tensor]:
        """A, B, W and K of specs[i] as trained, keyed a, b, w, k (shapes of `models.toy.Toy`): for sums over n."""
        (s, m), spec = self.locate[i], self.specs[i]
        d, size, rank = self.d_max, spec.task.d, spec.rank
        u = self.u[s, m]
        return {
            "a": u[:rank, :size].clone(),
            "b": u[rank:size, d : d + size].clone(),
            "w": self.w[:, s, m, :size, :size].clone(),
            "k": self.k[:, s, m, :size, :rank].clone(),
        }

    def weights(self, i: int) -> dict[str, Tensor]:
        """A, B, W and K of specs[i] for plain sums over the context, as in the theorem."""
        parameters = self.parameters_of(i)
        return {**parameters, "w": parameters["w"] / self.specs[i].task.n}


def _per_prompt(vectors: Tensor, matrices: Tensor, batch: int) -> Tensor:
    """Multiply each prompt's symmetric matrix into all vectors of its stream: (H, S, M, B Q, k) -> the same shape.

    One (H M Q x k) @ (k x k) product a prompt, so that all toys of a stream share the read of the matrix.
    """
    heads, streams, slots, _, size = vectors.shape
    rows = vectors.view(heads, streams, slots, batch, -1, size).permute(1, 3, 0, 2, 4, 5)
    out = rows.reshape(streams, batch, -1, size) @ matrices
    out = out.view(streams, batch, heads, slots, -1, size).permute(2, 0, 3, 1, 4, 5)
    return out.reshape(vectors.shape)


def _initial(spec: ToySpec) -> tuple[Tensor, Tensor]:
    """(2, d, d) for A and B before masking, and (H, d, d) for K, from (seed, name): equal wherever shapes agree."""
    d, heads, init = spec.task.d, len(spec.heads), spec.init
    numbers = Generator(INIT_STREAM, spec.seed, d).normal((2 + heads, d, d), torch.float64)
    if isinstance(init, Gaussian):
        numbers = init.scale / d**0.5 * numbers
        return numbers[:2], numbers[2:]
    eye = torch.eye(d, dtype=torch.float64)
    return init.embedding * torch.linalg.qr(numbers[:2]).Q, init.key * (eye + 0.1 / d**0.5 * numbers[2:])
