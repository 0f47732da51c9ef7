"""Small Transformers on squeezed pairs: several layers of softmax attention and feed-forward, with a residual stream.

What can be made of the tokens of `theory.skipv1.compressed` by a model of the usual kind.  Token t is read from x_t and
B y_t together, or, if its spec has a skip head, from x_t and y_t; the last one from A x_{n+1}.  Then, l = 1 .. layers,

    H <- H + O_l concat_h softmax(Q_l H, K_l H) V_l H,      H <- H + D_l relu(U_l H),

every token attending to all n + 1, scores over the root of a head's width, no norms; and the last token is read out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from icl.prompts import INIT_STREAM, Generator, Prompts, RegressionTask
from icl.toys.end_to_end import TokenBatch, token_batch
from icl.toys.stack import Stack
from theory.errors import BadInput, check_sizes
from theory.plans.heads import Heads

WIDTH, ATTENTION_HEADS, LAYERS = 16, 2, 2
GAIN = 1.0  # of all matrices but the squeeze; the readout starts at zero


@dataclass(frozen=True)
class TransformerSpec:
    """A small Transformer of a stack.

    heads: one, ordinary or skip, which says whether tokens hold B y_t or y_t.  rank: of A.
    """

    task: RegressionTask
    heads: Heads
    rank: int
    seed: int


class TransformerToys(Stack[TransformerSpec, TokenBatch]):
    """Small Transformers of one task's d, n and sigma.

    Raises BadInput for a mixed stack, InvalidSize for a rank beyond d.

    Parameters, with S streams, M slots, L layers, width m: squeeze (S, M, d, 2d), A's rows above B's; read_in
    (S, M, m, 3d), of x, y and the query; query, key, value, output (L, S, M, m, m); up (L, S, M, 2m, m) and down;
    readout (S, M, d, m).
    """

    def __init__(self, specs: Sequence[TransformerSpec], dtype: torch.dtype = torch.float32) -> None:
        if len({spec.task for spec in specs}) != 1:
            raise BadInput("a stack of Transformers needs toys, and one task for all of them")
        for spec in specs:
            check_sizes(spec.task.d, spec.task.n, spec.task.sigma, rank=spec.rank)
        super().__init__(specs, dtype)
        start = [_initial(spec) for spec in specs]
        for name in start[0]:
            masks = [_allowed(spec) if name == "squeeze" else torch.ones(()) for spec in specs]
            self.add(name, [numbers[name] for numbers in start], masks)

    def gathered(self, prompts: Mapping[RegressionTask, Prompts]) -> TokenBatch:
        return token_batch(prompts)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return predictions of y_{n+1}: tokens (S, B, d, T) -> (S, M, B, d)."""
        rows = tokens.mT[:, None]  # (S, 1, B, T, d)
        x, y, query = rows[..., :-1:2, :], rows[..., 1::2, :], rows[..., -1:, :]
        a, b = (half[:, :, None].mT for half in self.masked("squeeze").chunk(2, dim=-1))
        copied, raw = self.copied[0][:, :, None], self.raw[0][:, :, None]
        of_x, of_y, of_query = (part[:, :, None].mT for part in self.masked("read_in").chunk(3, dim=-1))
        pairs = x @ of_x + (copied * (y @ b) + raw * y) @ of_y
        stream = torch.cat([pairs, (query @ a) @ of_query], dim=-2)  # (S, M, B, n + 1, m)
        layers = [self.masked(name).unbind() for name in ("query", "key", "value", "output", "up", "down")]
        for layer in zip(*layers, strict=True):
            by_query, by_key, by_value, output, up, down = (matrix[:, :, None].mT for matrix in layer)
            queries, keys, values = (_split(stream @ matrix) for matrix in (by_query, by_key, by_value))
            attended = nn.functional.scaled_dot_product_attention(queries, keys, values)
            stream = stream + attended.transpose(-2, -3).flatten(-2) @ output
            stream = stream + (stream @ up).relu() @ down
        out: Tensor = stream[..., -1, :] @ self.masked("readout").mT
        return out

    def losses(self, batch: TokenBatch) -> Tensor:
        return batch.losses(self(batch.tokens))

    def explained(self, batch: TokenBatch) -> Tensor:
        return batch.explained(self(batch.tokens))


def _split(rows: Tensor) -> Tensor:
    """Split heads: (..., T, m) -> (..., heads, T, m / heads)."""
    return rows.unflatten(-1, (ATTENTION_HEADS, -1)).transpose(-2, -3)


def _initial(spec: TransformerSpec) -> dict[str, Tensor]:
    """Return the start of every parameter, from (seed, d): the same for both kinds of tokens."""
    d, m = spec.task.d, WIDTH
    square = (LAYERS, m, m)
    shapes = {"squeeze": (d, 2 * d), "read_in": (m, 3 * d), "query": square, "key": square, "value": square}
    shapes |= {"output": square, "up": (LAYERS, 2 * m, m), "down": (LAYERS, m, 2 * m)}
    numbers = Generator(INIT_STREAM, spec.seed, d, m)
    start = {name: numbers.normal(shape, torch.float64) for name, shape in shapes.items()}
    start["squeeze"] /= d**0.5
    for name in list(shapes)[1:]:
        start[name] *= GAIN / shapes[name][-1] ** 0.5
    return {**start, "readout": torch.zeros(d, m, dtype=torch.float64)}


def _allowed(spec: TransformerSpec) -> Tensor:
    """Return the mask (d, 2d): A has the first `rank` rows, B the others."""
    of_a = (torch.arange(spec.task.d) < spec.rank).double()[:, None].expand(-1, spec.task.d)
    return torch.cat([of_a, 1 - of_a], dim=1)
