"""The end-to-end toy: two layers of linear attention of which the first one sees positions and nothing is assumed.

SkipV1Former, appendix A.1, replaces its first layer by Assumption 1, since Eqn. (2) has no positions and cannot copy.
Here the tokens E = (x_1, y_1, ..., x_n, y_n, x_{n+1}) are read into width m by one matrix for x and y alike, and both
layers are Eqns. (2) and (3), whose first one adds a learned bias R_h to its scores, one number per pair of positions:

    F   = sum_h V_h E' [ E'^T M_h E' / n + R_h ]                    E' = (read-in) E, over the pairs allowed below
    out = sum_h W_h [values_h] P [ F^T K_h F ] / n,  at the last token;   values_h = copied F + raw E'.

M_h and K_h stand for W_K^T W_Q, W_h for the readout times W_V, as in `icl.toys.literal`; sums over scores of contents
are divided by n, as in linear attention with a normaliser.  There are no residuals and no norms, as in the paper.

Who attends to whom.  The paper's P hides the last token from all, itself included.  Then the last token of F is a sum
over the context, E' (E'^T M_h x_{n+1} + r_h), and can not hold A x_{n+1} as Assumption 1 has it, positions or not
(`theory.toy.positions`).  So in layer 1 the last token attends to itself here as well, as in any decoder; `Scores`
"printed" keeps P as it is printed.  Layer 2 has P in any case.

Many such toys are one model, as in `icl.toys.stacked`: a `Stack`, padded to the largest width.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from icl.prompts import INIT_STREAM, Generator, Prompts, RegressionTask
from icl.toys.stack import Stack
from theory.errors import BadInput, InvalidSize, at_least
from theory.plans.heads import Heads

HEADS = 2  # in each layer, as in the paper, of `copying_layer`
Scores = Literal["both", "positions", "printed"]
PARAMETERS = ("read_in", "bias", "match", "value", "key_query", "readout")


@dataclass(frozen=True)
class Random:
    """Independent Gaussian entries: the usual start.  Outputs are of order one for `gain` 1, but cubic twice over.

    Variances are gain^2 over the width for matrices, gain^2 over the number of tokens for biases, 1/d for the read-in.
    """

    gain: float = 0.5


@dataclass(frozen=True)
class Copying:
    """A start at `copying_layer` of `rank` and K_h = I, with `noise` times `Random(1)` added to everything."""

    rank: int
    noise: float = 0.1


Start = Random | Copying


@dataclass(frozen=True)
class EndToEndSpec:
    """One toy of a sweep.  The readout starts at zero, so that every toy starts by predicting zero.

    heads   of the second layer; the first one has as many
    width   m, of tokens after the read-in; at least d
    scores  of layer 1: contents and positions ("both"), "positions" alone, or both with the mask P as "printed"
    """

    task: RegressionTask
    heads: Heads
    width: int
    seed: int
    start: Start = Random()
    scores: Scores = "both"


@dataclass(frozen=True, eq=False)
class TokenBatch:
    """Prompts of all streams.  tokens: (S, B, d, T), T = 2n+1; label and clean, W* x_{n+1}: (S, B, d)."""

    tokens: Tensor
    label: Tensor
    clean: Tensor

    def losses(self, predicted: Tensor) -> Tensor:
        """Return the mean squared error of predictions (S, M, B, d): (S, M)."""
        return (predicted - self.label[:, None]).square().sum(-1).mean(-1)

    def explained(self, predicted: Tensor) -> Tensor:
        """Return the sum over the batch of ||W* x_{n+1}||^2 - ||prediction - W* x_{n+1}||^2: (S, M)."""
        clean = self.clean[:, None]
        return (clean.square() - (predicted - clean).square()).sum(-1).sum(-1)


def token_batch(prompts: Mapping[RegressionTask, Prompts]) -> TokenBatch:
    """Return the batch of the only task."""
    (only,) = prompts.values()
    clean = only.w @ only.query[..., None]
    return TokenBatch(only.tokens().contiguous(), only.label.contiguous(), clean[..., 0])


class EndToEndToys(Stack[EndToEndSpec, TokenBatch]):
    """End-to-end toys.  All have one task's d, n and sigma.

    Parameters, with H heads, S streams, M slots, width m: read_in (S, M, m, d); bias (H, S, M, T, T), from key position
    to query position; match, value and key_query (H, S, M, m, m) for M_h, V_h and K_h; readout (H, S, M, d, m).  Raises
    BadInput for an empty or mixed stack or a start that needs other heads, InvalidSize for a width below d or a rank
    beyond d or m.
    """

    read_in: nn.Parameter
    bias: nn.Parameter
    match: nn.Parameter
    value: nn.Parameter
    key_query: nn.Parameter
    readout: nn.Parameter
    sees_itself: Tensor

    def __init__(self, specs: Sequence[EndToEndSpec], dtype: torch.dtype = torch.float32) -> None:
        _check(specs)
        super().__init__(specs, dtype)
        self.task = specs[0].task
        start = [_initial(spec) for spec in specs]
        for name in PARAMETERS:
            self.add(name, [numbers[name] for numbers in start], [_allowed(spec, name) for spec in specs])
        sees_itself = torch.zeros(*self.shape, 1, dtype=dtype)
        for i, spec in enumerate(specs):
            sees_itself[self.locate[i]] = float(_contents(spec) and spec.scores != "printed")
        self.register_buffer("sees_itself", sees_itself)

    def gathered(self, prompts: Mapping[RegressionTask, Prompts]) -> TokenBatch:
        return token_batch(prompts)

    def first_layer(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Return F of every toy, prompt by prompt, from tokens (S, B, d, T).

        In the terms of raw tokens, with V = V_h read_in and M = read_in^T M_h read_in, which are m x d and d x d: by
        positions, token u reads sum_(i, t) (sum_h V_wi R_tu) E_it, one matrix per stream for all its toys; by contents,
        a token e reads (V S M) e / n, S the context's second moment, of which V S M is linear in S.

        Returns:
            F of the context, (S, B, M, m, T-1), and of the last token, (S, B, M, m).
        """
        streams, batch, d, length = tokens.shape
        slots, bias, read_in = self.shape[1], self.masked("bias"), self.masked("read_in")
        values, match = self.masked("value") @ read_in, read_in.mT @ self.masked("match") @ read_in
        flat, context, last = tokens.flatten(2), tokens[..., :-1], tokens[..., -1:]
        by_position = torch.einsum("hsmwi,hsmtu->sitmwu", values, bias[..., :-1]).reshape(streams, d * length, -1)
        of_last = torch.einsum("hsmwi,hsmt->sitmw", values, bias[..., -1]).reshape(streams, d * length, -1)
        by_content = torch.einsum("hsmwi,hsmjk->sijmwk", values, match).reshape(streams, d * d, -1)
        read = ((context @ context.mT).flatten(2) / self.task.n) @ by_content
        own = ((last @ last.mT).flatten(2) / self.task.n) @ by_content
        read_by_last = read + own * self.sees_itself.expand(-1, -1, values.shape[-2] * d).flatten(1)[:, None]
        per_prompt = (streams, batch, slots, -1)
        return (
            (flat @ by_position).view(*per_prompt, length - 1)
            + (read.view(streams, batch, -1, d) @ context).view(*per_prompt, length - 1),
            (flat @ of_last).view(per_prompt) + (read_by_last.view(streams, batch, -1, d) @ last).view(per_prompt),
        )

    def forward(self, tokens: Tensor) -> Tensor:
        """Return predictions of y_{n+1}: tokens (S, B, d, T) -> (S, M, B, d).

        F [F^T q] = [F F^T] q, as attention is linear: all heads share one m x m matrix per prompt, and raw heads E F^T.
        """
        first, last = self.first_layer(tokens)
        streams, batch, slots, width, _ = first.shape
        query = last.transpose(1, 2) @ self.masked("key_query").mT / self.task.n  # (H, S, M, B, m)
        query = query.permute(1, 3, 2, 0, 4)
        copied = query @ (first @ first.mT)  # (S, B, M, H, m)
        raw = query @ (first.flatten(2, 3) @ tokens[..., :-1].mT).view(streams, batch, slots, width, -1)
        copied, raw = copied.permute(3, 0, 2, 1, 4), raw.permute(3, 0, 2, 1, 4)  # (H, S, M, B, m or d)
        read = self.copied * copied + self.raw * (raw @ self.masked("read_in").mT)
        out: Tensor = (read @ self.masked("readout").mT).sum(0)
        return out

    def losses(self, batch: TokenBatch) -> Tensor:
        return batch.losses(self(batch.tokens))

    def explained(self, batch: TokenBatch) -> Tensor:
        return batch.explained(self(batch.tokens))

    @torch.no_grad()
    def load(self, i: int, weights: Mapping[str, Tensor]) -> None:
        """Give specs[i] other weights, in the layout of `weights(i)`; those that are left out stay.

        Raises InvalidSize for a wrong shape, BadInput where a mask forbids them.
        """
        own = self.weights(i)
        for name, new in weights.items():
            if name not in own or new.shape != own[name].shape:
                raise InvalidSize(f"{name} must be one of {', '.join(f'{k} {tuple(v.shape)}' for k, v in own.items())}")
            place = self.place(name, i)
            if (new * (1 - self.get_buffer(f"mask_{name}")[place])).any():
                raise BadInput(f"{name} has entries where scores of this kind have none")
            self.get_parameter(name)[place] = new.to(self.dtype)


