"""A test on held-out prompts whether the first layer of end-to-end toys copies."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from icl.toys.end_to_end import EndToEndToys
from icl.toys.stack import EVAL_BATCH


@dataclass(frozen=True, eq=False)
class Copying:
    """Shares of what the first layer puts into the context's tokens, each (streams, slots), float64.

    x_kept   of the output at x tokens: a fixed linear map of its own x_t (1 under Assumption 1)
    x_in_y   of the output at y tokens: a fixed linear map of its own x_t, the input before it
    y_in_y   the same for its own y_t (x_in_y + y_in_y is 1 under Assumption 1)
    gram     of the variance of G = sum_t F_t F_t^T, all that an ordinary head of layer 2 sees: a fixed linear map of
             the pairs' second moments S (1 under Assumption 1)

    x_t and y_t are uncorrelated, since W* has mean zero, with covariances I and (d + sigma^2) I.  So what is regressed
    on both splits without a rest, and the share of a token's output F_t that is linear in x_t is
    ||E F_t x_t^T||^2 / E ||F_t||^2; numerator and denominator are summed over the tokens of a kind.

    G stays the same if the context's tokens F are mixed by an orthogonal matrix.  So MHA's second layer cannot tell a
    first layer that copies from one that spreads its pairs over all tokens, and only `gram` is independent of that.  A
    skip head can: sum_t e_t F_t^T has the raw tokens where they are.
    """

    x_kept: Tensor
    x_in_y: Tensor
    y_in_y: Tensor
    gram: Tensor


@torch.no_grad()
def copying(toys: EndToEndToys, prompts: int) -> Copying:
    """Return the shares over `prompts` held-out prompts, a multiple of 2 EVAL_BATCH and enough to regress on S.

    The squared norms of the covariances are products of two estimates, from batches in turn, and so without bias.
    """
    if prompts < 1 or prompts % (2 * EVAL_BATCH):
        raise ValueError(f"the number of prompts must be a multiple of {2 * EVAL_BATCH}, got {prompts}")
    d = toys.task.d
    power: list[Tensor] = []
    grams: list[Tensor] = []
    moments: list[Tensor] = []
    covariances: list[list[Tensor]] = [[], []]
    upper = torch.triu_indices(2 * d, 2 * d)
    for index, batch in enumerate(toys.held_out(prompts)):
        tokens = batch.tokens
        first = toys.first_layer(tokens)[0]
        pairs = tokens[..., :-1].unflatten(-1, (toys.task.n, 2))  # (S, B, d, n, x or y)
        by_pair = first.unflatten(-1, (toys.task.n, 2))
        power.append(by_pair.double().square().mean(1).sum((2, 3)))  # (S, M, 2)
        covariance = torch.einsum("sbmwtk,sbdtl->smtklwd", by_pair, pairs).double() / EVAL_BATCH
        covariances[index % 2].append(covariance)
        grams.append((first @ first.mT).double().flatten(-2).transpose(1, 2))
        both = torch.cat([pairs[..., 0], pairs[..., 1]], dim=2)
        moments.append((both @ both.mT).double()[..., upper[0], upper[1]])
    one, other = (torch.stack(half).mean(0) for half in covariances)
    squares = (one * other).sum((-1, -2)).sum(2)  # (S, M, at an x or y token, of x or y)
    squares[..., 1] /= d + toys.task.sigma**2
    shares = squares / torch.stack(power).mean(0)[..., None]
    gram = _linear_share(torch.cat(moments, 1), torch.cat(grams, 2))
    return Copying(shares[..., 0, 0], shares[..., 1, 0], shares[..., 1, 1], gram=gram)


def _linear_share(of: Tensor, what: Tensor) -> Tensor:
    """Return R^2 of a linear regression with intercept: of (S, N, k), what (S, M, N, j) -> (S, M), summed over j."""
    q = torch.linalg.qr(of - of.mean(1, keepdim=True)).Q[:, None]
    centred = what - what.mean(2, keepdim=True)
    return (q.mT @ centred).square().sum((-1, -2)) / centred.square().sum((-1, -2))
