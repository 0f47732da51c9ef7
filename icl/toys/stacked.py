"""Many assumed-copy toys as one model: all seeds, ranks, sizes and architectures of a sweep in a few tensors.

Streams, slots and masks are those of `icl.toys.stack`.  With D the largest d, U = (A B) is D x 2D with A's rows above
B's; the rank is part of the mask.

A prompt enters through its second moment S (2D x 2D), computed once and shared by all toys of its stream:
    m_h = K^h A x,      q_h = U^T m_h,
    prediction = sum_h W^h [ (copied + raw) S_xx m_h + copied U S q_h + raw (S q_h)_y ],
which is `theory.toy.population`'s P x_{n+1}; where keys are a mix, q_h is key_copied U^T m_h + key_raw (0 ; m_h), and
S_xx m_h stands key_copied + key_raw times.  As in linear attention with a normaliser, S is divided by n, so readouts
have the same scale at every n; `weights(i)` undoes it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from icl.prompts import INIT_STREAM, Generator, Prompts, RegressionTask
from icl.toys.stack import BatchT, Stack
from theory.errors import BadInput, check_sizes
from theory.plans.heads import Heads, shares


@dataclass(frozen=True)
class Orthogonal:
    """Initial weights near what the theorem's own construction looks like, so that training need not search for it.

    Rows of A and of B are orthogonal with norm `embedding`, K^h is `key` (I ; 0) plus a tenth of that in noise.  Large
    rows shrink the even part of P, which only hurts, and K near (I ; 0) keeps the sign of every direction of A^T K A.
    """

    embedding: float = 8.0
    key: float = 0.3


@dataclass(frozen=True)
class Opposed(Orthogonal):
    """A start whose last head's K has the other sign: softmax heads need two signs to cancel each other's means."""


@dataclass(frozen=True)
class Gaussian:
    """The usual start, which knows nothing of the theorem.

    Entries of A and B have variance `scale`^2 / d, those of K^h are `keys` times larger.
    """

    scale: float = 1.0
    keys: float = 1.0


Rows = tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class Given:
    """Given weights: a (a, d), b (d-a, d), w and k of every head, (d, d) and (d, a), for sums over n."""

    a: Rows
    b: Rows
    w: tuple[Rows, ...]
    k: tuple[Rows, ...]

    @classmethod
    def of(cls, weights: Mapping[str, Any]) -> Given:
        """Return the start at arrays or tensors a, b, w and k."""
        a, b = (_rows(weights[name]) for name in "ab")
        w, k = (tuple(map(_rows, weights[name])) for name in "wk")
        return cls(a, b, w, k)


def _rows(matrix: Any) -> Rows:
    return tuple(map(tuple, matrix.tolist()))


Init = Orthogonal | Gaussian | Given


@dataclass(frozen=True)
class ToySpec:
    """One toy of a sweep.  Unless given, W^h starts at zero, so that a toy starts by predicting zero."""

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


class AssumedCopyToys(Stack[ToySpec, BatchT]):
    """Assumed-copy toys, whatever their scores.  `u` (S, M, D, 2D), `w` and `k` (H, S, M, D, D) are the parameters.

    Where heads share a readout or a key, the first of a toy's matrices are those that it has, and the rest is masked;
    `of_w` and `of_k` (H, S, M) say which of them each head uses.

    Raises ValueError if the toys do not all have the same number of heads, InvalidSize if a rank exceeds its d, and
    BadInput if given weights do not fit.
    """

    u: nn.Parameter
    w: nn.Parameter
    k: nn.Parameter
    mask_u: Tensor
    mask_w: Tensor
    mask_k: Tensor
    of_w: Tensor
    of_k: Tensor
    key_copied: Tensor
    key_raw: Tensor

    def __init__(self, specs: Sequence[ToySpec], dtype: torch.dtype = torch.float32) -> None:
        if {len(spec.heads) for spec in specs} in (set(), {0}):
            raise ValueError("a stack needs at least one toy, and a toy at least one head")
        if len({len(spec.heads) for spec in specs}) != 1:
            raise ValueError("the toys of one stack need the same number of heads")
        for spec in specs:
            check_sizes(spec.task.d, spec.task.n, spec.task.sigma, rank=spec.rank)
        super().__init__(specs, dtype)
        self.d_max = max(spec.task.d for spec in specs)
        start, allowed = [_initial(spec, self.d_max) for spec in specs], [_allowed(spec, self.d_max) for spec in specs]
        for name in ("u", "w", "k"):
            self.add(name, [numbers[name] for numbers in start], [masks[name] for masks in allowed])
        self._add_heads()

    def _add_heads(self) -> None:
        """Register what keys are made of, and which matrices heads share.

        `plain_keys` and `unshared` are true where there is neither.
        """
        key_copied, key_raw = torch.ones_like(self.copied), torch.zeros_like(self.copied)
        places = {name: torch.zeros(self.copied.shape[:3], dtype=torch.long) for name in ("w", "k")}
        for i, spec in enumerate(self.specs):
            s, m = self.locate[i]
            for h, head in enumerate(spec.heads):
                key_copied[h, s, m], key_raw[h, s, m] = head.key_copied, head.key_raw
            for name, (_, used) in _shared(spec.heads).items():
                places[name][:, s, m] = torch.tensor(used)
        self.plain_keys = bool((key_copied == 1).all() and (key_raw == 0).all())
        self.unshared = all(len(set(used)) == len(used) for s in self.specs for _, used in _shared(s.heads).values())
        for name, buffer in (("key_copied", key_copied), ("key_raw", key_raw)):
            self.register_buffer(name, buffer)
        for name, place in places.items():
            self.register_buffer(f"of_{name}", place)

    def of_heads(self, name: str) -> Tensor:
        """Return w or k of every head, (H, S, M, D, D)."""
        own = self.masked(name)
        if self.unshared:
            return own
        return own.gather(0, self.get_buffer(f"of_{name}")[..., None, None].expand_as(own))

    def parameters_of(self, i: int) -> dict[str, Tensor]:
        """Return A, B, W and K of specs[i] as trained, for sums over n.

        They are a, b, w, k in the shapes of `icl.toys.literal.Toy`, with fewer W and K where heads share them.
        """
        own, d, rank = super().weights(i), self.specs[i].task.d, self.specs[i].rank
        u, (w, k) = own["u"], (own[name][:count] for name, (count, _) in _shared(self.specs[i].heads).items())
        return {
            "a": u[:rank, :d].clone(),
            "b": u[rank:, self.d_max :].clone(),
            "w": w,
            "k": k[..., :rank].clone(),
        }


class StackedToys(AssumedCopyToys[Batch]):
    """Assumed-copy toys with linear attention."""

    def gathered(self, prompts: Mapping[RegressionTask, Prompts]) -> Batch:
        d, streams, size = self.d_max, len(self.streams), next(iter(prompts.values())).x.shape[1]
        moments = self.copied.new_zeros(streams, size, 2, d, 2, d)
        query, label = (self.copied.new_zeros(streams, size, d) for _ in range(2))
        w = self.copied.new_zeros(streams, size, d, d)
        for task, some in prompts.items():
            at, k = self.of_task[task], task.d
            moments[at, :, :, :k, :, :k] = some.second_moment().view(len(at), size, 2, k, 2, k) / task.n
            query[at, :, :k], label[at, :, :k], w[at, :, :k, :k] = some.query, some.label, some.w
        return Batch(moments.view(streams, size, 2 * d, 2 * d), query, label, w=w)

    def forward(self, moments: Tensor, query: Tensor) -> Tensor:
        """Return predictions (S, M, B, Q, D) for Q queries per prompt.

        Shapes: moments (S, B, 2D, 2D), query (S, B, Q, D).
        """
        d = self.d_max
        streams, batch, queries, _ = query.shape
        u = self.masked("u")
        flat = query.reshape(streams, 1, batch * queries, d)
        m = (flat @ u[..., :d].mT) @ self.of_heads("k").mT  # (H, S, M, B Q, D)
        q = m @ u  # (H, S, M, B Q, 2D)
        s_m = _per_prompt(m, moments[..., :d, :d], batch)
        if not self.plain_keys:
            q = self.key_copied * q + self.key_raw * nn.functional.pad(m, (d, 0))
            s_m = (self.key_copied + self.key_raw) * s_m
        s_q = _per_prompt(q, moments, batch)
        read = (self.copied + self.raw) * s_m + self.copied * (s_q @ u.mT) + self.raw * s_q[..., d:]
        out: Tensor = (read @ self.of_heads("w").mT).sum(0)
        return out.view(*out.shape[:-2], batch, queries, d)

    def losses(self, batch: Batch) -> Tensor:
        predicted = self(batch.moments, batch.query[..., None, :])
        return (predicted - batch.label[:, None, :, None]).square().sum(-1).mean((-1, -2))

    def explained(self, batch: Batch) -> Tensor:
        """Return the sum over the batch of ||W*||^2 - ||P - W*||^2.

        As x_{n+1} ~ N(0, I) is independent of the context, E ||P x_{n+1} - W* x_{n+1}||^2 = E ||P - W*||^2: the query
        is integrated exactly, which lowers the variance.
        """
        eye = torch.eye(self.d_max, dtype=self.dtype, device=self.device)
        columns = self(batch.moments, eye.expand(*batch.query.shape[:2], -1, -1))  # column j of P as row j
        target = batch.w.mT[:, None]
        return (target.square() - (columns - target).square()).sum((-1, -2, -3))

    def weights(self, i: int) -> dict[str, Tensor]:
        """Return A, B, W and K of specs[i] for plain sums over the context, as in the theorem."""
        parameters = self.parameters_of(i)
        return {**parameters, "w": parameters["w"] / self.specs[i].task.n}


def _per_prompt(vectors: Tensor, matrices: Tensor, batch: int) -> Tensor:
    """Multiply each prompt's symmetric matrix into all vectors of its stream: (H, S, M, B Q, k) -> the same shape.

    This is one (H M Q x k) @ (k x k) product per prompt, so that all toys of a stream share the read of the matrix.
    """
    heads, streams, slots, _, size = vectors.shape
    rows = vectors.view(heads, streams, slots, batch, -1, size).permute(1, 3, 0, 2, 4, 5)
    out = rows.reshape(streams, batch, -1, size) @ matrices
    out = out.view(streams, batch, heads, slots, -1, size).permute(2, 0, 3, 1, 4, 5)
    return out.reshape(vectors.shape)


def _initial(spec: ToySpec, d_max: int) -> dict[str, Tensor]:
    """Return the start of u (d, d_max + d), w and k (H, d, d), before masking, from (seed, d).

    Starts are equal wherever shapes agree.
    """
    d, heads, init = spec.task.d, len(spec.heads), spec.init
    if isinstance(init, Given):
        return _given(init, spec, d_max)
    numbers = Generator(INIT_STREAM, spec.seed, d).normal((2 + heads, d, d), torch.float64)
    if isinstance(init, Gaussian):
        numbers = init.scale / d**0.5 * numbers
        (a, b), k = numbers[:2], init.keys * numbers[2:]
    else:
        eye = torch.eye(d, dtype=torch.float64)
        (a, b), k = init.embedding * torch.linalg.qr(numbers[:2]).Q, init.key * (eye + 0.1 / d**0.5 * numbers[2:])
        k[-1] *= -1 if isinstance(init, Opposed) else 1
    return {"u": _side_by_side(a, b, d_max), "w": torch.zeros_like(k), "k": k}


def _given(init: Given, spec: ToySpec, d_max: int) -> dict[str, Tensor]:
    d, rank, heads = spec.task.d, spec.rank, len(spec.heads)
    (a, b), w, k = (torch.zeros(count, d, d, dtype=torch.float64) for count in (2, heads, heads))
    try:
        for place, rows in ((a[:rank], init.a), (b[rank:], init.b), (w, init.w), (k[..., :rank], init.k)):
            place.copy_(torch.tensor(rows, dtype=torch.float64).view(place.shape))
    except (RuntimeError, ValueError, TypeError):
        raise BadInput(f"weights of {heads} heads at rank {rank} of d = {d} do not have the shapes given") from None
    return {"u": _side_by_side(a, b, d_max), "w": w, "k": k}


def _allowed(spec: ToySpec, d_max: int) -> dict[str, Tensor]:
    """Return masks of the entries that a toy has.

    They are the first `rank` rows of A, the other rows of B, the first `rank` columns of K.
    """
    d = spec.task.d
    spent = (torch.arange(d) < spec.rank).double()
    of_a = spent[:, None].expand(d, d)
    there = {
        name: (torch.arange(len(spec.heads)) < count).double()[:, None, None]
        for name, (count, _) in _shared(spec.heads).items()
    }
    return {"u": _side_by_side(of_a, 1 - of_a, d_max), "w": there["w"].expand(-1, d, d), "k": there["k"] * spent}


def _shared(heads: Heads) -> dict[str, tuple[int, list[int]]]:
    """Return how many W and K there are, and which of them each head uses."""
    return {"w": shares(heads, "readout"), "k": shares(heads, "key")}


def _side_by_side(a: Tensor, b: Tensor, d_max: int) -> Tensor:
    """Return U = (A B) of one toy: (d, d_max + d), with B's columns where the largest toy's are."""
    return torch.cat([nn.functional.pad(a, (0, d_max - a.shape[-1])), b], dim=1)