def copying_layer(task: RegressionTask, width: int, rank: int, beta: float = 1.0) -> dict[str, Tensor]:
    """Return a first layer that copies x_t into y_t's token, squeezed to `rank` numbers.

    It holds read_in, bias and value, in float64.  The read-in is (I ; 0).  Head 1's values are the first `rank` numbers
    of a token, head 2's the last b = min(m - rank, d), moved below them.  x tokens attend to themselves with both
    heads, y_t's to x_t with head 1 and to itself, times `beta`, with head 2, the query to itself with head 1.  So y_t's
    token holds (A x_t ; B y_t) with A = (I_rank 0) and B = beta (0 I_b), and the query (A x_{n+1} ; 0); at m = d the x
    tokens stay as they are, which is Assumption 1 of SkipV1Former (appendix A.1) to the letter.
    """
    d, tokens = task.d, 2 * task.n + 1
    if not 0 <= rank <= min(d, width):
        raise InvalidSize(f"rank must be from 0 to the smaller of d = {d} and the width {width}, got {rank}")
    rows = min(width - rank, d)
    eye = torch.eye(width, d, dtype=torch.float64)
    value = torch.zeros(HEADS, width, width, dtype=torch.float64)
    value[0, :rank, :rank] = torch.eye(rank)
    value[1, rank : rank + rows, d - rows : d] = torch.eye(rows)
    x, y = torch.arange(0, tokens - 1, 2), torch.arange(1, tokens, 2)
    bias = torch.zeros(HEADS, tokens, tokens, dtype=torch.float64)
    bias[:, x, x] = 1
    bias[0, x, y] = 1
    bias[1, y, y] = beta
    bias[0, -1, -1] = 1
    return {"read_in": eye, "bias": bias, "value": value}


