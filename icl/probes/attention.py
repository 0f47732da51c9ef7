"""Measures of a layer's attention: the tokens on which it settles, their values, and the similarity of its heads.

Each function takes one layer's `icl.probes.recording.Attended` and returns a number, or a row, for every sequence:

    observed(model, inputs, attention=importance)       .attention[layer]: (batch, H, T)

Attention weights are computed some queries at a time, and no more of them are held.  Sums are taken in float64.
ResFormer, section 4.1.3 and Eqn. (11) as `theory.resformer.measures` mends it; section 4.1.4 and Eqn. (12).
"""

from __future__ import annotations

import torch
from torch import Tensor

from icl.models.projections import merged
from icl.probes.recording import Attended
from theory.errors import BadInput


def importance(at: Attended) -> Tensor:
    """Return column means of attention by head: a token's attention, on average over queries.  (batch, H, T).

    A token that stands in several lists gets what all of them get.  Of the layer as a whole, as the paper's figures
    show it, it is the mean over heads: `importance(at).mean(1)`.  Raises BadInput for linear attention, whose weights
    are no shares.
    """
    _of_softmax(at, "importance")
    total = at.query.new_zeros((*at.query.shape[:2], at.tokens), dtype=torch.float64)
    for _, weights in at.blocks():
        total += _by_token(weights.sum(dim=2, dtype=torch.float64), at)
    return total / at.tokens


def entropy(importance: Tensor) -> Tensor:
    """Return -sum a' log a' in nats over the last dimension, a' = a / sum a: (..., T) -> (...).

    The entropy of a mean over heads is at least the mean of the heads' entropies, and exceeds it by how differently
    the heads attend.  A layer's is that of the mean, `entropy(importance(at).mean(1))`: Eqn. (11) has one matrix A.
    Raises BadInput for what are no shares.
    """
    total = importance.sum(dim=-1, keepdim=True)
    if not bool((total > 0).all() and (importance >= 0).all()):
        raise BadInput("an entropy needs weights that are not negative and not all zero")
    return torch.special.entr(importance / total).sum(dim=-1)


def value_norms(values: tuple[Tensor, ...]) -> Tensor:
    """Return ||v|| of every token, all heads together: lists of (batch, G, T, width) -> (batch, T).

    For `at.values`, which heads attend over, or `(at.own_values,)`; over several lists, the root of the mean square.
    """
    squares = [x.double().square().sum(dim=(1, 3)) for x in values]
    return torch.stack(squares).mean(0).sqrt()


def value_spectrum(values: tuple[Tensor, ...]) -> Tensor:
    """Return the eigenvalues of (1/l) sum v_i v_i^T, not centred, all heads together, the largest first, in float64.

    Lists of (batch, G, T, width) -> (batch, G * width); `values` as for `value_norms`, l their tokens in all.  They add
    up to the mean of ||v_i||^2.  Section 4.1.4, Eqn. (12).
    """
    v = merged(torch.cat(values, dim=2)).double()  # (batch, l, d)
    return torch.linalg.eigvalsh(v.mT @ v / v.shape[1]).flip(-1).clamp(min=0)


def head_similarity(at: Attended) -> Tensor:
    """Return the cosine of every two heads' attention matrices: (batch, H, H)."""
    batch, heads = at.query.shape[:2]
    gram = at.query.new_zeros((batch, heads, heads), dtype=torch.float64)
    for _, weights in at.blocks():
        flat = weights.flatten(2).double()
        gram += flat @ flat.mT
    lengths = gram.diagonal(dim1=-2, dim2=-1).sqrt()
    if not bool((lengths > 0).all()):
        raise BadInput("a head whose weights are all zero is like no other")
    return gram / (lengths[:, :, None] * lengths[:, None, :])


def attention_to(at: Attended, targets: Tensor) -> Tensor:
    """Return the mean share of attention that queries give to their targets: (batch, H).

    targets: (T, T) or (batch, T, T), true where a token (row) is to look; queries without targets do not count.  Raises
    BadInput if there are none, and for linear attention.
    """
    _of_softmax(at, "a share of attention")
    targets = targets.expand(at.query.shape[0], -1, -1)
    counted = targets.any(dim=-1).sum(dim=-1)  # (batch,)
    if not bool((counted > 0).all()):
        raise BadInput("a share of attention needs queries that have targets")
    total = at.query.new_zeros(at.query.shape[:2], dtype=torch.float64)
    for queries, weights in at.blocks():
        total += (_by_token(weights, at) * targets[:, None, queries]).sum(dim=(2, 3), dtype=torch.float64)
    return total / counted[:, None]


def previous_token(tokens: int) -> Tensor:
    """Return the targets of a previous-token head: every token's predecessor.  (T, T)."""
    return torch.diag(torch.ones(tokens - 1, dtype=torch.bool), -1)


def induction(tokens: Tensor) -> Tensor:
    """Return the targets of an induction head: what followed earlier occurrences of a query's token.

    (batch, T) -> (batch, T, T).  Olsson et al., In-context Learning and Induction Heads.  A token right after its equal
    is itself such a target.
    """
    equal = tokens[:, :, None] == tokens[:, None, :]
    targets = torch.zeros_like(equal)
    targets[:, :, 1:] = equal[:, :, :-1]
    return targets.tril()


def repeated(vocab: int, length: int, batch: int, seed: int) -> Tensor:
    """Return `length` different random tokens, and the same again: (batch, 2 * length), for `induction`.

    Raises BadInput for fewer tokens than that in the vocabulary.
    """
    if not 1 <= length <= vocab:
        raise BadInput(f"{length} different tokens cannot be drawn from a vocabulary of {vocab}")
    generator = torch.Generator().manual_seed(seed)
    once = torch.stack([torch.randperm(vocab, generator=generator)[:length] for _ in range(batch)])
    return torch.cat([once, once], dim=1)


def _of_softmax(at: Attended, what: str) -> None:
    if at.linear:
        raise BadInput(f"{what} needs softmax attention; linear weights are no shares")


def _by_token(weights: Tensor, at: Attended) -> Tensor:
    """Sum over lists for each token: (..., lists * T) -> (..., T)."""
    return weights.unflatten(-1, (len(at.keys), at.tokens)).sum(dim=-2)