def _check(specs: Sequence[EndToEndSpec]) -> None:
    if len({spec.task for spec in specs}) != 1:
        raise BadInput("a stack of end-to-end toys needs toys, and one task for all of them")
    for spec in specs:
        if len(spec.heads) != len(specs[0].heads) or any(h.key_raw or h.key_copied != 1 for h in spec.heads):
            raise BadInput("end-to-end toys of a stack have equally many heads, which attend by copied keys")
        if isinstance(spec.start, Copying) and len(spec.heads) != HEADS:
            raise BadInput(f"a start near copying needs {HEADS} heads in each layer")
        at_least("width", spec.width, spec.task.d)


def _shapes(task: RegressionTask, width: int, heads: int) -> dict[str, tuple[int, ...]]:
    """Return the shapes of all parameters of one toy."""
    tokens = 2 * task.n + 1
    square = (heads, width, width)
    return {
        "read_in": (width, task.d),
        "bias": (heads, tokens, tokens),
        "match": square,
        "value": square,
        "key_query": square,
        "readout": (heads, task.d, width),
    }


def _contents(spec: EndToEndSpec) -> bool:
    return spec.scores != "positions"


def _allowed(spec: EndToEndSpec, name: str) -> Tensor:
    """Return the mask of a parameter, which broadcasts to it."""
    if name == "bias":
        return _seen(spec)
    return torch.tensor(float(name != "match" or _contents(spec)))


def _seen(spec: EndToEndSpec) -> Tensor:
    """Return which position attends to which, (T, T) from key to query.

    All attend to the context, and the last one also to itself.
    """
    tokens = 2 * spec.task.n + 1
    seen = torch.ones(tokens, tokens)
    seen[-1] = 0
    seen[-1, -1] = float(spec.scores != "printed")
    return seen


def _initial(spec: EndToEndSpec) -> dict[str, Tensor]:
    """Return the start of every parameter, from (seed, d, width, number of heads).

    It is the same whatever the heads read, for all scores and kinds of start.
    """
    task, start = spec.task, spec.start
    spread = {"read_in": task.d, "bias": 2 * task.n + 1}
    shapes = _shapes(task, spec.width, len(spec.heads))
    numbers = Generator(INIT_STREAM, spec.seed, task.d, spec.width)
    noise = {
        name: numbers.normal(shape, torch.float64) / spread.get(name, spec.width) ** 0.5
        for name, shape in shapes.items()
    }
    noise["readout"] = torch.zeros(shapes["readout"], dtype=torch.float64)
    if isinstance(start, Random):
        return {name: x if name == "read_in" else start.gain * x for name, x in noise.items()}
    near = {name: torch.zeros(shape, dtype=torch.float64) for name, shape in shapes.items()}
    near |= copying_layer(task, spec.width, start.rank)
    near["key_query"] += torch.eye(spec.width)
    return {name: near[name] + start.noise * x for name, x in noise.items()}
